"""What kiln.graph says of mistakes: each is an error that names what is wrong, and none takes long."""

import json
import time

import numpy as np
import pytest

import kiln
import kiln.graph

TARGET = "cuda:90"
# A plan that is quadratic in its operations takes minutes.
PLANNING_SECONDS_MAX = 20


@pytest.fixture
def segment():
    return kiln.graph.Segment("bad")


def described(values, operations, symbols=()):
    return json.dumps({"kiln_segment": 1, "name": "bad", "symbols": list(symbols), "values": values, "operations": operations})


def value(name, shape=(4,), **more):
    return {"name": name, "type": "f32", "shape": list(shape), **more}


def refused(words, build, code="INVALID_ARGUMENT"):
    with pytest.raises(kiln.KilnError, match=words) as caught:
        build()
    assert caught.value.code == code


@pytest.mark.parametrize("wrong, right", [("Sofmax", "Softmax"), ("MatMull", "MatMul"), ("aten::ad", "aten::add")])
def test_an_unknown_operator_brings_the_nearest_name(segment, wrong, right):
    x = segment.input("x", "f32", [4])
    refused(f"no operator {wrong}; did you mean {right}", lambda: segment.op(wrong, x))


def test_an_operator_with_too_few_and_too_many_inputs(segment):
    x = segment.input("x", "f32", [4])
    refused("1 inputs; Add takes 2", lambda: segment.op("Add", x))
    refused("3 inputs; Add takes 2", lambda: segment.op("Add", x, x, x))


def test_an_attribute_that_the_operator_does_not_have(segment):
    x = segment.input("x", "f32", [4])
    refused('Elu has no attribute "beta"', lambda: segment.op("Elu", x, beta=1.0))
    refused("alpha is of another type", lambda: segment.op("Elu", x, alpha="much"))
    refused("Elu: an attribute is a finite number", lambda: segment.op("Elu", x, alpha=float("nan")))


def test_shapes_that_do_not_fit(segment):
    x, y = segment.input("x", "f32", [4, 3]), segment.input("y", "f32", [4, 5])
    for operator in ("Add", "MatMul"):
        refused(rf"{operator}.*\[4, 3\] and \[4, 5\]", lambda: segment.op(operator, x, y))


def test_a_size_that_overflows(segment):
    refused("more than .* elements", lambda: segment_with("f32", [2**40, 2**40]))
    n = segment.symbol("n", 1, 2**40)
    refused("more than .* elements", lambda: planned(segment, segment.input("x", "f32", [n, n])))


def segment_with(type_, shape, **more):
    segment = kiln.graph.Segment("one")
    return planned(segment, segment.input("x", type_, shape, **more))


def planned(segment, x):
    segment.output(segment.op("Neg", x), "y")
    return segment.plan(TARGET, keeps_small_sections=True)


def test_a_dimension_of_zero_is_no_mistake():
    plan = segment_with("f32", [4, 0])
    assert [buffer.shape for buffer in plan.buffers] == [(4, 0), (4, 0)]


def test_an_operation_that_writes_an_input():
    text = described([value("x", role="input")], [{"op": "Neg", "inputs": ["x"], "outputs": ["x"]}])
    refused("it is an input", lambda: kiln.graph.Segment.from_json(text).plan(TARGET))


def test_a_type_that_does_not_exist(segment):
    refused("f12", lambda: segment.input("x", "f12", [4]))


def test_an_output_of_four_bits_whose_last_byte_may_be_half_full_is_the_engines(segment):
    segment.symbol("n", 1, 9)
    plan = planned(segment, segment.input("x", "i4", ["n"]))
    step, = plan.steps
    assert plan.kernels == () and step.is_engines and "4 bits has an even number of elements" in step.reason


def test_a_range_whose_minimum_is_above_its_maximum(segment):
    refused("symbol n: its range", lambda: segment.symbol("n", 5, 4))
    refused("symbol n: its range", lambda: segment.symbol("n", 1, 4, typical=5))
    text = described([value("x", ["n"], role="input")], [], [{"name": "n", "min": 5, "max": 4}])
    refused("min is larger than max", lambda: kiln.graph.Segment.from_json(text).plan(TARGET))


def test_a_symbol_that_nobody_has_added(segment):
    refused("no symbol has the name n", lambda: segment.input("x", "f32", ["4*n"]))


@pytest.mark.parametrize("shape", [["4 +"], ["4*(n + 1)"], [""], [1.5], [True], "4"])
def test_a_shape_that_is_none(segment, shape):
    refused("no sum of products|a dimension is a number|x: shape", lambda: segment.input("x", "f32", shape))


def test_a_value_of_another_segment(segment):
    other = kiln.graph.Segment("other").input("x", "f32", [4])
    refused("of another segment", lambda: segment.op("Neg", other))
    refused("is of type int", lambda: segment.op("Neg", 0))


def test_a_constant_whose_data_does_not_fit(segment):
    refused("its data has 12 bytes", lambda: planned(segment, segment.constant("c", np.zeros(3, np.float32), shape=[4])))
    refused("big endian", lambda: segment.constant("c", np.zeros(3, ">f4")))
    refused("no buffer protocol", lambda: segment.constant("c", 1.5))
    refused("give its data", lambda: segment.constant("c"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kiln_segment": 2}', '{"kiln_segment": 1, "values": 4}', "\0" * 100, "[" * 100_000])
def test_json_that_is_no_segment(text):
    refused("JSON|an object is expected|kiln_segment|values", lambda: kiln.graph.Segment.from_json(text))


def test_a_file_that_is_no_onnx_model(tmp_path):
    refused("missing.onnx", lambda: kiln.graph.from_onnx(tmp_path / "missing.onnx"))
    (tmp_path / "noise.onnx").write_bytes(bytes(range(256)))
    refused("noise.onnx", lambda: kiln.graph.from_onnx(tmp_path / "noise.onnx"))


@pytest.mark.parametrize("target", ["", "cuda", "cuda:", "tpu:1", "cuda:12345678901234567890"])
def test_a_target_that_no_compiler_has(segment, target):
    x = segment.input("x", "f32", [4])
    segment.output(segment.op("Neg", x), "y")
    refused("target", lambda: segment.plan(target))


def test_compilers_that_do_not_exist_or_do_not_suit(segment):
    x = segment.input("x", "f32", [4])
    segment.output(segment.op("Neg", x), "y")
    refused("fortran", lambda: segment.plan(TARGET, compilers=["fortran"]))
    refused("fortran", lambda: segment.plan(TARGET, forced="fortran"))
    refused("opencl", lambda: segment.plan(TARGET, forced="opencl"))
    refused("sorting", lambda: segment.plan(TARGET, off=["sorting"]))


@pytest.mark.slow
def test_ten_thousand_operations_plan_in_bounded_time(segment):
    inputs = [segment.input(f"x{number}", "f32", [64, 64]) for number in range(4)]
    value = inputs[0]
    for number in range(10_000):
        value = segment.op(("Add", "Mul", "Max")[number % 3], value, inputs[number % 4])
    segment.output(value, "y")
    before = time.monotonic()
    plan = segment.plan(TARGET, keeps_small_sections=True, barriers="never")
    assert time.monotonic() - before < PLANNING_SECONDS_MAX
    assert 100 < len(plan.steps) < 1_000 and "Add (9999)" in plan.explain()
