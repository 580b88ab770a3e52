"""All example kernels, and what lower.py and reference.py share. Runs under a toolchain's own Python."""

import re

try:
    import triton
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: run it with a toolchain's Python, <toolchain>/bin/python") from None
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import attention
import cross_entropy
import layer_norm
import matmul
import quantize
import reduction
import rotary
import softmax
import vector_add
from declaration import TARGETS

TOOLCHAIN = f"triton=={triton.__version__}"

_MODULES = (
    vector_add,
    softmax,
    layer_norm,
    matmul,
    attention,
    reduction,
    quantize,
    rotary,
    cross_entropy,
)


def instances():
    return [instance for module in _MODULES for instance in module.INSTANCES]


def cases(targets, names=None):
    """Every (instance, target) that exists, in a fixed order."""
    return [
        (instance, target)
        for instance in instances()
        if names is None or instance.name in names
        for target in targets
        if instance.supports(target)
    ]


def case_name(instance, target):
    return f"{instance.name}-{target.replace(':', '-')}"


def gpu_target(target):
    """"cuda:90" as Triton has it. Said outright, so that Triton never asks a GPU driver."""
    backend, architecture = target.split(":")
    if backend == "cuda":
        return GPUTarget("cuda", int(architecture), 32)
    return GPUTarget("hip", architecture, 64 if architecture.startswith("gfx9") else 32)


def ast_source(instance, backend):
    return ASTSource(
        fn=instance.kernel,
        signature=instance.signature(),
        constexprs=instance.constexprs(),
        attrs=instance.attributes(backend),
    )


def add_arguments(parser):
    """The arguments that say which cases to work on."""
    parser.add_argument("--targets", default=",".join(TARGETS), help="comma-separated (default: all six)")
    parser.add_argument("--kernels", help="comma-separated names of instances (default: all)")
    parser.add_argument("--out", help="directory to write to; made if it is not there")


def chosen_cases(arguments):
    for target in arguments.targets.split(","):
        backend, _, architecture = target.partition(":")
        is_cuda, is_hip = backend == "cuda" and re.fullmatch(r"\d{2,3}", architecture), backend == "hip" and architecture.startswith("gfx")
        if not is_cuda and not is_hip:
            raise SystemExit(f"{target!r} is not a target; write it as cuda:90 or hip:gfx942")
    names = set(arguments.kernels.split(",")) if arguments.kernels else None
    chosen = cases(arguments.targets.split(","), names)
    unknown = (names or set()) - {instance.name for instance in instances()}
    if unknown or not chosen:
        known = ", ".join(instance.name for instance in instances())
        raise SystemExit(f"nothing to do for {sorted(unknown) or arguments.targets}; the kernels are: {known}")
    return chosen
