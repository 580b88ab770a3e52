"""The part that checks kiln.jax with this Python's JAX and Triton."""

import statistics
import traceback

PROCESSES = 8
ROUNDS = 3
KERNELS = 100
LOSS_TOLERANCE = 2e-2  # the kernels round to 16 bits what JAX's own attention keeps in 32


def jax(setting, row):
    environment = setting.environment("jax", KILN_JAX_TUNE="")
    result = setting.run("jax_job.py", environment, "jax")
    for what, seen, is_ok in result["rows"]:
        row(what, seen, is_ok)
    setting.report.measure(result["benchmark"])
    jobs = [setting.start("jax_job.py", setting.environment(f"jax-{number}"), f"jax-{number}", "quick") for number in range(PROCESSES)]
    wrong = [one for job in jobs for one in setting.finish(job)["rows"] if one[2] is False]
    row(f"{PROCESSES} processes at once", wrong or "all right", not wrong)
    for check in (_descriptors, _train, _lower, _tune):
        try:
            check(setting, row)
        except Exception:
            row(check.__name__, f"stopped early: {traceback.format_exc()[-3000:]}", False)


def _descriptors(setting, row):
    """In a process of its own, which a kernel that hangs ends."""
    for what, seen, is_ok in setting.run("jax_job.py", setting.environment("jax-descriptors"), "jax-descriptors", "descriptors")["rows"]:
        row(f"descriptors: {what}", seen, is_ok)


def _train(setting, row):
    """The same training four times: losses do not depend on who compiles a kernel, and are those of the same kernels by jax-triton and of
    JAX's own operations."""
    environments = {"daemon": ("kiln", setting.environment("jax-training")),
                    "alone": ("kiln", setting.environment("jax-training-alone", KILN_ROOT=str(setting.folder / "no-daemon"))),
                    "plain": ("plain", setting.environment("jax-training-plain", kiln=False)),
                    "jax-triton": ("jax_triton", setting.environment("jax-training-jax-triton", kiln=False))}
    seen = {name: setting.run("jax_training_job.py", environment, f"jax-training-{name}", attention)
            for name, (attention, environment) in environments.items()}
    losses = {name: one["losses"] for name, one in seen.items()}
    first, *_, last = losses["daemon"]
    row("a training's losses", f"from {first:.3f} to {last:.3f}", last < 0.5 * first)
    local = {name: sum(seen[name]["report"]["local"].values()) for name in ("daemon", "alone")}
    row("they are the same without a daemon, to the bit", f"{len(losses['alone'])} steps; compiled in the process: {local}",
        losses["alone"] == losses["daemon"] and local["daemon"] == 0 < local["alone"])
    for name, what in (("plain", "JAX's own attention"), ("jax-triton", "jax-triton and the same kernels")):
        apart = max(abs(ours - theirs) for ours, theirs in zip(losses["daemon"], losses[name]))
        row(f"they are those without Kiln, by {what}", f"at most {apart:.1e} apart, {LOSS_TOLERANCE} is allowed",
            apart <= LOSS_TOLERANCE and seen[name]["report"] is None)


def _lower(setting, row):
    """Beside jax-triton, which the bundle brings. It keeps no files: it is cold in each process, and warm where a process lowers again."""

    def run(name, *by, **environment):
        capability = setting.target.partition(":")[2]
        return setting.run("jax_compile_job.py", setting.environment(name, **environment), f"jax-{name}", "lower", capability, KERNELS, *by)

    run("lower-first")  # fills the daemon
    rounds = [(run(f"lower-warm-{number}"), run(f"lower-jax-triton-{number}", "jax_triton", kiln=False)) for number in range(ROUNDS)]
    ours, theirs = ({what: statistics.median(one[what] for one in column) for what in ("seconds", "again")} for column in zip(*rounds))
    asked = [warm["report"] for warm, _ in rounds]
    row(f"lowering a program of {KERNELS} distinct kernels", f"by jax-triton {theirs['seconds']:.2f} s, again in the process {theirs['again']:.4f} s; "
        f"{ours['seconds']:.3f} s and {ours['again']:.4f} s with a warm daemon, TRITON_CACHE_MANAGER and no files: {asked[0]['hits']}",
        not any(one["compiled"] or one["local"] for one in asked))
    setting.report.measure([_measured("jax-lower-cold", ours["seconds"] / theirs["seconds"], 0.1, "jax-triton in a new process"),
                            _measured("jax-lower-again", ours["again"] / theirs["again"], 0.5, "jax-triton once more in a process")])


def _tune(setting, row):
    """Beside Triton's own compiles, one configuration after the other, as a tuner without Kiln has them."""
    rounds = []
    for number in range(ROUNDS):
        together, serial = (setting.run("jax_compile_job.py", setting.environment(f"{name}-{number}", **environment), f"jax-{name}-{number}", "tune",
                                        5 + number)
                            for name, environment in (("tune", {}), ("tune-serial", {"kiln": False, "KILN_MODE": "off"})))
        rounds.append((together["seconds"], serial["seconds"], serial["longest"]))
    bound = statistics.median(longest / ours for ours, _, longest in rounds)
    ours, serial, longest = (statistics.median(column) for column in zip(*rounds))
    row("compiling 18 configurations for kiln.jax.tune", f"{ours:.2f} s; one after the other by Triton itself "
        f"(kiln.jax with KILN_MODE=off) {serial:.2f} s, the longest alone {longest:.2f} s")
    setting.report.measure([_measured("jax-tune", bound, 0.9, "the bound that the longest compile sets", "higher")])


def _measured(name, value, goal, of, better="lower"):
    holds = value <= goal if better == "lower" else value >= goal
    return {"name": name, "value": value, "goal": goal, "better": better, "of": of, "holds": holds}
