"""Prints modules of Triton IR as MLIR's generic form, after Triton has parsed and verified them.

    <toolchain>/bin/python generic_form.py FILE…

A line of JSON for each: {"file", "text"}, or {"file", "error"}. Triton's Python bindings tell nothing of attributes and regions; the generic
form tells all, and has one syntax for every operation.
"""

import json
import sys

from triton._C.libtriton import ir


def generic_form(path):
    context = ir.context()
    ir.load_dialects(context)
    module = ir.parse_mlir_module(path, context)
    if not module.verify():
        raise RuntimeError("Triton refuses the module")
    # MLIR prints an operation that breaks a rule in the generic form. A module has no attributes without a dialect.
    module.set_attr("generic", ir.builder(context).get_bool_attr(True))
    return module.str_nodebug()


for path in sys.argv[1:]:
    try:
        answer = {"file": path, "text": generic_form(path)}
    except RuntimeError as error:
        answer = {"file": path, "error": str(error)}
    print(json.dumps(answer))
