"""Programs of JAX that run their kernels, on the host over the stand-in driver; and tuning ahead of them."""

import pytest

from places import BINARIES, JAX_VERSIONS

FOLDER = BINARIES.parent / "tests" / "testing"
HANDLER = {"KILN_JAX_LIBRARY": str(FOLDER / "libkiln_jax_on_host.so")}
SCALE = "(lambda x: call(kernels.scale, x, 256, 2.0, BLOCK=256))"
COUNT = "(lambda x, zeroed=(0,): call(kernels.count, x, 10, BLOCK=256, zeroed_outputs=zeroed))"
DOUBLED = "(lambda x: call(kernels.doubled, x, 256, grid=lambda meta: 256 // meta['BLOCK']))"
ADDED = "(lambda x, sums: call(kernels.added, x, sums, 256, grid=lambda meta: 256 // meta['BLOCK'], input_output_aliases={1: 0}))"


def started(job):
    job.value(f"use_stand_in({str(FOLDER)!r})")
    return job


@pytest.fixture(scope="module")
def daemon(first_daemon, tmp_path_factory):
    """One of this module's own: tunings of other jobs would change what is measured."""
    with first_daemon.beside(tmp_path_factory.mktemp("kiln")) as running:
        yield running


@pytest.fixture(scope="module")
def running(daemon, tmp_path_factory, make_jax):
    with make_jax(tmp_path_factory.mktemp("runs"), daemon.root, **HANDLER) as job:
        yield started(job)


# --- Programs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [
    f"{SCALE}(X)", f"jax.jit({SCALE})(X)", f"jax.jit({SCALE}).lower(X).compile()(X)",
    f"jax.jit(lambda x: jax.lax.scan(lambda carry, _: ({SCALE}(carry), None), x, None, length=3)[0])(X / 4)",
    f"jax.jit(lambda x: jax.lax.cond(x[1] > 0, {SCALE}, lambda x: x, x))(X)",
    f"jax.jit(jax.shard_map({SCALE}, mesh=jax.make_mesh((1,), ('d',), (jax.sharding.AxisType.Auto,)), in_specs=jax.P('d'), out_specs=jax.P('d'), check_vma=False))(X)",
])
def test_a_kernel_runs_within(running, program):
    assert running.value(f"first({program})") == [[0.0, 2.0]]


def test_outputs_are_zeroed_before_each_launch(running):
    running.value(f"names.update(counting=jax.jit({COUNT}))")
    assert running.value("[first(counting(X)) for _ in range(3)]") == [[[10.0, 11.0]]] * 3


def test_an_aliased_input_that_is_still_needed_is_copied_first(running):
    alias = "lambda x: call(kernels.count, x, 10, BLOCK=256, input_output_aliases={0: 0})"
    assert running.value(f"first(jax.jit(lambda x: (x, ({alias})(x)))(X))") == [[0.0, 1.0], [10.0, 12.0]]
    assert running.value(f"first(jax.jit({alias}, donate_argnums=0)(X + 0))") == [[10.0, 12.0]]
    assert running.value("first(X)") == [[0.0, 1.0]]


ACCUMULATE = "(lambda x, sums: call(kernels.accumulate, x, sums, 256, BLOCK=256, out=()))"


@pytest.mark.parametrize("program", [
    f"{ACCUMULATE}(X, held)", f"jax.jit({ACCUMULATE})(X, held)", f"jax.jit(lambda x: {ACCUMULATE}(x, held))(X)",
    "call(kernels.accumulate, sums=held, x=X, n=256, BLOCK=256, out=())",
])
def test_what_a_kernel_writes_to_a_reference_is_there_afterwards(running, program):
    running.value("names.update(held=jax.new_ref(X * 10))")
    assert running.value(f"[{program}, first(held[...])]") == [[], [[0.0, 11.0]]]
    assert running.value("first(X)") == [[0.0, 1.0]]


def test_a_reference_within_scan_and_beside_an_output(running):
    running.value("names.update(held=jax.new_ref(X * 10))")
    scan = f"jax.lax.scan(lambda carry, _: ({ACCUMULATE}(X, held), None)[1:] * 2, None, None, length=3)"
    running.value(f"jax.jit(lambda: {scan} and None)()")
    assert running.value("first(held[...])") == [[0.0, 13.0]]
    added = "call(kernels.added, X, held, 256, grid=lambda meta: 256 // meta['BLOCK'], num_warps=2)"
    assert running.value(f"first([{added}, held[...]])") == [[0.0, 14.0], [0.0, 14.0]]


