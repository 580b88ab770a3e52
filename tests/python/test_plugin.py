"""kiln.triton in jobs that compile with Triton: what they leave behind is what they would have left behind without it."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

import processes
from daemon import Daemon, Programs
from job import Job, build, building, make_counting_compiler
from places import BINARIES, DESCRIPTIONS, ROOT, VERSIONS

pytestmark = [pytest.mark.one_case, pytest.mark.spread]

WANTED = os.environ.get("KILN_TEST_VERSIONS", "3.6.0 3.9.0").split()
# The hook is there from 3.6 on.
HOOKED = [version for version in WANTED if tuple(map(int, version.split("."))) >= (3, 6, 0)]
# Its contract changed in 3.7. Those between the oldest and the newest are tried once each.
BETWEEN = [version for version in os.environ.get("KILN_TEST_PLUGIN_VERSIONS", "3.7.1 3.8.0").split() if version not in HOOKED]
# One small one, one with a reduction, one with tensor cores: each comes out the same whenever Triton compiles it.
KERNELS = ("vector_add", "softmax", "matmul_128x128x64")
# The wanted ones among three.
TARGETS = [target for target in ("cuda:80", "cuda:90", "hip:gfx942")
           if target in os.environ.get("KILN_TEST_GOLDEN_TARGETS", "cuda:80 cuda:90 hip:gfx942").split()]
REFUSED_BY_PTXAS = "--maxrregcount=many"
LOADER_JOB = ROOT / "tests" / "testing" / "jobs" / "loader_job.py"
REACHING_JOB = ROOT / "tests" / "testing" / "jobs" / "reaching_job.py"
# What it reaches that can be written down, and what cannot.
KNOWN = ("an attribute", "a constant attribute", "an attribute of a module of a module", "an attribute in a tuple", "the sign of a zero",
         "a default", "a helper of a helper", "a plain global", "a constexpr global", "another name", "a tensor's member",
         "the language's precision", "a global that may be local", "a global that was local", "the kernel's name",
         "a global that has changed", "twins", "a parameter by position", "a type's member", "a member of what may be local", "behind a stub",
         "functions of one name", "what comes after a return", "an option's type", "another operator")
UNKNOWN = ("an object", "an object as argument", "a module as argument", "a builtin", "a function of Python's", "a value that changes meanwhile",
           "a function as argument", "an operator", "identity", "the device")


def served(report):
    return report["compiled"] + report["joined"] + sum(report["hits"].values())


def python_of(version):
    python = VERSIONS / f"triton-{version}" / "bin" / "python"
    assert python.exists(), f"no Triton {version} in {VERSIONS}: run deploy/install-toolchain {version}"
    return python


@pytest.fixture(scope="module")
def programs():
    return Programs(BINARIES / "kilnd", BINARIES / "kiln", VERSIONS)


def directories(versions):
    return {"KILN_TOOLCHAIN_DIRECTORIES": ":".join(str(VERSIONS / f"triton-{version}") for version in versions)}


@pytest.fixture(scope="module")
def daemon(programs, tmp_path_factory):
    with Daemon(programs, tmp_path_factory.mktemp("kilnd"), environment=directories(HOOKED), descriptions=DESCRIPTIONS) as running:
        yield running


@pytest.fixture(scope="module", params=HOOKED)
def python(request):
    return python_of(request.param)


@pytest.fixture(scope="module")
def newest():
    return python_of(HOOKED[-1])


@pytest.fixture
def own_daemon(other_daemon):
    """One in which nothing is stored yet."""
    with other_daemon:
        yield other_daemon


@pytest.fixture(params=[version for version in WANTED if version not in HOOKED] or [None])
def unhooked(request):
    if request.param is None:
        pytest.skip("no Triton before 3.6 is wanted: tests/run --versions")
    return python_of(request.param)


# --- The same as without ---------------------------------------------------------------------------------------------


def check_that_the_cache_is_the_same(daemon, python, tmp_path):
    with Job(tmp_path, python, cache="plain") as plain:
        expected = [plain.compile(kernel, target) for kernel in KERNELS for target in TARGETS]
        assert plain.run("state")["modules"] == []
    with Job(tmp_path, python, daemon.root, cache="kiln") as job:
        job.run("be patient")
        got = [job.compile(kernel, target) for kernel in KERNELS for target in TARGETS]
        report = job.report()
    assert served(report) == len(KERNELS) * len(TARGETS) and report["local"] == {}, (report, job.log)
    assert [one["hash"] for one in got] == [one["hash"] for one in expected]
    assert set(job.files()) == set(plain.files())
    got, expected = job.files(), plain.files()
    assert [name for name in expected if got[name] != expected[name]] == []
    with Job(tmp_path, python, daemon.root, cache="again") as again:
        again.run("be patient")
        for kernel in KERNELS:
            for target in TARGETS:
                again.compile(kernel, target)
        assert again.run("state")["lowered"] == 0, again.log
        assert again.report()["hits"] == {"own": len(KERNELS) * len(TARGETS)}
    assert again.files() == got


def test_the_cache_is_the_same_byte_for_byte(daemon, python, tmp_path):
    check_that_the_cache_is_the_same(daemon, python, tmp_path)


@pytest.mark.skipif(not BETWEEN, reason="no more versions are wanted: tests/run --all")
def test_the_cache_is_the_same_with_the_versions_between(programs, tmp_path):
    with Daemon(programs, tmp_path, environment=directories(BETWEEN), descriptions=DESCRIPTIONS) as daemon:
        for version in BETWEEN:
            (folder := tmp_path / version).mkdir()
            check_that_the_cache_is_the_same(daemon, python_of(version), folder)


# Whose instructions come from where a loop's variables do, by kernel and options; a matmul where it is not pipelined.
LOOPS = (("matmul_128x128x64", {"num_stages": 1}), ("cross_entropy", {}), ("grouped_matmul", {}), ("layer_norm_backward_input", {}))


@pytest.mark.slow
def test_every_stage_of_a_loop_is_the_same(daemon, python, tmp_path):
    def run(*where, cache):
        with Job(tmp_path, python, *where, cache=cache) as job:
            job.run("be patient")
            for kernel, options in LOOPS:
                for target in TARGETS:
                    job.compile(kernel, target, **options)
            return job.files(), job.report()

    expected, _ = run(cache="plain")
    got, report = run(daemon.root, cache="kiln")
    assert served(report) == len(LOOPS) * len(TARGETS), report
    assert set(got) == set(expected) and [name for name in expected if got[name] != expected[name]] == []


def test_a_second_process_with_an_empty_cache_hits(daemon, python, tmp_path):
    with Job(tmp_path, python, daemon.root, cache="first") as job:
        job.compile("softmax", num_stages=2)
    with Job(tmp_path, python, daemon.root, cache="second") as job:
        job.compile("softmax", num_stages=2)
        report = job.report()
    assert sum(report["hits"].values()) == 1 and report["compiled"] == 0
    assert report["seconds_saved"] + report["seconds_waited"] > 0


def test_files_are_written_without_a_folder_for_each(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root) as job:
        assert job.run("compile counting folders", kernel="vector_add", target="cuda:90")["removed"] == 0
        before = job.files()
        answer = job.run("compile counting folders", kernel="softmax", target="cuda:90", remove=True)
        assert "hash" in answer and answer["removed"] > 0, answer
    assert {name.rpartition(".")[2] for name in before} == {name.rpartition(".")[2] for name in job.files()}


@pytest.mark.slow
def test_files_that_triton_has_lost_come_back_beside_the_others(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root) as job:
        job.compile("vector_add")
        before = job.files()
        for name in before:
            if "__grp__" in name or name.endswith("ptx"):
                (job.cache / name).unlink()
        job.compile("vector_add")
        assert job.report()["hits"].get("own") and job.files() == before


@pytest.mark.slow
@pytest.mark.parametrize("target, options", [("cuda:90", {"num_stages": 9}), ("hip:gfx942", {"num_stages": 4}), ("cuda:80", {"num_warps": 64})])
def test_a_kernel_too_large_for_a_block_compiles_as_with_triton(daemon, python, tmp_path, target, options):
    """Triton finds out when it loads the kernel, and then tunes on without it."""
    kernel = "vector_add" if "num_warps" in options else "matmul_128x128x64"
    with Job(tmp_path, python, cache="plain") as plain:
        plain.compile(kernel, target, **options)
    with Job(tmp_path, python, daemon.root, cache="kiln") as job:
        job.run("be patient")
        job.compile(kernel, target, **options)
        report = job.report()
    assert served(report) == 1 and report["local"] == {}, (report, job.log)
    assert job.files() == plain.files()


def test_only_the_binary_is_kept_where_triton_is_told_so(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, TRITON_STORE_BINARY_ONLY="1") as job:
        job.compile("vector_add")
        assert served(job.report()) == 1
    assert {name.rpartition(".")[2] for name in job.files()} == {"cubin", "json", "source"}


@pytest.mark.slow
def test_the_fingerprint_is_the_daemons_and_is_remembered(daemon, python, tmp_path):
    with Job(tmp_path, python, daemon.root, XDG_CACHE_HOME=str(tmp_path / "own")) as job:
        first = job.run("fingerprint")
    with Job(tmp_path, python, daemon.root, XDG_CACHE_HOME=str(tmp_path / "own")) as job:
        again = job.run("fingerprint")
    assert first["fingerprint"] == again["fingerprint"]
    assert first["fingerprint"] in json.dumps(daemon.kiln("stats", "--json").objects()[0]["toolchains"])
    assert again["seconds"] < first["seconds"] / 4, "it was hashed again"


@pytest.mark.slow
def test_tritons_key_for_itself_is_what_it_would_be_and_is_remembered(daemon, python, tmp_path):
    answers = []
    for mode in ("off", "use", "use"):
        with Job(tmp_path, python, daemon.root, XDG_CACHE_HOME=str(tmp_path / "own"), KILN_MODE=mode) as job:
            answers.append(job.run("triton_key"))
    stock, _, again = answers
    assert {answer[name] for answer in answers for name in ("key", "autotuner")} == {stock["key"]}
    assert again["seconds"] < stock["seconds"] / 4, "it was hashed again"


@pytest.mark.slow
def test_the_fingerprint_is_taken_beside_tritons_key_where_there_is_a_daemon(daemon, newest, tmp_path):
    for root, expected in (daemon.root, 2), (tmp_path / "nowhere", 1):
        own = tmp_path / f"own-{expected}"
        with Job(tmp_path, newest, root, XDG_CACHE_HOME=str(own)) as job:
            job.run("triton_key")
        assert len(list((own / "kiln/fingerprints").glob("*[0-9a-f]"))) == expected


@pytest.mark.slow
def test_a_truncated_memory_of_triton_is_not_believed(daemon, newest, tmp_path):
    own = tmp_path / "own"
    with Job(tmp_path, newest, daemon.root, XDG_CACHE_HOME=str(own)) as job:
        first = job.run("triton_key")
    for path in (own / "kiln/fingerprints").glob("*[0-9a-f]"):
        path.write_text(path.read_text()[:-1])
    with Job(tmp_path, newest, daemon.root, XDG_CACHE_HOME=str(own)) as job:
        assert job.run("triton_key")["key"] == first["key"]


# --- The own namespace -----------------------------------------------------------------------------------------------


def anew(job):
    """Triton's cache is empty again, as in another container."""
    shutil.rmtree(job.cache)


