"""Has kernels of different folders be one kernel: a stand-in takes the place of the folders that KILN_BASEDIRS names.

docs/adr/0075 has the reasons.
"""

import functools
import os
import re
from typing import Optional, Tuple

from kiln._plugin.settings import Settings

_STAND_IN = "/KILN_BASEDIR"
# What Triton's front end, which is not Python, takes for "on".
_ON = ("1", "on", "true")


def rewritten_text(text: str, settings: Settings) -> str:
    """MLIR's text of a module with the stand-in in its locations: strings that a line and a column follow. Nothing else of that form
    is in such a text, since MLIR escapes quotes within strings."""
    folders = _folders(settings)
    return text if not folders else _in_locations(folders).sub(f'"{_STAND_IN}/', text)


def name_in_key(file: str, settings: Optional[Settings] = None) -> str:
    """What of the name of a source file decides what becomes of it; without settings, what decides the files that Triton itself
    makes of it."""
    if os.environ.get("TRITON_DISABLE_LINE_INFO", "").lower() in _ON:
        return ""  # then there are no locations
    if settings is None:
        return file
    folder = next((one for one in _folders(settings) if file.startswith(f"{one}/")), None)
    return file if folder is None else _STAND_IN + file[len(folder):]


def _folders(settings: Settings) -> Tuple[str, ...]:
    if settings.basedirs is None:
        return ()
    # Inductor itself sets the variable before it writes a kernel.
    return _spellings((*settings.basedirs, os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")))


@functools.lru_cache(maxsize=16)
def _spellings(named: Tuple[str, ...]) -> Tuple[str, ...]:
    """The folders as they are named and without links, the longest first: it is the one that counts."""
    absolute = [os.path.normpath(path) for path in named if os.path.isabs(path)]
    spelled = {path.rstrip("/") for one in absolute for path in (one, os.path.realpath(one))}
    return tuple(sorted(spelled - {""}, key=len, reverse=True))


@functools.lru_cache(maxsize=16)
def _in_locations(folders: Tuple[str, ...]) -> "re.Pattern[str]":
    return re.compile(f'"(?:{"|".join(re.escape(_escaped(folder)) for folder in folders)})/(?=[^"]*":[0-9]+:[0-9]+)')


def _escaped(path: str) -> str:
    """As MLIR writes it within a string."""
    return "".join(r"\\" if byte == ord("\\") else chr(byte) if 0x20 <= byte < 0x7f and byte != ord('"') else f"\\{byte:02X}"
                   for byte in os.fsencode(path))
