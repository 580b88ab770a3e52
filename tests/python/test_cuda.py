"""CUDA C++ through the daemon, in its jail."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import pytest

import kiln
from daemon import Daemon
from places import BINARIES, CUDA, DESCRIPTIONS, TOOLCHAINS

SOURCE = """#include <cuda_fp16.h>
#include "answer.h"
template <typename T> __global__ void write(T* x) { x[threadIdx.x] = ANSWER; }
"""

FIRST_COMPILE = """import ctypes, sys
nvrtc, program = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"__global__ void k() {}", b"k.cu", 0, None, None)
nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90"))
"""


@pytest.fixture(scope="module")
def start(programs, tmp_path_factory):
    """Starts a daemon that also finds an NVRTC."""

    def run(**environment):
        directories = {"KILN_TOOLCHAIN_DIRECTORIES": f"{TOOLCHAINS}:{CUDA}"}
        return Daemon(programs, tmp_path_factory.mktemp("cuda"), environment={**directories, **environment}, descriptions=DESCRIPTIONS)

    return run


@pytest.fixture(scope="module")
def daemon(start):
    with start() as running:
        yield running


def ask(daemon, folder, **request):
    line = {"name": "k", "kind": "cuda", "target": "cuda:90a", "source": SOURCE, "headers": {"answer.h": "#define ANSWER 42"},
            "name_expressions": ["write<__half>"]}
    (folder / "requests.jsonl").write_text(json.dumps({**line, **request}))
    stages = request.get("stages", ["ptx", "cubin"])
    answer = daemon.kiln("compile", "--requests", folder / "requests.jsonl", "--json", "--emit", ",".join(stages), "-o", folder / "out")
    return answer.objects()[0]


def test_the_list_marks_what_compiles_where_none_is_named(daemon):
    marked = [(one["name"], one["default_kinds"]) for one in daemon.kiln("toolchain", "list", "--json").objects() if one.get("default_kinds")]
    assert {name for name, kinds in marked if "ttir" in kinds} == {"triton"}, marked
    assert ("nvrtc", ["cuda"]) in marked, marked


def test_a_bare_nvrtc_is_refused_with_the_name_to_write(daemon, tmp_path):
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(int* x) { *x = 1; }\n')
    compile_with = ("compile", tmp_path / "k.cu", "--target", "cuda:90", "--json", "-o", tmp_path, "--toolchain")
    refused = daemon.kiln(*compile_with, "nvrtc").objects()[0]
    assert refused["code"] == "INVALID_ARGUMENT" and "; there are nvrtc==" in refused["error"], refused
    named = refused["error"].rpartition("; write ")[2]
    compiled = daemon.kiln(*compile_with, named).objects()[0]
    assert compiled["outcome"] == "compiled" and compiled["toolchain"] == named, compiled


def test_ptx_and_cubin_with_the_names_of_the_binary(daemon, tmp_path):
    answer = ask(daemon, tmp_path)
    assert answer["outcome"] == "compiled", answer
    assert ".target sm_90a" in (tmp_path / "out" / "k.ptx").read_text()
    assert (tmp_path / "out" / "k.cubin").read_bytes()[:4] == b"\x7fELF"
    metadata = json.loads((tmp_path / "out" / "k.json").read_text())["metadata"]
    lowered = metadata["toolchain_metadata"]["lowered_names"]
    assert lowered == {"write<__half>": "_Z5writeI6__halfEvPT_"}
    assert metadata["name"] == "_Z5writeI6__halfEvPT_" and metadata["registers"] > 0


def test_a_gpu_driver_stays_closed(tmp_path):
    """NVRTC opens the driver with its first compile. A driver starts threads, and a zygote must not have any."""
    opened = tmp_path / "opened"
    (tmp_path / "driver.c").write_text(f"""#include <fcntl.h>
        __attribute__((constructor)) static void note(void) {{ open("{opened}", O_CREAT | O_WRONLY, 0600); }}
        int cuInit(unsigned flags) {{ return 100; }}""")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "driver.c"], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    nvrtc, = CUDA.glob("**/libnvrtc.so.1?")
    include, = (path.parent for path in CUDA.glob("**/cuda_fp16.h"))
    worker = BINARIES.parent / "lib" / "kiln" / "kiln-worker"
    described = subprocess.run([worker, "--describe", "--nvrtc", nvrtc, "--include", include], env=environment, capture_output=True, check=True)
    assert json.loads(described.stdout)["name"] == "nvrtc"
    assert not opened.exists()
    subprocess.run([sys.executable, "-c", FIRST_COMPILE, nvrtc], env=environment, check=True)
    assert opened.exists(), "this NVRTC asks for no driver, so the test shows nothing"


@pytest.mark.parametrize("directive", ['#include "{file}"', '#if __has_include("{file}")\n#error\n#endif'], ids=["include", "has_include"])
def test_an_include_does_not_tell_what_is_there(daemon, tmp_path, directive):
    """NVRTC said "Permission denied" of a file in a folder of the daemon's user, and nothing of one that is not there."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "there.h").write_text("")
    said = set()
    for name in ("there.h", "missing", "there.h/deeper"):
        source = directive.format(file=private / name) + '\nextern "C" __global__ void k(int* x) { *x = 1; }\n'
        answer = ask(daemon, tmp_path, source=source, headers={}, name_expressions=[])
        said.add(json.dumps([answer["outcome"], answer.get("error")]).replace(str(private / name), "FILE"))
    assert len(said) == 1, said


