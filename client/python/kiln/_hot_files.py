"""Reads the files that the daemon publishes in the hot directory. Does not import protobuf.

storage/format.md in Kiln's source describes the files. This reader relies on three things:

* Only a trusted user writes there: owner and mode of the directory and of each file are checked.
* A file appears whole, by rename, and never changes.
* The SHA-256 of each content that is handed out is checked, here or by the caller.
"""

import hashlib
import os
import stat
import struct
from typing import Dict, Iterator, Optional, Tuple

from kiln._signals import suppressed
from kiln._unreported_uses import UnreportedUses
from kiln.errors import KilnError
from kiln.sockets import Endpoint, service_uid

EARLIER = ".stages"  # behind the key: the file of the stages before the final binary
_HEADER = struct.Struct("<8sIIQQ32sQQ")  # magic, version, number of stages, size, XXH3, key, offset and size of the document
_STAGE = struct.Struct("<32s32sQQ")  # name, digest, offset, size
_MAGIC, _VERSION = b"KILNART\n", 1
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_OWN_MAGIC = b"KILNOWN\n\1"  # and the version
_OWN_FILE = struct.Struct("<32sQB")  # digest, size, whether it is an artifact's output
_SALT_BYTES = 32
_NUMBER = struct.Struct("<I")
Stages = Dict[str, Tuple[bytes, bytes]]  # digest and content


class HotFiles:
    """Thread-safe. Blocks as reading from a tmpfs does, and as `uses` does, which has each hit."""

    def __init__(self, endpoint: Endpoint, uses: Optional[UnreportedUses] = None) -> None:
        self._endpoint = endpoint
        self.uses = uses or UnreportedUses(endpoint)
        self.folder = ""

    def is_there(self) -> bool:
        """Whether there is a hot directory that may be trusted."""
        with suppressed(KilnError, OSError):
            self.folder = self.folder or os.path.join(os.path.dirname(self._endpoint.find()), "hot")
            info = os.lstat(self.folder)
            return stat.S_ISDIR(info.st_mode) and self._is_trusted(info)
        self.folder = ""
        return False

    def own(self, key: bytes) -> Optional[Dict[str, bytes]]:
        """The files of that key of this user's own namespace. None where the daemon has to be asked."""
        if not self.is_there():
            return None
        record = hashlib.sha256(b"kiln-own-1\n" + _NUMBER.pack(os.geteuid()) + key).digest()[:24] + b"KILN-OWN"
        outputs: "Dict[bytes, Stages]" = {}
        files, at = {}, _SALT_BYTES
        with suppressed(Exception):  # whatever is wrong with a file
            document, stages = self.load(record)
            for name, digest, size, artifact, stage in _own_files(document):
                if artifact:
                    outputs[artifact] = outputs.get(artifact) or self._all_stages(artifact)
                    files[name] = outputs[artifact][stage][1]
                else:
                    files[name] = stages["own"][1][at:at + size]
                    at += size
                if hashlib.sha256(files[name]).digest() != digest:
                    return None
            self.uses.add(record, *outputs)
            return files
        return None

    def _all_stages(self, artifact: bytes) -> Stages:
        _, stages = self.load(artifact)
        with suppressed(OSError):
            stages.update(self.load(artifact, EARLIER)[1])
        return stages

    def load(self, key: bytes, suffix: str = "") -> "Tuple[bytes, Stages]":
        """The document and the stages of an artifact file. Errors as read(); also whatever a damaged file leads to."""
        digits = key.hex()
        file = self.read(f"{digits[:2]}/{digits}{suffix}")
        magic, version, count, size, _, its_key, at, length = _HEADER.unpack_from(file)
        if (magic, version, size, its_key) != (_MAGIC, _VERSION, len(file), key):
            raise ValueError("it is no artifact file of this key and version")
        entries = _STAGE.iter_unpack(file[_HEADER.size:_HEADER.size + count * _STAGE.size])
        return file[at:at + length], {name.rstrip(b"\0").decode(): (digest, file[begin:begin + size]) for name, digest, begin, size in entries}

    def read(self, name: str) -> bytes:
        """A file's content. OSError where there is none, or an untrusted user may have written it."""
        file = os.open(f"{self.folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            info = os.fstat(file)
            if not stat.S_ISREG(info.st_mode) or not self._is_trusted(info):
                raise PermissionError(name)
            return os.read(file, info.st_size)
        finally:
            os.close(file)

    def _is_trusted(self, info: os.stat_result) -> bool:
        is_trusted = info.st_uid in (0, os.geteuid(), self._endpoint.server_uid) or info.st_uid == service_uid()
        return is_trusted and not info.st_mode & _WRITABLE


def _own_files(document: bytes) -> "Iterator[Tuple[str, bytes, int, bytes, str]]":
    """Name, digest and size of each file of an own entry. Of an artifact's output the artifact's key and the stage, too."""
    if not document.startswith(_OWN_MAGIC):
        raise ValueError("it is no own entry of this version")
    _, at = _text(document, len(_OWN_MAGIC) + _NUMBER.size)  # behind the uid: the key
    count, at = _NUMBER.unpack_from(document, at)[0], at + _NUMBER.size
    for _ in range(count):
        name, at = _text(document, at)
        digest, size, is_output = _OWN_FILE.unpack_from(document, at)
        at += _OWN_FILE.size
        artifact, stage = b"", ""
        if is_output:
            artifact = document[at:at + 32]
            stage, at = _text(document, at + 32)
        yield name, digest, size, artifact, stage


def _text(document: bytes, at: int) -> Tuple[str, int]:
    """A text with its length before it, and where it ends. The key is read as one, too, and not looked at."""
    begin = at + _NUMBER.size
    end = begin + _NUMBER.unpack_from(document, at)[0]
    return document[begin:end].decode(errors="replace"), end
