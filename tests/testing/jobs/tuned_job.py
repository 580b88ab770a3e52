"""A job that has Triton's Autotuner tune a kernel once, with Triton's own benchmark, on a stand-in for a GPU.

    <toolchain>/bin/python tuned_job.py FOLDER WHAT [BLOCK]...

The kernel's module is copied to FOLDER, imported and removed: ptxas writes the time of a file that is there into the binary, from which
the stand-in makes times. WHAT says what is not as usual; each BLOCK makes two configurations. Prints one object: how many configurations
were measured, how many compiled, the times of each, the best, the error, and what Kiln did.
"""

import collections
import functools
import json
import os
import pathlib
import shutil
import sys

import triton
import triton.language as tl
import tritons_key
from patience import be_patient
from stand_in_driver import StandInDriver
from triton import knobs, testing
from triton.backends.compiler import GPUTarget
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver
from triton.runtime.jit import MockTensor

folder, what, *blocks = sys.argv[1:]
sys.path.insert(0, folder)
module = shutil.copy(pathlib.Path(__file__).with_name("tuned_kernel.py"), folder)

import tuned_kernel  # noqa: E402

os.remove(module)
if what == "another global":
    tuned_kernel.FACTOR = tl.constexpr(3)
DEVICES = {"another model": {"model": "Stand-in 2"}, "a part of the device": {"processors": 66}}
REFUSED_BY_PTXAS = "--maxrregcount=many"


class Tensor(MockTensor):
    """Counts what the Autotuner does to it."""

    def __init__(self, dtype):
        super().__init__(dtype)
        self.done = collections.Counter()

    def zero_(self):
        self.done["zeroed"] += 1

    def clone(self):
        return self

    def copy_(self, other):
        self.done["restored"] += 1


class OtherTuner(Autotuner):
    """A program's own."""


def bench(call, quantiles):
    call()
    return testing.do_bench(call, quantiles=quantiles)


def replaced_bench(call, **more):
    return stock_bench(call, **more)


class ReplacedRun:
    """Has no __code__, and neither has what it gives."""

    def __get__(self, tuner, kind):
        return functools.partial(stock_run, tuner)


stock_bench = testing.do_bench
stock_run = Autotuner.run
hook_calls = []


def note(*arguments, **more):
    hook_calls.append(len(arguments))


# Arguments of triton.autotune.
TUNED_WITH = {
    "a pre_hook": {"pre_hook": note}, "a post_hook": {"post_hook": note}, "a benchmark of the program's": {"do_bench": bench},
    "another way of measuring": {"rep": 50}, "reset_to_zero": {"reset_to_zero": ["out"]}, "restore_value": {"restore_value": ["out"]},
    "cache_results": {"cache_results": True}, "a larger key": {"key": ["n", "m"]}, "another key": {"key": ["m"]},
    "an object in the key": {"key": ["x"]},
    "pruned": {"prune_configs_by": {"early_config_prune": lambda configs, named, **more: configs[1:]}},
}


def other_stages(backend=None, stages=None, *rest):
    return ("", "") if stages is None else None


def prepare():
    """Before the tuning."""
    if what == "patience":
        be_patient()
    elif what == "a switch":
        os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    elif what == "a hook of the program's":
        knobs.runtime.jit_post_compile_hook = note
    elif what == "a listener":
        knobs.compilation.listener = note
    elif what == "a launch hook":
        tuned_kernel.scaled.add_pre_run_hook(note)
    elif what == "another benchmark in Triton's place":
        testing.do_bench = replaced_bench
    elif what == "another method in Triton's place":
        stock = Autotuner._bench
        Autotuner._bench = lambda self, *arguments, **more: stock(self, *arguments, **more)
    elif what == "an object in the place of run":
        Autotuner.run = ReplacedRun()
    elif what == "other stages":
        knobs.runtime.add_stages_inspection_hook = other_stages
    elif what == "no launch succeeds":
        stand_in.launcher_cls = lambda source, metadata: None


