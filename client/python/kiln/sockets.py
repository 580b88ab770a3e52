"""Finds the daemon and checks whether it may be trusted, by libkiln's rules."""

import dataclasses
import errno
import os
import random
import socket
import stat
import struct
import time
from typing import Callable, List, Mapping, Optional, Tuple, Union

from kiln import _validate
from kiln._signals import reraise_from_handler
from kiln.errors import InvalidArgumentError, KilnError, PermissionDeniedError, UnavailableError

Place = Union[str, "os.PathLike[str]"]
_PATH_BYTES_MAX = 107
_CLIENTS_ADVICE = "start kilnd, or say where it is, with socket= (its kilnd.sock), root= (what kilnd --root has) or KILN_ROOT"
_PLUGINS_ADVICE = "start kilnd, or say where it is, with KILN_ROOT (what kilnd --root has)"
_OVERFLOW_UID = 65534  # of every user whom this user namespace does not map
_SAYING_S = 0.05
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
# The light protocol's first bytes, and what a request of it begins with.
PREAMBLE = b"kiln/1\r\n"
_REQUEST = struct.Struct("<IQIB")
_COUNTED = 4  # the length counts what follows it


def frame(number: int, timeout_ms: int, method: int, body: bytes) -> bytes:
    """A request of the light protocol."""
    return _REQUEST.pack(_REQUEST.size - _COUNTED + len(body), number, timeout_ms, method) + body


class _Socket(socket.socket):
    """Closes when nobody holds it, without a ResourceWarning. C code does so, where no signal's handler can raise."""
    __del__ = socket.SocketType.close


@dataclasses.dataclass(frozen=True, eq=False, repr=False)  # making those takes a job half a millisecond
class Endpoint:
    """The place of the daemon, and the limits in seconds for finding it. is_plugin: what is to be done about a failure is said in variables
    of the environment, and not in arguments of a client."""
    socket: Place = ""
    root: Place = ""
    server_uid: Optional[int] = None
    connect_s: float = 0.1
    answer_s: float = 1.0
    is_plugin: bool = False

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError, with the names of a client's arguments."""
        _validate.place(self.socket, "socket")
        _validate.place(self.root, "root")
        _validate.pause(self.connect_s, "connect_timeout")
        _validate.pause(self.answer_s, "answer_timeout")
        _validate.user(self.server_uid, "server_uid")

    def greeting_s(self, began: float) -> float:
        """How long the first answer may take, if the search began at this time.monotonic(): what is left of answer_s, but at least
        half of it, since this process may have been held up itself."""
        return max(began + self.answer_s - _SAYING_S - time.monotonic(), self.answer_s / 2)

    def find(self) -> str:
        """The socket's path. UnavailableError where there is none in any of the places."""
        return find_socket(self.socket, self.root, is_plugin=self.is_plugin)

    def connect(self, within_s: Optional[float] = None) -> "Tuple[str, _Socket]":
        """A connection to a trusted server, and the socket's path. KilnError otherwise, within that time; None: connect_s."""
        path = self.find()
        budget_s = self.connect_s if within_s is None else within_s
        try:
            return path, connected(path, server_uid=self.server_uid, budget_s=budget_s, is_plugin=self.is_plugin)
        except OSError as error:  # this process may open no more files, say
            reraise_from_handler(error)
            raise UnavailableError(f"connect to {path}: {error.strerror or error}") from None


def find_socket(explicit: Place = "", root: Place = "", *, environment: Mapping[str, str] = os.environ,
                uid: Optional[int] = None, exists: Callable[[str], bool] = os.path.exists, is_plugin: bool = False) -> str:
    """`explicit` where it is set; ROOT/run/kilnd.sock for `root` or $KILN_ROOT; otherwise the first that exists of the
    person's and the system's, or the first beside which kernels are published. UnavailableError, naming every place, where none does."""
    if explicit:
        return os.fspath(explicit)
    root = root or environment.get("KILN_ROOT", "")
    if root:
        return f"{root}/run/kilnd.sock"
    candidates = _candidates(environment, os.geteuid() if uid is None else uid)
    for candidate in candidates:
        if exists(candidate):
            return candidate
    for candidate in candidates:  # a daemon that has ended leaves what it published
        if exists(os.path.join(os.path.dirname(candidate), "hot", "toolchains")):
            return candidate
    raise UnavailableError(f"no daemon: there is no socket at {' or '.join(candidates)}: {_advice(is_plugin)}")


def _advice(is_plugin: bool) -> str:
    return _PLUGINS_ADVICE if is_plugin else _CLIENTS_ADVICE


