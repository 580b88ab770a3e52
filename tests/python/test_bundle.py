"""Artifacts go from one daemon into another in a signed file."""

import base64
import hashlib
import json
import os
import random
import signal
import subprocess
import time

import pytest

import kiln as package
from job import Job
from places import ROOT
from test_manifest import KERNELS, PYTHON, kiln, recorded  # noqa: F401


HEADER_BYTES = 40
SIGNATURE_BYTES = 64


def blocks_of(whole):
    """What stands before the blocks of a bundle, and each block."""
    blocks, at = [], HEADER_BYTES
    while at < len(whole):
        end = at + 4 + int.from_bytes(whole[at:at + 4], "little") + SIGNATURE_BYTES
        blocks.append(whole[at:end])
        at = end
    return whole[:HEADER_BYTES], blocks


def content_of(block):
    """Its BundleBlock."""
    return subprocess.run(["zstd", "-dqc"], input=block[4:-SIGNATURE_BYTES], capture_output=True, check=True).stdout


def make_key(folder, name):
    key = folder / f"{name}.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
    return key


def public_keys(*keys):
    return b"".join(subprocess.run(["openssl", "pkey", "-pubout", "-in", key], check=True, capture_output=True).stdout for key in keys)


def trust(daemon, *keys):
    """As an operator does."""
    (daemon.root / "trusted_keys.pem").write_bytes(b"# who builds our nodes\n" + public_keys(*keys))


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


def large_kernels(daemon, count, seed=8):
    """Compiles kernels that have a megabyte each in the store, of which zstd saves a quarter."""
    source = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n// "
    generator = random.Random(seed)
    with package.Client(root=str(daemon.root)) as client:
        for _ in range(count):
            client.compile(package.CompileRequest(source + base64.b64encode(generator.randbytes(768 << 10)).decode(), "cuda:90", kind="ptx", job="large"))


def export_large_kernels(daemon, key, folder, seed=8):
    """30 artifacts in many blocks."""
    made = folder / f"large-{seed}.bundle"
    with daemon.beside(folder) as other:
        large_kernels(other, 30, seed)
        assert other.kiln("export", "--all", "--sign-with", key, "-o", made).code == 0
    return made


@pytest.fixture(scope="module")
def large_bundle(daemon, key, tmp_path_factory):
    return export_large_kernels(daemon, key, tmp_path_factory.mktemp("large"))


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


@pytest.mark.slow
def test_what_is_imported_is_what_was_exported(daemon, bundle, key, other_daemon):
    with other_daemon as other:
        trust(other, key)
        assert other.kiln("import", bundle).code == 0
        for one in other.kiln("ls", "--json").objects():
            mine, theirs = (each.kiln("inspect", one["key"], "--json").objects()[0] for each in (daemon, other))
            for name in ("metadata", "stages", "timings", "provenance", "name", "options", "compile_micros"):
                assert mine[name] == theirs[name], name
            assert other.kiln("reproduce", one["key"], "-o", other.root / one["key"]).code == 0


@pytest.mark.one_case
@pytest.mark.parametrize("fault, words", [
    ("a byte", "no key in"), ("no list of keys", "no key is trusted"), ("another key", "no key in"), ("others may write the list", "chown and chmod"),
    ("no key in the list", "has no Ed25519 public key"), ("unsigned", "is not signed"), ("blocks of another bundle", "no key in"),
    ("cut off", "cut off"), ("cut off between blocks", "cut off"), ("foreign", "is no bundle"), ("newer", "version 2"), ("empty", "is no bundle")])
