"""The collectives of a layout one by one: bytes, seconds alone on the links, bus bandwidth.

Bus bandwidth is as nccl-tests reports it (doc/PERFORMANCE.md): bytes through a rank's link per
second, 2 (n - 1) / n of the buffer for an all-reduce, (n - 1) / n for an all-gather, a
reduce-scatter and an all-to-all, all of it for a send and for tokens that are sent to other nodes
once (``dispatch``).
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.cluster.cluster import Cluster
from solver.cluster.collectives import (
    Group,
    Links,
    all_gather,
    all_reduce,
    all_to_all,
    reduce_scatter,
    send,
)
from solver.costs.calibration import Efficiencies, calibration, software_of
from solver.costs.dispatch import dispatch_seconds, dispatcher_of, reach
from solver.costs.graph import ELEMENT
from solver.costs.model import machine_of
from solver.costs.pipeline import Account
from solver.costs.sharding import Sharding, sharding
from solver.layouts.layout import Layout
from solver.request import Precision, Training
from solver.workload.architecture import Architecture, MixtureOfExperts
from solver.workload.implementation import Dispatcher, Implementation
from solver.workload.software import implementation_of


@dataclass(frozen=True)
class CollectiveTime:
    """One collective as it takes its time alone on the links.

    ``size_bytes``: the buffer, as nccl-tests counts it. ``share``: of it through a rank's link.
    """

    account: Account
    kind: str
    group: Group
    size_bytes: float
    seconds: float
    share: float

    @property
    def bus_bytes_per_second(self) -> float:
        """Bus bandwidth; 0 where nothing is sent."""
        return self.share * self.size_bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Collectives:
    """The collectives of a layout.

    ``passes``: of one micro-batch. ``replicas``: the group that reduces gradients and gathers
    weights once an iteration, ``gradient_bytes`` and ``weight_bytes`` of each parameter.
    """

    passes: tuple[CollectiveTime, ...]
    replicas: Group
    gradient_bytes: float
    weight_bytes: float


def collective_times(
    architecture: Architecture,
    cluster: Cluster,
    training: Training,
    layout: Layout,
    efficiencies: Efficiencies | None = None,
    implementation: Implementation | None = None,
) -> Collectives:
    """The collectives of a layout: tensor, expert and pipeline parallel ones, and the replicas."""
    if implementation is None:
        implementation = implementation_of(training, layout.zero_stage)
    software = software_of(training, layout)
    found = efficiencies(software) if efficiencies else calibration(cluster.device.name, software)
    links = machine_of(cluster, training, found).links
    shard = sharding(training, layout, cluster.domain_size, cluster.devices_per_switch)
    hidden = architecture.hidden_size
    tokens = ELEMENT * shard.tokens * hidden
    times = []
    tensor = Account.TENSOR_PARALLEL
    if shard.sequence_parallel:
        times += [
            of_kind(tensor, "all-gather", shard.tensor, tokens, links),
            of_kind(tensor, "reduce-scatter", shard.tensor, tokens, links),
        ]
    else:
        times.append(of_kind(tensor, "all-reduce", shard.tensor, tokens, links))
    times += _of_experts(
        architecture, shard, links, found.software.expert_imbalance, implementation.dispatcher
    )
    if layout.pipeline_parallel > 1:
        boundary = ELEMENT * shard.row_tokens * hidden
        times.append(of_kind(Account.PIPELINE_PARALLEL, "send", shard.pair, boundary, links))
    weight = 4.0 if training.precision is Precision.FP32 else 2.0
    reduced = found.software.gradient_bytes
    return Collectives(
        passes=tuple(time for time in times if time.group.size > 1),
        replicas=shard.shards(shard.data),
        gradient_bytes=weight if training.precision is Precision.FP16 else reduced,
        weight_bytes=weight,
    )


def _of_experts(
    architecture: Architecture,
    shard: Sharding,
    links: Links,
    imbalance: float,
    asked: Dispatcher,
) -> list[CollectiveTime]:
    """Dispatch of tokens to experts and their way back, for each kind of mixture."""
    found = {}
    rows = ELEMENT * shard.row_tokens * architecture.hidden_size
    for layer, _ in architecture.layers:
        moe = layer.feed_forward
        if isinstance(moe, MixtureOfExperts):
            one = _dispatch(moe, rows, shard.expert, links, imbalance, asked)
            found[one.kind, one.size_bytes] = one
    return list(found.values())


def _dispatch(
    moe: MixtureOfExperts,
    rows: float,
    group: Group,
    links: Links,
    imbalance: float,
    asked: Dispatcher,
) -> CollectiveTime:
    """Dispatch of one mixture; forwarded, its buffer is what passes a rank's card, as DeepEP counts
    it.
    """
    account = Account.EXPERT_PARALLEL
    match dispatcher_of(asked, group):
        case Dispatcher.ALL_GATHER:
            return of_kind(account, "all-gather", group, rows * group.size, links)
        case Dispatcher.FORWARD if group.nodes > 1:
            seconds = dispatch_seconds(moe, rows, group, links, asked, imbalance)
            other_nodes = reach(moe, group).nodes * (group.nodes - 1) / group.nodes
            size = imbalance * rows * other_nodes
            return CollectiveTime(account, "dispatch", group, size, seconds, 1.0)
        case _:
            size = imbalance * rows * moe.experts_per_token
            return of_kind(account, "all-to-all", group, size, links)


def of_kind(account: Account, kind: str, group: Group, size: float, links: Links) -> CollectiveTime:
    """A collective of a kind over ``size`` bytes."""
    part = (group.size - 1) / group.size
    match kind:
        case "all-reduce":
            return CollectiveTime(
                account, kind, group, size, all_reduce(size, group, links), 2 * part
            )
        case "send":
            seconds = send(size, group.nodes > 1, links, group.shares)
            return CollectiveTime(account, kind, group, size, seconds, 1.0)
        case "all-to-all":
            return CollectiveTime(account, kind, group, size, all_to_all(size, group, links), part)
        case "all-gather":
            return CollectiveTime(account, kind, group, size, all_gather(size, group, links), part)
        case _:
            return CollectiveTime(
                account, kind, group, size, reduce_scatter(size, group, links), part
            )
