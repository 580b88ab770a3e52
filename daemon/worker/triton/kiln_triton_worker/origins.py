"""Where the arguments of a module's blocks come from in the Python source.

MLIR's text has no place for that in a loop: read again, they come from where they stand in the text. Whoever has the module itself, as the
plug-in for Triton has, writes it behind the text, in comments (client/python/kiln/_plugin/ttir_text.py). Here it is put back, as in what
`kiln reproduce` writes (client/cli/commands/reproducer_scripts.cc). All three have to go through the blocks in the same order.
"""

import contextlib
import os

from kiln_triton_worker.diagnosis import classify
from kiln_triton_worker.failure import Failure
from kiln_triton_worker.source_text import SOURCE_STEM

_BEGIN = "\n// The arguments of its blocks come from:\n"
_COMMENT = "// "
_PATH = SOURCE_STEM + "origins"


def put_back_origins(ir, context, module, text, output):
    """Leaves alone a module whose text has no such comments. Failure where they do not fit it."""
    origins = _written(text)
    if not origins:
        return
    arguments = _arguments(module)
    if len(arguments) != len(origins):
        raise _refusal(f"they are {len(origins)}, and its blocks have {len(arguments)} arguments")
    if not all(hasattr(argument, "set_loc") for argument in arguments):
        raise Failure("invalid_argument", "parse", "this version of Triton cannot put back where the arguments of the module's blocks come "
                      "from: remove the comments behind the module that say so, or take Triton 3.5 or later")
    for argument, location in zip(arguments, _read(ir, context, origins, output)):
        argument.set_loc(location)


def _written(text):
    _, begin, comments = text.replace("\r\n", "\n").rpartition(_BEGIN)
    lines = comments.rstrip().split("\n") if begin else []
    if not all(line.startswith(_COMMENT + "loc(") for line in lines):
        raise _refusal("there is something else among them")
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


def _read(ir, context, origins, output):
    """As many locations. Python can ask operations alone for theirs, so each is that of one."""
    try:
        with open(_PATH, "w", encoding="utf-8") as file:
            file.write("module {\n" + "".join(f"arith.constant true {origin}\n" for origin in origins) + "}\n")
        bearers = ir.parse_mlir_module(_PATH, context)
    except Exception as error:
        failure = classify(error, "parse", output)
        if not failure.deterministic:
            raise failure from None
        raise _refusal(f"no. {max(failure.line - 1, 1)} cannot be read ({failure})") from None
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
        raise _refusal("there is something else among them")
    return locations


def _refusal(why):
    return Failure("invalid_argument", "parse", "the comments behind the module that say where the arguments of its blocks come from do not "
                   f"fit it: {why}; remove them, or send text and comments as they were")
