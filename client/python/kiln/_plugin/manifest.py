"""Records a job's requests as lines for `kiln record`, `kiln warm` and `kiln compile --requests` (docs/manifest.md)."""

import base64
import functools
import glob
import hashlib
import json
import os
import re
import stat
import sys
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from kiln import _process
from kiln._plugin.file_lock import locked_within
from kiln._plugin.settings import LOG, Settings
from kiln._signals import reraise_from_handler, suppressed
from kiln.request import CompileRequest

if TYPE_CHECKING:
    from kiln.artifact import ArtifactOutput

_LOCK_SECONDS_MAX = 5.0
_INCOMPLETE = ".incomplete"  # behind the path: a file that tells `kiln record` of a failure
_NVIDIA = "/proc/driver/nvidia"
_VERSION = re.compile(r"Kernel Module.*?\s([0-9]+(?:\.[0-9]+)+)\s")
_MODEL = re.compile(r"^Model:\s*(.*\S)", re.M)


class Recording(NamedTuple):
    """A request, and what is known of it. same_ir_targets: the targets for which Triton makes the same IR; empty: not known.
    compile_seconds: 0: not known. is_refused: the compiler refused it."""
    request: CompileRequest
    same_ir_targets: Sequence[str] = ()
    compile_seconds: float = 0.0
    is_refused: bool = False


class Manifest:
    """A file to which all processes of a job append. Each process writes a kernel once. Thread-safe."""

    def __init__(self, path: str, job: str = "") -> None:
        self._path = path
        self._job = job
        self._written: Dict[bytes, None] = {}
        self._has_failed = False
        self.reset_after_fork()
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may compile while its thread is in here
        self._is_appending = False
        self._waiting: List[bytes] = []

    def add(self, recording: Recording) -> None:
        """Logs the first failure to write, leaves a mark for `kiln record`, and records nothing after it. The job goes on."""
        self._add(manifest_line(recording), hashlib.sha256(manifest_line(Recording(recording.request))).digest())

    def add_own(self, key: bytes, files: "Mapping[str, Union[bytes, ArtifactOutput]]") -> None:
        """What this process puts into the own namespace. Failures as of add()."""
        self._add(own_line(key, files), key)

    def _add(self, line: bytes, digest: bytes) -> None:
        with self._lock:
            if self._has_failed:
                return
            if digest not in self._written:
                if not self._written:
                    self._waiting.extend(origin_lines(self._job))
                self._written[digest] = None
                self._waiting.append(line)
            # A signal's handler may add a line while this thread is appending. The loop writes it afterwards.
            while self._waiting and not self._is_appending:
                self._is_appending = True
                try:
                    self._append_first()
                finally:
                    self._is_appending = False

    def _append_first(self) -> None:
        # The line stays in the list until it is written. After a handler's exception the next add() writes it.
        try:
            self._append(self._waiting[0])
        except OSError as error:
            reraise_from_handler(error)
            self._has_failed = True
            self._waiting.clear()
            LOG.warning("kiln: recording to %s stopped: %s", self._path, error.strerror or error)
            with suppressed(OSError):  # an empty file, for which a full disk has room, mostly
                os.close(os.open(self._path + _INCOMPLETE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        else:
            self._waiting.pop(0)

    def _append(self, line: bytes) -> None:
        # O_NONBLOCK: do not wait for a pipe that nobody reads.
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        try:
            # The kernel does not append long lines atomically, so the file is locked.
            with locked_within(descriptor, _LOCK_SECONDS_MAX) as is_locked:
                if not is_locked:
                    raise TimeoutError("it cannot be locked")
                _append_line(descriptor, line)
        finally:
            os.close(descriptor)


def _append_line(descriptor: int, line: bytes) -> None:
    """Writes the whole line or nothing."""
    info = os.fstat(descriptor)
    is_file = stat.S_ISREG(info.st_mode)
    if is_file and info.st_size > 0 and os.pread(descriptor, 1, info.st_size - 1) != b"\n":
        line = b"\n" + line  # a killed process left half a line
    try:
        while line:
            line = line[os.write(descriptor, line):]
    except OSError:
        if is_file:
            os.ftruncate(descriptor, info.st_size)
        raise


def manifest_line(recording: Recording) -> bytes:
    """One request, source included."""
    request = recording.request
    fields: Dict[str, Any] = {name: getattr(request, name) for name in ("name", "source", "kind", "target", "options", "toolchain", "ptxas")}
    recorded = {"same_ir_targets": list(recording.same_ir_targets), "compile_micros": round(recording.compile_seconds * 1e6),
                "refused": recording.is_refused}
    fields["recorded"] = {name: value for name, value in recorded.items() if value}
    return _line({name: value for name, value in fields.items() if value})


def own_line(key: bytes, files: "Mapping[str, Union[bytes, ArtifactOutput]]") -> bytes:
    """One entry of the own namespace, with the fields of kiln.v1.OwnEntry."""
    return _line({"own": {"key": _base64(key), "files": [_own_file(name, content) for name, content in files.items()]}})


def _own_file(name: str, content: "Union[bytes, ArtifactOutput]") -> Dict[str, Any]:
    if isinstance(content, bytes):
        return {"name": name, "content": _base64(content)}
    output = {"key": _base64(bytes.fromhex(content.key)), "stage": content.stage}
    return {"name": name, "digest": _base64(bytes.fromhex(content.digest)), "output": output}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def origin_lines(job: str) -> List[bytes]:
    """What this process is, for people: one line, or none where nothing is known."""
    versions = {name: getattr(sys.modules.get(name), "__version__", "") for name in ("triton", "torch", "jax")}
    versions["driver"] = "".join(_in_files(f"{_NVIDIA}/version", _VERSION)[:1])
    origin = {"job": job, "versions": {name: str(version) for name, version in versions.items() if version}, "devices": _devices()}
    known = {name: value for name, value in origin.items() if value}
    return [_line({"manifest": known})] if known else []


def _devices() -> List[str]:
    """The machine's GPUs, as NVIDIA's driver says; otherwise those of PyTorch, where the job has opened them already."""
    if models := _in_files(f"{_NVIDIA}/gpus/*/information", _MODEL):
        return sorted(set(models))
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            return sorted({torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())})
    except Exception as error:  # whatever PyTorch that is
        reraise_from_handler(error)
    return []


def _in_files(paths: str, pattern: "re.Pattern[str]") -> List[str]:
    """What the pattern finds first in each file. paths: of a glob."""
    found = []
    for path in glob.glob(paths):
        with suppressed(OSError), open(path, encoding="utf-8", errors="replace") as file:
            found += pattern.findall(file.read())[:1]
    return found


def _line(fields: Dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


@functools.lru_cache(maxsize=None)
def _manifest(path: str, job: str) -> Manifest:
    return Manifest(path, job)


def manifest_of(settings: Settings) -> Optional[Manifest]:
    """This process's, in the mode `record`."""
    return _manifest(settings.manifest, settings.job) if settings.mode == "record" else None
