"""kiln._fork_guard, which forks wait at, and what a signal's handler may do in the middle of it."""

import itertools
import os
import signal
import sys
import threading

import pytest

from kiln import _grpc_thread, _fork_guard
from kiln._fork_guard import PendingCall
from kiln.errors import UnavailableError

# Where what a gate does runs Python code, between whose instructions a handler may come.
_FILES = (_fork_guard.__file__, _grpc_thread.__file__, threading.__file__, "contextlib.py")
SECONDS_MAX = 20


class Interrupt(BaseException):
    pass


class Call:
    """One that has ended already, or one that ends when it is cancelled, or never. was_inside: whether its cancel was in a section."""

    def __init__(self, gate, has_ended=False, is_stuck=False):
        self.cancelled, self.was_inside = threading.Event(), None
        self._fork_guard, self._has_ended, self._is_stuck = gate, has_ended, is_stuck
        self._end = None

    def add_callback(self, callback):
        self._end = callback
        return not self._has_ended

    def cancel(self):
        if self._is_stuck or self.cancelled.is_set():
            return
        self.was_inside = threading.get_ident() in self._fork_guard._inside
        self._end()
        self.cancelled.set()


def disturbed_at(number, work, disturb):
    """Whether `disturb`, which a handler does at the number-th place where Python looks for signals, has been: at the beginning of a
    function, and behind a call of one that is not written in Python."""
    left, was_disturbed = itertools.count(number, -1), []

    def look(frame, event, argument):
        if event in ("call", "c_return") and frame.f_code.co_filename.endswith(_FILES) and next(left) == 1:
            sys.setprofile(None)
            was_disturbed.append(True)
            disturb()

    sys.setprofile(look)
    try:
        work()
    except Interrupt:
        pass
    finally:
        sys.setprofile(None)
    return bool(was_disturbed)


def interrupt():
    raise Interrupt


def of_another_thread(work):
    done = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(SECONDS_MAX)
    return done == [None]


def section(gate):
    gate.section(lambda: None)


def start(gate):
    pending_call = PendingCall()
    gate.start(pending_call, lambda: Call(gate, has_ended=True), lambda call: (call, None))
    assert pending_call.end.wait(SECONDS_MAX)


def cancel(gate):
    gate.cancel_calls_of({threading.get_ident()})


def fork(gate):
    gate.before_fork()
    gate.after_fork_in_parent()


def until_done(errands):
    """Everything that it has been given before."""
    end = _grpc_thread.End()
    errands.post(end.come)
    assert end.wait(SECONDS_MAX)


@pytest.mark.parametrize("work", [section, start, cancel])
def test_an_exception_anywhere_leaves_nobody_behind(work):
    for number in itertools.count(1):
        gate = _fork_guard.Gate()
        was_interrupted = disturbed_at(number, lambda: work(gate), interrupt)
        until_done(_grpc_thread.errands)
        assert gate._inside == set() and of_another_thread(lambda: fork(gate)), number
        if not was_interrupted:
            break
    assert number > 2


def test_an_exception_after_a_fork_leaves_it_over():
    """Not one before it knows whose fork it is: of what is done after a fork this is not the first, which is where such a signal's
    handler comes."""
    for number in itertools.count(3):
        gate = _fork_guard.Gate()
        gate.before_fork()
        was_interrupted = disturbed_at(number, gate.after_fork_in_parent, interrupt)
        if not was_interrupted:
            break
        assert gate._forking == [] and of_another_thread(lambda: section(gate)), number


def test_a_call_that_is_given_up_anywhere_is_cancelled():
    for number in itertools.count(1):
        gate, calls, pending_call = _fork_guard.Gate(), [], PendingCall()

        def begin():
            calls.append(Call(gate))
            return calls[-1]

        def give_up():
            try:
                gate.start(pending_call, begin, lambda call: (call, None))
            except Interrupt:
                gate.cancel([pending_call])
                raise

        was_interrupted = disturbed_at(number, give_up, interrupt)
        until_done(_grpc_thread.errands)
        until_done(_grpc_thread.cancels)
        if not was_interrupted:
            break
        assert all(call.cancelled.is_set() for call in calls) and not gate._pending_calls, number
    assert number > 2 and gate._pending_calls


@pytest.mark.parametrize("work", [section, start, cancel, fork])
@pytest.mark.parametrize("use", [section, start, fork])
def test_a_handler_uses_it_anywhere(monkeypatch, work, use):
    """While its thread stands still in there, and with it whatever that thread has."""
    monkeypatch.setattr(_fork_guard, "_FORK_WAITS_FOR_SECTIONS_SECONDS_MAX", 10 * SECONDS_MAX)
    monkeypatch.setattr(_fork_guard, "_SECTION_WAITS_SECONDS_MAX", 10 * SECONDS_MAX)
    for number in itertools.count(1):
        gate = _fork_guard.Gate()
        was_disturbed = disturbed_at(number, lambda: work(gate), lambda: use(gate))
        assert gate._inside == set() and gate._forking == [], number
        if not was_disturbed:
            break
    assert number > 2


