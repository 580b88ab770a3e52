"""A process that forks while it is in calls; a process of its own, since what is looked for may end it.

    python forking_job.py ROOT SITUATION

ROOT is a daemon's, SITUATION one of the functions below; standard input has the source of a kernel. Ends with 0 where all went well.
"""

import asyncio
import os
import signal
import sys
import threading
import time

import kiln

CHILD_SECONDS_MAX = 20
FORKS = 300
THREADS = 4
FORKING_SECONDS_MAX = 15
SOURCE = sys.stdin.read()
# A machine that is busy with other tests may starve the daemon for a while.
client = kiln.Client(root=sys.argv[1], connect_timeout=2, answer_timeout=20)


def request(tag=""):
    """With a stage that the hot directory has not: for a call."""
    return kiln.CompileRequest(f"{SOURCE}// {tag}\n", "cuda:90", toolchain="triton==3.6.0", stages=("ptx", "cubin"))


def fork():
    """A child that compiles; its pid."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(CHILD_SECONDS_MAX)
        try:
            os._exit(0 if client.compile(request(), timeout=CHILD_SECONDS_MAX).binary else 1)
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr)
            os._exit(2)
    return pid


def wait(pid):
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, f"a child ended with {code}"


def threads():
    """Each thread calls all the time."""
    client.compile(request())
    is_over = threading.Event()
    answers = [0] * THREADS

    def call(index):
        while not is_over.is_set():
            assert client.compile(request()).outcome == "hit"
            answers[index] += 1

    callers = [threading.Thread(target=call, args=(index,)) for index in range(THREADS)]
    for caller in callers:
        caller.start()
    try:
        deadline = time.monotonic() + FORKING_SECONDS_MAX
        for _ in range(FORKS):
            wait(fork())
            if time.monotonic() > deadline:
                break
        assert all(caller.is_alive() for caller in callers), "a call failed"
    finally:
        is_over.set()
        for caller in callers:
            caller.join()
    assert min(answers) > 0


def compile():
    """A compile takes longer than it takes to fork."""
    done = []
    caller = threading.Thread(target=lambda: done.append(client.compile(request("under way"))))
    caller.start()
    pids = [fork()]
    while caller.is_alive() and len(pids) < 4:
        time.sleep(0.02)
        pids.append(fork())
    caller.join()
    # By which compile depends on how soon the daemon notices that a fork has cancelled the call before.
    assert [bool(one.binary) for one in done] == [True], done
    for pid in pids:
        wait(pid)


def many():
    """Whoever takes the answers forks between them."""
    client.compile(request())
    seen = set()
    for index, answer in client.compile_many((request(f"many {number % 4}") for number in range(40)), in_flight=8):
        assert isinstance(answer, kiln.Artifact), answer
        seen.add(index)
        wait(fork())
    assert seen == set(range(40))


def handler(nested_max=1):
    """A signal's handler forks, wherever its thread is: in a call, mostly, for which the fork must not wait. nested_max: how many
    handlers there are at a time, the later of them while the one before prepares to fork."""
    client.compile(request())
    pids = []
    depth, deepest = 0, 0

    def handle(*_):
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        if depth < nested_max:
            signal.setitimer(signal.ITIMER_REAL, 0.0002)
        pid = os.fork()
        if pid == 0:
            os._exit(0)  # in the middle of whatever the thread was at, a child can do no more
        pids.append(pid)
        depth -= 1
        # Once more, when this is over: on a slow machine, signals that come of themselves would pile up on the stack.
        if depth == 0:
            signal.setitimer(signal.ITIMER_REAL, 0.01)

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    deadline = time.monotonic() + FORKING_SECONDS_MAX
    while (len(pids) < 20 * nested_max or deepest < nested_max) and time.monotonic() < deadline:
        assert client.compile(request()).outcome == "hit"
    signal.signal(signal.SIGALRM, signal.SIG_IGN)  # one may be on its way
    for pid in pids:
        wait(pid)
    assert len(pids) >= 20 and deepest == nested_max, (len(pids), deepest)


def nested_handlers():
    handler(nested_max=5)


async def compile_async(tag=""):
    async with kiln.AsyncClient(root=sys.argv[1], connect_timeout=2, answer_timeout=20) as own:
        return await own.compile(request(tag))


def fork_async(inherited):
    """A child with a loop and a client of its own; the inherited one is of no use there, and says so."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(CHILD_SECONDS_MAX)
        code = 1
        try:
            assert asyncio.run(compile_async()).binary
            try:
                asyncio.run(inherited.compile(request()))
            except kiln.UnavailableError:
                code = 0
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr)
        finally:
            os._exit(code)
    return pid


def asynchronous():
    """Tasks call all the time, while their own thread forks, and another one."""

    async def run():
        async with kiln.AsyncClient(root=sys.argv[1], connect_timeout=2, answer_timeout=20) as shared:
            await shared.compile(request())
            is_over = False
            answers = [0] * THREADS

            async def call(index):
                while not is_over:
                    assert (await shared.compile(request())).outcome == "hit"
                    answers[index] += 1

            tasks = [asyncio.ensure_future(call(index)) for index in range(THREADS)]
            loop = asyncio.get_running_loop()
            deadline = time.monotonic() + FORKING_SECONDS_MAX / 2
            for number in range(60):
                pid = fork_async(shared) if number % 2 else await loop.run_in_executor(None, fork_async, shared)
                await loop.run_in_executor(None, wait, pid)
                if time.monotonic() > deadline:
                    break
            is_over = True
            await asyncio.gather(*tasks)
            assert number > 4 and min(answers) > 0, (number, answers)

    asyncio.run(run())


globals()[sys.argv[2]]()
