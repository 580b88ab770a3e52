"""Lays the arguments of one kernel's launches into memory, as kiln_launch_enqueue takes them.

A frame is the memory of one launch: a kiln_launch_config, the values behind it, and a pointer to each value. Making one takes
longer than launching, so they are kept and taken in turns; what is in one counts only until the launch has been made.
"""

import ctypes
import struct
from typing import List, Sequence, Tuple

from kiln._launch.library import Config
from kiln._launch.parameters import Kind, layout

_ALIGNMENT = 64
_CONFIG_BYTES = ctypes.sizeof(Config)
# From behind the size: grid, block, shared memory, pdl, cooperative; stream; no argument_bytes.
_CONFIG_FORMAT = "<9IQ8x"
_CONFIG_OFFSET = Config.grid.offset
assert struct.calcsize(_CONFIG_FORMAT) == _CONFIG_BYTES - _CONFIG_OFFSET and Config.stream.offset == _CONFIG_OFFSET + 36
_VALUES_OFFSET = -(-_CONFIG_BYTES // _ALIGNMENT) * _ALIGNMENT


class Frame:
    """buffer: where pack_into writes. call: what kiln_launch_enqueue takes, as ctypes' own objects."""

    def __init__(self, handle: int, offsets: Sequence[int], size: int) -> None:
        raw = ctypes.create_string_buffer(size + _ALIGNMENT)
        skip = -ctypes.addressof(raw) % _ALIGNMENT
        self.buffer = memoryview(raw)[skip:skip + size]
        address = ctypes.addressof(raw) + skip
        self._pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(address + offset for offset in offsets))
        struct.pack_into("<I", self.buffer, 0, _CONFIG_BYTES)
        self.call = (ctypes.c_void_p(handle), ctypes.c_void_p(address), ctypes.c_void_p(ctypes.addressof(self._pointers)),
                     ctypes.c_uint32(len(offsets)))


class Packer:
    """Of one kernel. Thread-safe."""

    def __init__(self, handle: int, kinds: "Tuple[Kind, ...]") -> None:
        values, offsets, size = layout(kinds)
        self._handle = handle
        self._offsets = [_VALUES_OFFSET + offset for offset in offsets]
        self._size = _VALUES_OFFSET + max(size, 1)
        self._frames: List[Frame] = []
        gap = _VALUES_OFFSET - _CONFIG_BYTES
        # pack_into(frame.buffer, OFFSET, grid x, y, z, block x, y, z, shared bytes, pdl, cooperative, stream, *values)
        self.pack_into = struct.Struct(f"{_CONFIG_FORMAT}{gap}x{values}").pack_into

    OFFSET = _CONFIG_OFFSET

    def take(self) -> Frame:
        """To be given back when the launch has been made; one that is not is made anew."""
        try:
            return self._frames.pop()
        except IndexError:
            return Frame(self._handle, self._offsets, self._size)

    def give_back(self, frame: Frame) -> None:
        self._frames.append(frame)
