"""A job that resolves the example kernels, in one process: what the rows of the plug-in run.

    <toolchain>/bin/python plugin_job.py TARGETS [FOLDER]

waits for a line on standard input, has Triton compile, or find, every example kernel for the comma-separated targets, and prints one
object: the kernels, the milliseconds that it took, with importing the plug-in where there is one, this process's and its children's
seconds of CPU, and with the plug-in its report.
With FOLDER they are lowered to Triton IR there before that line, so that what is counted is what a daemon's compilers do.
Without a GPU nothing asks for the driver's stubs, which on a machine with one is what has Triton import the plug-in first.
"""

import dataclasses
import json
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kernels"))

import triton
from triton import knobs

import catalog
import lower


def cpu_s():
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def source(instance, target, folder):
    if folder is None:
        return catalog.ast_source(instance, catalog.gpu_target(target).backend)
    path = folder / f"{catalog.case_name(instance, target)}.ttir"
    path.write_text(lower.lower(instance, target))
    return str(path)


def main():
    folder = pathlib.Path(sys.argv[2]) if sys.argv[2:] else None
    cases = [(instance, target, folder and source(instance, target, folder)) for instance, target in catalog.cases(sys.argv[1].split(","))]
    print("ready", flush=True)
    sys.stdin.readline()
    cpu, begin = cpu_s(), time.perf_counter()
    knobs.cache.manager_class
    for instance, target, lowered in cases:
        gpu = catalog.gpu_target(target)
        triton.compile(lowered or source(instance, target, None), target=gpu, options=instance.options_for(gpu.backend))
    answer = {"kernels": len(cases), "ms": 1000 * (time.perf_counter() - begin), "cpu_s": cpu_s() - cpu}
    if "kiln" in sys.modules:
        answer["report"] = dataclasses.asdict(sys.modules["kiln"].report())
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
