"""Who takes which ranks of the new plan so that least state moves, and what then moves.

Giving nodes to the slots of the new plan is an assignment problem: what a node has already of a
slot's state is its worth there. It is solved exactly (cost scaling, Goldberg and Kennedy 1995, as
in OR-Tools). What is missing comes from the surviving holder that has sent least so far.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np
import numpy.typing as npt
from ortools.graph.python import linear_sum_assignment

from solver.cluster.cluster import cluster_from_request
from solver.errors import BadRequest, part_of_request
from solver.question import question
from solver.request import LayoutRequest, PlanRequest, Precision, Training
from solver.strict import named_once
from solver.transitions.documents import Move, PlanOnNodes, TransitionAnswer, TransitionRequest
from solver.transitions.pairs import PER_PARAMETER, Need, Pair, Pairs, Situation
from solver.transitions.state import (
    OPTIMIZER_BYTES,
    WEIGHT_BYTES,
    Layers,
    both,
    without,
)

Floats = npt.NDArray[np.float64]


def situation(job: PlanRequest) -> Situation:
    """The situation of a job.

    Raises:
        BadRequest: The model is a profile, or its cluster is not described.
    """
    with part_of_request("job"):
        cluster = cluster_from_request(job.cluster)
    return Situation(
        layers=layers_of(job),
        devices_per_node=cluster.devices_per_node,
        node_bytes_per_second=cluster.inter_node_bytes_per_second * cluster.devices_per_node,
    )


def layers_of(job: PlanRequest) -> Layers:
    """The model's blocks with their parameters: what one device would hold of each, unsharded."""
    if job.model.profile is not None:
        raise BadRequest(
            "A profile does not say how its state is sharded.",
            field="job.model.profile",
            hint="Give the model by name, as a config.json or as Megatron-LM flags.",
        )
    plain = job.model_copy(
        update={
            "layout": LayoutRequest(
                tensor_parallel=1, pipeline_parallel=1, data_parallel=1, micro_batch_size=1,
                zero_stage=0,
            ),
            "training": Training(
                sequence_length=job.training.sequence_length or 1024,
                global_batch_size=1,
                precision=Precision.BF16,
            ),
            "target": None,
        }
    )  # fmt: skip
    asked = question(plain)
    costs = asked.costs(asked.layouts[0])
    sizes = [costs.blocks[kind].states.weights / WEIGHT_BYTES for kind in costs.sequence]
    return Layers(np.array(sizes))


def transition(
    request: TransitionRequest,
    known: Situation | None = None,
    need: Need | None = None,
    pairs: Pairs | None = None,
    in_order: bool = False,
) -> TransitionAnswer:
    """The transition of least moved bytes.

    Args:
        request: Both plans and their nodes.
        known: The situation of the job, if it was worked out before.
        need: Where the nodes of ``after`` keep their places but hold other shares than its layout
            gives them: those.
        pairs: Those of the same situation, to be shared with other transitions.
        in_order: The nodes of ``after`` are given in its rank order, as many as it needs.

    Raises:
        BadRequest: Too few nodes are named for a layout, one of them twice, a lost one did not run,
            or stages do not fit the model.
    """
    _check_names(request)
    facts = known or situation(request.job)
    pairs = pairs or Pairs(facts)
    _check(request.before, facts, "before")
    if need is not None:
        held = _Held(request, facts, pairs.to(request.before, request.after, need))
        return held.answer(list(range(len(need[0]))))
    _check(request.after, facts, "after")
    held = _Held(request, facts, pairs.of(request.before, request.after))
    return held.answer(list(range(len(request.after.nodes))) if in_order else held.assigned())


def _check_names(request: TransitionRequest) -> None:
    for field, nodes in (("before", request.before.nodes), ("after", request.after.nodes)):
        named_once((f"{field}.nodes[{i}]", name) for i, name in enumerate(nodes))
    ran = set(request.before.nodes)
    for number, name in enumerate(request.lost):
        if name not in ran:
            raise BadRequest(
                f"The lost node {name!r} is none of those that the plan runs on.",
                field=f"lost[{number}]",
                hint="Name nodes that stand in `before.nodes`.",
            )


MOST_SHARES = 2**20
"""Shares of stages on devices up to which a plan's state is followed."""


