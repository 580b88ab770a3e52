"""A job whose kernels mean what a number says, in ways of which Triton's own key knows nothing.

    <toolchain>/bin/python reaching_job.py NUMBER

compiles each of them for cuda:90 and prints one object: by name, what came out and whether the daemon had it under Triton's key.
"""

import json
import math
import sys
import threading
import types

import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as libdevice_of_cuda
from triton.runtime.jit import constexpr_function

NUMBER = float(sys.argv[1])
OTHER = 7.0  # a number that none of the jobs is given


def module(name, **values):
    made = types.ModuleType(name)
    vars(made).update(values)
    return made


class Settings:
    """An object that looks the same whatever it holds."""

    def __init__(self, scale):
        self.SCALE = scale

    def __str__(self):
        return "settings"


cfg = module("cfg", SCALE=NUMBER, CONSTANT=tl.constexpr(NUMBER), SIZES=(OTHER, [NUMBER]), ZERO=0.0 if NUMBER == 2 else -0.0,
             SETTINGS=Settings(NUMBER), CHANGED=OTHER, inner=module("cfg.inner", SCALE=NUMBER))
PLAIN = NUMBER
STALE = tl.constexpr(OTHER)
SCALED = tl.constexpr(NUMBER)
x = Settings(NUMBER)  # of the name of a local variable
operation = tl.exp if NUMBER == 2 else tl.log


@triton.jit
def attribute(p):
    tl.store(p, tl.load(p) * cfg.SCALE)


@triton.jit
def constant_attribute(p):
    tl.store(p, tl.load(p) * cfg.CONSTANT)


@triton.jit
def attribute_of_a_module_of_a_module(p):
    tl.store(p, tl.load(p) * cfg.inner.SCALE)


@triton.jit
def sizes(p):
    tl.store(p, tl.load(p) * cfg.SIZES[1][0])


@triton.jit
def sign_of_zero(p):
    tl.store(p, tl.load(p) * math.copysign(1.0, cfg.ZERO))


@triton.jit
def by_default(x, scale: tl.constexpr = PLAIN):
    return x * scale


@triton.jit
def default(p):
    tl.store(p, by_default(tl.load(p)))


@triton.jit
def inner(x):
    return x * cfg.SCALE


@triton.jit
def outer(x):
    return inner(x) + 1


@triton.jit
def helper_of_a_helper(p):
    tl.store(p, outer(tl.load(p)))


@triton.jit
def plain_global(p):
    tl.store(p, tl.load(p) * PLAIN)


@triton.jit
def constexpr_global(p):
    x = tl.load(p)
    tl.store(p, x * SCALED)


@triton.jit
def alias(p):
    tl.store(p, operation(tl.load(p)))


@triton.jit
def scaled_by_a_member(x):
    return x * PLAIN


tl.tensor.scaled = scaled_by_a_member


@triton.jit
def member(p):
    tl.store(p, tl.load(p).scaled())


@triton.jit
def precision(p):
    places = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    values = tl.load(p + places)
    tl.store(p + places, tl.dot(values, values))


@triton.jit
def assigned_in_a_branch(p, SOME: tl.constexpr):
    if SOME:
        PLAIN = tl.load(p)
    tl.store(p, tl.load(p) * PLAIN)


@triton.jit
def annotated_in_branches(p):
    x = tl.load(p)
    if x > 0:
        PLAIN: tl.constexpr = 1
    else:
        PLAIN: tl.constexpr = 2
    tl.store(p, x * PLAIN)


@triton.jit
def named(p):
    tl.store(p, tl.load(p))


named._repr = lambda _: f"named_{int(NUMBER)}"


@triton.jit
def stale(p):
    tl.store(p, tl.load(p) * STALE)


@triton.jit
def object_of_a_module(p):
    tl.store(p, tl.load(p) * cfg.SETTINGS.SCALE)


@triton.jit
def object_as_argument(p, settings: tl.constexpr):
    tl.store(p, tl.load(p) * settings.SCALE)


@triton.jit
def module_as_argument(p):
    tl.store(p, tl.load(p) * getattr(cfg, "SCALE"))


@tl.core.builtin
def from_a_builtin(_semantic=None):
    return tl.constexpr(NUMBER)


