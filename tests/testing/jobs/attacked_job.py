"""A job whose program changes what it has of Triton, or the files that Triton reads.

    <toolchain>/bin/python attacked_job.py ATTACK...

runs each in a child of its own and prints an object for each: what came out, what the program has seen, what was said meanwhile, how
many kernels the daemon gave. An ATTACK is a name of ATTACKS; "none" compiles every kernel as it is.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import os
import resource
import sys
import traceback
import types
import unittest.mock
import warnings

import blind_ptxas  # noqa: F401
import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as nvidia
from triton.compiler import ASTSource
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as libdevice_of_cuda
from triton.runtime import cache

NVIDIA = os.path.dirname(nvidia.__file__)
LIBDEVICE = os.environ.get("LIBDEVICE", "")  # a path from the root

seen = []


@triton.jit
def product(p):
    places = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    values = tl.load(p + places)
    tl.store(p + places, tl.dot(values, values))


@triton.jit
def power(p):
    tl.store(p, libdevice.exp(tl.load(p)))


@triton.jit
def half_power(p):
    tl.store(p, tl.exp(tl.load(p).to(tl.float16)).to(tl.float32))


@triton.jit
def total_of(p):
    tl.store(p, tl.sum(tl.load(p + tl.arange(0, 16))))


@triton.jit
def folded(p):
    places = tl.arange(0, 64)
    values = tl.reshape(tl.load(p + places), 8, 8)
    tl.store(p + tl.arange(0, 8), tl.sum(values, axis=1))


@triton.jit
def printing(p):
    tl.static_print("it is lowered")
    tl.store(p, 1.0)


@triton.jit
def warning(p):
    """Warns where Triton has its code, and where this is."""
    places = tl.arange(0, 16)
    values = tl.load(p + places).to(tl.int32) << 40
    tl.store(p + places, values, mask=(values > 0) and (places > 1))


def compiled(kernel, **options):
    done = triton.compile(ASTSource(kernel, {"p": "*fp32"}), target=GPUTarget("cuda", 90, 32), options=options)
    return {"ptx": done.asm["ptx"], "cubin": hashlib.sha256(done.asm["cubin"]).hexdigest()}


def inside(function):
    """What Triton's decorator has made a function of Triton's around."""
    return function.__closure__[list(function.__code__.co_freevars).index("fn")].cell_contents


# --- The stages ------------------------------------------------------------------------------------------------------


def edited(ptx):
    return ptx.replace(".version", "// edited by the program\n.version", 1)


def with_edited_ptx(stages):
    make = stages["ptx"]
    stages["ptx"] = lambda source, metadata: edited(make(source, metadata))


def with_seen_modules(stages):
    for name, make in list(stages.items()):
        stages[name] = lambda source, metadata, name=name, make=make: noted(name, make(source, metadata))


def noted(name, module):
    seen.append([name, type(module).__name__])
    return module


def chaining(before=None, after=None, copied=False):
    """Sets a hook that calls the one that was there, after what `before` does to the stages, before what `after` does."""
    def compile_with_hook():
        if "TRITON_CACHE_MANAGER" in os.environ:
            import kiln.triton  # noqa: F401
        chained = knobs.runtime.add_stages_inspection_hook

        def hook(*arguments):
            if not arguments:
                return "hook", "hook"
            stages = arguments[1]
            if before:
                before(arguments[0], stages)
            given = dict(stages) if copied else stages
            if chained:
                chained(arguments[0], given, *arguments[2:])
            if after:
                after(given)
            if copied:
                stages.update({name: given[name] for name in ("ptx", "cubin")})
            return None

        knobs.runtime.add_stages_inspection_hook = hook
        try:
            return compiled(product)
        finally:
            knobs.runtime.add_stages_inspection_hook = chained
    return compile_with_hook


def with_own_method(backend, stages):
    make = backend.make_ptx
    backend.make_ptx = lambda *arguments: edited(make(*arguments))


def with_other_options(backend, stages):
    """Triton's stages for other options than those that the hook is given."""
    hook, knobs.runtime.add_stages_inspection_hook = knobs.runtime.add_stages_inspection_hook, None
    try:
        backend.add_stages(stages, dataclasses.replace(backend.parse_options({}), num_stages=1, maxnreg=32), nvidia.Language.TRITON)
    finally:
        knobs.runtime.add_stages_inspection_hook = hook


