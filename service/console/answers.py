"""A plan or an evaluation as a page of text: a sentence, then a table of its stages.

The page fits 80 columns and uses more if there are more; it is as readable in a pipe or a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

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
from solver.plan import (
    BlockRecompute,
    Breakdown,
    Evaluation,
    LayoutAnswer,
    Plan,
    Shortfall,
    Stage,
    Status,
)
from solver.request import PlanRequest

_BAR_CELLS = 8
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WAYS_OUT = (
    "Use more devices or devices with more memory, a larger tensor_parallel or pipeline_parallel,"
    " or a smaller micro_batch_size."
)
_WIDE_COLUMNS = 110


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
        yield from _stages(plan.stages, plan.memory_limit_bytes, options)
        yield _breakdown(plan.breakdown)
        yield from _comparison(plan)
        yield from _explanation(plan)
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
        yield from _stages(answer.stages, answer.memory_limit_bytes, options)
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


def _stages(
    stages: Sequence[Stage], limit: float | None, options: ConsoleOptions
) -> Iterator[Table | Text]:
    """A row per run of stages that do the same, then what the letters in it stand for."""
    wide = options.max_width >= _WIDE_COLUMNS
    recipes = Recipes()
    rows = _rows(stages, recipes)
    table = Table(box=box.ASCII if options.ascii_only else box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage", justify="right")
    table.add_column("blocks")
    table.add_column("recomputed", ratio=1)
    table.add_column("forward\nms", justify="right")
    table.add_column("backward\nms", justify="right")
    if wide:
        table.add_column("recompute\nms", justify="right")
        table.add_column("in flight", justify="right")
    of_limit = f" of {gibibytes(limit)}" if limit else ""
    table.add_column(f"memory\nGiB{of_limit}", justify="right", no_wrap=True)
    for row in rows:
        first, last = row.stages[0], row.stages[-1]
        cells: list[RenderableType] = [
            _span(_index(first), _index(last), "-"),
            row.blocks,
            row.recomputed,
            milliseconds(first.forward_seconds),
            milliseconds(first.backward_seconds),
        ]
        if wide:
            cells += [
                milliseconds(first.recompute_seconds),
                _span(str(first.in_flight), str(last.in_flight), "-"),
            ]
        peak = max(stage.peak_memory_bytes for stage in row.stages)
        table.add_row(*cells, _memory(peak, limit, options))
    yield table
    if recipes.letters:
        yield _legend(recipes)
        yield Text()


@dataclass(frozen=True)
class _Row:
    """Consecutive stages that hold the same blocks, recompute the same and take the same time."""

    stages: list[Stage]
    blocks: str
    recomputed: str


def _rows(stages: Sequence[Stage], recipes: Recipes) -> list[_Row]:
    def same(stage: Stage) -> tuple[str, str, str, str]:
        return (
            ", ".join(_counted(name, count) for name, count in stage.blocks),
            recipes.of(stage),
            milliseconds(stage.forward_seconds),
            milliseconds(stage.backward_seconds),
        )

    return [
        _Row(list(run), blocks, recomputed)
        for (blocks, recomputed, _, _), run in groupby(stages, key=same)
    ]


class Recipes:
    """Letters for what blocks recompute, so that a table can name each in one sign."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def of(self, stage: Stage) -> str:
        """What the stage recomputes: ``12 x A, 7 x B``, or ``nothing``."""
        counts = Counter[str]()
        for part in stage.recompute:
            if part.recomputed or part.whole:
                counts[self._letter(_recipe(part))] += part.count
        return ", ".join(f"{count} x {letter}" for letter, count in sorted(counts.items())) or (
            "nothing"
        )

    def _letter(self, recipe: str) -> str:
        number = len(self.letters)
        turn, place = divmod(number, 26)
        name = chr(ord("A") + place) + (str(turn + 1) if turn else "")
        return self.letters.setdefault(recipe, name)


def _legend(recipes: Recipes) -> Table:
    legend = Table.grid(padding=(0, 1))
    for recipe, letter in recipes.letters.items():
        legend.add_row(Text(letter, style="bold"), recipe)
    return legend


def _recipe(part: BlockRecompute) -> str:
    if part.whole:
        runs = f"{part.group} of them at a time" if part.group > 1 else "whole"
        return f"{part.block} is run again, {runs}"
    return f"{part.block} recomputes {_condensed(part.recomputed)}"


def _index(stage: Stage) -> str:
    return str(stage.index) if stage.chunk is None else f"{stage.index}.{stage.chunk}"


def _span(first: str, last: str, dash: str) -> str:
    return first if first == last else f"{first}{dash}{last}"


def _condensed(tensors: Sequence[str]) -> str:
    """Names, those of one module brought together: ``mlp.{up, gate}``."""
    modules: dict[str, list[str]] = {}
    for name in tensors:
        module, dot, part = name.partition(".")
        modules.setdefault(module if dot else name, []).append(part)
    return ", ".join(_module(module, parts) for module, parts in modules.items())


def _module(module: str, parts: list[str]) -> str:
    if parts == [""]:
        return module
    return f"{module}.{parts[0]}" if len(parts) == 1 else f"{module}.{{{', '.join(parts)}}}"


def _counted(name: str, count: int) -> str:
    return f"{count} x {name}" if count > 1 else name


def _memory(peak: float, limit: float | None, options: ConsoleOptions) -> Text:
    amount = f"{gibibytes(peak):>6}"
    if not limit:
        return Text(amount)
    share = peak / limit
    colour = "red" if share > 1 else "yellow" if share > 0.97 else "green"
    return Text.assemble((_bar(share, options.ascii_only), colour), amount)


def _bar(share: float, ascii_only: bool) -> str:
    """A bar that is full only when nothing is left."""
    if ascii_only:
        return ("#" * min(_BAR_CELLS, int(share * _BAR_CELLS))).ljust(_BAR_CELLS, ".")
    eighths = min(8 * _BAR_CELLS, int(share * 8 * _BAR_CELLS))
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR_CELLS, "░")


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


def _explanation(plan: Plan) -> Iterator[Text]:
    """What decides the time, and what a change would gain."""
    explanation = plan.explanation
    if explanation is None:
        return
    stage = _index(plan.stages[explanation.bottleneck_stage])
    said = (
        f"Stage {stage} decides the time ({percent(explanation.bottleneck_share)} of the critical "
        f"path), limited by {explanation.limited_by}."
    )
    gains = [f"{change.change} {change.gain:+.1%}" for change in explanation.what_if]
    if gains:
        said += f" Work per second with {', '.join(gains)}."
    yield Text(said)


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
        _layout(shortfall.layout, None),
        ").",
    )


def page(request: PlanRequest, answer: Plan | Evaluation) -> RenderableType:
    """The answer for people."""
    shown = (
        PlanPage(request, answer) if isinstance(answer, Plan) else EvaluationPage(request, answer)
    )
    return Group(shown)
