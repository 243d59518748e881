"""The answer and its proof in sentences."""

from __future__ import annotations

from service.console.quantities import duration, percent, size, times
from solver.plan import Plan, SolverReport, Status

_BEST = 1e-9
_BOUNDS = {
    "work": "Work: their computing and communication alone take longer",
    "memory": "Memory: states alone, or all that cannot be recomputed, do not fit",
    "bubble": "Bubble: with filling and draining the pipeline they take longer",
    "cuts": "Cuts: no split that memory allows is fast enough",
    "partition": "Partition: the program over splits proved that none is faster",
}


def answer(plan: Plan) -> str:
    """The answer in two sentences."""
    if plan.status is Status.INFEASIBLE:
        return infeasible(plan)
    if plan.iteration_seconds is None:
        return plan.error or "There is no plan."
    first = f"One iteration takes {duration(plan.iteration_seconds)}"
    if plan.tokens_per_second_per_device is not None:
        first += f", {plan.tokens_per_second_per_device:,.0f} tokens a second per device"
    if plan.model_flops_utilization is not None:
        first += f" at {plan.model_flops_utilization:.1%} of its peak"
    return f"{first}. {_proved(plan)}{_against_full(plan)}"


def verdict(plan: Plan) -> str:
    """Where the plan stands, in a word or two."""
    if plan.status is not Status.SUCCEEDED:
        return plan.status.value
    if plan.gap is None:
        return "planned"
    return "optimal, proved" if plan.gap <= _BEST else f"within {percent(plan.gap)} of optimal"


def infeasible(plan: Plan) -> str:
    """Which stage misses how much."""
    lack = plan.shortfall
    if lack is None:
        return plan.error or "Nothing fits."
    return (
        f"Nothing fits: in the closest layout stage {lack.stage} misses {size(lack.missing_bytes)}"
        f" of the {size(lack.needed_bytes)} that it needs, whatever it recomputes. Use more devices"
        " or devices with more memory, a larger tensor_parallel or pipeline_parallel, or a smaller"
        " micro_batch_size."
    )


def certificate(plan: Plan) -> list[tuple[str, str]]:
    """What is proved, what that rests on and how it was checked: a term and a sentence each."""
    report, lower = plan.solver, plan.lower_bound_seconds
    if report is None or lower is None or plan.iteration_seconds is None:
        return []
    layouts = report.layouts_considered
    space = (
        "every split into stages and every recompute of the one layout asked for"
        if layouts == 1
        else f"{layouts:,} legal layouts, with every split into stages and every recompute of each"
    )
    return [
        ("Claim", f"No plan in the space asked for takes less than {duration(lower)}."),
        ("Space", f"{space[0].upper()}{space[1:]}."),
        ("Rests on", _rests_on(report)),
        (
            "Checked",
            "A simulator and a sweep of memory that share no code with the search derived time and"
            " memory once more, and agreed.",
        ),
        (
            "Limits",
            "The proof is about the cost model."
            + (
                " How far that can be trusted is the band of real iterations above."
                if plan.iteration_seconds_band
                else " It takes the costs as they were given."
            ),
        ),
        ("Made by", f"Solver version {report.version}, in {duration(report.seconds)}."),
    ]


def pruned(plan: Plan) -> list[tuple[str, int]]:
    """Every bound in words, with the number of layouts that it decided against, most first."""
    by = plan.solver.pruned_by if plan.solver else {}
    found = [(_BOUNDS.get(bound, bound), count) for bound, count in by.items() if count]
    return sorted(found, key=lambda part: -part[1])


def bottleneck(plan: Plan) -> str:
    """Which stage decides the iteration, and why it is no faster."""
    found = plan.explanation
    if found is None or not plan.stages:
        return ""
    stage = plan.stages[found.bottleneck_stage]
    name = f"Stage {stage.index}" + ("" if stage.chunk is None else f", chunk {stage.chunk},")
    why = (
        "it recomputes because its memory is full"
        if found.limited_by == "memory"
        else "its work is the limit, not its memory"
    )
    return f"{name} stands on {percent(found.bottleneck_share)} of the critical path; {why}."


def change(share: float) -> str:
    """A gain or a loss: ``+3.1%``."""
    if abs(share) < 5e-5:
        return "no change"
    return f"{'+' if share > 0 else '−'}{percent(abs(share))}"


def gap(share: float) -> str:
    """A proved gap; what is within the arithmetic's own error is none."""
    return "0%" if share <= _BEST else percent(share)


def _rests_on(report: SolverReport) -> str:
    if report.engine == "bounds":
        return (
            "A bound alone: the least time of any path through the schedule is already that of"
            " this plan, so no program had to be solved and no row had to be added."
        )
    return (
        f"A mixed-integer program over the split ({report.engine}) whose rows are paths through the"
        f" schedule: {report.rows:,} {'row' if report.rows == 1 else 'rows'} were added in"
        f" {report.rounds:,} {'round' if report.rounds == 1 else 'rounds'} of solving and"
        " simulating. Every path is a lower bound for every plan."
    )


def _proved(plan: Plan) -> str:
    if plan.gap is None:
        return ""
    if plan.gap <= _BEST:
        return "No plan is faster: this is proved."
    return f"Proved: no plan is faster by more than {percent(plan.gap)}."


def _against_full(plan: Plan) -> str:
    full = plan.baselines.get("full")
    if full is None or full.speed_up is None or full.speed_up < 1.005:
        return ""
    return f" It is {times(full.speed_up).replace('x', '×')} as fast as recomputing every layer."
