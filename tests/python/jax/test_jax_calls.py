"""The custom calls that kiln.jax puts into programs for GPUs."""

import json

import pytest


def test_a_call_becomes_one_custom_call_with_every_attribute(jax):
    call = jax.value("lowered_call(kernels.add, X, X, n=200, BLOCK=128, grid=(2, 3))")
    assert call["target"] == "kiln_launch" and call["name"] == "add" and call["binary"].startswith("7f454c46")
    assert (call["grid_x"], call["grid_y"], call["grid_z"]) == (2, 3, 1)
    assert (call["parameters"], call["scalars"], call["zeroed"]) == ("aaa4", (200).to_bytes(4, "little").hex(), "0")
    assert (call["global_scratch"], call["profile_scratch"]) == (-1, -1) and call["results"] == ["tensor<256xf32>"]


def test_values_may_stand_anywhere_and_are_packed_in_the_order_of_the_parameters(jax):
    call = jax.value("lowered_call(kernels.scale, X, 77, 0.5, BLOCK=64)")
    assert call["parameters"] == "a44a" and call["scalars"] == (77).to_bytes(4, "little").hex() + "0000003f"


@pytest.mark.parametrize("given", [
    "x=X, n=77, factor=0.5, BLOCK=64, num_warps=8",
    "factor=0.5, n=77, x=X, BLOCK=64, backend_options={'num_warps': 8}",
    "backend_options=dict(num_warps=8), n=77, x=X, factor=0.5, BLOCK=64, cost_estimate={'flops': 256}",
])
def test_arguments_and_options_may_be_given_by_name(jax, given):
    by_place = jax.value("calls(lambda x: call(kernels.scale, x, 77, 0.5, BLOCK=64, num_warps=8), X)")
    assert jax.value(f"calls(lambda X: call(kernels.scale, {given}), X)") == by_place


def test_an_argument_by_name_stands_between_those_by_place(jax):
    by_place = jax.value("calls(lambda x, y: call(kernels.add, x, y, n=200, BLOCK=128), X, X)")
    assert jax.value("calls(lambda x, y: call(kernels.add, y, x=x, n=200, BLOCK=128), X, X)") == by_place


@pytest.mark.parametrize("program", [
    "lambda x: (call(kernels.copy, x, BLOCK=256, has_side_effect={}), x)[1]",
    "lambda x: (call(kernels.accumulate, x, x, 256, BLOCK=256, out=(), has_side_effect={}), x)[1]",
    "lambda x: jax.lax.scan(lambda kept, _: (call(kernels.copy, x, BLOCK=256, has_side_effect={}), (kept, None))[1], x, None, length=3)[0]",
])
def test_a_call_that_nobody_uses_stays_where_it_has_a_side_effect(jax, program):
    assert [len(jax.value(f"calls({program.format(is_kept)}, X)")) for is_kept in (True, False)] == [1, 0]
    assert "has_side_effect = true" in jax.value(f"lower({program.format(True)}, X).as_text()")


def test_a_reference_is_an_operand_that_shares_its_buffer(jax):
    program = "calls(lambda x: (lambda held: (call(kernels.accumulate, x, held, 256, BLOCK=256, out=()), held[...]))(jax.new_ref(x * 2)), X)"
    call, = jax.value(program)
    assert (call["parameters"], call["aliases"], call["results"]) == ("aa4", {"1": 0}, ["tensor<256xf32>"])


@pytest.mark.parametrize("given, packed", [
    ("77", "4d000000"), ("np.int64(77)", "4d000000"), ("np.uint8(77)", "4d000000"), ("-5", "fbffffff"), ("2**31", "0000008000000000"),
    ("2**63", "0000000000000080"), ("2**64 - 1", "ff" * 8), ("-2**63", "0000000000000080"), ("True", "01"), ("np.bool_(False)", "00")
])
def test_integers_have_the_types_that_triton_gives_pythons(jax, given, packed):
    call = jax.value(f"lowered_call(kernels.count, X, {given}, BLOCK=256)")
    assert call["scalars"] == packed and call["parameters"] == f"a{len(packed) // 2}a"


def test_one_and_none_and_strings_are_constants(jax):
    call = jax.value("lowered_call(kernels.optional, X, None, mode='square', BLOCK=256)")
    assert call["parameters"] == "aa" and call["scalars"] == ""
    assert jax.value("lowered_call(kernels.count, X, 1, BLOCK=256)")["parameters"] == "aa"


def test_annotated_values_have_the_types_of_their_annotations(jax):
    call = jax.value("lowered_call(kernels.typed, -3, 0.1, 2, flag=True, out=shape(1, dtype='float32'))")
    assert call["parameters"] == "182a1" and call["scalars"] == "fd" + "9a9999999999b93f" + "0040" + "01"