# --- Triton in memory ------------------------------------------------------------------------------------------------


def with_other_defaults():
    dot = inside(tl.dot)
    before = dot.__defaults__
    dot.__defaults__ = tuple("ieee" if name == "input_precision" else value for name, value in zip(
        dot.__code__.co_varnames[dot.__code__.co_argcount - len(before):], before))
    try:
        return compiled(product)
    finally:
        dot.__defaults__ = before


def with_other_keyword_defaults():
    """Changed in place, between two kernels."""
    first = compiled(folded)
    inside(tl.reshape).__kwdefaults__["can_reorder"] = True
    return [first, compiled(folded, num_stages=2)]


def with_other_code():
    dot = inside(tl.dot)

    def other(input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=tl.float32, _semantic=None):
        return _semantic.dot(input, other, acc, "ieee", None, out_dtype)

    dot.__code__ = other.__code__
    return compiled(product)


def with_other_default_of_a_kernel():
    """Triton's own functions that it lowers have defaults, too."""
    total = tl.sum.fn
    total.__defaults__ = (*total.__defaults__[:-1], tl.float64)
    return compiled(total_of)


def with_another_function_of_libdevice():
    """Exchanged between two kernels."""
    first = compiled(power)
    with unittest.mock.patch.object(libdevice_of_cuda, "exp", libdevice_of_cuda.sqrt):
        return [first, compiled(power, num_stages=2)]


def with_another_list_of_tritons(is_exchanged):
    """Between two kernels: the types that tl.exp takes, exchanged or changed in place."""
    def compile_with_other_types():
        check = inside(tl.exp)
        cell = check.__closure__[check.__code__.co_freevars.index("dtypes")]
        tritons = cell.cell_contents
        if is_exchanged:
            cell.cell_contents = [*tritons, "fp16"]
        else:
            tritons.append("fp16")
        made = [compiled(half_power), compiled(half_power, num_stages=2)]
        if is_exchanged:
            cell.cell_contents = tritons
        else:
            tritons.remove("fp16")
        os.environ["TRITON_CACHE_DIR"] += "-empty"
        try:
            return [*made, compiled(half_power, num_stages=2)]
        except triton.CompilationError as error:
            return [*made, str(error)]
    return compile_with_other_types


def with_another_libdevice():
    """Exchanged as a whole between two kernels."""
    first = compiled(power)
    other = types.ModuleType("libdevice")
    vars(other).update(vars(libdevice_of_cuda), exp=libdevice_of_cuda.sqrt)
    with unittest.mock.patch.object(sys.modules["triton.language.extra.cuda"], "libdevice", other):
        return [first, compiled(power, num_stages=2)]


def replaced(name, wrapped=False):
    def compile_with_replaced():
        make = vars(nvidia.CUDABackend)[name]

        def other(self, *arguments):
            return edited(make(self, *arguments))

        with unittest.mock.patch.object(nvidia.CUDABackend, name, functools.wraps(make)(other) if wrapped else other):
            return compiled(product)
    return compile_with_replaced


def with_instrumentation():
    tool = types.SimpleNamespace(load_dialects=lambda _: seen.append("load_dialects"), patch=lambda stage, *_: seen.append(stage))
    with unittest.mock.patch.object(nvidia.CUDABackend, "instrumentation", tool):
        return compiled(product)


# --- Files -----------------------------------------------------------------------------------------------------------


def with_variable(name, value, kernel):
    def compile_with_variable():
        os.environ[name] = value
        return compiled(kernel)
    return compile_with_variable


def with_an_exchanged_file():
    """The file OTHER takes the place of EXCHANGED once a kernel was compiled."""
    first = [compiled(product, num_stages=2), compiled(power, num_stages=2)]
    os.replace(os.environ["OTHER"], os.environ["EXCHANGED"])
    return [*first, compiled(product), compiled(power)]


