"""libkiln_graph through ctypes: kiln_graph.h, with errors as exceptions.

The library is opened on first use, after libkiln_launch, which it shares with kiln.launch.
"""

import functools
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

from kiln._c_library import CLibrary, code_name, struct as _struct
from kiln._launch import library as launch
from kiln._signals import reraise_from_handler
from kiln.errors import LaunchError, UnavailableError, error_for

FILE = "libkiln_graph.so.0"
INPUT, OUTPUT, CONSTANT = 1, 2, 4
OMITTED, NEW = -1, -2
_ROLES = ((CONSTANT, "constant"), (OUTPUT, "output"), (INPUT, "input"))

Symbol = _struct("Symbol", reserved=c_uint32, name=c_char_p, min=c_int64, max=c_int64, typical=c_int64, multiple_of=c_int64)
Value = _struct("Value", role=c_uint32, name=c_char_p, type=c_char_p, shape=POINTER(c_char_p), strides=POINTER(c_char_p), bytes=c_void_p,
                bytes_count=c_uint64, rank=c_uint32, reserved=c_uint32)
Operation = _struct("Operation", input_count=c_uint32, name=c_char_p, inputs=POINTER(c_int32), outputs=POINTER(c_int32),
                    output_count=c_uint32, reserved=c_uint32, attributes=c_char_p, kept_because=c_char_p)
SegmentInfo = _struct("SegmentInfo", symbols=c_uint32, values=c_uint32, operations=c_uint32, name=c_char_p)
PlanOptions = _struct("PlanOptions", fast_math=c_uint32, target=c_char_p, compilers=c_char_p, forced=c_char_p, off=c_char_p,
                      keeps_small_sections=c_uint32, no_fusion=c_uint32, no_splits=c_uint32, takes_views=c_uint32, barriers=c_char_p,
                      log=c_void_p, log_data=c_void_p)
PlanInfo = _struct("PlanInfo", steps=c_uint32, kernels=c_uint32, buffers=c_uint32, views=c_uint32, reserved=c_uint32)
Step = _struct("Step", is_engines=c_uint32, operation=c_int32, first_kernel=c_uint32, kernel_count=c_uint32, reserved=c_uint32,
               reason=c_char_p)
Kernel = _struct("Kernel", num_warps=c_uint32, kind=c_char_p, target=c_char_p, entry=c_char_p, text=c_void_p, text_bytes=c_uint64,
                 threads=c_uint32, step=c_int32, why=c_char_p, split=c_char_p)
Buffer = _struct("Buffer", value=c_int32, role=c_uint32, is_external=c_uint32, is_written=c_uint32, alignment=c_uint32, name=c_char_p,
                 type=c_char_p)
View = _struct("View", value=c_int32, base=c_int32, rank=c_uint32, offset=c_char_p, strides=POINTER(c_char_p))
Execution = _struct("Execution", first_step=c_uint32, step_count=c_uint32, buffer_count=c_uint32, buffers=POINTER(c_uint64),
                    symbols=POINTER(c_int64), symbol_count=c_uint32, reserved=c_uint32, workspace=c_uint64, workspace_bytes=c_uint64,
                    stream=c_void_p, kernels_mark=c_uint64)
OBSERVED_SIZES = 32
Observed = _struct("Observed", size_count=c_uint32, executions=c_uint64, range=Symbol, sizes=c_int64 * OBSERVED_SIZES,
                   counts=c_uint64 * OBSERVED_SIZES)

# The parameters of each function that returns a code.
_FUNCTIONS = {
    "segment_open": (c_char_p, c_void_p),
    "segment_open_json": (c_char_p, c_uint64, c_void_p),
    "segment_open_onnx": (c_char_p, c_void_p, c_uint32, c_void_p),
    "segment_add_symbol": (c_void_p, c_void_p, c_void_p),
    "segment_add_value": (c_void_p, c_void_p, c_void_p),
    "segment_add_operation": (c_void_p, c_void_p),
    "segment_set_role": (c_void_p, c_int32, c_uint32, c_char_p),
    "segment_get_info": (c_void_p, c_void_p),
    "segment_get_value": (c_void_p, c_int32, c_void_p),
    "segment_get_json": (c_void_p, c_void_p, c_void_p),
    "segment_get_description": (c_void_p, c_void_p, c_void_p),
    "segment_set_ranges": (c_void_p, c_void_p),
    "plan_open": (c_void_p, c_void_p, c_void_p),
    "plan_get_explanation": (c_void_p, c_void_p),
    "plan_get_key": (c_void_p, c_void_p),
    "plan_write_manifest": (c_void_p, c_char_p),
    "plan_get_info": (c_void_p, c_void_p),
    "plan_get_step": (c_void_p, c_uint32, c_void_p),
    "plan_get_kernel": (c_void_p, c_uint32, c_void_p),
    "plan_use_next_compiler": (c_void_p, c_uint32, c_char_p),
    "plan_get_buffer": (c_void_p, c_uint32, c_void_p),
    "plan_get_view": (c_void_p, c_uint32, c_void_p),
    "plans_open": (c_void_p, c_void_p, c_void_p, c_uint32, c_void_p, c_void_p),
    "plans_find": (c_void_p, c_uint32, c_void_p, c_int32, c_void_p),
    "plans_write_manifest": (c_void_p, c_uint32, c_char_p),
    "bind": (c_void_p, c_void_p, c_int32, c_void_p),
    "bound_set_artifact": (c_void_p, c_uint32, c_void_p),
    "bound_prepare": (c_void_p,),
    "bound_get_load_failure": (c_void_p, c_uint32, c_void_p, c_void_p),
    "bound_get_kernel": (c_void_p, c_uint32, c_void_p),
    "bound_get_explanation": (c_void_p, c_void_p),
    "bound_get_workspace": (c_void_p, c_void_p, c_uint32, c_void_p),
    "bound_get_buffer_bytes": (c_void_p, c_uint32, c_void_p, c_uint32, c_void_p),
    "bound_observe": (c_void_p,),
    "bound_get_observed": (c_void_p, c_uint32, c_void_p),
    "execute": (c_void_p, c_void_p, c_void_p),
    "bound_get_kernels_mark": (c_void_p, c_void_p),
    "check_replay": (c_void_p, c_void_p, c_void_p),
}
_CLOSES = ("segment_close", "plan_close", "bound_close")


class Library(CLibrary):

    def __init__(self) -> None:
        super().__init__(FILE, "kiln_graph_", _FUNCTIONS, _CLOSES)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function. The subclass of KilnError for its code."""
        code = self._functions[name](*arguments)
        if code:
            raise error_for(code_name(code), self.words())

    def launch(self, name: str, *arguments: Any) -> None:
        """The same for functions that load and launch. LaunchError."""
        code = self._functions[name](*arguments)
        if code:
            raise LaunchError(self.words(), code=code_name(code))


@functools.lru_cache(maxsize=None)
def library() -> Library:
    """The library. UnavailableError if it cannot be opened."""
    try:
        launch.library()  # under the same name, so that the two share the driver
        return Library()
    except (OSError, LaunchError) as error:
        reraise_from_handler(error)
        raise UnavailableError(f"{FILE} cannot be opened: {error}") from None


def role_of(flags: int) -> str:
    return next((name for flag, name in _ROLES if flags & flag), "")


def text_of(pointer: "bytes | None") -> str:
    return (pointer or b"").decode(errors="replace")
