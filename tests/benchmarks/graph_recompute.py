"""Processor time of products whose left factor, a sigmoid, is computed in them, once for each column, or by a kernel of its own.

    graph_recompute.py     KILN_ROOT names a daemon that compiles OpenCL C; for OpenCL on a CPU. Prints by columns the µs of both, some times
"""

import json
import pathlib
import sys
import time

import numpy as np

import kiln
import kiln.graph

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "onnx"))
from devices import OpenCl

ROWS, DEPTH = 16, 256
COLUMNS = (4, 16, 64, 256, 1024)
TYPICAL = 16  # of the columns: the planner fuses for that number of them
ROUNDS, ROUND_S = 11, 0.02


def launchers(client, device):
    """For each way what launches y = sigmoid(x) w for a number of columns."""
    segment = kiln.graph.Segment("product")
    columns = segment.symbol("columns", 1, COLUMNS[-1], typical=TYPICAL)
    x = segment.input("x", "f32", [ROWS, DEPTH])
    w = segment.input("w", "f32", [DEPTH, columns])
    segment.output(segment.op("MatMul", segment.op("Sigmoid", x), w), "y")
    random = np.random.default_rng(1)
    x_address = device.put(random.standard_normal((ROWS, DEPTH), np.float32)).address
    w_address = device.put(random.standard_normal((DEPTH, COLUMNS[-1]), np.float32)).address
    y_address = device.put(np.zeros((ROWS, COLUMNS[-1]), np.float32)).address
    workspace = device.allocate(4 * ROWS * DEPTH)
    for fuses in (True, False):
        plan = segment.plan(device.target, keeps_small_sections=True, fuses=fuses)
        assert plan.compile(client) == [] and len(plan.kernels) == (1 if fuses else 2), plan.explain()
        bound = plan.bind(0, runtime=device.runtime)
        yield lambda columns, bound=bound: bound.execute({"x": x_address, "w": w_address, "y": y_address}, symbols={"columns": columns},
                                                         workspace=workspace, stream=device.stream)


def microseconds(device, launch, columns, runs):
    begin = time.process_time()
    for _ in range(runs):
        launch(columns)
    device.finish()
    return (time.process_time() - begin) / runs * 1e6


def main():
    device = OpenCl()
    with kiln.Client() as client:
        both = list(launchers(client, device))
    times = {}
    for columns in COLUMNS:
        runs = max(1, round(ROUND_S * 1e6 / microseconds(device, both[0], columns, 2)))
        times[columns] = [[microseconds(device, launch, columns, runs) for launch in both] for _ in range(ROUNDS)]
    print(json.dumps(times))


if __name__ == "__main__":
    main()
