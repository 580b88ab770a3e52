"""Three small models, made with the package onnx: what a training framework would export."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Nodes of a model with one input, "x". Each node takes the output of the one before first."""

    def __init__(self, name, shape):
        self._name, self._shape = name, shape
        self._random = np.random.default_rng(1)
        self._nodes, self._weights = [], []
        self.last = "x"

    def weight(self, *shape):
        """The name of a constant. Scales and biases are positive, matrices keep the variance."""
        if len(shape) == 1:
            return self._constant(self._random.uniform(0.1, 0.5, shape).astype(np.float32))
        matrix = self._random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return self._constant(matrix.astype(np.float32))

    def integers(self, *numbers):
        return self._constant(np.array(numbers, np.int64))

    def _constant(self, array):
        self._weights.append(numpy_helper.from_array(array, f"w{len(self._weights)}"))
        return self._weights[-1].name

    def add(self, operator, *more_inputs, of=None, **attributes):
        output = f"h{len(self._nodes)}"
        inputs = [of or self.last, *more_inputs]
        self._nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        self.last = output
        return output

    def model(self):
        self._nodes[-1].output[0] = "y"
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self._shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, self._name, [x], [y], self._weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def mlp() -> onnx.ModelProto:
    made = Builder("mlp", ["batch", 64])
    made.add("Gemm", made.weight(64, 128), made.weight(128))
    made.add("Relu")
    made.add("Gemm", made.weight(10, 128), made.weight(10), transB=1)
    made.add("Softmax")
    return made.model()


def convolution_net() -> onnx.ModelProto:
    made = Builder("convolution_net", ["batch", 3, 32, 32])
    made.add("Conv", made.weight(16, 3, 3, 3), made.weight(16), pads=[1, 1, 1, 1])
    made.add("BatchNormalization", *(made.weight(16) for _ in range(4)))
    made.add("Relu")
    made.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    made.add("Conv", made.weight(32, 8, 3, 3), group=2, auto_pad="SAME_UPPER")
    made.add("LeakyRelu", alpha=0.1)
    made.add("GlobalAveragePool")
    made.add("Flatten")
    made.add("Gemm", made.weight(32, 10), made.weight(10))
    made.add("LogSoftmax")
    return made.model()


def transformer_block() -> onnx.ModelProto:
    """Attention of 4 heads of 16, then two layers, each with a residual."""
    made = Builder("transformer_block", ["batch", 32, 64])
    normalized = made.add("LayerNormalization", made.weight(64), made.weight(64))
    heads = made.integers(0, 0, 4, 16)
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):  # queries, keys, values
        made.add("MatMul", made.weight(64, 64), of=normalized)
        made.add("Reshape", heads)
        parts.append(made.add("Transpose", perm=order))
    made.add("MatMul", parts[1], of=parts[0])
    made.add("Mul", made.weight(1))
    made.add("Softmax")
    made.add("MatMul", parts[2])
    made.add("Transpose", perm=[0, 2, 1, 3])
    made.add("Reshape", made.integers(0, 0, 64))
    made.add("MatMul", made.weight(64, 64))
    attended = made.add("Add", "x")
    made.add("LayerNormalization", made.weight(64), made.weight(64))
    made.add("MatMul", made.weight(64, 128))
    made.add("Gelu", approximate="tanh")
    made.add("MatMul", made.weight(128, 64))
    made.add("Add", attended)
    return made.model()


MODELS = (mlp, convolution_net, transformer_block)
