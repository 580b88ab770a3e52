"""Tunes a matmul over 18 configurations with Triton's Autotuner, once.

    python tuning_job.py OUT.json [triton]

Writes {"seconds": from the call to the result, "measured": seconds of it spent measuring, "runs": how many were measured by Triton's own
benchmark, "best": the winner, "report": what Kiln did, or null}. With `triton` that benchmark measures, and the driver is there before,
as after an earlier kernel. Ends with an error where the result is wrong.
"""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kernels"))

import torch  # noqa: E402
import triton  # noqa: E402
from triton.testing import do_bench  # noqa: E402

from matmul import matmul  # noqa: E402

CONFIGS = [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 64, "GROUP": 8}, num_warps=warps, num_stages=stages)
           for m in (64, 128) for n in (64, 128, 256) for warps, stages in ((4, 3), (8, 3), (8, 4))]


def main():
    measured, runs = 0.0, 0
    by_triton = sys.argv[2:] == ["triton"]
    if by_triton:
        driver = triton.runtime.driver.active
        clear_cache = driver.clear_cache

        def counted(cache):  # before each run
            nonlocal runs
            runs += 1
            clear_cache(cache)

        driver.clear_cache = counted

    def bench(call, quantiles):
        nonlocal measured
        call()  # compiles and loads it, where that has not happened
        torch.cuda.synchronize()
        started = time.monotonic()
        result = do_bench(call, warmup=5, rep=20, quantiles=quantiles)
        measured += time.monotonic() - started
        return result

    size = 2048
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty(size, size, device="cuda", dtype=torch.float16)
    tuned = triton.autotune(CONFIGS, key=["m", "n", "k"], do_bench=None if by_triton else bench)(matmul)
    started = time.monotonic()
    tuned[lambda meta: (triton.cdiv(size, meta["BLOCK_M"]) * triton.cdiv(size, meta["BLOCK_N"]),)](
        a, b, c, size, size, size, a.stride(0), b.stride(0), c.stride(0))
    torch.cuda.synchronize()
    seconds = time.monotonic() - started
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=5e-2, atol=5e-1)
    report = None
    if "kiln.triton" in sys.modules:
        import kiln
        report = vars(kiln.report())
    pathlib.Path(sys.argv[1]).write_text(json.dumps(
        {"seconds": seconds, "measured": measured, "runs": runs, "best": str(tuned.best_config), "report": report}))


if __name__ == "__main__":
    main()
