"""Several versions of Triton in one daemon: each compiles what the table in docs/toolchains.md says, as it does by itself.

The table is what is tested: a version that is in it and installed has to do all that its row says, and to refuse the rest with a
reason. KILN_TEST_VERSIONS says which have to be installed ("3.6.0 3.9.0"); without it, those two.
"""

import json
import os
import re
import subprocess

import pytest

from daemon import Daemon, Programs
from places import BINARIES, DESCRIPTIONS, KERNELS, ROOT, VERSIONS
from processes import CheckedProcess

pytestmark = pytest.mark.slow

ASSEMBLY = {"cuda": "ptx", "hip": "amdgcn"}
BINARY = {"cuda": "cubin", "hip": "hsaco"}
TARGETS = ("cuda:80", "cuda:86", "cuda:89", "cuda:90", "cuda:100", "cuda:120", "cuda:121",
           "hip:gfx90a", "hip:gfx942", "hip:gfx950", "hip:gfx1100", "hip:gfx1200")
# One without and one with tensor cores, whose code differs most from version to version, and one with a reduction.
KERNELS_TESTED = ("vector_add", "softmax", "matmul_128x128x64")
# Only the smaller kernels of each: so many targets take long.
BRIEFLY = {"cuda:86", "cuda:89", "cuda:120", "cuda:121", "hip:gfx1100", "hip:gfx1200"}
KERNELS_BRIEFLY = KERNELS_TESTED[:2]
# For these ptxas gives one of two cubins, as addresses fall.
WAVERING = ("cuda:100", "cuda:120", "cuda:121")
# What one version has and the other has no more, or not yet.
FOREIGN = {"3.6.0": ("cuda:110",), "3.9.0": ("cuda:101", "hip:gfx1030")}
# Were the two as likely as each other, the one wanted would be missed in so many once in four million runs.
AGAIN_MAX = 22
WANTED = os.environ.get("KILN_TEST_VERSIONS", "3.6.0 3.9.0").split()


def table():
    """docs/toolchains.md's table: the targets of each version."""
    text = (ROOT / "docs" / "toolchains.md").read_text()
    section = text.partition("## Which versions of Triton")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+\.\d+\.\d+) \|([^|]*)\|([^|]*)\|", section, re.MULTILINE)
    return {version: frozenset(f"cuda:{one}" for one in cuda.split()) | frozenset(f"hip:{one}" for one in hip.split())
            for version, cuda, hip in rows}


CLAIMED = table()
CASES = [(version, target) for version in WANTED for target in TARGETS]


def test_the_table_knows_every_version_that_is_tested():
    assert set(WANTED) <= set(CLAIMED)
    assert all(targets <= set(TARGETS) for targets in CLAIMED.values())


def python_of(version):
    python = VERSIONS / f"triton-{version}" / "bin" / "python"
    assert python.exists(), f"no Triton {version} in {VERSIONS}: run deploy/install-toolchain {version}"
    return python


def kernels_for(target):
    return KERNELS_BRIEFLY if target in BRIEFLY else KERNELS_TESTED


