"""Launching kernels from Python, through libkiln_launch.

    kernel = kiln.load(client.compile(request))      # or kiln.load("out/softmax.json")
    kernel.prepare()                                 # in warm-up: loading waits for what runs on the device
    kernel[(64, 1, 1)](out, x, stride, stride, rows, columns, stream=stream)

docs/launch.md says what holds of loading, graphs and buffers; it holds here. Importing this module opens nothing.
"""

import contextlib
import ctypes
import functools
import json
import os
import struct
import weakref
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from kiln import _validate, _process
from kiln._launch import library as c
from kiln._launch.arrays import Addresses
from kiln._launch.packer import Packer
from kiln._launch.parameters import Kind, Misfit, kind_of, value_of
from kiln._launch.streams import handle_of, torch_stream
from kiln._signals import reraise_from_handler
from kiln.artifact import BINARIES, Artifact, KernelParameter
from kiln.errors import InvalidArgumentError, LaunchError

if TYPE_CHECKING:
    from kiln.sockets import Place

_TENSOR_RANK_MAX = 5
_UINT32_MAX = 2**32 - 1
_NO_BLOCK = (0, 0, 0)
# What kernels come as, without what a launch has to know besides. A file of the hot directory has no such name.
_OUTPUTS = (b".cubin", b".hsaco", b".ptx", b".cu", b".ttir", b".ttgir", b".spv", b".cl")
# As the packer has them.
_CONFIG_NAMES = (*("grid",) * 3, *("block",) * 3, "dynamic_shared_bytes", "pdl", "cooperative", "stream")
Source = Union[Artifact, str, "os.PathLike[str]"]


@dataclass(frozen=True)
class LaunchStats:
    """Counts of a runtime since it was first opened in this process; resident_bytes in bytes.

    loads_at_launch: launches that a prepare() would have spared a load. refused_launches: by `strict`. evictions: unloads to keep
    a limit or for want of memory. unloads_put_off: since something captured or a live graph launches the kernel.
    """
    kernels_open: int
    kernels_resident: int
    resident_bytes: int
    loads: int
    loads_at_launch: int
    refused_launches: int
    unloads: int
    evictions: int
    unloads_put_off: int
    out_of_memory_loads: int
    live_graphs: int


@dataclass(frozen=True)
class KernelFacts:
    """What the driver says of a loaded kernel: registers and local_bytes (stack and spills) of a thread; static_shared_bytes and
    threads_max of a block."""
    registers: int
    local_bytes: int
    static_shared_bytes: int
    threads_max: int


@dataclass(frozen=True)
class KernelTimes:
    """How long launches took on the device, in milliseconds. launches: measured; dropped: too many were under way."""
    launches: int
    dropped: int
    total_ms: float
    min_ms: float
    max_ms: float


@contextlib.contextmanager
def _told(refused: "Callable[[str], LaunchError]" = functools.partial(LaunchError, code="INVALID_ARGUMENT")) -> Iterator[None]:
    """What is wrong with an argument, as an error."""
    try:
        yield
    except InvalidArgumentError as why:
        raise refused(str(why)) from None


