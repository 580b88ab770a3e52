"""What Kiln is for: a rank that meets a new kernel in mid-run, and the others that wait for it in a collective."""

import subprocess
import sys

import machine
from kilnd import Kilnd
from results import compare_losses
from setting import JOB_SECONDS_MAX, TESTS

RANKS = 2
# How much longer NCCL's watchdog waits than a job that was warmed. A job that compiles takes several seconds longer.
MARGIN_S = 1.0
# It ends the job at once, and writes nothing of what each rank had under way.
WATCHDOG = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "TORCH_NCCL_ENABLE_MONITORING": "0"}


def collective(setting, row):
    if machine.count_gpus(setting.driver) < RANKS:
        row("ranks that wait for one another", f"not tried: needs {RANKS} GPUs", None)
        return
    stock = _run(setting, "stock", kiln=False)
    row("stock: waited for the rank that tunes", _waited(stock))
    manifest = setting.folder / "collective.kiln"
    recorded = _record(setting, manifest)
    row("recorded, the daemon compiles: waited", _waited(recorded))
    row("recorded: same results", *_same(recorded, stock))
    node = Kilnd(setting.bundle, setting.folder / "next-node")
    node.root.parent.mkdir()
    try:
        node.start()
        warm = node.kiln("warm", manifest, "--json", seconds=setting.limit(JOB_SECONDS_MAX))
        row("the next node is warmed", warm.stdout.strip().splitlines()[-1][:200], warm.returncode == 0)
        before = node.stats()
        job = {"KILN_ROOT": str(node.root), "KILN_MODE": "require", "KILN_JOB": "collective"}
        warmed = _run(setting, "warmed", **job)
        delta = node.since(before)
        row("warmed: waited for the rank that tunes", _waited(warmed))
        row("warmed: same results", *_same(warmed, stock))
        row("warmed: nothing compiled", f"{delta}; {warmed['report']}", delta["compiled"] == 0 and not warmed["report"]["local"])
        ratio = _wait(warmed) / _wait(stock)
        setting.report.measure([{"name": "collective-wait", "value": ratio, "goal": None, "better": "lower", "holds": True}])
        timeout_s = _wait(warmed) + MARGIN_S
        again = _run(setting, "warmed-watched", timeout_s, **job)
        row(f"warmed, a watchdog of {timeout_s:.1f} s: goes on", _waited(again))
        row(f"stock, a watchdog of {timeout_s:.1f} s: is ended", *_ended(setting, timeout_s))
    finally:
        node.stop()


def _run(setting, name, *arguments, kiln=True, **environment):
    return setting.run("collective_job.py", setting.environment(f"collective-{name}", kiln=kiln, **WATCHDOG, **environment),
                       f"collective-{name}", *arguments)


def _record(setting, manifest):
    """A run under `kiln record`, which ends as the job does."""
    out = setting.folder / "collective-recorded.json"
    environment = setting.environment("collective-recorded", **WATCHDOG)
    command = [setting.bundle / "bin" / "kiln", "--root", setting.kilnd.root, "record", "--job", "collective", "-o", manifest, "--",
               sys.executable, TESTS / "collective_job.py", out]
    with open(setting.folder / "collective-recorded.log", "w") as log:
        subprocess.run(command, env=environment, stdout=log, stderr=log, check=True, timeout=setting.limit(JOB_SECONDS_MAX))
    return setting.result_in(out)


def _ended(setting, timeout_s):
    """What the job said when NCCL's watchdog ended it, and whether it did."""
    try:
        ended = _run(setting, "stock-watched", timeout_s, kiln=False)
    except RuntimeError:
        said = (setting.folder / "collective-stock-watched.log").read_text()
        at = said.find("Watchdog caught collective operation timeout")
        return said[at:at + 200] if at >= 0 else said[-2000:], at >= 0
    return f"it went on; {_waited(ended)}", False


def _wait(result):
    """The first rank's, for the one that tunes in mid-run."""
    return result["waits"][0][result["change"]]


def _waited(result):
    first, *others = result["waits"][0]
    others.remove(_wait(result))
    return f"{_wait(result):.2f} s; at the first step {max(first, result['waits'][1][0]):.2f} s, otherwise {max(others):.3f} s"


def _same(result, expected):
    return compare_losses({"losses": result["sums"]}, {"losses": expected["sums"]})
