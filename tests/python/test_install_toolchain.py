"""deploy/install-toolchain, by hand: what is wrong with what it was given."""

import subprocess

import pytest

from places import ROOT

THREE = "a version to install has three numbers, as "
THERE_ARE = "there are triton and nvrtc, as triton==3.6.0 or nvrtc==12.9.86"


@pytest.mark.parametrize("given, why", [
    (["3.6"], f"{THREE}triton==3.6.0; '3.6' has not"),
    (["triton==3.6"], f"{THREE}triton==3.6.0; '3.6' has not"),
    (["nvrtc==12.9"], f"{THREE}nvrtc==12.9.86; '12.9' has not"),
    (["v3.6.0"], f"{THREE}triton==3.6.0; 'v3.6.0' has not"),
    (["triton=3.6.0"], f"{THREE}triton==3.6.0; 'triton=3.6.0' has not"),
    (["nvrtc"], f"{THREE}nvrtc==12.9.86\n"),
    ([""], f"{THREE}triton==3.6.0\n"),
    (["gcc==12.2.0"], f"'gcc' cannot be installed: {THERE_ARE}"),
    (["ptxas"], f"'ptxas' cannot be installed: {THERE_ARE}"),
    (["--user"], "there is no option --user here"),
    (["3.6.0", "3.7.1"], "'3.7.1' is too much"),
    (["3.6.0", "--system"], "'--system' is too much"),
    (["--into", "here"], "--into takes a directory, from / on"),
])
def test_unsupported_arguments_are_refused_with_an_example(given, why, tmp_path):
    done = subprocess.run([ROOT / "deploy" / "install-toolchain", *given], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, ""), done
    assert why in done.stderr, done
    assert list(tmp_path.iterdir()) == []
