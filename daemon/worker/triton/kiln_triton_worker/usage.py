"""What this process takes: time and memory."""

import resource
import time


def elapsed_micros(started_ns):
    return (time.perf_counter_ns() - started_ns) // 1000


def taken_so_far():
    """Processor time, programs that it started and waited for included, and the most memory that it held since it was forked."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_micros": int(1e6 * (own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime)),
        "peak_bytes": 1024 * own.ru_maxrss,
    }
