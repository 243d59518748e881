"""What the families' configurations have in common."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from solver.errors import UnsupportedModel
from solver.workload.architecture import Layer
from solver.workload.fields import Fields

MOST_LAYERS = 4096

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_python": "gelu",
    "gelu_python_tanh": "gelu",
    "quick_gelu": "gelu",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
}


def name_of(fields: Fields) -> str:
    """What to call the model: its path on the hub if stated, else its family."""
    name = fields.text("_name_or_path", default="")
    return (name or fields.text("model_type", default="model"))[:200]


def num_layers(fields: Fields, *names: str) -> int:
    """The number of transformer layers."""
    return fields.integer(*(names or ("num_hidden_layers",)), maximum=MOST_LAYERS)


def activation(fields: Fields, *names: str, default: str) -> str:
    """The activation function by its plain name (variants of GELU cost the same)."""
    stated = fields.text(*names, default=default)
    known = _ACTIVATIONS.get(stated)
    if known is None:
        present = next((name for name in names if name in fields), names[0])
        raise UnsupportedModel(
            f"The activation {stated[:40]!r} is not known.",
            field=f"{fields.path}.{present}",
            hint=f"Known: {', '.join(sorted(_ACTIVATIONS))}.",
        )
    return known


def head_counts(
    fields: Fields,
    *names: str,
    default: int | None = None,
    key_value_default: int | None = None,
) -> tuple[int, int]:
    """Query heads and key/value heads; the former are a multiple of the latter."""
    names = names or ("num_attention_heads",)
    heads = fields.integer(*names) if default is None else fields.integer(*names, default=default)
    fallback = heads if key_value_default is None else key_value_default
    key_value_heads = fields.integer("num_key_value_heads", default=fallback)
    if heads % key_value_heads:
        raise fields.wrong(
            "num_key_value_heads",
            f"{heads} attention heads cannot share {key_value_heads} key/value heads evenly.",
            f"Give a divisor of {heads}.",
        )
    return heads, key_value_heads


def head_dim(fields: Fields, hidden_size: int, heads: int, heads_field: str) -> int:
    """The explicit ``head_dim``, else the hidden size divided by the heads."""
    if "head_dim" in fields:
        return fields.integer("head_dim")
    return even_head_dim(fields, hidden_size, heads, heads_field)


def even_head_dim(fields: Fields, hidden_size: int, heads: int, heads_field: str) -> int:
    """The hidden size divided by the heads, which must leave nothing over."""
    if hidden_size % heads:
        raise fields.wrong(
            heads_field,
            f"The hidden size {hidden_size} is not a multiple of {heads} attention heads.",
            "Give head_dim, or a number of heads that divides the hidden size.",
        )
    return hidden_size // heads


def sliding_layers(fields: Fields, layers: int, default: Iterable[bool]) -> list[bool]:
    """Which layers attend within a sliding window: ``layer_types`` if stated, else the default."""
    stated = fields.sequence("layer_types")
    if stated is None:
        return list(default)
    if len(stated) != layers:
        raise fields.wrong(
            "layer_types", f"layer_types has {len(stated)} entries for {layers} layers."
        )
    for index, kind in enumerate(stated):
        if kind not in ("full_attention", "sliding_attention"):
            raise UnsupportedModel(
                f"The layer type {str(kind)[:40]!r} is not known.",
                field=f"{fields.path}.layer_types[{index}]",
                hint="Known: full_attention, sliding_attention.",
            )
    return [kind == "sliding_attention" for kind in stated]


def runs(layers: Iterable[Layer]) -> tuple[tuple[Layer, int], ...]:
    """Equal neighbours joined to ``(layer, count)``."""
    return tuple((layer, len(list(group))) for layer, group in groupby(layers))
