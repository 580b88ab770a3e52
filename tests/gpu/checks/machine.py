"""What this machine has of what the parts need."""

import ctypes
import dataclasses
import datetime
import importlib.util
import platform
import shutil
import subprocess
import sys

TITLES = {"jax": "JAX", "torch": "PyTorch", "triton": "Triton"}


@dataclasses.dataclass
class Gpu:
    """The first one that the driver has."""

    architecture: str  # "90"
    trouble: str = ""  # why it cannot be used


def describe():
    """Lines for the head of a result."""
    lines = [f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M:%S} UTC", f"{platform.system()} {platform.release()}, "
             f"Python {platform.python_version()}"]
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        try:
            lines += subprocess.run(query, capture_output=True, text=True, timeout=20, check=False).stdout.splitlines()
        except subprocess.TimeoutExpired:
            lines.append("nvidia-smi does not answer")
    return lines


def find_gpu(driver):
    try:
        library = ctypes.CDLL(driver)
    except OSError as error:
        return Gpu("", f"no NVIDIA driver here: {error}")
    if result := library.cuInit(0):
        return Gpu("", f"no NVIDIA GPU here: cuInit of {driver} returns {result}")
    version = [ctypes.c_int(), ctypes.c_int()]
    for number, attribute in zip(version, (75, 76), strict=True):  # COMPUTE_CAPABILITY_MAJOR, and _MINOR
        if result := library.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0):
            return Gpu("", f"no NVIDIA GPU here: cuDeviceGetAttribute of {driver} returns {result}")
    return Gpu("".join(str(number.value) for number in version))


def count_gpus(driver):
    """How many the driver has. REQUIRES: find_gpu() has found one."""
    count = ctypes.c_int()
    if result := ctypes.CDLL(driver).cuDeviceGetCount(ctypes.byref(count)):
        raise RuntimeError(f"cuDeviceGetCount of {driver} returns {result}")
    return count.value


def python_trouble(modules, bundled_version):
    """Why what needs these modules cannot run under this Python, or None. bundled_version: of the Python that the bundle's packages
    are for."""
    absent = [TITLES[module] for module in modules if importlib.util.find_spec(module) is None]
    if absent:
        return f"{sys.executable} has no {' and no '.join(absent)}: name another Python with KILN_GPU_PYTHON"
    version = "{}.{}".format(*sys.version_info)
    if {"torch", "jax"} & set(modules) and version != bundled_version:
        return f"the bundle is for Python {bundled_version}, {sys.executable} is {version}: tests/gpu/bundle makes another"
    return None
