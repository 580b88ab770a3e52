"""A file of requests may be of any size: the command holds a few of its lines at a time."""

import json
import subprocess
import sys

import pytest

LINES = 2000
SOURCE_BYTES = 50_000
# A small process of its own runs the command: what a child is said to have held at most includes what held the process that forked it.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=sys.stderr)
sys.exit(code)
"""


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
