"""The MLP half of a transformer layer as ops: dense and mixture of experts."""

from __future__ import annotations

from solver.cluster.collectives import all_gather, reduce_scatter
from solver.costs.dispatch import dispatch_seconds
from solver.costs.graph import ELEMENT, Graph
from solver.costs.pipeline import Account
from solver.workload.architecture import FeedForward, Layer, MixtureOfExperts


def feed_forward_half(graph: Graph, layer: Layer, source: str) -> str:
    """Lay down norm, MLP or experts, and residual; answers with the residual's name."""
    normed = graph.norm("feed_forward_norm", source)
    branch = feed_forward_branch(graph, layer, normed)
    return graph.residual("feed_forward_residual", source, branch, layer.hidden_dropout)


def feed_forward_branch(graph: Graph, layer: Layer, normed: str) -> str:
    """Lay down the MLP from its normed input to its reduced output."""
    part = layer.feed_forward
    if isinstance(part, FeedForward):
        reduced = _dense(graph, "feed_forward", part.hidden, part.gated, normed)
    else:
        reduced = _experts(graph, part, normed)
    if layer.norms > 2:
        return graph.norm("feed_forward_post_norm", reduced)
    return reduced


def _dense(graph: Graph, name: str, inner: int, gated: bool, normed: str) -> str:
    """A column-parallel and a row-parallel layer round the activation (Shoeybi et al. 2019, 3).

    Korthikanti et al. 2022, section 4.1: both products keep their input, the activation too.
    """
    shard = graph.shard
    local = max(1, inner // shard.tensor.size)
    columns = 2 * local if gated else local
    forward, dgrad, wgrad = graph.linear(shard.tokens, columns, graph.hidden)
    gathered = graph.gather(f"{name}_gather", normed, dgrad, wgrad)
    wide = graph.compute(
        f"{name}_in",
        (gathered,),
        forward,
        dgrad + wgrad,
        ELEMENT * shard.tokens * columns,
        (normed,),
    )
    active = _activation(graph, name, wide, float(shard.tokens * local), gated)
    forward, dgrad, wgrad = graph.linear(shard.tokens, graph.hidden, local)
    output = graph.compute(
        f"{name}_out",
        (active,),
        forward,
        dgrad + wgrad,
        ELEMENT * shard.tokens * graph.hidden,
        (active,),
    )
    return graph.reduce(f"{name}_reduce", output)


def _activation(graph: Graph, name: str, wide: str, elements: float, gated: bool) -> str:
    """The activation; a gated one in one kernel where fused, else gate and product apart.

    PyTorch's eager gated MLP keeps the activated gate beside both inputs; Megatron-LM's fused
    kernel (core/fusions/fused_bias_swiglu.py) keeps the inputs only.
    """
    activation = f"{name}_activation"
    if not gated:
        return graph.pointwise(activation, (wide,), elements, 4.0, 6.0, (wide,))
    if graph.machine.calibration.software.fused_activation:
        return graph.pointwise(activation, (wide,), elements, 6.0, 10.0, (wide,))
    gate = graph.pointwise(f"{name}_gate", (wide,), elements, 4.0, 6.0, (wide,))
    return graph.pointwise(activation, (gate, wide), elements, 6.0, 10.0, (gate, wide))


def _experts(graph: Graph, moe: MixtureOfExperts, normed: str) -> str:
    """Router, dispatch, grouped products, combine, and the shared expert beside them.

    Tokens go to the ranks of the expert-parallel group (``dispatch``) and are gathered over the
    tensor-parallel ranks that share an expert (Megatron-LM, core/transformer/moe: router,
    token_dispatcher, experts). The busiest rank holds ``expert_imbalance`` times the mean.
    """
    shard, machine = graph.shard, graph.machine
    rows = shard.row_tokens
    copies = rows * moe.experts_per_token
    router = _router(graph, moe, normed)
    copy_bytes = ELEMENT * copies * graph.hidden
    permuted = graph.compute(
        "expert_permute",
        (normed, router),
        machine.pointwise(2 * copy_bytes),
        machine.pointwise(2 * copy_bytes),
        copy_bytes,
    )
    dispatched = _exchange(graph, moe, "expert_dispatch", permuted)
    output = _grouped(graph, moe, dispatched)
    combined = _exchange(graph, moe, "expert_combine", output, back=True)
    merged = graph.compute(
        "expert_unpermute",
        (combined, router),
        machine.pointwise(copy_bytes + ELEMENT * rows * graph.hidden),
        machine.pointwise(2 * copy_bytes),
        ELEMENT * rows * graph.hidden,
        (router,),
    )
    if not moe.shared_hidden:
        return merged
    shared = _dense(graph, "shared_expert", moe.shared_hidden, moe.gated, normed)
    elements = rows * graph.hidden
    return graph.pointwise("shared_expert_add", (merged, shared), elements, 6.0, 2.0)


def _router(graph: Graph, moe: MixtureOfExperts, normed: str) -> str:
    """Scores of all experts in fp32, their top choices and the sorting of tokens."""
    machine, rows = graph.machine, graph.shard.row_tokens
    m = max(1, round(rows))
    scores = 4.0 * rows * moe.experts
    forward = machine.product(m, moe.experts, graph.hidden, out_bytes=4.0)
    forward += machine.pointwise(6 * scores)
    backward = machine.product(m, graph.hidden, moe.experts)
    backward += machine.product(moe.experts, graph.hidden, m) + machine.pointwise(6 * scores)
    if graph.implementation.wide_router:
        elements = rows * graph.hidden
        wide = machine.pointwise(6.0 * elements)
        normed = graph.compute("router_input", (normed,), wide, wide, 4.0 * elements)
    return graph.compute("router", (normed,), forward, backward, 2 * scores, (normed, "router"))


def _exchange(
    graph: Graph, moe: MixtureOfExperts, name: str, source: str, back: bool = False
) -> str:
    """Dispatch of token copies to their experts' ranks, or their way back."""
    shard, links = graph.shard, graph.machine.links
    rows = ELEMENT * shard.row_tokens * graph.hidden
    size = rows * moe.experts_per_token
    received = size * _spread(graph)
    if shard.expert.size == 1 and not (shard.sequence_parallel and shard.expert_tensor.size > 1):
        return source
    imbalance = graph.machine.calibration.software.expert_imbalance
    dispatcher = graph.implementation.dispatcher
    seconds = dispatch_seconds(moe, rows, shard.expert, links, dispatcher, imbalance)
    other = seconds
    if shard.sequence_parallel:
        gathered = all_gather(received, shard.expert_tensor, links)
        scattered = reduce_scatter(received, shard.expert_tensor, links)
        seconds += scattered if back else gathered
        other += gathered if back else scattered
    output = size if back else received
    # Beside another micro-batch's exchange the compute units do not wait.
    window = 0.0 if graph.implementation.overlapped_experts else None
    return graph.communicate(
        name, (source,), seconds, other, output, Account.EXPERT_PARALLEL, window=window
    )


def _spread(graph: Graph) -> float:
    """Copies on a rank's experts over copies it sent: those of all ranks that share its experts."""
    return float(graph.shard.expert_tensor.size) if graph.shard.sequence_parallel else 1.0


def _grouped(graph: Graph, moe: MixtureOfExperts, dispatched: str) -> str:
    """The experts' products, one group per local expert.

    Keeps the dispatched tokens, the wide activations and the activated ones
    (Megatron-LM, core/transformer/moe/experts.py), which the fused activation multiplies by the
    router's weights; without it the product is one more tensor.
    """
    shard, machine = graph.shard, graph.machine
    software, device = machine.calibration.software, machine.calibration.device
    local_experts = max(1, moe.experts // shard.expert.size)
    inner = max(1, moe.hidden // shard.expert_tensor.size)
    columns = 2 * inner if moe.gated else inner
    copies = shard.row_tokens * moe.experts_per_token * _spread(graph)
    imbalance = software.expert_imbalance if shard.expert.size > 1 else 1.0
    rows = max(1, round(copies * imbalance / local_experts))
    size = ELEMENT * copies
    hidden = graph.hidden

    def product(m: int, n: int, k: int, out_bytes: float = 2.0) -> float:
        return machine.grouped(m, n, k, local_experts, out_bytes)

    graph.grouped_products += 2 * local_experts
    gradient = device.weight_gradient
    wide = graph.compute(
        "expert_in",
        (dispatched,),
        product(rows, columns, hidden),
        product(rows, hidden, columns)
        + product(columns, hidden, rows, machine.weight_gradient_bytes) / gradient,
        size * columns,
        (dispatched,),
    )
    active = _activation(graph, "expert", wide, copies * inner, moe.gated)
    if not graph.implementation.fused_activation:
        active = graph.pointwise("expert_weighting", (active,), copies * inner, 4.0, 6.0, (active,))
    return graph.compute(
        "expert_out",
        (active,),
        product(rows, hidden, inner),
        product(rows, inner, hidden)
        + product(hidden, inner, rows, machine.weight_gradient_bytes) / gradient,
        size * hidden,
        (active,),
    )
