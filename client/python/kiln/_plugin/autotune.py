"""Compiles the configurations of an autotuned kernel together, where Triton's Autotuner compiles one after the other.

Triton has no hook for this. The plug-in wraps Autotuner.prune_configs, which returns the configurations to be measured, just
before the first is compiled; its result is not changed. If the compile of a first configuration imports the plug-in, that
moment has passed, and the tuning is looked for among the callers of that compile.

The rest is Triton's own: AsyncCompileMode and warmup(), from threads that mostly wait for the daemon. The Autotuner then finds
the kernels in Triton's memory or cache and measures them in the same order. These threads compile nothing themselves: what
the daemon does not give, the Autotuner compiles in its turn, and raises there what it always raises.

The plug-in leaves the tuning to Triton if the program could see a difference (a hook, a listener or a mode of its own, heuristics,
configurations with a pre_hook), or if there is no daemon that could help. docs/adr/0028 has the reasons.

Autotuner._bench is wrapped as well: a configuration whose times another process has kept (tunings.py) is neither compiled nor measured.
"""

import functools
import inspect
import math
import os
import sys
import threading
import time
from typing import Any, Callable, Iterable, List, Mapping, Optional, Set, Type

from triton import knobs

from kiln import _process
from kiln._plugin import autotune_prefetch
from kiln._plugin.attempt import attempt
from kiln._plugin.settings import Settings
from kiln._signals import from_handler

THREADS_MAX = 32
_CANCEL_PAUSE_S = 0.01
_may_have_missed_one = True
_LeaveOut = Callable[[Exception], None]


class _Here(threading.local):
    """The tuning of this thread, if its times are found or kept: a tunings.Tuning."""
    tuning: Any = None


_here = _Here()


def install(settings: Settings, leave_out: _LeaveOut) -> None:
    """Call once in a process. Raises if this Triton's Autotuner has another form. leave_out: called if that shows later."""
    from triton.runtime.autotuner import Autotuner
    prune, bench = Autotuner.prune_configs, Autotuner._bench
    if hasattr(prune, "__wrapped__"):
        return

    @functools.wraps(prune)
    def prune_configs(self: Any, *arguments: Any, **keywords: Any) -> "List[Any]":
        global _may_have_missed_one
        configs: List[Any] = prune(self, *arguments, **keywords)
        _may_have_missed_one = False
        caller = sys._getframe(1)
        # A program may have put something without code in the place of run.
        problem = caller.f_locals.get("key") if caller.f_code is getattr(Autotuner.run, "__code__", None) else None
        _prepare(settings, leave_out, self, arguments[0] if arguments else keywords.get("kwargs", {}), configs, problem)
        return configs

    @functools.wraps(bench)
    def find_or_bench(self: Any, *arguments: Any, config: Any, **meta: Any) -> Any:
        measure = functools.partial(bench, self, *arguments, config=config, **meta)
        tuning = _here.tuning
        return measure() if tuning is None or tuning.tuner is not self else tuning.find_or_measure(config, measure)

    Autotuner.prune_configs, Autotuner._bench = prune_configs, find_or_bench


def join_tuning(settings: Settings, leave_out: _LeaveOut, compile_frame: Any) -> None:
    """Call with the frame of Triton's compile(), before it looks for a kernel. If this compile is the process's first and belongs
    to a tuning that began before install(), compiles the configurations of that tuning, its own among them."""
    global _may_have_missed_one
    if not _may_have_missed_one:
        return
    _may_have_missed_one = False
    if autotune_prefetch.is_ahead():
        return
    try:
        from triton.runtime.autotuner import Autotuner
        bench = _caller(inspect.unwrap(Autotuner._bench), compile_frame)
        run = bench and _caller(Autotuner.run, bench)
        if run is None:
            return
        tuner, kwargs, configs, problem = (run.f_locals[name] for name in ("self", "kwargs", "pruned_configs", "key"))
        under_way = bench.f_locals["config"]
    except Exception as error:
        leave_out(error)
        return
    _prepare(settings, leave_out, tuner, kwargs, configs, problem, under_way)


def _caller(function: Any, frame: Any) -> Any:
    """The frame of the function, which is known by its code, if it is among the callers."""
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame


def _prepare(settings: Settings, leave_out: _LeaveOut, tuner: Any, kwargs: Mapping[str, Any], configs: "List[Any]", problem: Any,
             under_way: Any = None) -> None:
    """Finds the times of these configurations, and compiles those without. problem: the Autotuner's key for this tuning; None:
    nothing is measured. under_way: a configuration that is measured already."""
    _here.tuning = None
    try:
        from triton.runtime._async_compile import active_mode
        if not _may_prepare(tuner, configs):
            return
        may_compile = active_mode.get() is None
    except Exception as error:
        leave_out(error)
        return
    if problem is not None and settings.tunings != "off":
        with attempt("to look for the times of a tuning"):
            _here.tuning = _process.imported("kiln._plugin.tunings").find(settings, tuner, kwargs, problem, configs)
    if _here.tuning is not None:
        configs = [config for config in configs if config is under_way or config not in _here.tuning.times]
    if may_compile and len(configs) > 1:
        with attempt("to compile the configurations together"):  # Triton compiles one after the other
            _compile_ahead(settings, tuner, kwargs, configs)


def _may_prepare(tuner: Any, configs: "List[Any]") -> bool:
    """False if the program could see a difference, or if Triton may have the tuning's result on disk."""
    from triton.runtime.jit import JITFunction
    return (isinstance(tuner.fn, JITFunction) and not tuner.fn.pre_run_hooks
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
    threads = min(len(configs), 2 * (os.cpu_count() or 1), THREADS_MAX)
    try:
        with ThreadPoolExecutor(threads, "kiln-autotune") as pool, AsyncCompileMode(turns := InTurns(pool), ignore_errors=True), turns:
            # The largest first: the last to begin keeps the tuning waiting.
            for config in sorted(configs, key=lambda one: work_of(one.kwargs.values(), one.num_warps), reverse=True):
                tuner.fn.warmup(*arguments, **keywords, **config.all_kwargs())
            # AsyncCompileMode waits too, but an interrupt of its wait leaves kernels in Triton that never come.
            wait(turns.begun)
        turns.drop_frames()
    finally:
        active_mode.set(None)  # an interrupt during its wait leaves it set


def work_of(constants: Iterable[Any], num_warps: int) -> float:
    """A measure of the compile time: the work of one thread of the kernel, which is unrolled."""
    return float(math.prod(value for value in constants if isinstance(value, int) and value > 1) / num_warps)


class InTurns:
    """Runs pieces of work in a pool, in turns: a piece gives its turn away when it only waits (autotune_prefetch.end_turn()).
    Once the daemon declines a piece, no further piece begins.

    Lowering is Python and holds the interpreter's lock. In turns, the daemon compiles the first kernel while the second is
    lowered; begun together, all kernels would be lowered before the first is sent. An answer waits until the kernels that wait for
    their turn are lowered: the daemon has the last of them sooner.

    As a context it ends the work on an interrupt (Ctrl-C, or an exception of a signal's handler): no piece begins, calls are
    cancelled, and lowering under way is waited for. begun: a future for each piece.
    """

    def __init__(self, pool: Any) -> None:
        self.begun: List[Any] = []
        self.lowerings = _process.imported("kiln._plugin.shared_lowering").Lowerings()
        self._pool = pool
        self._free = autotune_prefetch.Turns()
        self._has_declined = False
        self.is_broken_off = False
        self._threads: Set[int] = set()

    def __enter__(self) -> "InTurns":
        return self

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
