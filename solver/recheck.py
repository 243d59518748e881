"""A plan checked again from its request: what it claims, and whether anything could be faster.

Time and memory are derived again by ``verify.py``. The bound is proved again without any program:
in plain loops, runs of blocks are struck out of which no plan can be faster than the claim, until
none is left or few enough plans remain to simulate each. For stage c of 1F1B, with before and after
the least sums of F + B of the runs still standing, q = min(p - c, n) and k = n - q + 1, every plan
takes at least each of

    before + n (F + B),    before + after + k F + n B,    before + after + n F + k B,
    before + 2 after + k (F + B)  (only if n > q)

and under GPipe before + after + n (F + B) (``docs/mathematics.md``, Own-paths). ZB-H1 has the paths
of 1F1B with the gradients of weights W that stand on them, n - 1 - c before the last backward of
stage c and n - q - c before its last forward, and the first stage's last one at the end; and two
that come down to stage c by forwards and end there with its last W. The least recompute of a run
comes from the menus, which tests hold against enumeration. Where devices hold several stages, small
pipelines are proved by going through all plans (``recheck_shared.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from solver.baselines.methods import METHODS, Method
from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest, SolverFailed
from solver.partition.deferring_menu import menu_by_stage
from solver.partition.free_menu import FreeMenu
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.timed_menu import TimedMenu
from solver.plan import OffloadAnswer, Plan, Status
from solver.question import Question, question
from solver.recheck_shared import EveryPlan, TooMany
from solver.request import ChoicePer, Offload, Overlap, PlanRequest
from solver.schedules import StageTimes, make_schedule, schedule_graph, simulate
from solver.search.regimes import offload_costs
from solver.verify import verify

ROUNDING = 1e-9
"""Relative difference that adding the same numbers in another order may make."""

MOST_PLANS = 20_000
"""Plans left standing up to which each is simulated."""

MOST_RUNS = 400_000
"""Runs beyond which plain loops are too slow."""


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FALSE = "false"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Claim:
    """Something that a plan says, whether it holds, and how that was seen."""

    claim: str
    verdict: Verdict
    how: str


def recheck(plan: Plan, request: PlanRequest | None = None) -> list[Claim]:
    """Every claim of a plan, derived again from its request.

    Args:
        plan: A plan that succeeded.
        request: What it answers; by default the request that it carries.

    Raises:
        BadRequest: The plan did not succeed, or no request is known.
    """
    if request is None and plan.request is not None:
        request = PlanRequest.model_validate(plan.request)
    if plan.status is not Status.SUCCEEDED or request is None or plan.layout is None:
        raise BadRequest(
            "Only a plan that succeeded and whose request is known can be checked.",
            field="request",
            hint="Give the request too, or make the plan again: stagecut plan FILE --json.",
        )
    asked = question(_with_layout(request, plan.layout.model_dump()))
    costs = asked.costs(asked.some_layout)
    if plan.offload is not None:
        costs = _offloading(plan.offload, asked, costs)
    claims = [_time_and_memory(plan, costs), _consistent(plan)]
    claims.append(_bound(plan, asked, costs))
    others = (plan.solver.layouts_considered if plan.solver else 1) - 1
    if others:
        claims.append(
            Claim(
                f"{others} other layouts are no faster",
                Verdict.NOT_CHECKED,
                "their bounds were proved when the plan was made; fix a layout to check it",
            )
        )
    return claims


def _with_layout(request: PlanRequest, layout: Mapping[str, Any]) -> PlanRequest:
    """The request with the plan's layout fixed, and no framework to look for."""
    fields = {k: v for k, v in layout.items() if k in type(request.layout).model_fields}
    fixed = type(request.layout).model_validate(fields)
    return request.model_copy(update={"layout": fixed, "target": None})


def _time_and_memory(plan: Plan, costs: PipelineCosts) -> Claim:
    layout, seconds = plan.layout, plan.iteration_seconds
    assert layout is not None
    assert seconds is not None
    claim = f"one iteration takes {seconds:.6g} s, and every stage fits"
    try:
        verify(
            costs,
            layout.schedule,
            layout.pipeline_parallel,
            plan.stages,
            seconds,
            bool(plan.fits),
            layout.interleaving_group or 0,
        )
    except SolverFailed as failure:
        return Claim(claim, Verdict.FALSE, failure.detail)
    if not plan.fits:
        return Claim(claim, Verdict.FALSE, "the plan itself says that it does not fit")
    return Claim(claim, Verdict.HOLDS, "every pass run again one by one, every byte added up again")


