"""What the Python tests share: the programs under test, one toolchain, daemons of their own.

tests/run sets KILN_TEST_BIN (the folder with kilnd and kiln) and KILN_TEST_TOOLCHAINS (the folder with toolchains); without
them the dev build and the user's toolchains are taken.
"""

import sys

import pytest

from daemon import Daemon, Programs
from places import BINARIES, DESCRIPTIONS, KERNELS, PACKAGE, TOOLCHAIN, TOOLCHAINS, WORKER
from processes import CheckedProcess

sys.path[:0] = [str(PACKAGE), str(WORKER)]
# Each of pytest's processes would parse every test and rewrite its assertions: three seconds. None writes beside its source (-B).
sys.pycache_prefix = str(BINARIES.parent / "pycache")
sys.dont_write_bytecode = False


@pytest.fixture(scope="session")
def programs():
    for name in ("kilnd", "kiln"):
        assert (BINARIES / name).is_file(), f"no {BINARIES / name}: build it (tests/run does), or set KILN_TEST_BIN"
    return Programs(BINARIES / "kilnd", BINARIES / "kiln", TOOLCHAINS)


@pytest.fixture(scope="session")
def first_daemon(programs, tmp_path_factory):
    """Has found out what the toolchains can do. Modules with the mark `shared_daemon` share it."""
    with Daemon(programs, tmp_path_factory.mktemp("first"), descriptions=DESCRIPTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def daemon(request, first_daemon, tmp_path_factory):
    """A running daemon of this test module's own, unless the module has the mark `shared_daemon`."""
    if request.node.get_closest_marker("shared_daemon") is not None:
        yield first_daemon
        return
    with first_daemon.beside(tmp_path_factory.mktemp("kiln")) as running:
        yield running


@pytest.fixture
def other_daemon(daemon, tmp_path):
    """One of the test's own, to be started, stopped and killed."""
    return daemon.beside(tmp_path)


@pytest.fixture(scope="session")
def start_with_triton():
    """Starts a program of tests/kernels under the toolchain's own Python."""
    python = TOOLCHAIN / "bin" / "python"
    assert python.exists(), f"no toolchain in {TOOLCHAIN}: run deploy/install-toolchain 3.6.0"

    def start(program, *arguments):
        return CheckedProcess([python, "-B", KERNELS / program, *arguments])

    return start


@pytest.fixture(scope="session")
def run_with_triton(start_with_triton):
    """The same, and waits for its end."""
    return lambda program, *arguments: start_with_triton(program, *arguments).finish()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test with the mark `one_case`, all cases but the first are slow. A module runs in one process, so that its fixtures are made
    once; the tests of one with the mark `spread` run anywhere. Modules with slow tests come first: no long one is left for the end."""
    seen, slow = set(), set()
    for item in items:
        if item.get_closest_marker("spread") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
        if item.get_closest_marker("slow") is not None:
            slow.add(item.path)
        if item.get_closest_marker("one_case") is None:
            continue
        test = (item.path, item.originalname)
        if test in seen:
            item.add_marker(pytest.mark.slow)
        seen.add(test)
    items.sort(key=lambda item: item.path not in slow)
