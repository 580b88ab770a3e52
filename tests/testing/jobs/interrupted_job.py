"""A process whose calls are interrupted by an exception out of a signal's handler, as by Ctrl-C in a notebook, and which goes on; a process
of its own, since what is looked for may have it wait for ever.

    python interrupted_job.py ROOT SITUATION

ROOT is a daemon's, SITUATION one of the functions below. Ends with 0 where all went well.
"""

import faulthandler
import random
import signal
import sys
import threading
import time

import kiln

ROUNDS = 40
# What takes longer hangs.
CALL_SECONDS_MAX = 30
# A machine that is busy with other tests may starve the daemon for a while.
ANSWER_S = 20


class Interrupt(Exception):
    pass


def interrupt(*_):
    raise Interrupt


def interrupted(work):
    """Does it again and again until it is interrupted, at any place; but for a place where the exception is lost, as in a __del__."""
    deadline = time.monotonic() + 0.2
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.01))
        while time.monotonic() < deadline:
            work()
    except Interrupt:
        pass


def connect():
    return kiln.Client(root=sys.argv[1], answer_timeout=ANSWER_S)


def look_up(client):
    faulthandler.dump_traceback_later(CALL_SECONDS_MAX, exit=True)
    assert client.lookup(["0" * 64]) == [None]
    faulthandler.cancel_dump_traceback_later()


def alone():
    """What is interrupted is made again through the same connection."""
    client = connect()
    for _ in range(ROUNDS):
        interrupted(lambda: client.lookup(["0" * 64]))
        look_up(client)


def closed():
    """By whoever is interrupted."""
    # An import that is interrupted leaves Python's own modules half made, whosesoever they are.
    connect().close()

    def use():
        with connect() as client:
            for _ in range(50):
                client.lookup(["0" * 64])

    for _ in range(ROUNDS):
        faulthandler.dump_traceback_later(CALL_SECONDS_MAX, exit=True)
        interrupted(use)
    faulthandler.cancel_dump_traceback_later()


def beside_others():
    """Other threads call through the same connection."""
    client, is_over, answers = connect(), threading.Event(), [0] * 2

    def call(index):
        while not is_over.is_set():
            client.lookup(["0" * 64])
            answers[index] += 1

    callers = [threading.Thread(target=call, args=(index,), daemon=True) for index in range(2)]
    for caller in callers:
        caller.start()
    for _ in range(ROUNDS):
        interrupted(lambda: client.lookup(["0" * 64]))
        look_up(client)
    is_over.set()
    for caller in callers:
        caller.join(CALL_SECONDS_MAX)
    assert min(answers) > 0 and not any(caller.is_alive() for caller in callers)


print(seed := random.randrange(1 << 32), file=sys.stderr)
random.seed(seed)
signal.signal(signal.SIGALRM, interrupt)
globals()[sys.argv[2]]()
