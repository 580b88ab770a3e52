"""What this toolchain is and can do."""

import sys
import typing

from kiln_triton_worker.frames import PROTOCOL
from kiln_triton_worker.toolchain import DISABLE_LINE_INFO
from kiln_triton_worker.warm_kernel import compiles

# Architectures worth trying: a description lists those for which WARM_KERNEL compiles.
CANDIDATE_ARCHITECTURES = {
    "cuda": ("75", "80", "86", "87", "89", "90", "100", "101", "103", "110", "120", "121"),
    "hip": ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151",
            "gfx1200", "gfx1201", "gfx1250"),
}

OPTION_TYPES = {bool: "bool", int: "integer", float: "number", str: "string", tuple: "tuple", dict: "tuple", list: "tuple"}


def option_type(declared, resolved):
    """The name of a declared type; "any" where it cannot be told or where the backend itself does not keep to it."""
    origin = typing.get_origin(declared)
    if origin is typing.Union:
        inner = [kind for kind in typing.get_args(declared) if kind is not type(None)]
        return option_type(inner[0], resolved) if len(inner) == 1 else "any"
    name = OPTION_TYPES.get(origin or declared, "any")
    for value in resolved:
        if value is not None and OPTION_TYPES.get(type(value)) != name:
            return "any"
    return name


def describe_options(toolchain, backend, architectures):
    """{name: {"type", "default"}}. A default stands only where it is the same on every architecture and where asking for it
    gives the same as not asking."""
    made = [toolchain.target(backend, architecture) for architecture in architectures]
    declared = {name: field.type for name, field in getattr(type(made[0][2]), "__dataclass_fields__", {}).items()}
    described = {DISABLE_LINE_INFO: {"type": "bool", "default": False}}
    for name in made[0][2].__dict__:
        resolved = [defaults.__dict__.get(name) for _, _, defaults in made]
        entry = {"type": option_type(declared.get(name, type(resolved[0])), resolved)}
        fixed = all(value == resolved[0] and type(value) is type(resolved[0]) for value in resolved)
        if fixed and resolved[0] is not None and name not in ("extern_libs", "arch") and all(
                same_when_asked(one, defaults, name) for _, one, defaults in made):
            entry["default"] = resolved[0]
        described[name] = entry
    return described


def same_when_asked(backend, defaults, name):
    try:
        return backend.parse_options({name: getattr(defaults, name)}).__dict__ == defaults.__dict__
    except Exception:
        return False


def describe(compiler):
    toolchain = compiler.toolchain
    described = []
    for backend in toolchain.backends:
        architectures = [one for one in CANDIDATE_ARCHITECTURES.get(backend, ()) if compiles(compiler, backend, one)]
        if not architectures:
            continue
        _, made, defaults = toolchain.target(backend, architectures[0])
        stages = list(toolchain.stages(made, defaults))
        described.append({
            "backend": backend,
            "architectures": architectures,
            "stages": stages[stages.index("ttir") + 1:],
            "options": describe_options(toolchain, backend, architectures),
        })
    versions = {tool: compiler.assemblers.version(tool) for tool in ("ptxas", "ptxas-blackwell")}
    tools = [f"{tool} {version}" for tool, version in versions.items() if version]
    if any(entry["backend"] == "hip" for entry in described):
        tools.append("lld (in libtriton)")
    return {
        "protocol": PROTOCOL,
        "name": "triton",
        "version": toolchain.version,
        "python": ".".join(map(str, sys.version_info[:3])),
        "assembler": ", ".join(tools),
        "hidden_pointers": toolchain.hidden_pointers(),
        "kinds": ["ttir", "ttgir"],
        "backends": described,
    }
