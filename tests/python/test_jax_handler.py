"""XLA's handler of kiln.jax, run by JAX on the host over the stand-in driver."""

import json
import pathlib
import shutil
import struct
import subprocess

import pytest
from job import package_environment
from places import BINARIES, JAX_VERSIONS, TOOLCHAIN

_PROGRAM = pathlib.Path(__file__).parent.parent / "testing" / "jobs" / "jax_handler_job.py"
_BUILD = BINARIES.parent
_EIGHT = list(range(8))


class HandlerJob:

    def __init__(self, version, log):
        library = _BUILD / "tests" / "testing" / "libkiln_jax_on_host.so"
        assert library.is_file(), f"no {library}: run deploy/install-xla-headers, configure again, and build the target kiln_jax_on_host"
        environment = {"PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu", **package_environment(version)}
        self._log = open(log, "w+")
        self._process = subprocess.Popen([TOOLCHAIN / "bin" / "python", "-B", _PROGRAM, _BUILD], env=environment, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._log, text=True)

    def run(self, name, /, **arguments):
        self._process.stdin.write(json.dumps({name: arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the job ended:\n{self._said()}"
        answer = json.loads(line)["answer"]
        assert "Traceback" not in str(answer), f"{answer['error']}\n{self._said()}"
        return answer

    def end(self):
        self._process.stdin.close()
        code = self._process.wait(60)
        self._process.stdout.close()
        said = self._said()
        self._log.close()
        assert code == 0, said

    def _said(self):
        self._log.seek(0)
        return self._log.read()


@pytest.fixture(scope="module", params=JAX_VERSIONS)
def job(request, tmp_path_factory):
    running = HandlerJob(request.param, tmp_path_factory.mktemp("job") / "log")
    yield running
    running.end()


def test_a_call_before_the_driver_is_open_says_so(job):
    assert "no driver is open: call kiln.jax.register(\"cuda\") first" in job.run("unopened")


def test_a_process_has_one_driver(job, tmp_path):
    other = shutil.copyfile(_BUILD / "tests" / "testing" / "libfake_cuda.so", tmp_path / "other.so")
    assert job.run("other_driver", path=str(other)) == [9, "another driver is open in this process"]
    assert job.run("other_driver", path=str(tmp_path / "none.so"))[0] == 14


def test_arrays_come_in_order_and_results_behind_them(job):
    assert job.run("sums") == [10 + 2 * i for i in _EIGHT]


def test_scalars_may_stand_anywhere(job):
    launch, = job.run("scalars_anywhere")
    assert (launch["grid"], launch["stream"]) == ("2x3x4", 0x1000)
    small, _, large, half, _, word, *hidden = launch["arguments"]
    assert (small, large, half, word) == ("01", (2**40).to_bytes(8, "little").hex(), "0304", "07000000")
    assert hidden == ["00" * 8] * 2


def test_a_kernel_may_have_many_parameters(job):
    assert job.run("many_parameters", count=90) == 92


@pytest.mark.parametrize("form", ["map", "pointer"])
def test_a_descriptor_is_made_once_for_each_address_of_its_array(job, form):
    got = job.run("described", form=form)
    words = [struct.unpack("<16Q" if form == "map" else "<Q", bytes.fromhex(one[0])) for one in got["arguments"]]
    assert [one[4 if form == "map" else 0] for one in words] == [*got["addresses"] * 4, got["addresses"][0]]
    assert got["is_whole"] and got["encoded"] == (3 if form == "map" else 0)
    numbers = [int.from_bytes(bytes.fromhex(one), "little") for one in got["arguments"][0][1:]]
    again = [8, 8, 8, 1]
    assert numbers[:-3] == (again if form == "map" else [*again, 1, *again]) + [7]


@pytest.mark.parametrize("given, said", [
    ({"given": [2, 0, 0, 8, 8, 8]}, "attribute \"descriptors\" is no list of descriptors"),
    ({"given": [6, *[1] * 14]}, "attribute \"descriptors\" is no list of descriptors"),
    ({"given": []}, "attribute \"descriptors\" has 0, \"parameters\" says 1"),
    ({"given": [2, 0, 0, 8, 8, 8, 1] * 2}, "attribute \"descriptors\" has 2, \"parameters\" says 1"),
    ({"given": [3, 0, 0, 8, 8, 8, 64, 8, 1]}, "3 dimensions"),
    ({"given": [2, 0, 0, 8, 8, -8, 1]}, "a stride of -8"),
    ({"parameters": "d.....a"}, "the descriptor at parameter 0 stands for 5 parameters, attribute \"parameters\" says 6"),
    ({"parameters": "4.....a"}, "says 4 of parameter 0"),
    ({"parameters": "......a"}, "has a '.' behind no descriptor"),
])
def test_a_wrong_descriptor_is_refused(job, given, said):
    assert said in job.run("described", form="map", **given)


def test_programs_share_a_load_and_the_last_one_unloads(job):
    both, one, none = job.run("shared_loads")
    assert (both["open"], both["loaded"]) == (one["open"], one["loaded"]) == (none["open"] + 1, none["loaded"] + 1)
    assert (both["live"], one["live"]) == (none["live"] + 2, none["live"] + 1)


@pytest.mark.parametrize("metadata, attributes", [
    ({}, {}), ({"launch_pdl": True}, {"pdl": 1}), ({"launch_cooperative_grid": True}, {"cooperative": 1}), ({"num_ctas": 2}, {"cluster": 2}),
])
def test_a_kernel_is_launched_as_its_metadata_says(job, metadata, attributes):
    assert job.run("launched", **metadata) == attributes


def test_a_result_without_a_parameter_is_an_arguments_buffer(job):
    assert job.run("without_parameter") == [101 + i for i in _EIGHT]


def test_scratch_of_a_profiler_is_a_result_of_the_call(job):
    launch, = job.run("scratch", result=1, what="profile_scratch")["launches"]
    _, _, scratch, profile = launch["arguments"]
    assert profile != "00" * 8 and profile not in launch["arguments"][:2] and scratch == "00" * 8


def test_scratch_is_a_result_of_the_call(job):
    given = job.run("scratch", result=1)
    launch, = given["launches"]
    _, _, scratch, profile = launch["arguments"]
    assert given["error"] == "" and given["allocations"] == 0
    assert scratch != "00" * 8 and scratch not in launch["arguments"][:2] and profile == "00" * 8


def test_too_little_scratch_is_refused(job):
    assert "result 1 has 20 bytes, the grid needs 24 of global_scratch" in job.run("scratch", result=1, length=5)["error"]


def test_a_kernel_with_scratch_needs_a_result_for_it(job):
    assert "\"global_scratch\" is -1, and the grid needs 24 bytes" in job.run("scratch", result=-1)["error"]


def test_a_zeroed_result_is_zero_before_the_launch(job):
    assert job.run("zeroed", flags="1") == {"result": _EIGHT, "launches": 1}


def test_an_empty_grid_zeroes_and_launches_nothing(job):
    assert job.run("zeroed", flags="1", grid=0) == {"result": [0] * 8, "launches": 0}


def test_a_donated_argument_is_written_in_place(job):
    assert job.run("aliased", donate=True) == {"result": [101 + i for i in _EIGHT], "in_place": True, "given": None}


def test_an_argument_that_is_not_donated_keeps_its_content(job):
    assert job.run("aliased", donate=False) == {"result": [101 + i for i in _EIGHT], "in_place": True, "given": [100 + i for i in _EIGHT]}


def test_many_threads_execute_one_program(job):
    assert job.run("from_threads", threads=8, times=500) == {"wrong": 0, "executions": 4000, "loads": 1}


def test_a_graph_keeps_its_kernel_loaded_when_the_program_is_gone(job):
    assert job.run("captured") == {"is_whole": True, "captured": 1, "loaded": 1, "live": 0}


@pytest.mark.parametrize("name, value, said", [
    *((name, None, "is missing") for name in ("name", "binary", "metadata", "parameters", "scalars", "grid_x", "grid_y", "grid_z", "zeroed",
                                              "global_scratch", "profile_scratch")),
    *((name, {"i": 1}, "is not a string") for name in ("name", "binary", "metadata", "parameters", "scalars", "zeroed")),
    *((name, "1", "is not an i32") for name in ("grid_x", "global_scratch", "profile_scratch")),
    ("parameters", "aax4", "has another letter than a1248d."),
    ("parameters", "aa4", "has 3 letters, the kernel has 4 parameters"),
    ("parameters", "aaa8", "says 8 of parameter 3, which is i32"),
    ("parameters", "aa84", "says 8 of parameter 2, which is *fp32"),
    ("scalars", "123", "has 3 bytes, \"parameters\" says 4"),
    ("grid_z", {"i": -1}, "is -1, less than 0"),
    ("zeroed", "2", "has another letter than 01-"),
    ("zeroed", "00", "is for 2 results, the call has 1"),
    ("global_scratch", {"i": 1}, "is 1: there are 1 results"),
    ("profile_scratch", {"i": -2}, "is -2: there are 1 results"),
])
def test_a_wrong_attribute_is_named(job, name, value, said):
    refused = job.run("with_attribute", name=name, value=value)
    assert f"attribute \"{name}\" {said}" in refused["error"]
    assert (refused["failures"], refused["live"]) == (1, 0)


def test_a_buffer_too_many_is_refused(job):
    assert "\"parameters\" has 3 arrays, the call has 2 with parameters" in job.run("with_attribute", name="global_scratch", value={"i": 0})["error"]


def test_a_wrong_binary_is_refused(job):
    assert "addition" in job.run("with_attribute", name="binary", value="no ELF file")["error"]


def test_attributes_of_later_versions_are_ignored(job):
    assert job.run("with_unknown_attribute") == [2 * i for i in _EIGHT]


def test_a_kernel_for_another_architecture_is_refused_with_both_named(job):
    said = job.run("other_architecture")
    assert "100" in said and "90" in said


def test_a_failed_launch_is_the_programs_failure(job):
    failed = job.run("failed_launch")
    assert "addition" in failed["error"] and "700" in failed["error"]
    assert (failed["failures"], failed["again"]) == (1, [2 * i for i in _EIGHT])


@pytest.mark.parametrize("device, said", [(64, "there is no device 64"), (-1, "there is no device -1"), (1, "addition")])
def test_a_device_that_is_not_there_is_an_error(job, device, said):
    assert said in job.run("on_device", device=device)


@pytest.mark.slow
def test_nothing_grows_when_programs_are_made_again_and_again(job):
    assert job.run("programs_again", times=20) == {"instantiations": 20, "live": 0, "open": 0, "loaded": 0}