def _consistent(plan: Plan) -> Claim:
    lower, seconds = plan.lower_bound_seconds, plan.iteration_seconds
    assert lower is not None
    assert seconds is not None
    gap = 1.0 - lower / seconds if seconds else 0.0
    claim = f"its gap to the bound is {plan.gap:.2g}"
    if lower > seconds * (1 + ROUNDING) or abs(gap - (plan.gap or 0.0)) > ROUNDING:
        return Claim(claim, Verdict.FALSE, f"bound {lower!r} and time {seconds!r} give {gap!r}")
    return Claim(claim, Verdict.HOLDS, "time and bound compared")


def _bound(plan: Plan, asked: Question, costs: PipelineCosts) -> Claim:
    layout, lower = plan.layout, plan.lower_bound_seconds
    assert layout is not None
    assert lower is not None
    recompute = asked.request.recompute
    if recompute.policy in METHODS:
        return _by_method(METHODS[recompute.policy], plan, asked, costs)
    claim = f"no plan of this layout takes less than {lower:.6g} s"
    shared = layout.virtual_stages > 1 or layout.schedule == "chimera"
    if shared or recompute.overlap is Overlap.STALLS:
        return _bound_of_every(claim, plan, asked, costs)
    simple = layout.schedule in ("1f1b", "gpipe", "zb-h1")
    free = recompute.choice_per is not ChoicePer.MODEL
    on_demand = recompute.overlap in (None, Overlap.OFF) and plan.restriction is None
    if not (simple and free and on_demand) or _runs(costs, layout.pipeline_parallel) > MOST_RUNS:
        how = "only plans that recompute on demand, block by block, are re-proved"
        return Claim(claim, Verdict.NOT_CHECKED, how)
    limit = (lower - costs.fixed_seconds) * (1 - ROUNDING)
    left = 0
    for ways in _ways(asked, costs):
        standing = _Standing(ways, asked, layout.schedule, layout.pipeline_parallel, limit)
        standing.strike_out()
        plans = standing.plans() if standing.any() else 0
        left += plans
        if left > MOST_PLANS:
            return Claim(claim, Verdict.NOT_CHECKED, f"{left} plans were left to simulate")
        least = standing.least_makespan() if plans else math.inf
        if least < limit:
            how = f"a plan of {least + costs.fixed_seconds!r} s exists"
            return Claim(claim, Verdict.FALSE, how)
    how = f"struck out runs of blocks, and simulated the {left} plans that were left"
    if not left:
        how = "struck out every run of blocks that could be faster"
    return Claim(claim, Verdict.HOLDS, how)


def _bound_of_every(claim: str, plan: Plan, asked: Question, costs: PipelineCosts) -> Claim:
    """Where devices hold several stages, or stages recompute ahead: all plans of small ones."""
    layout, lower, recompute = plan.layout, plan.lower_bound_seconds, asked.request.recompute
    assert layout is not None
    assert lower is not None
    menu = policy_menu(costs, recompute)
    if isinstance(menu, TimedMenu):
        menu = menu.on_demand
    plain = not costs.devices and recompute.offload is Offload.OFF and plan.restriction is None
    plain &= recompute.overlap in (None, Overlap.OFF, Overlap.STALLS)
    plain &= recompute.choice_per is ChoicePer.BLOCK
    if not plain or not isinstance(menu, FreeMenu):
        how = (
            "with several stages per device or stalls, only free choices are re-proved, windows not"
        )
        return Claim(claim, Verdict.NOT_CHECKED, how)
    every = EveryPlan(
        costs,
        menu.frontiers,
        layout.schedule,
        layout.pipeline_parallel,
        2 if layout.schedule == "chimera" else layout.virtual_stages,
        layout.interleaving_group or 0,
        stalls=recompute.overlap is Overlap.STALLS,
    )
    try:
        faster = every.faster_than((lower - costs.fixed_seconds) * (1 - ROUNDING))
    except TooMany:
        how = f"its plans, of {every.splits():,} splits, are too many to go through"
        return Claim(claim, Verdict.NOT_CHECKED, how)
    if faster is not None:
        how = f"a plan of {faster + costs.fixed_seconds!r} s exists"
        return Claim(claim, Verdict.FALSE, how)
    return Claim(claim, Verdict.HOLDS, f"all plans of {every.splits():,} splits gone through")


def _by_method(method: Method, plan: Plan, asked: Question, costs: PipelineCosts) -> Claim:
    """Where a method decides: whether it decides the same once more."""
    layout, seconds = plan.layout, plan.iteration_seconds
    assert layout is not None
    assert seconds is not None
    claim = f"{method.title}'s own plan of this layout takes {seconds:.6g} s"
    schedule = make_schedule(layout.schedule, layout.pipeline_parallel, costs.micro_batches)
    made = method.partition(costs, schedule, asked.request.recompute.overlap or Overlap.OFF)
    if not isinstance(made, Partition):
        return Claim(claim, Verdict.FALSE, "it finds nothing that fits")
    if abs(made.makespan - seconds) > ROUNDING * seconds:
        return Claim(claim, Verdict.FALSE, f"it takes {made.makespan!r} s")
    return Claim(claim, Verdict.HOLDS, "the method run again")


