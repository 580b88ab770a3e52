"""What kiln.jax refuses, and in which words."""

import pytest

from places import JAX_VERSIONS

# A call that is wrong, the class of the error, and what it says among other things.
WRONG = {
    "too few arguments": ("call(kernels.add, X, BLOCK=64)", "TypeError", "add: 2 arguments and outputs, it takes 4"),
    "too many arguments": ("call(kernels.copy, X, X, X, BLOCK=64)", "TypeError", "copy: 4 arguments and outputs, it takes 2"),
    "a parameter without a value": ("lowered_call(kernels.copy, X)", "TypeError", "BLOCK"),
    "a type that Triton does not have": ("call(kernels.copy, jnp.ones(4, jnp.complex64), BLOCK=4)", "TypeError", "no type complex64"),
    "an output of such a type": ("call(kernels.copy, X, out=shape(4, dtype='int4'), BLOCK=4)", "TypeError", "output 0: Triton has no type int4"),
    "a key of random numbers": ("call(kernels.copy, jax.random.key(0), BLOCK=4)", "TypeError",
                                "copy: argument 0: Triton has no type key<fry>: jax.random.key_data gives the numbers of a key"),
    "a key as an output": ("call(kernels.copy, X, out=jax.random.key(0), BLOCK=4)", "TypeError", "copy: output 0: Triton has no type key<fry>"),
    "an array of another library": ("call(kernels.copy, types.SimpleNamespace(shape=(4,), dtype='torch.float32'), BLOCK=4)", "TypeError",
                                    "copy: argument 0: Triton has no type torch.float32"),
    "an out_shape without a type": ("call(kernels.copy, X, out=[(4,)], BLOCK=4)", "TypeError", "jax.ShapeDtypeStruct"),
    "no out_shape": ("triton_call(X, kernel=kernels.copy, grid=1, BLOCK=4)", "TypeError", "copy: give either out_shape or out_type"),
    "out_shape by both of its names": ("call(kernels.copy, X, BLOCK=4, out_type=X)", "TypeError", "copy: give either out_shape or out_type"),
    "a part of a reference": ("jax.jit(lambda one: call(kernels.copy, one.at[:4], BLOCK=4))(jax.new_ref(X))", "TypeError",
                              "copy: argument 0 is a part of a jax.Ref: give all of it"),
    "a reference at two places": ("(lambda one: call(kernels.added, one, one, 256))(jax.new_ref(X))", "TypeError", "added: a jax.Ref is given twice"),
    "a reference beside aliases": ("call(kernels.added, X, jax.new_ref(X), 256, input_output_aliases={0: 0})", "ValueError",
                                   "added: input_output_aliases beside a jax.Ref"),
    "a descriptor over a reference": ("call(kernels.gathered, described(64, 32, base=jax.new_ref(jnp.ones((64, 32)))), ROWS=16, COLUMNS=32)", "TypeError",
                                      "gathered: argument 0: its descriptor is over"),
    "an unknown metaparameter": ("lowered_call(kernels.copy, X, BLOCK=64, BLOK=64)", "TypeError", "copy: BLOK: neither a parameter nor an option"),
    "an array as a metaparameter": ("call(kernels.copy, X, BLOCK=X)", "TypeError", "BLOCK: arrays and descriptors are given for parameters that are no"),
    "an array for no parameter": ("call(kernels.copy, X, BLOK=X)", "TypeError", "copy: BLOK: the kernel has no such parameter; it has x, out, BLOCK"),
    "an array for what a heuristic gives": ("call(kernels.counted, X, 1.5, n=X, BLOCK=4)", "TypeError", "scale: n is given by its heuristics"),
    "a default before an array by name": ("call(kernels.defaulted, X, bias=X, out=())", "TypeError",
                                          "defaulted: nothing is given for MODE, which comes before bias: give it by keyword, too"),
    "a zeroed reference": ("call(kernels.accumulate, X, jax.new_ref(X), 256, BLOCK=256, out=(), zeroed_outputs=(0,))", "ValueError",
                           "accumulate: zeroed_outputs: 0 is no place of an output; there are 0"),
    "a reference to keys": ("call(kernels.accumulate, X, jax.new_ref(jax.random.key(0)), 256, BLOCK=256, out=())", "TypeError",
                            "accumulate: argument 1: Triton has no type key<fry>"),
    "an output between arguments": ("call(kernels.added, sums=X, n=256)", "TypeError", "added: nothing is given for x, which comes before sums"),
    "a grid of four": ("call(kernels.copy, X, BLOCK=64, grid=(1, 1, 1, 1))", "ValueError", "grid: (1, 1, 1, 1) has 4 lengths"),
    "a grid of none": ("call(kernels.copy, X, BLOCK=64, grid=())", "ValueError", "grid: () has 0 lengths"),
    "a negative grid": ("call(kernels.copy, X, BLOCK=64, grid=(4, -1))", "ValueError", "grid: (4, -1) is not within 0"),
    "a huge grid": ("call(kernels.copy, X, BLOCK=64, grid=2**31)", "ValueError", "grid: (2147483648,) is not within 0"),
    "a grid that is too high": ("lowered_call(kernels.copy, X, BLOCK=64, grid=(1, 65536))", "ValueError", "grid: (1, 65536, 1) is more than CUDA takes"),
    "a grid that is no number": ("call(kernels.copy, X, BLOCK=64, grid=2.5)", "TypeError", "grid: 2.5 is neither"),
    "a length that is no number": ("call(kernels.copy, X, BLOCK=64, grid=(2, 'x'))", "TypeError", "are not whole numbers"),
    "an alias of another shape": ("call(kernels.copy, X, out=shape(4), BLOCK=4, input_output_aliases={0: 0})", "ValueError",
                                  "array argument 0 is float32[256], output 0 is float32[4]"),
    "an alias of another type": ("call(kernels.copy, X, out=shape(256, dtype='int32'), BLOCK=4, input_output_aliases={0: 0})", "ValueError",
                                 "output 0 is int32[256]"),
    "an alias of no argument": ("call(kernels.copy, X, BLOCK=4, input_output_aliases={1: 0})", "ValueError", "no array argument 1"),
    "an alias of no output": ("call(kernels.copy, X, BLOCK=4, input_output_aliases={0: 1})", "ValueError", "no output 1"),
    "an output that is aliased twice": ("call(kernels.add, X, X, n=4, BLOCK=4, input_output_aliases={0: 0, 1: 0})", "ValueError", "aliased twice"),
    "aliases that are no dictionary": ("call(kernels.copy, X, BLOCK=4, input_output_aliases=[0])", "TypeError", "is no dictionary"),
    "a zeroed output that is none": ("call(kernels.copy, X, BLOCK=4, zeroed_outputs=(1,))", "ValueError", "1 is no place of an output"),
    "a zeroed output by a wrong name": ("call(kernels.copy, X, BLOCK=4, zeroed_outputs='x')", "ValueError", "'x' is no output; they are out"),
    "a zeroed output that shares its buffer with an input": ("call(kernels.copy, X, BLOCK=4, zeroed_outputs=(0,), input_output_aliases={0: 0})", "ValueError",
                                                             "output 0 (out) is zeroed and shares"),
    "an output that has to be zeroed": ("call(kernels.summing, X, 10)", "ValueError", "give zeroed_outputs=('out',)"),
    "a kernel that is not Triton's": ("call(print, X)", "TypeError", "a function with triton.jit is called, not builtin_function_or_method"),
    "a hook of a configuration": ("call(kernels.hooked, X, 256, 2.0)", "ValueError", "has a pre_hook"),
    "a hook of the autotuner": ("call(kernels.hooked_outside, X, 256, 2.0)", "ValueError", "its autotuner has a pre_hook"),
    "a hook behind each launch": ("call(kernels.hooked_behind, X, 256, 2.0)", "ValueError", "its autotuner has a post_hook"),
    "a hook of the function": ("call(kernels.hooked_within, X, 256, 2.0, BLOCK=64)", "ValueError", "scale: it has a pre_run_hook: it runs Python"),
    "a reset of what is no parameter": ("call(kernels.resetting(), X, 256, 2.0)", "ValueError", "reset_to_zero names 'result'"),
    "a metaparameter that no configuration has": ("call(kernels.tuned, X, 256, 2.0, BLOCK=32)", "ValueError", "no configuration of its autotuner has"),
    "an option that no configuration has": ("call(kernels.doubled, X, 256, num_warps=16)", "ValueError", "no configuration of its autotuner has"),
    "a huge float": ("lowered_call(kernels.scale, X, 4, 1e300, BLOCK=4)", "ValueError", "factor: 1e+300 does not fit 32 bits"),
    "an integer of more than 64 bits": ("call(kernels.scale, X, 2**64, 1.5, BLOCK=4)", "ValueError", "18446744073709551616 does not fit 64 bits"),
    "an integer below those of 64 bits": ("call(kernels.scale, X, -2**63 - 1, 1.5, BLOCK=4)", "ValueError", "does not fit 64 bits"),
    "an integer that does not fit its annotation": ("lowered_call(kernels.typed, 200, 0.5, 0.5, flag=True)", "ValueError", "small: 200 does not fit 8 bits"),
    "a complex number": ("call(kernels.scale, X, 4, 1j, BLOCK=4)", "TypeError", "no complex numbers"),
    "a tuple": ("call(kernels.scale, X, (4, 4), 1.5, BLOCK=4)", "TypeError", "tuples and lists are not taken"),
    "a tuple for what is no constant": ("lowered_call(kernels.scale, X, factor=(1, 2), n=4, BLOCK=4)", "TypeError", "factor: a tuple is taken for a tl.constexpr alone"),
    "a list by keyword": ("call(kernels.padded, X, PAD=[3, 1], BLOCK=4)", "TypeError", "padded: PAD: a list is not taken; give a tuple"),
    "a dictionary by keyword": ("call(kernels.copy, X, BLOCK=4, extern_libs={'a': 'b'})", "TypeError", "copy: extern_libs: values of the type dict are not taken"),
    "an option that is given twice": ("call(kernels.copy, X, BLOCK=4, num_warps=8, backend_options={'num_warps': 8})", "ValueError",
                                      "copy: num_warps is given twice, once in backend_options"),
    "options that are no dictionary": ("call(kernels.copy, X, BLOCK=4, backend_options=['maxnreg'])", "TypeError", "copy: backend_options: ['maxnreg'] is no"),
    "an option that is a parameter": ("call(kernels.copy, X, backend_options={'BLOCK': 4})", "TypeError", "copy: backend_options: 'BLOCK' is no option"),
    "an option without a name": ("call(kernels.copy, X, BLOCK=4, backend_options={4: 4})", "TypeError", "copy: backend_options: 4 is no option of Triton"),
    "an option that cannot be hashed": ("call(kernels.copy, X, BLOCK=4, backend_options={'maxnreg': {}})", "TypeError",
                                        "copy: backend_options: maxnreg: values of the type dict are not taken"),
    "a dictionary by position": ("call(kernels.scale, X, {}, 1.5, BLOCK=4)", "TypeError", "scale: argument 1: values of the type dict"),
    "an array within a tuple": ("call(kernels.padded, X, PAD=(X, 1), BLOCK=4)", "TypeError", "PAD: arrays and descriptors are given for parameters"),
    "clusters before Hopper": ("lowered_call(kernels.copy, X, BLOCK=64, num_ctas=2, capability=80)", "ValueError", "which cuda:80 does not have"),
    "clusters on AMD": ("lowered_call(kernels.copy, X, BLOCK=64, num_ctas=2, capability='gfx942', platform='rocm')", "ValueError", "hip:gfx942"),
    "a capability that is none": ("lowered_call(kernels.copy, X, BLOCK=64, capability='hopper')", "ValueError", "'hopper' is none of CUDA's"),
    "one of the other vendor": ("lowered_call(kernels.copy, X, BLOCK=64, platform='rocm')", "ValueError", '"gfx942"'),
    "no GPU and no capability": ("lowered_call(kernels.copy, X, BLOCK=64, capability=None)", "ValueError", "no GPU number 0"),
    "a program for the CPU": ("call(kernels.copy, X, BLOCK=64)", "ValueError", "Triton's kernels run on GPUs, and this program is for cpu"),
    "a launch target that is none": ("lowered_call(kernels.copy, X, BLOCK=64, launch_target='kiln')", "ValueError", "no launch target 'kiln'"),
    "a kernel that does not compile": ("lowered_call(kernels.broken, X)", "CompilationError", "arange"),
}