def forget_own(daemon):
    keys = [line["key"] for line in daemon.kiln("ls", "--json").objects() if "own_uid" in line]
    assert not keys or daemon.kiln("evict", *keys).code == 0


@pytest.mark.slow
def test_a_kernel_of_another_folder_is_not_taken(daemon, newest, tmp_path):
    """Its code would be right, its line table would not. Triton's key is the same."""
    (tmp_path / "there").mkdir()
    hashes = []
    for folder in (tmp_path, tmp_path / "there"):
        with Job(folder, newest, daemon.root) as job:
            hashes.append(job.compile("vector_add", num_stages=22)["hash"])
            assert job.run("state")["lowered"] == 1
        source, = (content for name, content in job.files().items() if name.endswith(".source"))
        assert bytes(folder / "source" / "vector_add.py") in source
    assert hashes[0] == hashes[1]


def test_a_kernel_of_a_file_that_is_no_module_is_found(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root) as job:
        job.run("forget", module="vector_add")
        for lowered in (1, 1):
            job.compile("vector_add")
            assert job.run("state")["lowered"] == lowered
            anew(job)


@pytest.fixture(scope="module")
def reached(daemon, python, tmp_path_factory):
    """What came out for two numbers without the daemon, and with it: for one, then for the other, then for the first once more."""
    folder = tmp_path_factory.mktemp("reached")

    def run(number, cache, root=None):
        environment = {**Job(folder, python, root, cache).environment, "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS": "1", "KILN_TIMEOUT": "120"}
        done = subprocess.run([python, "-B", REACHING_JOB, str(number)], env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    plain = {number: run(number, f"plain-{number}") for number in (2, 3)}
    return plain, [(number, run(number, f"kiln-{turn}", daemon.root)) for turn, number in enumerate((2, 3, 2))]


@pytest.mark.slow
@pytest.mark.xdist_group("reached")
@pytest.mark.parametrize("name", KNOWN + UNKNOWN)
def test_values_that_a_kernel_reads_decide_its_key(reached, name):
    """Triton's own key is the same for both numbers, in these ways of reaching them."""
    plain, turns = reached
    assert [answers[name]["made"] for _, answers in turns] == [plain[number][name]["made"] for number, _ in turns]
    assert plain[2][name] != plain[3][name]
    assert [answers[name]["found"] for _, answers in turns] == [False, False, name in KNOWN]


@pytest.mark.parametrize("name", ["../planted", "/tmp/planted", ".planted", "__grp__planted"])
def test_a_file_name_that_leads_elsewhere_is_not_written(switched, name):
    """Only this user's processes could have put it there, and they may be mistaken."""
    hash_ = switched.compile("vector_add", num_stages=23)["hash"]
    anew(switched)
    before = switched.report()["hits"].get("own", 0)
    switched.run("plant", hash=hash_, kernel="vector_add", options={"num_stages": 23}, name=name)
    switched.compile("vector_add", num_stages=23)
    assert switched.report()["hits"].get("own", 0) == before
    assert not any("planted" in path.name for path in switched.folder.rglob("*"))
    assert not os.path.exists("/tmp/planted")


def wait_for_announcement():
    deadline = time.monotonic() + 60
    while f"@kiln/{os.geteuid()}/" not in pathlib.Path("/proc/net/unix").read_text():
        assert time.monotonic() < deadline, "no process says that it lowers a kernel"
        time.sleep(0.01)


def test_two_processes_lower_a_new_kernel_once(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, cache="first") as first:
        first.run("be patient")
        first.compile("vector_add", num_stages=25)  # starts the toolchain: the second waits 5 seconds, no longer
        first.run("lower slowly", seconds=0.5)
        with Job(tmp_path, newest, daemon.root, cache="second") as second:
            second.run("be patient")
            first.start("compile", kernel="vector_add", target="cuda:90", options={"num_stages": 24})
            wait_for_announcement()
            second.compile("vector_add", num_stages=24)
            assert second.run("state")["lowered"] == 0, second.log
            assert "hash" in first.answer() and second.report()["hits"] == {"own": 1}


@pytest.mark.slow
def test_an_entry_goes_with_its_artifact(own_daemon, newest, tmp_path):
    with Job(tmp_path, newest, own_daemon.root) as job:
        job.compile("vector_add")
        anew(job)
        job.compile("vector_add")
        assert job.run("state")["lowered"] == 1 and job.report()["hits"] == {"own": 1}
        keys = [line["key"] for line in own_daemon.kiln("ls", "--json").objects() if "own_uid" not in line]
        assert own_daemon.kiln("evict", *keys).code == 0
        anew(job)
        assert "hash" in job.compile("vector_add")
        assert job.run("state")["lowered"] == 2 and job.report()["compiled"] == 2
        anew(job)
        job.compile("vector_add")
        assert job.run("state")["lowered"] == 2


def another_ptxas(python, folder):
    """The variables of a job that uses one that the daemon has not got."""
    copy = folder / "ptxas"
    own = next((python.parent.parent / "lib").glob("python3*/site-packages/triton/backends/nvidia/bin/ptxas"))
    copy.write_bytes(own.read_bytes() + b"\0")
    copy.chmod(0o755)
    return {"TRITON_PTXAS_PATH": str(copy), "TRITON_PTXAS_BLACKWELL_PATH": str(copy)}


def test_a_kernel_without_a_toolchain_is_kept_whole(daemon, newest, tmp_path):
    """As with a Triton that has no hook: for this user alone."""
    with Job(tmp_path, newest, daemon.root, **another_ptxas(newest, tmp_path)) as job:
        job.compile("vector_add")
        assert job.report()["local"] == {"the daemon has no such ptxas": 1}
        files = job.files()
        anew(job)
        job.compile("vector_add")
        assert job.report()["hits"] == {"own": 1} and job.run("state")["lowered"] == 1
        assert job.files() == files


def test_a_triton_without_a_hook_compiles_and_its_results_are_kept(daemon, newest, tmp_path):
    with Job(tmp_path, newest, cache="plain") as plain:
        plain.compile("vector_add", num_stages=21)
    with Job(tmp_path, newest, daemon.root) as job:
        job.run("import without hook")
        for lowered in (1, 1):
            job.compile("vector_add", num_stages=21)
            assert job.run("state")["lowered"] == lowered, job.log
            assert job.files() == plain.files()
            anew(job)
        assert job.report()["hits"] == {"own": 1} and served(job.report()) == 1


def test_an_older_triton_keeps_its_own_results(daemon, unhooked, tmp_path):
    with Job(tmp_path, unhooked, cache="plain") as plain:
        expected = [plain.compile(kernel) for kernel in KERNELS]
    for cache, lowered in (("first", len(KERNELS)), ("second", 0)):
        with Job(tmp_path, unhooked, daemon.root, cache=cache) as job:
            assert [job.compile(kernel)["hash"] for kernel in KERNELS] == [one["hash"] for one in expected]
            assert job.run("state")["lowered"] == lowered, job.log
            assert "has no hook" in job.log
        assert job.files() == plain.files()


WRAPPER = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char** arguments) {
  char* all[256] = {"cc", getenv("OWN_FLAGS")};
  memcpy(all + 2, arguments + 1, count * sizeof *all);
  return execv("COMPILER", all);
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return make_counting_compiler(tmp_path_factory.mktemp("driver"))


@pytest.mark.slow
def test_a_library_of_the_c_compiler_is_built_once(daemon, python, driver, tmp_path):
    launchers = (["*fp32", "i32"], ["*fp16", "i64", "i32"]) if "3.6.0" in str(python) else ()
    libraries = []
    for cache in ("first", "second"):
        with building(tmp_path, python, daemon.root, driver, cache=cache) as job:
            job.run("import", module="kiln.triton")
            ran = build(driver, job, *launchers)
            assert job.report()["builds_spared"] + ran == 1 + len(launchers), job.log
        libraries.append({name: content for name, content in job.files().items() if name.endswith(".so")})
    assert ran == 0 and libraries[0] == libraries[1] and len(libraries[0]) == 1 + len(launchers)


@pytest.mark.slow
def test_another_compiler_or_another_header_makes_another_library(daemon, newest, driver, tmp_path):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "dlfcn.h").write_text("#include_next <dlfcn.h>\n")
    compiler = tmp_path / "cc"
    compiler.write_bytes((driver / "cc").read_bytes() + b"another")
    compiler.chmod(0o755)
    with building(tmp_path, newest, daemon.root, driver, compiler) as job:
        job.run("import", module="kiln.triton")
        for ran, headers in ((1, ""), (0, ""), (1, "headers"), (0, "headers")):
            job.run("variable", name="CPATH", value=str(tmp_path / headers) if headers else None)
            assert build(driver, job) == ran, headers
            anew(job)


