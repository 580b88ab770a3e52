"""Trains a small transformer in JAX, with flash attention by Triton's kernels, or with JAX's own operations instead.

    python jax_training_job.py OUT.json kiln     the attention's forward and backward kernels by kiln.jax
    python jax_training_job.py OUT.json plain    without Kiln
    python jax_training_job.py OUT.json jax_triton    the same kernels without Kiln

Writes {"losses": one for each step, "seconds": ..., "report": what Kiln did, or null}. Each sequence counts up by a stride of its own,
which the model has to find in what it has seen of it.
"""

import json
import os
import pathlib
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

import jax_kernels
from jax_kernels import flash_attention, plain_attention

WORDS, STRIDES, LENGTH, BATCH = 64, 8, 128, 16
WIDTH, HEADS, DEPTH = 128, 2, 2
STEPS, RATE = 60, 3e-3
# No choices by measurement, which may be others in the next process: so equal kernels give equal losses.
OPTIONS = {"xla_gpu_deterministic_ops": True}

# --- The model -------------------------------------------------------------------------------------------------------


def model(key):
    """Its weights, by name."""
    keys = iter(jax.random.split(key, 3 + 4 * DEPTH))

    def weights(*lengths):
        return jax.random.normal(next(keys), lengths) * lengths[0]**-0.5

    blocks = [{"qkv": weights(WIDTH, 3 * WIDTH), "out": weights(WIDTH, WIDTH), "up": weights(WIDTH, 4 * WIDTH), "down": weights(4 * WIDTH, WIDTH)}
              for _ in range(DEPTH)]
    return {"words": weights(WORDS, WIDTH), "places": weights(LENGTH, WIDTH), "blocks": blocks, "head": weights(WIDTH, WORDS)}


def norm(x):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def mixed(x, attention):
    """x: [batch, length, 3 * width]. Heads are a batch to the attention."""
    batch, length, _ = x.shape
    parts = x.reshape(batch, length, 3, HEADS, -1).transpose(2, 0, 3, 1, 4).reshape(3, batch * HEADS, length, -1)
    out = attention(*parts.astype(jnp.float16)).astype(x.dtype)
    return out.reshape(batch, HEADS, length, -1).transpose(0, 2, 1, 3).reshape(batch, length, -1)


def loss_of(weights, tokens, attention):
    given, wanted = jax.nn.one_hot(tokens[:, :-1], WORDS), jax.nn.one_hot(tokens[:, 1:], WORDS)
    x = given @ weights["words"] + weights["places"]
    for block in weights["blocks"]:
        x = x + mixed(norm(x) @ block["qkv"], attention) @ block["out"]
        x = x + jax.nn.gelu(norm(x) @ block["up"]) @ block["down"]
    return -(wanted * jax.nn.log_softmax(norm(x) @ weights["head"])).sum(-1).mean()


# --- The training ----------------------------------------------------------------------------------------------------


def batch(key):
    first, stride = jax.random.split(key)
    return (jax.random.randint(first, (BATCH, 1), 0, WORDS) + jnp.arange(LENGTH + 1) * jax.random.randint(stride, (BATCH, 1), 1, STRIDES)) % WORDS


def start():
    """The state before the first step: weights, Adam's two means, the steps done."""
    weights = model(jax.random.key(7))
    return weights, jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights), jnp.zeros((), jnp.int32)


def step_with(attention):
    """A step of training: the state after it, and the loss."""

    def step(weights, mean, square, count):
        loss, slope = jax.value_and_grad(loss_of)(weights, batch(jax.random.key(count)), attention)
        count = count + 1
        mean = jax.tree.map(lambda kept, one: 0.9 * kept + 0.1 * one, mean, slope)
        square = jax.tree.map(lambda kept, one: 0.99 * kept + 0.01 * one * one, square, slope)
        rate = RATE * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
        weights = jax.tree.map(lambda one, m, s: one - rate * m / (jnp.sqrt(s) + 1e-8), weights, mean, square)
        return (weights, mean, square, count), loss

    return step


ATTENTIONS = {"kiln": flash_attention, "jax_triton": flash_attention, "plain": lambda q, k, v: plain_attention(q, k, v)[0]}


def use_jax_triton():
    """For all kernels. It passes Python's floats as fp64, and NumPy's as Triton passes Python's."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "jax_triton"))  # of the bundle
    from jax_triton import triton_call
    jax_kernels.call = lambda *given, **named: triton_call(*(np.float32(one) if isinstance(one, float) else one for one in given), **named)


def main():
    out, attention = sys.argv[1:]
    began = time.monotonic()
    if attention == "jax_triton":
        use_jax_triton()
    step = jax.jit(step_with(ATTENTIONS[attention]), donate_argnums=(0, 1, 2), compiler_options=OPTIONS)
    state, losses = start(), []
    for _ in range(STEPS):
        state, loss = step(*state)
        losses.append(float(loss))
    report = None
    if "kiln" in sys.modules:
        import kiln
        report = vars(kiln.report())
    pathlib.Path(out).write_text(json.dumps({"losses": losses, "seconds": time.monotonic() - began, "report": report}))


if __name__ == "__main__":
    main()
