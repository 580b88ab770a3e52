"""Artifacts go from one daemon into another in a signed file."""

import os
import subprocess

import pytest

import kiln as package
from job import Job
from test_manifest import KERNELS, PYTHON, kiln, recorded  # noqa: F401


def make_key(folder, name):
    key = folder / f"{name}.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
    return key


def trust(daemon, *keys):
    """As an operator does."""
    public = (subprocess.run(["openssl", "pkey", "-pubout", "-in", key], check=True, capture_output=True).stdout for key in keys)
    (daemon.root / "trusted_keys.pem").write_bytes(b"# who builds our nodes\n" + b"".join(public))


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return make_key(tmp_path_factory.mktemp("keys"), "builder")


@pytest.fixture(scope="module")
def bundle(recorded, daemon, key, tmp_path_factory):  # noqa: F811
    """Of the recorded job, whose kernels the daemon has."""
    path, _ = recorded
    made = tmp_path_factory.mktemp("bundle") / "job.bundle"
    assert daemon.kiln("warm", path).code == 0
    done = daemon.kiln("export", path, "--sign-with", key, "-o", made)
    assert done.code == 0 and f"{len(KERNELS)} artifacts in" in done.error, done
    return made


def test_what_one_daemon_compiled_another_gives_and_no_compiler_runs(recorded, bundle, key, other_daemon, tmp_path):  # noqa: F811
    """With the manifest, which a warm then takes the keys from, so that the job does not lower either."""
    manifest = tmp_path / "job.kiln"
    with other_daemon as other:
        trust(other, make_key(tmp_path, "another"), key)
        done = other.kiln("import", bundle, "-o", manifest)
        assert done.code == 0 and f"{len(KERNELS)} artifacts stored, 0 there already" in done.error and f"cuda:90: {len(KERNELS)}" in done.error, done
        assert manifest.read_bytes() == recorded[0].read_bytes()
        assert other.kiln("warm", manifest, "--status").code == 0
        assert other.kiln("warm", manifest).code == 0
        with Job(recorded[0].parent, PYTHON, other.root, cache="imported", KILN_MODE="require") as job:
            assert all("hash" in job.compile(kernel) for kernel in KERNELS)
            assert job.report()["hits"] == {"own": len(KERNELS)}
        assert other.kiln("stats", "--json").objects()[0]["compiles"] == 0
        again = other.kiln("import", bundle, "--json").objects()[0]
        assert (again["stored"], again["there_already"]) == (0, len(KERNELS)), again
        assert other.kiln("verify").code == 0


def test_what_is_imported_is_what_was_exported(daemon, bundle, key, other_daemon):
    with other_daemon as other:
        trust(other, key)
        assert other.kiln("import", bundle).code == 0
        for one in other.kiln("ls", "--json").objects():
            mine, theirs = (each.kiln("inspect", one["key"], "--json").objects()[0] for each in (daemon, other))
            for name in ("metadata", "stages", "timings", "provenance", "name", "options", "compile_micros"):
                assert mine[name] == theirs[name], name
            assert other.kiln("reproduce", one["key"], "-o", other.root / one["key"]).code == 0


@pytest.mark.parametrize("fault, words", [
    ("no list of keys", "no key is trusted"), ("another key", "no key in"), ("others may write the list", "chown and chmod"),
    ("no key in the list", "has no public key"), ("unsigned", "is not signed"), ("a byte", "no key in"), ("blocks of another bundle", "no key in"),
    ("cut off", "cut off"), ("cut off between blocks", "cut off"), ("foreign", "is no bundle"), ("newer", "version 2"), ("empty", "is no bundle")])
def test_a_bundle_that_is_not_as_a_trusted_key_signed_it_is_refused(recorded, bundle, daemon, key, other_daemon, tmp_path, fault, words):  # noqa: F811
    whole = bundle.read_bytes()
    header, first_size = 40, int.from_bytes(whole[40:44], "little")
    first_block = whole[header:header + 4 + first_size + 64]
    path = tmp_path / "faulty.bundle"
    path.write_bytes({
        "a byte": whole[:100] + bytes([whole[100] ^ 1]) + whole[101:],
        "blocks of another bundle": whole[:8] + os.urandom(32) + whole[40:],
        "cut off": whole[:-10],
        "cut off between blocks": whole[:header] + first_block,
        "foreign": b"PK" + whole[2:],
        "newer": whole[:7] + b"\2" + whole[8:],
        "empty": b"",
    }.get(fault, whole))
    if fault == "unsigned":
        done = daemon.kiln("export", recorded[0], "-o", path)
        assert done.code == 0 and "not signed" in done.error, done
    with other_daemon as other:
        trust(other, make_key(tmp_path, "another") if fault == "another key" else key)
        keys = other.root / "trusted_keys.pem"
        if fault == "no list of keys":
            keys.unlink()
        elif fault == "others may write the list":
            keys.chmod(0o664)
        elif fault == "no key in the list":
            keys.write_text("none yet\n")
        done = other.kiln("import", path)
        assert done.code == 2 and words in done.error, done
        stored = len(other.kiln("ls", "--json").objects())
        # What came before the cut was whole, and signed.
        assert stored == (len(KERNELS) if fault.startswith("cut off") else 0), done
        assert other.kiln("verify").code == 0


