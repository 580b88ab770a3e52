"""One source gives one binary, whichever worker compiles it and however often.

NVIDIA's assembler for Blackwell allocates the registers of tensor-core kernels in an order that depends on addresses, so under
address randomisation it gives one of two cubins. Workers run it without.
"""

import collections
import contextlib
import json

import pytest

from daemon import Daemon
from places import CUDA, DESCRIPTIONS, TOOLCHAINS

pytestmark = pytest.mark.slow

# Were each of the two as likely as the other, this many compiles of both kernels would be alike by chance once in 2,000 runs.
COMPILES = 6
KERNELS = ("matmul_128x128x64", "attention_forward")


@pytest.fixture(scope="module")
def answers(daemon, run_with_triton, tmp_path_factory):
    folder = tmp_path_factory.mktemp("steady")
    run_with_triton("lower.py", "--kernels", ",".join(KERNELS), "--targets", "cuda:100", "--locations", "none", "--out", folder)
    requests = []
    for line in (folder / "requests.jsonl").read_text().splitlines():
        request = json.loads(line)
        source = (folder / request.pop("source_file")).read_text()
        # A comment more is another key, and not another kernel.
        requests += [{**request, "name": f"{request['name']}#{number}", "source": f"{source}\n// {number}\n"}
                     for number in range(COMPILES)]
    path = folder / "distinct.jsonl"
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    answer = daemon.kiln("compile", "--requests", path, "--emit", "cubin", "-o", folder / "out", "--json")
    assert answer.code == 0, answer
    return [one for one in answer.objects() if "name" in one], folder / "out"


def test_tensor_core_kernels_for_blackwell_have_one_cubin(answers):
    compiled, folder = answers
    assert {one["outcome"] for one in compiled} == {"compiled"}
    assert len({one["key"] for one in compiled}) == COMPILES * len(KERNELS)
    contents = collections.defaultdict(set)
    for entry in json.loads((folder / "index.json").read_text()):
        contents[entry["name"].partition("#")[0]].add((folder / f"{entry['file']}.cubin").read_bytes())
    assert len(contents) == len(KERNELS)
    assert {name: len(different) for name, different in contents.items()} == dict.fromkeys(contents, 1)


CUDA_SOURCE = """#include "tile.h"
__global__ void scale(float* x) { x[threadIdx.x] *= TILE; }
"""
PTX_SOURCE = """.version 8.0
.target sm_80
.address_size 64
.file 1 "kernel.ptx"
.visible .entry scale(.param .u64 p)
{
	.reg .b64 %rd1;
	.reg .f32 %f<3>;
	.loc 1 3 0
	ld.param.u64 %rd1, [p];
	ld.global.f32 %f1, [%rd1];
	add.f32 %f2, %f1, %f1;
	st.global.f32 [%rd1], %f2;
	ret;
}
"""
KINDS = {"cuda": {"target": "cuda:90", "source": CUDA_SOURCE, "headers": {"tile.h": "#define TILE 64"}},
         "ptx": {"target": "cuda:80", "source": PTX_SOURCE}}
STAGES = {"cuda": ["ptx", "cubin"], "ptx": ["cubin"]}


@pytest.fixture(scope="module")
def two_daemons(programs, tmp_path_factory):
    """Their roots have different names, so that no two workers run in the same directory."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Daemon(programs, tmp_path_factory.mktemp(name),
                                          environment={"KILN_TOOLCHAIN_DIRECTORIES": f"{TOOLCHAINS}:{CUDA}"}, descriptions=DESCRIPTIONS))
               for name in ("one", "another-one")]


@pytest.mark.parametrize("options", [{}, {"generate-line-info": True}, {"device-debug": True}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_work_directory_is_not_in_the_binary(two_daemons, tmp_path, kind, options):
    request = {"name": "k", "kind": kind, "options": options, **KINDS[kind]}
    (tmp_path / "requests.jsonl").write_text(json.dumps(request))
    made = []
    for number, daemon in enumerate(two_daemons):
        out = tmp_path / f"out{number}"
        answer = daemon.kiln("compile", "--requests", tmp_path / "requests.jsonl", "--emit", ",".join(STAGES[kind]), "-o", out)
        assert answer.code == 0, answer
        made.append({stage: (out / f"k.{stage}").read_bytes() for stage in STAGES[kind]})
        for stage, content in made[-1].items():
            assert str(daemon.root).encode() not in content, stage
    assert made[0] == made[1]
