"""Keeps what Triton's Autotuner measures in the user's own namespace, or in that of users who share: a later process measures nothing.

Each configuration has an entry: the times that Autotuner._bench returned. Its key is the kernel's (with specialization and options),
the Autotuner's own key for the problem, the way of measuring, the model of the device, and the driver. Nothing is found or kept where
the program measures by itself, or could miss that nothing was measured. docs/adr/0076 has the reasons.
"""

import ctypes
import json
import math
import os
import time
from types import FunctionType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import triton
from triton import knobs, testing

from kiln._plugin import eligibility, groups, source_dependencies
from kiln._plugin.attempt import attempt
from kiln._plugin.eligibility import NotExpressible
from kiln._plugin.manifest import manifest_of
from kiln._plugin.service import Declined, service
from kiln._plugin.settings import Settings
from kiln._report import counters

_FILE = "times"
_COUNT = 3  # the quantiles that Autotuner._bench asks for
_PACKAGE = triton.__path__[0] + os.sep
# Expected reasons for not looking or not keeping.
_FORESEEN = (Declined, source_dependencies.Unknown, OSError)


class Tuning:
    """The configurations of one tuning. times: those that were found. Not for several threads."""

    def __init__(self, settings: Settings, tuner: Any, keys: Dict[Any, bytes]) -> None:
        self.tuner = tuner
        self.times: "Dict[Any, List[float]]" = {}
        self._settings = settings
        self._keys = keys

    def find(self) -> None:
        """Declined."""
        found = service(self._settings).get_all_own(self._keys.values(), tunings=True)
        self.times = {config: times for config, key in self._keys.items() if (times := _read(found.get(key, {}).get(_FILE, b"")))}

    def find_or_measure(self, config: Any, measure: Callable[[], Any]) -> Any:
        """Keeps what it measures. Not what failed: the cause may have been of the moment."""
        if config in self.times:
            return self.times[config]
        times = measure()
        if _are_times(times) and config in self._keys:
            with attempt("to keep the times of a configuration", _FORESEEN):
                kept = {_FILE: json.dumps(times).encode()}
                if (manifest := manifest_of(self._settings)) is not None:
                    manifest.add_own(self._keys[config], kept)
                service(self._settings).put_own(self._keys[config], kept, tunings=True)
        return times


def find(settings: Settings, tuner: Any, kwargs: Mapping[str, Any], problem: Any, configs: "List[Any]") -> Optional[Tuning]:
    """What is known of a tuning. None if nothing of it may be found or kept. problem: the Autotuner's key for the result."""
    started = time.monotonic()
    tuning = None
    with attempt("to look for the times of a tuning", _FORESEEN):
        check_kernels()
        _check(tuner)
        service(settings).prepare()
        tuning = Tuning(settings, tuner, _keys_of(settings, tuner, kwargs, problem, configs))
        if settings.tunings == "use" and settings.mode != "record":  # which is to ask for every kernel
            tuning.find()
    counters().add(time.monotonic() - started, timings_found=len(tuning.times) if tuning else 0)
    return tuning


def _read(content: bytes) -> "Optional[List[float]]":
    """None if these are no times."""
    try:
        times: List[float] = json.loads(content)
    except ValueError:
        return None
    return times if _are_times(times) else None


def _are_times(times: Any) -> bool:
    return type(times) is list and len(times) == _COUNT and all(type(one) in (int, float) and 0 < one < math.inf for one in times)


def check_kernels(*vendors: str) -> None:
    """Raises NotExpressible if a kernel depends on more than a key says. vendors: as for eligibility.check_switches()."""
    eligibility.check_switches(*vendors)
    if not getattr(knobs.runtime.add_stages_inspection_hook, "is_alone", False):
        raise NotExpressible("another hook may change kernels")


def _check(tuner: Any) -> None:
    """Raises NotExpressible if the times depend on more than a key says, or a program could miss that nothing was measured."""
    from triton.runtime.autotuner import Autotuner
    if type(tuner) is not Autotuner:
        raise NotExpressible("the Autotuner is of the program's own kind")
    if tuner.user_defined_pre_hook or tuner.user_defined_post_hook:
        raise NotExpressible("the Autotuner has a hook of the program's")
    bench = Autotuner._bench.__wrapped__  # by autotune.install
    if not all(map(_is_tritons, (bench, tuner.do_bench, testing.do_bench, testing.do_bench_cudagraph))):
        raise NotExpressible("the program measures by itself")


def _is_tritons(function: Any) -> bool:
    return type(function) is FunctionType and function.__code__.co_filename.startswith(_PACKAGE)


# --- What decides the times ------------------------------------------------------------------------------------------


def _keys_of(settings: Settings, tuner: Any, kwargs: Mapping[str, Any], problem: Any, configs: "List[Any]") -> Dict[Any, bytes]:
    """NotExpressible; source_dependencies.Unknown; OSError; what Triton raises for such arguments."""
    from triton.runtime.driver import driver
    *_, backend, bind = tuner.fn.device_caches[driver.active.get_current_device()]
    arguments = tuple(tuner.nargs.values())
    given = {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}
    bench = tuner.do_bench
    benchmark = [bench.__qualname__, bench.__code__.co_firstlineno, tuner.use_cuda_graph, tuner.num_warmups, tuner.num_reps,
                 tuner.reset_to_zero, tuner.restore_value]  # the copies of these are measured, too
    decides = {name: source_dependencies.written(value) for name, value in (("problem", [tuner.keys, problem]), ("benchmark", benchmark))}
    decides["device"] = _device(driver.active)
    keys = {}
    for config in configs:
        if given.keys() & config.kwargs.keys():
            raise NotExpressible("the caller gives what a configuration gives")
        asked = _asked(tuner.fn, backend, bind, arguments, {**given, **config.all_kwargs()})
        keys[config] = groups.key_of("tuning", asked, settings, **decides)
    return keys


def _asked(function: Any, backend: Any, bind: Any, arguments: "Sequence[Any]", keywords: Dict[str, Any]) -> Tuple[Any, Any]:
    """The source and the options that JITFunction.run makes of these arguments. Its other options are those of switches, which are off."""
    from triton.compiler import ASTSource
    keywords["debug"] = keywords.get("debug", function.debug) or knobs.runtime.debug
    bound, specialization, options = bind(*arguments, **keywords)
    options, *source = function._pack_args(backend, keywords, bound, specialization, options)
    return ASTSource(function, *source), options


def _device(active: Any) -> Dict[str, Any]:
    """Model and driver of the current device. A part of a GPU (MIG) has a name and properties of its own."""
    device, target = active.get_current_device(), active.get_current_target()
    return {"target": eligibility.target_name(target), "name": str(active.get_device_interface().get_device_name(device)),
            "properties": active.utils.get_device_properties(device), "driver": _driver_version(target.backend)}


def _driver_version(backend: str) -> int:
    """The driver's own number. NotExpressible; OSError."""
    library, function = "libcuda.so.1", "cuDriverGetVersion"
    if backend == "hip":
        from triton.backends.amd.driver import _get_path_to_hip_runtime_dylib
        library, function = _get_path_to_hip_runtime_dylib(), "hipDriverGetVersion"
    version = ctypes.c_int()
    if getattr(ctypes.CDLL(library), function)(ctypes.byref(version)):
        raise NotExpressible("the driver does not tell its version")
    return version.value
