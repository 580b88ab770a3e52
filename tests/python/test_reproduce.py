"""`kiln reproduce`: what it writes is enough to repeat a compile with the toolchain alone."""

import hashlib
import json
import re
import shutil
import subprocess
import sys

import pytest

from daemon import Daemon
from loops import ORIGINS, with_origins
from places import CUDA, DESCRIPTIONS, ROOT, TOOLCHAIN, TOOLCHAINS

pytestmark = pytest.mark.one_case

PYTHON = TOOLCHAIN / "bin" / "python"
FILES = {"request.jsonl", "expected.json", "reproduce.py", "common.py", "origins.py", "seccomp.py"}

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


@pytest.fixture(scope="module")
def requests_without_locations(run_with_triton, tmp_path_factory):
    """For cuda:100 and tensor cores ptxas gives one of two binaries, as its addresses fall."""
    folder = tmp_path_factory.mktemp("kernels")
    run_with_triton("lower.py", "--kernels", "matmul_128x128x64", "--targets", "cuda:90,cuda:100", "--locations", "none", "--out", folder)
    return folder / "requests.jsonl"


@pytest.fixture
def ask(daemon, tmp_path):
    """Compiles one source for one target: the answer."""

    def send(source, target, **options):
        path = tmp_path / "request.jsonl"
        path.write_text(json.dumps({"name": "k", "source": source, "target": target, "options": options}) + "\n")
        return daemon.kiln("compile", "--requests", path, "--json").objects()[0]

    return send


def compiled(daemon, requests, *arguments):
    """The answer of one of them, for CUDA. Answers come in the order in which they are ready."""
    answers = daemon.kiln("compile", "--requests", requests, "--json", *arguments).objects()
    return next(one for one in answers if one.get("target") == "cuda:90")


def run(folder, *arguments, python=PYTHON, **environment):
    return subprocess.run([python, "-B", folder / "reproduce.py", *arguments], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment})


@pytest.mark.parametrize("which, count", [("requests", 4), ("requests_without_locations", 2)])
def test_a_stored_kernel_compiles_to_the_same_without_the_daemon(daemon, which, count, request, tmp_path):
    requests = request.getfixturevalue(which)
    answers = [one for one in daemon.kiln("compile", "--requests", requests, "--json").objects() if "key" in one]
    assert len(answers) == count
    for answer in answers:
        folder = tmp_path / "made" / answer["name"]
        written = daemon.kiln("reproduce", answer["key"], "-o", folder)
        assert (written.code, written.out) == (0, f"{folder}\n"), written
        assert {path.name for path in folder.iterdir()} == {"kernel.ttir", *FILES}
        done = run(folder)
        final = "cubin" if answer["target"].startswith("cuda") else "hsaco"
        assert done.returncode == 0, done
        assert any(line.startswith(f"{final}: ") and line.endswith(", as stored") for line in done.stdout.splitlines()), done


@pytest.mark.parametrize("target, end", [("cuda:90", "\n"), ("cuda:90", "\r\n"), ("hip:gfx942", "\n")])
def test_the_places_of_loops_variables_are_restored(daemon, ask, target, end, tmp_path):
    answer = ask(with_origins(ORIGINS).replace("\n", end), target)
    assert answer["outcome"] == "compiled", answer
    assert daemon.kiln("reproduce", answer["key"], "-o", tmp_path / "made").code == 0
    done = run(tmp_path / "made")
    assert done.returncode == 0 and "NOT" not in done.stdout and done.stdout.startswith("ttgir: "), done
    assert "%turn" in next((tmp_path / "made" / "out").rglob("*.ttgir")).read_text()


@pytest.mark.slow
def test_a_kernel_without_line_info_is_reproduced_without_it(daemon, ask, requests, tmp_path):
    source = next(requests.parent.glob("softmax-cuda-90.ttir")).read_text()
    keys = []
    for value in False, True:
        answer = ask(source, "cuda:90", disable_line_info=value)
        folder = tmp_path / f"made-{value}"
        assert daemon.kiln("reproduce", answer["key"], "-o", folder).code == 0
        done = run(folder)
        assert done.returncode == 0 and "cubin: " in done.stdout and "NOT" not in done.stdout, done
        assert (b".debug_line" in next(folder.rglob("*.cubin")).read_bytes()) != value
        keys.append(answer["key"])
    assert keys[0] == ask(source, "cuda:90")["key"] != keys[1], "the default is no part of the key"


