"""A framework as a target: which layouts it runs, what it can be told to recompute, in which words.

A target is a set of constraints inside the optimisation and a writer of real configuration. Each
names the version of the framework that its rules were read from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime
from solver.plan import Export
from solver.schedules import make_schedule
from solver.targets.planned import Planned
from solver.targets.regimes import Flights


@dataclass(frozen=True)
class Refusal:
    """Why a framework does not run a layout: the field to change, and its nearest legal value."""

    field: str
    detail: str
    nearest: str


class Target(ABC):
    """One framework."""

    name: ClassVar[str]
    """As requests name it."""
    title: ClassVar[str]
    """As people name it."""
    version: ClassVar[str]
    """The version that its rules were read from."""
    settings_of: ClassVar[tuple[str, ...]] = ()
    """Other frameworks whose recompute settings it takes in the same words."""
    schedules: ClassVar[tuple[str, ...]] = ("1f1b",)
    """Schedules that it runs, the usual one first."""
    virtual_stages: ClassVar[bool] = False
    """Whether a device may hold several model chunks."""
    interleaving_group: ClassVar[bool] = False
    """Whether the round of an interleaved schedule can be other than the pipeline's size."""
    zero_stages: ClassVar[tuple[int, ...]] = (0, 1)
    """ZeRO stages that it offers, with a pipeline or without."""
    sequence_parallel: ClassVar[bool] = True
    """Whether norms and residuals can be split over tensor-parallel devices."""
    context_parallel: ClassVar[bool] = True
    """Whether a sequence can be split over devices."""
    overlaps_exchange: ClassVar[bool] = False
    """Whether experts' tokens can be exchanged beside another micro-batch's products."""
    places_recompute: ClassVar[str] = "recomputes on demand; it places nothing in windows or stalls"
    """Where it recomputes, in words. None runs what is planned for windows and stalls here."""
    stalls: ClassVar[str] = ""
    """Where it recomputes ahead of the gradient, in words; empty: nowhere."""
    rank_orders: ClassVar[tuple[str, ...]] = ("tp-cp-ep-dp-pp",)
    """Orders in which it can number ranks, the usual one first."""
    context_methods: ClassVar[tuple[str, ...]] = ("ring",)
    """How it can exchange split sequences in attention, the usual one first."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """What it sets where a request leaves a field of the layout open."""

    def refusal(self, layout: Layout) -> Refusal | None:
        """Why it does not run this layout, or None."""
        if layout.schedule not in self.schedules:
            known = " or ".join(self.schedules)
            return Refusal(
                "schedule",
                f"{self.title} does not run {layout.schedule}; it runs {known}.",
                self.schedules[0],
            )
        if layout.virtual_stages > 1 and not self.virtual_stages:
            return Refusal(
                "virtual_stages",
                f"{self.title} cannot divide this model over several chunks of a device.",
                "1",
            )
        if layout.interleaving_group not in (0, layout.pipeline_parallel) and not (
            self.interleaving_group
        ):
            return Refusal(
                "interleaving_group",
                f"{self.title} takes as many micro-batches through a chunk in a row as there are "
                "pipeline devices.",
                str(layout.pipeline_parallel),
            )
        if layout.zero_stage not in self.zero_stages:
            nearest = min(self.zero_stages, key=lambda stage: abs(stage - layout.zero_stage))
            return Refusal(
                "zero_stage",
                f"{self.title} does not offer ZeRO stage {layout.zero_stage}.",
                str(nearest),
            )
        if layout.sequence_parallel and not self.sequence_parallel:
            return Refusal(
                "sequence_parallel",
                f"{self.title} has no sequence parallelism of its own.",
                "false",
            )
        if layout.context_parallel > 1 and not self.context_parallel:
            return Refusal(
                "context_parallel", f"{self.title} has no context parallelism of its own.", "1"
            )
        if layout.pipeline_parallel > 1 and layout.rank_order not in self.rank_orders:
            return Refusal(
                "rank_order",
                f"{self.title} does not number ranks {layout.rank_order}.",
                self.rank_orders[0],
            )
        if layout.context_parallel > 1 and layout.context_method not in self.context_methods:
            known = " or ".join(self.context_methods)
            return Refusal(
                "context_method",
                f"{self.title} does not exchange split sequences by {layout.context_method}; it "
                f"does by {known}.",
                self.context_methods[0],
            )
        return None

    def recomputes_ahead(self, layout: Layout, layers: int) -> bool:
        """Whether it can recompute ahead of the gradient under a layout of so many layers."""
        del layout, layers
        return False

    @abstractmethod
    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:
        """The ways in which it can make a plan of this layout; the first needs least memory."""

    @abstractmethod
    def export(self, planned: Planned) -> Export:
        """A plan in its own words, exact where it was planned for this framework."""

    def exported(self, planned: Planned) -> Export:
        """The same of any plan: no framework's words say what is to wait in host memory."""
        found = self.export(planned)
        if not any(entry.offloaded for stage in planned.stages for entry in stage.recompute):
            return found
        note = (
            f"{self.title} cannot be told, layer by layer, how much of which tensors waits in host "
            "memory; without that the plan does not fit."
        )
        return found.model_copy(update={"exact": False, "notes": [note, *found.notes]})


def flights(costs: PipelineCosts, layout: Layout) -> Flights:
    """Micro-batches in flight at least, per device; with virtual stages one is all that is sure."""
    if layout.virtual_stages > 1:
        return (1,) * layout.pipeline_parallel
    schedule = make_schedule(layout.schedule, layout.pipeline_parallel, costs.micro_batches, 1, 0)
    return tuple(schedule.in_flight(stage) for stage in range(schedule.stages))
