"""Launches the example kernels once each through Triton and compares the results with PyTorch's.

    python kernels_job.py OUT.json

Writes {"kernels": {name: "ok" or what is wrong}, "seconds": ..., "report": what Kiln did, or null}.
"""

import json
import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kernels"))

import torch  # noqa: E402
import triton  # noqa: E402

import attention  # noqa: E402
import cross_entropy  # noqa: E402
import layer_norm  # noqa: E402
import matmul  # noqa: E402
import quantize  # noqa: E402
import reduction  # noqa: E402
import rotary  # noqa: E402
import softmax  # noqa: E402
import vector_add  # noqa: E402


def random(*shape, dtype=torch.float16):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def close(got, expected, tolerance):
    torch.testing.assert_close(got.float(), expected.float(), rtol=tolerance, atol=tolerance)


def check_vector_add():
    x, y = random(100_000, dtype=torch.float32), random(100_000, dtype=torch.float32)
    out = torch.empty_like(x)
    vector_add.vector_add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    close(out, x + y, 0)


def check_softmax():
    x = random(500, 1920, dtype=torch.float32)
    out = torch.empty_like(x)
    softmax.softmax[(132,)](out, x, x.stride(0), out.stride(0), *x.shape, BLOCK=2048, num_warps=8)
    close(out, torch.softmax(x, 1), 1e-5)