@pytest.mark.parametrize("options", [{"name-expressions": ["write<__half>"]}, {"name-expressions": ("write<float>",), "std": "c++17"},
                                     {"name-expressions": ["write<int>"], "dlink-time-opt": True}], ids=str)
def test_a_hit_in_the_hot_directory_is_the_daemons_answer(daemon, options):
    asked = kiln.CompileRequest(SOURCE, "cuda:90a", kind="cuda", headers={"answer.h": b"#define ANSWER 42"}, options=options)
    with kiln.Client(root=str(daemon.root)) as client:
        client.compile(asked)
        found, answer = client.compile(asked), client._asked(asked, None)
    assert (found.tier, answer.outcome) == ("hot", "hit") and dataclasses.replace(answer, tier="hot") == found


def test_notes_of_nvrtc_are_returned(daemon, tmp_path):
    header = "template<class T> __device__ int call(T t) { return t.foo(); }\n"
    source = '#include "call.h"\n__global__ void f(int* x) {\n  *x = call(1);\n}\n'
    answer = ask(daemon, tmp_path, source=source, headers={"call.h": header}, name_expressions=[])
    assert answer["code"] == "INVALID_ARGUMENT", answer
    [note] = answer["diagnostics"]["notes"]
    assert (note["file"], note["line"]) == ("", 3) and note["message"].startswith('instantiation of "int call('), note


def test_a_line_beyond_any_source_is_left_out(daemon, tmp_path):
    answer = ask(daemon, tmp_path, source="#line 2000000000\n__global__ void f(int* x) { *x = nothing; }", name_expressions=[])
    assert answer["code"] == "INVALID_ARGUMENT" and "nothing" in answer["error"], answer
    assert answer["diagnostics"]["line"] == 0


def test_headers_and_defines_are_in_the_key(daemon, tmp_path):
    base = {"source": "#include \"answer.h\"\n__global__ void f(int* x) { *x = ANSWER; }", "name_expressions": []}
    one = ask(daemon, tmp_path, **base)
    other = ask(daemon, tmp_path, **base, headers={"answer.h": "#define ANSWER 43"})
    defined = ask(daemon, tmp_path, **base, headers={"answer.h": ""}, defines=["ANSWER=44"], std="c++20")
    assert len({one["key"], other["key"], defined["key"]}) == 3
    assert {one["outcome"], other["outcome"], defined["outcome"]} == {"compiled"}, (one, other, defined)


