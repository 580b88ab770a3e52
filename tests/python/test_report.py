"""kiln.report() and the line at the end: each process's own figures, whatever its threads, its children and the daemon have been at."""

import subprocess
import threading
import time

import pytest

from job import Job
from kiln._report import Counters, Report
from places import TOOLCHAIN

PYTHON = TOOLCHAIN / "bin" / "python"


def served(report):
    return report["compiled"] + report["joined"] + sum(report["hits"].values())


def lines(log):
    """Those at the end, by the process."""
    ends = [line.removeprefix("kiln: process ").partition(": ") for line in log.splitlines() if line.startswith("kiln: process ")]
    return {int(pid): words for pid, _, words in ends}


# --- What is counted -------------------------------------------------------------------------------------------------


def test_the_report_counts_seconds_waited_and_saved():
    counters = Counters()
    counters.answered("hit", "memory", 0.5, 2.0)
    counters.answered("hit", "memory", 0.25, 1.0)
    counters.answered("hit", "own", 0.125, 4.0)
    counters.answered("joined", "", 1.0, 3.0)
    counters.answered("compiled", "", 8.0, 7.5)
    counters.compiled_here("the daemon is away", 0.0625)
    counters.add(0.5, refused=1)
    counters.add(0.25)
    counters.add(builds_spared=1, timings_found=18)
    told = counters.snapshot()
    assert told == Report(hits={"memory": 2, "own": 1}, joined=1, compiled=1, local={"the daemon is away": 1}, refused=1, builds_spared=1,
                          timings_found=18, seconds_waited=0.5 + 0.25 + 0.125 + 1 + 8 + 0.0625 + 0.5 + 0.25, seconds_saved=1.5 + 0.75 + 3.875 + 2)
    assert str(told) == "7 kernels: 4 found, 1 compiled, 1 compiled by Triton (the daemon is away), 1 refused; 18 timings found; 8.1 s saved"
    counters.answered("compiled", "", 1.0, 1.0, missed_after_warm=True)
    assert "2 compiled (1 missed after a warm: kiln why --job)" in str(counters.snapshot())
    counters.compiled_here("another reason"), counters.compiled_here("another reason")
    assert "3 compiled by Triton (another reason, and others)" in str(counters.snapshot())
    counters.add(1.0)
    assert told.seconds_waited == 10.6875  # as it was when it was asked for


@pytest.mark.parametrize("compile_s,words", [(0.25, "0.2 s lost"), (0.499, "0.0 s saved"), (0.5, "0.0 s saved"), (2.5, "2.0 s saved")])
def test_answers_that_took_longer_than_the_compiles_are_a_loss(compile_s, words):
    counters = Counters()
    counters.answered("hit", "disk", 0.5, compile_s)
    assert str(counters.snapshot()) == f"1 kernel: 1 found; {words}"


def test_threads_lose_nothing():
    counters, together = Counters(), threading.Barrier(8)

    def work():
        together.wait()
        for _ in range(2000):
            counters.answered("hit", "memory", 0.5, 1.0)
            counters.compiled_here("a reason")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.snapshot() == Report(hits={"memory": 16000}, local={"a reason": 16000}, seconds_waited=8000.0, seconds_saved=8000.0)


# What a process is told of itself, without a compile: it forks once, and the child forks too.
FORKS = """
import os, kiln, kiln.triton
from kiln._report import counters
def forked(work):
    pid = os.fork()
    if pid == 0:
        work()
        raise SystemExit(0)
    assert os.waitpid(pid, 0)[1] == 0
def child():
    assert kiln.report() == kiln.Report(), kiln.report()
    counters().answered("compiled", "", 2.0, 1.0)
    forked(lambda: counters().compiled_here("a reason", 4.0))
    forked(lambda: os._exit(0))
counters().answered("hit", "memory", 0.5, 1.0)
forked(child)
print(os.getpid(), kiln.report())
"""


