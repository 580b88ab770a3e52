"""What can go wrong, as exceptions: one class for each of gRPC's codes that the daemon uses.

Whoever can compile without Kiln does so after any of them. CompilationError alone says that the compiler
refused the source, so that a local compile would end the same way.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Tuple

if TYPE_CHECKING:
    from kiln.artifact import NearestArtifact
    from kiln.request import CompileRequest

__all__ = [
    "CacheMissError", "CallCancelledError", "CompilationError", "DataLossError", "DeadlineExceededError", "DiagnosticNote",
    "Diagnostics", "FailedPreconditionError", "InternalError", "InvalidArgumentError", "KilnError", "LaunchError", "NotFoundError",
    "PermissionDeniedError", "ResourceExhaustedError", "UnavailableError", "WedgedError", "error_for"
]


@dataclass(frozen=True)
class DiagnosticNote:
    """Where else to look, and why. file: as the compiler names it; "" is the source itself. line, column: from 1; 0: unknown."""
    file: str
    line: int
    column: int
    message: str


@dataclass(frozen=True)
class Diagnostics:
    """Why a source did not compile.

    stage: which one refused ("parse", "ttgir", "cubin", ...). line, column: in the source, from 1; 0: unknown.
    output: the end of what the compiler wrote. key: of the request, 64 hex digits; "" where it is not known.
    notes: what the compiler added to its message; they stand in the output, too.
    """
    stage: str
    message: str
    line: int
    column: int
    output: str
    key: str
    notes: "Tuple[DiagnosticNote, ...]" = ()


class KilnError(Exception):
    """The base of all. `code` is gRPC's name of it; `retry_after_s` seconds after which trying again makes sense,
    or None; `diagnostics` what the compiler said, or None; `key` the request's, 64 hex digits, or "" where the daemon
    did not get as far as computing it."""

    code = "UNKNOWN"

    def __init__(self, message: str, *, diagnostics: Optional[Diagnostics] = None,
                 retry_after_s: Optional[float] = None, code: str = "", key: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.diagnostics = diagnostics
        self.retry_after_s = retry_after_s
        self.key = key
        if code:
            self.code = code

    def __reduce__(self) -> "tuple[object, ...]":
        # Workers hand exceptions to their parents, and the keyword arguments would be lost on the way.
        return (type(self), (self.message,), dict(self.__dict__))


class InvalidArgumentError(KilnError):
    """The request is wrong, whatever is installed."""
    code = "INVALID_ARGUMENT"


class FailedPreconditionError(KilnError):
    """No toolchain there compiles it; the message lists those there are."""
    code = "FAILED_PRECONDITION"


class NotFoundError(KilnError):
    """Not in the cache, and nothing was to be compiled; or no such blob."""
    code = "NOT_FOUND"


class ResourceExhaustedError(KilnError):
    """A limit: the queue is full, or a source too large."""
    code = "RESOURCE_EXHAUSTED"


class DeadlineExceededError(KilnError):
    """The caller's timeout, or the daemon's limit on one compile."""
    code = "DEADLINE_EXCEEDED"


class CallCancelledError(KilnError):
    """The call was cancelled."""
    code = "CANCELLED"


class UnavailableError(KilnError):
    """No daemon, or it went away, is starting or stopping, or does not answer."""
    code = "UNAVAILABLE"


class WedgedError(UnavailableError):
    """There is a daemon and it does not answer. Trying again at once would hang again."""


class PermissionDeniedError(KilnError):
    """The socket does not let this user in, or somebody who is not trusted serves it."""
    code = "PERMISSION_DENIED"


class InternalError(KilnError):
    """The compiler crashed."""
    code = "INTERNAL"


class DataLossError(KilnError):
    """Bytes that do not match their digest; they are never handed out."""
    code = "DATA_LOSS"


class CompilationError(KilnError):
    """The compiler refused the source: `diagnostics` has its words. `code` is INVALID_ARGUMENT, or
    RESOURCE_EXHAUSTED for a kernel that the assembler finds no room for."""
    code = "INVALID_ARGUMENT"


class LaunchError(KilnError):
    """A kernel could not be loaded or launched. `code` is as kiln_launch.h has it: INVALID_ARGUMENT names the argument.

    kernel, key: whose; "" where it is nobody's. driver_result: what the GPU driver returned (a CUresult), whose name is in the
    message; 0: it was not the driver that failed.
    """
    code = "INTERNAL"

    def __init__(self, message: str, *, kernel: str = "", key: str = "", driver_result: int = 0, **more: Any) -> None:
        super().__init__(message, key=key, **more)
        self.kernel = kernel
        self.driver_result = driver_result


class CacheMissError(NotFoundError):
    """KILN_MODE=require, and a kernel would have to be compiled. What does not compile is never stored.

    request: what was asked for; None where it could not even be asked. nearest: what is stored of the same kernel and comes
    closest, with the differences; None where nothing is, or nobody could tell.
    """

    def __init__(self, message: str, *, request: "Optional[CompileRequest]" = None,
                 nearest: "Optional[NearestArtifact]" = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.request = request
        self.nearest = nearest


_CLASSES = {
    kind.code: kind
    for kind in (InvalidArgumentError, FailedPreconditionError, NotFoundError, ResourceExhaustedError,
                 DeadlineExceededError, CallCancelledError, UnavailableError, PermissionDeniedError, InternalError,
                 DataLossError)
}


def error_for(code: str, message: str, diagnostics: Optional[Diagnostics] = None,
              retry_after_s: Optional[float] = None, key: str = "") -> KilnError:
    """The exception for one of gRPC's codes. With any other code than these two the compiler broke instead of
    deciding."""
    is_decision = code in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED") and diagnostics is not None
    kind = CompilationError if is_decision else _CLASSES.get(code, KilnError)
    return kind(message, diagnostics=diagnostics, retry_after_s=retry_after_s, code=code, key=key)
