"""The plug-in for Triton. One variable turns it on, in a job and in all that it starts:

    TRITON_CACHE_MANAGER=kiln.triton:CacheManager python train.py

Triton keeps its files as always. A kernel that is not among them is asked of kilnd. Where kilnd cannot help, Triton compiles as
if Kiln were not there. Before 3.6 Triton always compiles, and kilnd only keeps the results for this user. docs/python.md has
the settings.

Importing this module starts no thread, opens no connection and does not import protobuf.

Triton changes from release to release. The plug-in's parts are independent: a part that does not fit the Triton at hand is
logged and left out. This module raises only CacheMissError, in the mode `require`, and what a signal's handler raises.
"""

import functools
import os
import shutil
import sys
import threading
import uuid
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple, Union

import triton
from triton.runtime.cache import FileCacheManager

from kiln import _process
from kiln._plugin.settings import LOG, Settings
from kiln._signals import from_handler, reraise_from_handler, suppressed
from kiln.errors import CacheMissError

try:
    from triton import knobs
except ImportError:  # before 3.4
    knobs = None

__all__ = ["CacheManager"]

_settings = Settings.of()
_NO_KEY = ("", "")
_LIBRARY = ".so"
_REPORT = "kiln._report"
_HAS_HOOK = hasattr(getattr(knobs, "runtime", None), "add_stages_inspection_hook")
_ONE_BY_ONE = "configurations are compiled one after the other"
_said: Dict[str, None] = {}
_here = threading.local()  # wants_no_files: compiled_or_found() is under way in this thread


@functools.lru_cache(maxsize=None)
def _plugin(name: str) -> Any:
    """A module of the plug-in, imported when it is first needed."""
    return _process.imported(f"kiln._plugin.{name}")


def _leave_out(what: str, error: Exception) -> None:
    """Logs once that Kiln leaves this out in this process. Raises a signal handler's exception again."""
    reraise_from_handler(error)
    LOG.debug("kiln: %s", what, exc_info=True)
    if what not in _said:
        _said[what] = None
        LOG.warning("kiln: %s: %s: %s (Triton %s)", what, type(error).__name__, error, getattr(triton, "__version__", "of no version"))


class CacheManager(FileCacheManager):  # type: ignore[misc]
    """Triton's cache on disk, and behind it the user's own namespace in the daemon. Importing this module turns Kiln on."""

    cache_dir: str  # Triton's

    def __init__(self, key: str, *arguments: Any, **more: Any) -> None:
        self.key = key
        # False for caches that dump or override, and for arguments that a later Triton may add.
        self._is_ordinary = not any((*arguments, *more.values()))
        self._made: Dict[str, Any] = {}
        self._own_key = b""
        self._has_folder = not self._is_ordinary or knobs is None or os.path.exists(os.path.join(knobs.cache.dir or "", key))
        if self._has_folder:
            super().__init__(key, *arguments, **more)

    def __getattr__(self, name: str) -> Any:
        """What Triton sets when it makes a kernel's folder. It makes one for each kernel that it looks for; here one that is asked for."""
        if name not in ("cache_dir", "lock_path") or self._has_folder:
            raise AttributeError(name)
        super().__init__(self.key)
        self._has_folder = True
        return getattr(self, name)

    def put(self, data: Any, filename: str, *arguments: Any, **more: Any) -> str:
        """Also keeps the data for put_group(): until then another process may have replaced the files."""
        if self._is_ordinary:
            self._made[filename] = data = data if isinstance(data, bytes) else str(data)
            with suppressed(OSError):  # Triton makes a removed folder again
                return self._write(filename, data)
        path: str = super().put(data, filename, *arguments, **more)
        return path

    def get_file(self, filename: str, *arguments: Any, **more: Any) -> Optional[str]:
        """Triton's file. In the mode `record` no library is found here: the manifest gets those that _ask_before_building() sees."""
        if self._is_ordinary and _settings.mode == "record" and filename.endswith(_LIBRARY):
            return None
        found: Optional[str] = super().get_file(filename, *arguments, **more)
        return found

    def get_group(self, filename: str) -> Optional[Dict[str, str]]:
        """Triton's group of files, or the own namespace's. In the mode `record` nothing is found: every kernel is to be recorded."""
        caller = sys._getframe(1)
        if self._is_ordinary and _HAS_HOOK and _settings.mode != "off":
            _join_tuning(caller)
        is_recorded = _settings.mode == "record"
        found: Optional[Dict[str, str]] = super().get_group(filename) if self._has_folder and not is_recorded else None
        if found or not self._is_ordinary:
            return found
        try:
            return self._get_kept(filename, caller, not is_recorded) or found
        except Exception as error:
            _leave_out("what the daemon keeps of kernels is not looked for", error)
            return found

    def _get_kept(self, filename: str, caller: Any, is_wanted: bool) -> Optional[Dict[str, str]]:
        if not _keeps_groups():
            return None
        wants_no_files = getattr(_here, "wants_no_files", False)
        _here.wants_no_files = False  # a compile() within this one's lowering is another
        self._own_key, files = _groups().find(self.key, filename, *_asked_of(caller), is_wanted)
        if files is None:
            if self._own_key and _HAS_HOOK:
                _plugin("shared_lowering").offer(caller)
            return None
        if wants_no_files:
            raise _Found(files)
        group = {name: self._make_path(name) for name in files}
        FileCacheManager.put_group(_Gathering(files), filename, group)  # the last: who finds it finds the others
        self._put_at_once(files)
        return group

    def _put_at_once(self, files: Mapping[str, bytes]) -> None:
        """Writes the files into a folder of its own, which then takes the place of Triton's empty one: a rename for each file takes
        longer than the rest. The last file is there only with the others."""
        apart = self._part_of(self.cache_dir)
        try:
            os.mkdir(apart)
            for name, content in files.items():
                with open(f"{apart}/{name}", "wb", buffering=0) as file:
                    while content:
                        content = content[file.write(content):]
            try:
                os.rename(apart, self.cache_dir)
            except OSError as error:  # another process has put some
                reraise_from_handler(error)
                for name in files:
                    os.replace(os.path.join(apart, name), self._make_path(name))
                os.rmdir(apart)
        except BaseException:
            shutil.rmtree(apart, ignore_errors=True)
            raise

    def _write(self, name: str, content: Union[bytes, str]) -> str:
        """As Triton does, but without a folder for each file: making and removing folders takes longer than the rest."""
        path: str = self._make_path(name)
        part = self._part_of(path)
        with open(part, "wb" if isinstance(content, bytes) else "w") as file:
            file.write(content)
        os.replace(part, path)
        return path

    @staticmethod
    def _part_of(path: str) -> str:
        return f"{path}.tmp.pid_{os.getpid()}_{uuid.uuid4()}"

    def put_group(self, filename: str, group: Dict[str, str]) -> Any:
        written = super().put_group(filename, group)
        try:
            if self._is_ordinary and _keeps_groups() and set(group) <= set(self._made):
                contents = {name: self._made[name] for name in group}
                _groups().keep(self._own_key, self.key, filename, _asked_of(sys._getframe(1))[0], contents, _HAS_HOOK)
        except Exception as error:
            _leave_out("kernels are not kept in the daemon", error)
        return written


