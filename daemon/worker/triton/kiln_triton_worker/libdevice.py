"""Links a kernel with the functions of NVIDIA's libdevice that it calls, without reading the others.

LLVM reads all 351 functions before it links the one or two that a kernel calls: half the time of a small kernel's compile. Here it reads a
file in which the others are declarations, and passes over their bodies. What it links is the same. docs/adr/0073 has the reasons.
"""

import hashlib
import os

from kiln_triton_worker.libdevice_functions import CALLED, DECLARATION_BITS

PART = "libdevice.bc"


def read_libdevice_in_part(path, llvm):
    """Changes `llvm`, Triton's bindings of LLVM. Does nothing where the libdevice at `path` is not a known one, or these lack something."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:  # this Triton does not compile for NVIDIA
        return
    bits = DECLARATION_BITS.get(hashlib.sha256(content).hexdigest())
    if bits is None or not hasattr(llvm, "link_extern_libs") or not hasattr(llvm.module, "get_functions"):
        return
    declarations = flipped(content, bits.values())
    link = llvm.link_extern_libs

    def link_in_part(module, paths):
        if path not in paths:
            return link(module, paths)
        # Functions that the kernel defines count, too: Triton makes them internal where libdevice defines that name.
        needed = {function.name for function in module.get_functions()} & bits.keys()
        needed |= {CALLED[name] for name in needed & CALLED.keys()}
        with open(PART, "wb") as file:
            file.write(flipped(declarations, map(bits.get, needed)))
        try:
            return link(module, [PART if each == path else each for each in paths])
        finally:
            os.unlink(PART)

    llvm.link_extern_libs = link_in_part


def flipped(content, bits):
    """The same bytes with these bits turned over."""
    changed = bytearray(content)
    for bit in bits:
        changed[bit >> 3] ^= 1 << (bit & 7)
    return changed
