"""Which compiler this process runs: the toolchain's fingerprint, as docs/toolchains.md defines it, Triton's own key for
itself, and the ptxas's digest.

A version is no identity: a patched file, a nightly build or another wheel has the same one and makes other code. So the
bytes are hashed, half a gigabyte once per user and installation, and remembered under what stat(2) says of each file.
"""

import contextlib
import functools
import hashlib
import os
import sys
import threading
import time
from typing import Any, Callable, Iterator, List

from kiln import _files
from kiln._plugin.file_lock import locked_within
from kiln._signals import from_handler, suppressed

_LEFT_OUT_FOLDERS = ("__pycache__", "include", "profiler", "lib/cupti")
_LEFT_OUT_NAMES = frozenset({"cuobjdump", "nvdisasm", "FileCheck", "libproton.so"})
_LEFT_OUT_ENDS = (".pyc", ".a", ".h")
_SMALL_BYTES = 4 << 20  # hashed as fast as it could be remembered
_LOCK_SECONDS_MAX = 5.0
_VALUE_LENGTH_MAX = 1 << 20


# PF_FORKNOEXEC of Linux: a process that was forked and has run no program since.
_FORKED_ONLY = 0x40
# How the daemon's worker calls Triton, which decides the bytes beside the files: kTritonCall in daemon/toolchain/toolchain_files.cc.
_TRITON_CALL = 3


class ChangedError(Exception):
    """Files changed, or may have, after this process had loaded some, so nobody knows which of the two it has."""


@functools.lru_cache(maxsize=None)
def toolchain_fingerprint() -> str:
    """64 hex digits that name this process's Triton. ChangedError; OSError where a file cannot be read."""
    import triton
    package = os.path.dirname(os.path.abspath(triton.__file__))
    python = f"{sys.version_info.major}.{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    version = _distribution_version(package)

    preamble = f"kiln-toolchain-{_TRITON_CALL}\npython {python}\ntriton {version}\n"

    def fingerprint(files: List[_files.File]) -> str:
        whole = hashlib.sha256(preamble.encode())
        for file in files:
            # A name is bytes, of whatever encoding.
            whole.update(f"{_files.sha256(os.path.join(package, file.path))}  ".encode() + os.fsencode(file.path) + b"\n")
        return whole.hexdigest()

    return _of_installation(package, f"{preamble}{package}\n", fingerprint)


def triton_key(compute: Callable[[], str], beside: Callable[[], Any]) -> str:
    """What `compute`, Triton's function of that name, makes of the files of this process's Triton. ChangedError; OSError. Where it is
    not remembered, `beside` runs meanwhile, and nobody hears of what it raises."""
    import triton
    package = os.path.dirname(os.path.abspath(triton.__file__))

    def value(_: List[_files.File]) -> str:
        with _running(beside):
            return compute()

    return _of_installation(package, f"key\n{package}\n", value)


@contextlib.contextmanager
def _running(work: Callable[[], Any]) -> Iterator[None]:
    """In a thread of its own, which has ended afterwards."""

    def run() -> None:
        with contextlib.suppress(Exception):
            work()

    thread = threading.Thread(target=run, name="kiln-prepare")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _of_installation(package: str, what: str, compute: Callable[[List[_files.File]], str]) -> str:
    files = _files_at_first(package)
    listing = what + "".join(" ".join(map(str, file)) + "\n" for file in files)

    def value() -> str:
        computed = compute(files)
        if _list_files(package) != files:
            raise ChangedError("its files changed while they were read")
        return computed

    return _remembered(listing, value)


def file_digest(path: str) -> str:
    """The SHA-256 of a file, 64 hex digits."""
    return _digest_of(_files.File.of(path, os.stat(path)))


@functools.lru_cache(maxsize=4096)
def _digest_of(file: _files.File) -> str:
    if file.size <= _SMALL_BYTES:
        return _files.sha256(file.path)
    return _remembered("file\n" + " ".join(map(str, file)) + "\n", lambda: _files.sha256(file.path))


@functools.lru_cache(maxsize=None)
def _files_at_first(package: str) -> List[_files.File]:
    """As they were when this process first looked, which it has loaded. ChangedError; OSError."""
    files = _list_files(package)
    _check_unchanged(files)
    return files


def _list_files(package: str) -> List[_files.File]:
    """Those that can decide what comes out, in the order of their paths' bytes."""
    found = []
    for folder, _, names in os.walk(package, followlinks=True):
        inside = os.path.relpath(folder, package)
        prefix = "" if inside == "." else inside + "/"
        for name in names:
            path = prefix + name
            if _decides_output(path) and os.path.isfile(os.path.join(package, path)):
                found.append(_files.File.of(path, os.stat(os.path.join(package, path))))
    return sorted(found, key=lambda file: os.fsencode(file.path))


