"""Recording a job, looking at what was recorded, and warming another daemon with it."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from job import Job
from places import KERNELS as SOURCES, ROOT, TOOLCHAIN

PYTHON = TOOLCHAIN / "bin" / "python"
PROGRAM = ROOT / "tests" / "testing" / "jobs" / "triton_job.py"
KERNELS = ("vector_add", "softmax", "descriptor_matmul")
# ptxas refuses more than 48 KiB of static shared memory.
LARGE_PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry large(.param .u64 p)
{
	.shared .align 4 .b8 tile[100000];
	.reg .b64 %rd<3>;
	mov.u64 %rd1, tile;
	ld.param.u64 %rd2, [p];
	st.global.u64 [%rd2], %rd1;
	ret;
}
"""
LONG_PTX = LARGE_PTX.replace("100000", "1000") + "// " + 150 * "."


def run(program, *arguments, **more):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300, **more)


@pytest.fixture(scope="module")
def kiln(programs):
    """`kiln manifest` and `kiln record`, which ask no daemon."""
    return lambda *arguments, **more: run(programs.kiln, *arguments, **more)


@pytest.fixture(scope="module")
def recorded(daemon, kiln, tmp_path_factory):
    """The manifest of a job that compiles KERNELS, and what `kiln record` said of it."""
    folder = tmp_path_factory.mktemp("recorded")
    shutil.copytree(SOURCES, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    environment = Job(folder, PYTHON, daemon.root).environment
    path = folder / "job.kiln"
    commands = "".join(json.dumps({"compile": {"kernel": kernel, "target": "cuda:90", "options": {}}}) + "\n" for kernel in KERNELS)
    done = kiln("record", "-o", path, "--job", "example", "--model", "tiny", "--", PYTHON, "-B", PROGRAM, folder, env=environment, input=commands)
    assert done.returncode == 0, done.stderr
    return path, done.stderr


def objects(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def requests_in(kiln, path):
    """A manifest's requests, and behind them what it was recorded by."""
    return [one for one in objects(kiln("manifest", "show", path, "--json")) if "own" not in one]


def test_a_recorded_job_says_what_it_was(recorded, kiln):
    path, said = recorded
    assert f"{len(KERNELS)} kernels in {path}" in said
    shown = kiln("manifest", "show", path).stdout
    assert all(word in shown for word in (*KERNELS, "cuda:90", "example")), shown
    *requests, origin = requests_in(kiln, path)
    assert sorted(one["name"] for one in requests) == sorted(KERNELS)
    assert all(one["recorded"]["compile_micros"] > 0 for one in requests), requests
    assert (origin["manifest"]["job"], origin["manifest"]["model"]) == ("example", "tiny") and origin["manifest"]["versions"]["triton"] == "3.6.0"
    assert not list(path.parent.glob("*.recording.jsonl"))


def test_lines_and_manifest_are_the_same_requests(recorded, kiln, tmp_path):
    path, _ = recorded
    lines = tmp_path / "lines.jsonl"
    lines.write_text(kiln("manifest", "show", path, "--json").stdout)
    assert kiln("manifest", "merge", lines, lines, "-o", tmp_path / "again.kiln").returncode == 0
    assert kiln("manifest", "diff", path, tmp_path / "again.kiln").returncode == 0
    digests = {one["digest"] for one in objects(kiln("manifest", "check", path, lines, tmp_path / "again.kiln", "--json"))}
    assert len(digests) == 1
    own, *others = (one["own_entries"] for one in objects(kiln("manifest", "check", path, lines, tmp_path / "again.kiln", "--json")))
    assert own > 0 and others == [own, own]
    assert kiln("manifest", "subset", path, "-o", tmp_path / "without.kiln").returncode == 0
    told = kiln("manifest", "diff", path, tmp_path / "without.kiln")
    assert (told.returncode, told.stdout) == (0, f"lookup keys and tunings: {own} in the first alone, 0 in the second, 0 with another content\n")
    told = kiln("manifest", "diff", path, tmp_path / "without.kiln", "--json")
    assert objects(told) == [{"own_entries": {"-": own, "+": 0, "other": 0}}], told
    counts = {one["recorded"]["count"] for one in requests_in(kiln, tmp_path / "again.kiln") if "name" in one}
    assert counts == {2}


def test_another_node_is_warm_before_the_job_and_no_compiler_runs(recorded, other_daemon):
    path, _ = recorded
    with other_daemon as other:
        first = other.kiln("warm", path, "--json").objects()[-1]["summary"]
        again = other.kiln("warm", path, "--json").objects()[-1]["summary"]
        assert (first["compiled"], again["hit"]) == (len(KERNELS), len(KERNELS))
        with Job(path.parent, PYTHON, other.root, cache="warm", KILN_MODE="require") as job:
            assert all("hash" in job.compile(kernel) for kernel in KERNELS)
        assert other.kiln("stats", "--json").objects()[0]["compiles"] == len(KERNELS)


@pytest.mark.slow
def test_two_warms_at_once_compile_each_kernel_once(recorded, other_daemon):
    path, _ = recorded
    with other_daemon as other:
        warming = [other.start_kiln("warm", path, "--json") for _ in range(2)]
        told = [json.loads(each.communicate(timeout=120)[0].splitlines()[-1])["summary"] for each in warming]
        assert [each.returncode for each in warming] == [0, 0] and all(each["requests"] == len(KERNELS) for each in told), told
        assert sum(each["compiled"] for each in told) == len(KERNELS), told
        assert other.kiln("stats", "--json").objects()[0]["compiles"] == len(KERNELS)


@pytest.mark.slow
def test_what_is_compiled_after_a_warm_is_reported_with_the_way_to_the_cause(recorded, other_daemon):
    path, _ = recorded
    with other_daemon as other:
        assert other.kiln("warm", path, "--job", "train").code == 0
        with Job(path.parent, PYTHON, other.root, cache="missed", KILN_JOB="train", KILN_REPORT="1") as job:
            assert job.compile("vector_add")
            assert job.compile("vector_add", num_warps=16)
            told = job.report()
        assert (told["compiled"], told["missed_after_warm"]) == (1, 1), told
        assert other.kiln("warm", path).code == 0
        recorded_job, = (one for one in other.kiln("stats", "--json").objects()[0]["jobs"] if one["job"] == "example")
        assert recorded_job["warmed"] == len(KERNELS), recorded_job
        train, = (one for one in other.kiln("stats", "--json").objects()[0]["jobs"] if one["job"] == "train")
        assert (train["warmed"], train["compiled"], train["missed_after_warm"]) == (len(KERNELS), 1, 1), train
        table = other.kiln("stats", "--jobs", "--table")
        assert "MISSED" in table.out and "1 kernel compiled for jobs that were warmed" in table.error and "kiln why --job" in table.error, table
        today, = other.kiln("stats", "--json").objects()[0]["days"]
        assert today["done"]["warmed"] == 2 * len(KERNELS) and other.kiln("stats", "--days").code == 0
        why = other.kiln("why", "--job", "train")
        assert "num_warps: asked 16" in why.out, why
        assert len(other.kiln("why", "--job", "train", "--json").objects()) == 1  # nobody waited for what the warm had compiled
        assert "num_warps: asked 16" in other.kiln("why", "--last-miss").out
        assert "by a warm or an import" in other.kiln("why", "softmax").out


@pytest.mark.slow
def test_a_job_that_misses_after_a_warm_says_so_when_it_ends(recorded, other_daemon):
    """Unasked, but for KILN_REPORT=0. A job that misses nothing says nothing."""
    path, _ = recorded
    with other_daemon as other:
        assert other.kiln("warm", path, "--job", "train").code == 0
        log = path.parent / "job.log"
        for number, (warps, variables, line) in enumerate((
                (4, {}, ""), (16, {}, ": 1 kernel: 1 compiled (1 missed after a warm: kiln why --job); "), (32, {"KILN_REPORT": "0"}, ""))):
            log.write_text("")
            with Job(path.parent, PYTHON, other.root, cache=f"said {number}", KILN_JOB="train", **variables) as job:
                job.compile("vector_add", num_warps=warps)
            assert job.log.count("kiln: process") == bool(line) and line in job.log, job.log


def test_a_kernel_that_another_gpu_lowers_otherwise_is_named(recorded, kiln, daemon, tmp_path):
    """Before Hopper, Triton's first stage makes pointers of tensor descriptors."""
    path, _ = recorded
    warmed = daemon.kiln("warm", path, "--target", "cuda:80")
    assert "made for another GPU" in warmed.error and "descriptor_matmul" in warmed.error, warmed.error
    assert "vector_add" not in warmed.error
    named = {one["name"] for one in daemon.kiln("warm", path, "--target", "cuda:80", "--json").objects() if one.get("ir_differs")}
    assert named == {"descriptor_matmul"}
    for command in ("warm", "--status"), ("wait", "--timeout", "1m"):
        told = daemon.kiln(*command, path, "--target", "cuda:80")
        assert told.code == 1 and "1 kernel made for another GPU" in told.error and "descriptor_matmul" in told.error, told
        assert daemon.kiln(*command, path, "--target", "cuda:80", "--json").objects()[0]["ir_differs"] == 1
    # What the daemon writes of stored requests does not say it.
    *requests, _ = requests_in(kiln, path)
    unsaid = [{name: value for name, value in one.items() if name != "recorded"} for one in requests]
    (tmp_path / "unsaid.jsonl").write_text("".join(json.dumps(one) + "\n" for one in unsaid))
    warmed = daemon.kiln("warm", tmp_path / "unsaid.jsonl", "--target", "cuda:80", "--target", "cuda:90")
    assert "3 kernels recorded for another GPU: " in warmed.error and "vector_add" in warmed.error, warmed.error
    asked = daemon.kiln("warm", tmp_path / "unsaid.jsonl", "--target", "cuda:80", "--json").objects()[:-1]
    assert all(one["ir_may_differ"] for one in asked), asked
    assert "another GPU" not in daemon.kiln("warm", tmp_path / "unsaid.jsonl").error


@pytest.mark.slow
def test_other_gpus_of_amd_are_asked_about_as_well(daemon, kiln, tmp_path):
    """gfx1100 is of no kind that a recording asks about, so it counts as one that lowers otherwise."""
    shutil.copytree(SOURCES, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    environment = Job(tmp_path, PYTHON, daemon.root).environment
    path = tmp_path / "amd.kiln"
    command = json.dumps({"compile": {"kernel": "vector_add", "target": "hip:gfx942", "options": {}}}) + "\n"
    done = kiln("record", "-o", path, "--", PYTHON, "-B", PROGRAM, tmp_path, env=environment, input=command)
    assert done.returncode == 0, done.stderr
    request, _ = requests_in(kiln, path)
    assert set(request["recorded"]["same_ir_targets"]) == {"hip:gfx90a", "hip:gfx942", "hip:gfx950"}
    for target, differs in ("hip:gfx950", False), ("hip:gfx1100", True):
        warmed = daemon.kiln("warm", path, "--target", target, "--json")
        assert warmed.code == 0 and warmed.objects()[0].get("ir_differs", False) == differs, warmed


def test_shards_are_together_the_whole(recorded, kiln, daemon, tmp_path):
    path, _ = recorded
    parts = [tmp_path / f"{number}.kiln" for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        assert kiln("manifest", "subset", path, "--shard", f"{number}/3", "-o", part).returncode == 0
        warmed = daemon.kiln("warm", path, "--shard", f"{number}/3", "--json").objects()[-1]["summary"]["requests"]
        assert warmed == objects(kiln("manifest", "check", part, "--json"))[0]["requests"]
    assert kiln("manifest", "merge", *parts, "-o", tmp_path / "all.kiln").returncode == 0
    assert kiln("manifest", "diff", path, tmp_path / "all.kiln").returncode == 0


def test_a_diff_names_what_is_not_the_same(recorded, kiln, tmp_path):
    path, _ = recorded
    *requests, _ = requests_in(kiln, path)
    for one in requests:
        if one["name"] == "softmax":
            one["options"]["num_warps"] = 16
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(one) + "\n" for one in requests))
    told = kiln("manifest", "diff", path, tmp_path / "other.jsonl")
    assert told.returncode == 1 and told.stdout.count("softmax") == 2 and "options.num_warps: " in told.stdout, told.stdout
    for piped in ("-", "/dev/stdin"):
        assert kiln("manifest", "diff", path, piped, input=(tmp_path / "other.jsonl").read_text()).stdout == told.stdout.partition("lookup keys")[0]
    # Beside a configuration that both have: it is not what became of the other.
    both = [{**one, "options": {**one["options"], "num_warps": 2}} for one in requests if one["name"] == "softmax"]
    for name, some in ("before", requests_in(kiln, path)[:-1]), ("after", requests), ("less", []):
        (tmp_path / name).write_text("".join(json.dumps(one) + "\n" for one in (*some, *both)))
    told = kiln("manifest", "diff", tmp_path / "before", tmp_path / "after").stdout
    assert told.count("options.num_warps: ") == 2 and "2" not in told.replace("softmax cuda:90", ""), told
    told = kiln("manifest", "diff", tmp_path / "after", tmp_path / "less").stdout
    assert "- softmax cuda:90" in told and "options.num_warps" not in told, told
    # A name is not in a request's identity.
    for one in requests:
        one["name"] = "another"
    (tmp_path / "named.jsonl").write_text("".join(json.dumps(one) + "\n" for one in requests))
    told = kiln("manifest", "diff", path, tmp_path / "named.jsonl")
    *names, keys = told.stdout.splitlines()
    assert told.returncode == 1 and sorted(names) == ["+ another cuda:90", "- softmax cuda:90"], told.stdout
    assert keys.startswith("lookup keys and tunings: "), told.stdout


def test_the_jobs_status_is_that_of_the_command(kiln, tmp_path):
    assert kiln("record", "-o", tmp_path / "a", "--", "sh", "-c", "exit 7").returncode == 7
    assert kiln("record", "-o", tmp_path / "b", "--", "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    missing = kiln("record", "-o", tmp_path / "c", "--", "no-such-program")
    assert missing.returncode == 2 and "no-such-program" in missing.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "b"]
    for place in tmp_path / "none" / "a", "/dev/full":
        unwritable = kiln("record", "-o", place, "--", "touch", tmp_path / "ran")
        assert unwritable.returncode == 2 and str(place) in unwritable.stderr and not (tmp_path / "ran").exists(), unwritable


def test_a_job_that_records_nothing_leaves_an_earlier_manifest(kiln, recorded, tmp_path):
    (tmp_path / "good.kiln").write_bytes(recorded[0].read_bytes())
    for command, advice in ("false", False), ("true", True):
        done = kiln("record", "-o", tmp_path / "good.kiln", "--", command)
        assert done.returncode == (command == "false") and "nothing was recorded, so" in done.stderr, done
        assert ("is the plug-in on" in done.stderr) == advice, done
    assert (tmp_path / "good.kiln").read_bytes() == recorded[0].read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == ["good.kiln"]


def test_what_is_no_manifest_is_told_in_a_line(daemon, recorded, tmp_path):
    whole = recorded[0].read_bytes()
    for name, content in ("a bundle", b"KILNBDL\n" + whole[8:]), ("its first byte", b"k" + whole[1:]):
        (tmp_path / name).write_bytes(content)
        done = daemon.kiln("warm", tmp_path / name)
        assert done.code == 2 and "neither a manifest nor" in done.error and len(done.error.splitlines()) <= 2, done


def test_a_signal_is_the_jobs_and_what_it_had_recorded_is_kept(kiln, recorded, tmp_path):
    line = kiln("manifest", "show", recorded[0], "--json").stdout.splitlines()[0]
    (tmp_path / "line").write_text(line + "\n")
    # The signal may come before `kiln` goes on after the start of its job. A shell reads and prints without starting a program.
    script = f"trap 'exit 5' TERM; read -r line < {tmp_path}/line; printf '%s\\n' \"$line\" >> $KILN_MANIFEST; kill -TERM $PPID; while :; do sleep 0.1; done"
    assert kiln("record", "-o", tmp_path / "job.kiln", "--", "sh", "-c", script).returncode == 5
    assert objects(kiln("manifest", "check", tmp_path / "job.kiln", "--json"))[0]["requests"] == 1


def test_an_interrupted_recording_is_a_manifest_and_is_not_written_over(programs, kiln, recorded, tmp_path):
    script = f"{programs.kiln} manifest show {recorded[0]} --json | head -n 1 >> $KILN_MANIFEST; kill -9 $PPID"
    killed = kiln("record", "-o", tmp_path / "job.kiln", "--", "sh", "-c", script)
    assert killed.returncode == -signal.SIGKILL
    left = tmp_path / "job.kiln.recording.jsonl"
    again = kiln("record", "-o", tmp_path / "job.kiln", "--", "true")
    assert again.returncode == 2 and str(left) in again.stderr
    assert objects(kiln("manifest", "check", left, "--json"))[0]["requests"] == 1


@pytest.mark.slow
def test_a_recording_that_a_process_could_not_write_to_is_told(daemon, kiln, tmp_path):
    """Somebody holds the file's lock for as long as the job runs."""
    environment = Job(tmp_path, PYTHON, daemon.root).environment
    command = json.dumps({"compile": {"kernel": KERNELS[0], "target": "cuda:90", "options": {}}}) + "\n"
    shutil.copytree(SOURCES, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    job = f"exec flock $KILN_MANIFEST {PYTHON} -B {PROGRAM} {tmp_path}"
    done = kiln("record", "-o", tmp_path / "job.kiln", "--", "sh", "-c", job, env=environment, input=command)
    assert done.returncode == 0 and "the manifest is incomplete" in done.stderr and "0 kernels in" in done.stderr, done.stderr
    assert [one.name for one in tmp_path.glob("job.kiln*")] == ["job.kiln"]
    shutil.copytree(SOURCES, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    whole = kiln("record", "-o", tmp_path / "job.kiln", "--", PYTHON, "-B", PROGRAM, tmp_path, env=environment, input=command)
    assert "1 kernel in" in whole.stderr and "incomplete" not in whole.stderr, whole.stderr


@pytest.mark.slow
def test_ctrl_c_is_the_jobs_and_what_it_had_recorded_is_kept(programs, recorded, tmp_path):
    """As a terminal sends it, to all processes of its group: the job says what its status is."""
    script = f"trap 'exit 3' INT; {programs.kiln} manifest show {recorded[0]} --json | head -n 1 >> $KILN_MANIFEST; echo there; while :; do sleep 0.1; done"
    started = subprocess.Popen([programs.kiln, "record", "-o", tmp_path / "job.kiln", "--", "sh", "-c", script],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert started.stdout.readline() == "there\n"
    os.killpg(started.pid, signal.SIGINT)
    error = started.communicate(timeout=60)[1]
    assert started.returncode == 3 and "1 kernel in" in error, error
    assert [one.name for one in tmp_path.iterdir()] == ["job.kiln"]


@pytest.mark.parametrize("sender", ["a process", "a terminal"])
def test_the_job_gets_an_interrupt_once(programs, tmp_path, sender):
    """A process sends it to `kiln record` alone, a terminal to the job as well."""
    script = ("import signal\nsignals = {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}\nsignal.pthread_sigmask(signal.SIG_BLOCK, signals)\n"
              "print('there', flush=True)\nwhile (one := signal.sigtimedwait(signals, 20)) and one.si_signo != signal.SIGTERM:\n    print(one.si_signo, flush=True)\n")
    terminal, of_job = pty.openpty()
    with os.fdopen(terminal, "wb", buffering=0), os.fdopen(of_job) as of_job_file:
        started = subprocess.Popen(["setsid", "--ctty", programs.kiln, "record", "-o", tmp_path / "job.kiln", "--", sys.executable, "-c", script],
                                   stdin=of_job_file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert started.stdout.readline() == "there\n"
        for number, key in (signal.SIGINT, b"\x03"), (signal.SIGQUIT, b"\x1c"):
            started.send_signal(number) if sender == "a process" else os.write(terminal, key)
            assert started.stdout.readline() == f"{int(number)}\n"
        started.send_signal(signal.SIGTERM)
        assert (started.communicate(timeout=60)[0], started.returncode) == ("", 0)


@pytest.mark.parametrize("harm", ["cut off", "a byte", "foreign", "newer", "the end alone"])
def test_a_harmed_manifest_is_refused_and_nothing_of_it_is_believed(recorded, kiln, daemon, tmp_path, harm):
    whole = recorded[0].read_bytes()
    path = tmp_path / "harmed.kiln"
    path.write_bytes({
        "cut off": whole[:-100],
        "a byte": whole[:200] + bytes([whole[200] ^ 1]) + whole[201:],
        "foreign": whole[:8] + b"x" * 200,
        "newer": whole[:-8] + b"KILNMNG\n",
        "the end alone": whole[:8] + whole[-64:],
    }[harm])
    checked = kiln("manifest", "check", path)
    assert checked.returncode != 0 and "manifest" in checked.stderr, checked
    warmed = daemon.kiln("warm", path)
    assert warmed.code == (1 if harm == "a byte" else 2) and "manifest" in warmed.error, warmed


@pytest.mark.slow
def test_a_budget_ends_a_warm_and_a_second_goes_on(recorded, other_daemon):
    path, _ = recorded
    with other_daemon as other:
        stopped = other.kiln("warm", path, "--budget", "1ms", "--jobs", "1")
        assert stopped.code == 1 and "run the command again" in stopped.error, stopped.error
        assert other.kiln("warm", path).code == 0
    for wrong in ("--budget", "soon"), ("--shard", "3"), ("--shard", "4/3"), ("--shard", "0/3"):
        assert other.kiln("warm", path, *wrong).code == 2


@pytest.mark.slow
@pytest.mark.parametrize("end", ["Ctrl-C", "the daemon is killed"])
def test_an_interrupted_warm_is_partial_and_a_second_goes_on(recorded, kiln, other_daemon, tmp_path, end):
    first, *_ = requests_in(kiln, recorded[0])
    lines, path = tmp_path / "job.jsonl", tmp_path / "job.kiln"
    lines.write_text("".join(json.dumps({**first, "name": f"k{warps}-{stages}", "options": {**first["options"], "num_warps": warps, "num_stages": stages}}) + "\n"
                             for warps in (1, 2, 4, 8) for stages in (1, 2)))
    assert kiln("manifest", "merge", lines, "-o", path).returncode == 0
    with other_daemon as other:
        # Where the tests run in the background, a shell has them, and what they start, pass over the signal.
        with subprocess.Popen(other.kiln_command("warm", path, "--jobs", "1", "--json"), env=other.environment(), text=True, stdout=subprocess.PIPE,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as warming:
            assert next(one for one in map(json.loads, warming.stdout) if "progress" not in one)["outcome"] == "compiled"
            if end == "Ctrl-C":
                warming.send_signal(signal.SIGINT)
            else:
                other.kill()
            warming.stdout.read()
        assert warming.returncode == (-signal.SIGINT if end == "Ctrl-C" else 2)
    with other_daemon as other:
        status = other.kiln("warm", path, "--status", "--json")
        marker, = status.objects()
        assert status.code == 1 and marker["state"] == "partial" and 1 <= marker["stored"] < 8, marker
        again = other.kiln("warm", path, "--json").objects()[-1]["summary"]
        assert (again["failed"], again["hit"], again["compiled"]) == (0, marker["stored"], 8 - marker["stored"]), (marker, again)
        assert other.kiln("warm", path, "--status").code == 0


def test_a_failure_ends_a_warm_that_is_to_end_by_it(recorded, kiln, daemon, tmp_path):
    *requests, _ = requests_in(kiln, recorded[0])
    bad = {**requests[0], "name": "bad", "source": "module {"}
    (tmp_path / "bad.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (bad, *requests)))
    all_of_it = daemon.kiln("warm", tmp_path / "bad.jsonl", "--json").objects()[-1]["summary"]
    assert (all_of_it["failed"], all_of_it["requests"]) == (1, len(requests) + 1)
    done = daemon.kiln("warm", tmp_path / "bad.jsonl", "--fail-on-error", "--jobs", "1", "--json")
    ended = done.objects()[-1]["summary"]
    assert (done.code, ended["failed"]) == (1, 1) and ended["requests"] <= 2, done


@pytest.mark.slow
def test_the_status_of_a_warm_is_what_is_stored(recorded, other_daemon):
    path, _ = recorded
    with other_daemon as other:
        empty = other.kiln("warm", path, "--status", "--json")
        assert empty.code == 1 and empty.objects()[0] == {
            "state": "partial", "total": 3, "stored": 0, "refused": 0, "failed": [], "missing": [f"{kernel} for cuda:90" for kernel in KERNELS], "missing_count": 3,
            "ir_differs": 0, "ir_may_differ": 0}
        assert other.kiln("warm", path).code == 0
        complete = other.kiln("warm", path, "--status")
        assert (complete.code, complete.out) == (0, "complete: 3 of 3 kernels stored\n")
        # No time for a request, and none is needed.
        known = other.kiln("warm", path, "--job", "known", "--budget", "1ms")
        assert known.code == 0 and known.error.startswith("3 in ") and ": 3 hit, 0 joined, 0 compiled, 0 failed" in known.error, known
        assert other.kiln("warm", path, "--target", "cuda:80", "--budget", "1ms").code == 1
        job, = (one for one in other.kiln("stats", "--json").objects()[0]["jobs"] if one["job"] == "known")
        assert job["warmed"] == len(KERNELS), job
        softmax, = (one["key"] for one in other.kiln("ls", "--json").objects() if one["name"] == "softmax")
        assert other.kiln("evict", softmax).code == 0
        assert other.kiln("warm", path, "--budget", "1ms").code == 1
        partial = other.kiln("warm", path, "--status")
        assert partial.code == 1 and "partial: 2 of 3 kernels stored\n  missing: softmax for cuda:90\n" == partial.out
    gone = other.kiln("warm", path, "--status")
    assert gone.code == 2, gone


def test_to_ask_what_is_there_is_no_request_of_a_job(recorded, kiln, other_daemon, tmp_path):
    first, second, *_ = requests_in(kiln, recorded[0])
    bad = {**first, "name": "bad", "source": "module {"}
    (tmp_path / "job.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (first, bad)))
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (first, bad, second, {**second, "toolchain": "ab" * 32})))
    with other_daemon as other:
        def counted():
            stats = other.kiln("stats", "--json").objects()[0]
            return [stats[name] for name in ("jobs", "requests", "rejected", "not_found", "failed", "hits_memory", "hits_disk")]

        assert other.kiln("warm", tmp_path / "job.jsonl", "--job", "train").code == 1
        before = counted()
        assert other.kiln("warm", tmp_path / "more.jsonl", "--status", "--job", "train").code == 1
        assert other.kiln("wait", tmp_path / "more.jsonl", "--timeout", "1s").code == 1
        assert counted() == before


def test_a_warm_names_what_it_could_not_lease(daemon, tmp_path):
    """One user's leases hold an eighth of the store, which is room for two of these."""
    source = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .b8 data[786432] = {1};\n.visible .entry k(.param .u64 p) { ret; }\n// "
    names = [f"k{number:02}" for number in range(12)]
    (tmp_path / "lines.jsonl").write_text("".join(
        json.dumps({"name": name, "kind": "ptx", "target": "cuda:90", "source": source + name}) + "\n" for name in names))
    with daemon.beside(tmp_path, KILN_STORE_SIZE="16MiB") as small:
        assert small.kiln("manifest", "merge", tmp_path / "lines.jsonl", "-o", tmp_path / "job.kiln").code == 0
        for tier in "compiled", "hit":
            told = small.kiln("warm", tmp_path / "job.kiln", "--json").objects()[-1]["summary"]
            assert told[tier] == 12 and told["not_leased"] == 10 and len(told["not_leased_names"]) == 8, told
            assert set(told["not_leased_names"]) <= set(names)
            said = small.kiln("warm", tmp_path / "job.kiln")
            assert said.code == 0 and "\n10 kernels not leased, " in said.error and " and 2 more\n" in said.error, said


def test_a_kernel_that_does_not_compile_ends_a_wait_and_is_named(recorded, kiln, daemon, tmp_path):
    first, *_ = requests_in(kiln, recorded[0])
    (tmp_path / "bad.jsonl").write_text(json.dumps({**first, "name": "bad", "source": "module {"}) + "\n" + json.dumps(first) + "\n")
    assert daemon.kiln("warm", tmp_path / "bad.jsonl").code == 1
    waited = daemon.kiln("wait", tmp_path / "bad.jsonl", "--timeout", "1m")
    assert waited.code == 1 and "failed: 1 of 2 kernels stored, 1 failed\n  failed: bad for cuda:90: " in waited.out, waited


def test_a_kernel_that_needs_too_much_shared_memory_does_not_compile_and_the_daemon_is_not_busy(recorded, kiln, daemon, tmp_path):
    first, *_ = requests_in(kiln, recorded[0])
    large = {"name": "large", "kind": "ptx", "target": "cuda:80", "source": LARGE_PTX}
    lines = tmp_path / "large.jsonl"
    lines.write_text("".join(json.dumps(one) + "\n" for one in (large, first)))
    warmed = daemon.kiln("warm", lines, "--json")
    assert warmed.code == 1 and {one.get("code") for one in warmed.objects()} == {None, "RESOURCE_EXHAUSTED"}, warmed
    for command in ("warm", "--status"), ("wait", "--timeout", "1m"):
        told = daemon.kiln(*command, lines)
        assert told.code == 1 and "failed: 1 of 2 kernels stored, 1 failed\n  failed: large for cuda:80: " in told.out, told
        assert "shared data" in told.out and "--timeout" not in told.error, told


def test_what_was_refused_when_it_was_recorded_is_no_failure(recorded, kiln, other_daemon, tmp_path):
    """A tuning's configuration, say. For another target or with another compiler it is a failure."""
    large = {"name": "large", "kind": "ptx", "target": "cuda:80", "source": LARGE_PTX, "recorded": {"refused": True}}
    fine = {"name": "fine", "kind": "ptx", "target": "cuda:80", "source": LARGE_PTX.replace("100000", "1000")}
    lines, path = tmp_path / "large.jsonl", tmp_path / "large.kiln"
    lines.write_text("".join(json.dumps(one) + "\n" for one in (large, fine)))
    assert kiln("manifest", "merge", lines, "-o", path).returncode == 0
    assert [one["recorded"].get("refused") for one in requests_in(kiln, path)[:-1]] == [True, None]
    assert kiln("manifest", "show", path).stdout.split().count("refused") == 1
    with other_daemon as other:
        partial = other.kiln("warm", path, "--status", "--json")
        assert partial.code == 1 and partial.objects()[0]["missing_count"] == 2, partial
        for outcome in "compiled", "hit":
            warmed = other.kiln("warm", path, "--json").objects()[-1]["summary"]
            assert (warmed[outcome], warmed["refused"], warmed["failed"]) == (1, 1, 0), warmed
        said = other.kiln("warm", path)
        assert said.code == 0 and "0 failed, 1 refused as when recorded" in said.error and "shared data" not in said.error, said
        for command in ("warm", "--status"), ("wait", "--timeout", "1m"):
            told = other.kiln(*command, path)
            assert (told.code, told.out) == (0, "complete: 1 of 2 kernels stored, 1 refused as when recorded\n"), told
        assert other.kiln("warm", path, "--target", "cuda:86").code == 1
    # Another process has compiled it.
    lines.write_text("".join(json.dumps(one) + "\n" for one in (large, {**large, "recorded": {"compile_micros": 5}})))
    assert kiln("manifest", "merge", lines, "-o", path).returncode == 0
    assert "refused" not in requests_in(kiln, path)[0]["recorded"]


def test_an_absent_toolchain_is_named_with_the_way_to_add_it(recorded, kiln, daemon, tmp_path):
    first, *_, origin = requests_in(kiln, recorded[0])
    lines, path = tmp_path / "absent.jsonl", tmp_path / "absent.kiln"
    lines.write_text("".join(json.dumps(one) + "\n" for one in (
        {**first, "name": "gone", "toolchain": "ab" * 32}, {**first, "name": "wrong", "ptxas": "ptxas==99.0.0"}, first, origin)))
    assert kiln("manifest", "merge", lines, "-o", path).returncode == 0
    added = "recorded with another build of Triton 3.6.0, which the daemon does not have; 'kiln toolchain add triton --path DIR'"
    warmed = daemon.kiln("warm", path)
    assert warmed.code == 1 and added in warmed.error and "kiln toolchain add ptxas --path DIR" in warmed.error, warmed
    for command in ("warm", "--status"), ("wait", "--timeout", "1s"):
        told = daemon.kiln(*command, path)
        assert told.code == 1 and told.out.startswith("partial: 1 of 3 kernels stored\n") and "  failed: " not in told.out, told
        assert f"missing: gone for cuda:90: {added}" in told.out and "missing: wrong for cuda:90: the ptxas: no toolchain here is " in told.out, told


@pytest.mark.slow
def test_a_wait_sees_what_is_stored_behind_many_missing_kernels(other_daemon, tmp_path):
    source = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n// "
    lines = [json.dumps({"name": f"k{number}", "kind": "ptx", "target": "cuda:90", "source": f"{source}{number}\n"}) for number in range(1000)]
    (tmp_path / "many.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "last.jsonl").write_text(f"{lines[-1]}\n")
    with other_daemon as other:
        waiting = other.start_kiln("wait", tmp_path / "many.jsonl", "--timeout", "15s")
        assert other.kiln("warm", tmp_path / "last.jsonl").code == 0
        out, error = waiting.communicate(timeout=60)
        assert waiting.returncode == 1 and out.startswith("partial: 1 of 1000 "), (out, error)
        waiting = other.start_kiln("wait", tmp_path / "many.jsonl", "--timeout", "2m")
        assert other.kiln("warm", tmp_path / "many.jsonl").code == 0
        out, error = waiting.communicate(timeout=60)
        assert (waiting.returncode, out) == (0, "complete: 1000 of 1000 kernels stored\n"), error


@pytest.mark.slow
def test_many_wait_while_the_daemon_restarts_and_one_warms(recorded, other_daemon):
    path, _ = recorded
    with other_daemon as other:
        def connections():
            """Without the command's own. The daemon may count one that ended for a second."""
            return min(other.kiln("stats", "--json").objects()[0]["connections"] for _ in range(2)) - 1

        while connections() > 0:
            pass
        waiting = [other.start_kiln("wait", path, "--timeout", "2m") for _ in range(4)]
        while connections() < len(waiting):  # each has asked, and so waits for the daemon
            assert all(one.poll() is None for one in waiting)
        over = other.kiln("wait", path, "--timeout", "1s")
        assert over.code == 1 and "--timeout" in over.error and over.out.startswith("partial: 0 of 3 "), over
    with other_daemon as other:
        assert all(one.poll() is None for one in waiting)
        assert other.kiln("warm", path).code == 0
        for one in waiting:
            out, error = one.communicate(timeout=60)
            assert (one.returncode, out) == (0, "complete: 3 of 3 kernels stored\n"), error


@pytest.mark.slow
def test_why_a_kernel_was_compiled(recorded, kiln, daemon, other_daemon, tmp_path):
    """It names the stored kernel that comes closest, and the line of the source that differs."""
    *requests, _ = requests_in(kiln, recorded[0])
    plain, = (one for one in requests if one["name"] == "softmax")
    warps = {**plain, "options": {**plain["options"], "num_warps": 16}}
    edited = {**plain, "source": plain["source"].replace("0xFF800000", "0xFF700000")}
    assert edited["source"] != plain["source"]
    with other_daemon as other:
        def compile_for(job, line):
            (tmp_path / "one.jsonl").write_text(json.dumps(line) + "\n")
            assert other.kiln("compile", "--requests", tmp_path / "one.jsonl", "--job", job).code == 0

        compile_for("first", plain)
        alone = other.kiln("why", "softmax", "--json").objects()[0]
        assert alone["nearest"] is None and alone["job"] == "first"
        for _ in range(2):
            assert other.kiln("warm", tmp_path / "one.jsonl", "--json").objects()[-1]["summary"]["hit"] == 1
        assert "used" not in other.kiln("why", "softmax").out  # a warm spares nobody a compile
        assert other.kiln("compile", "--requests", tmp_path / "one.jsonl").code == 0
        assert "used 1 time since: " in other.kiln("why", "softmax").out
        told = other.kiln("why", "softmax", "--json").objects()[0]
        assert told["saved_micros"] == told["compile_micros"] > 0
        compile_for("second", warps)
        told = other.kiln("why", "--last-miss")
        assert "job second" in told.out and "num_warps: asked 16, stored " in told.out, told
        compile_for("third", edited)
        told = other.kiln("why", "--job", "third")
        assert "source: asked " in told.out and "0xFF700000" in told.out and "0xFF800000" in told.out, told
        place = re.search(r"line \d+ \((.*):(\d+)\): .*0xFF700000", told.out)
        assert place and "-float" in (SOURCES / Path(place[1]).name).read_text().splitlines()[int(place[2]) - 1], told
        assert len(other.kiln("why", "--job", "third", "--json").objects()) == 1
        assert other.kiln("why", "--job", "none").code == 1
        for name, changed, lines in (
            ("end", LONG_PTX + "B", [f"line 13: …{'.' * 40}B", f"  stored: …{'.' * 40}A"]),
            ("line", LONG_PTX.replace(".address", "// more\n.address") + "A", ["line 3: // more", "  stored: (no line)"])
        ):
            for job, source in ("before", LONG_PTX + "A"), (name, changed):
                compile_for(job, {"name": name, "kind": "ptx", "target": "cuda:80", "source": source.replace("large", name)})
            assert other.kiln("why", "--job", name, "--json").objects()[0]["source_lines"] == lines
        for name in "ab" * 32, "abab", "no_such_kernel":
            missed = other.kiln("why", name)
            assert missed.code == 1 and "misses are not remembered" in missed.error and "--cache only-if-cached" in missed.error, missed
        assert other.kiln("why").code == 2 and other.kiln("why", "softmax", "--last-miss").code == 2


@pytest.mark.slow
def test_what_was_warmed_stays_when_room_is_made(recorded, kiln, other_daemon, tmp_path):
    """After a restart as well. What a job compiled goes first; where an operator asks for more, what was warmed follows."""
    path, _ = recorded
    *requests, _ = requests_in(kiln, path)
    plain, = (one for one in requests if one["name"] == "softmax")
    (tmp_path / "others.jsonl").write_text("".join(
        json.dumps({**plain, "options": {**plain["options"], "num_warps": warps}}) + "\n" for warps in (1, 2, 8, 16)))
    with other_daemon as other:
        assert other.kiln("compile", "--requests", path).code == 0
        assert other.kiln("evict", "--to", "0").code == 0
        assert other.kiln("ls", "--json").objects() == []
        assert other.kiln("compile", "--requests", path).code == 0
        assert other.kiln("warm", path).code == 0  # finds all in the hot directory
        assert other.kiln("compile", "--requests", tmp_path / "others.jsonl").code == 0
        stored = other.kiln("ls", "--json").objects()
        assert len(stored) > len(requests)
    with other_daemon as other:
        room = other.kiln("stats", "--json").objects()[0]["store_bytes"] - 1
        while len(other.kiln("ls", "--json").objects()) > len(requests):
            assert other.kiln("evict", "--to", str(room)).code == 0
            assert other.kiln("warm", path, "--status").code == 0
            room = other.kiln("stats", "--json").objects()[0]["store_bytes"] - 1
        assert other.kiln("evict", "--to", "0").code == 0
        assert other.kiln("ls", "--json").objects() == []


@pytest.mark.slow
def test_a_daemon_writes_a_manifest_of_what_it_compiled(recorded, kiln, other_daemon, tmp_path):
    path, _ = recorded
    lines = kiln("manifest", "show", path, "--json").stdout.splitlines()
    with other_daemon as other:
        for job, line in zip(("train", "train", "serve"), lines):
            (tmp_path / "one.jsonl").write_text(line + "\n")
            assert other.kiln("warm", tmp_path / "one.jsonl", "--job", job).code == 0
        written = other.kiln("record", "--job", "train", "-o", tmp_path / "train.kiln")
        assert written.code == 0 and "2 kernels, 0 recorded keys of uid " in written.error, written
        assert other.kiln("record", "--since", "2h", "-o", tmp_path / "all.kiln").code == 0
        assert other.kiln("record", "--job", "unknown", "-o", tmp_path / "none.kiln").code == 1
        assert not (tmp_path / "none.kiln").exists()
        # What others had compiled for them, by a call or in the hot directory.
        for job, more in ("calls", ("--emit", "ptx,cubin")), ("reads", ()):
            assert other.kiln("compile", "--requests", path, "--job", job, *more).code == 0
            assert f"{len(KERNELS)} kernels, " in other.kiln("record", "--job", job, "-o", tmp_path / f"{job}.kiln").error
        assert other.kiln("record").code == 2
        # What it names is the very same to the daemon.
        again = other.kiln("warm", tmp_path / "all.kiln", "--json").objects()[-1]["summary"]
        assert (again["requests"], again["hit"]) == (3, 3)
    *train, origin = requests_in(kiln, tmp_path / "train.kiln")
    assert {one["name"] for one in train} == {json.loads(line)["name"] for line in lines[:2]}
    assert origin["manifest"]["job"] == "train"
