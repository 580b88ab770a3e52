"""`kiln graph` and a daemon that has a toolchain for each compiler."""

import json
import pathlib
import re
import subprocess

import pytest

from daemon import Daemon
from places import BINARIES, CUDA, DESCRIPTIONS, ROOT, TOOLCHAINS

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")

SEGMENT = {
    "kiln_segment": 1, "name": "head",
    "symbols": [{"name": "batch", "min": 1, "max": 512, "typical": 64}],
    "values": [
        {"name": "x", "type": "f16", "shape": ["batch", 64], "role": "input"},
        {"name": "w", "type": "f16", "shape": [64, 48], "role": "constant"},
        {"name": "b", "type": "f16", "shape": [48], "role": "constant"},
        {"name": "product", "type": "f16", "shape": ["batch", 48]},
        {"name": "sum", "type": "f16", "shape": ["batch", 48]},
        {"name": "gated", "type": "f16", "shape": ["batch", 48], "role": "output"},
        {"name": "odds", "type": "f16", "shape": ["batch", 48], "role": "output"},
        {"name": "doubled", "type": "f16", "shape": ["batch", 48]},
        {"name": "raised", "type": "f16", "shape": ["batch", 48], "role": "output"},
    ],
    "operations": [
        {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["product"]},
        {"op": "Add", "inputs": ["product", "b"], "outputs": ["sum"]},
        {"op": "Gelu", "inputs": ["sum"], "outputs": ["gated"]},
        {"op": "Softmax", "inputs": ["gated"], "outputs": ["odds"]},
        {"op": "Mul", "inputs": ["odds", "b"], "outputs": ["doubled"]},
        {"op": "Add", "inputs": ["doubled", "gated"], "outputs": ["raised"]},
    ],
}
MAGIC = {"cubin": b"\x7fELF", "hsaco": b"\x7fELF", "spv": b"\x03\x02\x23\x07"}


@pytest.fixture(scope="module")
def daemon(programs, tmp_path_factory):
    environment = {"KILN_TOOLCHAIN_DIRECTORIES": f"{TOOLCHAINS}:{CUDA}:/usr"}
    with Daemon(programs, tmp_path_factory.mktemp("graph"), environment=environment, descriptions=DESCRIPTIONS) as running:
        yield running


@pytest.fixture
def segment(tmp_path):
    path = tmp_path / "head.json"
    path.write_text(json.dumps(SEGMENT))
    return path


def compile_graph(daemon, segment, folder, *arguments, barriers="never"):
    """The steps of each target, by its name."""
    done = daemon.kiln("graph", "compile", segment, "--small", "--barriers", barriers, "-o", folder, *arguments)
    assert done.code == 0, done.error
    return {target["target"]: target["steps"] for target in json.loads((folder / "steps.json").read_text())["targets"]}


def compilers(steps):
    return [kernel["compiler"] for step in steps for kernel in step["kernels"]]


def test_every_target_has_its_artifacts(daemon, segment, tmp_path):
    targets = {"cuda:90": "cubin", "hip:gfx942": "hsaco", "spirv:1.2": "spv"}
    steps = compile_graph(daemon, segment, tmp_path / "out", *(word for target in targets for word in ("--target", target)))
    assert compilers(steps["cuda:90"]) == ["triton", "triton", "ptx"]
    assert compilers(steps["hip:gfx942"]) == ["triton"] * 3
    assert compilers(steps["spirv:1.2"]) == ["opencl"] * 3
    for target, stage in targets.items():
        for kernel in (kernel for step in steps[target] for kernel in step["kernels"]):
            binary = (tmp_path / "out" / f"{kernel['name']}.{stage}").read_bytes()
            assert binary.startswith(MAGIC[stage]), kernel
            metadata = json.loads((tmp_path / "out" / f"{kernel['name']}.json").read_text())["metadata"]
            assert metadata["name"] == kernel["entry"]
            assert len(metadata["parameters"]) == len(kernel["buffers"]) + 1  # the batch


def test_a_forced_compiler_writes_all(daemon, segment, tmp_path):
    steps = compile_graph(daemon, segment, tmp_path / "out", "--target", "cuda:90", "--compiler", "cuda")
    assert compilers(steps["cuda:90"]) == ["cuda"] * 3


def test_small_sections_are_one_kernel(daemon, segment, tmp_path):
    steps = compile_graph(daemon, segment, tmp_path / "out", "--target", "cuda:90", "--compiler", "cuda", barriers="always")["cuda:90"]
    assert [step["type"] for step in steps] == ["matmul", "group"]
    (kernel,) = steps[1]["kernels"]
    metadata = json.loads((tmp_path / "out" / f"{kernel['name']}.json").read_text())["metadata"]
    assert len(kernel["stages"]) == 2 and len(metadata["parameters"]) == len(kernel["buffers"]) + 1 + 3


