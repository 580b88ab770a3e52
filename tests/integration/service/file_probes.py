"""Sources that try to learn of a file: whether it exists, when it was written, what stands in it."""

import os
import re

import kiln

TTIR_LOC = """module {{
  tt.func public @k(%x: !tt.ptr<i32>) {{
    %c = arith.constant {number} : i32 loc("{file}":1:1)
    tt.store %x, %c : !tt.ptr<i32> loc("{file}":1:1)
    tt.return loc("{file}":1:1)
  }} loc("{file}":1:1)
}}
"""
PTX_FILE = """.version 8.0
.target sm_80
.address_size 64
.file 1 "{file}"
.visible .entry k(.param .u64 p)
{{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  .loc 1 1 1
  st.global.u64 [%rd1], {number};
  ret;
}}
"""
INCBIN = """module {{ tt.func public @k(%x: !tt.ptr<i32>) {{
  %c = arith.constant {number} : i32
  %r = tt.elementwise_inline_asm ".incbin \\22{file}\\22" {{constraints = "=v,v", packed_element = 1 : i32, pure = true}} %c : i32 -> i32
  tt.store %x, %r : !tt.ptr<i32>
  tt.return }} }}
"""
INCLUDE = """#include "{file}"
extern "C" __global__ void k(int* x) {{ *x = {number}; }}
"""
# By its name: kind, target, text.
PROBES = {
    "loc": ("ttir", "cuda:90", TTIR_LOC),
    ".file": ("ptx", "cuda:80", PTX_FILE),
    ".incbin": ("ttir", "hip:gfx942", INCBIN),
    "#include": ("cuda", "cuda:90", INCLUDE),
}


def probe(client, name, file, number):
    """All that the daemon says to the probe of that file, the file's own name and digests left out. number: makes it a source that was never
    asked before."""
    kind, target, text = PROBES[name]
    try:
        artifact = client.compile(kiln.CompileRequest(text.format(file=file, number=number), target, kind=kind, cache="refresh"))
        said = b"".join(artifact.content(stage) for stage in artifact.stages)
    except kiln.CompilationError as error:
        said = f"{error} {error.diagnostics}".encode()
    # Line tables have the folder apart.
    return re.sub(rb"[0-9a-f]{12,}", b"", said.replace(os.path.basename(file).encode(), b"FILE"))