@triton.jit
def builtin_of_the_program(p):
    tl.store(p, tl.load(p) * from_a_builtin())


@constexpr_function
def from_python():
    return NUMBER


@triton.jit
def function_of_python(p):
    tl.store(p, tl.load(p) * from_python())


@triton.jit
def changed_meanwhile(p):
    tl.store(p, tl.load(p) * cfg.CHANGED)


@triton.jit
def one_of_twins(p):
    tl.store(p, tl.load(p) * cfg.SCALE)


@triton.jit
def by_position(x, cfg, /, y):
    return y * cfg.SCALE  # no version of Triton binds such a parameter


@triton.jit
def parameter_by_position(p):
    tl.store(p, by_position(tl.load(p), 1.0, tl.load(p + 1)))


@triton.jit
def unchanged(x):
    return x


unchanged.SCALE = tl.constexpr(NUMBER)


@triton.jit
def function_as_argument(p, FUNCTION: tl.constexpr):
    tl.store(p, FUNCTION(tl.load(p)) * FUNCTION.SCALE)


tl.float32.SCALE = NUMBER


@triton.jit
def member_of_a_type(p):
    x = tl.load(p)
    tl.store(p, x * x.dtype.SCALE)


@triton.jit
def member_of_what_may_be_local(p, SOME: tl.constexpr):
    if SOME:
        v = tl.load(p)
    tl.store(p, v.scaled())


@tl.core.builtin
def power(self, other, _semantic=None):
    return self.__mul__(NUMBER, _semantic=_semantic)


@triton.jit
def operator(p):
    tl.store(p, tl.load(p) ** 2)


@triton.jit
def another_operator(p):
    tl.store(p, tl.load(p) ** 3)


@triton.jit
def behind_a_stub(p):
    tl.store(p, libdevice.exp(tl.load(p)))


A = tl.constexpr(1000.5)
B = tl.constexpr(A.value if NUMBER == 2 else float("1000.5"))


@triton.jit
def identity(p):
    x = tl.load(p)
    if A is B:
        x = x + 1
    tl.store(p, x)


def scaling(s):
    @triton.jit
    def scaled(x):
        return x * s
    return scaled


scaled_by_2, scaled_by_5 = scaling(tl.constexpr(2.0)), scaling(tl.constexpr(5.0))
if NUMBER == 2:
    scaled_by_5.__qualname__ = "another"


@triton.jit
def functions_of_one_name(p):
    tl.store(p, scaled_by_2(tl.load(p)) + scaled_by_5(tl.load(p + 1)))


@triton.jit
def behind_a_return(p):
    x = tl.load(p)
    if x > 0:
        return
        PLAIN = 1.0
    else:
        PLAIN = 2.0
        tl.store(p + 1, PLAIN)
    tl.store(p, x * PLAIN)


@triton.jit
def sum_of_integers(p, n):
    tl.store(p, (n + n).to(tl.float32))


@triton.jit
def device(p):
    x = tl.load(p)
    if tl.target_info.cuda_capability_geq(9, 0):
        x = x + 1
    tl.store(p, x)


def compiled(kernel, constants=None, stages=("ttir", "ptx"), options=None, **signature):
    signature = {"p": "*fp32", **signature, **dict.fromkeys(constants or {}, "constexpr")}
    done = triton.compile(ASTSource(kernel, signature, constants or {}), target=GPUTarget("cuda", 90, 32), options=options)
    return {stage: done.asm[stage] for stage in stages}


def compile_after_a_change():
    """Triton's key for it is that of the first value."""
    global STALE
    assert stale.cache_key
    STALE = tl.constexpr(NUMBER)
    return compiled(stale)


def compile_while_it_changes():
    make_ir = ASTSource.make_ir

    def changing(*arguments, **more):
        cfg.CHANGED = NUMBER
        return make_ir(*arguments, **more)

    ASTSource.make_ir = changing
    try:
        return compiled(changed_meanwhile)
    finally:
        ASTSource.make_ir = make_ir


