"""Which part of a backward makes gradients of weights, and what that part reads.

Nobody waits for the gradient of a weight, so zero-bubble schedules run it later (Qi et al. 2023,
arXiv 2401.10241, section 2). A linear layer's backward is two products of equal FLOPs, for its
input and for its weights, each taken as half of its time; the embedding's backward makes gradients
of its table alone. All other ops (attention, norms, activations, communication) pass gradients on;
those of a norm's few parameters are made with them.
"""

from __future__ import annotations

from dataclasses import replace

from solver.costs.pipeline import Op

LINEAR = frozenset(
    {
        "attention_projection",
        "expert_in",
        "expert_out",
        "feed_forward_in",
        "feed_forward_out",
        "key_up",
        "key_value_down",
        "logits",
        "prediction_projection",
        "query_down",
        "query_key",
        "query_up",
        "router",
        "shared_expert_in",
        "shared_expert_out",
        "value",
        "value_up",
    }
)
"""Products with weights, by the names of their ops."""

EMBEDDING = "embedding_rows"


def with_weight_gradients(ops: tuple[Op, ...], input_bytes: float) -> tuple[Op, ...]:
    """The ops of a block with the parts of their backwards that make gradients of weights.

    Such a part reads the op's input and the gradient of its output. An input that several products
    share (that of queries, keys and values) is held once, with the first of them.

    Args:
        ops: In forward order.
        input_bytes: The block's input.
    """
    sizes = {"x": input_bytes} | {op.name: op.output_bytes for op in ops}
    held: set[str] = set()
    found = []
    for op in ops:
        share = 1.0 if op.name == EMBEDDING else 0.5 * (op.name in LINEAR)
        if share:
            source = op.backward_reads[0]
            own = op.output_bytes if op.gradient_bytes is None else op.gradient_bytes
            shared = sizes[source] if source not in held else 0.0
            held.add(source)
            op = replace(
                op,
                weight_seconds=share * op.backward_seconds,
                weight_held_bytes=shared + own,
            )
        found.append(op)
    return tuple(found)
