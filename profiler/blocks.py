"""The blocks of a decoder model in PyTorch: embedding, layer, head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler.attention import attention_branch
from profiler.feed_forward import feed_forward_branch
from profiler.laid import Laid, Setting, normalisation
from solver.workload.architecture import Architecture, Layer, Positions


def embedding(architecture: Architecture, setting: Setting) -> Laid:
    """Rows of one rank's slice of the table, with learned positions, norm and dropout if any."""
    laid = Laid(setting)
    table = nn.Embedding(setting.share(architecture.vocabulary_size), setting.hidden)
    if architecture.positions is Positions.LEARNED:
        places = nn.Embedding(max(architecture.max_positions, setting.sequence), setting.hidden)
        order = laid.constant(torch.arange(setting.sequence))
        rows = laid.op(
            "embedding_rows", ("x",), lambda tokens: table(tokens) + places(order), table, places
        )
    else:
        rows = laid.op("embedding_rows", ("x",), table, table)
    if architecture.embedding_norm:
        rows = laid.norm("embedding_norm", rows, architecture.layers[0][0].norm)
    if architecture.embedding_dropout > 0.0:
        share = architecture.embedding_dropout
        laid.op("embedding", (rows,), lambda embedded: functional.dropout(embedded, share))
    return laid


def layer(part: Layer, positions: Positions, setting: Setting) -> Laid:
    """A transformer layer; attention and MLP one after the other, or side by side."""
    laid = Laid(setting)
    first = laid.norm("attention_norm", "x", part.norm)
    attention = attention_branch(laid, part, positions, first)
    if part.parallel_residual:
        second = first if part.norms == 1 else laid.norm("feed_forward_norm", "x", part.norm)
        output = feed_forward_branch(laid, part, second)
        residual = laid.residual("attention_residual", "x", attention, part.hidden_dropout)
    else:
        residual = laid.residual("attention_residual", "x", attention, part.hidden_dropout)
        second = laid.norm("feed_forward_norm", residual, part.norm)
        output = feed_forward_branch(laid, part, second)
    laid.residual("feed_forward_residual", residual, output, part.hidden_dropout)
    return laid


def head(architecture: Architecture, setting: Setting) -> Laid:
    """Final norm, one rank's columns of the logits, and the cross entropy over them in fp32."""
    laid = Laid(setting)
    norm = normalisation(architecture.layers[-1][0].norm, setting.hidden)
    normed = laid.op("final_norm", ("x",), norm, norm)
    columns = setting.share(architecture.vocabulary_size)
    logits = laid.linear("logits", normed, setting.hidden, columns, architecture.head_bias)
    wanted = laid.constant(
        torch.randint(columns, (setting.tokens,), generator=torch.Generator().manual_seed(0))
    )

    def loss(scores: Tensor) -> Tensor:
        return functional.cross_entropy(scores.flatten(0, 1).float(), wanted)

    laid.op("loss", (logits,), loss)
    return laid


def tokens(architecture: Architecture, setting: Setting) -> Tensor:
    """A micro-batch of token ids, those of one rank's slice of the vocabulary."""
    made = torch.randint(
        setting.share(architecture.vocabulary_size),
        (setting.micro_batch, setting.sequence),
        generator=torch.Generator().manual_seed(0),
    )
    return made.to(setting.device)


def hidden_states(setting: Setting) -> Tensor:
    """A boundary tensor between layers."""
    made = torch.randn(
        setting.micro_batch,
        setting.sequence,
        setting.hidden,
        generator=torch.Generator().manual_seed(0),
    )
    return made.to(device=setting.device, dtype=setting.dtype)
