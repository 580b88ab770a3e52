"""The example kernels, one by one, and what PyTorch has to say of their results: kernels_job.py and python_launch_job.py launch them."""

import functools
import math
import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kernels"))

import torch  # noqa: E402
import triton  # noqa: E402

import catalog  # noqa: E402

DEVICE = "cuda"
LOG2_E = math.log2(math.e)
INSTANCES = {instance.name: instance for instance in catalog.instances()}


class NotHere(Exception):
    """Why this GPU cannot run a kernel."""


def architecture():
    return "{}{}".format(*torch.cuda.get_device_capability())


def compiled_by_triton(instance, grid, *arguments):
    """Not launched. Raises NotHere."""
    if lack := instance.lacks(f"cuda:{architecture()}"):
        raise NotHere(lack)
    compiled = instance.kernel.warmup(*arguments, grid=grid, **instance.constexprs(), **instance.options)
    allowed = triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"]
    if compiled.metadata.shared > allowed:
        raise NotHere(f"it needs {compiled.metadata.shared} bytes of shared memory; a block has {allowed} at most")
    return compiled


def by_triton(instance, grid, *arguments):
    compiled_by_triton(instance, grid, *arguments)
    instance.kernel[grid](*arguments, **instance.constexprs(), **instance.options)


def run(launch):
    """{name of an instance: "ok", "not run: " and why, or what is wrong}. `launch(instance, grid, *arguments)` is by_triton or as it."""
    torch.manual_seed(1)
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=DEVICE, dtype=torch.int8))
    results = {}
    for name, check in CHECKS.items():
        try:
            check(functools.partial(launch, INSTANCES[name]), **{
                key.lower(): value for key, value in INSTANCES[name].constexprs().items() if key.startswith("BLOCK_")})
            torch.cuda.synchronize()
            results[name] = "ok"
        except NotHere as lack:
            results[name] = f"not run: {lack}"
        except Exception:
            results[name] = traceback.format_exc()
    return results


def is_right(text):
    """None where it was not run."""
    return None if text.startswith("not run: ") else text == "ok"


def random(*shape, dtype=torch.float16):
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32).to(dtype)


def empty(*shape, dtype=torch.float32):
    """Full of what nobody takes for a result."""
    return torch.full(shape, 99, device=DEVICE, dtype=dtype)


def close(got, expected, tolerance=0.0):
    torch.testing.assert_close(got.float(), expected.float(), rtol=tolerance, atol=tolerance)


def vector_add(launch):
    x, y = random(100_000, dtype=torch.float32), random(100_000, dtype=torch.float32)
    out = empty(100_000)
    launch((triton.cdiv(x.numel(), 1024),), x, y, out, x.numel())
    close(out, x + y)


def softmax(launch):
    x = random(500, 1920, dtype=torch.float32)
    out = empty(500, 1920)
    launch((132,), out, x, x.stride(0), out.stride(0), 500, 1911)
    close(out[:, :1911], torch.softmax(x[:, :1911], 1), 1e-5)
    close(out[:, 1911:], empty(500, 9))


ROWS, COLUMNS = 250, 1008


def layer_norm_inputs():
    x, weight, bias, dy = random(ROWS, COLUMNS), random(COLUMNS), random(COLUMNS), random(ROWS, COLUMNS)
    mean = x.float().mean(1)
    return x, weight, bias, dy, mean, (x.float().var(1, unbiased=False) + 1e-5).rsqrt()


def layer_norm_forward(launch):
    x, weight, bias, _, mean, rstd = layer_norm_inputs()
    y, got_mean, got_rstd = empty(ROWS, COLUMNS, dtype=torch.float16), empty(ROWS), empty(ROWS)
    launch((ROWS,), x, y, weight, bias, got_mean, got_rstd, COLUMNS, COLUMNS, 1e-5)
    close(y, torch.nn.functional.layer_norm(x.float(), (COLUMNS,), weight.float(), bias.float(), 1e-5), 1e-2)
    close(got_mean, mean, 1e-4)
    close(got_rstd, rstd, 1e-4)


def layer_norm_backward_input(launch):
    x, weight, bias, dy, mean, rstd = layer_norm_inputs()
    groups = triton.cdiv(ROWS, 16)
    dx, dweight, dbias = empty(ROWS, COLUMNS, dtype=torch.float16), empty(groups, COLUMNS), empty(groups, COLUMNS)
    launch((groups,), dx, dy, dweight, dbias, x, weight, mean, rstd, COLUMNS, ROWS, COLUMNS)
    leaves = [tensor.float().requires_grad_() for tensor in (x, weight, bias)]
    torch.nn.functional.layer_norm(leaves[0], (COLUMNS,), *leaves[1:], 1e-5).backward(dy.float())
    for got, leaf, tolerance in ((dx, leaves[0], 1e-2), (dweight.sum(0), leaves[1], 1e-3), (dbias.sum(0), leaves[2], 1e-3)):
        close(got, leaf.grad, tolerance)