def wrapper_program(compiler, wrapped):
    subprocess.run(["gcc", "-o", compiler, "-x", "c", "-"], input=WRAPPER.replace("COMPILER", str(wrapped)), text=True, check=True)


def wrapper_script(compiler, wrapped):
    compiler.write_text(f'#!/bin/sh\nexec {wrapped} $OWN_FLAGS "$@"\n')
    compiler.chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize("make", [wrapper_program, wrapper_script])
def test_a_library_of_a_compilers_wrapper_is_shared_where_its_own_variables_are_the_same(daemon, newest, driver, tmp_path, make):
    """The wrapper adds what a variable of its own says."""
    compiler = tmp_path / "cc"
    make(compiler, driver / "cc")
    libraries = {}
    for flags, ran in (("-g", 1), ("-g0", 1), ("-g", 0), ("-g0", 0)):
        with building(tmp_path, newest, daemon.root, driver, compiler, cache=f"{flags}{ran}", OWN_FLAGS=flags) as job:
            job.run("import", module="kiln.triton")
            assert build(driver, job) == ran, flags
        (content,) = (content for name, content in job.files().items() if name.endswith(".so"))
        assert libraries.setdefault(flags, content) == content
    assert libraries["-g"] != libraries["-g0"]


def test_without_a_daemon_the_c_compiler_does_it(newest, driver, tmp_path):
    with building(tmp_path, newest, tmp_path / "nowhere", driver) as job:
        job.run("import", module="kiln.triton")
        assert build(driver, job) == 1
        assert "google.protobuf" not in job.run("state")["modules"]


@pytest.mark.slow
def test_without_the_client_the_c_compiler_runs(daemon, newest, driver, tmp_path):
    with building(tmp_path, newest, daemon.root, driver) as job:
        job.run("hide", module="kiln._plugin.launcher_cache")
        job.run("import", module="kiln.triton")
        assert build(driver, job) == 1 and "libraries are always built" in job.log


# --- What stays here -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def switched(daemon, newest, tmp_path_factory):
    """A process whose switches are set and taken back: Triton looks at them each time that it compiles."""
    folder = tmp_path_factory.mktemp("switched")
    with Job(folder, newest, daemon.root, TRITON_HOME=str(folder)) as job:
        job.compile("softmax")
        assert served(job.report()) == 1, job.log
        yield job


SWITCHES = (
    ("TRITON_KERNEL_DUMP", "1"), ("TRITON_ALWAYS_COMPILE", "1"), ("DISABLE_PTXAS_OPT", "1"),
    ("LLVM_IR_ENABLE_DUMP", "1"), ("USE_IR_LOC", "ttir"), ("TRITON_KERNEL_OVERRIDE", "1"), ("DISABLE_LLVM_OPT", "1"),
    ("TRITON_REPRODUCER_PATH", "repro"), ("NVPTX_ENABLE_DUMP", "1"),
)


