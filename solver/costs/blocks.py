"""The blocks of a decoder model under one layout: embedding, layer (or its halves), head."""

from __future__ import annotations

from dataclasses import dataclass

from solver.cluster.collectives import all_reduce
from solver.costs.attention import attention_branch, attention_half
from solver.costs.feed_forward import feed_forward_branch, feed_forward_half
from solver.costs.graph import ELEMENT, Graph
from solver.costs.machine import Machine
from solver.costs.modules import selective_modules
from solver.costs.overheads import (
    host_bound,
    largest_gradients,
    sharded_weights,
    stage_boundary,
)
from solver.costs.pipeline import Block
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
    """Makes the blocks of one architecture under one layout.

    ``boundary_seconds``: the share of one layer in what sends between stages keep from computing.
    """

    architecture: Architecture
    training: Training
    shard: Sharding
    machine: Machine
    pipeline_parallel: int
    boundary_seconds: float

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
        Megatron-LM, core/tensor_parallel/cross_entropy.py). Forward casts, finds maxima,
        exponentiates, sums and divides; backward subtracts and casts: about 60 and 40% of the
        traffic; three values per token are summed over the vocabulary's ranks.
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
        traffic = machine.calibration.software.loss_bytes * size
        sums = 3 * all_reduce(4.0 * shard.tokens, shard.tensor, machine.links)
        forward = machine.stream(0.6 * traffic) + sums
        graph.compute(
            "loss", (logits,), forward, machine.stream(0.4 * traffic), 4.0 * size, ("loss",)
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
        """Close a block: host-bound times, moving weights and boundaries, states and memory."""
        ops = host_bound(graph.ops, self.machine.calibration.software.host_seconds)
        moved, held = sharded_weights(graph, ops, parameters.total)
        if working is None:
            working = largest_gradients(ops) + self.boundary_bytes()
        boundary = stage_boundary(self.boundary_seconds) if checkpointable else ()
        up = upkeep(parameters, self.training, self.shard, self.machine)
        return Block(
            name=name,
            ops=(*ops, *moved, *boundary),
            input_bytes=self.boundary_bytes() if input_bytes is None else input_bytes,
            states=states(parameters, self.training, self.shard),
            working_bytes=working + held,
            gradient_seconds=up.gradient_seconds,
            gather_seconds=up.gather_seconds,
            optimizer_seconds=up.optimizer_seconds,
            checkpointable=checkpointable,
            rerun_seconds=sum(op.forward_seconds for op in ops),
            modules=selective_modules(ops) if checkpointable else (),
        )


def _parallel_layer(graph: Graph, layer: Layer, positions: Positions, flash: bool) -> None:
    """Attention and MLP side by side on the same input (GPT-J, GPT-NeoX, Falcon)."""
    normed = graph.norm("attention_norm", "x")
    attention = attention_branch(graph, layer, positions, flash, normed)
    second = normed if layer.norms == 1 else graph.norm("feed_forward_norm", "x")
    feed_forward = feed_forward_branch(graph, layer, second)
    residual = graph.residual("attention_residual", "x", attention, layer.hidden_dropout)
    graph.residual("feed_forward_residual", residual, feed_forward, layer.hidden_dropout)
