"""OpenCL C through the daemon, in its jail."""

import dataclasses
import json
import pathlib
import subprocess
import sys

import pytest

import kiln
from daemon import Daemon
from places import DESCRIPTIONS

CLANG = pathlib.Path("/usr/bin/clang-15")
pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")

SOURCE = """#include "lib/scale.h"
typedef struct { char tag; double weight; } Weight;
kernel __attribute__((reqd_work_group_size(64, 2, 1)))
void scale(global float* x, int n, float4 v, Weight w, local float* tmp, constant int* table, sampler_t s) {
  local float tile[64];
  tile[get_local_id(0)] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_global_id(0) < n) x[get_global_id(0)] = SCALE * tile[0] + v.x + w.weight + tmp[0] + table[0];
}
kernel void other(global int* counts) { counts[0] = 1; }
"""
HEADERS = {"lib/scale.h": '#include "factor.h"\n#define SCALE FACTOR\n', "lib/factor.h": "#define FACTOR 3\n"}
PLAIN = "kernel void plain(global int* x) { x[get_global_id(0)] = 1; }"


@pytest.fixture(scope="module")
def start(programs, tmp_path_factory):

    def run(directories="/usr"):
        return Daemon(programs, tmp_path_factory.mktemp("opencl"), environment={"KILN_TOOLCHAIN_DIRECTORIES": str(directories)},
                      descriptions=DESCRIPTIONS)

    return run


@pytest.fixture(scope="module")
def daemon(start):
    with start() as running:
        yield running


@pytest.fixture(scope="module")
def client(daemon):
    with kiln.Client(root=daemon.root) as connected:
        yield connected


def request(source=PLAIN, version="1.2", **more):
    return kiln.CompileRequest(source=source, kind="opencl", target=f"spirv:{version}", **more)


def refusal(client, source, **more):
    with pytest.raises(kiln.KilnError) as caught:
        client.compile(request(source, **more))
    return caught.value


def words(module):
    return [int.from_bytes(module[at:at + 4], "little") for at in range(0, len(module), 4)]


def test_the_command_line_compiles_a_file_and_what_a_launch_has_to_know(daemon, tmp_path):
    line = {"name": "k", "kind": "opencl", "target": "spirv:1.2", "source": SOURCE, "headers": HEADERS}
    (tmp_path / "requests.jsonl").write_text(json.dumps(line))
    answer = daemon.kiln("compile", "--requests", tmp_path / "requests.jsonl", "--json", "-o", tmp_path / "out")
    assert answer.objects()[0]["outcome"] == "compiled", answer
    assert words((tmp_path / "out" / "k.spv").read_bytes())[0] == 0x07230203
    metadata = json.loads((tmp_path / "out" / "k.json").read_text())["metadata"]
    assert [(one["name"], one["type"]) for one in metadata["parameters"]] == [
        ("x", "*f32"), ("n", "i32"), ("v", "b8[16]"), ("w", "b8[16]"), ("tmp", "*local f32"), ("table", "*constant i32"),
        ("s", "sampler")]
    assert (metadata["name"], metadata["shared_bytes"], metadata["num_warps"], metadata["warp_size"]) == ("scale", 256, 0, 1)
    told = metadata["toolchain_metadata"]
    assert [(one["name"], one["required_threads"]) for one in told["entries"]] == [("scale", [64, 2, 1]), ("other", None)]


def test_a_file_with_its_ending_is_compiled_hit_and_inspected(daemon, tmp_path):
    source = tmp_path / "fill.cl"
    source.write_text("kernel void fill(global int* x) { x[0] = 7; }")
    command = ("compile", source, "--target", "spirv:1.0", "--target", "spirv:1.4", "--json")
    first, again = (daemon.kiln(*command).objects() for _ in range(2))
    assert [one["outcome"] for one in first if "key" in one] == ["compiled"] * 2
    assert [one["outcome"] for one in again if "key" in one] == ["hit"] * 2
    keys = [one["key"] for one in first if "key" in one]
    told = daemon.kiln("inspect", keys[0], "--json").objects()[0]
    assert told["toolchain"].startswith("clang==15.")
    assert keys[0][:12] in daemon.kiln("ls").out


def test_a_module_has_no_newer_version_than_the_target(client):
    for version in ("1.0", "1.1", "1.2", "1.3", "1.4"):
        major, minor = map(int, version.split("."))
        header = words(client.compile(request(version=version)).binary)[1]
        assert (header >> 16, header >> 8 & 0xff) <= (major, minor)


