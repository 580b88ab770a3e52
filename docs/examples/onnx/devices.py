"""A device, and memory that NumPy arrays are copied to, through its driver. An engine has both."""

import ctypes

import numpy as np

import kiln
import kiln.graph

ALIGNMENT = 256  # of a workspace, in bytes; the most that a plan asks for


def open_device():
    """An NVIDIA GPU where there is one, otherwise what OpenCL has. kiln.LaunchError: neither."""
    try:
        return Cuda()
    except kiln.LaunchError:
        return OpenCl()


class Driver:
    """Calls functions of a driver's library by name."""

    def __init__(self, name):
        self._library = ctypes.CDLL(name)

    def __call__(self, function, *arguments):
        """A function that returns 0 if all is well."""
        code = getattr(self._library, function)(*arguments)
        if code != 0:
            raise RuntimeError(f"{function} failed with {code}")

    def make(self, function, *arguments):
        """A function that returns what it makes, or NULL."""
        called = getattr(self._library, function)
        called.restype = ctypes.c_void_p
        made = called(*arguments)
        if not made:
            raise RuntimeError(f"{function} failed")
        return made


class Cuda:

    def __init__(self):
        self.runtime = kiln.runtime()
        context = self.runtime.context(0)
        self._driver = Driver("libcuda.so.1")
        self._driver("cuCtxSetCurrent", ctypes.c_void_p(context))
        self.target = f"cuda:{10 * self._attribute(75) + self._attribute(76)}"  # its capability
        self.stream = None

    def _attribute(self, number):
        value = ctypes.c_int()
        self._driver("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
        return value.value

    def allocate(self, size_bytes):
        address = ctypes.c_uint64()
        self._driver("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size_bytes, 1)))
        return address.value

    def put(self, array):
        """A copy of an array, with its shape."""
        array = np.ascontiguousarray(array)
        address = self.allocate(array.nbytes)
        self._driver("cuMemcpyHtoD_v2", ctypes.c_uint64(address),
                     ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
        return kiln.graph.TensorAddress(address, array.shape)

    def get(self, tensor, type_):
        """Waits for the kernels before it."""
        array = np.empty(tensor.shape, type_)
        self._driver("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data),
                     ctypes.c_uint64(tensor.address), ctypes.c_size_t(array.nbytes))
        return array


class OpenCl:
    """Memory is shared by host and device."""
    target = "spirv:1.2"

    def __init__(self):
        self.runtime = kiln.Runtime(backend="spirv")
        self._context = ctypes.c_void_p(self.runtime.context(0))
        self._driver = Driver("libOpenCL.so.1")
        device = ctypes.c_void_p()
        self._driver("clGetContextInfo", self._context, 0x1081, ctypes.c_size_t(8),
                     ctypes.byref(device), None)
        self.stream = self._driver.make("clCreateCommandQueueWithProperties", self._context, device,
                                        None, None)

    def allocate(self, size_bytes):
        flags = ctypes.c_uint64(1 | 1 << 10)  # read and write, fine-grained
        address = self._driver.make("clSVMAlloc", self._context, flags,
                                    ctypes.c_size_t(size_bytes + ALIGNMENT), 0)
        return -(-address // ALIGNMENT) * ALIGNMENT

    def put(self, array):
        array = np.ascontiguousarray(array)
        address = self.allocate(array.nbytes)
        ctypes.memmove(address, array.ctypes.data, array.nbytes)
        return kiln.graph.TensorAddress(address, array.shape)

    def finish(self):
        self._driver("clFinish", ctypes.c_void_p(self.stream))

    def get(self, tensor, type_):
        self.finish()
        array = np.empty(tensor.shape, type_)
        ctypes.memmove(array.ctypes.data, tensor.address, array.nbytes)
        return array
