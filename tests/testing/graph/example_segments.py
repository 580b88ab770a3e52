"""Small segments of kiln.graph, and what NumPy computes for them."""

import numpy as np

import kiln.graph
from daemon import Daemon
from places import DESCRIPTIONS

TARGET = "spirv:1.2"


def daemon_in(folder, programs):
    return Daemon(programs, folder, environment={"KILN_TOOLCHAIN_DIRECTORIES": "/usr"}, descriptions=DESCRIPTIONS)


def gated_segment():
    segment = kiln.graph.Segment("gated")
    batch = segment.symbol("batch", 1, 256, typical=64)
    x = segment.input("x", "f32", [batch, 12])
    w = segment.input("w", "f32", [12, 5])
    segment.output(segment.op("Elu", segment.op("MatMul", x, w), alpha=0.5), "y")
    return segment


def gated(**plan):
    return gated_segment().plan(TARGET, keeps_small_sections=True, **plan)


def gated_arrays(rows):
    random = np.random.default_rng(rows)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((rows, 12), (12, 5)))
    product = x @ w
    return x, w, np.where(product < 0, 0.5 * np.expm1(product), product)


def normalized_rows():
    """A softmax between two elementwise operations."""
    segment = kiln.graph.Segment("rows")
    rows = segment.symbol("rows", 1, 64)
    x = segment.input("x", "f32", [rows, 8])
    scale = segment.constant("scale", np.full(8, 2, np.float32))
    segment.output(segment.op("Neg", segment.op("Softmax", segment.op("Mul", x, scale))), "y")
    return segment


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
