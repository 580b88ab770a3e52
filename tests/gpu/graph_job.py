"""Kernels of the graph front end: their results beside PyTorch's, their times beside a copy's and PyTorch's.

    python graph_job.py OUT.json PROGRAMS graph|score ONLY TARGET

PROGRAMS: the folder with emit_cases and run_segments. score: the constants of the fusion score instead. ONLY: a pattern of names, as * and
matmul, of what is looked at. Runs with a daemon. Prints each row as JSON when it is there: {"what", "result",
"ok"}, or what was measured as tests/benchmarks/run --json has it. Writes all of them to OUT.json.
"""

import fnmatch
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import traceback

import torch

import graph_barriers
import graph_cases
import graph_score
import graph_segments
import kiln
from checks.kilnd import Kilnd
from graph_kernels import Kernels

TURNS = 15
SECONDS_OF_A_TURN = 0.004
SLOW_SECONDS = 0.2  # of one launch: it is not measured
COLD_TURNS = 3

out_path, programs, what, only, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:]
# Rows alone go there; whatever PyTorch prints goes to the log.
stream = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
rows = []


def say(row):
    rows.append(row)
    print(json.dumps(row), file=stream, flush=True)


def measured(name, ratios, goal, better, of):
    value = statistics.median(ratios)
    holds = goal is None or (value <= goal if better == "lower" else value >= goal)
    say({"name": name, "value": round(value, 4), "least": round(min(ratios), 4), "most": round(max(ratios), 4), "runs": len(ratios),
         "goal": goal, "better": better, "holds": holds, "of": of})


def seconds_of(call, times):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000 / times


def compare(name, ours, theirs, goal, of):
    """Theirs to ours, in turns. The GPU's clock and its memory are the same for both."""
    for call in (ours, theirs):
        call()
    torch.cuda.synchronize()
    if (alone := seconds_of(ours, 1)) > SLOW_SECONDS:
        say({"what": name, "result": f"one launch takes {alone:.2f} s", "ok": False if goal else None})
        return
    times = {call: max(1, int(SECONDS_OF_A_TURN / seconds_of(call, 3))) for call in (ours, theirs)}
    pairs = [(seconds_of(ours, times[ours]), seconds_of(theirs, times[theirs])) for _ in range(TURNS)]
    us = [1e6 * statistics.median(column) for column in zip(*pairs)]
    measured(name, [other / own for own, other in pairs], goal, "higher", f"{of}: {us[1]:.1f} us, ours takes {us[0]:.1f} us")


def error_of(got, exact):
    """The largest of all rows, each to the largest number that it should have: rows of small numbers count as others."""
    return ((got.double() - exact).abs().amax(-1) / exact.abs().amax(-1).clamp_min(1e-30)).max().item()


def check(what, case, launch):
    """Against the same in 64 bits; PyTorch's own error is the measure."""
    exact = case.compute(*(tensor.double() for tensor in case.inputs.values()))
    theirs = error_of(case.compute(*case.inputs.values()), exact)
    case.output.fill_(float("nan"))
    launch()
    ours = error_of(case.output, exact)
    is_right = ours <= 2 * theirs + 1e-6
    say({"what": f"{what}: largest error of a row", "result": f"{ours:.2e}; PyTorch's is {theirs:.2e}", "ok": is_right})
    return is_right


def triton_alone(text):
    """Seconds that a new process takes to compile Triton IR without Kiln."""
    source = out_path.with_suffix(".ttir")
    source.write_text(text)
    script = ("import sys, triton\nfrom triton.backends.compiler import GPUTarget\n"
              "triton.compile(sys.argv[1], target=GPUTarget('cuda', int(sys.argv[2]), 32))")
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", script, source, target.partition(":")[2]], check=True)
    return time.perf_counter() - begin


def guarded(part):
    try:
        part()
    except Exception:
        say({"what": part.__name__, "result": traceback.format_exc()[-1500:], "ok": False})


def prepared(client, case, compiler):
    """What launches the kernels of a case, or None where they are wrong."""
    what = f"{case.name} by {compiler}"
    try:
        launch = Kernels(programs / "run_segments", target, case, compiler).load(client)
    except (RuntimeError, kiln.KilnError) as error:
        say({"what": what, "result": str(error)[:600], "ok": None if "take another back end" in str(error) else False})
        return None
    return launch if check(what, case, launch) else None


