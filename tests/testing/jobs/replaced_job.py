"""A job whose Triton is replaced while it runs: says what the plug-in takes for its fingerprint afterwards.

    <toolchain>/bin/python replaced_job.py WHERE WHAT [PATH TARGET]

WHERE: "here", in "a child" that is forked afterwards, or in one whose parent has ended. WHAT is done before that: "nothing"; "a file" is
touched, PATH; "a link", PATH, is led to TARGET.
"""

import json
import os
import sys
import time

import triton  # noqa: F401

where, what, *paths = sys.argv[1:]


def replace():
    """And waits for the next tick of the clock that processes start by."""
    if what == "a file":
        os.utime(paths[0])
    elif what == "a link":
        os.symlink(paths[1], paths[0] + ".new")
        os.replace(paths[0] + ".new", paths[0])
    ends = time.time() + 2 / os.sysconf("SC_CLK_TCK")
    while time.time() < ends:
        time.sleep(0.001)


def tell():
    from kiln._plugin import identity
    try:
        print(json.dumps({"fingerprint": identity.toolchain_fingerprint()}), flush=True)
    except identity.ChangedError as error:
        print(json.dumps({"changed": str(error)}), flush=True)


def fork(work):
    """Does it in a child, and waits for its end."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    os.waitpid(pid, 0)


def tell_when_the_parent_has_ended():
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(writing)
        os.read(reading, 1)  # ends with the parent
        tell()


replace()
{"here": tell, "a child": lambda: fork(tell), "an orphan": lambda: fork(tell_when_the_parent_has_ended)}[where]()
