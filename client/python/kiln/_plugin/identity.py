"""Which compiler this process runs: the toolchain's fingerprint (docs/toolchains.md), Triton's key for itself, the ptxas's digest.

A version does not identify a compiler: a patched file, a nightly build or another wheel has the same version and makes
other code. So the bytes are hashed, half a gigabyte once per user and installation. The result is remembered under what
stat(2) says of each file.
"""

import contextlib
import functools
import hashlib
import os
import stat
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator

from kiln import _files
from kiln._plugin.file_lock import locked_within
from kiln._plugin.service import Declined
from kiln._signals import reraise_from_handler, suppressed

_LEFT_OUT_FOLDERS = ("__pycache__", "include", "profiler", "lib/cupti")
_LEFT_OUT_NAMES = frozenset({"cuobjdump", "nvdisasm", "FileCheck", "libproton.so"})
_LEFT_OUT_ENDS = (".a", ".h")
_SMALL_BYTES = 4 << 20  # hashing is as fast as remembering
_LOCK_SECONDS_MAX = 5.0
_VALUE_LENGTH_MAX = 1 << 20
# PF_FORKNOEXEC of Linux: a process that was forked and has run no program since.
_FORKED_ONLY = 0x40
# The number for how the daemon's worker calls Triton: kTritonCall in daemon/toolchain/toolchain_files.cc.
_TRITON_CALL = 4
_ASSEMBLERS = ("ptxas", "ptxas_blackwell")  # knobs of Triton's
# Digests of ptxas that are not the toolchain's, by path.
_assemblers_at_first: Dict[str, str] = {}


class ChangedError(Declined):
    """Files changed, or may have changed, after this process loaded some. Which version it has is not known."""


@functools.lru_cache(maxsize=None)
def toolchain_fingerprint() -> str:
    """64 hex digits that name this process's Triton. ChangedError; OSError if a file cannot be read."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    preamble = f"kiln-toolchain-{_TRITON_CALL}\npython {python}\ntriton {_distribution_version(_package())}\n"

    def fingerprint() -> str:
        whole = hashlib.sha256(preamble.encode())
        for path in _files_at_first():
            # File names are bytes in any encoding.
            whole.update(f"{_files.sha256(os.path.join(_package(), path))}  ".encode() + os.fsencode(path) + b"\n")
        return whole.hexdigest()

    return _of_installation(preamble, fingerprint)


def triton_key(compute: Callable[[], str], beside: Callable[[], Any]) -> str:
    """The result of `compute`, Triton's triton_key, remembered. ChangedError; OSError. While it is computed, `beside` runs in
    another thread; what `beside` raises is dropped."""

    def value() -> str:
        with _running(beside):
            return compute()

    return _of_installation("key\n", value)


@contextlib.contextmanager
def _running(work: Callable[[], Any]) -> Iterator[None]:
    """Runs `work` in another thread while the block lasts, and waits for its end."""

    def run() -> None:
        with contextlib.suppress(Exception):
            work()

    thread = threading.Thread(target=run, name="kiln-prepare")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _of_installation(what: str, compute: Callable[[], str]) -> str:
    files = _files_at_first()
    listing = f"{what}{_package()}\n" + "".join(" ".join(map(str, file)) + "\n" for file in files.values())

    def value() -> str:
        computed = compute()
        if _list_files() != files:
            raise ChangedError("its files changed while they were read")
        return computed

    return _remembered(listing, value)


def check_installed(path: str) -> None:
    """Raises ChangedError unless this is a file of this process's Triton, as it was when the process first looked. OSError."""
    inside = path[len(_package()) + 1:]
    if _files_at_first().get(inside) != _files.File.of(inside, os.stat(path)):
        raise ChangedError(f"{path} is no file of this Triton's, or has changed")


def assemblers() -> Dict[str, str]:
    """By path, the digest of each ptxas that this process may run; "" for the toolchain's own ones in their places, which the
    fingerprint covers. Without those that this Triton lacks. ChangedError if one changed since the process first looked: Triton
    remembers its version. OSError."""
    from triton import knobs
    found: Dict[str, str] = {}
    for knob in filter(None, map(knobs.nvidia.knob_descriptors.get, _ASSEMBLERS)):
        try:
            path = getattr(knobs.nvidia, knob.name).path
        except RuntimeError:  # it cannot be found
            continue
        if path == getattr(knob, "default_path", None) and path not in found:
            check_installed(path)
            found[path] = ""
        else:
            found[path] = file_digest(path)
            if _assemblers_at_first.setdefault(path, found[path]) != found[path]:
                raise ChangedError(f"{path} has changed")
    return found


def file_digest(path: str) -> str:
    """The SHA-256 of a file, 64 hex digits."""
    return _digest_of(_files.File.of(path, os.stat(path)))


