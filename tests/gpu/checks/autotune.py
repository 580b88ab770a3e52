"""Compiling the configurations of a tuning as one batch, against this Python's Triton, one after the other; then tuning."""

import os
import subprocess
import sys

from setting import TESTS

COMPILE_SECONDS_MAX = 300


def autotune(setting, _):
    sources = setting.folder / "autotune"
    script = TESTS / "launch_kernels.py"
    subprocess.run([sys.executable, script, "lower", sources], check=True, timeout=setting.limit(COMPILE_SECONDS_MAX))
    stock = subprocess.run([sys.executable, script, "compile", sources], check=True, stdout=subprocess.PIPE, text=True,
                           timeout=setting.limit(COMPILE_SECONDS_MAX)).stdout.strip()
    root = setting.kilnd.root
    setting.measure("autotune", setting.bundle / "bin" / "gpu_autotune_benchmark", sources, root, stock, len(os.sched_getaffinity(0)),
                    setting.driver, seconds=COMPILE_SECONDS_MAX)
