"""Graphs' kernels in Triton IR: real Triton takes each, and an interpreter on NumPy gets what the interpreter of LoopPrograms gets."""

import json
import subprocess

import numpy
import pytest

from places import BINARIES, ROOT, TOOLCHAIN, VERSIONS
from triton_ir.interpreter import Kernel
from triton_ir.memory import OutOfBounds, from_bits

PROGRAMS = BINARIES / "print_programs"
SCRIPTS = ROOT / "tests" / "testing" / "triton_ir"
TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx950")
# Both interpreters sum in orders of their own, and compute functions of f32 in f64.
TOLERANCE = {"f32": 2e-5, "f64": 1e-12, "f16": 2e-3, "bf16": 2e-2}
ELEMENTS = {"bool": "i8", "f8e4m3": "i8", "f8e5m2": "i8"}


def printed(*arguments):
    answer = subprocess.run([PROGRAMS, *arguments], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    programs = [json.loads(line) for line in answer.stdout.splitlines()]
    return {program["name"]: program for program in programs}


def run_under_triton(script, arguments, toolchain=TOOLCHAIN, text=""):
    command = [toolchain / "bin" / "python", "-B", SCRIPTS / script, *arguments]
    answer = subprocess.run(command, input=text, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr[-4000:]
    return [json.loads(line) for line in answer.stdout.splitlines()]


def write(programs, folder):
    paths = {name: folder / f"{name}.ttir" for name in programs}
    for name, path in paths.items():
        path.write_text(programs[name]["text"])
    return paths


def generic_forms(programs, folder, toolchain=TOOLCHAIN):
    """Of those that Triton takes; the others, with what it says, fail."""
    paths = write(programs, folder)
    answers = run_under_triton("generic_form.py", paths.values(), toolchain)
    errors = {answer["file"]: answer["error"] for answer in answers if "error" in answer}
    assert not errors
    return dict(zip(paths, (answer["text"] for answer in answers), strict=True))


def bytes_of(text):
    return numpy.frombuffer(bytes.fromhex(text), numpy.uint8).copy()


def numbers_of(type_, buffer):
    element = ELEMENTS.get(type_, type_.replace("u", "i"))
    size = {"8": 1, "6": 2, "2": 4, "4": 8}[element[-1]]
    return from_bits(element, buffer.view(f"u{size}"))


def result_of(program, kernel):
    """The buffers afterwards."""
    buffers = [bytes_of(buffer["before"]) for buffer in program["buffers"]]
    kernel.run([*buffers, *program["symbols"]], program["grid"])
    return buffers


def differences(program, buffers):
    found = []
    for number, (buffer, result) in enumerate(zip(program["buffers"], buffers, strict=True)):
        got, wanted = (numbers_of(buffer["type"], data) for data in (result, bytes_of(buffer["after"])))
        tolerance = TOLERANCE.get(buffer["type"], 0)
        with numpy.errstate(all="ignore"):
            if tolerance:
                is_same = numpy.isclose(got, wanted, rtol=tolerance, atol=tolerance / 10, equal_nan=True)
            else:
                is_same = got == wanted
        wrong = numpy.flatnonzero(~is_same)
        if wrong.size:
            at = wrong[0]
            found.append(f"buffer {number} ({buffer['type']}), {wrong.size} wrong, element {at}: {got[at]} for {wanted[at]}")
    return found


@pytest.fixture(scope="module")
def programs():
    return printed("cuda")


@pytest.mark.parametrize("arguments", [
    pytest.param(words.split(), id=words, marks=() if words == "cuda" else pytest.mark.slow) for words in ("cuda", "hip", "cuda fast")])
def test_triton_ir_gives_the_results_of_its_loop_program(arguments, programs, tmp_path):
    if arguments != ["cuda"]:
        programs = printed(*arguments)
    forms = generic_forms(programs, tmp_path)
    wrong = {name: differences(program, result_of(program, Kernel(forms[name]))) for name, program in programs.items()}
    assert not {name: found for name, found in wrong.items() if found}


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.7.1", "3.8.0", "3.9.0"])
def test_other_versions_of_triton_read_the_same_module(version, programs, tmp_path):
    some = {name: programs[name] for name in ("operators_of_f32", "narrow_floats", "symbolic_rows", "attention", "bins_of_f32")}
    for name, form in generic_forms(some, tmp_path, VERSIONS / f"triton-{version}").items():
        assert not differences(some[name], result_of(some[name], Kernel(form)))


def compile_for(targets, names, programs, folder):
    paths = write({name: programs[name] for name in names}, folder)
    requests = [
        {"file": str(paths[name]), "target": target, "warps": programs[name]["warps"]} for name in names for target in targets
    ]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    answers = run_under_triton("compile_all.py", [], text=lines)
    assert len(answers) == len(requests)
    assert not [answer for answer in answers if "error" in answer]
    assert all(answer["bytes"] > 0 for answer in answers)
    return answers


def test_triton_compiles_modules_for_a_gpu_of_each_vendor(programs, tmp_path):
    compile_for(["cuda:90"], ("column_sums",), programs, tmp_path)
    compile_for(["hip:gfx942"], ("column_sums",), printed("hip", "column_sums"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_triton_compiles_every_module(target, programs, tmp_path):
    chosen = programs if target.startswith("cuda") else printed("hip")
    compile_for([target], chosen, chosen, tmp_path)


def segment(operators, inputs, shape, type_="f16", **attributes):
    """Inputs are x0, x1 …; each operator takes the result of the one before, and what inputs it is given."""
    values = [{"name": f"x{i}", "type": type_, "shape": extents, "role": "input"} for i, extents in enumerate(inputs)]
    operations = []
    for i, (operator, taken) in enumerate(operators):
        role = {"role": "output"} if i == len(operators) - 1 else {}
        values.append({"name": f"y{i}", "type": type_, "shape": shape, **role})
        before = [f"y{i - 1}"] if i else []
        operations.append({"op": operator, "inputs": [*before, *taken], "outputs": [f"y{i}"], "attributes": attributes if i == 0 else {}})
    return {"kiln_segment": 1, "name": "test", "symbols": [], "values": values, "operations": operations}


MATRIX = [4096, 4096]
HEADS = [4, 16, 4096, 128]
FEW = [4, 16, 256, 128]
LARGE = {
    "gelu": segment([("MatMul", ["x0", "x1"]), ("Add", ["x2"]), ("Gelu", [])], [MATRIX, MATRIX, [4096]], MATRIX),
    "linear_of_fp8": segment([("Linear", ["x0", "x1"])], [MATRIX, MATRIX], MATRIX, "f8e4m3"),
    "attention": segment([("Attention", ["x0", "x1", "x2"])], [HEADS] * 3, HEADS, is_causal=1),
    "attention_of_computed_heads": segment([("Neg", ["x0"]), ("Attention", ["y0", "y0"])], [FEW], FEW),
}


@pytest.fixture(scope="module")
def large_for(tmp_path_factory):
    """A function that gives an answer of compile_all.py for each. Each is compiled once for all tests."""
    compiled = {}

    def answers(target, names):
        programs = {}
        for name in names:
            if (target, name) not in compiled:
                command = [BINARIES / "print_kernels", target]
                told = subprocess.run(command, input=json.dumps(LARGE[name]), capture_output=True, text=True, check=True)
                (programs[name],) = (json.loads(line) for line in told.stdout.splitlines())
        for name, answer in zip(programs, compile_for([target], programs, programs, tmp_path_factory.mktemp("large")), strict=True):
            compiled[target, name] = answer
        return [compiled[target, name] for name in names]

    return answers


def test_large_product_and_attention_use_the_matrix_units_of_hopper(large_for):
    answers = large_for("cuda:90", ["gelu", "attention", "attention_of_computed_heads"])
    assert [answer["units"] for answer in answers] == [["wgmma.mma_async"]] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "unit", "shared_kib"),
    [
        ("cuda:80", "mma.sync", 163),
        ("cuda:86", "mma.sync", 99),
        ("cuda:89", "mma.sync", 99),
        ("cuda:90", "wgmma.mma_async", 227),
        ("cuda:100", "tcgen05.mma", 227),
        ("cuda:120", "mma.sync", 99),
        ("hip:gfx942", "v_mfma", 64),
        ("hip:gfx950", "v_mfma", 160),
    ],
)
def test_large_products_use_matrix_units_and_fit_shared_memory(large_for, target, unit, shared_kib):
    answers = large_for(target, LARGE)
    assert [answer["units"] for answer in answers] == [[unit]] * len(LARGE)
    assert not [answer for answer in answers if answer["shared"] > shared_kib << 10]


def test_interpreter_sees_an_access_beyond_a_buffer(programs, tmp_path):
    program = programs["casts_from_f32"]
    (form,) = generic_forms({"casts_from_f32": program}, tmp_path).values()
    shorter = [{**buffer, "before": buffer["before"][:-16]} for buffer in program["buffers"]]
    with pytest.raises(OutOfBounds, match="load: bytes"):
        result_of({**program, "buffers": shorter}, Kernel(form))


def test_interpreter_runs_what_tritons_own_front_end_writes(run_with_triton, tmp_path):
    run_with_triton("lower.py", "--targets", "cuda:90", "--kernels", "softmax", "--out", tmp_path)
    text = run_under_triton("generic_form.py", [tmp_path / "softmax-cuda-90.ttir"])[0]["text"]
    values = numpy.random.default_rng(1).standard_normal((5, 1000)).astype(numpy.float32)
    result = numpy.zeros_like(values)
    Kernel(text).run([result, values, 1000, 1000, 5, 1000], [2])
    powers = numpy.exp(values - values.max(axis=1, keepdims=True))
    numpy.testing.assert_allclose(result, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
