"""The parts that need nothing but the bundle and a GPU: libkiln_launch."""

import statistics
import subprocess
import time

CHECK_SECONDS_MAX = 60
COST_SECONDS_MAX = 120  # of one process
COST_PROCESSES = 11
SKIPPED = "[  SKIPPED ]"  # a check that says what it lacks
# What GoogleTest says of every run.
NOISE = ("Note: Google Test", "Running main", "[")


def checks(setting, row):
    """Each a process of its own, so that one that fails or hangs costs no other."""
    program = [setting.bundle / "bin" / "gpu_launch_test", setting.artifacts, setting.driver]
    names = list_checks(program, setting.only)
    if not names:
        raise RuntimeError(f"no check is called {setting.only}")
    for name in names:
        check(setting, row, program, name)


def list_checks(program, pattern):
    done = subprocess.run([*program, "--gtest_list_tests", f"--gtest_filter={pattern}"], capture_output=True, text=True, timeout=60,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the test program does not run here: {done.stderr}")
    names = []
    for line in done.stdout.splitlines():
        if line.startswith(" "):
            names.append(suite + line.split()[0])  # behind it stands the parameter
        else:
            suite = line.split()[0]
    return names


def check(setting, row, program, name):
    began = time.monotonic()
    seconds = setting.limit(CHECK_SECONDS_MAX)
    try:
        done = subprocess.run([*program, f"--gtest_filter={name}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        row(name, f"took longer than {seconds:.0f} s", False)
        output = (error.stdout or b"").decode(errors="replace").splitlines()
    else:
        took = f"{1000 * (time.monotonic() - began):.0f} ms"
        if done.returncode == 0:
            row(name, took, None if SKIPPED in done.stdout else True)
        else:
            row(name, f"exit {done.returncode} after {took}", False)
        output = done.stdout.splitlines()
        if done.returncode == 0:
            output = [line for line in output if line.startswith("  ")]
    for line in [line for line in output if not line.startswith(NOISE)][:80]:
        setting.report.say(line)


def cost(setting, _):
    """What a launch costs the CPU. One process's ratio is another's to 2 % only, with the same code: it goes by where that comes to lie in
    memory. So it is the median of several."""
    command = setting.bundle / "bin" / "gpu_launch_benchmark", setting.artifacts, setting.driver
    runs = [setting.rows_of("cost", *command, seconds=COST_SECONDS_MAX)[0] for _ in range(COST_PROCESSES)]
    values = sorted(run["value"] for run in runs)
    setting.report.say("launch, in each process: " + " ".join(f"{value:.3f}" for value in values))
    row = {**runs[0], "value": statistics.median(values)}
    setting.report.measure([{**row, "holds": row["value"] <= row["goal"]}])
