"""The rows of tests/benchmarks/run say what was measured, and nothing where nothing was."""

import sys

import pytest

from places import BINARIES, ROOT

sys.path.append(str(ROOT / "tests" / "benchmarks"))

import edge  # noqa: E402

ATTACKS = """
import pytest

@pytest.fixture
def victim(record_property):
    yield
    record_property("peak_bytes", 42)

def test_one(victim):
    pass

def test_another(victim):
    {another}
"""


def test_peaks_are_those_of_attacks_that_were_tried(tmp_path):
    tried, untried = tmp_path / "test_tried.py", tmp_path / "test_untried.py"
    tried.write_text(ATTACKS.format(another="pass"))
    untried.write_text(ATTACKS.format(another="pytest.skip('no control group can be made here')"))
    assert edge.hostile_peaks(BINARIES, tried) == {"test_one": 42, "test_another": 42}
    with pytest.raises(RuntimeError, match="test_another: no control group can be made here"):
        edge.hostile_peaks(BINARIES, untried)