def test_every_type_that_triton_has_is_taken(jax):
    names = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2"]
    types = jax.value("[json.loads(lowered_call(kernels.copy, shape(256, dtype=name), out=shape(256, dtype=name), BLOCK=256)['metadata'])"
                      f"['metadata']['parameters'][0]['type'] for name in {names}]")
    assert types == ["*u1", "*i8", "*i16", "*i32", "*u8", "*u16", "*u32", "*bf16", "*fp16", "*fp32", "*fp8e4nv", "*fp8e5"]
    types = jax.value("[json.loads(lowered_call(kernels.copy, shape(256, dtype=name), out=shape(256, dtype=name), BLOCK=256, platform='rocm', "
                      "capability='gfx942')['metadata'])['metadata']['parameters'][0]['type'] for name in ['float8_e4m3fnuz', 'float8_e5m2fnuz']]")
    assert types == ["*fp8e4b8", "*fp8e5b16"]


@pytest.mark.slow
def test_types_of_64_bits_are_taken_where_jax_has_them(other_jax):
    with other_jax(JAX_ENABLE_X64="1") as job:
        calls = job.value("[lowered_call(kernels.copy, jnp.ones(256, name), out=shape(256, dtype=name), BLOCK=256) "
                          "for name in ['int64', 'uint64', 'float64']]")
        assert [json_of(call)["parameters"][0]["type"] for call in calls] == ["*i64", "*u64", "*fp64"]
        assert [call["results"] for call in calls] == [["tensor<256xi64>"], ["tensor<256xui64>"], ["tensor<256xf64>"]]


def test_arrays_without_dimensions_and_empty_ones_are_taken(jax):
    assert jax.value("lowered_call(kernels.copy, jnp.float32(1), out=shape(), BLOCK=1)")["results"] == ["tensor<f32>"]
    assert jax.value("lowered_call(kernels.copy, shape(0, 4), out=shape(0), BLOCK=1, grid=0)")["grid_x"] == 0


def test_a_transposed_array_comes_row_major(jax):
    text = jax.value("lower(lambda x: call(kernels.copy, x.T, BLOCK=256), jnp.ones((16, 16))).as_text()")
    assert "operand_layouts = [dense<[1, 0]> : tensor<2xindex>]" in text and "stablehlo.transpose" in text


def test_a_grid_may_be_a_function_of_the_metaparameters(jax):
    call = jax.value("lowered_call(kernels.scale, X, 256, 2.0, BLOCK=64, grid=lambda meta: (meta['n'] // meta['BLOCK'],))")
    assert call["grid_x"] == 4
    assert jax.value("lowered_call(kernels.scale, X, 256, 2.0, BLOCK=64, grid=np.int64(7))")["grid_x"] == 7


@pytest.mark.parametrize("given", ["(0,)", "('out',)", "'out'", "lambda meta: [0] if meta['BLOCK'] == 256 else []", "[np.int32(0)]"])
def test_outputs_are_zeroed_by_place_by_name_or_by_a_function(jax, given):
    assert jax.value(f"lowered_call(kernels.copy, X, BLOCK=256, zeroed_outputs={given})")["zeroed"] == "1"


def test_an_alias_joins_an_array_argument_and_an_output(jax):
    call = jax.value("lowered_call(kernels.add, X, X, n=256, BLOCK=256, input_output_aliases={1: 0})")
    assert call["aliases"] == {"1": 0} and call["parameters"] == "aaa4"


def test_a_kernel_may_have_no_parameter_for_an_aliased_output(jax):
    call = jax.value("lowered_call(kernels.add, X, X, n=256, BLOCK=256, out=[X, X], input_output_aliases={0: 0})")
    assert call["aliases"] == {"0": 0} and call["parameters"] == "aaa4" and len(call["results"]) == 2
    assert (call["zeroed"], call["global_scratch"], call["profile_scratch"]) == ("-0", -1, -1)


def test_arrays_without_dimensions_are_aliased_too(jax):
    call = jax.value("lowered_call(kernels.copy, jnp.float32(1), out=shape(), BLOCK=1, input_output_aliases={0: 0})")
    assert call["aliases"] == {"0": 0} and call["results"] == ["tensor<f32>"]


def test_scratch_is_a_result_of_its_own(jax):
    call = jax.value("lowered_call(kernels.described, jnp.ones((16, 32)), out=shape(16, 32), ROWS=16, COLUMNS=32, grid=3)")
    assert call["global_scratch"] == 1 and call["profile_scratch"] == -1 and call["zeroed"] == "00"
    assert call["results"] == ["tensor<16x32xf32>", "tensor<384xui8>"]
    assert json_of(call)["global_scratch_bytes"] == 128


def test_out_type_is_another_name_for_out_shape(jax):
    assert jax.value("jax.eval_shape(lambda x: triton_call(x, kernel=kernels.copy, out_type=shape(8), grid=1, BLOCK=8), X).shape") == [8]


def test_a_result_has_the_tree_of_out_shape(jax):
    assert jax.value("jax.tree.map(lambda one: one.shape, jax.eval_shape(lambda x: call(kernels.add, x, n=8, BLOCK=8, "
                     "out={'a': x, 'b': [shape(8)]}), X), is_leaf=lambda one: hasattr(one, 'shape'))") == {"a": [256], "b": [[8]]}


def json_of(call):
    return json.loads(call["metadata"])["metadata"]
