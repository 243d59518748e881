"""The attention half of a transformer layer as ops: grouped-query and latent attention.

Which tensors backward reads follows Korthikanti et al. 2022, section 4.1 for unfused attention,
and FlashAttention-2 (arXiv:2307.08691, section 3.1) for fused: queries, keys, values, the output
and one fp32 log-sum-exp per row instead of the score matrix.
"""

from __future__ import annotations

from solver.costs import context_parallel
from solver.costs.context_parallel import Heads
from solver.costs.graph import ELEMENT, Graph
from solver.request import ContextMethod
from solver.workload.architecture import Attention, LatentAttention, Layer, Positions


def attention_half(
    graph: Graph, layer: Layer, positions: Positions, flash: bool, source: str
) -> str:
    """Lay down norm, attention and residual; answers with the residual's name."""
    normed = graph.norm("attention_norm", source)
    branch = attention_branch(graph, layer, positions, flash, normed)
    return graph.residual("attention_residual", source, branch, layer.hidden_dropout)


def attention_branch(
    graph: Graph, layer: Layer, positions: Positions, flash: bool, normed: str
) -> str:
    """Lay down attention from its normed input to its reduced output."""
    attention = layer.attention
    if isinstance(attention, LatentAttention):
        heads, query_key, value = _latent_projections(graph, attention, normed)
    else:
        heads, query_key, value = _projections(graph, attention, positions, normed)
    if flash:
        context = _flash(graph, heads, query_key, value)
    else:
        context = _unfused(graph, layer.attention_dropout, heads, query_key, value)
    shard = graph.shard
    forward, dgrad, wgrad = graph.linear(shard.tokens, graph.hidden, heads.output_width)
    output = ELEMENT * shard.tokens * graph.hidden
    projected = graph.compute(
        "attention_projection", (context,), forward, dgrad + wgrad, output, (context,)
    )
    reduced = graph.reduce("attention_reduce", projected)
    if layer.norms > 2:
        return graph.norm("attention_post_norm", reduced)
    return reduced