@functools.lru_cache(maxsize=4096)
def _digest_of(file: _files.File) -> str:
    if file.size <= _SMALL_BYTES:
        return _files.sha256(file.path)
    return _remembered("file\n" + " ".join(map(str, file)) + "\n", lambda: _files.sha256(file.path))


@functools.lru_cache(maxsize=None)
def _package() -> str:
    import triton
    return os.path.dirname(os.path.abspath(str(triton.__file__)))


@functools.lru_cache(maxsize=None)
def _files_at_first() -> Dict[str, _files.File]:
    """The files as they were when this process first looked: those that it has loaded. ChangedError; OSError."""
    files = _list_files()
    _check_unchanged(files.values())
    return files


def _list_files() -> Dict[str, _files.File]:
    """The files that can decide a result, by path, in the order of the paths' bytes."""
    package, found = _package(), []
    for folder, inside, names in os.walk(package, followlinks=True):
        prefix = f"{folder}/"[len(package) + 1:]
        inside[:] = [name for name in inside if not any(f"/{left_out}/" in f"/{prefix}{name}/" for left_out in _LEFT_OUT_FOLDERS)]
        for name in names:
            if name not in _LEFT_OUT_NAMES and not name.endswith(_LEFT_OUT_ENDS):
                with suppressed(OSError):  # a link to nothing
                    info = os.stat(f"{folder}/{name}")
                    if stat.S_ISREG(info.st_mode):
                        found.append(_files.File.of(prefix + name, info))
    return {file.path: file for file in sorted(found, key=lambda file: os.fsencode(file.path))}


def _distribution_version(package: str) -> str:
    """The version of the installed distribution that lists the package."""
    parent = os.path.dirname(package)
    for entry in sorted(os.listdir(parent)):
        if not entry.endswith(".dist-info") or "triton" not in entry:
            continue
        with suppressed(OSError), open(os.path.join(parent, entry, "RECORD"), encoding="utf-8") as record:
            if any(line.startswith("triton/__init__.py,") for line in record):
                return entry[:-len(".dist-info")].rpartition("-")[2]
    return "unknown"


def _check_unchanged(files: Iterable[_files.File]) -> None:
    if _STARTED_AT is None:
        raise ChangedError("the start of the program that this process was forked from is not known")
    if max(file.changed_ns for file in files) / 1e9 > _STARTED_AT:
        raise ChangedError("its files changed after this program had started")
    if not _is_mapped(sys.modules["triton._C.libtriton"].__file__ or ""):
        raise ChangedError("the files that this program has loaded are not those that it would load now")


def _is_mapped(path: str) -> bool:
    """Whether the file at `path` is mapped by this process. Compared by name: a replaced file shows another name, or "deleted".
    Also by inode, for a file with several names; not by inode alone, since an overlay shows other inodes than stat(2)."""
    info, name = os.stat(path), os.fsencode(os.path.realpath(path))
    place = [b"%02x:%02x" % (os.major(info.st_dev), os.minor(info.st_dev)), b"%d" % info.st_ino]
    with open("/proc/self/maps", "rb") as maps:
        return any(fields[5:] == [name] or fields[3:5] == place for fields in (line.rstrip(b"\n").split(None, 5) for line in maps))


def _start_of_program(processes: str = "/proc") -> "float | None":
    """The start of this process's program, or an earlier moment; seconds since 1970. None if the kernel does not tell.

    A forked child has what its parent loaded, so the start of the nearest ancestor that ran exec counts. If the parent has
    ended, the next ancestor started even earlier.
    """
    with suppressed(OSError, ValueError, IndexError):
        process, started = "self", sys.maxsize
        while True:
            with open(f"{processes}/{process}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            if int(fields[19]) > started:
                return None  # the parent's number belongs to another process now
            process, flags, started = fields[1], int(fields[6]), int(fields[19])
            if not flags & _FORKED_ONLY:
                return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + started / os.sysconf("SC_CLK_TCK")
    return None


# Computed at import: a forked child inherits the value with the modules.
_STARTED_AT = _start_of_program()


# --- What is remembered ----------------------------------------------------------------------------------------------


def _remembered(listing: str, compute: Callable[[], str]) -> str:
    """The result of `compute` for these files, from the user's cache if it is there. One process computes and the others wait.
    Without a cache folder that can be trusted, each computes."""
    try:
        folder = _cache_folder()
    except OSError as error:
        reraise_from_handler(error)
        return compute()
    path = os.path.join(folder, hashlib.sha256(os.fsencode(listing)).hexdigest())
    if value := _read(path):
        return value
    with _locked(path):
        value = _read(path)  # another process may have written it meanwhile
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
        reraise_from_handler(error)
        yield  # a full disk: each computes
        return
    try:
        with locked_within(descriptor, _LOCK_SECONDS_MAX):  # without the lock this process computes too
            yield
    finally:
        os.close(descriptor)


# A file of the cache is a line with the SHA-256 of the value, then the value.


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
