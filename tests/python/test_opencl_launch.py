"""kiln.Runtime(backend="spirv"): SPIR-V through a real OpenCL, Intel's runtime for CPUs."""

import ctypes
import threading

import pytest

import kiln
import opencl

SOURCE = """
kernel void add(global const float* x, global const float* y, global float* out, long n, float scale) {
  size_t i = get_global_id(0);
  if (i < n) out[i] = x[i] + scale * y[i];
}
kernel void place(global int* out, long width) {
  out[get_global_id(1) * width + get_global_id(0)] = get_group_id(1) * 100 + get_group_id(0);
}
"""
ADD = (("x", "*f32"), ("y", "*f32"), ("out", "*f32"), ("n", "i64"), ("scale", "f32"))
PLACE = (("out", "*i32"), ("width", "i64"))
address = ctypes.addressof


@pytest.fixture(scope="module")
def runtime():
    opencl.register()
    return kiln.Runtime(backend="spirv")


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return opencl.spirv(SOURCE, tmp_path_factory.mktemp("spirv"))


@pytest.fixture
def device(runtime):
    opened = opencl.OpenCl(runtime.context(0))
    yield opened
    opened.close()


@pytest.fixture
def load(runtime, module, tmp_path):
    return lambda name, *parameters, device=0, **more: runtime.load(opencl.artifact_file(tmp_path, module, name, *parameters, **more), device=device)


def added(kernel, device, n, scale):
    x, y, out = (device.array(ctypes.c_float, [value] * n) for value in (1.0, 2.0, 0.0))
    kernel.launch(-(-n // 32), address(x), address(y), address(out), n, scale, block=(32,), stream=device.queue)
    device.finish()
    return list(out)


def test_pointers_and_numbers_reach_the_kernel(load, device):
    kernel = load("add", *ADD).prepare()
    assert added(kernel, device, 100, 0.5) == [2.0] * 100
    assert kernel.facts().threads_max >= 32
    assert [parameter.type for parameter in kernel.parameters] == ["*f32", "*f32", "*f32", "i64", "f32"]


def test_the_grid_counts_blocks(load, device):
    out = device.array(ctypes.c_int32, [0] * 24)
    load("place", *PLACE).launch((3, 2), address(out), 6, block=(2, 2), stream=device.queue)
    device.finish()
    assert list(out) == [y // 2 * 100 + x // 2 for y in range(4) for x in range(6)]


def test_a_queue_of_pyopencl(load, device):
    out = device.array(ctypes.c_int32, [7] * 4)
    queue = type("CommandQueue", (), {"int_ptr": device.queue})()
    load("place", *PLACE).launch(1, address(out), 4, block=(4,), stream=queue)
    device.finish()
    assert list(out) == [0] * 4


def test_threads_launch_one_kernel(load, runtime):
    kernel = load("add", *ADD)
    wrong = []

    def work(scale):
        opened = opencl.OpenCl(runtime.context(0))
        try:
            if any(added(kernel, opened, 50, scale) != [1.0 + 2.0 * scale] * 50 for _ in range(20)):
                wrong.append(scale)
        finally:
            opened.close()

    threads = [threading.Thread(target=work, args=(float(scale),)) for scale in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_context_of_the_programs_own(load, device, runtime):
    with pytest.raises(kiln.LaunchError, match="no context is current"):
        load("add", *ADD, device=None)
    own = device.new_context()
    runtime.set_context(own)
    try:
        assert runtime.context() == own
        kernel = load("add", *ADD, device=None)
    finally:
        runtime.set_context(0)
    there = opencl.OpenCl(own)
    assert added(kernel, there, 40, 1.0) == [3.0] * 40
    there.close()
    with pytest.raises(kiln.LaunchError, match=r"clEnqueueNDRangeKernel: CL_INVALID_CONTEXT \(-34\)"):
        added(kernel, device, 40, 1.0)


def test_wrong_launches_are_told_with_the_reason(load, device):
    kernel = load("place", *PLACE)
    out = address(device.array(ctypes.c_int32, [0] * 8))
    for arguments, more, reason in (((out,), {}, "1 arguments, it takes 2"), ((out, 8), {"stream": 0}, "OpenCL has no default stream"),
                                    ((out, 8), {"block": (0,)}, "a block of 0x1x1"), ((out, 8), {"dynamic_shared_bytes": 8}, "no dynamic shared memory"),
                                    ((out, 8), {"pdl": True}, "programmatic dependent")):
        with pytest.raises(kiln.LaunchError, match=reason):
            kernel.launch(1, *arguments, **{"block": (8,), "stream": device.queue, **more})


def test_what_cannot_be_loaded_is_told_with_the_reason(load, runtime, tmp_path):
    with pytest.raises(kiln.LaunchError, match=r"kernel absent .*clCreateKernel: CL_INVALID_KERNEL_NAME \(-46\)"):
        load("absent", *ADD).prepare()
    with pytest.raises(kiln.LaunchError, match="the binary takes 5 parameters, the metadata says 2"):
        load("add", *PLACE).prepare()
    with pytest.raises(kiln.LaunchError, match="compiled for spirv:1.7, but device 0 .* is spirv:1.4"):
        load("add", *ADD, target="spirv:1.7")
    with pytest.raises(kiln.LaunchError, match="are not a SPIR-V module"):
        runtime.load(opencl.artifact_file(tmp_path, b"no module", "add", *ADD), device=0)


def test_a_device_that_is_not_there(runtime):
    with pytest.raises(kiln.LaunchError, match="there is no device 7, there are 1"):
        runtime.context(7)