def layer_norm_backward_weight(launch, block_rows, block_columns):
    groups = 45
    dweight, dbias = random(groups, COLUMNS, dtype=torch.float32), random(groups, COLUMNS, dtype=torch.float32)
    weight_out, bias_out = empty(COLUMNS, dtype=torch.float16), empty(COLUMNS, dtype=torch.float16)
    launch((triton.cdiv(COLUMNS, block_columns),), dweight, dbias, weight_out, bias_out, groups, COLUMNS)
    close(weight_out, dweight.sum(0), 1e-2)
    close(bias_out, dbias.sum(0), 1e-2)


def matmul(launch, block_m, block_n, block_k):
    m, n, k = 528, 784, 400  # not whole tiles
    a, b, c = random(m, k), random(k, n), empty(m, n, dtype=torch.float16)
    launch((triton.cdiv(m, block_m) * triton.cdiv(n, block_n),), a, b, c, m, n, k, k, n, n)
    close(c, a.float() @ b.float(), 5e-2)


def grouped_matmul(launch, block_m, block_n, block_k):
    shapes = [(256, 128, 192), (96, 400, 64), (528, 272, 320), (16, 16, 16)]
    factors = [(random(m, k), random(k, n), empty(m, n, dtype=torch.float16)) for m, n, k in shapes]
    tables = [torch.tensor([tensor.data_ptr() for tensor in column], device=DEVICE) for column in zip(*factors, strict=True)]
    strides = [(k, n, n) for _, n, k in shapes]
    launch((5,), *tables, *(torch.tensor(table, device=DEVICE, dtype=torch.int32).flatten() for table in (shapes, strides)), len(shapes))
    for a, b, c in factors:
        close(c, a.float() @ b.float(), 5e-2)


def descriptor_matmul(launch, block_m, block_n, block_k):
    from triton.tools.tensor_descriptor import TensorDescriptor
    m, n, k = 528, 784, 448
    a, b, c = random(m, k), random(n, k), empty(m, n, dtype=torch.float16)
    launch((triton.cdiv(m, block_m) * triton.cdiv(n, block_n),), TensorDescriptor.from_tensor(a, [block_m, block_k]),
           TensorDescriptor.from_tensor(b, [block_n, block_k]), c, m, n, k, n)
    close(c, a.float() @ b.float().T, 5e-2)


HEADS, LENGTH, HEAD, SCALE = 6, 400, 64, 0.125


class Attention:
    """Inputs, and what the kernels hand each other, in single precision."""

    def __init__(self):
        self.q, self.k, self.v, self.dout = (random(HEADS, LENGTH, HEAD) for _ in range(4))
        self.leaves = [tensor.float().requires_grad_() for tensor in (self.q, self.k, self.v)]
        q, k, v = self.leaves
        future = torch.ones(LENGTH, LENGTH, device=DEVICE, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(1, 2) * SCALE).masked_fill(future, -math.inf)
        self.norm = (torch.logsumexp(scores, 2) * LOG2_E).detach()
        out = torch.softmax(scores, 2) @ v
        out.backward(self.dout.float())
        self.out = out.detach()
        self.delta = (self.out * self.dout.float()).sum(2)


def attention_forward(launch, block_q, block_k):
    given = Attention()
    out, norm = empty(HEADS, LENGTH, HEAD, dtype=torch.float16), empty(HEADS, LENGTH)
    launch((triton.cdiv(LENGTH, block_q), HEADS), given.q, given.k, given.v, out, norm, LENGTH, SCALE)
    close(out, given.out, 1e-2)
    close(norm, given.norm, 1e-2)


def attention_backward_delta(launch):
    given, delta = Attention(), empty(HEADS, LENGTH)
    out = given.out.half()
    launch((triton.cdiv(LENGTH, 128), HEADS), out, given.dout, delta, LENGTH)
    close(delta, (out.float() * given.dout.float()).sum(2), 1e-4)


