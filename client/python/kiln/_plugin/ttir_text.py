"""The full text of a lowered kernel."""

from typing import Any, List, Set

# A comment for each argument of each block follows, in the order of a walk of the module. Workers walk the module in the same
# order to put them back: daemon/worker/triton/kiln_triton_worker/origins.py.
_ORIGINS = "// The arguments of its blocks come from:\n"


def text_of(module: Any) -> str:
    """MLIR's text of the module, then comments with the locations of block arguments, which MLIR's text leaves out. They decide
    names of variables and lines that debuggers show. Raises what Triton raises. docs/adr/0004 has the reasons."""
    text = str(module)
    comments = "".join(f"// {origin}\n" for origin in _origins(module))
    return f"{text.rstrip()}\n{_ORIGINS}{comments}" if comments else text


def _origins(module: Any) -> List[str]:
    found: List[str] = []
    seen: Set[Any] = set()

    def visit(operation: Any) -> None:
        block = operation.get_block()
        if block is not None and block.id() not in seen:
            seen.add(block.id())
            found.extend(str(block.arg(i).get_loc()) for i in range(block.get_num_arguments()))

    module.walk(visit)
    return found
