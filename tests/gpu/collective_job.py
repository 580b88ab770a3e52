"""Ranks that add their results up in each step, as a data-parallel training does, with a matmul that Triton tunes.

    python collective_job.py OUT.json [TIMEOUT_S]

One process for each of two GPUs. At step CHANGE the last rank alone meets a shape that is new to it, as with a sequence of another
length, and tunes 18 configurations while the others wait for it. Writes {"waits": for each rank, what each step's all_reduce took in
seconds, "change": CHANGE, "sums": what came of each, "report": of the last rank, or null}. Where that one all_reduce takes longer than
TIMEOUT_S, NCCL's watchdog ends the job. Ends with an error where a result is wrong.
"""

import datetime
import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kernels"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import triton  # noqa: E402

from matmul import matmul  # noqa: E402
from tuning_job import CONFIGS  # noqa: E402

RANKS, STEPS, CHANGE = 2, 8, 4
# No multiple of 16, so that Triton compiles all configurations again.
SIZE, NEW_SIZE = 2048, 1544
LONG = datetime.timedelta(seconds=200)


def rank_of_job(rank, folder, timeout_s):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS, timeout=LONG,
                            device_id=torch.device("cuda", rank))
    watched = dist.new_group(timeout=datetime.timedelta(seconds=timeout_s) if timeout_s else LONG)
    for group in (None, watched):  # NCCL connects the ranks
        dist.all_reduce(torch.ones(1, device="cuda"), group=group)
    tuned = triton.autotune(CONFIGS, key=["m", "n", "k"])(matmul)
    torch.manual_seed(7 + rank)
    waits, sums = [], []
    for step in range(STEPS):
        size = NEW_SIZE if step >= CHANGE and rank == RANKS - 1 else SIZE
        result = multiply(tuned, size)
        torch.cuda.synchronize()
        began = time.monotonic()
        dist.all_reduce(result, group=watched if step == CHANGE else None)
        torch.cuda.synchronize()
        waits.append(time.monotonic() - began)
        sums.append(float(result))
    report = None
    if "kiln.triton" in sys.modules:
        import kiln
        report = vars(kiln.report())
    (folder / f"{rank}.json").write_text(json.dumps({"waits": waits, "sums": sums, "report": report}))
    dist.destroy_process_group()


def multiply(tuned, size):
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty(size, size, device="cuda", dtype=torch.float16)
    tuned[lambda meta: (triton.cdiv(size, meta["BLOCK_M"]) * triton.cdiv(size, meta["BLOCK_N"]),)](
        a, b, c, size, size, size, a.stride(0), b.stride(0), c.stride(0))
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=5e-2, atol=5e-1)
    return c.double().abs().mean()


def main():
    timeout_s = float(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_of_job, (pathlib.Path(folder), timeout_s), nprocs=RANKS)
        ranks = [json.loads((pathlib.Path(folder) / f"{rank}.json").read_text()) for rank in range(RANKS)]
    assert ranks[0]["sums"] == ranks[1]["sums"], ranks
    pathlib.Path(sys.argv[1]).write_text(json.dumps({"waits": [rank["waits"] for rank in ranks], "change": CHANGE, "sums": ranks[0]["sums"],
                                                     "report": ranks[-1]["report"]}))


if __name__ == "__main__":
    main()
