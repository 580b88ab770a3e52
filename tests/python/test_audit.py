"""The daemon compiles some of what it found stored once more, and says what came of it."""

import time

import pytest

from daemon import Daemon

KERNELS = "vector_add,softmax"


@pytest.fixture(scope="module")
def requests(run_with_triton, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    run_with_triton("lower.py", "--kernels", KERNELS, "--targets", "cuda:90", "--out", folder)
    return folder / "requests.jsonl"


def test_every_hit_is_audited_when_nothing_else_is_to_be_done(programs, requests, tmp_path):
    with Daemon(programs, tmp_path, environment={"KILN_AUDIT_ONE_IN": "1"}) as daemon:
        for outcome in ("compiled", "hit"):
            answers = daemon.kiln("compile", "--requests", requests, "--json").objects()
            assert [one["outcome"] for one in answers if "key" in one] == 2 * [outcome]
        deadline = time.monotonic() + 60
        while (stats := daemon.kiln("stats", "--json").objects()[0])["audits_same"] < 2:
            assert time.monotonic() < deadline, stats
            time.sleep(0.1)
        assert (stats["audits_differed"], stats["audits_nondeterministic"], stats["audits_waiting"]) == (0, 0, 0)
        assert stats["compiled"] == 2  # audits are nobody's requests
        assert "auditing(" in stats["compile_path"]
        assert "2 the same" in daemon.kiln("stats", "--table").out
