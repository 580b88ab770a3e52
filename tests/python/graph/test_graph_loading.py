"""Plans of kiln.graph on the CUDA driver's stand-in: kernels that it does not take, and how long launches took."""

import pytest

import kiln
import kiln.graph
from fake_driver import FakeDriver, artifact

INVALID_IMAGE = 200


@pytest.fixture
def driver(tmp_path):
    fake = FakeDriver(tmp_path)
    fake.make_context()
    return fake


@pytest.fixture
def runtime(driver):
    return kiln.Runtime(driver.path)


class Compiler:
    """A client whose daemon compiles everything: its kernels have two pointers and a size."""

    def __init__(self, driver):
        self.kinds = []
        self._driver = driver

    def compile_many(self, requests, timeout=None):
        for index, request in enumerate(requests):
            self.kinds.append(request.kind)
            is_triton = request.kind == "ttir"
            self._driver.define(request.name, *[8] * (5 if is_triton else 3))
            yield index, artifact("*fp32", "*fp32", "i64", name=request.name, hidden_pointers=2 if is_triton else 0,
                                  num_warps=request.options.get("num_warps", 0), toolchain_metadata=f'{{"kind": "{request.kind}"}}')


def planned(*operators, **options):
    segment = kiln.graph.Segment("chain")
    x = segment.input("x", "f32", [segment.symbol("n", 1, 4096)])
    for operator in operators:
        x = segment.op(operator, x)
    segment.output(x, "y")
    return segment.plan("cuda:90", keeps_small_sections=True, fuses=False, **options)


def test_a_kernel_that_does_not_load_is_told(driver, runtime):
    plan = planned("Exp", "Neg", "Relu")
    plan.compile(Compiler(driver))
    driver.fail("cuLibraryLoadData", INVALID_IMAGE, 2)
    with pytest.raises(kiln.graph.KernelLoadError, match="cuLibraryLoadData") as refused:
        plan.bind(0, runtime=runtime)
    assert [kernel for kernel, _ in refused.value.failures] == list(plan.kernels[:2]) and refused.value.code == "DATA_LOSS"
    assert not any(step.is_engines for step in plan.steps)
    plan.bind(0, runtime=runtime)


def test_with_a_client_it_is_compiled_for_the_next_compiler(driver, runtime):
    plan, compiler = planned("Exp", "Neg"), Compiler(driver)
    plan.compile(compiler)
    driver.fail("cuLibraryLoadData", INVALID_IMAGE, 3)  # both, then the one that is tried first
    bound = plan.bind(0, runtime=runtime, client=compiler)
    assert compiler.kinds == ["ptx", "ptx", "ttir", "ttir", "cuda"] and [kernel.kind for kernel in plan.kernels] == ["cuda", "ttir"]
    assert not any(step.is_engines for step in bound.steps)


def test_without_a_compiler_left_its_operations_are_the_engines(driver, runtime):
    plan, compiler = planned("Exp", "Neg", compilers=["ptx"]), Compiler(driver)
    plan.compile(compiler)
    driver.fail("cuLibraryLoadData", INVALID_IMAGE, 1)
    bound = plan.bind(0, runtime=runtime, client=compiler)
    assert [step.is_engines for step in bound.steps] == [True, False] and "cuLibraryLoadData" in bound.steps[0].reason
    y = kiln.graph.TensorAddress(0x3000, (7,), "f32")
    x = kiln.graph.TensorAddress(0x1000, (7,), "f32")
    bound.execute({"x": x, "y": y}, engine=lambda operation, inputs: kiln.graph.TensorAddress(0x2000, (7,), "f32"))
    assert len(driver.launches()) == 1


def test_where_no_kernel_is_to_blame_nothing_is_given_to_the_engine(tmp_path):
    driver = FakeDriver(tmp_path)  # without a context
    runtime = kiln.Runtime(driver.path)
    plan, compiler = planned("Exp"), Compiler(driver)
    plan.compile(compiler)
    with pytest.raises(kiln.LaunchError) as refused:
        plan.bind(runtime=runtime, client=compiler)
    assert refused.value.code == "FAILED_PRECONDITION" and not isinstance(refused.value, kiln.graph.KernelLoadError)
    assert plan.kernels[0].kind == "ptx"


def test_launches_are_measured_by_kernel(driver, runtime):
    plan = planned("Exp", "Neg")
    plan.compile(Compiler(driver))
    bound = plan.bind(0, runtime=runtime)
    runtime.configure(times_launches=True)
    arrays = {name: kiln.graph.TensorAddress(address, (7,), "f32") for name, address in (("x", 0x1000), ("y", 0x2000))}
    for _ in range(3):
        bound.execute(arrays, workspace=0x100000)
    times = bound.times(reset=True)
    assert list(times) == [kernel.number for kernel in plan.kernels] and {one.launches for one in times.values()} == {3}
    assert all(one.total_ms > 0 for one in times.values()) and {one.launches for one in bound.times().values()} == {0}
