"""Bad input, through the command line, to a real daemon: a clear error with the right code that says what to do, and the daemon
goes on.

A kernel that does not compile is one line of JSON with code, message and what the compiler said. The command ends with 1: it ran,
and something that it was asked for failed.
"""

import json
import signal
import subprocess
import threading
import time

import pytest

TARGET = "cuda:90"
SOURCE_BYTES_MAX = 16 << 20


@pytest.fixture(scope="module")
def good(run_with_triton, tmp_path_factory):
    """Two lowered kernels, by name: a request that compiles, each."""
    folder = tmp_path_factory.mktemp("kernels")
    run_with_triton("lower.py", "--kernels", "vector_add,matmul_128x256x64", "--out", folder)
    lines = (folder / "requests.jsonl").read_text().splitlines()
    return {request["name"]: request for request in map(json.loads, lines)}


@pytest.fixture
def text(good):
    """The source of a small kernel that compiles."""
    with open(good["vector_add-cuda-90"]["source_file"], encoding="utf-8") as source:
        return source.read()


@pytest.fixture
def ask(daemon, tmp_path):
    """Sends one request of the fields given, less those that are None, and returns its answer: an object of --json."""

    def send(*arguments, **fields):
        path = tmp_path / "request.jsonl"
        request = {"name": "k", "target": TARGET, **fields}
        path.write_text(json.dumps({name: value for name, value in request.items() if value is not None}) + "\n")
        answer = daemon.kiln("compile", "--requests", path, "--json", *arguments)
        objects = answer.objects()
        assert [one["name"] for one in objects[:-1]] == ["k"], answer
        assert answer.code == (0 if objects[0]["outcome"] != "failed" else 1), answer
        return objects[0]

    return send


@pytest.fixture(autouse=True)
def daemon_goes_on(daemon, good, tmp_path):
    """Whatever a test sent: the same process serves on, and compiles."""
    pid = daemon.pid
    yield
    assert daemon.is_running() and daemon.pid == pid
    path = tmp_path / "good.jsonl"
    path.write_text(json.dumps(good["vector_add-cuda-90"]) + "\n")
    answer = daemon.kiln("compile", "--requests", path, "--json")
    assert answer.code == 0 and answer.objects()[0]["outcome"] in ("compiled", "hit"), answer


def assert_failed(answer, code, *words):
    """`words` stand in the message: what is wrong, and what to do about it."""
    assert answer["outcome"] == "failed"
    assert answer["code"] == code, answer
    for word in words:
        assert word in answer["error"], f"{word!r} is not in {answer['error']!r}"


# --- Sources -----------------------------------------------------------------------------------------------------------

FUNCTION = """
  tt.func {visibility} @{name}(%x: !tt.ptr<f32>) {{
    tt.return
  }}
"""

# As Triton 3.2 and 3.3 printed it; 3.6 calls the operation tt.descriptor_load.
OTHER_VERSION = """module {
  tt.func public @k(%desc: !tt.ptr<i8>, %x: i32) {
    %0 = tt.experimental_descriptor_load %desc[%x] : !tt.ptr<i8> -> tensor<128xf32>
    tt.return
  }
}
"""


@pytest.mark.parametrize("source", ["hello, world", "{}", "#!/bin/sh\necho\n", "(" * 100_000, "\u202e\u00e4\u4e2d"])
def test_not_mlir(ask, source):
    answer = ask(source=source)
    assert_failed(answer, "INVALID_ARGUMENT", "no tt.func in the source", "send the module as it is after Triton's ttir stage")
    assert answer["diagnostics"]["stage"] == "parse"


@pytest.mark.parametrize("source, kind", [("extern \"C\" __global__ void k() {}\n", "cuda"), ("//\n.version 8.4\n.target sm_90\n", "ptx")])
def test_a_source_of_another_kind_is_refused(ask, source, kind):
    answer = ask(source=source)
    assert_failed(answer, "INVALID_ARGUMENT", f"say that its kind is {kind} (--kind {kind}, in Python kind='{kind}')")


def test_a_parse_error_has_its_place(ask):
    answer = ask(source="module {\n  nonsense\n}\n")
    assert_failed(answer, "INVALID_ARGUMENT", "custom op 'nonsense' is unknown", "(line 2, column 3)")
    assert (answer["diagnostics"]["line"], answer["diagnostics"]["stage"]) == (2, "parse")