def run(version, program, *arguments):
    """Triton by itself."""
    CheckedProcess([python_of(version), "-B", KERNELS / program, *arguments]).finish()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """One daemon with all of them."""
    folder = tmp_path_factory.mktemp("kiln")
    directories = ":".join(str(VERSIONS / f"triton-{version}") for version in WANTED)
    with Daemon(Programs(BINARIES / "kilnd", BINARIES / "kiln", directories), folder, descriptions=DESCRIPTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def compiled(daemon, tmp_path_factory):
    """For each version the folder with what was lowered, what Triton made of it and what the daemon did, and the answers."""
    results = {}
    for version in WANTED:
        folder = tmp_path_factory.mktemp(f"triton-{version}")
        lines = ""
        for kernels in (KERNELS_TESTED, KERNELS_BRIEFLY):
            targets = ",".join(target for target in TARGETS if target in CLAIMED[version] and kernels_for(target) == kernels)
            chosen = ("--kernels", ",".join(kernels), "--targets", targets)
            run(version, "lower.py", *chosen, "--locations", "none", "--out", folder)
            run(version, "reference.py", *chosen, "--requests", folder / "requests.jsonl", "--out", folder / "reference")
            lines += (folder / "requests.jsonl").read_text()
        (folder / "requests.jsonl").write_text(lines)
        results[version] = folder
    # All versions at once, so that their workers run side by side.
    requests = folder / "all.jsonl"
    lines = [line for version in WANTED for line in _renamed(results[version], version)]
    requests.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer = daemon.kiln("compile", "--requests", requests, "--emit", "ptx,cubin,amdgcn,hsaco", "-o", folder / "kiln", "--json")
    answers = {one["name"]: one for one in answer.objects() if "name" in one}
    assert len(answers) == len(lines), answer
    files = {entry["name"]: folder / "kiln" / entry["file"] for entry in json.loads((folder / "kiln" / "index.json").read_text())}
    return results, answers, files


def _renamed(folder, version):
    for line in (folder / "requests.jsonl").read_text().splitlines():
        request = json.loads(line)
        assert request["toolchain"] == f"triton=={version}"
        yield {**request, "name": f"{version}/{request['name']}"}


@pytest.mark.parametrize("version, target", CASES)
def test_each_version_compiles_what_the_table_says(compiled, daemon, version, target):
    folders, answers, files = compiled
    if target not in CLAIMED[version]:
        return refuses(daemon, version, target, next(folders[version].glob("*.ttir")))
    folder, backend = folders[version], target.partition(":")[0]
    for kernel in kernels_for(target):
        name = f"{kernel}-{target.replace(':', '-')}"
        answer = answers[f"{version}/{name}"]
        assert answer["outcome"] == "compiled", answer
        ours = {suffix: (folder.parent / f"{files[f'{version}/{name}']}.{suffix}").read_bytes()
                for suffix in (ASSEMBLY[backend], BINARY[backend])}
        theirs = ({suffix: (out / f"{name}.{suffix}").read_bytes() for suffix in ours}
                  for out in references(folder, version, kernel, target))
        first = next(theirs)
        assert ours[ASSEMBLY[backend]] == first[ASSEMBLY[backend]], name
        assert ours == first or any(ours == other for other in theirs), name


def references(folder, version, kernel, target):
    """Folders with what Triton makes of it: where that wavers, several."""
    yield folder / "reference"
    for number in range(AGAIN_MAX if target in WAVERING else 0):
        again = folder / f"again-{number}"
        run(version, "reference.py", "--kernels", kernel, "--targets", target, "--requests", folder / "requests.jsonl", "--out", again)
        yield again


def refuses(daemon, version, target, source):
    answer = daemon.kiln("compile", source, "--target", target, "--toolchain", f"triton=={version}")
    assert answer.code == 1
    assert target.partition(":")[0] in answer.error and version in answer.error


@pytest.mark.parametrize("version, target", [(version, target) for version in WANTED for target in FOREIGN.get(version, ())])
def test_a_refusal_lists_what_there_is(compiled, daemon, version, target):
    source = next(compiled[0][version].glob("*.ttir"))
    answer = daemon.kiln("compile", source, "--target", target, "--toolchain", f"triton=={version}", "--json")
    (refused,) = [one for one in answer.objects() if "name" in one]
    assert refused["code"] == "FAILED_PRECONDITION", refused
    backend = target.partition(":")[0]
    # The architectures of what it has of this vendor.
    for claimed in CLAIMED[version]:
        if claimed.startswith(backend):
            assert claimed.partition(":")[2] in refused["error"], (claimed, refused)


def triton_says(version, expression):
    script = f"from triton.backends.nvidia.compiler import get_ptxas; print({expression})"
    done = subprocess.run([python_of(version), "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("version", [one for one in WANTED if tuple(map(int, one.split("."))) >= (3, 6)])
@pytest.mark.parametrize("target", ["cuda:90", "cuda:100"])
def test_the_assembler_that_is_on_record_is_the_one_that_ran(compiled, version, target):
    _, _, files = compiled
    name = f"{version}/vector_add-{target.replace(':', '-')}"
    path = triton_says(version, f"get_ptxas({target.partition(':')[2]}).path")
    described = json.loads((files[name].parent / f"{files[name].name}.json").read_text())
    assert described["provenance"]["assembler"].split()[0] == os.path.basename(path)


@pytest.mark.parametrize("version", WANTED)
@pytest.mark.parametrize("target", ["cuda:90", "cuda:100"])
def test_a_refusal_of_any_ptxas_is_a_compile_error(compiled, daemon, version, target):
    """Each calls itself by the name of its own file, and versions differ in which they run."""
    folders, _, _ = compiled
    if target not in CLAIMED[version]:
        return
    source = next(folders[version].glob(f"vector_add-{target.replace(':', '-')}*.ttir"))
    answer = daemon.kiln("compile", source, "--target", target, "--toolchain", f"triton=={version}",
                         "--option", "ptx_options=--fmad=maybe", "--json").objects()[0]
    assert (answer["code"], answer["diagnostics"]["stage"]) == ("INVALID_ARGUMENT", "cubin"), answer
    assert "expected true or false" in answer["error"]


def test_versions_share_nothing(compiled):
    _, answers, _ = compiled
    assert len({answer["key"] for answer in answers.values()}) == len(answers)


def test_each_toolchain_lists_its_targets(daemon):
    listed = daemon.kiln("doctor")
    assert listed.code == 0, listed
    for version in WANTED:
        assert f"triton=={version}" in listed.out
