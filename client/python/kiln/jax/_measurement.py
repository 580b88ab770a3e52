"""Measures the ways to run a kernel, outside of XLA: on copies of the arrays, with the launch library's own tuner.

Every candidate finds the same contents. What a launch changes of its inputs is restored before the next one, zeroed outputs are zero.
"""

import ctypes
from typing import Any, Dict, List, Mapping, Sequence

from kiln._launch import library as c
from kiln.errors import LaunchError
from kiln.jax import _devices
from kiln.jax._compiled import Compiled
from kiln.jax._descriptors import Buffer, is_descriptor
from kiln.jax._plan import Plan


def measured(plan: Plan, kernels: "Mapping[int, Compiled]", arrays: Sequence[Any], device: Any,
             reasons: Dict[int, Any]) -> Dict[int, List[float]]:
    """Times in milliseconds (median, 20th and 80th percentile) of the ways that run. kernels: by way. arrays: concrete, on the device.
    reasons: gets why the others do not run. LaunchError where none runs."""
    from kiln.jax._launch import launch_of
    buffers, runtime = _Buffers(plan, arrays, device), _devices.launch_runtime(device)
    places, opened, candidates = list(kernels), [], (c.Candidate * len(kernels))()
    for index, place in enumerate(places):
        way = plan.ways[place]
        candidates[index].size = ctypes.sizeof(c.Candidate)
        try:
            launch = launch_of(plan, way, kernels[place], "cuda")
            kernel = _opened(runtime, kernels[place], device.local_hardware_id)
        except (LaunchError, ValueError) as error:
            reasons[place] = error
            continue  # needs more than the device has: NULL leaves it out
        values = _values(launch, kernel, buffers)
        frame = kernel._packer.take()
        kernel._packer.pack_into(frame.buffer, kernel._packer.OFFSET, *way.grid, 0, 0, 0, 0, 0, 0, 0,
                                 *(one.check(value) for one, value in zip(kernel._kinds, values)))
        opened.append((kernel, frame))
        for field, given in zip(("kernel", "config", "arguments", "argument_count"), frame.call):
            setattr(candidates[index], field, given.value if not isinstance(given, ctypes.Array) else ctypes.addressof(given))
    tuned = (c.Tuned * len(kernels))()
    for one in tuned:
        one.size = ctypes.sizeof(c.Tuned)
    _call(runtime, candidates, buffers, tuned, plan.title)
    for place, one in zip(places, tuned):
        if one.code:
            reasons.setdefault(place, one.reason.decode(errors="replace"))
    return {place: [one.median_ms, one.low_ms, one.high_ms] for place, one in zip(places, tuned) if one.code == 0 and one.runs > 0}


def _values(launch: Any, kernel: Any, buffers: "_Buffers") -> "List[Any]":
    """Of all parameters, in order."""
    values: List[Any] = []
    for name, kind in launch.made.parameters:
        if is_descriptor(kind):
            one = launch.plan.arguments[name]
            values += kernel.descriptor(len(values), buffers.addresses[name], one.shape, one.strides, fills_with_nan=one.padding == "nan",
                                        rounds_to_tf32=one.round_f32_to_tf32).values
        else:
            values.append(buffers.addresses[name] if kind.startswith("*") else launch.value(name))
    return values


def _call(runtime: Any, candidates: Any, buffers: "_Buffers", tuned: Any, title: str) -> None:
    reads, writes = _ranges(buffers.reads), _ranges(buffers.writes)
    options = c.AutotuneOptions(reads=ctypes.addressof(reads), read_count=len(buffers.reads), writes=ctypes.addressof(writes),
                      write_count=len(buffers.writes))
    fastest = ctypes.c_uint32()
    c.library().call("autotune", runtime._handle, ctypes.byref(candidates), len(candidates), ctypes.byref(options), ctypes.byref(tuned),
                     ctypes.byref(fastest), kernel=title)


def _opened(runtime: Any, made: Compiled, ordinal: int) -> Any:
    from kiln.launch import _Handle
    document = made.document.encode()
    given = c.Bytes(json=document, json_bytes=len(document), binary=made.binary, binary_bytes=len(made.binary))
    with _Handle("artifact_close") as artifact:
        c.library().call("artifact_open_bytes", ctypes.byref(given), ctypes.byref(artifact), kernel=made.name)
        return runtime._open(artifact, ordinal)


class _Buffers:
    """Copies of a call's arrays, and its outputs. addresses: by parameter. reads, writes: (address, bytes) of what the tuner is to keep as it is before each
    run (in both), and of what runs may overwrite."""

    def __init__(self, plan: Plan, arrays: Sequence[Any], device: Any) -> None:
        import jax
        import jax.numpy as jnp
        tuner = plan.kernel.tuner
        names = [name for name, one in plan.arguments.items() if isinstance(one, Buffer)]
        inputs = dict(zip(names, arrays))
        outputs = dict(enumerate(plan.output_names))
        copies = {name: jnp.zeros_like(array) if name in tuner.reset_to_zero else jnp.array(array, copy=True) for name, array in inputs.items()}
        aliased = {output: names[operand] for operand, output in plan.aliases.items()}
        for place, name in outputs.items():
            copies[name] = copies[aliased[place]] if place in aliased else jax.device_put(
                jnp.zeros(plan.outputs[place].shape, plan.outputs[place].dtype), device)
        jax.block_until_ready(list(copies.values()))
        self._copies = copies  # until the tuning ends
        self.addresses = {name: array.unsafe_buffer_pointer() for name, array in copies.items()}
        ranges = {name: (self.addresses[name], array.nbytes) for name, array in copies.items() if array.nbytes}
        zeroed = {name for place, name in outputs.items() if any(way.zeroed[place] for way in plan.ways)}
        kept = {*zeroed, *tuner.reset_to_zero, *tuner.restore_value}
        self.reads = [one for name, one in ranges.items() if name in inputs or name in kept]
        self.writes = [one for name, one in ranges.items() if name in plan.output_names or name in kept]


def _ranges(given: "Sequence[tuple[int, int]]") -> Any:
    return (c.Range * max(1, len(given)))(*(c.Range(address, size) for address, size in given))
