"""Launches example kernels through kiln.load and compares the results with PyTorch's; captures graphs; measures a launch.

    python python_launch_job.py OUT.json

Runs with the plug-in and a daemon. Writes {"rows": [[what, result, is ok], ...], "benchmark": [rows as tests/benchmarks/run --json has
them, and what they were made of as "raw"]}.
"""

import json
import pathlib
import statistics
import sys
import threading
import time
import traceback

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

import kiln
import kernel_checks
from vector_add import vector_add

BATCHES = 400
LAUNCHES = 100  # of one batch; fewer than a stream holds, so none waits
rows = []


def row(what, result, is_ok="measured"):
    rows.append([what, str(result), is_ok])


def check(what):
    """A row for a function that returns what it has seen, or raises."""

    def run(body):
        try:
            row(what, body() or "right", True)
            torch.cuda.synchronize()
        except Exception:
            row(what, traceback.format_exc()[-1500:], False)
        return body

    return run


def close(got, expected, tolerance=0.0):
    torch.testing.assert_close(got.float(), expected.float(), rtol=tolerance, atol=tolerance)


def compile_again(client, compiled, **options):
    target = compiled.metadata.target
    return client.compile(kiln.CompileRequest(
        compiled.asm["ttir"], f"{target.backend}:{target.arch}:{target.warp_size}", toolchain=f"triton=={triton.__version__}",
        options=options))


def through_kiln(client, compiled, **options):
    """The kernel that the daemon has for what Triton made TTIR of. Its parameters are Triton's without the constants."""
    return kiln.load(compile_again(client, compiled, **options)).prepare()


class DLPack:
    """A tensor's DLPack alone, its device included."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()

    def __dlpack__(self, **more):
        return self._tensor.__dlpack__(**more)


class OldDLPack(DLPack):
    """From before versions."""

    def __dlpack__(self, *, stream=None):
        return self._tensor.__dlpack__(stream=stream)


class Interface:
    """A tensor's __cuda_array_interface__ alone, of version 3 where a stream is named."""

    def __init__(self, tensor, stream=None):
        self.__cuda_array_interface__ = dict(tensor.__cuda_array_interface__)
        if stream is not None:
            self.__cuda_array_interface__.update(version=3, stream=stream.cuda_stream)


class StreamProtocol:

    def __init__(self, stream):
        self._stream = stream

    def __cuda_stream__(self):
        return 0, self._stream.cuda_stream


WAYS = {
    "tensors": lambda tensor: tensor, "DLPack": DLPack, "DLPack without versions": OldDLPack, "__cuda_array_interface__": Interface,
    "addresses": lambda tensor: tensor.data_ptr()
}
SIZE = 1 << 20
BLOCK = 1024
GRID = (SIZE // BLOCK, 1, 1)


class Vectors:
    """Two and their sum, and the sum by Triton and by Kiln."""

    def __init__(self, client):
        self.x, self.y, self.out = (torch.rand(SIZE, device="cuda") for _ in range(3))
        self.compiled = self.by_triton()
        self.kernel = through_kiln(client, self.compiled)

    def by_triton(self):
        return vector_add[GRID](self.x, self.y, self.out, SIZE, BLOCK=BLOCK)

    def by_kiln(self, stream=None, way=lambda tensor: tensor):
        self.kernel[GRID](way(self.x), way(self.y), way(self.out), SIZE, stream=stream)

    def expect(self):
        close(self.out, self.x + self.y)


def check_arguments(vectors):
    for name, way in WAYS.items():

        @check(f"vector_add by {name}")
        def launches(way=way):
            vectors.out.zero_()
            vectors.by_kiln(way=way)
            vectors.expect()

    @check("a tensor of the CPU is refused")
    def refuses():
        try:
            vectors.kernel[GRID](vectors.x.cpu(), vectors.y, vectors.out, SIZE)
        except kiln.LaunchError as error:
            return str(error)
        raise AssertionError("it was launched")


def check_kernels(client):
    """All the example kernels."""

    def by_kiln(instance, grid, *arguments):
        compiled = kernel_checks.compiled_by_triton(instance, grid, *arguments)
        kernel, parameter, given = through_kiln(client, compiled, **instance.options), 0, []
        for argument in arguments:
            count = 1
            if isinstance(argument, TensorDescriptor):
                argument = kernel.descriptor(parameter, argument.base, argument.shape, argument.strides)
                count = len(argument.values)
            given.append(argument)
            parameter += count
        kernel[grid](*given)

    for name, text in kernel_checks.run(by_kiln).items():
        row(f"{name} through kiln.load", text, kernel_checks.is_right(text))


def check_streams(vectors):
    side, producer = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()

    def on(stream, what):

        @check(f"on another stream: {what}")
        def _():
            with torch.cuda.stream(side):
                torch.cuda._sleep(20_000_000)  # what is on the stream comes first
                vectors.x.fill_(3)
            vectors.by_kiln(stream=stream)
            side.synchronize()
            vectors.expect()
            assert float(vectors.x[0]) == 3
            vectors.x.uniform_()
            torch.cuda.synchronize()

    on(side, "a torch.cuda.Stream")
    on(StreamProtocol(side), "__cuda_stream__")
    on(side.cuda_stream, "a number")

    @check("PyTorch's current stream where none is named")
    def _():
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            vectors.x.fill_(4)
            vectors.by_kiln()
        side.synchronize()
        vectors.expect()

    @check("the stream of __cuda_array_interface__ comes first")
    def _():
        with torch.cuda.stream(producer):
            torch.cuda._sleep(50_000_000)
            vectors.x.fill_(5)
        vectors.kernel[GRID](Interface(vectors.x, producer), vectors.y, vectors.out, SIZE, stream=side)
        side.synchronize()
        assert float(vectors.out[0] - vectors.y[0]) > 4.9
        vectors.expect()

    @check("DLPack's producer orders its stream before ours")
    def _():
        with torch.cuda.stream(producer):
            torch.cuda._sleep(50_000_000)
            vectors.x.fill_(6)
            vectors.kernel[GRID](DLPack(vectors.x), vectors.y, vectors.out, SIZE, stream=side)
        side.synchronize()
        assert float(vectors.out[0] - vectors.y[0]) > 5.9
        vectors.expect()


def check_threads(vectors):

    @check("four threads, a stream each")
    def _():
        failures = []

        def work():
            try:
                with torch.cuda.stream(torch.cuda.Stream()):
                    x, y, out = (torch.rand(SIZE, device="cuda") for _ in range(3))
                    for _ in range(200):
                        vectors.kernel[GRID](x, y, out, SIZE)
                    torch.cuda.current_stream().synchronize()
                    close(out, x + y)
            except Exception:
                failures.append(traceback.format_exc())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]


