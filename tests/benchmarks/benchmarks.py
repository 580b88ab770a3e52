"""Measures Kiln against what a job does without it, and prints one table of ratios.

Every ratio is taken against something measured in the same run, in turns, so that a machine that slows down slows both. The figures are medians. These are
measurements, not tests: a row that misses its goal says so and the exit code stays 0, unless --strict. What cannot be measured is told
with its reason, the others are measured all the same, and the exit code is 1.
"""

import argparse
import contextlib
import hashlib
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

import cores

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Row:
    """One measured ratio and the goal it should meet; None where it stands beside another's."""

    def __init__(self, name, value, goal, better, of):
        self.name, self.value, self.goal, self.better, self.of = name, value, goal, better, of

    @property
    def holds(self):
        return self.goal is None or (self.value <= self.goal if self.better == "lower" else self.value >= self.goal)

    def as_json(self):
        return {"name": self.name, "value": round(self.value, 4), "goal": self.goal,
                "better": self.better, "holds": self.holds}


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
        """`count` requests that nobody has sent before, with the work of the example kernels: a comment more makes another key."""
        result = []
        for _ in range(count):
            base = self.requests[self._number % len(self.requests)]
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
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if f"\nPPid:\t{self.daemon.pid}\n" not in (folder / "status").read_text() or b"triton" not in (folder / "cmdline").read_bytes():
                    continue
                variables = dict(each.split("=", 1) for each in (folder / "environ").read_text().split("\0") if "=" in each)
            except OSError:  # it has ended
                continue
            return {name: variables[name] for name in ("LD_PRELOAD", "MALLOC_CONF") if name in variables}
        sys.exit("the daemon has no zygote of a Triton")

    def sequence_ms(self, requests):
        """One after the other; as an ordinary user, where this is root."""
        user = ["65534"] if os.geteuid() == 0 else []
        return sum(self.micro("--sequence", str(self.request_file(requests)), *user)["ms"])

    def micro(self, *arguments, root=None):
        # What it says of a failure goes to the terminal.
        output = subprocess.run([self.binaries / "kiln_benchmark", *arguments], env={**self.env, "KILN_ROOT": str(root or self.root)},
                                check=True, stdout=subprocess.PIPE, text=True).stdout
        return json.loads(output)


def median_ratio(pairs):
    """The median of the ratios of things that ran next to each other."""
    return statistics.median(a / b for a, b in pairs)


