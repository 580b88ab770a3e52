"""Reads MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md): AMD's code objects describe themselves in it."""

import struct

_NUMBERS = {
    0xCA: ">f", 0xCB: ">d",
    0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# First byte: (how the length is written, what follows).
_SIZED = {
    0xC4: (">B", "bytes"), 0xC5: (">H", "bytes"), 0xC6: (">I", "bytes"),
    0xD9: (">B", "text"), 0xDA: (">H", "text"), 0xDB: (">I", "text"),
    0xDC: (">H", "array"), 0xDD: (">I", "array"),
    0xDE: (">H", "map"), 0xDF: (">I", "map"),
}


def decode(data):
    value, end = _value(data, 0)
    if data[end:].strip(b"\0"):
        raise ValueError(f"{len(data) - end} bytes after the value")
    return value


def _value(data, at):
    first = data[at]
    at += 1
    if first <= 0x7F:
        return first, at
    if first >= 0xE0:
        return first - 0x100, at
    if first <= 0x8F:
        return _sized(data, at, "map", first & 0x0F)
    if first <= 0x9F:
        return _sized(data, at, "array", first & 0x0F)
    if first <= 0xBF:
        return _sized(data, at, "text", first & 0x1F)
    if first in _CONSTANTS:
        return _CONSTANTS[first], at
    if first in _NUMBERS:
        form = _NUMBERS[first]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if first in _SIZED:
        form, kind = _SIZED[first]
        return _sized(data, at + struct.calcsize(form), kind, struct.unpack_from(form, data, at)[0])
    raise ValueError(f"byte {first:#04x} at {at - 1} begins nothing that is known here")


def _sized(data, at, kind, size):
    if kind in ("bytes", "text"):
        if at + size > len(data):
            raise ValueError("ends within a string")
        content = data[at:at + size]
        return (content if kind == "bytes" else content.decode()), at + size
    items = []
    for _ in range(size * (2 if kind == "map" else 1)):
        item, at = _value(data, at)
        items.append(item)
    return (items if kind == "array" else dict(zip(items[::2], items[1::2]))), at
