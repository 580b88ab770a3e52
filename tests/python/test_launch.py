"""kiln.load and what it gives, with a stand-in for the driver: what reaches the driver is what was said."""

import gc
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import threading

import pytest

import kiln
from fake_driver import DLPackArray, FakeDriver, Interface, Tensor, artifact, packed
from kiln._launch.streams import handle_of
from places import PACKAGE

pytestmark = pytest.mark.shared_daemon

STREAM = 0x5000
X = 0x7F00_0000


class Broken:
    """An array that its library will not hand out."""

    def __dlpack_device__(self):
        raise RuntimeError("it was donated")

    __dlpack__ = __dlpack_device__


@pytest.fixture
def driver(tmp_path):
    fake = FakeDriver(tmp_path)
    fake.define("k", 8, 4, 8, 8)
    fake.make_context()
    return fake


@pytest.fixture
def runtime(driver):
    return kiln.Runtime(driver.path)


@pytest.fixture
def kernel(runtime):
    return runtime.load(artifact("*fp32", "i32"))


def load(runtime, driver, *types, sizes, name="typed", hidden=2, **metadata):
    driver.define(name, *sizes, *[8] * hidden)
    return runtime.load(artifact(*types, name=name, hidden_pointers=hidden, **metadata))


# --- What the driver gets --------------------------------------------------------------------------------------------


def test_a_launch(driver, kernel):
    assert (kernel.name, kernel.device, len(kernel.key)) == ("k", 0, 64)
    assert kernel.parameters == (kiln.KernelParameter("p0", "*fp32"), kiln.KernelParameter("p1", "i32"))
    kernel[(3, 2, 1)](X, -7, stream=STREAM)
    launch, = driver.launches()
    assert (launch.kernel, launch.grid, launch.block, launch.shared_bytes, launch.stream) == ("k", "3x2x1", "128x1x1", 1024, STREAM)
    assert launch.arguments == [packed("Q", X), packed("i", -7), bytes(8), bytes(8)]


def test_a_context_is_made_current_by_the_driver_itself(driver, runtime):
    assert runtime.context() > 0
    assert runtime.context(0) > 0
    with pytest.raises(kiln.LaunchError, match="a context is made current with the driver's own function"):
        runtime.set_context(0)


@pytest.mark.parametrize("grid,expected", [(5, "5x1x1"), ((5,), "5x1x1"), ((5, 6), "5x6x1"), ([5, 6, 7], "5x6x7")])
def test_grids(driver, kernel, grid, expected):
    kernel[grid](X, 1)
    assert driver.launches()[0].grid == expected


def test_an_empty_grid_launches_nothing(driver, kernel):
    kernel[(4, 0, 1)](X, 1)
    assert driver.launches() == []


def test_a_plain_kernel_has_its_block_and_its_memory_from_the_launch(driver, runtime):
    kernel = load(runtime, driver, "u64", "u32", "b8[12]", sizes=(8, 4, 12), hidden=0, num_warps=0)
    kernel.launch(2, X, -1, b"0123456789ab", stream=STREAM, block=(8, 4), dynamic_shared_bytes=512, cooperative=True)
    kernel.launch(2, Tensor(X), 2**32 - 1, bytearray(12), block=64)
    first, second = driver.launches()
    assert (first.block, first.shared_bytes, second.block) == ("8x4x1", 512, "64x1x1")
    assert first.arguments == [packed("Q", X), packed("i", -1), b"0123456789ab"]
    assert second.arguments == [packed("Q", X), packed("i", -1), bytes(12)]


TYPES = (
    ("i1", True, b"\1"), ("u1", 0, b"\0"), ("i8", -128, packed("b", -128)), ("u8", 255, b"\xff"), ("i16", -2, packed("h", -2)),
    ("i32", 2**31 - 1, packed("i", 2**31 - 1)), ("u32", 2**32 - 1, packed("I", 2**32 - 1)), ("i64", -2**63, packed("q", -2**63)),
    ("u64", 2**64 - 1, packed("Q", 2**64 - 1)), ("fp16", 1.5, packed("e", 1.5)), ("f16", 65504, packed("e", 65504.0)),
    ("bf16", 1.0, b"\x80\x3f"), ("bf16", 1.00390625, b"\x80\x3f"), ("bf16", 1.01171875, b"\x82\x3f"), ("bf16", float("nan"), b"\xc0\x7f"),
    ("fp32", 0.1, packed("f", 0.1)), ("f32", 3, packed("f", 3.0)), ("fp64", 0.1, packed("d", 0.1)), ("index", -5, packed("q", -5)),
    ("*bf16", X, packed("Q", X)), ("!tt.ptr<f16>", X, packed("Q", X)),
)


