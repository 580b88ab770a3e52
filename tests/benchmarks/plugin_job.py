"""A job that resolves the example kernels, in one process: what the rows of the plug-in run.

    <toolchain>/bin/python plugin_job.py TARGETS

waits for a line on standard input, has Triton compile, or find, every example kernel for the comma-separated targets, and prints one
object: the kernels, the milliseconds that it took, with importing the plug-in where there is one, and this process's and its children's seconds of CPU.
Without a GPU nothing asks for the driver's stubs, which on a machine with one is what has Triton import the plug-in first.
"""

import json
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kernels"))

import triton
from triton import knobs

import catalog


def cpu_s():
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def main():
    cases = catalog.cases(sys.argv[1].split(","))
    print("ready", flush=True)
    sys.stdin.readline()
    cpu, begin = cpu_s(), time.perf_counter()
    knobs.cache.manager_class
    for instance, target in cases:
        gpu = catalog.gpu_target(target)
        triton.compile(catalog.ast_source(instance, gpu.backend), target=gpu, options=instance.options_for(gpu.backend))
    print(json.dumps({"kernels": len(cases), "ms": 1000 * (time.perf_counter() - begin), "cpu_s": cpu_s() - cpu}), flush=True)


if __name__ == "__main__":
    main()
