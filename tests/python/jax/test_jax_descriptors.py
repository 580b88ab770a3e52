"""Tensor descriptors over arrays of a program, as arguments and over outputs of a call."""

import json
import struct

import pytest

_CALL = "lowered_call(kernels.tiled, described(64, 32), 2.0, ROWS=16, COLUMNS=32, out=described(64, 32), grid=4"


def _parameters(call):
    return [one["type"] for one in _metadata(call)["parameters"]]


def _metadata(call):
    return json.loads(call["metadata"])["metadata"]


@pytest.mark.parametrize("capability", [90, 100])
def test_from_hopper_on_a_descriptor_is_a_tensor_map_with_lengths(jax, capability):
    call = jax.value(f"{_CALL}, capability={capability})")
    described = ["tensordesc<fp16[16, 32]>", "i32", "i32", "i64", "i64"]
    assert _parameters(call) == [*described, "fp32", *described]
    assert call["parameters"] == "d....4d...." and call["target"] == "kiln_launch" and call["results"] == ["tensor<64x32xf16>"]
    assert [one["block_size"] for one in _metadata(call)["tensor_descriptors"]] == [[16, 32]] * 2
    assert call["descriptors"] == struct.pack("<7q", 2, 0, 0, 64, 32, 32, 1).hex() * 2


@pytest.mark.parametrize("more", ["capability=80", "capability='gfx942', platform='rocm'"])
def test_without_tma_a_descriptor_is_pointer_and_lengths(jax, more):
    call = jax.value(f"{_CALL}, {more})")
    described = ["*fp16", *["i64"] * 4, "i1", *["i32"] * 2, *["i64"] * 2]
    assert _parameters(call) == [*described, "fp32", *described]
    assert call["parameters"] == "d.........4d........." and _metadata(call)["tensor_descriptors"] == []


def test_a_descriptor_may_show_a_part_of_its_array_and_read_nan_outside(jax):
    call = jax.value("lowered_call(kernels.gathered, described(64, 64, shape=(50, 40), strides=(64, 1), padding='nan'), ROWS=16, COLUMNS=32, "
                     "out=shape(16, 32, dtype='float16'))")
    assert call["parameters"] == "d....a" and call["descriptors"] == struct.pack("<7q", 2, 1, 0, 50, 40, 64, 1).hex()


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32", "float8_e5m2"])
def test_key_and_ptx_are_those_of_a_pytorch_program(jax, capability, dtype):
    given = f"(64, 32, dtype='{dtype}')"
    got = jax.value(f"as_jax(kernels.tiled, described{given}, 2.0, ROWS=16, COLUMNS=32, out=described{given}, capability={capability})")
    assert got == jax.value(f"as_pytorch(kernels.tiled, described_in_pytorch{given}, 2.0, described_in_pytorch{given}, ROWS=16, COLUMNS=32, "
                            f"capability={capability})")


@pytest.mark.slow
def test_targets_of_jaxlib_do_not_take_them(other_jax):
    with other_jax() as job:
        job.value("use_builtin_targets('triton_kernel_call_ffi', 'triton_kernel_call')")
        for capability in (80, 90):
            assert "it makes no tensor descriptors" in job.error(f"{_CALL}, launch_target='triton_kernel_call', capability={capability})")


_WRONG = {
    "of no dimensions": ("described(base=jnp.float16(1), block=())", "ValueError", "x: rank must not be zero"),
    "of six dimensions": ("described(*[16] * 6, block=(16,) * 6)", "ValueError", "rank cannot be more than 5"),
    "with too few strides": ("described(64, 32, strides=(1,))", "ValueError", "rank mismatch"),
    "with a block of another rank": ("described(64, 32, block=(32,))", "ValueError", "rank mismatch"),
    "with a block that is no power of 2": ("described(64, 32, block=(24, 32))", "ValueError", "must be a power of 2"),
    "with a block of a million elements": ("described(64, 32, block=(2**11, 2**10))", "ValueError", "exceeds triton maximum"),
    "with a block that is no number": ("described(64, 32, block=(16, 'x'))", "TypeError", "x: block_shape: (16, 'x') is no list of whole numbers"),
    "with a stride that is not aligned": ("described(64, 36)", "ValueError", "strides must be 16-byte aligned"),
    "with a last stride": ("described(64, 32, shape=(4, 4), strides=(32, 2))", "ValueError", "Last dimension must be contiguous"),
    "of no length": ("described(64, 32, shape=(0, 32))", "ValueError", "shape must be positive"),
    "that leads out of its array": ("described(64, 32, shape=(65, 32))", "ValueError", "argument 0: a descriptor of shape (65, 32)"),
    "with a negative stride": ("described(64, 32, strides=(-32, 1))", "ValueError", "leads out of its array [64, 32]"),
    "of a type that Triton does not have": ("described(64, 32, dtype='complex64')", "TypeError", "Triton has no type complex64"),
    "of integers padded with NaN": ("described(64, 32, dtype='int32', padding='nan')", "ValueError", "only supported for floating point"),
    "with another padding": ("described(64, 32, padding='one')", "ValueError", "Illegal value for padding"),
    "over no array": ("TensorDescriptor(4, (64, 32), (32, 1), (16, 32))", "TypeError", "over 4, which is no array"),
}


@pytest.mark.parametrize("what", _WRONG)
def test_a_descriptor_is_refused(jax, what):
    given, kind, said = _WRONG[what]
    error = jax.error(f"lowered_call(kernels.gathered, {given}, ROWS=16, COLUMNS=32, out=shape(16, 32, dtype='float16'))")
    assert error.startswith(f"{kind}: gathered: ") and said in error, error


def test_a_descriptor_as_a_metaparameter_is_refused(jax):
    assert "descriptors are given for parameters" in jax.error("call(kernels.gathered, described(64, 32), ROWS=described(64, 32), COLUMNS=32)")


def test_a_descriptor_over_an_output_of_another_type_does_not_alias(jax):
    error = jax.error("lowered_call(kernels.tiled, described(64, 32), 2.0, ROWS=16, COLUMNS=32, input_output_aliases={0: 0}, "
                      "out=described(64, 32, dtype='float32'))")
    assert "array argument 0 is float16[64, 32], output 0 is float32[64, 32]" in error
