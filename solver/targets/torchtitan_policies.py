"""What torchtitan's recompute policies make of a layer: which of its tensors they save.

Read from torchtitan 0.3.0, distributed/activation_checkpoint.py. ``SelectiveAC`` runs a layer
again but for the outputs of ops that it saves: attention kernels, every second matrix product in
the order of the forward pass, the outputs of reduce-scatters and all-to-alls. Products of a router
and of grouped experts are neither counted nor saved. Query, key and value are one product, as its
models come; the two halves of a gated feed-forward are two, but one tensor here, of which half is
saved.
"""

from __future__ import annotations

from collections.abc import Iterator

from solver.costs.pipeline import Block, OpKind, PipelineCosts
from solver.recompute.choice import Choice
from solver.recompute.policies import saving
from solver.targets.layers import layer_kinds

_ATTENTION = "core_attention"
_PRODUCTS = (
    "query_key",
    "query_down",
    "query_up",
    "key_value_down",
    "key_up",
    "attention_projection",
    "feed_forward_in",
    "feed_forward_out",
    "shared_expert_in",
    "shared_expert_out",
)
"""Matrix products of linear modules in the order of the forward pass."""

_WITH = {"query_key": "value", "key_up": "value_up"}
"""Tensors that one product makes together with another one."""


def has_attention(costs: PipelineCosts) -> bool:
    """Whether every kind of layer has a fused attention, whose output is saved."""
    return all(_ATTENTION in _sizes(costs.blocks[kind]) for kind in layer_kinds(costs))


def has_products(costs: PipelineCosts) -> bool:
    """Whether the matrix products of every kind of layer are known by their names."""
    return has_attention(costs) and all(
        "attention_projection" in _sizes(costs.blocks[kind]) for kind in layer_kinds(costs)
    )


def attention_saved(block: Block) -> Choice:
    """Only the attention kernel is not run again."""
    return saving(block, {_ATTENTION: 1.0})


def every_second_product_saved(block: Block, *, scatters: bool) -> Choice:
    """``SelectiveAC`` as it is.

    Args:
        block: Any block; the model's ends keep everything.
        scatters: Whether tensor-parallel sums are scattered over the sequence, not copied.
    """
    saved = {_ATTENTION: 1.0}
    for number, (name, share) in enumerate(_products(block)):
        if number % 2 == 0:
            saved[name] = saved.get(name, 0.0) + share
            if name in _WITH:
                saved[_WITH[name]] = share
    for op in block.ops:
        exchanged = op.name in ("expert_dispatch", "expert_combine")
        summed = scatters and op.name.endswith("_reduce")
        if op.kind is OpKind.COMMUNICATION and (exchanged or summed):
            saved[op.name] = 1.0
    return saving(block, saved)


def _products(block: Block) -> Iterator[tuple[str, float]]:
    """Tensor, and share of it, that each product makes."""
    sizes = _sizes(block)
    for name in _PRODUCTS:
        if name not in sizes:
            continue
        first = 1.0
        if name.endswith("_in") and _is_gated(sizes, name):
            first = 0.5
        yield name, first
        if first < 1.0:
            yield name, 1.0 - first


def _is_gated(sizes: dict[str, float], name: str) -> bool:
    """Whether what follows is half as large, the product of two halves."""
    activation = sizes.get(name.removesuffix("_in") + "_activation", sizes[name])
    return activation < 0.75 * sizes[name]


def _sizes(block: Block) -> dict[str, float]:
    return {op.name: op.output_bytes for op in block.ops}