class Runtime:
    """A GPU driver, opened once in a process; all that is loaded through it is shared.

    backend: "cuda", "hip", or "spirv", which OpenCL loads. driver: the driver's library, as dlopen(3) takes it; "": the backend's own
    ("cuda": libcuda.so.1). LaunchError with the code UNAVAILABLE where there is no driver or no GPU. Thread-safe. Of no use in a
    forked child, as the driver itself.
    """

    @_told()
    def __init__(self, driver: "Place" = "", *, backend: str = "cuda") -> None:
        _check_process()
        self.backend = backend
        handle = ctypes.c_void_p()
        options = c.OpenOptions(backend=_validate.c_text(backend, "backend"), driver_path=_encoded_path("driver", driver) if driver else None)
        c.library().call("open", ctypes.byref(options), ctypes.byref(handle))
        self._handle = handle.value
        global _opened_in
        _opened_in = os.getpid()

    @_told()
    def load(self, source: Source, *, device: Optional[int] = None, server_uid: Optional[int] = None) -> "Kernel":
        """A kernel in the thread's current context (PyTorch and others make one with their first allocation), or in the primary
        context of a device. Does not load it into the GPU yet: Kernel.prepare does, or the first launch.

        source: an Artifact with its binary; the path of a .json file that `kiln compile -o` wrote; or that of a file of the daemon's
        hot directory, which must belong to root, to this user or to `server_uid`.

        LaunchError: FAILED_PRECONDITION where it was compiled for another architecture or no context is current,
        RESOURCE_EXHAUSTED where it needs more than the device has, DATA_LOSS where the binary is not what its digest says.
        """
        _check_process()
        with _Handle("artifact_close") as artifact:
            _open_artifact(source, server_uid, artifact)
            return self._open(artifact, device)

    def _open(self, artifact: "_Handle", device: Optional[int]) -> "Kernel":
        return Kernel(self, artifact.value, -1 if device is None else _validate.within(device, "device", end=2**31))

    @_told()
    def context(self, device: Optional[int] = None) -> int:
        """The number of a device's primary context, which is made if necessary; of the thread's current context where no device is
        named, 0 for none. OpenCL's queues and memory are made in it (clCreateCommandQueueWithProperties, clSVMAlloc)."""
        context = ctypes.c_void_p()
        self._call("get_context", -1 if device is None else _validate.within(device, "device", end=2**31), ctypes.byref(context))
        return context.value or 0

    @_told()
    def set_context(self, context: Any) -> None:
        """OpenCL alone: makes a context of one device current on this thread; 0: none. A cl_context's number, or PyOpenCL's Context."""
        self._call("set_context", _validate.within(getattr(context, "int_ptr", context), "context"))

    @_told()
    def configure(self, *, strict: bool = False, times_launches: bool = False, resident_kernels_max: int = 0,
                  resident_bytes_max: int = 0) -> None:
        """Replaces all settings, for launches that begin after it.

        strict: a launch of a kernel that is not loaded fails rather than loads it. times_launches: Kernel.times has what launches
        take. resident_*_max: what stays loaded on each GPU; the least recently launched goes first. 0: no limit.
        """
        settings = c.Settings(strict=_validate.flag(strict, "strict"), times_launches=_validate.flag(times_launches, "times_launches"),
                              resident_kernels_max=_validate.within(resident_kernels_max, "resident_kernels_max"),
                              resident_bytes_max=_validate.within(resident_bytes_max, "resident_bytes_max"))
        self._call("configure", ctypes.byref(settings))

    def stats(self) -> LaunchStats:
        """Counts, of everybody in this process."""
        stats = c.Stats()
        self._call("get_stats", ctypes.byref(stats))
        return LaunchStats(**{name: getattr(stats, name) for name in LaunchStats.__dataclass_fields__})

    def trim(self) -> None:
        """Unloads what nobody has open any more, and what is above the limits. Waits for each GPU that has such."""
        self._call("trim")

    @_told()
    def name_graph(self, stream: Any, name: str) -> None:
        """Names the CUDA graph that the stream captures into, for messages."""
        self._call("graph_set_name", _stream(stream), _validate.c_text(name, "name"))

    @_told()
    def add_graph_buffer(self, stream: Any, address: int, size_bytes: int, name: str) -> None:
        """Says that the graph refers to a buffer that no launch through Kiln shows, or how long one is."""
        self._call("graph_add_buffer", _stream(stream), _validate.within(address, "address"), _validate.within(size_bytes, "size_bytes"),
                   _validate.c_text(name, "name"))

    @_told()
    def check_free(self, address: int, size_bytes: int) -> None:
        """To be asked before device memory is freed. LaunchError (FAILED_PRECONDITION), which names buffer and graph, where a live
        graph refers to some of it."""
        self._call("check_free", _validate.within(address, "address"), _validate.within(size_bytes, "size_bytes"))

    def _call(self, name: str, *arguments: Any) -> None:
        _check_process()
        c.library().call(name, self._handle, *arguments)

    def _device(self, number: int) -> int:
        device = c.Device()
        self._call("get_device", number, ctypes.byref(device))
        return int(device.ordinal)

    def _device_of(self, address: int) -> int:
        device = ctypes.c_int32()
        self._call("address_get_device", address, ctypes.byref(device))
        return device.value


@functools.lru_cache(maxsize=None)
def runtime() -> Runtime:
    """CUDA's, opened when it is first asked for."""
    return Runtime()


@_told()
def load(source: Source, *, device: Optional[int] = None, server_uid: Optional[int] = None) -> "Kernel":
    """runtime().load(…), but what is wrong with the source is said where there is no GPU, too."""
    _check_process()
    with _Handle("artifact_close") as artifact:
        _open_artifact(source, server_uid, artifact)
        return runtime()._open(artifact, device)


