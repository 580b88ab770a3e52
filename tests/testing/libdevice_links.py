"""Links each function of libdevice with a caller, as Triton does and as Kiln's workers do, and says where that differs.

    <toolchain>/bin/python libdevice_links.py FIRST STEP

takes each STEP-th function from the FIRST on, and those that call another one. Prints the number of functions, and a line for each that
differs: as it is linked, optimised for sm_90, or as PTX.
"""

import pathlib
import re
import sys

from triton._C import libtriton

HERE = pathlib.Path(__file__).resolve()
sys.path += [str(HERE.parent), str(HERE.parents[2] / "daemon" / "worker" / "triton")]

from bitcode_functions import defined_functions
from kiln_triton_worker.libdevice_functions import CALLED

ir, llvm, nvidia = libtriton.ir, libtriton.llvm, libtriton.nvidia
stock = llvm.link_extern_libs

from kiln_triton_worker.toolchain import Toolchain

LIBDEVICE = f"{Toolchain().directory}/backends/nvidia/lib/libdevice.10.bc"
in_part = llvm.link_extern_libs
TYPES = {"float": "f32", "double": "f64", "ptr": "!llvm.ptr"}
SIGNATURE = r"^define internal (?:\w+ )*?(\w+) @{}\(([^)]*)\)"


def module_of(text):
    """An LLVM module, with what has to outlive it."""
    path = pathlib.Path("caller.mlir")
    path.write_text(text)
    mlir = ir.context()
    ir.load_dialects(mlir)
    nvidia.load_dialects(mlir)
    parsed = ir.parse_mlir_module(str(path), mlir)
    parsed.context = mlir
    context = llvm.context()
    made = llvm.to_module(parsed, context)
    llvm.attach_datalayout(made, "nvptx64-nvidia-cuda", "sm_90a", "+ptx80")
    nvidia.set_nvvm_reflect_ftz(made)
    return made, context, parsed


def signature_of(name):
    """(type of the result, types of the parameters) in MLIR's words."""
    made, *_kept = module_of(f"module {{ llvm.func @{name}() }}")
    stock(made, [LIBDEVICE])
    result, parameters = re.search(SIGNATURE.format(name), str(made), re.MULTILINE).groups()
    named = [parameter.split()[0] for parameter in parameters.split(",") if parameter]
    return [TYPES.get(each, each) for each in (result, *named)]


def linked(link, text):
    """The module as it is linked, optimised, and as PTX."""
    made, *_kept = module_of(text)
    link(made, [LIBDEVICE])
    texts = [str(made)]
    llvm.optimize_module(made, llvm.OPTIMIZE_O3)
    texts.append(str(made))
    return [*texts, assembled(texts[-1])]


def assembled(text):
    arguments = text, "nvptx64-nvidia-cuda", "sm_90a", "+ptx80", [], True, False
    try:
        return llvm.translate_to_asm(*arguments)
    except TypeError:  # after 3.6 it has one more
        return llvm.translate_to_asm(*arguments, False)


def main():
    first, step = map(int, sys.argv[1:])
    llvm.init_targets()
    assert in_part is not stock
    names = list(defined_functions(pathlib.Path(LIBDEVICE).read_bytes()))
    chosen = sorted({*names[first::step], *CALLED} - {*CALLED.values()})
    print(len(chosen))
    for name in chosen:
        result, *parameters = signature_of(name)
        given = ", ".join(f"%{number}: {kind}" for number, kind in enumerate(parameters))
        passed = ", ".join(f"%{number}" for number in range(len(parameters)))
        kinds = ", ".join(parameters)
        returned, value = ("", "") if result == "void" else (f" -> {result}", f" %r : {result}")
        text = f"""module {{
  llvm.func @{name}({kinds}){returned}
  llvm.func @caller({given}){returned} {{
    {"%r = " if value else ""}llvm.call @{name}({passed}) : ({kinds}) -> {result if value else "()"}
    llvm.return{value}
  }}
}}"""
        stock_texts = linked(stock, text)
        assert "define internal" in stock_texts[0], name
        if linked(in_part, text) != stock_texts:
            print(name)


if __name__ == "__main__":
    main()
