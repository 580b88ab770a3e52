"""Arguments of a call: which are arrays, which are values of the kernel, and for which parameter each stands."""

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence, Set, Tuple

# JAX's types that Triton has too, by the name that both know.
_TYPES = frozenset({
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bfloat16", "float16", "float32", "float64",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"
})
_INTEGERS = range(-2**63, 2**64)


@dataclass(frozen=True)
class ArrayArgument:
    """An array as heuristics, pruning functions and grids see it while a program is built: what PyTorch's tensors say of shape and
    type, no contents. dtype: NumPy's."""
    shape: Tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * int(self.dtype.itemsize)

    def numel(self) -> int:
        return self.size

    def element_size(self) -> int:
        return int(self.dtype.itemsize)

    def stride(self, dimension: "int | None" = None) -> Any:
        """In elements: XLA passes row-major arrays to a kernel."""
        strides = tuple(math.prod(self.shape[place + 1:]) for place in range(self.ndim))
        return strides if dimension is None else strides[dimension]

    def data_ptr(self) -> int:
        """A multiple of 16, as all buffers of XLA."""
        return 0


def array_argument(what: str, shape: Sequence[int], dtype: Any) -> ArrayArgument:
    """TypeError for a type that Triton does not have."""
    if dtype.name not in _TYPES:
        raise TypeError(f"{what}: Triton has no type {dtype.name}")
    if not all(type(length) is int for length in shape):
        raise TypeError(f"{what}: its shape {tuple(shape)} is not known while the program is built; a kernel needs one for each shape")
    return ArrayArgument(tuple(shape), dtype)


def is_array(argument: Any) -> bool:
    """Arrays have a shape; NumPy's scalars have one, too, and are values."""
    import numpy
    return hasattr(argument, "shape") and hasattr(argument, "dtype") and not isinstance(argument, numpy.generic)


def value(what: str, given: Any) -> Any:
    """A value as Triton takes it from PyTorch programs: Python's number for NumPy's scalars. TypeError; ValueError for integers that
    need more than 64 bits."""
    import numpy
    if isinstance(given, numpy.generic):
        given = given.item()
    elif type(given) is not int and type(given) is not bool and isinstance(given, int):
        given = int(given)  # an enumeration
    if isinstance(given, (tuple, list)):
        raise TypeError(f"{what}: tuples and lists are not taken; pass their members one by one")
    if type(given).__hash__ is None:
        raise TypeError(f"{what}: values of the type {type(given).__name__} are not taken: they cannot be hashed")
    if type(given) is int and given not in _INTEGERS:
        raise ValueError(f"{what}: {given} does not fit 64 bits")
    if isinstance(given, complex):
        raise TypeError(f"{what}: Triton has no complex numbers")
    return given


def metaparameter(what: str, given: Any) -> Any:
    """What a keyword gives: a value, or a tuple of such, which is a constant of the kernel. TypeError; ValueError."""
    if is_array(given) or is_array(getattr(given, "base", None)):
        raise TypeError(f"{what}: arrays and descriptors are given for parameters that are no constants")
    if isinstance(given, list):
        raise TypeError(f"{what}: a list is not taken; give a tuple, which is taken for a tl.constexpr")
    return tuple(metaparameter(what, one) for one in given) if type(given) is tuple else value(what, given)


def positional(parameters: Sequence[Any], named: Mapping[str, Any], chosen: Set[str]) -> "List[Any]":
    """The parameters that arguments and outputs stand for. parameters: of inspect.Signature. named: given by keyword. chosen: what
    heuristics and configurations give."""
    return [one for one in parameters if one.name not in named and one.name not in chosen]


def in_order(kernel: str, order: Sequence[Any], args: Sequence[Any], named: Mapping[str, Any]) -> "List[Any]":
    """All arguments in the order of their parameters. order: of positional(). named: by parameter. TypeError where an output would have to
    stand between two of them, and for what the caller does not give."""
    given, left = list(args), dict(named)
    if chosen := left.keys() - {one.name for one in order}:
        raise TypeError(f"{kernel}: {', '.join(sorted(chosen))} is given by its heuristics or configurations, not by the call")
    arranged = []
    for one in order:
        if one.name in left:
            arranged.append(left.pop(one.name))
        elif given:
            arranged.append(given.pop(0))
        elif left:
            advice = "outputs come after all arguments" if one.default is one.empty else "give it by keyword, too"
            raise TypeError(f"{kernel}: nothing is given for {one.name}, which comes before {', '.join(left)}: {advice}")
    return arranged + given


def bound(kernel: str, order: Sequence[Any], given: Sequence[Any]) -> Dict[str, Any]:
    """The parameters with what each stands for: `given` (arguments, then outputs) in order. order: of positional(). TypeError."""
    needed = [one.name for one in order if one.default is one.empty]
    if len(given) > len(order) or len(given) < len(needed) or any(one.name in needed for one in order[len(given):]):
        names = ", ".join(one.name for one in order)
        raise TypeError(f"{kernel}: {len(given)} arguments and outputs, it takes {len(order)} besides those given by keyword: {names}")
    return {one.name: argument for one, argument in zip(order, given)}
