"""libkiln_launch through ctypes: the part of kiln_launch.h that Python uses, with errors as exceptions.

The library is opened on first use.
"""

import ctypes
import functools
from ctypes import c_char, c_char_p, c_double, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

from kiln._c_library import CLibrary, code_name, struct as _struct
from kiln._signals import reraise_from_handler
from kiln.errors import LaunchError

FILE = "libkiln_launch.so.0"

OpenOptions = _struct("OpenOptions", reserved=c_uint32, backend=c_char_p, driver_path=c_char_p)
Settings = _struct("Settings", strict=c_uint32, times_launches=c_uint32, reserved=c_uint32, resident_kernels_max=c_uint64,
                   resident_bytes_max=c_uint64)
Stats = _struct("Stats", reserved=c_uint32, kernels_open=c_uint64, kernels_resident=c_uint64, resident_bytes=c_uint64, loads=c_uint64,
                loads_at_launch=c_uint64, refused_launches=c_uint64, unloads=c_uint64, evictions=c_uint64, unloads_put_off=c_uint64,
                out_of_memory_loads=c_uint64, live_graphs=c_uint64)
Device = _struct("Device", ordinal=c_int32)
HotOptions = _struct("HotOptions", has_server_uid=c_uint32, server_uid=c_uint32, reserved=c_uint32, key=c_char_p)
Bytes = _struct("Bytes", reserved=c_uint32, json=c_char_p, json_bytes=c_uint64, binary=c_char_p, binary_bytes=c_uint64, digest=c_char_p,
                key=c_char_p)
ArtifactInfo = _struct("ArtifactInfo", parameter_count=c_uint32, name=c_char_p, backend=c_char_p, architecture=c_char_p, key=c_void_p,
                       digest=c_void_p, binary_bytes=c_uint64, num_warps=c_uint32, num_ctas=c_uint32, warp_size=c_uint32,
                       hidden_pointers=c_uint32)
Parameter = _struct("Parameter", bytes=c_uint32, name=c_char_p, type=c_char_p)
Config = _struct("Config", grid=c_uint32 * 3, block=c_uint32 * 3, dynamic_shared_bytes=c_uint32, pdl=c_uint32, cooperative=c_uint32,
                 stream=c_void_p, argument_bytes=c_void_p, global_scratch=c_uint64, profile_scratch=c_uint64)
KernelInfo = _struct("KernelInfo", registers=c_uint32, local_bytes=c_uint32, static_shared_bytes=c_uint32, threads_max=c_uint32)
Times = _struct("Times", reserved=c_uint32, launches=c_uint64, dropped=c_uint64, total_ms=c_double, min_ms=c_double, max_ms=c_double)
Tensor = _struct("Tensor", rank=c_uint32, address=c_uint64, shape=c_int64 * 5, strides=c_int64 * 5, fills_with_nan=c_uint32,
                 rounds_to_tf32=c_uint32)
Candidate = _struct("Candidate", argument_count=c_uint32, kernel=c_void_p, config=c_void_p, arguments=c_void_p)
AutotuneOptions = _struct("AutotuneOptions", reserved=c_uint32, stream=c_void_p, reads=c_void_p, read_count=c_uint64, writes=c_void_p,
                          write_count=c_uint64, problem=c_char_p, problem_bytes=c_uint64, store=c_void_p, warmup_ms=c_double,
                          repeat_ms=c_double, flush_bytes=c_uint64, is_cancelled=c_void_p, cancel_user=c_void_p)
Tuned = _struct("Tuned", code=c_int32, is_stored=c_uint32, runs=c_uint32, median_ms=c_double, low_ms=c_double, high_ms=c_double,
                reason=c_char * 256)


class Range(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("bytes", c_uint64)]


# The parameters of each function that returns a code.
_FUNCTIONS = {
    "open": (c_void_p, c_void_p),
    "configure": (c_void_p, c_void_p),
    "get_stats": (c_void_p, c_void_p),
    "trim": (c_void_p,),
    "get_device": (c_void_p, c_int32, c_void_p),
    "address_get_device": (c_void_p, c_uint64, c_void_p),
    "get_context": (c_void_p, c_int32, c_void_p),
    "set_context": (c_void_p, c_void_p),
    "artifact_open_hot": (c_char_p, c_void_p, c_void_p),
    "artifact_open_json": (c_char_p, c_void_p),
    "artifact_open_bytes": (c_void_p, c_void_p),
    "artifact_get_info": (c_void_p, c_void_p),
    "artifact_get_parameter": (c_void_p, c_uint32, c_void_p),
    "kernel_open": (c_void_p, c_void_p, c_int32, c_void_p),
    "prepare": (c_void_p,),
    "stream_wait": (c_void_p, c_void_p, c_void_p),
    "kernel_get_info": (c_void_p, c_void_p),
    "kernel_get_times": (c_void_p, c_uint32, c_void_p),
    "descriptor_open": (c_void_p, c_uint32, c_void_p, c_void_p),
    "descriptor_get_arguments": (c_void_p, c_void_p, c_uint32, c_void_p),
    "graph_set_name": (c_void_p, c_void_p, c_char_p),
    "graph_add_buffer": (c_void_p, c_void_p, c_uint64, c_uint64, c_char_p),
    "check_free": (c_void_p, c_uint64, c_uint64),
    "autotune": (c_void_p, c_void_p, c_uint32, c_void_p, c_void_p, c_void_p),
}
_CLOSES = ("artifact_close", "kernel_close", "descriptor_close")


class Library(CLibrary):

    def __init__(self) -> None:
        super().__init__(FILE, "kiln_launch_", _FUNCTIONS, _CLOSES)
        self._driver_result = self._declared("driver_result", ())
        # Without argtypes: it gets ctypes objects alone, so nothing has to be converted.
        self.enqueue = self._c.kiln_launch_enqueue
        self.enqueue.restype = c_int32

    def call(self, name: str, *arguments: Any, kernel: str = "", key: str = "") -> None:
        """Calls a function. LaunchError, with the kernel's name and key if given."""
        code = self._functions[name](*arguments)
        if code:
            raise self.failure(code, kernel, key)

    def failure(self, code: int, kernel: str = "", key: str = "") -> LaunchError:
        """The error of this thread's last call."""
        return LaunchError(self.words(), code=code_name(code), kernel=kernel, key=key, driver_result=self._driver_result())


@functools.lru_cache(maxsize=None)
def library() -> Library:
    """The library. LaunchError if it cannot be opened."""
    try:
        return Library()
    except OSError as error:
        reraise_from_handler(error)
        raise LaunchError(f"{FILE} cannot be opened: {error}", code="UNAVAILABLE") from None
