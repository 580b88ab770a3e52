"""What holds where a daemon is used by many or for long: idle connections, attacks on its memory, an hour under load."""

import concurrent.futures
import contextlib
import os
import pathlib
import resource
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "testing"))

import http2  # noqa: E402

CONNECTIONS = 10_000
DESCRIPTORS = 65_536  # as kilnd.service
# As docs/reference.md has it.
DESCRIPTORS_KEPT = 8_192  # that connections leave, or half of fewer
SHARE_OF_ONE_USER = 4 / 5
MEASURED = 100  # connections of those that measure


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def percentile(times, share):
    return sorted(times)[int(len(times) * share)]


@contextlib.contextmanager
def idle_connections(path, count):
    """Of gRPC, which cost more than light ones; those of two users, since one may not have all. Needs root."""
    connections = []
    try:
        for index in range(count):
            os.seteuid(0 if index < SHARE_OF_ONE_USER * count - MEASURED else 65533)
            connection = socket.socket(socket.AF_UNIX)
            connections.append(connection)
            connection.connect(str(path))
            connection.sendall(http2.GREETING)
        os.seteuid(0)
        for connection in connections:
            connection.settimeout(60)
            assert connection.recv(1)  # gRPC's greeting: it is served
        yield
    finally:
        os.seteuid(0)
        for connection in connections:
            connection.close()


