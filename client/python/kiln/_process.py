"""Resets objects in forked children: a child must neither use nor close its parent's locks and connections."""

import os
import weakref
from typing import Any, List

_members: "weakref.WeakSet[Any]" = weakref.WeakSet()
# Never freed: closing a connection would need threads that only the parent has.
_abandoned: List[Any] = []


def reset_in_children(member: Any) -> None:
    """Calls `member.reset_after_fork()` in each forked child from now on, as long as `member` lives."""
    _members.add(member)


def abandon(thing: Any) -> None:
    """Drops an object without running its destructor."""
    if thing is not None:
        _abandoned.append(thing)


def _after_fork() -> None:
    for member in list(_members):
        member.reset_after_fork()


os.register_at_fork(after_in_child=_after_fork)
