"""A plan or an evaluation as a page of text: a sentence, then a table of its stages.

The page fits 80 columns and uses more if there are more; it is as readable in a pipe or a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from service import titles
from service.console.beside import explanation, lost, restriction, time_and_others, time_table
from service.console.layouts import layout_in_full
from service.console.quantities import (
    duration,
    gibibytes,
    percent,
    times,
)
from service.console.stages import index_of, limits_differ, stages_table
from solver.plan import (
    Evaluation,
    Plan,
    Shortfall,
    Status,
)
from solver.request import PlanRequest

_WAYS_OUT = (
    "Use more devices or devices with more memory, a larger tensor_parallel or pipeline_parallel,"
    " or a smaller micro_batch_size."
)


class PlanPage:
    """A plan for people."""

    def __init__(self, request: PlanRequest, plan: Plan) -> None:
        self._request = request
        self._plan = plan

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        plan = self._plan
        yield _title(self._request, f"plan {plan.id[:12]}")
        if plan.status is Status.INFEASIBLE:
            yield from _infeasible(plan)
            return
        if plan.iteration_seconds is None or plan.layout is None or plan.breakdown is None:
            yield Text(f"{plan.status.value}: {plan.error or 'no plan'}", style="bold red")
            return
        yield Text(layout_in_full(plan.layout, plan.micro_batches))
        yield Text()
        yield _verdict(plan, plan.iteration_seconds)
        if plan.restriction is not None:
            yield restriction(plan.restriction)
        yield Text()
        yield from stages_table(plan.stages, plan.memory_limit_bytes, options)
        yield from time_and_others(plan, options)
        yield from lost(plan)
        yield from explanation(plan)
        yield from _notes(plan.notes)


class EvaluationPage:
    """An evaluation for people."""

    def __init__(self, request: PlanRequest, evaluation: Evaluation) -> None:
        self._request = request
        self._evaluation = evaluation

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        answer = self._evaluation
        yield _title(self._request, "evaluation")
        yield Text(layout_in_full(answer.layout, answer.micro_batches))
        yield Text()
        fits = _needed(answer)
        verdict = Text.assemble(
            "One iteration takes ",
            (duration(answer.iteration_seconds), "bold"),
            _speed(answer.tokens_per_second_per_device, answer.model_flops_utilization),
            " and ",
            (
                f"{fits}." if answer.fits else f"does not fit: it {fits}.",
                "" if answer.fits else "red",
            ),
        )
        yield verdict
        yield Text()
        yield from stages_table(answer.stages, answer.memory_limit_bytes, options)
        yield time_table(answer.breakdown, options)
        yield from _notes(answer.notes)


def _needed(answer: Evaluation) -> str:
    """What the fullest device needs, and of how much."""
    if not limits_differ(answer.stages):
        peak, limit, where = answer.peak_memory_bytes, answer.memory_limit_bytes, "per device"
    else:
        fullest = max(
            (stage for stage in answer.stages if stage.memory_limit_bytes),
            key=lambda stage: stage.peak_memory_bytes / (stage.memory_limit_bytes or 1.0),
        )
        peak, limit = fullest.peak_memory_bytes, fullest.memory_limit_bytes or 0.0
        where = f"on the device of stage {index_of(fullest)}, the fullest"
    return f"needs {gibibytes(peak)} GiB of {gibibytes(limit)} GiB {where}"


def _title(request: PlanRequest, kind: str) -> Text:
    cluster = request.cluster
    devices = (cluster.nodes or 1) * cluster.devices_per_node if cluster.devices_per_node else None
    where = titles.device(request)
    on = f" on {f'{devices} x ' if devices else ''}{where}" if where else ""
    return Text.assemble((f"{titles.model(request)}{on}", "bold"), (f"  {kind}", "dim"))


def _verdict(plan: Plan, iteration_seconds: float) -> Text:
    text = Text.assemble("One iteration takes ", (duration(iteration_seconds), "bold green"))
    text.append(_speed(plan.tokens_per_second_per_device, plan.model_flops_utilization))
    if plan.gap is not None:
        text.append(", proved to be ")
        best = plan.gap <= 1e-9
        text.append(
            "the best possible" if best else f"within {percent(plan.gap)} of the best", "bold"
        )
    text.append(".")
    sentences = [
        sentence
        for name, doing in (("full", "recomputing everything"), ("none", "recomputing nothing"))
        if (sentence := _against(plan, name, doing))
    ]
    for sentence in sentences:
        text.append(f" {sentence}")
    return text


def _against(plan: Plan, name: str, doing: str) -> str:
    baseline = plan.baselines.get(name)
    if baseline is None:
        return ""
    if not baseline.fits:
        return f"{doing.capitalize()} does not fit."
    if baseline.iteration_seconds is None or plan.iteration_seconds is None:
        return ""
    return f"{times(baseline.iteration_seconds / plan.iteration_seconds)} as fast as {doing}."


def _speed(tokens: float | None, utilization: float | None) -> str:
    said = []
    if tokens is not None:
        said.append(f"{tokens:,.0f} tokens/s per device")
    if utilization is not None:
        said.append(f"{utilization:.1%} of peak FLOP/s")
    return f" ({', '.join(said)})" if said else ""


def _notes(notes: Sequence[str]) -> Iterator[Text]:
    for note in notes:
        yield Text.assemble(("Note: ", "bold"), note)


def _infeasible(plan: Plan) -> Iterator[Text]:
    yield Text("No plan fits.", style="bold red")
    shortfall = plan.shortfall
    if shortfall is not None:
        yield _missing(shortfall)
        yield Text(_WAYS_OUT)
    elif plan.error:
        yield Text(plan.error)
    yield from _notes(plan.notes)


def _missing(shortfall: Shortfall) -> Text:
    return Text.assemble(
        f"Even recomputing everything, stage {shortfall.stage} needs ",
        (f"{gibibytes(shortfall.needed_bytes)} GiB", "bold"),
        f" of {gibibytes(shortfall.memory_limit_bytes)} GiB: ",
        (f"{gibibytes(shortfall.missing_bytes)} GiB are missing", "bold"),
        ", in the layout that comes nearest (",
        layout_in_full(shortfall.layout),
        ").",
    )


def page(request: PlanRequest, answer: Plan | Evaluation) -> RenderableType:
    """The answer for people."""
    shown = (
        PlanPage(request, answer) if isinstance(answer, Plan) else EvaluationPage(request, answer)
    )
    return Group(shown)