@pytest.mark.parametrize("program", ["{}(X)", "jax.jit({})(X)"])
def test_a_call_with_a_side_effect_alone_runs(running, program):
    call = "(lambda x: call(kernels.accumulate, x, x, 0, BLOCK=256, out=(), has_side_effect=True))"
    before = running.value("driver.launches()")
    running.value(f"jax.block_until_ready({program.format(call)}) and None")
    running.value("jax.effects_barrier()")
    assert running.value("driver.launches()") == before + 1


def test_a_call_outside_jit_is_built_once(running):
    running.value("names.update(before=report().calls['kiln_launch'])")
    running.value("[call(kernels.scale, X, 256, 4.0, BLOCK=256, grid=lambda meta: (1,)) for _ in range(5)] and None")
    assert running.value("report().calls['kiln_launch'] - before") == 1


TILED = ("(lambda x: call(kernels.tiled_by_rows, described(base=x, block=lambda meta: (meta['ROWS'], 32)), 2.0, "
         "out=described(base=shape(8, 32), block=lambda meta: (meta['ROWS'], 32))))")


def test_a_tensor_map_leads_to_where_xla_has_put_the_array(running):
    running.value(f"names.update(tiled=jax.jit({TILED}), tiles=[X.reshape(8, 32) + number for number in range(5)])")
    assert running.value("[tiled(tile)[0, :2].tolist() for tile in tiles * 2]") == [[2.0 * n, 2.0 * n + 2] for n in range(5)] * 2


def test_a_block_may_depend_on_the_configuration(running):
    running.value("driver.seen()")
    tuned = running.value(f"str(kiln.jax.tune({TILED}, X.reshape(8, 32))[0])")
    assert "ROWS: 16" in tuned and "the fastest of 3" in tuned
    assert {name for name, _ in running.value("driver.seen()")} == {"tiled_8", "tiled_16", "tiled_32"}
    running.value("jax.clear_caches()")
    assert running.value(f"first(jax.jit({TILED})(X.reshape(8, 32))[0])") == [[0.0, 2.0]]
    assert [name for name, _ in running.value("driver.seen()")] == ["tiled_16"]


DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


@pytest.mark.slow
@pytest.mark.parametrize("version", JAX_VERSIONS)
def test_a_gradient_within_shard_map_is_each_devices_own(other_jax, version):
    with other_jax(version, root=None, **HANDLER, **DEVICES) as job:
        started(job)
        vjp = f"(lambda f: (f.defvjp(lambda x: (f(x), x), lambda x, g: (2 * g + 0 * x,)), f)[1])(jax.custom_vjp({SCALE}))"
        sharded = f"jax.shard_map(lambda x, t: {vjp}(x) * t, mesh=jax.make_mesh((2,), ('d',), (jax.sharding.AxisType.Auto,)), in_specs=(jax.P('d'), jax.P('d')), out_specs=jax.P('d'))"
        gradient = f"jax.grad(lambda x, t: ({sharded})(x, t).sum())(jnp.arange(512.), jnp.repeat(jnp.array([1., 30.]), 256))"
        assert job.value(f"{gradient}[jnp.array([0, 255, 256, 511])].tolist()") == [2.0, 2.0, 60.0, 60.0]


SERIALIZE = "__import__('jax.experimental.serialize_executable').experimental.serialize_executable"
PICKLE = "__import__('pickle')"
EXPORTED = f"jax.export.export(jax.jit({SCALE}), disabled_checks=[jax.export.DisabledSafetyCheck.custom_call('kiln_launch')])(X)"


@pytest.mark.slow
@pytest.mark.parametrize("written, read", [
    (f"{PICKLE}.dumps({SERIALIZE}.serialize(jax.jit({SCALE}).lower(X).compile()))", f"{SERIALIZE}.deserialize_and_load(*{PICKLE}.loads(PROGRAM))"),
    (f"{PICKLE}.dumps(dataclasses.replace({EXPORTED}, _get_vjp=None))", f"{PICKLE}.loads(PROGRAM).call")
], ids=["serialized", "exported"])
def test_a_program_is_written_and_runs_in_another_process(other_jax, tmp_path, written, read):
    path = f"__import__('pathlib').Path({str(tmp_path / 'program')!r})"
    with other_jax(root=None, folder="first", **HANDLER) as job:
        started(job).value(f"{path}.write_bytes({written})")
    with other_jax(root=None, folder="second", **HANDLER) as job:
        started(job).value("kiln.jax.register('cpu')")
        loaded = read.replace("PROGRAM", f"{path}.read_bytes()")
        assert job.value(f"[first({loaded}(X)), driver.launches(), report().calls]") == [[[0.0, 2.0]], 1, {}]


