"""A stand-in for Transformer Engine: primitives of JAX that put Triton kernels into programs as its permutation does, with its names for
modules and for the function that does it. Importing this module puts it in its place."""

import functools
import sys
import types

import jax
import triton
import triton.language as tl
from triton.backends.nvidia.compiler import CUDAOptions
from triton.compiler import compiler
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax._src import dispatch

NAMES = ("transformer_engine", "transformer_engine.jax", "transformer_engine.jax.triton_extensions", "transformer_engine.jax.triton_extensions.utils",
         "transformer_engine.jax.triton_extensions.permutation")


def triton_call_lowering(ctx, kernel_fn, *array_args, grid, input_output_aliases=None, constexprs=None):
    raise AssertionError("this is not Kiln's")


def compile_triton(kernel, signature, constexprs):
    """PTX, from which jaxlib's target goes on. Without attributes of parameters."""
    source = compiler.ASTSource(kernel, signature, constexprs)
    options = CUDAOptions(num_warps=4, num_stages=3, num_ctas=1, debug=False, enable_fp_fusion=False)
    return compiler.compile(source, target=compiler.GPUTarget("cuda", 90, 32), options=options.__dict__).asm["ptx"]


@triton.jit
def sort_chunks(x, rows, out, stride, hidden: tl.constexpr, BLOCK: tl.constexpr):
    """Rows at places that an array says."""
    row = tl.program_id(0)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    to = tl.load(rows + row)
    tl.store(out + to * stride + place, tl.load(x + row * stride + place, place < hidden), place < hidden)


@triton.jit
def permute(x, rows, zeroed, out, stride, hidden: tl.constexpr, BLOCK: tl.constexpr):
    """As sort_chunks, into an output that the caller has set to zeroes: `zeroed` and `out` are one buffer."""
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    to = tl.load(rows + row)
    if to >= 0:
        tl.store(out + to * stride + place, tl.load(x + row * stride + place, place < hidden), place < hidden)


@triton.jit
def number_rows(rows, sums, count, BLOCK: tl.constexpr):
    """In place: the kernel has no parameters for its outputs, which share the buffers of both arrays."""
    place = tl.arange(0, BLOCK)
    found = tl.load(rows + place, place < count, 0)
    tl.store(rows + place, found + tl.load(sums), place < count)
    tl.store(sums, tl.sum(found))


tuned_chunks = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["hidden"])(
    triton.jit(sort_chunks.fn, repr=lambda given: f"sort_chunks_{given.constants['BLOCK']}"))


def shape_of(array):
    return jax.core.ShapedArray(array.shape, array.dtype)


def primitive(kernel, grid, aliases=None, **more):
    """A function of arrays. The output has the shape of the first; number_rows has an output for each array."""
    made = Primitive(f"stand_in_{kernel}")
    made.multiple_results = kernel == "number_rows"
    made.def_abstract_eval(lambda x, *others: [shape_of(x), *map(shape_of, others)] if made.multiple_results else shape_of(x))

    def lowering(ctx, *arrays):
        length = ctx.avals_in[0].shape[-1]
        constexprs = {"count": length} if made.multiple_results else {"stride": length, "hidden": length}
        permutation = sys.modules[NAMES[-1]]
        return permutation.triton_call_lowering(ctx, getattr(permutation, kernel), *arrays, grid=grid, input_output_aliases=aliases,
                                                constexprs={**constexprs, **more})

    for platform in ("cuda", "cpu"):
        mlir.register_lowering(made, lowering, platform=platform)
    made.def_impl(functools.partial(dispatch.apply_primitive, made))
    return made.bind


for name in NAMES:
    sys.modules[name] = types.ModuleType(name)
for name in NAMES[2:]:  # each has imported it by its name
    sys.modules[name].triton_call_lowering = triton_call_lowering
for kernel in ("sort_chunks", "permute", "number_rows", "tuned_chunks"):
    setattr(sys.modules[NAMES[-1]], kernel, globals()[kernel])
