"""What the graph front end emits, through the compilers themselves: NVRTC, ptxas, clang with the translator to SPIR-V."""

import json
import re
import subprocess

import pytest

from bare_nvrtc import Nvrtc
from places import BINARIES, CUDA, TOOLCHAIN


FAST = pytest.param(("fast",), marks=pytest.mark.slow)


def cases(language, *options):
    printed = subprocess.run([BINARIES / "emit_cases", language, *options], capture_output=True, text=True, check=True)
    return json.loads(printed.stdout)


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


# Unoptimised code has all that a kernel says, inline PTX too, and is there in half the time.
@pytest.mark.parametrize("architecture, options, compile_options", [
    pytest.param("80", (), ("--Ofast-compile=max",), id="80"),
    pytest.param("80", (), (), id="80-optimised", marks=pytest.mark.slow),
    pytest.param("90", ("fast",), (), id="90-fast", marks=pytest.mark.slow),
])
def test_nvrtc_takes_all_cuda_kernels(architecture, options, compile_options):
    kernels = cases("cuda", *options)
    compiled = Nvrtc(CUDA).compile("\n".join(case["text"] for case in kernels), architecture, compile_options)
    for case in kernels:
        assert case["entry"].encode() in compiled["cubin"]


@pytest.mark.parametrize("architecture", [pytest.param("80", marks=pytest.mark.slow), "90a"])
@pytest.mark.parametrize("options", [(), FAST])
def test_ptxas_takes_all_ptx_kernels(architecture, options, tmp_path):
    texts = [case["text"] for case in cases("ptx", *options)]
    assert len(texts) > 400
    header, first = texts[0].split("\n\n", 1)
    source = "\n".join([header, first, *(text.split("\n\n", 1)[1] for text in texts[1:])])
    (tmp_path / "kernels.ptx").write_text(source)
    ptxas = next(TOOLCHAIN.glob("lib/python3.*/site-packages/triton/backends/nvidia/bin/ptxas"))
    run(ptxas, f"-arch=sm_{architecture}", tmp_path / "kernels.ptx", "-o", tmp_path / "kernels.cubin")


@pytest.mark.parametrize("options", [(), FAST])
def test_clang_and_the_translator_take_all_opencl_kernels(options, tmp_path):
    texts = [case["text"] for case in cases("opencl", *options)]
    # Types may be defined once in C99.
    source = re.sub(r"^typedef .*\n", "", "\n".join(texts), flags=re.MULTILINE)
    typedefs = dict.fromkeys(re.findall(r"^typedef .*\n", "\n".join(texts), flags=re.MULTILINE))
    (tmp_path / "kernels.cl").write_text("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" + "".join(typedefs) + source)
    run("clang-15", "-target", "spirv64", "-x", "cl", "-cl-std=CL2.0", "-Xclang", "-disable-llvm-passes", "-O2", "-Werror", "-c", "-emit-llvm",
        "-o", tmp_path / "kernels.bc", tmp_path / "kernels.cl")
    run("llvm-spirv-15", "--spirv-max-version=1.2", tmp_path / "kernels.bc", "-o", tmp_path / "kernels.spv")
    run("spirv-val", "--target-env", "spv1.2", tmp_path / "kernels.spv")
