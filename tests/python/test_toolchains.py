"""Toolchains that come, change and go under a running daemon, and `kiln toolchain`, which sees to it."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

from daemon import Daemon
from kiln_triton_worker.warm_kernel import WARM_KERNEL
from places import ROOT, TOOLCHAIN

pytestmark = pytest.mark.one_case

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry {name}(.param .u64 p)
{{
	.reg .b64 %rd1;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [p];
	ld.global.f32 %f1, [%rd1];
	add.f32 %f2, %f1, %f1;
	st.global.f32 [%rd1], %f2;
	ret;
}}
"""
CUDA = pathlib.Path(os.environ.get("KILN_TEST_CUDA", "/usr/local/cuda"))


def tritons(name):
    (found,) = TOOLCHAIN.glob(f"lib/python3.*/site-packages/triton/backends/nvidia/bin/{name}")
    return found


PACKAGES = "lib/python3.11/site-packages"


def ptxas_files():
    """Relative to a toolkit or an environment, all that the daemon looks for."""
    source = (ROOT / "daemon/toolchain/found_toolchain.cc").read_text()
    toolkit, packaged = (re.search(rf"k{which}Ptxas\[\] = {{(.*?)}};", source, re.DOTALL)[1] for which in ("Toolkit", "Packaged"))
    return re.findall('"(.*?)"', toolkit) + [f"{PACKAGES}/{file}" for file in re.findall('"(.*?)"', packaged)]


PTXAS_FILES = ptxas_files()
OLD, NEW = tritons("ptxas"), tritons("ptxas-blackwell")


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def install(ptxas, folder):
    """A directory that holds this ptxas, as a CUDA toolkit would."""
    (folder / "bin").mkdir(parents=True)
    shutil.copy(ptxas, folder / "bin" / "ptxas")
    return folder


@pytest.fixture
def place(tmp_path):
    """The folder that the daemon searches."""
    folder = tmp_path / "toolchains"
    folder.mkdir()
    return folder


@pytest.fixture
def own(tmp_path):
    """The daemon's own directory, which holds what is added."""
    return tmp_path / "root" / "state" / "toolchains"


@pytest.fixture
def daemon(programs, tmp_path, place):
    return Daemon(programs, tmp_path, environment={"KILN_TOOLCHAIN_DIRECTORIES": str(place)})


def toolchains(daemon):
    answer = daemon.kiln("toolchain", "list", "--json")
    assert answer.code == 0, answer
    return [one for one in answer.objects() if "name" in one]


def names(daemon):
    return [f"{one['name']}=={one['version']}" for one in toolchains(daemon)]


def compile_ptx(daemon, folder, name, *arguments):
    """What --json says of the compile of a kernel of that name, which is its key as well."""
    source = folder / f"{name}.ptx"
    source.write_text(PTX.format(name=name))
    answer = daemon.kiln("compile", source, "--target", "cuda:90", "--json", "-o", folder / "out", *arguments)
    return answer.objects()[0]


def assert_is_of(ptxas, folder, name):
    """The cubin that was compiled is the one that this ptxas gives."""
    with open(folder / "by-hand", "wb") as log:
        subprocess.run(["ptxas", "-v", "--gpu-name=sm_90", f"{name}.ptx", "-o", "by-hand.cubin"], executable=ptxas,
                       cwd=folder, check=True, stdout=log, stderr=log)
    assert (folder / "out" / f"{name}.cubin").read_bytes() == (folder / "by-hand.cubin").read_bytes()


def test_a_toolchain_is_added_while_the_daemon_runs(daemon, own, tmp_path):
    with daemon:
        assert compile_ptx(daemon, tmp_path, "a")["code"] == "FAILED_PRECONDITION"
        toolkit = install(OLD, tmp_path / "cuda-12.8")
        answer = daemon.kiln("toolchain", "add", "ptxas", "--path", toolkit)
        assert answer.code == 0 and answer.error.startswith("added "), answer
        assert compile_ptx(daemon, tmp_path, "a")["outcome"] == "compiled"
        assert_is_of(OLD, tmp_path, "a")
        (added,) = toolchains(daemon)
        assert added["fingerprint"] == digest_of(OLD) and added["kinds"] == ["ptx"]
        assert (own / "ptxas-cuda-12.8").resolve() == toolkit.resolve()
        assert daemon.kiln("doctor").code == 0
        assert f'toolchain="ptxas=={added["version"]}"' in next(
            line for line in daemon.log.read_text().splitlines() if "zygote ready" in line)
        # Once more is no error, and adds nothing.
        answer = daemon.kiln("toolchain", "add", "ptxas", "--path", toolkit)
        assert answer.code == 0 and not answer.error.startswith("added "), answer
        assert f"already there: ptxas=={added['version']}, fingerprint {digest_of(OLD)}" in answer.error
    with daemon:
        assert names(daemon) == [f"ptxas=={added['version']}"]