@pytest.mark.parametrize("number", range(len(SWITCHES)), ids=lambda number: SWITCHES[number][0])
def test_a_switch_that_a_request_cannot_carry_keeps_the_compile_here(switched, number):
    name, value = SWITCHES[number]
    before = switched.report()
    switched.run("variable", name=name, value=str(switched.folder / value) if name.endswith("_PATH") else value)
    answer = switched.compile("vector_add", num_stages=number + 1)  # not every switch is in Triton's key
    switched.run("variable", name=name, value=None)
    report = switched.report()
    assert "hash" in answer
    reasons = [reason for reason, count in report["local"].items() if count > before["local"].get(reason, 0)]
    assert served(report) == served(before) and len(reasons) == 1 and name in reasons[0], report


def test_a_kept_kernel_is_not_taken_where_a_switch_is_set(switched):
    switched.compile("vector_add", num_stages=20)
    for name, hits in (("TRITON_KERNEL_DUMP", 0), ("TRITON_STORE_BINARY_ONLY", 0), ("TRITON_ENABLE_PYTHON_STACKTRACE", 1)):
        before = switched.report()["hits"].get("own", 0)
        anew(switched)
        switched.run("variable", name=name, value="1")
        switched.compile("vector_add", num_stages=20)
        switched.run("variable", name=name, value=None)
        assert switched.report()["hits"].get("own", 0) - before == hits, name


def test_an_unset_switch_that_is_spelled_out_changes_nothing(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, TRITON_KERNEL_DUMP="0", TRITON_DISABLE_LINE_INFO="0") as job:
        job.compile("vector_add")
        assert (served(job.report()), job.report()["local"]) == (1, {})


def test_a_knob_that_is_set_in_the_program_keeps_the_compile_here(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root) as job:
        job.run("knob", group="nvidia", name="mock_ptx_version", value="12.8, V12.8.93")
        job.compile("vector_add")
        assert served(job.report()) == 0


@pytest.mark.slow
def test_the_ptxas_that_the_process_would_use_is_named(daemon, newest, tmp_path):
    """Triton's own under another path is another program as far as anyone can know, and the daemon finds it by its bytes."""
    own = next((newest.parent.parent / "lib").glob("python3*/site-packages/triton/backends/nvidia/bin/ptxas"))
    copy = tmp_path / "ptxas"
    copy.write_bytes(own.read_bytes())
    copy.chmod(0o755)
    with Job(tmp_path, newest, daemon.root, TRITON_PTXAS_PATH=str(copy), TRITON_PTXAS_BLACKWELL_PATH=str(copy)) as job:
        job.compile("vector_add", "cuda:80")
        assert served(job.report()) == 1, job.log
    other = copy.read_bytes().replace(b"Cuda compilation tools", b"Cuda compilation fools")
    assert other != copy.read_bytes()
    copy.write_bytes(other)
    with Job(tmp_path, newest, daemon.root, cache="other", TRITON_PTXAS_PATH=str(copy), TRITON_PTXAS_BLACKWELL_PATH=str(copy)) as job:
        job.compile("vector_add", "cuda:80")
        assert served(job.report()) == 0 and job.report()["local"] == {"the daemon has no such ptxas": 1}


def test_a_compile_error_raises_tritons_exception(daemon, python, tmp_path):
    with Job(tmp_path, python, cache="plain") as job:
        expected = job.compile("vector_add", ptx_options="--no-such-option")
    with Job(tmp_path, python, daemon.root, cache="kiln") as job:
        got = job.compile("vector_add", ptx_options="--no-such-option")
        assert served(job.report()) == 0 and sum(job.report()["local"].values()) == 1
    assert expected["error"] == got["error"] == "PTXASError"


@pytest.mark.slow
def test_too_much_shared_memory_raises_tritons_exception(daemon, python, tmp_path):
    kernel = {"kernel": "matmul_128x128x64", "target": "cuda:90", "options": {"num_stages": 8}}
    with Job(tmp_path, python, cache="plain") as job:
        expected = job.run("load", **kernel)
    with Job(tmp_path, python, daemon.root, cache="kiln") as job:
        got = job.run("load", **kernel)
        assert served(job.report()) == 1 and job.report()["local"] == {}
    assert got["error"] == "OutOfResources" and "shared memory" in got["message"] and got == expected


# --- Import, launch --------------------------------------------------------------------------------------------------


def test_importing_it_starts_nothing(daemon, python, tmp_path):
    with Job(tmp_path, python, daemon.root) as job:
        before = job.run("state")
        after = job.run("import", module="kiln.triton")
    assert before["threads"] == after["threads"] == 1
    assert after["modules"] == ["kiln", "kiln.triton"]


def test_the_hook_answers_launches_with_a_constant(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root) as job:
        job.run("import", module="kiln.triton")
        assert job.run("hook")["value"] == ["", ""]


# --- Autotuning ------------------------------------------------------------------------------------------------------

BLOCKS = [2**power for power in range(5, 14)]


@pytest.mark.parametrize("version", sorted({HOOKED[0], HOOKED[-1]}))
def test_the_configurations_of_a_tuning_are_compiled_together(other_daemon, version, tmp_path):
    python = python_of(version)
    with Job(tmp_path, python, cache="plain") as plain:
        expected = plain.run("autotune", blocks=BLOCKS)
    with other_daemon as own, Job(tmp_path, python, own.root, cache="kiln") as job:
        job.run("import", module="kiln.triton")
        got = job.run("autotune", blocks=BLOCKS)
        report = job.report()
        assert own.kiln("stats", "--json").objects()[0]["compiled"] == len(set(expected["launched"])) == 2 * len(BLOCKS)
    assert report["compiled"] == 2 * len(BLOCKS) and report["local"] == {}, (report, job.log)
    assert got["at_once"] > 1 and got["urgent"] == 0
    # Kiln launches the kernels that stock Triton launches, in its order, and picks its winner.
    assert {name: got[name] for name in ("launched", "best", "timings")} == {name: expected[name] for name in ("launched", "best", "timings")}
    # Under which key, Triton decides: from 3.7 on its launches put it down that there is a hook.
    for stage in (".cubin", ".ptx", ".ttir", ".source"):
        first, second = (sorted(content for name, content in one.files().items() if name.endswith(stage)) for one in (plain, job))
        assert len(first) == 2 * len(BLOCKS) and first == second, stage
    # Both numbers of warps have the same IR.
    assert got["lowered"] == len(BLOCKS)
    if version == HOOKED[0]:
        assert list(plain.files()) == list(job.files())


@pytest.mark.slow
@pytest.mark.parametrize("version", sorted({HOOKED[0], HOOKED[-1]}))
def test_a_tuning_that_brings_the_plug_in_is_compiled_together_as_well(daemon, version, tmp_path):
    python = python_of(version)
    blocks = BLOCKS[:6]
    with Job(tmp_path, python, cache="plain") as plain:
        expected = plain.run("autotune", blocks=blocks)
    with Job(tmp_path, python, daemon.root, cache="kiln") as job:
        got = job.run("autotune", blocks=blocks)
        assert job.report()["compiled"] == 2 * len(blocks)
    # From 3.7 on, the key that Triton made before the plug-in came is not the one that it makes from then on, and it asks once more.
    assert not got["begins_urgent"] and got["urgent"] <= 1, "the first was compiled alone"
    assert {name: got[name] for name in ("launched", "best", "timings")} == {name: expected[name] for name in ("launched", "best", "timings")}


@pytest.mark.slow
def test_the_configurations_of_a_tuning_are_lowered_in_turns_the_largest_first(daemon, newest, tmp_path):
    """So that the daemon has something to compile while the others are lowered, and little after the last."""
    with Job(tmp_path, newest, daemon.root) as job:
        job.run("import", module="kiln.triton")
        job.run("lower slowly", seconds=0.01)
        got = job.run("autotune", blocks=BLOCKS)
    assert got["lowered_at_once"] == 1
    assert len(got["begun_ahead"]) == 2 * len(BLOCKS) and got["begun_ahead"] == sorted(got["begun_ahead"], reverse=True)


