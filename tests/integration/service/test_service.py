"""The service of a node under a real systemd: installed, hardened, for several users, crashed, stopped and replaced."""

import errno
import json
import os
import shutil
import socket
import subprocess
import threading
import zipfile
from pathlib import Path

import debian_machine as machines
import pytest
from file_probes import PROBES
from hostile_user import BACKLOG, SECRET, SECRET_WORDS, HostileUser
from kernel_users import SEEN, KernelUser

import stand_in_libcuda
from kiln_triton_worker.warm_kernel import WARM_KERNEL
from places import CUDA, ROOT, TOOLCHAIN

PIP_WHEELS = Path("/usr/share/python-wheels")  # Debian's, of which it makes virtual environments
UNITS = ROOT / "deploy" / "systemd"
ALL_UNITS = ("kilnd.socket", "kilnd-admin.socket", "kilnd.service")
ADA, BOB, EVE, MALLORY = 1001, 1002, 1003, 1004
KILND_BYTES_MAX = 1 << 30
CONFIGURATIONS = 4  # of tuned_job.py
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


def test_the_service_has_no_capability():
    lines = (UNITS / "kilnd.service").read_text().splitlines()
    assert "User=kiln" in lines and "CapabilityBoundingSet=" in lines
    assert not any(line.startswith("AmbientCapabilities") for line in lines)


def has_nvrtc():
    """An environment of NVRTC's, which a machine can be shown as it is."""
    return bool(list(CUDA.glob("lib/python3*/site-packages/nvidia")))


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
        seen = [(path, path) for path in (made.install_python(), *SEEN, *filter(Path.is_dir, [PIP_WHEELS]))]
        made.homes = tmp_path_factory.mktemp("homes")
        made.homes.chmod(0o755)
        made.compilers = [TOOLCHAIN, *([CUDA] if has_nvrtc() else [])]
        made.boot([*seen, *((one.resolve(), f"/usr/lib/kiln/toolchains/{one.name}") for one in made.compilers)], made.homes)
        made.run("groupadd", "gpu")
        for name, uid in (("ada", ADA), ("bob", BOB), ("eve", EVE), ("mallory", MALLORY)):
            made.run("useradd", "-m", "-u", uid, *(() if uid == EVE else ("-G", "gpu")), name)
        made.write("/etc/systemd/system/kilnd.socket.d/group.conf", "[Socket]\nSocketGroup=gpu\n")
        made.write("/etc/kiln/kilnd.toml", '[store]\nsize = "1GiB"\n[tunings]\nshared_by = ["ada", "bob"]\n')
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
        status = machine.status(pid)
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

    def seen_by(pid):
        return [path for path in ("var/lib/kiln/store/CURRENT", "run/kiln/kilnd.sock") if os.path.exists(f"/proc/{pid}/root/{path}")]

    shared = os.readlink("/proc/self/ns/user")
    workers = [pid for pid in machine.processes() if os.readlink(f"/proc/{pid}/ns/user") != shared]
    assert len(seen_by(machine.kilnd())) == 2
    assert workers and not any(map(seen_by, workers))


def pack(packages, folder):
    """The wheel of the Triton there, with one file more, which makes its fingerprint another."""
    described, = packages.glob("triton-*.dist-info")
    version = described.name.removeprefix("triton-").removesuffix(".dist-info")
    wheel = folder / f"triton-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        listed = [line.split(",")[0] for line in (described / "RECORD").read_text().splitlines()]
        packed = [name for name in listed if not name.startswith("..") and not name.endswith(("/RECORD", "/INSTALLER", "/REQUESTED"))]
        for name in packed:
            made.write(packages / name, name)
        made.writestr("triton/of_this_node.py", "")
        rows = [f"{name},," for name in [*packed, "triton/of_this_node.py", f"{described.name}/RECORD"]]
        made.writestr(f"{described.name}/RECORD", "\n".join(rows))
    return version


@pytest.mark.slow
@pytest.mark.skipif(not PIP_WHEELS.is_dir(), reason="python3-venv missing, which installs toolchains")
def test_a_toolchain_is_installed_beside_those_of_root_and_removed(machine):
    """As docs/guide.md has it, but for the network, which the machine has not."""
    packages, = TOOLCHAIN.glob("lib/python3*/site-packages")
    wheels = machine.homes / "wheels"
    wheels.mkdir()
    version = pack(packages, wheels)
    before = tritons(machine)
    assert {owner(machine, each["path"]) for each in before} == {"root"}, before
    machine.run("env", "PIP_NO_INDEX=1", "PIP_NO_DEPS=1", f"PIP_FIND_LINKS={wheels}", "kiln", "toolchain", "add", f"triton=={version}")
    added, = [each for each in tritons(machine) if each not in before]
    place = f"/var/lib/kiln/toolchains/triton-{version}"
    assert added["path"] == place
    assert machine.run("find", place, "!", "-user", "kiln").stdout == ""

    machine.write("/tmp/warm.ttir", WARM_KERNEL)
    for each in (added, *before):
        done = machine.run("kiln", "compile", "/tmp/warm.ttir", "--target", "cuda:90", "--toolchain", each["fingerprint"], "--json",
                           "-o", "/tmp/warm", uid=ADA)
        assert json.loads(done.stdout.splitlines()[0])["outcome"] == "compiled", done
    refused = machine.run("kiln", "toolchain", "remove", added["fingerprint"], uid=ADA, check=False)
    assert refused.returncode != 0, refused
    # A copy that root made by other means.
    machine.run("chown", "-R", "root", place)
    stays = machine.run("kiln", "toolchain", "remove", added["fingerprint"], check=False)
    aside, = machine.run("find", "/var/lib/kiln/toolchains", "-name", "*triton*", "-prune").stdout.split()
    assert stays.returncode == 1 and f"{place} is used no more, but its files stay: delete {aside} as their owner" in stays.stderr, stays
    assert tritons(machine) == before
    machine.run("chown", "-R", "kiln", aside)
    machine.run("mv", aside, place)
    machine.run("kiln", "toolchain", "reload")
    machine.run("kiln", "toolchain", "remove", added["fingerprint"])
    assert tritons(machine) == before
    assert machine.run("find", "/var/lib/kiln/toolchains", "-name", "*triton*").stdout == ""


