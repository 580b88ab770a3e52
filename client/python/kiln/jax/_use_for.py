"""Other libraries whose kernels take Kiln's target: their function that puts a kernel into a program is replaced by ours."""

import functools
import sys
from typing import Any, Callable, Mapping, Optional, Set

from kiln import _process

_FUNCTION = "triton_call_lowering"
# What the library compiles with, which decides its results to the bit.
_DEFAULTS = {"num_warps": None, "num_stages": None, "num_ctas": 1, "enable_fp_fusion": False}

_used_for: "Set[str]" = set()


def clear_programs() -> None:
    """Lets JAX build anew what it has built of their calls outside of programs, so that tune() comes to them."""
    if _used_for:
        import jax
        jax.clear_caches()


def use_for(library: str) -> None:
    """Programs that are built after it launch the library's Triton kernels as triton_call does. library: "transformer_engine".

    ValueError for another one. ImportError where it is not installed. AttributeError where this version of it has another form.
    """
    if library != "transformer_engine":
        raise ValueError(f"kiln.jax takes the kernels of transformer_engine, not of {library}")
    utils = _process.imported("transformer_engine.jax.triton_extensions.utils")
    stock = getattr(utils, _FUNCTION)
    if hasattr(stock, "__wrapped__"):
        return
    _used_for.add(library)
    ours = _replacement(stock)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == library and getattr(module, _FUNCTION, None) is stock:
            setattr(module, _FUNCTION, ours)


def _replacement(stock: Callable[..., Any]) -> Callable[..., Any]:

    @functools.wraps(stock)
    def triton_call_lowering(context: Any, kernel_fn: Any, *operands: Any, grid: Any, input_output_aliases: Optional[Mapping[int, int]] = None,
                             constexprs: Optional[Mapping[str, Any]] = None, **options: Any) -> Any:
        from kiln.jax import _call, _lowering, _tuning
        from kiln.jax._kernels import kernel_of
        if not options.keys() <= _DEFAULTS.keys():  # of a later version: it knows what they mean
            return stock(context, kernel_fn, *operands, grid=grid, input_output_aliases=input_output_aliases, constexprs=constexprs, **options)
        kernel = kernel_of(kernel_fn)
        # The library names the smallest of their values, too, and theirs win.
        constants = {name: one for name, one in (constexprs or {}).items() if name not in kernel.configured_names()}
        keywords = _call.keywords_of(constants, debug=False, title=kernel.name, **{**_DEFAULTS, **options})
        _, plan = _call.plan_of(kernel, kernel.name, context.avals_in, context.avals_out, keywords, grid, (), input_output_aliases, 0, None, None, b"")
        arrays = _arrays_of(context)
        if arrays is not None:
            plan = _tuning.settled(plan, arrays)
        return _lowering.lower_plan(plan, _lowering.platforms_of(context)[0], context, operands)

    return triton_call_lowering


def _arrays_of(context: Any) -> Any:
    """The arrays of a call outside of programs: JAX builds a program for it alone, and has them further up in this thread. Within a
    program: None."""
    from jax._src import dispatch
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not dispatch.apply_primitive.__code__:
        frame = frame.f_back
    if frame is None or frame.f_locals.get("prim") is not context.primitive:
        return None
    return frame.f_locals.get("args")
