"""kiln.graph, for real: a segment of Python's, compiled by the daemon, run by Intel's OpenCL runtime on this CPU."""

import concurrent.futures
import dataclasses
import json
import pathlib

import numpy as np
import pytest

import kiln
import kiln.graph
from graph.example_segments import TARGET, daemon_in, gated, gated_arrays, gated_segment, normalized_rows, softmax
from random_segments.comparison import Tolerances
from random_segments.drawing import drawn

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")


# --- A whole program ---


@pytest.mark.parametrize("rows", [1, 7, 64, 256])
def test_a_segment_is_compiled_and_run(client, runtime, device, put, rows):
    plan = gated()
    arrived = []
    assert plan.compile(client, each=lambda kernel, artifact: arrived.append((kernel.entry, artifact.metadata.name))) == []
    assert arrived == [(kernel.entry, kernel.entry) for kernel in plan.kernels] != []
    bound = plan.bind(0, runtime=runtime)
    x, w, wanted = gated_arrays(rows)
    arrays = {"x": put(x, "f32"), "w": put(w), "y": put(np.zeros_like(wanted))}
    bound.execute(arrays, stream=device.queue)
    device.finish()
    np.testing.assert_allclose(put.read(arrays["y"]), wanted, rtol=1e-5, atol=1e-6)


def test_a_plans_manifest_warms_what_it_compiles(tmp_path, programs):
    plan = gated(fuses=False)
    with pytest.raises(kiln.InvalidArgumentError, match="none/plan.jsonl: it cannot be written"):
        plan.write_manifest(tmp_path / "none" / "plan.jsonl")
    plan.write_manifest(tmp_path / "plan.jsonl")
    with daemon_in(tmp_path / "daemon", programs) as daemon:
        # At its own priority, a warm waits for all other tests on the machine.
        assert daemon.kiln("warm", "--priority", "waiting-rank", tmp_path / "plan.jsonl").code == 0
        outcomes = []
        with kiln.Client(root=daemon.root) as client:
            assert plan.compile(client, each=lambda kernel, artifact: outcomes.append(artifact.outcome)) == []
    assert outcomes == ["hit"] * len(plan.kernels) and len(outcomes) == 2


def test_plans_of_several_targets_are_one_batch_and_a_device_has_its_own(client, runtime, device, put, tmp_path):
    plans = gated_segment().plans(["cuda:90", "hip:gfx942", TARGET], compilers=["cuda", "opencl"])
    assert [plan.target for plan in plans] == ["cuda:90", TARGET] and list(plans.refused) == ["hip:gfx942"]
    assert plans.explain().startswith("for cuda:90\ngated: ") and f"\nfor {TARGET}\ngated: " in plans.explain()
    assert "\nnot for hip:gfx942: none of the compilers that may be used" in plans.explain()
    with pytest.raises(kiln.InvalidArgumentError, match="no plan for hip:gfx942: none of the compilers"):
        plans["hip:gfx942"]
    plans.write_manifest(tmp_path / "both.jsonl")
    wanted = [(kernel.target, kernel.entry) for plan in plans for kernel in plan.kernels]
    requests = [json.loads(line) for line in (tmp_path / "both.jsonl").read_text().splitlines()]
    assert [(request["target"], request["name"]) for request in requests] == wanted
    assert len(plans.manifest()) == len(wanted) == len(plans["cuda:90"].kernels) + len(plans[TARGET].kernels)
    failed = plans.compile(client)  # the daemon has no toolchain for CUDA C++
    assert {each.kernel.target for each in failed} == {"cuda:90"} and all(step.is_engines for step in plans["cuda:90"].steps)
    bound = plans.bind(0, runtime=runtime)
    x, w, wanted = gated_arrays(7)
    arrays = {"x": put(x, "f32"), "w": put(w), "y": put(np.zeros_like(wanted))}
    bound.execute(arrays, stream=device.queue)
    device.finish()
    np.testing.assert_allclose(put.read(arrays["y"]), wanted, rtol=1e-5, atol=1e-6)


