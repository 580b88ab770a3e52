"""Conversions to and from fp8 for one architecture after the other, through a daemon.

Triton 3.6.0 decides once per process how it converts: at the first such compile, for that architecture. So these kernels show
whether what was compiled before, or what a zygote compiled to warm up, decides what a compile gives.
"""

from places import KERNELS
from processes import CheckedProcess

TARGETS = {
    "cuda": ("cuda:80", "cuda:86", "cuda:89", "cuda:90", "cuda:100", "cuda:120", "cuda:121"),
    "hip": ("hip:gfx90a", "hip:gfx942", "hip:gfx950", "hip:gfx1100", "hip:gfx1200"),
}
ASSEMBLY = {"cuda": "ptx", "hip": "amdgcn"}


def there_and_back(targets):
    """Each target after both of its neighbours, and one after itself."""
    return [*targets, *reversed(targets)]


def each_after_each(targets):
    """Each target after every other one: a closed walk over all ordered pairs."""
    left = {target: [other for other in targets if other != target] for target in targets}
    path, walk = [targets[0]], []
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            walk.append(path.pop())
    return walk


def make_references(python, targets, folder):
    """A source for each target, and the assembly that Triton makes of it in a process that has compiled nothing else."""
    CheckedProcess([python, "-B", KERNELS / "fp8_conversions.py", "--targets", ",".join(targets), "--out", folder]).finish()


def check(daemon, toolchain, references, walk, folder):
    """Compiles for the targets of `walk` in this order, and compares with `references`."""
    for step, target in enumerate(walk):
        where = f"{target}, compiled after {walk[:step]}"
        suffix, name = ASSEMBLY[target.partition(":")[0]], target.replace(":", "-")
        answer = daemon.kiln("compile", references / f"{name}.ttir", "--target", target, "--toolchain", toolchain, "--cache",
                             "refresh", "--emit", suffix, "-o", folder / str(step), "--json")
        assert answer.code == 0, f"{where}: {answer}"
        [made] = (folder / str(step)).glob(f"*.{suffix}")
        assert made.read_text() == (references / f"{name}.asm").read_text(), where