def attention_backward_keys(launch, block_q, block_k):
    given = Attention()
    dk, dv = (empty(HEADS, LENGTH, HEAD, dtype=torch.float16) for _ in range(2))
    launch((triton.cdiv(LENGTH, block_k), HEADS), given.q, given.k, given.v, given.dout, given.norm, given.delta, dk, dv, LENGTH, SCALE)
    close(dk, given.leaves[1].grad, 2e-2)
    close(dv, given.leaves[2].grad, 2e-2)


def attention_backward_queries(launch, block_q, block_k):
    given, dq = Attention(), empty(HEADS, LENGTH, HEAD, dtype=torch.float16)
    launch((triton.cdiv(LENGTH, block_q), HEADS), given.q, given.k, given.v, given.dout, given.norm, given.delta, dq, LENGTH, SCALE)
    close(dq, given.leaves[0].grad, 2e-2)


def reduce_atomic(launch):
    x = torch.rand(50_001, device=DEVICE)
    total, largest = torch.zeros(1, device=DEVICE), torch.full((1,), -1e9, device=DEVICE)
    histogram = torch.zeros(128, device=DEVICE, dtype=torch.int32)
    launch((triton.cdiv(x.numel(), 1024),), x, total, largest, histogram, x.numel(), 0.0, 1.0 / 128)
    close(total / x.numel(), x.mean()[None], 1e-4)
    close(largest, x.max()[None])
    close(histogram, torch.bincount((x * 128).long(), minlength=128), 0.01)  # divided, so that one at an edge may be its neighbour's
    assert int(histogram.sum()) == x.numel()


def quantize_int8(launch):
    rows, columns = 128, 4000
    x = random(rows, columns, dtype=torch.bfloat16)
    out, scale = empty(rows, columns, dtype=torch.int8), empty(rows)
    launch((rows,), x, out, scale, columns, columns)
    close(scale, x.float().abs().amax(1) / 127, 1e-5)
    assert ((out.float() * scale[:, None] - x.float()).abs() <= 0.501 * scale[:, None]).all(), "not the nearest"


def rotary(launch, sign, block_heads):
    tokens, heads, half = 66, 12, 64
    length = tokens // 2  # two sequences
    x = random(tokens, heads, 2 * half, dtype=torch.bfloat16)
    first, second = x.float()[..., :half].clone(), x.float()[..., half:].clone()
    angle = torch.rand(length, half, device=DEVICE)
    cos, sin = angle.cos(), angle.sin()
    launch((tokens, triton.cdiv(heads, block_heads)), x, cos, sin, length, heads, x.stride(0))
    c, s = cos.repeat(2, 1)[:, None], sign * sin.repeat(2, 1)[:, None]
    close(x, torch.cat([first * c - second * s, second * c + first * s], -1), 1e-2)


def cross_entropy(launch):
    rows, classes, stride, ignored = 64, 10_001, 10_016, -100
    logits = random(rows, stride, dtype=torch.bfloat16)
    labels = torch.randint(0, classes, (rows,), device=DEVICE)
    labels[::8] = ignored
    leaf = logits.float()[:, :classes].clone().requires_grad_()
    expected = torch.nn.functional.cross_entropy(leaf, labels, reduction="none", ignore_index=ignored)
    expected.sum().backward()
    loss, untouched = empty(rows), logits[:, classes:].clone()
    launch((rows,), logits, labels, loss, stride, classes, ignored, 1.0)
    close(loss, expected.detach(), 1e-3)
    close(logits[:, :classes], leaf.grad, 1e-2)
    close(logits[:, classes:], untouched)


# A check for each instance: tests/python/test_gpu_run.py compares them with the catalog.
CHECKS = {
    "vector_add": vector_add,
    "softmax": softmax,
    "layer_norm_forward": layer_norm_forward,
    "layer_norm_backward_input": layer_norm_backward_input,
    "layer_norm_backward_weight": layer_norm_backward_weight,
    "matmul_64x64x32": matmul,
    "matmul_128x128x64": matmul,
    "matmul_128x256x64": matmul,
    "matmul_128x128x64_two_ctas": matmul,
    "grouped_matmul": grouped_matmul,
    "descriptor_matmul": descriptor_matmul,
    "warp_specialized_matmul": descriptor_matmul,
    "attention_forward": attention_forward,
    "attention_backward_delta": attention_backward_delta,
    "attention_backward_keys": attention_backward_keys,
    "attention_backward_queries": attention_backward_queries,
    "reduce_atomic": reduce_atomic,
    "quantize_int8": quantize_int8,
    "rotary": functools.partial(rotary, sign=1),
    "rotary_backward": functools.partial(rotary, sign=-1),
    "cross_entropy": cross_entropy,
}
