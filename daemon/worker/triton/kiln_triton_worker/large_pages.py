"""Large pages, of two megabytes, for what a fork of a zygote would otherwise map and copy a small page at a time.

A fork maps a library's pages anew, 16 at each page fault, and copies a page of the heap when it first writes to it: 4,500 page faults
for a compile of a small kernel, a sixth of its time. docs/adr/0068 has the figures.
"""

import ctypes
import mmap
import os

from kiln_triton_worker.libc import LIBC, checked

LARGE_PAGE = 2 << 20
SETTING = "/sys/kernel/mm/transparent_hugepage/enabled"
MREMAP_MAYMOVE, MREMAP_FIXED = 1, 2
MADV_COLLAPSE = 25
# Flags of mallocx.
NO_CACHE, LARGE_PAGE_ALIGNED, ARENA_SHIFT = 1 << 8, 21, 20
FRESH_BYTES = 64 << 20
ALL_ARENAS_PURGE = b"arena.4096.purge"

PROTECTIONS = {"r-xp": mmap.PROT_READ | mmap.PROT_EXEC, "r--p": mmap.PROT_READ}

LIBC.mmap.restype = LIBC.mremap.restype = ctypes.c_ssize_t


def move_library(library):
    """Moves code and constants of a library that this process has loaded into large pages, which its forks share. Does nothing where the
    kernel has none. OSError where it does not let. REQUIRES: a single thread."""
    path = os.path.realpath(library)
    for begin, end, rights, file in mapped_large_pages():
        if rights in PROTECTIONS and file == path:
            move_to_large_pages(begin, end, PROTECTIONS[rights])


def gather_heap():
    """Puts what this process has allocated so far into large pages, where it may lie in small ones. A fork, and its end, then go through
    the memory by runs of pages. What nothing has touched stays without memory. Linux before 6.1 leaves all as it is."""
    for begin, end, rights, file in mapped_large_pages():
        if rights == "rw-p" and not file:
            for page in range(begin, end, LARGE_PAGE):
                LIBC.madvise(ctypes.c_void_p(page), ctypes.c_size_t(LARGE_PAGE), MADV_COLLAPSE)


def mapped_large_pages():
    """(begin, end, rights, file) of each mapping, cut to whole large pages. None where the kernel has no large pages."""
    with open(SETTING) as setting:
        if "[never]" in setting.read():
            return []
    with open("/proc/self/maps") as maps:
        lines = [line.rstrip("\n").split(maxsplit=5) for line in maps]
    found = []
    for addresses, rights, _, _, _, *name in lines:
        begin, end = (int(address, 16) for address in addresses.split("-"))
        begin, end = -(-begin // LARGE_PAGE) * LARGE_PAGE, end // LARGE_PAGE * LARGE_PAGE
        if begin < end:
            found.append((begin, end, rights, "".join(name)))
    return found


def move_to_large_pages(begin, end, protection):
    """What lies between addresses that are multiples of LARGE_PAGE."""
    size = ctypes.c_size_t(end - begin)
    room_size = ctypes.c_size_t(end - begin + LARGE_PAGE)  # with unaligned ends, which stay mapped, and nothing touches
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    room = checked(LIBC.mmap(None, room_size, mmap.PROT_READ | mmap.PROT_WRITE, private, -1, ctypes.c_long(0)))
    copy = ctypes.c_void_p(-(-room // LARGE_PAGE) * LARGE_PAGE)
    try:
        checked(LIBC.madvise(copy, size, mmap.MADV_HUGEPAGE))
        ctypes.memmove(copy, begin, end - begin)
        checked(LIBC.mprotect(copy, size, protection))
        checked(LIBC.mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, ctypes.c_void_p(begin)))
    except OSError:
        LIBC.munmap(ctypes.c_void_p(room), room_size)
        raise


class FreshHeap:
    """An arena of jemalloc's that nothing is allocated from yet, made in a zygote. What its forks allocate lies in large pages of their
    own, and not among what they would first have to copy. Does nothing with another malloc."""

    def __init__(self):
        self._arena = None
        arena, size, zero = ctypes.c_uint(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_uint)), ctypes.c_size_t(0)
        if hasattr(LIBC, "mallctl") and not LIBC.mallctl(b"arenas.create", ctypes.byref(arena), ctypes.byref(size), None, zero):
            LIBC.mallocx.restype = ctypes.c_void_p
            flags = (arena.value + 1) << ARENA_SHIFT | NO_CACHE | LARGE_PAGE_ALIGNED
            # The arena keeps what is given back: one mapping, which nothing has touched.
            if room := LIBC.mallocx(ctypes.c_size_t(FRESH_BYTES), flags):
                LIBC.dallocx(ctypes.c_void_p(room), flags)
            self._arena = arena
            # What the zygote has freed. Each fork would give it back by itself.
            LIBC.mallctl(ALL_ARENAS_PURGE, None, None, None, zero)

    def enter(self):
        """In a fork: allocates from here, from now on."""
        if self._arena is not None:
            LIBC.mallctl(b"thread.arena", None, None, ctypes.byref(self._arena), ctypes.c_size_t(ctypes.sizeof(self._arena)))
