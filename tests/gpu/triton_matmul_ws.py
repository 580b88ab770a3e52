"""Runs the product by tensor descriptors through Triton alone, to tell a kernel that hangs from a launch that is wrong.

    python triton_matmul_ws.py [--limit SECONDS]

Needs PyTorch and Triton on a machine with an NVIDIA GPU; Kiln takes no part. Each variant is a process of its own that is killed
after the limit (60 s). Prints one line for each, and ends with status 1 where a variant that should be right is not.

On Hopper, Triton 3.6 is expected to hang in the variant with 128 rows and warp specialization: see tests/kernels/matmul.py.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# Rows of a tile, warp specialization, warps asked for, and whether it should be right.
VARIANTS = {
    "plain, 128 rows": (128, False, 8, True),
    "warp-specialized, 64 rows": (64, True, 4, True),
    "warp-specialized, 128 rows": (128, True, 4, False),
}


def multiply(rows, warp_specialize, warps):
    """The same sizes as in KernelsTest: not whole tiles, three steps of the loop."""
    sys.path.insert(0, str(HERE.parent / "kernels"))
    import torch
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    import matmul

    m, n, k = 272, 336, 192
    torch.manual_seed(1)
    a, b = (torch.randn(length, k, device="cuda").half() for length in (m, n))
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    a_desc, b_desc = TensorDescriptor.from_tensor(a, [rows, 64]), TensorDescriptor.from_tensor(b, [128, 64])
    kernel = matmul.descriptor_matmul[(triton.cdiv(m, rows) * triton.cdiv(n, 128),)](
        a_desc, b_desc, c, m, n, k, c.stride(0), BLOCK_M=rows, BLOCK_N=128, BLOCK_K=64, GROUP=8, WARP_SPECIALIZE=warp_specialize,
        num_warps=warps)
    meta = kernel.metadata
    boxes = [tuple(descriptor["block_size"]) for descriptor in meta.tensordesc_meta]
    print(f"launched: {meta.num_warps} warps, {meta.shared} bytes of shared memory, tensor maps of {boxes}", flush=True)
    torch.cuda.synchronize()
    expected = a.float() @ b.float().T
    worst = ((c.float() - expected).abs() / (1 + expected.abs())).max().item()
    print(f"worst error {worst:.3g}", flush=True)
    sys.exit(0 if worst <= 2e-3 else 1)


def run(name, limit_s):
    """How it ended, and what it printed."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen([sys.executable, __file__, "--variant", name], stdout=output, stderr=subprocess.STDOUT,
                                 env={**os.environ, "TRITON_CACHE_DIR": cache})
        try:
            status = child.wait(limit_s)
            end = "right" if status == 0 else f"wrong (status {status})"
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            end = f"hangs (killed after {limit_s} s)"
        output.seek(0)
        return end, output.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=60, metavar="SECONDS")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.variant:
        multiply(*VARIANTS[arguments.variant][:3])
    failed = False
    for name, (*_, should_be_right) in VARIANTS.items():
        end, output = run(name, arguments.limit)
        failed |= should_be_right and end != "right"
        print(f"{name:28} {end}")
        print("".join(f"    {line}\n" for line in output.splitlines()[-12:]), end="", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
