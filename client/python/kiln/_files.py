"""Identity and digest of files."""

import hashlib
import os
from typing import NamedTuple

_CHUNK_BYTES = 1 << 20


class File(NamedTuple):
    """What stat(2) says of a file. While all fields are equal, the file is unchanged."""
    path: str
    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, path: str, info: os.stat_result) -> "File":
        return cls(path, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev)


def sha256(path: str) -> str:
    """The SHA-256 of a file's content, 64 hex digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
