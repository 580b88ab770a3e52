"""Chooses the target of XLA that launches a kernel: Kiln's own, then those of jaxlib. docs/jax.md has the table."""

import os
from dataclasses import dataclass
from typing import Any, List, Sequence, Tuple

from kiln.jax import _fallback, _own
from kiln.jax._launch import Launch

VARIABLE = "KILN_JAX_TARGET"


@dataclass(frozen=True)
class Choice:
    """A target, and why it was chosen."""
    target: Any
    why: str

    @property
    def name(self) -> str:
        return str(self.target.name)

    def emit(self, context: Any, operands: Sequence[Any], launch: Launch, decision: str) -> "List[Any]":
        """Makes the custom call. Its results are the outputs."""
        return list(self.target.emit(context, operands, launch, decision))


# In the order in which they are tried. Each has a name, obstacle(launch) ("": it can launch this) and emit, as Choice.
TARGETS: Tuple[Any, ...] = (_own, _fallback.FFI, _fallback.LEGACY)


def choose(launch: Launch) -> Choice:
    """ValueError where none can, or not the one that was asked for."""
    title = launch.plan.title
    asked = launch.plan.launch_target or os.environ.get(VARIABLE, "")
    names = [target.name for target in TARGETS]
    if asked and asked not in names:
        raise ValueError(f"{title}: there is no launch target {asked!r}; there are {', '.join(names)}")
    log: List[str] = []
    for target in TARGETS:
        if asked and target.name != asked:
            continue
        obstacle = target.obstacle(launch)
        if not obstacle:
            return Choice(target, "asked for" if asked else "; ".join(log) or "first choice")
        log.append(f"not {target.name}: {obstacle}")
    raise ValueError(f"{title}: nothing here can launch it: {'; '.join(log)}")
