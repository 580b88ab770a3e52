"""Turns the ptxas of a request into a selector for the daemon."""

import errno
import functools
import os
import stat
from typing import Dict, Union

from kiln import _files, _validate
from kiln._signals import reraise_from_handler
from kiln.errors import InvalidArgumentError

_NAMED_MAX = 256
# Paths that requests named, by the file's digest.
_named: Dict[str, str] = {}


def selector(given: "Union[str, os.PathLike[str]]") -> str:
    """The SHA-256 of the file, for a path (a str with a '/', or an os.PathLike): the daemon may have the same bytes elsewhere.
    Other values are returned as they are. InvalidArgumentError."""
    if isinstance(given, os.PathLike):
        return _digest_at(os.fsdecode(given))
    word = given if isinstance(given, str) and "/" in given else _validate.text(
        given, "ptxas", "such as 'ptxas==13.0.88', the 64 hex digits of the file's SHA-256, or its path")
    return _digest_at(word) if "/" in word else word


def with_path(message: str) -> str:
    """The daemon's refusal, with the path added if this process computed the digest from a file."""
    for digest, path in list(_named.items()):
        if digest in message:  # the message has the full digest only for the ptxas that was asked for
            return (f"{path}: the daemon has no ptxas of these bytes; where it is one, 'kiln toolchain add ptxas --path DIR' with its "
                    f"directory adds it: {message}")
    return message


def _digest_at(path: str) -> str:
    try:
        info = os.stat(path)
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # Not access(2): it also fails on a noexec file system, but the daemon runs its own copy.
        if not stat.S_ISREG(info.st_mode) or not info.st_mode & 0o111:
            raise InvalidArgumentError(f"ptxas: {path!r} is not a program: it is not executable")
        digest = _digest_of(_files.File.of(path, info))
    except (OSError, ValueError) as error:  # ValueError: a NUL, or a character that no path has
        reraise_from_handler(error)
        raise InvalidArgumentError(f"ptxas: {path!r}: {getattr(error, 'strerror', error)}") from None
    if len(_named) >= _NAMED_MAX:
        _named.clear()
    _named[digest] = path
    return digest


# Cached: all requests of a job name the same file of 30 MB.
@functools.lru_cache(maxsize=64)
def _digest_of(file: _files.File) -> str:
    return _files.sha256(file.path)
