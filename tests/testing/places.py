"""Where the things that the Python tests need are."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KERNELS = ROOT / "tests" / "kernels"

_cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
# The folder with kilnd and kiln.
BINARIES = pathlib.Path(os.environ.get("KILN_TEST_BIN", ROOT / "build" / "dev" / "bin"))
# The Python package, as the build leaves it.
PACKAGE = BINARIES.parent / "python"
# What the daemons of this build have learned of toolchains. Tests in C++ share it (tests/testing/CMakeLists.txt).
DESCRIPTIONS = BINARIES.parent / "toolchain-descriptions"
# The folder with toolchains, and the one among them that the tests compile with.
TOOLCHAINS = pathlib.Path(os.environ.get("KILN_TEST_TOOLCHAINS", _cache / "kiln" / "toolchains"))
TOOLCHAIN = TOOLCHAINS / "triton-3.6.0"
# The folder with every version of Triton that is installed: only the tests of versions look there.
VERSIONS = pathlib.Path(os.environ.get("KILN_TEST_VERSION_TOOLCHAINS", _cache / "kiln" / "toolchains"))
# The folder with triton_worker.py and its package.
WORKER = ROOT / "daemon" / "worker" / "triton"
# The folder with versions of JAX for CPU, as tests/jax_environment installs them; each is to be put on PYTHONPATH.
JAXES = pathlib.Path(os.environ.get("KILN_TEST_JAX", _cache / "kiln" / "test-jax"))
# The oldest that Kiln supports, and the newest for the toolchain's Python.
JAX_VERSIONS = os.environ.get("KILN_TEST_JAX_VERSIONS", "0.9.0 0.10.2").split()
# Intel's OpenCL runtime for CPUs, as tests/opencl_environment installs it.
OPENCL = pathlib.Path(os.environ.get("KILN_TEST_OPENCL", _cache / "kiln" / "test-opencl"))
# A CUDA toolkit, or the environment of an NVRTC.
CUDA = pathlib.Path(os.environ.get("KILN_TEST_CUDA", "/usr/local/cuda"))