@pytest.mark.slow
def test_a_pmap_runs_the_kernel_on_each_device(other_jax):
    with other_jax(root=None, **HANDLER, **DEVICES) as job:
        started(job)
        assert job.value(f"jax.pmap({SCALE})(jnp.stack([X, X + 1]))[:, :2].tolist()") == [[0.0, 2.0], [2.0, 4.0]]
        assert job.value("driver.launches()") == 2


def test_calls_outside_jit_look_for_times_once(running):
    running.value("names.update(tuning=__import__('kiln.jax._tuning').jax._tuning, looks=[])")
    running.value("setattr(tuning, '_known', lambda *given, known=tuning._known: [looks.append(1), known(*given)][1])")
    halved = DOUBLED.replace("256,", "128,")
    running.value(f"first({halved}(X)) and names.update(before=len(looks))")
    assert running.value("before") > 0
    assert running.value(f"[first({halved}(X)) for _ in range(5)] and len(looks) - before") == 0
    running.value(f"kiln.jax.tune({halved}, X) and driver.seen() and None")
    assert running.value(f"first({halved}(X)) and driver.seen()")[-1][0] == "doubled_128"


# --- Tuning ----------------------------------------------------------------------------------------------------------


def test_the_largest_configuration_is_lowered_first_and_answers_wait_for_the_others(other_daemon, other_jax):
    with other_daemon as own, other_jax(root=own.root, **HANDLER) as job:
        names = [f"tiled_{rows}" for rows in (32, 16, 8)]
        order = started(job).value(f"order_of_work(lambda: kiln.jax.tune({TILED}, X.reshape(8, 32)))")
        assert order[:3] == [f"lower {name}" for name in names], "the user's order is the other one"
        assert sorted(order[3:]) == sorted(f"take {name}" for name in names)


def test_tune_finds_the_fastest_and_later_programs_have_it(other_daemon, other_jax):
    with other_daemon:
        with other_jax(root=other_daemon.root, **HANDLER) as job:
            started(job)
            assert "not tuned, the first configuration: BLOCK: 64" in job.value(f"explain(jax.jit({DOUBLED}).lower(X))")
            tuning, = job.value(f"[str(one) for one in kiln.jax.tune({DOUBLED}, X)]")
            assert tuning.startswith("doubled: BLOCK: 128,") and tuning.endswith("1 ms, the fastest of 3 (3 measured)")
            assert job.value("counted()") == {"compiled": 3, "found": 0, "local": 0}
            assert job.value("report().tuned") == [tuning] and tuning in job.value("str(report())")
            assert "; tuned: BLOCK: 128" in job.value(f"explain(jax.jit(lambda x: {DOUBLED}(x)).lower(X))")
            job.value("driver.seen() and None")
            assert job.value(f"first(jax.jit(lambda x: {DOUBLED}(x) + 1)(X))") == [[1.0, 3.0]]
            assert [name for name, _ in job.value("driver.seen()")] == ["doubled_128"]
        with other_jax(root=other_daemon.root, folder="later", **HANDLER) as job:
            started(job)
            assert "; tuned: BLOCK: 128" in job.value(f"explain(jax.jit({DOUBLED}).lower(X))")
            assert job.value(f"kiln.jax.tune({DOUBLED}, X)[0].measured") == 0
            assert {name for name, _ in job.value("driver.seen()")} == {"doubled_128"}
        for variable in ("KILN_TUNINGS", "KILN_MODE"):
            with other_jax(root=other_daemon.root, folder=variable, **{variable: "off"}, **HANDLER) as job:
                told = started(job).value(f"explain(jax.jit({DOUBLED}).lower(X))")
                assert f"; times are not looked for ({variable}=off), the first configuration: BLOCK: 64" in told


