"""Triton kernels in JAX through kiln.jax: results against JAX's own, XLA's command buffers, growth; measures a captured call.

    python jax_job.py OUT.json          all of it
    python jax_job.py OUT.json quick    the kernels and a captured program alone
    python jax_job.py OUT.json descriptors    the kernels with tensor maps from the host alone: it ends if one hangs
    python jax_job.py - lower           no GPU: lowers every kernel for cuda:90, and prints what launches it

Runs with the plug-in and a daemon. Writes {"rows": [[what, result, is ok], ...], "benchmark": [rows as tests/benchmarks/run --json has
them, and what they were made of as "raw"]}.
"""

import ctypes
import faulthandler
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np
import triton

import kiln
import kiln.jax
import jax_kernels as kernels
import jax_training_job as training
import launch_kernels

CALLS = 200  # of the captured program
REPLAYS = 1000
PROGRAMS = 1000
ROUNDS = 60
HANGS_SECONDS = 60
COUNTS = ("instantiations", "live", "executions", "captured", "open", "failures")
rows = []


def row(what, result, is_ok="measured"):
    rows.append([what, str(result), is_ok])
    print(what, result, is_ok, file=sys.stderr, flush=True)


def check(what):
    """A row for a function that returns what it has seen, or raises; None where it cannot be looked at here."""

    def run(body):
        try:
            seen = body()
            row(what, seen or "right", None if str(seen).startswith("not run: ") else True)
        except Exception:
            row(what, traceback.format_exc()[-1500:], False)
        return body

    return run


def counts():
    library = ctypes.CDLL(str(pathlib.Path(kiln.__file__).parent / "libkiln_jax.so"))
    out = (ctypes.c_uint64 * 6)()
    library.kiln_jax_counts(out)
    return dict(zip(COUNTS, out))


def since(before):
    now = counts()
    return {name: now[name] - before[name] for name in COUNTS}


def free_bytes():
    """Of the first GPU's memory. Leaves this thread without a context, as it was."""
    driver, context, free, total = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    results = [driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxPushCurrent_v2(context),
               driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), driver.cuCtxPopCurrent_v2(ctypes.byref(context)),
               driver.cuDevicePrimaryCtxRelease_v2(0)]
    assert not any(results), results
    return free.value


def close(got, expected, tolerance=0.0):
    got, expected = jax.tree.leaves(got), jax.tree.leaves(expected)
    assert len(got) == len(expected)
    for one, other in zip(got, expected):
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), rtol=tolerance, atol=tolerance)


def whole(*lengths):
    """Small whole numbers, whose sums are exact."""
    return jnp.asarray(np.random.default_rng(counts()["executions"]).integers(-1000, 1000, lengths).astype(np.float32))


# --- Checks ----------------------------------------------------------------------------------------------------------


def again_and_again(run, *inputs):
    """XLA captures what launches five times or more."""
    for _ in range(6):
        results = run(*inputs)
        inputs = jax.lax.optimization_barrier((inputs, results))[0]
    return results


def every_kernel(names):
    for name in names:
        case = kernels.CASES[name]

        @check(name)
        def _(name=name, case=case):
            if lack := kernels.lacks(name):
                return f"not run: {lack}"
            inputs = case.inputs()
            expected = case.expected(*inputs)
            program = jax.jit(lambda *given: again_and_again(case.run, *given))
            for _ in range(4):  # eager, captured, replayed
                close(program(*inputs), expected, case.tolerance)
            return ""


def descriptors():
    faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True)
    every_kernel(kernels.DESCRIBED)

    @check("tensor maps in a captured program follow arrays that move")
    def _():

        def run(x):
            for _ in range(6):
                x = kernels.double_tiles(x)
            return x

        x = whole(100, 72)
        program = jax.jit(run).lower(x).compile()
        replay(program, x)
        others = [x + number for number in range(40)]
        for number, other in enumerate(others * 2):
            assert jnp.array_equal(program(other), 64 * other), number
        return ""


def chain(x, y, calls=CALLS, **more):
    for _ in range(calls):
        x = kernels.add(x, y, **more)
    return x


_tuned_add = triton.autotune([triton.Config({"BLOCK": block}, num_warps=4) for block in (256, 512, 1024)], key=["n"])(kernels.add_)


def tuned_add(x, y):
    return kernels.call(x, y, x.size, kernel=_tuned_add, out_shape=kernels.shape(x.size), grid=lambda meta: (triton.cdiv(4096, meta["BLOCK"]),))