def idle(setting):
    """Pairs of the p99 of hits with idle connections and without, the bytes that each of them took, and how many there were: 10,000, or as
    many as the machine's limit on descriptors lets a daemon have."""
    descriptors = min(DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    count = min(CONNECTIONS, descriptors - min(descriptors // 2, DESCRIPTORS_KEPT) - MEASURED)
    roots = [setting.folder / name for name in ("crowded", "alone")]
    settings = (f"toolchain.directories={setting.toolchain}", "hot.size=0B", "sockets.mode=0666")
    daemons = [setting.start_daemon(root, *settings) for root in roots]
    matmul = next(request for request in setting.requests if "matmul" in request["name"])
    path = setting.request_file([matmul] * 1000)

    def p99(root):
        return percentile(setting.micro("--sequence", str(path), root=root)["ms"], 0.99)

    for root in roots:
        p99(root)  # compiles it
    before = resident_bytes(daemons[0].pid)
    with idle_connections(roots[0] / "run/kilnd.sock", count):
        each = (resident_bytes(daemons[0].pid) - before) / count
        pairs = [[p99(root) for root in roots] for _ in range(7)]
    for daemon in daemons:
        daemon.terminate()
        daemon.wait(60)
    return pairs, each, count


def hostile_peaks(binaries, attacks=HERE.parent / "security/test_hostile_clients.py"):
    """The most memory that the daemon had under each attack, in bytes, by its name. RuntimeError where one could not be tried here: what the
    daemon took without it says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", attacks, f"--junitxml={report}", f"--basetemp={folder}/tests"]
        subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, "KILN_TEST_BIN": str(binaries)})
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    untried = [f"{case.get('name')}: {skipped.get('message')}" for case in cases for skipped in case.iter("skipped")]
    peaks = {case.get("name"): int(each.get("value")) for case in cases for each in case.iter("property") if each.get("name") == "peak_bytes"}
    if untried or not peaks:
        raise RuntimeError("not run, since these attacks were not tried: " + ("; ".join(untried) or "all"))
    return peaks


# The status of a program that the daemon gave no answer in time. On a busy machine that happens.
UNANSWERED = 2


class Soak:
    """A daemon that compiles, answers hits, keeps and evicts entries of users, and refuses what is no request, all at once."""

    # What is kept reaches these limits within minutes.
    SETTINGS = ("store.memory=32MiB", "store.size=256MiB", "hot.size=32MiB", "sockets.mode=0666")

    def __init__(self, setting):
        self._setting = setting
        self._root = setting.folder / "soaked"
        self._daemon = setting.start_daemon(self._root, f"toolchain.directories={setting.toolchain}:{setting.nvrtc}", *self.SETTINGS)
        self._environment = {**setting.env, "KILN_ROOT": str(self._root)}
        self._end = 0.0
        self.samples = []  # (seconds, {"memory": …, "descriptors": …, "threads": …})

    def run(self, minutes):
        """For each load, its rounds that were answered and those that had no answer in time."""
        begin = time.monotonic()
        self._end = begin + 60 * minutes
        loads = (self._compile, self._hit, self._keep, self._talk_nonsense)
        try:
            with concurrent.futures.ThreadPoolExecutor(len(loads)) as pool:
                running = [pool.submit(self._repeat, load) for load in loads]
                try:
                    while time.monotonic() < self._end and self._daemon.poll() is None and not any(one.done() for one in running):
                        time.sleep(1)
                        self.samples.append((time.monotonic() - begin, self._sample()))
                finally:
                    self._end = 0  # one that failed ends the others, and so does a daemon that has ended
            return [one.result() for one in running]
        finally:
            self._daemon.terminate()
            assert self._daemon.wait(60) == 0

    def _repeat(self, load):
        count = unanswered = 0
        while time.monotonic() < self._end:
            try:
                load()
                count += 1
            except subprocess.CalledProcessError as error:
                if error.returncode != UNANSWERED:
                    raise
                unanswered += 1
            time.sleep(0.2)
        assert count > unanswered, f"{load.__name__}: {unanswered} of {count + unanswered} rounds had no answer, so this was no load"
        return count, unanswered

    def _sample(self):
        process = pathlib.Path(f"/proc/{self._daemon.pid}")
        return {"memory": resident_bytes(self._daemon.pid), "descriptors": len(os.listdir(process / "fd")), "threads": len(os.listdir(process / "task"))}

    def growth(self, what, warm_s):
        """The median of the last quarter of the time after `warm_s` to that of the first."""
        after = [sample[what] for seconds, sample in self.samples if seconds >= warm_s]
        quarter = max(1, len(after) // 4)
        return statistics.median(after[-quarter:]) / statistics.median(after[:quarter])

    def _kiln(self, requests, expected):
        path = self._setting.folder / f"soak-{secrets.token_hex(8)}.jsonl"
        path.write_text(requests)
        done = subprocess.run([self._setting.binaries / "kiln", "compile", "--requests", path, "--json"], env=self._environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        path.unlink()
        if done.returncode != expected:
            raise subprocess.CalledProcessError(done.returncode, done.args)

    def _compile(self):
        batch = [*self._setting.distinct(4), *self._setting.distinct_cuda()[:1]]
        path = self._setting.request_file(batch)
        self._kiln(path.read_text(), 0)
        for request in batch:
            os.unlink(request["source_file"])
        path.unlink()

    def _hit(self):
        known = next(request for request in self._setting.requests if "matmul" in request["name"])
        path = self._setting.request_file([known] * 200)
        self._setting.micro("--sequence", str(path), root=self._root)
        path.unlink()

    def _keep(self):
        """Entries of one user, asked for once."""
        subprocess.run([sys.executable, "-c", _KEEP], check=True,
                       env={**self._environment, "PYTHONPATH": str(self._setting.binaries.parent / "python")})

    def _talk_nonsense(self):
        for said in (b"", b"P", os.urandom(100), http2.GREETING + http2.PINGS * 100, b"kiln/1\r\n" + os.urandom(40)):
            with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(ConnectionError):
                connection.connect(str(self._root / "run/kilnd.sock"))
                connection.sendall(said)
        self._kiln('{"name": "k", "source": "nonsense", "target": "cuda:90"}\n', 1)


_KEEP = f"""
import os, sys, kiln
try:
    client = kiln.Client()
    for _ in range(20):
        key = os.urandom(8)
        client.put_own({{key: {{"file": os.urandom(50_000)}}}})
        assert client.get_own([key])
except kiln.UnavailableError:
    sys.exit({UNANSWERED})
"""
