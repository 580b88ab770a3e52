"""Keys of the user's own namespace, where this user's processes keep files for one another.

Nobody checks the files under a key. So a key names everything that decides them: what Triton's key covers, and what it
leaves out. docs/python-reference.md has the lists.
"""

import hashlib
import json
import locale
from typing import Any, Dict

import triton
from triton import knobs

from kiln._plugin import identity

BYTES_MAX = 16 << 20  # of one entry
_FORMAT = 4  # of the keys, and of what is under them


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
        "ptxas": list(identity.assemblers().values()),
        "no line info": knobs.compilation.disable_line_info,
        "binary only": knobs.compilation.store_binary_only,
        "encoding": encoding(),
    }


def encoding() -> str:
    """The encoding in which Triton's cache writes text."""
    return locale.getpreferredencoding(False)
