"""From a plan to the custom call of a program."""

import itertools
import os
from typing import Any, Callable, Dict, List, Sequence, Tuple

from kiln._plugin.settings import LOG
from kiln.jax import _counts, _devices, _targets
from kiln.jax._compiled import Compiled, compiled
from kiln.jax._launch import Launch, launch_of
from kiln.jax._plan import Plan, Way
from kiln.jax._specialization import Specialization, check_globals, pipeline_key, specialized, unpassed

# The launches of calls that were lowered before, by all that decides them. A program is often lowered again with the same calls.
_launches: "Dict[Tuple[Any, ...], Launch]" = {}
_LAUNCHES_MAX = 4096
_numbers = itertools.count()
_surrounded: "Tuple[Any, int]" = (None, next(_numbers))


def lower(platform: "str | None") -> Callable[..., Any]:
    """The rule for a platform of JAX."""

    def rule(context: Any, *operands: Any, plan: Plan) -> Any:
        if platform is None:
            raise ValueError(f"{plan.title}: Triton's kernels run on GPUs, and this program is for {', '.join(platforms_of(context))}: put its "
                             'arrays on a GPU, or lower it for one with lowering_platforms=("cuda",) and compute_capability=90')
        return lower_plan(plan, platform, context, operands)

    return rule


def lower_plan(plan: Plan, platform: str, context: Any, operands: Sequence[Any]) -> "List[Any]":
    """The call's outputs, in the IR."""
    _check_sharding(plan, context)
    target = _devices.target_of(plan, platform)
    place, why = _chosen(plan, target, platform)
    identity = (plan, place, target, platform, _surroundings())
    launch = _launches.get(identity)
    if launch is None:
        launch = _launch(plan, plan.ways[place], target, platform)
        if len(_launches) >= _LAUNCHES_MAX:
            _launches.clear()
        _launches[identity] = launch
    check_globals(plan.kernel)
    choice = _targets.choose(launch)
    decision = f"{plan.title}: {choice.name}: {choice.why}{why}"
    _counts.note(choice.name, decision)
    return choice.emit(context, operands, launch, decision)


def _launch(plan: Plan, way: Way, target: Any, platform: str) -> Launch:
    made = compiled(specialization_of(plan, way, target))
    _warn_of_unused_outputs(plan, made)
    return launch_of(plan, way, made, platform)


def _surroundings() -> int:
    """A number for what of the process decides a kernel, beside the call: the environment, Triton's settings, and what a hook adds to
    Triton's key."""
    global _surrounded
    from triton import knobs
    key = pipeline_key()  # first: it turns the plug-in on, which is a setting
    environment = dict(getattr(os.environ, "_data", os.environ))  # not decoded, a tenth of the time
    settings = [dict(vars(group)) for group in vars(knobs).values() if isinstance(group, knobs.base_knobs)]
    now = (environment, settings, key)
    before = _surrounded
    if now != before[0]:
        _surrounded = before = (now, next(_numbers))
    return before[1]


def specialization_of(plan: Plan, way: Way, target: Any) -> Specialization:
    """TypeError: a parameter has no value. ValueError: the target has no clusters."""
    keywords = way.variant.keywords
    missing = unpassed(plan.kernel, plan.arguments, keywords)
    if missing:
        raise TypeError(f"{plan.title}: nothing gives {', '.join(missing)} a value")
    if keywords.get("num_ctas", 1) > 1 and (target.backend != "cuda" or target.arch < 90):
        raise ValueError(f"{plan.title}: num_ctas={keywords['num_ctas']} needs clusters, which {target.backend}:{target.arch} does not have")
    return specialized(plan.kernel, target, plan.arguments, keywords, dict(way.blocks))


def _chosen(plan: Plan, target: Any, platform: str) -> Tuple[int, str]:
    """The place of the way to run the kernel, and for people why, where there are several."""
    from kiln.jax import _tuning
    if len(plan.ways) == 1:
        return 0, ""
    if plan.chosen is None:
        plan = _tuning.found(plan, target, platform)
    place, source = plan.chosen or (0, f"{_tuning.why_untuned()}, the first configuration")
    return place, f"; {source}: {plan.ways[place].variant}"


def _warn_of_unused_outputs(plan: Plan, made: Compiled) -> None:
    """They are no error: a kernel may have an output for some configurations alone."""
    for place, name in enumerate(plan.output_names):
        if place not in plan.aliases.values() and plan.outputs[place].size and name in dict(made.parameters) and not made.uses(name):
            LOG.warning("kiln: %s: the kernel does not use its output %d (%s): its content is undefined", plan.title, place, name)


def platforms_of(context: Any) -> Tuple[str, ...]:
    return tuple(context.platforms or context.module_context.platforms)


def _check_sharding(plan: Plan, context: Any) -> None:
    devices = getattr(context.module_context.axis_context, "num_devices", None)
    if devices is not None and devices > 1:
        raise ValueError(f"{plan.title}: this program is partitioned over {devices} devices, and a kernel cannot be: call it inside "
                         "jax.shard_map, where each device has its part")
