"""Entry at a later stage: a kernel's TTGIR, as the daemon gave it, compiles to what its TTIR compiles to."""

import json

import pytest

pytestmark = pytest.mark.shared_daemon

STAGES = {"cuda:90": ("llir", "ptx", "cubin"), "hip:gfx942": ("llir", "amdgcn", "hsaco")}


@pytest.fixture(scope="module")
def compiled(daemon, run_with_triton, tmp_path_factory):
    """The folder with every stage of a kernel, compiled from TTIR with 8 warps for each target."""
    folder = tmp_path_factory.mktemp("ttgir")
    run_with_triton("lower.py", "--kernels", "softmax", "--targets", ",".join(STAGES), "--out", folder)
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    for line in lines:
        line["options"] = {"num_warps": 8}
    (folder / "eight.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    stages = sorted({stage for each in STAGES.values() for stage in each} | {"ttgir"})
    answer = daemon.kiln("compile", "--requests", folder / "eight.jsonl", "--emit", ",".join(stages), "-o", folder / "out")
    assert answer.code == 0, answer
    return folder / "out"


def find(folder, target, stage):
    (found,) = folder.glob(f"*{target.replace(':', '-')}*.{stage}")
    return found


@pytest.mark.parametrize("target", STAGES)
def test_the_same_code_as_from_ttir(daemon, compiled, target, tmp_path):
    source = find(compiled, target, "ttgir")
    answer = daemon.kiln("compile", source, "--target", target, "--emit", ",".join(STAGES[target]), "-o", tmp_path)
    assert answer.code == 0, answer
    assembly = STAGES[target][1]
    (made,) = tmp_path.glob(f"*.{assembly}")
    assert made.read_bytes() == find(compiled, target, assembly).read_bytes()
    (told,) = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    # What the module says of its launch needs no option.
    assert told["metadata"]["num_warps"] == 8
    assert [stage["stage"] for stage in told["stages"]] == list(STAGES[target])


def test_a_ttgir_is_for_the_target_and_the_launch_that_it_was_made_for(daemon, compiled):
    source = find(compiled, "cuda:90", "ttgir")

    def refused(*arguments):
        (one, _) = daemon.kiln("compile", source, "--json", *arguments).objects()
        assert one["code"] == "INVALID_ARGUMENT", one
        return one["error"]

    assert "made for cuda:90" in refused("--target", "cuda:80")
    assert "made with 8" in refused("--target", "cuda:90", "--option", "num_warps=2")
    assert "its kind is ttgir" in refused("--target", "cuda:90", "--kind", "ttir")
    assert "from ttgir it has llir, ptx, cubin" in refused("--target", "cuda:90", "--emit", "ttgir")


@pytest.mark.parametrize("blocks", [-1, 2_000_000])
def test_an_impossible_module_is_refused(daemon, tmp_path, blocks):
    source = tmp_path / "kernel.ttgir"
    source.write_text(f"""module attributes {{"ttg.num-ctas" = {blocks} : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @k(%x: !tt.ptr<i32>) {{
    %c = arith.constant 1 : i32
    tt.store %x, %c : !tt.ptr<i32>
    tt.return
  }}
}}
""")
    one, *_ = daemon.kiln("compile", source, "--target", "cuda:90", "--json").objects()
    assert one["code"] == "INVALID_ARGUMENT" and str(blocks) in one["error"], one


def test_ttir_is_no_ttgir(daemon, tmp_path):
    source = tmp_path / "kernel.ttir"
    source.write_text("module { tt.func public @k() { tt.return } }")
    (one, _) = daemon.kiln("compile", source, "--kind", "ttgir", "--target", "cuda:90", "--json").objects()
    assert "is its kind ttir?" in one["error"]