def started_zygotes(daemon):
    """The toolchains that have one."""
    return [re.search('toolchain="(.*?)"', line)[1] for line in daemon.log.read_text().splitlines() if "zygote ready" in line]


def test_the_first_ptxas_starts_with_the_daemon_and_others_with_a_request(daemon, place, tmp_path):
    install(OLD, place / "cuda-12.8")
    install(NEW, place / "cuda-12.9")
    with daemon:
        newer, older = names(daemon)
        deadline = time.monotonic() + 60
        while not started_zygotes(daemon) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert started_zygotes(daemon) == [newer]
        assert compile_ptx(daemon, tmp_path, "a")["outcome"] == "compiled"
        assert started_zygotes(daemon) == [newer]
        assert compile_ptx(daemon, tmp_path, "a", "--toolchain", older)["outcome"] == "compiled"
        assert started_zygotes(daemon) == [newer, older]


def test_a_served_toolchain_is_not_added_again(programs, place, tmp_path):
    toolkit = install(OLD, tmp_path / "cuda-12.8")
    (tmp_path / "cuda").symlink_to(toolkit)
    environment = {"KILN_TOOLCHAIN_DIRECTORIES": f"{place}:{tmp_path}/cuda"}
    with Daemon(programs, tmp_path, environment=environment) as daemon:
        before = toolchains(daemon)
        for path in (tmp_path / "cuda", toolkit):
            answer = daemon.kiln("toolchain", "add", "ptxas", "--path", path)
            assert answer.code == 0, answer
            assert answer.error.startswith(f"{tmp_path}/cuda is already there: ptxas=={before[0]['version']}, "), answer
        assert list(place.iterdir()) == [] and toolchains(daemon) == before
        for name, said in ("ptxas", f"say which: ptxas=={before[0]['version']}"), ("foo", "the daemon has no foo"):
            answer = daemon.kiln("toolchain", "remove", name)
            assert answer.code != 0 and said in answer.error, answer


def test_a_folder_without_a_toolchain_is_not_added(daemon, place, tmp_path):
    (tmp_path / "empty").mkdir()
    with daemon:
        broken = tmp_path / "broken"
        (broken / "bin").mkdir(parents=True)
        (broken / "bin" / "ptxas").write_text("#!/bin/sh\nexit 3\n")
        (broken / "bin" / "ptxas").chmod(0o755)
        answer = daemon.kiln("toolchain", "add", "ptxas", "--path", broken)
        assert answer.code == 1
        assert "is not used" in answer.error and "said no version" in answer.error and "mend that or" in answer.error
        for words, said in [
                (["gcc==12"], "triton, nvrtc"),
                (["cuda==12.9.86"], "nvrtc (CUDA C++)"),
                (["cuda", "--path", tmp_path / "empty"], "nvrtc (CUDA C++)"),
                (["nvrtc==12.9"], "three numbers, as nvrtc==12.9.86"),
                (["triton==3.6"], "three numbers, as triton==3.6.0")]:
            answer = daemon.kiln("toolchain", "add", *words)
            assert answer.code == 2 and said in answer.error and "usage" not in answer.error, answer
        assert daemon.kiln("toolchain", "add", "../x==1").code == 2
        assert daemon.kiln("toolchain", "add", "triton").code == 2
        assert daemon.kiln("toolchain", "frobnicate").code == 2
    assert list(place.iterdir()) == []


