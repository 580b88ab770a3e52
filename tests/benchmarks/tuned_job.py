"""A job that has Triton's Autotuner tune a matmul over 18 configurations: what the row `tuned-second` runs.

    <toolchain>/bin/python tuned_job.py cuda:90

waits for a line on standard input, tunes and launches it once, and prints one object: the milliseconds that it took, with importing the
plug-in where there is one, this process's seconds of CPU, and how many runs the benchmark made. Without a GPU: Triton's own benchmark,
whose runs take the time that such a kernel takes, 1 to 2 ms, on a driver that only waits.
"""

import json
import pathlib
import resource
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "kernels"), str(TESTS / "testing" / "jobs")]

import blind_ptxas  # noqa: F401 (a time in the binary would make another binary)
import triton
from stand_in_driver import StandInDriver
from triton import knobs
from triton.runtime.driver import driver
from triton.runtime.jit import MockTensor

import catalog
from matmul import matmul

SIZE = 2048


def main():
    stand_in = StandInDriver(catalog.gpu_target(sys.argv[1]), waits=True)
    driver.set_active(stand_in)
    configs = [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 64, "GROUP": 8}, num_warps=warps, num_stages=stages)
               for m in (64, 128) for n in (64, 128, 256) for warps, stages in ((4, 3), (8, 3), (8, 4))]
    tuned = triton.autotune(configs, key=["m", "n", "k"])(matmul)
    tensor = MockTensor(triton.language.float16)
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.perf_counter()
    knobs.cache.manager_class
    tuned[(256,)](tensor, tensor, tensor, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"ms": 1000 * (time.perf_counter() - begin), "cpu_s": usage.ru_utime + usage.ru_stime, "measured": len(stand_in.launched) - 1,
                      "best": str(tuned.best_config)}), flush=True)


if __name__ == "__main__":
    main()
