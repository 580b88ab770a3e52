"""Whole small models from ONNX files: every operation by Kiln's kernels, against onnx's reference evaluator."""

import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnx_nodes.cases import Case, segments
from onnx_nodes.compilers import COMPILERS
from places import BINARIES

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")


class Maker:
    """A model of one input and one output; each node takes the last one's output first."""

    def __init__(self, name, shape):
        self._name, self._shape = name, shape
        self._random = np.random.default_rng(1)
        self._nodes, self._weights = [], []
        self.last = "x"

    def weight(self, *shape):
        array = self._random.uniform(0.1, 0.5, shape) if len(shape) == 1 else self._random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return self._constant(array.astype(np.float32))

    def integers(self, *numbers):
        return self._constant(np.array(numbers, np.int64))

    def _constant(self, array):
        self._weights.append(numpy_helper.from_array(array, f"w{len(self._weights)}"))
        return self._weights[-1].name

    def add(self, op, *more_inputs, of=None, **attributes):
        output = f"h{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, [of or self.last, *more_inputs], [output], **attributes))
        self.last = output
        return output

    def case(self, *input_shape):
        graph_input = helper.make_tensor_value_info("x", TensorProto.FLOAT, self._shape)
        graph_output = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, self._name, [graph_input], [graph_output], self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        x = self._random.standard_normal(input_shape).astype(np.float32)
        return Case(self._name, model, [x], ReferenceEvaluator(model).run(None, {"x": x}), atol=1e-5)


def perceptron():
    maker = Maker("perceptron", ["batch", 20])
    maker.add("Gemm", maker.weight(20, 32), maker.weight(32))
    maker.add("Relu")
    maker.add("Gemm", maker.weight(10, 32), maker.weight(10), transB=1)
    maker.add("Softmax")
    return maker.case(5, 20)


def convolution_net():
    maker = Maker("convolution_net", ["batch", 3, 16, 16])
    maker.add("Conv", maker.weight(8, 3, 3, 3), maker.weight(8), pads=[1, 1, 1, 1])
    maker.add("BatchNormalization", *(maker.weight(8) for _ in range(4)))
    maker.add("Relu")
    maker.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    maker.add("Conv", maker.weight(8, 4, 3, 3), group=2, auto_pad="SAME_UPPER")
    maker.add("LeakyRelu", alpha=0.1)
    maker.add("GlobalAveragePool")
    maker.add("Flatten")
    maker.add("Gemm", maker.weight(8, 10), maker.weight(10))
    maker.add("LogSoftmax")
    return maker.case(2, 3, 16, 16)


def transformer_block():
    maker = Maker("transformer_block", ["batch", 6, 16])
    normalized = maker.add("LayerNormalization", maker.weight(16), maker.weight(16))
    heads = maker.integers(0, 0, 4, 4)
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        maker.add("MatMul", maker.weight(16, 16), of=normalized)
        maker.add("Reshape", heads)
        parts.append(maker.add("Transpose", perm=order))
    maker.add("MatMul", parts[1], of=parts[0])
    maker.add("Mul", maker.weight(1))
    maker.add("Softmax")
    maker.add("MatMul", parts[2])
    maker.add("Transpose", perm=[0, 2, 1, 3])
    maker.add("Reshape", maker.integers(0, 0, 16))
    maker.add("MatMul", maker.weight(16, 16))
    attended = maker.add("Add", "x")
    maker.add("LayerNormalization", maker.weight(16), maker.weight(16))
    maker.add("MatMul", maker.weight(16, 32))
    maker.add("Gelu", approximate="tanh")
    maker.add("MatMul", maker.weight(32, 16))
    maker.add("Add", attended)
    return maker.case(2, 6, 16)


MODELS = {made.__name__: made for made in (perceptron, convolution_net, transformer_block)}


@pytest.fixture(scope="module")
def planned():
    whole, reasons = segments([made() for made in MODELS.values()])
    assert reasons == {}  # the engine has nothing left to do
    return whole


@pytest.mark.parametrize("compiler", COMPILERS)
def test_whole_models_compute_what_the_reference_evaluator_does(planned, compiler, tmp_path):
    results = COMPILERS[compiler](list(planned.values()), tmp_path)
    for (name, segment), outputs in zip(planned.items(), results, strict=True):
        assert not isinstance(outputs, str), (name, outputs)
        assert segment.difference(outputs) == "", name


def explained(path):
    return subprocess.run([BINARIES / "kiln", "graph", "explain", path], capture_output=True, text=True, check=False)


def test_the_command_explains_a_model_whose_weights_lie_beside_it(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save_model(transformer_block().model, path, save_as_external_data=True, location="weights", size_threshold=0)
    done = explained(path)
    assert done.returncode == 0, done.stderr
    assert "left:" not in done.stdout
    assert "MatMul" in done.stdout


def test_the_command_refuses_weights_outside_the_models_folder(tmp_path):
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "model.onnx"
    onnx.save_model(perceptron().model, path, save_as_external_data=True, location="weights", size_threshold=0)
    (tmp_path / "model" / "weights").rename(tmp_path / "weights")
    (tmp_path / "model" / "weights").symlink_to("../weights")
    done = explained(path)
    assert done.returncode == 2
    assert 'external data "weights" lies outside the model\'s folder' in done.stderr


def test_the_command_refuses_a_truncated_model(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(perceptron().model.SerializeToString()[:-100])
    done = explained(path)
    assert done.returncode == 2
    assert "truncated" in done.stderr