def spoil(content, *configs):
    """Puts it in the place of what is kept of these configurations, or of all."""
    import kiln
    from kiln._plugin import autotune
    keys = autotune._here.tuning._keys
    with kiln.Client() as client:
        for config in configs or keys:
            client.put_own({keys[config]: content})


# By what is said of them.
SPOILED = {"damaged": b"[0.1, 0.1", "of another form": b'{"format": 2, "times": [1, 1, 1]}', "not a number": b"[NaN, NaN, NaN]",
           "infinite": b"[Infinity, Infinity, Infinity]", "negative": b"[-1.0, 1.0, 1.0]", "too few": b"[1.0]", "not text": b"\xff\xfe",
           "nested": b"[" * 100000}


def tune():
    given = {"SHIFT": 5 if what == "another constant of the caller's" else 4}
    configs = [triton.Config({"BLOCK": block}, num_warps=warps, pre_hook=note if what == "configurations with a hook" else None)
               for block in map(int, blocks or (64, 128)) for warps in (4, 8)]
    for config in configs:
        if what == "all are refused" or what == "one is refused" and config is configs[0]:
            config.kwargs["ptx_options"] = REFUSED_BY_PTXAS
        if what == "other registers":
            config.maxnreg = 64
    function = tuned_kernel.scaled
    if what == "heuristics":
        function = triton.heuristics({"BLOCK": lambda arguments: arguments["BLOCK"]})(function)
    make = triton.autotune(configs, **{"key": ["n"], **TUNED_WITH.get(what, {})})
    if what == "a tuner of the program's":
        tuner = OtherTuner(function, function.arg_names, configs, ["n"], None, None)
    else:
        tuner = make(function)
    tensor = Tensor(tl.float16 if what == "another type" else tl.float32)
    size = 8192 if what == "another size" else 4096
    answer = {}
    try:
        if what == "by names":
            tuner[(4,)](m=32, n=size, x=tensor, out=tensor, **given)
        else:
            tuner[(4,)](tensor, tensor, size, {"another argument": 48, "another key": size}.get(what, 32), **given)
    except Exception as error:
        answer["error"] = type(error).__name__
    if what in SPOILED:
        spoil({"times": SPOILED[what]})
    elif what == "another file":
        spoil({"timings": b"[1.0, 1.0, 1.0]"})
    elif what == "favour the slowest":
        slowest = max(tuner.configs_timings, key=tuner.configs_timings.get)
        spoil({"times": b"[0.001, 0.001, 0.001]"}, slowest)
        answer["favoured"] = str(slowest)
    launches = collections.Counter(stand_in.launched)
    times = getattr(tuner, "configs_timings", None) or {}
    return {**answer, "measured": sum(count > 1 for count in launches.values()), "compiled": len(compiled), "done": tensor.done,
            "hook_calls": len(hook_calls), "best": str(getattr(tuner, "best_config", None)), "times": [times[config] for config in configs if config in times]}


compiled = []
compile_kernel = triton.compiler.compile


def counted_compile(*arguments, **more):
    kernel = compile_kernel(*arguments, **more)
    compiled.append(kernel.hash)
    return kernel


triton.compiler.compile = counted_compile
stand_in = StandInDriver(GPUTarget("cuda", 90, 32), **DEVICES.get(what, {}))
driver.set_active(stand_in)
if "TRITON_CACHE_MANAGER" not in os.environ:
    tritons_key.remember(pathlib.Path(folder).parent / "triton-keys" / triton.__version__)
elif what != "the tuning brings the plug-in":
    import kiln.triton  # noqa: F401  (as earlier kernels do)
prepare()
told = tune()
if "kiln._report" in sys.modules:
    import kiln
    told.update(report=vars(kiln.report()), line=str(kiln.report()))
print(json.dumps(told))
