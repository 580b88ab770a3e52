"""Finds artifacts in the hot directory, where the daemon publishes them as files: a hit without a call.

storage/format.md in Kiln's source describes the files. This reader relies on three things:

* Only a trusted user writes there: owner and mode of the directory and of each file are checked.
* A file appears whole, by rename, and never changes.
* The SHA-256 of each content that is handed out is checked. Python has no XXH3 to check the document with, so it must be JSON with
  all fields.

Whatever is wrong with a file or a request is a miss: the daemon is asked.
"""

import json
import os
import stat
import struct
import types
from typing import Any, Dict, List, Optional, Sequence, Tuple

from kiln import _process
from kiln._signals import reraise_from_handler
from kiln._toolchains import Toolchains, Unsure
from kiln.artifact import Artifact
from kiln.request import CompileRequest
from kiln.sockets import Endpoint

_USES_MAX = 4096  # what the daemon takes at once
_HEADER = struct.Struct("<8sIIQQ32sQQ")  # magic, version, number of stages, size, XXH3, key, offset and size of the document
_STAGE = struct.Struct("<32s32sQQ")  # name, digest, offset, size
_MAGIC, _VERSION, _DOCUMENT_FORMAT = b"KILNART\n", 1, 1
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


class HotReader:
    """One for each client. Thread-safe: what is remembered is replaced as a whole. Blocks as reading from a tmpfs does."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._folder = ""
        self._toolchains: "Tuple[Any, Optional[Toolchains]]" = (None, None)  # with the file's identity
        self.reset_after_fork()
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        """The parent's uses are the parent's to tell."""
        self._uses: "Dict[bytes, None]" = {}

    def find(self, request: CompileRequest) -> Optional[Artifact]:
        """None: the daemon has to be asked, for whatever reason."""
        try:
            toolchains = self.toolchains() if isinstance(request, CompileRequest) else None
            if toolchains is None:
                return None
            key = toolchains.key_of(request)
            content = self._read(f"{key[:2]}/{key}")
            artifact = None if content is None else _artifact(content, key, request.stages)
        except Exception as error:
            if not isinstance(error, Unsure):
                reraise_from_handler(error)
            return None
        if artifact is not None and len(self._uses) < _USES_MAX:
            self._uses[bytes.fromhex(key)] = None
        return artifact

    def take_uses(self) -> "List[bytes]":
        """The keys that were found since this was last called, each once."""
        uses, self._uses = self._uses, {}
        return list(uses)

    def toolchains(self) -> Optional[Toolchains]:
        """Those that are published. None where there is no hot directory that may be trusted."""
        try:
            self._folder = self._folder or os.path.join(os.path.dirname(self._endpoint.find()), "hot")
            folder, file = os.lstat(self._folder), os.lstat(f"{self._folder}/toolchains")
            if not stat.S_ISDIR(folder.st_mode) or not self._is_trusted(folder):
                return None
            identity = (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
            known, toolchains = self._toolchains
            if identity != known:
                content = self._read("toolchains")
                if content is None:
                    return None
                # Only here: importing protobuf takes some hundredths of a second.
                wire = _process.imported("kiln._wire")
                toolchains = Toolchains(wire.published_toolchains(content))
                self._toolchains = (identity, toolchains)
            return toolchains
        except Exception as error:
            reraise_from_handler(error)
            self._folder = ""
            return None

    def _read(self, name: str) -> Optional[bytes]:
        """A file's content. None where there is none, or an untrusted user may have written it."""
        try:
            file = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            reraise_from_handler(error)
            return None
        try:
            info = os.fstat(file)
            return os.read(file, info.st_size) if stat.S_ISREG(info.st_mode) and self._is_trusted(info) else None
        finally:
            os.close(file)

    def _is_trusted(self, info: os.stat_result) -> bool:
        return info.st_uid in (0, os.geteuid(), self._endpoint.server_uid) and not info.st_mode & _WRITABLE


class _Document(types.SimpleNamespace):
    """An object of the document. Its fields have the names of the messages' fields."""

    def HasField(self, name: str) -> bool:
        return getattr(self, name) is not None


def _artifact(file: bytes, key: str, wanted: "Sequence[str]") -> Optional[Artifact]:
    """None where a wanted stage is not in the file. Raises whatever a damaged file leads to."""
    magic, version, count, size, _, its_key, at, length = _HEADER.unpack_from(file)
    if (magic, version, size, its_key.hex()) != (_MAGIC, _VERSION, len(file), key):
        raise ValueError("it is no artifact file of this key and version")
    stages = {}
    for name, digest, begin, bytes_count in _STAGE.iter_unpack(file[_HEADER.size:_HEADER.size + count * _STAGE.size]):
        stage = name.rstrip(b"\0").decode()
        stages[stage] = _Document(stage=stage, digest=digest, size_bytes=bytes_count, content=file[begin:begin + bytes_count])
    names = wanted or list(stages)[-1:]
    if not stages.keys() >= set(names):
        return None
    document = json.loads(file[at:at + length], object_hook=lambda fields: _Document(**fields))
    if document.format != _DOCUMENT_FORMAT:
        raise ValueError("the document is of another format")
    document.provenance.toolchain_fingerprint = bytes.fromhex(document.provenance.toolchain_fingerprint)
    document.key = its_key
    document.stages = [stages[name] for name in dict.fromkeys(names)]
    artifact: Artifact = _process.imported("kiln._wire").artifact(document, "hit", "hot")
    return artifact
