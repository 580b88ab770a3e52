"""A file of requests may be of any size: the command holds a few of its lines at a time."""

import json
import os

LINES = 2000
SOURCE_BYTES = 50_000


def test_thousands_of_large_sources_take_little_memory(daemon, tmp_path):
    path = tmp_path / "requests.jsonl"
    with path.open("w") as file:
        for number in range(LINES):
            # Refused before it reaches a compiler: what is tested is the way there and back.
            request = {"name": f"k{number}", "source": f"// {number}\n" * (SOURCE_BYTES // 8), "target": "cuda:1"}
            file.write(json.dumps(request) + "\n")
    with (tmp_path / "answers.jsonl").open("w+") as answers:
        command = daemon.start_kiln("compile", "--requests", path, "--json", stdout=answers)
        _, status, usage = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(status)
        answers.seek(0)
        answered = [json.loads(line) for line in answers]
    assert command.returncode == 1
    assert sum(one.get("outcome") == "failed" for one in answered) == LINES
    assert usage.ru_maxrss * 1024 < path.stat().st_size / 2
