"""Workers read the functions of libdevice that a kernel calls, and link what Triton links."""

import hashlib
import subprocess

import pytest
from bitcode_functions import defined_functions
from kiln_triton_worker.libdevice_functions import CALLED, DECLARATION_BITS
from places import ROOT, TOOLCHAIN, VERSIONS

pytestmark = pytest.mark.spread

IN_TOOLCHAIN = "lib/python*/site-packages/triton/backends/nvidia/lib/libdevice.10.bc"
# By digest, a libdevice and the toolchain that has it.
FOUND = {
    hashlib.sha256(path.read_bytes()).hexdigest(): (path, toolchain)
    for toolchain in (*sorted(VERSIONS.glob("triton-*")), TOOLCHAIN) for path in toolchain.glob(IN_TOOLCHAIN)
}


def links(toolchain, folder, step, size):
    """The number of functions that were linked, and the names of those that became something else: by itself, or in groups of that size."""
    program = ROOT / "tests" / "testing" / "libdevice_links.py"
    ran = subprocess.run([toolchain / "bin" / "python", "-B", program, str(step), str(size)], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    count, *different = ran.stdout.split()
    return int(count), different


@pytest.mark.parametrize("digest", FOUND)
def test_the_table_has_each_function_of_libdevice_but_the_first(digest):
    (first, _), *others = defined_functions(FOUND[digest][0].read_bytes()).items()
    assert DECLARATION_BITS[digest] == dict(others)
    assert first not in CALLED.values()


@pytest.mark.slow
def test_some_functions_link_as_they_do_with_all_of_libdevice(tmp_path):
    count, different = links(TOOLCHAIN, tmp_path, 60, 1)
    assert count > len(CALLED) and not different


@pytest.mark.slow
@pytest.mark.parametrize("digest", FOUND)
def test_each_function_links_as_it_does_with_all_of_libdevice(digest, tmp_path):
    count, different = links(FOUND[digest][1], tmp_path, 1, 40)
    assert count == len(DECLARATION_BITS[digest]) + 1 - len({*CALLED.values()}) and not different
