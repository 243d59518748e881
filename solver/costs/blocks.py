"""The blocks of a decoder model under one layout: embedding, layer (or its halves), head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from solver.cluster.collectives import all_gather, all_reduce, reduce_scatter
from solver.costs.attention import attention_branch, attention_half
from solver.costs.feed_forward import feed_forward_branch, feed_forward_half
from solver.costs.graph import ELEMENT, Graph
from solver.costs.machine import Machine
from solver.costs.pipeline import Account, Block, Op, OpKind
from solver.costs.sharding import Sharding
from solver.costs.states import Parameters, states, upkeep
from solver.request import AttentionKernel, Training
from solver.workload.architecture import (
    Architecture,
    LatentAttention,
    Layer,
    MixtureOfExperts,
    Positions,
)
from solver.workload.parameters import attention_parameters, feed_forward_parameters

VOCABULARY_MULTIPLE = 128
"""Megatron-LM pads the vocabulary to a multiple of this times the tensor-parallel size
(``--make-vocab-size-divisible-by``)."""


@dataclass(frozen=True)
class Builder:
    """Makes the blocks of one architecture under one layout."""

    architecture: Architecture
    training: Training
    shard: Sharding
    machine: Machine
    pipeline_parallel: int

    def layer(self, name: str, layer: Layer) -> Block:
        """A whole transformer layer."""
        graph = self._graph()
        flash = self.training.attention is AttentionKernel.FLASH
        positions = self.architecture.positions
        if layer.parallel_residual:
            _parallel_layer(graph, layer, positions, flash)
        else:
            residual = attention_half(graph, layer, positions, flash, "x")
            feed_forward_half(graph, layer, residual)
        return self._finish(name, graph, self._layer_parameters(layer, True, True))

    def halves(self, name: str, layer: Layer) -> tuple[Block, Block]:
        """The attention half and the MLP half of a layer as blocks of their own."""
        flash = self.training.attention is AttentionKernel.FLASH
        first, second = self._graph(), self._graph()
        attention_half(first, layer, self.architecture.positions, flash, "x")
        feed_forward_half(second, layer, "x")
        return (
            self._finish(f"{name}_attention", first, self._layer_parameters(layer, True, False)),
            self._finish(
                f"{name}_feed_forward", second, self._layer_parameters(layer, False, True)
            ),
        )

    def embedding(self) -> Block:
        """Token (and learned position) embedding; its input is the token ids, 8 bytes each.

        Each tensor-parallel rank looks up its slice of the vocabulary, and the partial rows are
        summed (Shoeybi et al. 2019, section 3). Dropout keeps a mask: s b h p / t on the first
        stage (Korthikanti et al. 2022, section 4.3).
        """
        graph, shard = self._graph(), self.shard
        elements = float(shard.tokens * graph.hidden)
        seconds = self.machine.stream(2 * ELEMENT * elements)
        backward = self.machine.stream(3 * ELEMENT * elements)
        rows = graph.compute(
            "embedding_rows", ("x",), seconds, backward, ELEMENT * elements, ("x",)
        )
        rows = graph.reduce("embedding_reduce", rows)
        if self.architecture.embedding_norm:
            rows = graph.norm("embedding_norm", rows)
        held = shard.row_tokens * graph.hidden
        if self.architecture.embedding_dropout > 0.0:
            mask = graph.compute("embedding_mask", (), self.machine.pointwise(held), 0.0, held)
            graph.pointwise("embedding", (rows, mask), held, 5.0, 5.0, (mask,))
        parameters = self._table_parameters()
        if self.architecture.positions is Positions.LEARNED:
            parameters += self.architecture.max_positions * graph.hidden
        return self._finish(
            "embedding", graph, Parameters(parameters), 8.0 * shard.tokens, checkpointable=False
        )

    def head(self) -> Block:
        """Final norm, logits and cross entropy, split over the vocabulary.

        The loss works on fp32 logits and keeps their softmax: 4 s b h / t (1 + v / h) bytes with
        the norm's and the head's inputs (Korthikanti et al. 2022, section 4.3;
        Megatron-LM, core/tensor_parallel/cross_entropy.py).
        """
        graph, shard, machine = self._graph(), self.shard, self.machine
        normed = graph.norm("final_norm", "x")
        columns = self._padded_vocabulary() // shard.tensor.size
        forward = machine.product(shard.tokens, columns, graph.hidden)
        dgrad = machine.product(shard.tokens, graph.hidden, columns)
        wgrad = machine.product(
            columns, graph.hidden, shard.tokens, out_bytes=machine.weight_gradient_bytes
        )
        wgrad /= machine.calibration.device.weight_gradient
        gathered = graph.gather("logits_gather", normed, dgrad, wgrad)
        size = float(shard.tokens * columns)
        logits = graph.compute(
            "logits", (gathered,), forward, dgrad + wgrad, ELEMENT * size, (normed,)
        )
        # Cast, maximum, exponential and sum, division; backward subtracts and casts.
        forward = machine.pointwise(22.0 * size) + 3 * all_reduce(
            4.0 * shard.tokens, shard.tensor, machine.links
        )
        graph.compute(
            "loss", (logits,), forward, machine.pointwise(14.0 * size), 4.0 * size, ("loss",)
        )
        tied = self.architecture.tied_embeddings and self.pipeline_parallel == 1
        table = 0.0 if tied else self._table_parameters()
        return self._finish(
            "head",
            graph,
            Parameters(table + self._norm_width()),
            working=ELEMENT * size,
            checkpointable=False,
        )

    def boundary_bytes(self) -> float:
        """Bytes of one boundary tensor between stages, on one device."""
        return ELEMENT * self.shard.row_tokens * self.architecture.hidden_size

    def _graph(self) -> Graph:
        return Graph(self.machine, self.shard, self.architecture.hidden_size)

    def _padded_vocabulary(self) -> int:
        multiple = VOCABULARY_MULTIPLE * self.shard.tensor.size
        return -(-self.architecture.vocabulary_size // multiple) * multiple

    def _table_parameters(self) -> float:
        return self._padded_vocabulary() / self.shard.tensor.size * self.architecture.hidden_size

    def _norm_width(self) -> float:
        return 2.0 * self.architecture.hidden_size

    def _layer_parameters(self, layer: Layer, attention: bool, feed_forward: bool) -> Parameters:
        """Parameters on one device: matrices split by tensor parallelism, norms replicated.

        Latent attention's down projections are replicated.
        """
        hidden, tensor = self.architecture.hidden_size, self.shard.tensor.size
        dense = expert = 0.0
        if attention:
            total = attention_parameters(layer.attention, hidden)
            dense += self._norm_width() * layer.norms / 2
            if isinstance(layer.attention, LatentAttention):
                down = layer.attention.key_value_rank + layer.attention.rope_head_dim
                down = hidden * (down + (layer.attention.query_rank or 0))
                dense += down + (total - down) / tensor
            else:
                dense += self._attention_share(layer, total)
        if feed_forward:
            part = layer.feed_forward
            dense += self._norm_width() * layer.norms / 2
            if isinstance(part, MixtureOfExperts):
                routed = part.experts * hidden * part.hidden * (3 if part.gated else 2)
                rest = feed_forward_parameters(part, hidden) - routed
                router = hidden * part.experts
                dense += router + (rest - router) / tensor
                expert += routed / tensor / self.shard.expert.size
            else:
                dense += feed_forward_parameters(part, hidden) / tensor
        return Parameters(dense, expert)

    def _attention_share(self, layer: Layer, total: int) -> float:
        """Split by heads; key and value heads fewer than the ranks are replicated."""
        attention, tensor = layer.attention, self.shard.tensor.size
        if isinstance(attention, LatentAttention) or attention.key_value_heads >= tensor:
            return total / tensor
        keys = 2 * self.architecture.hidden_size * attention.key_value_heads * attention.head_dim
        own = 2 * self.architecture.hidden_size * attention.head_dim
        return (total - keys) / tensor + own

    def _finish(
        self,
        name: str,
        graph: Graph,
        parameters: Parameters,
        input_bytes: float | None = None,
        working: float | None = None,
        checkpointable: bool = True,
    ) -> Block:
        """Close a block: host-bound times, sharded weights, states and working memory."""
        ops = _host_bound(graph.ops, self.machine.calibration.software.host_seconds)
        sharded, held = _sharded_weights(graph, ops, parameters)
        if working is None:
            working = _largest_gradients(ops) + self.boundary_bytes()
        up = upkeep(parameters, self.training, self.shard, self.machine)
        return Block(
            name=name,
            ops=sharded,
            input_bytes=self.boundary_bytes() if input_bytes is None else input_bytes,
            states=states(parameters, self.training, self.shard),
            working_bytes=working + held,
            gradient_seconds=up.gradient_seconds,
            gather_seconds=up.gather_seconds,
            optimizer_seconds=up.optimizer_seconds,
            checkpointable=checkpointable,
            rerun_seconds=sum(op.forward_seconds for op in sharded),
            modules=_modules(sharded) if checkpointable else (),
        )


def _parallel_layer(graph: Graph, layer: Layer, positions: Positions, flash: bool) -> None:
    """Attention and MLP side by side on the same input (GPT-J, GPT-NeoX, Falcon)."""
    normed = graph.norm("attention_norm", "x")
    attention = attention_branch(graph, layer, positions, flash, normed)
    second = normed if layer.norms == 1 else graph.norm("feed_forward_norm", "x")
    feed_forward = feed_forward_branch(graph, layer, second)
    residual = graph.residual("attention_residual", "x", attention, layer.hidden_dropout)
    graph.residual("feed_forward_residual", residual, feed_forward, layer.hidden_dropout)


def _host_bound(ops: list[Op], seconds: float) -> tuple[Op, ...]:
    """Ops of a block that cannot run faster than the host launches them.

    The host runs ahead of the device, so the bound holds for the block as a whole: where the
    kernels of all ops take less than the host needs for them, they wait in proportion.
    """
    host = seconds * len(ops)
    forward = sum(op.forward_seconds for op in ops)
    backward = sum(op.backward_seconds for op in ops)
    if forward >= host and backward >= host:
        return tuple(ops)
    slower_forward = max(1.0, host / forward) if forward else 1.0
    slower_backward = max(1.0, host / backward) if backward else 1.0
    return tuple(
        Op(
            op.name,
            op.inputs,
            op.forward_seconds * slower_forward,
            op.backward_seconds * slower_backward,
            op.output_bytes,
            op.backward_reads,
            op.kind,
            op.account,
        )
        for op in ops
    )


def _sharded_weights(
    graph: Graph, ops: tuple[Op, ...], parameters: Parameters
) -> tuple[tuple[Op, ...], float]:
    """Add ZeRO 2's and 3's movement of weights and gradients; answers with ops and bytes held.

    Stage 3 gathers the weights for forward and again for backward, stage 2 for forward only; both
    scatter the gradients after backward (Zhao et al. 2023, PyTorch FSDP, section 3). The next
    block's gather runs under this one's compute. Two blocks' weights and one's gradients are held
    unsharded meanwhile.
    """
    shard, links = graph.shard, graph.machine.links
    if shard.zero_stage < 2 or shard.data.size == 1:
        return ops, 0.0
    size = ELEMENT * parameters.total
    gather = all_gather(size, shard.data, links)
    scatter = reduce_scatter(size, shard.data, links)
    forward = sum(op.forward_seconds for op in ops)
    backward = sum(op.backward_seconds for op in ops)
    again = gather if shard.zero_stage == 3 else 0.0
    moved = Op(
        "sharded_weights",
        (),
        graph.exposed(gather, forward),
        graph.exposed(again + scatter, backward),
        0.0,
        (),
        OpKind.COMMUNICATION,
        Account.DATA_PARALLEL,
    )
    held = 3 * size if shard.zero_stage == 3 else size
    return (*ops, moved), held


def _largest_gradients(ops: Iterable[Op]) -> float:
    """The most gradient bytes that one op's backward holds: those of its output and its inputs."""
    sizes: dict[str, float] = {}
    largest = 0.0
    for op in ops:
        largest = max(largest, op.output_bytes + sum(sizes.get(name, 0.0) for name in op.inputs))
        sizes[op.name] = op.output_bytes
    return largest


