"""Writes the arguments of a launch into memory, as kiln_launch_enqueue takes them.

A frame is the memory of one launch: a kiln_launch_config, the values behind it, and a pointer to each value. Making a frame
takes longer than a launch, so frames are kept and reused once the launch has been made.
"""

import ctypes
import struct
from typing import List, Sequence, Tuple

from kiln._launch.library import Config
from kiln._launch.parameters import Kind, layout

_ALIGNMENT = 64
_CONFIG_BYTES = ctypes.sizeof(Config)
# The fields after the size: grid, block, shared memory, pdl, cooperative; stream; no argument_bytes, no scratch.
_CONFIG_FORMAT = "<9IQ24x"
_CONFIG_OFFSET = Config.grid.offset
assert struct.calcsize(_CONFIG_FORMAT) == _CONFIG_BYTES - _CONFIG_OFFSET and Config.stream.offset == _CONFIG_OFFSET + 36
_VALUES_OFFSET = -(-_CONFIG_BYTES // _ALIGNMENT) * _ALIGNMENT


class Frame:
    """buffer: for pack_into. call: the arguments of kiln_launch_enqueue, as ctypes objects."""

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
    """The frames of one kernel. Thread-safe."""

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
        """A frame. Give it back after the launch; a frame that is not given back is replaced by a new one."""
        try:
            return self._frames.pop()
        except IndexError:
            return Frame(self._handle, self._offsets, self._size)

    def give_back(self, frame: Frame) -> None:
        self._frames.append(frame)
