"""A job that lowers kernels for configurations that differ in options alone: each by Triton, and all as a tuning under the plug-in does.

    <toolchain>/bin/python shared_lowering_job.py

prints one object: by kernel and target, how many of its configurations came out as Triton alone makes them, and how often it was lowered.
And what options are noted to have answered in different ways of asking. Needs neither a GPU nor a daemon.
"""

import copy
import dataclasses
import json
import warnings

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.language.extra import cuda, hip

from kiln._plugin import lowering_warnings, shared_lowering
from kiln._plugin.ttir_text import text_of

TARGETS = {"cuda:80": GPUTarget("cuda", 80, 32), "cuda:90": GPUTarget("cuda", 90, 32), "hip:gfx942": GPUTarget("hip", "gfx942", 64)}
KERNELS = {}


def kernel(*configurations, targets=tuple(TARGETS), types="*fp32"):
    """Notes a kernel with the options of its configurations. Its parameters are pointers of that type."""

    def note(function):
        KERNELS[function.__name__] = triton.jit(function), configurations, targets, types
        return KERNELS[function.__name__][0]

    return note


WARPS = [{"num_warps": warps, "num_stages": stages} for warps, stages in ((4, 2), (8, 2), (8, 3), (4, 2))]


@kernel(*WARPS)
def asks_nothing(p):
    at = tl.arange(0, 64)
    tl.store(p + at, tl.exp(tl.load(p + at)) + 1)


@kernel(*WARPS, types="*fp16")
def has_a_loop_and_a_product(p):
    at = tl.arange(0, 64)
    places = p + at[:, None] * 64 + at[None, :]
    sums = tl.zeros((64, 64), tl.float32)
    for _ in tl.range(0, 4, num_stages=3):
        sums = tl.dot(tl.load(places), tl.load(places), sums)
        places += 4096
    tl.store(places, sums.to(tl.float16))


@triton.jit
def _warps_of_cuda():
    return cuda.num_warps()


@kernel(*WARPS, targets=("cuda:80", "cuda:90"))
def asks_for_warps(p):
    tl.store(p + tl.arange(0, 4), 1.0 * cuda.num_warps())


@kernel(*WARPS, targets=("cuda:90",))
def asks_in_a_helper(p):
    tl.store(p, 1.0 * _warps_of_cuda())


@kernel(*WARPS, targets=("cuda:90",))
def asks_for_threads(p):
    tl.store(p, 1.0 * cuda.num_threads())


@kernel({"num_warps": 4}, {"num_warps": 4, "sanitize_overflow": True, "debug": True}, {"num_warps": 8, "sanitize_overflow": True, "debug": True})
def adds_integers(p):
    at = tl.program_id(0) + tl.num_programs(0)
    tl.store(p + at, 1.0)


@kernel({"num_warps": 4}, {"num_warps": 8, "allowed_dot_input_precisions": ("ieee",)}, {"num_warps": 8})
def multiplies_floats(p):
    at = tl.arange(0, 32)
    places = p + at[:, None] * 32 + at[None, :]
    tl.store(places, tl.dot(tl.load(places), tl.load(places)))


@kernel({"num_warps": 4}, {"num_warps": 8, "allowed_dot_input_precisions": ("ieee",)})
def multiplies_nothing(p):
    tl.store(p, 1.0)


@kernel({"num_warps": 4}, {"num_warps": 8}, {"num_warps": 4, "debug": True})
def asserts(p):
    tl.device_assert(tl.load(p) > 0, "positive")


@kernel({"num_warps": 4}, {"num_warps": 8, "enable_fp_fusion": False, "maxnreg": 64}, targets=("cuda:90",))
def leaves_the_rest_to_later_stages(p):
    tl.store(p, tl.load(p) * 2 + 1)


if hasattr(hip, "num_warps"):

    @kernel(*WARPS, targets=("hip:gfx942",))
    def asks_for_warps_of_amd(p):
        tl.store(p, 1.0 * hip.num_warps())


@triton.jit
def _returns_early(p):
    tl.store(p, 1.0)
    return
    tl.store(p, 2.0)


@kernel(*WARPS)
def warns(p):
    _returns_early(p)
    tl.store(p, tl.view(tl.load(p + tl.arange(0, 4)), (4,)).sum())


def fresh_context(backend):
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return context


def lowered_by_triton(source, backend, options):
    stages = {}
    backend.add_stages(stages, options, source.language)
    module = source.make_ir(backend.target, options, backend.get_codegen_implementation(options), backend.get_module_map(), fresh_context(backend))
    text = str(module)
    module = stages["ttir"](module, {})
    return text, str(module), text_of(module), module.get_entry_func_name()


def with_warnings(lower):
    """What it gives, what Python shows of its warnings, and what the plug-in keeps of them."""
    lowering_warnings.begin()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        made = lower()
    return made, sorted((str(one.message), one.filename, one.lineno) for one in shown), lowering_warnings.end(str)


def tuned(function, configurations, target, types):
    """Alternately, so that neither way could leave something for the other."""
    backend, lowerings = make_backend(target), shared_lowering.Lowerings()
    made, right, warned = {}, 0, 0
    for given in configurations:
        source = lambda: ASTSource(function, {name: types for name in function.arg_names}, {}, {})  # noqa: E731
        options = backend.parse_options(dict(given))
        stock = with_warnings(lambda: lowered_by_triton(source(), backend, options))
        one, *ours = with_warnings(lambda: lowerings.find_or_lower(source(), backend, options, fresh_context(backend)))
        made[id(one)] = one
        texts = (str(one), str(one.ttir), one.ttir.whole, one.ttir.get_entry_func_name())
        right += (texts, *ours) == stock
        warned += len(ours[0])
    return {"right": right, "lowered": len(made), "warned": warned}


def ways_of_asking():
    """By the way in which somebody asks options: what is noted, and whether the answer is that of other options."""

    @dataclasses.dataclass(frozen=True)
    class Options:
        num_warps: int = 4
        num_stages: int = 3

        @property
        def threads(self):
            return 32 * self.num_warps

    ways = {
        "nothing": lambda one: None, "an attribute": lambda one: one.num_warps, "what is not there": lambda one: getattr(one, "num_ctas", 1),
        "a property": lambda one: one.threads, "all of them": vars, "a dictionary": dataclasses.asdict, "a hash": hash,
        "equality": lambda one: Options(num_warps=8) == one, "one with a change": lambda one: repr(dataclasses.replace(one, num_stages=1)),
        "a copy": lambda one: copy.copy(one).num_stages, "a deep copy": lambda one: copy.deepcopy(one).num_stages,
        "another of its type": lambda one: type(one)(num_stages=1).num_stages
    }
    seen = {}
    for name, ask in ways.items():
        asking, asked = shared_lowering._asking(Options(num_warps=8))
        try:
            is_right = ask(asking) == ask(Options(num_warps=8))
        except TypeError as error:
            is_right = str(error)
        noted = shared_lowering._answers(Options(num_warps=8), asked)
        seen[name] = {"is_right": is_right, "noted": {name: value for name, value in noted.items() if name.startswith("num_")}}
    return seen


def main():
    print(json.dumps({"kernels": {f"{name} for {target}": {"of": len(configurations), **tuned(function, configurations, TARGETS[target], types)}
                                  for name, (function, configurations, targets, types) in KERNELS.items() for target in targets},
                      "asked": ways_of_asking()}))


if __name__ == "__main__":
    main()