def times_of(call: Callable[..., None], reset: bool) -> KernelTimes:
    """`call` calls a function of a kernel. For kiln.graph."""
    times = c.Times()
    call("kernel_get_times", reset, ctypes.byref(times))
    return KernelTimes(times.launches, times.dropped, times.total_ms, times.min_ms, times.max_ms)


@contextlib.contextmanager
def opened(source: Source) -> "Iterator[ctypes.c_void_p]":
    """A kiln_launch_artifact. For kiln.graph."""
    _check_process()
    with _Handle("artifact_close") as artifact:
        _open_artifact(source, None, artifact)
        yield artifact


class Kernel:
    """A kernel in a context: what Runtime.load gives. Unloaded when nobody has it any more.

    name: the entry point's. key: 64 hex digits, "" where it is not known. device: its number. parameters: those that a launch
    passes, in order. Thread-safe. Every failure is a LaunchError that names kernel and key.
    """

    def __init__(self, owner: Runtime, artifact: Optional[int], device: int) -> None:
        info = c.ArtifactInfo()
        c.library().call("artifact_get_info", artifact, ctypes.byref(info))
        self.name = info.name.decode(errors="replace")
        key = ctypes.string_at(info.key, 32)
        self.key = key.hex() if any(key) else ""
        self.parameters, self._bytes = _parameters(artifact, info.parameter_count)
        self._runtime = owner
        self._kinds = self._known_kinds(is_triton=info.hidden_pointers > 0)
        handle = ctypes.c_void_p()
        self._library = c.library()
        self._library.call("kernel_open", owner._handle, artifact, device, ctypes.byref(handle), kernel=self.name, key=self.key)
        self._handle = handle.value
        weakref.finalize(self, _close_kernel, handle, os.getpid()).atexit = False  # the process ends with all that is loaded
        self.device = owner._device(device)
        # Not bound to this object: it is to go with the last reference, and not when Python next looks for cycles.
        wait = functools.partial(self._library.call, "stream_wait", handle, kernel=self.name, key=self.key)
        self._addresses = Addresses(owner.backend, self.device, owner._device_of, wait)
        self._packer = Packer(handle.value or 0, self._kinds)
        self._address_places = tuple(i for i, kind in enumerate(self._kinds) if kind.is_address)
        self._checked_places = tuple((i, kind.check) for i, kind in enumerate(self._kinds) if not kind.is_plain)
        self._enqueue: Callable[..., int] = self._library.enqueue
        self._torch_stream: Optional[Callable[[], int]] = None
        _process.reset_in_children(self)

    def __repr__(self) -> str:
        return f"<kiln.Kernel {self.name} ({self.key[:12] or 'no key'}) on device {self.device}>"

    def reset_after_fork(self) -> None:
        """Not for callers: a forked child has no driver to launch with."""
        self._enqueue = lambda *_: _refuse_in_child()

    def prepare(self) -> "Kernel":
        """Loads it, so that no launch has to: call it in warm-up, since it waits for what runs on the device."""
        self._call("prepare")
        return self

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """kernel[grid](*arguments, stream=…): as launch()."""
        return functools.partial(self.launch, grid)

    def launch(self, grid: Any, *arguments: Any, stream: Any = None, block: Sequence[int] = _NO_BLOCK, dynamic_shared_bytes: int = 0,
               pdl: bool = False, cooperative: bool = False) -> None:
        """Puts one launch on the stream and returns.

        grid: how many programs (blocks, for CUDA C++ and PTX) along x, y, z: a number, or one to three of them. With a zero nothing
            is launched.
        arguments: one for each of `parameters`. For a pointer an address, or an array in the memory of the kernel's device: a PyTorch
            tensor, or anything with __dlpack__ or __cuda_array_interface__; it is not copied and must stay alive until the kernel has
            run. For a number one that fits its type. For a tensor descriptor a DescriptorArgument, which stands for the parameters behind it
            too. For b8[…] as many bytes.
        stream: a number (CUstream, 0: the default stream), an object with __cuda_stream__ or .cuda_stream; None: PyTorch's current
            stream where PyTorch uses the GPU in this process, otherwise the default stream. OpenCL has no default stream: a
            cl_command_queue's number, or PyOpenCL's CommandQueue.
        block: threads along x, y, z, for CUDA C++, PTX and OpenCL C alone. dynamic_shared_bytes: besides what the kernel itself asks for.
        pdl, cooperative: also where it was not compiled for it.
        """
        if type(grid) is not tuple or len(grid) != 3:
            grid = self._lengths("grid", grid)
        if block is not _NO_BLOCK:
            block = self._lengths("block", block)
        if stream is None:
            torch = self._torch_stream
            stream = self._current_stream() if torch is None else torch()
        elif type(stream) is not int:
            stream = self._handle_of(stream)
        kept: List[Any] = []
        values: List[Any] = list(arguments)
        if len(values) != len(self._kinds):
            values = self._expanded(values, stream, kept)
        for place in self._address_places:
            value = values[place]
            if type(value) is not int:
                values[place] = self._fitting(place, self._addresses.of, value, stream, kept)
        for place, check in self._checked_places:
            values[place] = self._fitting(place, check, values[place])
        packer = self._packer
        frame = packer.take()
        try:
            packer.pack_into(frame.buffer, Packer.OFFSET, *grid, *block, dynamic_shared_bytes, pdl, cooperative, stream, *values)
        except (struct.error, OverflowError, TypeError):
            self._pack_slowly(frame.buffer, (*grid, *block, dynamic_shared_bytes, pdl, cooperative, stream), values)
        code = self._enqueue(*frame.call)
        packer.give_back(frame)
        if code:
            raise self._library.failure(code, self.name, self.key)

    def descriptor(self, parameter: int, tensor: Any, shape: Sequence[int], strides: Sequence[int] = (), *,
                   fills_with_nan: bool = False, rounds_to_tf32: bool = False) -> "DescriptorArgument":
        """The argument for the tensor descriptor that begins at that number of `parameters`; for as many launches as one likes, as long
        as the tensor stays where it is: a launch after it has moved is a LaunchError.

        tensor: as a pointer argument, on a multiple of 16; ordered with each launch like one, and kept. shape, strides: in elements, row-major, up to five; no strides: as the
        shape has them. fills_with_nan: what lies outside reads as NaN. rounds_to_tf32: float32 is rounded on its way.
        """
        with _told(self._misfit):
            parameter = _validate.within(parameter, "parameter", end=len(self.parameters))
            shape = _extents("shape", shape)
            strides = _extents("strides", strides) or _row_major(shape)
            fills, rounds = _validate.flag(fills_with_nan, "fills_with_nan"), _validate.flag(rounds_to_tf32, "rounds_to_tf32")
            tensor = _validate.within(tensor, "tensor") if type(tensor) is int else tensor
        if not 1 <= len(shape) <= _TENSOR_RANK_MAX or len(strides) != len(shape):
            raise self._misfit(f"a tensor of shape {tuple(shape)} with strides {tuple(strides)} has no descriptor")
        kept: List[Any] = []
        address = tensor if type(tensor) is int else self._fitting(parameter, self._addresses.of, tensor, self._current_stream(), kept)
        producer = None if type(tensor) is int else tensor
        given = c.Tensor(rank=len(shape), address=address, shape=tuple(shape), strides=strides, fills_with_nan=fills, rounds_to_tf32=rounds)
        with _Handle("descriptor_close") as handle:
            self._call("descriptor_open", parameter, ctypes.byref(given), ctypes.byref(handle))
            room = (ctypes.c_void_p * len(self.parameters))()
            count = ctypes.c_uint32()
            self._library.call("descriptor_get_arguments", handle, room, len(room), ctypes.byref(count))
            places = range(parameter, parameter + count.value)
            return DescriptorArgument(tuple(self._copied(place, pointer) for place, pointer in zip(places, room)), producer, address)

    def facts(self) -> KernelFacts:
        """What the driver says of it. LaunchError (FAILED_PRECONDITION) where it is not loaded."""
        info = c.KernelInfo()
        self._call("kernel_get_info", ctypes.byref(info))
        return KernelFacts(info.registers, info.local_bytes, info.static_shared_bytes, info.threads_max)

    def times(self, *, reset: bool = False) -> KernelTimes:
        """How long its launches took, where the runtime has them measured. Waits for those under way. `reset`: begin anew."""
        with _told(self._misfit):
            return times_of(self._call, _validate.flag(reset, "reset"))

    # --- For kiln.graph ---

    def stream_handle(self, stream: Any) -> int:
        """The number of a stream, as launch() takes it."""
        _check_process()
        return self._current_stream() if stream is None else self._handle_of(stream)

    def address_of(self, array: Any, stream: int, kept: "List[Any]") -> int:
        """The address of an array on the kernel's device, which its producer orders with the stream. Misfit. Adds to `kept` what must
        live until the launch is made."""
        return self._addresses.of(array, stream, kept)

    # --- Calls ---

    def _call(self, name: str, *arguments: Any) -> None:
        _check_process()
        self._library.call(name, self._handle, *arguments, kernel=self.name, key=self.key)

    # --- Streams ---

    def _current_stream(self) -> int:
        if self._torch_stream is None and self._runtime.backend != "spirv":
            self._torch_stream = torch_stream(self.device)
        return 0 if self._torch_stream is None else self._torch_stream()

    def _handle_of(self, stream: Any) -> int:
        try:
            return handle_of(stream)
        except TypeError as error:
            raise self._misfit(str(error)) from None

    # --- Arguments ---

    def _known_kinds(self, is_triton: bool) -> "Tuple[Kind, ...]":
        kinds = []
        for place, (parameter, size) in enumerate(zip(self.parameters, self._bytes)):
            try:
                kinds.append(kind_of(parameter.type, size, is_triton))
            except Misfit as why:
                raise self._misfit(f"{self._label(place)}: {why}", code="UNIMPLEMENTED") from None
        return tuple(kinds)

    def _expanded(self, arguments: "List[Any]", stream: int, kept: "List[Any]") -> "List[Any]":
        """With what descriptors stand for in their place, and what their tensors' producers have under way before the launch."""
        values: List[Any] = []
        for argument in arguments:
            if not isinstance(argument, DescriptorArgument):
                values.append(argument)
                continue
            if argument.tensor is not None and self._fitting(len(values), self._addresses.of, argument.tensor, stream, kept) != argument.address:
                raise self._misfit(f"argument {self._label(len(values))}: the tensor has moved since its descriptor was made")
            values += argument.values
        if len(values) != len(self._kinds):
            raise self._misfit(f"{len(values)} arguments, it takes {len(self._kinds)}: {', '.join(map(self._label, range(len(self._kinds))))}")
        return values

    def _fitting(self, place: int, convert: Callable[..., Any], *given: Any) -> Any:
        """What `convert` makes of an argument."""
        try:
            return convert(*given)
        except Misfit as why:
            raise self._misfit(f"argument {self._label(place)}: {why}") from None
        except BufferError as why:
            raise self._misfit(f"argument {self._label(place)}: it cannot be had without a copy: {why}") from why
        except LaunchError:
            raise
        except Exception as why:  # of the library that has made the argument
            reraise_from_handler(why)
            raise self._misfit(f"argument {self._label(place)}: its library fails: {type(why).__name__}: {why}") from why

    def _pack_slowly(self, buffer: Any, config: "Tuple[Any, ...]", values: "List[Any]") -> None:
        """After struct has refused something: says what, or packs what it takes as another number of the same bits."""
        for what, number in zip(_CONFIG_NAMES, config):
            largest = 2**64 - 1 if what == "stream" else _UINT32_MAX
            if not hasattr(number, "__index__") or not 0 <= number.__index__() <= largest:
                raise self._misfit(f"{what}: {number!r} is not a number from 0 to {largest}")
        values = [self._fitting(place, kind.check, value) if kind.is_plain else value
                  for place, (kind, value) in enumerate(zip(self._kinds, values))]
        self._packer.pack_into(buffer, Packer.OFFSET, *config, *values)

    def _copied(self, place: int, pointer: int) -> Any:
        """An argument that a descriptor has made, as a value."""
        kind = self._kinds[place]
        return value_of(kind, ctypes.string_at(pointer, kind.size))

    def _lengths(self, what: str, given: Any) -> "Tuple[Any, ...]":
        """Along x, y and z."""
        try:
            lengths = (given,) if hasattr(given, "__index__") else tuple(_validate.each(given, what))
        except (TypeError, InvalidArgumentError):
            raise self._misfit(f"{what}: {given!r} is neither a number nor a tuple of numbers") from None
        if not 1 <= len(lengths) <= 3:
            raise self._misfit(f"{what}: {len(lengths)} lengths; it has one to three")
        return (*lengths, 1, 1)[:3]

    def _label(self, place: int) -> str:
        parameter = self.parameters[place]
        return f"{place} ({parameter.name}: {parameter.type})" if parameter.name else f"{place} ({parameter.type})"

    def _misfit(self, why: str, code: str = "INVALID_ARGUMENT") -> LaunchError:
        key = f" (key {self.key[:12]})" if self.key else ""
        return LaunchError(f"kernel {self.name}{key}: {why}", code=code, kernel=self.name, key=self.key)


