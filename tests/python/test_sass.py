"""The stage `sass`: the CLI runs nvdisasm on the cubin that the daemon returns."""

import hashlib
import json
import shutil
import subprocess

import pytest

from daemon import Daemon
from places import TOOLCHAIN

pytestmark = [pytest.mark.one_case, pytest.mark.shared_daemon]

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p) {
	.reg .b64 %rd1;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [p];
	ld.global.f32 %f1, [%rd1];
	add.f32 %f2, %f1, %f1;
	st.global.f32 [%rd1], %f2;
	ret;
}
"""


def tool(name):
    (found,) = TOOLCHAIN.glob(f"lib/python3.*/site-packages/triton/backends/nvidia/bin/{name}")
    return found


def ask(daemon, folder, *arguments, target="cuda:90", ptxas="ptxas", text=PTX):
    folder.mkdir(exist_ok=True)
    (folder / "k.ptx").write_text(text)
    answer = daemon.kiln("compile", folder / "k.ptx", "--target", target, "--toolchain",
                         hashlib.sha256(tool(ptxas).read_bytes()).hexdigest(), "-o", folder / "out", "--json", *arguments)
    return answer.objects()[0]


def by_hand(cubin):
    return subprocess.run([tool("nvdisasm"), "--print-code", cubin], capture_output=True, check=True).stdout


def test_sass_is_the_text_that_nvdisasm_gives_by_hand(daemon, tmp_path):
    for round_ in ("compiled", "hit"):
        folder = tmp_path / round_
        answer = ask(daemon, folder, "--emit", "cubin,sass")
        assert answer["outcome"] == round_, answer
        sass = (folder / "out" / "k.sass").read_bytes()
        assert b"FADD" in sass and sass == by_hand(folder / "out" / "k.cubin")
        told = {one["stage"]: one for one in json.loads((folder / "out" / "k.json").read_text())["stages"]}
        assert told["sass"]["digest"] == hashlib.sha256(sass).hexdigest() and told["sass"]["size_bytes"] == len(sass)


def test_sass_is_alone_where_nothing_else_is_wanted(daemon, tmp_path):
    assert ask(daemon, tmp_path, "--emit", "sass")["outcome"] in ("compiled", "hit")
    assert sorted(path.suffix for path in (tmp_path / "out").glob("k.*")) == [".json", ".sass"]


def test_sass_is_neither_in_the_key_nor_kept(daemon, tmp_path):
    with_it = ask(daemon, tmp_path / "one", "--emit", "sass", text=PTX + "// one\n")
    assert with_it["outcome"] == "compiled"
    without = ask(daemon, tmp_path / "two", text=PTX + "// one\n")
    assert (without["key"], without["outcome"]) == (with_it["key"], "hit")
    told = daemon.kiln("inspect", with_it["key"], "--json").objects()[0]
    assert "sass" not in json.dumps(told["stages"]) and "nvdisasm" not in json.dumps(told["provenance"])


@pytest.mark.slow
def test_tritons_kernels_of_both_vendors_in_one_file(daemon, run_with_triton, tmp_path):
    run_with_triton("lower.py", "--kernels", "softmax", "--targets", "cuda:90,hip:gfx942", "--out", tmp_path)
    answer = daemon.kiln("compile", "--requests", tmp_path / "requests.jsonl", "--emit", "cubin,sass,amdgcn", "-o", tmp_path / "out")
    assert answer.code == 0, answer
    (sass,) = (tmp_path / "out").glob("*.sass")
    assert sass.read_bytes() == by_hand(sass.with_suffix(".cubin"))
    assert len(list((tmp_path / "out").glob("*.amdgcn"))) == 1


def test_get_makes_it_of_the_stored_cubin(daemon, tmp_path):
    key = ask(daemon, tmp_path, "--emit", "cubin")["key"]
    got = daemon.kiln("get", key, "--stage", "sass", "-o", tmp_path / "k.sass")
    assert got.code == 0 and (tmp_path / "k.sass").read_bytes() == by_hand(tmp_path / "out" / "k.cubin"), got


def test_an_nvdisasm_that_fails_or_is_absent_is_named(daemon, tmp_path):
    assert "exit status 1" in ask(daemon, tmp_path, "--emit", "sass", "--nvdisasm", "/bin/false")["error"]
    assert "/no/nvdisasm" in ask(daemon, tmp_path, "--emit", "sass", "--nvdisasm", "/no/nvdisasm")["error"]


def test_amds_kernels_have_none(daemon, run_with_triton, tmp_path):
    run_with_triton("lower.py", "--kernels", "softmax", "--targets", "hip:gfx942", "--out", tmp_path)
    answer = daemon.kiln("compile", "--requests", tmp_path / "requests.jsonl", "--emit", "sass", "--json").objects()[0]
    assert answer["code"] == "INVALID_ARGUMENT" and "amdgcn" in answer["error"], answer


def test_an_architecture_unknown_to_the_disassembler_is_reported(daemon, tmp_path):
    answer = ask(daemon, tmp_path, "--emit", "sass", target="cuda:121a", ptxas="ptxas-blackwell",
                 text=PTX.replace("8.0", "8.8").replace("sm_80", "sm_121a"))
    assert answer["code"] == "FAILED_PRECONDITION", answer
    assert "SM121a" in answer["error"] and "nvdisasm" in answer["error"]


def test_a_source_that_does_not_compile_fails_as_ever(daemon, tmp_path):
    answer = ask(daemon, tmp_path, "--emit", "sass", text=PTX.replace("add.f32", "nonsense"))
    assert answer["code"] == "INVALID_ARGUMENT" and "nonsense" in answer["error"], answer


@pytest.fixture
def toolkit(tmp_path):
    """A CUDA toolkit of nothing but a ptxas, and no other directory with toolchains."""
    (tmp_path / "toolkit" / "bin").mkdir(parents=True)
    shutil.copy(tool("ptxas"), tmp_path / "toolkit" / "bin")
    return tmp_path / "toolkit"


@pytest.fixture
def daemon_with_ptxas_alone(programs, toolkit, tmp_path):
    with Daemon(programs, tmp_path, environment={"KILN_TOOLCHAIN_DIRECTORIES": str(toolkit), "PATH": "/usr/bin:/bin"}) as running:
        yield running


def test_without_a_disassembler_it_says_what_to_install(daemon_with_ptxas_alone, tmp_path):
    answer = ask(daemon_with_ptxas_alone, tmp_path / "k", "--emit", "cubin,sass")
    assert answer["code"] == "FAILED_PRECONDITION", answer
    assert "nvdisasm" in answer["error"] and "kiln toolchain add" in answer["error"]
    assert ask(daemon_with_ptxas_alone, tmp_path / "k", "--emit", "cubin")["outcome"] == "compiled"
