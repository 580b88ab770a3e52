"""Decides which compiles the daemon can do exactly as this process would. All others stay local.

A request carries the module, the target, the options and the ptxas. Switches of Triton, in the environment or in
`triton.knobs`, can change a compile too. Any switch that is not at its default and not known to be harmless keeps the
compile local. This covers switches that a later Triton adds.
"""

import dataclasses
import functools
import os
import sys
from types import FunctionType
from typing import Any, Dict, Mapping, Tuple

from triton import knobs
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.backends import backends

from kiln._plugin import identity
from kiln._plugin.service import Declined

# In Triton's key, without effect after TTIR or carried by the request: options carry the result of the first two and the last, the
# module that of the third.
_HARMLESS_VARIABLES = frozenset({
    "TRITON_DEFAULT_FP_FUSION", "TRITON_FORCE_DISABLE_FP_FUSION", "TRITON_F32_DEFAULT", "TRITON_ENABLE_PYTHON_STACKTRACE",
    "MLIR_DISABLE_MULTITHREADING", "TRITON_DISABLE_LINE_INFO"
})
# Not in Triton's key, but they ask the compiler to run here.
_OTHER_VARIABLES = ("TRITON_REPRODUCER_PATH", "TRITON_PLUGIN_PATHS", "LLVM_PASS_PLUGIN_PATH")
# Without effect after TTIR, or with an effect that the request's options or ptxas carry.
_HARMLESS_KNOBS = frozenset({
    "store_binary_only", "front_end_debugging", "allow_non_constexpr_globals", "listener", "cuobjdump", "nvdisasm", "ptxas",
    "ptxas_blackwell", "ptxas_options", "libcuda_path", "libhip_path", "disable_line_info"
})
_VENDORS = {"cuda": "nvidia", "hip": "amd"}
# Follow from the target. Left out, so that a recorded request can be repeated for another target.
_OF_TARGET = ("arch", "base_arch", "warp_size", "backend_name")
_COMPUTED_FROM_TARGET = ("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "max_num_imprecise_acc_default",
                         "allowed_dot_input_precisions")

# By vendors: the environment, and what the program has set of knobs, with which none of these kept a compile local.
_passed: Dict[Tuple[str, ...], Any] = {}

# Always in a request: their defaults differ between backends, or depend on the environment or the hardware.
_ALWAYS_RECORDED = frozenset({"num_warps", "num_stages", "num_ctas", "enable_fp_fusion", "ptx_options"})


class NotExpressible(Declined):
    """A request cannot describe this compile. The text is the reason, for the report."""


def target_name(target: Any) -> str:
    """The request's name for a target of Triton's."""
    return f"{target.backend}:{target.arch}:{target.warp_size}"


def check(backend: Any, stages: Mapping[str, Any], options: Any) -> None:
    """Raises NotExpressible if the daemon's result might differ from this process's."""
    vendor = _VENDORS.get(backend.target.backend)
    if vendor is None or type(backend) is not backends[vendor].compiler:
        raise NotExpressible("its backend is not one of Triton's own")
    if not stages or not all(_is_tritons(stage, backend, options) for stage in stages.values()):
        raise NotExpressible("a hook of the program's has changed its stages")
    if "ttir" not in stages or "ttgir" not in stages:
        raise NotExpressible("it is not a Triton kernel (Gluon)")
    if getattr(options, "instrumentation_mode", ""):
        raise NotExpressible("it is instrumented")
    if getattr(options, "ir_override", None):
        raise NotExpressible("ir_override names a file")
    check_switches(vendor)


def _is_tritons(stage: Any, backend: Any, options: Any) -> bool:
    """Whether this is a stage as Triton makes it for this backend and these options, and runs nothing that a hook gave the backend."""
    made_for = [cell.cell_contents for cell in getattr(stage, "__closure__", None) or ()]
    return (getattr(stage, "__code__", None) in type(backend).add_stages.__code__.co_consts
            and all(one is backend or one is options or type(one) is int for one in made_for)
            and not vars(backend).keys() & vars(type(backend)).keys())


def vendors_of(target: Any) -> Tuple[str, ...]:
    """For check_switches()."""
    vendor = _VENDORS.get(getattr(target, "backend", ""))
    return () if vendor is None else (vendor,)


