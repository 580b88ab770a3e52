"""What a recording says besides requests: the keys that a job looks up by before it lowers a kernel, and the times of its tunings."""

import json
import os
import shutil
import subprocess

import pytest

import stand_in_libcuda
from job import Job, build, building, make_counting_compiler
from places import KERNELS as SOURCES, ROOT
from test_bundle import make_key, trust
from test_manifest import KERNELS, PROGRAM, PYTHON, kiln, objects, recorded  # noqa: F401

TUNED_JOB = ROOT / "tests" / "testing" / "jobs" / "tuned_job.py"


def hits(folder, root, cache):
    """By tier, of a job that may compile nothing."""
    with Job(folder, PYTHON, root, cache=cache, KILN_MODE="require") as job:
        assert all("hash" in job.compile(kernel) for kernel in KERNELS)
        return job.report()["hits"]


def test_a_job_on_a_warmed_node_finds_its_kernels_before_it_lowers_them(recorded, kiln, other_daemon):  # noqa: F811
    path, _ = recorded
    assert objects(kiln("manifest", "check", path, "--json"))[0]["own_entries"] == len(KERNELS)
    with other_daemon as other:
        warmed = other.kiln("warm", path)
        assert warmed.code == 0 and f"{len(KERNELS)} recorded keys" in warmed.error, warmed
        assert hits(path.parent, other.root, "found") == {"own": len(KERNELS)}
        again = other.kiln("warm", path)
        assert again.code == 0 and "recorded keys" not in again.error, again
        entries = [one for one in other.kiln("ls", "--json").objects() if one.get("own_uid") is not None]
        smallest = min(entries, key=lambda one: one["size_bytes"])["key"]  # what the warm left for the next one
        for one in entries:
            if one["key"] != smallest:
                assert other.kiln("evict", one["key"]).code == 0
        mended = other.kiln("warm", path)
        assert mended.code == 0 and f"{len(KERNELS)} recorded keys" in mended.error, mended
        assert hits(path.parent, other.root, "put again") == {"own": len(KERNELS)}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["others may write it", "another target", "a part"])
def test_keys_are_not_taken(recorded, other_daemon, tmp_path, what):  # noqa: F811
    """Of a file that others may write, and with kernels that are not the recorded ones."""
    path = tmp_path / "job.kiln"
    path.write_bytes(recorded[0].read_bytes())
    os.chmod(path, 0o664 if what == "others may write it" else 0o644)
    more = {"another target": ("--target", "cuda:90"), "a part": ("--shard", "1/1")}.get(what, ())
    with other_daemon as other:
        done = other.kiln("warm", path, *more)
        assert done.code == 0 and ("others than you and root may have written it" in done.error) == (not more), done
        # One: what the warm leaves for the next warm.
        assert len([one for one in other.kiln("ls", "--json").objects() if "own_uid" in one]) == 1
        assert "own" not in hits(recorded[0].parent, other.root, what)


@pytest.mark.slow
def test_keys_whose_kernels_are_not_stored_are_told(recorded, other_daemon):  # noqa: F811
    path, _ = recorded
    with other_daemon as other:
        done = other.kiln("warm", path, "--budget", "1ms", "--jobs", "1")
        assert done.code == 1 and "left out, whose kernels are not stored" in done.error, done


@pytest.mark.slow
def test_keys_of_kernels_that_a_budget_left_out_are_put_by_the_next_warm(recorded, other_daemon):  # noqa: F811
    path, _ = recorded
    with other_daemon as other:
        assert other.kiln("warm", path, "--budget", "1ms", "--jobs", "1").code == 1
        assert other.kiln("warm", path).code == 0
        assert hits(path.parent, other.root, "after a budget") == {"own": len(KERNELS)}


@pytest.mark.slow
def test_keys_are_put_where_a_job_has_put_some_of_them(recorded, other_daemon):  # noqa: F811
    path, _ = recorded
    with other_daemon as other:
        with Job(path.parent, PYTHON, other.root, cache="some") as job:
            job.compile(KERNELS[0])
        assert other.kiln("warm", path).code == 0
        assert hits(path.parent, other.root, "after some") == {"own": len(KERNELS)}


def test_a_merge_has_the_keys_of_files_that_no_other_may_write_and_a_subset_none(recorded, kiln, tmp_path):  # noqa: F811
    shared = tmp_path / "shared.kiln"
    shared.write_bytes(recorded[0].read_bytes())
    shared.chmod(0o664)
    for action, path, keys in ("merge", recorded[0], len(KERNELS)), ("merge", shared, 0), ("subset", recorded[0], 0):
        assert kiln("manifest", action, path, path, "-o", tmp_path / "new").returncode == 0
        assert objects(kiln("manifest", "check", tmp_path / "new", "--json"))[0]["own_entries"] == keys


