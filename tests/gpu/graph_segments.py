"""Segments that graph_job.py measures, in the JSON of docs/graph.md, and the same in PyTorch."""

import dataclasses
import typing

import torch
from torch.nn import functional

F32, F16, I8 = ("f32", torch.float32), ("f16", torch.float16), ("i8", torch.int8)


@dataclasses.dataclass
class Case:
    """`compute` takes what `inputs` names, of any precision, and gives the output. None: only times are of interest."""

    name: str
    segment: dict
    inputs: dict  # name: tensor
    output: torch.Tensor
    compute: typing.Callable | None


def _noise(shape, kind):
    if kind == I8:
        return torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
    return torch.randn(shape, device="cuda", dtype=kind[1])


def case_of(name, inputs, output, operations, compute=None, shape_between=None):
    """inputs: name, (type, shape). output: (type, shape) of y. Operations: name, inputs, output, attributes. What is between has the
    output's shape, or another one."""
    values = [{"name": value, "type": kind[0], "shape": list(shape), "role": "input"} for value, (kind, shape) in inputs.items()]
    kind, shape = output
    between = [made for _, _, made, _ in operations[:-1]]
    values += [{"name": value, "type": kind[0], "shape": list(shape_between or shape)} for value in between]
    values.append({"name": "y", "type": kind[0], "shape": list(shape), "role": "output"})
    segment = {"kiln_segment": 1, "name": name, "symbols": [], "values": values, "operations": [
        {"op": op, "inputs": given, "outputs": [made], "attributes": attributes} for op, given, made, attributes in operations]}
    tensors = {value: _noise(shape, kind) for value, (kind, shape) in inputs.items()}
    return Case(name, segment, tensors, torch.empty(shape, device="cuda", dtype=kind[1]), compute)


def chain(elements=1 << 24, alpha=0.1):
    """Ten operations that are cheap beside their traffic."""
    operations = [("LeakyRelu", {"alpha": alpha}), ("Neg", {}), ("LeakyRelu", {"alpha": 0.2}), ("HardSwish", {}), ("Abs", {}),
                  ("HardSigmoid", {"alpha": 0.125, "beta": 0.5}), ("Neg", {}), ("HardSwish", {}), ("LeakyRelu", {"alpha": 0.3}), ("Abs", {})]
    names = ["x", *(f"h{i}" for i in range(len(operations) - 1)), "y"]

    def compute(x):
        x = functional.hardswish(functional.leaky_relu(-functional.leaky_relu(x, alpha), 0.2)).abs()
        x = functional.hardswish(-torch.clamp(0.125 * x + 0.5, 0, 1))
        return functional.leaky_relu(x, 0.3).abs()

    steps = [(op, [names[i]], names[i + 1], attributes) for i, (op, attributes) in enumerate(operations)]
    return case_of("chain", {"x": (F32, [elements])}, (F32, [elements]), steps, compute)


def matmul(size):
    square, row = [size, size], [size]
    return case_of(f"matmul-{size}", {"a": (F16, square), "b": (F16, square), "bias": (F16, row)}, (F16, square),
                 [("MatMul", ["a", "b"], "product", {}), ("Add", ["product", "bias"], "sum", {}), ("Gelu", ["sum"], "y", {})],
                 lambda a, b, bias: functional.gelu(torch.addmm(bias, a, b)))


def attention(width, length=2048):
    shape = [2, 16, length, width]
    return case_of(f"attention-{width}", {name: (F16, shape) for name in "qkv"}, (F16, shape),
                 [("Attention", ["q", "k", "v"], "y", {"is_causal": 1})],
                 lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True))


def convolution(channels=256, size=28, groups=1):
    shape, weight = [32, channels, size, size], [channels, channels // groups, 3, 3]
    name = f"convolution-{channels}" + (f"-in-{groups}" if groups > 1 else "")
    return case_of(name, {"x": (F16, shape), "weight": (F16, weight)}, (F16, shape),
                 [("Conv", ["x", "weight"], "y", {"pads": [1, 1, 1, 1], "group": groups})],
                 lambda x, weight: functional.conv2d(x, weight, padding=1, groups=groups))


def softmax(rows=8192, columns=4096):
    shape = [rows, columns]
    return case_of("softmax", {"x": (F16, shape)}, (F16, shape), [("Softmax", ["x"], "y", {})], lambda x: torch.softmax(x, -1))


def layer_norm(rows=8192, columns=4096):
    shape, row = [rows, columns], [columns]
    return case_of("layer-norm", {"x": (F16, shape), "scale": (F16, row), "bias": (F16, row)}, (F16, shape),
                 [("LayerNormalization", ["x", "scale", "bias"], "y", {})],
                 lambda x, scale, bias: functional.layer_norm(x, [columns], scale, bias))


def transposed(size=8192):
    """Every load is across rows, as CostModel::jump_bytes has it."""
    square = [size, size]
    return case_of("transposed", {"x": (F32, square)}, (F32, square), [("Neg", ["x"], "h", {}), ("Transpose", ["h"], "y", {})], lambda x: -x.T)


def softmaxes(rows, columns, count=8):
    """Sections that follow each other, and read the input again."""
    shape = [rows, columns]
    operations = []
    for i in range(count):
        last = "y" if i == count - 1 else f"h{i}"
        operations += [("Softmax", ["x" if i == 0 else f"h{i - 1}"], f"s{i}", {}), ("Mul", [f"s{i}", "x"], last, {})]

    def compute(x):
        h = x
        for _ in range(count):
            h = torch.softmax(h, -1) * x
        return h

    return case_of(f"{count} softmaxes of {rows} by {columns}", {"x": (F32, shape)}, (F32, shape), operations, compute)


def normalizations(rows, columns):
    """Along rows and along columns, so that each block reads what all others have written."""
    shape, row = [rows, columns], [columns]

    def compute(x, scale, bias):
        h = torch.softmax(functional.layer_norm(x, [columns], scale, bias), 0) + x
        return torch.softmax(functional.layer_norm(torch.softmax(h, -1) + x, [columns], scale, bias), 0)

    operations = [("LayerNormalization", ["x", "scale", "bias"], "n", {}), ("Softmax", ["n"], "c", {"axis": 0}), ("Add", ["c", "x"], "h", {}),
                  ("Softmax", ["h"], "s", {}), ("Add", ["s", "x"], "t", {}), ("LayerNormalization", ["t", "scale", "bias"], "m", {}),
                  ("Softmax", ["m"], "y", {"axis": 0})]
    return case_of(f"normalizations of {rows} by {columns}", {"x": (F32, shape), "scale": (F32, row), "bias": (F32, row)}, (F32, shape),
                 operations, compute)
