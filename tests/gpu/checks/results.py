"""Compares what two runs of a job have left behind."""

import dataclasses
import pathlib
import sys
from collections import Counter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "golden"))

from elf import Elf  # noqa: E402

SUFFIXES = (".cubin", ".ptx", ".llir", ".ttgir", ".ttir", ".source")
# Between two runs of stock Triton, by the line table.
MAY_DIFFER = (".cubin",)


@dataclasses.dataclass
class Caches:
    """Two of Triton's, compared by their files, wherever these lie: from 3.7 on, Triton calls its folders otherwise where there is a hook."""

    common: int
    equal: int  # to the byte
    unequal: list  # names of files that are not, and should be
    cubins: int
    same: int  # cubins with the same code
    only: list  # names of which one of them has more
    different: list  # names of cubins with other code


def compare_caches(first, second):
    files = [_files(first), _files(second)]
    names = sorted(files[0].keys() | files[1].keys())
    pairs = {name: (files[0].get(name, []), files[1].get(name, [])) for name in names}
    cubins = {name: pair for name, pair in pairs.items() if name.endswith(".cubin")}
    same = {name: _in_both(map(_code, one), map(_code, other)) for name, (one, other) in cubins.items()}
    return Caches(
        common=sum(min(map(len, pair)) for pair in pairs.values()), equal=sum(_in_both(*pair) for pair in pairs.values()),
        unequal=[name for name, (one, other) in pairs.items() if not name.endswith(MAY_DIFFER) and Counter(one) != Counter(other)],
        cubins=sum(min(map(len, pair)) for pair in cubins.values()), same=sum(same.values()),
        only=[name for name, (one, other) in pairs.items() if len(one) != len(other)],
        different=[name for name, pair in cubins.items() if same[name] != min(map(len, pair))])


def _files(folder):
    """What they contain, by name: a kernel that was compiled in several ways has several."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and "tmp" not in path.name and path.suffix in SUFFIXES:
            content = path.read_bytes()
            # With several CTAs, stock Triton itself names layouts now so and now so.
            if path.suffix != ".ttgir" or b'"ttg.num-ctas" = 1 ' in content:
                found.setdefault(path.name, []).append(content)
    return found


def _in_both(one, other):
    return (Counter(one) & Counter(other)).total()


def _code(cubin):
    """All sections but the line table, which has the time of the source file in it."""
    return tuple((section.name, section.content) for section in Elf(cubin).sections if "debug_line" not in section.name)


def compare_losses(got, expected):
    """In words, and whether they are the same: to the bit, or as near as the order of atomic additions and the configurations that
    Inductor finds fastest in each run let them be."""
    largest = max(abs(a - b) / abs(b) for a, b in zip(got["losses"], expected["losses"], strict=True))
    words = "to the bit" if largest == 0 else f"largest relative difference {largest:.1e}"
    return f"{len(got['losses'])} steps, {words}, last {got['losses'][-1]:.4f}", largest < 1e-3