@pytest.fixture(scope="module", params=JAX_VERSIONS)
def jax(request, daemon, make_jax, tmp_path_factory):
    """A job with each JAX: most errors come before JAX, and some from it."""
    with make_jax(tmp_path_factory.mktemp("jax"), daemon.root, request.param) as job:
        yield job


@pytest.mark.parametrize("what", WRONG)
def test_refuses(jax, what):
    expression, kind, words = WRONG[what]
    said = jax.error(expression)
    assert said.startswith(f"{kind}: ") and words in said, said


def test_a_key_error_of_triton_itself_is_passed_on(jax):
    jax.value("names.update(backend=__import__('triton.backends.nvidia.compiler').backends.nvidia.compiler.CUDABackend)")
    jax.value("names.update(parse=backend.parse_options) or setattr(backend, 'parse_options', "
              "lambda self, given: parse(self, given) if 'maxnreg' not in given else raising(KeyError('registers'))())")
    try:
        assert jax.error("lowered_call(kernels.copy, X, BLOCK=64, maxnreg=96)") == "KeyError: 'registers'"
    finally:
        jax.value("setattr(backend, 'parse_options', parse)")


def test_a_nan_and_an_infinity_are_passed_on(jax):
    assert jax.value("[lowered_call(kernels.scale, X, 4, float(one), BLOCK=4)['scalars'][8:] for one in ('nan', 'inf')]") == ["0000c07f", "0000807f"]


