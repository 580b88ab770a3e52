"""The ptxas that a request names, in the words that the daemon understands."""

import errno
import functools
import os
import stat
from typing import Dict, Union

from kiln import _files, _validate
from kiln._signals import from_handler
from kiln.errors import InvalidArgumentError

_NAMED_MAX = 256
# By the digest, those that requests have named by their paths.
_named: Dict[str, str] = {}


def selector(given: "Union[str, os.PathLike[str]]") -> str:
    """For a path, which is a str with a '/' or an os.PathLike, the SHA-256 of the file: the daemon may have the same bytes
    elsewhere. Anything else as it is. InvalidArgumentError."""
    if isinstance(given, os.PathLike):
        return _digest_at(os.fsdecode(given))
    word = given if isinstance(given, str) and "/" in given else _validate.text(
        given, "ptxas", "such as 'ptxas==13.0.88', the 64 hex digits of the file's SHA-256, or its path")
    return _digest_at(word) if "/" in word else word


def with_path(message: str) -> str:
    """The same refusal with the file in it, where the daemon has no ptxas of that digest and a request of this process got it from one."""
    for digest, path in list(_named.items()):
        if digest in message:  # in full it is what was asked for; of those that are there it has the first digits
            return (f"{path}: the daemon has no ptxas of these bytes; where it is one, 'kiln toolchain add ptxas --path DIR' with its "
                    f"directory adds it: {message}")
    return message


def _digest_at(path: str) -> str:
    try:
        info = os.stat(path)
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # Not by access(2), which says no on a file system without programs too: it is the daemon that runs one.
        if not stat.S_ISREG(info.st_mode) or not info.st_mode & 0o111:
            raise InvalidArgumentError(f"ptxas: {path!r} is no program: it may not be executed")
        digest = _digest_of(_files.File.of(path, info))
    except OSError as error:
        if from_handler(error):
            raise
        raise InvalidArgumentError(f"ptxas: {path!r}: {error.strerror}") from None
    except ValueError as error:  # a NUL in it, or what no path has
        if from_handler(error):
            raise
        raise InvalidArgumentError(f"ptxas: {path!r}: {error}") from None
    if len(_named) >= _NAMED_MAX:
        _named.clear()
    _named[digest] = path
    return digest


# All requests of a job name the same one, and it takes 30 MB of reading.
@functools.lru_cache(maxsize=64)
def _digest_of(file: _files.File) -> str:
    return _files.sha256(file.path)
