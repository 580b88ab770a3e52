"""Tunings of Triton's Autotuner: a second process picks the configuration that the first one measured, and measures nothing itself.

Without a GPU: Triton's own benchmark on a stand-in driver, whose launches always take the same time.
"""

import functools
import json
import os
import subprocess

import pytest

import stand_in_libcuda
from job import Job, package_environment
from places import ROOT
from test_plugin import BETWEEN, HOOKED, daemon, forget_own, newest, programs, python_of  # noqa: F401

pytestmark = pytest.mark.one_case

TUNED_JOB = ROOT / "tests" / "testing" / "jobs" / "tuned_job.py"
# What keeps its own times.
OF_ITS_OWN = ("another global", "another constant of the caller's", "another type", "another size", "a larger key", "another key", "other registers",
              "another way of measuring", "reset_to_zero", "another model", "a part of the device", "another driver")
# What is measured by each process.
MEASURED = ("a pre_hook", "a post_hook", "configurations with a hook", "a benchmark of the program's", "another benchmark in Triton's place", "another method in Triton's place",
            "an object in the place of run", "a hook of the program's", "a listener", "a launch hook", "other stages", "heuristics", "a tuner of the program's",
            "cache_results", "an object in the key", "a switch", "no driver's version")
SHARED_LOWERING_JOB = ROOT / "tests" / "testing" / "jobs" / "shared_lowering_job.py"
# How often each is lowered for its configurations.
ONCE = ("asks_nothing", "has_a_loop_and_a_product", "multiplies_nothing", "leaves_the_rest_to_later_stages", "warns")
TWICE = ("asks_for_warps", "asks_in_a_helper", "asks_for_threads", "asks_for_warps_of_amd", "adds_integers", "multiplies_floats", "asserts")
# What is noted of options, by the way of asking. A text: why it is refused, so that Triton lowers by itself.
WARPS, ALL = {"num_warps": "8"}, {"num_warps": "8", "num_stages": "3"}
NOT_COPIED = "options that note what they are asked are not copied"
ASKED = {
    "nothing": {}, "an attribute": WARPS, "what is not there": {"num_ctas": ""}, "a property": WARPS, "all of them": ALL, "a dictionary": ALL,
    "a hash": ALL, "equality": ALL, "one with a change": WARPS, "a copy": NOT_COPIED, "a deep copy": NOT_COPIED, "another of its type": NOT_COPIED
}
SPOILED = ("damaged", "of another form", "another file", "not a number", "infinite", "negative", "too few", "not text", "nested")
SAID = ("measured", "best", "times", "done", "hook_calls", "error")


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    """By what is not as usual, the variables for a driver."""
    folder = tmp_path_factory.mktemp("drivers")
    return {"another driver": stand_in_libcuda.make(folder / "other", 13010), "no driver's version": stand_in_libcuda.make(folder / "silent", result=3),
            None: stand_in_libcuda.make(folder / "usual")}


@pytest.fixture(scope="module")
def tune(tmp_path_factory, drivers):
    """Runs a process that tunes. Without Kiln each process says the same, so one runs for all tests."""
    tuned = functools.partial(_tune, tmp_path_factory.mktemp("tuned"))  # one folder, since the kernel's path decides its times
    stock = functools.cache(tuned)

    def run(python, root, what="nothing", *blocks, **more):
        return (stock if root is None else tuned)(python, root, what, *blocks, **drivers.get(what, drivers[None]), **more)

    return run


