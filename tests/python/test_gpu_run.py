"""The script for machines with a GPU, on one that has none."""

import ast
import io
import json
import os
import pathlib
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from daemon import copy_missing
from fake_driver import FakeDriver
from job import package_environment
from places import DESCRIPTIONS, JAX_VERSIONS, TOOLCHAIN

GPU = pathlib.Path(__file__).resolve().parent.parent / "gpu"
sys.path.append(str(GPU / "checks"))

import library  # noqa: E402
import machine  # noqa: E402
import setting as settings  # noqa: E402
from report import MEASURED, Report  # noqa: E402


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


def test_parts_that_need_no_pytorch_ask_for_none(bundle):
    done = run(bundle, "--part", "launch")
    assert done.returncode == 2
    assert "checks, cost, autotune: " in done.stderr and "has no Triton" in done.stderr and "PyTorch" not in done.stderr


def test_the_architecture_is_what_the_driver_says(tmp_path):
    driver = FakeDriver(tmp_path)
    assert machine.find_gpu(driver.path) == machine.Gpu("90")
    assert "no NVIDIA driver here" in machine.find_gpu("/none/libcuda.so.1").trouble


def test_every_example_kernel_has_a_check(start_with_triton):
    """Read, as PyTorch is not here."""
    listed = start_with_triton("lower.py", "--list", "--targets", "cuda:90").finish()
    checks, = (node.value for node in ast.parse((GPU / "kernel_checks.py").read_text()).body
               if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "CHECKS")
    assert sorted(ast.literal_eval(key) for key in checks.keys) == sorted(json.loads(line)["kernel"] for line in listed.splitlines())


@pytest.mark.parametrize("target, lacking", [
    ("cuda:75", ["cross_entropy", "matmul_128x128x64_two_ctas", "quantize_int8", "rotary", "rotary_backward", "warp_specialized_matmul"]),
    ("cuda:86", ["matmul_128x128x64_two_ctas", "warp_specialized_matmul"]), ("cuda:120", [])])
def test_what_a_gpu_lacks_is_known_before_anything_is_compiled(start_with_triton, target, lacking):
    every, these = ({json.loads(line)["kernel"] for line in start_with_triton("lower.py", "--list", "--targets", one).finish().splitlines()}
                    for one in ("cuda:90", target))
    assert sorted(every - these) == lacking


@pytest.mark.slow
@pytest.mark.parametrize("version", JAX_VERSIONS)
def test_every_call_under_jax_is_launched_by_kilns_own_target(tmp_path, version):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu", **package_environment(version)}
    done = subprocess.run([TOOLCHAIN / "bin" / "python", "-B", GPU / "jax_job.py", "-", "lower"], env=environment, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    calls = [line for line in done.stdout.splitlines() if ": kiln_launch: " in line]
    assert len(calls) == len(done.stdout.splitlines()) > 21


@pytest.mark.slow
def test_a_program_of_distinct_kernels_under_jax_is_lowered_without_kiln_for_comparison(tmp_path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu", "KILN_MODE": "off",
                   "TRITON_CACHE_DIR": str(tmp_path / "triton"), **package_environment(JAX_VERSIONS[-1])}
    for finds_files in (False, True):
        command = [TOOLCHAIN / "bin" / "python", "-B", GPU / "jax_compile_job.py", tmp_path / "out.json", "lower", "90", "3"]
        subprocess.run(command, env=environment, check=True)
        seen = json.loads((tmp_path / "out.json").read_text())
        assert seen["compiles"] == 3 and not seen["report"]["compiled"] and not seen["report"]["local"]
        assert (seen["assembled"] == 0) is finds_files


@pytest.mark.slow
def test_the_kernels_are_compiled_for_the_gpu_that_is_there(programs, tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "JOB_SECONDS_MAX", 1000)
    monkeypatch.setattr(sys, "executable", str(TOOLCHAIN / "bin" / "python"))
    monkeypatch.setattr(sys, "prefix", f"{TOOLCHAIN}:{os.environ['KILN_TEST_CUDA']}")
    (tmp_path / "bin").symlink_to(programs.kilnd.parent)
    copy_missing(DESCRIPTIONS, tmp_path / "root" / "state" / "toolchains")
    report = Report(io.StringIO(), None)
    setting = settings.Setting(tmp_path, tmp_path, report, "", machine.Gpu("86"), "*", 1000)
    try:
        compiled = {path.stem for path in setting.artifacts.glob("*.cubin")}
        assert len(list((setting.artifacts / "hot").rglob("*"))) > len(compiled)
    finally:
        setting.close()
    assert report.rows == []
    # The example kernels but two, those of the launch checks, one for another GPU, and three that no Triton made.
    assert len(compiled) == 19 + 19 + 1 + 3
    assert {"vector_add-cuda-80", "softmax-cuda-86", "device_descriptor_add-cuda-86", "hold_ptx-cuda-86", "scaled_add_cu-cuda-86"} <= compiled


def test_says_that_there_is_no_bundle(tmp_path):
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (2, f"no bundle in {tmp_path}: tests/gpu/bundle makes one\n")


def test_says_that_there_is_no_python(bundle):
    done = run(bundle, KILN_GPU_PYTHON="/none/python")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/none/python is not a Python" in done.stderr


def test_what_cannot_be_wrong_is_measured_and_not_right(tmp_path):
    result, text = report(tmp_path, is_right=MEASURED)
    assert "0 of 0 right" in text and "ok  " not in text
    assert result.rows[0]["ok"] == "measured"


def test_raw_results_are_kept(tmp_path):
    result = Report(io.StringIO(), tmp_path)
    result.keep("kernels-first", {"seconds": 3})
    result.measure([{"name": "launch", "value": 1.04, "goal": 1.05, "better": "lower", "holds": True, "raw": [[2.0, 1.9]]}])
    result.save([])
    assert json.loads((tmp_path / "raw.json").read_text()) == {"kernels-first": [{"seconds": 3}]}
    assert "raw" not in result.measured[0]


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
