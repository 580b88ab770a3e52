"""A launch that a custom call is to do: the kernel, and the values that it takes."""

import struct
from dataclasses import dataclass
from typing import Any, Tuple

from kiln._launch.parameters import Misfit, kind_of
from kiln.jax._compiled import Compiled
from kiln.jax._descriptors import is_descriptor
from kiln.jax._plan import Plan, Way

_CUDA_GRID_MAX = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True)
class Launch:
    """platform: JAX's. parameters, scalars, descriptors: a letter for each of the kernel's parameters, and the bytes of values and of
    descriptors, as the custom call has them (client/jax/call_attributes.h)."""
    plan: Plan
    way: Way
    made: Compiled
    platform: str
    parameters: str
    scalars: bytes
    descriptors: bytes

    def value(self, parameter: str) -> Any:
        return _value(self.plan, self.way, parameter)


def launch_of(plan: Plan, way: Way, made: Compiled, platform: str) -> Launch:
    """ValueError, which names parameter and value, for one that does not fit its type; for a grid that the GPU does not take."""
    if made.target.backend == "cuda" and any(length > most for length, most in zip(way.grid, _CUDA_GRID_MAX)):
        raise ValueError(f"{plan.title}: grid: {way.grid} is more than CUDA takes, {_CUDA_GRID_MAX}")
    letters, scalars, descriptors = "", b"", b""
    for name, type_name in made.parameters:
        if type_name.startswith("*"):
            letters += "a"
            continue
        if is_descriptor(type_name):
            letters += "d".ljust(len(made.types_of(type_name)), ".")
            descriptors += plan.arguments[name].packed()
            continue
        size, packed = _packed(plan, way, name, type_name)
        letters += str(size)
        scalars += packed
    return Launch(plan, way, made, platform, letters, scalars, descriptors)


def _packed(plan: Plan, way: Way, name: str, type_name: str) -> Tuple[int, bytes]:
    kind = kind_of(type_name, 0, is_triton=True)
    try:
        return kind.size, struct.pack("<" + kind.format, kind.check(_value(plan, way, name)))
    except Misfit as why:
        raise ValueError(f"{plan.title}: {name}: {why}") from None


def _value(plan: Plan, way: Way, parameter: str) -> Any:
    """What the call passes, the configuration or a heuristic gives, or the kernel's default."""
    for given in (plan.arguments, way.variant.keywords):
        if parameter in given:
            return given[parameter]
    return next(one.default for one in plan.kernel.parameters if one.name == parameter)
