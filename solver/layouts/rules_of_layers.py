"""What each rank takes of a layer and a sequence: tensor, sequence and context parallelism."""

from __future__ import annotations

from solver.layouts.layout import Layout
from solver.layouts.rule import Broken, rule
from solver.layouts.setting import Setting
from solver.request import ContextMethod


def _heads(layout: Layout, setting: Setting) -> Broken:
    for heads in setting.heads:
        if heads % layout.tensor_parallel:
            return "tensor_parallel", (
                f"{heads} attention heads are not divisible by tensor parallel "
                f"{layout.tensor_parallel}."
            )
    return None


HEADS = rule("heads", "Tensor parallelism gives each rank whole heads.", "tensor_parallel", _heads)


def _key_value_heads(layout: Layout, setting: Setting) -> Broken:
    for heads in setting.key_value_heads:
        if heads % layout.tensor_parallel and layout.tensor_parallel % heads:
            return "tensor_parallel", (
                f"{heads} key/value heads can neither be divided among nor replicated evenly over "
                f"tensor parallel {layout.tensor_parallel}."
            )
    return None


KEY_VALUE_HEADS = rule(
    "key-value-heads",
    "Each rank holds whole key/value heads, or all ranks copies of the same number.",
    "tensor_parallel",
    _key_value_heads,
)


def _feed_forward(layout: Layout, setting: Setting) -> Broken:
    for width in sorted(setting.widths):
        if width % layout.tensor_parallel:
            return "tensor_parallel", (
                f"The feed-forward width {width} is not divisible by tensor parallel "
                f"{layout.tensor_parallel}."
            )
    return None


FEED_FORWARD = rule(
    "feed-forward",
    "Tensor parallelism divides the feed-forward matrices evenly.",
    "tensor_parallel",
    _feed_forward,
)


def _context(layout: Layout, setting: Setting) -> Broken:
    parts = 2 * layout.context_parallel
    if layout.context_parallel > 1 and setting.sequence_length % parts:
        return "context_parallel", (
            f"The sequence length {setting.sequence_length} is not divisible by twice the context "
            f"parallel size, {parts}."
        )
    return None


CONTEXT = rule(
    "context",
    "Each rank takes two chunks of the sequence, an early and a late one, so that causal "
    "attention is balanced.",
    "context_parallel",
    _context,
)


def _context_method(layout: Layout, setting: Setting) -> Broken:
    if layout.context_parallel == 1:
        return None
    if layout.context_method == ContextMethod.RING and setting.windowed:
        return "context_method", (
            "Keys and values that go round a ring meet all queries; attention with a sliding "
            "window does not run so."
        )
    if layout.context_method != ContextMethod.ALL_TO_ALL:
        return None
    for kind, counts in (("attention", setting.heads), ("key/value", setting.key_value_heads)):
        for heads in sorted(counts):
            own = max(1, heads // layout.tensor_parallel)
            if own % layout.context_parallel:
                return "context_method", (
                    f"A device's {own} {kind} heads cannot be divided among "
                    f"{layout.context_parallel} context-parallel devices."
                )
    return None


CONTEXT_METHOD = rule(
    "context-method",
    "An all-to-all gives each device whole heads of whole sequences; a ring has no sliding "
    "windows (Transformer Engine, attention/dot_product_attention/context_parallel.py).",
    "context_method context_parallel tensor_parallel",
    _context_method,
)


def _sequence_needs_tensor(layout: Layout, _: Setting) -> Broken:
    if layout.sequence_parallel and layout.tensor_parallel == 1:
        return "sequence_parallel", "Sequence parallelism needs tensor parallel above 1."
    return None


SEQUENCE_NEEDS_TENSOR = rule(
    "sequence-needs-tensor",
    "Sequence parallelism divides what tensor parallelism replicates.",
    "sequence_parallel tensor_parallel",
    _sequence_needs_tensor,
)


def _sequence(layout: Layout, setting: Setting) -> Broken:
    parts = layout.tensor_parallel * layout.context_parallel
    if layout.sequence_parallel and setting.sequence_length % parts:
        return "sequence_parallel", (
            f"The sequence length {setting.sequence_length} is not divisible by {parts}, the "
            "tensor times the context parallel size, as sequence parallelism demands."
        )
    return None


SEQUENCE = rule(
    "sequence",
    "Sequence parallelism divides the sequence evenly.",
    "sequence_parallel tensor_parallel context_parallel",
    _sequence,
)
