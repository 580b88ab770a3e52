"""The compiler without Kiln: what every cold row of the table is measured against.

Run with a toolchain's own Python. Reads request files' lines (`source_file`, `target`, `options`) from a JSON list on standard input and
compiles each through `triton.compile`, as a job does, with an empty cache of its own.

    bare_triton.py warm    serves batches: one JSON list a line in, one JSON object a line out, in one warm process
    bare_triton.py once    compiles one list in a fresh process and exits
    bare_triton.py share   serves lists of which several such processes take items one by one, until none is left
"""

import json
import os
import sys
import tempfile
import time


def compile_one(item):
    import triton
    from triton.backends.compiler import GPUTarget

    backend, arch = item["target"].split(":")
    warp_size = 32 if backend == "cuda" else 64
    target = GPUTarget(backend, int(arch) if backend == "cuda" else arch, warp_size)
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in item.get("options", {}).items()
    }
    return triton.compile(item["source_file"], target=target, options=options)


def timed(items):
    """Wall milliseconds of each compile."""
    result = []
    for item in items:
        begin = time.perf_counter()
        compile_one(item)
        result.append((time.perf_counter() - begin) * 1000)
    return result


def warm():
    for line in sys.stdin:
        print(json.dumps({"ms": timed(json.loads(line))}), flush=True)


def once():
    timed(json.load(sys.stdin))


def share():
    """Claims item N of a list by creating the file N: O_EXCL lets one process win."""
    for line in sys.stdin:
        request = json.loads(line)
        # Warm before the clock of the caller starts.
        timed(request["warm_up"])
        print("ready", flush=True)
        sys.stdin.readline()
        done = 0
        for number, item in enumerate(request["items"]):
            try:
                os.close(os.open(os.path.join(request["claims"], str(number)), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            compile_one(item)
            done += 1
        print(json.dumps({"compiled": done}), flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        {"warm": warm, "once": once, "share": share}[sys.argv[1]]()
