"""For a class of failures: every action that is possible, with what it costs and what it gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solver.answer import layout_answer
from solver.capacity.sizes import Size, useful
from solver.contingencies.cells import Cells
from solver.contingencies.documents import (
    ActionKind,
    ContingencyRequest,
    Course,
    FailureClass,
    NodeSet,
    Reduced,
)
from solver.contingencies.dropped import without_replicas
from solver.contingencies.failures import Failure
from solver.contingencies.lent import Lending
from solver.contingencies.running import Planned, shared_micro_batches
from solver.contingencies.ways import Way, Ways
from solver.transitions.documents import TransitionAnswer


class Courses:
    """Courses of action from a running plan; plans that several failures share are made once."""

    def __init__(
        self,
        request: ContingencyRequest,
        running: Planned,
        cells: Cells,
        sizes: Sequence[Size],
    ) -> None:
        self._request, self._running, self._cells = request, running, cells
        self._layout = layout_answer(running.layout)
        self._lending = Lending(running)
        self._ways = Ways(request, self._layout, running.blocks, cells)
        self._sizes = useful(sizes)
        self.plans: list[Reduced] = []
        self._known: dict[object, int | None] = {}
        self._samples = float(request.job.training.global_batch_size or 1)

    @property
    def checkpoint_seconds(self) -> float | None:
        """Reading the whole state from storage; None without a rate."""
        return self._ways.checkpoint_seconds

    def template(self, nodes: int) -> int | None:
        """The plan of a node count: the best that uses so many or fewer."""
        fitting = [size for size in self._sizes if size.nodes <= nodes]
        return self._template(fitting[-1], nodes) if fitting else None

    def of(self, failure: Failure) -> FailureClass:
        """Everything that can be done, the most work within the horizon first."""
        waiting = self._ways.waiting(failure.failed)
        wait = _Wait(waiting.seconds, self._lost_work(waiting.rolls_back))
        courses = [self._course(plan, way, wait) for plan, way in self._possible(failure.failed)]
        courses.sort(key=lambda course: -self._done(course))
        return FailureClass(
            title=failure.title,
            failed=list(failure.failed),
            node_sets=failure.node_sets,
            courses=courses,
            waiting_seconds=waiting.seconds,
        )

    def members(self, found: FailureClass, sets: Sequence[tuple[int, ...]]) -> list[NodeSet]:
        """What it costs other sets of a class to go where its courses lead."""
        return [self._member(found, failed) for failed in sets if list(failed) != found.failed]

    def _member(self, found: FailureClass, failed: Sequence[int]) -> NodeSet:
        onto = self._cells.onto(found.failed, failed)
        ways = [self._member_way(course, failed, onto) for course in found.courses]
        return NodeSet(
            failed=list(failed),
            transition_seconds=[way.seconds for way in ways],
            moved_bytes=[way.moved_bytes for way in ways],
        )

    def _member_way(
        self, course: Course, failed: Sequence[int], onto: dict[int, int]
    ) -> TransitionAnswer:
        plan = self.plans[course.plan]
        if plan.action is ActionKind.KEEP_WITH_SPARE:
            return self._ways.with_spares(failed).there
        if plan.action is ActionKind.REROUTE:
            return self._ways.rerouted_there(failed)[1]
        assert plan.layout is not None
        order = [onto[node] for node in course.order]
        return self._ways.in_order(failed, plan.layout, plan.stages, order)

    def _possible(self, failed: Sequence[int]) -> Iterator[tuple[int, Way]]:
        if len(self._request.spares) >= len(failed):
            yield self._with_spares(), self._ways.with_spares(failed)
        dropped = self.dropped(len(self._cells.lost_replicas(failed)))
        if dropped is not None:
            yield dropped, self._to(dropped, failed)
        rerouted = self._rerouted(failed)
        if rerouted is not None:
            yield rerouted, self._ways.rerouted(failed)
        for plan in self._smaller(self._cells.count - len(failed)):
            yield plan, self._to(plan, failed)

    def _to(self, plan: int, failed: Sequence[int]) -> Way:
        layout = self.plans[plan].layout
        assert layout is not None
        return self._ways.to_plan(failed, layout, self.plans[plan].stages)

    def _course(self, plan: int, way: Way, wait: _Wait) -> Course:
        there = way.there
        lost_work = self._lost_work(there.rolls_back)
        more = way.back_seconds + lost_work - wait.seconds - wait.lost_work
        slower = self.plans[plan].throughput
        return Course(
            plan=plan,
            order=way.order,
            transition_seconds=there.seconds,
            moved_bytes=there.moved_bytes,
            lost_bytes=there.lost_bytes,
            rolls_back=there.rolls_back,
            checkpoint_bytes=there.checkpoint_bytes,
            lost_work_seconds=lost_work,
            way_back_seconds=way.back_seconds,
            break_even_seconds=max(there.seconds + more, 0.0)
            if self.plans[plan].action is ActionKind.KEEP_WITH_SPARE
            else there.seconds + max(more, 0.0) / slower,
        )

    def _done(self, course: Course) -> float:
        """Samples by the end of the horizon, those of work done again taken off."""
        plan = self.plans[course.plan]
        left = max(self._request.horizon_seconds - course.transition_seconds, 0.0)
        again = self._samples / self._running.seconds * course.lost_work_seconds
        return plan.samples_per_second * left - again

    def _lost_work(self, rolls_back: bool) -> float:
        return self._request.checkpoint_interval_seconds / 2 if rolls_back else 0.0

    # -- plans --------------------------------------------------------------------------------

    def _with_spares(self) -> int:
        running = self._running
        known = self._known.get("spare")
        if known is None:
            known = self._known["spare"] = self._add(
                ActionKind.KEEP_WITH_SPARE,
                running.seconds,
                running.lower_bound,
                uses_nodes=self._cells.count,
                layout=self._layout,
                stages=running.blocks,
                micro_batches=[running.costs.micro_batches] * running.layout.data_parallel,
                memory_headroom_bytes=_headroom(running),
            )
        return known

    def dropped(self, lost: int) -> int | None:
        """The plan without so many replicas; None where none is left or it does not fit."""
        key = ("dropped", lost)
        if key not in self._known:
            self._known[key] = self._dropped(lost)
        return self._known[key]

    def _dropped(self, lost: int) -> int | None:
        running = self._running
        if lost >= running.layout.data_parallel:
            return None
        made = without_replicas(self._request, running, lost)
        if made is None:
            return None
        plan, identity = made
        left = running.layout.data_parallel - lost
        total = running.costs.micro_batches * running.layout.data_parallel
        per_node = -(-running.layout.devices // self._cells.count)
        return self._add(
            ActionKind.DROP_REPLICA,
            plan.seconds,
            plan.lower_bound,
            uses_nodes=-(-plan.layout.devices // per_node),
            layout=layout_answer(plan.layout),
            stages=plan.blocks,
            micro_batches=shared_micro_batches(total, left),
            memory_headroom_bytes=_headroom(plan),
            plan_id=identity,
            replicas_lost=lost,
        )

    def _rerouted(self, failed: Sequence[int]) -> int | None:
        lost = self._cells.lost_cells(failed)
        by_replica: dict[int, list[int]] = {}
        for stage, replica in sorted(lost):
            by_replica.setdefault(replica, []).append(stage)
        pattern = tuple(sorted(map(tuple, by_replica.values())))
        key = ("rerouted", pattern)
        if key not in self._known:
            self._known[key] = self._lent(pattern, failed)
        return self._known[key]

    def _lent(self, pattern: tuple[tuple[int, ...], ...], failed: Sequence[int]) -> int | None:
        running = self._running
        made = self._lending.lent(pattern)
        if made is None:
            return None
        stages = range(running.layout.pipeline_parallel)
        lost = self._cells.lost_cells(failed)
        idle = sum(
            all(
                (stage, replica) in lost
                for stage in self._cells.stages[node]
                for replica in self._cells.replicas[node]
            )
            for node in range(self._cells.count)
        )
        return self._add(
            ActionKind.REROUTE,
            made.seconds,
            made.lower_bound,
            uses_nodes=self._cells.count - idle,
            layout=None,
            stages=running.blocks,
            micro_batches=[running.costs.micro_batches] * running.layout.data_parallel,
            memory_headroom_bytes=made.headroom_bytes,
            cells_lost=[sum(stage in lost for lost in pattern) for stage in stages],
        )

    def _smaller(self, nodes: int) -> Iterator[int]:
        """The best plan that uses all of so many nodes, if it is the best, and the next smaller."""
        fitting = [size for size in self._sizes if size.nodes <= nodes]
        for size in reversed(fitting[-2:] if fitting and fitting[-1].nodes == nodes
                             else fitting[-1:]):  # fmt: skip
            yield self._template(size, nodes)

    def _template(self, size: Size, nodes: int) -> int:
        kind = ActionKind.REPARTITION if size.nodes == nodes else ActionKind.SHRINK
        key = (kind, size.nodes)
        known = self._known.get(key)
        if known is None:
            assert size.seconds is not None
            assert size.facts is not None
            layout = size.facts["layout"]
            running = self._running
            total = running.costs.micro_batches * running.layout.data_parallel
            known = self._known[key] = self._add(
                kind,
                size.seconds,
                size.lower_bound,
                uses_nodes=size.nodes,
                micro_batches=[total // layout.data_parallel] * layout.data_parallel,
                **size.facts,
            )
        return known

    def _add(self, action: ActionKind, seconds: float, lower_bound: float, **facts: object) -> int:
        self.plans.append(
            Reduced.model_validate(
                {
                    "action": action,
                    "iteration_seconds": seconds,
                    "lower_bound_seconds": lower_bound,
                    "samples_per_second": self._samples / seconds,
                    "throughput": self._running.seconds / seconds,
                    **facts,
                }
            )
        )
        return len(self.plans) - 1


@dataclass(frozen=True)
class _Wait:
    """What waiting costs once the nodes are there again."""

    seconds: float
    lost_work: float


def _headroom(plan: Planned) -> float:
    return plan.assessment.capacity_bytes - plan.assessment.peak_bytes
