"""jaxlib's own targets for Triton kernels. They take PTX, which jaxlib compiles again, and lack what `obstacle` lists."""

import zlib
from typing import Any, List, Sequence, Tuple

from kiln.jax._launch import Launch

# Types of values that their messages have, by Triton's.
_SCALARS = {"u1": "i1", "i1": "i1", "i32": "i32", "u32": "u32", "i64": "i64", "u64": "u64", "fp32": "fp32", "fp64": "fp64"}
_ALIGNMENT = 16
# Target, first jaxlib without the fault, and the fault: jaxlib tells of none.
KNOWN_BAD = (("triton_kernel_call_ffi", (0, 10, 2), "before jaxlib 0.10.2 its first launch, which loads the kernel, may be within a capture"),)


class Target:
    """One of the two: they differ in the name, and in how the message is packed."""

    def __init__(self, name: str, is_typed: bool) -> None:
        self.name = name
        self._is_typed = is_typed

    def obstacle(self, launch: Launch) -> str:
        made = launch.made
        if not _is_registered(launch.platform, self.name):
            return f"jaxlib has no such target for {launch.platform}"
        for name, good_version, fault in KNOWN_BAD:
            if name == self.name and _jaxlib_version() < good_version:
                return fault
        if made.target.backend != "cuda" or not made.ptx:
            return "it takes PTX alone"
        for what, words in (("global_scratch_size", "scratch memory"), ("profile_scratch_size", "profile scratch")):
            if made.number(what):
                return f"it gives a kernel no {words}"
        for what in ("launch_pdl", "launch_cooperative_grid"):
            if made.metadata.get(what):
                return f"it cannot express {what}"
        if launch.descriptors:
            return "it makes no tensor descriptors"
        unpassed, outputs = launch.plan.unpassed_outputs, len(launch.plan.outputs)
        if unpassed != tuple(range(outputs - len(unpassed), outputs)):
            return "it can leave out the last outputs alone"
        if 0 in launch.way.grid:
            return "it cannot launch an empty grid"
        unknown = [kind for _, kind in made.parameters if not kind.startswith("*") and kind not in _SCALARS]
        return f"it has no {unknown[0]} values" if unknown else ""

    def emit(self, context: Any, operands: Sequence[Any], launch: Launch, decision: str) -> "List[Any]":
        from kiln.jax import _custom_call
        opaque = zlib.compress(_message(launch))
        return _custom_call.emit(self.name, context, operands, launch.plan, {"opaque": opaque} if self._is_typed else opaque, decision)


def _is_registered(platform: str, target: str) -> bool:
    """Whether the GPU plugin of this process's jaxlib has it. XLA's own list does not show what a plugin has registered with itself."""
    from jax._src.lib import gpu_triton
    plugin: Any = getattr(gpu_triton, {"cuda": "_cuda_triton", "rocm": "_hip_triton"}.get(platform, ""), None)
    if target == LEGACY.name:
        return hasattr(plugin, "get_custom_call")
    return hasattr(plugin, "registrations") and target in plugin.registrations()


def _jaxlib_version() -> Tuple[int, ...]:
    import jaxlib
    return tuple(int(part) for part in jaxlib.__version__.split(".")[:3] if part.isdecimal())


def _message(launch: Launch) -> bytes:
    from jax._src.lib import gpu_triton as messages
    plan, made = launch.plan, launch.made
    kernel = messages.TritonKernel(made.name, made.number("num_warps"), max(1, made.number("num_ctas")), made.number("shared"), made.ptx, "",
                                   made.target.arch)
    zeroed_bytes = {name: output.nbytes for name, output, is_zeroed in zip(plan.output_names, plan.outputs, launch.way.zeroed) if is_zeroed}
    parameters = [
        messages.create_array_parameter(zeroed_bytes.get(name, 0), _ALIGNMENT) if kind.startswith("*") else
        messages.create_scalar_parameter(launch.value(name), _SCALARS[kind]) for name, kind in made.parameters
    ]
    call = messages.TritonKernelCall(kernel, *launch.way.grid, parameters)
    return bytes(call.to_proto(plan.title, plan.metadata))


FFI = Target("triton_kernel_call_ffi", is_typed=True)
LEGACY = Target("triton_kernel_call", is_typed=False)
