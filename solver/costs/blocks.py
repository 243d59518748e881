"""The blocks of a decoder model as drafts: embedding, layer (or its halves), head."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solver.cluster.collectives import all_reduce
from solver.costs.attention import attention_branch, attention_half
from solver.costs.drafts import Draft
from solver.costs.exchange_overlap import (
    compute_seconds,
    held_meanwhile,
    with_exchange_hidden,
)
from solver.costs.feed_forward import feed_forward_branch, feed_forward_half
from solver.costs.graph import ELEMENT, Graph
from solver.costs.machine import Machine
from solver.costs.modules import selective_modules
from solver.costs.overheads import host_bound, largest_gradients
from solver.costs.sharding import Sharding
from solver.costs.shares import layer_share
from solver.costs.states import Parameters
from solver.costs.weight_gradients import with_weight_gradients
from solver.request import AttentionKernel, Training
from solver.workload.architecture import (
    Architecture,
    Layer,
    Positions,
)
from solver.workload.implementation import DEFAULT_IMPLEMENTATION, Implementation


@dataclass(frozen=True)
class Builder:
    """Drafts the blocks of one architecture; replicas of ``shard`` do not matter.

    ``piped``: whether there is more than one stage.
    """

    architecture: Architecture
    training: Training
    shard: Sharding
    machine: Machine
    piped: bool
    implementation: Implementation = DEFAULT_IMPLEMENTATION

    def layer(self, name: str, layer: Layer) -> Draft:
        """A whole transformer layer."""
        graph = self._graph()
        flash = self.training.attention is AttentionKernel.FLASH
        positions = self.architecture.positions
        if layer.parallel_residual:
            _parallel_layer(graph, layer, positions, flash)
        else:
            residual = attention_half(graph, layer, positions, flash, "x")
            feed_forward_half(graph, layer, residual)
        return self._finish(
            name, graph, layer_share(layer, self.shard, self.architecture.hidden_size, True, True)
        )

    def halves(self, name: str, layer: Layer) -> tuple[Draft, Draft]:
        """The attention half and the MLP half of a layer as blocks of their own."""
        flash = self.training.attention is AttentionKernel.FLASH
        first, second = self._graph(), self._graph()
        attention_half(first, layer, self.architecture.positions, flash, "x")
        feed_forward_half(second, layer, "x")
        beside = compute_seconds(first.ops)
        return (
            self._finish(
                f"{name}_attention",
                first,
                layer_share(layer, self.shard, self.architecture.hidden_size, True, False),
            ),
            self._finish(
                f"{name}_feed_forward",
                second,
                layer_share(layer, self.shard, self.architecture.hidden_size, False, True),
                beside=beside,
            ),
        )

    def embedding(self) -> Draft:
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
            "embedding",
            graph,
            Parameters(parameters, matrices=False),
            8.0 * shard.tokens,
            checkpointable=False,
        )

    def head(self) -> Draft:
        """Final norm, logits and cross entropy, split over the vocabulary.

        The loss works on fp32 logits and keeps their softmax: 4 s b h / t (1 + v / h) bytes with
        the norm's and the head's inputs (Korthikanti et al. 2022, section 4.3;
        Megatron-LM, core/tensor_parallel/cross_entropy.py). Forward casts, finds maxima,
        exponentiates, sums and divides; backward subtracts and casts; three values per token are
        summed over the vocabulary's ranks. The compiled form
        (core/fusions/fused_cross_entropy.py) does not exponentiate in place.
        """
        graph, shard = self._graph(), self.shard
        self._loss(graph, graph.norm("final_norm", "x"))
        tied = self.architecture.tied_embeddings and not self.piped
        table = 0.0 if tied else self._table_parameters()
        return self._finish(
            "head",
            graph,
            Parameters(table + self._norm_width(), matrices=False),
            working=self._logits_gradient(),
            checkpointable=False,
            deferred=ELEMENT * (self._logits() + shard.tokens * graph.hidden),
        )

    def prediction(self, layer: Layer) -> Draft:
        """A multi-token-prediction module: it predicts one token further.

        Norms of the hidden state and of the next token's embedding, a projection of both together,
        a layer, and the model's head again (DeepSeek-V3, arXiv:2412.19437, section 2.2;
        Megatron-LM, core/transformer/multi_token_prediction.py). The embedding's table stands here
        once more, unless this is its stage.
        """
        graph, shard = self._graph(), self.shard
        hidden = graph.hidden
        elements = shard.row_tokens * hidden
        embedded = graph.pointwise("prediction_embedding", ("x",), elements, 4.0, 6.0)
        first = graph.norm("prediction_hidden_norm", "x")
        second = graph.norm("prediction_embedding_norm", embedded)
        both = graph.pointwise("prediction_input", (first, second), 2 * elements, 4.0, 4.0)
        columns = hidden // shard.tensor.size
        forward, dgrad, wgrad = graph.linear(shard.tokens, columns, 2 * hidden)
        projected = graph.compute(
            "prediction_projection",
            (both,),
            forward,
            dgrad + wgrad,
            ELEMENT * elements,
            (both,),
        )
        flash = self.training.attention is AttentionKernel.FLASH
        attended = attention_half(graph, layer, self.architecture.positions, flash, projected)
        output = feed_forward_half(graph, layer, attended)
        self._loss(graph, graph.norm("prediction_norm", output))
        own = layer_share(layer, self.shard, self.architecture.hidden_size, True, True)
        table = self._table_parameters() if self.piped else 0.0
        projection = 2 * hidden * hidden / shard.tensor.size
        return self._finish(
            "prediction",
            graph,
            Parameters(own.dense + table + projection + 3 * self._norm_width(), own.expert),
            working=self._logits_gradient(),
            checkpointable=False,
        )

    def _logits_gradient(self) -> float:
        """Bytes of the logits' gradient, and of what stands beside it: see ``eager_loss``."""
        return ELEMENT * self._logits() + self._eager_bytes()

    def _eager_bytes(self) -> float:
        """The gradients in fp32 of an eager cross entropy."""
        return 8.0 * self._logits() if self.implementation.eager_loss else 0.0

    def _logits(self) -> float:
        """Logits of one micro-batch on one device."""
        return float(self.shard.tokens * (self._padded_vocabulary() // self.shard.tensor.size))

    def _loss(self, graph: Graph, normed: str) -> None:
        """Lay down logits and cross entropy."""
        shard, machine = self.shard, self.machine
        columns = self._padded_vocabulary() // shard.tensor.size
        forward = machine.product(shard.tokens, columns, graph.hidden)
        dgrad = machine.product(shard.tokens, graph.hidden, columns)
        wgrad = machine.product(
            columns, graph.hidden, shard.tokens, out_bytes=machine.weight_gradient_bytes
        )
        wgrad /= machine.calibration.device.weight_gradient
        gathered = graph.gather("logits_gather", normed, dgrad, wgrad)
        size = self._logits()
        logits = graph.compute(
            "logits",
            (gathered,),
            forward,
            dgrad + wgrad,
            ELEMENT * size,
            (normed,),
            backward_bytes=self._weight_gradient_bytes(columns * graph.hidden),
        )
        traffic = machine.calibration.software.loss_bytes * size
        sums = 3 * all_reduce(4.0 * shard.tokens, shard.tensor, machine.links)
        share = machine.calibration.software.loss_forward
        forward = machine.stream(share * traffic) + sums
        graph.compute(
            "loss",
            (logits,),
            forward,
            machine.stream((1.0 - share) * traffic),
            4.0 * size,
            ("loss",),
            forward_bytes=4.0 * size if self.implementation.fused_loss else 0.0,
            backward_bytes=self._eager_bytes(),
            gradient_bytes=4.0 * shard.tokens,
        )

    def boundary_bytes(self) -> float:
        """Bytes of one boundary tensor between stages, on one device."""
        return ELEMENT * self.shard.row_tokens * self.architecture.hidden_size

    def _graph(self) -> Graph:
        return Graph(self.machine, self.shard, self.architecture.hidden_size, self.implementation)

    def _weight_gradient_bytes(self, weights: float) -> float:
        """A weight's own 16-bit gradient, where it is not added up inside its product."""
        return 0.0 if self.implementation.fused_weight_gradient else ELEMENT * weights

    def _padded_vocabulary(self) -> int:
        multiple = self.implementation.vocabulary_multiple * self.shard.tensor.size
        return -(-self.architecture.vocabulary_size // multiple) * multiple

    def _table_parameters(self) -> float:
        return self._padded_vocabulary() / self.shard.tensor.size * self.architecture.hidden_size

    def _norm_width(self) -> float:
        return 2.0 * self.architecture.hidden_size

    def _finish(
        self,
        name: str,
        graph: Graph,
        parameters: Parameters,
        input_bytes: float | None = None,
        working: float | None = None,
        checkpointable: bool = True,
        deferred: float = 0.0,
        beside: float = 0.0,
    ) -> Draft:
        """Close a draft: host-bound times, hidden exchange, gradients of weights, and memory.

        A layer that is recomputed in full exchanges again with nothing beside it (measured: pull
        request 6429 of NVIDIA/Megatron-LM).
        """
        software = self.machine.calibration.software
        ops = host_bound(graph.ops, software, graph.grouped_products)
        again = sum(op.forward_seconds for op in ops)
        if self.implementation.overlapped_experts:
            # Bounds must not take products for too short to hide an exchange.
            beside = math.inf if self.machine.calibration.endless else beside
            ops = with_exchange_hidden(ops, software.expert_overlap, beside)
        x_bytes = self.boundary_bytes() if input_bytes is None else input_bytes
        ops = with_weight_gradients(ops, x_bytes)
        if working is None:
            working = largest_gradients(ops) + self.boundary_bytes()
        if self.implementation.overlapped_experts:
            working += held_meanwhile(ops, x_bytes)
        return Draft(
            name=name,
            ops=ops,
            parameters=parameters,
            input_bytes=x_bytes,
            working_bytes=working,
            checkpointable=checkpointable,
            rerun_seconds=again,
            modules=selective_modules(ops) if checkpointable else (),
            deferred_bytes=deferred if self.implementation.deferred_head_passes else 0.0,
        )


def _parallel_layer(graph: Graph, layer: Layer, positions: Positions, flash: bool) -> None:
    """Attention and MLP side by side on the same input (GPT-J, GPT-NeoX, Falcon)."""
    normed = graph.norm("attention_norm", "x")
    attention = attention_branch(graph, layer, positions, flash, normed)
    second = normed if layer.norms == 1 else graph.norm("feed_forward_norm", "x")
    feed_forward = feed_forward_branch(graph, layer, second)
    residual = graph.residual("attention_residual", "x", attention, layer.hidden_dropout)
    graph.residual("feed_forward_residual", residual, feed_forward, layer.hidden_dropout)
