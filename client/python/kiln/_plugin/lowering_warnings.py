"""What Triton warns of while it lowers a kernel: kept with the kernel's files, and said again where these are found.

Triton's modules get a stand-in for Python's `warnings`, which itself stays as it is. Nothing else notices a warning before Python's
filters, and its memory of what it has said, which are those of the process that lowers. docs/adr/0118 has the reasons.
"""

import functools
import json
import sys
import threading
import warnings
from typing import Any, Callable, List, Optional, Tuple

from kiln._plugin.attempt import attempt

_KEPT_MAX = 100  # of one kernel


class _Here(threading.local):
    """The arguments of each warning of this thread since begin(): text, file, line, and the module where that is said."""
    noted: "Optional[List[Tuple[Any, ...]]]" = None


_here = _Here()


def begin() -> None:
    """Call before Triton lowers a kernel in this thread. In a Triton that does not fit, nothing is noted."""
    with attempt("to note what Triton warns of"):
        _replace_warnings()
    _here.noted = []


def end(name_of: Callable[[str], str]) -> bytes:
    """What was said since begin(), for say_again(). b"": nothing. name_of: the name of a file that other folders share."""
    noted, _here.noted = _here.noted, None
    return json.dumps([(text, name_of(file), *more) for text, file, *more in noted[:_KEPT_MAX]]).encode() if noted else b""


def noted() -> "List[Tuple[Any, ...]]":
    """What was said since begin(), for repeat()."""
    return list(_here.noted or ())


def repeat(noted: "List[Tuple[Any, ...]]") -> None:
    """Says it as if this thread lowered the kernel."""
    for text, *place in noted:
        _Warnings.warn_explicit(text, UserWarning, *place)


def say_again(kept: bytes) -> None:
    """Raises a warning that the program has made an error."""
    for text, *place in json.loads(kept) if kept else ():
        warnings.warn_explicit(text, UserWarning, *place)


def _note(message: Any, category: Any, *place: Any) -> None:
    if _here.noted is not None and category in (None, UserWarning):  # while it lowers, Triton hides what is deprecated
        _here.noted.append((str(message), *place))


class _Warnings:
    """In the place of `warnings`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(warnings, name)

    @staticmethod
    def warn(message: Any, category: Any = None, stacklevel: int = 1, *more: Any, **named: Any) -> None:
        caller = sys._getframe(stacklevel)
        _note(message, category, caller.f_code.co_filename, caller.f_lineno, caller.f_globals.get("__name__", ""))
        warnings.warn(message, category, stacklevel + 1, *more, **named)

    @staticmethod
    def warn_explicit(message: Any, category: Any, filename: str, lineno: int, *more: Any, **named: Any) -> None:
        _note(message, category, filename, lineno, *more[:1])
        warnings.warn_explicit(message, category, filename, lineno, *more, **named)


@functools.lru_cache(maxsize=None)
def _replace_warnings() -> None:
    """Replaces Python's `warnings` in Triton's modules, but not what a program has put there. The import of the code generator takes
    20 ms, and Triton makes it only when it lowers."""
    from triton.compiler import code_generator
    from triton.language import core, semantic
    for module in (core, semantic, code_generator):
        if getattr(module, "warnings", None) is warnings:
            module.warnings = _Warnings()
        if getattr(module, "warn", None) is warnings.warn:
            module.warn = _Warnings.warn
