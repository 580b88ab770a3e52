"""Measures Kiln against what a job does without it, and prints one table of ratios.

Every ratio is taken against something measured in the same run, in turns, so that a machine that slows down slows both. The figures are
medians of at least five runs, with their range. These are measurements, not tests: a row that misses its goal says so and the exit code
stays 0, unless --strict. What cannot be measured is told with its reason, the others are measured all the same, and the exit code is 1.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import site
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(ROOT / "tests" / "testing"))

import cores  # noqa: E402
import edge  # noqa: E402
import stand_in_libcuda  # noqa: E402
from job import as_user  # noqa: E402


class Row:
    """A ratio that was measured some times, and the goal that its median should meet; None where it stands beside another's.

    p99: the same ratio of the 99th percentiles. cpu_ms: the daemon's, its workers' and the clients' processor time for one operation.
    kernels: how many one run has.
    """

    def __init__(self, name, runs, goal, better, of, p99=None, cpu_ms=None, kernels=None):
        self.name, self.runs, self.goal, self.better, self.of = name, sorted(runs), goal, better, of
        self.p99, self.cpu_ms, self.kernels = p99, cpu_ms, kernels

    @property
    def value(self):
        return statistics.median(self.runs)

    @property
    def holds(self):
        return self.goal is None or (self.value <= self.goal if self.better == "lower" else self.value >= self.goal)

    def as_json(self):
        rounded = {name: value and round(value, 4) for name, value in
                   (("value", self.value), ("least", self.runs[0]), ("most", self.runs[-1]), ("p99", self.p99), ("cpu_ms", self.cpu_ms))}
        return {"name": self.name, **rounded, "runs": len(self.runs), "kernels": self.kernels, "goal": self.goal, "better": self.better,
                "holds": self.holds}


class Cpu:
    """The processor time of a daemon, its workers and the clients that end meanwhile, summed over `with` blocks."""

    def __init__(self, daemon):
        self._daemon = daemon
        self.seconds = 0

    def __enter__(self):
        self._before = self._taken()

    def __exit__(self, *_):
        self.seconds += self._taken() - self._before

    def _taken(self):
        of_clients = os.times()
        return of_clients.children_user + of_clients.children_system + tree_cpu_seconds(self._daemon.pid)


def tree_cpu_seconds(pid):
    """What a process and those that it has started have taken so far; with those that have ended and were waited for."""
    children, ticks = {}, {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
            ticks[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    tree = [pid]
    for each in tree:
        tree += children.get(each, [])
    return sum(ticks.get(each, 0) for each in tree) / os.sysconf("SC_CLK_TCK")


class Setting:
    """A daemon with warm workers once it is started, kernels to compile, and the bare toolchains beside them."""

    def __init__(self, binaries, toolchain, nvrtc, folder):
        self.binaries = binaries
        self.toolchain = toolchain
        self.nvrtc = nvrtc
        self.python = toolchain / "bin" / "python"
        self.folder = folder
        self.root = folder / "kiln"
        # What is ended here leaves its temporary folder behind, so that is in ours.
        self.env = {**os.environ, "KILN_ROOT": str(self.root), "TMPDIR": str(folder)}
        # Jobs have the bytecode of what they import, whatever this shell is set to.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.daemon = None
        self._number = 0

    def start(self):
        # The toolchains that it is compared with, whatever others are installed.
        self.folder.chmod(0o711)  # an ordinary user has to reach the socket
        self.daemon = self.start_daemon(self.root, f"toolchain.directories={self.toolchain}:{self.nvrtc}", "sockets.mode=0666")
        self._lower()
        # The pool forks its workers on demand: have every slot compile once before anything is timed.
        self.compile_through_daemon(self.distinct(4 * len(os.sched_getaffinity(0))))

    def start_daemon(self, root, *settings, environment=None):
        """Another one, where there is one already. It serves when this returns."""
        log = self.folder / f"{root.name}.log"
        command = [self.binaries / "kilnd", "--root", root]
        for setting in settings:
            command += ["--set", setting]
        with open(log, "wb") as file:
            daemon = subprocess.Popen(command, stderr=file, env={**os.environ, **(environment or {})})
        deadline = time.monotonic() + 120
        while subprocess.run([self.binaries / "kiln", "--root", root, "doctor"], capture_output=True).returncode != 0:
            if daemon.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"kilnd did not start: {log.read_text()}")
            time.sleep(0.1)
        return daemon

    def _lower(self):
        out = self.folder / "lowered"
        subprocess.run([self.python, ROOT / "tests/kernels/lower.py", "--targets", "cuda:90",
                        "--out", out], check=True, stdout=subprocess.DEVNULL)
        self.requests = []
        for line in (out / "requests.jsonl").read_text().splitlines():
            request = json.loads(line)
            request["source"] = (out / request.pop("source_file")).read_text()
            self.requests.append(request)

    def stop(self):
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(60)

    def distinct(self, count):
        """`count` requests that nobody has sent before, with the work of the example kernels in turn."""
        return self.variants([self.requests[(self._number + place) % len(self.requests)] for place in range(count)])

    def variants(self, requests):
        """One new request for each of these, with the same work. A comment makes its key new."""
        result = []
        for base in requests:
            self._number += 1
            path = self.folder / f"distinct-{self._number}.ttir"
            path.write_text(f"{base['source']}\n// variant {self._number}\n")
            result.append({"name": f"{base['name']}-{self._number}", "source_file": str(path),
                           "kind": "ttir", "target": base["target"],
                           "options": base.get("options", {})})
        return result

    def distinct_cuda(self):
        """The same of the example sources in CUDA C++, each once."""
        result = []
        for base in sorted((HERE / "kernels").glob("*.cu")):
            self._number += 1
            path = self.folder / f"distinct-{self._number}.cu"
            path.write_text(f"{base.read_text()}\n// variant {self._number}\n")
            result.append({"name": base.stem, "source_file": str(path), "kind": "cuda", "target": "cuda:90a"})
        return result

    def request_file(self, requests):
        path = self.folder / f"requests-{self._number}-{len(requests)}.jsonl"
        path.write_text("".join(json.dumps(r) + "\n" for r in requests))
        return path

    def compile_through_daemon(self, requests):
        """All at once over the stream; wall seconds."""
        path = self.request_file(requests)
        begin = time.perf_counter()
        subprocess.run([self.binaries / "kiln", "compile", "--requests", path, "--json"],
                       env=self.env, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    def stats(self):
        output = subprocess.run([self.binaries / "kiln", "stats", "--json"], env=self.env,
                                check=True, stdout=subprocess.PIPE).stdout
        return json.loads(output)

    def bare(self, mode, environment=None):
        return subprocess.Popen([self.python, HERE / "bare_triton.py", mode], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**self.env, **(environment or {})})

    def allocator(self):
        """The variables with which a zygote of this Triton allocates."""
        self.sequence_ms(self.distinct(1))  # has the zygote start
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if f"\nPPid:\t{self.daemon.pid}\n" not in (folder / "status").read_text() or b"triton" not in (folder / "cmdline").read_bytes():
                    continue
                variables = dict(each.split("=", 1) for each in (folder / "environ").read_text().split("\0") if "=" in each)
            except OSError:  # it has ended
                continue
            return {name: variables[name] for name in ("LD_PRELOAD", "MALLOC_CONF") if name in variables}
        sys.exit("the daemon has no zygote of a Triton")

    def cpu(self):
        return Cpu(self.daemon)

    def sequence_ms(self, requests):
        """One after the other; as an ordinary user, where this is root."""
        user = ["65534"] if os.geteuid() == 0 else []
        return sum(self.micro("--sequence", str(self.request_file(requests)), *user)["ms"])

    def micro(self, *arguments, root=None):
        # What it says of a failure goes to the terminal.
        output = subprocess.run([self.binaries / "kiln_benchmark", *arguments], env={**self.env, "KILN_ROOT": str(root or self.root)},
                                check=True, stdout=subprocess.PIPE, text=True).stdout
        return json.loads(output)


def ratios(pairs):
    """Those of things that ran next to each other."""
    return [a / b for a, b in pairs]


def hits(setting):
    """Hits by RPC and through the hot directory, against bare echoes and bare file reads of the same sizes."""
    matmul = next(r for r in setting.requests if "matmul" in r["name"])
    path = setting.request_file([matmul])
    def measured(*flags):
        report = setting.micro("--request", str(path), "--benchmark_format=json", *flags)
        runs = {}
        for run in report["benchmarks"]:
            if run.get("run_type") == "iteration":
                runs.setdefault(run["name"].split("/")[0], []).append(run)
        return runs

    runs = measured("--benchmark_repetitions=10", "--benchmark_min_time=0.1", "--benchmark_enable_random_interleaving=true")

    def row(name, ours, theirs, goal, of):
        columns = [[[run[percentile] for run in runs[side]] for side in (ours, theirs)] for percentile in ("p50_us", "p99_us")]
        (p50, of_p50), (p99, of_p99) = columns
        with (cpu := setting.cpu()):
            (alone,) = measured(f"--benchmark_filter=^{ours}$", "--benchmark_min_time=0.4")[ours]
        return Row(name, ratios(zip(p50, of_p50)), goal, "lower", of, statistics.median(p99) / statistics.median(of_p99),
                   1000 * cpu.seconds / alone["calls"], 1)

    return [
        row("hit-rpc", "HitRpc", "EchoRpc", 1.15, "p50 of a gRPC echo of the same sizes over a Unix socket, which neither parses nor serializes"),
        row("hit-rpc-first", "FirstHitRpc", "EchoRpc", 1.3, "the same echo; the client has not seen the binary before, so it hashes it"),
        row("hit-hot", "HitHot", "OpenReadClose", 1.2, "p50 of open+read+close of a file of that size"),
        row("hit-client", "HitClient", "PlainSocket", 2,
            "p50 of a plain Unix socket's round trip with the same bytes; libkiln computes the key and makes the answer of the file"),
    ]


def counted_hits(setting):
    """What kilnd does for a hit by RPC, as a library counts it that is loaded before all others."""
    counts = setting.folder / "call-counts"
    counts.write_bytes(bytes(16))
    # Without a hot directory, so that every request reaches the daemon.
    daemon = setting.start_daemon(setting.folder / "counted", f"toolchain.directories={setting.toolchain}", "hot.size=0B",
                                  environment={"LD_PRELOAD": str(setting.binaries / "libcall_counter.so"), "KILN_CALL_COUNTS": str(counts)})
    matmul = next(r for r in setting.requests if "matmul" in r["name"])

    def counted(hits):
        before = struct.unpack("<2Q", counts.read_bytes())
        setting.micro("--sequence", str(setting.request_file([matmul] * hits)), root=setting.folder / "counted")
        return [after - earlier for after, earlier in zip(struct.unpack("<2Q", counts.read_bytes()), before)]

    counted(200)  # compiles it
    # Two clients that differ in nothing but a thousand hits.
    per_hit = [[(many - few) / 1000 for many, few in zip(counted(1200), counted(200))] for _ in range(5)]
    daemon.terminate()
    daemon.wait(60)
    mallocs, locks = zip(*per_hit)
    return [Row("hit-mallocs", mallocs, 12, "lower", "1 hit by RPC: allocations in kilnd, gRPC's included", kernels=1),
            Row("hit-locks", locks, 3, "lower", "1 hit by RPC: mutexes that kilnd locks, without those of gRPC's own kind", kernels=1)]


def load(setting):
    """Hits of many processes at once, and of one batch."""
    root = setting.folder / "loaded"
    daemon = setting.start_daemon(root, f"toolchain.directories={setting.toolchain}", "hot.size=0B")
    matmul = next(r for r in setting.requests if "matmul" in r["name"])
    path = setting.request_file([matmul])

    seconds = 2

    def loaded(processes):
        before = tree_cpu_seconds(daemon.pid)  # the clients' is not told from the echo's
        output = subprocess.run([setting.binaries / "load_benchmark", path, str(processes), str(seconds)],
                                env={**setting.env, "KILN_ROOT": str(root)}, check=True, stdout=subprocess.PIPE, text=True).stdout
        return {**json.loads(output), "cpu_ms": 1000 * (tree_cpu_seconds(daemon.pid) - before)}

    loaded(0)  # compiles it
    many, batches = [loaded(64) for _ in range(5)], [loaded(0) for _ in range(5)]
    daemon.terminate()
    daemon.wait(60)
    batch_cpu_ms = statistics.mean(batch["cpu_ms"] / 1000 + batch["batch_cpu_us"] / 1000 for batch in batches)
    return [Row("throughput-64", ratios((report["hits_per_s"], report["echoes_per_s"]) for report in many), 0.9, "higher",
                "calls per second of 64 processes to a gRPC echo of the same sizes that neither parses nor serializes",
                cpu_ms=statistics.median(report["cpu_ms"] / (seconds * report["hits_per_s"] + 1000) for report in many), kernels=1),
            Row("batch-hit", [batch["batch_us"] for batch in batches], 30, "lower", "1 µs: a hit's share of a batch of 1000",
                cpu_ms=batch_cpu_ms, kernels=1)]


class StoredEntries:
    """Hits of a daemon whose store has so many entries, and whose memory has none: it was killed and started again, five times."""

    def __init__(self, setting, count):
        self.count = count
        root = setting.folder / f"store-{count}"
        (root / "state").mkdir(parents=True)
        smallest = min((r for r in setting.requests if r["target"] == "cuda:90"), key=lambda r: len(r["source"]))
        path = setting.request_file([smallest])
        store_benchmark(setting, "--fill", path, root / "state/store", str(count))
        settings = (f"toolchain.directories={setting.toolchain}", "hot.size=0B")
        daemon = setting.start_daemon(root, *settings)  # looks at the toolchain for the first time
        self.ready_s, self.resident_mb, self.reports, cpu_s = [], [], [], 0
        for _ in range(5):
            daemon.kill()
            daemon.wait()
            begin = time.monotonic()
            daemon = setting.start_daemon(root, *settings)
            self.ready_s.append(time.monotonic() - begin)
            # It reads all entries once, beside its work.
            while b"hot directory filled" not in (setting.folder / f"{root.name}.log").read_bytes():
                time.sleep(0.1)
            before = tree_cpu_seconds(daemon.pid)
            self.reports.append(json.loads(store_benchmark(setting, "--hits", path, str(count), root=root)))
            cpu_s += tree_cpu_seconds(daemon.pid) - before
            status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
            self.resident_mb.append(next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1000)
        self.cpu_ms = 1000 * cpu_s / sum(report["hits"] for report in self.reports)  # the daemon's, for a hit
        daemon.terminate()
        daemon.wait(60)
        shutil.rmtree(root)

    def ratios(self, hits, percentile):
        """Those of `hits` to an echo, by the percentile."""
        return ratios((report[hits][percentile], report["echo"][percentile]) for report in self.reports)

    def first_touch(self):
        return Row(f"first-touch-{self.count}", self.ratios("first", "p50"), 2, "lower",
                   f"p50 of a bare gRPC echo of the same sizes; a hit of one of {self.count} entries, not in memory",
                   statistics.median(self.ratios("first", "p99")), self.cpu_ms, self.count)


def store_benchmark(setting, *arguments, root=None):
    return subprocess.run([setting.binaries / "store_benchmark", *arguments], env={**setting.env, "KILN_ROOT": str(root or setting.root)},
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def first_touch(setting):
    """A hit that memory does not have."""
    return [StoredEntries(setting, 1000).first_touch()]


def scale(setting):
    """What a hit, a start and the daemon's memory grow to with the number of entries."""
    few, some, many, most = (StoredEntries(setting, count) for count in (1000, 10_000, 100_000, 1_000_000))
    p50, p99 = (ratios(zip(most.ratios("uniform", percentile), few.ratios("uniform", percentile))) for percentile in ("p50", "p99"))
    return [some.first_touch(), many.first_touch(), most.first_touch(),
            Row("scale-hit", p50, 1.3, "lower", "p50 of hits of any of 1000 entries, both to an echo; ours of any of 1000000",
                statistics.median(p99), most.cpu_ms, most.count),
            Row("scale-ready", most.ready_s, 2, "lower", "1 s: the start of a daemon that was killed, with 1000000 entries", kernels=most.count),
            Row("scale-resident", most.resident_mb, 200, "lower", "1 MB: what such a daemon has in memory after hits of any entry",
                kernels=most.count)]


