"""PTX through the daemon: a file, a request in a file of requests, and which ptxas assembles it."""

import hashlib
import json
import subprocess

import pytest

from elf import Elf
from places import TOOLCHAIN

pytestmark = pytest.mark.shared_daemon

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p)
.reqntid 64, 1, 1
{
	.reg .b64 %rd1;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [p];
	ld.global.f32 %f1, [%rd1];
	add.f32 %f2, %f1, %f1;
	st.global.f32 [%rd1], %f2;
	ret;
}
"""


@pytest.fixture(scope="module")
def ptxas():
    (found,) = TOOLCHAIN.glob("lib/python3.*/site-packages/triton/backends/nvidia/bin/ptxas")
    return found


@pytest.fixture(scope="module")
def digest(ptxas):
    return hashlib.sha256(ptxas.read_bytes()).hexdigest()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "kernel.ptx"
    path.write_text(PTX)
    return path


def test_the_cubin_is_the_one_that_ptxas_gives_by_hand(daemon, ptxas, digest, source, tmp_path):
    answer = daemon.kiln("compile", source, "--target", "cuda:90a", "--toolchain", digest, "-o", tmp_path / "out")
    assert answer.code == 0, answer
    subprocess.run([ptxas, "-v", "--gpu-name=sm_90a", source.name, "-o", "by-hand.cubin"], cwd=tmp_path, check=True)
    assert (tmp_path / "out" / "kernel.cubin").read_bytes() == (tmp_path / "by-hand.cubin").read_bytes()
    metadata = json.loads((tmp_path / "out" / "kernel.json").read_text())["metadata"]
    assert (metadata["name"], metadata["num_warps"], metadata["spill_bytes"]) == ("add", 2, 0)
    assert metadata["registers"] > 0


def test_a_request_in_a_file_and_its_options(daemon, digest, source, tmp_path):
    lines = [
        {"name": name, "kind": "ptx", "source_file": str(source), "target": "cuda:90", "toolchain": digest, **more}
        for name, more in {
            "plain": {},
            "again": {"options": {"device-debug": False}},
            "debug": {"options": {"device-debug": True}},
            "bounded": {"launch": {"maxnreg": 24}},
            "unknown": {"options": {"output-file": "/tmp/x"}},
            "wrong": {"options": {"opt-level": 17}},
        }.items()
    ]
    requests = tmp_path / "requests.jsonl"
    requests.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer = daemon.kiln("compile", "--requests", requests, "--json")
    answers = {one["name"]: one for one in answer.objects() if "name" in one}
    keys = [answers[name]["key"] for name in ("plain", "debug", "bounded")]
    assert None not in keys and len(set(keys)) == 3, answers
    # What equals the default is the same request.
    assert answers["again"]["key"] == answers["plain"]["key"]
    assert answers["unknown"]["code"] == answers["wrong"]["code"] == "INVALID_ARGUMENT"
    assert "opt-level" in answers["unknown"]["error"]  # lists those there are


def test_without_a_name_the_highest_version_compiles_it(daemon, source):
    answer = daemon.kiln("compile", source, "--target", "cuda:90", "--json")
    assert answer.code == 0, answer
    key = answer.objects()[0]["key"]
    told = daemon.kiln("inspect", key, "--json").objects()[0]
    assert told["toolchain"].startswith("ptxas==")
    versions = [line for line in daemon.log.read_text().splitlines() if 'toolchain found name="ptxas==' in line]
    highest = max(tuple(map(int, line.split('ptxas==')[1].split('"')[0].split("."))) for line in versions)
    assert told["toolchain"] == "ptxas==" + ".".join(map(str, highest))


def test_a_triton_does_not_assemble_and_says_so(daemon, source):
    answer = daemon.kiln("compile", source, "--target", "cuda:90", "--toolchain", "triton==3.6.0")
    assert answer.code == 1
    assert "does not compile ptx sources" in answer.out + answer.error


def test_tritons_own_ptx_gives_tritons_own_cubin(daemon, run_with_triton, digest, tmp_path):
    run_with_triton("lower.py", "--kernels", "softmax", "--targets", "cuda:90", "--out", tmp_path)
    answer = daemon.kiln("compile", "--requests", tmp_path / "requests.jsonl", "--emit", "ptx,cubin", "-o", tmp_path / "triton")
    assert answer.code == 0, answer
    (ptx,) = (tmp_path / "triton").glob("*.ptx")
    answer = daemon.kiln(
        "compile", ptx, "--target", "cuda:90a", "--option", "generate-line-info=true", "--toolchain", digest, "-o", tmp_path / "ptx")
    assert answer.code == 0, answer
    (cubin,) = (tmp_path / "ptx").glob("*.cubin")
    assert cubin.read_bytes() == ptx.with_suffix(".cubin").read_bytes()


@pytest.fixture(scope="module")
def other_ptxas(ptxas):
    return ptxas.with_name("ptxas-blackwell")


def without_lines(cubin):
    """By hand, ptxas writes time and size of the kernel's Python file into the line table."""
    return [(section.name, section.content) for section in Elf(cubin).sections if "debug" not in section.name]


