"""The parts that check and measure kernels of the graph front end, and measure what its fusion score stands on."""

import json
import subprocess
import sys
import threading

SECONDS_MAX = 200
SCORE_SECONDS_MAX = 200
NODES_SECONDS_MAX = 300
MODELS_SECONDS_MAX = 120


def graph(setting, row):
    run(setting, row, SECONDS_MAX, "graph_job.py", "graph", setting.bundle / "bin", "graph", setting.only)


def score(setting, row):
    run(setting, row, SCORE_SECONDS_MAX, "graph_job.py", "score", setting.bundle / "bin", "score", setting.only)


def nodes(setting, row):
    run(setting, row, NODES_SECONDS_MAX, "graph_nodes_job.py", "nodes", setting.bundle / "bin" / "run_segments", setting.bundle / "nodes.gz",
        setting.bundle / "random.gz")
    _models(setting, row)


def _models(setting, row):
    """The example that the package installs, by a daemon."""
    environment = setting.environment("models")
    environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}:{setting.bundle / 'onnx'}"
    example = setting.bundle / "docs" / "examples" / "onnx" / "run_models.py"
    done = subprocess.run([sys.executable, "-B", example], env=environment, capture_output=True, text=True, check=False,
                          timeout=setting.limit(MODELS_SECONDS_MAX))
    said = [line.strip() for line in done.stdout.splitlines() if "operations" in line or "differs" in line]
    row("whole ONNX models", said if done.returncode == 0 else (done.stdout + done.stderr)[-3000:], done.returncode == 0)


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
