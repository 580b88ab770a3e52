"""The target of XLA that launches a kernel: which is chosen, and what is said of it."""

import json

import pytest

from places import JAX_VERSIONS

OLDEST = JAX_VERSIONS[0]
CALL = "lowered_call(kernels.scale, X, 64, 2.0, BLOCK=64{})"
PROGRAM = "lambda x: call(kernels.scale, x, 64, 2.0, BLOCK=64)"
NO_LIBRARY = {"KILN_JAX_LIBRARY": "/nothing/libkiln_jax.so"}
BUILTIN = "triton_kernel_call_ffi"


@pytest.fixture(scope="module", params=JAX_VERSIONS)
def without_own(request, daemon, tmp_path_factory, make_jax):
    """A job whose jaxlib has the targets of a GPU's, with messages that keep what they are given, and that has not our library. builtin: the
    first of them that is in order."""
    with make_jax(tmp_path_factory.mktemp("builtin"), daemon.root, request.param, **NO_LIBRARY) as job:
        job.value("use_builtin_targets('triton_kernel_call', 'triton_kernel_call_ffi')")
        job.builtin = BUILTIN if tuple(map(int, request.param.split("."))) >= (0, 10, 2) else "triton_kernel_call"
        yield job


def test_ours_is_the_first_choice(jax):
    assert jax.value(f"explain(lower({PROGRAM}, X))") == "scale: kiln_launch: first choice"
    assert jax.value(CALL.format(""))["target"] == "kiln_launch"


def test_without_our_library_jaxlibs_target_gets_the_ptx(without_own):
    call = without_own.value(CALL.format(", zeroed_outputs=(0,), name='named', serialized_metadata=b'meta'"))
    assert call["target"] == without_own.builtin and list(call) == ["target", "opaque", "aliases", "results"]
    message = without_own.value(f"message({call['opaque']!r})")
    assert message["kernel"][:4] == ["scale", 4, 1, 0] and ".target sm_90a" in message["kernel"][4] and message["kernel"][6] == 90
    assert message["grid"] == [1, 1, 1] and message["name"] == "named" and message["metadata"] == "meta"
    assert message["parameters"] == [["array", 0, 16], ["i32", 64], ["fp32", 2.0], ["array", 1024, 16]]
    assert without_own.value(f"explain(lower({PROGRAM}, X))").startswith(f"scale: {without_own.builtin}: not kiln_launch: this build of Kiln has no")


@pytest.mark.slow
def test_the_older_target_is_the_last_choice(other_jax):
    with other_jax(**NO_LIBRARY) as job:
        job.value("use_builtin_targets('triton_kernel_call')")
        assert job.value(CALL.format(""))["target"] == "triton_kernel_call"
        said = job.value(f"explain(lower({PROGRAM}, X))")
        assert said.endswith("not triton_kernel_call_ffi: jaxlib has no such target for cuda")


@pytest.mark.skipif(tuple(map(int, OLDEST.split("."))) >= (0, 10, 2), reason="no jaxlib with a bad target is wanted: tests/run --all")
def test_a_target_that_is_known_to_be_bad_is_passed_over(other_jax):
    with other_jax(OLDEST, **NO_LIBRARY) as job:
        job.value("use_builtin_targets('triton_kernel_call', 'triton_kernel_call_ffi')")
        assert job.value(CALL.format(""))["target"] == "triton_kernel_call"
        assert "before jaxlib 0.10.2" in job.value(f"explain(lower({PROGRAM}, X))")


@pytest.mark.slow
def test_a_jaxlib_without_an_ffi_is_said(other_jax):
    with other_jax() as job:
        job.value("use_builtin_targets('triton_kernel_call')")
        job.value("delattr(jax.ffi, 'register_ffi_type')")
        assert job.value(CALL.format(""))["target"] == "triton_kernel_call"
        assert "has no FFI with states" in job.value(f"explain(lower({PROGRAM}, X))")


@pytest.mark.slow
def test_where_nothing_can_launch_the_error_says_why_of_each(other_jax):
    with other_jax(**NO_LIBRARY) as job:
        said = job.error(CALL.format(""))
        assert said.startswith("ValueError: scale: nothing here can launch it: not kiln_launch: ")
        assert "not triton_kernel_call_ffi: " in said and "not triton_kernel_call: " in said


