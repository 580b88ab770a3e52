"""Compiling the configurations of a tuning as one batch, against this Python's Triton, one after the other; then tuning."""

import os
import statistics
import subprocess
import sys

from setting import TESTS

sys.path.insert(0, str(TESTS.parent / "benchmarks"))

import cores  # noqa: E402

COMPILE_SECONDS_MAX = 300
STOCK_ROUNDS = 3


def autotune(setting, row):
    sources = setting.folder / "autotune"
    script = TESTS / "launch_kernels.py"
    subprocess.run([sys.executable, script, "lower", sources, setting.target], check=True, timeout=setting.limit(COMPILE_SECONDS_MAX))
    rounds = [_compile_with_triton(setting, script, sources) for _ in range(STOCK_ROUNDS)]
    stock = statistics.median(seconds for seconds, _ in rounds)
    bound = statistics.median(seconds / longest for seconds, longest in rounds)
    root, visible = setting.kilnd.root, len(os.sched_getaffinity(0))
    measured = statistics.median(cores.measure(visible))  # right before, since others may share the machine
    setting.report.measure([cores.row(measured)])
    row("0.7 × min(cores, 18)", f"{cores.goal(visible, 18):.1f} for the {visible} cores that show, which is the goal; "
        f"{cores.goal(measured, 18):.1f} for the {measured:.1f} measured")
    row("the longest alone", f"takes Triton a {bound:.1f}th of all; a batch waits for it, on any number of cores")
    setting.measure("autotune", setting.bundle / "bin" / "gpu_autotune_benchmark", sources, root, str(stock), visible, setting.driver,
                    seconds=COMPILE_SECONDS_MAX)


def _compile_with_triton(setting, script, sources):
    """Seconds for all, and for the one that took longest."""
    printed = subprocess.run([sys.executable, script, "compile", sources], check=True, stdout=subprocess.PIPE, text=True,
                             timeout=setting.limit(COMPILE_SECONDS_MAX)).stdout
    return tuple(map(float, printed.split()))