class _Gathering:
    """In the place of a cache: what Triton would write into a file becomes one of `files`."""

    cache_dir = os.sep

    def __init__(self, files: Dict[str, bytes]) -> None:
        self._files = files

    def put(self, data: Any, filename: str, **_: Any) -> None:
        self._files[filename] = str(data).encode()


class _Found(BaseException):
    """Leaves Triton's compile() with the files of a kernel that it has begun to look for."""

    def __init__(self, files: Dict[str, bytes]) -> None:
        super().__init__()
        self.files = files


def compiled_or_found(source: Any, target: Any, options: Dict[str, Any]) -> "Any | Dict[str, bytes]":
    """What Triton's compile() gives; or the files that the own namespace has of the kernel, by name. To write these for compile() to read
    takes as long as to find them."""
    from triton.compiler import compile
    switches = getattr(knobs, "compilation", None)
    _here.wants_no_files = not (getattr(switches, "listener", None) or getattr(switches, "always_compile", None))
    try:
        return compile(source, target=target, options=options)
    except _Found as found:
        return found.files
    finally:
        _here.wants_no_files = False


def _keeps_groups() -> bool:
    """False if another hook may change kernels: in 3.6 Triton's key does not cover it."""
    if _settings.mode == "off" or knobs is None:
        return False
    hook = getattr(knobs.runtime, "add_stages_inspection_hook", None)
    return hook is None and not _HAS_HOOK or isinstance(hook, _Hook) and hook.is_alone


def _asked_of(frame: Any) -> Tuple[Tuple[Any, Any], Any]:
    """Source and options of Triton's compile(), whose frame this is, and the target; None for what it does not have."""
    its = frame.f_locals
    return (its.get("src"), its.get("options")), its.get("target")


def _groups() -> Any:
    # Without the hook Triton compiles, and its line tables name the folders.
    return _plugin("groups").groups(_settings if _HAS_HOOK else _settings._replace(basedirs=None))