def _decides_output(path: str) -> bool:
    if any(f"/{folder}/" in f"/{path}" for folder in _LEFT_OUT_FOLDERS):
        return False
    name = path.rpartition("/")[2]
    return name not in _LEFT_OUT_NAMES and not name.endswith(_LEFT_OUT_ENDS)


def _distribution_version(package: str) -> str:
    """That of the installed distribution that lists the package."""
    parent = os.path.dirname(package)
    for entry in sorted(os.listdir(parent)):
        if not entry.endswith(".dist-info") or "triton" not in entry:
            continue
        with suppressed(OSError), open(os.path.join(parent, entry, "RECORD"), encoding="utf-8") as record:
            if any(line.startswith("triton/__init__.py,") for line in record):
                return entry[:-len(".dist-info")].rpartition("-")[2]
    return "unknown"


def _check_unchanged(files: List[_files.File]) -> None:
    if _STARTED_AT is None:
        raise ChangedError("nobody can say when the program had started that this process was forked of")
    if max(file.changed_ns for file in files) / 1e9 > _STARTED_AT:
        raise ChangedError("its files changed after this program had started")
    if not _is_mapped(sys.modules["triton._C.libtriton"].__file__ or ""):
        raise ChangedError("the files that this program has loaded are not those that it would load now")


def _is_mapped(path: str) -> bool:
    """Whether the file that lies there now is one of those in this process's memory. By its name, which is another, or said to be deleted,
    where it has been replaced, or a link on its way leads elsewhere: of an overlay the kernel tells other inodes than stat(2). Or by
    its inode, where it has several names."""
    info, name = os.stat(path), os.fsencode(os.path.realpath(path))
    place = [b"%02x:%02x" % (os.major(info.st_dev), os.minor(info.st_dev)), b"%d" % info.st_ino]
    with open("/proc/self/maps", "rb") as maps:
        return any(fields[5:] == [name] or fields[3:5] == place for fields in (line.rstrip(b"\n").split(None, 5) for line in maps))


def _start_of_program(processes: str = "/proc") -> "float | None":
    """When the program was started that this process runs, or some time before that; seconds since 1970. None where the kernel does not
    tell. A forked child has all that was loaded before the fork, so its own start says nothing: then it is that of the next process
    above it that has run a program of its own. Where the parent has ended that is another one above it, which started earlier still."""
    try:
        process, started = "self", sys.maxsize
        while True:
            with open(f"{processes}/{process}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            if int(fields[19]) > started:
                return None  # another process, whose number was that of the parent
            process, flags, started = fields[1], int(fields[6]), int(fields[19])
            if not flags & _FORKED_ONLY:
                return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + started / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError) as error:
        if from_handler(error):
            raise
        return None


# Computed here, as a forked child runs what its parent has loaded.
_STARTED_AT = _start_of_program()


# --- What is remembered ----------------------------------------------------------------------------------------------


def _remembered(listing: str, compute: Callable[[], str]) -> str:
    """What `compute` gives for these files, out of the user's cache where it stands there. One process computes it and the
    others wait for it; where there is no directory to be trusted, each computes."""
    try:
        folder = _cache_folder()
    except OSError as error:
        if from_handler(error):
            raise
        return compute()
    path = os.path.join(folder, hashlib.sha256(os.fsencode(listing)).hexdigest())
    return _read(path) or _first(path, compute)


def _first(path: str, compute: Callable[[], str]) -> str:
    with _locked(path):
        value = _read(path)  # which another process may have computed meanwhile
        if not value:
            value = compute()
            _write(path, value)
        return value


def _cache_folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(base, "kiln", "fingerprints")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    info = os.stat(folder)
    if info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise PermissionError(folder)
    return folder


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    try:
        descriptor = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if from_handler(error):
            raise
        yield  # a full disk: each computes
        return
    try:
        with locked_within(descriptor, _LOCK_SECONDS_MAX):  # without it, this process computes as well
            yield
    finally:
        os.close(descriptor)


# A file has a line with the SHA-256 of the value, then the value.


def _read(path: str) -> str:
    with suppressed(OSError, ValueError), open(path, encoding="ascii") as file:
        digest, _, value = file.read(_VALUE_LENGTH_MAX).partition("\n")
        if digest == hashlib.sha256(value.encode()).hexdigest():
            return value
    return ""


def _write(path: str, value: str) -> None:
    part = f"{path}.tmp.{os.getpid()}"
    with suppressed(OSError, ValueError):  # ValueError: it is not ASCII
        with open(part, "w", encoding="ascii") as file:
            file.write(hashlib.sha256(value.encode()).hexdigest() + "\n" + value)
        os.replace(part, path)
