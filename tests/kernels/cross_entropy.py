"""Cross entropy of logits against class labels, and the gradient written over the logits, in two passes over a row."""

import triton
import triton.language as tl

from declaration import Instance


@triton.jit
def cross_entropy(logits_ptr, labels_ptr, loss_ptr, stride, classes, ignored, gradient_scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride
    label = tl.load(labels_ptr + row)
    counts = label != ignored

    largest = -float("inf")
    total = 0.0
    for start in range(0, classes, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + lanes, mask=lanes < classes, other=-float("inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - new_largest) + tl.sum(tl.exp(x - new_largest), axis=0)
        largest = new_largest
    log_total = largest + tl.log(total)

    at_label = tl.load(logits_ptr + label, mask=counts, other=0.0).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(counts, log_total - at_label, 0.0))
    # Other threads of this program still read the logit at the label until here.
    tl.debug_barrier()

    for start in range(0, classes, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        inside = lanes < classes
        x = tl.load(logits_ptr + lanes, mask=inside, other=-float("inf")).to(tl.float32)
        gradient = tl.exp(x - log_total) - tl.where(lanes == label, 1.0, 0.0)
        gradient = tl.where(counts, gradient * gradient_scale, 0.0)
        tl.store(logits_ptr + lanes, gradient.to(tl.bfloat16), mask=inside)


INSTANCES = [
    Instance(
        "cross_entropy",
        cross_entropy,
        {
            "logits_ptr": "*bf16:16",
            "labels_ptr": "*i64:16",
            "loss_ptr": "*fp32:16",
            "stride": "i32:16",
            "classes": "i32",
            "ignored": "i64",
            "gradient_scale": "fp32",
            "BLOCK": 4096,
        },
        options={"num_warps": 8},
    ),
]
