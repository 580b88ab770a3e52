"""Elementwise operators in NumPy: what ONNX says of each, or the library that it comes from."""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _gelu(x):
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# Floats alone; name, attributes, function.
CURVES = [
    ("Exp", {}, np.exp),
    ("Exp2", {}, np.exp2),
    ("Expm1", {}, np.expm1),
    ("Log", {}, np.log),
    ("Log1p", {}, np.log1p),
    ("Sqrt", {}, np.sqrt),
    ("Rsqrt", {}, lambda x: 1 / np.sqrt(x)),
    ("Sin", {}, np.sin),
    ("Cos", {}, np.cos),
    ("Atan", {}, np.arctan),
    ("Sinh", {}, np.sinh),
    ("Tanh", {}, np.tanh),
    ("Asinh", {}, np.arcsinh),
    ("Erf", {}, _erf),
    ("Sigmoid", {}, _sigmoid),
    ("Softplus", {}, _softplus),
    ("Softsign", {}, lambda x: x / (1 + np.abs(x))),
    ("Gelu", {}, _gelu),
    ("Gelu", {"approximate": "tanh"}, _gelu_tanh),
    ("Swish", {}, lambda x: x * _sigmoid(x)),
    ("Mish", {}, lambda x: x * np.tanh(_softplus(x))),
    ("Elu", {"alpha": 0.5}, lambda x: np.where(x < 0, 0.5 * np.expm1(x), x)),
    ("Selu", {"alpha": 1.5, "gamma": 1.25}, lambda x: 1.25 * np.where(x > 0, x, 1.5 * np.expm1(x))),
    ("Celu", {"alpha": 2.0}, lambda x: np.maximum(x, 0) + np.minimum(2 * np.expm1(x / 2), 0)),
    ("Reciprocal", {}, lambda x: 1 / x),
    ("Square", {}, lambda x: x * x),
    ("LeakyRelu", {"alpha": 0.3}, lambda x: np.where(x < 0, 0.3 * x, x)),
    ("HardSigmoid", {}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    ("HardSwish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("Affine", {"alpha": 0.75, "beta": 0.1}, lambda x: 0.75 * x + 0.1),
]
# Exact, of floats.
CUTS = [
    ("Floor", {}, np.floor),
    ("Ceil", {}, np.ceil),
    ("Round", {}, np.rint),
    ("Trunc", {}, np.trunc),
    ("ThresholdedRelu", {"alpha": 0.5}, lambda x: np.where(x > 0.5, x, 0)),
    ("HardTanh", {}, lambda x: np.clip(x, -1, 1)),
    ("Clip", {"min": -1.5, "max": 2.5}, lambda x: np.clip(x, -1.5, 2.5)),
]
# Exact, of floats and integers.
SIGNED = [
    ("Abs", {}, np.abs),
    ("Neg", {}, np.negative),
    ("Sign", {}, np.sign),
    ("Relu", {}, lambda x: np.maximum(x, 0)),
    ("Identity", {}, lambda x: x),
]
# Two operands of one type are broadcast to each other.
FLOAT_PAIRS = [
    ("Div", {}, np.divide),
    ("SquaredDifference", {}, lambda x, y: (x - y) ** 2),
    ("Atan2", {}, np.arctan2),
    ("Hypot", {}, np.hypot),
]
NUMBER_PAIRS = [
    ("Add", {}, np.add),
    ("Sub", {}, np.subtract),
    ("Mul", {}, np.multiply),
]
EXACT_PAIRS = [
    ("Max", {}, np.maximum),
    ("Min", {}, np.minimum),
]
INTEGER_PAIRS = [
    ("BitwiseAnd", {}, np.bitwise_and),
    ("BitwiseOr", {}, np.bitwise_or),
    ("BitwiseXor", {}, np.bitwise_xor),
]
BOOL_PAIRS = [
    ("And", {}, np.logical_and),
    ("Or", {}, np.logical_or),
    ("Xor", {}, np.logical_xor),
]
COMPARISONS = [
    ("Less", {}, np.less),
    ("LessOrEqual", {}, np.less_equal),
    ("Greater", {}, np.greater),
    ("GreaterOrEqual", {}, np.greater_equal),
    ("Equal", {}, np.equal),
    ("NotEqual", {}, np.not_equal),
]
