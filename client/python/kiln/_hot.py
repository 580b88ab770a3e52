"""Finds artifacts in the hot directory: a hit without a call.

Whatever is wrong with a file or a request is a miss: the daemon is asked. Python has no XXH3 to check a document with, so it must be
JSON with all fields.
"""

import json
import os
import types
from typing import Any, Optional, Sequence, Tuple

from kiln import _process
from kiln._hot_files import EARLIER, HotFiles
from kiln._signals import reraise_from_handler
from kiln._toolchains import Toolchains, Unsure
from kiln._unreported_uses import HOT, UnreportedUses
from kiln.artifact import Artifact
from kiln.request import CompileRequest
from kiln.sockets import Endpoint

_DOCUMENT_FORMAT = 1


class HotReader(HotFiles):
    """One for each client. Thread-safe: what is remembered is replaced as a whole."""

    def __init__(self, endpoint: Endpoint, uses: Optional[UnreportedUses] = None) -> None:
        super().__init__(endpoint, uses)
        self._toolchains: "Tuple[Any, Optional[Toolchains]]" = (None, None)  # with the file's identity

    def find(self, request: CompileRequest) -> Optional[Artifact]:
        """None: the daemon has to be asked, for whatever reason."""
        try:
            toolchains = self.toolchains() if isinstance(request, CompileRequest) else None
            if toolchains is None:
                return None
            key = bytes.fromhex(toolchains.key_of(request))
            artifact = self._artifact(key, request.stages)
        except Exception as error:
            if not isinstance(error, Unsure):
                reraise_from_handler(error)
            return None
        if artifact is not None:
            self.uses.add_hit(HOT, request.job, artifact.provenance.compile_seconds,
                              sum(stage.size_bytes for stage in artifact.stages.values()))
            self.uses.add(key)
        return artifact

    def toolchains(self) -> Optional[Toolchains]:
        """Those that are published. None where there is no hot directory that may be trusted."""
        try:
            if not self.is_there():
                return None
            file = os.lstat(f"{self.folder}/toolchains")
            identity = (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
            known, toolchains = self._toolchains
            if identity != known:
                # Only here: importing protobuf takes some hundredths of a second.
                wire = _process.imported("kiln._wire")
                toolchains = Toolchains(wire.published_toolchains(self.read("toolchains")))
                self._toolchains = (identity, toolchains)
            return toolchains
        except Exception as error:
            reraise_from_handler(error)
            self.folder = ""
            return None

    def _artifact(self, key: bytes, wanted: "Sequence[str]") -> Optional[Artifact]:
        """Raises whatever a file leads to that is damaged, or lacks a wanted stage."""
        text, stages = self.load(key)
        names = wanted or list(stages)
        if not stages.keys() >= set(names):
            binary, earlier = self.load(key, EARLIER)
            if [binary] != [digest for digest, _ in stages.values()]:
                return None  # of another compile of that key, whose files are just being replaced
            stages.update(earlier)
        document = json.loads(text, object_hook=lambda fields: _Document(**fields))
        if document.format != _DOCUMENT_FORMAT:
            raise ValueError("the document is of another format")
        document.provenance.toolchain_fingerprint = bytes.fromhex(document.provenance.toolchain_fingerprint)
        document.key = key
        document.stages = [_Document(stage=name, digest=digest, size_bytes=len(content), content=content)
                           for name in dict.fromkeys(names) for digest, content in [stages[name]]]
        artifact: Artifact = _process.imported("kiln._wire").artifact(document, "hit", "hot")
        return artifact


class _Document(types.SimpleNamespace):
    """An object of the document. Its fields have the names of the messages' fields."""

    def HasField(self, name: str) -> bool:
        return getattr(self, name) is not None
