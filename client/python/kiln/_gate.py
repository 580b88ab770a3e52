"""Keeps forks and gRPC calls apart.

While a call is under way, gRPC's threads take and leave locks of its own. A child that is forked in such a moment has the locks
without the threads, and waits for them for ever; with older versions the parent itself may end by a signal. So a fork waits until
no call of Kiln's is in gRPC: new ones are held back, those under way are cancelled, and whoever made them makes them again when the
fork is over.

An import is a section too, where it is not at the top of a file: a child that is forked while another thread is at it has the locks of the
modules that are half imported, and nobody to give them back.

Nobody waits for ever. A fork waits for gRPC's own thread, which ends a cancelled call without anybody's help and takes no lock but
gRPC's and the gate's, and for sections, of which an import waits for the locks of modules and for the disk. Neither needs a lock of
Python code that the forking thread may hold, nor that thread itself, which may be in a call: a signal's handler can fork anywhere. Whatever
should go wrong with that, or take long, costs seconds, and then the process forks as it would without a gate. A child of a fork that did
not wait for a section to its end uses no gRPC at all: it cannot know what that holds.

A signal's handler may also raise anywhere. So the lock is taken by `with` itself: the way into a Condition is Python code, in which an
exception comes after the lock is taken and before anything would give it back. And whoever is inside, or forks, is written off before
anything else is done.
"""

import logging  # noqa: F401
import os
import threading
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional, Set, TypeVar

from kiln._errands import errands
from kiln.errors import UnavailableError

_T = TypeVar("_T")
# An import from a slow disk, or beside much else, takes seconds.
_FORK_WAITS_FOR_SECTIONS_SECONDS_MAX = 5.0
_FORK_WAITS_FOR_CALLS_SECONDS_MAX = 1.0
_SECTION_WAITS_SECONDS_MAX = 10.0


class Passage:
    """A call, the thread that made it, and what became of it. was_interrupted: a fork ended it, so it is to be made again."""

    def __init__(self, call: Any, thread: int) -> None:
        self.call = call
        self.thread = thread
        self.was_interrupted = False
        self._under_way = threading.Lock()
        self._under_way.acquire()

    def wait(self, seconds_max: float) -> bool:
        """Whether it has ended by then. gRPC's own wait is not one to be interrupted in (_errands)."""
        if not self._under_way.acquire(timeout=seconds_max):
            return False
        self._under_way.release()
        return True

    def end(self) -> None:
        self._under_way.release()

    def cancel(self) -> None:
        """Nobody is going to wait for it any more."""
        if self._under_way.locked():
            errands.post(self.call.cancel)

    def interrupt(self) -> None:
        self.was_interrupted = True
        self.call.cancel()


class Gate:
    """One for each process. Thread-safe."""

    def __init__(self) -> None:
        self._inside: Set[int] = set()
        self._is_cut = False
        self.reset_after_fork()

    def register(self) -> None:
        """From now on forks wait. Of what is to be done before a fork, the last registered is done first. So once before gRPC is imported,
        but after logging, which takes a lock then that the import needs; and again afterwards, for handlers of gRPC's own, where they are
        turned on, to find it idle."""
        os.register_at_fork(before=self.before_fork, after_in_parent=self.after_fork_in_parent, after_in_child=self.reset_after_fork)

    def reset_after_fork(self) -> None:
        # Reentrant by default, for the handler of a signal that forks while its thread is in here.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # to wait and to notify
        self._forking: List[int] = []  # the threads; one twice, where it has registered twice
        self._is_cut = self._is_cut or not self._inside <= {threading.get_ident()}
        self._inside = set()
        self._passages: Dict[Passage, None] = {}

    def start(self, start: Callable[[], Any], then: Optional[Callable[[], None]] = None) -> Passage:
        """Starts a call, after a fork that is under way. `then` is run when it has ended, on a thread of gRPC's."""
        me = threading.get_ident()

        def begin() -> Passage:
            passage = Passage(start(), me)

            def leave() -> None:
                self._leave(passage)
                passage.end()
                if then is not None:
                    then()

            with self._lock:
                self._passages[passage] = None
            if not passage.call.add_callback(leave):
                leave()
            return passage

        return errands.run(lambda: self.section(begin), Passage.cancel)

    def cancel_calls_of(self, threads: Set[int]) -> None:
        """Nobody is going to wait for what these threads have under way."""
        with self._lock:
            passages = [passage for passage in self._passages if passage.thread in threads]
        for passage in passages:
            passage.cancel()

    def section(self, work: Callable[[], _T]) -> _T:
        """Does what uses gRPC for a moment, or imports something: no fork begins before it is over. UnavailableError in a child of a
        fork that has begun all the same."""
        if self._is_cut:
            raise UnavailableError("this process was forked while another thread was in the middle of using gRPC")
        me = threading.get_ident()
        if me in self._inside:
            return work()
        try:
            with self._lock:
                self._changed.wait_for(lambda: not self._forking, _SECTION_WAITS_SECONDS_MAX)
                self._inside.add(me)
            return work()
        finally:
            self._inside.discard(me)
            with self._lock:
                self._changed.notify_all()

    def imported(self, name: str) -> Any:
        """That module, for an import that is not at the top of a file: so a process may fork meanwhile."""
        return self.section(lambda: import_module(name))

    def before_fork(self) -> None:
        me = threading.get_ident()
        with self._lock:
            self._forking.append(me)
            if self._forking.count(me) > 1:  # it has waited
                return
            self._changed.wait_for(lambda: self._inside <= {me}, _FORK_WAITS_FOR_SECTIONS_SECONDS_MAX)
            passages = list(self._passages)
        for passage in passages:
            passage.interrupt()
        with self._lock:
            self._changed.wait_for(lambda: not self._passages, _FORK_WAITS_FOR_CALLS_SECONDS_MAX)
            for passage in passages:  # one that has not ended by now never will: no other fork waits for it
                self._passages.pop(passage, None)

    def after_fork_in_parent(self) -> None:
        me = threading.get_ident()
        if me in self._forking:  # not where what this fork waited for has registered it again
            self._forking.remove(me)
        with self._lock:
            self._changed.notify_all()

    def _leave(self, passage: Passage) -> None:
        with self._lock:
            self._passages.pop(passage, None)
            self._changed.notify_all()


gate = Gate()
gate.register()