@pytest.mark.slow
def test_a_job_that_is_recorded_or_renews_takes_kept_times_where_it_measures_nothing(daemon, other_daemon, other_jax, tmp_path):
    path, explained = tmp_path / "manifest.jsonl", f"explain(jax.jit({DOUBLED}).lower(X))"
    with other_jax(folder="tuned", **HANDLER) as job:
        started(job).value(f"kiln.jax.tune({DOUBLED}, X) and None")
    with other_jax(folder="recorded", KILN_MODE="record", KILN_MANIFEST=str(path), **HANDLER) as job:
        assert "; tuned: BLOCK: 128" in started(job).value(explained)
    with other_jax(folder="renewed", KILN_TUNINGS="renew", **HANDLER) as job:
        assert "; tuned: BLOCK: 128" in started(job).value(explained)
        assert job.value(f"kiln.jax.tune({DOUBLED}, X)[0].measured") == 3
    with other_daemon as own:
        assert own.kiln("warm", path).code == 0
        with other_jax(root=own.root, folder="warmed", **HANDLER) as job:
            assert "; tuned: BLOCK: 128" in started(job).value(explained)
            assert job.value("counted()") == {"compiled": 0, "found": 1, "local": 0}
    with other_jax(root=None, folder="alone", KILN_MODE="record", KILN_MANIFEST=str(path), **HANDLER) as job:
        assert "; not tuned, the first configuration: BLOCK: 64" in started(job).value(explained)


@pytest.mark.slow
def test_a_node_that_was_warmed_has_the_times_of_the_job_that_was_recorded(daemon, other_daemon, other_jax, tmp_path):
    path = tmp_path / "manifest.jsonl"
    with other_jax(folder="recorded", KILN_MODE="record", KILN_MANIFEST=str(path), **HANDLER) as job:
        assert started(job).value(f"kiln.jax.tune({DOUBLED}, X)[0].measured") == 3
    with other_daemon as own:
        assert own.kiln("warm", path).code == 0
        with other_jax(root=own.root, folder="warmed", **HANDLER) as job:
            assert "; tuned: BLOCK: 128" in started(job).value(f"explain(jax.jit({DOUBLED}).lower(X))")
            assert job.value(f"kiln.jax.tune({DOUBLED}, X)[0].measured") == 0
            assert job.value("counted()")["compiled"] == 0


@pytest.mark.parametrize("kernel, before", [("added", 5.0), ("added_to_zero", 0.0)])
def test_each_run_finds_the_same_contents_and_the_callers_arrays_stay(running, kernel, before):
    running.value("names.update(sums=X * 0 + 5)")
    running.value("driver.seen() and None")
    assert running.value(f"kiln.jax.tune({ADDED.replace('added', kernel)}, X, sums)[0].measured") == 3
    *measured, last = running.value("driver.seen()")
    assert {name for name, _ in measured} == {"added_64", "added_128", "added_256"}
    assert all(found[:2] == [[0.0, 1.0], [before, before]] for _, found in measured)
    assert last[1][:2] == [[0.0, 1.0], [5.0, 5.0]]
    assert running.value("first([X, sums])") == [[0.0, 1.0], [5.0, 5.0]]


def test_an_input_that_runs_write_is_restored_before_each(running):
    running.value("driver.seen() and None")
    restored = ADDED.replace("added", "added_restored").replace(", input_output_aliases={1: 0}", "")
    assert running.value(f"kiln.jax.tune({restored}, X, X * 0 + 5)[0].measured") == 3
    found = running.value("driver.seen()")
    assert len(found) > 6 and all(arguments[:2] == [[0.0, 1.0], [5.0, 5.0]] for _, arguments in found)


def test_within_shard_map_nothing_is_measured(running):
    mapped = (f"jax.shard_map({DOUBLED}, mesh=jax.make_mesh((1,), ('d',), (jax.sharding.AxisType.Auto,)), in_specs=jax.P('d'), "
              "out_specs=jax.P('d'), check_vma=False)")
    running.value("driver.seen() and None")
    assert running.value(f"[kiln.jax.tune({mapped}, X), len(driver.seen())]") == [[], 1]


@pytest.mark.slow
def test_a_configuration_that_does_not_run_is_left_out(other_jax):
    with other_jax(root=None, **HANDLER) as job:
        started(job)
        job.value("driver.define('doubled_128', 'aiaa', lambda *_: None)")  # other parameters than the binary's
        tuning, = job.value(f"[str(one) for one in kiln.jax.tune({DOUBLED}, X)]")
        assert tuning.startswith("doubled: BLOCK: 256,") and "of 2 (2 measured)" in tuning
        assert job.value("counted()") == {"compiled": 0, "found": 0, "local": 3}
        assert job.log.count("kiln: doubled: left out: BLOCK: 128, ") == 1
        tuning, = job.value(f"[str(one) for one in kiln.jax.tune({DOUBLED}, X)]")
        assert tuning.startswith("doubled: BLOCK: 256,") and "of 2 (0 measured)" in tuning
        assert job.log.count("left out") == 1
        assert "; tuned, 2 of 3 configurations: BLOCK: 256" in job.value(f"explain(jax.jit({DOUBLED}).lower(X))")


