"""The parts that check the Python package with this Python's Triton and PyTorch: the plug-in, kiln.load, CUDA graphs."""

import os
import shutil
import statistics
import time

from report import MEASURED
from results import compare_caches, compare_losses

PROCESSES = 8
FIRST_STEP_PAIRS = 5
ABSENT_SECONDS_MAX = 0.1  # for all of a job to find out that there is no daemon


def kernels(setting, row):
    plain = setting.run("kernels_job.py", setting.environment("kernels-plain", kiln=False), "kernels-plain")
    before = setting.kilnd.stats()
    first = setting.run("kernels_job.py", setting.environment("kernels-first"), "kernels-first")
    row("daemon, first run", setting.kilnd.since(before))
    second = setting.run("kernels_job.py", setting.environment("kernels-second"), "kernels-second")
    plain_again = setting.run("kernels_job.py", setting.environment("kernels-plain", kiln=False), "kernels-plain-again")
    again = setting.run("kernels_job.py", setting.environment("kernels-first"), "kernels-again")
    for name, result in (("stock", plain), ("first", first), ("second", second), ("stock, files there", plain_again), ("files there", again)):
        row(f"{name}: right results", f"{_right(result)} in {result['seconds']:.2f} s", not _wrong(result))
    for kernel, text in plain["kernels"].items():
        if text.startswith("not run"):
            row(kernel, text, None)
    row("first: served by the daemon", first["report"], not first["report"]["local"])
    row("second: all hits", second["report"], not second["report"]["local"] and not second["report"]["compiled"])
    row("second: C compiler's runs spared", second["report"]["builds_spared"], second["report"]["builds_spared"] > 0)
    caches = compare_caches(setting.folder / "kernels-plain" / "triton", setting.folder / "kernels-first" / "triton")
    row("files equal to stock's", f"{caches.equal} of {caches.common} to the byte; only in one: {len(caches.only)}; {caches.unequal or ''}",
        not caches.only and not caches.unequal)
    row("cubins with the same code as stock's", f"{caches.same} of {caches.cubins} {caches.different or ''}",
        _same_code(setting, caches))


def _wrong(result):
    return {kernel: text[-600:] for kernel, text in result["kernels"].items() if text != "ok" and not text.startswith("not run")}


def _right(result):
    return f"{list(result['kernels'].values()).count('ok')} of {len(result['kernels'])} kernels {_wrong(result) or ''}"


def _same_code(setting, caches):
    """For Blackwell, ptxas 12.9 gives now one and now another cubin for the same PTX."""
    return MEASURED if setting.has_unsteady_assembler else caches.cubins and caches.same == caches.cubins


def training(setting, row):
    results = {}
    for name, kiln in (("stock", False), ("kiln", True), ("again", True)):
        before = setting.kilnd.stats()
        # All in one folder, emptied each time: Inductor writes its sources there, and their paths are part of what is compiled.
        results[name] = setting.run("training_job.py", setting.environment("training", kiln=kiln), f"training-{name}", 8)
        os.rename(setting.folder / "training", setting.folder / f"training-{name}")
        delta = setting.kilnd.since(before)
        row(f"{name}: first step, all", f"{results[name]['first_step']:.2f} s, {results[name]['seconds']:.2f} s; daemon {delta}")
        if name == "kiln":
            row("kiln: compiled by the daemon", delta["compiled"], delta["compiled"] > 0)
        if name == "again":
            # Hits in the hot directory and by Triton's own key are no requests.
            found, cubins = sum(results[name]["report"]["hits"].values()), _cubins(setting, "training-again")
            row(f"again: all {cubins} kernels found", f"{delta}; {results[name]['report']['hits']}",
                delta["compiled"] == 0 and 0 < cubins <= delta["requests"] - delta["errors"] - delta["failed"] + found)
    for name in ("kiln", "again"):
        row(f"{name}: same losses", *compare_losses(results[name], results["stock"]))
    for name in ("kiln", "again"):
        row(f"{name}: compiled by the job itself", results[name]["report"], not results[name]["report"]["local"])
    own = len(list((setting.folder / "training-kiln").rglob("shift_words*.cubin")))
    row("cubins of the user-defined kernel", own, own > 0)
    for line in setting.exit_lines("training-kiln"):
        row("said at the end", line)
    caches = compare_caches(setting.folder / "training-stock", setting.folder / "training-kiln")
    row("cubins with the same code as stock's", f"{caches.same} of {caches.cubins}; only in one: {len(caches.only)} "
        f"{caches.different[:4] or ''}", _same_code(setting, caches))