def test_targets_without_a_plan_are_named(runtime):
    with pytest.raises(kiln.InvalidArgumentError, match="none of the targets: .*cuda:90.*hip:gfx942"):
        gated_segment().plans(["cuda:90", "hip:gfx942"], forced="opencl")
    with pytest.raises(kiln.InvalidArgumentError, match="target cuda:90 is named twice"):
        gated_segment().plans(["cuda:90", "cuda:90"])
    with pytest.raises(kiln.InvalidArgumentError, match="targets"):
        gated_segment().plans("cuda:90")
    with pytest.raises(kiln.LaunchError, match=r"device 0 \(.*\): the device is spirv:.*, and there are plans for cuda:80, hip:gfx942"):
        gated_segment().plans(["cuda:80", "hip:gfx942"]).bind(0, runtime=runtime)


def test_a_preload_compiles_in_the_background(client, runtime):
    plan = gated(fast_math=True)
    waiting = plan.preload(client)
    assert waiting.wait(timeout=60) == [] and waiting.is_done
    assert all(plan.artifact(kernel) is not None for kernel in plan.kernels)
    plan.bind(0, runtime=runtime)


def test_an_input_that_no_kernel_reads_may_be_passed(client, runtime, device, put):
    """The axis is computed with while the kernel is written."""
    segment = kiln.graph.Segment("sums")
    axis = segment.constant("axis", np.array(1, np.int64))
    segment.output(segment.op("CumSum", segment.input("x", "f32", [2, 3]), axis), "y")
    plan = segment.plan(TARGET, keeps_small_sections=True)
    assert plan.compile(client) == [] and {buffer.name for buffer in plan.buffers} == {"x", "y"}
    arrays = {"x": put(np.ones((2, 3), np.float32)), "axis": put(np.array(1, np.int64)), "y": put(np.zeros((2, 3), np.float32))}
    plan.bind(0, runtime=runtime).execute(arrays, stream=device.queue)
    device.finish()
    np.testing.assert_array_equal(put.read(arrays["y"]), [[1, 2, 3]] * 2)


