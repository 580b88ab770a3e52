"""What tests/gpu/run runs."""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import autotune
import collective
import graph
import jax_calls
import library
import machine
import plugin
import users
from report import Report
from setting import TESTS, Setting

ROOT = TESTS.parent.parent  # of the bundle, or of the source tree
# What each part needs besides the bundle and a GPU.
PARTS = {
    "checks": (library.checks, ("triton",)),
    "cost": (library.cost, ("triton",)),
    "autotune": (autotune.autotune, ("triton",)),
    **{part.__name__: (part, ("torch", "triton")) for part in (
        plugin.kernels, plugin.training, plugin.first_step, plugin.bundler, plugin.ranks, plugin.killed, plugin.absent, plugin.pool, plugin.tuning,
        plugin.tuned_second, plugin.python, users.users, collective.collective)},
    "graph": (graph.graph, ("torch", "triton")),
    "score": (graph.score, ("torch", "triton")),
    "nodes": (graph.nodes, ("torch", "triton")),
    "jax": (jax_calls.jax, ("jax", "triton")),
}
GROUPS = {"launch": ["checks", "cost", "autotune"],
          "plugin": ["kernels", "training", "bundler", "ranks", "killed", "absent", "pool", "tuning", "tuned_second", "python", "users"]}


def parse():
    parser = argparse.ArgumentParser(prog="run", description="Checks and measures Kiln on this machine's NVIDIA GPU.", epilog=f"""
        Parts: {', '.join(PARTS)}. launch stands for {', '.join(GROUPS['launch'])}; plugin for {', '.join(GROUPS['plugin'])}. All need a
        Python with Triton, those of plugin, first_step, collective, graph, score and nodes one with PyTorch too, jax one with JAX:
        KILN_GPU_PYTHON names it. collective needs two GPUs, and first_step takes eight minutes; both, graph, score, nodes and jax run where
        they are named. KILN_GPU_DRIVER names another library than libcuda.so.1. Exits with 1 where something failed or a goal was missed,
        with 2 where this machine lacks something.""")
    parser.add_argument("bundle", nargs="?", type=pathlib.Path, help="what tests/gpu/bundle made (default: where this script lies, or "
                        "build/gpu-bundle)")
    parser.add_argument("--part", action="append", choices=[*GROUPS, *PARTS], metavar="NAME", help="repeated for several; without it launch "
                        "and plugin")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of checks, those whose names match (as GoogleTest "
                        "matches); of graph and score, the functions of graph_job.py")
    parser.add_argument("--json", action="store_true", help="the measured rows alone on standard output, as tests/benchmarks/run --json has "
                        "them; all else goes to stderr")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for output.txt, results.json, raw.json (what the jobs and "
                        "benchmarks wrote) and logs.txt")
    parser.add_argument("--seconds", type=float, default=540, help="that the whole run may take (default: 540)")
    return parser.parse_args()


def chosen(names):
    """In the order of PARTS."""
    asked = {part for name in names or GROUPS for part in GROUPS.get(name, [name])}
    return [part for part in PARTS if part in asked]


def troubles(bundle, gpu, parts):
    """Why this cannot run."""
    if not (bundle / "about.json").is_file():
        yield f"no bundle in {bundle}: tests/gpu/bundle makes one"
        return
    if gpu.trouble:
        yield gpu.trouble
    about = json.loads((bundle / "about.json").read_text())
    lacking = {}
    for part in parts:
        if trouble := machine.python_trouble(PARTS[part][1], about["python"]):
            lacking.setdefault(trouble, []).append(part)
    for trouble, of in lacking.items():
        yield f"{', '.join(of)}: {trouble}"


def run_parts(setting, parts, report):
    for name in parts:
        began = time.monotonic()
        try:
            PARTS[name][0](setting, lambda *result, part=name: report.row(part, *result))
        except Exception:
            report.row(name, "stopped early", traceback.format_exc()[-3000:], False)
        report.end_part(name, began)
        report.save(sorted(setting.folder.glob("*.log")))


def main():
    arguments = parse()
    driver = os.environ.get("KILN_GPU_DRIVER", "libcuda.so.1")
    bundle = (arguments.bundle or (ROOT if (ROOT / "about.json").is_file() else ROOT / "build" / "gpu-bundle")).resolve()
    parts = chosen(arguments.part)
    gpu = machine.find_gpu(driver)
    if lacking := list(troubles(bundle, gpu, parts)):
        print("\n".join(lacking), file=sys.stderr)
        return 2
    report = Report(sys.stderr if arguments.json else sys.stdout, arguments.out)
    for line in [*machine.describe(), (bundle / "about.json").read_text().strip()]:
        report.say(line)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-gpu-"))
    try:
        with contextlib.closing(Setting(bundle, folder, report, driver, gpu, arguments.only, arguments.seconds)) as setting:
            run_parts(setting, parts, report)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.end()
    if arguments.json:
        print(json.dumps(report.measured, indent=1))
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
