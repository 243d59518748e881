"""How a layout slices one micro-batch: token counts and communication groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from solver.cluster.collectives import Group, Links, send, shares_of
from solver.layouts.layout import Layout
from solver.request import Training


@dataclass(frozen=True)
class Sharding:
    """One micro-batch on one device.

    ``tokens``: tokens that a device computes in attention and MLP products (micro-batch x sequence
    / context parallel). ``row_tokens``: tokens that it holds between them, which sequence
    parallelism splits again over the tensor-parallel group (Korthikanti et al. 2022, section 4.2).
    ``data`` and ``expert_data`` are the groups over which the states of dense and of expert
    parameters are replicated. Groups follow the layout's rank order, by default Megatron-LM's
    tp-cp-ep-dp-pp (megatron/core/parallel_state.py); experts fold over the tensor-, context- and
    data-parallel ranks, each expert split over the ``expert_tensor`` group. ``state_copies``: into
    how many groups the replicas are divided, each of which holds all states, sharded.
    ``send_shares``: what a pipeline has of the uplinks of switches, as ``Group.shares``.
    ``sends_within``: some sends stay inside a node although others cross.
    """

    micro_batch: int
    sequence: int
    tokens: int
    row_tokens: float
    tensor: Group
    context: Group
    expert: Group
    expert_tensor: Group
    data: Group
    expert_data: Group
    sequence_parallel: bool
    zero_stage: int
    send_crosses_nodes: bool
    state_copies: int = 1
    send_shares: tuple[float, ...] = ()
    context_method: str = "ring"
    sends_within: bool = False

    @property
    def of_passes(self) -> Sharding:
        """What passes of a micro-batch through a block depend on: replicas and stages left out."""
        one = Group(1, 1)
        return replace(
            self,
            data=one,
            expert_data=one,
            zero_stage=0,
            send_crosses_nodes=False,
            state_copies=1,
            send_shares=(),
            sends_within=False,
        )

    @property
    def runs_sharded(self) -> bool:
        """Whether weights and gradients move with every micro-batch (ZeRO 2 and 3)."""
        return self.zero_stage >= 2

    @property
    def pair(self) -> Group:
        """A device and that of the neighbouring stage which it sends to."""
        if self.send_crosses_nodes:
            return Group(2, 1, self.send_shares)
        return Group(2, 2)

    def send(self, size_bytes: float, links: Links) -> float:
        """Seconds to pass ``size_bytes`` to the neighbouring stage, wherever that takes longest."""
        seconds = send(size_bytes, self.send_crosses_nodes, links, self.send_shares)
        return max(seconds, send(size_bytes, False, links)) if self.sends_within else seconds

    def shards(self, group: Group) -> Group:
        """Of a group of replicas, the neighbours over which states are sharded.

        Hybrid sharding (PyTorch FSDP's HSDP; PaRO, arXiv:2310.06003; Megatron-LM's
        num_distributed_optimizer_instances).
        """
        size = max(1, group.size // self.state_copies)
        return Group(
            size,
            min(size, group.per_node),
            tuple(share if share < size else math.inf for share in group.shares),
        )

    def copies(self, group: Group) -> Group:
        """Of a group of replicas, those that hold the same shard: one of each sharding group."""
        own = self.shards(group).size
        size = group.size // own
        every = [max(1.0, share // own) if share < math.inf else share for share in group.shares]
        return Group(size, max(1, min(size, group.per_node // own)), tuple(every))


def sharding(
    training: Training,
    layout: Layout,
    node: int,
    switches: tuple[int, ...] = (),
    stages: int | None = None,
) -> Sharding:
    """The slices of ``layout`` where ``node`` consecutive devices share a node (NVLink domain).

    ``switches``: consecutive devices below one switch of each level with oversubscribed uplinks.
    ``stages``: devices of a pipeline that stand here, where the others stand elsewhere; what goes
    there passes all switches.
    """
    here = layout.pipeline_parallel if stages is None else stages
    leaves = here < layout.pipeline_parallel
    crosses = _pipeline_crosses(layout, node, here)
    sequence = training.sequence_length or 1
    tensor, context = layout.tensor_parallel, layout.context_parallel
    data, expert = layout.data_parallel, layout.expert_parallel
    shards = layout.expert_shards
    tokens = max(1, layout.micro_batch_size * sequence // context)
    split = layout.sequence_parallel and tensor > 1
    return Sharding(
        micro_batch=layout.micro_batch_size,
        sequence=sequence,
        tokens=tokens,
        row_tokens=tokens / tensor if split else tokens,
        tensor=Group.placed(tensor, 1, node, switches),
        context=Group.placed(context, tensor, node, switches),
        expert=Group.placed(expert, shards, node, switches),
        expert_tensor=Group.placed(shards, 1, node, switches),
        data=_replicas(layout, node, switches, here),
        expert_data=Group.placed(
            max(1, tensor * data * context // (shards * expert)),
            shards * expert * (here if layout.pipeline_inside else 1),
            node,
            switches,
        ),
        sequence_parallel=split,
        zero_stage=layout.zero_stage,
        send_crosses_nodes=crosses or leaves,
        state_copies=layout.state_copies,
        send_shares=_pipeline(layout, switches, here),
        context_method=layout.context_method,
        sends_within=leaves and here > 1 and not crosses,
    )


def _replicas(layout: Layout, node: int, switches: tuple[int, ...], stages: int) -> Group:
    """Data and context parallel together; where pipelines lie between, only context is dense."""
    near = [_near_replicas(layout, devices, stages) for devices in (node, *switches)]
    return Group(layout.replicas, near[0], shares_of(near[1:], layout.replicas))


def _near_replicas(layout: Layout, devices: int, stages: int) -> int:
    """How many of one group of replicas are among so many consecutive devices."""
    tensor, context = layout.tensor_parallel, layout.context_parallel
    if not layout.pipeline_inside:
        return Group.placed(layout.replicas, tensor, devices).per_node
    near = Group.placed(context, tensor, devices).per_node
    stride = tensor * context * stages
    far = Group.placed(layout.data_parallel, stride, devices).per_node
    return near if near < context else context * far


def _pipeline(layout: Layout, switches: tuple[int, ...], stages: int) -> tuple[float, ...]:
    """Of uplinks, what one pipeline has: as many devices' shares as it has stages below a switch.

    Of the stages below a switch only the last one sends out of it. Where the pipeline goes on
    elsewhere somebody does so out of every switch.
    """
    stride = layout.tensor_parallel * layout.context_parallel
    stride *= 1 if layout.pipeline_inside else layout.data_parallel
    if stages < layout.pipeline_parallel:
        return tuple(float(min(max(1, below // stride), stages)) for below in switches)
    return Group.placed(stages, stride, 1, switches).shares


def _pipeline_crosses(layout: Layout, node: int, stages: int) -> bool:
    """Whether neighbouring stages stand on different nodes, some of them at least."""
    ranks = layout.tensor_parallel * layout.context_parallel
    if layout.pipeline_inside:
        return ranks * stages > node
    return ranks * layout.data_parallel >= node