def test_a_manifest_warms_what_compile_asks_for(daemon, segment, tmp_path):
    arguments = ("--small", "--barriers", "never", "--target", "cuda:80", "--target", "spirv:1.2")
    made = daemon.kiln("graph", "manifest", segment, *arguments, "-o", tmp_path / "head.kiln")
    assert made.code == 0 and made.error.startswith("6 requests in "), made.error
    # At its own priority, a warm waits for all other tests on the machine.
    assert daemon.kiln("warm", "--priority", "waiting-rank", tmp_path / "head.kiln").code == 0
    answers = daemon.kiln("graph", "compile", segment, *arguments, "--json").objects()
    assert [answer["outcome"] for answer in answers[:-1]] == ["hit"] * 6


def test_a_target_without_a_toolchain_is_refused(daemon, segment, tmp_path):
    with daemon.beside(tmp_path, KILN_TOOLCHAIN_DIRECTORIES="/usr") as other:
        refused = other.kiln("graph", "compile", segment, "--target", "hip:gfx942")
    assert refused.code == 2 and refused.out == ""
    assert "no toolchain of the daemon compiles triton for hip:gfx942" in refused.error


def test_a_compiler_that_is_not_there_is_passed_over(daemon, segment, tmp_path):
    with daemon.beside(tmp_path, KILN_TOOLCHAIN_DIRECTORIES=f"{CUDA}:/usr") as other:
        done = other.kiln("graph", "compile", segment, "--small", "--target", "cuda:90", "-o", tmp_path / "out")
    assert done.code == 0, done.error
    assert "kiln: cuda:90: no toolchain of the daemon compiles" in done.error
    steps = json.loads((tmp_path / "out" / "steps.json").read_text())["targets"][0]
    assert "triton" in steps["absent"] and set(compilers(steps["steps"])) <= {"ptx", "cuda"}


# An operator, its inputs, its output and its attributes, for each type of section.
SECTIONS = {
    "elementwise": ("Add", [[64, 48], [64, 48]], [64, 48], {}),
    "view": ("Transpose", [[64, 48]], [48, 64], {"perm": [1, 0]}),
    "constant": ("EyeLike", [[16, 16]], [16, 16], {}),
    "gather": ("ScatterElements", [[64, 48], [64, 48], [64, 48]], [64, 48], {"axis": 0, "reduction": "add"}),
    "reduction": ("ReduceMax", [[64, 48]], [64], {"axes": [1], "keepdims": 0}),
    "normalization": ("Softmax", [[64, 48]], [64, 48], {}),
    "matmul": ("MatMul", [[64, 48], [48, 32]], [64, 32], {}),
    "convolution": ("Conv", [[2, 32, 8, 8], [32, 16, 3, 3]], [2, 32, 6, 6], {"group": 2}),
    "attention": ("Attention", [[1, 2, 64, 32]] * 3, [1, 2, 64, 32], {"is_causal": 1}),
}


def segment_of_all_types():
    values, operations = [], []
    for name, (operator, inputs, shape, attributes) in SECTIONS.items():
        names = [f"{name}{i}" for i in range(len(inputs))]
        values += [{"name": each, "type": "i64" if operator == "ScatterElements" and each.endswith("1") else "f16", "shape": extents,
                    "role": "input"} for each, extents in zip(names, inputs, strict=True)]
        values.append({"name": name, "type": "f16", "shape": shape, "role": "output"})
        operations.append({"op": operator, "inputs": names, "outputs": [name], "attributes": attributes})
    return {"kiln_segment": 1, "name": "types", "symbols": [], "values": values, "operations": operations}


def test_every_type_of_section_has_a_case():
    table = (ROOT / "client/graph/sections/section_types.cc").read_text()
    assert sorted(SECTIONS) == sorted(re.findall(r'\{Type::k\w+, "(\w+)"', table))


@pytest.mark.parametrize("target, compiler", [
    ("spirv:1.2", "opencl"), ("cuda:90", "cuda"),
    *(pytest.param(target, "triton", marks=pytest.mark.slow) for target in ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx950"))])
def test_every_type_of_section_compiles(daemon, tmp_path, target, compiler):
    """What the daemon compiles for SPIR-V has passed spirv-val."""
    segment = tmp_path / "types.json"
    segment.write_text(json.dumps(segment_of_all_types()))
    steps = compile_graph(daemon, segment, tmp_path / "out", "--target", target, "--compiler", compiler)[target]
    assert sorted(step["type"] for step in steps) == sorted(SECTIONS)
    assert set(compilers(steps)) == {compiler}
    for kernel in (kernel for step in steps for kernel in step["kernels"]):
        (binary,) = (path for path in (tmp_path / "out").glob(f"{kernel['name']}.*") if path.suffix[1:] in MAGIC)
        assert binary.read_bytes().startswith(MAGIC[binary.suffix[1:]]), kernel


def test_the_page_of_operators_is_that_of_the_table():
    """To write it anew: operators_page > docs/graph-operators.md"""
    printed = subprocess.run([BINARIES / "operators_page"], capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs" / "graph-operators.md").read_text() == printed