def test_values_between_kernels_lie_in_the_workspace(client, runtime, device, put):
    plan = gated(fuses=False)
    plan.compile(client)
    bound = plan.bind(0, runtime=runtime)
    size = bound.workspace_bytes({"batch": 7})
    assert size >= 7 * 5 * 4
    x, w, wanted = gated_arrays(7)
    arrays = {"x": put(x), "w": put(w), "y": put(np.zeros_like(wanted))}
    with pytest.raises(kiln.LaunchError, match=f"a workspace of {size} bytes"):
        bound.execute(arrays, stream=device.queue)
    room = put(np.zeros(size + 256, np.uint8)).address
    bound.execute(arrays, workspace=-(-room // 256) * 256, stream=device.queue)
    device.finish()
    np.testing.assert_allclose(put.read(arrays["y"]), wanted, rtol=1e-5, atol=1e-6)


def without_softmax(client):
    plan = normalized_rows().plan(TARGET, keeps_small_sections=True, off=["normalization"])
    assert plan.compile(client) == []
    return plan


def test_the_engine_computes_its_steps(client, runtime, device, put):
    plan = without_softmax(client)
    step, = (step for step in plan.steps if step.is_engines)
    assert step.operation.op == "Softmax" and "off" in step.reason
    bound = plan.bind(0, runtime=runtime)
    x = np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)
    scaled, = step.operation.inputs
    arrays = {"x": put(x, "f32"), "scale": put(np.full(8, 2, np.float32)), scaled: put(np.zeros_like(x)), "y": put(np.zeros_like(x))}

    def engine(operation, inputs):
        assert operation == step.operation and inputs == [arrays[scaled]]
        device.finish()  # the kernels before it; on a GPU it would use the stream
        return put(softmax(put.read(inputs[0])))

    given = bound.execute(arrays, engine=engine, stream=device.queue)
    device.finish()
    np.testing.assert_allclose(put.read(arrays["y"]), -softmax(2 * x), rtol=1e-5)
    assert given.keys() == {*arrays, *step.operation.outputs}


@pytest.mark.parametrize("words, changes", [
    (r"it has the strides \[1, 5\], the plan's are \[8, 1\]", {"strides": (1, 5)}),
    (r"it has the shape \[8, 5\], the plan's is \[rows, 8\], which is \[5, 8\]", {"shape": (8, 5)}),
    ("its elements are f16, the plan's f32", {"type": "f16"}),
])
def test_an_array_of_the_engines_that_does_not_fit_is_refused(client, runtime, device, put, words, changes):
    bound = without_softmax(client).bind(0, runtime=runtime)
    rows = np.zeros((5, 8), np.float32)
    arrays = {buffer.name: put(np.zeros(8, np.float32) if buffer.name == "scale" else rows) for buffer in bound.buffers}
    given = dataclasses.replace(put(rows), **changes)
    with pytest.raises(kiln.LaunchError, match=words) as refused:
        bound.execute(arrays, engine=lambda operation, inputs: given, stream=device.queue)
    assert refused.value.code == "INVALID_ARGUMENT"


def test_a_size_that_the_engine_alone_knows_is_taken_from_its_array(client, runtime, device, put):
    segment = kiln.graph.Segment("counted")
    count = segment.symbol("count", 1, 64)
    found, = segment.op("my.Found", segment.input("x", "f32", [8]), outputs=[("f32", [count])], kept_because="it is a search")
    segment.output(segment.op("Neg", found), "y")
    plan = segment.plan(TARGET, keeps_small_sections=True)
    assert plan.compile(client) == []
    kept = put(np.arange(3, dtype=np.float32))
    y = put(np.ones(3, np.float32))
    arrays = {"x": put(np.ones(8, np.float32)), "y": y.address}
    plan.bind(0, runtime=runtime).execute(arrays, engine=lambda operation, inputs: kept, stream=device.queue)
    device.finish()
    np.testing.assert_array_equal(put.read(y), [0, -1, -2])


def test_steps_of_the_engines_without_an_engine_are_named(client, runtime):
    bound = without_softmax(client).bind(0, runtime=runtime)
    with pytest.raises(kiln.LaunchError, match="`engine` is not given: Softmax") as refused:
        bound.execute({})
    assert refused.value.code == "FAILED_PRECONDITION"


def test_an_engine_that_gives_too_much_is_told(client, runtime, device, put):
    bound = without_softmax(client).bind(0, runtime=runtime)
    array = put(np.zeros((5, 8), np.float32))
    arrays = {buffer.name: array if buffer.name != "scale" else put(np.zeros(8, np.float32)) for buffer in bound.buffers if not buffer.is_written}
    arrays |= {buffer.name: put(np.zeros((5, 8), np.float32)) for buffer in bound.buffers if buffer.is_written}
    with pytest.raises(kiln.LaunchError, match="the engine gives 2 arrays for 1 outputs"):
        bound.execute(arrays, engine=lambda operation, inputs: [array, array], stream=device.queue)


def test_requests_of_a_plan_compile_to_the_same_artifacts(client):
    plan = gated()
    plan.compile(client)
    answers = dict(client.compile_many(plan.manifest()))
    assert [answers[number].key for number in sorted(answers)] == [plan.artifact(kernel).key for kernel in plan.kernels]


def test_an_operator_of_the_engines_own_stands_between_kernels():
    segment = kiln.graph.Segment("own")
    rows = segment.symbol("rows", 1, 64)
    x = segment.input("x", "f32", [rows, 8])
    low, high = segment.op("my.Halves", segment.op("Neg", x), outputs=[("f32", [rows, 4])] * 2, kept_because="it is quantum", bits=3)
    segment.output(segment.op("Add", low, high), "y")
    steps = segment.plan(TARGET, keeps_small_sections=True).steps
    assert [(step.operation.op, step.is_engines, step.reason) for step in steps] == [
        ("Neg", False, ""), ("my.Halves", True, "it is quantum"), ("Add", False, "")]
    assert steps[1].operation.attributes == {"bits": 3} and high.shape == (rows, 4)


# --- ONNX ---


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def field(number, *contents):
    """Of a message of protobuf: texts and messages, or one number."""
    if isinstance(contents[0], int):
        return varint(number << 3) + varint(contents[0])
    return b"".join(varint(number << 3 | 2) + varint(len(content)) + content for content in contents)


def tensor(name, *shape):
    """An onnx.ValueInfoProto of floats."""
    dimensions = [field(2, size) if isinstance(size, bytes) else field(1, size) for size in shape]
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, field(1, *dimensions))))


