"""Shapes that differ from launch to launch: kernels for parts of a range, sizes that were observed; for real, on this CPU."""

import json
import pathlib

import numpy as np
import pytest

import kiln
import kiln.graph
from graph.example_segments import TARGET, gated_arrays, gated_segment

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")


def added_rows():
    """A matrix and a row, large enough that kernels for parts of the range pay."""
    segment = kiln.graph.Segment("added")
    rows, columns = segment.symbol("rows", 1, 4096), segment.symbol("columns", 1, 4096)
    x, row = segment.input("x", "f32", [rows, columns]), segment.input("row", "f32", [columns])
    segment.output(segment.op("Relu", segment.op("Add", x, row)), "y")
    return segment


def test_each_size_has_the_kernel_of_its_part_of_the_range(client, runtime, device, put):
    plan = added_rows().plan(TARGET)
    assert [kernel.split for kernel in plan.kernels] == ["columns a multiple of 8: rows are whole vectors", ""]
    assert "for columns a multiple of 8" in plan.explain() and plan.key != added_rows().plan(TARGET, splits_ranges=False).key
    assert plan.compile(client) == []
    bound = plan.bind(0, runtime=runtime)
    numbers = np.random.default_rng(5)
    for columns in (1, 8, 17, 48, 63):
        x, row = numbers.standard_normal((3, columns), np.float32), numbers.standard_normal(columns, np.float32)
        arrays = {"x": put(x, "f32"), "row": put(row, "f32"), "y": put(np.zeros_like(x), "f32")}
        bound.execute(arrays, stream=device.queue)
        device.finish()
        np.testing.assert_array_equal(put.read(arrays["y"]), np.maximum(x + row, 0))


def test_the_whole_ranges_kernel_is_enough(client):
    plan = added_rows().plan(TARGET)
    variant, whole = plan.kernels
    assert not plan.use_next_compiler(variant, "it crashed")
    assert [kernel.number for kernel in plan.kernels] == [whole.number] and not any(step.is_engines for step in plan.steps)
    assert plan.compile(client) == []
    plan = added_rows().plan("spirv:9.9")  # this daemon compiles for none such
    assert {bool(failure.kernel.split): failure.is_engines for failure in plan.compile(client)} == {True: False, False: True}


def test_observed_sizes_become_a_segments_ranges(client, runtime, device, put):
    segment = gated_segment()
    plan = segment.plan(TARGET, keeps_small_sections=True)
    assert plan.compile(client) == []
    bound = plan.bind(0, runtime=runtime)
    with pytest.raises(kiln.LaunchError, match="not observed"):
        bound.observed_shapes
    bound.observe()
    for rows in (32, 48, 48, 512):
        x, w, wanted = gated_arrays(rows)
        arrays = {"x": put(x, "f32"), "w": put(w), "y": put(np.zeros_like(wanted))}
        if rows == 512:
            with pytest.raises(kiln.LaunchError, match="symbol batch is 512: it is 1 to 256"):
                bound.execute(arrays, stream=device.queue)
        else:
            bound.execute(arrays, stream=device.queue)
    device.finish()
    assert bound.observed_shapes == {"batch": kiln.graph.ObservedSymbol(4, 32, 512, 48, 16, {32: 1, 48: 2, 512: 1})}
    segment.set_ranges(bound)
    assert json.loads(segment.to_json())["symbols"] == [{"name": "batch", "min": 32, "max": 512, "typical": 48, "multiple_of": 16}]
    assert segment.plan(TARGET).key != plan.key
    with pytest.raises(kiln.InvalidArgumentError, match="other symbols"):
        added_rows().set_ranges(bound)


def test_sizes_are_observed_behind_a_first_step_of_the_engines(client, runtime, device, put):
    segment = kiln.graph.Segment("first")
    x = segment.input("x", "f32", [segment.symbol("rows", 1, 64), 8])
    segment.output(segment.op("Neg", segment.op("Softmax", x)), "y")
    plan = segment.plan(TARGET, keeps_small_sections=True, off=["normalization"])
    assert [step.is_engines for step in plan.steps] == [True, False] and plan.compile(client) == []
    bound = plan.bind(0, runtime=runtime)
    bound.observe()
    array = np.ones((5, 8), np.float32)
    arrays = {"x": put(array, "f32"), "y": put(np.zeros_like(array), "f32")}
    for _ in range(2):
        bound.execute(arrays, engine=lambda operation, inputs: put(array, "f32"), stream=device.queue)
        bound.observe()  # goes on counting
    device.finish()
    np.testing.assert_array_equal(put.read(arrays["y"]), -array)
    assert bound.observed_shapes["rows"].counts == {5: 2}


def test_elements_of_constants_are_not_read_as_text():
    """A model's weights are gigabytes: they are handed over as bytes."""
    segment = kiln.graph.Segment("weights")
    segment.constant("w", np.zeros(1 << 16, np.float32))
    segment.output(segment.op("Neg", segment.input("x", "f32", [4])), "y")
    read = kiln.graph.Segment.from_json(segment.to_json())
    assert len(read._json("segment_get_description")) < 1000 < len(read.to_json())
    assert read.constants["w"].data == bytes(1 << 18)


def turned_product():
    segment = kiln.graph.Segment("turned")
    rows = segment.symbol("rows", 1, 64)
    product = segment.op("MatMul", segment.input("x", "f32", [rows, 12]), segment.input("w", "f32", [12, 5]))
    segment.output(segment.op("Transpose", product), "y")
    return segment, product.name


def test_an_output_is_a_view_for_an_engine_that_takes_it(client, runtime, device, put):
    segment, base = turned_product()
    assert len(segment.plan(TARGET, keeps_small_sections=True).kernels) == 2 and segment.plan(TARGET).views == ()
    plan = segment.plan(TARGET, keeps_small_sections=True, takes_views=True)
    assert plan.views == (kiln.graph.View("y", base, kiln.graph.Size.of(0), (kiln.graph.Size.of(1), kiln.graph.Size.of(5))),)
    assert len(plan.kernels) == 1 and f"y is {base} from element 0 on" in plan.explain() and plan.compile(client) == []
    x, w, _ = gated_arrays(7)
    arrays = {"x": put(x, "f32"), "w": put(w), base: put(np.zeros((7, 5), np.float32))}
    bound = plan.bind(0, runtime=runtime)
    assert bound.workspace_bytes({"rows": 7}) == 0
    bound.execute(arrays, stream=device.queue)
    device.finish()
    view, = plan.views
    memory = put.read(arrays[base]).reshape(-1)
    steps = [4 * stride.evaluate({"rows": 7}) for stride in view.strides]
    y = np.lib.stride_tricks.as_strided(memory[view.offset.evaluate({"rows": 7}):], (5, 7), steps)
    np.testing.assert_allclose(y, (x @ w).T, rtol=1e-5, atol=1e-6)
    with pytest.raises(kiln.LaunchError, match=f"y is not written: it is a view of {base}"):
        bound.execute({**arrays, "y": put(np.zeros((5, 7), np.float32))}, stream=device.queue)
    with pytest.raises(kiln.LaunchError, match=f"buffer {base} has no address"):
        bound.execute({**arrays, base: 0}, stream=device.queue)