@pytest.mark.parametrize("what", [
    {"pre_hook": True}, {"hooked": ("runtime", "jit_post_compile_hook")}, {"hooked": ("compilation", "listener")}, {"odd": True},
    {"heuristics": True}
], ids=["configurations with a hook", "a hook of the program's", "a listener of the program's", "a kernel of the program's kind", "heuristics"])
def test_configurations_are_not_compiled_ahead_where_a_program_would_see_it(daemon, newest, tmp_path, what):
    with Job(tmp_path, newest, daemon.root) as job:
        job.run("import", module="kiln.triton")
        answer = job.run("autotune", blocks=[64, 128], **what)
        assert served(job.report()) == 4
    assert len(set(answer["launched"])) == 4 and (answer["at_once"], answer["urgent"]) == (1, 4)
    # For each of the four that is measured, and for the launch.
    assert answer["asked_in"] == ([True] * 5 if "heuristics" in what else [])


@pytest.mark.parametrize("bad", ["--no-such-option", REFUSED_BY_PTXAS], ids=["refused by the daemon", "refused by ptxas"])
def test_a_configuration_that_does_not_compile_fails_alone(daemon, newest, tmp_path, bad):
    with Job(tmp_path, newest, cache="plain") as plain:
        expected = plain.run("autotune", blocks=[64, 128], bad=bad)
    with Job(tmp_path, newest, daemon.root, cache="kiln") as job:
        job.run("import", module="kiln.triton")
        got = job.run("autotune", blocks=[64, 128], bad=bad)
    assert got["timings"][0] == "[inf, inf, inf]" and got["launched"] == expected["launched"] and got["best"] == expected["best"]


@pytest.mark.slow
def test_a_configuration_that_does_not_compile_fails_alone_in_the_mode_that_requires(daemon, other_daemon, python, tmp_path):
    """Which the daemon knows from being warmed: it is not stored."""
    tuning = {"blocks": [64, 128], "bad": REFUSED_BY_PTXAS}
    manifest = tmp_path / "manifest.jsonl"
    with Job(tmp_path, python, daemon.root, cache="first", KILN_MODE="record", KILN_MANIFEST=str(manifest)) as job:
        expected = job.run("autotune", **tuning)
    with other_daemon as warmed:
        with Job(tmp_path, python, warmed.root, cache="early", KILN_MODE="require") as job:
            early, = job.run("children", count=1, command={"autotune": tuning})["answers"]
        assert "CacheMissError" in early["message"] and "A kernel that does not compile is never stored" in early["message"], early
        assert warmed.kiln("warm", manifest).code == 0
        with Job(tmp_path, python, warmed.root, cache="second", KILN_MODE="require") as job:
            got = job.run("autotune", **tuning)
            assert job.report()["local"] == {} and job.report()["refused"] == 1
    assert got["timings"] == expected["timings"] and got["timings"][0] == "[inf, inf, inf]" and got["best"] == expected["best"]
    assert got["launched"] == expected["launched"]


@pytest.mark.slow
def test_a_kernel_without_a_toolchain_is_tuned_by_triton(daemon, newest, tmp_path):
    """One compile at a time, and nothing is done ahead once it is known."""
    copy = another_ptxas(newest, tmp_path)
    with Job(tmp_path, newest, cache="plain", **copy) as plain:
        expected = [plain.run("autotune", blocks=BLOCKS[:4], size=size) for size in (4096, 4099)]
    with Job(tmp_path, newest, daemon.root, cache="kiln", **copy) as job:
        job.run("import", module="kiln.triton")
        got = [job.run("autotune", blocks=BLOCKS[:4], size=size) for size in (4096, 4099)]
        assert job.report()["local"] == {"the daemon has no such ptxas": 16}
    assert [one["at_once_here"] for one in got] == [1, 1] and got[1]["asked"] == 0, got
    assert [one["launched"] for one in got] == [one["launched"] for one in expected]


@pytest.mark.slow
def test_a_configuration_that_does_not_compile_leaves_nothing_behind(daemon, newest, tmp_path):
    """For whoever collects the garbage: with its frames, a module for each."""
    with Job(tmp_path, newest, daemon.root) as job:
        job.run("import", module="kiln.triton")
        got = job.run("without collecting", command={"autotune": {"blocks": [64, 128], "bad": REFUSED_BY_PTXAS}})
    assert got["timings"][0] == "[inf, inf, inf]" and got["left"] == 0 and got["urgent"] == 0, got


@pytest.mark.slow
@pytest.mark.parametrize("version", sorted({HOOKED[0], HOOKED[-1]}))
def test_a_tuning_that_is_interrupted_waits_for_no_kernel(daemon, version, tmp_path):
    """Without a sign of life from the daemon, which the job has the patience to wait for: KILN_TIMEOUT, for the first of them."""
    forget_own(daemon)
    with Job(tmp_path, python_of(version), daemon.root, KILN_TIMEOUT="20") as job:
        job.run("be patient")
        job.compile("softmax")
        got = job.run("interrupt autotuning", blocks=[64, 128, 256, 512, 1024, 2048], daemon=daemon.pid)
        assert got["cancelled"] > 0 and got["under_way"] == 0, got
        assert len(job.run("autotune", blocks=[64, 128])["launched"]) == 5
    assert "took longer" not in job.log and "gave no kernel" not in job.log, job.log


def test_tuning_without_a_daemon(newest, tmp_path):
    with Job(tmp_path, newest, tmp_path / "nowhere") as job:
        job.run("import", module="kiln.triton")
        assert len(job.run("autotune", blocks=[64, 128])["launched"]) == 5
        assert job.report()["local"] == {"the daemon is away": 4}


@pytest.mark.slow
def test_tuning_in_the_mode_that_requires(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, cache="first") as job:
        job.run("autotune", blocks=[256, 512])
    forget_own(daemon)
    with Job(tmp_path, newest, daemon.root, cache="second", KILN_MODE="require") as job:
        job.run("import", module="kiln.triton")
        got = job.run("autotune", blocks=[256, 512])
        assert len(got["launched"]) == 5 and got["urgent"] == 0
        assert sum(job.report()["hits"].values()) == 4


# --- Forks and threads -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_32_children_of_a_process_that_used_it(daemon, python, tmp_path):
    with Job(tmp_path, python, daemon.root) as job:
        job.compile("vector_add")
        done = job.run("children", count=32, command={"compile": {"kernel": "softmax", "target": "cuda:80"}})
        assert job.compile("vector_add", "cuda:80").get("hash")
    assert [answer.get("error") for answer in done["answers"]] == [None] * 32, done["answers"]
    reports = [answer["report"] for answer in done["answers"]]
    # A child finds the kernel in Triton's own cache where another one was faster.
    assert all(report["local"] == {} for report in reports), reports
    assert sum(map(served, reports)) >= 1


def test_a_grandchild(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root) as job:
        job.compile("vector_add")
        inner = {"children": {"count": 2, "command": {"compile": {"kernel": "vector_add", "target": "cuda:80"}}}}
        done = job.run("children", count=2, command=inner)
    for child in done["answers"]:
        assert [answer.get("error") for answer in child["answers"]] == [None, None]
        assert all(answer["report"]["local"] == {} for answer in child["answers"])


