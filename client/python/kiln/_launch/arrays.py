"""Device addresses of other libraries' arrays, without copying.

Tried in this order: PyTorch's own methods, which are fastest; DLPack; `__cuda_array_interface__`. For PyTorch's tensors the
program orders its streams, as for PyTorch's own operations. The two protocols order themselves: the producer's work comes
before the launch.

A DLPack capsule is only read. It keeps its name, so that its producer frees it, and it lives until the launch is on the
stream.
"""

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from typing import Any, Callable, List

from kiln._launch.parameters import Misfit
from kiln._launch.streams import LEGACY
from kiln.errors import LaunchError

# DLDeviceType: memory that a kernel of that backend can read, and whether it belongs to one device.
_DEVICES = {"cuda": {2: True, 3: False, 13: False}, "hip": {10: True, 11: False}, "spirv": {}}
_DEVICE_NAMES = {1: "the CPU", 2: "a CUDA device", 3: "the CPU (pinned)", 10: "a ROCm device", 11: "the CPU (pinned)", 13: "CUDA (managed)"}
_MAJOR_VERSION = 1
_FLAG_IS_COPIED = 2


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned. The unversioned struct begins with its tensor."""
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
                ("tensor", _Tensor)]


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


class Addresses:
    """Finds the addresses of arrays on one kernel's device. Thread-safe.

    device_of: the device of an address. wait(stream, producer): makes one stream wait for another.
    """

    def __init__(self, backend: str, device: int, device_of: Callable[[int], int], wait: Callable[[int, int], None]) -> None:
        self._backend = backend
        self._device = device
        self._device_of = device_of
        self._wait = wait

    def of(self, value: Any, stream: int, kept: "List[Any]") -> int:
        """The address. Misfit if it is not on the device. Adds to `kept` what must live until the launch is made."""
        try:
            if value.get_device() == self._device:
                return value.data_ptr()  # type: ignore[no-any-return]
        except (AttributeError, TypeError):
            return self._by_protocol(value, stream, kept)
        raise Misfit(f"the tensor is in the memory of {value.device}, the kernel runs on device {self._device}")

    def _by_protocol(self, value: Any, stream: int, kept: "List[Any]") -> int:
        if hasattr(value, "__dlpack__"):
            return self._by_dlpack(value, stream, kept)
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is not None:
            return self._by_interface(interface, stream)
        if hasattr(value, "__index__") and not isinstance(value, bool):
            return int(value.__index__())
        raise Misfit(f"{value!r} is neither an address nor an array: it has no __dlpack__ and no __cuda_array_interface__")

    # --- DLPack ---

    def _by_dlpack(self, value: Any, stream: int, kept: "List[Any]") -> int:
        self._check_device(*value.__dlpack_device__())
        asked = self._dlpack_stream(stream)
        try:
            capsule = value.__dlpack__(stream=asked, max_version=(_MAJOR_VERSION, 0), copy=False)
        except TypeError:  # a producer without versions
            capsule = value.__dlpack__(stream=asked)
        kept.append(capsule)
        tensor = tensor_in(capsule)
        self._check_device(tensor.device_type, tensor.device_id)
        return (tensor.data or 0) + int(tensor.byte_offset)

    def _dlpack_stream(self, stream: int) -> int:
        # For CUDA 0 is ambiguous and not allowed; for ROCm it is the default stream.
        return LEGACY if self._backend == "cuda" and stream == 0 else stream

    def _check_device(self, kind: int, number: int) -> None:
        is_of_one = _DEVICES[self._backend].get(int(kind))
        if is_of_one is None:
            raise Misfit(f"the array is in the memory of {_DEVICE_NAMES.get(int(kind), f'device type {int(kind)}')}, the kernel runs on "
                         f"{self._backend}:{self._device}")
        if is_of_one and number != self._device:
            raise Misfit(f"the array is in the memory of device {number}, the kernel runs on device {self._device}")

    # --- __cuda_array_interface__ ---

    def _by_interface(self, interface: Any, stream: int) -> int:
        if interface.get("mask") is not None:
            raise Misfit("the array has a mask, which a kernel does not see")
        address = int(interface["data"][0])
        if address == 0:  # an empty array
            return 0
        try:
            device = self._device_of(address)
        except LaunchError as error:
            raise Misfit(f"the driver knows nothing of the array's address: {error}") from None
        if device != self._device:
            raise Misfit(f"the array is in the memory of device {device}, the kernel runs on device {self._device}")
        producer = interface.get("stream")
        if producer is not None:
            self._follow(int(producer), stream)
        return address

    def _follow(self, producer: int, stream: int) -> None:
        if producer == 0:
            raise Misfit("__cuda_array_interface__ has the stream 0, which its protocol forbids")
        if producer != (stream or LEGACY):
            self._wait(stream, producer)


def tensor_in(capsule: Any) -> _Tensor:
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if managed.major != _MAJOR_VERSION:
            raise Misfit(f"the array speaks DLPack {managed.major}.{managed.minor}, {_MAJOR_VERSION} is known")
        if managed.flags & _FLAG_IS_COPIED:
            raise Misfit("the array hands out a copy of itself, so what the kernel writes would be lost")
        return managed.tensor  # type: ignore[no-any-return]
    if _is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(_get_pointer(capsule, b"dltensor"))
    raise Misfit("__dlpack__ did not give a readable capsule: it was used already, or is not a capsule")