@pytest.mark.parametrize("call, obstacle", [
    ("lowered_call(kernels.described, jnp.ones((16, 32)), out=shape(16, 32), ROWS=16, COLUMNS=32)", "it gives a kernel no scratch memory"),
    ("lowered_call(kernels.copy, X, BLOCK=64, launch_pdl=True)", "it cannot express launch_pdl"),
    ("lowered_call(kernels.copy, X, BLOCK=64, launch_cooperative_grid=True)", "it cannot express launch_cooperative_grid"),
    ("lowered_call(kernels.copy, X, BLOCK=64, platform='rocm', capability='gfx942')", "jaxlib has no such target for rocm"),
    ("lowered_call(kernels.typed, 3, 0.5, 2.0, flag=True)", "it has no i8 values"),
    ("lowered_call(kernels.copy, X, BLOCK=64, grid=0)", "it cannot launch an empty grid"),
    ("lowered_call(kernels.add, X, X, n=4, BLOCK=4, out=[X, X], input_output_aliases={0: 0})", "it can leave out the last outputs alone"),
])
def test_jaxlibs_targets_are_not_given_what_they_cannot_express(without_own, call, obstacle):
    assert f"not {without_own.builtin}: {obstacle}" in without_own.error(call)


@pytest.mark.parametrize("option", ["launch_pdl", "launch_cooperative_grid"])
def test_ours_is_given_how_to_launch(jax, option):
    made = jax.value(f"lowered_call(kernels.copy, X, BLOCK=64, {option}=True)")
    assert made["target"] == "kiln_launch" and json.loads(made["metadata"])["metadata"][option] is True, made


def test_ours_leaves_out_any_outputs_and_jaxlibs_all_that_come_last(jax, without_own):
    call = "lowered_call(kernels.add, X, X, X, n=256, BLOCK=256, out=[X, X, X], input_output_aliases={0: 0, 1: 1, 2: 2})"
    assert jax.value(call)["target"] == "kiln_launch"
    made = without_own.value(call)
    assert made["target"] == without_own.builtin and made["aliases"] == {"0": 0, "1": 1, "2": 2}
    assert without_own.value(f"message({made['opaque']!r})")["parameters"] == [["array", 0, 16]] * 3 + [["i32", 256]]


@pytest.mark.slow
def test_the_call_and_the_environment_override_the_choice(jax, other_jax):
    jax.value("use_builtin_targets('triton_kernel_call', 'triton_kernel_call_ffi')")
    assert jax.value(CALL.format(f", launch_target={BUILTIN!r}"))["target"] == BUILTIN
    assert jax.value(f"explain(lower(lambda x: call(kernels.scale, x, 64, 2.0, BLOCK=64, launch_target={BUILTIN!r}), X))").endswith(": asked for")
    with other_jax(KILN_JAX_TARGET="triton_kernel_call") as job:
        job.value("use_builtin_targets('triton_kernel_call', 'triton_kernel_call_ffi')")
        assert job.value(CALL.format(""))["target"] == "triton_kernel_call"
        assert job.value(CALL.format(", launch_target='kiln_launch'"))["target"] == "kiln_launch"


def test_explain_has_a_line_for_each_call_and_none_for_other_custom_calls(jax):
    two = f"lambda x: jnp.linalg.cholesky(({PROGRAM})(({PROGRAM})(x)).reshape(16, 16))"
    assert jax.value(f"explain(lower({two}, X))").splitlines() == ["scale: kiln_launch: first choice"] * 2
    assert jax.value("explain(jax.jit(lambda x: x + 1).lower(X))") == ""


@pytest.mark.slow
def test_the_report_counts_calls_and_says_each_decision_once(other_jax):
    with other_jax() as job:
        assert job.value("report().calls") == {}
        job.value(f"[lower({PROGRAM}, X), lower({PROGRAM}, X), lower({PROGRAM}, shape(64))]")
        assert job.value("report().calls['kiln_launch']") >= 2 and job.value("report().decisions") == ["scale: kiln_launch: first choice"]
        assert "calls: " in job.value("str(report())")


@pytest.mark.slow
def test_the_target_is_registered_for_programs_from_elsewhere(jax, other_jax):
    jax.value("kiln.jax.register('cuda')")
    assert jax.value("[entry[0] for entry in __import__('jaxlib.xla_client').xla_client._custom_callback['CUDA']].count('kiln_launch')") == 1
    with other_jax(**NO_LIBRARY) as job:
        assert job.error("kiln.jax.register('cuda')").startswith("ValueError: kiln_launch cannot be registered with JAX: this build of Kiln has no")


@pytest.mark.slow
def test_importing_it_imports_neither_triton_nor_jax(other_jax):
    with other_jax() as job:
        script = "import sys, kiln.jax; print([name for name in ('jax', 'triton', 'google.protobuf') if name in sys.modules])"
        assert job.value(f"__import__('subprocess').check_output([sys.executable, '-c', {script!r}], text=True)") == "[]\n"


@pytest.mark.slow
def test_threads_that_lower_the_first_programs_register_the_target_once(other_jax):
    with other_jax() as job:
        job.value("names.update(registered=[], time=__import__('time'), futures=__import__('concurrent.futures').futures)")
        job.value("setattr(jax.ffi, 'register_ffi_target', lambda name, *_, **__: [time.sleep(0.2), registered.append(name)])")
        job.value("list(futures.ThreadPoolExecutor(4).map(kiln.jax.register, ['cuda'] * 4))")
        assert job.value("registered") == ["kiln_launch"]
