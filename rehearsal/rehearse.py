"""Rehearses a plan: runs it beside full and no recompute, and compares with what was predicted."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from rehearsal import processes
from rehearsal.measure import profile
from rehearsal.model import Shape
from rehearsal.scaled import Small, beside, everything, scaled
from solver.assess import assess
from solver.costs.pipeline import Block, PipelineCosts
from solver.costs.profile import profile_costs
from solver.errors import BadRequest
from solver.partition.menu import Part
from solver.partition.stages import AMPLE_BYTES, Stage
from solver.plan import Plan
from solver.recompute.choice import choice_keeping, needed_tensors
from solver.request import Profile
from solver.schedules import Work, make_schedule

KNOWN_SCHEDULES = ("1f1b", "gpipe")


@dataclass(frozen=True)
class StageBytes:
    """Bytes that a stage's layers keep per micro-batch."""

    predicted: float
    measured: int


@dataclass(frozen=True)
class Pipeline:
    """Seconds of one iteration."""

    predicted_seconds: float
    measured_seconds: float


@dataclass(frozen=True)
class Rehearsal:
    """What a rehearsal showed.

    ``loss`` and ``loss_unsplit`` are sums over micro-batches; ``gradient_difference`` is the
    largest difference of any gradient to those of the unsplit model without recompute, relative to
    the largest gradient. ``pipelines``: the plan, full and no recompute with an even split.
    """

    processes: int
    layers: tuple[int, ...]
    micro_batches: int
    stages: tuple[StageBytes, ...]
    same_order: bool
    loss: float
    loss_unsplit: float
    gradient_difference: float
    pipelines: dict[str, Pipeline]
    left_out: tuple[str, ...]

    @property
    def kept_difference(self) -> float:
        """Largest relative distance of kept bytes from what was predicted."""
        return max(
            (abs(s.measured / s.predicted - 1.0) for s in self.stages if s.predicted), default=0.0
        )


def rehearse(
    plan: Plan,
    *,
    shape: Shape | None = None,
    most_layers: int = 12,
    most_micro_batches: int = 8,
    repeats: int = 3,
    limit_seconds: float = 300.0,
) -> Rehearsal:
    """Run a plan on CPU processes, one per pipeline device.

    Args:
        plan: A plan that succeeded.
        shape: Sizes of the small model.
        most_layers: Its layers at most; fewer if the plan has fewer.
        most_micro_batches: Likewise.
        repeats: Iterations of each pipeline; the median counts.
        limit_seconds: For everything together.

    Raises:
        BadRequest: The plan holds no stages, or its schedule cannot be run.
    """
    if plan.layout is None or not plan.stages:
        raise BadRequest("There is no plan to rehearse.", hint="Give one that succeeded.")
    if plan.layout.schedule not in KNOWN_SCHEDULES:
        raise BadRequest(
            f"A rehearsal does not run {plan.layout.schedule}.",
            field="layout.schedule",
            hint=f"It runs {' and '.join(KNOWN_SCHEDULES)}.",
        )
    sizes = shape or Shape()
    costs = _costs(sizes, 1, 1)
    block = costs.blocks[1]
    small = scaled(plan, block, most_layers, most_micro_batches)
    named = {
        "plan": small,
        "full": beside(small, everything(block)),
        "none": beside(small, frozenset()),
    }
    costs = _costs(sizes, sum(small.layers), small.micro_batches)
    seen = processes.run(list(named.values()), sizes, repeats, limit_seconds)
    losses, gradients = processes.unsplit(small, sizes)
    return Rehearsal(
        processes=small.devices,
        layers=small.layers,
        micro_batches=small.micro_batches,
        stages=tuple(
            StageBytes(predicted, measured)
            for predicted, measured in zip(_kept(small, block), seen[0].kept_bytes, strict=True)
        ),
        same_order=seen[0].order == _orders(small),
        loss=sum(seen[0].losses),
        loss_unsplit=sum(losses),
        gradient_difference=_difference(seen[0].gradients, gradients),
        pipelines={
            name: Pipeline(_predicted(costs, pipeline), one.seconds)
            for (name, pipeline), one in zip(named.items(), seen, strict=True)
        },
        left_out=small.left_out,
    )


def _costs(shape: Shape, layers: int, micro_batches: int) -> PipelineCosts:
    """The small model's measured costs; its kinds are embedding, layer and head."""
    found = Profile.model_validate(profile(shape, layers))
    return profile_costs(found, micro_batches, AMPLE_BYTES)


def _kept(small: Small, block: Block) -> list[float]:
    """Bytes that each stage's layers keep, by the costs alone."""
    layers = iter(small.recomputed)
    return [
        sum(
            choice_keeping(block, needed_tensors(block) - names).kept_bytes
            for names in itertools.islice(layers, count)
        )
        for count in small.layers
    ]


def _orders(small: Small) -> list[list[tuple[str, int, int]]]:
    """The order of each device, by the schedule alone."""
    chunks = len(small.layers) // small.devices
    schedule = make_schedule(small.schedule, small.devices, small.micro_batches, chunks)
    return [
        [
            ("F" if work == Work.FORWARD else "B", stage, micro_batch)
            for work, stage, micro_batch in schedule.order(device).tolist()
        ]
        for device in range(small.devices)
    ]


def _predicted(costs: PipelineCosts, small: Small) -> float:
    """Seconds of an iteration if every process had a core of its own and sends took no time."""
    chunks = len(small.layers) // small.devices
    schedule = make_schedule(small.schedule, small.devices, small.micro_batches, chunks)
    layers, stages, start = iter(small.recomputed), [], 0
    for number, count in enumerate(small.layers):
        kinds = [0] * (number == 0) + [1] * count + [2] * (number == len(small.layers) - 1)
        parts = []
        for kind in kinds:
            block = costs.blocks[kind]
            names = next(layers) if kind == 1 else frozenset[str]()
            parts.append(Part(kind, choice_keeping(block, needed_tensors(block) - names), 1))
        stages.append(Stage(start, start + len(kinds), tuple(parts)))
        start += len(kinds)
    return assess(costs, schedule, tuple(stages)).makespan


def _difference(found: dict[int, list[object]], expected: dict[int, list[object]]) -> float:
    import torch

    largest = difference = 0.0
    for number, gradients in expected.items():
        for one, other in zip(gradients, found[number], strict=True):
            assert isinstance(one, torch.Tensor)
            assert isinstance(other, torch.Tensor)
            largest = max(largest, float(one.abs().max()))
            difference = max(difference, float((one - other).abs().max()))
    return difference / largest if largest else difference
