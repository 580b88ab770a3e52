"""What other libraries' arrays say of themselves: types, shapes, strides."""

from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple

from kiln._launch.arrays import tensor_in
from kiln.errors import InvalidArgumentError

# Names of types that NumPy, PyTorch and ml_dtypes have, and that docs/graph.md does not.
_TYPES = {
    "half": "f16", "float": "f32", "double": "f64", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "long": "i64", "int": "i32"
}
_FORMATS = {
    "?": "bool", "b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "q": "i64", "Q": "u64", "l": "i64", "L": "u64",
    "e": "f16", "f": "f32", "d": "f64"
}
_DLPACK_CODES = {0: "i", 1: "u", 2: "f", 4: "bf"}
_NAMES = {
    "bool": "bool", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
    **{f"int{bits}": f"i{bits}" for bits in (4, 8, 16, 32, 64)}, **{f"uint{bits}": f"u{bits}" for bits in (4, 8, 16, 32, 64)}
}


@dataclass(frozen=True)
class TensorAddress:
    """An array that is nothing but an address, with its shape, from which symbols are taken. type: "f16"; "": not told. strides: in
    elements; None: row-major."""
    address: int
    shape: "Tuple[int, ...]"
    type: str = ""
    strides: "Optional[Tuple[int, ...]]" = None

    def __index__(self) -> int:
        return self.address


@dataclass(frozen=True)
class ArrayFacts:
    """What an array says of itself; None, and "" for the type: it does not."""
    type: str = ""
    shape: "Optional[Tuple[int, ...]]" = None
    strides: "Optional[Tuple[int, ...]]" = None  # in elements; None: row-major, too


def facts_of(array: Any) -> ArrayFacts:
    """Of an array in a GPU's memory, or of an address, which says nothing."""
    if isinstance(array, TensorAddress):
        return ArrayFacts(array.type, tuple(array.shape), None if array.strides is None else tuple(array.strides))
    if hasattr(array, "data_ptr"):  # PyTorch
        return ArrayFacts(_type_named(array.dtype), tuple(array.shape), tuple(array.stride()))
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        size = int(interface["typestr"][2:])
        steps = interface.get("strides")
        return ArrayFacts(_type_of_interface(interface["typestr"]), tuple(interface["shape"]),
                          None if steps is None else tuple(step // size for step in steps))
    if hasattr(array, "__dlpack__"):
        capsule = array.__dlpack__()
        tensor = tensor_in(capsule)
        kind = f"{_DLPACK_CODES[tensor.code]}{tensor.bits}" if tensor.code in _DLPACK_CODES else ""
        steps = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else None
        return ArrayFacts(kind, tuple(tensor.shape[:tensor.ndim]), steps)
    return ArrayFacts()


def strides_fit(shape: Sequence[int], strides: "Optional[Sequence[int]]", wanted: Sequence[int]) -> bool:
    """Whether an array of that shape has its elements where the strides that are wanted have them."""
    if strides is None:
        strides, step = [0] * len(shape), 1
        for axis in reversed(range(len(shape))):
            strides[axis] = step
            step *= shape[axis]
    return 0 in shape or all(extent == 1 or one == other for extent, one, other in zip(shape, strides, wanted))


def contents_of(array: Any, what: str) -> "Tuple[str, Tuple[int, ...], bytes]":
    """Type, shape and bytes, row-major, of an array in the CPU's memory. InvalidArgumentError."""
    if hasattr(array, "dtype") and hasattr(array, "tobytes"):  # NumPy, with types that the buffer protocol lacks
        if getattr(array.dtype, "byteorder", "=") == ">":
            raise InvalidArgumentError(f"{what}: its elements are big endian")
        return _type_named(array.dtype), tuple(array.shape), array.tobytes()
    try:
        view = memoryview(array)
    except TypeError:
        raise InvalidArgumentError(f"{what}: {type(array).__name__} is no array in the CPU's memory: it has no buffer protocol") from None
    if view.format.lstrip("<=@") not in _FORMATS or (view.format[0] in "<=" and view.format[1] in "lL"):
        raise InvalidArgumentError(f"{what}: elements of the format {view.format!r} have no type here")
    return _FORMATS[view.format.lstrip("<=@")], tuple(view.shape or ()), view.tobytes()


def _type_named(dtype: Any) -> str:
    name = str(dtype).rsplit(".", 1)[-1]
    return _NAMES.get(name) or _TYPES.get(name, name)


def _type_of_interface(typestr: str) -> str:
    if typestr[1] == "b":
        return "bool"
    return f"{typestr[1]}{8 * int(typestr[2:])}" if typestr[1] in "iuf" else ""
