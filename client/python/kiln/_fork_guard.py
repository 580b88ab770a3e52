"""Keeps forks and gRPC calls apart.

While a call is under way, gRPC's threads take and leave locks of its own. A child that is forked in such a moment has the locks
without the threads, and waits for them for ever; with older versions the parent itself may end by a signal. So a fork waits until
no call of Kiln's is in gRPC: new ones are held back, those under way are cancelled, and whoever made them makes them again when the
fork is over.

An import is a section too, where it is not at the top of a file: a child that is forked while another thread is at it has the locks of the
modules that are half imported, and nobody to give them back.

Nobody waits for ever. A fork waits for gRPC's own thread, which ends a cancelled call without anybody's help and takes no lock but
gRPC's, for the thread that cancels, and for sections, of which an import waits for the locks of modules and for the disk. None of them
needs a lock of Python code that the forking thread may hold, nor that thread itself, which may be in a call: a signal's handler can fork
anywhere. Whatever should go wrong with that, or take long, costs seconds, and then the process forks as it would without a gate. A child
of a fork that did not wait for a section to its end uses no gRPC at all: it cannot know what that holds.

A signal's handler may also raise anywhere, or use Kiln itself while its thread stands still in here. So there is no lock: whoever goes
in says so before it looks for forks, and whoever forks says so before it looks for those inside. So one of the two sees the other, waits,
and looks again. Whoever is inside, or forks, is written off before anything else is done.
"""

import functools
import logging  # noqa: F401
import os
import threading
import time
from importlib import import_module
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple, TypeVar

from kiln._grpc_thread import End, cancels, errands, waited
from kiln._signals import suppressed
from kiln.errors import UnavailableError

_T = TypeVar("_T")
# An import from a slow disk, or beside much else, takes seconds.
_FORK_WAITS_FOR_SECTIONS_SECONDS_MAX = 5.0
_FORK_WAITS_FOR_CALLS_SECONDS_MAX = 1.0
_SECTION_WAITS_SECONDS_MAX = 10.0
_PAUSE_S = 0.001

# What a call was answered with, or why it was not.
Outcome = Tuple[Any, Optional[BaseException]]


class PendingCall:
    """A call, the thread that wants it, and what has become of it. Whoever waits for it touches nothing of gRPC's: its locks are taken in
    Python code as well (_grpc_thread). Made before the call is, to be cancelled at any time."""

    def __init__(self, then: Optional[Callable[[], None]] = None) -> None:
        """`then` is run when it has ended, on another thread."""
        self.thread = threading.get_ident()
        self.end = End()
        self.answer: Any = None
        self.error: Optional[BaseException] = None
        self.call: Any = None  # while it is under way
        self.is_cancelled = False
        self.was_interrupted = False
        self._then = then

    def end_with(self, outcome: Outcome) -> None:
        self.answer, self.error = outcome
        self.end.come()
        if self._then is not None:
            self._then()

    @property
    def is_void(self) -> bool:
        """It has ended, but by a fork: it is to be made again."""
        return self.was_interrupted and not self.is_cancelled and self.error is not None

    def cancel(self) -> None:
        """Nobody is going to wait for it any more."""
        gate.cancel([self])