def _offloading(offload: OffloadAnswer, asked: Question, costs: PipelineCosts) -> PipelineCosts:
    """The costs of a run that offloads, with or without windows, as the plan's staging has it."""
    for windows in (False, True):
        moved = offload_costs(asked.some_layout, costs, windows=windows)
        if moved is not None and abs(moved.staging_bytes - offload.staging_bytes) <= ROUNDING * (
            moved.staging_bytes
        ):
            return moved
    return costs


def _ways(asked: Question, costs: PipelineCosts) -> list[PipelineCosts]:
    """The costs with every activation on its device, and where that is asked, with some at hosts'.

    ``costs``: the plan's.
    """
    if asked.request.recompute.offload is Offload.OFF:
        return [costs]
    plain = asked.costs(asked.some_layout)
    moved = offload_costs(asked.some_layout, plain)
    return [plain] if moved is None else [plain, moved]


def _runs(costs: PipelineCosts, stages: int) -> int:
    return stages * len(costs.sequence) ** 2 // 2


@dataclass
class _Run:
    """A run of blocks on a stage: per micro-batch seconds, and once per iteration.

    ``weight``: its gradients of weights where they are apart from ``backward``.
    """

    forward: float
    backward: float
    weight: float
    before_first: float
    after_last: float
    step: float


