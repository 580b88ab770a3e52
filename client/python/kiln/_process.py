"""What a fork must not break: a child uses none of its parent's connections, and finds no half-imported module."""

import os
import threading
import weakref
from importlib import import_module
from typing import Any

from kiln.errors import UnavailableError

# An import from a slow disk, or beside much else, takes seconds.
_FORK_WAITS_FOR_IMPORTS_SECONDS_MAX = 5.0
_members: "weakref.WeakSet[Any]" = weakref.WeakSet()
_importing = threading.RLock()
_does_fork_wait = True
_is_cut = False


def reset_in_children(member: Any) -> None:
    """Calls `member.reset_after_fork()` in each forked child from now on, as long as `member` lives."""
    _members.add(member)


def imported(name: str) -> Any:
    """That module, for an import that is not at the top of a file: a fork on another thread waits for its end, as the child would have
    the locks of half-imported modules without the thread that gives them back. UnavailableError in a child whose fork did not wait."""
    if _is_cut:
        raise UnavailableError("this process was forked while another thread was in the middle of an import")
    with _importing:
        return import_module(name)


def _before_fork() -> None:
    global _does_fork_wait
    _does_fork_wait = _importing.acquire(timeout=_FORK_WAITS_FOR_IMPORTS_SECONDS_MAX)


def _after_fork_in_parent() -> None:
    if _does_fork_wait:
        _importing.release()


def _after_fork_in_child() -> None:
    global _importing, _is_cut
    _importing = threading.RLock()
    _is_cut = _is_cut or not _does_fork_wait
    for member in list(_members):
        member.reset_after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
