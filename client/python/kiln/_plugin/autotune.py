"""Has the configurations of an autotuned kernel compiled together, where Triton's Autotuner compiles one after the other.

Triton has no hook for it. What is wrapped is Autotuner.prune_configs, which says which configurations are going to be measured,
just before the first of them is compiled; what comes out of it is not touched. Where the compile of a first configuration is what has
Triton import the plug-in, that moment has passed: then the tuning is looked for among the callers of that compile. Everything else is
Triton's own: AsyncCompileMode and warmup(), from threads that do little but wait for the daemon. The Autotuner then finds the kernels in
Triton's memory or its cache, the same ones, and measures them in the same order. What the daemon does not give is not compiled in these
threads: the Autotuner compiles it when its turn comes, one at a time as ever, and raises there what it raises.

Anything at all that is in the way leaves it to Triton: a hook, a listener or a mode of the program's own, configurations with a pre_hook
(which may change what is compiled), no daemon or none that could.
"""

import functools
import math
import os
import threading
import time
from typing import Any, Callable, List, Mapping, Optional, Set, Type

from triton import knobs

from kiln._fork_guard import gate
from kiln._plugin import autotune_prefetch
from kiln._plugin.settings import LOG, Settings
from kiln._signals import from_handler

_THREADS_MAX = 32
# How many kernels are lowered at a time: one, and one more while the first waits for the daemon to say that it has not got it.
_LOWERED_AT_ONCE = 2
_CANCEL_PAUSE_S = 0.01
_may_have_missed_one = True
_LeaveOut = Callable[[Exception], None]


def install(settings: Settings, leave_out: _LeaveOut) -> None:
    """Once in a process. Raises what it raises where this Triton's Autotuner is another. leave_out: told where that shows later."""
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
    """To be called by Triton's compile(), whose frame it is given, before that looks for a kernel. Where it is the first in this process
    and works for a tuning that began before install(), compiles the configurations of that, its own among them."""
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
    """The variables of Autotuner._bench, which has one configuration compiled and measured, where it is among the callers."""
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
    try:
        _compile_ahead(settings, tuner, kwargs, configs)
    except Exception as error:  # whatever it is, Triton compiles one after the other
        if from_handler(error):
            raise
        LOG.debug("kiln: the configurations are not compiled together", exc_info=True)


def _may_compile_ahead(tuner: Any, configs: "List[Any]") -> bool:
    """Not where the program could see a difference, or Triton may have the result of the tuning on disk."""
    from triton.runtime._async_compile import active_mode
    from triton.runtime.jit import JITFunction
    function = tuner.fn
    while hasattr(function, "fn") and not isinstance(function, JITFunction):
        function = function.fn
    return (len(configs) > 1 and isinstance(function, JITFunction) and not function.pre_run_hooks and active_mode.get() is None
            and not tuner.cache_results and not knobs.runtime.jit_cache_hook and not knobs.runtime.jit_post_compile_hook
            and not knobs.compilation.listener
            and not any(config.pre_hook or getattr(config, "ir_override", None) for config in configs))


def _compile_ahead(settings: Settings, tuner: Any, kwargs: Mapping[str, Any], configs: "List[Any]") -> None:
    from concurrent.futures import ThreadPoolExecutor, wait

    from triton.runtime._async_compile import AsyncCompileMode, active_mode
    from triton.runtime.driver import driver

    eligibility = gate.imported("kiln._plugin.eligibility")
    eligibility.check_switches()
    gate.imported("kiln._plugin.service").service(settings).check(eligibility.target_name(driver.active.get_current_target()))
    arguments = tuple(tuner.nargs.values())
    keywords = {name: value for name, value in kwargs.items() if name != "warmup"}
    threads = min(len(configs), 2 * (os.cpu_count() or 1), _THREADS_MAX)
    try:
        with ThreadPoolExecutor(threads, "kiln-autotune") as pool, AsyncCompileMode(turns := _InTurns(pool), ignore_errors=True), turns:
            # What is begun last keeps everybody waiting, and ought to be little.
            for config in sorted(configs, key=_work_of, reverse=True):
                tuner.fn.warmup(*arguments, **keywords, **config.all_kwargs())
            # AsyncCompileMode waits as well; but where an interrupt ends that, Triton keeps kernels that never come.
            wait(turns.begun)
        turns.drop_frames()
    finally:
        active_mode.set(None)  # which an interrupt while it waits would have left behind


def _work_of(config: Any) -> float:
    """Grows with the time that it takes to compile: what one thread of a kernel computes is unrolled."""
    sizes = (value for value in config.kwargs.values() if isinstance(value, int) and value > 1)
    return float(math.prod(sizes) / config.num_warps)


class _InTurns:
    """Has work done by a pool: one piece after the other, up to where it only waits (autotune_prefetch.end_turn()), until the daemon declines some of it,
    and none after that.

    Lowering is Python, and takes the lock that all of it shares. Begun together, every kernel would be lowered at the end of all the
    lowering; in turns, the daemon compiles the first while the second is lowered.

    As a context it ends the work where an interrupt comes: Ctrl-C, or what a signal's handler raises. Then nothing is begun any more,
    calls are cancelled, and what is being lowered is waited for. begun: a future for each piece.
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
        while self._threads:  # again, for those that were just about to call
            gate.cancel_calls_of(set(self._threads))
            time.sleep(_CANCEL_PAUSE_S)

    def check(self) -> None:
        from kiln._plugin.service import BrokenOff
        if self.is_broken_off:
            raise BrokenOff

    def drop_frames(self) -> None:
        """Of what has failed. Triton has raised it once more, and its frames, the program's among them, and the futures keep one another."""
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
                # That one does not compile says nothing of the others.
                self._has_declined = self._has_declined or not isinstance(why, Failed)
                raise
