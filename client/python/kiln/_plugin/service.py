"""Asks the daemon for kernels, and stops asking while that is of no use: a job never waits for a daemon that is gone.

| case | asked again |
|---|---|
| the daemon is away | every few seconds; costs microseconds |
| the daemon does not answer | after longer and longer pauses; costs a second |
| the daemon cannot compile it (no such toolchain) | after a minute |

docs/adr/0034 has the reasons.
"""

import errno
import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, NamedTuple, Optional, Set, Tuple, Type, Union

import kiln
from kiln import _process
from kiln._hot_files import HotFiles
from kiln._plugin import autotune_prefetch
from kiln._plugin.attempt import attempt
from kiln._plugin.settings import LOG, Settings
from kiln._report import counters
from kiln._signals import reraise_from_handler
from kiln._unreported_uses import OWN, UnreportedUses
from kiln.errors import (CompilationError, DeadlineExceededError, FailedPreconditionError, InvalidArgumentError, KilnError, NotFoundError,
                         PermissionDeniedError, UnavailableError, WedgedError)
from kiln.sockets import Endpoint

if TYPE_CHECKING:
    from kiln._hot import HotReader
    from kiln.artifact import Artifact, ArtifactOutput, NearestArtifact
    from kiln.request import CompileRequest

_AWAY_PAUSE_S = 3.0
_WEDGED_PAUSE_S = 30.0
_WEDGED_PAUSE_MAX_S = 600.0
_UNSUITED_PAUSE_S = 60.0
_NEAREST_TIMEOUT_S = 10.0
_OWN_TIMEOUT_S = 2.0
_OWN_PAUSE_S = 60.0
_SPARE_DESCRIPTORS = 16
_PACKAGE = "google"  # of protobuf
_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")  # a version that install-toolchain takes


class Declined(Exception):
    """No artifact: Triton compiles. reason: for the report. details: the cause behind it, or ""."""

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.details = details

    def again(self) -> "Declined":
        """A copy to keep or raise, without the frames of this one and the values that they hold."""
        one = type(self).__new__(type(self), *self.args)
        one.__dict__.update(self.__dict__)
        return one


class Unsuited(Declined):
    """The daemon has no toolchain that fits."""


class Failed(Declined):
    """The source does not compile. This says nothing about other sources."""

    def __init__(self, error: CompilationError) -> None:
        super().__init__("it does not compile", str(error))
        self.diagnostics = error.diagnostics


class BrokenOff(Declined):
    """The tuning was broken off. This says nothing about the daemon or the kernel."""

    def __init__(self) -> None:
        super().__init__("the tuning was broken off")


class _Pause(NamedTuple):
    """until: nothing is asked before this time.monotonic(). reason, details: for Declined meanwhile."""
    until: float
    reason: str
    details: str

    def check(self, kind: "Type[Declined]" = Declined) -> None:
        if time.monotonic() < self.until:
            raise kind(self.reason, self.details)


_NO_PAUSE = _Pause(0.0, "", "")