def first_step(setting, row):
    """Seconds until torch.compile's first step is done: stock, stock with Triton's files of that run, with a daemon that compiles, with a
    daemon that has all, in turns."""
    folder, files = setting.folder / "first-step", setting.folder / "first-step-files"

    def seconds(name, kiln):
        result = setting.run("training_job.py", setting.environment("first-step", kiln=kiln), f"first-step-{name}", 1)
        if name == "stock":
            os.rename(folder / "triton", files)
        shutil.rmtree(folder)  # one folder, emptied each time, as in `training`
        return result["first_step"]

    def seconds_with_files():
        folder.mkdir()
        os.rename(files, folder / "triton")
        return seconds("files", kiln=False)

    for kiln in (False, True):  # reads PyTorch's files from the disk, writes the package's bytecode, and has the memory that each takes
        seconds("before", kiln)
    ratios = {"files": [], "compiled": [], "found": []}
    for turn in range(FIRST_STEP_PAIRS):
        setting.kilnd.kiln("evict", "--all")
        stock, *ours = seconds("stock", kiln=False), seconds_with_files(), seconds("compiled", kiln=True), seconds("found", kiln=True)
        row(f"turn {turn + 1}: stock, {', '.join(ratios)}", ", ".join(f"{taken:.1f} s" for taken in (stock, *ours)))
        for each, seconds_taken in zip(ratios.values(), ours, strict=True):
            each.append(seconds_taken / stock)
    for (name, each), goal in zip(ratios.items(), (None, 1.0, 0.8), strict=True):
        row(f"{name}: ratio to stock", f"{min(each):.2f} to {max(each):.2f}")
        ratio = statistics.median(each)
        setting.report.measure([{"name": f"first-step-{name}", "value": ratio, "goal": goal, "better": "lower", "holds": goal is None or ratio <= goal}])


def bundler(setting, row):
    """A second start that finds Inductor's graphs, which bring their kernels along as Triton's files, or ready to be launched."""
    first = setting.run("training_job.py", setting.environment("bundler"), "bundler-first", 4)
    triton = setting.folder / "bundler" / "triton"
    made = _cubins(setting, "bundler")
    shutil.rmtree(triton)
    before = setting.kilnd.stats()
    second = setting.run("training_job.py", setting.environment("bundler"), "bundler-second", 4)
    delta = setting.kilnd.since(before)
    saved, read, launched = (result["inductor"].get(f"triton_bundler_{what}", 0) for result, what in (
        (first, "save_kernel"), (second, "read_and_emit_kernel"), (second, "load_static_autotuner")))
    back = _cubins(setting, "bundler")
    row("first: files put into the graphs", f"{saved}; {made} cubins", saved > 0)
    row("second: files that come out of them", f"{read}; {back} cubins", read > 0 and back > 0)
    row("second: ready for the static launcher", launched, launched > 0)
    row("second: nothing compiled", f"{delta}; {second['report']}",
        delta["compiled"] == 0 and not (second["report"] or {"local": {}})["local"])
    row("same losses", *compare_losses(second, first))


def ranks(setting, row):
    """Eight processes that start at once, none of which finds anything: one compile for each kernel."""
    setting.kilnd.kiln("evict", "--all")
    before = setting.kilnd.stats()
    started = time.monotonic()
    jobs = [setting.start("kernels_job.py", setting.environment(f"ranks-{rank}"), f"ranks-{rank}") for rank in range(PROCESSES)]
    results = [setting.finish(job) for job in jobs]
    delta = setting.kilnd.since(before)
    count = _cubins(setting, "ranks-0")
    row(f"{PROCESSES} processes, {count} kernels", f"{time.monotonic() - started:.1f} s; daemon {delta}", not any(map(_wrong, results)))
    row("one compile for each kernel", delta["compiled"], delta["compiled"] == count)
    local = sum(sum(result["report"]["local"].values()) for result in results)
    row("compiled by the processes themselves", local, local == 0)


def killed(setting, row):
    """The daemon, in the middle of a training."""
    before = setting.kilnd.stats()
    job = setting.start("training_job.py", setting.environment("killed"), "killed", 8, 4)
    try:
        setting.wait_for(job, "paused")
        compiled, had = setting.kilnd.since(before)["compiled"], _cubins(setting, "killed")
        setting.kilnd.kill()
        job.stdin.write("go on\n")
        job.stdin.flush()
        result = setting.finish(job)
    finally:
        setting.kilnd.start()
    row("compiled by the daemon before", compiled, compiled > 0)
    alone = _cubins(setting, "killed") - had
    row("kernels that came after it was gone", alone, alone > 0)
    stock = setting.run("training_job.py", setting.environment("killed-stock", kiln=False), "killed-stock", 8, 4)
    row("training goes on, same losses", *compare_losses(result, stock))
    for line in setting.exit_lines("killed"):
        row("said", line)


