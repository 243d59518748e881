"""What measurements say of a running plan: which stage, device or link deviates.

A measurement is judged twice. Against its band: whether the cost model and the run agree. And
against its like, the median of all measurements of the same kind over what each was expected to be:
a model that is off by a tenth everywhere is a matter of calibration, one device that is a tenth
slower than the others is a fault. Stragglers cost 3 to 7% of training time where they are looked
after (Google Cloud, ML goodput guide); more than ``APART`` stands out here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solver.errors import BadRequest
from solver.expected.documents import (
    Band,
    ExpectedAnswer,
    ExpectedCollective,
    ExpectedRequest,
    ExpectedStage,
    Judged,
    ObservationAnswer,
    ObservedCollective,
    ObservedRequest,
)
from solver.expected.expected import band_of, expected
from solver.expected.run import measured_run

APART = 0.07
"""Share by which a measurement is worse than its like before it stands out."""

_WORDS = {
    "iteration": "the iteration",
    "forward": "the forward pass",
    "backward": "the backward pass",
    "peak memory": "the peak of memory",
}


@dataclass(frozen=True)
class _Pair:
    """A measurement and what it is held against."""

    what: str
    measured: float
    expected: float
    band: Band
    stage: int | None = None
    replica: int | None = None

    @property
    def ratio(self) -> float:
        """Measured over expected."""
        return self.measured / self.expected


def observed(request: ObservedRequest) -> ObservationAnswer:
    """The judgement of what was measured.

    Raises:
        BadRequest: A stage or collective is not the plan's.
    """
    known = expected(ExpectedRequest(job=request.job, plan=request.plan))
    pairs = list(_pairs(request, known))
    of_kind = defaultdict(list)
    for pair in pairs:
        of_kind[pair.what].append(pair.ratio)
    judged = []
    for pair in pairs:
        like = pair.ratio / float(np.median(of_kind[pair.what]))
        low, high = pair.band
        judged.append(
            Judged(
                what=pair.what,
                stage=pair.stage,
                replica=pair.replica,
                measured=pair.measured,
                expected=pair.expected,
                ratio=pair.ratio,
                against_its_like=like,
                outside_band=not low <= pair.measured <= high,
                stands_out=len(of_kind[pair.what]) > 2 and like > 1 + APART,
            )
        )
    run, notes = measured_run(request)
    return ObservationAnswer(
        plan_id=request.plan.id,
        judged=judged,
        deviations=_deviations(judged),
        run=run,
        notes=notes,
    )


def _pairs(request: ObservedRequest, known: ExpectedAnswer) -> Iterator[_Pair]:
    measured = request.measured
    if measured.iteration_seconds is not None:
        yield _Pair(
            "iteration", measured.iteration_seconds, known.iteration_seconds, known.iteration_band
        )
    stages = {(stage.index, stage.chunk or 0): stage for stage in known.stages}
    exact = (0.97, 1.03)
    for number, one in enumerate(measured.stages):
        stage = stages.get((one.index, one.chunk or 0))
        if stage is None:
            raise BadRequest(
                f"The plan has no stage {one.index}"
                + (f" of chunk {one.chunk}." if one.chunk else "."),
                field=f"stages[{number}].index",
                hint=f"It has {len(known.stages)} stages, from 0.",
            )
        for what, value, usual, band in (
            ("forward", one.forward_seconds, stage.forward_seconds, stage.forward_band),
            ("backward", one.backward_seconds, stage.backward_seconds, stage.backward_band),
            ("peak memory", one.peak_memory_bytes, *_memory(stage, exact)),
        ):
            if value is not None and usual > 0:
                yield _Pair(what, value, usual, band, one.index, one.replica)
    for number, collective in enumerate(measured.collectives):
        yield _of_collective(number, collective, known, band_of(request.plan))


def _memory(stage: ExpectedStage, exact: Band) -> tuple[float, Band]:
    size = stage.allocated_peak_bytes
    return size, (exact[0] * size, exact[1] * size)


def _of_collective(
    number: int, one: ObservedCollective, known: ExpectedAnswer, band: Band
) -> _Pair:
    found: ExpectedCollective | None = None
    for candidate in known.collectives:
        if candidate.name == one.name and candidate.stage in (None, one.stage):
            found = candidate
    if found is None:
        names = sorted({candidate.name for candidate in known.collectives})
        raise BadRequest(
            f"The plan has no collective '{one.name}'"
            + ("." if one.stage is None else f" on stage {one.stage}."),
            field=f"collectives[{number}].name",
            hint=f"It has {', '.join(names) or 'none'}; those of data_parallel need a stage.",
        )
    seconds = one.seconds
    if seconds is None:
        assert one.bus_bytes_per_second is not None
        seconds = found.seconds * found.bus_bytes_per_second / one.bus_bytes_per_second
    low, high = band
    usual = found.seconds
    return _Pair(one.name, seconds, usual, (low * usual, high * usual), one.stage, one.replica)


def _deviations(judged: list[Judged]) -> list[str]:
    """What stands out, then what is outside its band as a whole, in words."""
    found = sorted((one for one in judged if one.stands_out), key=lambda one: -one.against_its_like)
    words = [f"{_where(one)}: {_how(one)}" for one in found]
    by_kind = defaultdict(list)
    for one in judged:
        if one.outside_band and not one.stands_out:
            by_kind[one.what].append(one.ratio)
    for what, ratios in by_kind.items():
        middle = float(np.median(ratios))
        words.append(
            f"{_WORDS.get(what, what)} {'takes' if what != 'peak memory' else 'is'} {middle:.3g} "
            f"times what is expected in {len(ratios)} of "
            f"{sum(one.what == what for one in judged)} measurements, none of which stands out: "
            "a calibration fitted to this run would say so."
        )
    return words


def _where(one: Judged) -> str:
    place = []
    if one.stage is not None:
        place.append(f"stage {one.stage}")
    if one.replica is not None:
        place.append(f"replica {one.replica}")
    link = "." in one.what
    return ("the links of " if link else "") + (", ".join(place) or "the run")


def _how(one: Judged) -> str:
    what = _WORDS.get(one.what, one.what)
    verb = "is" if one.what == "peak memory" else "takes"
    return (
        f"{what} {verb} {one.ratio:.3g} times what is expected, {one.against_its_like:.3g} times "
        "its like"
    )
