"""The Python package as somebody else's program has it: installed from its wheel, and with its types."""

import os
import shutil
import site
import subprocess
import sys

import pytest

from places import PACKAGE, ROOT

pytestmark = pytest.mark.slow


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*arguments):
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of an environment with nothing but the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder, folder / "source")
    wheel, = folder.glob("kiln-*.whl")
    assert "-py3-none-linux_" in wheel.name
    run(sys.executable, "-m", "venv", "--without-pip", folder / "environment")
    python = folder / "environment" / "bin" / "python"
    pip("--python", python, "install", "--no-deps", "--no-index", wheel)
    return python


def ask(python, text, **environment):
    return run(python, "-B", "-c", text, env={"PATH": os.environ["PATH"], **environment}, cwd=python.parent).split()


def test_the_wheel_has_the_whole_package(installed):
    where, = ask(installed, "import kiln, os; print(os.path.dirname(kiln.__file__))")
    assert where.startswith(str(installed.parent.parent))
    for folder, _, names in os.walk(PACKAGE / "kiln"):
        inside = os.path.join(where, os.path.relpath(folder, PACKAGE / "kiln"))
        missing = {name for name in names if not name.endswith(".pyc")} - set(os.listdir(inside))
        assert not missing, (inside, missing)


def test_an_installed_package_works(installed, tmp_path):
    """With protobuf, and without a daemon; a launch finds its library."""
    text = ("import kiln\ntry:\n    kiln.Client()\nexcept kiln.UnavailableError as error: print(error.code)\n"
            "try:\n    kiln.Runtime('no-such-driver.so')\nexcept kiln.LaunchError as error: print(error)\n")
    said = ask(installed, text, PYTHONPATH=os.pathsep.join(site.getsitepackages()), KILN_ROOT=str(tmp_path))
    assert said[0] == "UNAVAILABLE" and "no-such-driver.so" in " ".join(said[1:]), said


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
