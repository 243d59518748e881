"""What a reader takes in first: what the plan is, why it is good, and how sure that is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from service.console.quantities import duration, percent, size
from service.pages import words
from service.pages.pictures.layouts_considered import parts
from solver.plan import Baseline, Plan, Stage

_SAME = 5e-5
_MOST_NAMED = 3


@dataclass(frozen=True)
class Fact:
    """A figure, and what it is a figure of."""

    figure: str
    words: str


def what_it_is(plan: Plan) -> list[str]:
    """How the model is cut and what is recomputed, a sentence each."""
    blocks = [sum(count for _, count in stage.blocks) for stage in plan.stages]
    least, most = min(blocks), max(blocks)
    each = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    cut = f"{_many(len(blocks), 'stage')} of {each} {'block' if most == 1 else 'blocks'}"
    if plan.layout is not None and plan.layout.virtual_stages > 1:
        cut += f", {plan.layout.virtual_stages:,} on each device"
    found = [f"{cut}.", _recomputed(plan.stages, sum(blocks))]
    if plan.offload is not None:
        away = size(plan.offload.host_peak_bytes)
        found.append(f"At most {away} of a device's activations wait in host memory.")
    return found


def why_it_is_good(plan: Plan) -> list[Fact]:
    """What the plan gains over what else could be done on the same costs."""
    found = []
    ours = plan.iteration_seconds or 1.0
    full, nothing = plan.baselines.get("full"), plan.baselines.get("none")
    if full is not None and full.fits and full.iteration_seconds:
        found.append(_beside(full.iteration_seconds / ours, "recomputing every layer", full))
    best = _best_other(plan)
    if best is not None:
        name, other = best
        ratio = (other.iteration_seconds or ours) / ours
        which = "recomputing nothing" if name == "none" else name
        found.append(_beside(ratio, f"the best other method that fits, {which}", other))
    if nothing is not None and not nothing.fits and nothing.peak_memory_bytes:
        needed = size(nothing.peak_memory_bytes)
        has = size(plan.memory_limit_bytes or 0.0)
        found.append(
            Fact(needed, f"would be needed to recompute nothing; a device has {has} for use")
        )
    slower = min((other.slower for other in plan.alternatives), default=0.0)
    if slower >= _SAME:
        found.append(Fact(percent(slower), "slower at least: the next best layout"))
    return found


def how_sure(plan: Plan) -> list[Fact]:
    """What is proved of the plan, and how far its time can be trusted."""
    found = []
    if plan.gap is not None and plan.lower_bound_seconds is not None:
        bound = duration(plan.lower_bound_seconds)
        found.append(
            Fact(words.gap(plan.gap), f"from the proved bound: no plan takes less than {bound}")
        )
    if plan.solver is not None:
        number = plan.solver.layouts_considered
        fates = ", ".join(f"{count:,} {fate}" for count, _, fate in parts(plan.solver))
        if number > 1:
            found.append(Fact(f"{number:,}", f"layouts considered: {fates}"))
        else:
            found.append(Fact("1", "layout asked for; every split and recompute of it counts"))
    found.append(Fact("twice", "derived: time and memory, by code that shares nothing"))
    if plan.iteration_seconds_band is not None:
        low, high = plan.iteration_seconds_band
        runs = plan.calibration.runs if plan.calibration else None
        rests = f", after {runs:,} measured runs" if runs else ""
        found.append(
            Fact(
                f"{duration(low)} to {duration(high)}",
                f"is where nine of ten real iterations should lie{rests}",
            )
        )
    return found


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _recomputed(stages: list[Stage], blocks: int) -> str:
    """How many blocks recompute, and which tensors most."""
    of = Counter[str]()
    some = 0
    for stage in stages:
        for part in stage.recompute:
            if part.recomputed or part.whole:
                some += part.count
            for name in part.recomputed:
                of[name.replace("_", " ")] += part.count
    if not some:
        return "Nothing is recomputed."
    verb = "recomputes" if some == 1 else "recompute"
    names = [name for name, _ in of.most_common(_MOST_NAMED)]
    most = f"{', mostly' if len(of) > len(names) else ':'} {', '.join(names)}" if names else ""
    return f"{some:,} of {blocks:,} blocks {verb} something{most}."


def _best_other(plan: Plan) -> tuple[str, Baseline] | None:
    """The fastest other method that fits, unless that is recomputing all or nothing."""
    fitting = [
        (name, other)
        for name, other in plan.baselines.items()
        if other.fits and other.iteration_seconds
    ]
    best = min(fitting, key=lambda one: one[1].iteration_seconds or 0.0, default=None)
    return None if best is None or best[0] == "full" else best


def _beside(ratio: float, method: str, other: Baseline) -> Fact:
    took = duration(other.iteration_seconds or 0.0)
    if abs(ratio - 1.0) < _SAME:
        return Fact("even", f"with {method} ({took})")
    if ratio >= 1.095:
        return Fact(f"{ratio:.2f}×", f"as fast as {method} ({took})")
    than = "faster" if ratio > 1 else "slower"
    return Fact(percent(abs(ratio - 1.0)), f"{than} than {method} ({took})")