# What a shell may have for its jobs. The toolchain's Python has not got that manager.
SHELL = {"TRITON_CACHE_MANAGER": "kiln.triton:CacheManager", "KILN_MODE": "require", "DISABLE_LLVM_OPT": "1", "TRITON_STORE_BINARY_ONLY": "1",
         "TRITON_DISABLE_LINE_INFO": "1"}


@pytest.mark.slow
def test_the_environment_of_a_shell_has_no_say(daemon, ask, requests, tmp_path):
    stored = compiled(daemon, requests)
    failed = ask("module {\n  nonsense\n}\n", "cuda:90")
    for answer, words in (stored, "cubin: "), (failed, "it does not compile: "):
        folder = tmp_path / answer["key"]
        assert daemon.kiln("reproduce", answer["key"], "-o", folder).code == 0
        done = run(folder, **SHELL)
        assert done.returncode == 0 and words in done.stdout and "NOT" not in done.stdout and "kiln" not in done.stdout, done


@pytest.mark.parametrize("origins", [ORIGINS[:3], [*ORIGINS, "unknown"], [*ORIGINS[:3], "nothing"]])
def test_the_trailer_of_another_module_is_refused(daemon, ask, origins, tmp_path):
    answer = ask(with_origins(origins), "cuda:90")
    assert answer["outcome"] == "failed" and answer["key"], answer
    assert daemon.kiln("reproduce", answer["key"], "-o", tmp_path / "made").code == 0
    done = run(tmp_path / "made")
    assert done.returncode == 0 and done.stdout.startswith("it does not compile: "), done
    assert not list((tmp_path / "made").rglob("kernel.origins"))


def test_the_request_is_one_for_the_daemon_too(daemon, requests, tmp_path):
    answer = compiled(daemon, requests)
    assert daemon.kiln("reproduce", answer["key"][:12], "-o", tmp_path).code == 0
    again = daemon.kiln("compile", "--requests", tmp_path / "request.jsonl", "--json").objects()[0]
    assert (again["key"], again["outcome"]) == (answer["key"], "hit")


@pytest.mark.slow
def test_a_result_that_is_another_is_noticed(daemon, requests, tmp_path):
    answer = compiled(daemon, requests)
    assert daemon.kiln("reproduce", answer["key"], "-o", tmp_path).code == 0
    expected = json.loads((tmp_path / "expected.json").read_text())
    expected["stages"]["cubin"] = "0" * 64
    (tmp_path / "expected.json").write_text(json.dumps(expected))
    done = run(tmp_path)
    assert done.returncode == 1 and "NOT as stored" in done.stdout, done


def test_a_python_without_triton_is_told_whose_to_use(daemon, requests, tmp_path):
    answer = compiled(daemon, requests)
    daemon.kiln("reproduce", answer["key"], "-o", tmp_path / "k")
    done = run(tmp_path / "k", python=sys.executable)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"{sys.executable} has no Triton" in done.stderr and "the Python of triton==" in done.stderr
    assert f"pip install triton==3.6.0 && venv/bin/python {tmp_path}/k/reproduce.py\n" in done.stderr, done.stderr


def test_a_failure_that_is_remembered(daemon, ask, tmp_path):
    failed = ask("module {\n  nonsense\n}\n", "cuda:90")
    assert failed["code"] == "INVALID_ARGUMENT"
    assert daemon.kiln("reproduce", failed["key"], "-o", tmp_path / "made").code == 0
    expected = json.loads((tmp_path / "made" / "expected.json").read_text())
    assert (expected["failure"]["stage"], expected["failure"]["line"]) == ("parse", 2)
    done = run(tmp_path / "made")
    assert done.returncode == 0 and "it does not compile" in done.stdout, done


def test_a_kernel_that_crashed_its_compiler(daemon, ask, tmp_path):
    # Its parser has no limit on how deep things are nested, but a stack.
    deep = "module attributes {a = " + "[" * 200_000 + "]" * 200_000 + "} {}\n"
    crashed = ask(deep, "cuda:90")
    assert crashed["code"] == "INTERNAL" and "crashed" in crashed["error"], crashed
    made = tmp_path / "made"
    assert daemon.kiln("reproduce", crashed["key"], "-o", made).code == 0
    assert (made / "kernel.ttir").read_text() == deep
    assert json.loads((made / "expected.json").read_text())["failure"]["crash"]
    done = run(made)
    assert done.returncode == 0 and "the compiler crashes: signal 11" in done.stdout, done
    again = daemon.kiln("compile", made / "kernel.ttir", "--target", "cuda:90")
    assert again.code == 1 and f"kiln reproduce {crashed['key']}" in again.error, again