def main():
    client = kiln.Client()

    def cases():
        for row in graph_cases.run(client, programs / "emit_cases", target):
            say(row)

    def first_launch(client, compiler, alpha):
        """Seconds from the text of a kernel that nobody has compiled before to its end on the GPU, and the text."""
        kernels = Kernels(programs / "run_segments", target, graph_segments.chain(1 << 20, alpha=alpha), compiler)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        kernels.load(client)()
        torch.cuda.synchronize()
        return time.perf_counter() - begin, kernels.text

    def cold():
        """By a daemon that has just started, by one whose workers wait, and by Triton alone."""
        folder = out_path.with_suffix(".cold")
        folder.mkdir()
        daemon, turns = Kilnd(programs.parent, folder), []
        for turn in range(COLD_TURNS):
            seconds = {}
            for compiler in ("ptx", "triton"):
                daemon.start()
                try:
                    seconds[compiler, "cold"], _ = first_launch(kiln.Client(root=daemon.root), compiler, 0.11 + turn / 100)
                finally:
                    daemon.stop()
                seconds[compiler, "warm"], text = first_launch(client, compiler, 0.11 + turn / 100)
            seconds["triton", "alone"] = triton_alone(text)
            turns.append(seconds)
        for name, ours, theirs, goal, of in (("", "cold", "cold", 0.1, "by Triton, the daemon just started"),
                                             ("-warm", "warm", "warm", None, "by the daemon's Triton, imported before"),
                                             ("-alone", "warm", "alone", 0.1, "a process that imports Triton and compiles")):
            ptx, triton = (1000 * statistics.median(each[key] for each in turns) for key in (("ptx", ours), ("triton", theirs)))
            measured(f"graph-cold-launch{name}", [each["ptx", ours] / each["triton", theirs] for each in turns], goal, "lower",
                     f"{of}: {triton:.0f} ms, by a PTX template {ptx:.1f} ms")

    def beside_a_copy(name, case, compilers, goal_of):
        (source,) = [tensor for tensor in case.inputs.values() if tensor.shape == case.output.shape]
        into = torch.empty_like(source)
        launches = {compiler: prepared(client, case, compiler) for compiler in compilers}
        for compiler, launch in launches.items():
            if launch:
                compare(f"graph-{name}-{compiler}", launch, lambda: into.copy_(source), goal_of.get(compiler), "a copy of the same bytes")
        return launches

    def chain():
        case = graph_segments.chain()
        launches = beside_a_copy("chain", case, ("ptx", "cuda", "triton"), {"ptx": 0.9})
        compiled = torch.compile(case.compute)
        for compiler, launch in launches.items():
            if launch:
                compare(f"graph-chain-{compiler}-compile", launch, lambda: compiled(case.inputs["x"]), 1.0 if compiler == "ptx" else None,
                        "torch.compile's kernel")

    def softmax():
        beside_a_copy("softmax", graph_segments.softmax(), ("triton", "cuda"), {"triton": 0.9})

    def layer_norm():
        beside_a_copy("layer-norm", graph_segments.layer_norm(), ("triton", "cuda"), {"triton": 0.9})

    def transposed():
        beside_a_copy("transposed", graph_segments.transposed(), ("ptx", "triton"), {})

    def beside_torch(case, goal, of):
        kernels = Kernels(programs / "run_segments", target, case, "triton")
        if "tt.dot" not in kernels.text:
            say({"what": case.name, "result": "no tiles: its products are sums of elements", "ok": False})
            return None
        if launch := prepared(client, case, "triton"):
            compare(f"graph-{case.name}", launch, lambda: case.compute(*case.inputs.values()), goal, of)
        return launch

    def matmul():
        case = graph_segments.matmul(4096)
        launch = beside_torch(case, 0.8, "torch.addmm and gelu")
        a, b, bias = case.inputs.values()
        if launch:
            compare(f"graph-{case.name}-cublas-bias", launch, lambda: torch.addmm(bias, a, b), 0.8, "cuBLAS with bias alone")
            compare(f"graph-{case.name}-cublas", launch, lambda: torch.matmul(a, b), 0.8, "cuBLAS alone")

    def attention_64():
        beside_torch(graph_segments.attention(64), 0.7, "torch's scaled_dot_product_attention")

    def attention_128():
        beside_torch(graph_segments.attention(128), 0.7, "torch's scaled_dot_product_attention")

    def convolution():
        for groups in (1, 8, 32):
            beside_torch(graph_segments.convolution(groups=groups), None, "torch's conv2d")

    def kiln_graph():
        """As an engine has it: each kernel's compiler is chosen, values between kernels are in a workspace."""
        import kiln.graph

        for case in (graph_segments.chain(1 << 20), graph_segments.softmax(64, 1000), graph_segments.matmul(512), graph_segments.attention(64, 512)):
            plan = kiln.graph.Segment.from_json(json.dumps(case.segment)).plan(target, keeps_small_sections=True)
            failed = plan.compile(client)
            say({"what": f"{case.name} by kiln.graph", "result": failed or [kernel.kind for kernel in plan.kernels], "ok": not failed})
            bound = plan.bind(device=0)
            workspace = torch.empty(bound.workspace_bytes({}) + 1, device="cuda", dtype=torch.uint8)
            arrays = {**case.inputs, "y": case.output}
            check(f"{case.name} by kiln.graph", case, lambda: bound.execute(arrays, workspace=workspace))

    def barriers():
        graph_barriers.run(client, target, say, check, compare)

    score = graph_score.Score(client, programs / "run_segments", target, say, measured)
    parts = {"graph": (cold, softmax, layer_norm, matmul, attention_64, attention_128, convolution, chain, transposed, kiln_graph, barriers, cases),
             "score": (score.functions, score.launches, score.jumps, score.spills, score.factors, score.normalizations)}
    for part in parts[what]:
        if fnmatch.fnmatch(part.__name__, only):
            guarded(part)
    out_path.write_text(json.dumps(rows))


if __name__ == "__main__":
    torch.manual_seed(7)
    main()
