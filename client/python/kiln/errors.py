"""What can go wrong, as exceptions: one class for each of gRPC's codes that the daemon uses.

A program that can compile without Kiln does so after any of them but CompilationError: there the compiler refused the source,
and a local compile would end the same way.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Tuple

if TYPE_CHECKING:
    from kiln.artifact import NearestArtifact
    from kiln.request import CompileRequest


@dataclass(frozen=True)
class DiagnosticNote:
    """A further place that the compiler names, and why. file: "" is the source itself. line, column: from 1; 0: unknown."""
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
        # Pickling would lose the keyword arguments.
        return (type(self), (self.message,), dict(self.__dict__))


class InvalidArgumentError(KilnError):
    """The request is wrong, whatever is installed."""
    code = "INVALID_ARGUMENT"


class FailedPreconditionError(KilnError):
    """No toolchain there compiles it; the message lists those there are."""
    code = "FAILED_PRECONDITION"


class NotFoundError(KilnError):
    """Not in the cache, for an only-if-cached request; or no such blob."""
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
    """The daemon does not answer. Trying again at once would hang again."""


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

    kernel, key: of the kernel, or "". driver_result: the GPU driver's result (a CUresult), named in the message; 0: the driver did not
    fail.
    """
    code = "INTERNAL"

    def __init__(self, message: str, *, kernel: str = "", key: str = "", driver_result: int = 0, **more: Any) -> None:
        super().__init__(message, key=key, **more)
        self.kernel = kernel
        self.driver_result = driver_result


class CacheMissError(NotFoundError):
    """KILN_MODE=require, and a kernel would have to be compiled. A kernel that does not compile is never stored.

    request: what was asked for; None if no request could be made. nearest: the stored artifact of the same kernel that comes
    closest, with the differences; None if there is none, or if the look-up failed.
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
    """The exception for a code of gRPC. INVALID_ARGUMENT or RESOURCE_EXHAUSTED with diagnostics are a CompilationError; with
    other codes the compiler broke."""
    is_decision = code in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED") and diagnostics is not None
    kind = CompilationError if is_decision else _CLASSES.get(code, KilnError)
    return kind(message, diagnostics=diagnostics, retry_after_s=retry_after_s, code=code, key=key)
