"""No file of the machine comes into a binary: the assembler for AMD includes what inline assembly names, where it can read it."""

import json

import pytest

from places import TOOLCHAIN

SECRET = "words that stand in this file alone"
SOURCE = """module {{
  tt.func public @k(%x: !tt.ptr<i32>) {{
    %c = arith.constant 1 : i32
    %r = tt.elementwise_inline_asm {assembly} {{constraints = "=v,v", packed_element = 1 : i32, pure = true}} %c : i32 -> i32
    tt.store %x, %r : !tt.ptr<i32>
    tt.return
  }}
}}
"""
# In all of them the assembler comes to see .incbin. Of the last three the IR has no such word.
SPELLINGS = {
    "plain": '.incbin "{file}"',
    "capitals": '.INCBIN "{file}"',
    "dialect": '.inc$(bin$|x$) "{file}"',
    "macro": '.macro m x\n.\\x "{file}"\n.endm\nm incbin',
    "pieces": '.macro m x y\n\\x\\y "{file}"\n.endm\nm . incbin',
}


def source(directive):
    assembly = f'.section .rodata.x,"a"\n{directive}\n.text\nv_mov_b32 $0, $1'
    escapes = {"\\": "\\\\", '"': "\\22", "\n": "\\0A"}
    return SOURCE.format(assembly='"' + "".join(escapes.get(one, one) for one in assembly) + '"')


@pytest.fixture
def ask(tmp_path):
    """Sends a source to a daemon, and gives its answer and the binary."""

    def send(daemon, text, target="hip:gfx942"):
        request = tmp_path / "request.jsonl"
        request.write_text(json.dumps({"name": "k", "target": target, "source": text}) + "\n")
        answer, *_ = daemon.kiln("compile", "--requests", request, "--json", "-o", tmp_path / "out").objects()
        binaries = [path.read_bytes() for path in (tmp_path / "out").glob("k.*") if path.suffix in (".hsaco", ".cubin")]
        return answer, b"".join(binaries)

    return send


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    return path


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_jail_keeps_the_assembler_from_it(daemon, ask, secret, spelling):
    answer, binary = ask(daemon, source(SPELLINGS[spelling].format(file=secret)))
    assert SECRET.encode() not in binary
    assert answer["outcome"] == "failed" and SECRET not in json.dumps(answer), answer
    assert "Could not find incbin file" in json.dumps(answer), answer


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_assembler_understands_each_spelling(daemon, ask, spelling):
    """Or the jail would not be what keeps it from a file."""
    readable = next((TOOLCHAIN / "lib").glob("python*/site-packages/triton/errors.py"))
    answer, binary = ask(daemon, source(SPELLINGS[spelling].format(file=readable)))
    assert answer["outcome"] == "compiled", answer
    assert readable.read_bytes() in binary


def test_an_included_file_is_not_quoted_in_a_complaint(daemon, ask, secret):
    answer, _ = ask(daemon, source(f'.include "{secret}"'))
    assert answer["outcome"] == "failed" and SECRET not in json.dumps(answer), answer


def test_the_same_assembly_without_a_file_compiles(daemon, ask):
    answer, binary = ask(daemon, source(".long 1"))
    assert answer["outcome"] == "compiled" and binary, answer


@pytest.mark.slow
def test_without_a_jail_nothing_for_amd_is_compiled(first_daemon, ask, secret, tmp_path):
    without = first_daemon.beside(tmp_path, KILN_WORKERS_JAIL="off")
    with without as daemon:
        # Again and again: that there is no jail is held against no kernel.
        answers = [ask(daemon, source(f'.incbin "{secret}"')) for _ in range(3)]
        plain, _ = ask(daemon, source(".long 1"))
        cuda, binary = ask(daemon, "module { tt.func public @k(%x: !tt.ptr<i32>) { tt.return } }\n", target="cuda:90")
    for answer, made in [*answers, (plain, b"")]:
        assert answer["code"] == "FAILED_PRECONDITION" and "in a jail only" in answer["error"], answer
        assert not made
    assert cuda["outcome"] == "compiled" and binary, cuda
