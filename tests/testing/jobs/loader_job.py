"""A job whose data comes from workers that live as long as it does, as a DataLoader's do, and both compile; run under a toolchain's own
Python, with the plug-in.

    <toolchain>/bin/python loader_job.py CONTEXT FIRST

CONTEXT is multiprocessing's: fork, spawn or forkserver; FIRST the number of the first kernel. Prints an object of JSON: each process's report, the job's own first.
"""

import json
import multiprocessing
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kernels"))

import catalog  # noqa: E402
import triton  # noqa: E402

WORKERS = 3
ROUNDS = 2


def compile_kernel(number):
    """Each number is a kernel of its own."""
    instance = next(one for one in catalog.instances() if one.name == "softmax")
    triton.compile(catalog.ast_source(instance, "cuda"), target=catalog.gpu_target("cuda:90"),
                   options={**instance.options_for("cuda"), "num_stages": int(sys.argv[2]) + number})


def report():
    import kiln
    return vars(kiln.report())


def work(indices, batches):
    """Until there is no more: what a DataLoader's worker does."""
    for number in iter(indices.get, None):
        compile_kernel(number)
        batches.put(number)
    batches.put(report())


def main():
    context = multiprocessing.get_context(sys.argv[1])
    compile_kernel(0)
    batches, taken = context.Queue(), []
    indices = [context.Queue() for _ in range(WORKERS)]
    workers = [context.Process(target=work, args=(mine, batches), daemon=True) for mine in indices]
    for worker in workers:
        worker.start()
    # The one that pins memory.
    taker = threading.Thread(target=lambda: taken.extend(batches.get() for _ in range(WORKERS * (ROUNDS + 1))))
    taker.start()
    for turn in range(ROUNDS):
        for index, mine in enumerate(indices):
            mine.put(1 + turn * (WORKERS + 1) + index)
        compile_kernel((turn + 1) * (WORKERS + 1))
    for mine in indices:
        mine.put(None)
    taker.join()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * WORKERS
    print(json.dumps([report(), *(one for one in taken if isinstance(one, dict))]))


if __name__ == "__main__":
    main()
