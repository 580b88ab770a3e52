"""Bound plans: on a device, ready to be launched."""

import ctypes
import os
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union, cast

from kiln import _validate, launch
from kiln._launch import library as launch_library
from kiln._launch.parameters import Misfit
from kiln._signals import reraise_from_handler
from kiln.artifact import Artifact
from kiln.errors import LaunchError, NotFoundError
from kiln.graph import _library as c
from kiln.graph._arrays import facts_of, strides_fit
from kiln.graph._size import Size

if TYPE_CHECKING:
    from kiln.graph.plan import Buffer, Plan, PlannedKernel
    from kiln.graph.value import Operation

Engine = Callable[["Operation", List[Any]], "Union[Sequence[Any], Any]"]


class KernelLoadError(LaunchError):
    """The device does not take kernels of a plan, and another compiler's may do. failures: each kernel, and why."""

    def __init__(self, message: str, *, failures: "Tuple[Tuple[PlannedKernel, str], ...]" = (), **more: Any) -> None:
        super().__init__(message, **more)
        self.failures = failures


@dataclass(frozen=True)
class ObservedSymbol:
    """The smallest range that holds the sizes of a symbol that were asked for; the segment's range where there were none. counts: of the
    most frequent sizes, 32 at most; estimates where there are more."""
    executions: int
    min: int
    max: int
    typical: int
    multiple_of: int
    counts: Mapping[int, int]


