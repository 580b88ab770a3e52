"""Kiln's own target of XLA: client/jax in Kiln's source has the handler, and what the attributes mean."""

import ctypes
import functools
import math
import os
import threading
from typing import Any, Dict, List, Sequence, Tuple

from kiln.jax import _devices
from kiln.jax._launch import Launch

name = "kiln_launch"
LIBRARY_VARIABLE = "KILN_JAX_LIBRARY"
_FILE = "libkiln_jax.so"
_BACKENDS = {"cuda": b"cuda", "rocm": b"hip"}
_PLATFORMS = {"cuda": "CUDA", "rocm": "ROCM", "cpu": "cpu"}


def obstacle(launch: Launch) -> str:
    if launch.made.metadata.get("tensordesc_meta") and launch.made.target.backend != "cuda":
        return "it makes tensor descriptors for CUDA alone"
    return _obstacle(launch.platform)


def register(platform: str = "cuda") -> None:
    """Lets this process run programs with Kiln's target that were exported elsewhere; a triton_call does it by itself. platform: "cuda" or
    "rocm". ValueError where there is no handler, or no driver for a GPU that is here."""
    if why := _obstacle(platform):
        raise ValueError(f"{name} cannot be registered with JAX: {why}")


def _obstacle(platform: str) -> str:
    """Registers the handler with this process's JAX. Why that cannot be, or ""."""
    with _lock:  # two threads may lower the first programs
        return _registered(platform)


@functools.lru_cache(maxsize=None)
def _registered(platform: str) -> str:
    import jax
    if not hasattr(jax, "ffi") or not hasattr(jax.ffi, "register_ffi_type"):
        return f"JAX {jax.__version__} has no FFI with states"
    path = os.environ.get(LIBRARY_VARIABLE, "") or os.path.join(os.path.dirname(os.path.dirname(__file__)), _FILE)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        return f"{error}" if os.path.exists(path) else f"this build of Kiln has no {_FILE}"
    library.kiln_jax_open.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    for symbol in ("kiln_jax_type_id", "kiln_jax_type_info", "kiln_jax_error"):
        getattr(library, symbol).restype = ctypes.c_char_p if symbol == "kiln_jax_error" else ctypes.c_void_p
    # A program for another machine needs no driver here.
    if platform in _BACKENDS and _devices.local_device(platform, 0) is not None and library.kiln_jax_open(_BACKENDS[platform], None):
        return str(library.kiln_jax_error().decode(errors="replace"))
    state = {"type_id": _capsule(library.kiln_jax_type_id()), "type_info": _capsule(library.kiln_jax_type_info())}
    stages = {"instantiate": jax.ffi.pycapsule(library.KilnJaxInstantiate), "execute": jax.ffi.pycapsule(library.KilnJaxExecute)}
    jax.ffi.register_ffi_type("kiln_launch_state", state, platform=_PLATFORMS[platform])
    jax.ffi.register_ffi_target(name, stages, platform=_PLATFORMS[platform])
    _libraries[platform] = library  # XLA calls it until the process ends
    return ""


_libraries: Dict[str, Any] = {}
_lock = threading.Lock()


def _capsule(address: int) -> Any:
    """Of data: jax.ffi.pycapsule is for functions."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(address, None, None)


def emit(context: Any, operands: Sequence[Any], launch: Launch, decision: str) -> "List[Any]":
    """Scratch is a result of its own, so that it lives as long as a captured graph needs it."""
    from kiln.jax import _custom_call
    outputs = len(launch.plan.outputs)
    scratch, places = _scratch(launch, outputs)
    x, y, z = launch.way.grid
    attributes = {
        "name": launch.plan.title, "binary": launch.made.binary, "metadata": launch.made.document, "parameters": launch.parameters,
        "scalars": launch.scalars, "descriptors": launch.descriptors, "grid_x": x, "grid_y": y, "grid_z": z,
        "zeroed": "".join(_letter(launch, place) for place in range(outputs)) + "0" * len(scratch), **places
    }
    return _custom_call.emit(name, context, operands, launch.plan, attributes, decision, scratch_bytes=scratch)[:outputs]


def _letter(launch: Launch, output: int) -> str:
    """What is done with an output, as client/jax/call_attributes.h has it."""
    return "-" if output in launch.plan.unpassed_outputs else "1" if launch.way.zeroed[output] else "0"


def _scratch(launch: Launch, outputs: int) -> "Tuple[List[int], Dict[str, int]]":
    """Bytes of each scratch, and the result that is each kind; -1: none."""
    programs = math.prod(launch.way.grid) * max(1, launch.made.number("num_ctas"))
    sizes: List[int] = []
    places = {}
    for what in ("global_scratch", "profile_scratch"):
        size = programs * launch.made.number(f"{what}_size")
        places[what] = outputs + len(sizes) if size else -1
        sizes += [size] if size else []
    return sizes, places
