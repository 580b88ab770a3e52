"""kiln.jax within JAX's transformations."""

import pytest

from places import JAX_VERSIONS

F = "(lambda x: call(kernels.scale, x, 256, 2.0, BLOCK=256))"
# A program with one kernel in it.
PROGRAMS = {
    "jit": F,
    "scan": f"lambda x: jax.lax.scan(lambda carry, _: ({F}(carry), None), x, None, length=3)[0]",
    "cond": f"lambda x: jax.lax.cond(x[0] > 0, {F}, lambda x: x, x)",
    "while": f"lambda x: jax.lax.while_loop(lambda x: x[0] < 9, {F}, x)",
    "remat": f"jax.checkpoint({F})",
    "a jit within": f"jax.jit({F})",
    "map": f"lambda x: jax.lax.map({F}, jnp.stack([x, x]))",
}


@pytest.fixture(scope="module", params=JAX_VERSIONS)
def jax(request, daemon, make_jax, tmp_path_factory):
    """A job with each JAX."""
    with make_jax(tmp_path_factory.mktemp("jax"), daemon.root, request.param) as job:
        yield job


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_kernel_may_stand_in(jax, program):
    call, = jax.value(f"calls({PROGRAMS[program]}, X)")
    assert call["target"] == "kiln_launch" and call["parameters"] == "a44a"


VJP = """(lambda function: (function.defvjp(lambda x: (function(x), None), lambda _, g: (call(kernels.scale, g, 256, 3.0, BLOCK=256),)),
                            function)[1])(jax.custom_vjp(lambda x: call(kernels.scale, x, 256, 2.0, BLOCK=256)))"""


def test_a_derivative_is_given_with_custom_vjp(jax):
    forward, backward = jax.value(f"calls(jax.value_and_grad(lambda x: {VJP}(x).sum()), X)")
    assert forward["scalars"].endswith("00000040") and backward["scalars"].endswith("00004040")


def test_a_rematerialized_forward_runs_again(jax):
    found = jax.value(f"calls(jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin({VJP}(x)))(x).sum()), X)")
    assert [call["scalars"][8:] for call in found] in (["00000040", "00000040", "00004040"], ["00000040", "00004040"])


@pytest.mark.parametrize("program, way", [
    (f"jax.jvp({F}, (X,), (X,))", "jax.custom_vjp"), (f"jax.grad(lambda x: {F}(x).sum())(X)", "jax.custom_vjp"),
    (f"jax.linear_transpose({F}, X)(X)", "jax.custom_vjp"), (f"jax.vmap({F})(jnp.stack([X, X]))", "custom_vmap")
])
def test_without_a_rule_the_error_shows_how_to_give_one(jax, program, way):
    said = jax.error(program)
    assert said.startswith("NotImplementedError: scale: ") and way in said


def test_a_custom_vmap_is_a_rule(jax):
    rule = f"(lambda f: (f.def_vmap(lambda size, batched, x: (jax.lax.map({F}, x), True)), f)[1])(jax.custom_batching.custom_vmap({F}))"
    assert len(jax.value(f"calls(jax.vmap({rule}), jnp.stack([X, X]))")) == 1


def test_a_program_is_lowered_ahead_of_time_from_shapes(jax):
    assert "kiln_launch" in jax.value(f"lower({F}, shape(256)).as_text()")


def test_a_program_is_exported(jax):
    exported = f"""jax.export.export(jax.jit({F}), platforms=["cuda"],
                   disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("kiln_launch")])(shape(256))"""
    assert jax.value(f"{exported}.mlir_module().count('@kiln_launch')") == 1


def test_a_call_within_shard_map_is_lowered_once_for_all_devices(jax):
    mesh = "jax.sharding.AbstractMesh((2,), ('devices',))"
    program = f"jax.shard_map({F}, mesh={mesh}, in_specs=jax.P('devices'), out_specs=jax.P('devices'))"
    call, = jax.value(f"calls({program}, shape(512))")
    assert call["results"] == ["tensor<256xf32>"]


@pytest.mark.slow
def test_a_call_within_pmap_is_lowered_once_for_all_devices(other_jax):
    with other_jax(XLA_FLAGS="--xla_force_host_platform_device_count=2") as job:
        call, = job.value(f"calls(jax.pmap({F}), jnp.stack([X, X]))")
        assert call["target"] == "kiln_launch" and call["results"] == ["tensor<256xf32>"]


@pytest.mark.slow
@pytest.mark.parametrize("version", JAX_VERSIONS)
def test_what_all_devices_share_stands_beside_what_each_has(other_jax, version):
    program = """jax.shard_map(lambda x, y: call(kernels.add, x, y, n=256, BLOCK=256), mesh=jax.sharding.AbstractMesh((2,), ('devices',)),
                 in_specs=(jax.P('devices'), jax.P()), out_specs=jax.P('devices'))"""
    with other_jax(version) as job:
        assert job.value(f"calls({program}, shape(512), shape(256))")[0]["results"] == ["tensor<256xf32>"]