def test_an_llvm_error_is_a_failure_of_the_source(daemon, ask):
    before = daemon.kiln("stats", "--json").objects()[0]
    failed = ask(FP8, "cuda:80")
    assert failed["code"] == "INVALID_ARGUMENT", failed
    assert failed["error"].startswith("llir: Conversion from") and "only supported" in failed["error"], failed
    after = daemon.kiln("stats", "--json").objects()[0]
    assert after["workers_aborted"] == before["workers_aborted"] + 1
    assert after["workers_crashed"] == before["workers_crashed"]
    assert ask(FP8, "cuda:90")["outcome"] == "compiled"


@pytest.mark.parametrize("key, code, word", [
    ("0" * 64, 1, "no "),
    ("abc", 1, "no stored artifact has a key that begins so, or a kernel of that name"),
    ("not a key", 1, "no stored artifact"),
    ("../../etc/passwd", 1, "no stored artifact"),
])
def test_keys_that_lead_nowhere(daemon, key, code, word, tmp_path):
    answer = daemon.kiln("reproduce", key, "-o", tmp_path / "made")
    assert answer.code == code and word in answer.error, answer
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_folder_that_cannot_be_made(daemon, requests, tmp_path, name):
    key = compiled(daemon, requests)["key"]
    (tmp_path / "file").write_text("")
    answer = daemon.kiln("reproduce", key, "-o", tmp_path / name)
    assert answer.code == 2 and str(tmp_path / name) in answer.error, answer
    assert "try:" not in answer.error, answer
    assert (tmp_path / "file").read_text() == ""


PTX = """.version 8.0
.target sm_80
.address_size 64
.file 1 "kernel.ptx"
.visible .entry scale(.param .u64 p, .param .f32 a) {
	.reg .b64 %rd1;
	.reg .f32 %f<4>;
	.loc 1 5 0
	ld.param.u64 %rd1, [p];
	ld.param.f32 %f1, [a];
	ld.global.f32 %f2, [%rd1];
	fma.rn.f32 %f3, %f2, %f1, %f1;
	st.global.f32 [%rd1], %f3;
	ret;
}
"""
CUDA_CXX = """#include <cuda_fp16.h>
#include "my/tile.h"
template <typename T> __global__ void reverse(T* x) {
  __shared__ T s[TILE];
  s[threadIdx.x] = x[threadIdx.x] * T(FACTOR);
  __syncthreads();
  x[threadIdx.x] = s[TILE - 1 - threadIdx.x];
}
"""
# One option of each type.
NATIVE_CASES = {
    "ptx": {"source": PTX},
    "ptx-options": {"source": PTX, "launch": {"maxnreg": 24},
                    "options": {"fmad": False, "allow-expensive-optimizations": True, "generate-line-info": True, "opt-level": 2,
                                "def-load-cache": "cg", "entry": "scale", "device-debug": False}},
    "ptx-wrong": {"source": PTX.replace("fma.rn", "nonsense")},
    "cuda": {"defines": ["FACTOR=2"]},
    "cuda-options": {"launch": {"maxnreg": 32}, "defines": ["FACTOR=(1 + 2)", "OTHER"], "std": "c++20",
                     "options": {"fmad": False, "use_fast_math": True, "generate-line-info": True, "diag-suppress": [177, 550],
                                 "undefine-macro": ["OTHER"]}},
    "cuda-debug": {"defines": ["FACTOR=2"], "options": {"device-debug": True}},
    "cuda-lto": {"defines": ["FACTOR=2"], "options": {"dlink-time-opt": True}},
    "cuda-wrong": {},
}


@pytest.fixture(scope="module")
def native(programs, tmp_path_factory):
    """A daemon that has NVRTC besides Triton and its ptxas, and its answers to all of NATIVE_CASES."""
    folder = tmp_path_factory.mktemp("native")
    lines = []
    for name, more in NATIVE_CASES.items():
        line = {"name": name, "kind": name.partition("-")[0], "target": "cuda:90a", **more}
        if line["kind"] == "cuda":
            line = {"source": CUDA_CXX, "headers": {"my/tile.h": "#define TILE 64\n"}, "name_expressions": ["reverse<__half>"], **line}
        else:
            line["target"] = "cuda:90"
            line["toolchain"] = hashlib.sha256(ptxas().read_bytes()).hexdigest()
        lines.append(json.dumps(line) + "\n")
    (folder / "requests.jsonl").write_text("".join(lines))
    environment = {"KILN_TOOLCHAIN_DIRECTORIES": f"{TOOLCHAINS}:{CUDA}"}
    with Daemon(programs, folder, environment=environment, descriptions=DESCRIPTIONS) as daemon:
        answer = daemon.kiln("compile", "--requests", folder / "requests.jsonl", "--json")
        yield daemon, {one["name"]: one for one in answer.objects() if "name" in one}


