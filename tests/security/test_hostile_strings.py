"""Names and options are never paths, commands or formats: 212 strings that would be, in every place that takes one.

Each string has a canary in it, a file that only a string taken for something else could make. They go to a real daemon, which
hands what it accepts to real compilers and a real ptxas.
"""

import json
import pathlib
import re

import pytest

from daemon import Daemon
from places import CUDA, DESCRIPTIONS, TOOLCHAINS

pytestmark = pytest.mark.slow

TTIR = """module {{
  tt.func public @"{name}"(%x: !tt.ptr<f32>) {{
    tt.return
  }}
}}
"""
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry {name}()
{{
	ret;
}}
"""

SHELL = ["; touch {c}", "| touch {c}", "|| touch {c}", "&& touch {c}", "& touch {c} &", "$(touch {c})", "`touch {c}`", "\ntouch {c}\n",
         "\r\ntouch {c}\r\n", "' ; touch {c} ; '", '" ; touch {c} ; "', "> {c}", ">> {c}", "2> {c}", "< /etc/passwd > {c}", "x\\\n; touch {c}",
         "{{touch,{c}}}", "%0atouch {c}", "${{IFS}}touch${{IFS}}{c}", "!touch {c}", "<(touch {c})", "$'\\x0a'touch {c}", "-c 'touch {c}'",
         "sh -c 'touch {c}'", "/bin/sh -c 'touch {c}'", "__import__('os').system('touch {c}')", "open('{c}','w')", "@{c}", "@@{c}"]
PATHS = ["{c}", "../../../../../../../../../..{c}", "..{c}", "./{c}", "//{c}", "file://{c}", "~/{c}", "/proc/self/root{c}", "/proc/self/cwd{c}",
         "/dev/stdout", "/dev/fd/1", "/etc/passwd", "/etc/shadow", "/proc/1/environ", "..", ".", "...", "/", "../", "kernel.ttir", "kernel.ptx",
         "kernel.cubin/../{c}", "COM1", "con", "{c}\0.cubin", "\0{c}", "x/../../{c}", "..\\..\\{c}", "%2e%2e%2f{c}", "..%c0%af{c}"]
ARGUMENTS = ["-o {c}", "-o{c}", "--output-file={c}", "--output-file {c}", "--output-file\0{c}", "-o\t{c}", "--options-file={c}", "-optf {c}",
             "--input-as-string x -o {c}", "--", "-", "--help", "--version", "-v", "--keep", "--keep-dir={c}", "-D{c}", "--dump={c}"]
FORMATS = ["%s%s%s%n", "%n", "{{0.__class__}}", "{{}}", "%(x)s", "\\x00", "\\u0000", "\x1b[2J", "\x1b]0;x\x07", "\x7f", "\u202e{c}", "\ufeff",
           "\U0001f4a5", "\u0000", "a" * 900, "a" * 5000, "\t", " ", "", "'", '"', "\\", "null", "None", "true", "NaN", "-1", "1e999", "{c}'--"]
PREFIXES = ["", "kernel"]


def corpus(canary):
    forms = [form.format(c=canary) for form in SHELL + PATHS + ARGUMENTS + FORMATS]
    return sorted({prefix + form for prefix in PREFIXES for form in forms})


# What a worker and ptxas call their files: Python's temporary names among them.
OWN_NAMES = re.compile(r"kernel\.(ttir|ptx|cubin)|output|tmp\w{8}(\.\w+)*")

KERNEL = "__global__ void k(int* x) { *x = 1; }\n"
CUDA_REQUEST = {"kind": "cuda", "source": KERNEL}

# Where a string goes. Valid apart from it, so that it gets as far as it can.
PLACES = {
    "name": lambda s: {"name": s},
    "option": lambda s: {"options": {s: 1}},
    "value": lambda s: {"options": {"num_warps": s}},
    "ptx_options": lambda s: {"options": {"ptx_options": s}},
    "architecture": lambda s: {"target": f"cuda:{s}"},
    "backend": lambda s: {"target": f"{s}:90"},
    "toolchain": lambda s: {"toolchain": s},
    "function": lambda s: {"source": TTIR.format(name=json.dumps(s)[1:-1])},
    "source": lambda s: {"source": s},
    "entry": lambda s: {"kind": "ptx", "source": PTX.format(name="k"), "options": {"entry": s}},
    "ptx-entry": lambda s: {"kind": "ptx", "source": PTX.format(name=s)},
    "ptx-toolchain": lambda s: {"kind": "ptx", "source": PTX.format(name="k"), "toolchain": s},
    "header": lambda s: {**CUDA_REQUEST, "headers": {s: "#define ONE 1\n"}},
    "included": lambda s: {**CUDA_REQUEST, "source": f'#include "{s}"\n{KERNEL}', "headers": {s: "#define ONE 1\n"}},
    "define-macro": lambda s: {**CUDA_REQUEST, "options": {"define-macro": [s]}},
    "undefine-macro": lambda s: {**CUDA_REQUEST, "options": {"undefine-macro": [s]}},
    "name-expressions": lambda s: {**CUDA_REQUEST, "options": {"name-expressions": [s]}},
    "std": lambda s: {**CUDA_REQUEST, "options": {"std": s}},
}


@pytest.fixture(scope="module")
def daemon(programs, tmp_path_factory):
    """One that finds an NVRTC, too."""
    environment = {"KILN_TOOLCHAIN_DIRECTORIES": f"{TOOLCHAINS}:{CUDA}"}
    with Daemon(programs, tmp_path_factory.mktemp("kiln"), environment=environment, descriptions=DESCRIPTIONS) as running:
        yield running


def files_beneath(folder):
    return {path for path in pathlib.Path(folder).rglob("*") if not path.is_socket()}


@pytest.fixture
def canaries(tmp_path):
    folder = tmp_path / "canaries"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_the_corpus_is_large(tmp_path):
    assert len(corpus(str(tmp_path / "x"))) >= 200


@pytest.mark.parametrize("place", PLACES)
def test_a_hostile_string_has_no_effect(daemon, canaries, tmp_path, place):
    strings = corpus(str(canaries / "canary"))
    home = files_beneath(tmp_path)
    work = pathlib.Path(daemon.root) / "run" / "work"
    pid = daemon.pid
    base = {"name": "k", "target": "cuda:90", "source": TTIR.format(name="k")}
    requests = tmp_path / "requests.jsonl"
    requests.write_text("".join(json.dumps({**base, **PLACES[place](s)}) + "\n" for s in strings))
    answer = daemon.kiln("compile", "--requests", requests, "--json")

    assert daemon.is_running() and daemon.pid == pid
    answered = [one for one in answer.objects() if "outcome" in one]
    assert len(answered) == len(strings), answer
    assert not any(one.get("code") == "INTERNAL" for one in answered), [one for one in answered if one.get("code") == "INTERNAL"]
    assert files_beneath(tmp_path) - home == {requests}
    assert list(canaries.iterdir()) == []
    # A slot may still hold what its last compile wrote, under names that the worker chose.
    left = {path.relative_to(work).parts[2:] for path in work.glob("*/slot-*/**/*")}
    assert all(len(parts) == 1 and OWN_NAMES.fullmatch(parts[0]) for parts in left), left
    assert {path.name.partition("-")[0] for path in work.glob("*/*")} <= {"slot"}
