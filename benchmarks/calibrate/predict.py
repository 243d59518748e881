"""Predicted seconds of a published run under given efficiencies, quickly.

The same costs, even split, policies and simulator as an evaluation; only long pipelines are
shortened: once the pipeline is full each further round of micro-batches adds the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchmarks.published import Published
from solver.cluster.cluster import Cluster, cluster_from_request
from solver.costs.calibration import Calibration, family_name, software_of
from solver.costs.model import pipeline_costs
from solver.costs.pipeline import Block, PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.even import even_cuts
from solver.recompute.policies import full, selective
from solver.request import Policy, Recompute
from solver.schedules import ScheduleGraph, StageTimes, make_schedule, schedule_graph, simulate
from solver.workload.architecture import Architecture
from solver.workload.huggingface import architecture_from_huggingface

ROUNDS = 6
"""Rounds of micro-batches after which a pipeline of p stages repeats itself."""


@dataclass(frozen=True)
class Case:
    """A published run, read once."""

    run: Published
    architecture: Architecture
    cluster: Cluster
    layout: Layout
    family: str
    software: str

    @property
    def measured(self) -> float:
        """Seconds of an iteration."""
        assert self.run.seconds is not None
        return self.run.seconds


def case(run: Published) -> Case:
    """Read a run's request."""
    asked = run.request.layout
    cluster = cluster_from_request(run.request.cluster)
    assert run.request.model.huggingface is not None
    layout = Layout(
        tensor_parallel=asked.tensor_parallel or 1,
        pipeline_parallel=asked.pipeline_parallel or 1,
        context_parallel=asked.context_parallel or 1,
        expert_parallel=asked.expert_parallel or 1,
        data_parallel=asked.data_parallel or 1,
        virtual_stages=asked.virtual_stages or 1,
        micro_batch_size=asked.micro_batch_size or 1,
        sequence_parallel=bool(asked.sequence_parallel),
        zero_stage=asked.zero_stage or 0,
        schedule="1f1b",
    )
    return Case(
        run,
        architecture_from_huggingface(run.request.model.huggingface),
        cluster,
        layout,
        family_name(cluster.device.name),
        software_of(run.request.training, layout),
    )


def predict(case: Case, efficiencies: Calibration) -> float:
    """Seconds of one iteration."""
    costs = pipeline_costs(
        case.architecture,
        case.cluster,
        case.run.request.training,
        case.layout,
        efficiencies=efficiencies,
    )
    times = _stage_times(costs, case.layout, case.run.request.recompute)
    pipeline, chunks = case.layout.pipeline_parallel, case.layout.virtual_stages
    batches = costs.micro_batches
    short = min(batches, ROUNDS * pipeline * chunks)
    short -= (short - batches) % pipeline
    if short + pipeline >= batches:
        return _makespan(pipeline, batches, chunks, times) + costs.fixed_seconds
    first = _makespan(pipeline, short, chunks, times)
    second = _makespan(pipeline, short + pipeline, chunks, times)
    rounds = (batches - short) / pipeline
    return first + (second - first) * rounds + costs.fixed_seconds


def _stage_times(costs: PipelineCosts, layout: Layout, recompute: Recompute) -> StageTimes:
    again = [_recompute_seconds(block, recompute) for block in costs.blocks]
    stages = [
        [costs.blocks[kind] for kind in costs.sequence[start:stop]]
        for start, stop in even_cuts(
            costs.sequence, layout.pipeline_parallel * layout.virtual_stages
        )
    ]
    seconds = dict(zip((block.name for block in costs.blocks), again, strict=True))
    forward = np.array([sum(b.forward_seconds for b in stage) for stage in stages])
    plain = np.array([sum(b.backward_seconds for b in stage) for stage in stages])
    extra = np.array([sum(seconds[b.name] for b in stage) for stage in stages])
    gather = np.array([sum(b.gather_seconds for b in stage) for stage in stages])
    reduction = np.array([sum(b.gradient_seconds for b in stage) for stage in stages])
    return StageTimes.of(
        forward,
        plain + extra,
        costs.send_seconds,
        np.maximum(gather - costs.gather_overlap * forward, 0.0),
        np.maximum(reduction - costs.gradient_overlap * plain, 0.0),
        np.array([sum(b.optimizer_seconds for b in stage) for stage in stages]),
    )


def _recompute_seconds(block: Block, recompute: Recompute) -> float:
    if recompute.policy is Policy.FULL:
        return full(block).seconds
    if recompute.policy is Policy.SELECTIVE:
        return selective(block, tuple(recompute.modules or ("core_attn",))).seconds
    assert recompute.policy is Policy.NONE, "published runs follow a framework's policy"
    return 0.0


@lru_cache(maxsize=512)
def _graph(pipeline: int, batches: int, chunks: int) -> ScheduleGraph:
    return schedule_graph(make_schedule("1f1b", pipeline, batches, chunks))


def _makespan(pipeline: int, batches: int, chunks: int, times: StageTimes) -> float:
    return float(simulate(_graph(pipeline, batches, chunks), times).makespan[0])