def _candidates(environment: Mapping[str, str], uid: int) -> List[str]:
    # The XDG specification treats an empty variable as unset.
    places = (("XDG_RUNTIME_DIR", "kiln"), ("XDG_STATE_HOME", "kiln/run"), ("HOME", ".local/state/kiln/run"))
    personal = [f"{environment[name]}/{folder}/kilnd.sock" for name, folder in places if environment.get(name)]
    return (personal[:1] if uid != 0 else []) + ["/run/kiln/kilnd.sock"]


def connected(path: str, *, server_uid: Optional[int] = None, budget_s: float = 0.1, is_plugin: bool = False) -> _Socket:
    """A non-blocking connection. The daemon's output runs as its client, so the daemon must be root, this user, or `server_uid`,
    and nobody else may be able to replace the socket.

    UnavailableError: nobody there, within `budget_s` seconds. PermissionDeniedError: not allowed, or not trusted.
    """
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise InvalidArgumentError(f"the socket path {path!r} is longer than the {_PATH_BYTES_MAX} bytes that Linux takes: "
                                   "use a shorter directory")
    connection = _Socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        _connect(connection, path, budget_s, is_plugin)
        _check_server(connection, path, server_uid, is_plugin)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_server(connection: socket.socket, path: str, server_uid: Optional[int], is_plugin: bool) -> None:
    trusted = {0, os.geteuid(), server_uid, service_uid()}
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    serving = _CREDENTIALS.unpack(raw)[1]
    if serving not in trusted:
        raise PermissionDeniedError(
            f"{path} is served by uid {serving}, which is neither root nor you (uid {os.geteuid()}), nor owns /run/kiln: what it "
            f"hands out would run as you. If that is meant, {f'set KILN_SERVER_UID={serving}' if is_plugin else f'give server_uid={serving}'}")
    _check_folder(os.path.dirname(path) or ".", trusted)


def service_uid(directory: str = "/run/kiln") -> Optional[int]:
    """Whom root has this machine's service run as: the owner of the directory, if root alone can have decided that."""
    try:
        above, found = os.lstat(os.path.dirname(directory)), os.lstat(directory)
    except OSError:
        return None
    is_roots = stat.S_ISDIR(above.st_mode) and above.st_uid == 0 and not above.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid if is_roots and stat.S_ISDIR(found.st_mode) and found.st_uid != _OVERFLOW_UID else None


def _check_folder(folder: str, trusted: "set[Optional[int]]") -> None:
    # The next connection is made by the path again.
    info = os.stat(folder)
    if info.st_uid not in trusted or info.st_mode & stat.S_IWOTH:
        raise PermissionDeniedError(f"others than you and the daemon's user may change {folder}, so another socket may take the "
                                    "place of the daemon's: chmod o-w, or choose another directory")


def _connect(connection: socket.socket, path: str, budget_s: float, is_plugin: bool) -> None:
    """Connects; repeats only if the listen queue is full: a burst overflows it, and the kernel fails at once instead of waiting."""
    deadline = time.monotonic() + budget_s
    ceiling = 0.001
    while True:
        error = connection.connect_ex(path)
        if error == 0:
            return
        wait = random.uniform(ceiling / 4, ceiling)
        if error != errno.EAGAIN or time.monotonic() + wait >= deadline:
            raise _connect_error(error, path, is_plugin)
        time.sleep(wait)
        ceiling = min(2 * ceiling, 0.016)


def _connect_error(error: int, path: str, is_plugin: bool) -> KilnError:
    if error in (errno.ENOENT, errno.ENOTDIR):
        folder = os.path.dirname(path) or "."
        nor = "" if os.path.isdir(folder) else f", and no directory {folder}"
        return UnavailableError(f"no daemon: there is no socket at {path}{nor}: {_advice(is_plugin)}")
    if error == errno.ECONNREFUSED:
        return UnavailableError(_why_refused(path, is_plugin))
    if error == errno.EAGAIN:
        return UnavailableError(f"the daemon's queue of connections on {path} stayed full")
    if error in (errno.EACCES, errno.EPERM):
        return PermissionDeniedError(f"may not connect to {path}: {os.strerror(error)}: join the group that owns it (ls -l shows it)")
    return UnavailableError(f"connect to {path}: {os.strerror(error)}")


def _why_refused(path: str, is_plugin: bool) -> str:
    advice = _advice(is_plugin)
    if os.path.isdir(path) and not is_plugin:
        return f"{path} is a directory, not a daemon's socket: name the kilnd.sock in it, or say root= where it is what kilnd --root has"
    if os.path.isdir(path) or os.path.isfile(path):
        return f"{path} is a {'directory' if os.path.isdir(path) else 'file'}, not a daemon's socket: {advice}"
    return f"no daemon: no process listens on {path} (left behind by one that ended?): {advice}"