@pytest.mark.slow
@pytest.mark.parametrize("context,first", [("fork", 10), ("spawn", 20), ("forkserver", 30)])
def test_workers_that_live_as_long_as_the_job(daemon, newest, tmp_path, context, first):
    """A DataLoader's: started by a process that has used the daemon, and goes on to, they do too."""
    environment = Job(tmp_path, newest, daemon.root).environment
    done = subprocess.run([newest, "-B", LOADER_JOB, context, str(first)], env=environment, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    own, *workers = json.loads(done.stdout)
    assert (served(own), own["local"]) == (3, {}), (own, done.stderr)
    assert [(served(one), one["local"]) for one in workers] == [(2, {})] * 3, (workers, done.stderr)


def test_threads_ask_at_once_without_grpc(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root) as job:
        done = job.run("threads", count=8, command={"compile": {"kernel": "vector_add", "target": "cuda:90"}})
        assert [answer.get("error") for answer in done["answers"]] == [None] * 8
        assert job.report()["local"] == {} and "grpc" not in job.run("state")["modules"]


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["RLIMIT_NPROC", "pids.max"])
def test_where_no_thread_and_no_process_can_start_the_daemon_compiles(daemon, newest, tmp_path, bound):
    """Triton cannot: it runs the ptxas."""
    first = 60 if bound == "RLIMIT_NPROC" else 62
    with Job(tmp_path, newest, daemon.root) as job, contextlib.ExitStack() as bounds:
        job.compile("vector_add", num_stages=first)
        if bound == "RLIMIT_NPROC":
            job.run("no more processes")
        else:
            threads = len(os.listdir(f"/proc/{job.process.pid}/task"))
            bounds.enter_context(processes.bounded(job.process.pid, "pids", ("pids.max", "pids.max"), threads))
            job.run("no thread")
        assert "hash" in job.compile("vector_add", num_stages=first + 1)
        assert len(job.run("autotune", blocks=[64, 128, 256], size=4100)["launched"]) == 7
        report = job.report()
    assert report["local"] == {} and served(report) == 8, (report, job.log)


# --- No daemon -------------------------------------------------------------------------------------------------------


def test_without_a_daemon_triton_compiles(newest, tmp_path):
    with Job(tmp_path, newest, tmp_path / "nowhere") as job:
        begin = time.monotonic()
        answers = [job.compile(kernel) for kernel in KERNELS]
        took = time.monotonic() - begin
        report, state = job.report(), job.run("state")
    assert all("hash" in answer for answer in answers)
    assert report["local"] == {"the daemon is away": 3}
    assert report["seconds_waited"] < took / 20
    assert "google.protobuf" not in state["modules"]
    assert job.log.count("kiln:") == 1 and "no daemon" in job.log


@pytest.mark.slow
def test_a_daemon_that_is_stopped_costs_a_second_once(other_daemon, newest, tmp_path):
    """Here a second is longer, for what a machine that does much else adds to it to count for little; and protobuf has been imported."""
    second_s = 8.0
    with other_daemon, Job(tmp_path, newest, other_daemon.root) as job:
        assert job.run("be patient", seconds=second_s)["before"] == 1.0
        other_daemon.stop_answering()
        try:
            job.compile("vector_add")
            first = job.report()
            job.compile("softmax")
            second = job.report()
        finally:
            other_daemon.go_on()
    assert first["local"] == {"the daemon is away": 1} and second["local"] == {"the daemon is away": 2}
    assert second_s / 2 < first["seconds_waited"] < 1.5 * second_s
    assert second["seconds_waited"] - first["seconds_waited"] < second_s / 10
    assert job.log.count("kiln:") == 1 and "does not answer" in job.log


@pytest.mark.slow
def test_a_daemon_that_is_killed_in_the_middle_of_a_compile(other_daemon, newest, tmp_path):
    with other_daemon, Job(tmp_path, newest, other_daemon.root) as job:
        job.compile("vector_add")
        job.start("compile", kernel="matmul_128x128x64", target="cuda:90")
        deadline = time.monotonic() + 30
        while other_daemon.kiln("stats", "--json").objects()[0]["in_flight"] == 0 and time.monotonic() < deadline:
            pass
        other_daemon.kill()
        assert "hash" in job.answer()
        assert job.report()["local"] == {"the daemon is away": 1}


def test_a_daemon_that_comes_back_is_used_again(other_daemon, newest, tmp_path):
    with other_daemon, Job(tmp_path, newest, other_daemon.root) as job:
        job.compile("vector_add")
        other_daemon.kill()
        job.compile("softmax")
        assert job.report()["local"] == {"the daemon is away": 1}
        with other_daemon:
            time.sleep(3.1)  # until it is looked for again
            job.compile("matmul_128x128x64")
            assert served(job.report()) == 2


# --- What is not as it should be --------------------------------------------------------------------------------------

# A Triton, or a part of Kiln: what is said ("": nothing), and how many kernels the daemon gives all the same.
CHANGES = {
    "the key is a plain function": ("", 1),
    "no configurations are pruned": ("configurations are compiled one after the other: AttributeError", 1),
    "the hook is called by names": ("", 1),
    "the hook is called by other names": ("the daemon is not asked for kernels: KeyError", 0),
    "the key is broken": ("", 1),
    "no triton.knobs": ("has no hook", 0),
    "no triton.runtime.build": ("libraries are always built: ModuleNotFoundError", 1),
    "no triton.runtime.autotuner": ("Triton's key for itself is not remembered: ModuleNotFoundError", 1),
    "no kiln._plugin.pipeline": ("the daemon is not asked for kernels: ModuleNotFoundError", 0),
    "no kiln._plugin.groups": ("kernels are not kept in the daemon: ModuleNotFoundError", 0),
}


@pytest.fixture(scope="module")
def bare(daemon, tmp_path_factory):
    """A process whose children change what they have of Triton and Kiln."""
    with Job(tmp_path_factory.mktemp("bare"), python_of(HOOKED[0]), daemon.root) as job:
        yield job


def changed(job, number, what, **more):
    before = len(job.log)
    command = {"changed": {"what": what, "kernel": "vector_add", "target": "cuda:90", "options": {"num_stages": 30 + number}, **more}}
    answer, = job.run("children", count=1, command=command)["answers"]
    return answer, job.log[before:]


@pytest.mark.parametrize("number", range(len(CHANGES)), ids=lambda number: list(CHANGES)[number])
def test_unfit_entries_are_left_out(bare, number):
    what, (words, count) = list(CHANGES.items())[number]
    answer, log = changed(bare, number, what)
    assert "hash" in answer, answer
    assert served(answer["report"]) == count if answer["report"] else count == 0, (answer, log)
    assert words in log and log.count("kiln:") <= (3 if words else 0), log


def test_require_raises_only_cache_miss_errors(bare):
    for number, what in enumerate(("no kiln._plugin.pipeline", "the hook is called by other names")):
        answer, _ = changed(bare, 20 + number, what, variables={"KILN_MODE": "require"})
        assert answer.get("error") == "CacheMissError", answer


@pytest.mark.slow
def test_an_answer_that_is_not_whole_is_none(daemon, newest, tmp_path):
    spoiled = ("gone", "no llir", "no cubin", "no text", "no metadata", "no name")
    with Job(tmp_path, newest, daemon.root) as job:
        job.run("import", module="kiln.client")
        for number, how in enumerate(spoiled):
            job.run("spoil", how=how)
            assert "hash" in job.compile("vector_add", num_stages=40 + number), (how, job.log)
        report = job.report()
        assert sum(report["local"].values()) == len(spoiled) and served(report) == 0, report
        assert report["local"]["the artifact is gone"] == 1
    assert all(job.files().values()) and sum(name.endswith(".cubin") for name in job.files()) == len(spoiled)


def test_require_raises_a_cache_miss_error(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, cache="first") as job:
        job.compile("vector_add", num_stages=50)
    forget_own(daemon)
    with Job(tmp_path, newest, daemon.root, KILN_MODE="require") as job:
        job.run("import", module="kiln.client")
        for how, words in (("gone", "no such blob"), ("no text", "UnicodeDecodeError")):
            job.run("spoil", how=how)
            answer = job.compile("vector_add", num_stages=50)
            assert answer["error"] == "CacheMissError" and words in answer["message"], (how, answer)


