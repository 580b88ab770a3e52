"""Which configuration of an autotuned kernel a program has: decided before the program is built, by times that were measured ahead.

The times are kept as the plug-in keeps those of Triton's Autotuner: in the user's own namespace of the daemon, an entry for each
configuration, by kernel, problem, model of the device and driver. docs/adr/0076 has the reasons.
"""

import json
import math
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from kiln._plugin.settings import LOG
from kiln._signals import reraise_from_handler
from kiln.errors import CacheMissError
from kiln.jax import _counts, _devices
from kiln.jax._plan import Plan

VARIABLE = "KILN_JAX_TUNE"
_FILE = "times"
_OF_THIS_PROCESS = b"here: "  # begins keys of which nobody else could have times
_lock = threading.Lock()
_times: Dict[bytes, "List[float]"] = {}  # that this process has measured, by key
_found: Dict[bytes, "List[float]"] = {}  # that the daemon had, by key
# What settled() has answered, and until when it holds: each other answer asks the daemon.
_settled: "Dict[Tuple[Plan, Any], Tuple[Plan, float]]" = {}
_SETTLED_MAX = 4096
_MISS_SECONDS = 60
_failed: Set[bytes] = set()  # keys of what did not compile or run, in this process, beside others that did


@dataclass(frozen=True)
class Tuning:
    """What tune() found for one kernel and problem. times: (configuration, median in milliseconds), the fastest first. measured: how
    many were; the others were known."""
    kernel: str
    times: Tuple[Tuple[str, float], ...]
    measured: int

    def __str__(self) -> str:
        config, median = self.times[0]
        return f"{self.kernel}: {config}: {median:.4g} ms, the fastest of {len(self.times)} ({self.measured} measured)"


class Session(threading.local):
    """Whether this thread is within tune(), and what that has found, by the keys of the ways."""
    tunings: "Optional[Dict[Tuple[bytes, ...], Tuning]]" = None


session = Session()


def settled(plan: Plan, arrays: Sequence[Any]) -> Plan:
    """Called for each call with concrete arrays. Tunes it first, within tune() or where the environment says so."""
    import jax
    if len(plan.ways) == 1:
        return plan
    arrays = [jax.numpy.asarray(one) for one in arrays]
    device = next(iter(arrays[0].devices())) if arrays else _devices.local_device(None, plan.device)
    if device is None or not _devices.launches_here(platform := _devices.platform_of(device)):
        return plan
    is_to_tune = session.tunings is not None or os.environ.get(VARIABLE, "") not in ("", "0")
    before, until = _settled.get((plan, device), (plan, 0.0))
    if session.tunings is None and time.monotonic() < until and (before.chosen or not is_to_tune):
        return before
    target = _devices.target_of(plan, platform)
    known = _known(plan, target, device, is_to_tune)
    if is_to_tune:
        _tune(plan, target, device, arrays, known)
    now = _with_fastest(plan, known)
    with _lock:
        if len(_settled) >= _SETTLED_MAX:
            _settled.clear()
        _settled[plan, device] = now, math.inf if now.chosen else time.monotonic() + _MISS_SECONDS
    return now


def _tune(plan: Plan, target: Any, device: Any, arrays: Sequence[Any], known: "Dict[int, List[float]]") -> None:
    """Measures what is not known, and adds it. Tells tune() once of each problem."""
    measured = _tried(plan, target, device, arrays, known)
    known.update(measured)
    if not known:
        return
    ordered = sorted(known, key=lambda place: known[place])
    tuning = Tuning(plan.title, tuple((str(plan.ways[place].variant), known[place][0]) for place in ordered), len(measured))
    if measured:
        _counts.note_tuned(str(tuning))
    if session.tunings is not None:
        session.tunings.setdefault(tuple(_keys(plan, target, device).values()), tuning)


def found(plan: Plan, target: Any, platform: str) -> Plan:
    """Called when a program is lowered: with what was measured before, for the device that it is for."""
    device = _devices.local_device(platform, plan.device)
    return plan if device is None else _with_fastest(plan, _known(plan, target, device))


def why_untuned() -> str:
    """Why there are no times, for people."""
    from kiln._plugin.settings import Settings
    variable = _switched_off(Settings.of())
    return f"times are not looked for ({variable}=off)" if variable else "not tuned"


def _with_fastest(plan: Plan, known: "Dict[int, List[float]]") -> Plan:
    if not known:
        return plan
    fastest = min(known, key=lambda place: known[place])
    return plan.with_choice(fastest, "tuned" if len(known) == len(plan.ways) else f"tuned, {len(known)} of {len(plan.ways)} configurations")


def _tried(plan: Plan, target: Any, device: Any, arrays: Sequence[Any], known: "Dict[int, List[float]]") -> "Dict[int, List[float]]":
    """As _measure. Where nobody asked for a tuning by name, the call goes on without one, but for CacheMissError."""
    try:
        return _measure(plan, target, device, arrays, known)
    except Exception as error:
        reraise_from_handler(error)
        if session.tunings is not None or isinstance(error, CacheMissError):
            raise
        LOG.warning("kiln: %s: not tuned: %s", plan.title, error)
        return {}


