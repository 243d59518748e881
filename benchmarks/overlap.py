"""Recompute hidden under communication and in stalls, in Lynx's setting: ``-m benchmarks.overlap``.

GPT of 1.3B to 23B on A100s, tensor parallel over 8 or 4 and pipeline parallel over 4, joined by
NVLink or by PCIe (Chen et al. 2024, arXiv 2406.08756). The memory limit of each case lies a tenth
of the way from what full recompute needs to what recomputing nothing needs, so that every method
has to recompute. All methods are simulated on the same costs. Then Mixtral 8x7B and a model of
DeepSeek-V3's layers, whose windows are all-to-alls. Prints the tables of ``docs/overlap.md``.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

from solver.assess import assess
from solver.baselines.lynx_heu import lynx_heu
from solver.baselines.side_by_side import baselines
from solver.costs.pipeline import PipelineCosts
from solver.partition.even import even_split
from solver.partition.outcome import Partition
from solver.partition.policy_menu import least_memory_menu, policy_menu
from solver.partition.problem import menu_on, partition_problem
from solver.partition.stages import AMPLE_BYTES, Stage, stages_at
from solver.question import question
from solver.request import Overlap, PlanRequest, Policy, Recompute
from solver.schedules import Schedule, make_schedule, recomputing_ahead

EXAMPLES = Path(__file__).parents[1] / "examples" / "overlap"

SHARE = 0.1
"""Where the memory limit lies between full recompute and none."""


@dataclass(frozen=True)
class Case:
    """One model on one cluster, its memory limit set."""

    name: str
    costs: PipelineCosts
    schedule: Schedule


def main() -> None:
    """Print both tables."""
    print(
        "| case | full | selective | block | per-layer optimum | Lynx-HEU | on demand | "
        "communication | all | gap | search |"
    )
    print("|---|" + "---:|" * 10)
    for path in sorted(EXAMPLES.glob("gpt-*.json"), key=_size):
        print(_row(case_of(path)), flush=True)
    print()
    print("| layers of experts | on demand | all-to-all window | all | faster | gap | search |")
    print("|---|" + "---:|" * 6)
    for path in sorted(EXAMPLES.glob("experts-*.json")):
        case = case_of(path)
        ours = [solved(case, overlap) for overlap in _OURS]
        gain = ours[0][0] / ours[-1][0] - 1
        times = " | ".join(f"{seconds:.3f} s" for seconds, _, _ in ours)
        gap, search = (max(one[at] for one in ours) for at in (1, 2))
        print(f"| {case.name} | {times} | {gain:+.1%} | {gap:.2%} | {search:.0f} ms |", flush=True)


_OURS = (Overlap.OFF, Overlap.COMMUNICATION, Overlap.ALL)


def _size(path: Path) -> tuple[str, str, float]:
    _, size, _, links, *ranks = path.stem.split("-")
    return links, "".join(ranks), float(size.rstrip("b"))


def case_of(path: Path) -> Case:
    """The case of a request: its layout's costs, their memory limited."""
    asked = question(PlanRequest.model_validate(json.loads(path.read_text())))
    (layout,) = asked.layouts
    costs = asked.costs(layout)
    schedule = make_schedule(layout.schedule, layout.pipeline_parallel, costs.micro_batches)
    ample = replace(costs, capacity_bytes=AMPLE_BYTES)
    cuts = even_split(costs, schedule.stages)
    peaks = []
    for menu in (least_memory_menu(ample), policy_menu(ample, Recompute(policy=Policy.NONE))):
        stages = stages_at(ample, menu, schedule, cuts)
        assert stages is not None, "everything fits an ample memory"
        peaks.append(assess(ample, schedule, stages).peak_bytes)
    limit = peaks[0] + SHARE * (peaks[1] - peaks[0])
    return Case(path.stem, replace(costs, capacity_bytes=limit), schedule)


def _row(case: Case) -> str:
    others = baselines(case.costs, case.schedule, 1.0)
    ours = [solved(case, overlap) for overlap in _OURS]
    best = ours[-1][0]
    shown = [others[name].iteration_seconds if others[name].fits else None for name in _OTHERS]
    shown += [
        _seconds(case, lynx_heu(case.costs, case.schedule, overlap))
        for overlap in (Overlap.OFF, Overlap.COMMUNICATION)
    ]
    shown += [seconds for seconds, _, _ in ours[:-1]]
    cells = [f"{value / best:.3f}" if value else "does not fit" for value in shown]
    gap = max(gap for _, gap, _ in ours)
    search = max(milliseconds for _, _, milliseconds in ours)
    return f"| {case.name} | {' | '.join(cells)} | {best:.3f} s | {gap:.2%} | {search:.0f} ms |"


_OTHERS = ("full", "selective", "block")


def _seconds(case: Case, stages: tuple[Stage, ...] | None) -> float | None:
    return None if stages is None else assess(case.costs, case.schedule, stages).makespan


def solved(case: Case, overlap: Overlap) -> tuple[float, float, float]:
    """Seconds of the best plan, its gap, and the processor's milliseconds that finding it took."""
    schedule = case.schedule
    if overlap in (Overlap.STALLS, Overlap.ALL):
        schedule = recomputing_ahead(schedule)
    started = time.process_time()
    menu = menu_on(policy_menu(case.costs, Recompute(overlap=overlap)), schedule)
    found = partition_problem(case.costs, menu, schedule).solve()
    elapsed = time.process_time() - started
    assert isinstance(found, Partition), "the limit leaves room for full recompute"
    return found.makespan, 1 - found.lower_bound / found.makespan, 1e3 * elapsed


if __name__ == "__main__":
    main()