@dataclass(frozen=True)
class DescriptorArgument:
    """A tensor descriptor as an argument; Kernel.descriptor makes it. values: of the parameters that it stands for. tensor: what it
    describes, at that address; None: an address alone."""
    values: Tuple[Any, ...]
    tensor: Any = None
    address: int = 0


# --- What the library is given ---------------------------------------------------------------------------------------
# ctypes cuts a number that is too long, and ends a text at a NUL.


def _extents(what: str, given: Any) -> "Tuple[int, ...]":
    return tuple(_validate.within(length, what, low=-2**63, end=2**63) for length in _validate.each(given, what))


def _encoded_path(what: str, given: Any) -> bytes:
    _validate.place(given, what)
    return os.fsencode(given)


def _stream(given: Any) -> int:
    try:
        return _validate.within(handle_of(given), "stream")
    except TypeError as error:
        raise InvalidArgumentError(str(error)) from None


class _Handle(ctypes.c_void_p):
    """Closed at the end of a `with` block."""

    def __init__(self, close: str) -> None:
        super().__init__()
        self._close = close

    def __enter__(self) -> "_Handle":
        return self

    def __exit__(self, *exception: object) -> None:
        c.library().close(self._close, self)


def _open_artifact(source: Source, server_uid: Optional[int], handle: _Handle) -> None:
    if isinstance(source, Artifact):
        given = _bytes_of(source)
        c.library().call("artifact_open_bytes", ctypes.byref(given), ctypes.byref(handle), kernel=source.metadata.name, key=source.key)
        return
    if not isinstance(source, (str, bytes, os.PathLike)):
        raise LaunchError(f"an Artifact or the path of a file is loaded, not {type(source).__name__}", code="INVALID_ARGUMENT")
    path = _encoded_path("source", os.fsdecode(source) if isinstance(source, bytes) else source)
    if os.path.splitext(path)[1] in _OUTPUTS:
        raise LaunchError(f"{os.fsdecode(path)}: load the .json file that `kiln compile -o` wrote beside it", code="INVALID_ARGUMENT")
    if path.endswith(b".json"):
        c.library().call("artifact_open_json", path, ctypes.byref(handle))
    else:
        uid = _validate.user(server_uid, "server_uid")
        options = c.HotOptions(has_server_uid=uid is not None, server_uid=uid or 0)
        c.library().call("artifact_open_hot", path, ctypes.byref(options), ctypes.byref(handle))


