"""Segments: what an engine hands over."""

import ctypes
import json
import os
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from kiln import _validate
from kiln.errors import InvalidArgumentError
from kiln.graph import _library as c
from kiln.graph._arrays import contents_of
from kiln.graph._size import Extent, Size
from kiln.graph.value import Constant, Operation, Value
from kiln.sockets import Place

if TYPE_CHECKING:
    from kiln.graph.bound import BoundPlan
    from kiln.graph.plan import Plan
    from kiln.graph.plans import Plans

Outputs = Union[int, Sequence[Tuple[str, Sequence[Extent]]]]
_INT64_MAX = 2**63 - 1
_OUTPUTS_MAX = 1024


class Segment:
    """Values and operations, which a plan makes kernels of.

    Each method checks what it is given: InvalidArgumentError names the value or the operator, and for an operator that does not exist
    the nearest one. UnavailableError where libkiln_graph is not installed. For one thread at a time.
    """

    def __init__(self, name: str = "segment") -> None:
        self._begin()
        c.library().call("segment_open", _validate.c_text(name, "name"), ctypes.byref(self._handle))

    def _begin(self) -> None:
        self._symbols: "List[str]" = []
        self._operations: "List[Operation]" = []
        self._handle = ctypes.c_void_p()
        weakref.finalize(self, _close, self._handle, os.getpid()).atexit = False

    @classmethod
    def from_json(cls, text: "Union[str, bytes]") -> "Segment":
        """From the JSON of docs/graph.md."""
        content = text.encode() if isinstance(text, str) else text
        if not isinstance(content, bytes):
            raise _validate.mistaken("text", text, "a str or bytes")
        segment = cls.__new__(cls)
        segment._begin()
        c.library().call("segment_open_json", content, len(content), ctypes.byref(segment._handle))
        return segment._read()

    @classmethod
    def from_onnx(cls, path: Place, dimensions: "Optional[Mapping[str, Tuple[int, int, int]]]" = None) -> "Segment":
        """The main graph of an ONNX model; `constants` has its weights. What Kiln does not compute is the engine's in every plan.

        dimensions: min, max and typical value of those that the model leaves open, by its names for them; others are 1 to 4096.
        InvalidArgumentError names the file, and the tensor or node that is wrong. Needs no package besides.
        """
        _validate.place(path, "path")
        ranges = [c.Symbol(name=_validate.c_text(name, "dimension"), min=low, max=high, typical=typical, multiple_of=1)
                  for name, (low, high, typical) in (dimensions or {}).items()]
        pointers = (ctypes.c_void_p * max(len(ranges), 1))(*map(ctypes.addressof, ranges))
        segment = cls.__new__(cls)
        segment._begin()
        c.library().call("segment_open_onnx", os.fsencode(path), pointers, len(ranges), ctypes.byref(segment._handle))
        return segment._read()

    def _read(self) -> "Segment":
        """Symbols and operations, for what plans say of them. Constants stay where they are."""
        described = json.loads(self._json("segment_get_description"))
        self._symbols = [symbol["name"] for symbol in described.get("symbols", ())]
        self._operations = [
            Operation(one["op"], tuple(one.get("inputs", ())), tuple(one.get("outputs", ())), one.get("attributes", {}))
            for one in described.get("operations", ())
        ]
        return self

    def to_json(self) -> str:
        """The JSON of docs/graph.md, constants included."""
        return self._json("segment_get_json")

    def _json(self, function: str) -> str:
        text, size = ctypes.c_char_p(), ctypes.c_uint64()
        c.library().call(function, self._handle, ctypes.byref(text), ctypes.byref(size))
        return c.text_of(text.value)

    def set_ranges(self, bound: "BoundPlan") -> None:
        """Gives the symbols the ranges that `bound`, a plan of this segment, has observed: to_json() writes them, and a new plan is made
        for them. Symbols of which nothing was observed keep theirs. The ranges hold what was seen and nothing else: widen them where
        other sizes may come."""
        c.library().call("segment_set_ranges", self._handle, bound._handle)

    def symbol(self, name: str, min: int, max: int, *, typical: Optional[int] = None, multiple_of: int = 1) -> Size:
        """A dimension that differs from launch to launch.

        min, max: its range, for which one kernel serves; a launch outside of it is refused. typical: what the planner weighs with;
        None: max. multiple_of: every value is a multiple of it; 16 lets kernels load vectors.
        """
        numbers = {"min": min, "max": max, "typical": max if typical is None else typical, "multiple_of": multiple_of}
        for what, number in numbers.items():
            _validate.within(number, f"symbol {name}: {what}", low=-_INT64_MAX, end=_INT64_MAX)
        if not 0 <= min <= numbers["typical"] <= max or max < 1 or multiple_of < 1:
            raise InvalidArgumentError(f"symbol {name}: its range is not 0 <= min <= typical <= max, multiple_of >= 1")
        given = c.Symbol(name=_validate.c_text(name, "name"), **numbers)
        c.library().call("segment_add_symbol", self._handle, ctypes.byref(given), None)
        self._symbols.append(name)
        return Size.of(name)

    def input(self, name: str, type: str, shape: Sequence[Extent], *, strides: Optional[Sequence[Extent]] = None) -> Value:
        """A tensor that the engine has. shape, strides: in elements, numbers and sizes of symbols; no strides: row-major. A stride of
        0 repeats elements."""
        return self._value(name, type, shape, strides, c.INPUT)

    def constant(self, name: str, data: Any = None, *, type: str = "", shape: Optional[Sequence[Extent]] = None) -> Value:
        """An input that never changes, as weights. The engine passes its address at a launch like that of any input.

        data: an array in the CPU's memory whose elements a plan may compute with: NumPy's, or anything with the buffer protocol. None:
        the elements are not told; then type and shape are to be given.
        """
        if data is None:
            if not type or shape is None:
                raise InvalidArgumentError(f"constant {name}: give its data, or its type and shape")
            return self._value(name, type, shape, None, c.CONSTANT)
        kind, extents, content = contents_of(data, f"constant {name}")
        return self._value(name, type or kind, extents if shape is None else shape, None, c.CONSTANT, content)

    def op(self, name: str, *inputs: "Optional[Value]", outputs: "Outputs" = 1, kept_because: str = "", **attributes: Any) -> Any:
        """An operation: its Value, or a tuple of them where `outputs` is not 1. Types and shapes of what it gives are inferred.

        name: an operator or an alias ("Add", "aten::add"). inputs: None for an optional one that is left out. outputs: how many; or a list
            with type and shape of each, for an operator that Kiln does not compute.
        kept_because: a reason for which the engine keeps the operation; any name will do then.
        attributes: as ONNX has them: numbers, texts, lists of numbers; True and False are 1 and 0.
        """
        numbers = [c.OMITTED if value is None else self._number(value, f"{name}: input {place}") for place, value in enumerate(inputs)]
        wanted = self._wanted(name, outputs)
        given = (ctypes.c_int32 * max(len(numbers), 1))(*numbers)
        made = (ctypes.c_int32 * len(wanted))(*wanted)
        operation = c.Operation(name=_validate.c_text(name, "operator"), inputs=given, input_count=len(numbers), outputs=made,
                                output_count=len(wanted), attributes=_attributes(name, attributes),
                                kept_because=_validate.c_text(kept_because, "kept_because") or None)
        c.library().call("segment_add_operation", self._handle, ctypes.byref(operation))
        values = tuple(Value(self, number) for number in made)
        names = tuple(None if value is None else value.name for value in inputs)
        self._operations.append(Operation(name, names, tuple(value.name for value in values), attributes))
        return values[0] if outputs == 1 else values

    def _wanted(self, name: str, outputs: "Outputs") -> "List[int]":
        """The numbers of an operation's outputs, NEW for those that are to be inferred."""
        if not isinstance(outputs, (list, tuple)):
            return [c.NEW] * _validate.within(outputs, f"{name}: outputs", low=1, end=_OUTPUTS_MAX + 1)
        return [self._value(f"{name} {len(self._operations)}.{place}", type, shape, None, 0).number
                for place, (type, shape) in enumerate(outputs)]

    def output(self, value: Value, name: Optional[str] = None) -> Value:
        """Has a value written to memory that the engine gives. name: None: it keeps its own."""
        number = self._number(value, "value")
        before = value.name
        c.library().call("segment_set_role", self._handle, number, c.OUTPUT, None if name is None else _validate.c_text(name, "name"))
        if name is not None:
            self._operations = [_renamed(operation, before, name) for operation in self._operations]
        return value

    def plan(self, target: str, *, compilers: Sequence[str] = (), forced: str = "", off: Sequence[str] = (), fast_math: bool = False,
             fuses: bool = True, keeps_small_sections: bool = False, takes_views: bool = False, splits_ranges: bool = True,
             barriers: str = "score") -> "Plan":
        """What becomes of the segment on a target: "cuda:90", "hip:gfx942", "spirv:1.2".

        compilers: those there are, of "ptx", "cuda", "triton" and "opencl"; empty: all that make code for the target. forced: one for
            every kernel. off: types of sections that the engine keeps, as "attention" or "matmul".
        fast_math: approximations of the hardware where they are faster. fuses: False: a kernel for each operation.
        takes_views: outputs that strides express on other memory are not written: Plan.views tells them.
        keeps_small_sections: makes kernels that are not worth a launch, too. splits_ranges: makes kernels for parts of the symbols'
            ranges, where that pays.
        barriers: "always": small sections become one kernel with grid barriers between them; "never"; "score": where that is faster.

        The logger "kiln.graph" gets a line of level INFO for each choice of a compiler.

        InvalidArgumentError: what is wrong with the segment (a cycle, a size that overflows, ...) or with an option. An operation that
        nothing lowers is no error: it is a step of the engine's.
        """
        from kiln.graph.plan import Plan
        options = _plan_options(target=target, compilers=compilers, forced=forced, off=off, fast_math=fast_math, fuses=fuses,
                                keeps_small_sections=keeps_small_sections, takes_views=takes_views, splits_ranges=splits_ranges,
                                barriers=barriers)
        handle = ctypes.c_void_p()
        c.library().call("plan_open", self._handle, ctypes.byref(options), ctypes.byref(handle))
        return Plan(self, target, handle)

    def plans(self, targets: Sequence[str], *, compilers: Sequence[str] = (), forced: str = "", off: Sequence[str] = (),
              fast_math: bool = False, fuses: bool = True, keeps_small_sections: bool = False, takes_views: bool = False,
              splits_ranges: bool = True, barriers: str = "score") -> "Plans":
        """plan() for several targets at once, with one compile, one manifest, and a bind() that picks the device's plan.

        A target that none of the compilers makes code for has no plan: Plans.refused says why. InvalidArgumentError: as plan(); a target
        that is none, or is named twice; all are refused, each with its reason.
        """
        from kiln.graph.plans import Plans
        options = _plan_options(target=None, compilers=compilers, forced=forced, off=off, fast_math=fast_math, fuses=fuses,
                                keeps_small_sections=keeps_small_sections, takes_views=takes_views, splits_ranges=splits_ranges,
                                barriers=barriers)
        return Plans(self, tuple(_validate.listed(targets, "targets")), options)

    def _value(self, name: str, type: str, shape: Sequence[Extent], strides: Optional[Sequence[Extent]], role: int,
               content: Optional[bytes] = None) -> Value:
        extents = [Size.of(extent) for extent in _validate.listed(shape, f"{name}: shape")]
        if any(not extent.symbols and extent.evaluate({}) < 0 for extent in extents):
            raise InvalidArgumentError(f"value {name}: a dimension is negative")
        sizes = [str(extent).encode() for extent in extents]
        steps = None if strides is None else [str(Size.of(stride)).encode() for stride in _validate.listed(strides, f"{name}: strides")]
        if steps is not None and len(steps) != len(sizes):
            raise InvalidArgumentError(f"value {name}: there is one stride for each dimension")
        room = ctypes.c_char_p * max(len(sizes), 1)
        given = c.Value(role=role, name=_validate.c_text(name, "name"), type=_validate.c_text(type, f"{name}: type"), rank=len(sizes),
                        shape=room(*sizes), strides=None if steps is None else room(*steps),
                        bytes=ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p), bytes_count=len(content or b""))
        number = ctypes.c_int32()
        c.library().call("segment_add_value", self._handle, ctypes.byref(given), ctypes.byref(number))
        return Value(self, number.value)

    @property
    def constants(self) -> "Dict[str, Constant]":
        """Those that constant() has made, and a model's, by name: what an engine uploads once for BoundPlan.execute. Copies."""
        return {value.name: value._constant() for value in self._values() if value.role == "constant"}

    def _values(self) -> "List[Value]":
        facts = c.SegmentInfo()
        c.library().call("segment_get_info", self._handle, ctypes.byref(facts))
        return [Value(self, number) for number in range(facts.values)]

    def _number(self, value: Value, what: str) -> int:
        if not isinstance(value, Value):
            raise _validate.mistaken(what, value, "a Value of this segment")
        if value.segment is not self:
            raise InvalidArgumentError(f"{what}: {value!r} is of another segment")
        return value.number