def test_a_bundle_that_is_not_as_a_trusted_key_signed_it_is_refused(recorded, bundle, daemon, key, other_daemon, tmp_path, fault, words):  # noqa: F811
    whole = bundle.read_bytes()
    header, blocks = blocks_of(whole)
    path = tmp_path / "faulty.bundle"
    path.write_bytes({
        "a byte": whole[:100] + bytes([whole[100] ^ 1]) + whole[101:],
        "blocks of another bundle": whole[:8] + os.urandom(32) + whole[40:],
        "cut off": whole[:-10],
        "cut off between blocks": header + blocks[0],
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


def test_the_sample_is_read(other_daemon, tmp_path):
    """Its artifact is none: what the daemon asks of one changes with each field of the metadata. docs/bundle.md has the key."""
    vectors = ROOT / "tests" / "vectors"
    manifest = tmp_path / "job.kiln"
    with other_daemon as other:
        (other.root / "trusted_keys.pem").write_text(
            "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n")
        done = other.kiln("import", vectors / "artifacts.bundle", "-o", manifest, "--json")
        assert done.code == 1 and done.objects()[0]["damaged"] == 1 and f"left out: {b'k'.hex() * 32}" in done.error, done
        assert manifest.read_bytes() == (vectors / "manifest.kiln").read_bytes()


@pytest.mark.slow
def test_what_does_not_fit_into_the_store_is_left_out_and_pushes_nothing_out(daemon, large_bundle, key, tmp_path):
    with daemon.beside(tmp_path, KILN_STORE_SIZE="16MiB") as small:
        trust(small, key)
        done = small.kiln("import", large_bundle, "--json")
        first = done.objects()[0]
        assert done.code == 1 and first["stored"] > 10 and first["no_room"] > 5 and first["stored"] + first["no_room"] == 30, first
        assert len(small.kiln("ls", "--json").objects()) == first["stored"]
        assert 0 < small.kiln("stats", "--json").objects()[0]["leased"] < first["stored"]
        again = small.kiln("import", large_bundle)
        assert again.code == 1 and f"0 artifacts stored, {first['stored']} there already" in again.error, again
        assert f"{first['no_room']} artifacts left out: the store is full" in again.error and "  k for cuda:90\n" in again.error, again
        assert "try: 'kiln doctor', a larger store.size" in again.error, again
        assert small.kiln("verify").code == 0


@pytest.mark.slow
def test_two_imports_at_once_push_nothing_out(daemon, large_bundle, key, tmp_path):
    (tmp_path / "made").mkdir()
    another = export_large_kernels(daemon, key, tmp_path / "made", seed=9)
    with daemon.beside(tmp_path, KILN_STORE_SIZE="16MiB") as small:
        trust(small, key)
        importing = [small.start_kiln("import", each, "--json") for each in (large_bundle, another)]
        told = [json.loads(each.communicate(timeout=120)[0]) for each in importing]
        assert all(each["stored"] + each["no_room"] == 30 for each in told), told
        assert len(small.kiln("ls", "--json").objects()) == sum(each["stored"] for each in told) > 10
        assert small.kiln("verify").code == 0


@pytest.mark.slow
def test_what_is_imported_is_leased_so_that_later_kernels_do_not_push_it_out(daemon, bundle, key, tmp_path):
    with daemon.beside(tmp_path, KILN_STORE_SIZE="16MiB") as small:
        trust(small, key)
        assert small.kiln("import", bundle).code == 0
        imported = {one["key"] for one in small.kiln("ls", "--json").objects()}
        large_kernels(small, 40)
        left = {one["key"] for one in small.kiln("ls", "--json").objects()}
        assert len(left) < 40 and imported <= left


def test_an_import_on_a_disk_without_space_says_so_and_stores_nothing(daemon, bundle, key, tmp_path):
    with daemon.beside(tmp_path, KILN_STORE_FREE_DISK="64TiB") as full:
        trust(full, key)
        done = full.kiln("import", bundle, "-o", tmp_path / "job.kiln")
        assert done.code == 1 and "3 artifacts left out: not stored: only" in done.error and "try: 'kiln doctor'" in done.error, done
        assert full.kiln("ls", "--json").objects() == []
        assert full.kiln("stats", "--json").objects()[0]["leased"] == 0
        assert full.kiln("verify").code == 0


@pytest.mark.slow
def test_a_damaged_key_in_the_list_hides_no_other_and_is_named(bundle, key, other_daemon, tmp_path):
    damaged = public_keys(make_key(tmp_path, "damaged")).replace(b"\nMCow", b"\n!!!!")
    with other_daemon as other:
        keys = other.root / "trusted_keys.pem"
        keys.write_bytes(damaged + public_keys(make_key(tmp_path, "another")))
        refused = other.kiln("import", bundle)
        assert refused.code == 2 and "no Ed25519 public key stands at line 1)" in refused.error, refused
        keys.write_bytes(damaged + public_keys(key))
        assert other.kiln("import", bundle).code == 0
        warnings = [line for line in other.log.read_text().splitlines() if "the trusted keys file has lines" in line]
        assert len(warnings) == 2 and all("where=\"line 1\"" in line and str(keys) in line for line in warnings), warnings


def test_trusted_keys_lie_beside_the_configuration_file_that_is_named(bundle, key, other_daemon, tmp_path):
    configuration = tmp_path / "configuration"
    configuration.mkdir(0o755)
    (configuration / "kilnd.toml").write_text("")
    other_daemon.arguments = ["--config", configuration / "kilnd.toml"]
    with other_daemon as other:
        trust(other, key)
        refused = other.kiln("import", bundle)
        keys = configuration / "trusted_keys.pem"
        assert refused.code == 2 and f"openssl pkey -pubout -in builder.pem >>{keys}" in refused.error, refused
        keys.write_bytes(public_keys(key))
        assert other.kiln("import", bundle).code == 0


def test_artifacts_of_a_toolchain_that_is_not_here_are_left_out_by_name(bundle, key, daemon, tmp_path):
    (tmp_path / "toolchains").mkdir()
    with daemon.beside(tmp_path, KILN_TOOLCHAIN_DIRECTORIES=str(tmp_path / "toolchains")) as other:
        trust(other, key)
        done = other.kiln("import", bundle)
        assert done.code == 1 and "3 artifacts left out: compiled by triton==3.6.0" in done.error and "'kiln toolchain add triton==3.6.0', or 'kiln toolchain add triton --path DIR' " in done.error, done
        assert all(f"  {kernel} for cuda:90\n" in done.error for kernel in KERNELS), done
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


def has_open(process, folder):
    """Whether the process has a file of that folder open."""
    try:
        return any(os.readlink(each).startswith(f"{folder}/") for each in os.scandir(f"/proc/{process.pid}/fd"))
    except OSError:
        return False  # a descriptor was closed meanwhile


def stopped_with_open_file(process, folder):
    """Stops it once it has a file of that folder open. By steps, each shorter than the file is open, since it can end within a look."""
    while process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        if has_open(process, folder):
            break
        process.send_signal(signal.SIGCONT)
    return process


def test_ctrl_c_leaves_no_part_of_a_bundle_or_manifest(daemon, bundle, key, other_daemon, tmp_path):
    (tmp_path / "exported").mkdir()
    (tmp_path / "imported").mkdir()
    for _ in range(100):
        exporting = stopped_with_open_file(daemon.start_kiln("export", "--all", "--sign-with", key, "-o", tmp_path / "exported" / "x.bundle"),
                                           tmp_path / "exported")
        exporting.send_signal(signal.SIGINT)
        exporting.send_signal(signal.SIGCONT)
        exporting.communicate()
        left = os.listdir(tmp_path / "exported")
        assert left in ([], ["x.bundle"]), left
        if exporting.returncode == -signal.SIGINT and not left:
            break
        (tmp_path / "exported" / "x.bundle").unlink(missing_ok=True)
    else:
        pytest.fail("every export had ended before the signal")
    with other_daemon as other:
        trust(other, key)
        with other.start_kiln("import", "-", "-o", tmp_path / "imported" / "job.kiln", stdin=subprocess.PIPE, text=False) as importing:
            importing.stdin.write(bundle.read_bytes()[:-1])
            importing.stdin.flush()
            while importing.poll() is None and not has_open(importing, tmp_path / "imported"):
                pass
            importing.send_signal(signal.SIGINT)
            importing.wait()  # before its pipes are closed, which ends it, too
        assert importing.returncode == -signal.SIGINT and os.listdir(tmp_path / "imported") == []


@pytest.mark.slow
def test_an_export_whose_daemon_dies_fails_and_leaves_nothing(key, other_daemon, tmp_path):
    (tmp_path / "exported").mkdir()
    with other_daemon as other:
        large_kernels(other, 30)
        exporting = stopped_with_open_file(other.start_kiln("export", "--all", "--sign-with", key, "-o", tmp_path / "exported" / "x.bundle"),
                                           tmp_path / "exported")
        other.kill()
        exporting.send_signal(signal.SIGCONT)
        _, error = exporting.communicate(timeout=60)
    assert exporting.returncode == 2 and "kilnd" in error and os.listdir(tmp_path / "exported") == [], error


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, as root alone may")
def test_a_full_disk_leaves_no_part_of_a_bundle_or_manifest(recorded, daemon, bundle, key, other_daemon, tmp_path):  # noqa: F811
    """The disk is in a mount namespace of the command's own, and gone with it."""
    small = tmp_path / "small"
    small.mkdir()

    def on_a_small_disk(command, environment):
        script = 'cd "$1" && mount -t tmpfs -o size=8k none . && cd "$1" && shift && "$@"; code=$?; ls -A; exit $code'
        return subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", small, *command], env=environment, capture_output=True, text=True, check=False)

    with other_daemon as other:
        trust(other, key)
        for command, environment in (
                (daemon.kiln_command("export", recorded[0], "--sign-with", key, "-o", "x.bundle"), daemon.environment()),
                (daemon.kiln_command("manifest", "merge", recorded[0], "-o", "merged.kiln"), daemon.environment()),
                (other.kiln_command("import", bundle, "-o", "job.kiln"), other.environment())):
            done = on_a_small_disk(command, environment)
            assert done.returncode == 2 and f"{command[-1]}: No space left on device" in done.stderr, done
            assert done.stdout == "", done


def test_a_manifest_of_lines_goes_with_its_bundle_and_several_do_not(recorded, daemon, key, other_daemon, tmp_path):  # noqa: F811
    lines = tmp_path / "job.jsonl"
    lines.write_text(daemon.kiln("manifest", "show", recorded[0], "--json").out)
    assert daemon.kiln("export", lines, "--sign-with", key, "-o", tmp_path / "x.bundle").error.count("\n") == 1
    several = daemon.kiln("export", lines, recorded[0], "--sign-with", key, "-o", tmp_path / "several.bundle")
    assert several.code == 0 and "a bundle takes one file" in several.error, several
    with other_daemon as other:
        trust(other, key)
        assert other.kiln("import", tmp_path / "x.bundle", "-o", tmp_path / "back.jsonl").code == 0
        assert (tmp_path / "back.jsonl").read_bytes() == lines.read_bytes()
        assert other.kiln("wait", tmp_path / "back.jsonl", "--timeout", "1m").code == 0
        assert other.kiln("import", tmp_path / "several.bundle", "-o", tmp_path / "none").code == 2


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


def test_a_bundle_for_another_target_has_no_manifest_which_names_the_recorded_one(recorded, daemon, key, tmp_path):  # noqa: F811
    """Who waited for it on the other node would wait for ever."""
    daemon.kiln("warm", recorded[0], "--target", "cuda:80")  # which cannot have one of them
    done = daemon.kiln("export", recorded[0], "--target", "cuda:80", "--sign-with", key, "-o", tmp_path / "x.bundle")
    assert done.code == 1 and "2 artifacts in " in done.error and "not stored: descriptor_matmul" in done.error, done
    assert "without the manifest, which names other targets" in done.error, done
    assert "made for another GPU" in done.error and "descriptor_matmul" in done.error, done


@pytest.mark.slow
def test_an_export_is_of_a_job_or_a_target(daemon, kiln, other_daemon, key, tmp_path):  # noqa: F811
    source = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"
    with other_daemon as other:
        with package.Client(root=str(other.root)) as client:
            for job, target in (("a", "cuda:90"), ("b", "cuda:90"), ("b", "cuda:100")):
                client.compile(package.CompileRequest(source + f"// {job} {target}\n", target, kind="ptx", job=job))
            client.compile(package.CompileRequest(source + "// a cuda:90\n", "cuda:90", kind="ptx", job="c"))  # which a had compiled
        for arguments, count in ((("--job", "b"), 2), (("--job", "c"), 1), (("--all",), 3), (("--all", "--target", "cuda:100"), 1)):
            made = other.kiln("export", *arguments, "--sign-with", key, "-o", tmp_path / "x.bundle", "--json").objects()[0]
            assert (made["artifacts"], made["signed"]) == (count, True), (arguments, made)
        unknown = other.kiln("export", "--job", "unknown", "-o", tmp_path / "none.bundle")
        assert unknown.code == 1 and "kiln stats --jobs" in unknown.error and not (tmp_path / "none.bundle").exists(), unknown
        assert (tmp_path / "x.bundle").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_that_fills_up_during_an_import_keeps_whole_artifacts_and_takes_the_rest_later(daemon, large_bundle, key, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", disk], check=True)
    try:
        with daemon.beside(tmp_path, KILN_PATHS_STATE=str(disk), KILN_STORE_SIZE="64MiB", KILN_STORE_FREE_DISK="0B") as full:
            trust(full, key)
            done = full.kiln("import", large_bundle, "--json")
            first = done.objects()[0]
            assert done.code == 1 and 0 < first["stored"] < 30, (first, done.error)
            said = full.kiln("import", large_bundle).error
            assert f"artifacts left out: the disk under {disk}/store is full" in said and "try: 'kiln doctor'" in said, said
            stored = [one["key"] for one in full.kiln("ls", "--json").objects()]
            assert len(stored) >= first["stored"] and all(full.kiln("inspect", one).code == 0 for one in stored)
            subprocess.run(["mount", "-o", "remount,size=256m", disk], check=True)
            deadline = time.monotonic() + 60
            while (state := full.kiln("stats", "--json").objects()[0]["state"]) != "serving":
                assert time.monotonic() < deadline, state
                time.sleep(0.1)
            again = full.kiln("import", large_bundle, "--json")
            assert again.code == 0 and again.objects()[0]["stored"] + again.objects()[0]["there_already"] == 30, again
            assert full.kiln("verify").code == 0
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.slow
def test_a_daemon_that_is_killed_during_an_import_has_whole_artifacts_and_takes_the_rest_later(large_bundle, key, other_daemon, tmp_path):
    header, blocks = blocks_of(large_bundle.read_bytes())
    assert len(blocks) > 5
    # The last artifacts are held back, so that the import cannot have ended.
    (tmp_path / "begun.bundle").write_bytes(header + b"".join(blocks[:-2]))
    with other_daemon as other:
        trust(other, key)
        importing = other.start_kiln("import", tmp_path / "begun.bundle")
        while not (before := other.kiln("ls", "--json").objects()):
            pass
        other.kill()
        importing.communicate()
        assert importing.returncode == 2
    with other_daemon as other:
        stored = [one["key"] for one in other.kiln("ls", "--json").objects()]
        assert len(before) <= len(stored) < 30
        assert other.kiln("verify").code == 0
        assert all(other.kiln("inspect", one).code == 0 for one in stored)
        done = other.kiln("import", large_bundle, "--json")
        again = done.objects()[0]
        assert done.code == 0 and (again["stored"], again["there_already"]) == (30 - len(stored), len(stored)), again
        assert other.kiln("verify").code == 0


def test_blocks_in_another_order_are_refused(large_bundle, key, other_daemon, tmp_path):
    header, blocks = blocks_of(large_bundle.read_bytes())
    blocks[1], blocks[2] = blocks[2], blocks[1]
    (tmp_path / "swapped").write_bytes(header + b"".join(blocks))
    with other_daemon as other:
        trust(other, key)
        done = other.kiln("import", tmp_path / "swapped")
        assert done.code == 2 and "no key in" in done.error, done
        # The first stands where it was.
        assert 0 < len(other.kiln("ls", "--json").objects()) < 30 / 2


def signed_block(key, bundle_id, number, content, folder):
    """A block, made of this BundleBlock as docs/bundle.md says."""
    (folder / "content").write_bytes(content)
    frame = subprocess.run(["zstd", "-q", "-c", folder / "content"], capture_output=True, check=True).stdout
    (folder / "signed").write_bytes(b"kiln-bundle-1\n" + bundle_id + number.to_bytes(8, "little") + hashlib.sha256(frame).digest())
    signature = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", folder / "signed"], capture_output=True, check=True).stdout
    return len(frame).to_bytes(4, "little") + frame + signature


@pytest.mark.slow
def test_a_damaged_artifact_that_was_signed_is_left_out_by_key_and_the_others_are_taken(bundle, key, other_daemon, tmp_path):
    header, blocks = blocks_of(bundle.read_bytes())
    content = content_of(blocks[0])
    damaged = content.replace(b'{"', b'}"', 1)  # the first artifact's document
    assert damaged != content
    path = tmp_path / "damaged.bundle"
    path.write_bytes(header + signed_block(key, header[8:], 0, damaged, tmp_path) + b"".join(blocks[1:]))
    with other_daemon as other:
        trust(other, key)
        done = other.kiln("import", path)
        assert done.code == 1 and f"{len(KERNELS) - 1} artifacts stored" in done.error and "left out: " in done.error, done
        stored = {one["key"] for one in other.kiln("ls", "--json").objects()}
        assert len(stored) == len(KERNELS) - 1 and other.kiln("verify").code == 0
        assert other.kiln("import", bundle).code == 0
        left_out, = {one["key"] for one in other.kiln("ls", "--json").objects()} - stored
        assert f"left out: {left_out}: " in done.error, done
