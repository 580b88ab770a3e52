"""Graphs: an engine describes a segment of operations, Kiln makes few kernels of it.

    segment = kiln.graph.Segment("gated")
    batch = segment.symbol("batch", 1, 4096, typical=64)
    x = segment.input("x", "f16", [batch, 784])
    w = segment.input("w", "f16", [784, 16])
    y = segment.op("Elu", segment.op("MatMul", x, w), alpha=0.5)
    segment.output(y, "y")

    plan = segment.plan("cuda:90")
    print(plan.explain())
    plan.compile(kiln.Client())
    bound = plan.bind(device=0)
    bound.execute({"x": x_array, "w": w_array, "y": y_array}, stream=stream)

docs/graph.md has the words, the operators and the JSON of segments. Importing this package opens nothing.
"""

from kiln.graph._arrays import TensorAddress
from kiln.graph._size import Size
from kiln.graph.bound import BoundPlan, KernelLoadError, ObservedSymbol
from kiln.graph.compiling import FailedKernel, Preload
from kiln.graph.plan import Buffer, Plan, PlannedKernel, Step, View
from kiln.graph.plans import Plans
from kiln.graph.segment import Segment
from kiln.graph.value import Constant, Operation, Value

from_onnx = Segment.from_onnx

__all__ = [
    "BoundPlan", "Buffer", "Constant", "FailedKernel", "KernelLoadError", "ObservedSymbol", "Operation", "Plan", "PlannedKernel", "Plans",
    "Preload", "Segment", "Size", "Step", "TensorAddress", "Value", "View", "from_onnx"
]
