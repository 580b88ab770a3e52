"""What operations without regions and without memory do to NumPy's arrays."""

import math

import numpy

from triton_ir.memory import from_bits, number_type, round_to_bf16, to_bits


def _unsigned(function):
    def apply(*operands):
        dtype = operands[0].dtype
        if dtype == numpy.bool_:
            return function(*operands).astype(numpy.bool_)
        return function(*(operand.view(f"u{dtype.itemsize}") for operand in operands)).view(dtype)

    return apply


def _truncated_quotient(left, right):
    """The front end lets nobody divide by zero: that would be a wrong kernel."""
    if (right == 0).any():
        raise ZeroDivisionError("a kernel divides an integer by zero")
    quotient = left // right
    return quotient + ((left % right != 0) & ((left < 0) != (right < 0)))


def _remainder(left, right):
    return left - _truncated_quotient(left, right) * right


def _within(shift):
    def apply(value, amount):
        bits = value.dtype.itemsize * 8
        if (amount.astype(numpy.int64) >= bits).any() or (amount.astype(numpy.int64) < 0).any():
            raise ArithmeticError("a kernel shifts by more than all bits")
        return shift(value, amount)

    return apply


def _in_f64(function):
    def apply(*operands):
        return numpy.asarray(function(*(operand.astype(numpy.float64) for operand in operands))).astype(operands[0].dtype)

    return apply


_erf = numpy.vectorize(math.erf, otypes=[numpy.float64])

FUNCTIONS = {
    "acos": numpy.arccos,
    "acosh": numpy.arccosh,
    "asin": numpy.arcsin,
    "asinh": numpy.arcsinh,
    "atan": numpy.arctan,
    "atan2": numpy.arctan2,
    "atanh": numpy.arctanh,
    "ceil": numpy.ceil,
    "cos": numpy.cos,
    "cosh": numpy.cosh,
    "erf": _erf,
    "exp": numpy.exp,
    "exp2": numpy.exp2,
    "floor": numpy.floor,
    "fmod": numpy.fmod,
    "log": numpy.log,
    "log2": numpy.log2,
    "pow": numpy.power,
    "rint": numpy.rint,
    "rsqrt": lambda x: 1 / numpy.sqrt(x),
    "sin": numpy.sin,
    "sinh": numpy.sinh,
    "sqrt": numpy.sqrt,
    "tan": numpy.tan,
    "tanh": numpy.tanh,
    "trunc": numpy.trunc,
}

ELEMENTWISE = {
    "arith.addf": numpy.add,
    "arith.addi": numpy.add,
    "arith.andi": numpy.bitwise_and,
    "arith.divf": numpy.divide,
    "arith.divsi": _truncated_quotient,
    "arith.divui": _unsigned(_truncated_quotient),
    "arith.maximumf": numpy.maximum,
    "arith.maxnumf": numpy.fmax,
    "arith.maxsi": numpy.maximum,
    "arith.maxui": _unsigned(numpy.maximum),
    "arith.minimumf": numpy.minimum,
    "arith.minnumf": numpy.fmin,
    "arith.minsi": numpy.minimum,
    "arith.minui": _unsigned(numpy.minimum),
    "arith.mulf": numpy.multiply,
    "arith.muli": numpy.multiply,
    "arith.ori": numpy.bitwise_or,
    "arith.remsi": _remainder,
    "arith.remui": _unsigned(_remainder),
    "arith.select": numpy.where,
    "arith.shli": _within(numpy.left_shift),
    "arith.shrsi": _within(numpy.right_shift),
    "arith.shrui": _within(_unsigned(numpy.right_shift)),
    "arith.subf": numpy.subtract,
    "arith.subi": numpy.subtract,
    "arith.xori": numpy.bitwise_xor,
    "math.absf": numpy.abs,
    "math.absi": numpy.abs,
    "math.fma": _in_f64(lambda x, y, z: x * y + z),
    "tt.precise_divf": numpy.divide,
    "tt.precise_sqrt": numpy.sqrt,
}
ELEMENTWISE.update((f"math.{name}", _in_f64(function)) for name, function in FUNCTIONS.items())

_SIGNED_ORDER = (numpy.equal, numpy.not_equal, numpy.less, numpy.less_equal, numpy.greater, numpy.greater_equal)
_UNSIGNED_ORDER = (numpy.less, numpy.less_equal, numpy.greater, numpy.greater_equal)
_FLOAT_ORDER = (numpy.equal, numpy.greater, numpy.greater_equal, numpy.less, numpy.less_equal, numpy.not_equal)


def compare_integers(predicate, left, right):
    if predicate < 6:
        return _SIGNED_ORDER[predicate](left, right)
    unsigned = [side if side.dtype == numpy.bool_ else side.view(f"u{side.dtype.itemsize}") for side in (left, right)]
    return _UNSIGNED_ORDER[predicate - 6](*unsigned)


def compare_floats(predicate, left, right):
    """Predicates 1 to 7 are false where a side is NaN, 8 to 14 are true."""
    is_unordered = numpy.isnan(left) | numpy.isnan(right)
    if predicate in (7, 14):
        return is_unordered if predicate == 14 else ~is_unordered
    is_ordered_form = predicate < 7
    result = _FLOAT_ORDER[predicate - (1 if is_ordered_form else 8)](left, right)
    return result & ~is_unordered if is_ordered_form else result | is_unordered


def library_function(symbol):
    """Of NVIDIA's libdevice and AMD's OCML."""
    for name, function in FUNCTIONS.items():
        if symbol in (f"__nv_{name}", f"__nv_{name}f", f"__ocml_{name}_f32", f"__ocml_{name}_f64"):
            return _in_f64(function)
    raise NotImplementedError(symbol)


def cast(name, value, before, after):
    """`before` and `after` are names of types."""
    if name in ("tt.bitcast", "arith.bitcast"):
        return from_bits(after, to_bits(before, value))
    if name in ("arith.extui", "arith.uitofp") and value.dtype != numpy.bool_:
        value = value.view(f"u{value.dtype.itemsize}")
    if name == "arith.extsi" and value.dtype == numpy.bool_:
        return -value.astype(number_type(after))
    if after == "i1":
        return (value & 1).astype(numpy.bool_)
    if after == "bf16":
        return round_to_bf16(value)
    if name == "arith.fptoui":
        return value.astype(f"u{numpy.dtype(number_type(after)).itemsize}").view(number_type(after))
    return value.astype(number_type(after))
