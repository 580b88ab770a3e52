"""A kernel with a loop, and where its variables come from, as Triton's plug-in writes it behind the text."""

LOOP = """module {
  tt.func public @k(%x: !tt.ptr<i32> loc("p.py":1:1), %n: i32) {
    %a = arith.constant 0 : i32
    %b = arith.constant 1 : i32
    %r = scf.for %i = %a to %n step %b iter_args(%s = %a) -> (i32) : i32 {
      %t = arith.addi %s, %i : i32
      scf.yield %t : i32
    }
    tt.store %x, %r : !tt.ptr<i32>
    tt.return
  }
}
"""
# Its four variables: the kernel's two, the loop's own, and the carried one.
ORIGINS = ['"x"("p.py":1:7)', "unknown", '"turn"("p.py":3:9)', 'callsite("sum"("q.py":8:9) at "p.py":4:5)']


def with_origins(origins):
    return LOOP + "// The arguments of its blocks come from:\n" + "".join(f"// loc({one})\n" for one in origins)
