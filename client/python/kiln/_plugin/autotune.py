"""Compiles the configurations of an autotuned kernel together, where Triton's Autotuner compiles one after the other.

Triton has no hook for this. The plug-in wraps Autotuner.prune_configs, which returns the configurations to be measured, just
before the first is compiled; its result is not changed. If the compile of a first configuration imports the plug-in, that
moment has passed, and the tuning is looked for among the callers of that compile.

The rest is Triton's own: AsyncCompileMode and warmup(), from threads that mostly wait for the daemon. The Autotuner then finds
the kernels in Triton's memory or cache and measures them in the same order. These threads compile nothing themselves: what
the daemon does not give, the Autotuner compiles in its turn, and raises there what it always raises.

The plug-in leaves the tuning to Triton if the program could see a difference (a hook, a listener or a mode of its own, heuristics,
configurations with a pre_hook), or if there is no daemon that could help. docs/adr/0028 has the reasons.
"""

import functools
import math
import os
import threading
import time
from typing import Any, Callable, List, Mapping, Optional, Set, Type

from triton import knobs

from kiln import _process
from kiln._plugin import autotune_prefetch
from kiln._plugin.attempt import attempt
from kiln._plugin.settings import Settings
from kiln._signals import from_handler

_THREADS_MAX = 32
# Kernels that are lowered at a time: one, and one more while the first waits for the daemon's answer.
_LOWERED_AT_ONCE = 2
_CANCEL_PAUSE_S = 0.01
_may_have_missed_one = True
_LeaveOut = Callable[[Exception], None]


def install(settings: Settings, leave_out: _LeaveOut) -> None:
    """Call once in a process. Raises if this Triton's Autotuner has another form. leave_out: called if that shows later."""
    from triton.runtime.autotuner import Autotuner
    prune = Autotuner.prune_configs
    if hasattr(prune, "__wrapped__"):
        return

    @functools.wraps(prune)
    def prune_configs(self: Any, *arguments: Any, **keywords: Any) -> "List[Any]":
        configs: List[Any] = prune(self, *arguments, **keywords)
        _try_to_compile_ahead(settings, leave_out, self, arguments[0] if arguments else keywords.get("kwargs", {}), configs)
        return configs

    Autotuner.prune_configs = prune_configs


def join_tuning(settings: Settings, leave_out: _LeaveOut, compile_frame: Any) -> None:
    """Call with the frame of Triton's compile(), before it looks for a kernel. If this compile is the process's first and belongs
    to a tuning that began before install(), compiles the configurations of that tuning, its own among them."""
    global _may_have_missed_one
    if not _may_have_missed_one:
        return
    _may_have_missed_one = False
    try:
        bench = None if autotune_prefetch.is_ahead() else _find_bench(compile_frame)
        if bench is None or bench["self"].early_config_prune or bench["self"].perf_model:
            return
        tuner, kwargs = bench["self"], bench["meta"]
    except Exception as error:
        leave_out(error)
        return
    _try_to_compile_ahead(settings, leave_out, tuner, kwargs, tuner.configs)


def _find_bench(frame: Any) -> "Optional[Mapping[str, Any]]":
    """The variables of Autotuner._bench, which compiles and measures one configuration, if it is among the callers."""
    from triton.runtime.autotuner import Autotuner
    while frame is not None and frame.f_code is not Autotuner._bench.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals


def _try_to_compile_ahead(settings: Settings, leave_out: _LeaveOut, tuner: Any, kwargs: Mapping[str, Any], configs: "List[Any]") -> None:
    try:
        if not _may_compile_ahead(tuner, configs):
            return
    except Exception as error:
        leave_out(error)
        return
    with attempt("to compile the configurations together"):  # Triton compiles one after the other
        _compile_ahead(settings, tuner, kwargs, configs)


def _may_compile_ahead(tuner: Any, configs: "List[Any]") -> bool:
    """False if the program could see a difference, or if Triton may have the tuning's result on disk."""
    from triton.runtime._async_compile import active_mode
    from triton.runtime.jit import JITFunction
    return (len(configs) > 1 and isinstance(tuner.fn, JITFunction) and not tuner.fn.pre_run_hooks and active_mode.get() is None
            and not tuner.cache_results and not knobs.runtime.jit_cache_hook and not knobs.runtime.jit_post_compile_hook
            and not knobs.compilation.listener
            and not any(config.pre_hook or getattr(config, "ir_override", None) for config in configs))