def test_a_client_that_cannot_be_imported_is_tried_once(daemon, newest, tmp_path):
    """Protobuf raises a TypeError for code that is too new or too old for it."""
    with Job(tmp_path, newest, daemon.root) as job:
        done = job.run("compile twice without", module="kiln.client")
        assert job.report()["local"] == {"the client does not work here": 2}
    assert done["tries"] == 1 and all("hash" in answer for answer in done["answers"])
    assert job.log.count("kiln:") == 1 and "TypeError: Descriptors cannot be created directly." in job.log


def test_without_protobuf_it_says_what_to_install(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root) as job:
        job.run("hide", module="google")
        assert "hash" in job.compile("vector_add")
        assert job.report()["local"] == {"protobuf is not installed": 1}
    assert f"install protobuf for {newest}" in job.log, job.log


# --- Signals ---------------------------------------------------------------------------------------------------------

COMPILE = {"compile": {"kernel": "vector_add", "target": "cuda:90"}}
TUNE = {"autotune": {"blocks": [64, 128, 256, 512, 1024, 2048]}}


@pytest.mark.parametrize("mode", ["use", "require"])
@pytest.mark.parametrize("method, command", [("compile", COMPILE), ("__init__", COMPILE), ("get_own", COMPILE), ("compile", TUNE)],
                         ids=["for a kernel", "for the connection", "for the own namespace", "for a tuning's kernels"])
def test_a_signal_handlers_exception_ends_the_wait(daemon, newest, tmp_path, method, command, mode):
    """And is no reason not to use the daemon afterwards."""
    forget_own(daemon)
    with Job(tmp_path, newest, daemon.root, KILN_MODE=mode) as job:
        job.run("be patient")
        job.run("import", module="kiln.triton")
        got = job.run("preempt", command=command, daemon=daemon.pid, method=method)
        assert got.get("error") == "Preempted" and got["seconds"] < 60, got
        report = job.report()
        assert report["local"] == {} and report["refused"] == 0, report
        if mode == "use":
            job.run("autotune", blocks=[64])
            assert served(job.report()) == 2 and job.report()["local"] == {}, job.report()
    assert job.log.count("kiln:") == 0, job.log


def test_a_signal_handlers_exception_is_not_taken_for_an_unnamed_kernel(newest, tmp_path):
    with Job(tmp_path, newest, tmp_path / "nowhere") as job:
        assert job.run("preempt naming") == {"error": "Preempted"}


@pytest.mark.slow
def test_kernels_of_an_interrupted_tuning_are_asked_for_again(daemon, newest, tmp_path):
    with daemon.beside(tmp_path, KILN_HOT_SIZE="0B") as asked:  # what is published is not waited for
        with Job(tmp_path, newest, asked.root, cache="first") as job:
            job.run("autotune", blocks=[256, 512])
        forget_own(asked)
        with Job(tmp_path, newest, asked.root, cache="second", KILN_MODE="require") as job:
            job.run("be patient")
            job.run("import", module="kiln.triton")
            tune = {"autotune": {"blocks": [256, 512]}}
            assert job.run("preempt", command=tune, daemon=asked.pid, method="compile").get("error") == "Preempted"
            got = job.run("autotune", blocks=[256, 512], hooked=("compilation", "listener"))
            assert got["urgent"] == 4 and job.report()["refused"] == 0, job.report()


# --- Modes -----------------------------------------------------------------------------------------------------------


def test_off_leaves_triton_alone(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, KILN_MODE="off") as job:
        job.compile("vector_add")
        assert job.report() is None or served(job.report()) == 0


def test_require_fails_where_something_would_have_to_be_compiled(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, KILN_MODE="require") as job:
        answer = job.compile("vector_add", num_stages=7)
    assert answer["error"] == "CacheMissError"
    assert "not in the cache" in answer["message"] and "num_stages=7" in answer["message"] and "vector_add" in answer["message"]


@pytest.mark.slow
def test_require_names_the_nearest_and_what_differs(other_daemon, newest, tmp_path):
    with other_daemon as own, Job(tmp_path, newest, own.root, cache="first") as job:
        for options in ({"num_warps": 8, "num_stages": 7}, {"num_stages": 7}):
            job.compile("vector_add", **options)
        with Job(tmp_path, newest, own.root, cache="second", KILN_MODE="require") as strict:
            message = strict.compile("vector_add", num_stages=5)["message"]
            target = strict.compile("vector_add", "cuda:80", num_stages=7)["message"]
            nothing = strict.compile("softmax")["message"]
    assert re.search(r"the nearest that is stored: [0-9a-f]{12} \(num_stages: asked 5, stored 7\)\n  To have it stored: ", message), message
    assert message.count("\n") < 24 and max(map(len, message.split("\n"))) < 500, message
    assert "(target: asked cuda:80:32, stored cuda:90:32)" in target, target
    assert "nothing of that name is known to be stored\n  To have it stored: " in nothing, nothing
    assert all(words in message for words in ("kiln record", "kiln warm")), message


