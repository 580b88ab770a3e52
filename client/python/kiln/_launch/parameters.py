"""Types of kernel parameters: size, alignment, and the Python values that fit."""

import operator
import re
import struct
from dataclasses import dataclass
from typing import Any, Callable, Tuple

_POINTER = re.compile(r"\*|!tt\.ptr<")
_DESCRIPTOR = re.compile(r"(!tt\.)?tensordesc<|nvTmaDesc$")
_INTEGER = re.compile(r"([iusb])(1|8|16|32|64)$")
_BYTES = re.compile(r"b8\[\d+\]$")
_INTEGER_FORMATS = {8: "b", 16: "h", 32: "i", 64: "q"}
_FLOATS = {"fp16": "e", "f16": "e", "fp32": "f", "f32": "f", "fp64": "d", "f64": "d"}
_TENSOR_MAP_BYTES = 128


class Misfit(Exception):
    """The value does not fit the parameter. The text is the reason."""


@dataclass(frozen=True)
class Kind:
    """A type of parameter.

    format: struct's letter, with a count for bytes. size, alignment: in bytes. check: returns the value to pack for an argument,
    or raises Misfit. is_address: arrays fit too. is_plain: struct refuses everything that does not fit, so `check` is called
    only for the message.
    """
    format: str
    size: int
    alignment: int
    check: Callable[[Any], Any]
    is_address: bool = False
    is_plain: bool = True


def kind_of(type_name: str, size: int, is_triton: bool) -> Kind:
    """The kind of a type. size: from the launch library, 0 if it does not know the type. Misfit for a type that Python cannot pass.

    PTX and CUDA C++ do not distinguish signed, unsigned and pointers, so their types take all of these.
    """
    if _POINTER.match(type_name):
        return Kind("Q", 8, 8, _integer(0, 2**64, 64), is_address=True)
    if _DESCRIPTOR.match(type_name):
        return Kind(f"{_TENSOR_MAP_BYTES}s", _TENSOR_MAP_BYTES, 64, _bytes(_TENSOR_MAP_BYTES), is_plain=False)
    integer = _INTEGER.match(type_name)
    if integer or type_name in ("index", "pred"):
        letter, bits = (integer[1], int(integer[2])) if integer else ("i", 64) if type_name == "index" else ("u", 1)
        return _integer_kind(letter, bits, is_triton)
    if type_name in _FLOATS:
        letter = _FLOATS[type_name]
        return Kind(letter, struct.calcsize(letter), struct.calcsize(letter), _float(letter))
    if type_name == "bf16":
        return Kind("H", 2, 2, _bfloat16, is_plain=False)
    if _BYTES.match(type_name) or size > 0:
        return Kind(f"{size}s", size, 16, _bytes(size), is_plain=False)
    raise Misfit(f"type {type_name!r} is not known")


def _integer_kind(letter: str, bits: int, is_triton: bool) -> Kind:
    if bits == 1:
        return Kind("B", 1, 1, _bit, is_plain=False)
    size, code = bits // 8, _INTEGER_FORMATS[bits]
    if not is_triton:
        return Kind(code.upper(), size, size, _any_integer(bits), is_address=bits == 64)
    if letter in "is":
        return Kind(code, size, size, _integer(-2**(bits - 1), 2**(bits - 1), bits))
    return Kind(code.upper(), size, size, _integer(0, 2**bits, bits))


def _whole(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise Misfit(f"{value!r} is not a whole number") from None


def _integer(low: int, end: int, bits: int) -> Callable[[Any], int]:

    def check(value: Any) -> int:
        number = _whole(value)
        if not low <= number < end:
            raise Misfit(f"{number} does not fit {bits} bits{'' if low else ' without a sign'}")
        return number

    return check


def _any_integer(bits: int) -> Callable[[Any], int]:
    in_range = _integer(-2**(bits - 1), 2**bits, bits)
    return lambda value: in_range(value) & (2**bits - 1)


def _bit(value: Any) -> int:
    number = _whole(value)
    if number not in (0, 1):
        raise Misfit(f"{number} is neither true nor false")
    return number


def _number(value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise Misfit(f"{value!r} is not a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise Misfit(f"{value!r} is not a number that fits 64 bits") from None


def _float(letter: str) -> Callable[[Any], float]:

    def check(value: Any) -> float:
        number = _number(value)
        try:
            struct.pack("<" + letter, number)
        except OverflowError:
            raise Misfit(f"{number} does not fit {8 * struct.calcsize(letter)} bits") from None
        return number

    return check


def _bfloat16(value: Any) -> int:
    """The upper half of a float32, rounded to even."""
    number = _float("f")(value)
    bits: int = struct.unpack("<I", struct.pack("<f", number))[0]
    if number != number:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _bytes(size: int) -> Callable[[Any], bytes]:

    def check(value: Any) -> bytes:
        try:
            raw = bytes(memoryview(value))
        except TypeError:
            raise Misfit(f"{value!r} is not {size} bytes") from None
        if len(raw) != size:
            raise Misfit(f"{len(raw)} bytes, it takes {size}")
        return raw

    return check


def layout(kinds: "Tuple[Kind, ...]") -> "Tuple[str, Tuple[int, ...], int]":
    """struct's format for one value of each kind in sequence, the offset of each, and the total size."""
    text, offsets, end = "", [], 0
    for kind in kinds:
        gap = -end % kind.alignment
        text += f"{gap}x" if gap else ""
        offsets.append(end + gap)
        text += kind.format
        end += gap + kind.size
    return text, tuple(offsets), end


def value_of(kind: Kind, raw: bytes) -> Any:
    """The value for which struct gives these bytes. None if the size differs."""
    return struct.unpack("<" + kind.format, raw)[0] if len(raw) == kind.size else None


