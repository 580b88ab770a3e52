"""ONNX's own node tests, by every compiler. The table onnx_nodes.txt has what each gives; tests/testing/onnx_nodes/table.py writes it."""

import pathlib
import re
import time

import pytest

import test_operator_rows
from onnx_nodes import table
from onnx_nodes.cases import node_tests, segments

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")

# One in so many runs with the slow tests, others each day: all by all compilers take minutes, as onnx_nodes.table does. Every operator
# by every compiler always runs: test_operator_rows.py.
SAMPLE = {"interpreter": 1, "cuda": 2, "triton": 4, "opencl": 4}
TODAY = int(time.time() // 86400)
ROWS = table.read()


@pytest.fixture(scope="module")
def cases():
    return node_tests()


@pytest.fixture(scope="module")
def planned(cases):
    """The tests that Kiln plans whole, and why it does not plan the others."""
    return segments(cases.values())


def sampled(planned, step, day):
    names = [name for name in planned[0] if table.is_planned(ROWS.get(name, ""))]
    return {name: planned[0][name] for name in names[day % step :: step]}


@pytest.mark.slow
def test_the_table_names_each_test_and_why_it_is_not_planned(planned):
    whole, reasons = planned
    assert sorted(ROWS) == sorted([*whole, *reasons])
    assert {name: ROWS[name] for name in reasons} == {name: table.unsupported(reason) for name, reason in reasons.items()}


@pytest.mark.slow
def test_every_row_of_the_page_of_operators_has_a_case(cases):
    """Here, or in test_operator_rows.py."""
    passed = [case for name, case in cases.items() if ROWS.get(name, "").startswith("passed")]
    tried = {row.operator for row in test_operator_rows.every()} | {node.op_type for case in passed for node in case.model.graph.node}
    names = [re.findall(r"`([^`]+)`", f"{cells[0]} {cells[1]}") for _, cells in test_operator_rows.rows()]
    assert len(names) >= 150
    assert not [operator for operator, *aliases in names if not tried & {operator, *aliases}]


def test_at_least_a_thousand_pass_and_none_is_wrong():
    assert sum(row.startswith("passed") for row in ROWS.values()) >= 1000
    assert not [(name, row) for name, row in ROWS.items() if "wrong" in row]


@pytest.mark.slow
def test_samples_of_days_in_a_row_have_every_planned_test(planned):
    for step in SAMPLE.values():
        names = [name for day in range(TODAY, TODAY + step) for name in sampled(planned, step, day)]
        assert sorted(names) == sorted(sampled(planned, 1, TODAY))


@pytest.mark.slow
@pytest.mark.parametrize("compiler", table.COMPILERS)
def test_results_are_those_of_the_table(planned, compiler, tmp_path):
    step = SAMPLE[compiler]
    sample = sampled(planned, step, TODAY)
    found = table.verdicts(compiler, sample, tmp_path)
    assert found == {name: table.expected(ROWS[name], compiler) for name in sample}, f"one in {step} from number {TODAY % step} on"
