"""Calls of the C library and of the kernel that Python does not offer."""

import contextlib
import ctypes
import os

PR_SET_PDEATHSIG = 1
ADDR_NO_RANDOMIZE = 0x0040000
PERSONALITY_ASK = 0xFFFFFFFF

LIBC = ctypes.CDLL(None, use_errno=True)
# ctypes remembers a function, whose name it looks up in all libraries. A fork would map their tables anew, page by page.
for _name in ("capset", "mallctl", "mount", "personality", "pivot_root", "prctl", "syscall", "umount2", "unshare"):
    with contextlib.suppress(AttributeError):  # jemalloc's, say, is not everywhere
        getattr(LIBC, _name)


def checked(result):
    """The result of a call of the C library; OSError where it is -1."""
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option, value):
    checked(LIBC.prctl(option, value, 0, 0, 0))


def die_with(parent, signal_number):
    """Ties this process to its parent. The parent may be gone already, so look once after asking."""
    prctl(PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(0)


def do_not_randomize_programs():
    """Has the kernel load what this process executes at the same addresses every time; the process itself stays as it is.

    ptxas-blackwell 12.9 allocates registers of tensor-core code in an order that depends on addresses: one PTX gives two cubins,
    and a local compile comes to either. Here it is one of them, always the same, so a compile can be repeated and compared. Where a
    sandbox forbids the call, chance decides as it does locally.
    """
    personality = LIBC.personality
    personality.argtypes = [ctypes.c_ulong]
    current = personality(PERSONALITY_ASK)
    if current != -1:
        personality(current | ADDR_NO_RANDOMIZE)
