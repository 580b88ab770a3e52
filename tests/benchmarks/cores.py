"""How many cores' worth a machine has for work that only computes. Virtual machines show more than they have."""

import subprocess
import sys

ROUNDS = 5
SECONDS = 0.4  # of one measurement; each round takes two

# Counts for as long as a line says, each time.
_COUNT = """
import sys, time
for line in sys.stdin:
    end, count = time.perf_counter() + float(line), 0
    while time.perf_counter() < end:
        for _ in range(1000):
            pass
        count += 1
    print(count, flush=True)
"""


def measure(cores):
    """What `cores` processes at once get done, by what one of them gets done alone; some times over."""
    processes = [subprocess.Popen([sys.executable, "-c", _COUNT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                 for _ in range(cores)]

    def done(some, seconds=SECONDS):
        for process in some:
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        return sum(int(process.stdout.readline()) for process in some)

    try:
        done(processes, 0)  # started, all of them
        ratios = []
        for _ in range(ROUNDS):
            alone = done(processes[:1])
            ratios.append(done(processes) / alone)
        return ratios
    finally:
        for process in processes:
            process.communicate()


def row(measured):
    """Beside a row whose goal counts the cores that show; it has no goal of its own."""
    return {"name": "cores-measured", "value": round(measured, 4), "goal": None, "better": "higher", "holds": True}


def goal(cores, configurations):
    """How many times faster than one after the other that many configurations should compile."""
    return 0.7 * min(cores, configurations)