def _tune(folder, python, root, what, *blocks, **environment):
    """What a process says of its tuning. `said`: of that, what must not depend on Kiln."""
    cache = folder / f"cache-{len(list(folder.iterdir()))}"
    cache.mkdir()
    environment = Job(folder, python, root, cache.name, **environment).environment
    done = subprocess.run([python, "-B", TUNED_JOB, folder, what, *map(str, blocks)], env=environment, capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    return {**told, "said": {name: told.get(name) for name in SAID}, "log": done.stderr}


@pytest.fixture
def empty(daemon):
    forget_own(daemon)
    return daemon


@pytest.fixture(scope="module")
def with_usual(daemon, newest, tune):
    """A daemon that keeps the times of the usual tuning. For tests one after the other that make no others of it."""
    forget_own(daemon)
    tune(newest, daemon.root)
    return daemon


@pytest.mark.parametrize("version", sorted({HOOKED[0], HOOKED[-1]}))
def test_a_second_process_measures_nothing(empty, version, tune):
    stock, first, second = (tune(python_of(version), root) for root in (None, empty.root, empty.root))
    assert first["said"] == stock["said"] and stock["measured"] == 4
    assert (first["report"]["timings_found"], second["report"]["timings_found"]) == (0, 4)
    assert (second["measured"], second["compiled"]) == (0, 1), "it needs the fastest alone"
    assert (second["best"], second["times"]) == (stock["best"], stock["times"])
    assert "4 timings found" in second["line"] and "timing" not in first["line"]


def test_what_another_process_measured_decides(empty, newest, tune):
    favoured = tune(newest, empty.root, "favour the slowest")["favoured"]
    assert tune(newest, empty.root)["best"] == favoured != tune(newest, None)["best"]


@pytest.mark.slow
def test_only_new_configurations_are_measured(empty, newest, tune):
    tune(newest, empty.root, "nothing", 64)
    stock, more = tune(newest, None), tune(newest, empty.root)
    assert (more["measured"], more["report"]["timings_found"]) == (2, 2)
    assert (more["best"], more["times"]) == (stock["best"], stock["times"])
    fewer = tune(newest, empty.root, "nothing", 128)
    assert (fewer["measured"], fewer["report"]["timings_found"]) == (0, 2)


@pytest.mark.parametrize("what", OF_ITS_OWN)
def test_what_decides_the_times_is_in_the_key(with_usual, newest, tune, what):
    stock, other, again = (tune(newest, root, what) for root in (None, with_usual.root, with_usual.root))
    assert other["said"] == stock["said"] and other["measured"] == 4 and other["report"]["timings_found"] == 0
    assert (again["measured"], again["best"], again["times"]) == (0, stock["best"], stock["times"])


@pytest.mark.slow
@pytest.mark.parametrize("what", ["another argument", "by names", "pruned"])
def test_what_the_autotuner_itself_leaves_out_is_not(with_usual, newest, tune, what):
    stock, other = (tune(newest, root, what) for root in (None, with_usual.root))
    assert other["measured"] == 0 and (other["best"], other["times"]) == (stock["best"], stock["times"])


@pytest.mark.slow
def test_tensors_are_reset_before_the_launch_and_not_restored_for_nothing(empty, newest, tune):
    for what, done in (("reset_to_zero", {"zeroed": 1}), ("restore_value", {})):
        first, second = (tune(newest, empty.root, what) for _ in range(2))
        assert second["measured"] == 0 and second["done"] == done and first["done"] != done


@pytest.mark.slow
@pytest.mark.parametrize("what", MEASURED)
def test_what_a_program_could_miss_is_measured(empty, newest, tune, what):
    stock, *others = (tune(newest, root, what) for root in (None, empty.root, empty.root))
    assert [other["said"] for other in others] == [stock["said"]] * 2 and stock["measured"] == 4
    assert [other["report"]["timings_found"] for other in others] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("what", SPOILED)
def test_what_are_no_times_is_measured_and_kept_anew(empty, newest, tune, what):
    stock = tune(newest, None)
    tune(newest, empty.root, what)
    again, last = (tune(newest, empty.root) for _ in range(2))
    assert again["said"] == stock["said"] and "Traceback" not in again["log"], again["log"]
    assert (last["measured"], last["best"]) == (0, stock["best"])


@pytest.mark.slow
def test_a_configuration_that_does_not_compile_fails_again(empty, newest, tune):
    for what, found in (("one is refused", 3), ("all are refused", 0)):
        stock, first, second = (tune(newest, root, what) for root in (None, empty.root, empty.root))
        assert first["said"] == stock["said"]
        assert second["report"]["timings_found"] == found
        assert [second.get(name) for name in ("best", "times", "error")] == [stock.get(name) for name in ("best", "times", "error")]


@pytest.mark.slow
def test_a_launch_that_fails_raises_what_it_raises(empty, newest, tune):
    stock, first = (tune(newest, root, "no launch succeeds") for root in (None, empty.root))
    tune(newest, empty.root)
    second = tune(newest, empty.root, "no launch succeeds")
    assert first["error"] == second["error"] == stock["error"] and second["report"]["timings_found"] == 4


@pytest.mark.slow
def test_the_tuning_that_brings_the_plug_in_measures_one(empty, newest, tune):
    """It is measuring that one by then."""
    tune(newest, empty.root)
    stock, other = (tune(newest, root, "the tuning brings the plug-in") for root in (None, empty.root))
    assert other["measured"] == 1 and (other["best"], other["times"]) == (stock["best"], stock["times"])


@pytest.mark.slow
@pytest.mark.parametrize("setting", [{"KILN_TUNINGS": "off"}, {"KILN_MODE": "off"}], ids=["tunings", "all"])
def test_kept_tunings_can_be_turned_off(empty, newest, tune, setting):
    stock = tune(newest, None)
    tune(newest, empty.root, **setting)
    first = tune(newest, empty.root)
    second = tune(newest, empty.root, **setting)
    assert first["said"] == second["said"] == stock["said"]


@pytest.mark.slow
@pytest.mark.parametrize("setting", [{"KILN_TUNINGS": "renew"}, {"KILN_MODE": "record", "KILN_MANIFEST": "manifest.jsonl"}], ids=["renew", "record"])
def test_times_are_measured_anew(empty, newest, tune, setting, tmp_path):
    stock = tune(newest, None)
    tune(newest, empty.root, "favour the slowest")
    setting = {name: str(tmp_path / value) if name == "KILN_MANIFEST" else value for name, value in setting.items()}
    assert tune(newest, empty.root, **setting)["said"] == stock["said"]
    after = tune(newest, empty.root)
    assert (after["measured"], after["best"]) == (0, stock["best"])


def test_a_process_that_requires_kernels_needs_the_fastest_alone(empty, newest, tune):
    tune(newest, empty.root)
    told = tune(newest, empty.root, KILN_MODE="require")
    assert (told["measured"], told["compiled"]) == (0, 1) and "error" not in told


@pytest.mark.slow
def test_times_are_found_without_a_daemon_and_measured_where_it_published_none(other_daemon, newest, tune, tmp_path):
    stock = tune(newest, None)
    with other_daemon as own:
        tune(newest, own.root)
    for root, measured in ((own.root, 0), (tmp_path / "nowhere", 4)):
        told = tune(newest, root)
        assert (told["measured"], told["best"], told["times"]) == (measured, stock["best"], stock["times"])


@pytest.mark.slow
def test_times_are_found_without_a_daemon_where_one_configuration_always_fails(other_daemon, newest, tune):
    """Nothing is ever published for the one that fails."""
    stock = tune(newest, None, "one is refused")
    with other_daemon as own:
        tune(newest, own.root, "one is refused")
    told = tune(newest, own.root, "one is refused")
    assert (told["measured"], told["report"]["timings_found"]) == (0, 3)
    assert (told["best"], told["times"]) == (stock["best"], stock["times"])


@pytest.mark.slow
def test_a_daemon_that_does_not_answer_keeps_nobody_from_measuring(other_daemon, newest, tune):
    stock = tune(newest, None)
    with other_daemon as own:
        own.stop_answering()
        try:
            told = tune(newest, own.root)
        finally:
            own.go_on()
    assert told["said"] == stock["said"]


@pytest.mark.parametrize("version", HOOKED + BETWEEN)
def test_configurations_of_one_ir_are_lowered_once_and_come_out_as_from_triton(tmp_path, version):
    environment = {**package_environment(), "PATH": os.environ["PATH"], "HOME": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    done = subprocess.run([python_of(version), "-B", SHARED_LOWERING_JOB], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert not [name for name, one in seen["kernels"].items() if one["right"] != one["of"]]
    lowered = {(name.split()[0], one["lowered"]) for name, one in seen["kernels"].items()}
    assert lowered <= {*((name, 1) for name in ONCE), *((name, 2) for name in TWICE)} and len(lowered) >= len(ONCE) + len(TWICE) - 1, lowered
    assert all((one["warned"] > 0) == name.startswith("warns ") for name, one in seen["kernels"].items())
    assert {name: one["noted"] if one["is_right"] is True else one["is_right"] for name, one in seen["asked"].items()} == ASKED
