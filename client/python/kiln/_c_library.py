"""Kiln's libraries through ctypes: functions without their prefix, structs that begin with their size, the last error's words."""

import ctypes
import os
from ctypes import c_char_p, c_int32, c_uint32, c_void_p
from typing import Any, Mapping, Optional, Sequence, Tuple

# kiln_launch_code, which kiln_graph.h takes over.
_CODES = {
    3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED", 9: "FAILED_PRECONDITION",
    12: "UNIMPLEMENTED", 13: "INTERNAL", 14: "UNAVAILABLE", 15: "DATA_LOSS"
}


class _Sized(ctypes.Structure):
    def __init__(self, **fields: Any) -> None:
        super().__init__(size=ctypes.sizeof(self), **fields)


def struct(name: str, /, **fields: Any) -> Any:
    """A struct that begins with its size, or as many of its first members as Python needs."""
    return type(name, (_Sized,), {"_fields_": [("size", c_uint32), *fields.items()]})


def code_name(code: int) -> str:
    return _CODES.get(code, "UNKNOWN")


class CLibrary:
    """The library beside the package (wheel, build), otherwise the system's; OSError if it cannot be opened.

    Thread-safe; calls release Python's lock. Each thread has its own last error.
    """

    def __init__(self, file: str, prefix: str, functions: "Mapping[str, Tuple[Any, ...]]", closes: Sequence[str]) -> None:
        beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), file)
        self._c = ctypes.CDLL(beside if os.path.exists(beside) else file)
        self._prefix = prefix
        self._error = self._declared("error", (), c_char_p)
        self._functions = {name: self._declared(name, arguments) for name, arguments in functions.items()}
        self._closes = {name: self._declared(name, (c_void_p,), None) for name in closes}

    def close(self, name: str, handle: Any) -> None:
        self._closes[name](handle)

    def words(self) -> str:
        """Those of this thread's last error."""
        return (self._error() or b"").decode(errors="replace") or "there is no memory for words about it"

    def _declared(self, name: str, arguments: Tuple[Any, ...], result: Optional[Any] = c_int32) -> Any:
        function = getattr(self._c, self._prefix + name)
        function.argtypes = arguments
        function.restype = result
        return function
