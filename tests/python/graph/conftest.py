"""A daemon that compiles OpenCL C, and Intel's OpenCL runtime in this process."""

import ctypes

import numpy as np
import pytest

import kiln
import kiln.graph
import opencl
from graph.example_segments import daemon_in


@pytest.fixture(scope="module")
def client(programs, tmp_path_factory):
    with daemon_in(tmp_path_factory.mktemp("graph"), programs) as daemon:
        with kiln.Client(root=daemon.root) as connected:
            yield connected


@pytest.fixture(scope="module")
def runtime():
    opencl.register()
    return kiln.Runtime(backend="spirv")


@pytest.fixture(scope="module")
def device(runtime):
    opened = opencl.OpenCl(runtime.context(0))
    yield opened
    opened.close()


@pytest.fixture
def put(device):
    """Copies an array to memory that kernels see."""

    def copied(array, type_="", strides=None):
        memory = device.array(ctypes.c_uint8, array.tobytes() + bytes(1))  # one byte more, since an array of OpenCL is not empty
        tensor = kiln.graph.TensorAddress(ctypes.addressof(memory), array.shape, type_, strides)
        views[tensor.address] = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
        return tensor

    views = {}
    copied.read = lambda tensor: views[tensor.address].copy()
    return copied
