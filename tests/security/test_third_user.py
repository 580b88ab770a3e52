"""Two users with checkouts of their own share every kernel and every tuning, and see what Kiln did for them, while a third attacks.

The daemon runs as a user of its own without any right, as kilnd.service runs it; that unit itself is tried in
tests/integration/service.
"""

import dataclasses
import json
import os
import shlex
import subprocess

import pytest

import stand_in_libcuda
from daemon import Daemon
from hostile_user import HostileUser
from job import Job, as_user
from places import ROOT, TOOLCHAIN
from test_hostile_clients import GROUP_BYTES, folder, memory_of, needs_root  # noqa: F401

SERVICE, ADA, BOB, EVE = 60_000, 60_001, 60_002, 60_003
PYTHON = TOOLCHAIN / "bin" / "python"
TUNED_JOB = ROOT / "tests" / "testing" / "jobs" / "tuned_job.py"
CONFIGURATIONS = 4
# The toolchain may lie where only root comes.
KILND = """#!/bin/sh
[ -n "$IS_APART" ] || IS_APART=1 exec unshare --mount "$0" "$@"
mount --bind {toolchain} {here} &&
exec setpriv --reuid={uid} --regid={uid} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs {kilnd} "$@"
"""
KILN = """#!/bin/sh
exec {kiln} --server-uid={uid} "$@"
"""


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def service(programs, folder):  # noqa: F811
    here, root = folder / "toolchain", folder / "root"
    for made in (here, root):
        made.mkdir()
    os.chown(root, SERVICE, SERVICE)
    named = {"toolchain": TOOLCHAIN, "here": here, "uid": SERVICE, "kilnd": programs.kilnd, "kiln": programs.kiln}
    quoted = {name: shlex.quote(str(value)) for name, value in named.items()}
    apart = dataclasses.replace(programs, kilnd=script(folder / "kilnd", KILND.format(**quoted)), kiln=script(folder / "kiln", KILN.format(**quoted)),
                                toolchains=here)
    with Daemon(apart, folder, environment={"KILN_SOCKETS_MODE": "0666", "KILN_TUNINGS_SHARED_BY": f"{ADA}:{BOB}"}) as daemon:
        yield daemon


class User:
    """With a checkout of the kernels in a home of its own."""

    def __init__(self, daemon, folder, uid, drivers):  # noqa: F811
        self._daemon, self._uid, self._drivers = daemon, uid, drivers
        self._home = folder / f"home-{uid}"
        self._home.mkdir()
        os.chown(self._home, uid, uid)

    def _job(self, cache):
        return Job(self._home, PYTHON, self._daemon.root, cache, user=self._uid, KILN_BASEDIRS="~", XDG_CACHE_HOME=str(self._home),
                   KILN_SERVER_UID=str(SERVICE), KILN_JOB="kernels", KILN_TIMEOUT="120", **self._drivers)

    def compile_all(self):
        """The report, and what was made, by kernel."""
        with self._job("kernels") as job:
            job.run("be patient")
            answers = {case[0]: job.compile(*case) for case in job.run("cases", targets=["cuda:90"])["cases"]}
            assert all("hash" in answer for answer in answers.values()), job.log
            return job.report(), {name: content for name, content in job.files().items() if name.endswith(".cubin")}

    def tune(self):
        job = self._job("tuned")
        done = subprocess.run([*as_user(self._uid), PYTHON, "-B", TUNED_JOB, self._home, "nothing"], env=job.environment, capture_output=True, text=True,
                              timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def kiln(self, *arguments):
        """The objects that it says, as the user."""
        command = ["setpriv", f"--reuid={self._uid}", f"--regid={self._uid}", "--clear-groups", *self._daemon.kiln_command(*arguments, "--json")]
        done = subprocess.run(command, env=self._daemon.environment(), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def jobs(self):
        """What `kiln stats` says of each."""
        stats, = self.kiln("stats")
        assert {job["uid"] for job in stats["jobs"]} == {self._uid}
        return {job["job"]: job for job in stats["jobs"]}


@pytest.mark.slow
@needs_root
def test_a_third_user_changes_nothing_for_two_who_share(service, folder):  # noqa: F811
    drivers = stand_in_libcuda.make(folder / "driver")
    ada, bob = (User(service, folder, uid, drivers) for uid in (ADA, BOB))
    with HostileUser(service.root, EVE, SERVICE) as eve:
        made, binaries = ada.compile_all()
        found, same = bob.compile_all()
        measured, known = ada.tune(), bob.tune()
    count = made["compiled"]
    assert count > 20 and made["local"] == {} and made["hits"] == {}, made
    assert found["compiled"] == 0 and found["local"] == {} and sum(found["hits"].values()) == count, found
    assert list(binaries.values()) == list(same.values()) and binaries
    assert (measured["measured"], known["measured"]) == (CONFIGURATIONS, 0)
    assert known["best"] == measured["best"] and known["times"] == measured["times"]

    hers, his = (user.jobs()["kernels"] for user in (ada, bob))
    assert hers["compiled"] == count + CONFIGURATIONS, hers
    assert his["compiled"] == 0 and his["saved_micros"] > 0, his
    assert sum(his[kind] for kind in ("hot", "memory", "disk")) == count + 1, his  # of the tuning, the fastest
    assert sum("own_uid" not in one for one in ada.kiln("ls", "--job", "kernels")) == count + CONFIGURATIONS
    assert {one["own_uid"] for one in bob.kiln("ls") if "own_uid" in one} == {BOB}

    assert min(eve.counts.values()) > 0, eve.counts
    assert memory_of(service, "VmHWM") < GROUP_BYTES