@pytest.mark.parametrize("header, use", [
    ("cooperative_groups.h", "cooperative_groups::this_thread_block().sync();"),
    ("cuda/std/array", "cuda::std::array<int, 2> pair{1, 2}; *x = pair[1];"),
    ("mma.h", "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> tile; nvcuda::wmma::fill_fragment(tile, 1.f); "
              "*x = tile.x[0];"),
])
def test_headers_of_the_toolkit_that_lie_in_packages_of_their_own(daemon, tmp_path, header, use):
    answer = ask(daemon, tmp_path, source=f"#include <{header}>\n__global__ void f(int* x) {{ {use} }}", name_expressions=[])
    assert answer["outcome"] == "compiled", answer


def test_lto_ir(daemon, tmp_path):
    answer = ask(daemon, tmp_path, options={"dlink-time-opt": True}, stages=["ltoir"])
    assert answer["outcome"] == "compiled", answer
    assert (tmp_path / "out" / "k.ltoir").stat().st_size > 100


# What the worker has loaded, and so found readable while it started.
LOADED = next(line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/hostname", "/proc/self/environ", "../../../../../../../../etc/passwd",
                                  "/etc/ld.so.cache", LOADED])
def test_no_other_file_of_the_machine_is_included(daemon, tmp_path, path):
    answer = ask(daemon, tmp_path, source=f'#include "{path}"\n__global__ void f() {{}}', name_expressions=[])
    assert answer["code"] == "INVALID_ARGUMENT", answer
    assert "root:" not in json.dumps(answer)
    assert path.split("/")[-1] in answer["diagnostics"]["message"]
    assert "open" in answer["diagnostics"]["message"]


# What a worker says of them is long; it was taken for a broken worker's.
def test_many_errors_are_errors_all_the_same(daemon, tmp_path):
    source = "".join(f'static_assert(sizeof(char) == {number}, "{"long " * 100}");\n' for number in range(2, 150))
    answer = ask(daemon, tmp_path, source=source, name_expressions=[])
    assert answer["code"] == "INVALID_ARGUMENT", answer
    assert "static assertion" in answer["diagnostics"]["message"]


def test_long_names_and_many_kernels(daemon, tmp_path):
    parameters = ", ".join(f"int* p{number}" for number in range(40))
    source = "".join(f"__global__ void {'k' * 1100}{number}({parameters}) {{}}\n" for number in range(64))
    answer = ask(daemon, tmp_path, source=source, name_expressions=[])
    assert answer["outcome"] == "compiled", answer
    metadata = json.loads((tmp_path / "out" / "k.json").read_text())["metadata"]
    assert len(metadata["parameters"]) == 40
    assert metadata["toolchain_metadata"]["entry_count"] == 64


def test_errors_are_in_the_files_that_their_author_knows(daemon, tmp_path):
    source = tmp_path / "scale.cu"
    source.write_text("__global__ void f() {\n  nonsense;\n}\n")
    answer = daemon.kiln("compile", source, "--target", "cuda:90a")
    assert answer.error.startswith(f'{source}:2: ptx: error: identifier "nonsense" is undefined\n    {source}(2): error: '), answer.error
    requests = tmp_path / "requests.jsonl"
    requests.write_text(json.dumps({"name": "scale", "source_file": "scale.cu", "headers": {"my/tile.h": "nonsense\n"}, "target": "cuda:90a"}))
    source.write_text('#include "my/tile.h"\n')
    answer = daemon.kiln("compile", "--requests", requests)
    assert answer.error.startswith("scale.cu: ptx: my/tile.h(1): error: "), answer.error


@pytest.mark.slow
def test_without_a_jail_nothing_of_it_is_compiled(start, tmp_path):
    with start(KILN_WORKERS_JAIL="off") as daemon:
        answers = [ask(daemon, tmp_path) for _ in range(3)]
    # That there is no jail is held against no kernel.
    for answer in answers:
        assert answer["outcome"] == "failed"
        assert answer["code"] == "FAILED_PRECONDITION", answer
        assert "in a jail only" in answer["error"]