class Service:
    """One for each process. Thread-safe; blocks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None
        self._wedged_pause_s = _WEDGED_PAUSE_S
        self._is_away = False
        self._said: Dict[str, None] = {}
        self._own_closed_until: Dict[str, float] = {}
        self._endpoint = Endpoint(server_uid=settings.server_uid, is_plugin=True)
        self._uses = UnreportedUses(self._endpoint)
        self._hot = HotFiles(self._endpoint, self._uses)
        self._reader: Any = None  # a HotReader, once a kernel is asked for
        self.reset_after_fork()
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        """A child connects anew. It keeps what the parent knows of an absent daemon."""
        # Reentrant: a signal's handler may compile while its thread is in here.
        self._lock = threading.RLock()
        self._is_connecting = False
        self._client = None
        self._closed: _Pause = getattr(self, "_closed", _NO_PAUSE)
        self._unsuited: Dict[Tuple[str, str, str], _Pause] = dict(getattr(self, "_unsuited", {}))

    def connect(self) -> None:
        """Connects. Declined if there is no daemon. Call before any longer work."""
        self._connected()

    def prepare(self) -> None:
        """Declined if nothing can be found: there is neither a hot directory nor a daemon. Call before any longer work."""
        if not self._hot.folder and not self._hot.is_there():  # each look there says whether it still is
            self._connected()

    def check(self, target: str) -> None:
        """Declined if it is known that no kernel for that target is to be had now."""
        self._connected()
        for (_, _, unsuited), pause in dict(self._unsuited).items():
            if unsuited == target:
                pause.check(Unsuited)

    def compile(self, request: "CompileRequest") -> "Artifact":
        """The artifact, of the hot directory if it is published. Declined if there is none to be had now; NotFoundError for an
        only-if-cached request alone."""
        what = (request.toolchain, str(request.ptxas), request.target)
        self._unsuited.get(what, _NO_PAUSE).check(Unsuited)
        client = self._client
        if client is None:  # a client looks there itself
            with attempt("to look into the hot directory"):
                if (found := self._hot_reader().find(request)) is not None:
                    return found
            client = self._connected()
        try:
            artifact: "Artifact" = client.compile(request, timeout=self._settings.timeout_s)
            return artifact
        except NotFoundError:
            if request.cache == "only-if-cached":
                raise
            # The daemon has it, but a content was evicted before it was fetched.
            raise Declined("the artifact is gone") from None
        except CompilationError as error:
            # Triton compiles it again and raises its own exception.
            raise Failed(error) from None
        except FailedPreconditionError as error:
            reason, advice = _why_unsuited(client, request)
            words = f"{error}{advice}"
            self._unsuited[what] = _Pause(time.monotonic() + _UNSUITED_PAUSE_S, reason, words)
            self._say(f"the daemon cannot compile for this Triton; {self._otherwise}: {words}")
            raise Unsuited(reason, words) from None
        except UnavailableError as error:
            self._close(client, error)
            raise Declined("the daemon is away", str(error)) from None
        except DeadlineExceededError:
            self._say(f"the daemon took longer than {self._settings.timeout_s:g} s (KILN_TIMEOUT) for a kernel; {self._otherwise}")
            raise Declined("the daemon took too long") from None
        except KilnError as error:
            if autotune_prefetch.is_broken_off():
                raise BrokenOff from None
            self._say(f"the daemon gave no kernel; {self._otherwise}: {error.code}: {error}")
            raise Declined(f"the daemon answered {error.code}", str(error)) from None

    def nearest(self, request: "CompileRequest") -> "Optional[NearestArtifact]":
        """The stored artifact of the same kernel that comes closest; None if there is none, or if the look-up fails."""
        with attempt("to look up the nearest artifact"):
            found: "Optional[NearestArtifact]" = self._connected().nearest(request, timeout=_NEAREST_TIMEOUT_S)
            return found
        return None

    def get_own(self, key: bytes) -> Optional[Dict[str, bytes]]:
        """The files under that key of the own namespace, or None. Declined if the daemon has to be asked and does not answer now."""
        return self.get_all_own([key]).get(key)

    def get_all_own(self, keys: "Iterable[bytes]", tunings: bool = False) -> Dict[bytes, Dict[str, bytes]]:
        """The same for several keys: the files of those that are there. Declined only if none of them is published. tunings: as of a client."""
        found = {key: self._hot.own(key) for key in keys}
        missing = [key for key, files in found.items() if not files]
        if missing:
            try:
                found.update(self._on_own("get", lambda client: client.get_own(missing, timeout=_OWN_TIMEOUT_S, tunings=tunings, job=self._settings.job)))
            except Declined:
                if len(missing) == len(found):
                    raise
        return {key: files for key, files in found.items() if files}

    def note_own_hit(self, seconds: float, size: int) -> None:
        """For the daemon's statistics. seconds: what the compile took. size: of the files, in bytes."""
        self._uses.add_hit(OWN, self._settings.job, seconds, size)

    def put_own(self, key: bytes, files: "Mapping[str, Union[bytes, ArtifactOutput]]", tunings: bool = False) -> None:
        """Stores files under that key. Declined if the daemon does not answer now. tunings: as of a client."""
        started = time.monotonic()
        try:
            self._on_own("put", lambda client: client.put_own({key: files}, timeout=_OWN_TIMEOUT_S, tunings=tunings, job=self._settings.job))
        finally:
            counters().add(time.monotonic() - started)

    def _on_own(self, what: str, ask: Callable[[Any], Any]) -> Any:
        """Asks with a short limit, and pauses after a failure: the own namespace is only a short cut."""
        if time.monotonic() < self._own_closed_until.get(what, 0.0):
            raise Declined("the own namespace is out of use")
        client = self._connected()
        try:
            return ask(client)
        except NotFoundError:  # the entry would refer to an artifact that is gone
            raise Declined("the artifact is gone") from None
        except UnavailableError as error:
            self._close(client, error)
            raise Declined("the daemon is away") from None
        except InvalidArgumentError as error:
            raise Declined(str(error)) from None
        except KilnError as error:  # an older daemon, a full disk, no answer in time, too much at once
            if autotune_prefetch.is_broken_off():
                raise BrokenOff from None
            self._own_closed_until[what] = time.monotonic() + (error.retry_after_s or _OWN_PAUSE_S)
            LOG.debug("kiln: the own namespace is left alone for a while (%s): %s", what, error)
            raise Declined(f"the daemon answered {error.code}") from None

    def _hot_reader(self) -> "HotReader":
        """Imported only now: a process that finds all by Triton's key needs none."""
        if self._reader is None:
            self._reader = _process.imported("kiln._hot").HotReader(self._endpoint, self._uses)
        reader: "HotReader" = self._reader
        return reader

    def _connected(self) -> Any:
        with self._lock:
            if self._client is not None:
                return self._client
            if self._is_connecting:
                raise Declined("this thread is in the middle of connecting")
            self._closed.check()
            began = time.monotonic()
            self._is_connecting = True
            try:
                with self._endpoint.connect()[1] as probe:
                    if 0 < os.sysconf("SC_OPEN_MAX") < probe.fileno() + _SPARE_DESCRIPTORS:
                        raise OSError(errno.EMFILE, "only few file descriptors are left, and Triton needs some")
                # Only now: importing protobuf takes some hundredths of a second.
                self._client = kiln.Client(server_uid=self._settings.server_uid, attempts=1, needs_daemon=True, _began=began, _hot=self._hot_reader())
            except Exception as error:  # protobuf has exceptions of its own for generated code that does not fit
                reraise_from_handler(error)
                if autotune_prefetch.is_broken_off():
                    raise BrokenOff from None
                self._pause(error)
                raise Declined(self._closed.reason, self._closed.details) from None
            finally:
                self._is_connecting = False
            self._welcome()
            return self._client

    def _close(self, client: Any, error: Exception) -> None:
        with self._lock:
            if self._client is not client:
                return  # another thread has noticed
            # Not closed: other threads may be waiting on it.
            self._client = None
            self._pause(error)

    @property
    def _otherwise(self) -> str:
        """For messages: what happens to a kernel that the daemon does not give."""
        if self._settings.mode == "require":
            return "with KILN_MODE=require, a kernel that Triton does not have is an error"
        return "Triton compiles by itself"

    def _pause(self, error: Exception) -> None:
        """Pauses the connection, as long as the error asks for, and logs the first time."""
        pause_s, reason, words = _AWAY_PAUSE_S, "the daemon is away", str(error)
        if isinstance(error, WedgedError):
            pause_s = self._wedged_pause_s
            self._wedged_pause_s = min(2 * pause_s, _WEDGED_PAUSE_MAX_S)
        elif isinstance(error, PermissionDeniedError):
            pause_s = _UNSUITED_PAUSE_S  # does not pass by itself
        elif not isinstance(error, (KilnError, OSError)):
            pause_s, reason = _UNSUITED_PAUSE_S, "the client does not work here"
            words = f"the client does not work here: {type(error).__name__}: {error}"
            if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == _PACKAGE:
                reason = "protobuf is not installed"
                words = f"{error}: install protobuf for {sys.executable}"
        self._closed = _Pause(time.monotonic() + pause_s, reason, words)
        if not self._is_away:
            self._is_away = True
            LOG.warning("kiln: %s; %s until that changes", words, self._otherwise)

    def _welcome(self) -> None:
        self._wedged_pause_s = _WEDGED_PAUSE_S
        if self._is_away:
            self._is_away = False
            LOG.info("kiln: the daemon is back")

    def _say(self, words: str) -> None:
        """Logs each text once."""
        if words not in self._said and len(self._said) < 8:
            self._said[words] = None
            LOG.warning("kiln: %s", words)


