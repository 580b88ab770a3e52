"""Kernels of different folders that are one kernel for the daemon: KILN_BASEDIRS, and kernels without locations."""

import os
import re
import sys

import pytest

from daemon import Daemon
from job import Job, as_user
from places import DESCRIPTIONS, ROOT, TOOLCHAIN, VERSIONS

from kiln._plugin import basedirs
from kiln._plugin.settings import Settings

sys.path.append(str(ROOT / "tests" / "golden"))
from golden import sections_that_differ  # noqa: E402

pytestmark = pytest.mark.one_case

PYTHON = TOOLCHAIN / "bin" / "python"
STAND_IN = b"/KILN_BASEDIR"
VERSION_NAMES = ["3.6.0", *(version for version in f"{os.environ.get('KILN_TEST_VERSIONS', '')} {os.environ.get('KILN_TEST_PLUGIN_VERSIONS', '')}".split()
                            if version > "3.6.0")]
USERS = (60001, 60002)
SOME_KERNELS = ("softmax", "matmul_128x128x64")  # with a loop, with functions of Triton's
NO_LINE_INFO = {"TRITON_DISABLE_LINE_INFO": "1"}


def served(report):
    return report["compiled"] + report["joined"] + sum(report["hits"].values())


def folder_of(path, name):
    (path / name).mkdir(exist_ok=True)
    return path / name


def names(files, folder):
    """The files that name the folder."""
    return [name for name, content in files.items() if bytes(folder) in content]


@pytest.fixture(scope="module", params=VERSION_NAMES)
def versioned(programs, tmp_path_factory, request):
    """A daemon with one toolchain, and that one's Python."""
    home = TOOLCHAIN if request.param == "3.6.0" else VERSIONS / f"triton-{request.param}"
    environment = {"KILN_TOOLCHAIN_DIRECTORIES": str(home)}
    with Daemon(programs, tmp_path_factory.mktemp("versioned"), environment=environment, descriptions=DESCRIPTIONS) as daemon:
        yield daemon, home / "bin/python"


def run(folder, python, root=None, cache="cache", compile=tuple((kernel, target) for kernel in SOME_KERNELS for target in ("cuda:90", "hip:gfx942")),
        options=None, **environment):
    """The files of a job that compiles there, its report with how many it lowered, and its answers."""
    with Job(folder, python, root, cache=cache, KILN_TIMEOUT="120", **environment) as job:
        if root is not None:
            job.run("be patient")
        answers = [job.compile(kernel, target, **(options or {})) for kernel, target in compile]
        report = {**(job.report() or {}), "lowered": job.run("state")["lowered"], "log": job.log}
    return job.files(), report, answers


def code_of(assembly):
    """Without what is for debuggers."""
    return [line for line in re.split(rb"\n\s*\.section\s+\.debug", assembly)[0].splitlines() if not line.strip().startswith(b".file")]


def test_another_folder_changes_only_line_tables(versioned, tmp_path):
    daemon, python = versioned
    first, second = (folder_of(tmp_path, name) for name in ("first", "second"))
    expected, _, _ = run(second, python, cache="plain")
    _, there, _ = run(first, python, daemon.root, KILN_BASEDIRS=str(first))
    got, here, _ = run(second, python, daemon.root, KILN_BASEDIRS=str(second))
    assert there["compiled"] == 4 and there["local"] == {}, there
    # Triton's key leaves the folder out, too. So the second has nothing to lower.
    assert here["hits"] == {"own": 4} and here["lowered"] == 0, here
    assert set(got) == set(expected) and names(got, first) == names(got, second) == []
    for name, content in got.items():
        kind, stock = name.rpartition(".")[2], expected[name]
        if kind in ("cubin", "hsaco"):
            assert [one for one in sections_that_differ(content, stock) if not one.startswith(".debug")] == []
        elif kind in ("ptx", "amdgcn"):
            assert code_of(content) == code_of(stock), name
        else:
            assert content == stock.replace(bytes(second), STAND_IN), name


