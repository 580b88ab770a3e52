"""kiln stats: every field is documented, and every documented field is there."""

import pathlib
import re

import pytest

CLI = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cli.md"
# Absent where nobody knows the value.
MAY_BE_ABSENT = {"available_memory_bytes"}


def test_fields_are_those_of_the_page(daemon):
    page = CLI.read_text()
    section = page[page.index("**What `stats` counts.**"):page.index("Under `toolchains` each toolchain has")]
    first_cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    texts = {"version", "started_unix_ms", "state", "state_reason", "compile_path", "store", "toolchains", "requests"}

    stats = daemon.kiln("stats", "--json").objects()[0]
    assert set(stats) | MAY_BE_ABSENT == documented | texts
    assert {"name", "fingerprint", "state", "workers", "compiles", "queued"} <= set(stats["toolchains"][0])
    piped = dict(line.split("\t") for line in daemon.kiln("stats").out.splitlines())
    assert piped["toolchains.0.name"] == stats["toolchains"][0]["name"]
    assert "unknown" not in daemon.kiln("stats", "--table").out.replace("unknown available", "")


@pytest.mark.parametrize("least, verdict", [("0B", "ok"), ("64TiB", "warning")])
def test_doctor_compares_the_disk_with_the_setting(first_daemon, tmp_path, least, verdict):
    with first_daemon.beside(tmp_path, KILN_STORE_FREE_DISK=least) as daemon:
        found = [line["verdict"] for line in daemon.kiln("doctor", "--json").objects() if line["check"] == "disk"]
    assert found == [verdict]
