"""The daemon compiles some of what it found stored once more, and says what came of it."""

import json
import pathlib
import re
import time

import pytest

KERNELS = "vector_add,softmax"
# Every hit is the daemon's own.
AUDITING = {"KILN_AUDIT_ONE_IN": "1", "KILN_HOT_SIZE": "0B"}


@pytest.fixture(scope="module")
def requests(run_with_triton, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    run_with_triton("lower.py", "--kernels", KERNELS, "--targets", "cuda:90", "--out", folder)
    return folder / "requests.jsonl"


def wait_for_audits(daemon, count):
    deadline = time.monotonic() + 60
    while True:
        stats = daemon.kiln("stats", "--json").objects()[0]
        if stats["audits_same"] + stats["audits_differed"] + stats["audits_nondeterministic"] >= count:
            return stats
        assert time.monotonic() < deadline, stats
        time.sleep(0.1)


@pytest.mark.slow
def test_every_hit_is_audited_when_nothing_else_is_to_be_done(first_daemon, requests, tmp_path):
    with first_daemon.beside(tmp_path, **AUDITING) as daemon:
        for outcome in ("compiled", "hit"):
            answers = daemon.kiln("compile", "--requests", requests, "--json").objects()
            assert [one["outcome"] for one in answers if "key" in one] == 2 * [outcome]
        stats = wait_for_audits(daemon, 2)
        assert (stats["audits_same"], stats["audits_differed"], stats["audits_nondeterministic"]) == (2, 0, 0)
        assert stats["audits_waiting"] == 0
        assert stats["compiled"] == 2  # audits are nobody's requests
        assert "auditing(" in stats["compile_path"]
        assert "2 the same" in daemon.kiln("stats", "--table").out


@pytest.mark.slow
def test_a_source_file_that_was_edited_makes_no_binary_wrong(first_daemon, requests, tmp_path):
    """A worker's ptxas does not see it, so that not even the line table differs."""
    written = tmp_path / "kernel.py"
    written.write_text("# what the locations name\n")
    request = json.loads(requests.read_text().splitlines()[0])
    text = pathlib.Path(request.pop("source_file")).read_text()
    request["source"] = re.sub(r'loc\("[^"]*\.py"', f'loc("{written}"', text)
    assert str(written) in request["source"]
    (tmp_path / "requests.jsonl").write_text(json.dumps(request))
    with first_daemon.beside(tmp_path, **AUDITING) as daemon:
        def ask():
            return daemon.kiln("compile", "--requests", tmp_path / "requests.jsonl", "--json").objects()[0]["outcome"]

        assert ask() == "compiled"
        written.write_text("# what the locations name, with a comment\n")
        assert ask() == "hit"
        stats = wait_for_audits(daemon, 1)
        assert (stats["audits_same"], stats["audits_differed"], stats["audits_nondeterministic"]) == (1, 0, 0)
        assert ask() == "hit"
