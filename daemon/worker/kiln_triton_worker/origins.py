"""Where the arguments of a module's blocks come from in the Python source.

MLIR's text has no place for that in a loop: read again, they come from where they stand in the text. Whoever has the module itself, as the
plug-in for Triton has, writes it behind the text, in comments (client/python/kiln/_plugin/lowered.py), and here it is put back.
"""

import os

from kiln_triton_worker.failure import Failure

_BEGIN = "\n// The arguments of its blocks come from:\n"
_LINE = "// loc("


def put_back(ir, context, module, text, path):
    """Leaves alone what has no such comments. `path`: a file to make and remove. Failure where they do not fit the module."""
    _, begin, lines = text.rpartition(_BEGIN)
    if not begin:
        return
    written = lines.removesuffix("\n").split("\n")
    if not all(line.startswith(_LINE) for line in written):
        raise _refusal("there is something else among them")
    arguments = _arguments(module)
    if len(arguments) != len(written):
        raise _refusal(f"they are {len(written)}, and its blocks have {len(arguments)} arguments")
    if not all(hasattr(argument, "set_loc") for argument in arguments):
        raise _refusal("this version of Triton cannot put them back")
    with open(path, "w", encoding="utf-8") as file:
        # One can be had of an operation alone.
        file.write("module {\n" + "".join(f"arith.constant true {line.removeprefix('// ')}\n" for line in written) + "}\n")
    try:
        bearers = ir.parse_mlir_module(path, context)
    except Exception:
        raise _refusal("one cannot be read") from None
    finally:
        os.unlink(path)
    bearers.context = context
    locations = []

    def visit(operation):
        if operation.get_num_results() == 1:
            locations.append(operation.get_result(0).get_loc())

    bearers.walk(visit)
    if len(locations) != len(arguments):
        raise _refusal("there is something else among them")
    for argument, location in zip(arguments, locations):
        argument.set_loc(location)


def _arguments(module):
    found, seen = [], set()

    def visit(operation):
        block = operation.get_block()
        if block is not None and block.id() not in seen:
            seen.add(block.id())
            found.extend(block.arg(i) for i in range(block.get_num_arguments()))

    module.walk(visit)
    return found


def _refusal(why):
    return Failure("invalid_argument", "parse", "the comments behind the module that say where the arguments of its blocks come from were "
                   f"written for another: {why}; remove them, or send text and comments as they were")