def _bytes_of(artifact: Artifact) -> Any:
    try:
        binary = artifact.binary
    except KeyError:
        raise LaunchError("the artifact comes without its binary: have it compiled, or fetched, with it", code="INVALID_ARGUMENT",
                          kernel=artifact.metadata.name, key=artifact.key) from None
    metadata: Dict[str, Any] = asdict(artifact.metadata)
    metadata["target"] = {"backend": metadata.pop("backend"), "architecture": metadata.pop("architecture")}
    stages = [{"stage": stage.name, "digest": stage.digest} for stage in artifact.stages.values() if stage.name in BINARIES]
    document = json.dumps({"metadata": metadata, "key": artifact.key, "stages": stages}).encode()
    return c.Bytes(json=document, json_bytes=len(document), binary=binary, binary_bytes=len(binary))


def _parameters(artifact: Optional[int], count: int) -> "Tuple[Tuple[KernelParameter, ...], Tuple[int, ...]]":
    parameters, sizes = [], []
    for index in range(count):
        one = c.Parameter()
        c.library().call("artifact_get_parameter", artifact, index, ctypes.byref(one))
        parameters.append(KernelParameter(one.name.decode(errors="replace"), one.type.decode(errors="replace")))
        sizes.append(one.bytes)
    return tuple(parameters), tuple(sizes)


def _row_major(shape: Sequence[int]) -> "Tuple[int, ...]":
    strides, length = [], 1
    for size in reversed(shape):
        strides.append(length)
        length *= size
    return tuple(reversed(strides))


# --- Processes -------------------------------------------------------------------------------------------------------

# The process that opened the driver; 0: none has.
_opened_in = 0


def _check_process() -> None:
    if _opened_in not in (0, os.getpid()):
        _refuse_in_child()


def _refuse_in_child() -> int:
    raise LaunchError("this process was forked from one that had opened the GPU driver, which is of no use here: start it with spawn",
                      code="FAILED_PRECONDITION")


def _close_kernel(handle: ctypes.c_void_p, process: int) -> None:
    if os.getpid() == process:
        c.library().close("kernel_close", handle)