def test_an_empty_grid_launches_nothing_and_is_no_error(jax):
    assert jax.value("lowered_call(kernels.copy, X, BLOCK=64, grid=(4, 0))")["grid_y"] == 0


@pytest.mark.slow
def test_refuses_arrays_of_several_devices(other_jax):
    with other_jax(XLA_FLAGS="--xla_force_host_platform_device_count=2") as job:
        said = job.error("call(kernels.add, X, jax.device_put(X, jax.devices()[1]), n=4, BLOCK=4)")
        assert said.startswith("ValueError: add: its arrays are on several devices") and "jax.device_put" in said
        mesh = "jax.make_mesh((2,), ('devices',))"
        sharded = f"jax.device_put(X, jax.NamedSharding({mesh}, jax.P('devices')))"
        said = job.error(f"call(kernels.copy, {sharded}, BLOCK=4)")
        assert said.startswith("ValueError: copy: array argument 0 is on 2 devices") and "jax.shard_map" in said
        said = job.error(f"lower(lambda x: call(kernels.copy, x, BLOCK=4), {sharded})")
        assert said.startswith("ValueError: copy: this program is partitioned over 2 devices") and "jax.shard_map" in said


def test_refuses_a_global_that_has_changed(jax):
    assert jax.value("lowered_call(kernels.limited, X, BLOCK=64)['parameters']") == "aa"
    said = jax.error("[setattr(kernels, 'LIMIT_OF_KERNEL', 5), lowered_call(kernels.limited, X, BLOCK=64, num_warps=8)]")
    assert "the global LIMIT_OF_KERNEL was" in said


