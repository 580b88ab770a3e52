"""A lowered kernel as text that leaves nothing out."""

from typing import Any, List, Set

# A comment for each argument of each block follows, in the order in which the module is walked. Those who put them back walk it in the
# same order: daemon/worker/triton/kiln_triton_worker/origins.py, and what `kiln reproduce` writes.
_ORIGINS = "// The arguments of its blocks come from:\n"


def text_of(module: Any) -> str:
    """MLIR's own text has no place for where a loop's variables come from, which decides what they are called later on, and lines that
    debuggers show. Kiln's workers put back what stands behind the text; whoever else reads it sees comments. Whatever Triton raises."""
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