class _Standing:
    """The runs of which some plan may still be faster than a limit, by (stage, start, stop)."""

    def __init__(
        self, costs: PipelineCosts, asked: Question, schedule: str, stages: int, limit: float
    ) -> None:
        self._costs, self._stages, self._limit = costs, stages, limit
        self._n, self._schedule = costs.micro_batches, schedule
        self._menu = policy_menu(costs, asked.request.recompute)
        self._order = make_schedule(schedule, stages, costs.micro_batches)
        self._late = self._order.splits_backward
        self._left: dict[tuple[int, int, int], _Run] = dict(self._all_runs())

    def any(self) -> bool:
        """Whether some run is left."""
        return bool(self._left)

    def _all_runs(self) -> Iterator[tuple[tuple[int, int, int], _Run]]:
        """Runs that do not take longer than the limit by themselves, recompute left out."""
        length = len(self._costs.sequence)
        most = self._costs.offload_layers or length
        for stage in range(self._stages):
            own = self._costs.at(stage)
            for start in range(stage, length - (self._stages - stage) + 1):
                forward = backward = weight = gather = reduction = step = 0.0
                layers = 0
                for stop in range(start + 1, length - (self._stages - 1 - stage) + 1):
                    block = own.blocks[own.sequence[stop - 1]]
                    forward += block.forward_seconds
                    backward += block.backward_seconds
                    weight += block.weight_seconds if self._late else 0.0
                    gather += block.gather_seconds
                    reduction += block.gradient_seconds
                    step += block.optimizer_seconds
                    layers += block.checkpointable
                    if layers > most or self._n * (forward + backward) >= self._limit:
                        break
                    yield (
                        (stage, start, stop),
                        _Run(
                            forward,
                            max(backward - weight, 0.0),
                            weight,
                            max(gather - own.gather_overlap * forward, 0.0),
                            max(reduction - own.gradient_overlap * backward, 0.0),
                            step,
                        ),
                    )

    def strike_out(self) -> None:
        """First without recompute, then with the least that each run's memory asks for."""
        self._repeat()
        asked = [
            menu_by_stage(self._costs.at(stage), self._menu.at(stage), self._order)
            for stage in range(self._stages)
        ]
        for at in list(self._left):
            stage, start, stop = at
            own, (menu, places) = self._costs.at(stage), asked[stage]
            kinds = own.sequence[start:stop]
            counts = tuple(kinds.count(kind) for kind in range(len(own.blocks)))
            states = sum(own.blocks[kind].states.total for kind in kinds)
            mix = menu.cheapest(counts, states, int(places[stage]))
            if mix is None:
                del self._left[at]
            else:
                self._left[at].backward += mix.bound
        self._repeat()

    def _repeat(self) -> None:
        while True:
            before, after, down = self._before(), self._after(), self._down()
            slow = [
                at
                for at, run in self._left.items()
                if max(self._least(at, run, before, after), self._ending(at, run, after, down))
                >= self._limit
            ]
            if not slow:
                return
            for at in slow:
                del self._left[at]

    def _before(self) -> dict[tuple[int, int], float]:
        """Least F + B of the stages before one that starts there, and the first stage's last W."""
        least = {(0, 0): 0.0}
        for (stage, start, stop), run in sorted(self._left.items()):
            if (stage, start) in least:
                total = least[stage, start] + run.forward + run.backward
                total += run.weight if stage == 0 else 0.0
                at = (stage + 1, stop)
                least[at] = min(least.get(at, math.inf), total)
        return least

    def _down(self) -> dict[tuple[int, int], float]:
        """Least F of the stages before one that starts there."""
        least = {(0, 0): 0.0}
        for (stage, start, stop), run in sorted(self._left.items()):
            if (stage, start) in least:
                at = (stage + 1, stop)
                least[at] = min(least.get(at, math.inf), least[stage, start] + run.forward)
        return least

    def _after(self) -> dict[tuple[int, int], float]:
        """Least F + B of the stages after one that stops there."""
        least = {(self._stages, len(self._costs.sequence)): 0.0}
        for (stage, start, stop), run in sorted(self._left.items(), reverse=True):
            if (stage + 1, stop) in least:
                total = least[stage + 1, stop] + run.forward + run.backward
                at = (stage, start)
                least[at] = min(least.get(at, math.inf), total)
        return least

    def _least(
        self,
        at: tuple[int, int, int],
        run: _Run,
        before: Mapping[tuple[int, int], float],
        after: Mapping[tuple[int, int], float],
    ) -> float:
        """A bound of every plan with this run."""
        stage, start, stop = at
        if (stage, start) not in before or (stage + 1, stop) not in after:
            return math.inf
        n, p, send = self._n, self._stages, self._costs.send_seconds
        there, beyond = 2 * stage * send, 2 * (p - 1 - stage) * send
        ahead, behind = before[stage, start] + there, after[stage + 1, stop] + beyond
        whole = run.forward + run.backward
        if self._schedule == "gpipe":
            return ahead + behind + n * whole + run.step
        q = min(p - stage, n)
        k = n - q + 1
        last = max(n - 1 - stage, 0) * run.weight  # W before its last backward
        between = max(n - q - stage, 0) * run.weight  # W before its last forward
        ahead += run.weight if stage == 0 else 0.0
        paths = [
            ahead + n * whole + last,
            ahead + behind + k * run.forward + n * run.backward + last,
            ahead + behind + n * run.forward + k * run.backward + between,
        ]
        if n > q:
            paths.append(ahead + 2 * behind + k * whole + between)
        return max(paths) + run.step

    def _ending(
        self,
        at: tuple[int, int, int],
        run: _Run,
        after: Mapping[tuple[int, int], float],
        down: Mapping[tuple[int, int], float],
    ) -> float:
        """A bound by paths that end with the run's last gradient of weights, where there are."""
        stage, start, stop = at
        if not self._late or (stage, start) not in down or (stage + 1, stop) not in after:
            return 0.0
        n, p, send = self._n, self._stages, self._costs.send_seconds
        k = n - min(p - stage, n) + 1
        ahead = down[stage, start] + stage * send + run.after_last + run.step
        behind = after[stage + 1, stop] + 2 * (p - 1 - stage) * send
        late = run.backward + run.weight
        return ahead + max(n * (run.forward + late), behind + k * run.forward + n * late)

    def plans(self) -> int:
        """How many plans the runs left make."""
        ways = {(0, 0): 1}
        for stage, start, stop in sorted(self._left):
            at = (stage + 1, stop)
            ways[at] = ways.get(at, 0) + ways.get((stage, start), 0)
        return ways.get((self._stages, len(self._costs.sequence)), 0)

    def least_makespan(self) -> float:
        """The fastest of the plans left, each simulated."""
        graph = schedule_graph(self._order)
        best = math.inf
        for cuts in self._each(0, 0):
            runs = [self._left[at] for at in cuts]
            times = StageTimes.of(
                forward=np.array([run.forward for run in runs]),
                backward=np.array([run.backward for run in runs]),
                weight=[run.weight for run in runs] if self._late else None,
                send=self._costs.send_seconds,
                before_first=[run.before_first for run in runs],
                after_last=[run.after_last for run in runs],
                step=[run.step for run in runs],
            )
            best = min(best, float(simulate(graph, times).makespan[0]))
        return best

    def _each(self, stage: int, start: int) -> Iterator[list[tuple[int, int, int]]]:
        if stage == self._stages:
            if start == len(self._costs.sequence):
                yield []
            return
        for at in [at for at in self._left if at[:2] == (stage, start)]:
            for rest in self._each(stage + 1, at[2]):
                yield [at, *rest]
