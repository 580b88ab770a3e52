"""What the parts share: the bundle, a folder for what they leave behind, a daemon, processes with time limits."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

from kilnd import Kilnd, acting_as

TESTS = pathlib.Path(__file__).resolve().parent.parent
JOB_SECONDS_MAX = 240


class Setting:

    def __init__(self, bundle, folder, report, driver, gpu, only, seconds_max):
        self.bundle, self.folder, self.report, self.driver, self.only = bundle, folder, report, driver, only
        self.target = f"cuda:{gpu.architecture}"
        self.has_unsteady_assembler = int(gpu.architecture) >= 100
        self._end = time.monotonic() + seconds_max
        self._jobs = []

    @functools.cached_property
    def kilnd(self):
        """Started by the first part that needs it."""
        began = time.monotonic()
        kilnd = Kilnd(self.bundle, self.folder)
        try:
            kilnd.start()
        except BaseException:
            kilnd.stop()
            raise
        self.report.say(f"      kilnd serves after {time.monotonic() - began:.1f} s")
        return kilnd

    @functools.cached_property
    def artifacts(self):
        """A folder with what the checks of the launch library launch, compiled for this GPU: the example kernels and others; one for
        another GPU; and `hot`, as the daemon publishes them. Reports what does not compile."""
        into = self.folder / "artifacts"
        into.mkdir()
        kernels, older = TESTS.parent / "kernels" / "lower.py", "cuda:90" if self.target == "cuda:80" else "cuda:80"
        for index, command in enumerate(((kernels, "--targets", self.target, "--out"), (TESTS / "launch_kernels.py", "lower"),
                                         (kernels, "--targets", older, "--kernels", "vector_add", "--out"))):
            sources = self.folder / f"sources-{index}"
            command += (sources, self.target) if "lower" in command else (sources,)
            subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, timeout=self.limit(JOB_SECONDS_MAX))
            self._compile(sources / "requests.jsonl", into)
        plain = self.folder / "plain.jsonl"
        names = [path for path in sorted((TESTS / "launch" / "plain").iterdir())]
        plain.write_text("".join(json.dumps(
            {"name": f"{path.name.replace('.', '_')}-{self.target.replace(':', '-')}", "source_file": str(path), "target": self.target}) + "\n"
            for path in names))
        self._compile(plain, into)
        (into / "hot").symlink_to(self.kilnd.root / "run" / "hot")
        return into

    def _compile(self, requests, into):
        done = self.kilnd.kiln("compile", "--requests", requests, "--emit", "cubin", "-o", into, seconds=self.limit(JOB_SECONDS_MAX))
        if done.returncode != 0:
            self.report.row("artifacts", "for this GPU", done.stderr[-3000:], None if "no toolchain fits" in done.stderr else False)

    def close(self):
        """Ends what still runs."""
        for job in self._jobs:
            if job.poll() is None:
                job.kill()
                job.wait()
        if "kilnd" in vars(self):
            self.kilnd.stop()

    def limit(self, seconds):
        """For one process: no longer than the whole run may take."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("no time is left: see --seconds")
        return min(seconds, left)

    def measure(self, part, *command, seconds):
        """Puts down the rows that a benchmark prints."""
        self.report.measure(self.rows_of(part, *command, seconds=seconds))

    def rows_of(self, part, *command, seconds):
        """The rows that a benchmark prints; what it says is logged and shown."""
        log = self.folder / f"{part}.log"
        with open(log, "w") as file:
            done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=file, text=True, timeout=self.limit(seconds),
                                  check=False)
        self.report.say(log.read_text().rstrip())
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: exit {done.returncode}")
        rows = json.loads(done.stdout)
        self.report.keep(part, rows)
        return rows

    # Jobs: programs in the folder above that write what they saw as JSON, under this Python.

    def environment(self, cache, kiln=True, **more):
        """A job's, with caches of its own. Every path stays in its kernels, so that no part finds another's and files equal stock's."""
        base = self.folder / cache
        own = {"TRITON_CACHE_DIR": str(base / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(base / "inductor"), "KILN_ROOT": str(self.kilnd.root),
               "XDG_CACHE_HOME": str(self.folder / "home-cache"), "PYTHONPATH": str(self.bundle / "python"), "KILN_REPORT": "1",
               "KILN_BASEDIRS": ""}
        if kiln:
            own["TRITON_CACHE_MANAGER"] = "kiln.triton:CacheManager"
        # The package is unpacked, not installed: its first process writes the bytecode that pip would have written.
        return {name: value for name, value in {**os.environ, **own, **more}.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def start(self, program, environment, name, *arguments, user=None):
        out = self.folder / f"{name}.json"
        if user is not None:
            out.touch()
            os.chown(out, user, user)
        log = open(self.folder / f"{name}.log", "w")
        process = subprocess.Popen([sys.executable, TESTS / program, out, *map(str, arguments)], env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log, text=True, **acting_as(user))
        process.out, process.log = out, log
        self._jobs.append(process)
        return process

    def wait_for(self, process, word):
        """Until the job prints a line with that word in it; killed where it takes too long."""
        timer = threading.Timer(self.limit(JOB_SECONDS_MAX), process.kill)
        timer.start()
        try:
            while word not in (line := process.stdout.readline()):
                if not line:
                    raise RuntimeError(f"it ended before it said {word!r}: {pathlib.Path(process.log.name).read_text()[-3000:]}")
        finally:
            timer.cancel()

    def finish(self, process):
        try:
            process.communicate(timeout=self.limit(JOB_SECONDS_MAX))
        except (subprocess.TimeoutExpired, TimeoutError) as error:
            process.kill()
            process.communicate()
            raise RuntimeError(f"{process.log.name}: {error}") from None
        finally:
            process.log.close()
        if process.returncode != 0:
            raise RuntimeError(pathlib.Path(process.log.name).read_text()[-3000:])
        return self.result_in(process.out)

    def result_in(self, out):
        """What a job wrote."""
        result = json.loads(out.read_text())
        self.report.keep(out.stem, result)
        return result

    def run(self, *arguments, user=None):
        return self.finish(self.start(*arguments, user=user))

    def exit_lines(self, name):
        """What each process of a job said at its end: Inductor's workers end without a word, so their answers are the daemon's to count."""
        return [line for line in (self.folder / f"{name}.log").read_text().splitlines() if line.startswith("kiln:")]
