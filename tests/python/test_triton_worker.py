"""What triton_worker.py makes of its own troubles, without Triton."""

import errno
import importlib.util
import os

import pytest

from places import ROOT


@pytest.fixture(scope="module")
def worker():
    spec = importlib.util.spec_from_file_location("triton_worker", ROOT / "daemon" / "worker" / "triton_worker.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("error, code", [
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "unavailable"),
    (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "unavailable"),
    # The source may have taken it.
    (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "internal"),
    (MemoryError(), "internal"),
], ids=repr)
def test_only_what_the_machine_lacks_is_held_against_nobody(worker, error, code):
    failure = worker.classify(error, "cubin", None)
    assert (failure.code, failure.deterministic) == (code, False)


def test_an_assembler_that_was_exchanged_is_not_the_kernels_fault(worker, tmp_path):
    (tmp_path / "ptxas").write_text("another")
    for path in (tmp_path / "ptxas", tmp_path / "missing"):
        with pytest.raises(worker.Failure) as caught:
            worker.check_digest(str(path), "0" * 64)
        assert caught.value.code == "unavailable"