class BoundPlan:
    """Made by Plan.bind: a plan as it was then, with its kernels loaded.

    device: its number. Thread-safe: any number of threads may execute at once, each with a workspace of its own. Every failure is a
    LaunchError.
    """

    def __init__(self, plan: "Plan", device: Optional[int], runtime: "Optional[launch.Runtime]") -> None:
        backend = plan.target.split(":")[0]
        runtime = runtime or (launch.runtime() if backend == "cuda" else launch.Runtime(backend=backend))
        number = -1 if device is None else device
        self._handle = ctypes.c_void_p()
        with plan._lock:
            kernels, self.steps, self.buffers, views = plan.kernels, plan.steps, plan.buffers, plan.views
            c.library().launch("bind", plan._handle, runtime._handle, number, ctypes.byref(self._handle))
        weakref.finalize(self, _close, self._handle, os.getpid()).atexit = False
        # Any of the kernels: it finds out addresses on the device.
        self._kernel: Optional[launch.Kernel] = None
        self._load(plan, kernels)
        if kernels:
            self._kernel = runtime.load(cast(Artifact, plan.artifact(kernels[0])), device=device)
        self._kernel_numbers = tuple(kernel.number for kernel in kernels)
        self._symbols = plan._symbols
        self._bases = {view.name: view.base for view in views}
        self._interface_names = plan._interface_names
        self.device = number if self._kernel is None else self._kernel.device

    def _load(self, plan: "Plan", kernels: "Sequence[PlannedKernel]") -> None:
        artifacts = [plan.artifact(kernel) for kernel in kernels]
        for kernel, artifact in zip(kernels, artifacts):
            if artifact is None:
                raise LaunchError(f"kernel {kernel.entry} is not compiled: call compile() first", code="FAILED_PRECONDITION", kernel=kernel.entry)
        first: Optional[LaunchError] = None
        for kernel, artifact in zip(kernels, artifacts):
            try:
                with launch.opened(cast(Artifact, artifact)) as handle:
                    c.library().launch("bound_set_artifact", self._handle, kernel.number, handle)
            except LaunchError as error:
                first = first or error
        try:
            c.library().launch("bound_prepare", self._handle)
        except LaunchError as error:
            first = first or error
        if first is None:
            return
        failures = self._load_failures({kernel.number: kernel for kernel in kernels})
        raise KernelLoadError(first.message, failures=failures, code=first.code) if failures else first

    def _load_failures(self, kernels: "Mapping[int, PlannedKernel]") -> "Tuple[Tuple[PlannedKernel, str], ...]":
        failures: "List[Tuple[PlannedKernel, str]]" = []
        kernel, why = ctypes.c_uint32(), ctypes.c_char_p()
        while True:
            try:
                c.library().call("bound_get_load_failure", self._handle, len(failures), ctypes.byref(kernel), ctypes.byref(why))
            except NotFoundError:
                return tuple(failures)
            failures.append((kernels[kernel.value], c.text_of(why.value)))

    def explain(self) -> str:
        """A line for each kernel with grid barriers: one launch, or several where the device cannot have all blocks resident, and why."""
        text = ctypes.c_char_p()
        c.library().launch("bound_get_explanation", self._handle, ctypes.byref(text))
        return c.text_of(text.value)

    def times(self, *, reset: bool = False) -> "Dict[int, launch.KernelTimes]":
        """How long the launches of each kernel took, by its number, as Step.kernels has it; see Runtime.configure(times_launches=True).
        Plans that have the same kernel count together. Waits for launches under way. reset: begin anew."""
        reset = _validate.flag(reset, "reset")
        found: "Dict[int, launch.KernelTimes]" = {}
        for number in self._kernel_numbers:
            handle = ctypes.c_void_p()
            c.library().launch("bound_get_kernel", self._handle, number, ctypes.byref(handle))
            found[number] = launch.times_of(lambda name, *rest: launch_library.library().call(name, handle, *rest), reset)
        return found

    def workspace_bytes(self, symbols: Mapping[str, int]) -> int:
        """What values between kernels take at these sizes, in bytes; 0: none is needed. LaunchError: one is outside of its range."""
        size = ctypes.c_uint64()
        numbers = self._numbers(symbols)
        c.library().launch("bound_get_workspace", self._handle, numbers, len(self._symbols), ctypes.byref(size))
        return size.value

    def observe(self) -> None:
        """Counts from now on the sizes that execute() is asked for, also those that are refused. Call it before the first execute()."""
        c.library().launch("bound_observe", self._handle)

    @property
    def observed_shapes(self) -> "Dict[str, ObservedSymbol]":
        """What was asked for of each symbol since observe(). LaunchError: FAILED_PRECONDITION without it."""
        found = {}
        for number, name in enumerate(self._symbols):
            facts = c.Observed()
            c.library().launch("bound_get_observed", self._handle, number, ctypes.byref(facts))
            counts = dict(zip(facts.sizes[:facts.size_count], facts.counts))
            one = facts.range
            found[name] = ObservedSymbol(facts.executions, one.min, one.max, one.typical, one.multiple_of, counts)
        return found

    def execute(self, arrays: "Mapping[str, Any]", *, symbols: "Optional[Mapping[str, int]]" = None, stream: Any = None, workspace: Any = None,
                engine: "Optional[Engine]" = None) -> "Dict[str, Any]":
        """Puts all launches on the stream and returns the arrays by name, with those that the engine gave. Allocates no device memory.

        arrays: by the names of the values: all inputs, constants and outputs, and what passes between kernels and steps of the
            engine's. What is neither among `buffers` nor an operand of an engine's step may be left out. As Kernel.launch takes
            them: not copied, to stay alive until the kernels have run; or TensorAddress. Where an array tells its type, shape and
            strides, they are checked. A constant is passed like an input, the same array at each launch: the engine uploads
            Segment.constants once.
        symbols: sizes. Those that are missing are taken from the arrays' shapes.
        stream: as Kernel.launch has it.
        workspace: an array or address of at least workspace_bytes() bytes, aligned to 256; not used by two streams at once.
        engine: computes the plan's steps of the engine's, on the same stream: `engine(operation, inputs)` gets the inputs' arrays, None
            for one that is left out, and returns the output's array, or a list of one for each output; they are checked like
            `arrays`. An output that is among `arrays` has to be written there. Without it a plan with such steps is refused by
            their names.
        """
        known = dict(arrays)
        if engine is None and any(step.is_engines for step in self.steps):
            reasons = "; ".join(f"{step.operation.op} ({step.reason})" for step in self.steps if step.is_engines)
            raise _wrong(f"steps of the plan are the engine's, and `engine` is not given: {reasons}", "FAILED_PRECONDITION")
        unknown = known.keys() - self._interface_names - {buffer.name for buffer in self.buffers if buffer.is_external} - self._engines_names()
        if unknown:
            raise _wrong(f"the plan has no value {', '.join(sorted(map(str, unknown)))} outside of its workspace")
        for name in known.keys() & self._bases.keys():
            raise _wrong(f"{name} is not written: it is a view of {self._bases[name]}, as Plan.views has it")
        numbers = self._sizes(known, symbols or {})
        handle = self._stream(stream)
        kept: "List[Any]" = []
        first = 0
        while first < len(self.steps):
            if self.steps[first].is_engines and engine is not None:
                results = self._run_engine(engine, self.steps[first].operation, known)
                numbers = self._sizes(results, numbers)
                known.update(results)
                first += 1
                continue
            first = self._launch(first, known, numbers, handle, workspace, kept)
        return known

    @property
    def kernels_mark(self) -> int:
        """A number for the kernels of this bound plan, which no other one has."""
        mark = ctypes.c_uint64()
        c.library().launch("bound_get_kernels_mark", self._handle, ctypes.byref(mark))
        return mark.value

    def check_replay(self, captured: "Mapping[str, Any]", arrays: "Mapping[str, Any]", *, symbols: "Optional[Mapping[str, int]]" = None,
                     stream: Any = None, kernels_mark: int = 0) -> None:
        """Before a CUDA graph is replayed that captured execute(captured), in place of execute(arrays): a graph has its addresses, sizes
        and kernels for good. Its workspace has to be there still.

        kernels_mark: that of the bound plan that was captured; 0: kernels are not compared. LaunchError: the name of the first array,
        symbol or kernel that is another one.
        """
        if self._kernel is None:
            return  # no launch was captured
        handle = self._stream(stream)
        kept: "List[Any]" = []
        both = [self._execution(0, one, self._sizes(one, symbols or {}), handle, kept) for one in (captured, arrays)]
        both[0].kernels_mark = kernels_mark
        c.library().launch("check_replay", self._handle, *(ctypes.byref(one) for one in both))

    # --- Kernels ---

    def _launch(self, first: int, known: "Dict[str, Any]", numbers: "Dict[str, int]", stream: int, workspace: Any, kept: "List[Any]") -> int:
        """All steps up to the next one of the engine's, whose number it gives."""
        execution = self._execution(first, known, numbers, stream, kept)
        size = self.workspace_bytes(numbers)
        if size and workspace is None:
            raise _wrong(f"the plan needs a workspace of {size} bytes", "FAILED_PRECONDITION")
        execution.workspace_bytes = size
        execution.workspace = self._address("workspace", workspace, stream, kept) if size else 0
        following = ctypes.c_uint32()
        c.library().launch("execute", self._handle, ctypes.byref(execution), ctypes.byref(following))
        return following.value

    def _execution(self, first: int, known: "Mapping[str, Any]", numbers: "Mapping[str, int]", stream: int, kept: "List[Any]") -> Any:
        """Without a workspace."""
        addresses = (ctypes.c_uint64 * len(self.buffers))()
        for place, buffer in enumerate(self.buffers):
            if buffer.is_external and buffer.name in known:
                addresses[place] = self._address(buffer.name, known[buffer.name], stream, kept)
        return c.Execution(first_step=first, buffer_count=len(self.buffers), buffers=addresses, symbols=self._numbers(numbers),
                           symbol_count=len(self._symbols), stream=stream)

    def _address(self, name: str, array: Any, stream: int, kept: "List[Any]") -> int:
        if type(array) is int:
            return array
        assert self._kernel is not None  # there is a launch
        try:
            return self._kernel.address_of(array, stream, kept)
        except Misfit as why:
            raise _wrong(f"{name}: {why}") from None

    def _stream(self, stream: Any) -> int:
        return 0 if self._kernel is None else self._kernel.stream_handle(stream)

    # --- The engine ---

    def _engines_names(self) -> "set[str]":
        operations = [step.operation for step in self.steps if step.is_engines]
        return {name for operation in operations for name in (*operation.inputs, *operation.outputs) if name}

    def _run_engine(self, engine: Engine, operation: "Operation", known: "Dict[str, Any]") -> "Dict[str, Any]":
        """The arrays of its outputs, by name."""
        missing = [name for name in operation.inputs if name and name not in known]
        if missing:
            raise _wrong(f"{operation.op}, which the engine computes, needs {', '.join(missing)}: pass an array for it")
        given = engine(operation, [known[name] if name else None for name in operation.inputs])
        results = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(results) != len(operation.outputs):
            raise _wrong(f"{operation.op}: the engine gives {len(results)} arrays for {len(operation.outputs)} outputs")
        return {name: array for name, array in zip(operation.outputs, results) if name}

    # --- Sizes ---

    def _numbers(self, symbols: Mapping[str, int]) -> Any:
        missing = [name for name in self._symbols if name not in symbols]
        if missing:
            raise _wrong(f"the size of {', '.join(missing)} is not known: no array tells it, so pass it in `symbols`")
        try:
            return (ctypes.c_int64 * max(len(self._symbols), 1))(*[symbols[name].__index__() for name in self._symbols])
        except AttributeError:
            raise _wrong(f"symbols are whole numbers: {dict(symbols)}") from None

    def _sizes(self, arrays: "Mapping[str, Any]", given: Mapping[str, int]) -> "Dict[str, int]":
        """Every symbol's number, by what arrays say of their shapes. LaunchError for an array that does not fit."""
        unknown = given.keys() - set(self._symbols)
        if unknown:
            raise _wrong(f"the segment has no symbol {', '.join(sorted(unknown))}")
        facts = [(buffer, _facts(buffer.name, arrays[buffer.name])) for buffer in self.buffers if buffer.is_external and buffer.name in arrays]
        for buffer, one in facts:
            if one.type and one.type != buffer.type:
                raise _wrong(f"{buffer.name}: its elements are {one.type}, the plan's {buffer.type}")
            if one.shape is not None and len(one.shape) != len(buffer.shape):
                raise _wrong(f"{buffer.name}: it has the shape {list(one.shape)}, the plan's is {_shape_text(buffer)}")
        pairs = [pair for buffer, one in facts if one.shape is not None for pair in zip(buffer.shape, one.shape)]
        numbers = _solved(dict(given), pairs)
        for buffer, one in facts:
            if one.shape is not None and set().union(*(extent.symbols for extent in buffer.shape)) <= numbers.keys():
                _check_layout(buffer, one.shape, one.strides, numbers)
        return numbers


