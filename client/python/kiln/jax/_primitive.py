"""The primitive of a call, and what JAX's transformations do with it."""

from typing import Any, Callable, List, Sequence, Set, Tuple

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax._src import core

from kiln.jax import _devices, _tuning
from kiln.jax._lowering import lower
from kiln.jax._plan import Plan

triton_call_p = Primitive("kiln_triton_call")
triton_call_p.multiple_results = True


def bind(arrays: "Sequence[Any]", plan: Plan) -> "List[Any]":
    """The outputs. Within jax.shard_map JAX wants operands of one type: where one is a device's own, those that all devices share become it."""
    same = getattr(core, "auto_insert_reshard", None) or core.standard_insert_pvary  # its name before JAX 0.10
    return list(triton_call_p.bind(*same(*arrays), plan=plan))


def _apply(*arrays: Any, plan: Plan) -> Any:
    """Outside a program of JAX: one is built for the call alone, and kept."""
    from jax._src import dispatch
    _devices.check_placement(plan.title, arrays)
    return dispatch.apply_primitive(triton_call_p, *arrays, plan=_tuning.settled(plan, arrays))


def _outputs(*operands: Any, plan: Plan) -> "List[Any]":
    """They differ between the devices of a jax.shard_map where the operands do."""
    if not operands:
        return [jax.core.ShapedArray(one.shape, one.dtype) for one in plan.outputs]
    core.standard_vma_rule("triton_call", *operands)
    sharding = core.get_cur_mesh_sharding()
    return [operands[0].update(shape=one.shape, dtype=one.dtype, weak_type=False, sharding=sharding) for one in plan.outputs]


def _outputs_and_effects(*operands: Any, plan: Plan) -> "Tuple[List[Any], Set[Any]]":
    """JAX keeps a call with an effect where nobody uses its outputs."""
    if not plan.has_side_effect:
        return _outputs(*operands, plan=plan), set()
    from jax._src.ffi import _FfiEffect
    return _outputs(*operands, plan=plan), {_FfiEffect}


_DERIVATIVE = """{name}: JAX does not know the derivative of a Triton kernel. Give it with jax.custom_vjp:
    @jax.custom_vjp
    def f(x): return triton_call(x, kernel={name}, ...)
    f.defvjp(lambda x: (f(x), x), lambda x, g: (triton_call(x, g, kernel=backward_kernel, ...),))"""
_BATCH = """{name}: a Triton kernel has no rule for jax.vmap. Give the batch a dimension of the grid, or a rule with jax.custom_batching.custom_vmap:
    @jax.custom_batching.custom_vmap
    def f(x): return triton_call(x, kernel={name}, ...)
    @f.def_vmap
    def rule(size, is_batched, x): return jax.lax.map(f, x), True"""


def _refuse(words: str) -> Callable[..., Any]:

    def refuse(*_: Any, plan: Plan, **__: Any) -> Any:
        raise NotImplementedError(words.format(name=plan.title))

    return refuse


triton_call_p.def_impl(_apply)
triton_call_p.def_effectful_abstract_eval(_outputs_and_effects)
ad.primitive_jvps[triton_call_p] = _refuse(_DERIVATIVE)
ad.primitive_transposes[triton_call_p] = _refuse(_DERIVATIVE)
batching.primitive_batchers[triton_call_p] = _refuse(_BATCH)


def register(platform: "str | None") -> None:
    """None: all others. A program for a CPU is refused in words."""
    mlir.register_lowering(triton_call_p, lower(platform), platform=platform)


for one in (None, "cuda", "rocm"):
    register(one)