def _projections(
    graph: Graph, attention: Attention, positions: Positions, normed: str
) -> tuple[Heads, str, str]:
    """Queries, keys and values; one product, whose values need no rotation and stand apart.

    Key and value heads fewer than the tensor-parallel ranks are replicated
    (Megatron-LM, core/transformer/attention.py).
    """
    tensor = graph.shard.tensor.size
    heads = Heads(
        max(1, attention.heads // tensor),
        max(1, attention.key_value_heads // tensor),
        attention.head_dim,
        attention.head_dim,
        attention.window,
    )
    tokens = graph.shard.tokens
    columns = heads.query_width + heads.key_width + heads.value_width
    forward, dgrad, wgrad = graph.linear(tokens, columns, graph.hidden)
    gathered = graph.gather("query_key_value_gather", normed, dgrad, wgrad)
    rotated_width = heads.query_width + heads.key_width
    query_key = _part(
        graph, "query_key", gathered, normed, rotated_width, columns, (forward, dgrad + wgrad)
    )
    value = _part(
        graph, "value", gathered, normed, heads.value_width, columns, (forward, dgrad + wgrad)
    )
    elements = float(tokens * rotated_width)
    if attention.query_key_norm:
        query_key = graph.pointwise(
            "query_key_norm", (query_key,), elements, 4.0, 6.0, (query_key,)
        )
    if positions is Positions.ROTARY:
        query_key = graph.pointwise("rotary", (query_key,), elements, 4.0, 4.0)
    return heads, query_key, value


def _part(
    graph: Graph,
    name: str,
    gathered: str,
    normed: str,
    width: int,
    columns: int,
    seconds: tuple[float, float],
) -> str:
    """A share of one product's columns, with its share of the product's time."""
    share = width / columns
    size = ELEMENT * graph.shard.tokens * width
    forward, backward = seconds
    return graph.compute(name, (gathered,), forward * share, backward * share, size, (normed,))


def _latent_projections(
    graph: Graph, attention: LatentAttention, normed: str
) -> tuple[Heads, str, str]:
    """Compressed queries, keys and values (DeepSeek-V2, arXiv:2405.04434, section 2.1).

    The down projections are replicated over tensor-parallel ranks, the up projections split by
    heads. Keys and values leave one product; values are then copied into a tensor of their own
    (Megatron-LM, core/transformer/multi_latent_attention.py).
    """
    shard, hidden = graph.shard, graph.hidden
    query_dim = attention.nope_head_dim + attention.rope_head_dim
    local = max(1, attention.heads // shard.tensor.size)
    heads = Heads(local, local, query_dim, attention.value_head_dim, None)
    rows = shard.row_tokens
    rank, rope = attention.key_value_rank, attention.rope_head_dim
    query_source, query_inner = normed, hidden
    if attention.query_rank is not None:
        query_source = _down(graph, "query_down", normed, attention.query_rank)
        query_source = graph.pointwise(
            "query_latent_norm",
            (query_source,),
            rows * attention.query_rank,
            4.0,
            6.0,
            (query_source,),
        )
        query_inner = attention.query_rank
    forward, dgrad, wgrad = graph.linear(shard.tokens, heads.query_width, query_inner)
    query = graph.compute(
        "query_up",
        (query_source,),
        forward,
        dgrad + wgrad,
        ELEMENT * shard.tokens * heads.query_width,
        (query_source,),
    )
    latent = _down(graph, "key_value_down", normed, rank + rope)
    latent = graph.pointwise(
        "key_value_latent_norm", (latent,), rows * (rank + rope), 4.0, 6.0, (latent,)
    )
    value_width = local * attention.value_head_dim
    key_width = local * attention.nope_head_dim
    columns = key_width + value_width
    forward, dgrad, wgrad = graph.linear(shard.tokens, columns, rank)
    seconds = (forward, dgrad + wgrad)
    key = _part(graph, "key_up", latent, latent, key_width, columns, seconds)
    value = _part(graph, "value_up", latent, latent, value_width, columns, seconds)
    elements = float(shard.tokens * (heads.query_width + heads.key_width))
    query_key = graph.pointwise("rotary", (query, key, latent), elements, 4.0, 4.0)
    return heads, query_key, value


def _down(graph: Graph, name: str, source: str, rank: int) -> str:
    """A replicated down projection of each row this device holds."""
    rows = graph.shard.row_tokens
    forward, dgrad, wgrad = graph.linear(rows, rank, graph.hidden)
    return graph.compute(name, (source,), forward, dgrad + wgrad, ELEMENT * rows * rank, (source,))


def _pairs(graph: Graph, window: int | None) -> float:
    """Query-key pairs under the causal mask of one micro-batch on one device, per head."""
    shard = graph.shard
    sequence = float(shard.sequence)
    seen = sequence * sequence / 2
    if window is not None and window < sequence:
        seen = window * sequence - window * window / 2
    return shard.micro_batch * seen / shard.context.size


def _flash(graph: Graph, heads: Heads, query_key: str, value: str) -> str:
    """Fused attention, under context parallelism with its exchange.

    Forward is two products over the unmasked pairs, backward five (FlashAttention-2, section 4.1).
    Kernels that take the batch first keep their output once in their own and once in the model's
    order of dimensions.
    """
    shard, machine = graph.shard, graph.machine
    parts = shard.context.size
    exchanged = parts > 1 and shard.context_method == ContextMethod.ALL_TO_ALL
    imbalance = 0.0 if exchanged else machine.calibration.software.context_imbalance
    pairs = _pairs(graph, heads.window) * heads.queries
    pairs *= 1.0 + imbalance * (1.0 - 1.0 / parts)
    run = shard.sequence if exchanged else shard.sequence // parts
    forward = machine.attention(
        2.0 * pairs * (heads.query_dim + heads.value_dim), run, heads.value_dim, backward=False
    )
    backward = machine.attention(
        2.0 * pairs * (3 * heads.query_dim + 2 * heads.value_dim),
        run,
        heads.value_dim,
        backward=True,
    )
    reads: tuple[str, ...] = (query_key, value)
    inputs, again = reads, 0.0
    if exchanged:
        inputs = reads = (context_parallel.heads_for_tokens(graph, heads, reads),)
    elif parts > 1 and shard.context_method == ContextMethod.ALL_GATHER:
        again = context_parallel.gathered_bytes(graph, heads)
        inputs = (*reads, context_parallel.gather(graph, heads, reads))
    elif parts > 1:
        inputs = (*reads, context_parallel.ring(graph, heads, reads, forward, backward))
    output = ELEMENT * shard.tokens * heads.output_width
    statistics = 4.0 * shard.tokens * heads.queries
    copies = 2 if graph.implementation.copies_attention and shard.micro_batch > 1 else 1
    core = graph.compute(
        "core_attention",
        inputs,
        forward,
        backward,
        copies * output + statistics,
        (*reads, "core_attention"),
        backward_bytes=again,
        gradient_bytes=output,
    )
    return context_parallel.tokens_for_heads(graph, heads, core) if exchanged else core


def _unfused(graph: Graph, dropout: float, heads: Heads, query_key: str, value: str) -> str:
    """Attention op by op, with its score matrix and the whole square computed.

    Scores are scaled, masked and normalised in one kernel, which keeps its output only
    (Megatron-LM's fused softmax); dropout keeps its output and a one-byte mask. Per layer
    5 a s^2 b bytes (Korthikanti et al. 2022, section 4.1). Rows of heads whose dimension is no
    multiple of 8 elements keep the products off the tensor cores (NVIDIA, Matrix Multiplication
    Background User's Guide, tensor core requirements).
    """
    shard, machine = graph.shard, graph.machine
    aligned = heads.query_dim % 8 == 0
    rate = 1.0 if aligned else machine.calibration.device.unaligned_fraction
    batch = shard.micro_batch * heads.queries
    rows, columns = shard.sequence // shard.context.size, shard.sequence
    square = float(batch) * rows * columns
    scores = machine.product(rows, columns, heads.query_dim, batch) / rate
    scores_backward = machine.product(rows, heads.query_dim, columns, batch) * 2 / rate
    mixed = machine.product(rows, heads.value_dim, columns, batch) / rate
    mixed_backward = machine.product(rows, columns, heads.value_dim, batch) / rate + mixed
    score = graph.compute(
        "attention_scores", (query_key,), scores, scores_backward, ELEMENT * square, (query_key,)
    )
    weights = graph.compute(
        "attention_softmax",
        (score,),
        machine.stream(4.0 * square),
        machine.stream(6.0 * square),
        (ELEMENT if graph.implementation.fused_softmax else 4.0) * square,
        ("attention_softmax",),
    )
    if not graph.implementation.fused_softmax:
        weights = graph.pointwise("attention_weights", (weights,), square, 6.0, 6.0)
    if dropout > 0.0:
        mask = graph.compute("attention_softmax_mask", (), machine.stream(square), 0.0, square)
        weights = graph.compute(
            "attention_dropout",
            (weights, mask),
            machine.stream(5.0 * square),
            machine.stream(5.0 * square),
            ELEMENT * square,
            (mask,),
        )
    output = ELEMENT * shard.tokens * heads.output_width
    return graph.compute(
        "core_attention", (weights, value), mixed, mixed_backward, output, (weights, value)
    )
