"""Lowers the example kernels to Triton IR and writes them as requests for `kiln compile --requests`.

    <toolchain>/bin/python tests/kernels/lower.py --targets cuda:80,hip:gfx942 --out DIR

writes DIR/<kernel>-<target>.ttir, the module after Triton's `ttir` stage, and DIR/requests.jsonl, which names these files.
With --list it writes nothing and prints what it would lower, as lines of JSON. Needs no GPU. Triton's front end knows the target (other intrinsics, other rewriting), so each target gets its own text.
"""

import argparse
import inspect
import json
import pathlib
import sys

import catalog  # says so where there is no Triton

from triton._C.libtriton import ir
from triton.compiler.compiler import make_backend


def _as_the_plug_in_writes_it(module):
    # Only here: GPU machines have the kernels without the package.
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "client/python/kiln/_plugin"))
    from ttir_text import text_of
    sys.path.pop()
    return text_of(module)


TEXTS = {"mlir": str, "plug-in": _as_the_plug_in_writes_it, "none": lambda module: module.str_nodebug()}


def lower(instance, target, locations="mlir"):
    """The text of the module after the `ttir` stage."""
    gpu = catalog.gpu_target(target)
    backend = make_backend(gpu)
    options = backend.parse_options(instance.options_for(gpu.backend))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = catalog.ast_source(instance, gpu.backend)
    stages = {}
    backend.add_stages(stages, options, source.language)
    # Triton before 3.5 does not want to know.
    target = (gpu,) if "target" in inspect.signature(source.make_ir).parameters else ()
    module = source.make_ir(
        *target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    module = stages["ttir"](module, {})
    return TEXTS[locations](module)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    catalog.add_arguments(parser)
    parser.add_argument("--locations", choices=TEXTS, default="mlir",
                        help="in the text: those that MLIR prints (default), all that the plug-in sends, or none")
    parser.add_argument("--list", action="store_true", help="only print the name, the kernel and the target of each")
    arguments = parser.parse_args()

    if arguments.list:
        for instance, target in catalog.chosen_cases(arguments):
            case = {"name": catalog.case_name(instance, target), "kernel": instance.name, "target": target}
            print(json.dumps(case))
        return
    if arguments.out is None:
        parser.error("--out is missing")
    out = pathlib.Path(arguments.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for instance, target in catalog.chosen_cases(arguments):
        name = catalog.case_name(instance, target)
        path = out / f"{name}.ttir"
        path.write_text(lower(instance, target, arguments.locations))
        request = {
            "name": name,
            "source_file": str(path),
            "kind": "ttir",
            "target": target,
            "options": instance.options_for(target.split(":")[0]),
            "toolchain": catalog.TOOLCHAIN,
        }
        lines.append(json.dumps(request) + "\n")
    # Last, so that a complete requests.jsonl means that every file it names is complete.
    (out / "requests.jsonl").write_text("".join(lines))
    print(f"{len(lines)} requests in {out / 'requests.jsonl'}")


if __name__ == "__main__":
    main()
