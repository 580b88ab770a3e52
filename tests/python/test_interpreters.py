"""The package on the interpreters that it is for: each that this machine has, pyenv's among them, and all of them by the text alone.

Debian 12 has one of them, so on a plain one the rest are held to by what the text asks for. Triton's own tests run where its toolchains
have their Python.
"""

import ast
import functools
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest
import vermin

from fake_driver import FakeDriver
from places import PACKAGE, ROOT

SOURCES = ROOT / "client" / "python" / "kiln"
OLDEST = (3, 10)
INTERPRETERS = ("3.10", "3.11", "3.12", "3.13", "3.14")
THIS = "{}.{}".format(*sys.version_info)
# What the package does without Triton. Jobs run under their toolchain's Python, whatever interpreter runs the test.
OWN_TESTS = [str(ROOT / "tests" / "python" / f"test_{name}") for name in (
    "arguments.py", "key.py", "launch.py", "report.py::test_the_report_counts_seconds_waited_and_saved",
    "report.py::test_answers_that_took_longer_than_the_compiles_are_a_loss", "report.py::test_threads_lose_nothing")]

# Every module that needs none of protobuf, Triton and JAX, which this interpreter need not have; a key, and a launch.
SCRIPT = """
import importlib, json, pathlib, sys, warnings
warnings.simplefilter("error")
package, driver = sys.argv[1:]
modules = [path.relative_to(package).with_suffix("") for path in pathlib.Path(package, "kiln").rglob("*.py")]
imported = []
for path in modules:
    try:
        imported.append(importlib.import_module(".".join(path.parts)))
    except ModuleNotFoundError as missing:  # these are not installed for each interpreter
        assert missing.name.partition(".")[0] in ("google", "jax", "numpy", "triton"), missing
import kiln
assert len(kiln.compile_key(kind="ttir", source="", backend="cuda", architecture="90", warp_size=32, toolchain_fingerprint=bytes(32))) == 64
from kiln import Artifact, KernelMetadata, KernelParameter, Provenance, Stage
import ctypes, hashlib
binary = b"\\x7fELF\\x02\\x01" + bytes(58)
metadata = KernelMetadata("k", "cuda", "90", 0, 4, 1, 32, 0, 1, 0, 1, 0, (1, 1, 1), False, False, None, None, (),
                          (KernelParameter("x", "*fp32"), KernelParameter("n", "i32")), 2, "{}")
artifact = Artifact("0" * 64, "hit", "", metadata, {"cubin": Stage("cubin", hashlib.sha256(binary).hexdigest(), len(binary), binary)}, {},
                    Provenance("", "", "", "", "", 0.0, 0.0))
fake = ctypes.CDLL(driver)
fake.fake_cuda_define(b"k", (ctypes.c_size_t * 4)(8, 4, 8, 8), ctypes.c_size_t(4))
fake.fake_cuda_make_context()
kernel = kiln.Runtime(driver).load(artifact).prepare()
kernel[(3, 1, 1)](0x7f0000000000, -1, stream=0x5000)
try:
    kernel[1](0, 2**40)
except kiln.LaunchError as error:
    assert "n: i32" in str(error)
fake.fake_cuda_launch.restype = ctypes.c_char_p
print(json.dumps({"modules": len(imported), "launch": fake.fake_cuda_launch(ctypes.c_size_t(0)).decode()}))
"""


@functools.lru_cache(maxsize=None)
def interpreter(version):
    """None where there is none that runs."""
    if version == THIS:
        return sys.executable
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    candidates = [shutil.which(f"python{version}"), *glob.glob(f"{pyenv}/versions/{version}.*/bin/python{version}")]
    runs = (path for path in candidates if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0)
    return next(runs, None)


@pytest.mark.slow
@pytest.mark.parametrize("version", INTERPRETERS)
def test_an_interpreter(version, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no python{version} here")
    done = subprocess.run([python, "-B", "-c", SCRIPT, PACKAGE, FakeDriver(tmp_path).path],
                          env={"PYTHONPATH": str(PACKAGE), "PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["launch"].startswith("k 3x1x1 128x1x1 0 0x5000 00000000007f0000 ffffffff") and answer["modules"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("version", [version for version in INTERPRETERS if version != THIS])
def test_the_packages_tests_under_another(version):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no python{version} here")
    environment = subprocess.run([ROOT / "tests" / "python_environment", python], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    # A short path: the sockets of daemons lie beneath it.
    with tempfile.TemporaryDirectory(prefix="i") as folder:
        done = subprocess.run([environment, "-B", "-m", "pytest", "-c", ROOT / "tests" / "pytest.ini", "--rootdir", ROOT / "tests",
                               "--basetemp", f"{folder}/p", *OWN_TESTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-10_000:]
    assert " passed" in done.stdout.splitlines()[-1], done.stdout[-1000:]


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_the_package_needs_no_newer_python(path):
    """Neither grammar nor library of a later Python than the oldest."""
    text = path.read_text()
    ast.parse(text, feature_version=OLDEST)
    _, needed = vermin.detect(text)
    assert needed <= OLDEST, f"{path} needs Python {needed}"


def test_a_later_pythons_text_would_be_noticed():
    with pytest.raises(SyntaxError):
        ast.parse("try: pass\nexcept* ValueError: pass\n", feature_version=OLDEST)
    assert vermin.detect("import asyncio\nasyncio.timeout(1)\n")[1] > OLDEST