def _measure(plan: Plan, target: Any, device: Any, arrays: Sequence[Any], known: "Dict[int, List[float]]") -> "Dict[int, List[float]]":
    """Of the ways whose times are not known. What does not compile or run is left out, and not tried again. Raises what the first of them
    does if no way is left; CacheMissError."""
    keys = _keys(plan, target, device)
    missing = [place for place, key in keys.items() if place not in known and key not in _failed]
    if not missing:
        return {}
    reasons: Dict[int, Any] = {}
    try:
        times = _times_of(plan, target, device, arrays, missing, reasons)
    except Exception as error:
        reraise_from_handler(error)
        if not known or isinstance(error, CacheMissError):
            raise
        times, reasons = {}, {**dict.fromkeys(missing, error), **reasons}
    for place in missing:
        if place not in times:
            _failed.add(keys[place])
            LOG.warning("kiln: %s: left out: %s: %s", plan.title, plan.ways[place].variant, reasons.get(place, "it did not run"))
    for place, one in times.items():
        _keep(keys[place], one)
    return times


def _times_of(plan: Plan, target: Any, device: Any, arrays: Sequence[Any], places: "Sequence[int]",
              reasons: Dict[int, Any]) -> "Dict[int, List[float]]":
    """Of those of the ways that compile and run. reasons: gets why the others do not. Raises what the first does if none is left;
    LaunchError where none runs; CacheMissError."""
    from kiln.jax import _measurement
    from kiln.jax._compiled import Compiled, compiled_together
    from kiln.jax._lowering import specialization_of
    made = compiled_together([specialization_of(plan, plan.ways[place], target) for place in places])
    kernels = {place: one for place, one in zip(places, made) if isinstance(one, Compiled)}
    reasons.update((place, one) for place, one in zip(places, made) if place not in kernels)
    if not kernels:
        raise made[0]
    return _measurement.measured(plan, kernels, arrays, device, reasons)


# --- Keys and times --------------------------------------------------------------------------------------------------


def _known(plan: Plan, target: Any, device: Any, is_to_measure: bool = False) -> "Dict[int, List[float]]":
    """Times by way: of this process, otherwise of the daemon. is_to_measure: what is not known is measured next, so the settings may
    want the daemon's times left out. A recording gets the daemon's times that are taken."""
    from kiln._plugin.settings import Settings
    keys = _keys(plan, target, device)
    with _lock:
        known = {place: _times[key] for place, key in keys.items() if key in _times}
    settings = Settings.of()
    is_renewed = is_to_measure and (settings.tunings == "renew" or settings.mode == "record")
    missing = {place: key for place, key in keys.items() if not (place in known or key in _failed or key.startswith(_OF_THIS_PROCESS))}
    if not missing or is_renewed or _switched_off(settings):
        return known
    from kiln._plugin.attempt import attempt
    with attempt("to look for the times of a tuning"):
        _find(settings, [key for key in missing.values() if key not in _found])
    with _lock:
        known.update((place, _found[key]) for place, key in missing.items() if key in _found)
    return known


def _find(settings: Any, keys: "Sequence[bytes]") -> None:
    """Asks the daemon. Declined."""
    from kiln._plugin.manifest import manifest_of
    from kiln._plugin.service import service
    from kiln._plugin.tunings import _read
    kept = service(settings).get_all_own(keys, tunings=True) if keys else {}
    for key, files in kept.items():
        if times := _read(files.get(_FILE, b"")):
            with _lock:
                _found[key] = times
            if (manifest := manifest_of(settings)) is not None:
                manifest.add_own(key, {_FILE: files[_FILE]})


def _switched_off(settings: Any) -> str:
    """The variable that has times neither looked for nor kept, or ""."""
    return "KILN_MODE" if settings.mode == "off" else "KILN_TUNINGS" if settings.tunings == "off" else ""


def _keep(key: bytes, times: "List[float]") -> None:
    with _lock:
        _times[key] = times
        _settled.clear()
    from kiln._plugin.settings import Settings
    settings = Settings.of()
    if _switched_off(settings) or key.startswith(_OF_THIS_PROCESS):
        return
    from kiln._plugin.attempt import attempt
    with attempt("to keep the times of a configuration"):
        from kiln._plugin.manifest import manifest_of
        from kiln._plugin.service import service
        kept = {_FILE: json.dumps(times).encode()}
        if (manifest := manifest_of(settings)) is not None:
            manifest.add_own(key, kept)
        service(settings).put_own(key, kept, tunings=True)


def _keys(plan: Plan, target: Any, device: Any) -> Dict[int, bytes]:
    """A key for each way: as with Triton, what the user's `key` names and the types of the arrays decide, and not their shapes."""
    from kiln._plugin import eligibility, groups, source_dependencies, tunings
    from kiln._plugin.service import Declined
    from kiln._plugin.settings import Settings
    from kiln.jax._lowering import specialization_of
    tuner = plan.kernel.tuner
    types = [one.dtype.name for one in (*plan.operands, *plan.outputs)]
    values = [repr(plan.arguments.get(name, plan.ways[0].variant.keywords.get(name))) for name in tuner.keys]
    benchmark = ["kiln.jax 2", tuner.reset_to_zero, tuner.restore_value]
    decides = {"problem": [list(tuner.keys), values, types], "aliases": sorted(plan.aliases.items()), "benchmark": benchmark}
    asked = [(specialization_of(plan, way, target), {**decides, "zeroed": list(way.zeroed)}) for way in plan.ways]
    try:
        tunings.check_kernels(*eligibility.vendors_of(target))
        model = _devices.model(device)
        return {place: groups.key_of("tuning", (wanted.source, wanted.options), Settings.of(), device=model, **launch)
                for place, (wanted, launch) in enumerate(asked)}
    except (Declined, source_dependencies.Unknown, OSError):
        return {place: _OF_THIS_PROCESS + repr((device.device_kind, wanted.identity, launch)).encode()
                for place, (wanted, launch) in enumerate(asked)}
