"""One source gives one binary, whichever worker compiles it and however often.

NVIDIA's assembler for Blackwell allocates the registers of tensor-core kernels in an order that depends on addresses, so under
address randomisation it gives one of two cubins. Workers run it without.
"""

import collections
import json

import pytest

# Were each of the two as likely as the other, this many compiles of both kernels would be alike by chance once in 2,000 runs.
COMPILES = 6
KERNELS = ("matmul_128x128x64", "attention_forward")


@pytest.fixture(scope="module")
def answers(daemon, run_with_triton, tmp_path_factory):
    folder = tmp_path_factory.mktemp("steady")
    run_with_triton("lower.py", "--kernels", ",".join(KERNELS), "--targets", "cuda:100", "--strip-locations", "--out", folder)
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
