"""Jobs with JAX for CPU, a toolchain's Triton and Kiln."""

import json
import os
import subprocess

import pytest

from job import package_environment
from places import JAX_VERSIONS, ROOT, TOOLCHAIN

_PROGRAM = ROOT / "tests" / "testing" / "jobs" / "jax_job.py"


@pytest.fixture(scope="session")
def daemon(first_daemon):
    """Jobs count what they ask for themselves."""
    return first_daemon


@pytest.fixture(scope="module")
def jax(daemon, make_jax, tmp_path_factory):
    """A job with the newest JAX and the shared daemon."""
    with make_jax(tmp_path_factory.mktemp("jax"), daemon.root) as job:
        yield job


@pytest.fixture(scope="session")
def remembered(tmp_path_factory):
    """What is remembered of the toolchains serves all the jobs of a run: to hash Triton takes as long as to import JAX."""
    return {"XDG_CACHE_HOME": str(tmp_path_factory.getbasetemp() / "cache")}


@pytest.fixture(scope="session")
def make_jax(remembered):
    """Makes a job in a folder, for a daemon's root, with more variables of the environment."""
    return lambda folder, root, version=JAX_VERSIONS[-1], **environment: JaxJob(folder, version, root, **{**remembered, **environment})


@pytest.fixture
def other_jax(daemon, remembered, tmp_path):
    """Makes jobs of the test's own: root is that of another daemon, or None; toolchain has Triton; more are variables of the environment."""

    def make(version=JAX_VERSIONS[-1], root=daemon.root, folder="job", toolchain=TOOLCHAIN, **environment):
        (tmp_path / folder).mkdir(exist_ok=True)
        return JaxJob(tmp_path / folder, version, root, toolchain, **{**remembered, **environment})

    return make


class JaxJob:
    """Evaluates expressions for as long as a `with` block lasts: jobs/jax_job.py says what they can use. root: the daemon's; None: the
    job finds no daemon."""

    def __init__(self, folder, jax, root=None, toolchain=TOOLCHAIN, **environment):
        self._python = toolchain / "bin" / "python"
        self._log = folder / "jax_job.log"
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}, "HOME": str(folder),
            "TRITON_CACHE_DIR": str(folder / "triton"), "JAX_PLATFORMS": "cpu",
            "KILN_ROOT": str(root or folder / "nothing"), **package_environment(jax), **environment
        }

    def __enter__(self):
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen([self._python, "-B", _PROGRAM], env=self.environment, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log, text=True)
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.stdout.close()
        code = self.process.wait(60)
        assert code == 0 or exception[0] is not None, self.log

    @property
    def log(self):
        return self._log.read_text()

    def value(self, expression):
        answer = self._answer(expression)
        assert "error" not in answer, answer["trace"]
        return answer["value"]

    def error(self, expression):
        """What it raises: the class, and what it says."""
        answer = self._answer(expression)
        assert "error" in answer, f"it gave {answer}"
        return answer["error"]

    def _answer(self, expression):
        self.process.stdin.write(json.dumps(expression) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the job ended:\n{self.log}"
        return json.loads(line)
