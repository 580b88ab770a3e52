"""`kiln reproduce`: what it writes is enough to repeat a compile with the toolchain alone."""

import json
import subprocess

import pytest

from places import TOOLCHAIN

PYTHON = TOOLCHAIN / "bin" / "python"

# A conversion that sm_80 does not have: LLVM says so and ends the process.
FP8 = """module {
  tt.func public @convert(%x: !tt.ptr<f8E4M3FN> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f16> {tt.divisibility = 16 : i32}) {
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %a = tt.splat %x : !tt.ptr<f8E4M3FN> -> tensor<128x!tt.ptr<f8E4M3FN>>
    %b = tt.addptr %a, %r : tensor<128x!tt.ptr<f8E4M3FN>>, tensor<128xi32>
    %c = tt.load %b : tensor<128x!tt.ptr<f8E4M3FN>>
    %d = tt.fp_to_fp %c : tensor<128xf8E4M3FN> -> tensor<128xf16>
    %e = tt.splat %y : !tt.ptr<f16> -> tensor<128x!tt.ptr<f16>>
    %f = tt.addptr %e, %r : tensor<128x!tt.ptr<f16>>, tensor<128xi32>
    tt.store %f, %d : tensor<128x!tt.ptr<f16>>
    tt.return
  }
}
"""


@pytest.fixture(scope="module")
def requests(run_with_triton, tmp_path_factory):
    """A file of requests for two kernels, one of them for both vendors."""
    folder = tmp_path_factory.mktemp("kernels")
    run_with_triton("lower.py", "--kernels", "vector_add,softmax", "--targets", "cuda:90,hip:gfx942", "--out", folder)
    return folder / "requests.jsonl"


@pytest.fixture
def ask(daemon, tmp_path):
    """Compiles one source for one target: the answer."""

    def send(source, target):
        path = tmp_path / "request.jsonl"
        path.write_text(json.dumps({"name": "k", "source": source, "target": target}) + "\n")
        return daemon.kiln("compile", "--requests", path, "--json").objects()[0]

    return send


def run(folder):
    return subprocess.run([PYTHON, "-B", folder / "reproduce.py"], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(folder)})


def test_a_stored_kernel_compiles_to_the_same_without_the_daemon(daemon, requests, tmp_path):
    answers = [one for one in daemon.kiln("compile", "--requests", requests, "--json").objects() if "key" in one]
    assert len(answers) == 4
    for answer in answers:
        folder = tmp_path / "made" / answer["name"]
        written = daemon.kiln("reproduce", answer["key"], "-o", folder)
        assert (written.code, written.out) == (0, f"{folder}\n"), written
        assert {path.name for path in folder.iterdir()} == {"kernel.ttir", "request.jsonl", "expected.json", "reproduce.py"}
        done = run(folder)
        final = "cubin" if answer["target"].startswith("cuda") else "hsaco"
        assert done.returncode == 0, done
        assert any(line.startswith(f"{final}: ") and line.endswith(", as stored") for line in done.stdout.splitlines()), done


def test_the_request_is_one_for_the_daemon_too(daemon, requests, tmp_path):
    answer = daemon.kiln("compile", "--requests", requests, "--json").objects()[0]
    assert daemon.kiln("reproduce", answer["key"][:12], "-o", tmp_path).code == 0
    again = daemon.kiln("compile", "--requests", tmp_path / "request.jsonl", "--json").objects()[0]
    assert (again["key"], again["outcome"]) == (answer["key"], "hit")


def test_a_result_that_is_another_is_noticed(daemon, requests, tmp_path):
    answer = daemon.kiln("compile", "--requests", requests, "--json").objects()[0]
    assert daemon.kiln("reproduce", answer["key"], "-o", tmp_path).code == 0
    expected = json.loads((tmp_path / "expected.json").read_text())
    expected["stages"]["cubin"] = "0" * 64
    (tmp_path / "expected.json").write_text(json.dumps(expected))
    done = run(tmp_path)
    assert done.returncode == 1 and "NOT as stored" in done.stdout, done


def test_a_failure_that_is_remembered(daemon, ask, tmp_path):
    failed = ask("module {\n  nonsense\n}\n", "cuda:90")
    assert failed["code"] == "INVALID_ARGUMENT"
    assert daemon.kiln("reproduce", failed["key"], "-o", tmp_path / "made").code == 0
    expected = json.loads((tmp_path / "made" / "expected.json").read_text())
    assert (expected["failure"]["stage"], expected["failure"]["line"]) == ("parse", 2)
    done = run(tmp_path / "made")
    assert done.returncode == 0 and "it does not compile" in done.stdout, done


def test_what_llvm_gives_up_on_is_the_sources_fault(daemon, ask):
    before = daemon.kiln("stats", "--json").objects()[0]
    failed = ask(FP8, "cuda:80")
    assert failed["code"] == "INVALID_ARGUMENT", failed
    assert failed["error"].startswith("llir: Conversion from") and "only supported" in failed["error"], failed
    after = daemon.kiln("stats", "--json").objects()[0]
    assert after["workers_aborted"] == before["workers_aborted"] + 1
    assert after["workers_crashed"] == before["workers_crashed"]
    assert ask(FP8, "cuda:90")["outcome"] == "compiled"


@pytest.mark.parametrize("key, word", [
    ("0" * 64, "no "),
    ("abc", "4"),
    ("not a key", "digits"),
    ("../../etc/passwd", "digits"),
])
def test_keys_that_lead_nowhere(daemon, key, word, tmp_path):
    answer = daemon.kiln("reproduce", key, "-o", tmp_path / "made")
    assert answer.code == 1 and word in answer.error, answer
    assert not (tmp_path / "made").exists()


def test_a_folder_that_cannot_be_made(daemon, requests, tmp_path):
    key = daemon.kiln("compile", "--requests", requests, "--json").objects()[0]["key"]
    (tmp_path / "file").write_text("")
    answer = daemon.kiln("reproduce", key, "-o", tmp_path / "file" / "below")
    assert answer.code == 1 and str(tmp_path / "file") in answer.error, answer
    assert (tmp_path / "file").read_text() == ""
