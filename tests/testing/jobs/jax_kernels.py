"""Triton kernels for tests of kiln.jax: each small, with one thing that a call has to get right."""

import triton
import triton.language as tl

LIMIT = 4


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, place < n) + tl.load(y + place, place < n), place < n)


@triton.jit
def scale(x, n, factor, out, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, place < n) * factor, place < n)


@triton.jit
def copy(x, out, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place))


@triton.jit
def count(x, added, out, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.atomic_add(out + place, tl.load(x + place) + added)


@triton.jit
def accumulate(x, sums, n, BLOCK: tl.constexpr):
    """Writes to one of its arguments, and has no output."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + place, tl.load(sums + place, place < n) + tl.load(x + place, place < n), place < n)


@triton.jit
def defaulted(x, MODE: tl.constexpr = 3, bias=None):
    tl.store(bias, tl.load(x) + MODE)


@triton.jit
def optional(x, bias, out, mode: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    value = tl.load(x + place)
    if bias is not None:
        value += tl.load(bias + place)
    if mode == "square":
        value *= value
    tl.store(out + place, value)


@triton.jit
def padded(x, out, PAD: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(out + place + PAD[0], tl.load(x + place) * PAD[1])


@triton.jit
def typed(small: tl.int8, wide: tl.float64, half: tl.float16, out, flag):
    if flag:
        tl.store(out, small + wide + half)


@triton.jit
def described(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Makes a descriptor on the device, in scratch memory."""
    source = tl.make_tensor_descriptor(x, [ROWS, COLUMNS], [COLUMNS, 1], [ROWS, COLUMNS])
    places = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + places, source.load([0, 0]))


@triton.jit
def tiled(x, factor, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Takes descriptors that the host makes."""
    place = [tl.program_id(0) * ROWS, 0]
    out.store(place, x.load(place) * factor)


@triton.jit
def gathered(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Takes one, and a pointer."""
    places = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + places, x.load([0, 0]))


@triton.jit
def limited(x, out, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place), place < LIMIT_OF_KERNEL)


LIMIT_OF_KERNEL = tl.constexpr(LIMIT)


@triton.jit
def unwritten(x, out, other, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place))


@triton.jit
def broken(x, out):
    tl.store(out, tl.load(x) + tl.arange(0, 3))


CONFIGS = [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256}, num_warps=8)]
tuned = triton.autotune(CONFIGS, key=["n"])(scale)
counted = triton.heuristics({"n": lambda args: 256})(scale)
TILES = [triton.Config({"ROWS": rows, "COLUMNS": 32}) for rows in (8, 16, 32)]
tiled_by_rows = triton.autotune(TILES, key=["factor"])(triton.jit(tiled.fn, repr=lambda given: f"tiled_{given.constants['ROWS']}"))


@triton.autotune(CONFIGS, key=["n"])
@triton.heuristics({"IS_EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_outside(x, n, out, BLOCK: tl.constexpr, IS_EVEN: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if IS_EVEN:
        tl.store(out + place, tl.load(x + place))
    else:
        tl.store(out + place, tl.load(x + place, place < n), place < n)


@triton.heuristics({"IS_LARGE": lambda args: args["n"] > 100 and args["x"].numel() > 100})
@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def tuned_inside(x, n, out, BLOCK: tl.constexpr, IS_LARGE: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, place < n) + IS_LARGE, place < n)




@triton.autotune(CONFIGS, key=["n"])
@triton.jit(repr=lambda specialization: f"doubled_{specialization.constants['BLOCK']}")
def doubled(x, n, out, BLOCK: tl.constexpr):
    """Each configuration has a name of its own."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, place < n) * 2, place < n)


@triton.autotune(CONFIGS, key=["n"])
@triton.jit(repr=lambda specialization: f"filled_{specialization.constants['BLOCK']}")
def filled(n, out, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, n, place < n)


@triton.autotune(CONFIGS, key=["n"])
@triton.jit(repr=lambda specialization: f"added_{specialization.constants['BLOCK']}")
def added(x, sums, n, out, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(sums + place, tl.load(x + place), place < n)
    tl.store(out + place, tl.load(sums + place, place < n), place < n)


added_restored = triton.autotune(CONFIGS, key=["n"], restore_value=["sums"])(added.fn)
added_to_zero = triton.autotune(CONFIGS, key=["n"], reset_to_zero=["sums"])(added.fn)
pruned = triton.autotune(CONFIGS, key=["n"], prune_configs_by={"early_config_prune": lambda configs, args, **_: configs[1:]})(scale)
unpruned = triton.autotune(CONFIGS, key=["n"], prune_configs_by={"perf_model": lambda BLOCK, **_: BLOCK, "top_k": 0.2})(scale)
modelled = triton.autotune(CONFIGS, key=["n"], prune_configs_by={"perf_model": lambda BLOCK, **_: -BLOCK, "top_k": 1})(scale)
hooked = triton.autotune([triton.Config({"BLOCK": 64}, pre_hook=lambda args: None)], key=["n"])(scale)
hooked_outside = triton.autotune(CONFIGS, key=["n"], pre_hook=lambda *_, **__: None)(scale)
hooked_behind = triton.autotune(CONFIGS, key=["n"], post_hook=lambda *_, **__: None)(scale)
hooked_within = triton.jit(scale.fn)
hooked_within.add_pre_run_hook(lambda *_, **__: None)
summing = triton.autotune(CONFIGS, key=["added"], reset_to_zero=["out"])(count)


def resetting():
    """Triton 3.9 refuses it by itself."""
    return triton.autotune(CONFIGS, key=["n"], reset_to_zero=["result"])(scale)
