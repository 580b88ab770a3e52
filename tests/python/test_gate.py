"""kiln._gate, which forks wait at, and what a signal's handler may do in the middle of it."""

import itertools
import sys
import threading

import pytest

from kiln import _gate

# Where what a gate does runs Python code, between whose instructions a handler may come.
_FILES = (_gate.__file__, threading.__file__, "contextlib.py")


class Interrupt(BaseException):
    pass


class Call:
    """One that has ended already, or one that never ends."""

    def __init__(self, has_ended):
        self._has_ended = has_ended

    def add_callback(self, callback):
        return not self._has_ended

    def cancel(self):
        pass


def interrupted_at(number, work):
    """Whether an exception came out of `work`, which a handler raises at the number-th place where Python looks for signals: at the
    beginning of a function, and behind a call of one that is not written in Python."""
    left = itertools.count(number, -1)

    def look(frame, event, argument):
        if event in ("call", "c_return") and frame.f_code.co_filename.endswith(_FILES) and next(left) == 1:
            raise Interrupt

    sys.setprofile(look)
    try:
        work()
    except Interrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def of_another_thread(work):
    done = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(20)
    return done == [None]


def section(gate):
    gate.section(lambda: None)


def start(gate):
    gate.start(lambda: Call(has_ended=True))


def cancel(gate):
    gate.cancel_calls_of({threading.get_ident()})


@pytest.mark.parametrize("work", [section, start, cancel])
def test_an_exception_anywhere_leaves_nobody_behind(work):
    for number in itertools.count(1):
        gate = _gate.Gate()
        was_interrupted = interrupted_at(number, lambda: work(gate))
        assert gate._inside == set() and of_another_thread(lambda: (gate.before_fork(), gate.after_fork_in_parent()) and None), number
        if not was_interrupted:
            break
    assert number > 2


def test_an_exception_after_a_fork_leaves_it_over():
    """Not one before it knows whose fork it is: of what is done after a fork this is not the first, which is where such a signal's handler comes."""
    for number in itertools.count(3):
        gate = _gate.Gate()
        gate.before_fork()
        was_interrupted = interrupted_at(number, gate.after_fork_in_parent)
        if not was_interrupted:
            break
        assert gate._forking == [] and of_another_thread(lambda: section(gate)), number


def test_only_one_fork_waits_for_a_call_that_never_ends(monkeypatch):
    gate, waited = _gate.Gate(), []
    monkeypatch.setattr(_gate, "_FORK_WAITS_FOR_CALLS_SECONDS_MAX", 0.01)
    gate.start(lambda: Call(has_ended=False))
    wait_for = gate._changed.wait_for
    monkeypatch.setattr(gate._changed, "wait_for", lambda until, *limit: waited.append(until()) or wait_for(until, *limit))
    for _ in range(2):
        gate.before_fork()
        gate.after_fork_in_parent()
    assert waited == [True, False, True, True]
