"""Baselines: what others would choose, on the same costs as the plan they stand beside."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from solver.assess import assess
from solver.baselines.adapipe import adapipe
from solver.baselines.lynx_heu import lynx_heu
from solver.baselines.sapp_types import balanced, knows, on_demand
from solver.baselines.sum_and_bottleneck import sum_and_bottleneck
from solver.costs.pipeline import PipelineCosts
from solver.partition.even import even_stages
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import PartitionProblem
from solver.partition.stages import Stage, decided_stages, stages_at, with_ample_memory
from solver.plan import Baseline
from solver.request import BaselineName, Overlap, Policy, Recompute
from solver.schedules import Chimera, Schedule
from solver.schedules.ahead import Ahead

MOST_RUNS = 500_000
"""Runs beyond which the methods that tabulate them all are left out."""

MOST_NODES = 1000
"""Nodes of search trees that the plan without overlap is worth: the same on any machine."""

SECONDS = 60.0
"""Time after which it is left at what it is, should those take so long."""

Stages = tuple[Stage, ...] | None
Method = Callable[..., Stages]
"""From costs, a schedule and, where it hides recompute, the overlap asked for."""


def baselines(
    costs: PipelineCosts,
    schedule: Schedule,
    iteration_seconds: float,
    overlap: Overlap = Overlap.OFF,
    asked: Collection[BaselineName] | None = None,
) -> dict[str, Baseline]:
    """Each baseline's time and memory under the plan's own layout.

    ``asked``: which; by default all that take no longer than a plan.

    ``none``, ``full`` and ``selective`` are shown whether or not they fit. Methods for one stage
    per device are left out of pipelines with several, those for equal devices out of others, those
    that know no late gradients of weights out of schedules that have them, and those that tabulate
    every run of blocks out of very large pipelines. ``overlap``: where recompute may hide, for
    those that can hide it.
    """
    found = {}
    for name, entry in _METHODS.items():
        if name not in asked if asked is not None else entry.slow:
            continue
        if schedule.virtual_stages > 1 and not entry.interleaved:
            continue
        if schedule.splits_backward and not entry.late_weights:
            continue
        if costs.devices and entry.equal_devices:
            continue
        if entry.if_hiding and overlap is Overlap.OFF:
            continue
        order = entry.order(schedule)
        if order is None:
            continue
        if not entry.knows(costs, order):
            continue
        if entry.tabulates and _table_size(costs, schedule) > MOST_RUNS:
            continue
        stages = entry.method(costs, order, overlap) if entry.hides else entry.method(costs, order)
        if stages is None:
            found[name] = Baseline(iteration_seconds=None, fits=False, note=entry.note)
            continue
        judged = assess(costs, order, stages)
        found[name] = Baseline(
            iteration_seconds=judged.makespan,
            fits=judged.fits,
            peak_memory_bytes=judged.peak_bytes,
            speed_up=judged.makespan / iteration_seconds if iteration_seconds else None,
            note=entry.note,
        )
    return found


def _table_size(costs: PipelineCosts, schedule: Schedule) -> int:
    """Runs that a table of all stages holds."""
    width = len(costs.sequence) - schedule.stages + 1
    return schedule.stages * width * width


def _policy(recompute: Recompute) -> Method:
    """The even split under a policy, whether or not it fits."""

    def method(costs: PipelineCosts, schedule: Schedule) -> Stages:
        ample = with_ample_memory(costs)
        cuts = even_stages(costs, schedule)
        return stages_at(ample, policy_menu(ample, recompute), schedule, cuts)

    return method


def _best_block(costs: PipelineCosts, schedule: Schedule) -> Stages:
    """The even split with the smallest k that fits."""
    cuts = even_stages(costs, schedule)
    for layers in range(max(stop - start for start, stop in cuts) + 1):
        menu = policy_menu(costs, Recompute(policy=Policy.BLOCK, num_layers=layers))
        stages = stages_at(costs, menu, schedule, cuts)
        if stages is not None:
            return stages
    return None


def _even(costs: PipelineCosts, schedule: Schedule) -> Stages:
    cuts = even_stages(costs, schedule)
    return stages_at(costs, policy_menu(costs, Recompute()), schedule, cuts)


def _chimera(costs: PipelineCosts, schedule: Schedule) -> Stages:
    """Everything kept if that fits, else every layer in full, whether or not that does."""
    for policy in (Policy.NONE, Policy.FULL):
        stages = _policy(Recompute(policy=policy))(costs, schedule)
        if stages is not None and assess(costs, schedule, stages).fits:
            break
    return stages


def _both_ways(schedule: Schedule) -> Schedule | None:
    """Chimera over as many devices and micro-batches, where both are even."""
    odd = schedule.devices % 2 or schedule.micro_batches % 2
    return None if odd else Chimera(schedule.devices, schedule.micro_batches)


def _same(schedule: Schedule) -> Schedule:
    return schedule


def _everything(costs: PipelineCosts, schedule: Schedule) -> bool:  # noqa: ARG001
    return True


def _sum_and_bottleneck(costs: PipelineCosts, schedule: Schedule) -> Stages:
    return sum_and_bottleneck(costs, policy_menu(costs, Recompute()), schedule)


def _on_demand(costs: PipelineCosts, schedule: Schedule) -> Stages:
    """The optimum without overlap; a plan that hides nothing gains nothing by hiding."""
    plain = schedule.plain if isinstance(schedule, Ahead) else schedule
    menu = policy_menu(costs, Recompute())
    found = PartitionProblem(costs, menu, plain).solve(
        time_limit_seconds=SECONDS, most_nodes=MOST_NODES
    )
    return decided_stages(found, menu) if isinstance(found, Partition) else None


@dataclass(frozen=True)
class _Entry:
    method: Method
    note: str
    interleaved: bool = False
    tabulates: bool = False
    equal_devices: bool = False
    late_weights: bool = False
    hides: bool = False
    if_hiding: bool = False
    order: Callable[[Schedule], Schedule | None] = _same
    knows: Callable[[PipelineCosts, Schedule], bool] = _everything
    slow: bool = False


_METHODS = {
    "none": _Entry(
        _policy(Recompute(policy=Policy.NONE)),
        "Even split, everything kept.",
        interleaved=True,
        late_weights=True,
    ),
    "full": _Entry(
        _policy(Recompute(policy=Policy.FULL)),
        "Even split, every layer recomputed in full (Chen et al. 2016).",
        interleaved=True,
        late_weights=True,
    ),
    "selective": _Entry(
        _policy(Recompute(policy=Policy.SELECTIVE)),
        "Even split, core attention recomputed (Korthikanti et al. 2022).",
        interleaved=True,
        late_weights=True,
    ),
    "block": _Entry(
        _best_block,
        "Even split, Megatron-LM's block with the fewest layers per stage that fit.",
        late_weights=True,
    ),
    "even-split": _Entry(
        _even, "Even split, the best recompute for each stage.", late_weights=True
    ),
    "adapipe": _Entry(
        adapipe,
        "AdaPipe's knapsack and three-phase recurrence (Sun et al. 2024).",
        equal_devices=True,
    ),
    "lynx-heu": _Entry(
        lynx_heu,
        "One recompute choice per kind and stage, hidden where asked; layers moved greedily (Chen "
        "et al. 2024).",
        equal_devices=True,
        hides=True,
    ),
    "no-overlap": _Entry(
        _on_demand,
        "The best plan of this layout that recomputes on demand only.",
        if_hiding=True,
    ),
    "chimera": _Entry(
        _chimera,
        "Two pipelines in opposite directions (Li and Hoefler 2021), even split, every layer "
        "recomputed in full unless all fits.",
        equal_devices=True,
        order=_both_ways,
    ),
    "sum-and-bottleneck": _Entry(
        _sum_and_bottleneck,
        "The best recompute per stage, cuts by the sum of stage times plus (n - 1) times the "
        "longest, as Alpa and Aceso weigh them.",
        tabulates=True,
        equal_devices=True,
    ),
    "sapp": _Entry(
        balanced,
        "SAPP's integer program: how many layers of its five recompute types each chunk holds "
        "(MindSpore's sapp_ppb), solved by HiGHS.",
        interleaved=True,
        equal_devices=True,
        order=on_demand,
        knows=knows,
        slow=True,
    ),
}