def tritons(machine):
    listed = map(json.loads, machine.run("kiln", "toolchain", "list", "--json").stdout.splitlines())
    return [{name: one[name] for name in ("fingerprint", "path")} for one in listed if one.get("name") == "triton"]


def owner(machine, path):
    return machine.run("stat", "-c", "%U", path).stdout.strip()


@pytest.mark.slow
def test_each_worker_has_a_control_group(machine):
    if machine.run("test", "-e", "/sys/fs/cgroup/cgroup.controllers", check=False).returncode != 0:
        pytest.skip("this machine has control groups of version 1, alone or besides: Delegate= gives kilnd none that bounds anything")
    compiled(machine, 5)
    group = f"/sys/fs/cgroup{machine.show('ControlGroup')}"
    workers = machine.run("sh", "-c", f"ls -d {group}/worker-*").stdout.split()
    assert workers and machine.run("cat", f"{group}/daemon/cgroup.procs").stdout.split() == [machine.show("MainPID")]
    for worker in workers:
        bounds = machine.run("cat", f"{worker}/pids.max", f"{worker}/memory.max").stdout.split()
        assert len(bounds) == 2 and "max" not in bounds, bounds


@pytest.mark.slow
def test_after_a_crash_everything_is_there(machine):
    compiled(machine, 3)
    crash(machine)
    assert compiled(machine, 3, BOB) == "hit"
    assert "set aside" not in machine.journal()


@pytest.mark.slow
def test_the_service_stops_under_load_and_the_next_client_starts_it(machine):
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


class MostWaiting:
    """Looks, for as long as a `with` block lasts, how many compiles wait in the machine's queue. number: the most."""

    def __init__(self, machine):
        self._machine, self._ended, self.number = machine, threading.Event(), 0
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _look(self):
        while not self._ended.wait(0.5):
            stats = json.loads(self._machine.run("kiln", "stats", "--json").stdout)
            self.number = max(self.number, stats["queued"])


@pytest.mark.slow
def test_a_third_user_changes_nothing_for_two_who_share(machine):
    drivers = stand_in_libcuda.make(machine.homes / "driver")
    ada, bob = (KernelUser(machine, uid, drivers) for uid in (ADA, BOB))
    machine.write(SECRET, SECRET_WORDS, mode=0o640)
    machine.run("chgrp", "kiln", SECRET)
    probes = [name for name in PROBES if name != "#include" or has_nvrtc()]
    with HostileUser(lambda attack: machine.fork_into(attack, MALLORY), probes) as mallory, MostWaiting(machine) as queue:
        made, binaries = ada.compile_all()
        found, same = bob.compile_all()
        measured, known = ada.tune(), bob.tune()
        again, _ = bob.compile_all("again", is_patient=False)
    count = made["compiled"]
    # As long as a client waits by default, that is long enough for whatever is stored.
    assert again["compiled"] == 0 and again["local"] == {} and sum(again["hits"].values()) == count, again
    assert queue.number > BACKLOG // 2
    assert mallory.learned == []
    assert count > 20 and made["local"] == {} and made["hits"] == {}, made
    assert found["compiled"] == 0 and found["local"] == {} and sum(found["hits"].values()) == count, found
    assert list(binaries.values()) == list(same.values()) and binaries
    assert (measured["measured"], known["measured"]) == (CONFIGURATIONS, 0)
    assert known["best"] == measured["best"] and known["times"] == measured["times"]

    hers, his = (user.jobs()["kernels"] for user in (ada, bob))
    assert hers["compiled"] == count + CONFIGURATIONS, hers
    assert his["compiled"] == 0 and his["saved_micros"] > 0, his
    assert sum(his[kind] for kind in ("hot", "memory", "disk")) == count + 1, his  # of the tuning, the fastest
    assert sum("own_uid" not in one for one in ada.kiln("ls", "--job", "kernels")) == count + CONFIGURATIONS
    assert {one["own_uid"] for one in bob.kiln("ls") if "own_uid" in one} == {BOB}
    lines = [line for line in machine.journal().splitlines() if " info compiled " in line and " job=kernels " in line]
    assert len(lines) == count + CONFIGURATIONS and all(f" uid={ADA} " in line for line in lines), lines

    assert min(mallory.counts.values()) > 0, mallory.counts
    tables = machine.run("kiln", "ls").stdout + machine.run("kiln", "stats", "--jobs").stdout + machine.journal()
    assert "\u202e" not in tables and "\x1b" not in tables
    assert int(machine.status(machine.kilnd())["VmHWM"].split()[0]) * 1024 < KILND_BYTES_MAX


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
