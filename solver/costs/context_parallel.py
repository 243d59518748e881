"""Attention over sequences that several devices share: three ways to bring queries to all keys.

- A *ring* passes keys and values on, step by step, while attention works on those at hand (Ring
  Attention, arXiv:2310.01889); backward passes their gradients too.
- They are *gathered* before attention, on their own (Llama 3, arXiv:2407.21783, section 3.3.2);
  backward gathers them again and scatters the sums of their gradients.
- Heads are exchanged for tokens, *all to all*: each device attends with some heads over whole
  sequences, and the output goes back (DeepSpeed-Ulysses, arXiv:2309.14509). Backward needs what the
  exchange brought, the output of attention there and the one that came back.

What is kept follows Transformer Engine's context parallelism
(attention/dot_product_attention/context_parallel.py): the device's own queries, keys and values
under the first two, those that were exchanged under the third.
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.cluster.collectives import all_gather, all_to_all, reduce_scatter, send
from solver.costs.graph import ELEMENT, Graph
from solver.costs.pipeline import Account


@dataclass(frozen=True)
class Heads:
    """One device's heads and the widths of queries, keys and values."""

    queries: int
    keys: int
    query_dim: int
    value_dim: int
    window: int | None

    @property
    def query_width(self) -> int:
        """Columns of all queries."""
        return self.queries * self.query_dim

    @property
    def key_width(self) -> int:
        """Columns of all keys."""
        return self.keys * self.query_dim

    @property
    def value_width(self) -> int:
        """Columns of all values."""
        return self.keys * self.value_dim

    @property
    def output_width(self) -> int:
        """Columns of the attention output."""
        return self.queries * self.value_dim


def ring(
    graph: Graph, heads: Heads, inputs: tuple[str, ...], forward: float, backward: float
) -> str:
    """Lay down the ring beside attention that takes ``forward`` and ``backward`` seconds.

    Each of the size - 1 steps sends one rank's keys and values on; backward sends their gradients
    too.
    """
    group, links = graph.shard.context, graph.machine.links
    size = _keys_and_values(graph, heads)
    step = send(size, group.nodes > 1, links, group.shares)
    steps = group.size - 1
    overlap = graph.machine.calibration.software.context_parallel_overlap
    return graph.communicate(
        "context_exchange",
        inputs,
        graph.exposed(steps * step, overlap * forward),
        graph.exposed(2 * steps * step, overlap * backward),
        size,
        Account.CONTEXT_PARALLEL,
        window=max(0.0, 2 * steps * step - overlap * backward),
    )


def gather(graph: Graph, heads: Heads, inputs: tuple[str, ...]) -> str:
    """Lay down the gather of all keys and values; nothing runs beside it."""
    group, links = graph.shard.context, graph.machine.links
    size = gathered_bytes(graph, heads)
    forward = all_gather(size, group, links)
    backward = forward + reduce_scatter(size, group, links)
    return graph.communicate(
        "context_exchange", inputs, forward, backward, size, Account.CONTEXT_PARALLEL
    )


def gathered_bytes(graph: Graph, heads: Heads) -> float:
    """The keys and values of whole sequences."""
    return graph.shard.context.size * _keys_and_values(graph, heads)


def heads_for_tokens(graph: Graph, heads: Heads, inputs: tuple[str, ...]) -> str:
    """Lay down the exchange of queries, keys and values, one after the other."""
    widths = (heads.query_width, heads.key_width, heads.value_width)
    return _exchange(graph, "context_exchange", inputs, widths)


def tokens_for_heads(graph: Graph, heads: Heads, core: str) -> str:
    """Lay down the way back of attention's output."""
    return _exchange(graph, "context_return", (core,), (heads.output_width,))


def _exchange(graph: Graph, name: str, inputs: tuple[str, ...], widths: tuple[int, ...]) -> str:
    """An all-to-all for each tensor of so many columns, and one for its gradient."""
    sizes = [ELEMENT * graph.shard.tokens * width for width in widths]
    group, links = graph.shard.context, graph.machine.links
    seconds = sum(all_to_all(size, group, links) for size in sizes)
    return graph.communicate(name, inputs, seconds, seconds, sum(sizes), Account.CONTEXT_PARALLEL)


def _keys_and_values(graph: Graph, heads: Heads) -> float:
    """Bytes of the keys and values of a device's own tokens."""
    return ELEMENT * graph.shard.tokens * (heads.key_width + heads.value_width)
