"""Trains a small transformer for some steps with torch.compile, a kernel of its own in it.

    python training_job.py OUT.json STEPS [PAUSE_AT]

Writes {"losses": [...], "seconds": ..., "first_step": ..., "report": ..., "inductor": what Inductor counted}. At step PAUSE_AT it
prints "paused" and goes on when a line comes in; the model then changes its shape, so that there is something new to compile.
"""

import json
import pathlib
import sys
import time

import torch
import triton
import triton.language as tl
from torch._dynamo.utils import counters

WORDS = 1024


@triton.jit
def shift_words(words, out, count, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + index, (tl.load(words + index, index < count) + 7) % COUNT, index < count)


def shifted(words):
    """By a user-defined kernel: of integers, so that there is nothing to differentiate."""
    out = torch.empty_like(words)
    shift_words[(triton.cdiv(words.numel(), 256),)](words, out, words.numel(), COUNT=WORDS, BLOCK=256)
    return out


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


class Model(torch.nn.Module):
    def __init__(self, words=WORDS, width=256, depth=2):
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.Sequential(*(Block(width, 4) for _ in range(depth)))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.words(tokens))))


def main():
    out, steps, pause_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else -1
    torch.manual_seed(7)
    started = time.monotonic()
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    @torch.compile(dynamic=False)
    def loss_of(given):
        tokens = shifted(given)
        scores = model(tokens[:, :-1])
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

    losses, first_step, length = [], None, 129
    for step in range(steps):
        if step == pause_at:
            print("paused", flush=True)
            sys.stdin.readline()
            length = 193
        tokens = torch.randint(0, WORDS, (8, length), device="cuda")
        optimizer.zero_grad()
        loss = loss_of(tokens)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
        first_step = first_step or time.monotonic() - started
    report = None
    if "kiln.triton" in sys.modules:
        import kiln
        report = vars(kiln.report())
    pathlib.Path(out).write_text(json.dumps({"losses": losses, "seconds": time.monotonic() - started, "first_step": first_step,
                                             "report": report, "inductor": dict(counters["inductor"])}))


if __name__ == "__main__":
    main()