def check_switches(*vendors: str) -> None:
    """Raises NotExpressible if a switch, or what the program has changed of Triton's backends, keeps every compile local. Without
    vendors, checks those of all."""
    vendors = vendors or tuple(_VENDORS.values())
    groups = [knobs.compilation, *(getattr(knobs, vendor) for vendor in vendors)]
    variables = get_cache_invalidating_env_vars()
    settings = (variables, dict(getattr(os.environ, "_data", os.environ)), [dict(vars(group)) for group in groups])
    if _passed.get(vendors) != settings:
        _check_variables(variables)
        for group in groups:
            _check_knobs(group)
        _passed[vendors] = settings
    for vendor in vendors:
        if vendor in backends:
            _check_backend(vendor, backends[vendor].compiler)


def _check_backend(vendor: str, backend: type) -> None:
    if getattr(backend, "instrumentation", None):
        raise NotExpressible("it is instrumented")
    if backend.__module__ != f"triton.backends.{vendor}.compiler":
        raise NotExpressible("its backend is not one of Triton's own")
    for owner in backend.__mro__[:-1]:
        file = sys.modules[owner.__module__].__file__
        for name, member in vars(owner).items():
            function = member.__func__ if type(member) is staticmethod else member
            if isinstance(function, functools._lru_cache_wrapper):
                function = function.__wrapped__
            if callable(function) and (type(function) is not FunctionType or function.__code__.co_filename != file):
                raise NotExpressible(f"{owner.__name__}.{name} is not Triton's own")


def _check_variables(variables: Mapping[str, str]) -> None:
    changed = {name for name, value in variables.items() if value != "false" or not _is_off_unset(name)}
    changed -= _HARMLESS_VARIABLES
    changed.update(name for name in _OTHER_VARIABLES if os.environ.get(name))
    if changed:
        raise NotExpressible(f"{', '.join(sorted(changed))} is set")


def _is_off_unset(variable: str) -> bool:
    """Whether the variable's knob is off by default, so that "off" means the same as unset."""
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
    """The knob's default, or None. In Triton 3.4 a function returns it."""
    default = getattr(knob, "default", None)
    return default() if callable(default) else default


def expressed(backend: Any, options: Any) -> Dict[str, Any]:
    """The options of a request, by name. Raises NotExpressible if one has a value that cannot be sent."""
    given = {name: value for name, value in options.__dict__.items() if value is not None}
    defaults = backend.parse_options({}).__dict__
    _check_libraries(given.pop("extern_libs", ()), defaults.get("extern_libs"))
    _check_target(backend.target, given, defaults)
    for name in _COMPUTED_FROM_TARGET:
        if name in given and given[name] == defaults.get(name):
            del given[name]
    for name, value in given.items():
        if not _is_plain(value):
            raise NotExpressible(f"the option {name} is not a plain value")
        if name == "ptx_options" and "/" in value:
            raise NotExpressible("ptx_options names a file")
    if knobs.compilation.disable_line_info:
        given["disable_line_info"] = True
    return given


def without_defaults(given: Mapping[str, Any], backend: Any, options: Any) -> Dict[str, Any]:
    """`given` (from expressed()) without options at their defaults, which the daemon fills in alike. The rest can be repeated for
    a target of another vendor, which does not know all options. An option counts as default if its value is both the declared
    one and the one that parse_options gives unasked."""
    declared = {field.name: field.default for field in dataclasses.fields(options)}
    unsaid = backend.parse_options({}).__dict__
    return {
        name: value for name, value in given.items()
        if name in _ALWAYS_RECORDED or not _is_same(value, declared.get(name)) or not _is_same(value, unsaid.get(name))
    }


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _check_libraries(given: Any, default: Any) -> None:
    # The daemon has the toolchain's own libraries, and reads no file of a client.
    if given != default:
        raise NotExpressible("extern_libs names files")
    for _, path in given:
        identity.check_installed(path)


def _check_target(target: Any, given: Dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Removes the options that follow from the target."""
    architecture = f"sm{target.arch}" if target.backend == "cuda" else target.arch
    if given.get("arch", architecture) != architecture:
        raise NotExpressible("it is compiled for another architecture than the target's")
    for name in _OF_TARGET:
        if given.pop(name, None) != defaults.get(name):
            raise NotExpressible(f"{name} is not the target's")


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):  # a list is for Triton to refuse
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str))
