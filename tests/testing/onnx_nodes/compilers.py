"""Runs segments by the interpreter of LoopPrograms, and by each compiler's kernels. Each function takes CaseSegments and gives, for each, the
outputs as bytes by name, or a text: why it has none."""

import ctypes
import functools
import json
import re
import subprocess

import kiln
import opencl
from places import BINARIES
from random_segments.triton_kernels import memory_of, run_triton

_SEGMENTS_OF_ONE_BUILD = 100


def _answers(back_end, segments):
    lines = "".join(json.dumps(segment.request()) + "\n" for segment in segments)
    done = subprocess.run([BINARIES / "run_segments", back_end], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _outputs(answer):
    if "error" in answer:
        return answer["error"]
    return {name: bytes.fromhex(content) for name, content in answer["buffers"].items()}


def interpreter(segments, folder):
    return [_outputs(answer) for answer in _answers("interpreter", segments)]


def cuda(segments, folder):
    """CUDA C++, compiled for the host."""
    results = []
    for start in range(0, len(segments), _SEGMENTS_OF_ONE_BUILD):
        results += map(_outputs, _answers("host", segments[start : start + _SEGMENTS_OF_ONE_BUILD]))
    return results


def _by_kernels(back_end, run, segments, folder):
    answers = _answers(back_end, segments)
    emitted = [(segment, answer) for segment, answer in zip(segments, answers, strict=True) if "error" not in answer]
    results = iter(run([segment for segment, _ in emitted], [answer for _, answer in emitted], folder))
    return [answer["error"] if "error" in answer else next(results) for answer in answers]


def triton(segments, folder):
    """Triton IR, by the interpreter on NumPy, after real Triton has parsed and verified it."""
    return _by_kernels("triton", run_triton, segments, folder)


def spirv(segments, folder, options=""):
    """OpenCL C through clang and the translator to SPIR-V, by Intel's runtime on this CPU, which takes `options`."""
    return _by_kernels("opencl", functools.partial(_run_opencl, options), segments, folder)


def _run_opencl(options, segments, answers, folder):
    opencl.register()
    device = opencl.OpenCl(kiln.Runtime(backend="spirv").context(0))
    results = []
    for start in range(0, len(segments), _SEGMENTS_OF_ONE_BUILD):
        some = slice(start, start + _SEGMENTS_OF_ONE_BUILD)
        program = device.program(opencl.spirv(_one_source(answers[some]), folder), options)
        for number, (segment, answer) in enumerate(zip(segments[some], answers[some], strict=True)):
            results.append(_launched(device, program, number, segment, answer))
    device.close()
    return results


def _one_source(answers):
    """Each kernel with functions of its own. Types may be defined once in C99."""
    texts = []
    for number, answer in enumerate(answers):
        texts += [_own(number, place, kernel["text"]) for place, kernel in enumerate(answer["kernels"])]
    source = "\n".join(texts)
    typedefs = dict.fromkeys(re.findall(r"^typedef .*\n", source, flags=re.MULTILINE))
    return "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" + "".join(typedefs) + re.sub(r"^typedef .*\n", "", source, flags=re.MULTILINE)


def _own(number, place, text):
    return re.sub(r"\bkiln_", f"own{number}_{place}_", text.replace("segment0_", f"segment{number}_"))


def _launched(device, program, number, segment, answer):
    # One byte more, since an array of OpenCL is not empty.
    memory = {name: device.array(ctypes.c_char, content.tobytes() + b"\0") for name, content in memory_of(segment, answer).items()}
    for kernel in answer["kernels"]:
        if 0 not in kernel["grid"]:
            entry = kernel["entry"].replace("segment0_", f"segment{number}_")
            arrays = [memory[name] for name in kernel["buffers"]]
            device.launch(program, entry, kernel["grid"], kernel["threads"], arrays, [size for _, size in segment.symbols])
            device.finish()
    return {output.name: bytes(memory[output.name])[:-1] for output in segment.with_role("output")}


COMPILERS = {"interpreter": interpreter, "cuda": cuda, "triton": triton, "opencl": spirv}