def ptxas():
    (found,) = TOOLCHAIN.glob("lib/python3.*/site-packages/triton/backends/nvidia/bin/ptxas")
    return found


def compiler_of(name):
    return ptxas() if name.startswith("ptx") else CUDA


@pytest.mark.slow
@pytest.mark.parametrize("name", NATIVE_CASES)
def test_ptx_and_cuda_compile_to_the_same_with_their_compiler_alone(native, name, tmp_path):
    daemon, answers = native
    assert answers[name].get("outcome") == ("failed" if name.endswith("wrong") else "compiled"), answers[name]
    written = daemon.kiln("reproduce", answers[name]["key"], "-o", tmp_path / "made")
    assert written.code == 0, written
    source = "kernel.ptx" if name.startswith("ptx") else "kernel.cu"
    assert {path.name for path in (tmp_path / "made").iterdir()} == {source, *FILES}
    done = run(tmp_path / "made", compiler_of(name), python=sys.executable)
    assert done.returncode == 0, done
    if name.endswith("wrong"):
        assert "it does not compile" in done.stdout
        return
    stages = ["ltoir"] if name == "cuda-lto" else ["cubin"] if name.startswith("ptx") else ["ptx", "cubin"]
    assert re.findall(r"^(\w+): \d+ bytes, as stored$", done.stdout, re.MULTILINE) == stages, done
    assert all((tmp_path / "made" / "out" / f"kernel.{stage}").stat().st_size > 0 for stage in stages)


def test_a_crashing_conversion_is_compiled_alone(native, tmp_path):
    """Neither ptxas nor NVRTC is known to crash, so this is what does not compile, as if that were a crash."""
    daemon, answers = native
    for name in ("ptx-wrong", "cuda-wrong"):
        assert daemon.kiln("reproduce", answers[name]["key"], "-o", tmp_path / name).code == 0
        expected = json.loads((tmp_path / name / "expected.json").read_text())
        expected["failure"] = {"crash": "signal 11"}
        (tmp_path / name / "expected.json").write_text(json.dumps(expected))
        done = run(tmp_path / name, compiler_of(name), python=sys.executable)
        assert done.returncode == 0 and done.stdout.count("it does not compile") == 1, done


def test_another_ptxas_is_not_taken(native, tmp_path):
    daemon, answers = native
    assert daemon.kiln("reproduce", answers["ptx"]["key"], "-o", tmp_path).code == 0
    done = run(tmp_path, ptxas().with_name("ptxas-blackwell"), python=sys.executable)
    assert done.returncode == 2 and "SHA-256" in done.stderr, done


@pytest.mark.parametrize("given, why", [("/usr", "Is a directory"), ("/nowhere/ptxas", "No such file"), (None, "no ptxas in PATH")])
def test_a_program_that_is_not_a_ptxas_is_named(native, given, why, tmp_path):
    daemon, answers = native
    wanted = hashlib.sha256(ptxas().read_bytes()).hexdigest()
    assert daemon.kiln("reproduce", answers["ptx"]["key"], "-o", tmp_path / "ptx").code == 0
    done = run(tmp_path / "ptx", *filter(None, [given]), python=sys.executable, PATH=str(tmp_path))
    assert done.returncode == 2 and why in done.stderr and (given or "") in done.stderr, done
    assert f"give the ptxas whose SHA-256 is {wanted}" in done.stderr and "Traceback" not in done.stderr, done


def test_triton_is_told_which_ptxas_it_has_to_run(daemon, requests, tmp_path):
    key = compiled(daemon, requests)["key"]
    assert daemon.kiln("reproduce", key, "-o", tmp_path).code == 0
    request = json.loads((tmp_path / "request.jsonl").read_text())
    (tmp_path / "request.jsonl").write_text(json.dumps({**request, "ptxas": "0" * 64}))
    for environment in ({}, {"TRITON_PTXAS_PATH": "/usr"}, {"TRITON_PTXAS_PATH": str(ptxas())}):
        done = run(tmp_path, **environment)
        assert done.returncode == 2 and f"set TRITON_PTXAS_PATH to the ptxas whose SHA-256 is {'0' * 64}" in done.stderr, done
        assert "Traceback" not in done.stderr, done


