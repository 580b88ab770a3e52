"""The script for machines with a GPU, on one that has none."""

import io
import json
import os
import pathlib
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

GPU = pathlib.Path(__file__).resolve().parent.parent / "gpu"
sys.path.append(str(GPU / "checks"))

import library  # noqa: E402
from report import Report  # noqa: E402


@pytest.fixture
def bundle(tmp_path):
    (tmp_path / "about.json").write_text(json.dumps({"python": "2.7", "commit": "none"}))
    return tmp_path


def run(*arguments, **environment):
    return subprocess.run([GPU / "run", *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, "KILN_GPU_PYTHON": sys.executable, "KILN_GPU_DRIVER": "/none/libcuda.so.1", **environment})


def test_says_what_a_machine_lacks(bundle):
    done = run(bundle)
    assert done.returncode == 2
    assert "no NVIDIA driver here: /none/libcuda.so.1" in done.stderr
    assert "autotune: " in done.stderr and "has no Triton" in done.stderr
    assert "kernels, training, " in done.stderr and "has no PyTorch" in done.stderr


def test_parts_that_need_no_python_packages_ask_for_none(bundle):
    done = run(bundle, "--part", "checks", "--part", "cost")
    assert done.returncode == 2
    assert "PyTorch" not in done.stderr and "Triton" not in done.stderr


def test_says_that_there_is_no_bundle(tmp_path):
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (2, f"no bundle in {tmp_path}: tests/gpu/bundle makes one\n")


def test_says_that_there_is_no_python(bundle):
    done = run(bundle, KILN_GPU_PYTHON="/none/python")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/none/python is not a Python" in done.stderr


def report(tmp_path, is_right=True, **measured):
    text = io.StringIO()
    result = Report(text, tmp_path / "out")
    result.row("checks", "what was checked", "as it was", is_right)
    result.measure([{"name": "launch", "value": 1.04, "goal": 1.05, "better": "lower", "holds": True, **measured}])
    result.end_part("checks", time.monotonic())
    result.save([])
    result.end()
    assert (tmp_path / "out" / "output.txt").read_text() == text.getvalue()
    return result, text.getvalue()


def test_a_run_without_failures_holds(tmp_path):
    result, text = report(tmp_path)
    assert result.holds
    assert "1 of 1 right" in text and "≤ 1.05  holds" in text
    assert json.loads((tmp_path / "out" / "results.json").read_text())["measured"] == result.measured


def test_a_failed_check_fails_the_run(tmp_path):
    result, text = report(tmp_path, is_right=False)
    assert not result.holds
    assert "0 of 1 right" in text and "FAIL  checks: what was checked" in text


def test_a_missed_goal_fails_the_run(tmp_path):
    result, text = report(tmp_path, value=1.2, holds=False)
    assert not result.holds
    assert "MISSED" in text


def test_a_figure_without_a_goal_fails_nothing(tmp_path):
    result, text = report(tmp_path, name="cores-measured", goal=None)
    assert result.holds
    assert "measured" in text


def test_a_skipped_check_counts_neither_as_right_nor_as_wrong(tmp_path):
    result, text = report(tmp_path, is_right=None)
    assert result.holds
    assert "0 of 0 right, 1 skipped" in text and "skip  checks" in text and "FAIL" not in text


@pytest.mark.parametrize("script, is_right", [("echo '[       OK ] A.B'", True), ("echo '[  SKIPPED ] A.B'", None), ("exit 1", False),
                                              ("echo '[  SKIPPED ] A.B'; exit 1", False)])
def test_a_checks_line_becomes_a_row(script, is_right):
    rows = []
    setting = SimpleNamespace(limit=lambda seconds: seconds, report=Report(io.StringIO(), None))
    library.check(setting, lambda *row: rows.append(row), ["/bin/sh", "-c", script], "A.B")
    assert [(name, is_ok) for name, _, is_ok in rows] == [("A.B", is_right)]