@pytest.mark.slow
def test_what_a_recorded_tuning_measured_is_not_measured_on_a_warmed_node(daemon, kiln, other_daemon, tmp_path):  # noqa: F811
    usual = stand_in_libcuda.make(tmp_path / "driver")

    def environment(root, cache):
        (tmp_path / cache).mkdir()
        return Job(tmp_path, PYTHON, root, cache, **usual).environment

    arguments = (PYTHON, "-B", TUNED_JOB, tmp_path, "nothing")
    path = tmp_path / "tuned.kiln"
    done = kiln("record", "-o", path, "--", *arguments, env=environment(daemon.root, "first"))
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout.splitlines()[-1])
    with other_daemon as other:
        assert other.kiln("warm", path).code == 0
        again = subprocess.run([*map(str, arguments)], env=environment(other.root, "second"), capture_output=True, text=True, timeout=300, check=True)
        second = json.loads(again.stdout.splitlines()[-1])
    assert (first["measured"], second["measured"]) == (4, 0), (first, second)
    assert (second["best"], second["times"]) == (first["best"], first["times"])


@pytest.mark.slow
@pytest.mark.parametrize("carried", ["a manifest", "a bundle"])
def test_a_daemon_knows_keys_and_tunings_of_a_job_that_nobody_recorded(daemon, kiln, tmp_path, carried):  # noqa: F811
    """Of the job that had all compiled, and of the next one, which found all of it."""
    usual = stand_in_libcuda.make(tmp_path / "driver")
    path, bundle = tmp_path / "job.kiln", tmp_path / "job.bundle"

    def run(root, name, mode="use"):
        with Job(tmp_path, PYTHON, root, cache=f"kernels of {name}", KILN_JOB=name, KILN_MODE=mode) as job:
            assert all("hash" in job.compile(kernel) for kernel in KERNELS)
            found = job.report()["hits"]
        (tmp_path / name).mkdir()
        environment = Job(tmp_path, PYTHON, root, name, KILN_JOB=name, KILN_MODE=mode, **usual).environment
        tuned = subprocess.run([PYTHON, "-B", TUNED_JOB, tmp_path, "nothing"], env=environment, capture_output=True, text=True, timeout=300, check=True)
        return found, json.loads(tuned.stdout.splitlines()[-1])

    first, second = (f"{name} with {carried}" for name in ("first", "second"))
    assert (run(daemon.root, first)[1]["measured"], run(daemon.root, second)[1]["measured"]) == (4, 0)
    for name in first, second:
        node = tmp_path / str(len(list(tmp_path.iterdir())))  # short: a socket lies beneath it
        node.mkdir()
        with daemon.beside(node) as other:
            if carried == "a manifest":
                assert daemon.kiln("record", "--job", name, "-o", path).code == 0
            else:
                key = make_key(tmp_path, "builder")
                trust(other, key)
                assert daemon.kiln("export", "--job", name, "-o", bundle, "--sign-with", key).code == 0
                assert other.kiln("import", bundle, "-o", path).code == 0
            assert other.kiln("warm", path).code == 0
            found, told = run(other.root, f"{name}, on a warmed node", "require")
            assert found == {"own": len(KERNELS)} and told["measured"] == 0, (name, found, told)
        origin = objects(kiln("manifest", "show", path, "--json"))[-1]["manifest"]
        assert (origin["job"], origin["versions"]["triton"]) == (name, "3.6.0"), origin


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["empty", "of the first recording"])
def test_the_c_compiler_does_not_run_on_a_warmed_node(daemon, kiln, other_daemon, tmp_path, cache):  # noqa: F811
    """The second recording finds the libraries of the first one, in the daemon or in Triton's files."""
    (tmp_path / "driver").mkdir()
    driver, signature = make_counting_compiler(tmp_path / "driver"), ["*fp32", "i32"]
    commands = "".join(json.dumps(each) + "\n" for each in ({"driver": {}}, {"launcher": {"signature": signature}}, {"loadable": {}}))
    for path, its_cache in ((tmp_path / "first.kiln", "of the first recording"), (tmp_path / "second.kiln", cache)):
        shutil.copytree(SOURCES, tmp_path / "source")
        job = building(tmp_path, PYTHON, daemon.root, driver, cache=its_cache)
        done = kiln("record", "-o", path, "--", PYTHON, "-B", PROGRAM, tmp_path, env=job.environment, input=commands)
        assert done.returncode == 0, done.stderr
        assert objects(kiln("manifest", "check", path, "--json"))[0]["own_entries"] == 3
    with other_daemon as other:
        assert other.kiln("warm", path).code == 0
        with building(tmp_path, PYTHON, other.root, driver, cache="warmed", KILN_MODE="require") as job:
            assert job.run("loadable") == {"name": "loadable"}
            assert build(driver, job, signature) == 0 and job.report()["builds_spared"] == 3, job.log
