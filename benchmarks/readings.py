"""Published memory read once more, with what a source's framework does and no request can say.

A reason for a miss is worth something only where the same model agrees once the reason is put into
it. Each reading here is such a reason: another implementation, or another layout than the record
states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import mean

from benchmarks.published import Published
from solver.assess import assess
from solver.cluster.cluster import cluster_from_request
from solver.costs.model import pipeline_costs
from solver.costs.pipeline import PipelineCosts
from solver.costs.reserve import update_bytes
from solver.partition.policy_menu import policy_menu
from solver.partition.stages import AMPLE_BYTES, stages_at
from solver.question import given_cuts, only_layout, question
from solver.request import PlanRequest
from solver.schedules import make_schedule
from solver.workload.huggingface import architecture_from_huggingface
from solver.workload.implementation import DEFAULT_IMPLEMENTATION, Implementation


@dataclass(frozen=True)
class Reading:
    """How a source's framework runs its layers, and what its records should have said.

    ``steps_on_copies``: its optimizer works on copies and lists as under FSDP, whatever is sharded.
    """

    words: str
    implementation: Implementation = DEFAULT_IMPLEMENTATION
    corrected: Callable[[PlanRequest], PlanRequest] = lambda request: request
    steps_on_copies: bool = False


def _sharded(request: PlanRequest) -> PlanRequest:
    return request.model_copy(
        update={"layout": request.layout.model_copy(update={"zero_stage": 3})}
    )


READINGS = {
    "InternLM/InternEvo": Reading(
        "an optimizer's step that works on fp32 copies of gradients and lists of its own where its "
        "own sharded optimizer runs, too (internlm/solver/optimizer/hybrid_zero_optim.py), as its "
        "runs under FSDP are",
        steps_on_copies=True,
    ),
    "huggingface/nanotron": Reading(
        "eager kernels, and column-parallel layers that keep the rows they gathered "
        "(nanotron/parallel/tensor_parallel/functional.py, without tp_recompute_allgather)",
        Implementation(software="sharded", keeps_gathered=True, fused_weight_gradient=False),
    ),
    "pytorch/torchtitan": Reading(
        "weights, gradients and optimizer sharded over all devices (FSDP), as its pages say, and a "
        "cross entropy with a gradient of its own in fp32",
        Implementation(eager_loss=True),
        _sharded,
    ),
}
"""By source."""


def memory_gb(run: Published, reading: Reading) -> float:
    """Decimal GB of the fullest device, read so."""
    request = reading.corrected(run.request)
    asked = question(request)
    layout = only_layout(asked)
    config = request.model.huggingface
    assert config is not None, "published runs state a config.json"
    costs = pipeline_costs(
        architecture_from_huggingface(config),
        cluster_from_request(request.cluster),
        request.training,
        layout,
        implementation=reading.implementation,
    )
    costs = replace(costs, capacity_bytes=AMPLE_BYTES)
    if reading.steps_on_copies:
        costs = _stepping_on_copies(costs)
    schedule = make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        costs.micro_batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )
    cuts = given_cuts(asked, costs, schedule)
    stages = stages_at(costs, policy_menu(costs, request.recompute), schedule, cuts)
    assert stages is not None, "everything fits an ample memory"
    return assess(costs, schedule, stages).peak_bytes / 1e9


def _stepping_on_copies(costs: PipelineCosts) -> PipelineCosts:
    """The optimizer's step as ``calibration/memory.json`` knows it of FSDP, on 16-bit weights."""
    one = update_bytes("sharded", copies=True, adam=True)
    blocks = tuple(
        block if block.update_bytes else replace(block, update_bytes=one * block.states.weights / 2)
        for block in costs.blocks
    )
    return replace(costs, blocks=blocks)


def error(runs: list[Published], reading: Reading) -> float:
    """Mean absolute relative error of memory over these runs, read so."""
    held = [run for run in runs if run.memory_gb is not None]
    return mean(abs(memory_gb(run, reading) / (run.memory_gb or 1.0) - 1.0) for run in held)
