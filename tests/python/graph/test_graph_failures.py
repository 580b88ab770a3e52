"""Compiles that fail, a daemon that is not there, arrays that do not fit a plan of kiln.graph."""

import pathlib

import pytest

import kiln
import kiln.graph
from graph.example_segments import daemon_in, gated, normalized_rows

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")


def test_without_a_toolchain_operations_are_the_engines(client):
    """This daemon compiles OpenCL C alone."""
    plan = normalized_rows().plan("cuda:90", keeps_small_sections=True)
    compilers = {kernel.kind for kernel in plan.kernels}
    failures = plan.compile(client)
    assert {failure.kernel.kind for failure in failures} > compilers and {type(failure.error) for failure in failures} == {kiln.FailedPreconditionError}
    assert plan.kernels == () and all(step.is_engines for step in plan.steps)
    assert "toolchain" in plan.steps[0].reason


def test_each_choice_of_a_compiler_is_logged(caplog):
    with caplog.at_level("INFO", logger="kiln.graph"):
        plan = normalized_rows().plan("cuda:90", keeps_small_sections=True)
        kernel, = plan.kernels
        assert caplog.messages == [f"rows for cuda:90: kernel 0 of section 0, {kernel.entry}, by triton: {kernel.why}"]
        assert plan.use_next_compiler(kernel, "it crashed")
        assert caplog.messages[1].endswith("by cuda: CUDA C++ can express every program, since others cannot: triton: it crashed")
        assert not plan.use_next_compiler(plan.kernels[0], "it crashed")
        assert caplog.messages[2:] == ["rows for cuda:90: section 0 is the engine's: cuda: it crashed"]


def test_no_choice_is_logged_unless_one_asks(caplog):
    normalized_rows().plan("cuda:90", keeps_small_sections=True)
    assert caplog.messages == []


def test_two_failures_of_one_text_skip_no_compiler():
    """A compile and a preload at once get the failure of the same text."""
    plan = normalized_rows().plan("cuda:90", keeps_small_sections=True)
    first = plan.kernels[0]
    assert plan.use_next_compiler(first, "it crashed") and plan.kernels[0].text != first.text
    second = plan.kernels[0]
    assert plan.use_next_compiler(first, "it crashed") and plan.kernels[0] == second
    while plan.use_next_compiler(plan.kernels[0], "it crashed"):
        assert plan.kernels[0].number == first.number
    assert not plan.use_next_compiler(first, "it crashed")  # its operations are the engine's


def test_a_target_that_the_toolchain_lacks_makes_operations_the_engines(client):
    plan = normalized_rows().plan("spirv:9.9", keeps_small_sections=True)
    failures = plan.compile(client)
    assert failures and failures[-1].is_engines and plan.kernels == ()


def test_without_a_daemon_nothing_changes(tmp_path, programs):
    with daemon_in(tmp_path, programs) as daemon:
        client = kiln.Client(root=daemon.root, attempts=1)
    plan = gated()
    with pytest.raises(kiln.UnavailableError):
        plan.compile(client)
    with pytest.raises(kiln.UnavailableError):
        plan.preload(client).wait(timeout=60)
    assert plan.kernels and not any(step.is_engines for step in plan.steps)


def test_a_plan_that_is_not_compiled_is_not_bound(runtime):
    with pytest.raises(kiln.LaunchError, match="is not compiled") as refused:
        gated().bind(0, runtime=runtime)
    assert refused.value.code == "FAILED_PRECONDITION"


@pytest.fixture(scope="module")
def bound(client, runtime):
    plan = gated()
    plan.compile(client)
    return plan.bind(0, runtime=runtime)


def tensors(rows, **changes):
    """Addresses of nothing: each of these launches is refused."""
    shapes = {"x": (rows, 12), "w": (12, 5), "y": (rows, 5), **changes}
    return {name: kiln.graph.TensorAddress(4096 * (number + 1), shape) for number, (name, shape) in enumerate(shapes.items())}


@pytest.mark.parametrize("words, arrays", [
    ("batch.*257|257.*batch", tensors(257)),
    (r"y: it has the shape \[8, 5\], the plan's is \[batch, 5\], which is \[7, 5\]", tensors(7, y=(8, 5))),
    (r"w: it has the shape \[5, 12\], the plan's is \[12, 5\]", tensors(7, w=(5, 12))),
    ("x: it has the shape", tensors(7, x=(7, 12, 1))),
    ("no value z", tensors(7, z=(1,))),
    ("x: its elements are f16", {**tensors(7), "x": kiln.graph.TensorAddress(4096, (7, 12), "f16")}),
    ("x: it has the strides", {**tensors(7), "x": kiln.graph.TensorAddress(4096, (7, 12), "", (1, 7))}),
    ("x: .*neither an address nor an array", {**tensors(7), "x": "x"}),
    ("the size of batch is not known", {"x": 4096, "w": 8192, "y": 12288}),
    ("w", {name: array for name, array in tensors(7).items() if name != "w"}),
    ("y", {**tensors(7), "y": tensors(7)["x"].address + 16}),
])
def test_a_launch_whose_arrays_do_not_fit_is_refused(bound, device, words, arrays):
    with pytest.raises(kiln.LaunchError, match=words) as refused:
        bound.execute(arrays, stream=device.queue)
    assert refused.value.code == "INVALID_ARGUMENT"


def test_a_replay_with_other_arrays_is_refused_by_name(bound, device):
    captured = tensors(7)
    bound.check_replay(captured, tensors(7), stream=device.queue)
    moved = {**captured, "w": kiln.graph.TensorAddress(1 << 20, (12, 5))}
    for arrays, words in ((moved, "buffer w is at 0x100000: the graph has captured 0x2000"), (tensors(8), "symbol batch is 8: .*captured 7")):
        with pytest.raises(kiln.LaunchError, match=words) as refused:
            bound.check_replay(captured, arrays, stream=device.queue)
        assert refused.value.code == "INVALID_ARGUMENT"


def test_a_replay_of_another_bound_plans_kernels_is_refused_by_name(bound, device, client, runtime):
    arrays, entry = tensors(7), gated().kernels[0].entry
    bound.check_replay(arrays, arrays, stream=device.queue, kernels_mark=bound.kernels_mark)
    plan = gated()
    assert plan.compile(client) == []
    other = plan.bind(0, runtime=runtime)
    with pytest.raises(kiln.LaunchError, match=f"kernel {entry}: the graph has captured that of another bound plan"):
        other.check_replay(arrays, arrays, stream=device.queue, kernels_mark=bound.kernels_mark)


@pytest.mark.parametrize("symbols", [{"batch": 0}, {"batch": 257}, {"batch": 2**40}, {"batch": "7"}, {"rows": 7}])
def test_sizes_outside_of_their_range_are_refused(bound, device, symbols):
    with pytest.raises(kiln.LaunchError, match="batch|rows"):
        bound.execute({"x": 4096, "w": 8192, "y": 12288}, symbols=symbols, stream=device.queue)
