"""Keys of the user's own namespace, where this user's processes keep files for one another.

Nobody checks the files under a key. So a key names everything that decides them: what Triton's key covers, and what it
leaves out. docs/python.md has the lists.
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
    """The key for files that these values decide. The values must be JSON's."""
    text = json.dumps({"format": _FORMAT, "what": what, **decides}, sort_keys=True)
    return f"triton {what} ".encode() + hashlib.sha256(text.encode()).digest()


def triton_here() -> Dict[str, Any]:
    """What Triton's key leaves out, apart from the source (source_dependencies.py): most of Triton's files and their place, the
    bytes of the ptxas, settings of the language, which files are kept, the encoding. identity.ChangedError; OSError."""
    return {
        "toolchain": identity.toolchain_fingerprint(),
        "package": triton.__path__[0],
        "language": [(name, repr(getattr(knobs.language, name))) for name in sorted(knobs.language.knob_descriptors)],
        "ptxas": [_assembler(name) for name in ("ptxas", "ptxas_blackwell")],
        "binary only": knobs.compilation.store_binary_only,
        "encoding": encoding(),
    }


def encoding() -> str:
    """The encoding in which Triton's cache writes text."""
    return locale.getpreferredencoding(False)


def _assembler(name: str) -> str:
    """Its digest. "" for the toolchain's own, which the fingerprint covers, and for a name that this Triton lacks."""
    if name not in knobs.nvidia.knob_descriptors:
        return ""
    path = getattr(knobs.nvidia, name).path
    return "" if path.startswith(triton.__path__[0] + os.sep) else identity.file_digest(path)