def _check(plan: PlanOnNodes, facts: Situation, field: str) -> None:
    facts.layers.of_stages(plan, field)
    if plan.devices * plan.virtual_stages > MOST_SHARES:
        raise BadRequest(
            f"{plan.devices:,} devices with {plan.virtual_stages} chunks each are more than a "
            "transition is worked out for.",
            field=f"{field}.data_parallel",
            hint=f"Ask for at most {MOST_SHARES:,} chunks on devices in all.",
        )
    per_node = facts.devices_per_node
    needed = -(-plan.devices // per_node)
    if len(plan.nodes) < needed or (field == "before" and len(plan.nodes) > needed):
        raise BadRequest(
            f"{plan.devices} devices are {needed} nodes of {per_node}; {len(plan.nodes)} are "
            "named.",
            field=f"{field}.nodes",
            hint="Name the nodes that hold its ranks.",
        )


class _Held:
    """Slots of both plans, and what of each new slot every node has already."""

    def __init__(self, request: TransitionRequest, facts: Situation, pair: Pair) -> None:
        self._request, self._facts, self._pair = request, facts, pair
        gone = set(request.lost)
        self._holder = {
            name: slot for slot, name in enumerate(request.before.nodes) if name not in gone
        }

    @cached_property
    def overlap(self) -> Floats:
        """Bytes of every new slot that every node has; shape (nodes, slots)."""
        nodes = self._request.after.nodes
        table = np.zeros((len(nodes), len(self._pair.need)))
        for row, name in enumerate(nodes):
            slot = self._holder.get(name)
            if slot is not None:
                table[row] = self._pair.table[slot]
        return table

    def _kept(self, names: list[str]) -> float:
        """Bytes that stay where they are once slots have their nodes."""
        held = (
            (self._holder.get(name), need)
            for name, need in zip(names, self._pair.need, strict=True)
        )
        return float(
            sum(
                self._pair.in_common(self._pair.have[slot], need)
                for slot, need in held
                if slot is not None
            )
        )

    def assigned(self) -> list[int]:
        """For every slot the row of its node: the assignment that keeps most bytes in place."""
        overlap = self.overlap
        rows, slots = overlap.shape
        scale = max(float(overlap.max(initial=0.0)), 1.0) / 2**40
        worth = np.round(overlap / scale).astype(np.int64)
        solver = linear_sum_assignment.SimpleLinearSumAssignment()
        size = max(rows, slots)
        left, right = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
        cost = np.zeros((size, size), dtype=np.int64)
        cost[:rows, :slots] = -worth
        solver.add_arcs_with_cost(left.ravel(), right.ravel(), cost.ravel())
        solver.solve()
        found = [0] * slots
        for row in range(rows):
            slot = solver.right_mate(row)
            if slot < slots:
                found[slot] = row
        return found

    def answer(self, order: list[int]) -> TransitionAnswer:
        """What moves once slots have their nodes."""
        request, facts = self._request, self._facts
        names = [request.after.nodes[row] for row in order]
        moves, lost = self._moves(names)
        sent: dict[str, float] = defaultdict(float)
        received: dict[str, float] = defaultdict(float)
        for (source, target), sizes in moves.items():
            sent[source] += sum(sizes)
            received[target] += sum(sizes)
        moved = sum(sum(sizes) for sizes in moves.values())
        busiest = max([*sent.values(), *received.values()], default=0.0)
        parameters = float(facts.layers.parameters.sum())
        state = parameters * (WEIGHT_BYTES + OPTIMIZER_BYTES)
        rolls_back = lost > 0
        read = 0.0
        if rolls_back:
            read = lost if request.local_checkpoints else state
        rate = request.storage_bytes_per_second
        reading = 0.0 if not read else (read / rate if rate else None)
        moving = busiest / facts.node_bytes_per_second
        return TransitionAnswer(
            nodes=names,
            moves=[
                Move(source=a, target=b, weight_bytes=w, optimizer_bytes=o)
                for (a, b), (w, o) in sorted(moves.items())
            ],
            moved_bytes=moved,
            kept_bytes=self._kept(names),
            lost_bytes=lost,
            rolls_back=rolls_back,
            checkpoint_bytes=read,
            busiest_node_bytes=busiest,
            restart_seconds=request.restart_seconds,
            move_seconds=moving,
            checkpoint_seconds=reading,
            seconds=request.restart_seconds + moving + (reading or 0.0),
            state_bytes=state,
            state_bytes_per_parameter=state / parameters,
            notes=_notes(request, rolls_back, rate),
        )

    def _moves(self, names: list[str]) -> tuple[dict[tuple[str, str], list[float]], float]:
        """Weight and optimizer bytes by source and target, and the bytes that nobody has."""
        have = self._pair.have
        moves: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        sent: dict[str, float] = defaultdict(float)
        lost = 0.0
        holders: dict[int, list[str]] = defaultdict(list)
        for name, slot in self._holder.items():
            for stage in have[slot]:
                holders[stage].append(name)
        for name, need in zip(names, self._pair.need, strict=True):
            own = have[self._holder[name]] if name in self._holder else {}
            for (old, new), parameters in self._pair.shared.items():
                if new not in need:
                    continue
                for kind, size in enumerate(PER_PARAMETER):
                    missing = need[new][kind]
                    if old in own:
                        missing = without(missing, own[old][kind])
                    each = parameters * size / self._pair.parts
                    for source in sorted(holders[old], key=lambda other: (sent[other], other)):
                        if not missing:
                            break
                        has = both(missing, have[self._holder[source]][old][kind])
                        amount = each * sum(high - low for low, high in has)
                        if amount:
                            moves[source, name][kind] += amount
                            sent[source] += amount
                            missing = without(missing, has)
                    lost += each * sum(high - low for low, high in missing)
        return moves, lost


def _notes(request: TransitionRequest, rolls_back: bool, rate: float | None) -> list[str]:
    notes = []
    if rolls_back:
        notes.append(
            "State was lost of which no copy survives; all ranks go back to the last checkpoint."
        )
        if rate is None:
            notes.append("No storage rate was given; reading the checkpoint is not in the seconds.")
    if request.after.zero_stage and rolls_back:
        notes.append("An optimizer that is sharded over replicas has no second copy of a shard.")
    return notes
