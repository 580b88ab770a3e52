"""From a request to the outputs of its stages."""

import contextlib
import io
import json
import os
import time

from kiln_triton_worker.assembler import Assemblers
from kiln_triton_worker.diagnosis import classify, parse_advice, pass_advice
from kiln_triton_worker.elf import is_whole_elf
from kiln_triton_worker.failure import Failure
from kiln_triton_worker.kernel import describe_kernel, parameters
from kiln_triton_worker.module import check_kind, entry_function, options_of_ttgir
from kiln_triton_worker.origins import OriginsError, put_back_origins
from kiln_triton_worker.output import Output
from kiln_triton_worker.source_text import SOURCE_STEM, decode
from kiln_triton_worker.toolchain import DISABLE_LINE_INFO, Toolchain, options_object
from kiln_triton_worker.usage import elapsed_micros


class Compiler:
    """Does what triton.compile does with a file of IR, without its cache: parse, options, then the backend's stages after `ttir`.

    One compile at a time, in the current directory.
    """

    def __init__(self):
        self.toolchain = Toolchain()
        self.assemblers = Assemblers(self.toolchain)
        self._contexts = {}  # by backend, for one compile each
        self._context_in_use = None  # until it is freed: a worker ends sooner without that

    def free_context(self):
        """Frees the last compile's context. Before Triton 3.6 it has threads, and a zygote may have none."""
        self._context_in_use = None

    def prepare(self, backend, architecture):
        """Makes what the next compile for that backend begins with: a fork finds it made."""
        self._contexts[backend] = self._context(self.toolchain.target(backend, architecture)[1])

    def _context(self, backend):
        context = self.toolchain.ir.context()
        self.toolchain.ir.load_dialects(context)
        backend.load_dialects(context)
        return context

    def compile(self, request, source):
        """(list of (stage, bytes, micros), description of the kernel) of `source`, which is bytes. Raises Failure."""
        output = Output()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            target, backend, defaults = self.toolchain.target(request["backend"], request["architecture"], request["warp_size"])
            if target.backend == "cuda" and "ptxas" in request:
                self.assemblers.use_ptxas(request["ptxas"])
            kind = request["kind"]
            started = time.perf_counter_ns()
            text = decode(source)
            module, name, signature = self._parse(backend, kind, source, text, output)
            given = dict(request["options"])
            if given.pop(DISABLE_LINE_INFO, False):
                os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # until the end: a worker compiles once
            if kind == "ttgir":
                given = {**given, **options_of_ttgir(module, target, given)}
            options = options_object(target, backend, defaults, given)
            metadata = {"target": target, **options.__dict__, **self.toolchain.environment(), "triton_version": self.toolchain.version}
            if kind == "ttgir" and hasattr(module, "get_tensordesc_metadata"):
                metadata["tensordesc_meta"] = module.get_tensordesc_metadata()  # otherwise the ttgir stage adds it
            stages = self.toolchain.stages(backend, options)
            done = [("parse", None, elapsed_micros(started))]
            for stage, run in list(stages.items())[list(stages).index(kind) + 1:]:
                started = time.perf_counter_ns()
                try:
                    module = run(module, metadata)
                    done.append((stage, to_bytes(module), elapsed_micros(started)))
                except Exception as error:
                    failure = classify(error, stage, output)
                    failure.args = (str(failure) + pass_advice(str(failure), target, self.toolchain.version),)
                    raise failure from None
                check_stage(stage, done[-1][1])
        kernel = describe_kernel(target, metadata, done, printed.getvalue())
        kernel["hidden_pointers"] = self.toolchain.hidden_pointers()
        kernel["parameters"] = parameters(text, name, signature, request.get("parameters"))
        kernel["assembler"] = self.assemblers.describe(target.backend, request["architecture"])
        kernel["toolchain_metadata"] = json.dumps(metadata, default=vars)
        return done, kernel

    def _parse(self, backend, kind, source, text, output):
        """(module, name of its kernel, types of that one's parameters)."""
        ir = self.toolchain.ir
        path = SOURCE_STEM + kind
        with open(path, "wb") as file:
            file.write(source)
        self._context_in_use = context = self._contexts.pop(backend.target.backend, None) or self._context(backend)
        try:
            module = ir.parse_mlir_module(path, context)
        except Exception as error:
            failure = classify(error, "parse", output)
            failure.args = (str(failure) + parse_advice(text, self.toolchain.version),)
            raise failure from None
        module.context = context
        check_kind(module, kind)
        try:
            put_back_origins(ir, module, text)
        except OriginsError as error:
            raise origins_failure(error, output) from None
        name, signature = entry_function(module)
        # ptxas looks at the files that the PTX names and writes their time into the line table. Equal text must give equal
        # binaries at any time, and for a file that is not there it writes zero.
        os.unlink(path)
        return module, name, signature


def origins_failure(error, output):
    """The Failure that an OriginsError amounts to."""
    why = str(error)
    if error.__cause__ is not None:
        cause = classify(error.__cause__, "parse", output)
        if not cause.deterministic:
            return cause
        why = f"no. {max(cause.line - 1, 1)} cannot be read ({cause})"
    return Failure("invalid_argument", "parse", "the comments behind the module that say where the arguments of its blocks come from do "
                   f"not fit it: {why}; remove them, or send text and comments as they were")


def check_stage(stage, content):
    if stage in ("cubin", "hsaco") and not is_whole_elf(content):
        # Where the disk is full ptxas ends well all the same, and leaves what there was room for.
        raise Failure("unavailable", stage, "the assembler ended well, but its output is cut off: is the disk full that "
                      "holds the workers' directories?", deterministic=False)


def to_bytes(stage_output):
    return bytes(stage_output) if isinstance(stage_output, (bytes, bytearray)) else str(stage_output).encode()