def mixed_chain(x, y):
    for number in range(CALLS):
        x = tuned_add(x, y) if number % 4 == 0 else kernels.add(x, y)
    return x


def replay(program, *arguments):
    """Until XLA has a graph for each set of buffers: four runs one after the other add none. How many runs it took."""
    replayed = 0
    for number in range(40):
        before = counts()["executions"]
        jax.block_until_ready(program(*arguments))
        replayed = replayed + 1 if counts()["executions"] == before else 0
        if replayed == 4:
            return number - 3
    raise AssertionError("XLA never replays it")


def captured():
    _captured(chain, f"a program of {CALLS} calls: eager, then traced, then replayed")
    _captured(mixed_chain, f"a program of {CALLS} calls, every fourth of an autotuned kernel: eager, then traced, then replayed", tuned_add)

    @check(f"{REPLAYS} replays with new inputs")
    def _():
        y = whole(4096)
        program = jax.jit(lambda x, y: chain(x, y, 20)).lower(y, y).compile()
        replay(program, y, y)
        before = counts()
        for number in range(REPLAYS):
            x = y * 2 + number
            assert jnp.array_equal(program(x, y), x + 20 * y), number
        return f"right each time; {since(before)['executions']} executions besides"

    @check("zeroed results, aliases and scratch memory in one captured program")
    def _():

        def run(x, y):
            for _ in range(4):
                x = kernels.add_in_place(kernels.accumulate(y), x)
                x = kernels.descriptor_add(x.reshape(64, 64), y.reshape(64, 64)).reshape(4096)
            return x

        x, y = whole(4096), whole(4096)
        program = jax.jit(run).lower(x, y).compile()
        replay(program, x, y)
        for number in range(20):
            close(program(x + number, y), x + number + 8 * y)
        return ""


def _captured(run, what, tuned=None):
    """run: adds y CALLS times. tuned: what is tuned ahead of the program."""

    @check(what)
    def _():
        x, y = whole(4096), whole(4096)
        if tuned is not None:
            kiln.jax.tune(tuned, x, y)
        lowered = jax.jit(run).lower(x, y)
        assert tuned is None or "; tuned" in kiln.jax.explain(lowered), kiln.jax.explain(lowered)
        program = lowered.compile()
        expected = x + CALLS * y
        seen = []
        for _ in range(2):
            before = counts()
            close(program(x, y), expected)
            seen.append(since(before))
        runs = replay(program, x, y)
        before = counts()
        for _ in range(20):
            close(program(x, y), expected)
        again = since(before)
        assert seen[0]["executions"] == CALLS and seen[0]["captured"] == 0, seen
        assert seen[1]["executions"] == seen[1]["captured"] == CALLS, seen
        assert again["executions"] == 0, again
        return f"run 1: {CALLS} executions, run 2: {CALLS} captured, from run {3 + runs} on: none"


def tuned_ahead():

    @check("18 configurations are tuned ahead on copies, and the fastest is captured")
    def _():
        configurations = [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}, num_warps=warps, num_stages=stages)
                          for m, n, warps in launch_kernels.TILES for k, stages in launch_kernels.DEPTHS]
        tuned = triton.autotune(configurations, key=["m", "n", "k"])(kernels.matmul_)

        def run(a, b):
            for _ in range(6):
                a = kernels.call(a, b, 512, 512, 512, 512, 512, 512, kernel=tuned, out_shape=a,
                                 grid=lambda meta: (triton.cdiv(512, meta["BLOCK_M"]) * triton.cdiv(512, meta["BLOCK_N"]),))
            return a

        a, b = kernels.random(512, 512), jnp.eye(512, dtype=jnp.float16)
        kept = np.asarray(a)
        tuning, = kiln.jax.tune(run, a, b)
        assert len(configurations) == 18 and len(tuning.times) > 1, tuning
        assert np.array_equal(np.asarray(a), kept)
        lowered = jax.jit(run).lower(a, b)
        said = set(kiln.jax.explain(lowered).splitlines())
        assert len(said) == 1 and tuning.times[0][0] in next(iter(said)) and "; tuned" in next(iter(said)), (said, tuning)
        program = lowered.compile()
        replay(program, a, b)
        close(program(a, b), a)
        return tuning