_MODULES = (
    ("core_attn", ("attention_softmax", "attention_softmax_mask", "attention_dropout")),
    ("mlp", ("feed_forward_in", "feed_forward_gate", "feed_forward_activation")),
    ("layernorm", ("attention_norm", "feed_forward_norm")),
    (
        "moe",
        (
            "router",
            "expert_permute",
            "expert_dispatch",
            "expert_in",
            "expert_gate",
            "expert_activation",
            "shared_expert_in",
            "shared_expert_gate",
            "shared_expert_activation",
        ),
    ),
    ("moe_act", ("expert_gate", "expert_activation")),
    ("mla_up_proj", ("query_up", "key_value_up", "rotary")),
    (
        "shared_experts",
        ("shared_expert_in", "shared_expert_gate", "shared_expert_activation"),
    ),
)
"""Megatron-LM's ``--recompute-modules`` and the tensors each leaves out
(core/transformer/transformer_config.py)."""


def _modules(ops: Iterable[Op]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The modules that this block has; fused attention is re-run for its output."""
    present = {op.name for op in ops}
    found = []
    for module, tensors in _MODULES:
        dropped = tuple(name for name in tensors if name in present)
        if module == "core_attn" and not dropped and "core_attention" in present:
            dropped = ("core_attention",)
        if dropped:
            found.append((module, dropped))
    return tuple(found)
