"""kiln stats and kiln ls: what people see of what was done, for them and by whom."""

import dataclasses
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios
import time

import pytest

import kiln

CLI = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cli.md"
# Absent where nobody knows the value.
MAY_BE_ABSENT = {"available_memory_bytes"}


def test_fields_are_those_of_the_page(daemon):
    page = CLI.read_text()
    section = page[page.index("**What `stats` counts since the daemon's start.**"):page.index("Under `toolchains` each toolchain has")]
    first_cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    texts = {"version", "started_unix_ms", "state", "state_reason", "compile_path", "store", "toolchains", "requests",
             "jobs", "counted_since_unix_ms", "days"}

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


PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n// %s\n"


def jobs_of(daemon):
    return {job["job"]: job for job in daemon.kiln("stats", "--json").objects()[0]["jobs"]}


@pytest.mark.slow
def test_what_was_done_for_a_job_is_told_and_survives_a_restart(other_daemon):
    asked = kiln.CompileRequest(PTX % "train", "cuda:90", kind="ptx", job="train")
    with other_daemon:
        with kiln.Client(root=str(other_daemon.root)) as client:
            client.compile(asked)
            assert [client.compile(asked).tier for _ in range(3)] == ["hot"] * 3
            spared, = other_daemon.kiln("ls", "--job", "train", "--json").objects()
            client.compile(dataclasses.replace(asked, job="serve", cache="refresh"))
            with pytest.raises(kiln.CompilationError):
                client.compile(kiln.CompileRequest("no PTX", "cuda:90", kind="ptx", job="broken"))
        before = jobs_of(other_daemon)
        log = other_daemon.log.read_text()
    train, serve, broken = (before[job] for job in ("train", "serve", "broken"))
    assert train["uid"] == os.geteuid()
    assert abs(train["saved_micros"] - 3 * spared["compile_micros"]) <= 3, (train, spared)
    assert (train["compiled"], train["hot"], serve["compiled"], serve["hot"], broken["failed"]) == (1, 3, 1, 0, 1), before
    with other_daemon:
        assert jobs_of(other_daemon) == before
        made, = other_daemon.kiln("ls", "--job", "train", "--json").objects()
        assert made["uid"] == os.geteuid()
        table = other_daemon.kiln("stats", "--table").out
    compiles = [line for line in log.splitlines() if " info compiled key=" in line]
    assert len(compiles) == 2 and f"uid={os.geteuid()} job=train ms=" in compiles[0] and 'target=cuda:90 toolchain="ptxas==' in compiles[0], log
    failure, = [line for line in log.splitlines() if " info compile failed key=" in line]
    assert "job=broken" in failure and "code=INVALID_ARGUMENT" in failure, failure
    assert table.startswith("Kiln\n  hit rate  50.0 % of 6 kernels in "), table


@pytest.mark.slow
def test_without_administration_users_see_their_own(other_daemon):
    with other_daemon:
        with kiln.Client(root=str(other_daemon.root)) as client:
            client.compile(kiln.CompileRequest(PTX % "own", "cuda:90", kind="ptx", job="mine"))
        socket = other_daemon.root / "run" / "admin.sock"
        socket.rename(socket.with_name("away.sock"))
        stats, listed = other_daemon.kiln("stats", "--table"), other_daemon.kiln("ls", "--json")
        refused = other_daemon.kiln("drain")
        others = [other_daemon.kiln("ls", "--user", "nobody", *more) for more in ((), ("k",), ("add",), ("--sort", "use"))]
        why = other_daemon.kiln("why", "--job", "mine"), other_daemon.kiln("why", listed.objects()[0]["key"][:8])
        recorded = other_daemon.kiln("record", "--job", "mine", "-o", other_daemon.root / "mine.kiln")
        socket.with_name("away.sock").rename(socket)
    assert (stats.code, listed.code, refused.code) == (0, 0, 2), (stats, listed, refused)
    assert all(one.code == 1 and one.out == "" and one.error.startswith("kiln: ls: ") for one in others), others
    assert "your own jobs only" in stats.error and "mine" in stats.out and "Work" not in stats.out, stats
    assert [line["job"] for line in listed.objects()] == ["mine"], listed
    assert all(one.code == 0 and "job mine" in one.out for one in why), why
    assert recorded.code == 0 and "1 kernel, 0 recorded keys" in recorded.error, recorded