class _Hook:
    """Triton calls it for each compile that its cache cannot answer. From 3.7 on also without arguments, at each launch, for an
    addition to Triton's key: none, since the result is the same."""

    def __init__(self, settings: Settings, before: Any) -> None:
        self._settings = settings
        self._before = before
        self._pipelines: Dict[str, Any] = {}  # the one; a dict, since threads may make it at once

    @property
    def is_alone(self) -> bool:
        return self._before is None

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        if not arguments and not named:
            return _NO_KEY if self._before is None else self._before()
        given = self._validate(*arguments, **named)
        answer = None if self._before is None else self._before(*arguments, **named)
        if given is not None and list(given.stages.items()) == list(given.before.items()):  # the other hook has not changed the pipeline
            self._take_over(given)
        return answer

    def _validate(self, /, *arguments: Any, **named: Any) -> "Optional[_Given]":
        try:
            backend, stages, options = (*arguments, *(named[name] for name in ("self", "stages", "options")[len(arguments):]))[:3]
            return _Given(backend, stages, options, dict(stages))
        except Exception as error:  # the arguments have another form
            self._give_up(error)
            return None

    def _take_over(self, given: "_Given") -> None:
        try:
            if not self._pipelines:
                self._pipelines.setdefault("", _plugin("pipeline").Pipeline(self._settings))
            self._pipelines[""].take_over(given.backend, given.stages, given.options)
        except Exception as error:
            given.stages.clear()
            given.stages.update(given.before)
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if self._settings.mode == "require" and not from_handler(error):
            raise CacheMissError(f"KILN_MODE=require, and the daemon cannot be asked: {type(error).__name__}: {error}") from error
        _leave_out("the daemon is not asked for kernels", error)


class _Given(NamedTuple):
    """The arguments of the hook: the backend, its stages by name, the options; and the stages as they were given."""
    backend: Any
    stages: Dict[str, Any]
    options: Any
    before: Dict[str, Any]


def _install() -> None:
    if _settings.mode == "off":
        return
    for install, what in (
        (_hook_stages, "the daemon is not asked for kernels"), (_compile_ahead, _ONE_BY_ONE),
        (_remember_triton_key, "Triton's key for itself is not remembered"), (_ask_before_building, "libraries are always built"),
        (_print_report_at_exit, "no line will say what was done")
    ):
        try:
            install()
        except Exception as error:
            _leave_out(what, error)


def _hook_stages() -> None:
    if not _HAS_HOOK:
        keeps = "Triton compiles by itself" if knobs is None else "Triton compiles by itself, and the daemon keeps the results for this user alone"
        LOG.warning("kiln: Triton %s has no hook for its stages; from 3.6 on it has. %s", triton.__version__, keeps)
        return
    before = knobs.runtime.add_stages_inspection_hook
    if not isinstance(before, _Hook):
        knobs.runtime.add_stages_inspection_hook = _Hook(_settings, before)


def _compile_ahead() -> None:
    if _HAS_HOOK:
        _plugin("autotune").install(_settings, functools.partial(_leave_out, _ONE_BY_ONE))


def _join_tuning(caller: Any) -> None:
    try:
        _plugin("autotune").join_tuning(_settings, functools.partial(_leave_out, _ONE_BY_ONE), caller)
    except Exception as error:
        _leave_out(_ONE_BY_ONE, error)


def _remember_triton_key() -> None:
    """Triton hashes itself in each process: a third of a second. The result is remembered until its files change. A function that
    another library has replaced stays."""
    from triton.runtime import autotuner, cache
    compute: Any = getattr(cache, "triton_key", None)
    if getattr(compute, "__module__", None) != cache.__name__ or not hasattr(compute, "cache_info") or compute.cache_info().currsize:
        return

    @functools.lru_cache(maxsize=None)
    def triton_key() -> str:
        with suppressed(Exception):  # let Triton's own function decide
            return str(_plugin("identity").triton_key(compute, beside=_prepare_to_ask))
        return str(compute())

    for module in (cache, autotuner):
        if getattr(module, "triton_key", None) is compute:
            module.triton_key = triton_key


def _prepare_to_ask() -> None:
    """Does what the first look for a kernel would wait for: the hot directory or the daemon's greeting, and the digest of the same files."""
    _plugin("eligibility").check_switches()
    _plugin("service").service(_settings).prepare()
    _plugin("identity").toolchain_fingerprint()


def _ask_before_building() -> None:
    """Finds libraries that another process of this user has built. A function that another library has replaced stays."""
    from triton.runtime import build
    stock: Any = getattr(build, "_build", None)
    if getattr(stock, "__module__", None) != build.__name__:
        return

    @functools.wraps(stock)
    def get_or_build(*arguments: Any, **more: Any) -> Any:
        try:
            launcher_cache = _plugin("launcher_cache")
        except Exception as error:
            _leave_out("libraries are always built", error)
            return stock(*arguments, **more)
        return launcher_cache.get_or_build(_settings, stock, *arguments, **more)

    build._build = get_or_build


def _print_report_at_exit() -> None:
    import atexit
    if _settings.exit_line == "always":
        _process.imported(_REPORT)
    if _settings.exit_line != "never":
        atexit.register(_print_report)


def _print_report() -> None:
    counted = sys.modules.get(_REPORT)  # not before the first kernel
    report = None if counted is None else counted.report()
    if report is not None and (report.missed_after_warm or _settings.exit_line == "always"):
        print(f"kiln: process {os.getpid()}: {report}", file=sys.stderr)


_install()
