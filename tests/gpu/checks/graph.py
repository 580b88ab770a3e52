"""The parts that check and measure kernels of the graph front end, and measure what its fusion score stands on."""

import json
import threading

SECONDS_MAX = 200
SCORE_SECONDS_MAX = 200
NODES_SECONDS_MAX = 300


def graph(setting, row):
    run(setting, row, SECONDS_MAX, "graph_job.py", "graph", setting.bundle / "bin", "graph", setting.only)


def score(setting, row):
    run(setting, row, SCORE_SECONDS_MAX, "graph_job.py", "score", setting.bundle / "bin", "score", setting.only)


def nodes(setting, row):
    run(setting, row, NODES_SECONDS_MAX, "graph_nodes_job.py", "nodes", setting.bundle / "bin" / "run_segments", setting.bundle / "nodes.gz",
        setting.bundle / "random.gz")


def run(setting, row, seconds, program, name, *arguments):
    """Rows come one by one, so that what was seen stays where a kernel hangs."""
    job = setting.start(program, setting.environment(name, kiln=False), name, *arguments, setting.target)
    timer = threading.Timer(setting.limit(seconds), job.kill)
    timer.start()
    try:
        for line in job.stdout:
            said = json.loads(line)
            if "name" in said:
                setting.report.measure([said])
            else:
                row(said["what"], said["result"], said["ok"])
    finally:
        timer.cancel()
    setting.finish(job)
