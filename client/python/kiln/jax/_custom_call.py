"""A custom call in the program's IR."""

from typing import Any, Dict, List, Sequence

from jax.interpreters import mlir
from jax._src.lib.mlir import ir

from kiln.jax._plan import Plan

FRONTEND = "mhlo.frontend_attributes"
DECISION = "kiln_launch"


def emit(target: str, context: Any, operands: Sequence[Any], plan: Plan, attributes: "Dict[str, Any] | bytes", decision: str,
         scratch_bytes: Sequence[int] = ()) -> "List[Any]":
    """attributes: of the typed FFI; bytes: the opaque text of an older call. Results: the outputs, then the scratch. XLA passes row-major
    arrays to it, whatever layouts it prefers elsewhere."""
    # The module and not the name: it is where JAX keeps the function, and moves between releases.
    from jax._src.interpreters.mlir import custom_call
    result_types = [ir.RankedTensorType.get(one.shape, mlir.dtype_to_ir_type(one.dtype)) for one in context.avals_out]
    result_types += [ir.RankedTensorType.get((size,), ir.IntegerType.get_unsigned(8)) for size in scratch_bytes]
    layouts = [tuple(reversed(range(len(one.shape)))) for one in (*context.avals_in, *context.avals_out)]
    is_typed = not isinstance(attributes, bytes)
    config = {key: _attribute(one) for key, one in attributes.items()} if isinstance(attributes, dict) else attributes
    call = custom_call(
        target, result_types=result_types, operands=operands, backend_config=config, api_version=4 if is_typed else 2,
        operand_output_aliases=dict(plan.aliases), has_side_effect=plan.has_side_effect, operand_layouts=layouts[:len(context.avals_in)],
        result_layouts=[*layouts[len(context.avals_in):], *((0,) for _ in scratch_bytes)],
        extra_attributes={FRONTEND: ir.DictAttr.get({DECISION: ir.StringAttr.get(decision)})})
    return list(call.results)


def _attribute(given: Any) -> Any:
    if isinstance(given, (str, bytes)):
        return ir.StringAttr.get(given)
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), given)
