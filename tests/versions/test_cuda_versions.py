"""Two versions of CUDA in one daemon: each compiles as its own NVRTC does when it is called by hand, and only where it is named."""

import base64
import hashlib
import json
import os
import subprocess
import sys

import pytest

from bare_nvrtc import find
from daemon import Daemon, Programs
from golden import sections_that_differ
from places import BINARIES, DESCRIPTIONS, ROOT, VERSIONS

pytestmark = pytest.mark.slow

NVRTC_VERSIONS = ("12.9.86", "13.0.88")
SOURCE = """#include <cuda_fp16.h>
#include "tile.h"
template <typename T> __global__ void __launch_bounds__(TILE) reverse(T* x) {
  __shared__ T s[TILE];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[TILE - 1 - threadIdx.x] * T(2);
}
"""
HEADERS = {"tile.h": "#pragma once\n#ifndef TILE\n#define TILE 64\n#endif\n"}
# What is asked of the daemon, and the same in NVRTC's words.
CASES = {
    "plain": ("80", {}, []),
    "specific": ("90a", {"options": {"use_fast_math": True}}, ["--use_fast_math"]),
    "defined": ("90", {"defines": ["TILE=128"], "std": "c++20"}, ["--define-macro=TILE=128", "--std=c++20"]),
    "debug": ("100", {"options": {"device-debug": True, "generate-line-info": True}}, ["--device-debug", "--generate-line-info"]),
    "bounded": ("120", {"launch": {"maxnreg": 32}}, ["--maxrregcount=32"]),
}
EXPRESSIONS = ["reverse<__half>", "reverse<float>"]


def folder_of(version):
    folder = VERSIONS / f"nvrtc-{version}"
    assert (folder / "bin" / "python").exists(), f"no NVRTC {version} in {VERSIONS}: run deploy/install-toolchain nvrtc=={version}"
    return folder


def fingerprint_of(version):
    """As docs/toolchains.md says that it is made."""
    library, builtins, includes = find(folder_of(version))
    files = {path.name: path for path in (library, builtins)}
    for number, folder in enumerate(includes):
        for parent, _, names in os.walk(folder, followlinks=True):
            path = os.path.join(parent, "")[len(str(folder)) + 1:]
            files.update({f"include-{number}/{path}{name}": os.path.join(parent, name) for name in names})
    places = [f"include-{number} {os.path.realpath(folder)}\n" for number, folder in enumerate(includes)]
    lines = [f"{hashlib.sha256(open(files[name], 'rb').read()).hexdigest()}  {name}\n" for name in sorted(files)]
    return hashlib.sha256(("kiln-toolchain-1\nnvrtc\ncall 3\n" + "".join(places + lines)).encode()).hexdigest()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """One daemon with both."""
    directories = ":".join(str(folder_of(version)) for version in NVRTC_VERSIONS)
    programs = Programs(BINARIES / "kilnd", BINARIES / "kiln", directories)
    with Daemon(programs, tmp_path_factory.mktemp("kiln"), descriptions=DESCRIPTIONS) as running:
        yield running


def by_hand(version):
    """What that NVRTC makes of each case in a process of its own."""
    jobs = [{"source": SOURCE, "architecture": architecture, "options": options, "headers": HEADERS, "expressions": EXPRESSIONS}
            for architecture, _, options in CASES.values()]
    done = subprocess.run([sys.executable, "-B", ROOT / "tests" / "testing" / "bare_nvrtc.py", folder_of(version)],
                          input=json.dumps(jobs) + "\n", capture_output=True, text=True, check=True)
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


def line(name, toolchain, case="plain", **more):
    architecture, words, _ = CASES[case]
    return {"name": name, "kind": "cuda", "target": f"cuda:{architecture}", "source": SOURCE, "headers": HEADERS,
            "name_expressions": EXPRESSIONS, "toolchain": toolchain, **words, **more}


def ask(daemon, folder, lines, *arguments):
    """The answers by name, after one run of kiln for all of them."""
    folder.mkdir(exist_ok=True)
    requests = folder / "requests.jsonl"
    requests.write_text("".join(json.dumps(each) + "\n" for each in lines))
    answer = daemon.kiln("compile", "--requests", requests, "--json", *arguments)
    answers = {one["name"]: one for one in answer.objects() if "name" in one}
    assert len(answers) == len(lines), answer
    return answers


@pytest.fixture(scope="module")
def compiled(daemon, tmp_path_factory):
    """All cases of both versions at once, so that their workers run side by side: the answers, and the folder with the results."""
    folder = tmp_path_factory.mktemp("compiled")
    lines = [line(f"{version}-{case}", f"nvrtc=={version}", case) for case in CASES for version in NVRTC_VERSIONS]
    return ask(daemon, folder, lines, "--emit", "ptx,cubin", "-o", folder / "out"), folder / "out"


