"""Converts the streams of Python programs to the driver's number."""

import sys
from typing import Any, Callable, Optional

# CUDA's words for the stream that everything is ordered with, where 0 could mean two of them.
LEGACY = 1


def handle_of(stream: Any) -> int:
    """The number of a stream: a number, an object with `__cuda_stream__`, or one with `.cuda_stream` (PyTorch) or
    `.int_ptr` (PyOpenCL). TypeError."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise TypeError(f"{stream!r} speaks version {version} of __cuda_stream__, 0 is known")
        return int(handle)
    for name in ("cuda_stream", "int_ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    raise TypeError(f"{stream!r} is not a stream: pass a number, None, or an object with __cuda_stream__, .cuda_stream or .int_ptr")


def torch_stream(device: int) -> Optional[Callable[[], int]]:
    """A function for PyTorch's current stream on that device; None while PyTorch does not use the GPU in this process."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # ten times faster than the public function
    if raw is not None:
        return lambda: raw(device)
    return lambda: int(cuda.current_stream(device).cuda_stream)
