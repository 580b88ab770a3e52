"""Links each function of libdevice with a caller, as Triton does and as Kiln's workers do, and says where that differs.

    <toolchain>/bin/python libdevice_links.py STEP SIZE

takes each STEP-th function, and those that call another one. Compares each as it is linked, and groups of SIZE as they are optimised for
sm_90 and as PTX. Prints the number of functions, and the names of those that differ.
"""

import itertools
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


def signatures_of(names):
    """By name, (type of the result, types of the parameters) in MLIR's words."""
    made, *_kept = module_of("module {\n" + "".join(f"llvm.func @{name}()\n" for name in names) + "}")
    stock(made, [LIBDEVICE])
    text = str(made)
    signatures = {}
    for name in names:
        result, parameters = re.search(SIGNATURE.format(name), text, re.MULTILINE).groups()
        named = [parameter.split()[0] for parameter in parameters.split(",") if parameter]
        signatures[name] = [TYPES.get(each, each) for each in (result, *named)]
    return signatures


def linked(link, signatures):
    """A module with a caller of each function, and what has to outlive it."""
    text = ""
    for name, (result, *parameters) in signatures.items():
        given = ", ".join(f"%{number}: {kind}" for number, kind in enumerate(parameters))
        passed = ", ".join(f"%{number}" for number in range(len(parameters)))
        kinds = ", ".join(parameters)
        returned, value = ("", "") if result == "void" else (f" -> {result}", f" %r : {result}")
        text += f"""
  llvm.func @{name}({kinds}){returned}
  llvm.func @call{name}({given}){returned} {{
    {"%r = " if value else ""}llvm.call @{name}({passed}) : ({kinds}) -> {result if value else "()"}
    llvm.return{value}
  }}"""
    made, *kept = module_of(f"module {{{text}\n}}")
    link(made, [LIBDEVICE])
    return made, kept


def linked_text(link, signatures):
    made, _kept = linked(link, signatures)
    return str(made)


def optimised(link, signatures):
    """As it is optimised, and as PTX."""
    made, _kept = linked(link, signatures)
    llvm.optimize_module(made, llvm.OPTIMIZE_O3)
    text = str(made)
    return text, assembled(text)


def assembled(text):
    arguments = text, "nvptx64-nvidia-cuda", "sm_90a", "+ptx80", [], True, False
    try:
        return llvm.translate_to_asm(*arguments)
    except TypeError:  # after 3.6 it has one more
        return llvm.translate_to_asm(*arguments, False)


def main():
    step, size = map(int, sys.argv[1:])
    llvm.init_targets()
    assert in_part is not stock
    names = list(defined_functions(pathlib.Path(LIBDEVICE).read_bytes()))
    chosen = sorted({*names[::step], *CALLED} - {*CALLED.values()})
    print(len(chosen))
    signatures = signatures_of(chosen)
    for name in chosen:
        one = {name: signatures[name]}
        text = linked_text(stock, one)
        assert "define internal" in text, name
        if linked_text(in_part, one) != text:
            print(name)
    left = iter(signatures.items())
    while group := dict(itertools.islice(left, size)):
        if optimised(in_part, group) != optimised(stock, group):
            print(*group)


if __name__ == "__main__":
    main()
