"""The part that checks and measures kernels of the graph front end."""

import json
import threading

SECONDS_MAX = 140


def graph(setting, row):
    """Rows come one by one, so that what was seen stays where a kernel hangs."""
    job = setting.start("graph_job.py", setting.environment("graph", kiln=False), "graph", setting.bundle / "bin", setting.target)
    timer = threading.Timer(setting.limit(SECONDS_MAX), job.kill)
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
