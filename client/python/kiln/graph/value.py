"""Values and operations of a segment."""

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping, Optional, Tuple, Union

from kiln.graph import _library as c
from kiln.graph._size import Size

if TYPE_CHECKING:
    from kiln.graph.segment import Segment


@dataclass(frozen=True)
class Operation:
    """An operation of a segment. op: the operator. inputs, outputs: names of values, None where one is left out."""
    op: str
    inputs: "Tuple[Optional[str], ...]"
    outputs: "Tuple[Optional[str], ...]"
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Constant:
    """What Segment.constants has. shape: a Size where a symbol is in it. data: little endian and row-major; None: it was not told."""
    type: str
    shape: "Tuple[Union[int, Size], ...]"
    data: Optional[bytes]


class Value:
    """A tensor of a segment: what Segment's methods give and take."""

    def __init__(self, segment: "Segment", number: int) -> None:
        self.segment = segment
        self.number = number

    @property
    def name(self) -> str:
        return c.text_of(self._facts().name)

    @property
    def type(self) -> str:
        """"f16", "i64": docs/graph.md has them all."""
        return c.text_of(self._facts().type)

    @property
    def shape(self) -> "Tuple[Size, ...]":
        facts = self._facts()
        return tuple(Size.of(c.text_of(facts.shape[axis])) for axis in range(facts.rank))

    @property
    def strides(self) -> "Optional[Tuple[Size, ...]]":
        """In elements. None: row-major."""
        facts = self._facts()
        return tuple(Size.of(c.text_of(facts.strides[axis])) for axis in range(facts.rank)) if facts.strides else None

    @property
    def role(self) -> str:
        """"input", "output", "constant", or "" of a value in between."""
        return c.role_of(self._facts().role)

    def __repr__(self) -> str:
        return f"<kiln.graph.Value {self.name}: {self.type} [{', '.join(map(str, self.shape))}]>"

    def _constant(self) -> Constant:
        facts = self._facts()
        data = ctypes.string_at(facts.bytes, facts.bytes_count) if facts.bytes else None
        return Constant(self.type, tuple(extent if extent.symbols else extent.evaluate({}) for extent in self.shape), data)

    def _facts(self) -> Any:
        facts = c.Value()
        c.library().call("segment_get_value", self.segment._handle, self.number, ctypes.byref(facts))
        return facts
