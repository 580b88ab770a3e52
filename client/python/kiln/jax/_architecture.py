"""For which architecture a kernel was compiled, as its texts and its binary say. Nobody else looks before the program runs."""

import os
import re
import struct
from typing import Any, Iterator, Mapping

_TEXTS = {"ptx": re.compile(r"^\.target\s+sm_(\d+)", re.M), "amdgcn": re.compile(r'^\s*\.amdgcn_target\s+"[^"]*--(gfx\w+)', re.M)}
_ELF_HEADER = struct.Struct("<4s4xB9xH28xI")  # magic, version of the ABI, machine, flags
_CUDA, _AMD = 190, 224
_CUDA_SHIFTS = {7: 0, 8: 8}  # of the SM in the flags, by the ABI's version: ptxas 13 writes the second, and ptxas 12 from SM 100 on
# LLVM's numbers.
_AMD_NAMES = {0x30: "gfx908", 0x3f: "gfx90a", 0x4c: "gfx942", 0x4f: "gfx950", 0x36: "gfx1030", 0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102",
              0x43: "gfx1150", 0x4a: "gfx1151", 0x55: "gfx1152", 0x58: "gfx1153", 0x48: "gfx1200", 0x4e: "gfx1201", 0x49: "gfx1250"}


def check(name: str, wanted: Any, texts: "Mapping[str, Any]", binary: bytes) -> None:
    """ValueError if one says another architecture than the wanted one."""
    for found in _named(texts, binary):
        if found != str(wanted):
            raise ValueError(f"{name}: it was compiled for {found}, not for {wanted}: clear Triton's cache, and have an operator run "
                             f"'kiln evict KEY' with each key that 'kiln ls' shows for {name} and as an own entry of uid {os.getuid()}")


def _named(texts: "Mapping[str, Any]", binary: bytes) -> Iterator[str]:
    for stage, pattern in _TEXTS.items():
        if found := pattern.search(texts.get(stage, "")):
            yield found[1]
    magic, version, machine, flags = _ELF_HEADER.unpack_from(binary.ljust(_ELF_HEADER.size, b"\0"))
    if magic == b"\x7fELF" and machine == _CUDA and version in _CUDA_SHIFTS:
        yield str(flags >> _CUDA_SHIFTS[version] & 0xff)
    elif magic == b"\x7fELF" and machine == _AMD and flags & 0xff in _AMD_NAMES:
        yield _AMD_NAMES[flags & 0xff]