class Gate:
    """One for each process. Thread-safe."""

    def __init__(self) -> None:
        self._inside: Set[int] = set()
        self._entering: Set[int] = set()  # those that look whether they may go in
        self._is_cut = False
        self._registered = 0
        self.reset_after_fork()

    def register(self) -> None:
        """From now on forks wait. Of what is to be done before a fork, the last registered is done first. So once before gRPC is imported,
        but after logging, which takes a lock then that the import needs; and again afterwards, for handlers of gRPC's own, where they are
        turned on, to find it idle."""
        self._registered += 1
        mine = self._registered
        os.register_at_fork(before=lambda: self.before_fork(mine == self._registered), after_in_parent=self.after_fork_in_parent,
                            after_in_child=self.reset_after_fork)

    def reset_after_fork(self) -> None:
        self._forking: List[int] = []  # the threads; one twice, where it has registered twice
        self._is_cut = self._is_cut or not self._inside <= {threading.get_ident()}
        self._inside = set()
        self._entering = set()
        self._pending_calls: Dict[PendingCall, None] = {}

    def start(self, pending_call: PendingCall, start: Callable[[], Any], read: Callable[[Any], Optional[Outcome]]) -> None:
        """Starts a call, after a fork that is under way. `read` is given it when it has ended, on a thread of gRPC's, and says what came of
        it; None: it is read elsewhere."""

        def begin() -> None:
            call = start()

            def leave() -> None:
                outcome = read(call)
                pending_call.call = None
                self._pending_calls.pop(pending_call, None)
                if outcome is not None:
                    pending_call.end_with(outcome)

            pending_call.call = call
            self._pending_calls[pending_call] = None
            if not call.add_callback(leave):
                leave()
            elif pending_call.is_cancelled:  # meanwhile
                call.cancel()

        self.errand(begin)

    def cancel(self, pending_calls: Iterable[PendingCall]) -> None:
        """Nobody is going to wait for these."""
        for pending_call in pending_calls:
            pending_call.is_cancelled = True
        self._post_cancels(pending_calls)

    def cancel_calls_of(self, threads: Set[int]) -> None:
        """Nobody is going to wait for what these threads have under way."""
        self.cancel([pending_call for pending_call in list(self._pending_calls) if pending_call.thread in threads])

    def errand(self, work: Callable[[], _T]) -> _T:
        """As section(), but not on the main thread: what uses gRPC."""
        # A fork that waits for this thread, or for which it stands still, would be waited for in vain.
        me = threading.get_ident()
        waits = me not in self._inside and me not in self._forking
        return errands.run(lambda: self.section(work, waits))

    def section(self, work: Callable[[], _T], waits: bool = True) -> _T:
        """Does what uses gRPC for a moment, or imports something: no fork begins before it is over. UnavailableError in a child of a
        fork that has begun all the same."""
        if self._is_cut:
            raise UnavailableError("this process was forked while another thread was in the middle of using gRPC")
        me = threading.get_ident()
        if me in self._inside:
            return work()
        try:
            if not waits or not waited(lambda: self._enter(me), _SECTION_WAITS_SECONDS_MAX):
                self._inside.add(me)
            return work()
        finally:
            self._inside.discard(me)
            self._entering.discard(me)

    def imported(self, name: str) -> Any:
        """That module, for an import that is not at the top of a file: so a process may fork meanwhile."""
        return self.section(lambda: import_module(name))

    def before_fork(self, begins: bool = True) -> None:
        """`begins`: this is the first that is done for a fork, of as many as have been registered."""
        me = threading.get_ident()
        has_waited = not begins and me in self._forking  # where a signal's handler forks in here, that is another fork
        self._forking.append(me)
        if has_waited:
            return
        waited(lambda: _looked(lambda: self._is_empty_but_for(me)), _FORK_WAITS_FOR_SECTIONS_SECONDS_MAX)
        waited(lambda: _looked(lambda: self._is_idle(me)), _FORK_WAITS_FOR_CALLS_SECONDS_MAX)
        for pending_call in list(self._pending_calls):  # one that has not ended by now never will: no other fork waits for it
            self._pending_calls.pop(pending_call, None)

    def after_fork_in_parent(self) -> None:
        me = threading.get_ident()
        if me in self._forking:  # not where what this fork waited for has registered it again
            self._forking.remove(me)

    def _enter(self, me: int) -> bool:
        # Who only looks is not inside: a child that is forked meanwhile need not do without gRPC.
        self._entering.add(me)
        if set(self._forking) <= {me}:
            self._inside.add(me)
        self._entering.discard(me)
        # Once more: what a signal's handler did here meanwhile may have ended the entering.
        if me in self._inside and set(self._forking) <= {me}:
            return True
        self._inside.discard(me)
        time.sleep(_PAUSE_S)
        return False

    def _is_empty_but_for(self, me: int) -> bool:
        return self._entering <= {me} and self._inside <= {me}

    def _is_idle(self, me: int) -> bool:
        """Whether no call is under way, nor being cancelled. What is left is interrupted, with what a handler has begun meanwhile on the
        thread that forks."""
        pending_calls = list(self._pending_calls)
        interrupted = [pending_call for pending_call in pending_calls if not pending_call.was_interrupted]
        for pending_call in interrupted:
            pending_call.was_interrupted = True
        self._post_cancels(interrupted)
        return not pending_calls and self._is_empty_but_for(me)

    def _post_cancels(self, pending_calls: Iterable[PendingCall]) -> None:
        left = [pending_call for pending_call in pending_calls if pending_call.call is not None]
        if not left:
            return
        try:
            for pending_call in left:
                cancels.post(functools.partial(self._cancel, pending_call))
        except RuntimeError:  # no thread can be started, for want of processes or since the interpreter ends
            for pending_call in left:
                with suppressed(Exception):  # the others are to be cancelled all the same
                    self._cancel(pending_call)

    def _cancel(self, pending_call: PendingCall) -> None:
        me = threading.get_ident()
        was_inside = me in self._inside
        try:
            call = pending_call.call
            if call is not None:
                self._inside.add(me)  # at once: a fork waits for it
                call.cancel()
        finally:
            if not was_inside:
                self._inside.discard(me)


def _looked(until: Callable[[], bool]) -> bool:
    if until():
        return True
    time.sleep(_PAUSE_S)
    return False


gate = Gate()
gate.register()