def _cubins(setting, cache):
    return len(list((setting.folder / cache / "triton").rglob("*.cubin")))


def absent(setting, row):
    plain = setting.run("kernels_job.py", setting.environment("absent-plain", kiln=False), "absent-plain")
    got = setting.run("kernels_job.py", setting.environment("absent", KILN_ROOT=str(setting.folder / "nowhere")), "absent")
    row("no daemon: right results", f"{_right(got)}; {got['report']}", not _wrong(got))
    waited = got["report"]["seconds_waited"]
    row("seconds to find that out, for all kernels", f"{waited:.3f}, at most {ABSENT_SECONDS_MAX}", waited <= ABSENT_SECONDS_MAX)
    # One process each, on a machine that others may share: what would be noticed is a wait for each kernel.
    row("seconds, stock and with the plug-in", f"{plain['seconds']:.2f}, {got['seconds']:.2f}", got["seconds"] <= 1.5 * plain["seconds"])


def pool(setting, row):
    """Inductor's workers: subprocesses that fork, and forks of the job itself."""
    stock = setting.run("training_job.py", setting.environment("pool-stock", kiln=False), "pool-stock", 3)
    for how in ("subprocess", "fork"):
        before = setting.kilnd.stats()
        name = f"pool-{how}"
        result = setting.run("training_job.py", setting.environment(name, TORCHINDUCTOR_WORKER_START=how, TORCHINDUCTOR_COMPILE_THREADS="8"),
                             name, 3)
        delta, cubins = setting.kilnd.since(before), _cubins(setting, name)
        row(f"{how}: all {cubins} kernels by the daemon", f"{result['seconds']:.2f} s {delta}",
            0 < cubins <= delta["requests"] - delta["errors"] - delta["failed"])
        row(f"{how}: same losses", *compare_losses(result, stock))


def tuning(setting, row):
    """18 configurations of a matmul, with nothing stored; compiled by the daemon side by side."""
    setting.kilnd.kiln("evict", "--all")
    seconds = {}
    for name, kiln in (("stock", False), ("kiln", True), ("again", True)):
        before = setting.kilnd.stats()
        result = setting.run("tuning_job.py", setting.environment(f"tuning-{name}", kiln=kiln), f"tuning-{name}")
        seconds[name] = result["seconds"] - result["measured"]
        delta = setting.kilnd.since(before)
        row(f"{name}: without measuring", f"{seconds[name]:.2f} s; best {result['best']}; daemon {delta}",
            not result["report"]["local"] and delta["compiled"] == (18 if name == "kiln" else 0) if kiln else MEASURED)
    row(f"stock to kiln, {len(os.sched_getaffinity(0))} cores", f"{seconds['stock'] / seconds['kiln']:.1f} times as fast")


def tuned_second(setting, row):
    """The same tuning by Triton's own benchmark. A second process, which has nothing in Triton's cache, measures nothing."""
    setting.kilnd.kiln("evict", "--all")
    # Stock's second process has Triton's files.
    results = {name: setting.run("tuning_job.py", setting.environment(cache, kiln=name in ("first", "second")), f"tuned-{name}", "triton")
               for name, cache in (("cold", "tuned-stock"), ("stock", "tuned-stock"), ("first", "tuned-first"), ("second", "tuned-second"))}
    for name, result in results.items():
        row(f"{name}: runs that were measured", f"{result['runs']} in {result['seconds']:.2f} s; best {result['best']}; {result['report']}",
            (result["runs"] == 0) == (name == "second"))
    row("second: picks what the first one did", results["second"]["best"], results["second"]["best"] == results["first"]["best"])
    ratio = results["second"]["seconds"] / results["stock"]["seconds"]
    setting.report.measure([{"name": "tuned-second", "value": ratio, "goal": 0.2, "better": "lower", "holds": ratio <= 0.2}])


def python(setting, row):
    """kiln.load and CUDA graphs."""
    result = setting.run("python_launch_job.py", setting.environment("python"), "python")
    for what, words, is_ok in result["rows"]:
        row(what, words, is_ok)
    setting.report.measure(result["benchmark"])