# --- What a program may ask for, and see -----------------------------------------------------------------------------


def with_a_list():
    try:
        return compiled(product, supported_fp8_dtypes=["fp8e5"])
    except TypeError as error:
        return str(error)


def with_warnings(action):
    """Python's memory of what it has said must not decide what is kept for others, so the first job ignores all."""
    def compile_with_warnings():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter(action)
            try:
                return compiled(warning)
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            finally:
                seen.extend([str(one.message), one.category.__name__, one.filename, one.lineno] for one in said)
    return compile_with_warnings


def with_few_descriptors(free):
    def compile_with_few():
        if "TRITON_CACHE_MANAGER" in os.environ:
            import kiln.triton  # noqa: F401
        compiled(power, num_stages=2)  # what is imported is there
        low, high = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, high))
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for descriptor in taken[-free:]:
            os.close(descriptor)
        try:
            first = compiled(product, num_stages=9 + free)
            os.environ["TRITON_ALWAYS_COMPILE"] = "1"  # which keeps a kernel here
            return [first, compiled(product, num_stages=30 + free)]
        except (OSError, RuntimeError) as error:
            return repr(error)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (low, high))
    return compile_with_few


ATTACKS = {
    "none": lambda: [compiled(kernel, num_stages=stages) for kernel in (product, power, total_of, folded) for stages in (2, 3)],
    "a hook that edits the PTX": chaining(after=with_edited_ptx),
    "a hook that edits the PTX first": chaining(before=lambda _, stages: with_edited_ptx(stages)),
    "a hook that looks at modules": chaining(after=with_seen_modules),
    "a hook that hands on a copy": chaining(after=with_edited_ptx, copied=True),
    "a hook with a method of its own": chaining(before=with_own_method),
    "a hook with options of its own": chaining(before=with_other_options),
    "defaults": with_other_defaults,
    "keyword defaults": with_other_keyword_defaults,
    "code": with_other_code,
    "defaults of a kernel": with_other_default_of_a_kernel,
    "another function of libdevice": with_another_function_of_libdevice,
    "another libdevice": with_another_libdevice,
    "a list of Triton's": with_another_list_of_tritons(is_exchanged=False),
    "another list in Triton's place": with_another_list_of_tritons(is_exchanged=True),
    "a method": replaced("make_ptx"),
    "a method that looks like the first": replaced("make_ptx", wrapped=True),
    "instrumentation": with_instrumentation,
    "another ptxas of Triton's": with_variable("TRITON_PTXAS_PATH", os.path.join(NVIDIA, "bin", "ptxas-blackwell"), product),
    "a libdevice whose path begins as Triton's": with_variable("TRITON_LIBDEVICE_PATH", NVIDIA + "/.." * NVIDIA.count("/") + LIBDEVICE, power),
    "an exchanged file": with_an_exchanged_file,
    "a list": with_a_list,
    "a print": lambda: compiled(printing),
    **{f"warnings: {action}": with_warnings(action) for action in ("ignore", "always", "error")},
    **{f"{free} free descriptors": with_few_descriptors(free) for free in range(2, 6)},
}


def served():
    """How many kernels the daemon gave, and how many of these were found before they were lowered."""
    if "kiln.triton" not in sys.modules:
        return 0, 0
    import kiln
    report = kiln.report()
    return report.compiled + report.joined + sum(report.hits.values()), report.hits.get("own", 0)


def run(attack):
    os.environ["TRITON_CACHE_DIR"] += f"/{attack}"
    with contextlib.redirect_stdout(io.StringIO()) as said:
        made = ATTACKS[attack]()
    given, found = served()
    return {"made": made, "seen": seen, "said": said.getvalue(), "served": given, "found": found}


def main():
    if "TRITON_CACHE_MANAGER" not in os.environ:
        cache.triton_key()  # each child would hash the whole of Triton
    for attack in sys.argv[1:]:
        pid = os.fork()
        if pid == 0:
            try:
                answer = run(attack)
            except BaseException:
                answer = {"failed": traceback.format_exc()}
            os.write(1, json.dumps(answer).encode() + b"\n")
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
