"""Element types on NumPy: floats are computed in f64 and rounded to their type after each operation."""

import numpy as np

# The distance of 1 to the next number.
STEPS = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
# The distance of 0 to it.
SMALLEST = {"f64": 0.0, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
FLOATS = tuple(STEPS)
_LIMITS = {"f64": 1e100, "f32": 1e12, "f16": 1e3, "bf16": 1e12}
_INTEGERS = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8}


def dtype_of(name):
    """What this type is computed in."""
    return np.dtype(_INTEGERS.get(name, np.float64))


def is_tame(array, name):
    """Whether operations on it stay within the type's range."""
    return name not in FLOATS or bool(np.all(np.abs(array) < _LIMITS[name]))


def rounded(array, name):
    if name not in FLOATS:
        return np.asarray(array).astype(dtype_of(name))
    array = np.asarray(array, np.float64)
    with np.errstate(all="ignore"):
        if name == "bf16":
            return _bf16_values(_bf16_bits(array.astype(np.float32))).astype(np.float64)
        return array.astype({"f64": np.float64, "f32": np.float32, "f16": np.float16}[name]).astype(np.float64)


def to_memory(array, name):
    """As it lies in memory."""
    if name == "bf16":
        return _bf16_bits(np.asarray(array, np.float32))
    kinds = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bool": np.uint8}
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(kinds.get(name, dtype_of(name)))


def from_memory(array, name):
    if name == "bf16":
        return _bf16_values(array).astype(np.float64)
    return array.astype(dtype_of(name))


def memory_dtype(name):
    return to_memory(np.zeros(0), name).dtype


def _bf16_bits(values):
    """To the nearest, ties to even."""
    bits = values.view(np.uint32)
    with np.errstate(over="ignore"):
        upper = ((bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), upper)


def _bf16_values(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)
