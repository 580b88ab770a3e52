"""What belongs to one process: locks and connections that a forked child must neither use nor tidy up."""

import os
import weakref
from typing import Any, List

_members: "weakref.WeakSet[Any]" = weakref.WeakSet()
# Kept for good: to close a connection, the child would have to talk to threads that only its parent has.
_abandoned: List[Any] = []


def reset_in_children(member: Any) -> None:
    """From now on `member.reset_after_fork()` is called in each forked child, as long as `member` lives."""
    _members.add(member)


def abandon(thing: Any) -> None:
    """Lets go of it without ending it."""
    if thing is not None:
        _abandoned.append(thing)


def _after_fork() -> None:
    for member in list(_members):
        member.reset_after_fork()


os.register_at_fork(after_in_child=_after_fork)
