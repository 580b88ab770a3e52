"""Has the configurations of an autotuned kernel compiled together, where Triton's Autotuner compiles one after the other.

Triton has no hook for it. What is wrapped is Autotuner.prune_configs, which says which configurations are going to be measured,
just before the first of them is compiled; what comes out of it is not touched. Where the compile of a first configuration is what has
Triton import the plug-in, that moment has passed: Autotuner._bench, which measures one, is where the others are compiled then. Everything
else is Triton's own: AsyncCompileMode and warmup(), from threads that do little but wait for the daemon. The Autotuner then finds the
kernels in Triton's memory, the same ones, and measures them in the same order. What the daemon does not give is not compiled in these
threads: the Autotuner compiles it when its turn comes, one at a time as ever, and raises there what it raises.

Anything at all that is in the way leaves it to Triton: a hook, a listener or a mode of the program's own, configurations with a pre_hook
(which may change what is compiled), no daemon or none that could.
"""

import contextlib
import functools
import math
import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional

from triton import knobs

from kiln._plugin.settings import LOG, Settings

_THREADS_MAX = 32
# How many kernels are lowered at a time: one, and one more while the first waits for the daemon to say that it has not got it.
_LOWERED_AT_ONCE = 2
_ahead = threading.local()


def is_ahead() -> bool:
    """Whether this thread compiles ahead of an Autotuner, so that nobody waits for this very kernel."""
    return getattr(_ahead, "turn", None) is not None


def end_turn() -> None:
    """From now on this thread only waits for the daemon, and another may lower its kernel."""
    if is_ahead():
        _ahead.turn.close()


def install(settings: Settings, leave_out: Callable[[Exception], None]) -> None:
    """Once in a process. Raises what it raises where this Triton's Autotuner is another. leave_out: told where that shows later."""
    from triton.runtime.autotuner import Autotuner
    prune, bench = Autotuner.prune_configs, Autotuner._bench
    if hasattr(prune, "__wrapped__"):
        return
    seen: "weakref.WeakSet[Any]" = weakref.WeakSet()  # those that said which configurations they measure

    def compile_ahead(tuner: Any, kwargs: Dict[str, Any], configs: "Optional[List[Any]]") -> None:
        """configs: None where the tuner has not said which they are, which it need not where it measures all."""
        try:
            if configs is None:
                if tuner in seen or tuner.early_config_prune or tuner.perf_model:
                    return
                configs = tuner.configs
            seen.add(tuner)
            if not _may_compile_ahead(tuner, configs):
                return
        except Exception as error:
            leave_out(error)
            return
        try:
            _compile_ahead(settings, tuner, kwargs, configs)
        except Exception:  # whatever it is, Triton compiles one after the other
            LOG.debug("kiln: the configurations are not compiled together", exc_info=True)

    @functools.wraps(prune)
    def prune_configs(self: Any, *arguments: Any, **keywords: Any) -> "List[Any]":
        configs: List[Any] = prune(self, *arguments, **keywords)
        compile_ahead(self, arguments[0] if arguments else keywords.get("kwargs", {}), configs)
        return configs

    @functools.wraps(bench)
    def _bench(self: Any, *arguments: Any, **keywords: Any) -> Any:
        compile_ahead(self, {name: value for name, value in keywords.items() if name != "config"}, None)
        return bench(self, *arguments, **keywords)

    Autotuner.prune_configs, Autotuner._bench = prune_configs, _bench


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


def _compile_ahead(settings: Settings, tuner: Any, kwargs: Dict[str, Any], configs: "List[Any]") -> None:
    from concurrent.futures import ThreadPoolExecutor

    from triton.runtime._async_compile import AsyncCompileMode, active_mode
    from triton.runtime.driver import driver

    from kiln._plugin import eligibility
    from kiln._plugin.service import service
    eligibility.check_switches()
    service(settings).check(eligibility.target_name(driver.active.get_current_target()))
    arguments = tuple(tuner.nargs.values())
    keywords = {name: value for name, value in kwargs.items() if name != "warmup"}
    threads = min(len(configs), 2 * (os.cpu_count() or 1), _THREADS_MAX)
    try:
        with ThreadPoolExecutor(threads, "kiln-autotune") as pool, AsyncCompileMode(_InTurns(pool), ignore_errors=True):
            # What is begun last keeps everybody waiting, and ought to be little.
            for config in sorted(configs, key=_work_of, reverse=True):
                tuner.fn.warmup(*arguments, **keywords, **config.all_kwargs())
    finally:
        active_mode.set(None)  # which an interrupt while it waits would have left behind


def _work_of(config: Any) -> float:
    """Grows with the time that it takes to compile: what one thread of a kernel computes is unrolled."""
    sizes = (value for value in config.kwargs.values() if isinstance(value, int) and value > 1)
    return math.prod(sizes) / config.num_warps


class _InTurns:
    """Has work done by a pool: one piece after the other, up to where it only waits (end_turn()), until the daemon declines some of it,
    and none after that.

    Lowering is Python, and takes the lock that all of it shares. Begun together, every kernel would be lowered at the end of all the
    lowering; in turns, the daemon compiles the first while the second is lowered.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._free = threading.Semaphore(_LOWERED_AT_ONCE)
        self._has_declined = False

    def submit(self, work: Callable[[], Any]) -> Any:
        return self._pool.submit(self._run, work)

    def _run(self, work: Callable[[], Any]) -> Any:
        from kiln._plugin.service import Declined, Failed
        with contextlib.ExitStack() as _ahead.turn:
            _ahead.turn.enter_context(self._free)
            if self._has_declined:
                raise Declined("another configuration was declined")
            try:
                return work()
            except Declined as why:
                # That one does not compile says nothing of the others.
                self._has_declined = self._has_declined or not isinstance(why, Failed)
                raise