@pytest.mark.slow
def test_refuses_the_binary_of_another_architecture(other_jax):
    """As a cache gives it that two machines share, or a daemon that is not in order."""
    with other_jax(root=None) as job:  # a daemon would have the right one after the first attempt
        job.value("compile_for_another_architecture(80)")
        said = job.error("lowered_call(kernels.copy, X, BLOCK=64)")
        assert said.startswith("ValueError: copy: it was compiled for 80, not for 90"), said
        for number in (80, 100):  # their ELF headers say it in two ways
            job.value(f"compile_for_another_architecture({number}, ['cubin'])")
            said = job.error("lowered_call(kernels.copy, X, BLOCK=64)")
            assert said.startswith(f"ValueError: copy: it was compiled for {number}, not for 90"), said
        job.value("compile_for_another_architecture('gfx90a', ['hsaco'])")
        said = job.error("lowered_call(kernels.copy, X, BLOCK=64, platform='rocm', capability='gfx942')")
        assert said.startswith("ValueError: copy: it was compiled for gfx90a, not for gfx942"), said


def test_says_which_output_no_kernel_writes(jax):
    jax.value("lowered_call(kernels.unwritten, X, out=[X, X], BLOCK=64)")
    assert "unwritten: the kernel does not use its output 1 (other)" in jax.log
    jax.value("lowered_call(kernels.unwritten, X, out=[X, shape(0)], BLOCK=64, name='empty')")
    assert "empty: the kernel" not in jax.log, "there is nothing to write"
    jax.value("calls(lambda x: call(kernels.unwritten, x, out=[X, X], BLOCK=64, name='shared', input_output_aliases={0: 1}), X) and None")
    assert "shared: the kernel" not in jax.log, "the input is its content"
