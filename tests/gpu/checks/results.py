"""Compares what two runs of a job have left behind."""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "golden"))

from elf import Elf  # noqa: E402

SUFFIXES = (".cubin", ".ptx", ".llir", ".ttgir", ".ttir", ".source")


@dataclasses.dataclass
class Caches:
    """Two of Triton's, compared by the names of their files."""

    common: int
    equal: int  # to the byte
    cubins: int
    same: int  # cubins with the same code
    only: list  # names that one of them has
    different: list  # cubins with other code


def compare_caches(first, second):
    files = [{str(path.relative_to(folder)): path for path in folder.rglob("*")
              if path.is_file() and "tmp" not in path.name and path.suffix in SUFFIXES} for folder in (first, second)]
    common = sorted(files[0].keys() & files[1].keys())
    equal = [name for name in common if files[0][name].read_bytes() == files[1][name].read_bytes()]
    cubins = [name for name in common if name.endswith(".cubin")]
    different = [name for name in cubins if _code(files[0][name]) != _code(files[1][name])]
    return Caches(len(common), len(equal), len(cubins), len(cubins) - len(different), sorted(files[0].keys() ^ files[1].keys()), different)


def _code(cubin):
    """The sections that decide what runs: not the line table, which has the time of the source file in it."""
    return {section.name: section.content for section in Elf(cubin.read_bytes()).sections if "debug" not in section.name}


def compare_losses(got, expected):
    """In words, and whether they are the same: to the bit, or as near as the order of atomic additions and the configurations that
    Inductor finds fastest in each run let them be."""
    largest = max(abs(a - b) / abs(b) for a, b in zip(got["losses"], expected["losses"], strict=True))
    words = "to the bit" if largest == 0 else f"largest relative difference {largest:.1e}"
    return f"{len(got['losses'])} steps, {words}, last {got['losses'][-1]:.4f}", largest < 1e-3