@pytest.mark.slow
def test_a_configuration_that_does_not_compile_is_left_out_and_its_reason_is_logged(other_jax):
    with other_jax(root=None, **HANDLER) as job:
        started(job)
        job.value("names.update(compiled=__import__('kiln.jax._compiled').jax._compiled)")
        job.value("setattr(compiled, '_compile', lambda wanted, stock=compiled._compile: "
                  "raising(ValueError('too large'))() if 64 in wanted.source.constants.values() else stock(wanted))")
        assert "of 2 (2 measured)" in job.value(f"str(kiln.jax.tune({DOUBLED}, X)[0])")
        assert job.log.count("kiln: doubled: left out: BLOCK: 64, ") == 1 and "maxnreg: None: too large" in job.log


@pytest.mark.slow
@pytest.mark.parametrize("function", [f"kiln.jax.tune({DOUBLED}, X)", f"{DOUBLED}(X)"])
def test_a_kernel_that_require_misses_is_an_error_of_the_tuning(other_daemon, other_jax, function):
    with other_daemon as own:
        with other_jax(root=own.root, folder="first", **HANDLER) as job:
            started(job).value(f"explain(jax.jit({DOUBLED}).lower(X))")  # one of the configurations
        with other_jax(root=own.root, KILN_MODE="require", KILN_JAX_TUNE="1", **HANDLER) as job:
            assert started(job).error(function).startswith("CacheMissError: ")
            assert "left out" not in job.log


@pytest.mark.slow
def test_a_configuration_that_does_not_run_is_no_error_where_another_process_tuned_the_others(other_daemon, other_jax):
    with other_daemon:
        for folder, measured in (("first", 2), ("second", 0)):
            with other_jax(root=other_daemon.root, folder=folder, **HANDLER) as job:
                started(job)
                job.value("driver.define('doubled_128', 'aiaa', lambda *_: None)")
                assert job.value(f"kiln.jax.tune({DOUBLED}, X)[0].measured") == measured


@pytest.mark.slow
def test_a_configuration_whose_grid_no_gpu_takes_is_left_out(other_jax):
    with other_jax(root=None, **HANDLER) as job:
        started(job)
        high = DOUBLED.replace("grid=lambda meta: 256 // meta['BLOCK']", "grid=lambda meta: (1, 65536 if meta['BLOCK'] == 128 else 1)")
        assert job.value(f"str(kiln.jax.tune({high}, X)[0])").startswith("doubled: BLOCK: 256,")


@pytest.mark.slow
def test_where_no_configuration_runs_tune_says_so_and_a_call_that_tunes_by_itself_goes_on(other_jax):
    with other_jax(root=None, KILN_JAX_TUNE="1", **HANDLER) as job:
        started(job)
        job.value("setattr(__import__('kiln.jax._measurement').jax._measurement, '_opened', raising(kiln.errors.LaunchError('it needs more than the device has')))")
        assert job.error(f"kiln.jax.tune({DOUBLED}, X)").startswith("LaunchError")
        assert job.value(f"first({DOUBLED}(X))") == [[0.0, 2.0]]
        assert "kiln: doubled: not tuned: " in job.log


@pytest.mark.slow
def test_a_kernel_whose_device_tells_no_driver_is_tuned_for_this_process(other_jax):
    with other_jax(root=None, **HANDLER) as job:
        started(job)
        job.value("setattr(__import__('kiln.jax._devices').jax._devices, 'model', raising(OSError('no driver')))")
        assert "not tuned" in job.value(f"explain(jax.jit({DOUBLED}).lower(X))")
        assert job.value(f"kiln.jax.tune({DOUBLED}, X)[0].measured") == 3
        assert "; tuned: BLOCK: 128" in job.value(f"explain(jax.jit(lambda x: {DOUBLED}(x)).lower(X))")


