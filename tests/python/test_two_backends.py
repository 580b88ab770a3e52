"""One command compiles for both vendors: each kernel comes back with those of the named stages that its own backend has."""

import json

import pytest

TARGETS = ("cuda:90", "hip:gfx942")


@pytest.fixture(scope="module")
def folder(run_with_triton, tmp_path_factory):
    """A kernel lowered for each of the targets, and requests.jsonl with both."""
    path = tmp_path_factory.mktemp("kernels")
    run_with_triton("lower.py", "--kernels", "vector_add", "--targets", ",".join(TARGETS), "--out", path)
    return path


@pytest.fixture(scope="module")
def source(folder):
    request = json.loads((folder / "requests.jsonl").read_text().splitlines()[0])
    return request["source_file"]


@pytest.fixture
def compile_all(daemon, folder):
    """Compiles the file of requests: the exit code, and the answers by target."""

    def run(*arguments):
        answer = daemon.kiln("compile", "--requests", folder / "requests.jsonl", "--json", *arguments)
        return answer.code, {one["target"]: one for one in answer.objects() if "name" in one}

    return run


def test_each_request_of_a_file_has_its_own_stages(compile_all, tmp_path):
    code, answers = compile_all("--emit", "llir,ptx,amdgcn", "-o", tmp_path)
    assert (code, set(answers)) == (0, set(TARGETS)), answers
    written = {path.name for path in tmp_path.iterdir() if path.suffix != ".json"}
    assert written == {
        "vector_add-cuda-90.llir", "vector_add-cuda-90.ptx", "vector_add-hip-gfx942.llir", "vector_add-hip-gfx942.amdgcn",
    }
    assert ".target sm_90" in (tmp_path / "vector_add-cuda-90.ptx").read_text()
    assert ".amdgcn_target" in (tmp_path / "vector_add-hip-gfx942.amdgcn").read_text()


def test_a_request_without_such_stages_fails_alone(compile_all):
    code, answers = compile_all("--emit", "amdgcn,hsaco")
    assert code == 1
    assert answers["hip:gfx942"]["outcome"] != "failed"
    assert answers["cuda:90"]["code"] == "INVALID_ARGUMENT"
    for word in ("amdgcn", "ttgir", "llir", "ptx", "cubin"):
        assert word in answers["cuda:90"]["error"]


def test_an_unknown_stage_fails_every_request(compile_all):
    code, answers = compile_all("--emit", "ptx,amdgcn,spirv")
    assert code == 1
    for target in TARGETS:
        assert answers[target]["code"] == "INVALID_ARGUMENT"
        assert "spirv" in answers[target]["error"]


def test_a_source_file_for_both_has_the_stages_of_each(daemon, source, tmp_path):
    answer = daemon.kiln(
        "compile", source, "--target", "cuda:90", "--target", "hip:gfx942", "--emit", "cubin,hsaco", "-o", tmp_path
    )
    assert answer.code == 0, answer
    assert {path.suffix for path in tmp_path.iterdir()} == {".cubin", ".hsaco", ".json"}


def test_a_source_file_for_one_takes_no_stage_of_the_other(daemon, source):
    answer = daemon.kiln("compile", source, "--target", "cuda:90", "--emit", "ptx,amdgcn")
    assert answer.code == 1
    assert "amdgcn" in answer.error
