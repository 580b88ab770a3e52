"""kiln.jax.use_for: kernels of Transformer Engine take Kiln's target. A stand-in has its calling pattern."""

import pytest

from test_jax_runs import HANDLER, started

SORT = "te.primitive('sort_chunks', grid=(16, 1), BLOCK=64)"
PERMUTE = "te.primitive('permute', grid=16, aliases={2: 0}, BLOCK=64)"
NUMBERED = "te.primitive('number_rows', grid=(1,), aliases={0: 0, 1: 1}, BLOCK=16)"
TUNED = "te.primitive('tuned_chunks', grid=lambda meta: (16, triton.cdiv(meta['hidden'], meta['BLOCK'])), BLOCK=64)"
ARRAYS = "jnp.ones((16, 48)), jnp.arange(16)"


@pytest.fixture
def engine(other_jax):
    """Kernels are for the GPU that is here; none is."""
    with other_jax() as job:
        job.value("names.update(te=__import__('transformer_engine_stand_in'), triton=__import__('triton'))")
        job.value("setattr(__import__('kiln.jax._devices').jax._devices, '_of_device', lambda plan, platform: '9.0')")
        yield job


@pytest.mark.slow
def test_the_environment_alone_has_the_daemon_compile_its_kernels(other_daemon, other_jax):
    signature = {"x": "*fp32", "rows": "*i32", "out": "*fp32", **dict.fromkeys(("stride", "hidden", "BLOCK"), "constexpr")}
    with other_daemon, other_jax(root=other_daemon.root, TRITON_CACHE_MANAGER="kiln.triton:CacheManager") as job:
        job.value("names.update(te=__import__('transformer_engine_stand_in'))")
        made = job.value(f"te.compile_triton(te.sort_chunks, {signature}, dict(stride=48, hidden=48, BLOCK=64))")
        assert ".target sm_90a" in made and job.value("counted()") == {"compiled": 1, "found": 0, "local": 0}


def test_its_own_function_is_replaced_where_it_was_imported(engine):
    assert engine.error(f"calls({SORT}, {ARRAYS})").startswith("AssertionError: this is not Kiln's")
    engine.value("kiln.jax.use_for('transformer_engine')")
    engine.value("kiln.jax.use_for('transformer_engine')")  # once more changes nothing
    call, = engine.value(f"calls({SORT}, {ARRAYS})")
    assert (call["target"], call["name"], call["grid_x"], call["parameters"]) == ("kiln_launch", "sort_chunks", 16, "aaa4")


def test_multiplications_and_additions_are_not_fused_as_in_its_own_path(engine):
    engine.value("kiln.jax.use_for('transformer_engine')")
    for program in (SORT, TUNED):
        engine.value(f"calls({program}, {ARRAYS}) and None")
    fused = engine.value("[one.metadata['enable_fp_fusion'] for one in __import__('kiln.jax._compiled').jax._compiled._kernels.values()]")
    assert set(fused) == {False}


@pytest.mark.slow
def test_an_output_that_the_caller_has_zeroed_is_aliased(engine):
    engine.value("kiln.jax.use_for('transformer_engine')")
    call, = engine.value(f"calls({PERMUTE}, {ARRAYS}, jnp.zeros((16, 48)))")
    assert call["aliases"] == {"2": 0} and call["parameters"] == "aaaa4" and call["zeroed"] == "0"


@pytest.mark.slow
def test_an_output_for_which_the_kernel_has_no_parameter_is_written_in_its_inputs_buffer(running):
    with running("job") as job:
        began(job).value(f"names.update(numbered={NUMBERED}, rows=jnp.arange(16), sums=jnp.array([100]))")
        call, = job.value("calls(numbered, rows, sums)")
        assert call["parameters"] == "aa4" and call["aliases"] == {"0": 0, "1": 1} and len(call["results"]) == 2
        for program in ("numbered", "jax.jit(numbered)", "jax.jit(numbered, donate_argnums=(0, 1))"):
            assert job.value(f"[one[:2].tolist() for one in ({program})(rows + 0, sums + 0)]") == [[100, 101], [120]]
            assert job.value("[rows[:2].tolist(), sums.tolist()]") == [[0, 1], [100]]


