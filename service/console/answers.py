"""A plan or an evaluation as a page of text: a sentence, then a table of its stages.

The page fits 80 columns and uses more if there are more; it is as readable in a pipe or a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from service import titles
from service.console.quantities import (
    duration,
    gibibytes,
    milliseconds,
    percent,
    times,
)
from solver.plan import Breakdown, Evaluation, LayoutAnswer, Plan, Shortfall, Stage, Status
from solver.request import PlanRequest

_BAR_CELLS = 8
_WIDE_COLUMNS = 110
_LISTED_STAGES = 64


class PlanPage:
    """A plan for people."""

    def __init__(self, request: PlanRequest, plan: Plan) -> None:
        self._request = request
        self._plan = plan

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[Text | Table]:
        plan = self._plan
        yield _title(self._request, f"plan {plan.id[:12]}")
        if plan.status is Status.INFEASIBLE:
            yield from _infeasible(plan)
            return
        if plan.iteration_seconds is None or plan.layout is None or plan.breakdown is None:
            yield Text(f"{plan.status.value}: {plan.error or 'no plan'}", style="bold red")
            return
        yield _layout(plan.layout, plan.micro_batches)
        yield Text()
        yield _verdict(plan, plan.iteration_seconds)
        yield Text()
        yield _stages(plan.stages, plan.memory_limit_bytes, options)
        yield _breakdown(plan.breakdown)
        yield from _comparison(plan)
        yield from _notes(plan.notes)


class EvaluationPage:
    """An evaluation for people."""

    def __init__(self, request: PlanRequest, evaluation: Evaluation) -> None:
        self._request = request
        self._evaluation = evaluation

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[Text | Table]:
        answer = self._evaluation
        yield _title(self._request, "evaluation")
        yield _layout(answer.layout, answer.micro_batches)
        yield Text()
        fits = f"needs {gibibytes(answer.peak_memory_bytes)} GiB of "
        fits += f"{gibibytes(answer.memory_limit_bytes)} GiB per device"
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
        yield _stages(answer.stages, answer.memory_limit_bytes, options)
        yield _breakdown(answer.breakdown)
        yield from _notes(answer.notes)


def _title(request: PlanRequest, kind: str) -> Text:
    cluster = request.cluster
    devices = (cluster.nodes or 1) * cluster.devices_per_node if cluster.devices_per_node else None
    where = titles.device(request)
    on = f" on {f'{devices} x ' if devices else ''}{where}" if where else ""
    return Text.assemble((f"{titles.model(request)}{on}", "bold"), (f"  {kind}", "dim"))


def _layout(layout: LayoutAnswer, micro_batches: int | None) -> Text:
    parts = [
        f"tensor {layout.tensor_parallel}",
        f"pipeline {layout.pipeline_parallel}",
        f"data {layout.data_parallel}",
    ]
    if layout.context_parallel > 1:
        parts.append(f"context {layout.context_parallel}")
    if layout.expert_parallel > 1:
        parts.append(f"expert {layout.expert_parallel}")
    if layout.virtual_stages > 1:
        parts.append(f"{layout.virtual_stages} chunks a device")
    batches = f"{micro_batches} micro-batches of {layout.micro_batch_size}"
    parts.append(batches if micro_batches else f"micro-batch {layout.micro_batch_size}")
    parts.append(f"schedule {layout.schedule}")
    if layout.sequence_parallel:
        parts.append("sequence parallel")
    parts.append(f"ZeRO {layout.zero_stage}")
    return Text(", ".join(parts))


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


def _stages(stages: Sequence[Stage], limit: float | None, options: ConsoleOptions) -> Table:
    wide = options.max_width >= _WIDE_COLUMNS
    chunked = any(stage.chunk is not None for stage in stages)
    of_limit = f" of {gibibytes(limit)}" if limit else ""
    table = Table(box=box.ASCII if options.ascii_only else box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage", justify="right")
    table.add_column("blocks")
    table.add_column("recomputed", ratio=1)
    table.add_column("forward\nms", justify="right")
    table.add_column("backward\nms", justify="right")
    if wide:
        table.add_column("recompute\nms", justify="right")
        table.add_column("in flight", justify="right")
    table.add_column(f"memory\nGiB{of_limit}", justify="right", no_wrap=True)
    for stage in stages[:_LISTED_STAGES]:
        cells: list[RenderableType] = [
            f"{stage.index}.{stage.chunk}" if chunked else str(stage.index),
            _blocks(stage),
            _recomputed(stage),
            milliseconds(stage.forward_seconds),
            milliseconds(stage.backward_seconds),
        ]
        if wide:
            cells += [milliseconds(stage.recompute_seconds), str(stage.in_flight)]
        cells.append(_memory(stage, limit, options))
        table.add_row(*cells)
    if len(stages) > _LISTED_STAGES:
        table.add_row("...", f"{len(stages) - _LISTED_STAGES} more stages")
    return table


def _blocks(stage: Stage) -> str:
    return "\n".join(_counted(name, count) for name, count in stage.blocks)


def _recomputed(stage: Stage) -> str:
    """What is recomputed, the blocks that do the same taken together, most frequent first."""
    groups = Counter[tuple[str, tuple[str, ...]]]()
    for part in stage.recompute:
        groups[part.block, tuple(part.recomputed)] += part.count
    lines = [
        f"{_counted(block, count)}: {_condensed(tensors)}"
        for (block, tensors), count in groups.most_common()
        if tensors
    ]
    return "\n".join(lines) if lines else "nothing"


def _condensed(tensors: Sequence[str]) -> str:
    """Names, those with a common first word brought together: ``mlp.{up, gate}``."""
    families: dict[str, list[str]] = {}
    for name in tensors:
        head, dot, tail = name.partition(".")
        families.setdefault(head if dot else name, []).append(tail)
    return ", ".join(
        head
        if tails == [""]
        else f"{head}.{tails[0]}"
        if len(tails) == 1
        else f"{head}.{{{', '.join(tail for tail in tails if tail)}}}"
        for head, tails in families.items()
    )


def _counted(name: str, count: int) -> str:
    return f"{count} x {name}" if count > 1 else name


def _memory(stage: Stage, limit: float | None, options: ConsoleOptions) -> Text:
    amount = f"{gibibytes(stage.peak_memory_bytes):>6}"
    if not limit:
        return Text(amount)
    share = stage.peak_memory_bytes / limit
    filled = min(_BAR_CELLS, round(share * _BAR_CELLS))
    full, empty = ("#", ".") if options.ascii_only else ("█", "░")
    colour = "red" if share > 1 else "yellow" if share > 0.95 else "green"
    return Text.assemble((full * filled, colour), (empty * (_BAR_CELLS - filled), "dim"), amount)


def _breakdown(breakdown: Breakdown) -> Text:
    parts = [(name, value) for name, value in breakdown.model_dump().items() if value > 0]
    total = sum(value for _, value in parts)
    parts.sort(key=lambda part: -part[1])
    shares = [f"{name.replace('_', ' ')} {percent(value / total)}" for name, value in parts]
    return Text("Where the time goes: " + ", ".join(shares) + ".")


def _comparison(plan: Plan) -> Iterator[Text]:
    """One line that says what others would get on the same costs."""
    parts = []
    for name, baseline in plan.baselines.items():
        if baseline.fits and baseline.iteration_seconds is not None and plan.iteration_seconds:
            ratio = baseline.iteration_seconds / plan.iteration_seconds
            parts.append(f"{name} {duration(baseline.iteration_seconds)} ({times(ratio)})")
        else:
            parts.append(f"{name} does not fit")
    if parts:
        yield Text("Others on the same costs: " + ", ".join(parts) + ".")


def _notes(notes: Sequence[str]) -> Iterator[Text]:
    for note in notes:
        yield Text.assemble(("Note: ", "bold"), note)


def _infeasible(plan: Plan) -> Iterator[Text]:
    yield Text("No plan fits.", style="bold red")
    shortfall = plan.shortfall
    if shortfall is not None:
        yield _missing(shortfall)
    if plan.error:
        yield Text(plan.error)
    yield from _notes(plan.notes)


def _missing(shortfall: Shortfall) -> Text:
    return Text.assemble(
        f"Even recomputing everything, stage {shortfall.stage} needs ",
        (f"{gibibytes(shortfall.needed_bytes)} GiB", "bold"),
        f" of {gibibytes(shortfall.memory_limit_bytes)} GiB: ",
        (f"{gibibytes(shortfall.missing_bytes)} GiB are missing", "bold"),
        ", in the layout that comes nearest (",
        _layout(shortfall.layout, None),
        ").",
    )


def page(request: PlanRequest, answer: Plan | Evaluation) -> RenderableType:
    """The answer for people."""
    shown = (
        PlanPage(request, answer) if isinstance(answer, Plan) else EvaluationPage(request, answer)
    )
    return Group(shown)