def _renamed(operation: Operation, before: str, name: str) -> Operation:
    inputs, outputs = (tuple(name if one == before else one for one in names) for names in (operation.inputs, operation.outputs))
    return Operation(operation.op, inputs, outputs, operation.attributes)


def _plan_options(*, target: Optional[str], compilers: Sequence[str], forced: str, off: Sequence[str], fast_math: bool, fuses: bool,
                  keeps_small_sections: bool, takes_views: bool, splits_ranges: bool, barriers: str) -> Any:
    from kiln.graph.plan import choice_log
    return c.PlanOptions(target=None if target is None else _validate.c_text(target, "target"), compilers=_names(compilers, "compilers"),
                         forced=_validate.c_text(forced, "forced") or None, off=_names(off, "off"),
                         fast_math=_validate.flag(fast_math, "fast_math"), no_fusion=not _validate.flag(fuses, "fuses"),
                         keeps_small_sections=_validate.flag(keeps_small_sections, "keeps_small_sections"),
                         no_splits=not _validate.flag(splits_ranges, "splits_ranges"),
                         takes_views=_validate.flag(takes_views, "takes_views"), barriers=_validate.c_text(barriers, "barriers"),
                         log=choice_log())


def _names(given: Sequence[str], what: str) -> Optional[bytes]:
    names = _validate.listed(given, what)
    return ",".join(_validate.text(name, what) for name in names).encode() if names else None


def _attributes(operator: str, given: "Dict[str, Any]") -> Optional[bytes]:
    try:
        return json.dumps(given, allow_nan=False, default=_plain).encode() if given else None
    except (TypeError, ValueError) as why:
        raise InvalidArgumentError(f"{operator}: an attribute is a finite number, a text or a list of numbers: {why}") from None


def _plain(given: Any) -> Any:
    """NumPy's numbers and arrays."""
    if hasattr(given, "tolist"):
        return given.tolist()
    raise TypeError(f"{_validate.shown(given)} is none")


def _close(handle: ctypes.c_void_p, process: int) -> None:
    if os.getpid() == process and handle:
        c.library().close("segment_close", handle)