def test_the_module_is_the_one_that_the_programs_give_by_hand(daemon, client, tmp_path):
    made = client.compile(request(SOURCE, headers=HEADERS, options={"cl-fast-relaxed-math": True, "define-macro": ("A=1",)}))
    assert daemon.kiln("reproduce", made.key, "-o", tmp_path / "folder").code == 0
    done = subprocess.run([sys.executable, tmp_path / "folder" / "reproduce.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "as stored" in done.stdout, done


def test_every_compile_gives_the_same_bytes(client):
    asked = request(SOURCE, headers=HEADERS)
    again = dataclasses.replace(asked, cache="refresh")
    modules = {client.compile(one).binary for one in (asked, again, again)}
    assert len(modules) == 1


def test_the_place_and_the_time_of_a_compile_are_not_in_the_module(client):
    source = 'kernel void k(global char* x) { constant char* t = __DATE__ __TIME__ __FILE__; x[0] = t[x[1]]; }'
    module = client.compile(request(source)).binary
    characters = [word for word in words(module) if word < 128]
    text = "".join(map(chr, characters))
    assert "tmp" not in text and "2026" not in text


def test_a_quotient_and_its_remainder_translate(client):
    client.compile(request("kernel void k(global int* x) { int a = x[0], b = x[1]; x[0] = a / b; x[1] = a % b; }"))


def test_an_error_has_its_line_and_column_and_is_remembered(client, daemon):
    error = refusal(client, "kernel void k(global int* x) {\n  x[0] = y;\n}")
    assert (error.diagnostics.line, error.diagnostics.column) == (2, 10)
    assert "undeclared identifier 'y'" in str(error)


def test_an_error_in_a_header_names_the_header_as_it_was_sent(client):
    error = refusal(client, SOURCE, headers={**HEADERS, "lib/factor.h": "#error no factor"})
    assert "lib/factor.h:1:2" in str(error) and "/headers" not in error.diagnostics.output


def test_what_the_translator_does_not_know_fails_with_its_words(client):
    error = refusal(client, "kernel void k(global long* x) { x[0] = (long)__builtin_frame_address(0); }")
    assert "llvm-spirv refuses" in str(error) and "frameaddress" in str(error)


def test_a_source_without_a_kernel_or_without_the_named_one_is_refused(client):
    assert "defines no kernel" in str(refusal(client, "int f(int x) { return x; }"))
    assert "of the name missing" in str(refusal(client, PLAIN, options={"entry": "missing"}))
    assert "name of one function" in str(refusal(client, PLAIN, options={"entry": "not a name"}))


def test_the_named_kernel_is_the_one_that_is_described(client):
    assert client.compile(request(SOURCE, headers=HEADERS, options={"entry": "other"})).metadata.name == "other"


@pytest.mark.parametrize("options", [{"include-path": "/etc"}, {"I": "/etc"}, {"cl-std": "CL2.0 -I/etc"}, {"cl-std": "clc++"},
                                     {"opt-level": 2}, {"define-macro": ("A B",)}, {"fplugin": "/tmp/x.so"}])
def test_an_option_that_is_not_on_the_list_is_refused(client, options):
    with pytest.raises((kiln.InvalidArgumentError, kiln.CompilationError), match="option '"):
        client.compile(request(options=options))


def test_what_equals_the_default_is_the_same_request(client):
    plain = client.compile(request())
    assert client.compile(request(options={"cl-std": "CL2.0", "cl-mad-enable": False})).key == plain.key
    assert client.compile(request(options={"cl-std": "CL1.2"})).key != plain.key


def test_warnings_are_kept(client):
    told = client.compile(request("kernel void k(global int* x) {\n#warning look here\n}")).metadata.toolchain_metadata
    assert "kernel.cl:2:2: warning: look here" in json.loads(told)["warnings"]


@pytest.mark.parametrize("name", ["/etc/passwd", "/usr/include/stdio.h", "/proc/self/maps", "/usr/lib/os-release", "/etc/ld.so.cache",
                                  "../../../../etc/passwd", "stdio.h"])
def test_a_source_includes_no_file_of_the_machine(client, name):
    assert "file not found" in str(refusal(client, f'#include "{name}"\n{PLAIN}'))
    seen = client.compile(request(f'#if __has_include("{name}")\n#error it is there\n#endif\n{PLAIN}'))
    assert seen.metadata.name == "plain"


def test_clangs_own_headers_are_there(client):
    assert client.compile(request(f"#include <opencl-c-base.h>\n{PLAIN}")).metadata.name == "plain"


def test_a_private_header_of_the_clients_is_not_read(client, tmp_path):
    secret = tmp_path / "secret.h"
    secret.write_text("#define SECRET 1")
    assert "file not found" in str(refusal(client, f'#include "{secret}"\n{PLAIN}'))


@pytest.mark.parametrize("name", ["../up.h", "/abs.h", "a/./b.h", "dir/"])
def test_a_header_has_a_name_within_the_headers(client, name):
    assert "relative names" in str(refusal(client, PLAIN, headers={name: ""}))


def test_a_target_that_is_no_version_says_how_one_is_written(client):
    assert "spirv:1.2" in str(refusal(client, PLAIN, version="64"))
    assert "it compiles for 1.0, 1.1, 1.2, 1.3, 1.4" in str(refusal(client, PLAIN, version="2.0"))


def test_without_the_programs_the_daemon_says_what_to_install(start, tmp_path):
    with start(tmp_path) as running, kiln.Client(root=running.root) as connected:
        error = refusal(connected, PLAIN)
    assert "llvm-spirv-15" in str(error) and "deploy/install-packages opencl" in str(error)


def test_a_clang_without_what_checks_the_module_is_not_used(start, tmp_path):
    (tmp_path / "bin").mkdir(parents=True)
    for program in ("clang-15", "llvm-spirv-15"):
        (tmp_path / "bin" / program).symlink_to(f"/usr/bin/{program}")
    with start(tmp_path) as running, kiln.Client(root=running.root) as connected:
        refusal(connected, PLAIN)
        assert "spirv-val" in running.log.read_text()


def test_toolchains_list_it(daemon):
    told = daemon.kiln("toolchain", "list", "--json").objects()
    assert any(one.get("name") == "clang" for one in told), told
