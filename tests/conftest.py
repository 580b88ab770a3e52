"""What the Python tests share: the programs under test, one toolchain, daemons of their own.

tests/run sets KILN_TEST_BIN (the folder with kilnd and kiln) and KILN_TEST_TOOLCHAINS (the folder with toolchains); without
them the dev build and the user's toolchains are taken.
"""

import os
import pathlib
import subprocess

import pytest

from daemon import Daemon, Programs

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ROOT / "tests" / "kernels"


@pytest.fixture(scope="session")
def programs():
    folder = pathlib.Path(os.environ.get("KILN_TEST_BIN", ROOT / "build" / "dev" / "bin"))
    for name in ("kilnd", "kiln"):
        assert (folder / name).is_file(), f"no {folder / name}: build it (tests/run does), or set KILN_TEST_BIN"
    return Programs(folder / "kilnd", folder / "kiln", toolchains_folder())


@pytest.fixture(scope="session")
def toolchain():
    """The directory of the toolchain that the tests compile with."""
    directory = toolchains_folder() / "triton-3.6.0"
    assert (directory / "bin" / "python").exists(), f"no toolchain in {directory}: run deploy/install-toolchain 3.6.0"
    return directory


def toolchains_folder():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return pathlib.Path(os.environ.get("KILN_TEST_TOOLCHAINS", cache / "kiln" / "toolchains"))


@pytest.fixture(scope="module")
def daemon(programs, tmp_path_factory):
    """A running daemon of this test module's own."""
    with Daemon(programs, tmp_path_factory.mktemp("kiln")) as running:
        yield running


@pytest.fixture(scope="session")
def run_with_triton(toolchain):
    """Runs a program of tests/kernels under the toolchain's own Python, with nothing inherited that could change its results."""

    def run(program, *arguments):
        return start(program, *arguments).communicate_checked()

    def start(program, *arguments):
        return _Checked([toolchain / "bin" / "python", "-B", KERNELS / program, *arguments])

    run.start = start
    return run


class _Checked(subprocess.Popen):
    def __init__(self, command):
        environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "TMPDIR": os.environ.get("TMPDIR", "/tmp")}
        super().__init__(
            list(map(str, command)), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )

    def communicate_checked(self):
        output, _ = self.communicate()
        assert self.returncode == 0, output
        return output
