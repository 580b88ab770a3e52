"""Runs three whole ONNX models by Kiln's kernels alone: an MLP, a convolution net and a
transformer block. Prints what became one kernel, and compares with onnx's reference evaluator.

    run_models.py [--explain]     where $KILN_ROOT says; needs numpy and onnx
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import kiln
import kiln.graph
from devices import open_device
from models import MODELS

BATCH = 7
DIFFERENCE_MAX = 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--explain", action="store_true", help="print the whole explanations")
    explains = parser.parse_args().explain
    device = open_device()
    with kiln.Client() as client, tempfile.TemporaryDirectory() as folder:
        right = [run(make(), pathlib.Path(folder), client, device, explains) for make in MODELS]
    return 0 if all(right) else 1


def run(model, folder, client, device, explains):
    """Whether kernels compute the whole model, and what the reference evaluator does."""
    path = folder / f"{model.graph.name}.onnx"
    onnx.save(model, path)
    segment = kiln.graph.from_onnx(path, {"batch": (1, 64, BATCH)})
    plan = segment.plan(device.target, keeps_small_sections=True)
    plan.compile(client)
    print(f"{model.graph.name}: {len(model.graph.node)} operations, {len(plan.kernels)} kernels, "
          f"for {device.target}")
    for line in plan.explain().splitlines()[1:]:
        if explains or line.startswith(("section", "  ", "left")):
            print(f"  {line}")
    if any(step.is_engines for step in plan.steps):
        return False

    x = np.random.default_rng(2).standard_normal(shape_of(model.graph.input[0])).astype(np.float32)
    wanted, = ReferenceEvaluator(model).run(None, {"x": x})
    difference = np.abs(execute(segment, plan, device, x, wanted.shape) - wanted).max()
    print(f"  differs by at most {difference:.1g}")
    return difference < DIFFERENCE_MAX


def execute(segment, plan, device, x, shape):
    """An engine would bind once, upload the weights once, and execute many times."""
    bound = plan.bind(0, runtime=device.runtime)
    arrays = {name: device.put(np.frombuffer(one.data, np.uint8)).address
              for name, one in segment.constants.items()}
    arrays |= {"x": device.put(x), "y": device.put(np.zeros(shape, np.float32))}
    workspace = device.allocate(bound.workspace_bytes({"batch": len(x)}))
    bound.execute(arrays, workspace=workspace, stream=device.stream)
    return device.get(arrays["y"], np.float32)


def shape_of(graph_input):
    return [one.dim_value or BATCH for one in graph_input.type.tensor_type.shape.dim]


if __name__ == "__main__":
    sys.exit(main())
