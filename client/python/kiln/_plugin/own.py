"""What this user's processes keep in the daemon for one another, under keys that only the plug-in understands.

Nobody checks what is under a key, so a key names everything that decides it: what Triton's own key covers, and what that leaves
out. docs/python.md has the lists.
"""

import hashlib
import json
import locale
import os
from typing import Any, Dict

import triton
from triton import knobs

from kiln._plugin import identity

BYTES_MAX = 16 << 20  # of one entry
_FORMAT = 2  # of the keys, and of what is under them


def key_of(what: str, **decides: Any) -> bytes:
    """The key for what these values decide, all of them such as JSON has."""
    text = json.dumps({"format": _FORMAT, "what": what, **decides}, sort_keys=True)
    return f"triton {what} ".encode() + hashlib.sha256(text.encode()).digest()


def triton_here() -> Dict[str, Any]:
    """What Triton's key for a kernel leaves out besides the source's (source_dependencies.py): its own files but for some of them and where they are,
    the bytes of the ptxas, of which it knows the version, how its language is set where the program does that, which files are kept, and
    how text becomes bytes. identity.ChangedError; OSError."""
    return {
        "toolchain": identity.toolchain_fingerprint(),
        "package": triton.__path__[0],
        "language": [(name, repr(getattr(knobs.language, name))) for name in sorted(knobs.language.knob_descriptors)],
        "ptxas": [_assembler(name) for name in ("ptxas", "ptxas_blackwell")],
        "binary only": knobs.compilation.store_binary_only,
        "encoding": encoding(),
    }


def encoding() -> str:
    """How Triton's cache writes text."""
    return locale.getpreferredencoding(False)


def _assembler(name: str) -> str:
    """"" where it is the toolchain's own, whose bytes are in the fingerprint, or where this Triton has none of that name."""
    if name not in knobs.nvidia.knob_descriptors:
        return ""
    path = getattr(knobs.nvidia, name).path
    return "" if path.startswith(triton.__path__[0] + os.sep) else identity.file_digest(path)
