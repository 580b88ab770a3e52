"""The blocking client."""

import contextlib
import random
import threading
import time
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, TypeVar, Union

from kiln import _calls, _process, _validate
from kiln._batch import Batch
from kiln._connection import Connection, deadline_of
from kiln._hot import HotReader
from kiln.artifact import Artifact, ArtifactOutput, NearestArtifact, Toolchain
from kiln.errors import KilnError, ResourceExhaustedError, UnavailableError, WedgedError
from kiln.request import CompileRequest
from kiln.sockets import Endpoint, Place
from kiln.v1 import kernel_service_pb2 as pb

_T = TypeVar("_T")
_IDLE_MAX = 4
_BACKOFF_FIRST_S = 0.02
_BACKOFF_MAX_S = 1.0
_HINT_MAX_S = 30.0


class Client:
    """One daemon's client. Each call under way has a connection of its own; a few idle ones are kept. A forked child makes its own.

    Connects when it is made: UnavailableError where nobody is there, said within `connect_timeout` seconds, unless kernels are published
    and `needs_daemon` is not set, or where somebody is there who does not answer within `answer_timeout`, connecting included;
    PermissionDeniedError where the socket does not let this user in or somebody who is not trusted serves it; InvalidArgumentError where
    an argument makes no sense.

    socket: the path of kilnd.sock. root: a daemon's --root. Without either: $KILN_ROOT, then the usual places.
    server_uid: who may run the daemon, besides root and oneself. attempts: how often a call is made that finds the
    daemon gone, restarting or full; all calls may be repeated without harm. needs_daemon: whether it is an error that nobody is there
    where kernels are published: these are found all the same, and calls for others connect again.

    Every method raises KilnError's subclasses. `timeout` is in seconds and covers the whole call, repeats included;
    None: as long as the daemon lives. Thread-safe.
    """

    def __init__(self, *, socket: Place = "", root: Place = "",
                 server_uid: Optional[int] = None, connect_timeout: float = 0.1, answer_timeout: float = 1.0, attempts: int = 5,
                 needs_daemon: bool = False,
                 _began: Optional[float] = None, _hot: Optional[HotReader] = None) -> None:
        # _began: when looking for the daemon did, for whoever imports this module for it. _hot: whoever has looked there already.
        self._endpoint = Endpoint(socket, root, server_uid, connect_timeout, answer_timeout)
        self._hot = _hot or HotReader(self._endpoint)
        _validate.count(attempts, "attempts")
        self._attempts = attempts
        self.reset_after_fork()
        _process.reset_in_children(self)
        began = time.monotonic() if _began is None else _began
        try:
            self._greet(began)
        except UnavailableError as error:
            # One that does not answer would be waited for with each call.
            if needs_daemon or isinstance(error, WedgedError) or self._hot.toolchains() is None:
                raise

    def _greet(self, began: float) -> None:
        connection = self._take()
        try:
            connection.greet(self._endpoint.greeting_s(began))
        finally:
            self._give_back(connection)

    def reset_after_fork(self) -> None:
        """Not for callers: the child opens a connection of its own when it needs one."""
        # No lock that a signal's handler could find taken: the methods of lists and dicts are atomic.
        self._idle: List[Connection] = []
        self._busy: Dict[Connection, int] = {}  # and the thread of each

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection: CallCancelledError for calls under way. A later call opens a new one."""
        self._hot.uses.tell()
        idle, self._idle = self._idle, []
        for connection in [*idle, *self._busy]:
            connection.cancel()

    @property
    def socket_path(self) -> str:
        """The socket in use."""
        return self._endpoint.find()

    def compile(self, request: CompileRequest, *, timeout: Optional[float] = None) -> Artifact:
        """One kernel: out of the hot directory or the cache, or compiled. CompilationError where the compiler refuses the source. Each
        content has been checked against its digest. What is found in the hot directory needs no daemon."""
        deadline = deadline_of(timeout)
        return self._hot.find(request) or self._asked(request, deadline)

    def _asked(self, request: CompileRequest, deadline: Optional[float]) -> Artifact:
        """The daemon's answer."""
        return self._run(_calls.compiled(request), deadline)

    def compile_many(self, requests: Iterable[CompileRequest], *, timeout: Optional[float] = None,
                     in_flight: int = 64) -> "Iterator[Tuple[int, Union[Artifact, KilnError]]]":
        """Many kernels at once. Yields (index of the request, its artifact or why there is none) as answers come; what is no request
        is answered too.

        `requests` is read here, between the answers, so that never more than `in_flight` are under way. Where the connection
        breaks, what was in flight is answered with that error, and then it is raised. Ending the iteration early cancels
        what is under way.
        """
        _validate.count(in_flight, "in_flight")
        given = _validate.each(requests, "requests")
        deadline = deadline_of(timeout)
        batch = Batch(self._take, self._hot, given, deadline, in_flight)
        try:
            yield from batch.answers()
        finally:
            if batch.connection is not None:
                self._give_back(batch.connection)

    def lookup(self, keys: Sequence[str], *, timeout: Optional[float] = None) -> List[Optional[Artifact]]:
        """Which of these keys (64 hex digits) are stored, in their order; None: not stored. Contents are not fetched."""
        return self._run(_calls.looked_up(keys), deadline_of(timeout))

    def nearest(self, request: CompileRequest, *, timeout: Optional[float] = None) -> Optional[NearestArtifact]:
        """What is stored of the same kernel and comes closest, to say why a request missed the cache. None: nothing is. Compiles
        nothing; takes some tenths of a second where much is stored."""
        return self._run(_calls.nearest(request), deadline_of(timeout))

    def fetch(self, digest: str, *, timeout: Optional[float] = None) -> bytes:
        """A blob by its SHA-256 (64 hex digits), checked against it. NotFoundError."""
        return self._run(_calls.fetched(digest), deadline_of(timeout))

    def get_own(self, keys: Sequence[bytes], *, timeout: Optional[float] = None, tunings: bool = False,
                job: str = "") -> Dict[bytes, Dict[str, bytes]]:
        """Entries of this user's own namespace: the files of each of these keys that is there, by name, in the order in which they
        were put. Only processes of the same uid read and write them. Each content has been checked against its digest. tunings: these are
        times that were measured, which users whom the daemon's operator names (tunings.shared_by) have together. job: whose these are, for
        `kiln record --job`."""
        return self._run(_calls.own(keys, tunings, job), deadline_of(timeout))

    def put_own(self, entries: "Mapping[bytes, Mapping[str, Union[bytes, ArtifactOutput]]]", *,
                timeout: Optional[float] = None, tunings: bool = False, job: str = "") -> None:
        """Stores files under keys of this user's own namespace, each entry in place of what its key had: at most 256 entries of
        16 MiB each, and 17 MiB of them at once. A key (1 to 256 bytes) must name everything that decides what is under it: nobody checks. An ArtifactOutput
        stands for its content and takes no room; once that artifact is gone, the entry is, too. Entries are evicted like artifacts.
        NotFoundError: an artifact does not have such an output any more. ResourceExhaustedError with retry_after_s: this user's
        processes have put too much lately, and the attempts are used up."""
        self._run(_calls.put_own(entries, tunings, job), deadline_of(timeout))

    def toolchains(self, *, timeout: Optional[float] = None) -> List[Toolchain]:
        """The toolchains that are there."""
        return self._run(_calls.toolchains(), deadline_of(timeout))

    def _cancel_calls_of(self, threads: Set[int]) -> None:
        """Nobody is going to wait for what these threads have under way."""
        for connection, thread in list(self._busy.items()):
            if thread in threads:
                connection.cancel()

    def _take(self) -> Connection:
        """An idle connection, or a new one. KilnError."""
        connection = self._pop_idle() or Connection(self._endpoint)
        self._busy[connection] = threading.get_ident()
        if uses := self._hot.uses.take():
            connection.tell("NoteUses", pb.NoteUsesRequest.FromString(uses))
        return connection

    def _pop_idle(self) -> Optional[Connection]:
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread has taken it
                connection = self._idle.pop()
                if connection.is_reusable:
                    return connection
        return None

    def _give_back(self, connection: Connection) -> None:
        # Not in use any more where this is a child by now.
        if self._busy.pop(connection, None) and connection.is_quiet and len(self._idle) < _IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()

    def _run(self, calls: _calls.Calls[_T], deadline: Optional[float]) -> _T:
        return _calls.run(calls, self._call, deadline)

    def _call(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        pause_s = _BACKOFF_FIRST_S
        for attempt in range(1, self._attempts + 1):
            try:
                connection = self._take()
                try:
                    return connection.call(method, message, deadline)
                finally:
                    self._give_back(connection)
            except (UnavailableError, ResourceExhaustedError) as error:
                if attempt == self._attempts or not _is_worth_repeating(error) or not _wait(error, pause_s, deadline):
                    raise
            pause_s = min(2 * pause_s, _BACKOFF_MAX_S)
        raise AssertionError("the last attempt returns or raises")


def _is_worth_repeating(error: KilnError) -> bool:
    if isinstance(error, UnavailableError):
        return not isinstance(error, WedgedError)
    return error.retry_after_s is not None


def _wait(error: KilnError, pause_s: float, deadline: Optional[float]) -> bool:
    """False where there is no time left for it. Random, since a thousand ranks lose the daemon in the same instant; on top of the daemon's
    hint, which is the earliest moment that makes sense, and all of them got the same one."""
    wait_s = min(error.retry_after_s or 0.0, _HINT_MAX_S) + random.uniform(pause_s / 2, pause_s)
    if deadline is not None and time.monotonic() + wait_s >= deadline:
        return False
    time.sleep(wait_s)
    return True