def hits(setting):
    """Hits by RPC and through the hot directory, against bare echoes and bare file reads of the same sizes."""
    matmul = next(r for r in setting.requests if "matmul" in r["name"])
    path = setting.request_file([matmul])
    report = setting.micro("--request", str(path), "--benchmark_format=json",
                           "--benchmark_repetitions=15", "--benchmark_min_time=0.2",
                           "--benchmark_enable_random_interleaving=true")
    p50 = {}
    for run in report["benchmarks"]:
        if run.get("run_type") == "iteration":
            p50.setdefault(run["name"].split("/")[0], []).append(run["p50_us"])
    p50 = {name: statistics.median(values) for name, values in p50.items()}
    return [
        Row("hit-rpc", p50["HitRpc"] / p50["EchoRpc"], 1.15, "lower",
            "p50 of a bare gRPC echo of the same sizes over a Unix socket"),
        Row("hit-rpc-first", p50["FirstHitRpc"] / p50["EchoRpc"], 1.3, "lower",
            "the same echo; the client has not seen the binary before, so it hashes it"),
        Row("hit-hot", p50["HitHot"] / p50["OpenReadClose"], 1.2, "lower",
            "p50 of open+read+close of a file of that size"),
        Row("hit-client", p50["HitClient"] / p50["PlainSocket"], 2, "lower",
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
    mallocs, locks = (statistics.median(column) for column in zip(*per_hit))
    return [Row("hit-mallocs", mallocs, 12, "lower", "1 hit by RPC: allocations in kilnd, gRPC's included"),
            Row("hit-locks", locks, 3, "lower", "1 hit by RPC: mutexes that kilnd locks, without those of gRPC's own kind")]


def load(setting):
    """Hits of many processes at once, and of one batch."""
    root = setting.folder / "loaded"
    daemon = setting.start_daemon(root, f"toolchain.directories={setting.toolchain}", "hot.size=0B")
    matmul = next(r for r in setting.requests if "matmul" in r["name"])
    path = setting.request_file([matmul])
    reports = []
    for _ in range(6):
        output = subprocess.run([setting.binaries / "load_benchmark", path, "64", "1"], env={**setting.env, "KILN_ROOT": str(root)},
                                check=True, stdout=subprocess.PIPE, text=True).stdout
        reports.append(json.loads(output))
    daemon.terminate()
    daemon.wait(60)
    ratios = [report["hits_per_s"] / report["echoes_per_s"] for report in reports[1:]]  # the first one compiles
    return [Row("throughput-64", statistics.median(ratios), 0.9, "higher",
                "calls per second of 64 processes to a gRPC echo of the same sizes that neither parses nor serializes"),
            Row("batch-hit", statistics.median(report["batch_us"] for report in reports[1:]), 30, "lower",
                "1 µs: a hit's share of a batch of 1000")]


class StoredEntries:
    """Hits of a daemon whose store has so many entries, and whose memory has none: it was killed and started again."""

    def __init__(self, setting, count):
        root = setting.folder / f"store-{count}"
        (root / "state").mkdir(parents=True)
        smallest = min((r for r in setting.requests if r["target"] == "cuda:90"), key=lambda r: len(r["source"]))
        path = setting.request_file([smallest])
        store_benchmark(setting, "--fill", path, root / "state/store", str(count))
        settings = (f"toolchain.directories={setting.toolchain}", "hot.size=0B")
        daemon = setting.start_daemon(root, *settings)  # looks at the toolchain for the first time
        daemon.kill()
        daemon.wait()
        begin = time.monotonic()
        daemon = setting.start_daemon(root, *settings)
        self.ready_s = time.monotonic() - begin
        # It reads all entries once, beside its work.
        while b"hot directory filled" not in (setting.folder / f"{root.name}.log").read_bytes():
            time.sleep(0.1)
        report = json.loads(store_benchmark(setting, "--hits", path, str(count), root=root))
        self.echo_us, self.first_us, self.uniform_us = (report[name] for name in ("echo_us", "first_us", "uniform_us"))
        status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
        self.resident_mb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1000
        daemon.terminate()
        daemon.wait(60)
        shutil.rmtree(root)

    def first_touch(self, count):
        return Row(f"first-touch-{count}", self.first_us / self.echo_us, 2, "lower",
                   f"p50 of a bare gRPC echo of the same sizes; a hit of one of {count} entries, not in memory")


def store_benchmark(setting, *arguments, root=None):
    return subprocess.run([setting.binaries / "store_benchmark", *arguments], env={**setting.env, "KILN_ROOT": str(root or setting.root)},
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def first_touch(setting):
    """A hit that memory does not have."""
    return [StoredEntries(setting, 1000).first_touch(1000)]


def scale(setting):
    """What a hit, a start and the daemon's memory grow to with the number of entries."""
    few, many, most = (StoredEntries(setting, count) for count in (1000, 100_000, 1_000_000))
    return [many.first_touch(100_000), most.first_touch(1_000_000),
            Row("scale-hit", (most.uniform_us / most.echo_us) / (few.uniform_us / few.echo_us), 1.3, "lower",
                "p50 of hits of any of 1000 entries, both to an echo; ours of any of 1000000"),
            Row("scale-ready", most.ready_s, 2, "lower", "1 s: the start of a daemon that was killed, with 1000000 entries"),
            Row("scale-resident", most.resident_mb, 200, "lower", "1 MB: what such a daemon has in memory after hits of any entry")]


def full_store(setting):
    """Hits and puts where each put needs room."""
    ratios = []
    for turn in range(5):
        folder = setting.folder / f"full-{turn}"
        folder.mkdir()
        report = json.loads(store_benchmark(setting, "--full", folder))
        ratios.append([report["full"][name] / report["half"][name] for name in ("hit_us", "put_us")])
        shutil.rmtree(folder)
    hit, put = (statistics.median(column) for column in zip(*ratios))
    return [Row("full-store-hit", hit, 1.5, "lower", "p99 of a store that is half full; ours is at its limit and evicts"),
            Row("full-store-put", put, 1.5, "lower", "the same of puts")]


def hit_light(setting):
    """Hits by the Python client, which needs no gRPC, against what gRPC alone would cost in Python: over a connection, and without a call."""
    matmul = next(r for r in setting.requests if "matmul" in r["name"])
    given = {name: matmul.get(name, {}) for name in ("source", "target", "options")}
    environment = {**setting.env, "PYTHONPATH": str(setting.binaries.parent / "python")}
    output = subprocess.run([sys.executable, HERE / "python_hits.py"], input=json.dumps(given), env=environment, check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    p50 = json.loads(output)
    return [Row("hit-light", p50["light"] / p50["echo"], 0.4, "lower", "p50 of a gRPC echo of the same sizes, in Python at both ends"),
            Row("hit-python", p50["hot"] / p50["echo"], None, "lower", "the same echo; the hit is in the hot directory, its key computed")]


def cold_compile(setting):
    """One kernel after the other, each compiled for the first time: a fresh worker for each here, a warm process there."""

    def bare_ms(bare, requests):
        bare.stdin.write(json.dumps(requests) + "\n")
        bare.stdin.flush()
        return sum(json.loads(bare.stdout.readline())["ms"])

    def batch():
        return setting.distinct(len(setting.requests))

    setting.sequence_ms(batch())  # has the zygote start
    bares = [setting.bare("warm"), setting.bare("warm", setting.allocator())]
    for bare in bares:
        bare_ms(bare, batch())  # warm
    pairs = [[], []]
    for _ in range(5):
        ours = setting.sequence_ms(batch())
        for bare, into in zip(bares, pairs):
            into.append((ours, bare_ms(bare, batch())))
    for bare in bares:
        bare.stdin.close()
        bare.wait()
    return [Row("cold-compile", median_ratio(pairs[0]), 0.95, "lower",
                "the same kernels in a warm in-process Triton; ours for an ordinary user"),
            Row("cold-compile-allocator", median_ratio(pairs[1]), 1.05, "lower",
                "the same, with our workers' allocator in that Triton too")]


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

    pairs = []
    for turn in range(6):
        varied = [f"{text}\n// turn {turn}\n" for text in texts]
        pairs.append((daemon_ms(varied), hand_ms(varied)))
    return [Row("ptx-to-cubin", median_ratio(pairs[1:]), 1.1, "lower",  # the first one starts the workers
                "the same PTX through the same ptxas by hand")]


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

    pairs = []
    for turn in range(12):
        varied = {name: f"{text}\n// turn {turn}\n" for name, text in sources.items()}
        pairs.append((daemon_ms(varied), bare_ms(varied)))
    bare.stdin.close()
    bare.wait()
    return [Row("nvrtc-warm", median_ratio(pairs[2:]), 1.1, "lower",  # the first ones start the workers
                "the same CUDA C++ through NVRTC's interface in a warm process; ours for an ordinary user")]


def first_kernel(setting):
    """A fresh process until it holds its first kernel; each of the example kernels once, since a long compile hides the start."""

    def seconds(command, **kwargs):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=setting.env, **kwargs)
        return time.perf_counter() - begin

    cold, hit = [], []
    for request in setting.distinct(len(setting.requests)):
        # Both sides compile this kernel, each from a file of its own.
        other = dict(request, source_file=request["source_file"] + ".bare.ttir")
        shutil.copy(request["source_file"], other["source_file"])
        path = setting.request_file([request])
        command = [setting.binaries / "kiln", "compile", "--requests", path]
        daemon_cold = seconds(command)
        daemon_hit = seconds(command)
        bare = seconds([setting.python, HERE / "bare_triton.py", "once"], text=True,
                       input=json.dumps([other]))
        cold.append((daemon_cold, bare))
        hit.append((daemon_hit, bare))
    of = "a fresh Python process: import triton and the same compile"
    return [Row("first-kernel-cold", median_ratio(cold), 0.5, "lower", of),
            Row("first-kernel-hit", median_ratio(hit), 0.05, "lower", of)]


def cold_batch(setting):
    """100 kernels at once, against one bare process per core that share the list."""
    cores = len(os.sched_getaffinity(0))
    busy, pairs = [], []
    for _ in range(3):
        before = setting.stats()
        requests = setting.distinct(100)
        wall = setting.compile_through_daemon(requests)
        cpu = (setting.stats()["compile_cpu_micros"] - before["compile_cpu_micros"]) / 1e6
        busy.append(cpu / (cores * wall))

        with tempfile.TemporaryDirectory(dir=setting.folder) as claims:
            message = json.dumps({"warm_up": setting.distinct(2), "claims": claims,
                                  "items": requests}) + "\n"
            processes = [setting.bare("share") for _ in range(cores)]
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
            for process in processes:
                process.stdin.close()
                process.wait()
        pairs.append((wall, bare_wall))
    return [Row("cold-batch-busy", statistics.median(busy), 0.9, "higher",
                "cores × wall time: CPU time spent in compilers"),
            Row("cold-batch", median_ratio(pairs), 1.1, "lower",
                f"{cores} warm bare Triton processes sharing the same list")]


def tuning_batch(setting):
    """The 18 configurations of a matmul at once, against Triton, which compiles them one after the other."""
    visible = len(os.sched_getaffinity(0))
    script, out = ROOT / "tests/gpu/launch_kernels.py", setting.folder / "tuning"
    subprocess.run([setting.python, script, "lower", out], check=True)
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

    measured = cores.measure(visible)
    ratio = median_ratio([(stock(), ours(turn)) for turn in range(5)])
    of = f"as fast as Triton alone, one after the other; {len(requests)} configurations, {visible} cores"
    return [Row("tuning-batch", ratio, cores.goal(visible, len(requests)), "higher", of),
            Row("cores-measured", measured, None, "higher",
                f"what one process gets done that only computes; {visible} at once. The goal of tuning-batch for so many cores is "
                f"{cores.goal(measured, len(requests)):.2f}")]


def workers(setting):
    """What a worker costs besides its compiles: its jail, its replacement, its memory."""
    sources = []
    for request in setting.requests:
        path = setting.folder / f"worker-{request['name']}.ttir"
        path.write_text(request["source"])
        sources.append(path)
    environment = {**setting.env, "KILN_TEST_TOOLCHAINS": str(setting.python.parent.parent)}
    output = subprocess.run([setting.binaries / "worker_benchmark", *sources], env=environment, check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    report = json.loads(output)
    return [
        Row("jail-overhead", median_ratio(zip(report["jailed_ms"], report["free_ms"])), 1.05, "lower",
            "the same kernels in a worker that is not jailed"),
        Row("worker-replacement", statistics.median(report["replace_ms"]), 20, "lower",
            "1 ms: from a dead worker to a jailed one that waits for work"),
        Row("worker-memory", statistics.median(report["private_mb"]), 20, "lower",
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

    def median_ms(clock, then):
        script = (f"from time import {clock} as now; from triton import knobs; import triton.runtime.cache; begin = now(); "
                  f"knobs.cache.manager_class; {then}print(1000 * (now() - begin))")

        def once():
            done = subprocess.run([setting.python, "-c", script], env=environment, check=True, stdout=subprocess.PIPE, text=True)
            return float(done.stdout)

        once()  # leaves the bytecode, and the fingerprint
        return statistics.median(once() for _ in range(15))

    return [Row("plugin-import", median_ms("perf_counter", ""), 30, "lower",
                "1 ms: what importing kiln.triton adds to a process that has imported Triton"),
            Row("plugin-first-ask", median_ms("process_time", ask), 15, "lower",
                "1 ms of processor time, from importing kiln.triton to the first hit")]


class Jobs:
    """Processes that resolve kernels, with the plug-in or without: the example kernels (plugin_job.py), or others."""

    def __init__(self, setting, program="plugin_job.py"):
        self.setting = setting
        self._program = program
        self._number = 0

    def new_cache(self):
        self._number += 1
        return self.setting.folder / f"triton-cache-{self._number}"

    def compile_lowered(self, targets):
        """One process without Kiln that compiles the kernels' Triton IR."""
        with tempfile.TemporaryDirectory(dir=self.setting.folder) as folder:
            return self.run(targets, [self.new_cache()], False, folder)[0]

    def run(self, kernels, caches, plug_in, *folder):
        """One process for each of these Triton caches, all at once; what each of them says. `kernels` and `folder`: the program's arguments."""
        environment = dict(self.setting.env)
        if plug_in:
            package = [str(self.setting.binaries.parent / "python"), *site.getsitepackages()]
            environment.update(PYTHONPATH=os.pathsep.join(package), TRITON_CACHE_MANAGER="kiln.triton:CacheManager")
        jobs = [subprocess.Popen([self.setting.python, HERE / self._program, kernels, *folder], text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, env={**environment, "TRITON_CACHE_DIR": str(cache)}) for cache in caches]
        for job in jobs:
            job.stdout.readline()
        for job in jobs:
            job.stdin.write("go\n")
            job.stdin.flush()
        answers = [json.loads(job.communicate()[0]) for job in jobs]
        assert all(job.returncode == 0 for job in jobs)
        return answers


def second_process(setting):
    """A process that asks for kernels which another has had before it."""
    jobs = Jobs(setting)

    def ms(cache, plug_in):
        return jobs.run("cuda:90", [cache], plug_in)[0]["ms"]

    files, empty, against_cold = [], [], []
    for _ in range(6):
        cache = jobs.new_cache()
        cold = ms(cache, False)
        stock = ms(cache, False)
        files.append((ms(cache, True), stock))
        ours = ms(jobs.new_cache(), True)
        empty.append((ours, stock))
        against_cold.append((ours, cold))
    # The first turn has the daemon compile and the plug-in read Triton.
    return [Row("second-process", median_ratio(files[1:]), 0.5, "lower", "the same process without Kiln: Triton finds all in its files"),
            Row("second-process-empty", median_ratio(empty[1:]), 0.5, "lower",
                "the same process without Kiln whose files are there; ours are not, the daemon has them"),
            Row("second-process-cold", median_ratio(against_cold[1:]), 0.1, "lower", "the same process without Kiln, which compiles; ours has no files")]


def plugin_kernels(count):
    """What measures a job of so many kernels that another process has had before it."""

    def measure(setting):
        jobs = Jobs(setting, "many_kernels.py")

        def ms(cache, plug_in, *workers):
            return jobs.run(str(count), [cache], plug_in, setting.folder / f"many-{count}", *workers)[0]["ms"]

        (setting.folder / f"many-{count}").mkdir()
        cache = jobs.new_cache()
        ms(cache, True, str(len(os.sched_getaffinity(0))))  # the daemon compiles; Triton's files are those that it would have made by itself
        turns = [(ms(cache, False), ms(cache, True), ms(jobs.new_cache(), True)) for _ in range(6)]
        of = f"the same process without Kiln, {count} kernels, whose files are there"
        return [Row(f"plugin-kernels-{count}", median_ratio((files, stock) for stock, files, _ in turns[1:]), 1.1, "lower", of),
                Row(f"plugin-kernels-{count}-empty", median_ratio((empty, stock) for stock, _, empty in turns[1:]), _EMPTY_GOALS[count], "lower",
                    f"{of}; ours are not, the daemon has them")]

    return measure


# How long a process with an empty cache may take, by its kernels.
_EMPTY_GOALS = {20: 0.3, 200: 2.0, 1000: 2.0}


def inductor_like(setting):
    """The kernels of a job's first step, compiled by as many forked workers as there are cores."""
    jobs, cores, kernels = Jobs(setting, "many_kernels.py"), len(os.sched_getaffinity(0)), 32

    def ms(plug_in):
        cache = jobs.new_cache()
        folder = cache.with_suffix(".source")  # another path makes other kernels
        folder.mkdir()
        return jobs.run(str(kernels), [cache], plug_in, folder, str(cores))[0]["ms"]

    pairs = [(ms(True), ms(False)) for _ in range(6)]
    return [Row("inductor-like", median_ratio(pairs[1:]), 1.0, "lower", f"{cores} such workers without Kiln; {kernels} kernels, all of them new")]


def eight_processes(setting):
    """Eight processes that start at once and want the same kernels, which nobody has."""
    jobs = Jobs(setting)
    compilers, whole = [], []
    for targets in ("cuda:80", "cuda:86", "cuda:89", "cuda:120", "hip:gfx942"):
        before = setting.stats()
        answers = jobs.run(targets, [jobs.new_cache() for _ in range(8)], True)
        after = setting.stats()
        compiled = after["compiled"] - before["compiled"]
        assert compiled == answers[0]["kernels"], (compiled, answers[0])
        cpu = (after["compile_cpu_micros"] - before["compile_cpu_micros"]) / 1e6
        (alone,) = jobs.run(targets, [jobs.new_cache()], False)
        compilers.append((cpu, jobs.compile_lowered(targets)["cpu_s"]))
        whole.append((cpu + sum(answer["cpu_s"] for answer in answers), alone["cpu_s"]))
    return [Row("eight-processes", median_ratio(compilers), 1.15, "lower",
                "CPU seconds of one process without Kiln that compiles the same Triton IR; ours are those in compilers"),
            Row("eight-processes-whole", median_ratio(whole), 1.4, "lower",
                "CPU seconds of one process without Kiln, lowering too; ours are those in compilers and in all eight processes")]


# What each function measures, by the names of its rows.
GROUPS = {
    ("hit-rpc", "hit-rpc-first", "hit-hot", "hit-client"): hits,
    ("hit-mallocs", "hit-locks"): counted_hits,
    ("throughput-64", "batch-hit"): load,
    ("first-touch-1000",): first_touch,
    ("first-touch-100000", "first-touch-1000000", "scale-hit", "scale-ready", "scale-resident"): scale,
    ("full-store-hit", "full-store-put"): full_store,
    ("hit-light", "hit-python"): hit_light,
    ("cold-compile", "cold-compile-allocator"): cold_compile,
    ("ptx-to-cubin",): ptx_to_cubin,
    ("nvrtc-warm",): nvrtc_warm,
    ("first-kernel-cold", "first-kernel-hit"): first_kernel,
    ("jail-overhead", "worker-replacement", "worker-memory"): workers,
    ("cold-batch-busy", "cold-batch"): cold_batch,
    ("tuning-batch", "cores-measured"): tuning_batch,
    ("plugin-import", "plugin-first-ask"): plugin,
    ("second-process", "second-process-empty", "second-process-cold"): second_process,
    **{(f"plugin-kernels-{count}", f"plugin-kernels-{count}-empty"): plugin_kernels(count) for count in _EMPTY_GOALS},
    ("inductor-like",): inductor_like,
    ("eight-processes", "eight-processes-whole"): eight_processes,
}
# Rows that take minutes.
LONG = ("plugin-kernels-200", "plugin-kernels-1000", "throughput-64", "first-touch-100000", "full-store-hit")


def print_line(name, ratio, goal, verdict, of):
    longest = max(len(name) for group in GROUPS for name in group)
    print(name.ljust(longest), ratio.ljust(6), goal.ljust(6), verdict.ljust(6), of, sep="  ", flush=True)


def print_row(row):
    sign = "≤" if row.better == "lower" else "≥"
    goal, verdict = ("", "") if row.goal is None else (f"{sign} {row.goal}", "holds" if row.holds else "MISSED")
    print_line(row.name, f"{row.value:.3f}", goal, verdict, row.of)


def main():
    names = [name for group in GROUPS for name in group]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--toolchain", type=pathlib.Path, required=True)
    parser.add_argument("--nvrtc", type=pathlib.Path, required=True)
    parser.add_argument("--only", choices=names, help="one row")
    parser.add_argument("--all", action="store_true", help="the rows, too, that take minutes")
    parser.add_argument("--json", action="store_true", help="a list of objects instead of a table")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a goal is missed")
    arguments = parser.parse_args()

    if not arguments.json:
        print_line("name", "ratio", "goal", "", "of")
    rows, failed = [], False
    with tempfile.TemporaryDirectory(prefix="kiln-bench-") as folder, contextlib.ExitStack() as stack:
        setting = Setting(arguments.binaries, arguments.toolchain, arguments.nvrtc, pathlib.Path(folder))
        stack.callback(setting.stop)
        setting.start()
        for group, measure in GROUPS.items():
            if arguments.only not in group if arguments.only else group[0] in LONG and not arguments.all:
                continue
            begin = time.monotonic()
            try:
                measured = [row for row in measure(setting) if arguments.only in (None, row.name)]
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
