"""What was compiled before decides nothing, whichever Triton: fp8 conversions for each architecture after every other one."""

import pytest

from fp8_order import TARGETS, check, each_after_each, make_references
from test_versions import CLAIMED, WANTED, daemon, python_of  # noqa: F401 (a fixture)

pytestmark = pytest.mark.slow

CASES = [(version, targets) for version in WANTED for backend in TARGETS
         if (targets := [target for target in TARGETS[backend] if target in CLAIMED[version]])]


@pytest.mark.parametrize("version, targets", CASES)
def test_fp8_conversions_are_the_same_after_every_other_architecture(daemon, version, targets, tmp_path):  # noqa: F811
    references = tmp_path / "references"
    make_references(python_of(version), targets, references)
    check(daemon, f"triton=={version}", references, each_after_each(targets), tmp_path)
