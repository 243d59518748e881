"""Methods that decide a whole layout by themselves, cuts and recompute: some policies name one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solver.assess import assess
from solver.baselines.adapipe import adapipe
from solver.baselines.lynx_heu import lynx_heu
from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.partition.even import even_stages
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import least_memory_menu
from solver.partition.stages import Stage, stages_at, with_ample_memory
from solver.request import Overlap, Policy
from solver.schedules import Schedule


@dataclass(frozen=True)
class Method:
    """One method of a paper.

    Args:
        title: What people call it.
        schedules: Those that it knows, with one stage per device and equal devices.
        stages: What it chooses from costs, a schedule and where recompute may hide; None if it
            finds nothing that fits.
    """

    title: str
    schedules: tuple[str, ...]
    stages: Callable[[PipelineCosts, Schedule, Overlap], tuple[Stage, ...] | None]

    def knows(self, schedule: str, virtual_stages: int) -> bool:
        """Whether it plans such layouts."""
        return virtual_stages == 1 and schedule in self.schedules

    def refuse(self, schedule: str, virtual_stages: int) -> None:
        """Refuse a layout that the method does not plan.

        Raises:
            BadRequest: It knows other schedules, or one stage per device only.
        """
        if not self.knows(schedule, virtual_stages):
            names = " or ".join(_TITLES[name] for name in self.schedules)
            raise BadRequest(
                f"{self.title} plans {names} with one stage per device.",
                field="layout.virtual_stages" if virtual_stages > 1 else "layout.schedule",
                hint="Leave schedule and virtual_stages out, or choose another recompute.policy.",
            )

    def refuse_unlike_devices(self) -> None:
        """Refuse pipelines over devices that differ.

        Raises:
            BadRequest: Always.
        """
        raise BadRequest(
            f"{self.title} plans pipelines of equal devices.",
            field="recompute.policy",
            hint="Choose another policy, or give every stage the same device.",
        )

    def partition(
        self, costs: PipelineCosts, schedule: Schedule, overlap: Overlap
    ) -> Partition | Infeasible:
        """Its plan of a layout, or where the most frugal even split misses memory.

        A method decides, so that its plan is the only one: its time is its own lower bound.
        """
        stages = self.stages(costs, schedule, overlap)
        if stages is None:
            return self._missing(costs, schedule)
        makespan = assess(costs, schedule, stages).makespan
        return Partition(
            cuts=tuple((stage.start, stage.stop) for stage in stages),
            mixes=(),
            makespan=makespan,
            lower_bound=makespan,
            rows=0,
            rounds=0,
            engine=self.title,
            parts=tuple(stage.parts for stage in stages),
        )

    def _missing(self, costs: PipelineCosts, schedule: Schedule) -> Infeasible:
        ample = with_ample_memory(costs)
        stages = stages_at(ample, least_memory_menu(ample), schedule, even_stages(ample, schedule))
        assert stages is not None, "everything fits an ample memory"
        needed = [memory.total for memory in assess(ample, schedule, stages).memory]
        stage = max(range(len(needed)), key=needed.__getitem__)
        return Infeasible(stage, needed[stage] - costs.capacity_bytes, needed[stage])


_TITLES = {"1f1b": "1F1B", "gpipe": "GPipe"}


METHODS = {
    Policy.ADAPIPE: Method(
        "AdaPipe", ("1f1b",), lambda costs, schedule, _: adapipe(costs, schedule)
    ),
    Policy.LYNX_HEU: Method("Lynx-HEU", ("1f1b", "gpipe"), lynx_heu),
}
"""By the policy that names it."""