def _solved(numbers: "Dict[str, int]", pairs: "List[Tuple[Size, int]]") -> "Dict[str, int]":
    """With every symbol that stands alone in a dimension once the others are known."""
    is_new = True
    while is_new:
        is_new = False
        for extent, number in pairs:
            missing = [name for name in extent.symbols if name not in numbers]
            if len(missing) == 1 and (value := extent.solve(missing[0], numbers, number)) is not None:
                numbers[missing[0]] = value
                is_new = True
    return numbers


def _check_layout(buffer: "Buffer", shape: Sequence[int], strides: "Optional[Sequence[int]]", numbers: Mapping[str, int]) -> None:
    wanted = [extent.evaluate(numbers) for extent in buffer.shape]
    if list(shape) != wanted:
        raise _wrong(f"{buffer.name}: it has the shape {list(shape)}, the plan's is {_shape_text(buffer)}, which is {wanted}")
    steps = [stride.evaluate(numbers) for stride in buffer.strides]
    if not strides_fit(shape, strides, steps):
        raise _wrong(f"{buffer.name}: it has the strides {None if strides is None else list(strides)}, the plan's are {steps}")


def _shape_text(buffer: "Buffer") -> str:
    return f"[{', '.join(map(str, buffer.shape))}]"


def _facts(name: str, array: Any) -> Any:
    try:
        return facts_of(array)
    except Exception as why:  # of the library that has made the array
        reraise_from_handler(why)
        raise _wrong(f"{name}: its library fails: {type(why).__name__}: {why}") from why


def _wrong(why: str, code: str = "INVALID_ARGUMENT") -> LaunchError:
    return LaunchError(why, code=code)


def _close(handle: ctypes.c_void_p, process: int) -> None:
    if os.getpid() == process and handle:
        c.library().close("bound_close", handle)
