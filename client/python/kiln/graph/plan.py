"""Plans: what becomes of a segment on one target."""

import ctypes
import logging
import os
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from kiln import _validate
from kiln.artifact import Artifact
from kiln.errors import NotFoundError
from kiln.graph import _library as c
from kiln.graph._size import Size
from kiln.graph.compiling import EachKernel, FailedKernel, Preload, compile_kernels
from kiln.request import CompileRequest
from kiln.sockets import Place

if TYPE_CHECKING:
    from kiln.client import Client
    from kiln.graph.bound import BoundPlan
    from kiln.graph.segment import Segment
    from kiln.graph.value import Operation
    from kiln.launch import Runtime

_LOG = logging.getLogger("kiln.graph")


def _log(_: Any, line: bytes) -> None:
    _LOG.info("%s", c.text_of(line))


_log_line = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(_log)


def choice_log() -> Optional[int]:
    """What the library calls for each choice of a compiler, where the logger kiln.graph takes lines of level INFO."""
    return ctypes.cast(_log_line, ctypes.c_void_p).value if _LOG.isEnabledFor(logging.INFO) else None


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel's source. number: from 0, in the order of launches. kind: as in CompileRequest. entry: its name. threads: of a block.
    num_warps: of Triton IR, otherwise 0. step: its step's number. why: this compiler. split: not empty: it is for a part of the symbols'
    ranges, "batch up to 256: smaller tiles", and at other sizes the next kernel without one does its work."""
    number: int
    kind: str
    target: str
    entry: str
    text: str
    threads: int
    num_warps: int
    step: int
    why: str
    split: str


@dataclass(frozen=True)
class Step:
    """What runs at once: kernels, or an operation of the engine's, with the reason. operation: the engine's, or the root of what the
    kernels compute. kernels: their numbers."""
    operation: "Operation"
    is_engines: bool
    kernels: range
    reason: str


@dataclass(frozen=True)
class Buffer:
    """A value that is in memory. role: "input", "output", "constant" or "". is_external: the engine has it; otherwise it lies in the
    workspace. alignment: in bytes. strides: in elements."""
    name: str
    type: str
    shape: "Tuple[Size, ...]"
    strides: "Tuple[Size, ...]"
    role: str
    is_external: bool
    is_written: bool
    alignment: int


@dataclass(frozen=True)
class View:
    """An output that no kernel writes: it is elements of the memory of `base`, another value, which the engine has. offset and strides are
    in elements of `base`."""
    name: str
    base: str
    offset: Size
    strides: "Tuple[Size, ...]"


class Plan:
    """Made by Segment.plan. Keeps what is compiled. Thread-safe; a compile and a preload at once do the work twice."""

    def __init__(self, segment: "Segment", target: str, handle: ctypes.c_void_p) -> None:
        self.target = target
        self._symbols = tuple(segment._symbols)
        self._operations = tuple(segment._operations)
        # Read once: a segment is for one thread at a time, a plan is not.
        values = segment._values()
        self._layouts = tuple((value.shape, value.strides) for value in values)
        self._names = tuple(value.name for value in values)
        self._interface_names = {value.name for value in values if value.role}
        self._lock = threading.RLock()
        self._artifacts: "Dict[int, Tuple[str, Artifact]]" = {}
        self._handle = handle
        weakref.finalize(self, _close, self._handle, os.getpid()).atexit = False

    @property
    def key(self) -> str:
        """64 hex digits over all that decides the code: operators, types, ranges, layout, options, target."""
        return self._text("plan_get_key")

    def explain(self) -> str:
        """What was fused, what not, and why; which compiler each kernel has, and why."""
        return self._text("plan_get_explanation")

    @property
    def steps(self) -> "Tuple[Step, ...]":
        """In the order in which they run. A failed compile turns steps into the engine's."""
        with self._lock:
            return tuple(self._step(number) for number in range(self._info().steps))

    @property
    def kernels(self) -> "Tuple[PlannedKernel, ...]":
        """Those that are to be compiled and launched."""
        with self._lock:
            every = [self._kernel(number) for number in range(self._info().kernels)]
        return tuple(kernel for kernel in every if kernel.step >= 0)

    @property
    def buffers(self) -> "Tuple[Buffer, ...]":
        """The values that are in memory."""
        with self._lock:
            return tuple(self._buffer(number) for number in range(self._info().buffers))

    @property
    def views(self) -> "Tuple[View, ...]":
        """Outputs that are views of other values' memory. None without takes_views."""
        with self._lock:
            return tuple(self._view(number) for number in range(self._info().views))

    def manifest(self) -> "List[CompileRequest]":
        """A request for each kernel: for Client.compile_many on any machine, and for AsyncClient."""
        return [request_of(kernel) for kernel in self.kernels]

    def write_manifest(self, path: Place) -> None:
        """Writes these requests to a file, which `kiln warm` takes. One that is there is replaced. InvalidArgumentError names the file."""
        _validate.place(path, "path")
        with self._lock:
            c.library().call("plan_write_manifest", self._handle, os.fsencode(path))

    def compile(self, client: "Client", *, each: "Optional[EachKernel]" = None, timeout: Optional[float] = None) -> "List[FailedKernel]":
        """Has the daemon compile all kernels that are not there yet, as one batch. Returns the compiles that failed.

        each: called on this thread with every kernel and its artifact when it is there. timeout: in seconds, for all of it.

        Where a kernel does not compile, or no toolchain there makes such kernels, the next compiler's source is tried, then its
        operations become steps of the engine's. What is wrong with the daemon itself is raised: UnavailableError,
        DeadlineExceededError, PermissionDeniedError, ResourceExhaustedError. What was compiled until then is kept.
        """
        return compile_kernels([self], client, each, timeout)

    def preload(self, client: "Client", *, each: "Optional[EachKernel]" = None, timeout: Optional[float] = None) -> Preload:
        """compile() on a thread of its own, while the engine runs without the plan. `each` is called on that thread."""
        return Preload(lambda: compile_kernels([self], client, each, timeout))

    def bind(self, device: Optional[int] = None, *, runtime: "Optional[Runtime]" = None, client: "Optional[Client]" = None) -> "BoundPlan":
        """Loads the kernels: waits for what runs on the device.

        device: its number; None: the thread's current context. runtime: of the target's backend; None: the driver's usual library.
        client: kernels that the device does not take are compiled for the next compiler, until all load or are the engine's. Without it
        they are a KernelLoadError. LaunchError: FAILED_PRECONDITION for a kernel that is not compiled, UNAVAILABLE where there is no
        driver.
        """
        from kiln.graph.bound import BoundPlan, KernelLoadError
        while True:
            try:
                return BoundPlan(self, device, runtime)
            except KernelLoadError as error:
                if client is None:
                    raise
                for kernel, why in error.failures:
                    self.use_next_compiler(kernel, why)
            self.compile(client)

    def use_next_compiler(self, kernel: PlannedKernel, why: str) -> bool:
        """After a failed compile of the kernel's text. False: there is no other compiler. The kernel's operations are the engine's now; a
        variant (`split`) is dropped, and the kernel of the whole range does its work."""
        with self._lock:
            now = self._kernel(kernel.number)
            if now.step >= 0 and now.text != kernel.text:  # another thread had the same failure before
                return True
            self._artifacts.pop(kernel.number, None)
            try:
                c.library().call("plan_use_next_compiler", self._handle, kernel.number, why.replace("\0", "").encode(errors="replace"))
            except NotFoundError:
                return False
            return True

    def keep(self, kernel: PlannedKernel, artifact: Artifact) -> None:
        """What bind() loads for a kernel. compile() calls it."""
        with self._lock:
            self._artifacts[kernel.number] = (kernel.text, artifact)

    def artifact(self, kernel: PlannedKernel) -> Optional[Artifact]:
        """What is compiled of a kernel, if anything is."""
        text, artifact = self._artifacts.get(kernel.number, ("", None))
        return artifact if text == kernel.text else None

    # --- What the library says ---

    def _text(self, function: str) -> str:
        with self._lock:
            text = ctypes.c_char_p()
            c.library().call(function, self._handle, ctypes.byref(text))
            return c.text_of(text.value)

    def _info(self) -> Any:
        return self._get("plan_get_info", c.PlanInfo())

    def _get(self, function: str, into: Any, *number: int) -> Any:
        c.library().call(function, self._handle, *number, ctypes.byref(into))
        return into

    def _step(self, number: int) -> Step:
        facts = self._get("plan_get_step", c.Step(), number)
        kernels = range(facts.first_kernel, facts.first_kernel + facts.kernel_count)
        return Step(self._operations[facts.operation], bool(facts.is_engines), kernels, c.text_of(facts.reason))

    def _kernel(self, number: int) -> PlannedKernel:
        facts = self._get("plan_get_kernel", c.Kernel(), number)
        return PlannedKernel(number, c.text_of(facts.kind), c.text_of(facts.target), c.text_of(facts.entry),
                             ctypes.string_at(facts.text, facts.text_bytes).decode(), facts.threads, facts.num_warps, facts.step,
                             c.text_of(facts.why), c.text_of(facts.split))

    def _buffer(self, number: int) -> Buffer:
        facts = self._get("plan_get_buffer", c.Buffer(), number)
        shape, strides = self._layouts[facts.value]
        return Buffer(c.text_of(facts.name), c.text_of(facts.type), shape, strides or _row_major(shape), c.role_of(facts.role),
                      bool(facts.is_external), bool(facts.is_written), facts.alignment)

    def _view(self, number: int) -> View:
        facts = self._get("plan_get_view", c.View(), number)
        strides = tuple(Size.of(c.text_of(facts.strides[axis])) for axis in range(facts.rank))
        return View(self._names[facts.value], self._names[facts.base], Size.of(c.text_of(facts.offset)), strides)


def request_of(kernel: PlannedKernel) -> CompileRequest:
    """What the daemon is asked for a kernel."""
    options = {"num_warps": kernel.num_warps} if kernel.num_warps else {}
    return CompileRequest(kernel.text, kernel.target, kernel.kind, kernel.entry, options)


def _row_major(shape: "Tuple[Size, ...]") -> "Tuple[Size, ...]":
    strides, step = [], Size.of(1)
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def _close(handle: ctypes.c_void_p, process: int) -> None:
    if os.getpid() == process and handle:
        c.library().close("plan_close", handle)