@pytest.mark.slow
def test_kernels_without_locations_are_shared_by_all_folders(versioned, tmp_path):
    daemon, python = versioned
    first, second = (folder_of(tmp_path, name) for name in ("first", "second"))
    for case in {}, {"options": {"debug": True}, "compile": [("softmax", "cuda:90"), ("softmax", "hip:gfx942")]}:  # with assertions
        expected, _, answers = run(second, python, cache="plain", **case, **NO_LINE_INFO)
        _, there, _ = run(first, python, daemon.root, **case, **NO_LINE_INFO)
        got, here, _ = run(second, python, daemon.root, **case, **NO_LINE_INFO)
        assert there["compiled"] == len(answers) and here["hits"] == {"own": len(answers)}, (there, here)
        assert [name for name in expected if got[name] != expected[name]] == [] and set(got) == set(expected)


@pytest.mark.slow
def test_the_knob_disables_line_info_as_the_variable_does(daemon, tmp_path):
    """A value that Triton's Python takes for "on", and its front end does not: there are locations, and no line tables."""
    made = []
    for root in None, daemon.root, daemon.root:
        with Job(tmp_path, PYTHON, root, cache=f"cache-{len(made)}") as job:
            job.compile("vector_add", num_stages=2)
            job.run("variable", name="TRITON_DISABLE_LINE_INFO", value="yes")
            job.compile("vector_add", num_stages=2)
            job.run("variable", name="TRITON_DISABLE_LINE_INFO", value=None)
            job.run("knob", group="compilation", name="disable_line_info", value=True)
            job.compile("vector_add", num_stages=3)
            made.append(job.files())
            assert root is None or job.report()["local"] == {} and served(job.report()) == 3, job.log
    assert made[1] == made[0] and made[2] == made[0]
    with_locations = [content for name, content in made[0].items() if name.endswith(".ttir") and bytes(tmp_path) in content]
    assert len(with_locations) == 2 and sum(b".debug_line" in content for name, content in made[0].items() if name.endswith(".cubin")) == 1


@pytest.mark.slow
def test_assertions_name_the_stand_in(daemon, tmp_path):
    first, second = (folder_of(tmp_path, name) for name in ("first", "second"))
    case = {"compile": [("vector_add", "cuda:90"), ("vector_add", "hip:gfx942")], "options": {"debug": True}}
    expected, _, _ = run(second, PYTHON, cache="plain", **case)
    assert all(b"tt.assert" in content for name, content in expected.items() if name.endswith(".ttir"))
    binaries = [name for name in expected if name.endswith((".cubin", ".hsaco"))]
    assert set(binaries) <= set(names(expected, second))
    _, there, _ = run(first, PYTHON, daemon.root, KILN_BASEDIRS=str(first), **case)
    got, here, _ = run(second, PYTHON, daemon.root, KILN_BASEDIRS=str(second), **case)
    assert there["compiled"] == 2 and here["hits"] == {"own": 2}, (there, here)
    assert names(got, first) == names(got, second) == []
    assert all(STAND_IN + b"/" in got[name] for name in binaries)


@pytest.mark.slow
def test_inductors_folder_is_rewritten_by_default(daemon, tmp_path):
    case = {"compile": [("vector_add", "cuda:90")], "options": {"num_stages": 4}}
    answers = []
    for name, variables in (("first", {}), ("second", {}), ("second", {"KILN_BASEDIRS": "/elsewhere"}), ("second", {"KILN_BASEDIRS": ""})):
        folder = folder_of(tmp_path, name)
        files, report, _ = run(folder, PYTHON, daemon.root, cache=f"cache-{len(answers)}", TORCHINDUCTOR_CACHE_DIR=str(folder), **variables, **case)
        answers.append((report["compiled"], bool(names(files, folder)), report["log"].count("kiln:")))
    # The first has the texts before the ttgir stage from Triton itself.
    assert answers == [(1, True, 0), (0, False, 0), (0, False, 0), (1, True, 0)]


