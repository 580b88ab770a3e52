"""What Triton itself makes of the example kernels, in this process: the golden test's truth.

    <toolchain>/bin/python tests/kernels/reference.py --out DIR [--requests FILE] [--part I/N]
    <toolchain>/bin/python tests/kernels/reference.py --out DIR --assemble MADE --times N

Without --requests each kernel is compiled as a job would, from its Python function. With --requests each request's text is
compiled instead, under the relative name kernel.ttir. Writes DIR/<name>.<stage> and DIR/<name>.json, Triton's metadata.
With --assemble, ptxas runs N times on the PTX that an earlier run has written to MADE: DIR/<number>/<name>.cubin.
As in a worker, ptxas finds no source file, whose time and size it would write into the line table.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

import triton
from triton.backends.compiler import Language
from triton.compiler.compiler import make_backend

import catalog

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "testing/jobs"))
import blind_ptxas  # noqa: E402, F401
import tritons_key  # noqa: E402

sys.path.pop()


def _write(out, name, compiled):
    for stage, content in compiled.asm.items():
        path = out / f"{name}.{stage}"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
    # Triton before 3.5 does not say where its metadata is.
    for file, path in getattr(compiled, "metadata_group", {}).items():
        if file.endswith(".json"):
            (out / f"{name}.json").write_text(pathlib.Path(path).read_text())


def _from_functions(arguments):
    for instance, target in catalog.chosen_cases(arguments):
        gpu = catalog.gpu_target(target)
        source = catalog.ast_source(instance, gpu.backend)
        yield catalog.case_name(instance, target), source, gpu, instance.options_for(gpu.backend)


def _from_requests(path, arguments):
    chosen = {catalog.case_name(instance, target) for instance, target in catalog.chosen_cases(arguments)}
    requests = map(json.loads, pathlib.Path(path).read_text().splitlines())
    for request in (request for request in requests if request["name"] in chosen):
        # The MLIR parser takes the file's name for the location of what carries none, so the name must be a fixed one.
        pathlib.Path("kernel.ttir").write_text(pathlib.Path(request["source_file"]).read_text())
        yield request["name"], "kernel.ttir", catalog.gpu_target(request["target"]), request["options"]


def _assemble(made, times, out, arguments):
    for instance, target in catalog.chosen_cases(arguments):
        name = catalog.case_name(instance, target)
        backend = make_backend(catalog.gpu_target(target))
        stages = {}
        backend.add_stages(stages, backend.parse_options(instance.options_for("cuda")), Language.TRITON)
        for number in range(times):
            cubin = stages["cubin"]((made / f"{name}.ptx").read_text(), json.loads((made / f"{name}.json").read_text()))
            (out / str(number)).mkdir(exist_ok=True)
            (out / str(number) / f"{name}.cubin").write_bytes(cubin)


def _part(work, part):
    index, count = map(int, part.split("/"))
    # Every count-th: neighbours are the same kernel for other targets and cost about the same.
    return (item for position, item in enumerate(work) if position % count == index)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    catalog.add_arguments(parser)
    parser.add_argument("--requests", help="compile these requests' text instead of the Python functions")
    parser.add_argument("--part", default="0/1", help="I/N: only the I-th of N equal parts")
    parser.add_argument("--assemble", type=pathlib.Path, help="run ptxas alone, on what was made here")
    parser.add_argument("--times", type=int, default=1, help="how often to assemble")
    arguments = parser.parse_args()
    if arguments.out is None:
        parser.error("--out is missing")

    out = pathlib.Path(arguments.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if arguments.assemble:
        return _assemble(arguments.assemble, arguments.times, out, arguments)
    requests = pathlib.Path(arguments.requests).resolve() if arguments.requests else None
    with tempfile.TemporaryDirectory() as private:
        os.environ["TRITON_CACHE_DIR"] = os.path.join(private, "cache")
        tritons_key.leave_out()
        os.chdir(private)
        work = _from_requests(requests, arguments) if requests else _from_functions(arguments)
        for name, source, gpu, options in _part(work, arguments.part):
            _write(out, name, triton.compile(source, target=gpu, options=options))
        os.chdir("/")


if __name__ == "__main__":
    main()