@pytest.mark.slow
@pytest.mark.parametrize("change", [
    "sys.modules['os'].environ.update(DISABLE_LLVM_OPT='1')",
    "setattr(sys.modules['triton'].knobs.runtime, 'add_stages_inspection_hook', lambda *given: None if given else ('', ''))"
], ids=["a switch", "a hook"])
def test_times_of_kernels_that_something_else_may_change_are_of_this_process_alone(daemon, other_jax, change):
    are_alone = "[key.startswith(b'here: ') for key in __import__('kiln.jax._tuning').jax._tuning._times]"
    with other_jax(**HANDLER) as job:
        started(job)
        job.value(f"[explain(jax.jit({SCALE}).lower(X)), {change}] and None")
        assert job.value(f"kiln.jax.tune({DOUBLED}, X)[0].measured") == 3
        assert job.value(are_alone) == [True] * 3


@pytest.mark.slow
def test_the_environment_has_calls_outside_jit_tune(other_jax):
    with other_jax(root=None, KILN_JAX_TUNE="1", **HANDLER) as job:
        started(job)
        assert job.value(f"first({DOUBLED}(X))") == [[0.0, 2.0]]
        assert job.value("driver.seen()")[-1][0] == "doubled_128"
        assert "; tuned: BLOCK: 128" in job.value(f"explain(jax.jit({DOUBLED}).lower(X))")


@pytest.mark.slow
@pytest.mark.parametrize("function", [
    f"jax.checkpoint({DOUBLED})", f"jax.jit(jax.checkpoint({DOUBLED}))",
    f"(lambda f: (f.def_vmap(lambda *_: None), f)[1])(jax.custom_batching.custom_vmap({DOUBLED}))"
])
def test_a_kernel_within_a_transformation_is_tuned(other_jax, function):
    with other_jax(root=None, **HANDLER) as job:
        started(job)
        assert job.value(f"[one.measured for one in kiln.jax.tune({function}, X)]") == [3]


@pytest.mark.slow
def test_a_program_made_anew_of_the_same_function_is_tuned_once_the_caches_are_clear(other_jax):
    with other_jax(root=None, **HANDLER) as job:
        started(job)
        job.value(f"names.update(program={DOUBLED}) or first(jax.jit(program)(X)) and kiln.jax.tune(program, X) and driver.seen() and None")
        assert job.value("first(jax.jit(program)(X)) and driver.seen()")[-1][0] == "doubled_64"
        job.value("jax.clear_caches()")
        assert job.value("first(jax.jit(program)(X)) and driver.seen()")[-1][0] == "doubled_128"


@pytest.mark.slow
def test_a_kernel_without_arrays_is_tuned(other_jax):
    with other_jax(root=None, **HANDLER) as job:
        started(job)
        filled = "(lambda: call(kernels.filled, 256, grid=lambda meta: 256 // meta['BLOCK']))"
        assert job.value(f"str(kiln.jax.tune({filled})[0])").startswith("filled: BLOCK: 128,")
        assert job.value(f"first({filled}())") == [[256.0, 256.0]]
        assert job.value("driver.seen()")[-1][0] == "filled_128"


@pytest.mark.slow
def test_shapes_and_grids_that_no_key_names_share_a_tuning(other_jax):
    with other_jax(root=None, **HANDLER) as job:
        started(job)
        larger = "(lambda x: call(kernels.doubled, x, 256, out=shape(512), grid=lambda meta: 512 // meta['BLOCK']))"
        assert job.value(f"kiln.jax.tune({DOUBLED}, X)[0].measured") == 3
        assert "; tuned: BLOCK: 128" in job.value(f"explain(jax.jit({larger}).lower(shape(512)))")
        assert "not tuned" in job.value(f"explain(jax.jit({DOUBLED.replace('256,', '512,')}).lower(X))")


@pytest.mark.slow
def test_kernels_within_scan_and_custom_vjp_are_tuned_too(other_jax):
    with other_jax(root=None, **HANDLER) as job:
        started(job)
        scanned = f"lambda x: jax.lax.scan(lambda carry, _: ({DOUBLED}(carry), None), x, None, length=2)[0]"
        assert len(job.value(f"[str(one) for one in kiln.jax.tune(jax.jit({scanned}), X)]")) == 1
        vjp = f"(lambda f: (f.defvjp(lambda x: (f(x), None), lambda _, g: ({DOUBLED.replace('256,', '192,')}(g),)), f)[1])(jax.custom_vjp({DOUBLED}))"
        assert len(job.value(f"[str(one) for one in kiln.jax.tune(jax.grad(lambda x: {vjp}(x).sum()), X)]")) == 2