@pytest.mark.slow
def test_a_local_compile_is_not_shared_with_another_folder(daemon, tmp_path):
    """Its line tables name that folder."""
    ptxas = tmp_path / "ptxas"
    own, = (TOOLCHAIN / "lib").glob("python3*/site-packages/triton/backends/nvidia/bin/ptxas")
    ptxas.write_bytes(own.read_bytes().replace(b"Cuda compilation tools", b"Cuda compilation fools"))
    ptxas.chmod(0o755)
    variables = {"TRITON_PTXAS_PATH": str(ptxas), "TRITON_PTXAS_BLACKWELL_PATH": str(ptxas), "KILN_BASEDIRS": str(tmp_path)}
    for name in "first", "second":
        files, report, _ = run(folder_of(tmp_path, name), PYTHON, daemon.root, compile=[("vector_add", "cuda:90")], **variables)
        assert report["local"] == {"the daemon has no such ptxas": 1} and names(files, folder_of(tmp_path, name)), report


@pytest.mark.slow
def test_a_folder_that_no_assembler_takes_is_rewritten(daemon, tmp_path):
    """Triton alone compiles nothing there."""
    hostile = folder_of(tmp_path, "a \"b' \\c\nd\té")
    case = {"compile": [("vector_add", "cuda:90")], "options": {"num_stages": 5}}
    _, _, (stock,) = run(hostile, PYTHON, cache="plain", **case)
    assert stock["error"] == "PTXASError", stock
    for folder, compiled in (hostile, 1), (folder_of(tmp_path, "plain"), 0):
        files, report, _ = run(folder, PYTHON, daemon.root, KILN_BASEDIRS=str(folder), **case)
        assert report["compiled"] == compiled and sum(report["hits"].values()) == 1 - compiled, report


@pytest.mark.slow
def test_a_miss_in_paths_alone_names_the_setting(daemon, tmp_path):
    first, second = (folder_of(tmp_path, name) for name in ("first", "second"))
    case = {"compile": [("softmax", "cuda:90")], "options": {"num_stages": 6}}
    run(first, PYTHON, daemon.root, **case)
    _, _, (answer,) = run(second, PYTHON, daemon.root, KILN_MODE="require", **case)
    assert answer["error"] == "CacheMissError", answer
    assert re.search(r"stored: \w+ \(source paths: asked \w+ \(\d+ bytes\), stored others: see KILN_BASEDIRS\)", answer["message"]), answer
    assert str(first) not in answer["message"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two other users")
def test_two_users_with_own_checkouts_share_every_kernel(daemon, tmp_path):
    with daemon.beside(tmp_path, KILN_SOCKETS_MODE="0666") as shared:
        reports = []
        for user in USERS:
            folder = folder_of(tmp_path, f"home-{user}")
            os.chown(folder, user, user)
            with Job(folder, PYTHON, shared.root, within=as_user(user), KILN_BASEDIRS="~", XDG_CACHE_HOME=str(folder)) as job:
                job.run("be patient")
                for case in job.run("cases", targets=["cuda:90"])["cases"]:
                    assert "hash" in job.compile(*case), job.log
                reports.append(job.report())
                assert user == USERS[0] or names({name: content for name, content in job.files().items() if not name.endswith((".source", ".ttir"))},
                                                 tmp_path) == [], "the first user's folder"
        owners = {line["own_uid"] for line in shared.kiln("ls", "--json").objects() if "own_uid" in line}
    assert owners == set(USERS)
    count = reports[0]["compiled"]
    assert count > 20 and reports[0]["local"] == {} and reports[0]["hits"] == {}
    # Other users' own entries are out of reach, so the second has lowered them.
    assert reports[1]["compiled"] == 0 and "own" not in reports[1]["hits"] and sum(reports[1]["hits"].values()) == count, reports


# --- Texts and settings, without Triton ------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_inductor(monkeypatch):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)


@pytest.mark.parametrize("text, expected", [
    ('#loc = loc("/home/a/x.py":1:2)', '#loc = loc("/KILN_BASEDIR/x.py":1:2)'),
    ('loc("x"("/home/a/b c/x.py":1:2 to :3))', 'loc("x"("/KILN_BASEDIR/b c/x.py":1:2 to :3))'),
    ('loc(callsite("/home/a/x.py":1:2 at "n"("/home/a/y.py":3:4)))', 'loc(callsite("/KILN_BASEDIR/x.py":1:2 at "n"("/KILN_BASEDIR/y.py":3:4)))'),
    ('loc(fused<"/home/a/x">["/home/a/x.py":1:2, #loc1])', 'loc(fused<"/home/a/x">["/KILN_BASEDIR/x.py":1:2, #loc1])'),
    ('loc("/home/ab/x.py":1:2)', None), ('loc("/home/a":1:2)', None), ('loc("home/a/x.py":1:2)', None), ('loc("/x/home/a/x.py":1:2)', None),
    ('loc("/home/a/x.py"(#loc1))', None), ('loc("/home/a/x.py")', None), ('tt.print " /home/a/x.py: " : %0', None),
    ('"/home/a/x.py" : %1', None), ('tt.print "\\22/home/a/x.py\\22:1:2"', None), ('loc("/home/a/x\\22.py":1:2)', 'loc("/KILN_BASEDIR/x\\22.py":1:2)'),
    ('tt.assert %0, "/home/a" : i1 loc("/home/a/x.py":1:2)', 'tt.assert %0, "/home/a" : i1 loc("/KILN_BASEDIR/x.py":1:2)'), ('loc("/KILN_BASEDIR/x.py":1:2)', None),
])
def test_only_file_names_of_locations_are_rewritten(text, expected):
    assert basedirs.rewritten_text(text, Settings(basedirs=("/home/a",))) == (text if expected is None else expected)
    assert basedirs.rewritten_text(text, Settings(basedirs=None)) == text


def test_the_longest_folder_counts(tmp_path):
    settings = Settings(basedirs=("/home/a", "/home/a/checkout/", "/home/a/checkout/../venv"))
    texts = [basedirs.rewritten_text(f'"/home/a/{path}":1:2', settings) for path in ("x", "checkout/x", "checkout2/x", "venv/x")]
    assert texts == [f'"/KILN_BASEDIR/{path}":1:2' for path in ("x", "x", "checkout2/x", "x")]


def test_a_folder_counts_as_written_and_without_links(tmp_path):
    folder_of(tmp_path, "real")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "root").symlink_to("/")
    for named, others in ("link", ("link", "real")), ("real", ("real",)), ("root", ("root",)), ("gone", ("gone",)):
        settings = Settings(basedirs=(str(tmp_path / named),))
        for other in "link", "real", "root", "gone":
            text = f'"{tmp_path / other}/x":1:2'
            assert (basedirs.rewritten_text(text, settings) == '"/KILN_BASEDIR/x":1:2') == (other in others), (named, other)