def test_mlir_of_another_dialect_version(ask):
    answer = ask(source=OTHER_VERSION)
    assert_failed(answer, "INVALID_ARGUMENT", "experimental_descriptor_load", "printed by another version of Triton? This is 3.6.0",
                  "name the toolchain that printed it, such as triton==3.6.0", "kiln doctor lists those here")
    assert answer["diagnostics"]["line"] == 3


# An operation that this Triton parses, and has no code for.
NOT_LEGAL = """module {
  tt.func public @k(%x: !tt.ptr<f32>) {
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %a = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %b = tt.addptr %a, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %c = tt.load %b : tensor<128x!tt.ptr<f32>>
    %d = math.atan %c : tensor<128xf32>
    tt.store %b, %d : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_an_operation_that_has_no_code(ask, target):
    answer = ask(source=NOT_LEGAL, target=target)
    assert_failed(answer, "INVALID_ARGUMENT", "failed to legalize operation 'math.atan'", f"{target} may not have that operation",
                  "printed by another version of Triton? This is 3.6.0", "kiln doctor lists those here")
    assert (answer["diagnostics"]["stage"], answer["diagnostics"]["line"]) == ("ttgir", 7)


def test_syntax_of_another_dialect_version(ask):
    source = "module {\n  tt.func public @k(%0: !tt.tensordesc<i32>) {\n    tt.return\n  }\n}\n"
    assert_failed(ask(source=source), "INVALID_ARGUMENT", "printed by another version of Triton? This is 3.6.0")


def test_two_entry_functions(ask):
    functions = "".join(FUNCTION.format(visibility="public", name=name) for name in ("first", "second"))
    assert_failed(ask(source=f"module {{{functions}}}\n"), "INVALID_ARGUMENT", "2 (first, second)", "make the others private")


@pytest.mark.parametrize("body", ["", FUNCTION.format(visibility="private", name="hidden")])
def test_no_entry_function(ask, body):
    assert_failed(ask(source=f"module {{{body}}}\n"), "INVALID_ARGUMENT", "this module has none", "send ")


def test_entry_function_in_a_module_within_the_module(ask):
    inner = FUNCTION.format(visibility="public", name="k")
    assert_failed(ask(source=f"module {{ module {{{inner}}} }}\n"), "INVALID_ARGUMENT", "stands in a module within the module", "move it")


def test_a_name_longer_than_any(ask):
    source = f"module {{{FUNCTION.format(visibility='public', name='k' * 70_000)}}}\n"
    assert_failed(ask(source=source), "INVALID_ARGUMENT", "has 70000 letters", "at most 65536")


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_more_parameters_than_any(ask, target):
    parameters = ", ".join(f"%x{number}: i32" for number in range(5000))
    source = f"module {{ tt.func public @k({parameters}) {{ tt.return }} }}\n"
    assert_failed(ask(source=source, target=target), "INVALID_ARGUMENT", "has 5000 parameters", "at most 4096")


# Odd, and nothing that a local compile minds.
@pytest.mark.parametrize("parameters", ["%" + 2000 * "x" + ": i32", ", ".join(f"%x{number}: i32" for number in range(4000))],
                         ids=["long", "many"])
def test_long_names_and_many_parameters_compile(ask, parameters):
    answer = ask(source=f"module {{ tt.func public @k({parameters}) {{ tt.return }} }}\n")
    assert answer["outcome"] in ("compiled", "hit"), answer


def test_a_place_beyond_any_source_is_left_out(ask):
    body = '%r = tt.make_range {end = 100 : i32, start = 0 : i32} : tensor<100xi32> loc("kernel.ttir":4294967295:7)'
    answer = ask(source=f"module {{ tt.func public @k(%x: i32) {{ {body} tt.return }} }}\n")
    assert_failed(answer, "INVALID_ARGUMENT", "power-of-two")
    assert answer["diagnostics"]["line"] == 0


def test_a_name_that_is_no_text(ask):
    assert_failed(ask(source=f"module {{{FUNCTION.format(visibility='public', name=chr(34) + chr(92) + 'FFk' + chr(34))}}}\n"),
                  "INVALID_ARGUMENT", "is not UTF-8")


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_truncated(ask, text, kept):
    # In the middle of the function, never just behind it.
    end = int(text.rindex("tt.return") * kept)
    answer = ask(source=text[:end])
    line = answer["diagnostics"]["line"]
    assert_failed(answer, "INVALID_ARGUMENT", f"(line {line}, ")
    assert answer["diagnostics"]["stage"] == "parse" and 0 < line <= text.count("\n") + 1


def test_64_mib(ask, tmp_path):
    path = tmp_path / "large.ttir"
    path.write_bytes(b"// a line of 32 bytes, comments\n" * (2 << 20))
    assert path.stat().st_size == 64 << 20
    answer = ask(source_file=str(path))
    assert answer["outcome"] == "failed"
    assert answer["code"] in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT")
    assert str(SOURCE_BYTES_MAX) in answer["error"] or "16 MiB" in answer["error"] or "16.0 MiB" in answer["error"]


@pytest.mark.parametrize("source", ["", " \n\t\n"])
def test_empty(ask, source):
    assert_failed(ask(source=source), "INVALID_ARGUMENT", "the source is empty", "send the kernel's text")


def test_nul_bytes(ask, text):
    assert_failed(ask(source=text.replace("tt.return", "tt.\0return")), "INVALID_ARGUMENT", "NUL byte", "send text, not a binary")


def test_not_utf8(ask, tmp_path):
    path = tmp_path / "latin.ttir"
    path.write_bytes(b"module { // \xe9\n}\n")
    assert_failed(ask(source_file=str(path)), "INVALID_ARGUMENT", "UTF-8", "is text")


def test_a_later_stage_sent_as_ttir(ask, daemon, good, tmp_path):
    source = good["vector_add-cuda-90"]["source_file"]
    assert daemon.kiln("compile", source, "--target", TARGET, "--emit", "ttgir", "-o", tmp_path).code == 0
    [ttgir] = tmp_path.glob("*.ttgir")
    assert_failed(ask(source=ttgir.read_text()), "INVALID_ARGUMENT", "TTGIR", "send the module as it is after Triton's ttir stage")


# --- Names that nothing here has ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target, there_are", [("metal:1", ("cuda", "hip")), ("CUDA:90", ("cuda", "hip"))])
def test_unknown_backend(ask, text, target, there_are):
    assert_failed(ask(source=text, target=target), "INVALID_ARGUMENT", "those known are", *there_are)


@pytest.mark.parametrize("target", ["cuda", "", ":", "cuda:", ":90"])
def test_half_a_target(ask, text, target):
    assert_failed(ask(source=text, target=target), "INVALID_ARGUMENT", "write cuda:90, hip:gfx942 or spirv:1.2 (backend:architecture)")


def test_no_target_at_all(ask, text):
    answer = ask(source=text, target=None)
    assert_failed(answer, "INVALID_ARGUMENT", "target is missing", "such as cuda:90")
    assert "target" not in answer


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:gfx942", "hip:90", "hip:../../etc"])
def test_architecture_of_another_backend(ask, text, target):
    answer = ask(source=text, target=target)
    assert_failed(answer, "INVALID_ARGUMENT", "such as " + ("cuda:90" if target.startswith("cuda") else "hip:gfx942"))


@pytest.mark.parametrize("target, there_are", [("cuda:7", ("80", "90", "100")), ("hip:gfx999", ("gfx90a", "gfx942", "gfx950"))])
def test_unknown_architecture(ask, text, target, there_are):
    answer = ask(source=text, target=target)
    assert_failed(answer, "FAILED_PRECONDITION", target, "it compiles for", *there_are)


def test_unknown_option(ask, text):
    assert_failed(ask(source=text, options={"num_wraps": 4}), "INVALID_ARGUMENT", "'num_wraps'", "it knows", "num_stages", "maxnreg",
                  "; did you mean num_warps?")


def test_option_of_the_other_backend(ask, text):
    assert_failed(ask(source=text, options={"waves_per_eu": 2}), "INVALID_ARGUMENT", "'waves_per_eu' for the cuda backend", "it knows",
                  "num_warps")


def test_unknown_stage(ask, text):
    assert_failed(ask("--emit", "spirv", source=text), "INVALID_ARGUMENT", "spirv", "it has ttgir, llir, ptx, cubin")


@pytest.mark.parametrize("toolchain", ["triton==9.9.9", "gcc==12", "0" * 64])
def test_unknown_toolchain(ask, text, toolchain):
    assert_failed(ask(source=text, toolchain=toolchain), "FAILED_PRECONDITION", toolchain, "there are ", "triton==3.6.0 (sha256 ")


def test_a_kind_that_no_toolchain_compiles(ask):
    answer = ask(source='extern "C" __global__ void k() {}', kind="cuda", toolchain="triton==3.6.0")
    assert_failed(answer, "FAILED_PRECONDITION", "triton==3.6.0", "it compiles ttir")


def test_unknown_kind(ask, text):
    assert_failed(ask(source=text, kind="fortran"), "INVALID_ARGUMENT", "fortran", "is none of ttir, cuda, ptx, ttgir")


# --- Options that are wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, value, expected", [
    ("num_warps", "four", "integer"),
    ("num_warps", True, "integer"),
    ("num_warps", 4.5, "integer"),
    ("num_warps", [4], "integer"),
    ("enable_fp_fusion", 1, "bool"),
    ("enable_fp_fusion", "yes", "bool"),
    ("default_dot_input_precision", 32, "string"),
    ("supported_fp8_dtypes", "fp8e5", """tuple, got a string; on the command line write a JSON array, as '["N=64"]'"""),
])
def test_option_of_the_wrong_type(ask, text, name, value, expected):
    assert_failed(ask(source=text, options={name: value}), "INVALID_ARGUMENT", name, f"must be of type {expected}")


def test_null_means_absent(ask, text):
    first = ask(source=text, options={})
    assert ask(source=text, options={"num_warps": None, "maxnreg": None})["key"] == first["key"]


def test_option_that_is_an_object(ask, text):
    assert_failed(ask(source=text, options={"num_warps": {"is": 4}}), "INVALID_ARGUMENT", "num_warps",
                  "a boolean, a number, a string or an array")


def test_option_that_names_a_file(ask, text):
    assert_failed(ask(source=text, options={"ir_override": "/etc/passwd"}), "INVALID_ARGUMENT", "ir_override",
                  "leave it out, or compile locally")


@pytest.mark.parametrize("target", ["cuda:80", "hip:gfx942"])
def test_clusters_before_hopper(ask, text, target):
    assert_failed(ask(source=text, target=target, options={"num_ctas": 2}), "INVALID_ARGUMENT", target,
                  "clusters need cuda:90 or later; set num_ctas to 1")


@pytest.mark.parametrize("num_warps", [3, 0, -4, 2**40])
def test_warps_that_are_no_power_of_two(ask, text, num_warps):
    assert_failed(ask(source=text, options={"num_warps": num_warps}), "INVALID_ARGUMENT", f"num_warps is {num_warps}",
                  "must be ")


# --- Kernels that do not fit --------------------------------------------------------------------------------------------


def test_more_registers_than_allowed(ask, good):
    request = good["matmul_128x256x64-cuda-90"]
    answer = ask(source_file=request["source_file"], options={"num_warps": 8, "maxnreg": 32})
    assert_failed(answer, "RESOURCE_EXHAUSTED", "Insufficient registers (32)", "Try to compile with register target of")
    assert answer["diagnostics"]["stage"] == "cubin"
    # ptxas's own words.
    assert "ptxas fatal" in answer["diagnostics"]["output"]


def test_a_failure_is_the_same_the_second_time(ask, good):
    request = good["matmul_128x256x64-cuda-90"]
    first, second = (ask(source_file=request["source_file"], options={"num_warps": 8, "maxnreg": 40}) for _ in range(2))
    for name in ("code", "error", "diagnostics", "key"):
        assert first[name] == second[name]


# --- Files of requests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line, words", [
    ("not json", "not JSON"),
    ("[]", "is array, not an object"),
    ("null", "is null, not an object"),
    ('{"name": "k"}', "give either 'source' or 'source_file'"),
    ('{"name": "k", "target": "cuda:90"}', "give either 'source' or 'source_file'"),
    ('{"name": "k", "target": "cuda:90", "source_file": "/no/such/file"}', "source_file: /no/such/file"),
    ('{"name": "k", "target": 90, "source": "module {}"}', "target is number, not a string"),
    ('{"name": "k", "target": "cuda:90", "source": ["module {}"]}', "source is array, not a string"),
    ('{"name": "k", "target": "cuda:90", "sauce": "module {}"}', "there are cache_policy defines headers job"),
    ("{" * 50_000, "not JSON: column 2: "),
    ('{"name": "k", "target": "cuda:90", "source": "m", "options": {"num_warps": NaN}}', "not JSON, near options.num_warps: column "),
    ('{"name": "k", "target": "cuda:90", "source": "m", "specialization": {"parameters": [{"constant": 99999999999999999999}]}}',
     "specialization.parameters.0.constant: 99999999999999999999 does not fit in 64 bits"),
])
def test_a_bad_line_is_an_answer_and_the_others_go_on(daemon, good, tmp_path, line, words):
    path = tmp_path / "requests.jsonl"
    fine = json.dumps(good["vector_add-cuda-90"])
    path.write_text(f"{fine}\n{line}\n{fine}\n")
    answer = daemon.kiln("compile", "--requests", path, "--json")
    assert answer.code == 1
    *answers, summary = answer.objects()
    [failed] = [one for one in answers if one["outcome"] == "failed"]
    assert (failed["line"], len(answers), summary["summary"]["failed"]) == (2, 3, 1)
    assert words in failed["error"]


def test_no_file_of_requests(daemon):
    answer = daemon.kiln("compile", "--requests", "/no/such/file.jsonl")
    assert answer.code == 2
    assert "/no/such/file.jsonl" in answer.error


def test_names_that_are_not_file_names_stay_in_the_folder(daemon, good, tmp_path):
    names = ["../../escape", "/absolute", "a/b", "", ".", "..", "\u00fc" * 300, "new\nline", "x\u0000y", "-rf", "CON", " "]
    request = good["vector_add-cuda-90"]
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps({**request, "name": name}) + "\n" for name in names))
    out = tmp_path / "deep" / "out"
    answer = daemon.kiln("compile", "--requests", path, "-o", out, "--json")
    assert answer.code == 0, answer
    assert len(answer.objects()) == len(names) + 1
    written = {file.relative_to(tmp_path).parts[:2] for file in tmp_path.rglob("*") if file.is_file() and file != path}
    assert written == {("deep", "out")}
    assert len(list(out.glob("*.cubin"))) == len(names)


# --- For people ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [["--json"], []])
def test_a_program_may_wait_for_an_answer_before_it_writes_the_next_line(daemon, good, options):
    with subprocess.Popen(daemon.kiln_command("compile", "--requests", "-", *options), env=daemon.environment(), text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as command:
        deadline = threading.Timer(60, command.kill)
        deadline.start()
        for name in ("first", "second", "third"):
            # The PTX is not in the hot directory: the daemon answers.
            command.stdin.write(json.dumps({**good["vector_add-cuda-90"], "name": name, "stages": ["ptx"]}) + "\n")
            command.stdin.flush()
            assert name in command.stdout.readline()
        command.stdin.write("not JSON\n")
        command.stdin.flush()
        assert "failed" in command.stdout.readline()
        command.stdin.close()
        assert command.wait(60) == 1
        deadline.cancel()


def test_an_interrupted_compile_leaves_only_what_is_complete(daemon, good, tmp_path):
    out = tmp_path / "out"
    # Where the tests run in the background, a shell has them, and what they start, pass over the signal.
    with subprocess.Popen(daemon.kiln_command("compile", "--requests", "-", "-o", out), env=daemon.environment(), stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as command:
        # The end of the input does not come: it waits for more of it, or is writing what it has.
        for number in range(300):
            command.stdin.write(json.dumps({**good["vector_add-cuda-90"], "name": f"k{number}"}) + "\n")
        command.stdin.flush()
        while not (out / "k20.json").exists():
            assert command.poll() is None
            time.sleep(0.001)
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == -signal.SIGINT
    left = {path.name for path in out.iterdir()}
    assert not [name for name in left if name.startswith(".") or name == "index.json"]
    for name in left:
        if name.endswith(".json"):
            (stage,) = json.loads((out / name).read_text())["stages"]
            assert (out / stage["file"]).stat().st_size == int(stage["size_bytes"])


def test_the_message_names_file_line_and_column(daemon, tmp_path):
    path = tmp_path / "broken.ttir"
    path.write_text("module {\n  nonsense\n}\n")
    answer = daemon.kiln("compile", path, "--target", TARGET)
    assert answer.code == 1
    assert answer.error.startswith(f"{path}:2:3: parse: ") and "kernel.ttir" not in answer.error, answer.error


def test_wrong_usage_ends_with_2(daemon):
    for arguments, advice in ((("compile",), "name source files"), (("compile", "--no-such-flag"), "--help"),
                              (("no-such-command",), "--help")):
        answer = daemon.kiln(*arguments)
        assert answer.code == 2, answer
        assert advice in answer.error


def test_no_daemon_there(programs, tmp_path):
    from daemon import Daemon

    (tmp_path / "k.ttir").write_text("module {}\n")
    answer = Daemon(programs, tmp_path).kiln("compile", tmp_path / "k.ttir", "--target", TARGET)
    assert answer.code == 2
    assert "kilnd" in answer.error and "try:" in answer.error
