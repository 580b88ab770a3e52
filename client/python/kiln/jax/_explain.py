"""Reads out of a program how its kernels are launched."""

from typing import Any, Iterator


def explain(lowered: Any) -> str:
    """One line for each kernel call of a program: its name, target, why that one, and the configuration. lowered: what
    jax.jit(f).lower(...) gives."""
    from kiln.jax._custom_call import DECISION, FRONTEND
    lines = []
    for operation in _operations(lowered.compiler_ir("stablehlo").operation):
        if operation.name == "stablehlo.custom_call" and FRONTEND in operation.attributes:
            told = operation.attributes[FRONTEND]
            if DECISION in told:
                lines.append(told[DECISION].value)
    return "\n".join(lines)


def _operations(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _operations(inner.operation)
