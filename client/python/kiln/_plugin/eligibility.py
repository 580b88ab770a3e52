"""Which compiles the daemon can do exactly as this process would. Everything else stays here.

A request carries the module, the target, the options and the ptxas. What else changes a compile is a switch of Triton's,
set through the environment or through `triton.knobs`. So a switch that is not known to be harmless and not at its default
keeps the compile here, those that a later Triton adds included.
"""

import dataclasses
import os
from typing import Any, Dict, Mapping

from triton import knobs
from triton._C.libtriton import get_cache_invalidating_env_vars

# Switches that Triton's key covers and that leave what comes after TTIR alone: the options that the hook sees carry the
# result of the first two, the module that of the third.
_HARMLESS_VARIABLES = frozenset({
    "TRITON_DEFAULT_FP_FUSION", "TRITON_FORCE_DISABLE_FP_FUSION", "TRITON_F32_DEFAULT", "TRITON_ENABLE_PYTHON_STACKTRACE",
    "MLIR_DISABLE_MULTITHREADING"
})
# Not in Triton's key, and yet whoever sets them wants the compiler to run here.
_OTHER_VARIABLES = ("TRITON_REPRODUCER_PATH", "TRITON_PLUGIN_PATHS", "LLVM_PASS_PLUGIN_PATH")
# Knobs that decide nothing behind TTIR, or whose effect is in the options or the ptxas that a request names.
_HARMLESS_KNOBS = frozenset({
    "store_binary_only", "front_end_debugging", "allow_non_constexpr_globals", "listener", "cuobjdump", "nvdisasm", "ptxas",
    "ptxas_blackwell", "ptxas_options", "libdevice_path", "libcuda_path", "libhip_path"
})
_VENDORS = {"cuda": "nvidia", "hip": "amd"}
# They follow from the target, so they are left out, and a recorded request can be repeated for another one.
_OF_TARGET = ("arch", "base_arch", "warp_size", "backend_name")
_COMPUTED_FROM_TARGET = ("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "max_num_imprecise_acc_default",
                         "allowed_dot_input_precisions")

# Said in any case: every backend has them, each with defaults of its own, which the environment or the hardware may decide.
_ALWAYS_RECORDED = frozenset({"num_warps", "num_stages", "num_ctas", "enable_fp_fusion", "ptx_options"})


class NotExpressible(Exception):
    """A compile that a request cannot describe; the text says why, in words for a report."""


def target_name(target: Any) -> str:
    """A request's, for a target of Triton's."""
    return f"{target.backend}:{target.arch}:{target.warp_size}"


def check(backend: Any, stages: Mapping[str, Any], options: Any) -> None:
    """NotExpressible where the daemon's result might differ from this process's."""
    vendor = _VENDORS.get(backend.target.backend)
    if vendor is None or type(backend).__module__ != f"triton.backends.{vendor}.compiler":
        raise NotExpressible("its backend is not one of Triton's own")
    if "ttir" not in stages or "ttgir" not in stages:
        raise NotExpressible("it is no Triton kernel (Gluon)")
    if getattr(type(backend), "instrumentation", None) or getattr(options, "instrumentation_mode", ""):
        raise NotExpressible("it is instrumented")
    if getattr(options, "ir_override", None):
        raise NotExpressible("ir_override names a file")
    check_switches(vendor)


def check_switches(*vendors: str) -> None:
    """NotExpressible where one is set that keeps every compile here: of all vendors where none is named."""
    _check_variables()
    for group in (knobs.compilation, *(getattr(knobs, vendor) for vendor in vendors or _VENDORS.values())):
        _check_knobs(group)


def _check_variables() -> None:
    changed = {name for name, value in get_cache_invalidating_env_vars().items() if value != "false" or not _is_off_unset(name)}
    changed -= _HARMLESS_VARIABLES
    changed.update(name for name in _OTHER_VARIABLES if os.environ.get(name))
    if changed:
        raise NotExpressible(f"{', '.join(sorted(changed))} is set")


def _is_off_unset(variable: str) -> bool:
    """Whether it is one that turns something on, so that spelling out that it does not is the same as leaving it out."""
    groups = (knobs.compilation, *(getattr(knobs, vendor) for vendor in _VENDORS.values()))
    return any(knob.key == variable and _default(knob) is False
               for group in groups for knob in group.knob_descriptors.values())


def _check_knobs(group: Any) -> None:
    for name, knob in group.knob_descriptors.items():
        if name not in _HARMLESS_KNOBS and getattr(group, name) != _default(knob):
            raise NotExpressible(f"{knob.key} is set")
    if getattr(group, "instrumentation_mode", ""):  # a plain attribute, read once
        raise NotExpressible("it is instrumented")


def _default(knob: Any) -> Any:
    """None also where nothing is declared. In Triton 3.4 it comes from a function."""
    default = getattr(knob, "default", None)
    return default() if callable(default) else default


def expressed(backend: Any, options: Any) -> Dict[str, Any]:
    """The options of a request, by name. NotExpressible where one has no value that can be sent."""
    given = {name: value for name, value in options.__dict__.items() if value is not None}
    defaults = backend.parse_options({}).__dict__
    _check_libraries(given.pop("extern_libs", ()), defaults.get("extern_libs"))
    _check_target(backend.target, given, defaults)
    for name in _COMPUTED_FROM_TARGET:
        if name in given and given[name] == defaults.get(name):
            del given[name]
    for name, value in given.items():
        if not _is_plain(value):
            raise NotExpressible(f"the option {name} is no plain value")
        if name == "ptx_options" and "/" in value:
            raise NotExpressible("ptx_options names a file")
    return given


def without_defaults(given: Mapping[str, Any], backend: Any, options: Any) -> Dict[str, Any]:
    """`given`, what expressed() returned, without what says nothing, so that it can be repeated for a target of another vendor, which
    does not know all the options: those that have the value that the options' class declares, and get it here too when nobody says
    anything. So they have it in the daemon."""
    declared = {field.name: field.default for field in dataclasses.fields(options)}
    unsaid = backend.parse_options({}).__dict__
    return {
        name: value for name, value in given.items()
        if name in _ALWAYS_RECORDED or not _is_same(value, declared.get(name)) or not _is_same(value, unsaid.get(name))
    }


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _check_libraries(given: Any, default: Any) -> None:
    # The daemon has the toolchain's own, and reads no file of a client's.
    package = os.path.dirname(knobs.__file__) + os.sep
    if given != default or not all(path.startswith(package) for _, path in given):
        raise NotExpressible("extern_libs names files")


def _check_target(target: Any, given: Dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Takes away what follows from the target."""
    architecture = f"sm{target.arch}" if target.backend == "cuda" else target.arch
    if given.get("arch", architecture) != architecture:
        raise NotExpressible("it is compiled for another architecture than the target's")
    for name in _OF_TARGET:
        if given.pop(name, None) != defaults.get(name):
            raise NotExpressible(f"{name} is not the target's")


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str))
