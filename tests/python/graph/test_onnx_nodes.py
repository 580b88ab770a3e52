"""ONNX's own node tests, by every compiler. The table onnx_nodes.txt has what each gives; tests/testing/onnx_nodes/table.py writes it."""

import pathlib
import time

import pytest

from onnx_nodes import table
from onnx_nodes.cases import node_tests, segments

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")

# One in so many runs always, and one in so many with the slow tests, others each day: all by all compilers take minutes, as
# onnx_nodes.table does.
SAMPLE = 40
SLOW_SAMPLE = {"interpreter": 1, "cuda": 2, "triton": 4, "opencl": 4}
TODAY = int(time.time() // 86400)
ROWS = table.read()


@pytest.fixture(scope="module")
def planned():
    """The tests that Kiln plans whole, and why it does not plan the others."""
    return segments(node_tests().values())


def sampled(planned, step, day=0):
    names = [name for name in planned[0] if table.is_planned(ROWS.get(name, ""))]
    return {name: planned[0][name] for name in names[day % step :: step]}


def test_the_table_names_each_test_and_why_it_is_not_planned(planned):
    whole, reasons = planned
    assert sorted(ROWS) == sorted([*whole, *reasons])
    assert {name: ROWS[name] for name in reasons} == {name: table.unsupported(reason) for name, reason in reasons.items()}


def test_at_least_a_thousand_pass_and_none_is_wrong():
    assert sum(row.startswith("passed") for row in ROWS.values()) >= 1000
    assert not [(name, row) for name, row in ROWS.items() if "wrong" in row]


def check(compiler, segments_by_name, folder, sample):
    found = table.verdicts(compiler, segments_by_name, folder)
    assert found == {name: table.expected(ROWS[name], compiler) for name in segments_by_name}, sample


def test_samples_of_days_in_a_row_have_every_planned_test(planned):
    for step in SLOW_SAMPLE.values():
        names = [name for day in range(TODAY, TODAY + step) for name in sampled(planned, step, day)]
        assert sorted(names) == sorted(sampled(planned, 1))


@pytest.mark.parametrize("compiler", table.COMPILERS)
def test_some_results_are_those_of_the_table(planned, compiler, tmp_path):
    check(compiler, sampled(planned, SAMPLE), tmp_path, f"one in {SAMPLE}")


@pytest.mark.slow
@pytest.mark.parametrize("compiler", table.COMPILERS)
def test_more_results_are_those_of_the_table(planned, compiler, tmp_path):
    step = SLOW_SAMPLE[compiler]
    check(compiler, sampled(planned, step, TODAY), tmp_path, f"one in {step} from number {TODAY % step} on")
