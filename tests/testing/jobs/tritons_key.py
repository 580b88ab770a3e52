"""Triton's key for itself: a hash over all its files, which takes as long as compiling a kernel."""

import functools
import os
import sys


def remember(path):
    """Keeps the key in a file for later processes. No toolchain changes while the tests run."""

    def remembered(compute):
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_text(compute())
            partial.rename(path)
        return path.read_text()

    _replace(remembered)


def leave_out():
    """Hashes nothing, for a process whose cache is empty at first and its own."""
    _replace(lambda _: "Triton")


def _replace(make):
    from triton.runtime import cache
    compute = getattr(cache, "triton_key", None)
    if compute is None:
        return

    @functools.lru_cache(maxsize=None)
    @functools.wraps(compute)  # for the plug-in it is Triton's own
    def triton_key():
        return make(compute)

    for module in list(sys.modules.values()):
        if getattr(module, "triton_key", None) is compute:
            module.triton_key = triton_key