def engine_operations(engine):
    """A function of its Triton kernels: a permutation of tokens, its inverse with merging, the gradients of that, and a sort of chunks."""
    tokens, experts, hidden, chunks = 256, 4, 320, 8

    def run(x, routing, probabilities, order):
        sizes = tokens, experts, 2 * tokens, hidden
        rows = engine.make_row_id_map(routing, tokens, experts)
        moved, weights = engine.permute_with_mask_map(x, rows, probabilities, *sizes)
        merged, _ = engine.unpermute_with_mask_map(moved, rows, probabilities, weights, tokens, experts, hidden)
        gradients = engine.unpermute_bwd_with_merging_probs(x, rows, moved, probabilities, *sizes)
        to = engine.make_chunk_sort_map(jnp.full(chunks, tokens // chunks, jnp.int32), order, tokens, chunks)
        return rows, moved, weights, merged, gradients, engine.sort_chunks_by_map(x, to, None, tokens, hidden, True)

    numbers = np.random.default_rng(1)
    routing = jnp.asarray(numbers.permuted(np.tile(np.int32([0, 0, 1, 1]), (tokens, 1)), axis=1))
    small = [jnp.asarray(numbers.integers(-8, 8, (tokens, length)).astype(np.float32)) for length in (hidden, experts)]
    return run, (small[0], routing, small[1], jnp.asarray(numbers.permutation(chunks).astype(np.int32)))


def transformer_engine():
    try:
        from transformer_engine.jax.triton_extensions import permutation
    except ImportError:
        permutation = None

    @check("Transformer Engine's own Triton kernels, with and without kiln.jax")
    def _():
        if permutation is None:
            return "not run: no Transformer Engine here"
        run, given = engine_operations(permutation)
        expected = jax.jit(run)(*given)
        kiln.jax.use_for("transformer_engine")
        tuned = kiln.jax.tune(run, *given)
        program = jax.jit(run).lower(*given).compile()
        for _ in range(4):
            close(program(*given), expected)
        return f"{len(tuned)} kernels are tuned"

    if permutation is None:
        stand_in_engine()


def stand_in_engine():

    @check("a kernel that is called as Transformer Engine does is tuned, and captured")
    def _():
        sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "testing" / "jobs"))
        import transformer_engine_stand_in as engine
        kiln.jax.use_for("transformer_engine")
        move = engine.primitive("tuned_chunks", grid=lambda meta: (64, triton.cdiv(meta["hidden"], meta["BLOCK"])))

        def run(x, rows):
            for _ in range(6):
                x = move(x, rows)
            return x

        x, rows = whole(64, 256), jnp.arange(64, dtype=jnp.int32)[::-1]
        tuning, = kiln.jax.tune(move, x, rows)
        close(move(x, rows), x[::-1])
        lowered = jax.jit(run).lower(x, rows)
        assert "; tuned" in kiln.jax.explain(lowered), kiln.jax.explain(lowered)
        program = lowered.compile()
        replay(program, x, rows)
        close(program(x, rows), x)
        return tuning


def control_flow():
    x, y = whole(4096), whole(4096)
    programs = {
        "scan": (lambda x, y: jax.lax.scan(lambda kept, _: (kernels.add(kept, y), None), x, None, length=10)[0], x + 10 * y),
        "while": (lambda x, y: jax.lax.while_loop(lambda kept: kept[0] < 7, lambda kept: (kept[0] + 1, kernels.add(kept[1], y)), (0, x))[1],
                  x + 7 * y),
        "cond": (lambda x, y: jax.lax.cond(x[0] > -2000, lambda: kernels.add(x, y), lambda: x), x + y),
        "donated": (lambda x, y: kernels.add_in_place(y, x), x + y),
    }
    for name, (run, expected) in programs.items():

        @check(f"under {name}" if name != "donated" else "a donated argument")
        def _(name=name, run=run, expected=expected):
            program = jax.jit(run, donate_argnums=(0,) if name == "donated" else ())
            for _ in range(4):
                close(program(x + 0, y), expected)
            return ""

    @check("compiled ahead, serialized and loaded again")
    def _():
        from jax.experimental import serialize_executable
        compiled = jax.jit(lambda x, y: chain(x, y, 8)).lower(x, y).compile()
        loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled), execution_devices=jax.devices()[:1])
        for _ in range(3):
            close(loaded(x, y), x + 8 * y)
        return ""