def test_artifacts_of_a_toolchain_that_is_not_here_are_left_out_by_name(bundle, key, daemon, tmp_path):
    (tmp_path / "toolchains").mkdir()
    with daemon.beside(tmp_path, KILN_TOOLCHAIN_DIRECTORIES=str(tmp_path / "toolchains")) as other:
        trust(other, key)
        done = other.kiln("import", bundle)
        assert done.code == 1 and "3 artifacts left out: compiled by triton==3.6.0" in done.error and "kiln toolchain add triton==3.6.0" in done.error, done
        assert other.kiln("ls", "--json").objects() == []


def test_an_export_says_what_it_lacks_and_never_leaves_half_a_file(recorded, daemon, other_daemon, key, tmp_path):  # noqa: F811
    path, _ = recorded
    with other_daemon as other:
        done = other.kiln("export", path, "--sign-with", key, "-o", tmp_path / "none.bundle")
        assert done.code == 1 and all(f"not stored: {kernel} for cuda:90" in done.error for kernel in KERNELS), done
    out = tmp_path / "out"
    for arguments in ((), ("--all", "--job", "x"), ("--all",), (path, "--all")):
        assert daemon.kiln("export", *arguments, *([] if arguments == ("--all",) else ["-o", out])).code == 2
    (tmp_path / "word").write_text("no key\n")
    for wrong in (("--sign-with", tmp_path / "word"), ("--sign-with", tmp_path / "no such file")):
        refused = daemon.kiln("export", "--all", *wrong, "-o", out)
        assert refused.code == 2 and str(wrong[1]) in refused.error, refused
    assert daemon.kiln("export", "--all", "-o", tmp_path / "no folder" / "out").code == 2
    assert daemon.kiln("export", "--all", "--target", "sm_90", "-o", out).code == 2
    assert not out.exists() and not list(tmp_path.glob("*.unfinished"))


def test_a_manifest_that_others_may_write_does_not_go_with_the_bundle(recorded, daemon, key, other_daemon, tmp_path):  # noqa: F811
    """Its keys decide what a job is given, and the importer's copy would pass for the importer's own."""
    shared = tmp_path / "job.kiln"
    shared.write_bytes(recorded[0].read_bytes())
    shared.chmod(0o664)
    done = daemon.kiln("export", shared, "--sign-with", key, "-o", tmp_path / "x.bundle")
    assert done.code == 0 and "without the manifest" in done.error, done
    with other_daemon as other:
        trust(other, key)
        imported = other.kiln("import", tmp_path / "x.bundle", "-o", tmp_path / "back.kiln")
    assert imported.code == 2 and "brings no manifest" in imported.error and "3 artifacts stored" in imported.error, imported
    assert not list(tmp_path.glob("back*"))


def test_an_export_is_of_a_job_or_a_target(daemon, kiln, other_daemon, key, tmp_path):  # noqa: F811
    source = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"
    with other_daemon as other:
        with package.Client(root=str(other.root)) as client:
            for job, target in (("a", "cuda:90"), ("b", "cuda:90"), ("b", "cuda:100")):
                client.compile(package.CompileRequest(source + f"// {job} {target}\n", target, kind="ptx", job=job))
        for arguments, count in ((("--job", "b"), 2), (("--all",), 3), (("--all", "--target", "cuda:100"), 1)):
            made = other.kiln("export", *arguments, "--sign-with", key, "-o", tmp_path / "x.bundle", "--json").objects()[0]
            assert (made["artifacts"], made["signed"]) == (count, True), (arguments, made)
        assert other.kiln("export", "--job", "unknown", "-o", tmp_path / "x.bundle").code == 1
        assert (tmp_path / "x.bundle").stat().st_mode & 0o777 == 0o600


def test_an_import_that_is_killed_is_run_again_and_ends_whole(bundle, key, other_daemon):
    with other_daemon as other:
        trust(other, key)
        running = other.start_kiln("import", bundle)
        other.kill()
        running.wait(60)
    with other_daemon as other:
        assert other.kiln("import", bundle).code == 0
        assert len(other.kiln("ls", "--json").objects()) == len(KERNELS)
        assert other.kiln("verify").code == 0
