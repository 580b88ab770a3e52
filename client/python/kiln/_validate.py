"""Checks the arguments of callers. The error names the field and what it takes, instead of an error of protobuf or the
system."""

import math
import operator
import os
from collections.abc import Iterable
from typing import Any, List, Mapping, Optional, TypeVar, Union

from kiln._signals import suppressed
from kiln.errors import InvalidArgumentError

_T = TypeVar("_T")
_SHOWN_LENGTH_MAX = 80
_JOB_CHARACTERS_MAX = 128
# A year and a day.
_SECONDS_MAX = 366.0 * 86400


def job_of(environment: Mapping[str, str] = os.environ) -> str:
    """The job of a process that names none: KILN_JOB, or the number that Slurm gives a job."""
    name = environment.get("KILN_JOB", "") or environment.get("SLURM_JOB_ID", "")
    return name.encode(errors="replace").decode()[:_JOB_CHARACTERS_MAX]


def mistaken(what: str, given: Any, meant: str) -> InvalidArgumentError:
    """The error for a value of another type."""
    return InvalidArgumentError(f"{what}: {shown(given)} is of type {type(given).__name__}, where {meant} is meant")


def shown(given: Any) -> str:
    """The value for a message, cut if it is long."""
    words = "something that cannot be shown"
    with suppressed(Exception):  # tuples within tuples, thousands of digits
        words = repr(given)
    return words if len(words) <= _SHOWN_LENGTH_MAX else words[:_SHOWN_LENGTH_MAX] + "..."


def text(given: str, what: str, example: str = "") -> str:
    """A str that UTF-8 can say."""
    if not isinstance(given, str):
        raise mistaken(what, given, f"a str{example and ' '}{example}")
    if not given.isascii():
        utf8(given, what)
    return given


def c_text(given: str, what: str) -> bytes:
    """A text for C: without NUL."""
    if "\0" in text(given, what):
        raise InvalidArgumentError(f"{what}: {shown(given)} has a NUL")
    return given.encode()


def utf8(given: str, what: str) -> bytes:
    try:
        return given.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what} has {given[error.start]!r} at position {error.start}, half of a surrogate pair, for which UTF-8 "
                                   "has no bytes: was it read with another encoding, or with errors='surrogateescape'?") from None


def listed(given: "Iterable[_T]", what: str) -> "List[_T]":
    """A sequence. Refuses a single text, which would be taken as a sequence of characters."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise mistaken(what, given, "a list or tuple of such")
    return list(given)


def each(given: "Iterable[_T]", what: str) -> "Iterable[_T]":
    """The same, taken one by one."""
    with suppressed(TypeError):
        if not isinstance(given, (str, bytes)):
            return iter(given)
    raise mistaken(what, given, "a list, an iterator or the like")


def integer(given: int, what: str) -> int:
    """An int of 64 bits. Refuses bool and types that only resemble int."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise mistaken(what, given, "an int")
    if not -2**63 <= given < 2**63:
        raise InvalidArgumentError(f"{what} is {shown(given)}, which does not fit 64 bits")
    return given


def within(given: Any, what: str, *, low: int = 0, end: int = 2**64) -> int:
    """A whole number from `low` to below `end`, NumPy's included."""
    number = _index(given)
    if number is None or isinstance(given, bool):
        raise InvalidArgumentError(f"{what}: {shown(given)} is not a whole number")
    if not low <= number < end:
        raise InvalidArgumentError(f"{what}: {shown(number)} is not a number from {low} to {end - 1}")
    return number


def flag(given: Any, what: str) -> bool:
    number = _index(given)
    if number not in (0, 1):
        raise InvalidArgumentError(f"{what}: {shown(given)} is neither true nor false")
    return bool(number)


def _index(given: Any) -> Optional[int]:
    with suppressed(TypeError):
        return operator.index(given)
    return None


def count(given: int, what: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise InvalidArgumentError(f"{what} is {shown(given)}; it must be a whole number from 1 on")
    return given


def place(given: "Union[str, os.PathLike[str], None]", what: str) -> None:
    """A path, or "" for "" and None."""
    if given is None:
        return
    path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str):
        raise mistaken(what, given, "a str or a path")
    if "\0" in path:
        raise InvalidArgumentError(f"{what} is {shown(path)}; no path has a NUL")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        utf8(path, what)


def user(given: Optional[int], what: str) -> Optional[int]:
    """A uid, or None."""
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 2**32 - 1):
        raise InvalidArgumentError(f"{what} is {shown(given)}; it must be the number of a user")
    return given


def pause(given: float, what: str) -> float:
    """A number of seconds."""
    if not _is_number(given) or not 0 < given <= _SECONDS_MAX:
        raise InvalidArgumentError(f"{what} is {shown(given)}; it must be a number of seconds above 0, and a year at most")
    return given


def timeout(given: Optional[float]) -> Optional[float]:
    """A timeout in seconds. None, and more than a year: no timeout."""
    if given is None:
        return None
    if not _is_number(given) or not 0 <= given < math.inf:
        raise InvalidArgumentError(f"timeout is {shown(given)}; it must be a number of seconds from 0 on, or None for no limit")
    return given if given <= _SECONDS_MAX else None


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool)
