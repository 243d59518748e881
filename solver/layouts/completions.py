"""The legal layouts of a request: those that its fixed fields admit, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import islice, product
from typing import Any

from solver.cluster.cluster import Cluster
from solver.errors import BadRequest, IllegalLayout
from solver.layouts.family import Family, listed
from solver.layouts.illegal import illegal
from solver.layouts.layout import Layout
from solver.layouts.pooled import on_pools, refuse_shared_devices
from solver.layouts.rules import Violation, violations
from solver.layouts.schedules import shares_devices, virtual_stages
from solver.layouts.setting import Setting, divisors
from solver.layouts.space import space
from solver.request import ContextMethod, LayoutRequest, RankOrder, ScheduleName, Training
from solver.workload.architecture import Architecture

_OCCUPYING = ("tensor_parallel", "pipeline_parallel", "data_parallel")
_SEARCHED = (*_OCCUPYING, "micro_batch_size")
"""Fields that are enumerated where free, in this order."""

_ALL = frozenset(field.name for field in fields(Layout))

_CHOSEN = _ALL - {"stage_pools"}
"""Fields that may list several values."""


def families(
    asked: LayoutRequest,
    architecture: Architecture,
    cluster: Cluster,
    training: Training,
    zero_groups: tuple[tuple[int, ...], ...],
    usual_ranks: bool = False,
    may_fit: Callable[[Family], bool] = lambda _: True,
    beyond_devices: int = 0,
) -> tuple[Family, ...]:
    """All layouts that a request admits for a plan; arguments as ``layouts`` and ``space``.

    Raises:
        IllegalLayout: There is none, whatever its devices; the error names the field to change and
            the nearest legal values.
        BadRequest: The training run has no sequence length or global batch size.
    """
    setting = _setting(architecture, cluster, training, all_devices=False)
    found = space(asked, setting, cluster, zero_groups, usual_ranks, may_fit, beyond_devices)
    if beyond_devices or any(family.counts().any() for family in found):
        return found
    single = singles(asked)
    if cluster.pools:
        shapes = [(one.schedule, one.virtual_stages) for one in map(usual_layout, single)]
        single = [
            one for one, shape in zip(single, shapes, strict=True) if not shares_devices(*shape)
        ]
        if not single:
            refuse_shared_devices(*shapes[0])
    refused: IllegalLayout | None = None
    for one in single:
        try:
            legal = layouts(one, architecture, cluster, training)
        except IllegalLayout as error:
            refused = refused or error
        else:
            counts = [layout.micro_batches(setting.global_batch_size) for layout in legal]
            return listed(legal, counts)
    assert refused is not None, "a request has at least one combination of values"
    raise refused


def singles(asked: LayoutRequest) -> list[LayoutRequest]:
    """The request with one value of each list, in some of the combinations."""
    lists = {name: asked.values(name) for name in _CHOSEN if isinstance(getattr(asked, name), list)}
    combinations = product(*(values or () for values in lists.values()))
    return [
        asked.model_copy(update=dict(zip(lists, values, strict=True)))
        for values in islice(combinations, _MOST_COMBINATIONS)
    ]


_MOST_COMBINATIONS = 64
"""Combinations of listed values that are tried for a reason why none is legal."""


def layouts(
    asked: LayoutRequest, architecture: Architecture, cluster: Cluster, training: Training
) -> list[Layout]:
    """The legal completions of ``asked`` that an evaluation might mean.

    Searched where free: tensor parallel over the divisors of the domain that fast links join,
    pipeline parallel over the divisors of what remains, data parallel as the rest, and the
    micro-batch size over the divisors of a replica's share of the batch. Other free fields take
    one value: no context, expert parallelism or virtual stages, ZeRO stage 1, 1F1B, and sequence
    parallelism wherever there is tensor parallelism.

    Where tensor, pipeline and data parallel are all fixed, the layout may leave devices unused;
    else it occupies them all.

    Raises:
        IllegalLayout: The fixed fields admit no legal layout; the error names the field to change
            and the nearest legal values.
        BadRequest: The training run has no sequence length or global batch size, or a field lists
            several values.
    """
    refuse_lists(asked)
    given = frozenset(name for name in _ALL if getattr(asked, name) is not None)
    setting = _setting(architecture, cluster, training, not given.issuperset(_OCCUPYING))
    start, known = _start(asked, given, setting)
    broken = next(violations(start, setting, known), None)
    if broken is not None:
        raise illegal(broken, start, setting, known, given)
    search = _Search(setting, cluster.domain_size, given)
    found = list(search.completions(start, known))
    if cluster.pools:
        found = [on_pools(layout, asked, cluster.pools) for layout in found]
    if not found:
        assert search.nearest_miss is not None  # every free field has a candidate
        layout, known, broken = search.nearest_miss
        raise illegal(broken, layout, setting, known, given)
    return found


def check(layout: Layout, architecture: Architecture, cluster: Cluster, training: Training) -> None:
    """Raise if ``layout`` is not legal; it need not occupy all devices.

    Raises:
        IllegalLayout: It breaks a rule; the error names the field to change and the nearest legal
            values.
        BadRequest: The training run has no sequence length or global batch size.
    """
    setting = _setting(architecture, cluster, training, all_devices=False)
    broken = next(violations(layout, setting, _ALL), None)
    if broken is not None:
        raise illegal(broken, layout, setting, _ALL, _ALL)


class _Search:
    """Assigns the free fields one after the other, leaving a branch at the first broken rule."""

    def __init__(self, setting: Setting, domain_size: int, given: frozenset[str]) -> None:
        self._setting = setting
        self._domain_size = domain_size
        self._given = given
        self._nearness = (False, -1, -1)
        self.nearest_miss: tuple[Layout, frozenset[str], Violation] | None = None

    def completions(self, layout: Layout, known: frozenset[str]) -> Iterator[Layout]:
        """Legal completions of ``layout``, of which the fields ``known`` are decided."""
        free = next((name for name in _SEARCHED if name not in known), None)
        if free is None:
            yield layout
            return
        for value in self._candidates(free, layout):
            candidate = replace(layout, **_change(free, value))
            now_known = known | {free}
            if "sequence_parallel" not in now_known:
                candidate = _with_sequence_parallel(candidate, self._setting)
                now_known |= {"sequence_parallel"}
            broken = next(violations(candidate, self._setting, now_known, now_known - known), None)
            if broken is None:
                yield from self.completions(candidate, now_known)
            else:
                self._remember(candidate, now_known, broken)

    def _candidates(self, name: str, layout: Layout) -> Sequence[int]:
        if name == "micro_batch_size":
            return divisors(max(1, self._setting.global_batch_size // layout.data_parallel))
        rest = self._setting.devices // layout.devices
        later = _OCCUPYING[_OCCUPYING.index(name) + 1 :]
        if self._given.issuperset(later):
            return [rest]  # nothing else can take the remaining devices
        if name == "tensor_parallel":
            return [size for size in divisors(self._domain_size) if rest % size == 0]
        return divisors(rest)

    def _remember(self, layout: Layout, known: frozenset[str], broken: Violation) -> None:
        """Keep the miss that explains best: one at a given field, far into the rules."""
        nearness = (broken.field in self._given, len(known), broken.rank)
        if nearness > self._nearness:
            self._nearness = nearness
            self.nearest_miss = (layout, known, broken)


def _change(name: str, value: Any) -> dict[str, Any]:
    return {name: value}


def _with_sequence_parallel(layout: Layout, setting: Setting) -> Layout:
    parts = layout.tensor_parallel * layout.context_parallel
    possible = layout.tensor_parallel > 1 and setting.sequence_length % parts == 0
    return replace(layout, sequence_parallel=possible)


def _setting(
    architecture: Architecture, cluster: Cluster, training: Training, all_devices: bool
) -> Setting:
    return Setting(
        architecture=architecture,
        devices=cluster.devices,
        sequence_length=_required(training.sequence_length, "sequence_length"),
        global_batch_size=_required(training.global_batch_size, "global_batch_size"),
        all_devices=all_devices,
        overlaps_exchange=training.overlap_expert_parallel,
    )


def _required(value: int | None, name: str) -> int:
    if value is None:
        raise BadRequest(
            f"{name} is not given.",
            field=f"training.{name}",
            hint="Give a whole number from 1 up.",
        )
    return value


def refuse_lists(asked: LayoutRequest) -> None:
    """Refuse several values for a field where only one has a meaning.

    Raises:
        BadRequest: A field lists several values.
    """
    for name in _CHOSEN:
        if isinstance(getattr(asked, name), list):
            raise BadRequest(
                "One layout is judged here, and a field lists several values.",
                field=f"layout.{name}",
                hint="Give one value.",
            )


def usual_layout(asked: LayoutRequest) -> Layout:
    """What is given, and the usual value of everything else; no field lists several values."""

    def value(name: str, usual: Any) -> Any:
        given = asked.values(name)
        return usual if given is None else given[0]

    return Layout(
        tensor_parallel=value("tensor_parallel", 1),
        pipeline_parallel=value("pipeline_parallel", 1),
        context_parallel=value("context_parallel", 1),
        expert_parallel=value("expert_parallel", 1),
        data_parallel=value("data_parallel", 1),
        virtual_stages=virtual_stages(asked),
        micro_batch_size=value("micro_batch_size", 1),
        sequence_parallel=value("sequence_parallel", False),
        zero_stage=value("zero_stage", 1),
        schedule=ScheduleName(value("schedule", "1f1b")).value,
        expert_tensor_parallel=value("expert_tensor_parallel", 0),
        interleaving_group=asked.interleaving_group or 0,
        sharding_group=value("sharding_group", 0),
        rank_order=RankOrder(value("rank_order", RankOrder.DATA_INSIDE)).value,
        context_method=ContextMethod(value("context_method", ContextMethod.RING)).value,
    )


def _start(
    asked: LayoutRequest, given: frozenset[str], setting: Setting
) -> tuple[Layout, frozenset[str]]:
    """The fixed fields, the defaults of those that are not searched, and 1 for the rest.

    Returns the layout and which of its fields are decided.
    """
    layout = usual_layout(asked)
    if setting.windowed and "context_method" not in given:
        layout = replace(layout, context_method=ContextMethod.ALL_GATHER.value)
    undecided = frozenset({*_SEARCHED, "sequence_parallel"}) - given
    if "tensor_parallel" in given and "sequence_parallel" in undecided:
        layout = _with_sequence_parallel(layout, setting)
        undecided -= {"sequence_parallel"}
    return layout, _ALL - undecided
