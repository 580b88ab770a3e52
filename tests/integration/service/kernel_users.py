"""People who share a node: each has a checkout of the example kernels in a home of their own, and runs jobs in the machine."""

import json
import os
import site
import subprocess

from job import Job
from places import PACKAGE, ROOT

PYTHON = "/usr/lib/kiln/toolchains/triton-3.6.0/bin/python"
PATIENT = {"KILN_TIMEOUT": "120"}
TUNED_JOB = ROOT / "tests" / "testing" / "jobs" / "tuned_job.py"
# What their jobs need of the machine that runs the tests.
SEEN = [ROOT / "tests", ROOT / "daemon" / "worker", PACKAGE, *filter(os.path.isdir, site.getsitepackages())]


class KernelUser:
    """drivers: what stand_in_libcuda gives."""

    def __init__(self, machine, uid, drivers):
        self._machine, self._uid, self._drivers = machine, uid, drivers
        self._home = machine.homes / str(uid)
        self._home.mkdir()
        os.chown(self._home, uid, uid)

    def _job(self, cache, name="kernels", **more):
        return Job(self._home, PYTHON, "", cache, within=self._machine.within(self._uid), KILN_BASEDIRS="~", KILN_JOB=name,
                   XDG_CACHE_HOME=str(self._home), TMPDIR=str(self._home), **self._drivers, **more)

    def compile_all(self, name="kernels", is_patient=True):
        """The report, and what was made, by kernel. name: of the job. is_patient: it waits for the daemon far longer than by default."""
        with self._job(name, name, **PATIENT if is_patient else {}) as job:
            if is_patient:
                job.run("be patient")
            answers = [job.compile(*case) for case in job.run("cases", targets=["cuda:90"])["cases"]]
            assert all("hash" in answer for answer in answers), job.log
            return job.report(), {name: content for name, content in job.files().items() if name.endswith(".cubin")}

    def tune(self):
        job = self._job("tuned", **PATIENT)
        done = subprocess.run([*self._machine.within(self._uid), PYTHON, "-B", TUNED_JOB, self._home, "patience"], env=job.environment, capture_output=True,
                              text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def kiln(self, *arguments):
        """The objects that it says."""
        said = self._machine.run("kiln", *arguments, "--json", uid=self._uid).stdout
        return [json.loads(line) for line in said.splitlines()]

    def jobs(self):
        """What `kiln stats` says of each."""
        stats, = self.kiln("stats")
        assert {job["uid"] for job in stats["jobs"]} == {self._uid}
        return {job["job"]: job for job in stats["jobs"]}