@pytest.fixture(scope="module")
def folders(daemon, native, requests, tmp_path_factory):
    """What is written for one kernel of each kind, by its name: "ttgir" too."""
    made = tmp_path_factory.mktemp("folders")
    ttir = compiled(daemon, requests, "--emit", "ttgir,cubin,hsaco", "-o", made / "ttgir")
    ttgir = daemon.kiln("compile", next((made / "ttgir").glob("*cuda*.ttgir")), "--target", "cuda:90", "--json").objects()[0]
    for which, name, key in [(daemon, "ttir", ttir["key"]), (daemon, "ttgir.of", ttgir["key"]),
                             *((native[0], name, native[1][name]["key"]) for name in ("ptx", "cuda"))]:
        assert which.kiln("reproduce", key, "-o", made / "of" / name.partition(".")[0]).code == 0
    return made / "of"


@pytest.mark.parametrize("kind", ["ttir", "ttgir", "ptx", "cuda"])
def test_the_script_says_what_it_takes(folders, kind, tmp_path):
    shutil.copytree(folders / kind, tmp_path / kind)
    takes = {"ptx": "[PTXAS]", "cuda": "[DIRECTORY] [INCLUDES ...]"}.get(kind, "")
    # No compiler is asked for before the arguments are read.
    python = {"python": sys.executable}
    done = run(tmp_path / kind, "--help", **python)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("usage: reproduce.py [-h]"), done
    assert takes in done.stdout and "Every stage ends up in out/" in done.stdout
    for wrong in [["--frobnicate"]] + ([] if kind == "cuda" else [["/bin/sh", "/bin/sh"]]):
        done = run(tmp_path / kind, *wrong, **python)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("usage: reproduce.py [-h]"), done
        assert "unrecognized arguments" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / kind / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ttir", "ttgir", "ptx", "cuda"])
def test_a_check_that_cannot_run_is_not_a_failure(folders, kind, tmp_path):
    folder = tmp_path / kind
    shutil.copytree(folders / kind, folder)
    whose = {"ptx": [ptxas()], "cuda": [CUDA]}.get(kind, [])

    def refused(said, *given):
        done = run(folder, *(given or whose), python=PYTHON)
        assert done.returncode == 2 and "Traceback" not in done.stderr and said in done.stderr, done

    if kind == "cuda":
        refused(f"no NVRTC in {tmp_path}", tmp_path)
        refused("no NVRTC in /bin/sh", "/bin/sh")
        shutil.rmtree(folder / "out")
    (folder / "out").write_text("in the way")
    refused(f"{folder}/out: ")
    (folder / "out").unlink()
    assert run(folder, *whose, python=PYTHON).returncode == 0
    source, = folder.glob("kernel.*")
    for name in (source.name, "request.jsonl", "expected.json"):
        (folder / name).rename(tmp_path / name)
        refused(name)
        (tmp_path / name).rename(folder / name)
    (folder / "expected.json").write_text("{")
    refused("expected.json has to lie beside it")


def test_a_changed_source_is_noticed(native, tmp_path):
    daemon, answers = native
    for name in ("ptx", "cuda"):
        folder = tmp_path / name
        assert daemon.kiln("reproduce", answers[name]["key"], "-o", folder).code == 0
        request = json.loads((folder / "request.jsonl").read_text())
        request.setdefault("options", {})["device-debug"] = True
        (folder / "request.jsonl").write_text(json.dumps(request))
        done = run(folder, compiler_of(name), python=sys.executable)
        assert done.returncode == 1 and "NOT as stored" in done.stdout, done


@pytest.mark.slow
def test_the_script_spells_options_as_the_worker_does(native, tmp_path):
    daemon, answers = native
    assert daemon.kiln("reproduce", answers["ptx"]["key"], "-o", tmp_path).code == 0
    script = (tmp_path / "reproduce.py").read_text()
    told = set(re.findall(r'"([\w-]+)"', script.partition("TRUTHS = {")[2].partition("}")[0]))
    lists = [(ROOT / "daemon" / name).read_text() for name in ("kernel/ptx_options.cc", "worker/native/nvrtc_options.cc")]
    assert told == set(re.findall(r'\{"([\w-]+)", "[\w-]*",\s+(?:CommandOption::)?Takes::kTruth', "".join(lists)))