def _compile_ahead(settings: Settings, tuner: Any, kwargs: Mapping[str, Any], configs: "List[Any]") -> None:
    from concurrent.futures import ThreadPoolExecutor, wait

    from triton.runtime._async_compile import AsyncCompileMode, active_mode
    from triton.runtime.driver import driver

    eligibility = _process.imported("kiln._plugin.eligibility")
    eligibility.check_switches()
    _process.imported("kiln._plugin.service").service(settings).check(eligibility.target_name(driver.active.get_current_target()))
    arguments = tuple(tuner.nargs.values())
    keywords = {name: value for name, value in kwargs.items() if name != "warmup"}
    threads = min(len(configs), 2 * (os.cpu_count() or 1), _THREADS_MAX)
    try:
        with ThreadPoolExecutor(threads, "kiln-autotune") as pool, AsyncCompileMode(turns := _InTurns(pool), ignore_errors=True), turns:
            # The largest first: the last to begin keeps the tuning waiting.
            for config in sorted(configs, key=_work_of, reverse=True):
                tuner.fn.warmup(*arguments, **keywords, **config.all_kwargs())
            # AsyncCompileMode waits too, but an interrupt of its wait leaves kernels in Triton that never come.
            wait(turns.begun)
        turns.drop_frames()
    finally:
        active_mode.set(None)  # an interrupt during its wait leaves it set


def _work_of(config: Any) -> float:
    """A measure of the compile time: the work of one thread of the kernel, which is unrolled."""
    sizes = (value for value in config.kwargs.values() if isinstance(value, int) and value > 1)
    return float(math.prod(sizes) / config.num_warps)


class _InTurns:
    """Runs pieces of work in a pool, in turns: a piece gives its turn away when it only waits (autotune_prefetch.end_turn()).
    Once the daemon declines a piece, no further piece begins.

    Lowering is Python and holds the interpreter's lock. In turns, the daemon compiles the first kernel while the second is
    lowered; begun together, all kernels would be lowered before the first is sent.

    As a context it ends the work on an interrupt (Ctrl-C, or an exception of a signal's handler): no piece begins, calls are
    cancelled, and lowering under way is waited for. begun: a future for each piece.
    """

    def __init__(self, pool: Any) -> None:
        self.begun: List[Any] = []
        self._pool = pool
        self._free = threading.Semaphore(_LOWERED_AT_ONCE)
        self._has_declined = False
        self.is_broken_off = False
        self._threads: Set[int] = set()

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Optional[Type[BaseException]], error: Optional[BaseException], *__: object) -> None:
        if error is None or isinstance(error, Exception) and not from_handler(error):
            return
        self.is_broken_off = True
        while self._threads:  # again, for threads that were about to call
            _process.imported("kiln._plugin.service").cancel_calls_of(set(self._threads))
            time.sleep(_CANCEL_PAUSE_S)

    def check(self) -> None:
        from kiln._plugin.service import BrokenOff
        if self.is_broken_off:
            raise BrokenOff

    def drop_frames(self) -> None:
        """Drops the frames of failures. The frames, the program's among them, and the futures keep one another alive."""
        for future in self.begun:
            error = future.exception()
            if error is not None:
                error.__traceback__ = error.__context__ = None

    def submit(self, work: Callable[[], Any]) -> Any:
        self.begun.append(self._pool.submit(self._run, work))
        return self.begun[-1]

    def _run(self, work: Callable[[], Any]) -> Any:
        me = threading.get_ident()
        self._threads.add(me)
        try:
            return self._in_turn(work)
        finally:
            self._threads.discard(me)

    def _in_turn(self, work: Callable[[], Any]) -> Any:
        from kiln._plugin.service import Declined, Failed
        with autotune_prefetch.turn(self, self._free):
            self.check()
            if self._has_declined:
                raise Declined("another configuration was declined")
            try:
                return work()
            except Declined as why:
                # A source that does not compile says nothing about the others.
                self._has_declined = self._has_declined or not isinstance(why, Failed)
                raise