def _why_unsuited(client: Any, request: "CompileRequest") -> Tuple[str, str]:
    """What the daemon lacks for the request, by its list of toolchains, and advice."""
    with attempt("to list the toolchains"):  # they are only for people
        there = {one.fingerprint: one for one in client.toolchains(timeout=_NEAREST_TIMEOUT_S)}
        if request.toolchain not in there:
            return "the daemon has no such toolchain", _how_to_add_triton({one.version for one in there.values() if one.name == "triton"})
        backend, architecture, *_ = request.target.split(":")
        if not any(one.backend == backend and architecture in one.architectures for one in there[request.toolchain].backends):
            return f"the daemon's toolchain does not compile for {backend}:{architecture}", ""
        if request.ptxas and request.ptxas not in there:
            return "the daemon has no such ptxas", ""
    return "the daemon has no toolchain that fits", ""


def _how_to_add_triton(there: "Set[str]") -> str:
    """Advice for adding this process's Triton. there: the versions that the daemon has; the same version is another build, or another Python's."""
    triton = sys.modules.get("triton")
    version = getattr(triton, "__version__", "")
    if not version:
        return ""
    ways = []
    if version not in there and _RELEASE.fullmatch(version):
        ways.append(f"'kiln toolchain add triton=={version}' installs the one of PyPI")
    if str(getattr(triton, "__file__", "")).startswith(sys.prefix + os.sep):
        ways.append(f"'kiln toolchain add triton --path {sys.prefix}' has the daemon use this one")
    other = ", of another build or for another Python than the daemon's of that version" if version in there else ""
    return f"; this is Triton {version} for Python {sys.version_info.major}.{sys.version_info.minor}{other}{': ' if ways else ''}{', '.join(ways)}"


_service: Optional[Service] = None


def cancel_calls_of(threads: "Set[int]") -> None:
    """Nobody is going to wait for what these threads of this process ask."""
    client = None if _service is None else _service._client
    if client is not None:
        client._cancel_calls_of(threads)


def service(settings: Settings) -> Service:
    """This process's."""
    global _service
    if _service is None:
        _service = Service(settings)
    return _service
