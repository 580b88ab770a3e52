"""The stand-in for the CUDA driver (fake_cuda.h), for tests of kiln.launch; and arrays and artifacts that need no GPU either."""

import ctypes
import dataclasses
import hashlib
import os
import shutil
import struct

import kiln
from places import BINARIES

_BUILT = BINARIES.parent / "tests" / "testing" / "libfake_cuda.so"


@dataclasses.dataclass(frozen=True)
class Launch:
    kernel: str
    grid: str
    block: str
    shared_bytes: int
    stream: int
    arguments: "list[bytes]"


class FakeDriver:
    """A copy of the library of its own, so that each test begins anew."""

    def __init__(self, folder):
        assert _BUILT.is_file(), f"no {_BUILT}: build the target fake_cuda"
        self.path = str(folder / "fake_cuda.so")
        assert not os.path.exists(self.path), "one in each folder: this one may be loaded already"
        shutil.copyfile(_BUILT, self.path)
        self._c = ctypes.CDLL(self.path)
        self._c.fake_cuda_launch.restype = ctypes.c_char_p
        self._c.fake_cuda_launch.argtypes = (ctypes.c_size_t,)
        self._c.fake_cuda_launch_count.restype = ctypes.c_size_t
        self._c.fake_cuda_end_capture.restype = ctypes.c_void_p
        self._c.fake_cuda_end_capture.argtypes = self._c.fake_cuda_begin_capture.argtypes = (ctypes.c_void_p,)
        self._c.fake_cuda_destroy_graph.argtypes = (ctypes.c_void_p,)

    def __getattr__(self, name):
        """loaded, make_context, begin_capture, …"""
        return getattr(self._c, f"fake_cuda_{name}")

    def define(self, kernel, *parameter_bytes):
        """That images have a kernel with parameters of these sizes, hidden ones included."""
        self._c.fake_cuda_define(kernel.encode(), (ctypes.c_size_t * len(parameter_bytes))(*parameter_bytes), len(parameter_bytes))

    def fail(self, function, result, count=1):
        self._c.fake_cuda_fail(function.encode(), result, count)

    def calls(self, function):
        return self._c.fake_cuda_calls(function.encode())

    def launches(self):
        return [self._launch(index) for index in range(self._c.fake_cuda_launch_count())]

    def _launch(self, index):
        kernel, grid, block, shared, stream, *arguments = self._c.fake_cuda_launch(index).decode().split(" ")
        return Launch(kernel, grid, block, int(shared), int(stream, 16), [bytes.fromhex(one) for one in arguments])


def artifact(*types, name="k", **metadata):
    """One whose binary is an ELF header, for a kernel with parameters p0, p1, … of these types."""
    fields = dict(
        name=name, backend="cuda", architecture="90", shared_bytes=1024, num_warps=4, num_ctas=1, warp_size=32, global_scratch_bytes=0,
        global_scratch_align=1, profile_scratch_bytes=0, profile_scratch_align=1, tensor_memory_columns=0, cluster_dims=(1, 1, 1),
        launch_pdl=False, launch_cooperative_grid=False, registers=None, spill_bytes=None, tensor_descriptors=(), hidden_pointers=2,
        parameters=tuple(kiln.KernelParameter(f"p{place}", kind) for place, kind in enumerate(types)), toolchain_metadata="{}")
    binary = b"\x7fELF\x02\x01" + bytes(58) + name.encode()
    stage = kiln.Stage("cubin", hashlib.sha256(binary).hexdigest(), len(binary), binary)
    provenance = kiln.Provenance("", "", "", "", "", 0.0, 0.0)
    key = hashlib.sha256(repr((types, name, sorted(metadata.items()))).encode()).hexdigest()
    return kiln.Artifact(key, "hit", "memory", kiln.KernelMetadata(**{**fields, **metadata}), {"cubin": stage}, {}, provenance)


class Interface:
    """An array with __cuda_array_interface__ alone."""

    def __init__(self, address, **more):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (4,), "typestr": "<f4", "version": 3, **more}


class Tensor:
    """What PyTorch's tensors have that a launch looks at."""

    def __init__(self, address, device=0):
        self._address, self._device = address, device
        self.device = "cpu" if device < 0 else f"cuda:{device}"

    def get_device(self):
        return self._device

    def data_ptr(self):
        return self._address


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("dtype", ctypes.c_uint32), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", _DELETER),
                ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR)


class DLPackArray:
    """A producer of real capsules. asked: what consumers said. alive: capsules that are there; the producer's destructor counts
    them down where nobody has taken one over, as the protocol has it."""

    def __init__(self, address, device=(2, 0), byte_offset=0, versioned=True, knows_versions=True, major=1, flags=0, copies=False):
        self._address, self._device, self._offset = address, device, byte_offset
        self._versioned, self._knows_versions, self._major, self._flags, self._copies = versioned, knows_versions, major, flags, copies
        self.asked = []
        self.alive = 0
        self._kept = []

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, *, stream=None, **more):
        if more and not self._knows_versions:
            raise TypeError(f"unexpected keyword arguments {sorted(more)}")
        if self._copies and more.get("copy") is False:
            raise BufferError("only as a copy")
        self.asked.append((stream, more))
        return self._capsule()

    def _capsule(self):
        tensor = _DLTensor(self._address, *self._device, 1, 0, None, None, self._offset)
        deleter = _DELETER(lambda _: None)
        name = b"dltensor_versioned" if self._versioned else b"dltensor"
        managed = _Versioned(self._major, 0, None, deleter, self._flags, tensor) if self._versioned else _Managed(tensor, None, deleter)

        @_DESTRUCTOR
        def destroy(capsule):
            assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))(capsule, name)
            self.alive -= 1

        self._kept += (managed, destroy, name)
        self.alive += 1
        return _api.PyCapsule_New(ctypes.addressof(managed), name, destroy)


def packed(letter, value):
    return struct.pack("<" + letter, value)