def elements(array):
    """An onnx.TensorProto of floats, but for its name."""
    return b"".join(field(1, size) for size in array.shape) + field(2, 1) + field(9, array.tobytes())


def value_of(array):
    """The attribute of a Constant node."""
    return field(1, b"value") + field(20, 4) + field(5, elements(array))


def test_an_onnx_model_is_compiled_and_run(client, runtime, device, put, tmp_path):
    random = np.random.default_rng(1)
    x, w, b = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 3), (3, 2), (2,)))
    nodes = field(1, field(1, b"x", b"w") + field(2, b"h") + field(4, b"MatMul"), field(2, b"b") + field(4, b"Constant") + field(5, value_of(b)),
                  field(1, b"h", b"b") + field(2, b"s") + field(4, b"Add"), field(1, b"s") + field(2, b"y") + field(4, b"Relu"))
    graph = nodes + field(2, b"layer") + field(5, elements(w) + field(8, b"w")) + field(11, tensor(b"x", b"batch", 3))
    graph += field(12, tensor(b"y", b"batch", 2))
    (tmp_path / "layer.onnx").write_bytes(field(1, 8) + field(8, field(2, 21)) + field(7, graph))
    segment = kiln.graph.from_onnx(tmp_path / "layer.onnx", {"batch": (1, 64, 16)})
    plan = segment.plan(TARGET, keeps_small_sections=True)
    assert plan.compile(client) == []
    assert segment.constants == {"w": kiln.graph.Constant("f32", (3, 2), w.tobytes()), "b": kiln.graph.Constant("f32", (2,), b.tobytes())}
    constants = {name: put(np.frombuffer(one.data, np.float32).reshape(one.shape)) for name, one in segment.constants.items()}
    arrays = {**constants, "x": put(x), "y": put(np.zeros((64, 2), np.float32))}
    plan.bind(0, runtime=runtime).execute(arrays, stream=device.queue)
    device.finish()
    np.testing.assert_allclose(put.read(arrays["y"]), np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-6)


# --- What one asks of a plan ---


def test_a_key_tells_plans_apart_that_make_other_code():
    assert gated().key == gated().key
    assert len({gated().key, gated(fast_math=True).key, gated(fuses=False).key}) == 3


def test_an_explanation_names_operations_and_compilers():
    text = gated().explain()
    assert "MatMul" in text and "Elu" in text and "opencl" in text


def test_a_segment_is_the_same_after_json():
    segment = normalized_rows()
    again = kiln.graph.Segment.from_json(segment.to_json())
    assert again.to_json() == segment.to_json()
    assert again.plan(TARGET).key == segment.plan(TARGET).key
    assert [step.operation for step in again.plan(TARGET).steps] == [step.operation for step in segment.plan(TARGET).steps]


def test_values_have_the_types_and_shapes_that_follow():
    segment = kiln.graph.Segment()
    batch = segment.symbol("batch", 1, 64)
    x = segment.input("x", "f16", [batch, 3])
    joined = segment.op("Concat", x, x, axis=0)
    assert (joined.type, joined.shape) == ("f16", (2 * batch, 3))
    assert [part.shape for part in segment.op("Split", joined, outputs=3, axis=1)] == [(2 * batch, 1)] * 3
    assert segment.op("Equal", x, x).type == "bool"


def test_plans_of_one_segment_are_read_on_several_threads():
    segment = kiln.graph.Segment("wide")
    size = segment.symbol("a_size_whose_name_is_long_enough_for_memory_of_its_own", 1, 64)
    for number in range(1, 9):
        segment.output(segment.op("Neg", segment.input(f"x{number}", "f32", [number * size, number])), f"y{number}")
    plans = [segment.plan(TARGET, keeps_small_sections=True) for _ in range(4)]
    wanted = plans[0].buffers
    assert {buffer.name: buffer.shape for buffer in wanted} == {
        f"{name}{number}": (number * size, number) for name in "xy" for number in range(1, 9)}
    with concurrent.futures.ThreadPoolExecutor(len(plans)) as threads:
        for read in threads.map(lambda plan: [plan.buffers for _ in range(100)], plans):
            assert read == [wanted] * 100


# --- Random graphs ---