def run(tmp_path, script, **environment):
    done = subprocess.run([PYTHON, "-B", "-c", script], env=Job(tmp_path, PYTHON, tmp_path / "nowhere", **environment).environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_a_child_begins_at_nothing_and_adds_nothing_to_its_parent(tmp_path):
    done = run(tmp_path, FORKS, KILN_REPORT="1")
    pid, _, own = done.stdout.strip().partition(" ")
    told = lines(done.stderr)
    assert told.pop(int(pid)) == own == "1 kernel: 1 found; 0.5 s saved"
    # In the order in which they end. The one that ends with os._exit says nothing.
    assert list(told.values()) == ["1 kernel: 1 compiled by Triton (a reason); 0.0 s saved", "1 kernel: 1 compiled; 0.0 s saved"]


@pytest.mark.parametrize("value", ["", "0"])
def test_no_line_where_none_is_wanted(tmp_path, value):
    assert lines(run(tmp_path, "import kiln.triton", KILN_REPORT=value).stderr) == {}


# What is put into the own namespace and what is looked for in it, by a daemon that takes its time.
SLOW = """
import time, kiln, kiln.triton
from kiln._plugin import service, settings, launcher_cache
class Slow:
    def put_own(self, entries, timeout, tunings, job):
        time.sleep(0.25)
        raise kiln.DeadlineExceededError("no answer in time")
    def get_own(self, keys, timeout, tunings=False, job=""):
        time.sleep(0.5)
        return {}
own = service.service(settings.Settings())
own._client = Slow()
try:
    own.put_own(b"key", {})
except service.Declined:
    pass
launcher_cache._ask(settings.Settings(), b"key")
print(kiln.report().seconds_waited)
"""


def test_the_own_namespace_is_waited_for_as_well(tmp_path):
    assert 0.75 <= float(run(tmp_path, SLOW).stdout) < 5


# --- Of jobs ---------------------------------------------------------------------------------------------------------


def test_off_there_is_nothing_to_tell(daemon, tmp_path):
    with Job(tmp_path, PYTHON, daemon.root, KILN_MODE="off", KILN_REPORT="1") as job:
        assert "hash" in job.compile("vector_add")
        assert job.report() in (None, vars(Report()))
    assert lines(job.log) == {}


@pytest.mark.slow
def test_hits_by_tier_save_what_the_compile_took(daemon, tmp_path):
    other_daemon = daemon.beside(tmp_path, KILN_HOT_SIZE="0B")
    with other_daemon:
        with Job(tmp_path, PYTHON, other_daemon.root, cache="first") as job:
            job.run("be patient")
            job.compile("vector_add")
            first = job.report()
        assert (first["compiled"], first["hits"], first["seconds_saved"]) == (1, {}, 0) and first["seconds_waited"] > 0
        made, = [line for line in other_daemon.kiln("ls", "--json").objects() if "own_uid" not in line]
        seconds = made["compile_micros"] / 1e6
        reports = {"own": told_of(tmp_path, other_daemon, "own"), "memory": told_of(tmp_path, other_daemon, "memory", KILN_MODE="record")}
    with other_daemon:
        reports["disk"] = told_of(tmp_path, other_daemon, "disk", KILN_MODE="record")
    for tier, report in reports.items():
        assert (report["hits"], report["compiled"], report["joined"], report["local"]) == ({tier: 1}, 0, 0, {}), report
        # What is not found by Triton's key is put there, and waited for too.
        least, most = seconds - report["seconds_waited"], seconds if tier != "own" else seconds - report["seconds_waited"]
        assert 0 < report["seconds_waited"] and least - 1e-5 < report["seconds_saved"] < most + 1e-5, report


def told_of(tmp_path, daemon, cache, **environment):
    """The report of a job that compiles one kernel."""
    with Job(tmp_path, PYTHON, daemon.root, cache=cache, KILN_MANIFEST=str(tmp_path / "manifest"), **environment) as job:
        job.run("be patient")
        job.compile("vector_add")
        return job.report()


@pytest.mark.slow
def test_threads_are_one_process_and_children_are_others(daemon, tmp_path):
    with Job(tmp_path, PYTHON, daemon.root, KILN_REPORT="1") as job:
        job.run("be patient")
        one = {"compile": {"kernel": "vector_add", "target": "cuda:90", "options": {"num_stages": 6}}}
        job.run("threads", count=8, command=one)
        before = job.report()
        other = {"compile": {"kernel": "vector_add", "target": "cuda:90", "options": {"num_stages": 7}}}
        children = [answer["report"] for answer in job.run("children", count=4, command=other)["answers"]]
        assert job.report() == before
        pid = job.process.pid
    # Later children find the kernel in Triton's own cache, in the own namespace or in the daemon.
    assert before["compiled"] == 1 and 1 <= served(before) <= 8 and before["local"] == {}, before
    assert sum(child["compiled"] for child in children) == 1 and all(served(child) <= 1 and child["local"] == {} for child in children), children
    assert list(lines(job.log)) == [pid] and " 1 compiled" in lines(job.log)[pid] and "by Triton" not in lines(job.log)[pid]


@pytest.mark.slow
def test_a_job_that_goes_on_without_its_daemon(other_daemon, tmp_path):
    with other_daemon, Job(tmp_path, PYTHON, other_daemon.root, KILN_REPORT="1") as job:
        job.compile("vector_add")
        before = job.report()
        started = time.monotonic()
        other_daemon.stop_answering()
        job.start("compile", kernel="matmul_128x128x64", target="cuda:90")
        time.sleep(0.3)  # for less than it takes a job to ask whether its daemon lives
        other_daemon.kill()
        assert "hash" in job.answer() and "hash" in job.compile("softmax")
        report = job.report()
        waited = report["seconds_waited"] - before["seconds_waited"]
        assert 0 < waited < time.monotonic() - started
        pid = job.process.pid
    assert (report["compiled"], report["hits"], report["local"]) == (1, {}, {"the daemon is away": 2}), report
    assert report["seconds_saved"] == before["seconds_saved"] == 0
    assert lines(job.log)[pid]== "3 kernels: 1 compiled, 2 compiled by Triton (the daemon is away); 0.0 s saved"
