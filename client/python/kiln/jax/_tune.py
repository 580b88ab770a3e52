"""Tuning ahead of a program."""

from typing import Any, Callable, List

from kiln.jax._tuning import Tuning, session
from kiln.jax._use_for import clear_programs


def tune(function: Callable[..., Any], *args: Any, **keywords: Any) -> "List[Tuning]":
    """Calls the function with concrete arrays, without jit, and measures the configurations of every autotuned kernel that it comes to.
    One Tuning for each kernel and problem. Programs that are built after it have the fastest ones; those of other processes and
    later ones too, where a daemon keeps the times.

    Kernels are measured on copies of their arrays: nothing of the caller's changes. The function's own results are dropped; what it writes
    to a jax.Ref stays there.
    """
    import jax
    before, session.tunings = session.tunings, {}
    clear_programs()
    try:
        with jax.disable_jit():
            jax.block_until_ready(function(*args, **keywords))
        return list(session.tunings.values())
    finally:
        session.tunings = before
