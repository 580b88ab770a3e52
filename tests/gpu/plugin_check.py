"""Checks the Python package on a machine with a GPU and its own PyTorch: the Triton plug-in, kiln.load, CUDA graphs. Prints a table, and
ends with 1 where something is wrong.

    python tests/gpu/plugin_check.py [--bundle build/bundle] [--out DIR] [--part NAME]...

Runs under the Python whose Triton and PyTorch are to be checked. The bundle (tests/gpu/bundle) brings kilnd, the package, gRPC and
protobuf. Each part has a time limit, and a part that fails does not stop the others. --out keeps the logs and results.json.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden"))

from elf import Elf  # noqa: E402

PART_SECONDS_MAX = 240
PROCESSES = 8


class Kilnd:
    """The bundle's kilnd, with this Python's environment as its toolchain."""

    def __init__(self, bundle, folder):
        self._bundle, self._folder = bundle, folder
        self.root = folder / "root"
        self.process = None

    def start(self):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder), "KILN_TOOLCHAIN_DIRECTORIES": sys.prefix}
        with open(self._folder / "kilnd.log", "ab") as log:
            self.process = subprocess.Popen([self._bundle / "bin" / "kilnd", "--root", self.root], env=environment, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while self.stats() is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "kilnd.log").read_text()[-4000:])
            time.sleep(0.1)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def kiln(self, *arguments):
        return subprocess.run([self._bundle / "bin" / "kiln", "--root", self.root, *arguments], capture_output=True, text=True,
                              timeout=60, check=False)

    def stats(self):
        done = self.kiln("stats", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None


class Check:
    """What the parts share: folders, environments, results."""

    def __init__(self, bundle, folder):
        self.bundle, self.folder = bundle, folder
        self.kilnd = Kilnd(bundle, folder)
        self.rows = []

    def row(self, part, what, result, is_ok=True):
        self.rows.append({"part": part, "what": what, "result": str(result), "ok": bool(is_ok)})
        print(f"{'ok  ' if is_ok else 'FAIL'}  {part:<10} {what:<52} {result}", flush=True)

    def environment(self, cache, kiln=True, **more):
        """A job's, with caches of its own."""
        base = self.folder / cache
        own = {"TRITON_CACHE_DIR": str(base / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(base / "inductor"), "KILN_ROOT": str(self.kilnd.root),
               "XDG_CACHE_HOME": str(self.folder / "home-cache"), "PYTHONPATH": str(self.bundle / "python"), "KILN_REPORT": "1"}
        if kiln:
            own["TRITON_CACHE_MANAGER"] = "kiln.triton:CacheManager"
        return {**os.environ, **own, **more}

    def start(self, program, environment, name, *arguments):
        out = self.folder / f"{name}.json"
        log = open(self.folder / f"{name}.log", "w")
        process = subprocess.Popen([sys.executable, HERE / program, out, *map(str, arguments)], env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log, text=True)
        process.out, process.log = out, log
        return process

    def finish(self, process):
        try:
            process.communicate(timeout=PART_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise RuntimeError(f"no end within {PART_SECONDS_MAX} s: {process.log.name}") from None
        finally:
            process.log.close()
        if process.returncode != 0:
            raise RuntimeError(pathlib.Path(process.log.name).read_text()[-3000:])
        return json.loads(process.out.read_text())

    def run(self, *arguments):
        return self.finish(self.start(*arguments))

    def exit_lines(self, name):
        """What each process of a job said at its end: Inductor's workers end without a word, so their answers are the daemon's to count."""
        return [line for line in (self.folder / f"{name}.log").read_text().splitlines() if line.startswith("kiln:")]


def code(binary):
    """The sections that decide what runs: not the line table, which has the time of the source file in it."""
    return {section.name: section.content for section in Elf(binary).sections if "debug" not in section.name}


def compare_caches(first, second):
    """(files of the same name, equal ones, cubins, cubins with the same code, names that are only in one)."""
    files = [{str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file() and "tmp" not in path.name
              and path.suffix in (".cubin", ".ptx", ".llir", ".ttgir", ".ttir", ".source")} for folder in (first, second)]
    common = sorted(files[0].keys() & files[1].keys())
    equal = [name for name in common if files[0][name].read_bytes() == files[1][name].read_bytes()]
    cubins = [name for name in common if name.endswith(".cubin")]
    same = [name for name in cubins if code(files[0][name].read_bytes()) == code(files[1][name].read_bytes())]
    different = [name for name in cubins if name not in same]
    return len(common), len(equal), len(cubins), len(same), sorted(files[0].keys() ^ files[1].keys()), different


def compare_losses(got, expected):
    """In words, and whether they are the same: to the bit, or as near as the order of atomic additions and the configurations that
    Inductor finds fastest in each run let them be."""
    largest = max(abs(a - b) / abs(b) for a, b in zip(got["losses"], expected["losses"], strict=True))
    words = "to the bit" if largest == 0 else f"largest relative difference {largest:.1e}"
    return f"{len(got['losses'])} steps, {words}, last {got['losses'][-1]:.4f}", largest < 1e-3


def daemon_delta(check, before):
    now = check.kilnd.stats()
    return {name: now[name] - before[name] for name in now if isinstance(now[name], int) and isinstance(before.get(name), int) and
            name in ("compiled", "joined", "hits_memory", "hits_disk", "failed", "requests", "errors")}


# --- Parts -----------------------------------------------------------------------------------------------------------


def part_kernels(check):
    plain = check.run("kernels_job.py", check.environment("kernels-plain", kiln=False), "kernels-plain")
    before = check.kilnd.stats()
    first = check.run("kernels_job.py", check.environment("kernels-first"), "kernels-first")
    check.row("kernels", "daemon, first run", daemon_delta(check, before))
    second = check.run("kernels_job.py", check.environment("kernels-second"), "kernels-second")
    plain_again = check.run("kernels_job.py", check.environment("kernels-plain", kiln=False), "kernels-plain-again")
    again = check.run("kernels_job.py", check.environment("kernels-first"), "kernels-again")
    for name, result in (("stock", plain), ("first", first), ("second", second), ("stock, files there", plain_again), ("files there", again)):
        wrong = {kernel: text[-600:] for kernel, text in result["kernels"].items() if text != "ok"}
        check.row("kernels", f"{name}: right results", f"{len(result['kernels']) - len(wrong)} of {len(result['kernels'])} in "
                  f"{result['seconds']:.2f} s {wrong or ''}", not wrong)
    check.row("kernels", "first: served by the daemon", first["report"], not first["report"]["local"])
    check.row("kernels", "second: all hits", second["report"], not second["report"]["local"] and not second["report"]["compiled"])
    check.row("kernels", "second: C compiler's runs spared", second["report"]["builds_spared"], second["report"]["builds_spared"] > 0)
    ours, stock = (statistics.median(result["launch_us"] for result in results) for results in ((first, second, again), (plain, plain_again)))
    check.row("kernels", "kernel[grid] with the plug-in, by stock Triton", f"{ours:.2f} us, {stock:.2f} us: {ours / stock:.3f}")
    common, equal, cubins, same, only, different = compare_caches(check.folder / "kernels-plain" / "triton", check.folder / "kernels-first" / "triton")
    check.row("kernels", "files equal to stock's", f"{equal} of {common}; only in one: {len(only)}", not only)
    check.row("kernels", "cubins with the same code as stock's", f"{same} of {cubins} {different or ''}", cubins and same == cubins)


def part_training(check):
    results = {}
    for name, kiln in (("stock", False), ("kiln", True), ("again", True)):
        before = check.kilnd.stats()
        # All in one folder, emptied each time: Inductor writes its sources there, and their paths are part of what is compiled.
        results[name] = check.run("training_job.py", check.environment("training", kiln=kiln), f"training-{name}", 8)
        os.rename(check.folder / "training", check.folder / f"training-{name}")
        delta = daemon_delta(check, before)
        check.row("training", f"{name}: first step, all", f"{results[name]['first_step']:.2f} s, {results[name]['seconds']:.2f} s; daemon {delta}")
        if name == "kiln":
            check.row("training", "kiln: compiled by the daemon", delta["compiled"], delta["compiled"] > 0)
        if name == "again":
            # Those that were found by Triton's own key are no requests.
            own = results[name]["report"]["hits"].get("own", 0)
            check.row("training", "again: nothing compiled", f"{delta['compiled']}; {own} by Triton's key in the job itself",
                      delta["compiled"] == 0 and delta["requests"] + own > 0)
    for name in ("kiln", "again"):
        check.row("training", f"{name}: same losses", *compare_losses(results[name], results["stock"]))
    check.row("training", "compiled by the job itself", results["kiln"]["report"], not results["kiln"]["report"]["local"])
    for line in check.exit_lines("training-kiln"):
        check.row("training", "said at the end", line)
    _, _, cubins, same, only, different = compare_caches(check.folder / "training-stock", check.folder / "training-kiln")
    check.row("training", "cubins with the same code as stock's", f"{same} of {cubins}; only in one: {len(only)} {different[:4] or ''}",
              cubins and same == cubins)


def part_ranks(check):
    """Eight processes that start at once, none of which finds anything: one compile for each kernel."""
    check.kilnd.kiln("evict", "--all")
    before = check.kilnd.stats()
    started = time.monotonic()
    ranks = [check.start("kernels_job.py", check.environment(f"ranks-{rank}"), f"ranks-{rank}") for rank in range(PROCESSES)]
    results = [check.finish(rank) for rank in ranks]
    delta = daemon_delta(check, before)
    kernels = len(list((check.folder / "ranks-0" / "triton").rglob("*.cubin")))
    wrong = sum(text != "ok" for result in results for text in result["kernels"].values())
    check.row("ranks", f"{PROCESSES} processes, {kernels} kernels", f"{time.monotonic() - started:.1f} s; daemon {delta}", wrong == 0)
    check.row("ranks", "one compile for each kernel", delta["compiled"], delta["compiled"] == kernels)
    local = sum(sum(result["report"]["local"].values()) for result in results)
    check.row("ranks", "compiled by the processes themselves", local, local == 0)


def part_killed(check):
    job = check.start("training_job.py", check.environment("killed"), "killed", 8, 4)
    try:
        while "paused" not in (line := job.stdout.readline()):
            if not line:
                raise RuntimeError(pathlib.Path(job.log.name).read_text()[-3000:])
        check.kilnd.kill()
        job.stdin.write("go on\n")
        job.stdin.flush()
        result = check.finish(job)
    finally:
        check.kilnd.start()
    stock = check.run("training_job.py", {**check.environment("killed-stock", kiln=False)}, "killed-stock", 8, 4)
    check.row("killed", "training goes on, same losses", *compare_losses(result, stock))
    for line in check.exit_lines("killed"):
        check.row("killed", "said", line)


def part_absent(check):
    plain = check.run("kernels_job.py", check.environment("absent-plain", kiln=False), "absent-plain")
    got = check.run("kernels_job.py", check.environment("absent", KILN_ROOT=str(check.folder / "nowhere")), "absent")
    check.row("absent", "no daemon: right results", got["report"], all(text == "ok" for text in got["kernels"].values()))
    check.row("absent", "seconds, stock and with the plug-in", f"{plain['seconds']:.2f}, {got['seconds']:.2f}")


def part_pool(check):
    """Inductor's workers: subprocesses that fork, and forks of the job itself."""
    for how in ("subprocess", "fork"):
        before = check.kilnd.stats()
        name = f"pool-{how}"
        result = check.run("training_job.py", check.environment(name, TORCHINDUCTOR_WORKER_START=how, TORCHINDUCTOR_COMPILE_THREADS="8"), name, 3)
        delta = daemon_delta(check, before)
        check.row("pool", f"{how}: daemon", f"{result['seconds']:.2f} s {delta}", delta["requests"] > 0 and delta["errors"] == 0)


def part_tuning(check):
    """18 configurations of a matmul, with nothing stored; compiled by the daemon side by side."""
    check.kilnd.kiln("evict", "--all")
    cores = os.cpu_count()
    seconds = {}
    for name, kiln in (("stock", False), ("kiln", True), ("again", True)):
        before = check.kilnd.stats()
        result = check.run("tuning_job.py", check.environment(f"tuning-{name}", kiln=kiln), f"tuning-{name}")
        seconds[name] = result["seconds"] - result["measured"]
        delta = daemon_delta(check, before)
        check.row("tuning", f"{name}: without measuring", f"{seconds[name]:.2f} s; best {result['best']}; daemon {delta}",
                  not kiln or (not result["report"]["local"] and delta["compiled"] == (18 if name == "kiln" else 0)))
    check.row("tuning", f"stock to kiln, {cores} cores", f"{seconds['stock'] / seconds['kiln']:.1f} times as fast")


def part_launch(check):
    """kiln.load and CUDA graphs."""
    result = check.run("python_launch_job.py", check.environment("launch"), "launch")
    for what, words, is_ok in result["rows"]:
        check.row("launch", what, words, is_ok)
    print(json.dumps(result["benchmark"]))


PARTS = {name.removeprefix("part_"): part for name, part in list(globals().items()) if name.startswith("part_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=pathlib.Path, default=HERE.parent.parent / "build" / "bundle")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--part", action="append", choices=sorted(PARTS), help="repeated for several; all without it")
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-gpu-"))
    check = Check(arguments.bundle.resolve(), folder)
    try:
        started = time.monotonic()
        check.kilnd.start()
        check.row("start", "kilnd serves after", f"{time.monotonic() - started:.1f} s")
        for name in arguments.part or PARTS:
            started = time.monotonic()
            try:
                PARTS[name](check)
            except Exception:
                check.row(name, "stopped early", traceback.format_exc()[-3000:], False)
            print(f"      {name} took {time.monotonic() - started:.1f} s", flush=True)
    except Exception:
        check.row("start", "stopped early", traceback.format_exc()[-3000:], False)
    finally:
        with contextlib.suppress(Exception):
            check.kilnd.stop()
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / "results.json").write_text(json.dumps(check.rows, indent=1))
            with open(arguments.out / "logs.txt", "w") as logs:
                for log in sorted(folder.glob("*.log")):
                    logs.write(f"===== {log.name}\n{log.read_text()[-20_000:]}\n")
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(row["ok"] for row in check.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
