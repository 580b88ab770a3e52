"""A call with all that is known of it while the program is built: the parameter of the primitive."""

from dataclasses import dataclass, replace
from typing import Any, Mapping, Optional, Tuple

from kiln.jax._arguments import ArrayArgument
from kiln.jax._descriptors import Buffer
from kiln.jax._kernels import Kernel, Variant
from kiln.jax._outputs import Grid


@dataclass(frozen=True)
class Way:
    """A variant of the kernel with its grid, whether each output is zeroed before, and the blocks of descriptors by parameter."""
    variant: Variant
    grid: Grid
    zeroed: Tuple[bool, ...]
    blocks: "Tuple[Tuple[str, Tuple[int, ...]], ...]"


@dataclass(frozen=True, eq=False)
class Plan:
    """One call. arguments: by parameter. output_names: parameters; that of the aliased input for an output that has none of its own. ways:
    those among which a tuning decides, in the user's order. chosen: what it has decided, and whence; None: nobody has. Equal plans give
    equal programs, so JAX builds one."""
    kernel: Kernel
    title: str
    arguments: Mapping[str, Any]
    operands: Tuple[ArrayArgument, ...]
    outputs: Tuple[ArrayArgument, ...]
    output_names: Tuple[str, ...]
    ways: Tuple[Way, ...]
    aliases: Mapping[int, int]
    device: int
    capability: Any
    launch_target: Optional[str]
    metadata: bytes
    has_side_effect: bool
    chosen: "Optional[Tuple[int, str]]" = None

    def __post_init__(self) -> None:
        ways = tuple((_exact(way.variant.keywords), way.grid, way.zeroed, way.blocks) for way in self.ways)
        identity = (id(self.kernel.function), self.kernel.function.cache_key, self.title, _exact(self.arguments), self.outputs, ways,
                    tuple(self.aliases.items()), self.device, self.capability, self.launch_target, self.metadata,
                    self.has_side_effect, self.chosen)
        object.__setattr__(self, "_identity", identity)
        object.__setattr__(self, "_hash", hash(identity))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and bool(vars(self)["_identity"] == vars(other)["_identity"])

    def __hash__(self) -> int:
        return int(vars(self)["_hash"])

    def __repr__(self) -> str:
        return f"kiln.jax.triton_call({self.title})"

    @property
    def unpassed_outputs(self) -> "Tuple[int, ...]":
        """Places of those that have no parameter of their own."""
        arrays = [name for name, one in self.arguments.items() if isinstance(one, Buffer)]
        return tuple(place for place, name in enumerate(self.output_names) if name in arrays[:len(self.operands)])

    def with_choice(self, way: int, source: str) -> "Plan":
        return replace(self, chosen=(way, source))


def _exact(values: Mapping[str, Any]) -> Tuple[Any, ...]:
    return tuple((name, _exact_value(one)) for name, one in values.items())


def _exact_value(given: Any) -> Any:
    """With types: 1, 1.0 and True are equal in Python, and not for a kernel. Floats as text: so are 0.0 and -0.0, and a NaN is none."""
    if isinstance(given, tuple):
        return type(given), tuple(map(_exact_value, given))
    return type(given), repr(given) if isinstance(given, float) else given
