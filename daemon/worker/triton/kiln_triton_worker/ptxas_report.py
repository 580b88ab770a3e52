"""What ptxas prints: what a kernel uses, and what it complains of."""

import re

from kiln_triton_worker.failure import Failure

# It calls itself by the name of its file.
PTXAS_ITSELF = r"(?:\S*/)?ptxas[\w.-]*"
OUT_OF_RESOURCES = re.compile(
    r"uses too much|[Rr]egister allocation failed|[Ii]nsufficient registers|[Tt]oo many registers|too many resources|"
    r"exceeds? (?:the )?limit|local memory .*exceeds|out of resource")
# The machine gave out and nothing was decided: of memory, which the source may have taken, or of files, which it has no part in.
OUT_OF_MEMORY = re.compile(r"[Mm]emory allocation|[Oo]ut of memory")
OUT_OF_FILES = re.compile(r"[Cc]ould not (?:open|be opened|write)|[Cc]annot open|No space left")


def ptxas_usage(log, name):
    """(registers, bytes of spill stores) of the entry function, out of `ptxas -v`; None where it does not say."""
    _, found, log = log.partition(f"Compiling entry function '{name}'")
    if not found:
        return None, None
    registers = re.search(r"Used (\d+) registers", log)
    spills = re.search(rf"Function properties for {re.escape(name)}\s+.*?(\d+) bytes spill stores", log)
    return registers and int(registers.group(1)), spills and int(spills.group(1))


def ptxas_failure(text, stage):
    """ptxas refused. It reads PTX that the compiler made, so its complaints are about resources, inline assembly or options;
    a ptxas that was killed or crashed has not decided anything."""
    text = text.partition("Repro command:")[0]
    _, _, log = text.partition("stderr:\n")
    # The temporary file's name is different every time, and nobody's business.
    log = re.sub(r"\S*/\w+\.ptx\b", "kernel.ptx", log)
    # "ptxas fatal" comes last and often only says that a line before it says more.
    said = (re.search(rf"(?:^{PTXAS_ITSELF} error|, line \d+; (?:error|fatal))\s*: (.*)$", log, re.MULTILINE)
            or re.search(rf"^{PTXAS_ITSELF} fatal\s*: (.*)$", log, re.MULTILINE))
    if said:
        code = code_of_complaint(said.group(1))
        return Failure(code, stage, f"ptxas: {said.group(1)}", output=log, deterministic=code in ("invalid_argument", "resource_exhausted"))
    return Failure("internal", stage, text.strip().partition("\n")[0] or "ptxas failed", output=log, deterministic=False)


def code_of_complaint(text):
    """CodeOfComplaint in daemon/worker/native/ptxas_report.cc is the same; tests/vectors/ptxas_complaints.json holds the two together."""
    if OUT_OF_RESOURCES.search(text):
        return "resource_exhausted"
    if OUT_OF_MEMORY.search(text):
        return "internal"
    return "unavailable" if OUT_OF_FILES.search(text) else "invalid_argument"