def test_every_type_and_where_it_lies(driver, runtime):
    kernel = load(runtime, driver, *(one for one, _, _ in TYPES), sizes=tuple(len(raw) for _, _, raw in TYPES))
    kernel[1](*(value for _, value, _ in TYPES))
    assert driver.launches()[0].arguments[:-2] == [raw for _, _, raw in TYPES]


MISFITS = (
    ("i1", 2, "neither true nor false"), ("i8", 128, "128 does not fit 8 bits"), ("u8", -1, "-1 does not fit 8 bits without a sign"),
    ("i32", 2**31, "2147483648 does not fit 32 bits"), ("i32", 1.5, "1.5 is not a whole number"), ("i32", "7", "'7' is not a whole number"),
    ("i32", None, "None is not a whole number"), ("u64", 2**64, "does not fit 64 bits"), ("fp16", 1e6, "1000000.0 does not fit 16 bits"),
    ("fp32", 1e39, "does not fit 32 bits"), ("bf16", 1e39, "does not fit 32 bits"), ("fp32", "1", "'1' is not a number"),
    ("*fp32", -1, "does not fit 64 bits without a sign"), ("*fp32", 1.0, "neither an address nor an array"), ("*fp32", None, "neither an address"),
    ("*fp32", True, "True is neither an address nor an array"),
)


@pytest.mark.parametrize("kind,value,words", MISFITS, ids=lambda value: str(value)[:12])
def test_an_unfit_argument_is_named(driver, runtime, kind, value, words):
    size = {"1": 1, "8": 1, "6": 2, "2": 4, "4": 8}[kind[-1]] if kind[0] != "*" else 8
    kernel = load(runtime, driver, "i32", kind, sizes=(4, size))
    with pytest.raises(kiln.LaunchError, match="typed") as caught:
        kernel[1](0, value)
    assert caught.value.code == "INVALID_ARGUMENT" and (caught.value.kernel, caught.value.key) == ("typed", kernel.key)
    assert f"argument 1 (p1: {kind}): " in str(caught.value) and words in str(caught.value)
    assert driver.launches() == []


def test_a_wrong_number_of_arguments_lists_the_right_ones(kernel):
    with pytest.raises(kiln.LaunchError, match=r"3 arguments, it takes 2: 0 \(p0: \*fp32\), 1 \(p1: i32\)"):
        kernel[1](X, 1, 2)


@pytest.mark.parametrize("keywords,words", [
    (dict(grid=(-1, 1, 1)), "grid: -1"), (dict(grid=(1, 2, 3, 4)), "grid: 4 lengths"), (dict(grid=None), "grid: None"),
    (dict(grid=(1.5, 1, 1)), "grid: 1.5"), (dict(grid=1, stream=-1), "stream: -1"), (dict(grid=1, stream="s"), "is not a stream"),
    (dict(grid=1, block=128.0), "block: 128.0"), (dict(grid=b"ab"), "grid: b'ab' is neither"), (dict(grid="5"), "grid: '5'"), (dict(grid=1, dynamic_shared_bytes=2**40), "dynamic_shared_bytes"),
])
def test_a_launch_that_makes_no_sense_is_named(driver, kernel, keywords, words):
    with pytest.raises(kiln.LaunchError) as caught:
        kernel.launch(keywords.pop("grid"), X, 1, **keywords)
    assert words in str(caught.value) and caught.value.code == "INVALID_ARGUMENT" and driver.launches() == []


SURROGATE = "a\ud800b"
NAN = float("nan")
BUFFER = (STREAM, X, 64, "buffer")


