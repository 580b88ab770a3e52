"""The kernels that the checks of libkiln_launch on a GPU need beside the example kernels.

    <toolchain>/bin/python tests/gpu/launch_kernels.py lower DIR cuda:90   writes DIR/<name>.ttir and DIR/requests.jsonl, as lower.py does
    <toolchain>/bin/python tests/gpu/launch_kernels.py compile DIR         compiles what stands there with Triton itself, one by one

`compile` prints how many seconds the 18 matmuls took, all together and the one that took longest; another kernel goes before them, so
that nothing of Triton's first compile is counted. Needs no GPU.
"""

import json
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "kernels" if (HERE / "kernels").is_dir() else HERE.parent / "kernels"))

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import catalog  # noqa: E402
import lower  # noqa: E402
import matmul  # noqa: E402
from declaration import Instance  # noqa: E402

# Tiles and warps, then depth and stages: 18 configurations of one matmul. The largest first: they take the compiler longest, and what
# is begun last keeps the whole batch waiting.
TILES = ((128, 256, 8), (128, 128, 8), (128, 128, 4), (128, 64, 4), (64, 128, 4), (64, 64, 4))
DEPTHS = ((64, 4), (64, 3), (32, 4))


@triton.jit
def device_descriptor_add(x_ptr, y_ptr, out_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    """Sums through descriptors that each program makes for itself, in global scratch memory."""
    x = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [BLOCK_ROWS, BLOCK_COLUMNS])
    y = tl.make_tensor_descriptor(y_ptr, [rows, columns], [columns, 1], [BLOCK_ROWS, BLOCK_COLUMNS])
    out = tl.make_tensor_descriptor(out_ptr, [rows, columns], [columns, 1], [BLOCK_ROWS, BLOCK_COLUMNS])
    row = tl.program_id(0) * BLOCK_ROWS
    column = tl.program_id(1) * BLOCK_COLUMNS
    out.store([row, column], x.load([row, column]) + y.load([row, column]))


def matmuls():
    for block_m, block_n, warps in TILES:
        for block_k, stages in DEPTHS:
            instance = matmul._matmul(block_m, block_n, block_k, {"num_warps": warps, "num_stages": stages})
            yield Instance(f"tuned_{instance.name}_w{warps}_s{stages}", instance.kernel, instance.parameters, instance.options)


def device_descriptors():
    pointers = {name: "*fp32:16" for name in ("x_ptr", "y_ptr", "out_ptr")}
    return Instance("device_descriptor_add", device_descriptor_add,
                    {**pointers, "rows": "i32", "columns": "i32:16", "BLOCK_ROWS": 16, "BLOCK_COLUMNS": 64})


def write(out, target):
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for instance in [device_descriptors(), *matmuls()]:
        name = catalog.case_name(instance, target)
        path = out / f"{name}.ttir"
        path.write_text(lower.lower(instance, target))
        lines.append({"name": name, "source_file": str(path), "kind": "ttir", "target": target, "options": instance.options,
                      "toolchain": catalog.TOOLCHAIN})
    (out / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def compile_serially(folder):
    requests = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    triton.knobs.cache.dir = tempfile.mkdtemp()
    seconds = []
    for request in requests:
        begin = time.monotonic()
        triton.compile(request["source_file"], target=catalog.gpu_target(request["target"]), options=request["options"])
        seconds.append(time.monotonic() - begin)
    matmuls_alone = seconds[1:]
    print(sum(matmuls_alone), max(matmuls_alone))


if __name__ == "__main__":
    {"lower": write, "compile": compile_serially}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:])
