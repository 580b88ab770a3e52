"""Triton kernels in programs of JAX.

    from kiln.jax import triton_call                    # instead of jax_triton's
    out = triton_call(x, y, kernel=add, out_shape=x, grid=(64,), BLOCK=128)

The kernel is compiled by the daemon, and launched by Kiln's own target of XLA, which CUDA graphs capture. docs/jax.md is the guide.
Importing this package imports neither JAX nor Triton.
"""

from typing import TYPE_CHECKING, Any

from kiln import _process

if TYPE_CHECKING:
    from kiln.jax._call import triton_call
    from kiln.jax._counts import JaxReport, report
    from kiln.jax._descriptors import TensorDescriptor
    from kiln.jax._explain import explain
    from kiln.jax._own import register
    from kiln.jax._tune import tune
    from kiln.jax._tuning import Tuning
    from kiln.jax._use_for import use_for

_PLACES = {"triton_call": "_call", "JaxReport": "_counts", "report": "_counts", "TensorDescriptor": "_descriptors", "explain": "_explain",
           "Tuning": "_tuning", "tune": "_tune", "register": "_own", "use_for": "_use_for"}

__all__ = ["JaxReport", "TensorDescriptor", "Tuning", "explain", "register", "report", "triton_call", "tune", "use_for"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'kiln.jax' has no attribute {name!r}")
    value = getattr(_process.imported(f"kiln.jax.{_PLACES[name]}"), name)
    globals()[name] = value
    return value