class Integer:
    """As NumPy's."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def with_one(values, place, value):
    return (*values[:place], value, *values[place + 1:])


# What is called, and what is wrong with what it is given.
MISTAKES = (
    *((lambda runtime, value=value: kiln.Runtime(value), "driver") for value in (5, b"libcuda.so", True, SURROGATE, "a\0b")),
    *((lambda runtime, value=value: kiln.Runtime(backend=value), "backend") for value in (5, b"cuda", None, SURROGATE, "cuda\0")),
    *((lambda runtime, value=value: runtime.load(artifact("*fp32", "i32"), device=value), "device")
      for value in ("0", b"0", 0.0, NAN, True, -1, -2**32, 2**31, 2**32, 2**70)),
    *((lambda runtime, value=value: runtime.load("/no/such/file", server_uid=value), "server_uid")
      for value in ("0", 1.5, True, -1, 2**32, 2**70, Integer(0))),
    *((lambda runtime, value=value: runtime.load(value), "source") for value in (SURROGATE, f"{SURROGATE}.json", "a\0b.json", b"a\0")),
    *((lambda runtime, name=name, value=value: runtime.configure(**{name: value}), name)
      for name in ("strict", "times_launches") for value in ("yes", None, 2, -1, NAN, 2**32)),
    *((lambda runtime, name=name, value=value: runtime.configure(**{name: value}), name)
      for name in ("resident_kernels_max", "resident_bytes_max") for value in ("5", None, -1, NAN, 1e9, True, 2**64)),
    *((lambda runtime, value=value: runtime.name_graph(value, "graph"), "stream") for value in ("5", None, -1, NAN, True, 2**64)),
    *((lambda runtime, value=value: runtime.name_graph(STREAM, value), "name") for value in (5, None, b"graph", SURROGATE, "a\0b")),
    *((lambda runtime, place=place, value=value: runtime.add_graph_buffer(*with_one(BUFFER, place, value)), name)
      for place, name in ((0, "stream"), (1, "address"), (2, "size_bytes"), (3, "name")) for value in (None, NAN, b"", -1)),
    *((lambda runtime, place=place, value=value: runtime.check_free(*with_one((X, 64), place, value)), name)
      for place, name in ((0, "address"), (1, "size_bytes")) for value in ("5", None, -1, NAN, 1.5, True, 2**64)),
)


@pytest.mark.parametrize("call,name", MISTAKES)
def test_an_argument_of_a_runtime_that_makes_no_sense_is_named(runtime, call, name):
    """Rather than cut to the bits that there are."""
    with pytest.raises(kiln.LaunchError) as caught:
        call(runtime)
    assert caught.value.code == "INVALID_ARGUMENT" and re.search(rf"\b{name}\b", str(caught.value)), caught.value


def test_numbers_of_numpys_are_numbers(driver, runtime):
    kernel = runtime.load(artifact("*fp32", "i32"), device=Integer(0))
    runtime.configure(strict=Integer(0), resident_kernels_max=Integer(7))
    runtime.check_free(Integer(X), Integer(64))
    kernel[(Integer(3), 1, 1)](Integer(X), Integer(-7), stream=STREAM)
    launch, = driver.launches()
    assert (launch.grid, launch.arguments[:2]) == ("3x1x1", [packed("Q", X), packed("i", -7)])


@pytest.mark.parametrize("changes,words", [
    *((dict(parameter=value), "parameter: ") for value in ("0", None, NAN, True, -1, 5, 2**32)),
    *((dict(tensor=value), "tensor: ") for value in (-1, 2**64)), (dict(tensor=True), "neither an address nor an array"),
    *((dict(shape=value), "shape: ") for value in ("ab", b"ab", None, 5, (NAN, 1), ("5", 1), (1.5, 2), (True, 1), (2**63, 1), (2**70, 1))),
    *((dict(strides=value), "strides: ") for value in ("ab", None, 5, (NAN, 1), (2**70, 1), (True, 1))),
    *(({name: value}, f"{name}: ") for name in ("fills_with_nan", "rounds_to_tf32") for value in ("x", None, 2, NAN)),
], ids=ascii)
def test_a_descriptor_of_what_makes_no_sense_names_it(driver, runtime, changes, words):
    layout = kiln.TensorDescriptor(swizzle=3, elem_size=2, elem_type=6, block_size=(128, 64), fp4_padded=False)
    kernel = load(runtime, driver, "!tt.tensordesc<tensor<128x64xf16>>", "i32", "i32", "i64", "i64", sizes=(128, 4, 4, 8, 8),
                  tensor_descriptors=(layout,))
    assert kernel.descriptor(Integer(0), X, (Integer(512), 256)).values == kernel.descriptor(0, X, (512, 256), (256, 1)).values
    with pytest.raises(kiln.LaunchError) as caught:
        kernel.descriptor(**{**dict(parameter=0, tensor=X, shape=(512, 256)), **changes})
    assert (caught.value.code, caught.value.key) == ("INVALID_ARGUMENT", kernel.key) and words in str(caught.value), caught.value


@pytest.mark.parametrize("reset", ["x", None, 2])
def test_times_are_reset_or_not(kernel, reset):
    with pytest.raises(kiln.LaunchError, match="reset: .* neither true nor false") as caught:
        kernel.times(reset=reset)
    assert caught.value.key == kernel.key


def test_a_type_that_nobody_knows(driver, runtime):
    with pytest.raises(kiln.LaunchError, match="type 'mystery' is not known") as caught:
        load(runtime, driver, "mystery", sizes=(8,))
    assert caught.value.code == "UNIMPLEMENTED"


def test_a_tensor_descriptor(driver, runtime):
    layout = kiln.TensorDescriptor(swizzle=3, elem_size=2, elem_type=6, block_size=(128, 64), fp4_padded=False)
    kernel = load(runtime, driver, "!tt.tensordesc<tensor<128x64xf16>>", "i32", "i32", "i64", "i64", "i32", sizes=(128, 4, 4, 8, 8, 4),
                  tensor_descriptors=(layout,))
    described = kernel.descriptor(0, Tensor(X), (512, 256))
    kernel[1](described, 9)
    with_strides = kernel.descriptor(0, X, (512, 256), (1024, 1))
    kernel[1](with_strides, 9)
    first, second = (launch.arguments for launch in driver.launches())
    assert struct.unpack("<16Q", first[0])[4] == X
    assert [int.from_bytes(one, "little") for one in first[1:6]] == [512, 256, 256, 1, 9]
    assert [int.from_bytes(one, "little") for one in second[1:6]] == [512, 256, 1024, 1, 9]
    for shape in ((), (1,) * 6):
        with pytest.raises(kiln.LaunchError, match="has no descriptor"):
            kernel.descriptor(0, X, shape)
    with pytest.raises(kiln.LaunchError, match="arguments, it takes 6"):
        kernel[1](described, 9, 9)


def test_each_launch_follows_the_producer_of_a_descriptors_tensor(driver, runtime):
    layout = kiln.TensorDescriptor(swizzle=3, elem_size=2, elem_type=6, block_size=(128, 64), fp4_padded=False)
    kernel = load(runtime, driver, "!tt.tensordesc<tensor<128x64xf16>>", "i32", "i32", "i64", "i64", sizes=(128, 4, 4, 8, 8),
                  tensor_descriptors=(layout,))
    interface, capsule = Interface(X, stream=0x6000), DLPackArray(X)
    by_interface, by_capsule = kernel.descriptor(0, interface, (512, 256)), kernel.descriptor(0, capsule, (512, 256))
    for stream in (STREAM, STREAM + 1):
        kernel[1](by_interface, stream=stream)
        kernel[1](by_capsule, stream=stream)
        assert driver.calls(f"cuStreamWaitEvent {stream:#x} after 0x6000") == 1
    assert [stream for stream, _ in capsule.asked[1:]] == [STREAM, STREAM + 1]
    interface.__cuda_array_interface__["data"] = (X + 64, False)
    with pytest.raises(kiln.LaunchError, match="has moved"):
        kernel[1](by_interface, stream=STREAM)
    assert len(driver.launches()) == 4


# --- Arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", [
    Tensor(X), DLPackArray(X), DLPackArray(X - 64, byte_offset=64), DLPackArray(X, versioned=False), Interface(X),
    DLPackArray(X, versioned=False, knows_versions=False), DLPackArray(X, device=(13, 0)), DLPackArray(X, device=(3, 0)), Interface(X, version=2)
], ids=["tensor", "dlpack", "offset", "unversioned", "old producer", "interface", "managed", "pinned", "interface 2"])
def test_arrays_by_their_address(driver, kernel, array):
    kernel[1](array, 1, stream=STREAM)
    assert driver.launches()[0].arguments[0] == packed("Q", X)
    assert driver.calls("cuStreamWaitEvent") == 0
    gc.collect()
    assert getattr(array, "alive", 0) == 0


@pytest.mark.parametrize("array,words", [
    (Tensor(X, device=1), "in the memory of cuda:1, the kernel runs on device 0"), (Tensor(X, device=-1), "in the memory of cpu"),
    (DLPackArray(X, device=(2, 1)), "in the memory of device 1, the kernel runs on device 0"),
    (DLPackArray(X, device=(1, 0)), "in the memory of the CPU, the kernel runs on cuda:0"),
    (DLPackArray(X, device=(10, 0)), "in the memory of a ROCm device"),
    (DLPackArray(X, copies=True), "cannot be had without a copy: only as a copy"),
    (DLPackArray(X, flags=2), "hands out a copy of itself"), (DLPackArray(X, major=2), "speaks DLPack 2.0"),
    (Interface(X | 3 << 48), "in the memory of device 3"), (Interface(64), "the driver knows nothing of the array's address"),
    (Interface(X, mask=1), "has a mask"), (Interface(X, stream=0), "the stream 0"), (Broken(), "RuntimeError: it was donated"),
], ids=lambda value: value[:24] if isinstance(value, str) else "")
def test_arrays_that_are_not_the_kernels(driver, kernel, array, words):
    with pytest.raises(kiln.LaunchError) as caught:
        kernel[1](array, 1)
    assert words in str(caught.value) and "argument 0 (p0: *fp32)" in str(caught.value) and driver.launches() == []
    caught = None
    gc.collect()
    assert getattr(array, "alive", 0) == 0


class Interrupted(Interface):
    """A signal comes while the array is looked at."""

    @property
    def __dlpack__(self):
        signal.raise_signal(signal.SIGUSR1)


def test_a_signal_handlers_exception_is_not_taken_for_the_arrays(kernel):
    class Preempted(Exception):
        pass

    def preempt(number, frame):
        raise Preempted

    before = signal.signal(signal.SIGUSR1, preempt)
    try:
        with pytest.raises(Preempted):
            kernel[1](Interrupted(X), 1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_producer_is_told_the_stream(kernel):
    array, old = DLPackArray(X), DLPackArray(X, versioned=False, knows_versions=False)
    for stream in (STREAM, 0, 2):
        kernel[1](array, 1, stream=stream)
        kernel[1](old, 1, stream=stream)
    assert [stream for stream, _ in array.asked] == [stream for stream, _ in old.asked] == [STREAM, 1, 2]
    assert array.asked[0][1] == {"max_version": (1, 0), "copy": False} and old.asked[0][1] == {}


def test_a_capsule_stays_until_the_launch_is_made(driver, kernel, monkeypatch):
    array, alive = DLPackArray(X), []
    monkeypatch.setattr(kernel, "_enqueue", lambda *_: alive.append(array.alive) or 0)
    kernel[1](array, 1)
    assert alive == [1]


def test_the_launch_waits_for_the_producers_stream(driver, kernel):
    kernel[1](Interface(X, stream=0x6000), 1, stream=STREAM)
    assert driver.calls("cuStreamWaitEvent 0x5000 after 0x6000") == 1
    kernel[1](Interface(X, stream=STREAM), 1, stream=STREAM)
    kernel[1](Interface(X, stream=1), 1, stream=0)  # the same one
    kernel[1](Interface(X, stream=None), 1, stream=STREAM)
    assert driver.calls("cuStreamWaitEvent") == 1


def test_a_capture_does_not_wait_for_a_producer_outside_it(driver, kernel):
    driver.begin_capture(STREAM)
    with pytest.raises(kiln.LaunchError, match="have its work done before the capture begins"):
        kernel[1](Interface(X, stream=0x6000), 1, stream=STREAM)
    kernel[1](X, 1, stream=STREAM)
    graph = driver.end_capture(STREAM)
    assert graph and len(driver.launches()) == 1
    driver.destroy_graph(graph)


# --- Streams ---------------------------------------------------------------------------------------------------------


class _Protocol:

    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


class _Torch:
    cuda_stream = 0x77


def test_streams():
    old_protocol = type("Old", (), {"__cuda_stream__": (0, 5)})()
    assert [handle_of(one) for one in (9, _Protocol((0, 8)), old_protocol, _Torch())] == [9, 8, 5, 0x77]
    for wrong in (True, "9", object(), _Protocol((1, 8))):
        with pytest.raises(TypeError):
            handle_of(wrong)


def test_a_stream_object_and_none(driver, kernel):
    kernel[1](X, 1, stream=_Torch())
    kernel[1](X, 1)
    assert [launch.stream for launch in driver.launches()] == [0x77, 0]


def test_pytorchs_current_stream_once_it_uses_the_gpu(driver, kernel, monkeypatch):
    uses, current = [False], [0x91]

    class Cuda:
        is_initialized = staticmethod(lambda: uses[0])

    class Torch:
        cuda = Cuda

        class _C:
            _cuda_getCurrentRawStream = staticmethod(lambda device: current[0] + device)

    monkeypatch.setitem(sys.modules, "torch", Torch)
    kernel[1](X, 1)
    uses[0] = True
    kernel[1](X, 1)
    current[0] = 0x92
    kernel[1](X, 1)
    assert [launch.stream for launch in driver.launches()] == [0, 0x91, 0x92]


# --- Loading ---------------------------------------------------------------------------------------------------------


def test_prepare_and_strict(driver, runtime, kernel):
    runtime.configure(strict=True)
    with pytest.raises(kiln.LaunchError, match="it is not loaded") as caught:
        kernel[1](X, 1)
    assert caught.value.code == "FAILED_PRECONDITION"
    assert driver.loaded() == 0 and kernel.prepare() is kernel and driver.loaded() == 1
    kernel[1](X, 1)
    stats = runtime.stats()
    assert (stats.loads, stats.refused_launches, stats.loads_at_launch, stats.kernels_resident) == (1, 1, 0, 1)
    assert kernel.facts() == kiln.KernelFacts(32, 0, 0, 1024)


def test_a_kernel_without_references_is_unloaded(driver, runtime):
    first, second = (runtime.load(artifact("*fp32", "i32")) for _ in range(2))
    first.prepare()
    second[1](X, 1)
    assert driver.loaded() == 1
    del first
    assert driver.loaded() == 1
    del second
    assert driver.loaded() == 0


def test_measuring(driver, runtime, kernel):
    runtime.configure(times_launches=True)
    for _ in range(3):
        kernel[1](X, 1, stream=STREAM)
    times = kernel.times(reset=True)
    assert times.launches == 3 and times.total_ms == pytest.approx(3 * times.min_ms) and kernel.times().launches == 0


def test_graphs_and_their_buffers(driver, runtime, kernel):
    kernel.prepare()
    driver.begin_capture(STREAM)
    runtime.name_graph(STREAM, "decode")
    runtime.add_graph_buffer(STREAM, 0x8000_0000, 64, "weights")
    kernel[1](X, 1, stream=STREAM)
    graph = driver.end_capture(STREAM)
    for address, words in ((X, "argument p0 of kernel k"), (0x8000_0020, "buffer weights")):
        with pytest.raises(kiln.LaunchError, match="decode") as caught:
            runtime.check_free(address, 4)
        assert words in str(caught.value)
    driver.destroy_graph(graph)
    runtime.check_free(X, 4)
    with pytest.raises(kiln.LaunchError):
        runtime.name_graph(STREAM, "nothing captures")


def test_errors_of_the_driver(driver, kernel):
    kernel.prepare()
    driver.fail("cuLaunchKernelEx", 2)
    with pytest.raises(kiln.LaunchError) as caught:
        kernel[1](X, 1, stream=STREAM)
    error = caught.value
    assert (error.code, error.driver_result, error.kernel, error.key) == ("RESOURCE_EXHAUSTED", 2, "k", kernel.key)
    assert "CUDA_ERROR_OUT_OF_MEMORY (2)" in str(error) and "kernel k" in str(error) and kernel.key[:12] in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kiln.LaunchError and vars(copy) == vars(error) and str(copy) == str(error)
    kernel[1](X, 1, stream=STREAM)  # and goes on


def test_artifacts_that_are_refused(runtime):
    with pytest.raises(kiln.LaunchError, match="80.*90|90.*80") as caught:
        runtime.load(artifact("*fp32", architecture="80"))
    assert caught.value.code == "FAILED_PRECONDITION"
    whole = artifact("*fp32")
    damaged = whole.with_contents({"cubin": whole.binary + b"x"})
    with pytest.raises(kiln.LaunchError) as caught:
        runtime.load(damaged)
    assert caught.value.code == "DATA_LOSS"
    with pytest.raises(kiln.LaunchError, match="without its binary"):
        runtime.load(kiln.Artifact(whole.key, "stored", "", whole.metadata, {}, {}, whole.provenance))
    with pytest.raises(kiln.LaunchError) as caught:
        runtime.load("/nowhere/k.json")
    assert caught.value.code == "NOT_FOUND"


def test_without_a_driver():
    with pytest.raises(kiln.LaunchError, match="no GPU driver here: /nowhere/libcuda.so") as caught:
        kiln.Runtime("/nowhere/libcuda.so")
    assert caught.value.code == "UNAVAILABLE"
    with pytest.raises(kiln.LaunchError, match="no backend"):
        kiln.Runtime(backend="metal")


def test_without_a_context(driver, runtime):
    failures = []

    def work():
        try:
            runtime.load(artifact("*fp32", "i32"))
        except kiln.LaunchError as error:
            failures.append(error)
        runtime.load(artifact("*fp32", "i32"), device=0)[1](X, 1, stream=STREAM)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [error.code for error in failures] == ["FAILED_PRECONDITION"] and "no context is current" in str(failures[0])
    assert len(driver.launches()) == 1


# --- What a daemon compiles ------------------------------------------------------------------------------------------


def test_a_compiled_artifact_launches(daemon, driver, runtime, tmp_path):
    """As an artifact, out of the files of the command, and out of the hot directory."""
    from test_client import KERNEL, request
    with kiln.Client(root=str(daemon.root)) as client:
        compiled = client.compile(request("launched"))
    (tmp_path / "warm.ttir").write_text(request("launched").source)
    done = daemon.kiln("compile", tmp_path / "warm.ttir", "--target", "cuda:90", "--toolchain", "triton==3.6.0", "--option", "num_warps=4",
                       "-o", tmp_path / "out")
    assert done.code == 0 and KERNEL, done.error
    driver.define("warm", 8, 8, 8, 8)
    hot = daemon.root / "run" / "hot" / compiled.key[:2] / compiled.key
    for source in (compiled, tmp_path / "out" / "warm.json", str(hot)):
        kernel = runtime.load(source)
        assert (kernel.name, kernel.key) == ("warm", compiled.key)
        kernel[(1, 1, 1)](Tensor(X), DLPackArray(X + 64), stream=STREAM)
    assert [launch.arguments[:2] for launch in driver.launches()] == [[packed("Q", X), packed("Q", X + 64)]] * 3


# --- Threads, processes ----------------------------------------------------------------------------------------------


def test_threads_share_a_kernel(driver, runtime):
    kernel = runtime.load(artifact("*fp32", "i32"), device=0).prepare()

    def work(number):
        for index in range(300):
            kernel[(number + 1, 1, 1)](X + 8 * index, 1000 * number + index, stream=STREAM + number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    launches = driver.launches()
    assert len(launches) == 1200
    for launch in launches:
        number, index = divmod(int.from_bytes(launch.arguments[1], "little"), 1000)
        assert (launch.stream, launch.grid, launch.arguments[0]) == (STREAM + number, f"{number + 1}x1x1", packed("Q", X + 8 * index))


def test_a_forked_child_is_refused_and_harms_nobody(driver, runtime, kernel):
    kernel.prepare()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for use in (lambda: kernel[1](X, 1), kernel.prepare, runtime.stats, lambda: kiln.Runtime(driver.path)):
                try:
                    use()
                except kiln.LaunchError as error:
                    code = 0 if error.code == "FAILED_PRECONDITION" and "forked" in str(error) else 2
                else:
                    code = 3
                if code:
                    break
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    kernel[1](X, 1)
    assert driver.loaded() == 1


def test_importing_it_opens_nothing():
    script = ("import sys, kiln.launch; print(sorted({'grpc', 'google.protobuf', 'torch'} & set(sys.modules)), "
              "'libkiln_launch' in open('/proc/self/maps').read())")
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]


# --- No GPU ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source,code,words", [
    ("/nowhere/k.json", "NOT_FOUND", "/nowhere/k.json: No such file"), ("/nowhere/k", "NOT_FOUND", "/nowhere/k: No such file"),
    ("k.ptx", "INVALID_ARGUMENT", "k.ptx: load the .json file"), (None, "INVALID_ARGUMENT", "not NoneType")
])
def test_a_wrong_source_is_told_from_a_missing_driver(source, code, words):
    with pytest.raises(kiln.LaunchError) as error:
        kiln.load(source)
    assert error.value.code == code and words in str(error.value), error.value