def compile_beside_a_twin():
    """Another kernel of the same key is asked for while this one is compiled, and is never done. Its TTIR lies in Triton's folder."""
    values = {**globals(), "cfg": module("cfg", SCALE=OTHER)}
    twin = triton.jit(types.FunctionType(one_of_twins.fn.__code__, values))
    if "kiln.triton" not in sys.modules:
        return compiled(one_of_twins, stages=["ptx"])
    from kiln._plugin.groups import Groups
    note = Groups.note

    def noted_with_the_twins(groups, triton_hash, artifact):
        note(groups, triton_hash, artifact)
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit
        thread = threading.Thread(target=lambda: compiled(twin))
        thread.start()
        thread.join()

    Groups.note = noted_with_the_twins
    try:
        return compiled(one_of_twins, stages=["ptx"])
    finally:
        Groups.note = note


def compile_with(owner, name, value, kernel):
    """While `owner` has it by that name."""
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        return compiled(kernel)
    finally:
        delattr(owner, name) if before is None else setattr(owner, name, before)


def compile_beside_a_device():
    """The last of all, since it stays."""
    triton.runtime.driver.set_active(types.SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90 if NUMBER == 2 else 80, 32)))
    return compiled(device)


def compile_with_precision():
    knobs.propagate_env = False  # the environment is in Triton's key
    knobs.language.fp32_default = "ieee" if NUMBER == 2 else "tf32"
    try:
        return compiled(precision)
    finally:
        knobs.language.fp32_default = None


KERNELS = {
    "an attribute": lambda: compiled(attribute),
    "a constant attribute": lambda: compiled(constant_attribute),
    "an attribute of a module of a module": lambda: compiled(attribute_of_a_module_of_a_module),
    "an attribute in a tuple": lambda: compiled(sizes),
    "the sign of a zero": lambda: compiled(sign_of_zero),
    "a default": lambda: compiled(default),
    "a helper of a helper": lambda: compiled(helper_of_a_helper),
    "a plain global": lambda: compiled(plain_global),
    "a constexpr global": lambda: compiled(constexpr_global),
    "another name": lambda: compiled(alias),
    "a tensor's member": lambda: compiled(member),
    "the language's precision": compile_with_precision,
    "a global that may be local": lambda: compiled(assigned_in_a_branch, {"SOME": False}),
    "a global that was local": lambda: compiled(annotated_in_branches),
    "the kernel's name": lambda: compiled(named),
    "a global that has changed": compile_after_a_change,
    "twins": compile_beside_a_twin,
    "a parameter by position": lambda: compiled(parameter_by_position),
    "a type's member": lambda: compiled(member_of_a_type),
    "a member of what may be local": lambda: compiled(member_of_what_may_be_local, {"SOME": True}),
    "behind a stub": lambda: compile_with(libdevice_of_cuda, "exp", scaled_by_a_member, behind_a_stub),
    "functions of one name": lambda: compiled(functions_of_one_name, stages=["ttir"]),
    "what comes after a return": lambda: compiled(behind_a_return),
    "an option's type": lambda: compiled(sum_of_integers, n="i32", options={"debug": True, "sanitize_overflow": False if NUMBER == 2 else "False"}),
    "a function as argument": lambda: compiled(function_as_argument, {"FUNCTION": unchanged}),
    "an operator": lambda: compile_with(tl.tensor, "__pow__", power, operator),
    "another operator": lambda: compile_with(tl.tensor, "__pow__", tl.tensor.__mul__ if NUMBER == 2 else tl.tensor.__add__, another_operator),
    "identity": lambda: compiled(identity),
    "an object": lambda: compiled(object_of_a_module),
    "an object as argument": lambda: compiled(object_as_argument, {"settings": Settings(NUMBER)}),
    "a module as argument": lambda: compiled(module_as_argument),
    "a builtin": lambda: compiled(builtin_of_the_program),
    "a function of Python's": lambda: compiled(function_of_python),
    "a value that changes meanwhile": compile_while_it_changes,
    "the device": compile_beside_a_device,
}


def hits():
    if "kiln.triton" not in sys.modules:
        return 0
    import kiln
    return kiln.report().hits.get("own", 0)


def main():
    answers = {}
    for name, compile_it in KERNELS.items():
        before = hits()
        made = compile_it()
        answers[name] = {"made": made, "found": hits() > before}
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
