"""From a recorded job on one node to the same job on another, where no compiler runs for it."""

import json
import os
import shutil
import subprocess

import pytest

from job import Job, as_user, build, building, make_counting_compiler
from places import KERNELS as SOURCES, ROOT, TOOLCHAIN
from test_hostile_clients import folder, needs_root  # noqa: F401

PYTHON = TOOLCHAIN / "bin" / "python"
PROGRAM = ROOT / "tests" / "testing" / "jobs" / "triton_job.py"
KERNELS = ("vector_add", "softmax", "matmul_128x128x64")
SIGNATURE = ["*fp32", "*fp32", "i32"]
ADA, BOB = 60_001, 60_002


def home_of(user, folder):  # noqa: F811
    home = folder / f"home-{user}"
    home.mkdir()
    os.chown(home, user, user)
    return home


@pytest.mark.slow
@needs_root
def test_a_recorded_job_runs_on_a_node_that_never_compiled_it(daemon, programs, folder):  # noqa: F811
    """Ada records on the first node, and an operator exports. Bob warms the second, and runs the job there from a checkout of his own."""
    home = home_of(ADA, folder)
    (folder / "driver").mkdir()
    driver = make_counting_compiler(folder / "driver")
    job = building(home, PYTHON, daemon.root, driver, KILN_BASEDIRS="~", XDG_CACHE_HOME=str(home))
    subprocess.run([*as_user(ADA), "cp", "-r", SOURCES, home / "source"], check=True)
    compiles = [{"compile": {"kernel": kernel, "target": "cuda:90", "options": {}}} for kernel in KERNELS]
    commands = "".join(json.dumps(each) + "\n" for each in (*compiles, {"driver": {}}, {"launcher": {"signature": SIGNATURE}}))
    recorded = subprocess.run([*as_user(ADA), programs.kiln, "record", "-o", home / "job.kiln", "--", PYTHON, "-B", PROGRAM, home], env=job.environment,
                              input=commands, capture_output=True, text=True, timeout=300, check=False)
    assert recorded.returncode == 0 and f"{len(KERNELS)} kernels in" in recorded.stderr, recorded
    assert (home / "job.kiln").stat().st_uid == ADA
    # Keys of a manifest decide what jobs are given, so one that others may write does not go along.
    manifest = folder / "from-ada.kiln"
    shutil.copyfile(home / "job.kiln", manifest)
    key = folder / "builder.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
    exported = daemon.kiln("export", manifest, "--sign-with", key, "-o", folder / "job.bundle")
    assert exported.code == 0, exported

    with daemon.beside(folder, KILN_SOCKETS_MODE="0666") as second:
        imported_manifest = folder / "job.kiln"
        subprocess.run(["openssl", "pkey", "-pubout", "-in", key, "-out", second.root / "trusted_keys.pem"], check=True, capture_output=True)
        waiting = second.start_kiln("wait", manifest, "--timeout", "2m")
        imported = second.kiln("import", folder / "job.bundle", "-o", imported_manifest)
        assert imported.code == 0 and f"{len(KERNELS)} artifacts stored" in imported.error, imported
        out, error = waiting.communicate(timeout=120)
        assert (waiting.returncode, out) == (0, f"complete: {len(KERNELS)} of {len(KERNELS)} kernels stored\n"), error
        assert second.kiln("stats", "--json").objects()[0]["compiles"] == 0

        his = home_of(BOB, folder)

        def warm_as_bob(*arguments):
            warmed = subprocess.run([*as_user(BOB), *second.kiln_command("warm", imported_manifest, *arguments)], capture_output=True, text=True,
                                    env={**second.environment(), "HOME": str(his), "KILN_JOB": "night"}, timeout=300, check=False)
            assert warmed.returncode == 0, warmed
            return warmed.stderr

        assert f": {len(KERNELS)} hit, 0 joined, 0 compiled, 0 failed" in warm_as_bob()
        assert f": 0 hit, 0 joined, {len(KERNELS)} compiled, 0 failed" in warm_as_bob("--target", "cuda:100")
        with building(his, PYTHON, second.root, driver, within=as_user(BOB), KILN_BASEDIRS="~", XDG_CACHE_HOME=str(his),
                      KILN_MODE="require", KILN_JOB="night") as job:
            answers = [job.compile(kernel, target) for kernel in KERNELS for target in ("cuda:90", "cuda:100")]
            assert all("hash" in answer for answer in answers), answers
            assert build(driver, job, SIGNATURE) == 0, job.log
            report = job.report()
        assert sum(report["hits"].values()) == 2 * len(KERNELS) and report["compiled"] == 0, report
        assert report["hits"]["own"] == len(KERNELS), report  # by the keys that Ada's job recorded
        stats = second.kiln("stats", "--json").objects()[0]
        assert stats["compiles"] == len(KERNELS), stats
        night, = (one for one in stats["jobs"] if one["job"] == "night")
        assert (night["uid"], night["warmed"], night["missed_after_warm"]) == (BOB, 2 * len(KERNELS), 0), night
        # What was not warmed is missed, so that none above says something.
        with Job(his, PYTHON, second.root, cache="missed", within=as_user(BOB), KILN_BASEDIRS="~", XDG_CACHE_HOME=str(his), KILN_JOB="night") as job:
            assert "hash" in job.compile(KERNELS[0], "cuda:90", num_warps=16)
        night, = (one for one in second.kiln("stats", "--json").objects()[0]["jobs"] if one["job"] == "night")
        assert night["missed_after_warm"] == 1, night
