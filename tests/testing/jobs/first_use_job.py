"""A process that uses Kiln for the first time, which imports protobuf, and is disturbed in the middle of that; a process of its own, since what
is looked for may have it wait for ever.

    python first_use_job.py ROOT SITUATION

ROOT is a daemon's, SITUATION one of the functions below. It is disturbed at the first module of protobuf or Kiln that is imported,
in another process at one of the next, and so on. Ends with 0 where all went well.
"""

import itertools
import os
import signal
import sys
import threading

import kiln
from kiln import _process

SECONDS_MAX = 20
CHILD_SECONDS_MAX = 30
MODULES_BETWEEN = 8
NO_SUCH_MODULE = 98
# How long the import stands still for another thread to begin its fork, which with Kiln's help waits for the rest of the import.
STANDSTILL_S = 0.05
BRIEFLY_S = 0.1


def disturb_at(number, disturb):
    """Once, where that module is about to be imported."""
    left = itertools.count(number, -1)

    def see(event, arguments):
        if event == "import" and arguments[0].partition(".")[0] in ("google", "kiln") and next(left) == 1:
            disturb()

    sys.addaudithook(see)


def disturb_in(file, disturb):
    """Once, where the module of that file is being imported."""
    left = itertools.count(1, -1)

    def see(event, arguments):
        if event == "exec" and arguments[0].co_filename.endswith(file) and next(left) == 1:
            disturb()

    sys.addaudithook(see)


def be_patient():
    """A machine that is busy with other tests may starve the daemon, or an import, for a while."""
    from kiln import sockets
    _process._FORK_WAITS_FOR_IMPORTS_SECONDS_MAX = SECONDS_MAX
    sockets.Endpoint.__init__.__defaults__ = tuple(
        SECONDS_MAX if isinstance(one, float) else one for one in sockets.Endpoint.__init__.__defaults__)


def in_child(work, seconds_max=CHILD_SECONDS_MAX):
    """What `work` returns there, a number; below zero: the signal that ended it, which is SIGALRM for one that hangs."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(seconds_max)
        code = 99
        try:
            code = work()
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_at(place, first_use, standstill_s=STANDSTILL_S, disturb=disturb_at):
    """What `first_use` returns in a child that is forked while another thread is at that place of it, and stands still there until the
    fork is over, but no longer than that."""
    is_there, is_forked = threading.Event(), threading.Event()
    os.register_at_fork(after_in_parent=is_forked.set)

    def stand_still():
        is_there.set()
        is_forked.wait(standstill_s)

    disturb(place, stand_still)
    user = threading.Thread(target=first_use, daemon=True)
    user.start()
    while user.is_alive() and not is_there.wait(0.01):
        pass
    code = in_child(first_use)
    user.join()
    return code if is_there.is_set() else NO_SUCH_MODULE


def expect(code, work):
    """Of `work`, given a number, in a process of its own that has not imported anything yet."""
    for number in itertools.count(1, MODULES_BETWEEN):
        got = in_child(lambda: work(number), 3 * CHILD_SECONDS_MAX)
        if got == NO_SUCH_MODULE and number > 3 * MODULES_BETWEEN:
            break
        assert got == code, (number, got)


def new_service():
    from kiln._plugin.service import Service
    from kiln._plugin.settings import Settings
    return Service(Settings())


def connect(service):
    from kiln._plugin.service import Declined
    try:
        service.connect()
    except Declined as why:
        print(why, why.details, file=sys.stderr, flush=True)
        return 1
    return 0


def look_up(client):
    assert client.lookup(["0" * 64]) == [None]
    return 0


def plugin():
    service = new_service()
    expect(0, lambda number: fork_at(number, lambda: connect(service)))


def client():
    """Of the package's attribute, which is where it is imported."""
    expect(0, lambda number: fork_at(number, lambda: look_up(kiln.Client(answer_timeout=SECONDS_MAX))))


def own_modules():
    """Of Kiln's own."""
    for file, first_use in (("kiln/artifact.py", lambda: kiln.Artifact), ("kiln/key.py", lambda: kiln.compile_key),
                            ("kiln/_plugin/service.py", lambda: _process.imported("kiln._plugin.service"))):
        got = in_child(lambda: fork_at(file, lambda: 0 if first_use() else 1, disturb=disturb_in), 3 * CHILD_SECONDS_MAX)
        assert got == 0, (file, got)


def too_slow():
    """The import takes longer than the fork waits: the child does without Kiln, and so do its own."""
    _process._FORK_WAITS_FOR_IMPORTS_SECONDS_MAX = BRIEFLY_S
    service = new_service()

    def use():
        first = connect(service)
        return first if threading.current_thread() is not threading.main_thread() or in_child(lambda: connect(service)) == first else 2

    expect(1, lambda number: fork_at(number, use, SECONDS_MAX))


def handler():
    """A signal's handler uses Kiln while its thread does so for the first time: at once it does without, and later it can."""
    service = new_service()

    def use(number):
        codes = []
        signal.signal(signal.SIGUSR1, lambda *_: codes.append(connect(service)))
        disturb_at(number, lambda: signal.raise_signal(signal.SIGUSR1))
        assert connect(service) == connect(service) == 0
        return codes[0] if codes else NO_SUCH_MODULE

    expect(1, use)


def handler_in_greeting():
    """It makes a connection of its own."""
    from kiln._connection import Connection
    greet, found = Connection.greet, []

    def disturbed(connection, within_s):
        Connection.greet = greet
        signal.raise_signal(signal.SIGUSR1)
        greet(connection, within_s)

    def use():
        connected = kiln.Client(answer_timeout=SECONDS_MAX)
        signal.signal(signal.SIGUSR1, lambda *_: found.append(look_up(connected)))
        Connection.greet = disturbed
        other = kiln.Client(answer_timeout=SECONDS_MAX)
        return found[0] if look_up(connected) == look_up(other) == 0 else 1

    got = in_child(use)
    assert got == 0, got


assert not {"google.protobuf", "kiln.client"} & set(sys.modules)
os.environ["KILN_ROOT"] = sys.argv[1]
be_patient()
globals()[sys.argv[2]]()
