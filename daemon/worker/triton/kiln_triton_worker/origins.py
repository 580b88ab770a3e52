"""Puts back where the arguments of a module's blocks come from in the Python source.

MLIR's text has no place for these locations. The plug-in for Triton writes them behind the text, in comments
(client/python/kiln/_plugin/ttir_text.py). Both modules go through the blocks in the same order.

`kiln reproduce` copies this file: it imports nothing of the worker.
"""

import contextlib
import os

_BEGIN = "\n// The arguments of its blocks come from:\n"
_COMMENT = "// "
_PATH = "kernel.origins"


class OriginsError(ValueError):
    """The comments do not fit the module. `__cause__` is what Triton raised while it read them, or None."""


def put_back_origins(ir, module, text):
    """Does nothing where the text has no such comments. OriginsError where they do not fit the module."""
    origins = _written(text)
    if not origins:
        return
    arguments = _arguments(module)
    if len(arguments) != len(origins):
        raise OriginsError(f"they are {len(origins)}, and its blocks have {len(arguments)} arguments")
    if not all(hasattr(argument, "set_loc") for argument in arguments):
        raise OriginsError("this version of Triton cannot set the locations of arguments; take Triton 3.5 or later")
    for argument, location in zip(arguments, _read(ir, module.context, origins)):
        argument.set_loc(location)


def _written(text):
    _, begin, comments = text.replace("\r\n", "\n").rpartition(_BEGIN)
    lines = comments.rstrip().split("\n") if begin else []
    if not all(line.startswith(_COMMENT + "loc(") for line in lines):
        raise OriginsError("there is something else among them")
    return [line[len(_COMMENT):] for line in lines]


def _arguments(module):
    found, seen = [], set()

    def visit(operation):
        block = operation.get_block()
        if block is not None and block.id() not in seen:
            seen.add(block.id())
            found.extend(block.arg(i) for i in range(block.get_num_arguments()))

    module.walk(visit)
    return found


def _read(ir, context, origins):
    """The locations. Python can only ask operations for their locations, so each origin becomes the location of one operation."""
    try:
        with open(_PATH, "w", encoding="utf-8") as file:
            file.write("module {\n" + "".join(f"arith.constant true {origin}\n" for origin in origins) + "}\n")
        bearers = ir.parse_mlir_module(_PATH, context)
    except Exception as error:
        raise OriginsError("they cannot be read") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(_PATH)
    bearers.context = context
    locations = []

    def visit(operation):
        if operation.get_num_results() == 1:
            locations.append(operation.get_result(0).get_loc())

    bearers.walk(visit)
    if len(locations) != len(origins):
        raise OriginsError("there is something else among them")
    return locations