def test_a_mistake_in_the_request_is_reported_first(daemon, tmp_path):
    assert "std" in ask(daemon, tmp_path, options={"standard": "c++17"})["error"]
    assert ask(daemon, tmp_path, headers={"": "x"})["code"] == "INVALID_ARGUMENT"
    assert "give one of the two" in ask(daemon, tmp_path, std="c++17", options={"std": "c++20"})["error"]
    assert "compute capability" in ask(daemon, tmp_path, target="cuda:sm_90")["error"]
    assert "write a JSON array" in ask(daemon, tmp_path, defines="N=1")["error"]


# Prints the architectures that an NVRTC knows, or compiles the source from standard input with the given arguments to a cubin.
ALONE = """
import ctypes, sys
builtins, library, *arguments = (each.encode() for each in sys.argv[1:])
ctypes.CDLL(builtins, ctypes.RTLD_GLOBAL)
nvrtc = ctypes.CDLL(library)
def call(name, *given):
    assert getattr(nvrtc, name)(*given) == 0, name
if not arguments:
    count = ctypes.c_int()
    call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
    found = (ctypes.c_int * count.value)()
    call("nvrtcGetSupportedArchs", found)
    sys.exit(print(*found))
program, size = ctypes.c_void_p(), ctypes.c_size_t()
call("nvrtcCreateProgram", ctypes.byref(program), sys.stdin.buffer.read(), b"kernel.cu", 0, None, None)
call("nvrtcCompileProgram", program, len(arguments), (ctypes.c_char_p * len(arguments))(*arguments))
call("nvrtcGetCUBINSize", program, ctypes.byref(size))
cubin = ctypes.create_string_buffer(size.value)
call("nvrtcGetCUBIN", program, cubin)
sys.stdout.buffer.write(cubin.raw)
"""
ARITHMETIC = """#include <cuda_fp16.h>
#include <cuda_fp8.h>
extern "C" __global__ void f(float* x, double* y, __half* h, __nv_fp8_e5m2* b, int n) {
  const int i = threadIdx.x;
  b[i] = __nv_fp8_e5m2(x[i]);
  h[i] = __half(b[i + 1]) * h[i + 1] + __float2half(sinf(x[i + 1]));
  y[i] = exp(y[i]) / (n + 3) + __popc(n) + float(b[i + 2]);
  atomicAdd(x, __shfl_xor_sync(~0u, x[i], 1));
}
"""


# The zygote has compiled an empty kernel for sm_80 before it forks a worker.
@pytest.mark.slow
def test_a_zygotes_earlier_compile_does_not_change_results(daemon, tmp_path):
    packages = next(pathlib.Path(CUDA).glob("lib/python3.*/site-packages/nvidia")).resolve()
    [library] = packages.glob("*/lib/libnvrtc.so.*")
    builtins = max(library.parent.glob("libnvrtc-builtins.so.*"))
    includes = [packages / place for place in ("cuda_runtime/include", "cuda_cccl/include", "cuda_nvcc/include", "cu13/include", "cu13/include/cccl")]

    def alone(*arguments):
        return subprocess.run([sys.executable, "-c", ALONE, builtins, library, *arguments], input=ARITHMETIC.encode(), check=True,
                              stdout=subprocess.PIPE, cwd="/").stdout

    for architecture in alone().decode().split():
        answer = ask(daemon, tmp_path, source=ARITHMETIC, headers={}, name_expressions=[], target=f"cuda:{architecture}")
        assert answer["outcome"] == "compiled", answer
        expected = alone(f"--gpu-architecture=sm_{architecture}", *(f"--include-path={place}" for place in includes if place.exists()),
                         "--no-cache", "--ptxas-options=-v")
        assert (tmp_path / "out" / "k.cubin").read_bytes() == expected, architecture
