"""Kernels that kiln.jax compiles: the same as those of a PyTorch program, whatever decorators are around them."""

import json
import os

import pytest

from places import JAX_VERSIONS, TOOLCHAIN, VERSIONS

OTHER_TRITONS = [version for name, default in (("KILN_TEST_VERSIONS", "3.9.0"), ("KILN_TEST_PLUGIN_VERSIONS", "3.7.1 3.8.0"))
                 for version in os.environ.get(name, default).split() if not TOOLCHAIN.name.endswith(version)]

# A call from JAX, the same from PyTorch.
PAIRS = {
    "divisible by 16": ("kernels.add, X, X, n=256, BLOCK=128", "kernels.add, 'fp32', 'fp32', 'fp32', 256, BLOCK=128"),
    "not divisible": ("kernels.add, X, X, n=77, BLOCK=128", "kernels.add, 'fp32', 'fp32', 'fp32', 77, BLOCK=128"),
    "one": ("kernels.add, X, X, n=1, BLOCK=128", "kernels.add, 'fp32', 'fp32', 'fp32', 1, BLOCK=128"),
    "float": ("kernels.scale, X, 64, np.float32(0.5), BLOCK=64", "kernels.scale, 'fp32', 64, 0.5, 'fp32', BLOCK=64"),
    "None and a string": ("kernels.optional, X, None, mode='square', BLOCK=64", "kernels.optional, 'fp32', None, 'fp32', mode='square', BLOCK=64"),
    "a tuple": ("kernels.padded, X, PAD=(3, 0.5), BLOCK=64", "kernels.padded, 'fp32', 'fp32', PAD=(3, 0.5), BLOCK=64"),
    "options": ("kernels.copy, X, BLOCK=64, num_warps=8, num_stages=2, enable_fp_fusion=False, maxnreg=64",
                "kernels.copy, 'fp32', 'fp32', BLOCK=64, num_warps=8, num_stages=2, enable_fp_fusion=False, maxnreg=64"),
    "an fp8": ("kernels.copy, shape(64, dtype='float8_e5m2'), out=shape(64, dtype='float8_e5m2'), BLOCK=64",
               "kernels.copy, 'fp8e5', 'fp8e5', BLOCK=64"),
    "types by annotation": ("kernels.typed, 3, 0.5, 2.0, flag=True", "kernels.typed, 3, 0.5, 2.0, 'fp32', True"),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_hash_and_ptx_are_those_of_a_pytorch_program(jax, pair):
    here, there = PAIRS[pair]
    got, expected = jax.value(f"as_jax({here})"), jax.value(f"as_pytorch({there})")
    assert got == expected and ".target sm_90a" in got["ptx"]


@pytest.mark.slow
def test_one_compile_serves_a_pytorch_program_and_a_program_of_jax(other_daemon, other_jax):
    with other_daemon:
        with other_jax(root=other_daemon.root, folder="pytorch", TRITON_CACHE_MANAGER="kiln.triton:CacheManager") as job:
            job.value("as_pytorch(kernels.add, 'fp32', 'fp32', 'fp32', 200, BLOCK=64)")
            assert job.value("counted()") == {"compiled": 1, "found": 0, "local": 0}
        with other_jax(root=other_daemon.root, folder="jax") as job:
            job.value("as_jax(kernels.add, X, X, n=200, BLOCK=64)")
            assert job.value("counted()") == {"compiled": 0, "found": 1, "local": 0}


@pytest.mark.slow
def test_a_second_process_finds_a_kernel_before_it_lowers_it(other_daemon, other_jax):
    with other_daemon:
        for folder in ("first", "second"):
            with other_jax(root=other_daemon.root, folder=folder) as job:
                if folder == "second":
                    job.value("setattr(__import__('triton').compiler.compiler, 'ast_to_ttir', None)")
                assert job.value("lowered_call(kernels.copy, X, BLOCK=64)")["binary"].startswith("7f454c46")
                assert job.value("counted()")["found"] == (folder == "second")


@pytest.mark.slow
def test_a_second_process_refuses_an_entry_of_another_architecture_until_it_is_evicted(other_daemon, other_jax):
    with other_daemon as own:
        with other_jax(root=own.root, folder="first") as job:
            job.value("names.update(keys=[], groups=__import__('kiln._plugin.groups')._plugin.groups, client=kiln.Client())")
            job.value("setattr(groups.Groups, 'keep', lambda self, key, *more, keep=groups.Groups.keep: [keys.append(key), keep(self, key, *more)][1])")
            job.value("[lowered_call(kernels.copy, X, BLOCK=64, capability=one) for one in (80, 90)] and None")
            job.value("names.update(kept=[client.get_own(keys)[key] for key in keys])")
            job.value("client.put_own({keys[1]: {**kept[1], 'copy.cubin': kept[0]['copy.cubin']}})")
        with other_jax(root=own.root, folder="second") as job:
            said = job.error("lowered_call(kernels.copy, X, BLOCK=64)")
            assert said.startswith("ValueError: copy: it was compiled for 80, not for 90: ") and "'kiln evict KEY'" in said
        listed = [json.loads(line) for line in own.kiln("ls", "--json").out.splitlines()]
        assert own.kiln("evict", *(one["key"] for one in listed if "own_uid" in one)).code == 0
        with other_jax(root=own.root, folder="third") as job:
            assert job.value("lowered_call(kernels.copy, X, BLOCK=64)")["binary"].startswith("7f454c46")


@pytest.mark.slow
def test_without_a_daemon_triton_compiles(other_jax):
    with other_jax(root=None) as job:
        assert job.value("lowered_call(kernels.copy, X, BLOCK=64)")["binary"].startswith("7f454c46")
        assert job.value("counted()") == {"compiled": 0, "found": 0, "local": 1}


@pytest.mark.slow
@pytest.mark.parametrize("version", JAX_VERSIONS)
def test_every_supported_jax_lowers_for_both_vendors(other_jax, version):
    with other_jax(version) as job:
        assert job.value("jax.__version__") == version
        for platform, capability in (("cuda", 90), ("cuda", "8.0"), ("rocm", "gfx942")):
            call = job.value(f"lowered_call(kernels.add, X, X, n=200, BLOCK=128, platform={platform!r}, capability={capability!r})")
            assert call["binary"].startswith("7f454c46") and call["target"] == "kiln_launch"
            assert f'"target": "{"hip" if platform == "rocm" else "cuda"}:{str(capability).replace(".", "")}"' in call["metadata"]


@pytest.mark.slow
@pytest.mark.parametrize("version", OTHER_TRITONS)
def test_every_supported_triton_gives_the_kernels_of_a_pytorch_program(other_jax, version):
    with other_jax(root=None, toolchain=VERSIONS / f"triton-{version}") as job:
        assert job.value("__import__('triton').__version__") == version
        for capability in (80, 90):
            for here, there in (PAIRS["float"], ("kernels.tiled, described(64, 32), 2.0, ROWS=16, COLUMNS=32, out=described(64, 32)",
                                                 "kernels.tiled, described_in_pytorch(64, 32), 2.0, described_in_pytorch(64, 32), ROWS=16, COLUMNS=32")):
                got = job.value(f"as_jax({here}, capability={capability})")
                assert got == job.value(f"as_pytorch({there}, capability={capability})")
        call = job.value("lowered_call(kernels.tiled, described(64, 32, dtype='float32', round_f32_to_tf32=True), 2.0, ROWS=16, COLUMNS=32, "
                         "out=described(64, 32, dtype='float32'), capability=80)")
        assert call["target"] == "kiln_launch" and call["parameters"] == "d..........4d.........." and call["descriptors"][32:48] == "0100000000000000"
        assert "first configuration: BLOCK: 64" in job.value("explain(lower(lambda x: call(kernels.tuned, x, 256, 2.0), X))")


def test_a_kernel_that_the_daemon_has_is_found_without_files_of_triton(other_jax, tmp_path):
    calls = ["lowered_call(kernels.add, X, X, n=200, BLOCK=512, capability=90)",
             "lowered_call(kernels.add, X, X, n=200, BLOCK=512, platform='rocm', capability='gfx942')"]
    another = "lowered_call(kernels.scale, X, 256, 2.0, BLOCK=256)"
    with other_jax(folder="first") as job:
        *expected, _ = map(job.value, [*calls, another])
    with other_jax(folder="second") as job:
        assert list(map(job.value, calls)) == expected
        assert job.value(f"parses('scale', lambda: {another})") == 1, "Triton does, for its own key"
        assert job.value("kiln.report().hits") == {"own": 3}
    assert {".cubin", ".hsaco"} <= {path.suffix for path in (tmp_path / "first" / "triton").rglob("*.*")}
    assert not (tmp_path / "second" / "triton").exists(), "a folder was made for a kernel that was found"


# --- Decorators ------------------------------------------------------------------------------------------------------


def test_a_kernel_that_nobody_has_tuned_runs_its_first_configuration_and_says_so(jax):
    expression = "lower(lambda x: call(kernels.tuned, x, 256, 2.0, grid=lambda meta: 1024 // meta['BLOCK']), X)"
    assert jax.value(f"explain({expression})") == \
        "scale: kiln_launch: first choice; not tuned, the first configuration: BLOCK: 64, num_warps: 2, num_ctas: 1, num_stages: 3, maxnreg: None"
    assert jax.value("lowered_call(kernels.tuned, X, 256, 2.0, grid=lambda meta: 1024 // meta['BLOCK'])")["grid_x"] == 16


@pytest.mark.parametrize("kernel", ["tuned_outside", "tuned_inside"])
def test_heuristics_and_configurations_go_in_both_orders(jax, kernel):
    call = jax.value(f"lowered_call(kernels.{kernel}, X, 200, grid=lambda meta: 1024 // meta['BLOCK'])")
    assert call["grid_x"] == 16 and call["parameters"] == "a4a"


def test_a_metaparameter_chooses_among_the_configurations(jax):
    assert jax.value("lowered_call(kernels.tuned, X, 256, 2.0, BLOCK=128, grid=lambda meta: 1024 // meta['BLOCK'])")["grid_x"] == 8
    assert jax.value("lowered_call(kernels.tuned, X, 256, 2.0, num_warps=8, grid=lambda meta: 1024 // meta['BLOCK'])")["grid_x"] == 4


@pytest.mark.parametrize("kernel, grid", [("pruned", 8), ("modelled", 4), ("unpruned", 16)])
def test_the_programs_own_pruning_decides(jax, kernel, grid):
    assert jax.value(f"lowered_call(kernels.{kernel}, X, 256, 2.0, grid=lambda meta: 1024 // meta['BLOCK'])")["grid_x"] == grid


def test_an_output_that_tuning_resets_is_zeroed_or_aliased(jax):
    assert jax.value("lowered_call(kernels.summing, X, 10, zeroed_outputs=('out',))")["zeroed"] == "1"
    assert jax.value("lowered_call(kernels.summing, X, 10, input_output_aliases={0: 0})")["aliases"] == {"0": 0}


@pytest.mark.parametrize("change, undo", [
    ("os.environ.update(TRITON_DEFAULT_FP_FUSION='0')", "os.environ.pop('TRITON_DEFAULT_FP_FUSION')"),
    ("setattr(sys.modules['triton'].knobs.runtime, 'debug', True)", "setattr(sys.modules['triton'].knobs.runtime, 'debug', False)")
], ids=["the environment", "a setting of Triton"])
def test_a_call_is_specialized_again_only_where_something_has_changed(jax, change, undo):
    again = "specializations(lambda: lowered_call(kernels.copy, X, BLOCK=32))"
    jax.value(again)
    assert jax.value(again) == 0
    jax.value(f"[{change}] and None")
    try:
        assert (jax.value(again), jax.value(again)) == (1, 0)
    finally:
        jax.value(f"[{undo}] and None")


def test_equal_tuples_of_different_members_are_different_arguments(jax):
    jax.value("names.update(before=sum(counted().values()))")
    jax.value("calls(lambda x: [call(kernels.padded, x, PAD=(3, one), BLOCK=64) for one in (1, 1.0, True)], X) and None")
    assert jax.value("sum(counted().values()) - before") == 3


def test_one_and_true_are_different_arguments(jax):
    kinds = jax.value("[one['parameters'] for one in calls(lambda x: [call(kernels.count, x, one, BLOCK=256) for one in (1, True, 1.0)], X)]")
    assert sorted(kinds) == ["a1a", "a4a", "aa"]