@pytest.mark.slow
def test_require_fits_one_screen(other_daemon, newest, tmp_path):
    """A kernel with every option that Triton takes, which differs in all of them from what is stored."""
    options = {"num_stages": 5, "num_warps": 8, "maxnreg": 96, "enable_fp_fusion": False, "launch_pdl": True, "launch_cooperative_grid": True,
               "default_dot_input_precision": "ieee", "sanitize_overflow": False,
               "max_num_imprecise_acc_default": 7, "ptx_options": "--opt-level 2 --verbose " * 20}
    with other_daemon as own, Job(tmp_path, newest, own.root, cache="first") as job:
        assert "hash" in job.compile("vector_add"), job.log
        with Job(tmp_path, newest, own.root, cache="second", KILN_MODE="require") as strict:
            message = strict.compile("vector_add", **options)["message"]
    lines = f"kiln.errors.CacheMissError: {message}".split("\n")
    assert sum(-(-len(line) // 80) for line in lines) <= 24, message
    assert "num_stages=5" in message and "more)" in message and "To have it stored: " in message, message


def test_require_takes_what_is_there(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, cache="first") as job:
        job.compile("vector_add", num_stages=6)
    with Job(tmp_path, newest, daemon.root, cache="second", KILN_MODE="require") as job:
        assert "hash" in job.compile("vector_add", num_stages=6)
        assert sum(job.report()["hits"].values()) == 1


def test_require_without_a_daemon_fails(newest, tmp_path):
    with Job(tmp_path, newest, tmp_path / "nowhere", KILN_MODE="require") as job:
        answer = job.compile("vector_add")
    socket = tmp_path / "nowhere/run/kilnd.sock"
    assert answer["error"] == "CacheMissError", answer
    assert f"vector_add for cuda:90: the daemon is away (no daemon: there is no socket at {socket}" in answer["message"], answer
    assert "is an error until that changes" in job.log and "compiles by itself" not in job.log


def test_require_raises_what_triton_raises_for_what_is_known_not_to_compile(daemon, other_daemon, newest, tmp_path):
    """Where a warm has had a recorded kernel refused, too."""
    refused = {"kernel": "vector_add", "ptx_options": REFUSED_BY_PTXAS}
    with Job(tmp_path, newest, daemon.root, cache="first") as job:
        assert job.compile(**refused)["error"] == "PTXASError"
    with Job(tmp_path, newest, daemon.root, cache="second", KILN_MODE="require") as job:
        answer = job.compile(**refused)
        assert job.report()["local"] == {} and job.report()["refused"] == 1
    assert answer["error"] == "PTXASError" and "Invalid value 'many'" in answer["message"], answer
    manifest = tmp_path / "manifest.jsonl"
    with Job(tmp_path, newest, daemon.root, cache="recorded", KILN_MODE="record", KILN_MANIFEST=str(manifest)) as job:
        assert job.compile(**refused)["error"] == "PTXASError"
    with other_daemon as other:
        warmed = other.kiln("warm", manifest)
        assert warmed.code == 0 and "1 refused as when recorded" in warmed.error, warmed
        with Job(tmp_path, newest, other.root, cache="warmed", KILN_MODE="require") as job:
            assert job.compile(**refused)["message"] == answer["message"]


def test_require_says_what_the_daemon_has_not_got(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, KILN_MODE="require") as job:
        answers = [job.compile("vector_add", "cuda:95") for _ in range(2)]
        assert job.report()["refused"] == 2 and job.report()["local"] == {}
    for answer in answers:
        assert answer["error"] == "CacheMissError", answer
        assert "vector_add for cuda:95" in answer["message"] and "does not compile for cuda:95" in answer["message"], answer
    assert "compiles by itself" not in job.log
    with Job(tmp_path, newest, daemon.root, cache="use") as job:
        job.compile("vector_add", "cuda:95")
        assert job.report()["local"] == {"the daemon's toolchain does not compile for cuda:95": 1}


@pytest.mark.slow
def test_a_published_kernel_needs_no_call(daemon, newest, tmp_path):
    """Not even a daemon, nor protobuf. Its uses are told when the process ends."""
    with Job(tmp_path, newest, cache="plain") as plain:
        expected = [plain.compile(kernel) for kernel in KERNELS]
    other = daemon.beside(tmp_path)
    with other:
        with Job(tmp_path, newest, other.root, cache="first") as job:
            for kernel in KERNELS:
                job.compile(kernel)
        with Job(tmp_path, newest, other.root, cache="second") as job:
            job.compile(KERNELS[0])
        uses = json.loads(other.kiln("stats", "--json").out)["hot_uses"]
        assert uses == 2  # the entry, and the artifact behind it
        with Job(tmp_path, newest, other.root, cache="third") as job:
            other.kill()
            got = [job.compile(kernel) for kernel in KERNELS]
            state = job.run("state")
            assert job.report()["hits"] == {"own": len(KERNELS)} and state["lowered"] == 0, job.log
            assert state["modules"] == ["kiln", "kiln.triton"] and "kiln: " not in job.log, job.log
            assert not state["has_code_generator"]  # its import takes longer than the look for a kernel
    assert [one["hash"] for one in got] == [one["hash"] for one in expected] and job.files() == plain.files()


def test_a_published_kernel_is_taken_from_the_hot_directory(own_daemon, newest, tmp_path):
    """As a local compile gives it."""
    only = dict(TRITON_STORE_BINARY_ONLY="1")
    manifest = tmp_path / "manifest.jsonl"
    with Job(tmp_path, newest, cache="plain", **only) as plain:
        expected = [plain.compile("softmax", target) for target in TARGETS]
    with Job(tmp_path, newest, own_daemon.root, cache="recorded", KILN_MODE="record", KILN_MANIFEST=str(manifest)) as job:
        job.run("be patient")
        for target in TARGETS:
            job.compile("softmax", target)
    with Job(tmp_path, newest, own_daemon.root, cache="hot", **only) as job:
        got = [job.compile("softmax", target) for target in TARGETS]
        assert job.report()["hits"] == {"hot": len(TARGETS)}, job.log
    assert [one["hash"] for one in got] == [one["hash"] for one in expected] and job.files() == plain.files()


@pytest.mark.parametrize("mode", ["use", "require"])
def test_a_kernel_that_another_user_has_had_compiled_needs_no_daemon(other_daemon, newest, tmp_path, mode):
    """A setting stands for the other user: this job finds nothing by Triton's key."""
    with other_daemon:
        with Job(tmp_path, newest, other_daemon.root, cache="theirs") as job:
            job.run("be patient")
            assert "hash" in job.compile("vector_add")
        other_daemon.kill()
        with Job(tmp_path, newest, other_daemon.root, cache="mine", TRITON_STORE_BINARY_ONLY="1", KILN_MODE=mode) as job:
            assert "hash" in job.compile("vector_add"), job.log
            missing = job.compile("vector_add", num_warps=16)
            report = job.report()
        assert report["hits"] == {"hot": 1}, (report, job.log)
        if mode == "use":
            assert report["local"] == {"the daemon is away": 1}, report
        else:
            assert missing["error"] == "CacheMissError" and "the daemon is away" in missing["message"] and report["refused"] == 1, missing


@pytest.mark.slow
def test_a_recorded_manifest_warms_another_daemon(daemon, other_daemon, newest, tmp_path):
    manifest = tmp_path / "manifest.jsonl"
    with Job(tmp_path, newest, daemon.root, KILN_MODE="record", KILN_MANIFEST=str(manifest)) as job:
        for kernel in KERNELS:
            job.compile(kernel)
            job.compile(kernel)  # once is enough
    origin, *recorded = map(json.loads, manifest.read_text().splitlines())
    lines = [one for one in recorded if "own" not in one]
    assert origin["manifest"]["versions"]["triton"] == HOOKED[-1] and len(lines) == len(KERNELS)
    assert all({"cuda:90", "cuda:100"} <= set(one["recorded"]["same_ir_targets"]) for one in lines), lines
    with other_daemon as other:
        warmed = other.kiln("warm", manifest)
        assert warmed.code == 0, warmed.error
        with Job(tmp_path, newest, other.root, cache="warm", KILN_MODE="require") as job:
            assert all("hash" in job.compile(kernel) for kernel in KERNELS)
        # No line says more than the other vendor's compiler knows.
        assert other.kiln("warm", manifest, "--target", "hip:gfx942").code == 0


def test_a_mode_that_does_not_exist_is_named_and_passed_over(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, KILN_MODE="yes") as job:
        job.compile("vector_add")
        assert served(job.report()) == 1
    assert "KILN_MODE=yes" in job.log


def test_a_line_at_the_end_says_what_was_done(daemon, newest, tmp_path):
    with Job(tmp_path, newest, daemon.root, KILN_REPORT="1") as job:
        job.compile("vector_add")
        pid = job.process.pid
    line, = [line for line in job.log.splitlines() if line.startswith(f"kiln: process {pid}: ")]
    assert "by Triton" not in line and " 1 kernel: " in line


FORK_WHILE_ANOTHER_THREAD_PARSES = """
import os, signal, threading
import kiln.triton
from kiln._plugin import source_dependencies
parses, ends = threading.Event(), threading.Event()
def parse():
    with source_dependencies._parsing.lock:
        parses.set()
        ends.wait()
thread = threading.Thread(target=parse)
thread.start()
parses.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    source_dependencies._names_in("def kernel(x):\\n    return x")
    os._exit(0)
status = os.waitpid(pid, 0)[1]
ends.set()
thread.join()
assert status == 0, status
"""


def test_a_child_parses_though_it_was_forked_while_another_thread_did(newest, tmp_path):
    with Job(tmp_path, newest) as job:
        environment = job.environment
    done = subprocess.run([newest, "-B", "-c", FORK_WHILE_ANOTHER_THREAD_PARSES], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_older_triton_has_no_hook_and_says_so(tmp_path):
    """With a Triton that has none, which takes no more than a knob that is not there."""
    script = ("from triton import knobs\ndel type(knobs.runtime).add_stages_inspection_hook\nimport kiln.triton\n")
    with Job(tmp_path, python_of(HOOKED[0])) as job:
        environment = job.environment
    done = subprocess.run([python_of(HOOKED[0]), "-B", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "has no hook" in done.stderr, done.stderr
