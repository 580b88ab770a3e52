"""What the golden test compares, and where Triton itself does not give the same twice."""

import collections
import json
import pathlib
import subprocess

from elf import Elf
from places import TOOLCHAIN

Case = collections.namedtuple("Case", "name kernel target")

ASSEMBLY = {"cuda": "ptx", "hip": "amdgcn"}
BINARY = {"cuda": "cubin", "hip": "hsaco"}

# Sections of a cubin that describe where its instructions come from in source files. The GPU never sees them.
DEBUG_SECTIONS = {
    ".debug_line": "ptxas writes the modification time and the size of each source file that it finds by its name",
    ".rela.debug_line": "points into .debug_line, which is shorter where a source file is not found",
    ".nv_debug_ptx_txt": "the text of the PTX, held against .debug_line",
}

_BLACKWELL = (
    "ptxas-blackwell 12.9.86 allocates registers and barriers of tcgen05 code in an order that depends on addresses: the same "
    "PTX gives two different cubins, each about every other time; with address randomisation off, always the same one"
)
# Cases whose PTX is always the same but whose cubin is not. Each of the results is Triton's own.
UNSTEADY_CUBINS = {
    ("attention_forward", "cuda:100"): _BLACKWELL,
    ("matmul_128x128x64", "cuda:100"): _BLACKWELL,
    ("matmul_128x128x64_two_ctas", "cuda:100"): _BLACKWELL,
    ("matmul_128x256x64", "cuda:100"): _BLACKWELL,
}

_CLUSTER_LAYOUTS = (
    "with two CTAs a pass of Triton numbers the layouts of the module in an order that depends on addresses; the difference is "
    "gone in the PTX"
)
# Cases whose TTGIR is not always the same, though everything after it is.
UNSTEADY_TTGIR = {
    ("matmul_128x128x64_two_ctas", "cuda:90"): _CLUSTER_LAYOUTS,
    ("matmul_128x128x64_two_ctas", "cuda:100"): _CLUSTER_LAYOUTS,
}


class Golden:
    """The files that the daemon made and those that Triton made, of two kinds of sources:

    located: the TTIR as Triton prints it, against Triton's compile of the Python function.
    stripped: the TTIR without locations, against Triton's compile of that same text.
    """

    def __init__(self, folder, answers):
        self.folder = pathlib.Path(folder)
        self.answers = answers  # what kiln said, by kind and backend

    def ours(self, kind, case, stage):
        return (self.folder / kind / "kiln" / f"{case.name}.{stage}").read_bytes()

    def reference(self, kind, case, stage):
        return (self.folder / kind / "reference" / f"{case.name}.{stage}").read_bytes()

    def our_metadata(self, kind, case):
        """As the contract names the fields."""
        return json.loads(self.ours(kind, case, "json"))["metadata"]

    def our_toolchain_metadata(self, kind, case):
        return self.our_metadata(kind, case)["toolchain_metadata"]

    def reference_metadata(self, kind, case):
        return json.loads(self.reference(kind, case, "json"))

    def source(self, kind, case):
        return (self.folder / kind / f"{case.name}.ttir").read_text()

    def requests(self, kind, name):
        return [json.loads(line) for line in (self.folder / kind / f"{name}.jsonl").read_text().splitlines()]


def backend(case):
    return case.target.split(":")[0]


def loaded(binary):
    """Everything of a binary that a GPU can come to see: its header's facts and its sections without the debug ones."""
    elf = Elf(binary)
    sections = [section for section in elf.sections if section.name not in DEBUG_SECTIONS]
    return (elf.type, elf.machine, elf.flags, elf.os_abi, elf.abi_version, elf.entry), sections


def differing_sections(ours, reference):
    """Names of the sections that are not the same in both."""
    our_header, our_sections = loaded(ours)
    header, sections = loaded(reference)
    differing = [] if our_header == header else ["the ELF header"]
    if [section.name for section in our_sections] != [section.name for section in sections]:
        return differing + ["the list of sections"]
    return differing + [one.name for one, other in zip(our_sections, sections) if one != other]


def assemble(ptx, architecture, folder):
    """A cubin that Triton's own assembler makes of this PTX, with the arguments that Triton gives it."""
    tool = "ptxas-blackwell" if architecture >= 100 else "ptxas"
    [path] = TOOLCHAIN.glob(f"lib/python3*/site-packages/triton/backends/nvidia/bin/{tool}")
    (folder / "kernel.ptx").write_bytes(ptx)
    name = f"sm_{architecture}{'a' if architecture >= 90 else ''}"
    subprocess.run(
        [path, "-lineinfo", "-v", f"--gpu-name={name}", "kernel.ptx", "-o", "kernel.cubin"],
        cwd=folder, check=True, capture_output=True,
    )
    return (folder / "kernel.cubin").read_bytes()


def addresses_are_randomised():
    return pathlib.Path("/proc/sys/kernel/randomize_va_space").read_text().strip() != "0" and not (
        # personality(2): ADDR_NO_RANDOMIZE, as set by setarch -R
        int(pathlib.Path("/proc/self/personality").read_text(), 16) & 0x0040000
    )