@pytest.mark.parametrize("version", NVRTC_VERSIONS)
def test_each_nvrtc_gives_what_its_own_interface_gives(compiled, version):
    answers, out = compiled
    for case, made in by_hand(version).items():
        name = f"{version}-{case}"
        assert answers[name]["outcome"] == "compiled", answers[name]
        for stage in ("ptx", "cubin"):
            ours, theirs = (out / f"{name}.{stage}").read_bytes(), base64.b64decode(made[stage])
            if (case, stage) == ("debug", "cubin"):
                assert sections_that_differ(ours, theirs) == [], name  # line tables have the times of the headers (docs/adr/0093)
            else:
                assert ours == theirs, (name, stage)
        document = json.loads((out / f"{name}.json").read_text())
        assert document["metadata"]["toolchain_metadata"]["lowered_names"] == dict(zip(EXPRESSIONS, made["lowered"]))
        assert document["provenance"]["toolchain"] == f"nvrtc=={version}"
        assert document["provenance"]["assembler"] == f"nvrtc {version}"


def test_the_two_differ_and_share_nothing(compiled):
    answers, out = compiled
    assert len({answer["key"] for answer in answers.values()}) == len(answers)
    for case in CASES:
        one, other = ((out / f"{version}-{case}.cubin").read_bytes() for version in NVRTC_VERSIONS)
        assert one != other, case


@pytest.mark.parametrize("version", NVRTC_VERSIONS)
def test_a_fingerprint_names_exactly_one(daemon, compiled, tmp_path, version):
    fingerprint = fingerprint_of(version)
    for number, selector in enumerate((fingerprint, f"sha256:{fingerprint}")):
        named = ask(daemon, tmp_path / str(number), [line("k", selector)])["k"]
        assert (named["outcome"], named["key"]) == ("hit", compiled[0][f"{version}-plain"]["key"]), named


def test_a_warm_for_a_new_toolchain_leaves_what_the_old_one_compiled(daemon, tmp_path):
    old, new = (f"nvrtc=={version}" for version in NVRTC_VERSIONS)
    lines, manifest = tmp_path / "lines.jsonl", tmp_path / "job.kiln"
    lines.write_text("".join(json.dumps(line(case, old, case, source=f"{SOURCE}// updated\n")) + "\n" for case in CASES))
    assert daemon.kiln("manifest", "merge", lines, "-o", manifest).code == 0

    def warmed(*arguments):
        done = daemon.kiln("warm", manifest, "--json", *arguments)
        assert done.code == 0, done
        *kernels, last = (one for one in done.objects() if "progress" not in one)
        return {one["key"] for one in kernels}, {one["toolchain"] for one in kernels}, last["summary"]

    keys, toolchains, summary = warmed()
    assert (toolchains, summary["compiled"]) == ({old}, len(CASES))
    for each in (lines, manifest):
        status = daemon.kiln("warm", each, "--status", "--toolchain", new, "--json").objects()[0]
        assert status["missing_count"] == len(CASES), status
    updated, toolchains, summary = warmed("--toolchain", new)
    assert (toolchains, summary["compiled"]) == ({new}, len(CASES))
    assert keys | updated <= {one["key"] for one in daemon.kiln("ls", "--json").objects()} and not keys & updated
    assert daemon.kiln("wait", manifest, "--toolchain", new).code == 0
    again, toolchains, summary = warmed()
    assert (again, toolchains, summary["hit"]) == (keys, {old}, len(CASES))


def test_without_a_name_the_highest_compiles_it(daemon, compiled, tmp_path):
    answer = ask(daemon, tmp_path, [line("k", "")])["k"]
    assert answer["key"] == compiled[0][f"{NVRTC_VERSIONS[-1]}-plain"]["key"]


@pytest.mark.parametrize("selector", ["nvrtc==12.9", "nvrtc==12.8.93", "0" * 64])
def test_a_missing_version_is_not_replaced_by_another(daemon, tmp_path, selector):
    answer = ask(daemon, tmp_path, [line("k", selector)])["k"]
    assert answer["code"] == "FAILED_PRECONDITION", answer
    assert all(f"nvrtc=={version}" in answer["error"] for version in NVRTC_VERSIONS)


def test_a_target_of_one_toolchain_chooses_that_toolchain(daemon, tmp_path):
    """CUDA 13 dropped what CUDA 12 still compiles for."""
    old, new = NVRTC_VERSIONS
    answers = ask(daemon, tmp_path, [line(name, selector, target="cuda:70")
                                     for name, selector in (("old", f"nvrtc=={old}"), ("new", f"nvrtc=={new}"), ("any", ""))])
    assert answers["old"]["outcome"] == "compiled", answers["old"]
    assert answers["any"]["key"] == answers["old"]["key"]
    assert answers["new"]["code"] == "FAILED_PRECONDITION" and new in answers["new"]["error"], answers["new"]