def references():

    @check("a jax.Ref, made within a captured program and given to it")
    def _():
        x, y = whole(4096), whole(4096)

        def run(x, y, given):
            made = jax.new_ref(x)
            for _ in range(8):
                kernels.add_to(y, made)
                kernels.add_to(y, given)
            return made[...]

        program, given = jax.jit(run), jax.new_ref(x * 0)
        for number in range(1, 13):
            close(program(x + number, y, given), x + number + 8 * y)
            close(given[...], number * 8 * y)
        return ""


EXPORTED = """
import pathlib, sys
import jax, jax.export, jax.numpy as jnp
import kiln.jax
kiln.jax.register("cuda")
program = jax.export.deserialize(bytearray(pathlib.Path(sys.argv[1]).read_bytes()))
x, y = jnp.arange(4096, dtype=jnp.float32), jnp.ones(4096, jnp.float32)
for _ in range(4):
    assert jnp.array_equal(program.call(x, y), x + 8 * y)
"""


def exported():

    @check("exported, and run in a process that has no kernel's source")
    def _():
        import jax.export
        x = whole(4096)
        program = jax.export.export(jax.jit(lambda x, y: chain(x, y, 8)), platforms=["cuda"],
                                    disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("kiln_launch")])(x, x)
        with tempfile.NamedTemporaryFile() as file:
            file.write(program.serialize())
            file.flush()
            ran = subprocess.run([sys.executable, "-c", EXPORTED, file.name], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr[-1500:]
        return ""


def targets_of_jaxlib():
    for target in ("triton_kernel_call_ffi", "triton_kernel_call"):

        @check(f"launched by {target} of jaxlib")
        def _(target=target):
            x, y = whole(4096), whole(4096)
            lowered = jax.jit(lambda x, y: chain(x, y, 8, launch_target=target)).lower(x, y)
            assert f": {target}: " in kiln.jax.explain(lowered), kiln.jax.explain(lowered)
            program = lowered.compile()
            before = counts()["executions"]
            for _ in range(4):
                close(program(x, y), x + 8 * y)
            assert counts()["executions"] == before
            return ""


def cooperative():

    @check("a cooperative grid that does not fit is refused")
    def _():
        x = whole(1024 * 100_000)
        try:
            jax.block_until_ready(jax.jit(lambda x: kernels.sums_of_next(x, 100_000))(x))
        except jax.errors.JaxRuntimeError as error:
            assert "cooperative" in str(error).lower(), error
            return str(error)[:300]
        raise AssertionError("it ran")


def attention():

    @check("flash attention, forward and backward by custom_vjp, with remat")
    def _():
        q, k, v, dout = (kernels.random(6, 400, 64) for _ in range(4))

        def gradients(run):
            return jax.jit(lambda *given: jax.vjp(run, *given)[1](dout))

        program = gradients(jax.checkpoint(kernels.flash_attention))
        expected = kernels._plain_gradients(q, k, v, dout)
        for _ in range(3):
            close(program(q, k, v), expected, 2e-2)
        close(jax.jit(kernels.flash_attention)(q, k, v), kernels.plain_attention(q, k, v)[0], 1e-2)
        return ""


def sharing():

    @check("two programs with one kernel load it once on a GPU")
    def _():
        jax.clear_caches()
        x, y = whole(4096), whole(4096)
        before = kiln.runtime().stats()
        programs = [jax.jit(lambda x, y, n=n: n * kernels.add(x, y, BLOCK=2048, num_warps=2)).lower(x, y).compile() for n in (2, 3)]
        for number, program in zip((2, 3), programs):
            close(program(x, y), number * (x + y))
        after = kiln.runtime().stats()
        # XLA may instantiate a program under another GPU's context than it runs on.
        assert 1 <= after.loads - before.loads <= min(2, jax.local_device_count()) and after.loads_at_launch == before.loads_at_launch, (before, after)
        return ""

    @check(f"nothing grows over {PROGRAMS} programs")
    def _():
        x, y = whole(4096), whole(4096)

        def some(count):
            for _ in range(count):
                jax.block_until_ready(jax.jit(lambda x, y: kernels.add(x, y))(x, y))
                jax.clear_caches()

        some(20)
        gc.collect()
        before, free = counts(), free_bytes()
        some(PROGRAMS)
        gc.collect()
        grown, taken = since(before), free - free_bytes()
        assert grown["live"] <= 0 and grown["open"] <= 0, grown
        assert taken < 32 << 20, taken
        return f"{grown['instantiations']} instantiations; {taken / 2**20:.1f} MiB of the GPU's memory"


def several_gpus():

    @check("several GPUs under shard_map")
    def _():
        devices = jax.devices()
        if len(devices) < 2:
            return "not run: there is one GPU"
        mesh = jax.sharding.Mesh(np.array(devices), ("x",))
        spec = jax.sharding.PartitionSpec("x")
        run = jax.jit(jax.shard_map(lambda x, y: chain(x, y, 8), mesh=mesh, in_specs=(spec, spec), out_specs=spec))
        x, y = whole(4096 * len(devices)), whole(4096 * len(devices))
        for _ in range(4):
            close(run(x, y), x + 8 * y)
        return f"{len(devices)} GPUs"


# --- Numbers ---------------------------------------------------------------------------------------------------------


def measured(name, pairs, goal, of):
    """A row: the median of the ratios."""
    value = statistics.median(ours / other for ours, other in pairs)
    return {"name": name, "value": value, "goal": goal, "better": "lower", "of": of, "holds": value <= goal, "raw": pairs}


def benchmark():
    x, y = whole(4096), whole(4096)

    def fused(x, y):
        for _ in range(CALLS):
            x = jax.lax.optimization_barrier(x + y)
        return x

    targets = {"kiln": lambda x, y: chain(x, y), "xla": fused,
               "jaxlib": lambda x, y: chain(x, y, launch_target="triton_kernel_call_ffi")}
    programs = {}
    for name, run in targets.items():
        try:
            program = jax.jit(run).lower(x, y).compile()
            for _ in range(20):
                close(program(x, y), x + CALLS * y)
            programs[name] = program
        except Exception:
            row(f"a captured program by {name}", f"not run: {traceback.format_exc()[-1500:]}", None if name == "jaxlib" else False)
    rounds = []
    for _ in range(ROUNDS):
        seconds = {}
        for name, program in programs.items():
            begin = time.perf_counter()
            for _ in range(5):
                jax.block_until_ready(program(x, y))
            seconds[name] = (time.perf_counter() - begin) / 5
        rounds.append(seconds)
    for name in programs:
        row(f"a call in a captured program of {CALLS}, by {name}", f"{1e6 * statistics.median(one[name] for one in rounds) / CALLS:.2f} µs")
    results = []
    if "jaxlib" in programs:
        results.append(measured("jax-call", [(one["kiln"], one["jaxlib"]) for one in rounds], 0.5, "triton_kernel_call_ffi"))
    return [*results, measured("jax-call-fused", [(one["kiln"], one["xla"]) for one in rounds], 1.25, "XLA's own fused add")]


def lower():
    """Raises where a kernel's call is wrong."""
    from kiln.jax import explain
    kernels.capability = 90
    assert set(kernels.INSTANCES) <= set(kernels.CASES)
    programs = {**{name: (case.run, jax.eval_shape(case.inputs)) for name, case in kernels.CASES.items()},
                "attention gradients": (lambda *given: jax.vjp(kernels.flash_attention, *given)[1](given[0]),
                                        (kernels.shape(6, 400, 64, dtype=jnp.float16),) * 3),
                "a captured program": (mixed_chain, (kernels.shape(4096),) * 2),
                "a step of training": (training.step_with(kernels.flash_attention), jax.eval_shape(training.start))}
    for name, (run, inputs) in programs.items():
        print(name, "|", explain(jax.jit(run).trace(*inputs).lower(lowering_platforms=("cuda",))))


def main():
    out, *rest = sys.argv[1:]
    if rest == ["lower"]:
        return lower()
    row("JAX", f"{jax.__version__} on {jax.devices()[0].device_kind}")

    @check("launched by Kiln's own target")
    def _():
        from kiln.jax import explain
        said = explain(jax.jit(kernels.add).lower(*kernels.CASES["vector_add"].inputs()))
        assert ": kiln_launch: " in said, said
        return said

    results = []
    if rest == ["descriptors"]:
        descriptors()
    else:
        every_kernel([name for name in kernels.CASES if name not in kernels.DESCRIBED])
        captured()
    if not rest:
        for part in (tuned_ahead, transformer_engine, control_flow, references, exported, targets_of_jaxlib, cooperative, attention, sharing, several_gpus):
            part()
        try:
            results = benchmark()
        except Exception:
            row("measurements", traceback.format_exc()[-1500:], False)
    row("handler", counts())
    pathlib.Path(out).write_text(json.dumps({"rows": rows, "benchmark": results}))


if __name__ == "__main__":
    main()
