"""A kernel that every Triton since 3.5 parses, for warming up and for trying out architectures."""

import os
import resource

from kiln_triton_worker.failure import one_line

WARM_KERNEL = """module {
  tt.func public @warm(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %a = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %b = tt.addptr %a, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %c = tt.load %b : tensor<128x!tt.ptr<f32>>
    %d = arith.addf %c, %c : tensor<128xf32>
    %e = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %f = tt.addptr %e, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %f, %d : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""
WARM_TARGETS = (("cuda", "90"), ("cuda", "100"), ("hip", "gfx942"))


def request_for(backend, architecture):
    return {"kind": "ttir", "backend": backend, "architecture": architecture, "warp_size": 0, "options": {}}


def warm(compiler, backends):
    """{"cuda:90": ""} with the error where one failed: that costs its first compile some time, nothing more. `backends`: those for
    which this toolchain compiles at all. Triton 3.4.0 brings a linker for AMD along that fails and leaves its threads behind."""
    results = {}
    for backend, architecture in WARM_TARGETS:
        if backend not in backends:
            continue
        try:
            compiler.compile(request_for(backend, architecture), WARM_KERNEL.encode())
            compiler.prepare(backend, architecture)
            results[f"{backend}:{architecture}"] = ""
        except Exception as error:
            results[f"{backend}:{architecture}"] = one_line(repr(error))
        finally:
            compiler.free_context()
    return results


def compiles(compiler, backend, architecture):
    """Whether WARM_KERNEL compiles. Tried in a child, since a compiler that does not know an architecture may abort."""
    pid = os.fork()
    if pid == 0:
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            compiler.compile(request_for(backend, architecture), WARM_KERNEL.encode())
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
