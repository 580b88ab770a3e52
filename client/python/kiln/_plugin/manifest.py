"""What a job asked for, as lines that `kiln warm` and `kiln compile --requests` take."""

import fcntl
import hashlib
import json
import os
import threading
from typing import Any, Dict

from kiln import _process
from kiln._plugin.settings import LOG
from kiln.request import CompileRequest


class Manifest:
    """A file to which all processes of a job append, each kernel once for each process. Thread-safe."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._written: Dict[bytes, None] = {}
        self._has_failed = False
        self.reset_after_fork()
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()

    def add(self, request: CompileRequest) -> None:
        """A disk that does not take it is named in the log, once: the job goes on."""
        line = manifest_line(request)
        digest = hashlib.sha256(line).digest()
        with self._lock:
            if digest in self._written or self._has_failed:
                return
            self._written[digest] = None
            try:
                self._append(line)
            except OSError as error:
                self._has_failed = True
                LOG.warning("kiln: nothing more is recorded in %s: %s", self._path, error.strerror)

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # lines are longer than what is appended in one piece
            while line:
                line = line[os.write(descriptor, line):]
        finally:
            os.close(descriptor)


def manifest_line(request: CompileRequest) -> bytes:
    """One request, source included."""
    source = request.source if isinstance(request.source, str) else request.source.decode()
    fields: Dict[str, Any] = {
        "name": request.name,
        "source": source,
        "kind": request.kind,
        "target": request.target,
        "options": dict(request.options),
        "toolchain": request.toolchain,
        "ptxas": request.ptxas,
    }
    return json.dumps({name: value for name, value in fields.items() if value}, separators=(",", ":")).encode() + b"\n"
