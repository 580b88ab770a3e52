"""A libcuda.so.1 that tells a driver's version and does nothing else, for what runs on a stand-in driver (jobs/stand_in_driver.py)."""

import subprocess


def make(folder, version=13000, result=0):
    """Builds it in this folder. Returns the variables for who is to find it."""
    folder.mkdir()
    code = f"int cuDriverGetVersion(int *version) {{ *version = {version}; return {result}; }}"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", folder / "libcuda.so.1"], input=code, text=True, check=True)
    return {"LD_LIBRARY_PATH": str(folder)}
