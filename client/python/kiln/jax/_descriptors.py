"""Tensor descriptors (TMA) over arrays of a program: what Triton's TensorDescriptor is for PyTorch's tensors."""

import operator
import struct
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple, Union

from kiln.jax._arguments import ArrayArgument

Block = Union[Sequence[int], Callable[[Dict[str, Any]], Sequence[int]]]


@dataclass(frozen=True, eq=False)
class TensorDescriptor:
    """A descriptor as an argument of triton_call, or over an output in its out_shape. Triton's own takes PyTorch's tensors alone.

    base: an array, or for an output a jax.ShapeDtypeStruct. shape, strides: in elements; the last stride is 1, the others are
    multiples of 16 bytes. block_shape: powers of 2, or a function of the metaparameters, which an autotuned kernel needs. padding:
    "zero" or "nan", what lies outside reads as. round_f32_to_tf32: float32 is rounded on its way (Triton 3.7 and later).
    """
    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Block
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    @staticmethod
    def from_tensor(tensor: Any, block_shape: Block, padding: str = "zero", round_f32_to_tf32: bool = False) -> "TensorDescriptor":
        """Over the whole array."""
        return TensorDescriptor(tensor, tensor.shape, ArrayArgument(tuple(tensor.shape), tensor.dtype).stride(), block_shape, padding,
                                round_f32_to_tf32)


@dataclass(frozen=True)
class DescriptorArgument:
    """A descriptor as heuristics, pruning functions and grids see it while a program is built. base: the array's shape and type."""
    base: ArrayArgument
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    padding: str
    round_f32_to_tf32: bool
    block_shape: Block = field(compare=False)

    def packed(self) -> bytes:
        """As the custom call has it."""
        numbers = (len(self.shape), self.padding == "nan", self.round_f32_to_tf32, *self.shape, *self.strides)
        return struct.pack(f"<{len(numbers)}q", *numbers)


Buffer = (ArrayArgument, DescriptorArgument)  # what has a buffer of XLA's


def base_of(given: "ArrayArgument | DescriptorArgument") -> ArrayArgument:
    return given.base if isinstance(given, DescriptorArgument) else given


def descriptor_argument(what: str, given: TensorDescriptor, base: ArrayArgument) -> DescriptorArgument:
    """TypeError; ValueError for a descriptor that leads out of its array. What depends on the block is looked at by as_triton."""
    shape, strides = (_lengths(f"{what}: {name}", getattr(given, name)) for name in ("shape", "strides"))
    if min(strides, default=0) < 0 or sum((length - 1) * stride for length, stride in zip(shape, strides)) >= max(1, base.size):
        raise ValueError(f"{what}: a descriptor of shape {shape} with strides {strides} leads out of its array {list(base.shape)}")
    return DescriptorArgument(base, shape, strides, given.padding, bool(given.round_f32_to_tf32), given.block_shape)


def blocks_of(what: str, arguments: Mapping[str, Any], keywords: Mapping[str, Any]) -> "Tuple[Tuple[str, Tuple[int, ...]], ...]":
    """The block of each descriptor for these metaparameters. TypeError; ValueError for what Triton's own descriptor refuses."""
    blocks = []
    for name, one in arguments.items():
        if isinstance(one, DescriptorArgument):
            given = one.block_shape(dict(keywords)) if callable(one.block_shape) else one.block_shape
            block = _lengths(f"{what}: {name}: block_shape", given)
            try:
                as_triton(one, block)
            except (AssertionError, TypeError, ValueError) as why:
                raise ValueError(f"{what}: {name}: {why}") from None
            blocks.append((name, block))
    return tuple(blocks)


def as_triton(argument: DescriptorArgument, block: Tuple[int, ...]) -> Any:
    """Triton's own, which its binder takes."""
    from triton.tools import tensor_descriptor
    rounds = {"round_f32_to_tf32": True} if argument.round_f32_to_tf32 else {}
    return tensor_descriptor.TensorDescriptor(_Base(argument.base), list(argument.shape), list(argument.strides), list(block), argument.padding,
                                              **rounds)


class _Type(str):
    """The name of a type, with what Triton asks of PyTorch's. A text, as _specialization has it."""
    itemsize: int
    is_floating_point: bool


class _Base:

    def __init__(self, array: ArrayArgument) -> None:
        self.dtype = _Type(array.dtype.name)
        self.dtype.itemsize = array.element_size()
        self.dtype.is_floating_point = "float" in array.dtype.name

    def data_ptr(self) -> int:
        return 0  # a multiple of 16


def _lengths(what: str, given: Any) -> Tuple[int, ...]:
    try:
        return tuple(operator.index(one) for one in given)
    except TypeError:
        raise TypeError(f"{what}: {given!r} is no list of whole numbers that are known while the program is built") from None


# --- As a kernel takes it --------------------------------------------------------------------------------------------


def is_descriptor(type_name: str) -> bool:
    return type_name.startswith("tensordesc")


def passed_types(type_name: str, is_map: bool) -> "List[str]":
    """Of the parameters that a descriptor stands for. is_map: a tensor map by value; otherwise pointers and lengths, where a target has no
    TMA."""
    from triton.tools import tensor_descriptor
    element, _, lengths = type_name.removeprefix("tensordesc<").partition("[")
    rank = lengths.partition("]")[0].count(",") + 1
    flags = 1 + hasattr(tensor_descriptor.TensorDescriptor, "round_f32_to_tf32")
    first = [type_name] if is_map else [f"*{element}", *["i64"] * (2 * rank), *["i1"] * flags]
    return [*first, *["i32"] * rank, *["i64"] * rank]
