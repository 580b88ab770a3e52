"""The memory that a compile writes to, which its worker copies ahead."""

import array
import contextlib
import ctypes
import json
import os
import select

from kiln_triton_worker.libc import LIBC

MADV_POPULATE_WRITE = 23  # since Linux 5.14; elsewhere the call fails, and costs nothing
IS_PRESENT, IS_NOT_SHARED = 1 << 63, 1 << 56  # of an entry of /proc/self/pagemap
PAGE = os.sysconf("SC_PAGE_SIZE")
MAPPING_BYTES_MAX = 1 << 33
STEP_PAGES = 64


class WrittenMemory:
    """Of this process's memory, what `compile_once` writes to. Finds out in a fork, which ends then.

    A fork copies a page of its parent's when it first writes to it. For a compile these are some thousand page faults, a twentieth of
    its time. A worker that waits takes them ahead, since nothing of that depends on what it will compile.
    """

    def __init__(self, compile_once):
        self._steps = []
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException), open(write_end, "w") as found:
                heaps = list(heap_mappings())
                compile_once()
                json.dump([step for heap in heaps for step in written_pages(*heap)], found)
            os._exit(0)
        os.close(write_end)
        with contextlib.suppress(ValueError), open(read_end) as found:  # without an answer nothing is copied ahead
            self._steps = json.load(found)
        os.waitpid(pid, 0)

    def copy(self, job):
        """In a later fork: until all is copied, or there is something to read on `job`."""
        for begin, size in self._steps:
            if select.select([job], [], [], 0)[0]:
                return
            LIBC.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), MADV_POPULATE_WRITE)


def heap_mappings():
    """(begin, end) of each."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, rights, _, _, _, *name = line.split()
            begin, end = (int(part, 16) for part in addresses.split("-"))
            if name in ([], ["[heap]"]) and rights == "rw-p" and end - begin <= MAPPING_BYTES_MAX:
                yield begin, end


def written_pages(begin, end):
    """(begin, size) of each run of pages that this process has to itself since it was forked, in steps."""
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        entries = array.array("Q", os.pread(pagemap.fileno(), (end - begin) // PAGE * 8, begin // PAGE * 8))
    steps, count = [], 0
    for i, entry in enumerate([*entries, 0]):
        is_written = entry & IS_PRESENT and entry & IS_NOT_SHARED
        if count and (not is_written or count == STEP_PAGES):
            steps.append((begin + (i - count) * PAGE, count * PAGE))
            count = 0
        count += bool(is_written)
    return steps