def check_graphs(client, vectors):

    def captured(what, launch):

        @check(f"a captured graph of {what}, replayed")
        def _():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                launch()
                launch()
            for _ in range(3):
                vectors.x.uniform_()
                vectors.out.zero_()
                graph.replay()
                torch.cuda.synchronize()
                vectors.expect()

    captured("a Triton kernel under the plug-in", vectors.by_triton)
    captured("a kernel through kiln.load", vectors.by_kiln)

    def both():
        vectors.by_triton()
        vectors.by_kiln(way=lambda tensor: tensor.data_ptr())

    captured("both", both)

    @check("a kernel that is first loaded under capture")
    def _():
        # Another key than that of the kernel that is loaded.
        fresh = kiln.load(compile_again(client, vectors.compiled, num_warps=2))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            fresh[GRID](vectors.x, vectors.y, vectors.out, SIZE)
        vectors.out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        vectors.expect()

    @check("a live graph's buffer must not be freed")
    def _():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            vectors.by_kiln()
        try:
            kiln.runtime().check_free(vectors.x.data_ptr(), 4)
        except kiln.LaunchError as error:
            return str(error)
        raise AssertionError("nothing was said")


def microseconds(launch):
    started = time.perf_counter()
    for _ in range(LAUNCHES):
        launch()
    took = time.perf_counter() - started
    torch.cuda.synchronize()
    return took / LAUNCHES * 1e6


def with_hook(hook, launch):
    """A batch with that hook of Triton's stages in place; None: as without the plug-in."""

    def batch():
        triton.knobs.runtime.add_stages_inspection_hook = hook
        return microseconds(launch)

    return batch


def compare(name, what, our_batch, their_batch, goal):
    """In turns, each first as often as the other, so that a machine that slows down slows both."""
    pairs = []
    for index in range(BATCHES):
        if index % 2:
            ours, theirs = our_batch(), their_batch()
        else:
            theirs, ours = their_batch(), our_batch()
        if index >= BATCHES // 10:
            pairs.append((ours, theirs))
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
    row(f"{name}: {what}", f"{ours:.2f} us, {theirs:.2f} us: {ratio:.3f}")
    return {"name": name, "value": round(ratio, 4), "goal": goal, "better": "lower", "holds": ratio <= goal, "raw": pairs}


def measure(client):
    """vector_add of next to nothing, so that the CPU's part is all there is."""
    x, y, out = (torch.rand(BLOCK, device="cuda") for _ in range(3))
    grid = (1, 1, 1)
    compiled = vector_add[grid](x, y, out, BLOCK, BLOCK=BLOCK)
    kernel = through_kiln(client, compiled)
    benchmark = []

    def ours():
        kernel[grid](x, y, out, BLOCK)

    def theirs():
        compiled[grid](x, y, out, BLOCK, BLOCK)

    def looked_up():
        vector_add[grid](x, y, out, BLOCK, BLOCK=BLOCK)

    def compare_launches(name):
        return compare(name, "one launch by Kiln, by Triton's compiled[grid]", lambda: microseconds(ours), lambda: microseconds(theirs), 1.0)

    benchmark.append(compare_launches("python-launch"))
    hook = triton.knobs.runtime.add_stages_inspection_hook
    row("the plug-in is in place", type(hook), type(hook).__module__ == "kiln.triton")
    benchmark.append(compare("repeated-launch", "one kernel[grid] with the plug-in, without it", with_hook(hook, looked_up),
                             with_hook(None, looked_up), 1.05))
    triton.knobs.runtime.add_stages_inspection_hook = hook
    with torch.cuda.stream(torch.cuda.Stream()):
        benchmark.append(compare_launches("python-launch, own stream"))
        by_address = kernel[grid]
        pointers = (x.data_ptr(), y.data_ptr(), out.data_ptr())
        stream = torch.cuda.current_stream().cuda_stream
        row("python-launch: addresses and a stream by number", f"{microseconds(lambda: by_address(*pointers, BLOCK, stream=stream)):.2f} us")
        row("python-launch: Triton's kernel[grid]", f"{microseconds(looked_up):.2f} us")
    return benchmark


def main():
    torch.manual_seed(1)
    benchmark = []
    try:
        with kiln.Client() as client:
            vectors = Vectors(client)
            check_arguments(vectors)
            check_kernels(client)
            check_streams(vectors)
            check_threads(vectors)
            check_graphs(client, vectors)
            benchmark = measure(client)
        row("stats", kiln.runtime().stats())
    except Exception:
        row("stopped early", traceback.format_exc()[-3000:], False)
    pathlib.Path(sys.argv[1]).write_text(json.dumps({"rows": rows, "benchmark": benchmark}))


if __name__ == "__main__":
    main()