def test_a_request_names_the_ptxas_that_triton_uses(daemon, run_with_triton, other_ptxas, tmp_path):
    run_with_triton("lower.py", "--kernels", "softmax", "--targets", "cuda:90", "--out", tmp_path)
    requests = tmp_path / "requests.jsonl"

    def compile_into(folder, *arguments):
        answer = daemon.kiln(
            "compile", "--requests", requests, "--emit", "ptx,cubin", "--cache", "refresh", "--json", "-o", folder, *arguments)
        assert answer.code == 0, answer
        (ptx,) = folder.glob("*.ptx")
        return answer.objects()[0]["key"], ptx

    own_key, own = compile_into(tmp_path / "own")
    key, ptx = compile_into(tmp_path / "named", "--ptxas", other_ptxas)
    assert key != own_key
    subprocess.run(
        [other_ptxas, "-lineinfo", "-v", "--gpu-name=sm_90a", ptx.name, "-o", "by-hand.cubin"], cwd=ptx.parent, check=True)
    cubin = ptx.with_suffix(".cubin").read_bytes()
    assert without_lines(cubin) == without_lines((ptx.parent / "by-hand.cubin").read_bytes())
    assert without_lines(cubin) != without_lines(own.with_suffix(".cubin").read_bytes())
    (told,) = [json.loads(path.read_text()) for path in ptx.parent.glob("softmax*.json")]
    assert told["provenance"]["assembler"].startswith("ptxas 12.9")
    # The next one has Triton's own again, in the same worker.
    again_key, again = compile_into(tmp_path / "again")
    assert (again_key, again.with_suffix(".cubin").read_bytes()) == (own_key, own.with_suffix(".cubin").read_bytes())


def test_a_ptxas_that_is_not_here_is_said(daemon, source, tmp_path):
    stranger = tmp_path / "ptxas"
    stranger.write_bytes(b"no ptxas")
    answer = daemon.kiln("compile", source, "--target", "cuda:90", "--ptxas", stranger, "--json")
    assert answer.code == 1
    assert answer.objects()[0]["code"] == "FAILED_PRECONDITION"
    assert "ptxas==" in answer.objects()[0]["error"]


def test_a_text_for_a_later_architecture_says_what_to_ask_for(daemon, digest, tmp_path):
    path = tmp_path / "late.ptx"
    path.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
    answer = daemon.kiln("compile", path, "--target", "cuda:80", "--toolchain", digest)
    assert answer.code == 1 and ".target sm_90: ask for --target cuda:90" in answer.error, answer


def test_ptx_has_one_compiler(daemon, digest, source):
    answer = daemon.kiln("compile", source, "--target", "cuda:90", "--ptxas", digest, "--toolchain", digest, "--json")
    assert answer.objects()[0]["code"] == "INVALID_ARGUMENT"
    one = daemon.kiln("compile", source, "--target", "cuda:90", "--ptxas", digest, "--json").objects()[0]
    other = daemon.kiln("compile", source, "--target", "cuda:90", "--toolchain", digest, "--json").objects()[0]
    assert one["key"] == other["key"]
