"""What this process takes: time and memory."""

import os
import re
import resource
import time


def elapsed_micros(started_ns):
    return (time.perf_counter_ns() - started_ns) // 1000


def cpu_micros():
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int(1e6 * (own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime))


def resident_bytes(memory):
    """What this process holds; `memory` is /proc/self/statm, open."""
    return int(os.pread(memory, 256, 0).split()[1]) * resource.getpagesize()


class PeakMemory:
    """The most memory that this process holds between a reset and a look, beyond what it holds at the reset.

    What it holds before its first compile it shares with its zygote, or nearly so. Opens what it needs at once, since a jail may close /proc later.
    `memory` is /proc/self/statm, open.
    """

    def __init__(self, memory):
        self._memory = memory
        self._baseline = 0
        try:
            self._reset = os.open("/proc/self/clear_refs", os.O_WRONLY)
            self._status = os.open("/proc/self/status", os.O_RDONLY)
        except OSError:  # a kernel without CONFIG_PROC_PAGE_MONITOR
            self._reset = self._status = None

    def reset(self):
        """Forgets the peak so far. Where that is not allowed, there is no telling of this compile's own."""
        if self._reset is None:
            return
        self._baseline = self._baseline or resident_bytes(self._memory)
        try:
            os.pwrite(self._reset, b"5", 0)
        except OSError:
            os.close(self._reset)
            self._reset = None

    def bytes(self):
        """None where it cannot be told."""
        if self._reset is None:
            return None
        found = re.search(rb"^VmHWM:\s+(\d+) kB", os.pread(self._status, 1 << 16, 0), re.MULTILINE)
        return found and max(0, 1024 * int(found.group(1)) - self._baseline)