@pytest.mark.slow
def test_an_autotuned_kernel_has_one_configuration_in_the_program(engine):
    engine.value("kiln.jax.use_for('transformer_engine')")
    call, = engine.value(f"calls({TUNED}, {ARRAYS})")
    assert call["target"] == "kiln_launch" and call["grid_y"] == 1
    assert "not tuned, the first configuration: BLOCK: 64" in engine.value(f"explain(lower({TUNED}, {ARRAYS}))")


@pytest.fixture
def running(make_jax, other_daemon, tmp_path):
    """Makes jobs that run its kernels on the stand-in driver, all with one daemon."""

    def make(name, **environment):
        (tmp_path / name).mkdir()
        return make_jax(tmp_path / name, other_daemon.root, **HANDLER, **environment)

    with other_daemon:
        yield make


def began(job):
    started(job).value("names.update(te=__import__('transformer_engine_stand_in'), triton=__import__('triton'))")
    job.value("setattr(__import__('kiln.jax._devices').jax._devices, '_of_device', lambda plan, platform: '9.0')")
    job.value("kiln.jax.use_for('transformer_engine')")
    job.value(f"names.update(run={TUNED}, x=jnp.arange(16. * 48).reshape(16, 48), rows=jnp.arange(16)[::-1])")
    return job


RUN = "bool(jnp.array_equal(run(x, rows), x[::-1]))"


@pytest.mark.slow
def test_its_kernels_are_tuned_and_later_processes_have_their_times(running):
    with running("first") as job:
        began(job)
        assert job.value(RUN) and "not tuned" in job.value("str(report())")  # a program is built for the call, and kept
        assert "BLOCK: 128" in job.value("str(kiln.jax.tune(run, x, rows))") and job.value("bool(x[1, 0] == 48)")
        assert "tuned: BLOCK: 128" in job.value("explain(jax.jit(run).lower(x, rows))")
    with running("second") as job:
        assert began(job).value(f"[{RUN}, bool(jnp.array_equal(jax.jit(run)(x, rows), x[::-1]))]") == [True, True]
        assert {name for name, _ in job.value("driver.seen()")} == {"sort_chunks_128"}


@pytest.mark.slow
def test_the_environment_tunes_its_calls_outside_of_programs(running):
    with running("job", KILN_JAX_TUNE="1") as job:
        assert began(job).value(RUN)
        assert {name for name, _ in job.value("driver.seen()")} == {"sort_chunks_64", "sort_chunks_128"}
        assert "BLOCK: 128" in job.value("report().tuned[0]")


@pytest.mark.slow
def test_options_of_a_later_version_are_handed_on_with_all_others(engine):
    engine.value("names.update(given=[])")
    engine.value("setattr(te.sys.modules[te.NAMES[3]], 'triton_call_lowering', lambda *_, **options: given.append(options))")
    engine.value("kiln.jax.use_for('transformer_engine')")
    ours = "te.sys.modules[te.NAMES[3]].triton_call_lowering"
    engine.value(f"{ours}(None, te.sort_chunks, grid=1, num_warps=8, num_stages=2, cluster=3)")
    assert engine.value("given") == [{"grid": 1, "input_output_aliases": None, "constexprs": None, "num_warps": 8, "num_stages": 2, "cluster": 3}]


def test_other_libraries_are_refused_and_a_missing_one_is_an_import_error(jax):
    assert jax.error("kiln.jax.use_for('flax')") == "ValueError: kiln.jax takes the kernels of transformer_engine, not of flax"
    assert jax.error("kiln.jax.use_for('transformer_engine')").startswith("ModuleNotFoundError")
