"""Kiln inside Triton. One variable turns it on, in a job and in all that it starts:

    TRITON_CACHE_MANAGER=kiln.triton:CacheManager python train.py

Triton goes on keeping its files where it always does. What is not among them is asked of kilnd, and where kilnd cannot
help, Triton compiles as if Kiln were not there. Before 3.6 it always compiles by itself, and kilnd only keeps the results for
this user. docs/python.md has the settings.

Importing this module starts no thread, opens no connection and imports neither gRPC nor protobuf.
"""

import functools
import os
import sys
import uuid
from typing import Any, Dict, Optional, Tuple

import triton
from triton import knobs
from triton.runtime import autotuner, build, cache
from triton.runtime.cache import FileCacheManager

from kiln._plugin.settings import LOG, Settings

__all__ = ["CacheManager"]

_settings = Settings.of()
_NO_KEY = ("", "")
_HAS_HOOK = hasattr(knobs.runtime, "add_stages_inspection_hook")


class CacheManager(FileCacheManager):  # type: ignore[misc]
    """Triton's own cache on disk, and behind it what this user's processes keep in the daemon for one another. That its module is
    imported is what turns Kiln on."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override=override, dump=dump)
        self._is_ordinary = not override and not dump
        self._made: Dict[str, Any] = {}

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Keeps what is to be in the group at hand: by then another process may have replaced the files."""
        if self._is_ordinary:
            self._made[filename] = data = data if isinstance(data, bytes) else str(data)
        return str(super().put(data, filename, binary))

    def get_group(self, filename: str) -> Optional[Dict[str, str]]:
        """Whoever records wants every kernel of the job, those that Triton has already too."""
        if _settings.mode == "record":
            return None
        found: Optional[Dict[str, str]] = super().get_group(filename)
        if found or not self._is_ordinary or not _keeps_groups():
            return found
        files = _groups().find(self.key, filename, _file_of(sys._getframe(1)))
        if files is None:
            return found
        group = {name: self._write(name, content) for name, content in files.items()}
        super().put_group(filename, group)
        return group

    def _write(self, name: str, content: bytes) -> str:
        """As Triton does it, but without a folder for each file: making and removing those takes longer than all else together."""
        path: str = self._make_path(name)
        part = f"{path}.tmp.pid_{os.getpid()}_{uuid.uuid4()}"
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)
        return path

    def put_group(self, filename: str, group: Dict[str, str]) -> Any:
        written = super().put_group(filename, group)
        if self._is_ordinary and _keeps_groups() and set(group) <= set(self._made):
            _groups().keep(self.key, filename, {name: self._made[name] for name in group}, _HAS_HOOK)
        return written


def _keeps_groups() -> bool:
    """Not where somebody else's hook has a say in what a kernel becomes: in 3.6 Triton's key does not know of it."""
    if _settings.mode == "off":
        return False
    hook = getattr(knobs.runtime, "add_stages_inspection_hook", None)
    return hook is None and not _HAS_HOOK or isinstance(hook, _Hook) and hook.is_alone


def _file_of(frame: Any) -> str:
    """Where the kernel stands that Triton's compile(), whose frame this is, was called for; "" where that cannot be seen. Inductor's
    compile workers load files that are no module's."""
    function = getattr(getattr(frame.f_locals.get("src"), "fn", None), "fn", None)
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))


def _groups() -> Any:
    from kiln._plugin.groups import groups
    return groups(_settings)


class _Hook:
    """Called by Triton for each compile that its cache cannot answer; from 3.7 on also without arguments, at each launch, for
    what it adds to Triton's key: nothing, since the result is the same."""

    def __init__(self, settings: Settings, before: Any) -> None:
        self._settings = settings
        self._before = before
        self._pipeline: Any = None

    @property
    def is_alone(self) -> bool:
        return self._before is None

    def __call__(self, *arguments: Any) -> "Tuple[str, str] | None":
        if not arguments:
            return _NO_KEY if self._before is None else self._before()
        backend, stages, options = arguments[:3]
        as_they_were = dict(stages)
        if self._before is not None:
            self._before(*arguments)
        if stages == as_they_were:  # another hook has made a pipeline of its own, which nobody else can run
            self._take_over(backend, stages, options)
        return None

    def _take_over(self, backend: Any, stages: Dict[str, Any], options: Any) -> None:
        if self._pipeline is None:
            from kiln._plugin.pipeline import Pipeline
            self._pipeline = Pipeline(self._settings)
        self._pipeline.take_over(backend, stages, options)


def _install() -> None:
    if _settings.mode == "off":
        return
    if _HAS_HOOK:
        before = knobs.runtime.add_stages_inspection_hook
        if not isinstance(before, _Hook):
            knobs.runtime.add_stages_inspection_hook = _Hook(_settings, before)
        from kiln._plugin import autotune
        autotune.install(_settings)
    else:
        LOG.warning("kiln: Triton %s has no hook for its stages; from 3.6 on it has. Triton compiles by itself, and the daemon keeps "
                    "the results for this user alone", triton.__version__)
    _remember_triton_key()
    _ask_before_building()
    if _settings.exit_line:
        _print_report_at_exit()


def _remember_triton_key() -> None:
    """Triton hashes itself in each process that compiles or looks anything up: a third of a second that says the same as long as
    its files do. Where another has replaced the function already, that one stays."""
    compute: Any = getattr(cache, "triton_key", None)
    if getattr(compute, "__module__", None) != cache.__name__ or compute.cache_info().currsize:
        return

    @functools.lru_cache(maxsize=None)
    def triton_key() -> str:
        from kiln._plugin import identity
        try:
            return identity.triton_key(compute)
        except (identity.ChangedError, OSError):
            return compute()

    for module in (cache, autotuner):
        if getattr(module, "triton_key", None) is compute:
            module.triton_key = triton_key


def _ask_before_building() -> None:
    """The C compiler's libraries, too, are there already where a process of this user's has made them. Where another has replaced
    the function, that one stays."""
    stock: Any = getattr(build, "_build", None)
    if getattr(stock, "__module__", None) != build.__name__:
        return

    @functools.wraps(stock)
    def get_or_build(*arguments: Any, **more: Any) -> str:
        from kiln._plugin import stubs
        return stubs.get_or_build(_settings, stock, *arguments, **more)

    build._build = get_or_build


def _print_report_at_exit() -> None:
    import atexit

    from kiln._report import report
    atexit.register(lambda: print(f"kiln: process {os.getpid()}: {report()}", file=sys.stderr))


_install()
