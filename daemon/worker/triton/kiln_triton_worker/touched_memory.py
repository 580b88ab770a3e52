"""The memory that a zygote has touched, and that its workers touch again."""

import array
import contextlib
import ctypes
import os
import select

from kiln_triton_worker.libc import LIBC

MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23  # since Linux 5.14; elsewhere the call fails, and costs nothing
IS_PRESENT = 1 << 63  # of an entry of /proc/self/pagemap
MAPPING_BYTES_MAX = 1 << 33
STEP_BYTES = 2 << 20


class TouchedMemory:
    """Looks at this process once.

    A fork starts without the pages of mapped files, and copies a page of its parent's when it writes to it: some thousand page faults,
    a tenth of a compile. A spare worker takes them ahead, since nothing of that depends on what it will compile.
    """

    def __init__(self):
        self._files, self._heaps = [], []
        with contextlib.suppress(OSError):  # a kernel without CONFIG_PROC_PAGE_MONITOR
            self._look()

    def _look(self):
        page = os.sysconf("SC_PAGE_SIZE")
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap, open("/proc/self/maps") as maps:
            for line in maps:
                addresses, rights, _, _, _, *name = line.split()
                begin, end = (int(part, 16) for part in addresses.split("-"))
                is_file = bool(name) and name[0].startswith("/")
                is_heap = name in ([], ["[heap]"]) and rights[1] == "w"
                if rights[0] != "r" or rights[3] != "p" or end - begin > MAPPING_BYTES_MAX or not (is_file or is_heap):
                    continue
                entries = array.array("Q", os.pread(pagemap.fileno(), (end - begin) // page * 8, begin // page * 8))
                steps = self._files if is_file else self._heaps
                steps += [(begin + first * page, pages * page) for first, pages in runs(entries, STEP_BYTES // page)]

    def touch_again(self, job):
        """Until everything is touched, or there is something to read on `job`."""
        for steps, advice in ((self._files, MADV_POPULATE_READ), (self._heaps, MADV_POPULATE_WRITE)):
            for begin, size in steps:
                if select.select([job], [], [], 0)[0]:
                    return
                LIBC.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), advice)


def runs(entries, longest):
    """(first, count) of pages in memory that follow each other."""
    found, first = [], None
    for i, entry in enumerate([*entries, 0]):
        is_present = bool(entry & IS_PRESENT)
        if first is not None and (not is_present or i - first == longest):
            found.append((first, i - first))
            first = None
        if is_present and first is None:
            first = i
    return found
