"""A file of requests may be of any size: commands hold a few of its lines at a time."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import kiln as package
from test_bundle import blocks_of, content_of, make_key, signed_block, trust

LINES = 2000
MANY = 30_000
MILLION = 1_000_000
SOURCE_BYTES = 50_000
ARTIFACTS = int(os.environ.get("KILN_TEST_ARTIFACTS", 20_000))  # a multiple of the next, from 16,384 to 2 million
ARTIFACTS_PER_BLOCK = 1000
# A small process of its own runs the command: what a child is said to have held at most includes what held the process that forked it.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=sys.stderr)
sys.exit(code)
"""


def bytes_at_most(command, daemon):
    """What the command and its exit code say, and what it holds at most."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, *command], env=daemon.environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode in (0, 1), done
    return int(done.stderr.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("command", [("manifest", "check"), ("manifest", "show"), ("warm",), ("warm", "--status"), ("wait", "--timeout", "2s")], ids=" ".join)
def test_ten_times_as_many_requests_take_hardly_more_memory(daemon, tmp_path, command):
    used = []
    for count in (MANY // 10, MANY):
        path = tmp_path / f"{count}.jsonl"
        with path.open("w") as file:
            for number in range(count):
                # Refused before it reaches a compiler.
                file.write(json.dumps({"name": f"kernel_{number}", "source": f"// {number}\n", "kind": "ttir", "target": "cuda:1"}) + "\n")
        used.append(bytes_at_most(daemon.kiln_command(*command, path), daemon))
    assert used[1] < 1.25 * used[0], used


@pytest.mark.slow
def test_a_manifest_of_a_million_requests_takes_200_bytes_for_each(daemon, tmp_path):
    used = []
    for count in (MILLION // 100, MILLION):
        lines, manifest = tmp_path / f"{count}.jsonl", tmp_path / f"{count}.kiln"
        request = '{"name":"k","kind":"ttir","target":"cuda:90","options":{"num_stages":%d},"source":"module {}\\n"}\n'
        with lines.open("w") as file:
            file.writelines(request % number for number in range(count))
        used.append([bytes_at_most(daemon.kiln_command(*command), daemon) for command in (
            ("manifest", "merge", lines, "-o", manifest), ("manifest", "check", manifest), ("manifest", "diff", manifest, manifest), ("warm", "--status", "--shard", "1/1000", manifest))])
    for small, large in zip(*used):
        assert large < small + 200 * MILLION, used


@pytest.mark.slow
def test_thousands_of_large_sources_take_little_memory(daemon, tmp_path):
    path = tmp_path / "requests.jsonl"
    with path.open("w") as file:
        for number in range(LINES):
            # Refused before it reaches a compiler: what is tested is the way there and back.
            request = {"name": f"k{number}", "source": f"// {number}\n" * (SOURCE_BYTES // 8), "target": "cuda:1"}
            file.write(json.dumps(request) + "\n")
    command = [sys.executable, "-I", "-S", "-c", MEASURE, *daemon.kiln_command("compile", "--requests", path, "--json")]
    done = subprocess.run(command, env=daemon.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    answered = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1, done.stderr
    assert sum(one.get("outcome") == "failed" for one in answered) == LINES
    assert int(done.stderr.splitlines()[-1]) < path.stat().st_size / 2


@pytest.mark.slow
def test_many_artifacts_go_through_a_bundle_in_bounded_memory(daemon, tmp_path):
    key, one, many, again = make_key(tmp_path, "builder"), *(tmp_path / f"{name}.bundle" for name in ("one", "many", "again"))
    with daemon.beside(tmp_path, KILN_STORE_MEMORY="64MiB") as other:
        trust(other, key)
        with package.Client(root=str(other.root)) as client:
            artifact = client.compile(package.CompileRequest(
                ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n", "cuda:90", kind="ptx"))
        assert other.kiln("export", "--all", "--sign-with", key, "-o", one).code == 0
        header, blocks = blocks_of(one.read_bytes())
        content = content_of(blocks[0])
        stored_key = bytes.fromhex(artifact.key)
        assert content.count(stored_key) == 1
        with many.open("wb") as file:
            file.write(header)
            for number in range(ARTIFACTS // ARTIFACTS_PER_BLOCK):
                keys = (hashlib.sha256(b"%d %d" % (number, each)).digest() for each in range(ARTIFACTS_PER_BLOCK))
                file.write(signed_block(key, header[8:], number, b"".join(content.replace(stored_key, each) for each in keys), tmp_path))
            count = bytes((ARTIFACTS & 0x7f | 0x80, ARTIFACTS >> 7 & 0x7f | 0x80, ARTIFACTS >> 14))
            end = b"\x1a\x04\x08" + count  # BundleEnd
            file.write(signed_block(key, header[8:], number + 1, end, tmp_path))
        used = [bytes_at_most(other.kiln_command(*command), other) for command in (
            ("import", many), ("export", "--all", "--sign-with", key, "-o", again))]
        assert all(each < 100 << 20 for each in used), used
        assert other.kiln("stats", "--json").objects()[0]["artifacts"] == ARTIFACTS + 1
        imported = other.kiln("import", again, "--json").objects()[0]
        assert (imported["stored"], imported["there_already"]) == (0, ARTIFACTS + 1), imported
        held = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{other.pid}/status").read_text())
        assert int(held[1]) < 400 << 10, held