def full_store(setting):
    """Hits and puts where each put needs room."""
    reports = []
    for turn in range(5):
        folder = setting.folder / f"full-{turn}"
        folder.mkdir()
        reports.append(json.loads(store_benchmark(setting, "--full", folder)))
        shutil.rmtree(folder)
    cpu_ms = statistics.median(report["full"]["cpu_us"] for report in reports) / 1000  # a hit's or a put's, with its share of evictions
    entries = reports[-1]["full"]["entries"]

    def row(name, what, of):
        return Row(name, ratios((report["full"][what], report["half"][what]) for report in reports), 1.5, "lower", of, cpu_ms=cpu_ms, kernels=entries)

    return [row("full-store-hit", "hit_us", "p99 of a store that is half full; ours is at its limit and evicts"),
            row("full-store-put", "put_us", "the same of puts")]


def hit_light(setting):
    """Hits by the Python client, which needs no gRPC, against what gRPC alone would cost in Python: over a connection, and without a call."""
    matmul = next(r for r in setting.requests if "matmul" in r["name"])
    given = {name: matmul.get(name, {}) for name in ("source", "target", "options")}
    environment = {**setting.env, "PYTHONPATH": str(setting.binaries.parent / "python")}
    output = subprocess.run([sys.executable, HERE / "python_hits.py"], input=json.dumps(given), env=environment, check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    measured = json.loads(output)

    def row(name, ours, goal, of):
        p50, p99 = (ratios(zip(measured[ours][percentile], measured["echo"][percentile])) for percentile in ("p50", "p99"))
        return Row(name, p50, goal, "lower", of, statistics.median(p99), statistics.median(measured[ours]["cpu_ms"]), 1)

    return [row("hit-light", "light", 0.4, "p50 of a gRPC echo of the same sizes, in Python at both ends"),
            row("hit-python", "hot", None, "the same echo; the hit is in the hot directory, its key computed")]


def cold_compile(setting):
    """One kernel after the other, each compiled for the first time: a fresh worker for each here, a warm process there."""

    def bare_ms(bare, requests):
        bare.stdin.write(json.dumps(requests) + "\n")
        bare.stdin.flush()
        return sum(json.loads(bare.stdout.readline())["ms"])

    def batch():
        return setting.variants(some)

    some = setting.requests[::2]
    setting.sequence_ms(batch())  # has the zygote start
    bares = [setting.bare("warm"), setting.bare("warm", setting.allocator())]
    for bare in bares:
        bare_ms(bare, batch())  # warm
    pairs, cpu, kernels = [[], []], setting.cpu(), len(some)
    for _ in range(5):
        with cpu:
            ours = setting.sequence_ms(batch())
        for bare, into in zip(bares, pairs):
            into.append((ours, bare_ms(bare, batch())))
    for bare in bares:
        bare.stdin.close()
        bare.wait()
    cpu_ms = 1000 * cpu.seconds / (5 * kernels)
    return [Row("cold-compile", ratios(pairs[0]), 0.95, "lower", "the same kernels in a warm in-process Triton; ours for an ordinary user",
                cpu_ms=cpu_ms, kernels=kernels),
            Row("cold-compile-allocator", ratios(pairs[1]), 1.05, "lower", "the same, with our workers' allocator in that Triton too",
                cpu_ms=cpu_ms, kernels=kernels)]


def ptx_to_cubin(setting):
    """One PTX after the other, each assembled for the first time: through the daemon, and by the same ptxas started by hand."""
    (ptxas,) = setting.python.parent.parent.glob("lib/python3.*/site-packages/triton/backends/nvidia/bin/ptxas")
    digest = hashlib.sha256(ptxas.read_bytes()).hexdigest()
    out = setting.folder / "ptx"
    subprocess.run([setting.binaries / "kiln", "compile", "--requests", setting.request_file(setting.requests),
                    "--emit", "ptx", "-o", out], env=setting.env, check=True, stdout=subprocess.DEVNULL)
    texts = [path.read_text() for path in sorted(out.glob("*.ptx"))]
    by_hand = setting.folder / "kernel.ptx"

    def daemon_ms(texts):
        lines = []
        for number, text in enumerate(texts):
            path = setting.folder / f"assembled-{number}.ptx"
            path.write_text(text)
            lines.append({"name": path.stem, "source_file": str(path), "kind": "ptx", "target": "cuda:90a", "toolchain": digest})
        return sum(setting.micro("--sequence", str(setting.request_file(lines)))["ms"])

    def hand_ms(texts):
        total = 0
        for text in texts:
            begin = time.perf_counter()
            by_hand.write_text(text)
            subprocess.run([ptxas, "-v", "--gpu-name=sm_90a", by_hand, "-o", by_hand.with_suffix(".cubin")],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            by_hand.with_suffix(".cubin").read_bytes()
            total += 1000 * (time.perf_counter() - begin)
        return total

    pairs, cpu = [], setting.cpu()
    for turn in range(6):
        varied = [f"{text}\n// turn {turn}\n" for text in texts]
        with cpu:
            ours = daemon_ms(varied)
        pairs.append((ours, hand_ms(varied)))
    return [Row("ptx-to-cubin", ratios(pairs[1:]), 1.1, "lower",  # the first one starts the workers
                "the same PTX through the same ptxas by hand", cpu_ms=1000 * cpu.seconds / (6 * len(texts)), kernels=len(texts))]


def nvrtc_warm(setting):
    """One CUDA C++ source after the other, each compiled for the first time, in a warm process on both sides."""
    sources = {path.stem: path.read_text() for path in sorted((HERE / "kernels").glob("*.cu"))}
    bare = subprocess.Popen([sys.executable, HERE.parent / "testing/bare_nvrtc.py", setting.nvrtc], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            start_new_session=True)  # as workers have: the kernel shares out time by sessions

    def daemon_ms(texts):
        lines = []
        for name, text in texts.items():
            path = setting.folder / f"{name}.cu"
            path.write_text(text)
            lines.append({"name": name, "source_file": str(path), "kind": "cuda", "target": "cuda:90a"})
        return setting.sequence_ms(lines)

    def bare_ms(texts):
        bare.stdin.write(json.dumps([{"source": text, "architecture": "90a"} for text in texts.values()]) + "\n")
        bare.stdin.flush()
        return sum(result["ms"] for result in json.loads(bare.stdout.readline()))

    pairs, cpu = [], setting.cpu()
    for turn in range(12):
        varied = {name: f"{text}\n// turn {turn}\n" for name, text in sources.items()}
        with cpu:
            ours = daemon_ms(varied)
        pairs.append((ours, bare_ms(varied)))
    bare.stdin.close()
    bare.wait()
    return [Row("nvrtc-warm", ratios(pairs[2:]), 1.1, "lower",  # the first ones start the workers
                "the same CUDA C++ through NVRTC's interface in a warm process; ours for an ordinary user",
                cpu_ms=1000 * cpu.seconds / (12 * len(sources)), kernels=len(sources))]


def warm(setting, requests):
    """Seconds of `kiln warm` with a manifest of these."""
    path = setting.folder / "warm.kiln"
    if requests:
        subprocess.run([setting.binaries / "kiln", "manifest", "merge", setting.request_file(requests), "-o", path], check=True, stderr=subprocess.DEVNULL)
    begin = time.perf_counter()
    subprocess.run([setting.binaries / "kiln", "warm", path], env=setting.env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def warm_again(setting):
    # As large as Triton's IR, and soon compiled.
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry nothing() { ret; }\n"
    padding = "// as long as the IR of a kernel\n" * 400
    warm(setting, [{"name": f"k{number}", "kind": "ptx", "target": "cuda:90", "source": f"{text}// {number}\n{padding}"} for number in range(1000)])
    cpu, runs = setting.cpu(), []
    with cpu:
        for _ in range(7):
            runs.append(1000 * warm(setting, []))
    return [Row("warm-again", runs, 50, "lower", "milliseconds of kiln warm, everything being warm", cpu_ms=1000 * cpu.seconds / 7000, kernels=1000)]


def warm_cold(setting):
    def compile_s():
        return sum(one["compile_cpu_micros"] for one in setting.stats()["toolchains"]) / 1e6

    shares = []
    for _ in range(5):
        requests, before = setting.distinct(100), compile_s()
        took = warm(setting, requests)
        shares.append((compile_s() - before) / (took * len(os.sched_getaffinity(0))))
    return [Row("warm-cold", shares, 0.95, "higher", "processor time of compilers to that of all cores while kiln warm runs", kernels=100)]


def first_kernel(setting):
    """A fresh process until it holds its first kernel; of several kernels, since a long compile hides the start."""

    def seconds(command, **kwargs):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=setting.env, **kwargs)
        return time.perf_counter() - begin

    cold, hit, cpu = [], [], [setting.cpu(), setting.cpu()]
    for request in setting.variants(setting.requests[::2]):
        # Both sides compile this kernel, each from a file of its own.
        other = dict(request, source_file=request["source_file"] + ".bare.ttir")
        shutil.copy(request["source_file"], other["source_file"])
        path = setting.request_file([request])
        command = [setting.binaries / "kiln", "compile", "--requests", path]
        with cpu[0]:
            daemon_cold = seconds(command)
        with cpu[1]:
            daemon_hit = seconds(command)
        bare = seconds([setting.python, HERE / "bare_triton.py", "once"], text=True,
                       input=json.dumps([other]))
        cold.append((daemon_cold, bare))
        hit.append((daemon_hit, bare))
    of = "a fresh Python process: import triton and the same compile"
    cold_ms, hit_ms = (1000 * each.seconds / len(cold) for each in cpu)
    return [Row("first-kernel-cold", ratios(cold), 0.5, "lower", of, cpu_ms=cold_ms, kernels=1),
            Row("first-kernel-hit", ratios(hit), 0.05, "lower", of, cpu_ms=hit_ms, kernels=1)]


def cold_batch(setting):
    """100 kernels at once, against one bare process per core that share the list."""
    busy, pairs, cpu_ms = batches(setting)
    return [Row("cold-batch-busy", busy, 0.9, "higher", "cores × wall time: CPU time spent in compilers", cpu_ms=cpu_ms, kernels=100),
            Row("cold-batch", ratios(pairs), 1.1, "lower", f"{len(os.sched_getaffinity(0))} warm bare Triton processes sharing the same list",
                cpu_ms=cpu_ms, kernels=100)]


def cold_batch_allocator(setting):
    _, pairs, cpu_ms = batches(setting, setting.allocator())
    return [Row("cold-batch-allocator", ratios(pairs), 1.1, "lower", "as cold-batch, with our workers' allocator in those processes too",
                cpu_ms=cpu_ms, kernels=100)]


def batches(setting, environment=None):
    """How busy the cores were, the seconds of ours and of bare processes with these variables, and our milliseconds of CPU for a kernel."""
    cores = len(os.sched_getaffinity(0))
    busy, pairs, taken = [], [], setting.cpu()
    processes = [setting.bare("share", environment) for _ in range(cores)]
    for turn in range(5):
        before = setting.stats()
        requests = setting.distinct(100)
        with taken:
            wall = setting.compile_through_daemon(requests)
        cpu = (setting.stats()["compile_cpu_micros"] - before["compile_cpu_micros"]) / 1e6
        busy.append(cpu / (cores * wall))

        with tempfile.TemporaryDirectory(dir=setting.folder) as claims:
            message = json.dumps({"warm_up": [] if turn else setting.distinct(2), "claims": claims, "items": requests}) + "\n"
            for process in processes:
                process.stdin.write(message)
                process.stdin.flush()
            for process in processes:
                process.stdout.readline()
            begin = time.perf_counter()
            for process in processes:
                process.stdin.write("go\n")
                process.stdin.flush()
            compiled = sum(json.loads(p.stdout.readline())["compiled"] for p in processes)
            bare_wall = time.perf_counter() - begin
            assert compiled == len(requests), compiled
        pairs.append((wall, bare_wall))
    for process in processes:
        process.stdin.close()
        process.wait()
    return busy, pairs, 1000 * taken.seconds / (5 * 100)


def tuning_batch(setting):
    """The 18 configurations of a matmul at once, against Triton, which compiles them one after the other."""
    visible = len(os.sched_getaffinity(0))
    script, out = ROOT / "tests/gpu/launch_kernels.py", setting.folder / "tuning"
    subprocess.run([setting.python, script, "lower", out, "cuda:90"], check=True)
    requests = [request for request in map(json.loads, (out / "requests.jsonl").read_text().splitlines()) if "tuned" in request["name"]]

    def ours(turn):
        varied = []
        for request in requests:
            path = pathlib.Path(request["source_file"]).with_suffix(f".{turn}.ttir")
            path.write_text(f"{pathlib.Path(request['source_file']).read_text()}\n// turn {turn}\n")
            varied.append({**request, "source_file": str(path)})
        return setting.compile_through_daemon(varied)

    def stock():
        printed = subprocess.run([setting.python, script, "compile", out], check=True, stdout=subprocess.PIPE, text=True, env=setting.env).stdout
        return float(printed.split()[0])  # for all; the longest alone stands behind it

    measured, taken, pairs = cores.measure(visible), setting.cpu(), []
    for turn in range(5):
        theirs = stock()
        with taken:
            pairs.append((theirs, ours(turn)))
    of = f"as fast as Triton alone, one after the other; {len(requests)} configurations, {visible} cores"
    return [Row("tuning-batch", ratios(pairs), cores.goal(visible, len(requests)), "higher", of,
                cpu_ms=1000 * taken.seconds / (5 * len(requests)), kernels=len(requests)),
            Row("cores-measured", measured, None, "higher",
                f"what one process gets done that only computes; {visible} at once. The goal of tuning-batch for so many cores is "
                f"{cores.goal(statistics.median(measured), len(requests)):.2f}")]


def workers(setting):
    """What a worker costs besides its compiles: its jail, its replacement, its memory."""
    sources = []
    for request in setting.requests[::3]:
        path = setting.folder / f"worker-{request['name']}.ttir"
        path.write_text(request["source"])
        sources.append(path)
    environment = {**setting.env, "KILN_TEST_TOOLCHAINS": str(setting.python.parent.parent)}
    output = subprocess.run([setting.binaries / "worker_benchmark", *sources], env=environment, check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    report = json.loads(output)
    return [
        Row("jail-overhead", ratios(zip(report["jailed_ms"], report["free_ms"])), 1.05, "lower",
            "the same kernels in a worker that is not jailed", kernels=len(sources)),
        Row("worker-replacement", report["replace_ms"], 20, "lower",
            "1 ms: from a dead worker to a jailed one that waits for work"),
        Row("worker-memory", report["private_mb"], 20, "lower",
            "1 MB: what a worker has to itself right after the fork"),
    ]


def plugin(setting):
    """What a job pays for having the plug-in before it needs it, and until it has asked for the first time."""
    package = [str(setting.binaries.parent / "python"), *site.getsitepackages()]
    environment = {**setting.env, "PYTHONPATH": os.pathsep.join(package), "TRITON_CACHE_MANAGER": "kiln.triton:CacheManager"}
    ask = ("import kiln.triton as plug_in; plug_in._prepare_to_ask(); "
           "assert plug_in._plugin('service').service(plug_in._settings).get_own(b'first ask'); ")
    put = "import kiln; kiln.Client().put_own({b'first ask': {'name': b'content'}})"
    subprocess.run([setting.python, "-c", put], env=environment, check=True)
    root, without_hot = setting.folder / "called", {**environment, "KILN_ROOT": str(setting.folder / "called")}
    daemon = setting.start_daemon(root, f"toolchain.directories={setting.nvrtc}", "hot.size=0B")
    subprocess.run([setting.python, "-c", put], env=without_hot, check=True)

    def each_ms(clock, then, environment=environment):
        script = (f"from time import {clock} as now; from triton import knobs; import triton.runtime.cache; begin = now(); "
                  f"knobs.cache.manager_class; {then}print(1000 * (now() - begin))")

        def once():
            done = subprocess.run([setting.python, "-c", script], env=environment, check=True, stdout=subprocess.PIPE, text=True)
            return float(done.stdout)

        once()  # leaves the bytecode, and the fingerprint
        return [once() for _ in range(15)]

    rows = [Row("plugin-import", each_ms("perf_counter", ""), 30, "lower",
                "1 ms: what importing kiln.triton adds to a process that has imported Triton"),
            Row("plugin-first-ask", each_ms("process_time", ask), 15, "lower",
                "1 ms of processor time, from importing kiln.triton to the first hit"),
            Row("plugin-first-call", each_ms("process_time", ask, without_hot), 15, "lower",
                "the same where the hit is the daemon's answer: nothing is published")]
    daemon.terminate()
    daemon.wait(60)
    return rows


class Jobs:
    """Processes that resolve kernels, with the plug-in or without: the example kernels (plugin_job.py), or others."""

    _caches = itertools.count(1)

    def __init__(self, setting, program="plugin_job.py", **variables):
        self.setting = setting
        self._program = program
        self._variables = variables

    def new_cache(self):
        return self.setting.folder / f"triton-cache-{next(self._caches)}"

    def run(self, kernels, caches, plug_in, *folder, user=None):
        """One process for each of these Triton caches, all at once; what each of them says. `kernels` and `folder`: the program's arguments."""
        return self.run_in_turns((kernels, caches, plug_in, *folder), user=user)[0]

    def run_in_turns(self, *runs, user=None):
        """Several runs, by their arguments, one after the other. All their processes start before the first run begins."""
        every = [self._started(user, *run) for run in runs]
        try:
            for jobs in every:
                for job in jobs:
                    job.stdout.readline()
            return [self._answers(jobs) for jobs in every]
        finally:
            for jobs in every:
                for job in jobs:
                    job.kill()  # if an earlier run has failed

    def _started(self, user, kernels, caches, plug_in, *folder):
        environment = {**self.setting.env, **self._variables}
        if plug_in:
            package = [str(self.setting.binaries.parent / "python"), *site.getsitepackages()]
            environment.update(PYTHONPATH=os.pathsep.join(package), TRITON_CACHE_MANAGER="kiln.triton:CacheManager")
        command = [*([] if user is None else as_user(user)), self.setting.python]
        return [subprocess.Popen([*command, HERE / self._program, kernels, *folder], text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, env={**environment, "TRITON_CACHE_DIR": str(cache)}) for cache in caches]

    def _answers(self, jobs):
        for job in jobs:
            job.stdin.write("go\n")
            job.stdin.flush()
        answers = [json.loads(job.communicate()[0]) for job in jobs]
        assert all(job.returncode == 0 for job in jobs)
        return answers


def graph_cold_compile(setting):
    """A plan's first kernel from a daemon that has just started, by a PTX template and by Triton IR; and the next one, whose workers wait."""
    environment = {**setting.env, "PYTHONPATH": str(setting.binaries.parent / "python")}
    root = setting.folder / "graph-cold"

    def first_and_next_s(compiler, turn):
        # The toolchain has been looked at in the first turn. Each turn has kernels of its own, so that none is stored.
        daemon = setting.start_daemon(root, f"toolchain.directories={setting.toolchain}")
        command = [sys.executable, HERE / "graph_first_compiles.py", compiler, str(2 * turn), str(2 * turn + 1)]
        printed = subprocess.run(command, env={**environment, "KILN_ROOT": str(root)}, check=True, stdout=subprocess.PIPE, text=True).stdout
        daemon.terminate()
        daemon.wait(60)
        return json.loads(printed)

    turns = [[first_and_next_s(compiler, turn) for compiler in ("ptx", "triton")] for turn in range(6)][1:]
    first, following = ([(ptx[place], triton[place]) for ptx, triton in turns] for place in (0, 1))
    triton_ms = 1000 * statistics.median(triton for _, triton in first)
    return [Row("graph-cold-compile", ratios(first), 0.1, "lower",
                f"a plan's first compile by Triton IR, the daemon just started ({triton_ms:.0f} ms); ours by a PTX template", kernels=1),
            Row("graph-warm-compile", ratios(following), None, "lower", "the same of the next kernel: both kinds of workers are there", kernels=1)]


def graph_recompute(setting):
    """What CostModel::recompute_max stands on, by Intel's OpenCL runtime for CPUs."""
    root = setting.folder / "graph-recompute"
    opencl = subprocess.run([HERE.parent / "opencl_environment"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    daemon = setting.start_daemon(root, "toolchain.directories=/usr")
    environment = {**setting.env, "PYTHONPATH": str(setting.binaries.parent / "python"), "KILN_ROOT": str(root), "OCL_ICD_VENDORS": f"{opencl}/vendors"}
    printed = subprocess.run([sys.executable, HERE / "graph_recompute.py"], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    daemon.terminate()
    daemon.wait(60)
    return [Row(f"graph-recompute-{columns}", ratios(times), None, "lower",
                "processor time of a kernel for 4096 sigmoids and one for their product; of one kernel, which computes each sigmoid "
                f"{columns} times") for columns, times in json.loads(printed).items() if columns in ("16", "64", "256")]


def jax_execute(setting):
    """What XLA's handler takes besides libkiln_launch, over the stand-in driver: reading the call's frame and its buffers."""
    printed = subprocess.run([setting.binaries / "jax_benchmark"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [Row("jax-execute", [(handler - library) / 1000 for handler, library in json.loads(printed)], 0.3, "lower",
                "1 µs: what a launch by XLA's handler takes longer than the same by libkiln_launch")]


def graph(setting):
    """The graph front end by itself: no daemon, no compiler."""
    seen = json.loads(subprocess.run([setting.binaries / "graph_benchmark"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    return [Row("graph-plan", [each / 1000 for each in seen["plan_us"]], 5, "lower",
                f"1 ms: planning {seen['operations']} operations, which become {seen['sections']} sections", kernels=seen["sections"]),
            Row("graph-plan-texts", [each / 1000 for each in seen["texts_us"]], 5, "lower",
                f"1 ms: a plan of {seen['operations']} operations with the texts of its kernels, for cuda:90"),
            Row("graph-ptx-template", seen["ptx_us"], 20, "lower", "1 µs: the text of an elementwise kernel in PTX")]


def graph_lookup(setting):
    """What a bound plan takes besides libkiln_launch, over the stand-in driver: sizes, checks of buffers, the grid."""
    printed = subprocess.run([setting.binaries / "graph_execute_benchmark"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [Row("graph-lookup", [(plan - library) / 1000 for plan, library in json.loads(printed)], 1, "lower",
                "1 µs: what executing a plan of one kernel takes longer than its launch by libkiln_launch")]


def jax_import(setting):
    jax = subprocess.run([ROOT / "tests" / "jax_environment"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    package = [str(setting.binaries.parent / "python"), *site.getsitepackages(), jax]
    script = "from time import perf_counter as now; import jax; begin = now(); from kiln.jax import triton_call; print(1000 * (now() - begin))"

    def once():
        done = subprocess.run([setting.python, "-c", script], env={**setting.env, "PYTHONPATH": os.pathsep.join(package), "JAX_PLATFORMS": "cpu"},
                              check=True, stdout=subprocess.PIPE, text=True)
        return float(done.stdout)

    once()  # leaves the bytecode
    return [Row("jax-import", [once() for _ in range(15)], 30, "lower",
                "1 ms: what importing kiln.jax adds to a process that has imported JAX")]


def second_process(setting):
    """A process that asks for kernels which another has had before it."""
    jobs = Jobs(setting)

    turns = []
    for _ in range(6):
        cache, empty = [jobs.new_cache()], [jobs.new_cache()]
        runs = {"cold": (cache, False), "stock": (cache, False), "files": (cache, True), "empty": (empty, True)}
        answers = jobs.run_in_turns(*(("cuda:90", *run) for run in runs.values()))
        turns.append({name: answer for name, (answer,) in zip(runs, answers)})

    def row(name, ours, theirs, goal, of):
        some = turns[1:]  # the first turn has the daemon compile and the plug-in read Triton
        kernels = some[0][ours]["kernels"]
        cpu_ms = statistics.median(1000 * turn[ours]["cpu_s"] / kernels for turn in some)  # the process's own
        return Row(name, ratios((turn[ours]["ms"], turn[theirs]["ms"]) for turn in some), goal, "lower", of, cpu_ms=cpu_ms, kernels=kernels)

    return [row("second-process", "files", "stock", 0.5, "the same process without Kiln: Triton finds all in its files"),
            row("second-process-empty", "empty", "stock", 0.5,
                "the same process without Kiln whose files are there; ours are not, the daemon has them"),
            row("second-process-cold", "empty", "cold", 0.1, "the same process without Kiln, which compiles; ours has no files")]


def second_process_allocator(setting):
    """What second-process-cold is a ratio of, with our workers' allocator."""
    jobs, bare = Jobs(setting), Jobs(setting, **setting.allocator())
    turns = []
    for _ in range(6):
        (ours,), (theirs,) = jobs.run("cuda:90", [jobs.new_cache()], True), bare.run("cuda:90", [bare.new_cache()], False)
        turns.append((ours, theirs))
    some, kernels = turns[1:], turns[0][0]["kernels"]  # the first turn has the daemon compile
    return [Row("second-process-cold-allocator", ratios((ours["ms"], theirs["ms"]) for ours, theirs in some), 0.1, "lower",
                "as second-process-cold, with our workers' allocator in the process that compiles",
                cpu_ms=statistics.median(1000 * ours["cpu_s"] / kernels for ours, _ in some), kernels=kernels)]


def tuned_second(setting):
    """A process whose tuning another has made before it."""
    jobs = Jobs(setting, "tuned_job.py", **stand_in_libcuda.make(setting.folder / "libcuda"))

    cache = jobs.new_cache()

    def turn():
        (ours,), (stock,) = jobs.run_in_turns(("cuda:90", [jobs.new_cache()], True), ("cuda:90", [cache], False))
        return ours, stock

    best = {answer["best"] for answer in turn()}
    turns = [turn() for _ in range(5)]
    assert len(best) == 1 and all({ours["best"], stock["best"]} == best and not ours["measured"] for ours, stock in turns), turns
    return [Row("tuned-second", ratios((ours["ms"], stock["ms"]) for ours, stock in turns), 0.2, "lower",
                "the same process without Kiln, whose kernels Triton has in its files; measuring is a stand-in's",
                cpu_ms=1000 * statistics.median(ours["cpu_s"] for ours, _ in turns), kernels=18)]


def plugin_kernels(count):
    """What measures a job of so many kernels that another process has had before it."""

    def measure(setting):
        jobs = Jobs(setting, "many_kernels.py")

        folder = setting.folder / f"many-{count}"
        folder.mkdir()
        cache = jobs.new_cache()

        def turn():
            runs = ((cache, False), (cache, True), (jobs.new_cache(), True))
            return [answer for (answer,) in jobs.run_in_turns(*((str(count), [files], plug_in, folder) for files, plug_in in runs))]

        # The daemon compiles; Triton's files are those that it would have made by itself.
        jobs.run(str(count), [cache], True, folder, str(len(os.sched_getaffinity(0))))
        turns = [turn() for _ in range(6)][1:]

        def row(name, ours, goal, of):
            cpu_ms = statistics.median(1000 * turn[ours]["cpu_s"] / count for turn in turns)  # the process's own
            return Row(name, ratios((turn[ours]["ms"], turn[0]["ms"]) for turn in turns), goal, "lower", of, cpu_ms=cpu_ms, kernels=count)

        of = f"the same process without Kiln, {count} kernels, whose files are there"
        return [row(f"plugin-kernels-{count}", 1, 1.1, of),
                row(f"plugin-kernels-{count}-empty", 2, _EMPTY_GOALS[count], f"{of}; ours are not, the daemon has them")]

    return measure


# How long a process with an empty cache may take, by its kernels.
_EMPTY_GOALS = {20: 0.3, 200: 2.0, 1000: 2.0}


def inductor_like(setting):
    """The kernels of a job's first step, compiled by as many forked workers as there are cores."""
    pairs, cpu_ms = first_steps(setting)
    return [Row("inductor-like", ratios(pairs), 1.0, "lower",
                f"{len(os.sched_getaffinity(0))} such workers without Kiln; {_STEP_KERNELS} kernels, all of them new", cpu_ms=cpu_ms, kernels=_STEP_KERNELS)]


def inductor_like_allocator(setting):
    pairs, cpu_ms = first_steps(setting, **setting.allocator())
    return [Row("inductor-like-allocator", ratios(pairs), 1.0, "lower", "as inductor-like, with our workers' allocator in those workers too",
                cpu_ms=cpu_ms, kernels=_STEP_KERNELS)]


_STEP_KERNELS = 32


def first_steps(setting, **variables):
    """The milliseconds of ours and of workers without Kiln with these variables, and our milliseconds of CPU for a kernel."""
    jobs, bare = Jobs(setting, "many_kernels.py"), Jobs(setting, "many_kernels.py", **variables)

    def ms(jobs, plug_in):
        cache = jobs.new_cache()
        folder = cache.with_suffix(".source")  # another path makes other kernels
        folder.mkdir()
        return jobs.run(str(_STEP_KERNELS), [cache], plug_in, folder, str(len(os.sched_getaffinity(0))))[0]["ms"]

    pairs, cpu = [], setting.cpu()
    for _ in range(6):
        with cpu:
            ours = ms(jobs, True)
        pairs.append((ours, ms(bare, False)))
    return pairs[1:], 1000 * cpu.seconds / (6 * _STEP_KERNELS)


def basedirs(setting):
    """The example kernels of two users, each of whom has them in a folder of their own."""
    assert os.geteuid() == 0, "only root can act as two users"

    def resolve(user, turn):
        home = setting.folder / f"home-{user}"
        for name in ("kernels", "benchmarks"):
            shutil.copytree(HERE.parent / name, home / f"checkout-{turn}" / name)
        os.chown(home, user, user)
        program = home / f"checkout-{turn}/benchmarks/plugin_job.py"
        jobs = Jobs(setting, program, HOME=str(home), XDG_CACHE_HOME=str(home), KILN_BASEDIRS="~")
        (answer,) = jobs.run("cuda:90", [home / f"cache-{turn}"], True, user=user)
        return answer

    shares = []
    for turn in range(5):
        first, second = (resolve(user, turn) for user in (60001, 60002))
        assert first["report"]["compiled"] == first["kernels"], first
        shares.append(sum(second["report"]["hits"].values()) / second["kernels"])
    return [Row("basedirs", shares, 1, "higher", "all kernels: those that the daemon has for a second user whose folder is another",
                kernels=second["kernels"])]


def eight_processes(setting):
    """Eight processes that start at once and want the same kernels, which nobody has."""
    jobs = Jobs(setting)
    compilers, whole = [], []
    for targets in ("cuda:80", "cuda:86", "cuda:89", "cuda:120", "hip:gfx942"):
        before = setting.stats()
        with tempfile.TemporaryDirectory(dir=setting.folder) as folder:
            answers, (alone,), (lowered,) = jobs.run_in_turns((targets, [jobs.new_cache() for _ in range(8)], True),
                                                              (targets, [jobs.new_cache()], False), (targets, [jobs.new_cache()], False, folder))
        after = setting.stats()
        compiled = after["compiled"] - before["compiled"]
        assert compiled == answers[0]["kernels"], (compiled, answers[0])
        cpu = (after["compile_cpu_micros"] - before["compile_cpu_micros"]) / 1e6
        compilers.append((cpu, lowered["cpu_s"]))
        whole.append((cpu + sum(answer["cpu_s"] for answer in answers), alone["cpu_s"]))
    kernels = answers[0]["kernels"]
    return [Row("eight-processes", ratios(compilers), 1.15, "lower",
                "CPU seconds of one process without Kiln that compiles the same Triton IR; ours are those in compilers",
                cpu_ms=1000 * statistics.median(ours for ours, _ in compilers) / kernels, kernels=kernels),
            Row("eight-processes-whole", ratios(whole), 1.4, "lower",
                "CPU seconds of one process without Kiln, lowering too; ours are those in compilers and in all eight processes",
                cpu_ms=1000 * statistics.median(ours for ours, _ in whole) / kernels, kernels=kernels)]


def idle_connections(setting):
    """Hits beside ten thousand connections on which nothing happens, and what each of them costs."""
    pairs, each_bytes, count = edge.idle(setting)
    return [Row("idle-connections", ratios(pairs), 2, "lower", f"p99 of a hit by RPC in a daemon without them; ours has {count}"),
            Row("idle-connection-kb", [each_bytes / 1000], 20, "lower", "1 kB: what each of them takes in kilnd")]


def hostile_memory(setting):
    """The daemon's memory under each attack of tests/security/test_hostile_clients.py. Fails where one cannot be tried here."""
    peaks = edge.hostile_peaks(setting.binaries)
    for name, peak in sorted(peaks.items(), key=lambda each: -each[1]):
        print(f"{peak / 1e6:6.0f} MB  {name}", file=sys.stderr)
    return [Row("hostile-memory", [max(peaks.values()) / 1e6], 600, "lower",
                f"1 MB: the most that kilnd takes under the worst of {len(peaks)} attacks, in a control group of 1 GiB")]


def soak(setting):
    """Whether an hour of mixed load leaves anything behind."""
    soaked = edge.Soak(setting)
    counts = soaked.run(setting.soak_minutes)
    warm_s = 60 * min(10, setting.soak_minutes / 2)
    print(f"rounds of compiles, hits, entries, nonsense, answered and not in time: {counts}; at the end {soaked.samples[-1][1]}", file=sys.stderr)
    of = f"that of the quarter after the first {warm_s / 60:.0f} minutes; ours is of the last quarter of {setting.soak_minutes:.0f} minutes"
    return [Row(f"soak-{what}", [soaked.growth(what, warm_s)], 1.1, "lower", f"{what} of kilnd: {of}")
            for what in ("memory", "descriptors", "threads")]


def warm_beside_a_job(setting):
    """A job's hits while kiln warm has every core compile."""
    matmul = next(r for r in setting.requests if "matmul" in r["name"])
    given = json.dumps({name: matmul.get(name, {}) for name in ("source", "target", "options")})
    environment = {**setting.env, "PYTHONPATH": str(setting.binaries.parent / "python")}

    def p99():
        return float(subprocess.run([sys.executable, HERE / "python_hits.py", "for", "2"], input=given, env=environment, check=True,
                                    stdout=subprocess.PIPE, text=True).stdout)

    pairs = []
    for _ in range(5):
        alone = p99()
        manifest = setting.request_file(setting.distinct(400))  # more than it comes to
        with subprocess.Popen([setting.binaries / "kiln", "warm", manifest], env=setting.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as warming:
            time.sleep(0.5)
            pairs.append((p99(), alone))
            assert warming.poll() is None, "the warm ended before the hits"
            warming.terminate()
        while any(setting.stats()[name] for name in ("running", "queued")):
            time.sleep(0.1)
    return [Row("warm-beside-a-job", ratios(pairs), 1.5, "lower", "p99 of a hit by a call without a warm; ours while kiln warm has the cores compile")]


@contextlib.contextmanager
def filled(setting, count, hot_size="0B", requests=None):
    """The root of another daemon, whose store has so many entries of these kernels, or of the smallest one."""
    root = setting.folder / f"filled-{count}"
    (root / "state").mkdir(parents=True)
    smallest = min((r for r in setting.requests if r["target"] == "cuda:90"), key=lambda r: len(r["source"]))
    store_benchmark(setting, "--fill", setting.request_file(requests or [smallest]), root / "state/store", str(count))
    daemon = setting.start_daemon(root, f"toolchain.directories={setting.toolchain}", f"hot.size={hot_size}")
    while b"hot directory filled" not in (setting.folder / f"{root.name}.log").read_bytes():
        time.sleep(0.1)
    yield root
    daemon.terminate()
    daemon.wait(60)
    shutil.rmtree(root)


def taken(command, **options):
    """Seconds, and MB of memory at the most."""
    begin = time.perf_counter()
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return time.perf_counter() - begin, usage.ru_maxrss / 1000


def why(setting):
    with filled(setting, 100_000) as root:
        kiln = [setting.binaries / "kiln", "--root", root]
        listed = subprocess.run([*kiln, "ls", "--limit", "7", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
        named = [1000 * taken([*kiln, "why", json.loads(line)["key"]])[0] for line in listed.splitlines()]
        last = [1000 * taken([*kiln, "why", "--last-miss"])[0] for _ in named]
    return [Row("why", named, 200, "lower", "1 ms: kiln why of one of 100000 stored requests of that name, without a hot directory"),
            Row("why-last-miss", last, 200, "lower", "1 ms: kiln why --last-miss in that store")]


def bundle(setting):
    """Bytes a second through a signed bundle, both ways, and through an archive of the hot directory, which has the same stages."""
    exports, imports, memory = [], [], []
    key, made, archive, unpacked = (setting.folder / name for name in ("builder.pem", "bundle", "archive", "unpacked"))
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
    importer = setting.folder / "importer"
    with filled(setting, 10_000, "4GiB", setting.requests) as root:
        here, there = ([setting.binaries / "kiln", "--root", each] for each in (root, importer))
        listed = subprocess.run([*here, "ls", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
        stored = sum(json.loads(line)["size_bytes"] for line in listed.splitlines())
        published = sum(path.stat().st_size for path in (root / "run/hot").rglob("*") if path.is_file())
        for _ in range(5):
            exported, export_mb = taken([*here, "export", "--all", "--sign-with", key, "-o", made])
            archived, _ = taken(["sh", "-c", f"tar -C {root}/run -cf - hot | zstd -q -f -o {archive}"])
            exports.append((stored / exported, published / archived))
            memory.append(export_mb)
        for _ in range(5):
            importer.mkdir(0o755)
            subprocess.run(["openssl", "pkey", "-pubout", "-in", key, "-out", importer / "trusted_keys.pem"], check=True)
            daemon = setting.start_daemon(importer, f"toolchain.directories={setting.toolchain}", "hot.size=4GiB")
            imported, import_mb = taken([*there, "import", made])
            unpacked.mkdir()
            extracted, _ = taken(["sh", "-c", f"zstd -dqc {archive} | tar -C {unpacked} -xf -"])
            daemon.kill()  # an eviction takes as long as an import
            daemon.wait()
            for folder in (unpacked, importer):
                shutil.rmtree(folder)
            imports.append((stored / imported, published / extracted))
            memory.append(import_mb)
    return [Row("bundle", ratios(exports), 0.8, "higher", "bytes a second of tar | zstd over the hot directory; ours of kiln export of 10000 artifacts, signed"),
            Row("bundle-import", ratios(imports), None, "higher", "bytes a second of zstd | tar -x of that archive; ours of kiln import"),
            Row("bundle-memory", memory, 100, "lower", "1 MB: kiln export and kiln import at the most")]


# What each function measures, by the names of its rows.
GROUPS = {
    ("hit-rpc", "hit-rpc-first", "hit-hot", "hit-client"): hits,
    ("hit-mallocs", "hit-locks"): counted_hits,
    ("throughput-64", "batch-hit"): load,
    ("first-touch-1000",): first_touch,
    ("first-touch-10000", "first-touch-100000", "first-touch-1000000", "scale-hit", "scale-ready", "scale-resident"): scale,
    ("full-store-hit", "full-store-put"): full_store,
    ("hit-light", "hit-python"): hit_light,
    ("cold-compile", "cold-compile-allocator"): cold_compile,
    ("ptx-to-cubin",): ptx_to_cubin,
    ("nvrtc-warm",): nvrtc_warm,
    ("warm-again",): warm_again,
    ("warm-cold",): warm_cold,
    ("warm-beside-a-job",): warm_beside_a_job,
    ("bundle", "bundle-import", "bundle-memory"): bundle,
    ("why", "why-last-miss"): why,
    ("first-kernel-cold", "first-kernel-hit"): first_kernel,
    ("jail-overhead", "worker-replacement", "worker-memory"): workers,
    ("cold-batch-busy", "cold-batch"): cold_batch,
    ("cold-batch-allocator",): cold_batch_allocator,
    ("tuning-batch", "cores-measured"): tuning_batch,
    ("plugin-import", "plugin-first-ask", "plugin-first-call"): plugin,
    ("jax-execute",): jax_execute,
    ("graph-plan", "graph-plan-texts", "graph-ptx-template"): graph,
    ("graph-lookup",): graph_lookup,
    ("graph-cold-compile", "graph-warm-compile"): graph_cold_compile,
    ("graph-recompute-16", "graph-recompute-64", "graph-recompute-256"): graph_recompute,
    ("jax-import",): jax_import,
    ("second-process", "second-process-empty", "second-process-cold"): second_process,
    ("second-process-cold-allocator",): second_process_allocator,
    ("tuned-second",): tuned_second,
    **{(f"plugin-kernels-{count}", f"plugin-kernels-{count}-empty"): plugin_kernels(count) for count in _EMPTY_GOALS},
    ("inductor-like",): inductor_like,
    ("inductor-like-allocator",): inductor_like_allocator,
    ("basedirs",): basedirs,
    ("eight-processes", "eight-processes-whole"): eight_processes,
    ("idle-connections", "idle-connection-kb"): idle_connections,
    ("hostile-memory",): hostile_memory,
    ("soak-memory", "soak-descriptors", "soak-threads"): soak,
}
# Rows of --all: they take long, or count instead of timing.
LONG = ("basedirs", "warm-cold", "bundle", "why", "plugin-kernels-200", "plugin-kernels-1000", "throughput-64", "first-touch-10000", "full-store-hit",
        "idle-connections", "hostile-memory", "cold-batch-allocator", "second-process-cold-allocator", "inductor-like-allocator")
# One that takes as long as it is told.
SOAK = "soak"


def print_line(name, *cells):
    longest = max(len(name) for group in GROUPS for name in group)
    *cells, of = cells
    print(name.ljust(longest), *(cell.ljust(width) for cell, width in zip(cells, (6, 16, 6, 6, 6, 8, 7))), of, sep="  ", flush=True)


def print_row(row):
    sign = "≤" if row.better == "lower" else "≥"
    goal, verdict = ("", "") if row.goal is None else (f"{sign} {row.goal:.4g}", "holds" if row.holds else "MISSED")
    p99, cpu_ms = ("" if value is None else f"{value:.3g}" for value in (row.p99, row.cpu_ms))
    print_line(row.name, f"{row.value:.3g}", f"{row.runs[0]:.3g}–{row.runs[-1]:.3g} of {len(row.runs)}", goal, verdict, p99, cpu_ms,
               str(row.kernels or ""), row.of)


def main():
    names = [name for group, measure in GROUPS.items() if measure is not soak for name in group]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--toolchain", type=pathlib.Path, required=True)
    parser.add_argument("--nvrtc", type=pathlib.Path, required=True)
    parser.add_argument("--only", choices=[*names, SOAK], help="one row, or the soak")
    parser.add_argument("--minutes", type=float, default=60, help="how long a soak takes; it runs with --only soak alone")
    parser.add_argument("--all", action="store_true", help="the rows, too, that take long, or count instead of timing")
    parser.add_argument("--json", action="store_true", help="a list of objects instead of a table")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a goal is missed")
    arguments = parser.parse_args()

    if not arguments.json:
        print_line("name", "median", "range of runs", "goal", "", "p99", "CPU, ms", "kernels", "of")
    rows, failed = [], False
    with tempfile.TemporaryDirectory(prefix="kiln-bench-") as folder, contextlib.ExitStack() as stack:
        setting = Setting(arguments.binaries, arguments.toolchain, arguments.nvrtc, pathlib.Path(folder))
        setting.soak_minutes = arguments.minutes
        stack.callback(setting.stop)
        setting.start()
        for group, measure in GROUPS.items():
            is_soak = measure is soak
            if is_soak != (arguments.only == SOAK) or not is_soak and (
                    arguments.only not in group if arguments.only else group[0] in LONG and not arguments.all):
                continue
            begin = time.monotonic()
            try:
                measured = [row for row in measure(setting) if arguments.only in (None, SOAK, row.name)]
            except Exception:  # the other groups' minutes are not lost with it
                failed = True
                traceback.print_exc()
                continue
            rows += measured
            print(f"{time.monotonic() - begin:6.1f} s  {' '.join(group)}", file=sys.stderr, flush=True)
            if not arguments.json:
                for row in measured:
                    print_row(row)
    if arguments.json:
        print(json.dumps([row.as_json() for row in rows], indent=1))
    sys.exit(1 if failed or arguments.strict and not all(row.holds for row in rows) else 0)


if __name__ == "__main__":
    main()