@pytest.mark.slow
def test_opencl_kernels_compute_what_numpy_does(client, runtime, device, put):
    kernels = 0
    for made in drawn(6, 8):
        plan = kiln.graph.Segment.from_json(json.dumps(made.json())).plan(TARGET, keeps_small_sections=True)
        assert plan.compile(client) == []
        bound = plan.bind(0, runtime=runtime)
        symbols = {described["name"]: number for described, number in made.symbols}
        memory = {tensor.name: tensor.memory() for tensor in made.tensors if tensor.role}
        arrays = {}
        for tensor in made.tensors:
            if tensor.role:
                content = memory[tensor.name] if tensor.role == "output" else memory[tensor.name].fill(tensor.array)
                arrays[tensor.name] = put(content.elements.view(np.uint8))
        kernels += len(plan.kernels)
        room = put(np.zeros(bound.workspace_bytes(symbols) + 256, np.uint8)).address
        bound.execute({name: tensor.address for name, tensor in arrays.items()}, symbols=symbols, workspace=-(-room // 256) * 256,
                      stream=device.queue)
        device.finish()
        outputs = {tensor.name: put.read(arrays[tensor.name]).tobytes() for tensor in made.with_role("output")}
        assert Tolerances(made).differences(outputs) == [], made
    assert kernels > 10


# --- Sizes that few models have ---


def computed(client, runtime, device, put, segment, arrays, shape):
    plan = segment.plan(TARGET, keeps_small_sections=True)
    assert plan.compile(client) == [] and not any(step.is_engines for step in plan.steps)
    bound = plan.bind(0, runtime=runtime)
    placed = {name: put(array) for name, array in arrays.items()} | {"y": put(np.zeros(shape, np.float32))}
    size = bound.workspace_bytes({})
    room = put(np.zeros(size + 256, np.uint8)).address
    bound.execute(placed, stream=device.queue, workspace=-(-room // 256) * 256)
    device.finish()
    return put.read(placed["y"]).reshape(shape)


@pytest.mark.parametrize("dilation, stride, group", [(1, 2, 1), (2, 1, 1), (3, 1, 2)])
def test_a_convolution_in_three_dimensions(client, runtime, device, put, dilation, stride, group):
    random = np.random.default_rng(7)
    x = random.standard_normal((2, 4, 8, 9, 7)).astype(np.float32)
    w = random.standard_normal((6, 4 // group, 2, 3, 2)).astype(np.float32)
    segment = kiln.graph.Segment("conv")
    given = segment.input("x", "f32", x.shape), segment.input("w", "f32", w.shape)
    segment.output(segment.op("Conv", *given, dilations=[dilation] * 3, strides=[stride] * 3, group=group), "y")
    reach = [dilation * (extent - 1) for extent in w.shape[2:]]
    shape = [(extent - far - 1) // stride + 1 for extent, far in zip(x.shape[2:], reach)]
    wanted = np.zeros((2, 6, *shape))
    for filters, channels in zip(np.split(np.arange(6), group), np.split(np.arange(4), group)):
        for at in np.ndindex(*w.shape[2:]):
            places = tuple(slice(dilation * i, dilation * i + stride * extent, stride) for i, extent in zip(at, shape))
            wanted[:, filters] += np.einsum("nc...,fc->nf...", x[:, channels][(slice(None), slice(None), *places)], w[(filters, slice(None), *at)])
    seen = computed(client, runtime, device, put, segment, {"x": x, "w": w}, wanted.shape)
    np.testing.assert_allclose(seen, wanted, rtol=1e-4, atol=1e-5)


def test_attention_with_a_head_above_256(client, runtime, device, put):
    random = np.random.default_rng(8)
    q, k, v = (random.standard_normal((1, 2, length, 320)).astype(np.float32) for length in (5, 9, 9))
    segment = kiln.graph.Segment("attention")
    segment.output(segment.op("Attention", *(segment.input(name, "f32", array.shape) for name, array in (("q", q), ("k", k), ("v", v)))), "y")
    wanted = softmax_of(q @ k.swapaxes(2, 3) / np.sqrt(320)) @ v
    seen = computed(client, runtime, device, put, segment, {"q": q, "k": k, "v": v}, wanted.shape)
    np.testing.assert_allclose(seen, wanted, rtol=1e-4, atol=1e-5)


def softmax_of(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
