"""What Triton compiles for a call: signature, constants, attributes and options, as JITFunction.run forms them for the same arguments.

Triton's own binder and its own _pack_args do the work. So the key, the PTX and the artifact are those of a PyTorch program.
"""

import functools
from dataclasses import dataclass
from typing import Any, List, Mapping, Tuple

from kiln.jax._arguments import ArrayArgument
from kiln.jax._descriptors import DescriptorArgument, as_triton
from kiln.jax._kernels import Kernel

_TWO_GB = 2**31 - 1
# Options that JITFunction.run takes from Triton's settings; the second since 3.9.
_OF_THE_PROCESS = ("instrumentation_mode", "fpsan_homomorphic_casts")


@dataclass(frozen=True)
class Specialization:
    """source, options: of Triton's compile(). parameters: (name, Triton's type) of those that a launch passes, in order. identity:
    what decides the result, within this process."""
    source: Any
    options: Any
    target: Any
    parameters: Tuple[Tuple[str, str], ...]
    identity: Tuple[Any, ...]


class _Pointer:
    """What Triton asks of an array. The type is a text: Triton remembers types by their hash alone, and those of the fp8 types are equal."""

    def __init__(self, array: ArrayArgument) -> None:
        self.dtype = array.dtype.name
        self._bytes = array.nbytes

    def data_ptr(self) -> int:
        return 0  # a multiple of 16

    def ptr_range(self) -> int:
        return self._bytes


def specialized(kernel: Kernel, target: Any, arguments: Mapping[str, Any], keywords: Mapping[str, Any],
                blocks: Mapping[str, Tuple[int, ...]]) -> Specialization:
    """arguments: of the parameters. keywords: metaparameters and options. blocks: of descriptors, by parameter. TypeError for an unknown one; ValueError where a global of
    the kernel has changed since it was first compiled."""
    from triton import knobs
    from triton.compiler import ASTSource
    from triton.runtime.jit import compute_cache_key
    function = kernel.function
    backend, bind = _binder(function, target)
    given = {name: _as_triton(one, blocks.get(name)) for name, one in arguments.items()}
    keywords = dict(keywords, debug=keywords.get("debug") or function.debug or knobs.runtime.debug,
                    **{name: getattr(knobs.compilation, name) for name in _OF_THE_PROCESS if hasattr(knobs.compilation, name)})
    bound, specialization, rest = bind(**given, **keywords)
    specialization.extend(pipeline_key())
    try:
        options, signature, constants, attributes = function._pack_args(backend, keywords, bound, specialization, rest)
    except KeyError:
        unknown = [name for name in keywords if name not in bound and name not in backend.parse_options({}).__dict__]
        if not unknown:
            raise
        raise TypeError(f"{kernel.name}: {', '.join(unknown)}: neither a parameter nor an option of Triton {_version()}") from None
    source = ASTSource(function, signature, constants, attributes)
    identity = (function.cache_key, target, compute_cache_key({}, specialization, str(options)))
    check_globals(kernel)
    parameters = tuple((name, kind) for name, kind in signature.items() if kind != "constexpr")
    for name, kind in parameters:
        if isinstance(kind, tuple):
            raise TypeError(f"{kernel.name}: {name}: a tuple is taken for a tl.constexpr alone; pass its members one by one")
        if not isinstance(kind, str):
            raise TypeError(f"{kernel.name}: {name}: {kind} is not passed from JAX")
    return Specialization(source, options, target, parameters, identity)


def pipeline_key() -> Tuple[str, ...]:
    """What JITFunction.run adds to the key while there is a hook, in the versions that do. The plug-in, which this turns on, is a hook."""
    from kiln.triton import CacheManager
    from triton import knobs
    from triton.runtime.jit import JITFunction
    if knobs.cache.manager_class is None:  # nobody chose another: a kernel is found before it is lowered
        knobs.cache.manager_class = CacheManager
    hook = knobs.runtime.add_stages_inspection_hook
    is_asked = hook is not None and "add_stages_inspection_hook" in JITFunction.run.__code__.co_names
    return (f'("custom_pipeline", {hook()[1]})',) if is_asked else ()


def _as_triton(argument: Any, block: Any) -> Any:
    if isinstance(argument, DescriptorArgument):
        return as_triton(argument, block)
    return _Pointer(argument) if isinstance(argument, ArrayArgument) else argument


@functools.lru_cache(maxsize=1024)
def _binder(function: Any, target: Any) -> Tuple[Any, Any]:
    """Triton's backend for the target, and the function that binds and specializes."""
    from triton.compiler.compiler import make_backend
    from triton.runtime.jit import create_function_from_signature
    backend = make_backend(target)
    return backend, create_function_from_signature(function.signature, function.params, _asking(backend))


def _asking(backend: Any) -> Any:
    """The backend as the binder asks it. AMD's asks PyTorch for the length of a tensor, which no program with JAX alone has."""
    if backend.target.backend != "hip":
        return backend
    from triton import knobs
    from triton.backends.compiler import BaseBackend

    def specialize(array: Any, **keywords: Any) -> str:
        common = str(BaseBackend.get_tensor_specialization(array, **keywords))
        return common + ("S" if knobs.amd.use_buffer_ops and array.ptr_range() <= _TWO_GB else "")

    kind = type(backend)
    return type(kind.__name__, (kind,), {"get_tensor_specialization": staticmethod(specialize)})(backend.target)


def check_globals(kernel: Kernel) -> None:
    """As JITFunction.run does: the compiled kernel has the globals that its first compile found."""
    absent = object()
    for (name, _), (before, namespace) in kernel.function.used_global_vals.items():
        if namespace.get(name, absent) != before:
            raise ValueError(f"{kernel.name}: the global {name} was {before} when the kernel was first compiled, and has changed")


def _version() -> str:
    import triton
    return str(triton.__version__)


def unpassed(kernel: Kernel, arguments: Mapping[str, Any], keywords: Mapping[str, Any]) -> "List[str]":
    """Parameters that nothing gives a value."""
    return [one.name for one in kernel.parameters
            if one.default is one.empty and one.name not in arguments and one.name not in keywords]