@pytest.mark.parametrize("folder, escaped", [("/a\"b'", "/a\\22b'"), ("/a\\b", "/a\\\\b"), ("/a\nb\tc", "/a\\0Ab\\09c"), ("/é", "/\\C3\\A9"), ("/.*", "/.*")])
def test_folders_are_matched_as_mlir_escapes_them(folder, escaped):
    settings = Settings(basedirs=(folder,))
    assert basedirs.rewritten_text(f'"{escaped}/x":1:2', settings) == '"/KILN_BASEDIR/x":1:2'
    assert basedirs.rewritten_text('"/other/x":1:2', settings) == '"/other/x":1:2'


@pytest.mark.parametrize("value, expected, refused", [
    (None, (), []), ("", None, []), (":", (), []), ("/a::/b/:", ("/a", "/b/"), []), ("~", ("/home/me",), []), ("~/x:$PLACE/y:${PLACE}", ("/home/me/x", "/pl:ace/y", "/pl:ace"), []),
    ("/", (), ["/"]), ("//", (), ["//"]), ("/..:/a", ("/a",), ["/.."]), ("a/b:/c", ("/c",), ["a/b"]), ("$UNSET/x", (), ["$UNSET/x"]),
    ("/not there", ("/not there",), []), ("/a\nb:c\n", ("/a\nb",), ["c\\n"]),
])
def test_invalid_folders_are_left_out(monkeypatch, caplog, value, expected, refused):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("PLACE", "/pl:ace")
    assert Settings.of({} if value is None else {"KILN_BASEDIRS": value}).basedirs == expected
    assert [record.getMessage() for record in caplog.records] == [
        f"kiln: KILN_BASEDIRS: '{path}' is not an absolute path of a folder below /; leaving it out" for path in refused]