def on_a_terminal(daemon, columns, *arguments):
    """What kiln writes to a terminal of that width."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    done = subprocess.run(daemon.kiln_command(*arguments), env=daemon.environment(), stdin=subprocess.DEVNULL, stdout=its,
                          stderr=subprocess.PIPE, check=False)
    os.close(its)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # its end
        pass
    os.close(ours)
    assert done.returncode == 0, done.stderr
    return written.decode().replace("\r\n", "\n")


def test_a_list_tells_kernels_apart_and_fits_the_terminal(other_daemon, tmp_path):
    with other_daemon:
        for job, options in (("first", {}), ("second", {"opt-level": 1}), ("second", {"opt-level": 2, "maxnreg": 64})):
            with kiln.Client(root=str(other_daemon.root)) as client:
                client.compile(kiln.CompileRequest(PTX % "list", "cuda:90", kind="ptx", job=job, options=options))
        table = on_a_terminal(other_daemon, 80, "ls", "--sort", "size", "--no-color")
        second = other_daemon.kiln("ls", "--job", "second", "--json").objects()
        (tmp_path / "k.ptx").write_text(PTX % "list")
        compiled = other_daemon.kiln("compile", tmp_path / "k.ptx", "--target", "cuda:90", "--json").objects()[0]
        nothing = other_daemon.kiln("ls", "--target", "hip")
        several = other_daemon.kiln("inspect", "k")
        one = other_daemon.kiln("inspect", second[0]["key"][:8], "--json").objects()[0]
    assert max(map(len, table.splitlines())) <= 80 and len(table.splitlines()) == 4, table
    assert sorted(line["options"] for line in second) == ["maxnreg=64 opt-level=2", "opt-level=1"], second
    assert all(line["options"] in table for line in second), table
    assert compiled["toolchain"].startswith("ptxas=="), compiled
    assert nothing.out == "" and nothing.error.startswith("0 artifacts"), nothing
    assert several.code == 1 and "several kernels have that name" in several.error and "opt-level=1" in several.error, several
    assert one["key"] == second[0]["key"]


@pytest.mark.slow
def test_a_list_is_in_the_order_that_is_asked_for(daemon, tmp_path):
    """Each order of the same kernels is another one."""
    entry = ".visible .entry %s(.param .u64 p) { .reg .b32 %%r<2>; %s ret; }\n"
    header = ".version 8.0\n.target sm_90\n.address_size 64\n"
    instructions = {"middle": 400, "large": 4000, "small": 0}
    requests = {name: kiln.CompileRequest(header + entry % (name, "mov.u32 %r1, %clock;\n" * count), "cuda:90", kind="ptx")
                for name, count in instructions.items()}

    def listed(order):
        rows = here.kiln("ls", "--sort", order, "--json").objects()
        return [row["name"] for row in rows], rows

    with daemon.beside(tmp_path, KILN_HOT_SIZE="0B") as here, kiln.Client(root=str(here.root)) as client:
        for request in requests.values():
            client.compile(request)
        for name in ("large", "small", "middle"):
            assert client.compile(requests[name]).outcome == "hit"
            time.sleep(0.002)  # the clock of uses has milliseconds
        assert listed("size")[0] == ["large", "middle", "small"]
        assert listed("age")[0] == ["small", "large", "middle"]
        assert listed("use")[0] == ["middle", "small", "large"]
        took = [row["compile_micros"] for row in listed("compile-time")[1]]
        first, = here.kiln("ls", "--sort", "use", "--limit", "1", "--json").objects()
    assert took == sorted(took, reverse=True) and len(set(took)) > 1
    assert first["name"] == "middle"


@pytest.mark.slow
def test_a_list_tells_four_products_apart(other_daemon, run_with_triton, tmp_path):
    products = ("matmul_64x64x32", "matmul_128x128x64", "matmul_128x256x64", "matmul_128x128x64_two_ctas")
    run_with_triton("lower.py", "--targets", "cuda:90", "--kernels", ",".join(products), "--out", tmp_path)
    with other_daemon:
        other_daemon.kiln("compile", "--requests", tmp_path / "requests.jsonl", "-o", tmp_path / "out")
        table = on_a_terminal(other_daemon, 80, "ls", "matmul", "--no-color")
        listed = other_daemon.kiln("ls", "matmul", "--json").objects()
    rows = table.splitlines()[1:]
    options = table.splitlines()[0].index("OPTIONS")
    assert len(listed) == 4 and {one["name"] for one in listed} == {"matmul"}, listed
    assert len({row[options:] for row in rows}) == 4 and max(map(len, rows)) <= 80, table
    assert sum("tiles=128x256,64x256" in row for row in rows) == 1, table
