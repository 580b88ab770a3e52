"""The service of a node under a real systemd: installed, hardened, for several users, crashed, stopped and replaced."""

import errno
import json
import os
import shutil
import socket
import subprocess

import debian_machine as machines
import pytest

from places import ROOT, TOOLCHAIN

UNITS = ROOT / "deploy" / "systemd"
ALL_UNITS = ("kilnd.socket", "kilnd-admin.socket", "kilnd.service")
ADA, BOB, EVE = 1001, 1002, 1003
EXPOSURE_TENTHS_MAX = 10
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  st.global.u64 [%rd1], {number};
  ret;
}}
"""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze missing")
def test_the_service_is_hardened():
    said = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_TENTHS_MAX}",
                           UNITS / "kilnd.service"], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout


def test_it_has_no_capability():
    lines = (UNITS / "kilnd.service").read_text().splitlines()
    assert "User=kiln" in lines and "CapabilityBoundingSet=" in lines
    assert not any(line.startswith("AmbientCapabilities") for line in lines)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    if reason := machines.why_not():
        pytest.skip(reason)
    made = machines.Machine(tmp_path_factory.mktemp("machine"))
    try:
        made.install()
        ptxas = next(TOOLCHAIN.glob("lib/python3*/site-packages/triton/backends/nvidia/bin/ptxas"))
        toolkit = made.root / "usr/lib/kiln/toolchains/cuda/bin"
        toolkit.mkdir(parents=True)
        shutil.copy(ptxas, toolkit)
        made.boot()
        made.run("groupadd", "gpu")
        for name, uid in (("ada", ADA), ("bob", BOB), ("eve", EVE)):
            made.run("useradd", "-m", "-u", uid, *(() if uid == EVE else ("-G", "gpu")), name)
        made.write("/etc/systemd/system/kilnd.socket.d/group.conf", "[Socket]\nSocketGroup=gpu\n")
        made.write("/etc/kiln/kilnd.toml", '[store]\nsize = "1GiB"\n')
        made.run("systemctl", "daemon-reload")
        made.run("systemctl", "enable", "--now", *ALL_UNITS)
        yield made
    finally:
        made.close()


def compiled(machine, number, uid=ADA):
    """How a kernel was answered: "compiled" or "hit"."""
    request = json.dumps({"name": "k", "kind": "ptx", "target": "cuda:80", "source": PTX.format(number=number)})
    machine.write(f"/tmp/{number}.jsonl", request)
    done = machine.run("kiln", "compile", "--requests", f"/tmp/{number}.jsonl", "--json", "-o", f"/tmp/out-{uid}", uid=uid)
    return json.loads(done.stdout.splitlines()[0])["outcome"]


def own(machine, uid, method, **request):
    """The daemon's answer to a call for the user's own entries."""
    from kiln._connection import _METHODS, pb
    from kiln.sockets import PREAMBLE, frame
    number, answers = _METHODS[method]
    question = PREAMBLE + frame(1, 0, number, getattr(pb, f"{method}Request")(**request).SerializeToString())
    heard, told = os.pipe()

    def ask():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect("/run/kiln/kilnd.sock")
            connection.sendall(question)
            file = connection.makefile("rb")
            os.write(told, file.read(int.from_bytes(file.read(4), "little")))
        return 0

    child = machine.fork_into(ask, uid)
    os.close(told)
    with open(heard, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    assert answer[8] == 0, answer
    return answers.FromString(answer[9:])


def published_for(machine, uid):
    """Files of the hot directory that the user may read."""
    return set(machine.run("find", "/run/kiln/hot", "-type", "f", "-readable", uid=uid).stdout.split())


@pytest.mark.slow
def test_own_entries_are_their_users_alone(machine):
    before = published_for(machine, BOB)
    own(machine, ADA, "PutOwn", entries=[{"key": b"key", "files": [{"name": "file", "content": b"ada's"}]}])
    machine.wait_for(lambda: published_for(machine, ADA) - before, "her entry in the hot directory")
    assert published_for(machine, BOB) == before
    assert not own(machine, BOB, "GetOwn", keys=[b"key"]).entries
    crash(machine)
    assert own(machine, ADA, "GetOwn", keys=[b"key"]).entries[0].files[0].content == b"ada's"


def crash(machine):
    before = machine.show("MainPID")
    machine.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "kilnd.service")
    machine.wait_for(lambda: machine.show("MainPID") not in ("0", before) and machine.show("ActiveState") == "active", "a new kilnd")


@pytest.mark.slow
def test_two_users_share_what_a_daemon_without_privileges_compiles(machine):
    assert [compiled(machine, 1, ADA), compiled(machine, 1, BOB)] == ["compiled", "hit"]
    refused = machine.run("kiln", "compile", "--requests", "/tmp/1.jsonl", uid=EVE, check=False)
    assert refused.returncode != 0 and "ermission" in refused.stderr, refused
    service = int(machine.run("id", "-u", "kiln").stdout)
    for pid in machine.processes():
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        assert status["Uid"].split() == [str(service)] * 4, status
        assert int(status["CapPrm"], 16) == 0 and status["NoNewPrivs"] == "1", status
        # In a user namespace there is a bounding set of its own.
        assert int(status["CapBnd"], 16) == 0 or os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user"), status
    doctor = machine.run("kiln", "doctor", check=False).stdout
    assert "compilers reach nothing but their own files" in doctor and "no tmpfs" not in doctor and "\nbad" not in doctor, doctor
    assert "1.0 GiB" in doctor  # of /etc/kiln/kilnd.toml


@pytest.mark.slow
def test_a_worker_sees_neither_the_store_nor_the_sockets(machine):
    compiled(machine, 2)
    kilnd = int(machine.show("MainPID"))
    own = {os.readlink(f"/proc/{pid}/ns/user"): pid for pid in machine.processes()}
    assert kilnd and len(own) > 1, own
    shared = os.readlink("/proc/self/ns/user")
    for namespace, pid in own.items():
        seen = subprocess.run(["nsenter", f"--target={pid}", "--mount", "ls", "/var/lib/kiln/store", "/run/kiln"], capture_output=True,
                              text=True).stdout
        assert ("kilnd.sock" in seen) == ("CURRENT" in seen) == (namespace == shared), seen


@pytest.mark.slow
def test_after_a_crash_everything_is_there(machine):
    compiled(machine, 3)
    crash(machine)
    assert compiled(machine, 3, BOB) == "hit"
    assert "set aside" not in machine.journal()


@pytest.mark.slow
def test_it_stops_under_load_and_the_next_client_starts_it(machine):
    lines = (json.dumps({"name": f"k{number}", "kind": "ptx", "target": "cuda:80", "source": PTX.format(number=number)})
             for number in range(1000, 1100))
    machine.write("/tmp/many.jsonl", "\n".join(lines))
    load = subprocess.Popen(machine.command("kiln", "compile", "--requests", "/tmp/many.jsonl", "-o", "/tmp/many", uid=ADA),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert load.stdout.readline()  # the first is done, others are under way
        machine.run("systemctl", "stop", "kilnd.service")
        assert machine.show("Result") == "success"
    finally:
        load.communicate(timeout=machines.COMMAND_S)
    assert compiled(machine, 1) == "hit"


def keep_connecting():
    """The exit status: 0, unless a connection was refused."""
    while not os.path.exists("/tmp/enough"):
        with socket.socket(socket.AF_UNIX) as connection:
            error = connection.connect_ex("/run/kiln/kilnd.sock")
        # A full queue is one that somebody listens on.
        if error not in (0, errno.EAGAIN):
            return 2
    return 0


@pytest.mark.slow
def test_an_upgrade_refuses_no_connection(machine):
    compiled(machine, 4)
    client = machine.fork_into(keep_connecting, 0)
    try:
        for _ in range(3):
            before = machine.show("MainPID")
            machine.install()
            machine.run("systemctl", "daemon-reload")
            machine.run("systemctl", "restart", "kilnd.service")
            assert machine.show("MainPID") not in ("0", before)
    finally:
        machine.write("/tmp/enough", "")
        status = os.waitstatus_to_exitcode(os.waitpid(client, 0)[1])
    assert status == 0
    assert compiled(machine, 4, BOB) == "hit"
    groups = machine.run("stat", "-c", "%U %G %a", "/run/kiln/kilnd.sock", "/run/kiln/admin.sock").stdout.split("\n")
    assert groups[:2] == ["root gpu 660", "root root 600"]


@pytest.mark.slow
def test_root_may_run_it_and_is_told(machine):
    machine.write("/etc/systemd/system/kilnd.service.d/root.conf", "[Service]\nUser=root\nGroup=root\nCapabilityBoundingSet=~\n")
    machine.write("/etc/tmpfiles.d/kiln.conf", "d /run/kiln 0755 root root\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "stop", *ALL_UNITS)
    machine.run("rm", "-r", "/run/kiln")
    machine.run("systemd-tmpfiles", "--create", "kiln.conf")
    machine.run("systemctl", "start", *ALL_UNITS)
    assert compiled(machine, 6) == "compiled" and compiled(machine, 6, BOB) == "hit"
    assert "kilnd runs as root" in machine.journal()
