"""kilnd --check-config and --print-config, as an operator runs them before a start."""

import os
import subprocess

import pytest


@pytest.fixture
def kilnd(programs, tmp_path):
    """Runs kilnd with these arguments and variables to its end."""

    def run(*arguments, stdout=subprocess.PIPE, **variables):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **variables}
        return subprocess.run([programs.kilnd, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=stdout,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    return run


def test_the_defaults_are_fine(kilnd):
    assert kilnd("--check-config").returncode == 0


@pytest.mark.parametrize("setting, words", [
    ("sockets.group=nosuch", 'sockets.group: there is no group "nosuch"'),
    ("workers.script=/nope", "workers.script: cannot read /nope"),
    ("toolchain.directories=/nonexistent", "toolchain.directories: there is no directory /nonexistent"),
    ("toolchain.default=banana", "toolchain.default: a toolchain is named as name==version"),
])
def test_a_setting_that_names_a_missing_file_is_refused(kilnd, setting, words):
    checked = kilnd("--check-config", "--set", setting)
    assert checked.returncode == 2
    assert f"--set: {words}" in checked.stderr


def test_a_directory_that_cannot_be_made(kilnd):
    checked = kilnd("--check-config", "--set", "paths.state=/etc/passwd/kiln")
    assert checked.returncode == 2
    assert "/etc/passwd/kiln" in checked.stderr


@pytest.mark.parametrize("flag", ["--root", "--config"])
def test_an_empty_path_is_not_the_systems_own(kilnd, flag):
    """As a script has it whose variable is not set."""
    refused = kilnd("--check-config", flag, "")
    assert refused.returncode == 2
    assert f"{flag}: is empty" in refused.stderr


def test_a_word_that_is_no_flag(kilnd):
    refused = kilnd("foo")
    assert refused.returncode == 2
    assert refused.stderr.startswith("kilnd: ") and "foo" in refused.stderr and "kilnd --help" in refused.stderr


@pytest.mark.parametrize("given, flag", [("--rot", "--root"), ("--check-confg=x", "--check-config"), ("--sett", "--set")])
def test_a_mistyped_flag(kilnd, given, flag):
    refused = kilnd(given, "/somewhere")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"kilnd: '{given}' is not known here; did you mean {flag}?; see "), refused.stderr


def test_a_mistyped_variable(kilnd):
    checked = kilnd("--check-config", KILN_STORE_SISE="1GiB")
    assert checked.returncode == 2
    assert "KILN_STORE_SISE" in checked.stderr and "[store] has store.size, " in checked.stderr


def test_a_root_names_where_it_was_given(kilnd, tmp_path):
    assert f'From: --root.\nroot = "{tmp_path}"' in kilnd("--print-config", "--root", str(tmp_path)).stdout
    assert f'From: KILN_ROOT.\nroot = "{tmp_path}"' in kilnd("--print-config", KILN_ROOT=str(tmp_path)).stdout


def test_a_configuration_that_cannot_be_written(kilnd):
    with open("/dev/full", "w", encoding="utf-8") as full:
        printed = kilnd("--print-config", stdout=full)
    assert printed.returncode == 1
    assert "standard output" in printed.stderr


@pytest.mark.parametrize("mode, owner", [(0o666, None), (0o664, None), (0o644, 65533)], ids=["everybody", "the group", "another user"])
def test_a_configuration_that_others_may_write(kilnd, tmp_path, mode, owner):
    if owner is not None and os.geteuid() != 0:
        pytest.skip("needs root: it gives a file away")
    file = tmp_path / "kilnd.toml"
    file.write_text('[workers]\njail = "off"\n')
    file.chmod(0o600)
    assert kilnd("--check-config", "--config", str(file)).returncode == 0
    file.chmod(mode)
    if owner is not None:
        os.chown(file, owner, -1)
    for arguments in (["--config", str(file)], ["--root", str(tmp_path)]):
        refused = kilnd("--check-config", *arguments)
        assert refused.returncode == 2
        assert str(file) in refused.stderr and ("chown" if owner else "chmod go-w") in refused.stderr


def test_a_configuration_in_a_directory_that_others_may_write(kilnd, tmp_path):
    file = tmp_path / "open" / "kilnd.toml"
    file.parent.mkdir()
    file.write_text("")
    file.parent.chmod(0o777)
    link = tmp_path / "kilnd.toml"
    link.symlink_to(file)
    for path in (file, link):
        refused = kilnd("--check-config", "--config", str(path))
        assert refused.returncode == 2
        assert f"others may write to {file.parent}" in refused.stderr
    file.parent.chmod(0o1777)
    assert kilnd("--check-config", "--config", str(file)).returncode == 0
