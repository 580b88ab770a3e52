"""What was compiled before decides nothing: conversions to and from fp8 for every architecture, in two orders."""

import signal

import pytest

from fp8_order import TARGETS, check, make_references, there_and_back
from places import TOOLCHAIN

# Each way to convert once: without instructions for it, with them, and for the formats of one vendor.
EACH_WAY = ("cuda:80", "cuda:89", "cuda:90", "hip:gfx942", "hip:gfx950")
ALL = TARGETS["cuda"] + TARGETS["hip"]


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    folder = tmp_path_factory.mktemp("references")
    make_references(TOOLCHAIN / "bin" / "python", EACH_WAY, folder)
    return folder


@pytest.mark.slow
def test_fp8_conversions_are_the_same_after_another_architecture(daemon, references, tmp_path):
    check(daemon, "triton==3.6.0", references, there_and_back(EACH_WAY), tmp_path)


@pytest.mark.slow
def test_fp8_conversions_are_the_same_after_any_other_architecture(daemon, tmp_path):
    make_references(TOOLCHAIN / "bin" / "python", ALL, tmp_path)
    check(daemon, "triton==3.6.0", tmp_path, there_and_back(ALL), tmp_path)


@pytest.mark.slow
def test_the_reference_kernels_show_what_a_process_remembers(references, run_with_triton):
    """Otherwise the test above shows nothing: in one process, sm_80 decides how sm_90 converts."""
    said = run_with_triton("fp8_conversions.py", "--targets", "cuda:80,cuda:90", "--in-one-process", "--out", references)
    assert said.splitlines() == ["cuda:80 True", "cuda:90 False"]


@pytest.mark.slow
def test_in_one_process_the_compiler_aborts_for_gfx1100_after_gfx950(start_with_triton, tmp_path):
    make_references(TOOLCHAIN / "bin" / "python", ("hip:gfx950", "hip:gfx1100"), tmp_path)
    process = start_with_triton("fp8_conversions.py", "--targets", "hip:gfx950,hip:gfx1100", "--in-one-process", "--out", tmp_path)
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGABRT and "Invalid opcode" in output, output
