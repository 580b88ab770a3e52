"""The device that a program is for, as Triton's target."""

from typing import Any, Dict, Sequence

from kiln.jax._plan import Plan

_BACKENDS = {"cuda": "cuda", "rocm": "hip"}


def target_of(plan: Plan, platform: str) -> Any:
    """ValueError where neither the call nor a local GPU says the architecture."""
    from triton.backends.compiler import GPUTarget
    backend = _BACKENDS.get(platform, "cuda")
    told = plan.capability if plan.capability is not None else _of_device(plan, platform)
    text = str(told)
    if backend == "cuda":
        digits = text.replace(".", "").removeprefix("sm_").rstrip("af")
        if not digits.isdecimal() or not 2 <= len(digits) <= 3:
            raise ValueError(f"{plan.title}: compute_capability: {told!r} is none of CUDA's, such as 90")
        return GPUTarget("cuda", int(digits), 32)
    architecture = text.partition(":")[0]
    if not architecture.startswith("gfx"):
        raise ValueError(f"{plan.title}: compute_capability: {told!r} is none of ROCm's, such as \"gfx942\"")
    return GPUTarget("hip", architecture, 64 if len(architecture) == 6 else 32)


def _of_device(plan: Plan, platform: str) -> Any:
    device = local_device(platform, plan.device)
    if device is None:
        example = "90" if platform != "rocm" else '"gfx942"'
        raise ValueError(f"{plan.title}: this process has no GPU number {plan.device}, so nobody says for which one to compile: give "
                         f"compute_capability={example}")
    return device.compute_capability


def platform_of(device: Any) -> str:
    """JAX's name for it where a program is lowered. A device says "gpu"."""
    if device.platform != "gpu":
        return str(device.platform)
    return "rocm" if "rocm" in device.client.platform_version.lower() else "cuda"


def launches_here(platform: str) -> bool:
    """Whether programs for it may have kernels: GPUs', and in tests others' that have a lowering rule."""
    return platform in _BACKENDS or platform in _others


_others: Dict[str, Any] = {}  # by platform, a runtime of kiln.launch


def add_platform(platform: str, runtime: Any) -> None:
    """For tests: kernels of that platform are launched on a stand-in for a driver."""
    from kiln.jax import _primitive
    _others[platform] = runtime
    _primitive.register(platform)


def launch_runtime(device: Any) -> Any:
    """Of kiln.launch, for its driver."""
    from kiln.launch import Runtime
    platform = platform_of(device)
    return _others.get(platform) or Runtime(backend=_BACKENDS[platform])


def model(device: Any) -> Dict[str, Any]:
    """What times depend on: the model of a device, and its driver."""
    from kiln._plugin.tunings import _driver_version
    platform = platform_of(device)
    return {"platform": platform, "name": device.device_kind, "driver": _driver_version(_BACKENDS[platform]) if platform in _BACKENDS else 0}


def local_device(platform: "str | None", number: int) -> Any:
    """A GPU of this process, or None. platform: None: JAX's default."""
    import jax
    try:
        devices = jax.local_devices(backend=platform)
    except RuntimeError:  # no such platform here
        return None
    return devices[number] if 0 <= number < len(devices) else None


def check_placement(title: str, arrays: "Sequence[Any]") -> None:
    """ValueError for concrete arrays of several devices. Those of a program are looked at when it is lowered."""
    devices: Dict[Any, None] = {}
    for place, array in enumerate(arrays):
        there = getattr(getattr(array, "sharding", None), "device_set", ())
        if len(there) > 1:
            raise ValueError(f"{title}: array argument {place} is on {len(there)} devices: call the kernel inside jax.shard_map, where each "
                             "device has its part")
        devices.update(dict.fromkeys(there))
    if len(devices) > 1:
        raise ValueError(f"{title}: its arrays are on several devices: {', '.join(map(str, devices))}: jax.device_put brings them to one")
