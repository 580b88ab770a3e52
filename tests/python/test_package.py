"""The Python package as somebody else's program has it: installed from its wheel, and with its types."""

import fcntl
import json
import os
import pathlib
import subprocess
import sys

import onnx
import pytest

from graph.example_segments import daemon_in
from job import Job
from kiln_triton_worker.warm_kernel import WARM_KERNEL
from places import BINARIES, OPENCL, PACKAGE, ROOT, TOOLCHAIN

pytestmark = pytest.mark.slow


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of an environment with what installing the wheel brings."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    with open(BINARIES.parent / "wheel.lock", "w") as lock:  # each process of pytest's makes the wheel
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("cmake", "--build", BINARIES.parent, "--target", "kiln_wheel")
        wheel, = (BINARIES.parent / "wheels").glob("kiln-*.whl")
        assert "-py3-none-linux_" in wheel.name
        run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--disable-pip-version-check", "--no-input", "install", wheel)
    return folder / "bin" / "python"


def ask(python, text, **environment):
    return run(python, "-B", "-c", text, env={"PATH": os.environ["PATH"], **environment}, cwd=python.parent).split()


def test_the_wheel_has_the_whole_package(installed):
    where, = ask(installed, "import kiln, os; print(os.path.dirname(kiln.__file__))")
    assert {name.split("-")[0] for name in os.listdir(os.path.dirname(where)) if name.endswith(".dist-info")} == {"kiln", "protobuf"}
    assert where.startswith(str(installed.parent.parent))
    for folder, _, names in os.walk(PACKAGE / "kiln"):
        inside = os.path.join(where, os.path.relpath(folder, PACKAGE / "kiln"))
        missing = {name for name in names if not name.endswith(".pyc")} - set(os.listdir(inside))
        assert not missing, (inside, missing)


def test_an_installed_package_works(installed, tmp_path):
    """Without a daemon; a launch finds its library."""
    text = ("import kiln\ntry:\n    kiln.Client()\nexcept kiln.UnavailableError as error: print(error.code)\n"
            "try:\n    kiln.Runtime('no-such-driver.so')\nexcept kiln.LaunchError as error: print(error)\n")
    said = ask(installed, text, KILN_ROOT=str(tmp_path))
    assert said[0] == "UNAVAILABLE" and "no-such-driver.so" in " ".join(said[1:]), said


def test_an_installed_package_compiles(installed, daemon):
    text = ("import kiln\nwith kiln.Client() as client:\n    for _ in range(2):\n"
            f"        print(client.compile(kiln.CompileRequest({WARM_KERNEL!r}, 'cuda:90')).outcome)\n")
    assert ask(installed, text, KILN_ROOT=str(daemon.root)) == ["compiled", "hit"]


def test_an_installed_plug_in_asks_the_daemon(installed, daemon, tmp_path):
    """Beside a Triton of the same Python's."""
    triton, = (TOOLCHAIN / "lib").glob("python3*/site-packages")
    environment = {**Job(tmp_path, installed, daemon.root, "cache").environment, "PYTHONPATH": str(triton)}
    answer = json.loads(run(installed, "-B", ROOT / "tests" / "testing" / "jobs" / "attacked_job.py", "none", env=environment))
    assert answer["served"] == len(answer["made"]) == 8, answer


@pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")
def test_an_installed_example_computes_whole_models(installed, programs, tmp_path):
    """Every operation by a kernel; with the NumPy and the onnx of this Python."""
    with daemon_in(tmp_path / "daemon", programs) as running:
        environment = {"KILN_ROOT": str(running.root), "OCL_ICD_VENDORS": str(OPENCL / "vendors"),
                       "PYTHONPATH": str(pathlib.Path(onnx.__file__).parent.parent), "PATH": os.environ["PATH"]}
        said = run(installed, "-B", installed.parent.parent / "share/kiln/examples/onnx/run_models.py", env=environment)
    lines = said.splitlines()
    models = [line.split(",")[0] for line in lines if line[0] != " "]
    assert models == ["mlp: 4 operations", "convolution_net: 10 operations", "transformer_block: 23 operations"], said
    assert sum(line.startswith("  differs by at most ") for line in lines) == len(models) and "left" not in said, said


def mypy(folder, *what):
    return subprocess.run([sys.executable, "-m", "mypy", "--config-file", ROOT / "tests" / "mypy.ini", "--cache-dir", folder / "cache", *what],
                          cwd=PACKAGE, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", ["3.10", "3.14"])  # what it uses must be in the library of each
def test_the_package_is_typed_throughout(version, tmp_path):
    done = mypy(tmp_path, "--python-version", version, "-p", "kiln")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_that_passes_something_else_is_told(tmp_path):
    (tmp_path / "program.py").write_text("import kiln\n\nkiln.CompileRequest(1, 'cuda:90')\nkiln.Client().lookup(['0']).stages\n")
    done = mypy(tmp_path, tmp_path / "program.py")
    assert '"CompileRequest" has incompatible type "int"' in done.stdout and 'has no attribute "stages"' in done.stdout, done.stdout
