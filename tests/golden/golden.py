"""What the golden test compares, and where Triton itself does not give the same twice."""

import collections
import itertools
import json
import pathlib

from elf import Elf

Case = collections.namedtuple("Case", "name kernel target")

ASSEMBLY = {"cuda": "ptx", "hip": "amdgcn"}
BINARY = {"cuda": "cubin", "hip": "hsaco"}

# Sections of a cubin that describe where its instructions come from in source files. The GPU never sees them.
DEBUG_SECTIONS = {
    ".debug_line": "ptxas writes time and size of each source file that it finds by its name; that of a worker finds none",
    ".rela.debug_line": "points into .debug_line, which is shorter without them",
    ".rel.debug_line": "the same, in cubins of sm_80 and sm_86",
    ".nv_debug_ptx_txt": "the text of the PTX, held against .debug_line",
    ".nv.merc.debug_line": "the same table again, for code from sm_100 on",
    ".nv.merc.rela.debug_line": "points into .nv.merc.debug_line",
}

_BLACKWELL_ASSEMBLER = (
    "ptxas-blackwell 12.9.86 allocates registers and barriers of tensor-core code in an order that depends on addresses: one PTX "
    "gives two cubins, each about every other time; with address randomisation off, always the same one"
)
_CLUSTER_LAYOUTS = (
    "with two CTAs, a pass of Triton names the layouts of the module in an order that depends on addresses; the LLVM IR is the "
    "same again"
)
# What Triton itself does not make the same from process to process: for a case, the stages that vary, and why. Whatever it makes
# is right; but a comparison with a single result would fail by chance.
UNSTEADY = {
    ("attention_forward", "cuda:100"): {"cubin": _BLACKWELL_ASSEMBLER},
    ("descriptor_matmul", "cuda:100"): {"cubin": _BLACKWELL_ASSEMBLER},
    ("matmul_128x128x64", "cuda:100"): {"cubin": _BLACKWELL_ASSEMBLER},
    ("matmul_128x256x64", "cuda:100"): {"cubin": _BLACKWELL_ASSEMBLER},
    ("matmul_128x128x64_two_ctas", "cuda:90"): {"ttgir": _CLUSTER_LAYOUTS},
    ("matmul_128x128x64_two_ctas", "cuda:100"): {"ttgir": _CLUSTER_LAYOUTS, "cubin": _BLACKWELL_ASSEMBLER},
    ("warp_specialized_matmul", "cuda:100"): {"cubin": _BLACKWELL_ASSEMBLER},
}

# All results of an unsteady case turn up within a few compiles; one that comes up every tenth time is missed in this many once
# in a thousand runs.
COMPILES_MAX = 64
# To import Triton takes as long as to assemble three of them.
ASSEMBLED_AT_ONCE = 4


class Golden:
    """The files that the daemon made of one kind of source, and those that Triton made."""

    def __init__(self, folder, answers, triton):
        self.folder = pathlib.Path(folder)
        self.answers = answers  # what kiln said, by backend
        self._triton = triton
        self._results = {}

    def ours(self, case, stage):
        return (self.folder / "kiln" / f"{case.name}.{stage}").read_bytes()

    def reference(self, case, stage):
        return (self.folder / "reference" / f"{case.name}.{stage}").read_bytes()

    def results(self, case, stage):
        """What Triton makes of a case, one fresh process after the other; the reference is the first. Of a cubin, ptxas is that process."""
        folders = self._results.setdefault((case, stage), [self.folder / "reference"])
        for number in range(COMPILES_MAX):
            if number == len(folders):
                again = self.folder / "again" / case.name / f"{stage}-{number}"
                if stage == "cubin":
                    self._triton.assemble_again(case, self.folder / "reference", again, ASSEMBLED_AT_ONCE)
                    folders += [again / str(one) for one in range(ASSEMBLED_AT_ONCE)]
                else:
                    self._triton.compile_again(case, again)
                    folders.append(again)
            yield (folders[number] / f"{case.name}.{stage}").read_bytes()

    def our_metadata(self, case):
        """As the contract names the fields."""
        return json.loads(self.ours(case, "json"))["metadata"]

    def our_toolchain_metadata(self, case):
        return self.our_metadata(case)["toolchain_metadata"]

    def reference_metadata(self, case):
        return json.loads(self.reference(case, "json"))

    def source(self, case):
        return (self.folder / f"{case.name}.ttir").read_text()

    def requests(self, backend):
        return [json.loads(line) for line in (self.folder / f"{backend}.jsonl").read_text().splitlines()]


def backend(case):
    return case.target.split(":")[0]


def loaded(binary):
    """Everything of a binary that a GPU can come to see: its header's facts and its sections without the debug ones."""
    elf = Elf(binary)
    sections = [section for section in elf.sections if section.name not in DEBUG_SECTIONS]
    return (elf.type, elf.machine, elf.flags, elf.os_abi, elf.abi_version, elf.entry), sections


def sections_that_differ(ours, reference):
    our_header, our_sections = loaded(ours)
    header, sections = loaded(reference)
    differing = [] if our_header == header else ["the ELF header"]
    if [section.name for section in our_sections] != [section.name for section in sections]:
        return differing + ["the list of sections"]
    return differing + [one.name for one, other in zip(our_sections, sections) if one != other]


def lines_that_differ(ours, reference):
    """The first pair of lines that differ; for a binary the first bytes."""
    if ours == reference:
        return []
    pairs = itertools.zip_longest(ours.splitlines(), reference.splitlines())
    number, (one, other) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return [f"line {number}: {one!r:.200} but Triton gives {other!r:.200}"]


def addresses_are_randomised():
    return pathlib.Path("/proc/sys/kernel/randomize_va_space").read_text().strip() != "0" and not (
        # personality(2): ADDR_NO_RANDOMIZE, as set by setarch -R
        int(pathlib.Path("/proc/self/personality").read_text(), 16) & 0x0040000
    )
