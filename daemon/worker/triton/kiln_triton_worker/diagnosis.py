"""What an exception out of a stage amounts to, and what to do about it."""

import errno
import os
import re
import traceback

from kiln_triton_worker.failure import Failure
from kiln_triton_worker.ptxas_report import OUT_OF_RESOURCES, ptxas_failure
from kiln_triton_worker.source_text import SOURCE_STEM

# Disk space, processes and descriptors: the machine's trouble, and not the source's. Memory may be either's.
MACHINE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
# Triton turns a crash inside a pass into an exception.
CRASH = "A signal was caught while processing the MLIR module"
DIAGNOSTIC = re.compile(r'^(?:loc\()?"?([^"\n]*?)"?:(\d+):(\d+)\)?: error: (.*)$', re.MULTILINE)
PTX_VERSION = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)
# LLVM gave up on what the source asks of it, and would have ended the process if a pass had not caught that.
LLVM_ERROR = re.compile(r"^LLVM ERROR: .*$", re.MULTILINE)
BARE_DIAGNOSTIC = re.compile(r"^(?:<unknown>:0: )?error: (.*)$", re.MULTILINE)
UNOPENED = re.compile(rf"could not open input file ['\"]?{re.escape(SOURCE_STEM)}")
ASSERTION = re.compile(r"Assertion `.*' failed")


def classify(error, stage, output):
    """The Failure that an exception out of `stage` amounts to."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, FileNotFoundError) and stage == "cubin" and str(error.filename).startswith(os.getcwd()):
        # Some `ptx_options` make ptxas print something and end well.
        return Failure("invalid_argument", stage, "ptxas ended well and left no binary: an option has it do something else")
    if isinstance(error, (MemoryError, OSError)):
        code = "unavailable" if getattr(error, "errno", None) in MACHINE_ERRORS else "internal"
        return Failure(code, stage, f"the worker could not go on: {error!r}", deterministic=False)
    if type(error).__name__ == "PTXASError" or "`ptxas`" in str(error):
        return ptxas_failure(str(error), stage)
    words = output.text()
    if UNOPENED.search(words):  # which the worker has just written
        return Failure("internal", stage, "the worker could not open the source", output=words, deterministic=False)
    # Whether the parser or a pass refused it: the compiler went on, this source does not compile, and trying again cannot help.
    code = "resource_exhausted" if OUT_OF_RESOURCES.search(words) else "invalid_argument"
    given_up = LLVM_ERROR.search(words)
    if given_up:
        return Failure("invalid_argument", stage, given_up.group(), output=words)
    for found in DIAGNOSTIC.finditer(words):
        file, line, column, message = found.groups()
        if message.startswith("Failures have been detected"):
            continue  # says only that another line says more
        if os.path.basename(file).startswith(SOURCE_STEM):
            return Failure(code, stage, message, int(line), int(column), words)
        return Failure(code, stage, f"{os.path.basename(file)}:{line}:{column}: {message}", output=words)
    asserted = ASSERTION.search(words)
    if asserted:
        return Failure(code, stage, asserted.group(), output=words)
    bare = BARE_DIAGNOSTIC.search(words)
    message = bare.group(1) if bare else f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Failure(code, stage, message, output=words or "".join(traceback.format_exception(error)))


def parse_advice(text, version):
    """What to do about a source that does not parse. Versions differ in more than names, so any complaint may come of it."""
    other = "cuda" if "__global__" in text else "ptx" if PTX_VERSION.search(text) else ""
    if other:
        return (f"; this looks like {other.upper()} and was sent as Triton IR: say that its kind is {other} (--kind {other}, in Python "
                f"kind='{other}')")
    if "tt.func" not in text:
        return "; there is no tt.func in the source: send the module as it is after Triton's ttir stage"
    return other_version_advice(version)


def pass_advice(message, target, version):
    """What to do about a source that a pass refuses."""
    if "failed to legalize" not in message:
        return ""
    return f"; {target.backend}:{target.arch} may not have that operation{other_version_advice(version)}"


def other_version_advice(version):
    return (f"; was it printed by another version of Triton? This is {version}: name the toolchain that printed it, such as "
            f"triton=={version} for this one; kiln doctor lists those here")


def is_tainted(words):
    """Whether the compiler crashed on the way, going by what it printed. Nothing that its process says afterwards can be trusted."""
    return CRASH in words or LLVM_ERROR.search(words) is not None