def test_a_handler_calls_while_a_fork_waits_for_its_thread(monkeypatch):
    monkeypatch.setattr(_fork_guard, "_FORK_WAITS_FOR_SECTIONS_SECONDS_MAX", SECONDS_MAX)
    monkeypatch.setattr(_fork_guard, "_SECTION_WAITS_SECONDS_MAX", 10 * SECONDS_MAX)
    gate = _fork_guard.Gate()
    forking = threading.Thread(target=lambda: fork(gate))

    def call():
        forking.start()
        while not gate._forking:
            pass
        start(gate)
        assert gate._forking

    gate.section(call)
    forking.join()


def test_a_handler_forks_while_its_thread_waits_for_another(monkeypatch):
    """The child has not got that other one."""
    monkeypatch.setattr(_grpc_thread, "_SECONDS_MAX", 10 * SECONDS_MAX)
    children, may_end = [], threading.Event()

    def work():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        may_end.wait(SECONDS_MAX)

    def handle(number, frame):
        children.append(os.fork())
        if children == [0]:
            signal.alarm(SECONDS_MAX)
        else:
            may_end.set()

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        _grpc_thread.errands.run(work)
    except UnavailableError:
        os._exit(7)  # the child
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7


@pytest.mark.parametrize("does_fork", [True, False])
def test_a_fork_waits_for_whoever_cancels(monkeypatch, does_fork):
    """Also where the call has ended by that, but gRPC is still at it."""
    monkeypatch.setattr(_fork_guard, "_FORK_WAITS_FOR_CALLS_SECONDS_MAX", SECONDS_MAX)
    gate, pending_call, may_end = _fork_guard.Gate(), PendingCall(), threading.Event()
    call = Call(gate)
    end_it = call.cancel
    call.cancel = lambda: end_it() or may_end.wait(SECONDS_MAX)
    gate.start(pending_call, lambda: call, lambda call: (None, Interrupt()))
    if not does_fork:
        gate.cancel([pending_call])
    forking = threading.Thread(target=gate.before_fork)
    forking.start()
    assert call.cancelled.wait(SECONDS_MAX) and call.was_inside and pending_call.is_void == does_fork
    forking.join(0.2)
    assert forking.is_alive()
    may_end.set()
    forking.join()
    gate._forking.clear()


def test_only_one_fork_waits_for_a_call_that_never_ends(monkeypatch):
    gate, seen = _fork_guard.Gate(), []
    monkeypatch.setattr(_fork_guard, "_FORK_WAITS_FOR_CALLS_SECONDS_MAX", 0.01)
    gate.start(PendingCall(), lambda: Call(gate, is_stuck=True), lambda call: (None, None))
    is_idle = gate._is_idle
    monkeypatch.setattr(gate, "_is_idle", lambda me: seen.append(is_idle(me)) or seen[-1])
    for _ in range(2):
        seen.append("a fork")
        fork(gate)
    first, second = seen.index("a fork"), len(seen) - 1 - seen[::-1].index("a fork")
    assert not any(seen[first + 1:second]) and seen[second + 1:] == [True]


def test_a_fork_by_a_handler_waits_as_the_one_in_whose_wait_it_comes(monkeypatch):
    monkeypatch.setattr(_fork_guard, "_FORK_WAITS_FOR_SECTIONS_SECONDS_MAX", SECONDS_MAX)
    gate, is_inside, may_end, left = _fork_guard.Gate(), threading.Event(), threading.Event(), []
    other = threading.Thread(target=lambda: gate.section(lambda: is_inside.set() or may_end.wait(SECONDS_MAX)))

    def handle(number, frame):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        threading.Timer(0.05, may_end.set).start()
        gate.before_fork()
        gate.before_fork(False)  # as it is registered twice
        left.append(set(gate._inside))
        for _ in range(2):
            gate.after_fork_in_parent()

    look = gate._is_empty_but_for
    monkeypatch.setattr(gate, "_is_empty_but_for", lambda me: signal.raise_signal(signal.SIGUSR1) or look(me))
    before = signal.signal(signal.SIGUSR1, handle)
    other.start()
    try:
        assert is_inside.wait(SECONDS_MAX)
        fork(gate)
    finally:
        signal.signal(signal.SIGUSR1, before)
        other.join()
    assert left == [set()] and gate._forking == []


def test_a_cancel_that_fails_takes_no_other_with_it():
    gate = _fork_guard.Gate()
    calls = [Call(gate), Call(gate), Call(gate)]
    calls[1].cancel = lambda: 1 / 0
    for call in calls:
        gate.start(PendingCall(), lambda call=call: call, lambda call: (None, None))
    cancel(gate)
    until_done(_grpc_thread.cancels)
    assert [call.cancelled.is_set() for call in calls] == [True, False, True] and gate._inside == set()


def test_a_cancel_that_does_not_end_holds_up_no_other(monkeypatch):
    monkeypatch.setattr(_grpc_thread, "_SECONDS_MAX", 0)
    gate, is_stuck, may_end = _fork_guard.Gate(), threading.Event(), threading.Event()
    stuck, behind = Call(gate), Call(gate)
    stuck.cancel = lambda: is_stuck.set() or may_end.wait(SECONDS_MAX)
    for call in (stuck, behind):
        gate.start(PendingCall(), lambda call=call: call, lambda call: (None, None))
    cancel(gate)
    assert is_stuck.wait(SECONDS_MAX) and not behind.cancelled.is_set()
    cancel(gate)  # as whoever is next does
    assert behind.cancelled.wait(SECONDS_MAX)
    may_end.set()