def test_a_directory_without_it_is_refused_with_what_is_looked_for(daemon, place, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling" / "lib64").mkdir(parents=True)
    (tmp_path / "dangling" / "lib64" / "libnvrtc.so.12").symlink_to("nowhere")
    with daemon:
        for name, said in [("empty", f"there is no nvrtc in {tmp_path}/empty; what is looked for: lib64/libnvrtc.so.*"),
                           ("dangling", f"there is no nvrtc in {tmp_path}/dangling; what is looked for: lib64/libnvrtc.so.*"),
                           ("missing", f"{tmp_path}/missing is not there"), ("file", f"{tmp_path}/file is no directory")]:
            answer = daemon.kiln("toolchain", "add", "nvrtc", "--path", tmp_path / name)
            assert answer.code == 1 and answer.out == "" and said in answer.error, answer
        answer = daemon.kiln("toolchain", "add", "nvrtc==12.9.86", "--path", tmp_path / "empty", "--into", tmp_path / "elsewhere")
        assert answer.code == 2 and "--into" in answer.error, answer
    assert list(place.iterdir()) == []


def test_a_toolchain_writable_by_others_is_refused_with_advice(daemon, own, tmp_path):
    toolkit = install(OLD, tmp_path / "cuda")
    (toolkit / "bin").chmod(0o777)
    with daemon:
        answer = daemon.kiln("toolchain", "add", "ptxas", "--path", toolkit)
        assert answer.code == 1 and "bin may be written to by everyone" in answer.error and "chmod o-w" in answer.error, answer
        assert names(daemon) == [] and not list(own.glob("ptxas*"))
        (toolkit / "bin").chmod(0o755)
        assert daemon.kiln("toolchain", "add", "ptxas", "--path", toolkit).code == 0


@pytest.mark.skipif(not CUDA.is_dir(), reason="no CUDA toolkit")
def test_an_nvrtc_that_does_not_open_is_named_with_the_reason(daemon, place, tmp_path):
    library = tmp_path / "cuda" / "lib64" / "libnvrtc.so.12"
    library.parent.mkdir(parents=True)
    library.write_text("no library")
    (builtins, *_) = CUDA.glob("**/libnvrtc-builtins.so.*")
    shutil.copy(builtins, library.parent)
    with daemon:
        answer = daemon.kiln("toolchain", "add", "nvrtc", "--path", tmp_path / "cuda")
    assert answer.code == 1 and list(place.iterdir()) == [], answer
    assert f"{library} is not used: " in answer.error and "it does not open" in answer.error, answer
    assert "mend that or install it anew, and add it again" in answer.error


def test_a_ptxas_of_another_version_is_named_by_its_version(daemon, tmp_path):
    with daemon:
        answer = daemon.kiln("toolchain", "add", "ptxas==1.2.3", "--path", install(OLD, tmp_path / "cuda"))
        assert answer.code == 1 and "what it has is ptxas==12" in answer.error and "and not ptxas==1.2.3" in answer.error, answer


def test_a_toolchain_that_is_served_by_another_path_is_reported(daemon, place, tmp_path):
    install(OLD, place / "cuda")
    with daemon:
        answer = daemon.kiln("toolchain", "add", "ptxas", "--path", install(OLD, tmp_path / "copy"))
        assert answer.code == 1 and "the daemon has the same ptxas already, by another path" in answer.error, answer
    assert list(place.iterdir()) == [place / "cuda"]


@pytest.mark.parametrize("name, file", [
    *(("ptxas", file) for file in PTXAS_FILES),
    ("nvrtc", "lib64/libnvrtc.so.12"),
    ("nvrtc", f"{PACKAGES}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
    ("nvrtc", f"{PACKAGES}/nvidia/cu13/lib/libnvrtc.so.13"),
    ("triton", f"{PACKAGES}/triton/__init__.py"),
])
def test_a_file_that_does_not_work_is_named_with_the_reason(daemon, name, file, tmp_path):
    (tmp_path / "made" / file).parent.mkdir(parents=True)
    (tmp_path / "made" / file).write_text("nothing")
    with daemon:
        answer = daemon.kiln("toolchain", "add", name, "--path", tmp_path / "made")
    assert answer.code == 1 and " is not used: " in answer.error, answer


@pytest.mark.slow
@pytest.mark.parametrize("replace", [shutil.copyfile, lambda new, path: (shutil.copy(new, f"{path}.new"), os.rename(f"{path}.new", path))],
                         ids=["written over", "renamed over"])
def test_a_replaced_ptxas_never_answers_for_the_old_one(daemon, place, tmp_path, replace):
    path = install(OLD, place / "cuda") / "bin" / "ptxas"
    old, new = digest_of(OLD), digest_of(NEW)
    with daemon:
        before = compile_ptx(daemon, tmp_path, "a")
        assert before["outcome"] == "compiled"
        replace(NEW, path)
        # The old one is gone, and nothing is compiled in its name.
        refused = compile_ptx(daemon, tmp_path, "b", "--toolchain", old)
        assert refused["code"] == "FAILED_PRECONDITION", refused
        # A request without a toolchain gets what is there now, under its new fingerprint.
        after = compile_ptx(daemon, tmp_path, "a")
        assert after["outcome"] == "compiled" and after["key"] != before["key"]
        assert_is_of(NEW, tmp_path, "a")
        (told,) = toolchains(daemon)
        assert told["fingerprint"] == new
        assert daemon.kiln("inspect", before["key"], "--json").objects()[0]["provenance"]["toolchain_fingerprint"] == old
        assert daemon.kiln("stats", "--json").objects()[0]["toolchains_changed"] == 1
        doctor = daemon.kiln("doctor").out
        assert "changed on disk once" in doctor and f"{path} is not as it was" in doctor, doctor
        # What was stored stays what it was, and is found again when the old one is back.
        replace(OLD, path)
        assert daemon.kiln("toolchain", "reload").code == 0
        assert compile_ptx(daemon, tmp_path, "a")["outcome"] == "hit"
        assert_is_of(OLD, tmp_path, "a")
    assert "toolchain changed on disk" in daemon.log.read_text()


@pytest.mark.slow
def test_a_replaced_ptxas_of_triton_never_answers_for_the_old_one(daemon, place, tmp_path):
    (place / "triton").symlink_to(TOOLCHAIN)
    path = install(OLD, place / "cuda") / "bin" / "ptxas"
    with open(path, "ab") as file:
        file.write(b"not Triton's own")
    before = digest_of(path)
    source = tmp_path / "k.ttir"

    def compile_with(ptxas, tag):
        source.write_text(f"{WARM_KERNEL}// {tag}\n")
        answer = daemon.kiln("compile", source, "--target", "cuda:90", "--toolchain", "triton==3.6.0", "--ptxas", ptxas, "--json",
                             "-o", tmp_path / "out")
        return answer.objects()[0]

    with daemon:
        assert compile_with(before, "a")["outcome"] == "compiled"
        old = (tmp_path / "out" / "k.cubin").read_bytes()
        # The worker has assembled with it before, and now with another by the same name.
        shutil.copyfile(NEW, path)
        assert compile_with(before, "b")["code"] == "FAILED_PRECONDITION"
        assert compile_with(digest_of(NEW), "a")["outcome"] == "compiled"
        assert (tmp_path / "out" / "k.cubin").read_bytes() != old


@pytest.mark.slow
def test_the_default_is_chosen_and_kept(daemon, place, programs, tmp_path):
    install(OLD, place / "old")
    install(NEW, place / "new")
    with daemon:
        newest, oldest = names(daemon)
        assert newest > oldest
        first = compile_ptx(daemon, tmp_path, "a")
        assert daemon.kiln("toolchain", "default", oldest).code == 0
        second = compile_ptx(daemon, tmp_path, "a")
        assert second["outcome"] == "compiled" and second["key"] != first["key"]
        assert_is_of(OLD, tmp_path, "a")
        assert toolchains(daemon)[0]["default"] and names(daemon)[0] == oldest
        assert daemon.kiln("toolchain", "default", "ptxas==1.2.3").code == 1
        assert daemon.kiln("toolchain", "default").code == 2
    with daemon:
        assert compile_ptx(daemon, tmp_path, "a")["key"] == second["key"]
        assert daemon.kiln("toolchain", "default", "--newest").code == 0
        assert compile_ptx(daemon, tmp_path, "a")["key"] == first["key"]
    directories = {"KILN_TOOLCHAIN_DIRECTORIES": str(place), "KILN_TOOLCHAIN_DEFAULT": oldest}
    with Daemon(programs, tmp_path, environment=directories) as configured:
        assert compile_ptx(configured, tmp_path, "a")["key"] == second["key"]
        refused = configured.kiln("toolchain", "default", newest)
        assert refused.code == 1 and "toolchain.default" in refused.error


def test_a_toolchain_is_removed_while_it_compiles(daemon, own, tmp_path):
    toolkit = install(OLD, tmp_path / "cuda-12.8")
    with daemon:
        assert daemon.kiln("toolchain", "add", "ptxas", "--path", toolkit).code == 0
        (name,) = names(daemon)
        lines = [{"name": f"k{i}", "kind": "ptx", "source": PTX.format(name=f"k{i}"), "target": "cuda:90"} for i in range(300)]
        requests = tmp_path / "requests.jsonl"
        requests.write_text("".join(json.dumps(line) + "\n" for line in lines))
        running = daemon.start_kiln("compile", "--requests", requests, "--json")
        first = running.stdout.readline()
        assert json.loads(first)["outcome"] == "compiled"
        answer = daemon.kiln("toolchain", "remove", name)
        assert answer.code == 0, answer
        rest = running.stdout.read()  # communicate() would pass over what readline() has read ahead
        running.communicate(timeout=120)
        answers = [json.loads(line) for line in rest.splitlines()][:-1]
        assert len(answers) == 299
        assert {one["outcome"] for one in answers} <= {"compiled", "failed"}
        # A few may have run when it went: those are to be asked again, which nobody here does.
        assert {one["code"] for one in answers if one["outcome"] == "failed"} <= {"FAILED_PRECONDITION", "UNAVAILABLE"}
        assert names(daemon) == []
        # A link was removed, and not what it leads to.
        assert not (own / "ptxas-cuda-12.8").is_symlink() and (toolkit / "bin" / "ptxas").exists()
        assert daemon.kiln("doctor").code == 1  # nothing can be compiled


def test_an_installation_is_deleted_and_nothing_else(programs, place, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("x")
    inside, searched = install(OLD, place / "inside"), install(NEW, tmp_path / "searched")
    (inside / "link").symlink_to(tmp_path / "elsewhere")
    environment = {"KILN_TOOLCHAIN_DIRECTORIES": f"{place}:{searched}"}
    with Daemon(programs, tmp_path, environment=environment) as daemon:
        newest, oldest = names(daemon)
        refused = daemon.kiln("toolchain", "remove", newest)
        assert refused.code == 1 and "toolchain.directories" in refused.error
        assert (searched / "bin" / "ptxas").exists()
        assert daemon.kiln("toolchain", "remove", oldest).code == 0
        assert list(place.iterdir()) == []
        assert (tmp_path / "elsewhere" / "precious").exists()
        assert daemon.kiln("toolchain", "remove", oldest).code == 1
        assert names(daemon) == [newest]


def test_why_a_kernel_was_compiled_is_told_without_its_toolchain(daemon, place, tmp_path):
    install(OLD, place / "one")
    with daemon:
        compiled = compile_ptx(daemon, tmp_path, "a")
        (name,) = names(daemon)
        assert daemon.kiln("toolchain", "remove", name).code == 0
        told = daemon.kiln("why", compiled["key"])
        assert told.code == 0 and "  compiled " in told.out and "  the nearest is not known: " in told.out, told
        told, = daemon.kiln("why", compiled["key"], "--json").objects()
        assert told["nearest"] is None and told["nearest_error"], told


@pytest.mark.slow
def test_a_fingerprint_tells_two_toolchains_of_one_name_apart(daemon, place):
    toolkits = [install(OLD, place / name) for name in ("one", "other")]
    with open(toolkits[1] / "bin" / "ptxas", "ab") as file:
        file.write(b"x")  # runs as before, with another digest
    one, other = (digest_of(toolkit / "bin" / "ptxas") for toolkit in toolkits)
    with daemon:
        (name,) = set(names(daemon))
        refused = daemon.kiln("toolchain", "remove", name)
        assert refused.code == 1 and f"{one} in {toolkits[0]}" in refused.error and f"{other} in {toolkits[1]}" in refused.error
        assert daemon.kiln("toolchain", "remove", "0123456789ab").code == 1
        assert daemon.kiln("toolchain", "remove", f"sha256:{other}").code == 0
        assert [held["fingerprint"] for held in toolchains(daemon)] == [one] and not toolkits[1].exists()
        assert daemon.kiln("toolchain", "remove", one[:12]).code == 0
        assert names(daemon) == [] and not toolkits[0].exists()


@pytest.mark.slow
def test_an_installed_triton_is_added_and_its_ptxas_is_part_of_it(daemon, place):
    (place / "triton-3.6.0").symlink_to(TOOLCHAIN.resolve())
    with daemon:
        (place / "triton-3.6.0").rename(place / ".hidden")
        assert daemon.kiln("toolchain", "reload").code == 0
        assert names(daemon) == []
        (place / ".hidden").rename(place / "triton-3.6.0")
        # What is complete is not installed again.
        answer = daemon.kiln("toolchain", "add", "triton==3.6.0")
        assert answer.code == 0, answer
        assert names(daemon)[0] == "triton==3.6.0" and len(names(daemon)) > 1
        refused = daemon.kiln("toolchain", "remove", names(daemon)[1])
        assert refused.code == 1 and "triton==3.6.0" in refused.error
        assert daemon.kiln("toolchain", "remove", "triton==3.6.0").code == 0
        assert names(daemon) == []
    assert (TOOLCHAIN / "bin" / "python").exists()


def test_without_a_daemon_nothing_is_added(daemon, tmp_path):
    toolkit = install(OLD, tmp_path / "cuda")
    for words in (["add", "ptxas", "--path", toolkit], ["remove", "ptxas==12.8.93"], ["list"]):
        answer = daemon.kiln("toolchain", *words)
        assert answer.code == 2 and "kilnd" in answer.error, answer


@pytest.fixture
def toolkit(place):
    """A CUDA toolkit with the real NVRTC and one header, which may be changed."""
    libraries = [file.parent for pattern in ("lib64", "lib/python3.*/site-packages/nvidia/*/lib") for file in CUDA.glob(f"{pattern}/libnvrtc.so*")]
    if not libraries:
        pytest.skip("no NVRTC")
    folder = place / "cuda"
    (folder / "include").mkdir(parents=True)
    (folder / "lib64").symlink_to(libraries[0].resolve())
    (folder / "include" / "answer.h").write_text("#define ANSWER 41\n")
    return folder


@pytest.fixture
def ask(tmp_path):
    """Compiles a kernel that includes answer.h; what --json says, and the PTX."""

    def compile_cuda(daemon, comment):
        source = tmp_path / "k.cu"
        source.write_text(f'#include "answer.h"\nextern "C" __global__ void k(int* x) {{ *x = ANSWER; }}\n// {comment}\n')
        answer = daemon.kiln("compile", source, "--target", "cuda:90", "--emit", "ptx", "--json", "-o", tmp_path / "out")
        return answer.objects()[0], (tmp_path / "out" / "k.ptx").read_text()

    return compile_cuda


@pytest.mark.slow
def test_a_header_that_is_replaced_makes_another_nvrtc(daemon, toolkit, ask):
    with daemon:
        before, ptx = ask(daemon, "one")
        assert before["outcome"] == "compiled" and ", 41;" in ptx, before
        (toolkit / "include" / "new.h").write_text("#define ANSWER 42\n")
        (toolkit / "include" / "new.h").rename(toolkit / "include" / "answer.h")
        # Another kernel notices: the first would be a hit for as long as the fingerprint is not known to be old.
        after, ptx = ask(daemon, "another")
        assert after["outcome"] == "compiled" and ", 42;" in ptx, after
        told = daemon.kiln("why", after["key"])
        assert "    source: asked " in told.out and "    toolchain's file include-0/answer.h: asked " in told.out, told
        again, ptx = ask(daemon, "one")
        assert again["outcome"] == "compiled" and again["key"] != before["key"] and ", 42;" in ptx, again


@pytest.mark.slow
def test_a_header_that_is_written_over_is_noticed_a_second_later(daemon, toolkit, ask):
    with daemon:
        before, _ = ask(daemon, "one")
        assert before["outcome"] == "compiled", before
        time.sleep(1.1)
        (toolkit / "include" / "answer.h").write_text("#define ANSWER 42\n")
        after, ptx = ask(daemon, "another")
        assert after["outcome"] == "compiled" and ", 42;" in ptx, after


@pytest.mark.slow
def test_headers_in_a_directory_that_came_later_make_another_nvrtc(daemon, toolkit, ask):
    with daemon:
        (toolkit / "include" / "late").mkdir()
        assert ", 41;" in ask(daemon, "one")[1]  # which looks at the directory, and finds nothing in it
        (toolkit / "include" / "late" / "value.h").write_text("#define VALUE 41\n")
        ask(daemon, "another")
        assert daemon.kiln("stats", "--json").objects()[0]["toolchains_changed"] == 1


@pytest.mark.slow
def test_a_header_in_another_place_is_another_header(daemon, toolkit, place, ask, tmp_path):
    (toolkit / "include" / "answer.h").write_text("#define ANSWER __FILE__[5]\n")
    with daemon:
        first, _ = ask(daemon, "one")
        toolkit.rename(place / "moved")
        assert daemon.kiln("toolchain", "reload").code == 0
        second, _ = ask(daemon, "one")
        assert first["outcome"] == second["outcome"] == "compiled" and first["key"] != second["key"]


def test_doctor_says_why_one_is_not_used(daemon, toolkit):
    (toolkit / "include" / "answer.h").chmod(0o666)
    with daemon:
        (found,) = [each for each in daemon.kiln("doctor", "--json").objects() if "libnvrtc.so" in each["detail"]]
    assert found["verdict"] == "warning" and "answer.h may be written to by everyone" in found["detail"], found