def check_layer_norm():
    rows, columns = 256, 1024
    x, weight, bias = random(rows, columns), random(columns), random(columns)
    y, mean, rstd = torch.empty_like(x), *(torch.empty(rows, device="cuda") for _ in range(2))
    layer_norm.layer_norm_forward[(rows,)](x, y, weight, bias, mean, rstd, columns, columns, 1e-5, BLOCK=1024)
    leaf = x.float().requires_grad_()
    expected = torch.nn.functional.layer_norm(leaf, (columns,), weight.float(), bias.float(), 1e-5)
    close(y, expected, 2e-2)
    dy, groups = random(rows, columns), rows // 16
    dx, dweight, dbias = torch.empty_like(x), *(torch.empty(groups, columns, device="cuda") for _ in range(2))
    layer_norm.layer_norm_backward_input[(groups,)](dx, dy, dweight, dbias, x, weight, mean, rstd, columns, rows, columns,
                                                    ROWS_PER_GROUP=16, BLOCK=1024, num_warps=8)
    expected.backward(dy.float())
    close(dx, leaf.grad, 2e-2)
    weight_out, bias_out = torch.empty_like(weight), torch.empty_like(bias)
    layer_norm.layer_norm_backward_weight[(columns // 64,)](dweight, dbias, weight_out, bias_out, groups, columns, BLOCK_ROWS=32,
                                                            BLOCK_COLUMNS=64)
    close(bias_out, dy.float().sum(0), 5e-2)


def check_matmul(block_m, block_n, block_k, **options):
    a, b = random(512, 384), random(384, 768)
    c = torch.empty(512, 768, device="cuda", dtype=torch.float16)
    grid = (triton.cdiv(512, block_m) * triton.cdiv(768, block_n),)
    matmul.matmul[grid](a, b, c, 512, 768, 384, a.stride(0), b.stride(0), c.stride(0), BLOCK_M=block_m, BLOCK_N=block_n,
                        BLOCK_K=block_k, GROUP=8, **options)
    close(c, a.float() @ b.float(), 5e-2)


def check_descriptor_matmul():
    from triton.tools.tensor_descriptor import TensorDescriptor
    a, b = random(512, 384), random(768, 384)
    c = torch.empty(512, 768, device="cuda", dtype=torch.float16)
    a_desc, b_desc = TensorDescriptor.from_tensor(a, [128, 64]), TensorDescriptor.from_tensor(b, [128, 64])
    matmul.descriptor_matmul[(4 * 6,)](a_desc, b_desc, c, 512, 768, 384, c.stride(0), BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP=8,
                                       WARP_SPECIALIZE=False, num_warps=8, num_stages=3)
    close(c, a.float() @ b.float().T, 5e-2)


def check_attention():
    heads, length = 6, 512
    q, k, v = (random(heads, length, 64) for _ in range(3))
    out, norm = torch.empty_like(q), torch.empty(heads, length, device="cuda")
    attention.attention_forward[(length // 128, heads)](q, k, v, out, norm, length, 0.125, BLOCK_Q=128, BLOCK_K=64, HEAD=64,
                                                        CAUSAL=True, num_warps=4, num_stages=3)
    close(out, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.125), 2e-2)


def check_rotary():
    tokens, heads, half = 64, 12, 64
    x = random(tokens, heads, 2 * half, dtype=torch.bfloat16)
    angle = torch.rand(tokens, half, device="cuda")
    first, second = x.float()[..., :half].clone(), x.float()[..., half:].clone()
    cos, sin = angle.cos(), angle.sin()
    rotary.rotary[(tokens, triton.cdiv(heads, 8))](x, cos, sin, tokens, heads, x.stride(0), BLOCK_HEADS=8, HALF=half, BACKWARD=False)
    c, s = cos[:, None], sin[:, None]
    close(x, torch.cat([first * c - second * s, second * c + first * s], -1), 3e-2)


def check_cross_entropy():
    rows, classes = 64, 10_000
    logits = random(rows, classes, dtype=torch.bfloat16)
    labels = torch.randint(0, classes, (rows,), device="cuda")
    expected = torch.nn.functional.cross_entropy(logits.float(), labels, reduction="none")
    loss = torch.empty(rows, device="cuda")
    cross_entropy.cross_entropy[(rows,)](logits, labels, loss, classes, classes, -100, 1.0, BLOCK=4096, num_warps=8)
    close(loss, expected, 2e-2)


def check_quantize():
    x = random(128, 4096, dtype=torch.bfloat16)
    out, scale = torch.empty(128, 4096, device="cuda", dtype=torch.int8), torch.empty(128, device="cuda")
    quantize.quantize_int8[(128,)](x, out, scale, 4096, 4096, BLOCK=4096, num_warps=8)
    close(out.float() * scale[:, None], x.float(), 5e-2)


def check_reduction():
    x = torch.rand(50_000, device="cuda")
    total, largest = torch.zeros(1, device="cuda"), torch.full((1,), -1e9, device="cuda")
    histogram = torch.zeros(64, device="cuda", dtype=torch.int32)
    reduction.reduce_atomic[(triton.cdiv(x.numel(), 1024),)](x, total, largest, histogram, x.numel(), 0.0, 1.0 / 64, BLOCK=1024, BINS=64)
    close(total / x.numel(), x.mean()[None], 1e-3)
    close(largest, x.max()[None], 0)
    assert int(histogram.sum()) == x.numel()


CHECKS = {
    "vector_add": check_vector_add, "softmax": check_softmax, "layer_norm (3 kernels)": check_layer_norm,
    "matmul 128x128x64": lambda: check_matmul(128, 128, 64, num_warps=8, num_stages=3),
    "matmul 64x64x32": lambda: check_matmul(64, 64, 32, num_warps=4, num_stages=4),
    "matmul by descriptors": check_descriptor_matmul, "attention": check_attention, "rotary": check_rotary,
    "cross_entropy": check_cross_entropy, "quantize_int8": check_quantize, "reduce_atomic": check_reduction,
}


def main():
    torch.manual_seed(1)
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    started = time.monotonic()
    results = {}
    for name, check in CHECKS.items():
        try:
            check()
            torch.cuda.synchronize()
            results[name] = "ok"
        except Exception:
            results[name] = traceback.format_exc()
    seconds = time.monotonic() - started
    report = None
    if "kiln.triton" in sys.modules:
        import kiln
        report = vars(kiln.report())
    pathlib.Path(sys.argv[1]).write_text(json.dumps({"kernels": results, "seconds": seconds, "report": report}))


if __name__ == "__main__":
    main()
