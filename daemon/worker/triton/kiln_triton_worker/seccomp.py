"""Filters of system calls, and programs that find no file with stat. The scripts of `kiln reproduce` have this module, too.

ptxas writes time and size of every source file that it finds into the line table. Without them a binary does not depend on the machine,
and says nothing of files that a source names.
"""

import contextlib
import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys
import threading

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
# Calls that take a file's name; of newfstatat, those without AT_EMPTY_PATH, which makes it fstat.
NEWFSTATAT = {"x86_64": 262, "aarch64": 79}
OTHERS = {"x86_64": (4, 6, 332), "aarch64": (291, )}  # stat, lstat, statx
AT_EMPTY_PATH = 0x1000
FLAGS = 16 + 3 * 8  # the fourth argument in struct seccomp_data

LOAD, IF_EQUAL, IF_HAS, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW = (RETURN, 0, 0, 0x7FFF0000)
REFUSE = (RETURN, 0, 0, 0x00050000 | errno.ENOENT)

LIBC = ctypes.CDLL(None, use_errno=True)


def filter_system_calls(instructions):
    """Restricts this thread, and all that it starts, for good. `instructions`: each a struct sock_filter as a number."""
    kept = (ctypes.c_uint64 * len(instructions))(*instructions)
    program = struct.pack("@HP", len(instructions), ctypes.addressof(kept))
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def stat_refusal(machine):
    """The instructions of a filter with which stat finds nothing. Empty for an unknown machine."""
    if machine not in OTHERS:
        return []
    others = [step for number in OTHERS[machine] for step in ((IF_EQUAL, 0, 1, number), REFUSE)]
    steps = [(LOAD, 0, 0, 0), *others, (IF_EQUAL, 1, 0, NEWFSTATAT[machine]), ALLOW, (LOAD, 0, 0, FLAGS), (IF_HAS, 0, 1, AT_EMPTY_PATH), ALLOW,
             REFUSE]
    return [int.from_bytes(struct.pack("=HBBI", *step), sys.byteorder) for step in steps]


def refuse_stat():
    """RefuseStat of daemon/sandbox/enter_jail.cc. A kernel without filters goes without, as the jail says."""
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # in a jail this is set already, and may not be set again
    with contextlib.suppress(OSError):
        filter_system_calls(stat_refusal(platform.machine()))


class BlindPopen(subprocess.Popen):
    """Starts its program from a thread that ends with the start: a filter is a thread's, and this process goes on to call stat.

    With a function that runs in the child (preexec_fn), Python would fork where it can vfork, which costs milliseconds.
    """

    def __init__(self, *arguments, **named):
        raised = []

        def start():
            try:
                refuse_stat()
                super(BlindPopen, self).__init__(*arguments, **named)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
        if raised:
            raise raised[0]


def blind_programs():
    """Those that this process starts from now on."""
    subprocess.Popen = BlindPopen
