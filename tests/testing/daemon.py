"""A kilnd of a test's own, and the kiln command that asks it."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

# A first start tries out each toolchain, one after the other: 3 s of one processor for a Triton, which took 20 s on 2 cores with twenty
# processes that wanted them. The tests of versions start a daemon with six: two minutes there. What takes twice that hangs.
START_SECONDS_MAX = 240
STOP_SECONDS_MAX = 30
# No command of a test takes longer, so one that does hangs.
COMMAND_SECONDS_MAX = 300
# With a default that is no Triton, each Triton starts with its first request and none with the daemon. A request that names no toolchain
# gets the newest Triton as without a default. Triton 3.6.0 brings this ptxas.
_TRITON_ON_DEMAND = {"KILN_TOOLCHAIN_DEFAULT": "ptxas==12.9.86"}


@dataclasses.dataclass(frozen=True)
class Programs:
    kilnd: pathlib.Path
    kiln: pathlib.Path
    toolchains: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a run of kiln left: exit code, standard output, standard error."""

    code: int
    out: str
    error: str

    def objects(self):
        """The JSON objects of an answer given with --json. Whether there are events of progress depends on the machine, so they are left out."""
        return [json.loads(line) for line in self.out.splitlines() if line.strip() and not line.startswith('{"progress":')]


class Daemon:
    """Runs kilnd on a directory beneath `folder` for as long as a `with` block lasts, as often as one likes.

    Fails the test where the daemon does not end cleanly. `root` names another directory, `environment` adds variables. `descriptions`
    is a folder in which daemons leave for each other what they learn of toolchains, which takes most of a first start.
    """

    def __init__(self, programs, folder, root=None, environment=None, descriptions=None):
        self._programs = programs
        self._folder = folder
        self._environment = environment or {}
        self._descriptions = descriptions
        self._process = None
        self._was_killed = False
        self._was_terminated = False
        self.arguments = []  # of kilnd, beside its root
        self.root = root or folder / "root"
        self.log = folder / "kilnd.log"

    def beside(self, folder, **environment):
        """Another one with the same settings, but for `environment`, and no artifacts, which need not find out again what its
        toolchains can do: that takes most of a daemon's first start. Triton starts with its first request: that takes most of a later
        start, and many tests compile nothing with it. Not started yet."""
        settings = {**self._environment, **environment}
        if "KILN_TOOLCHAIN_DIRECTORIES" not in settings:  # elsewhere there may be another ptxas, or none
            settings = {**_TRITON_ON_DEMAND, **settings}
        other = Daemon(self._programs, folder, root=folder / "other", environment=settings)
        (other.root / "state").mkdir(mode=0o700, parents=True)
        shutil.copytree(self.root / "state" / "toolchains", other.root / "state" / "toolchains")
        return other

    @property
    def kilnd(self):
        return self._programs.kilnd

    @property
    def pid(self):
        return self._process.pid

    def is_running(self):
        return self._process.poll() is None

    def terminate(self):
        """Asks it to stop, once: the end of the `with` block waits for that."""
        self._was_terminated = True
        self._process.send_signal(signal.SIGTERM)

    def kill(self):
        """As a crash or the kernel would: nothing is tidied up."""
        self._was_killed = True
        self._process.kill()
        self._process.wait()

    def stop_answering(self):
        """Stops it where it is, until go_on(). It has stopped when this returns: a signal alone takes its time on a busy machine."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def environment(self):
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}
        # A home of its own: nothing of the user's may be read, nothing may be written there.
        own = {"HOME": str(self._folder), "KILN_TOOLCHAIN_DIRECTORIES": str(self._programs.toolchains)}
        return {**kept, **own, **self._environment}

    def __enter__(self):
        self._was_killed = False
        self._was_terminated = False
        if self._descriptions is not None:
            copy_missing(self._descriptions, self.root / "state" / "toolchains")
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [self._programs.kilnd, "--root", self.root, *self.arguments],
                env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        try:
            self._wait_until_it_serves()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        if self._descriptions is not None:
            copy_missing(self.root / "state" / "toolchains", self._descriptions)
        return self

    def _wait_until_it_serves(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        # kilnd logs it when it accepts calls. A command that asks it would take a fourth of a start's processor time.
        while b" info serving socket=" not in self.log.read_bytes():
            assert self.is_running(), f"kilnd ended while starting:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"kilnd does not answer:\n{self.log.read_text()}"
            time.sleep(0.01)

    def __exit__(self, *exception):
        if self._was_killed:
            return
        # A second signal would make it quit at once.
        if self.is_running() and not self._was_terminated:
            self.terminate()
        try:
            code = self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        assert code == 0, f"kilnd ended with {code}:\n{self.log.read_text()}"

    def run_to_its_end(self):
        """For a kilnd that is expected to refuse to start: what it said."""
        done = subprocess.run(
            [self._programs.kilnd, "--root", self.root, *self.arguments],
            env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=START_SECONDS_MAX, check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def kiln(self, *arguments):
        command = self.start_kiln(*arguments)
        try:
            out, error = command.communicate(timeout=COMMAND_SECONDS_MAX)
        except BaseException:
            command.kill()
            command.wait()
            raise
        return Answer(command.returncode, out, error)

    def kiln_command(self, *arguments):
        return [self._programs.kiln, "--root", self.root, *arguments]

    def start_kiln(self, *arguments, stdin=subprocess.DEVNULL, text=True):
        return subprocess.Popen(
            self.kiln_command(*arguments),
            env=self.environment(), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text,
            # Where the tests run in the background, a shell has them, and what they start, pass over the signal.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def copy_missing(source, target):
    """Leaves in one folder what daemons have learned that is in the other. Renames each copy into its place, since tests that run beside
    this one do the same."""
    for folder in (source, target):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in source.glob("[!.]*"):
        if not (target / path.name).exists():
            partial = target / f".partial-{os.getpid()}"
            shutil.copyfile(path, partial)
            partial.rename(target / path.name)
