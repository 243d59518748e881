"""What it costs to go from the running plan to what is done after a failure, and back again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from solver.contingencies.cells import Cells
from solver.contingencies.documents import ContingencyRequest
from solver.plan import LayoutAnswer
from solver.transitions.documents import PlanOnNodes, TransitionAnswer, TransitionRequest
from solver.transitions.pairs import Pairs, Situation
from solver.transitions.state import Stretch, parts_for, union
from solver.transitions.transition import situation, transition


@dataclass(frozen=True)
class Way:
    """There and back. ``order``: positions in the new plan's rank order."""

    order: list[int]
    there: TransitionAnswer
    back_seconds: float


class Ways:
    """The ways from a running plan, whose nodes go by their positions; spares come after them."""

    def __init__(
        self, request: ContingencyRequest, layout: LayoutAnswer, blocks: list[int], cells: Cells
    ) -> None:
        self._request, self._cells = request, cells
        self._facts: Situation = situation(request.job)
        self._pairs = Pairs(self._facts)
        self._count = cells.count
        self._layout, self._blocks = layout, blocks
        self._before = on_nodes(layout, blocks, map(str, range(self._count)))

    @property
    def checkpoint_seconds(self) -> float | None:
        """Reading the whole state from storage; None without a rate."""
        rate = self._request.storage_bytes_per_second
        size = float(self._facts.layers.parameters.sum()) * 14.0
        return None if rate is None else size / rate

    def waiting(self, failed: Sequence[int]) -> TransitionAnswer:
        """The running plan again, with new nodes in the place of those that failed."""
        return self._there(self._restored(failed), failed)

    def with_spares(self, failed: Sequence[int]) -> Way:
        """Spares take the ranks of the failed nodes."""
        spares = iter(range(self._count, self._count + len(failed)))
        order = [next(spares) if node in failed else node for node in range(self._count)]
        there = self._there(on_nodes(self._layout, self._blocks, map(str, order)), failed)
        return Way(order, there, 0.0)

    def to_plan(self, failed: Sequence[int], layout: LayoutAnswer, blocks: list[int]) -> Way:
        """Another plan on the nodes that are left, each where it has most to keep."""
        left = [str(node) for node in range(self._count) if node not in failed]
        there = self._there(on_nodes(layout, blocks, left), failed)
        back = self._asked(on_nodes(layout, blocks, there.nodes), self._restored(failed), ())
        order = [int(name) for name in there.nodes]
        return Way(order, there, transition(back, self._facts, pairs=self._pairs).seconds)

    def in_order(
        self, failed: Sequence[int], layout: LayoutAnswer, blocks: list[int], order: Sequence[int]
    ) -> TransitionAnswer:
        """Another plan on nodes of the given positions, in its rank order."""
        request = self._asked(self._before, on_nodes(layout, blocks, map(str, order)), failed)
        return transition(request, self._facts, pairs=self._pairs, in_order=True)

    def rerouted(self, failed: Sequence[int]) -> Way:
        """Every device stays; each stage's optimizer is dealt out anew over what is left of it."""
        left, there = self.rerouted_there(failed)
        # On the way back every device receives at most what it has now given away.
        waiting = self.waiting(failed)
        back = waiting.seconds - (waiting.checkpoint_seconds or 0.0)
        return Way(left, there, max(back, there.move_seconds + self._request.restart_seconds))

    def rerouted_there(self, failed: Sequence[int]) -> tuple[list[int], TransitionAnswer]:
        """Its nodes, and the way there."""
        cells = self._cells
        lost = cells.lost_cells(failed)
        left = [
            node
            for node in range(self._count)
            if any(
                (stage, replica) not in lost
                for stage in cells.stages[node]
                for replica in cells.replicas[node]
            )
        ]
        after = self._before.model_copy(update={"nodes": [str(node) for node in left]})
        need, parts = self._shares(left, lost)
        request = self._asked(self._before, after, failed)
        return left, transition(request, self._facts, (need, parts), self._pairs)

    def _shares(
        self, left: Sequence[int], lost: frozenset[tuple[int, int]]
    ) -> tuple[list[dict[int, tuple[list[Stretch], list[Stretch]]]], int]:
        """What every node that is left holds, and of how many parts an axis is made."""
        plan = self._before
        replicas = range(plan.data_parallel)
        alive = {
            stage: [replica for replica in replicas if (stage, replica) not in lost]
            for stage in range(plan.pipeline_parallel)
        }
        fewer = [
            plan.model_copy(update={"data_parallel": len(here)})
            for here in alive.values()
        ]  # fmt: skip
        parts = parts_for(plan, *fewer)
        inner = plan.tensor_parallel * plan.context_parallel
        width = parts // plan.tensor_parallel
        per_node = self._facts.devices_per_node
        found = []
        for node in left:
            held: dict[int, tuple[list[Stretch], list[Stretch]]] = {}
            for rank in range(node * per_node, min((node + 1) * per_node, plan.devices)):
                stage, place = divmod(rank, inner * plan.data_parallel)
                replica, within = divmod(place, inner)
                if (stage, replica) in lost:
                    continue
                start = within % plan.tensor_parallel * width
                weights = optimizer = (start, start + width)
                if plan.zero_stage:
                    here = alive[stage]
                    shard = width // (len(here) * plan.context_parallel)
                    number = here.index(replica) * plan.context_parallel
                    low = start + (number + within // plan.tensor_parallel) * shard
                    optimizer = (low, low + shard)
                both = held.setdefault(stage, ([], []))
                both[0].append(weights)
                both[1].append(optimizer)
            found.append({stage: (union(w), union(o)) for stage, (w, o) in held.items()})
        return found, parts

    def _restored(self, failed: Sequence[int]) -> PlanOnNodes:
        names = (f"new-{node}" if node in failed else str(node) for node in range(self._count))
        return on_nodes(self._layout, self._blocks, names)

    def _there(self, after: PlanOnNodes, failed: Sequence[int]) -> TransitionAnswer:
        request = self._asked(self._before, after, failed)
        return transition(request, self._facts, pairs=self._pairs)

    def _asked(
        self, before: PlanOnNodes, after: PlanOnNodes, failed: Iterable[int]
    ) -> TransitionRequest:
        asked = self._request
        return TransitionRequest.model_construct(
            job=asked.job,
            before=before,
            after=after,
            lost=[str(node) for node in failed],
            restart_seconds=asked.restart_seconds,
            storage_bytes_per_second=asked.storage_bytes_per_second,
            local_checkpoints=asked.local_checkpoints,
        )


def on_nodes(layout: LayoutAnswer, blocks: list[int], names: Iterable[str]) -> PlanOnNodes:
    """A layout and its stages on nodes."""
    return PlanOnNodes(
        tensor_parallel=layout.tensor_parallel,
        pipeline_parallel=layout.pipeline_parallel,
        data_parallel=layout.data_parallel,
        context_parallel=layout.context_parallel,
        virtual_stages=layout.virtual_stages,
        zero_stage=layout.zero_stage,
        stages=blocks,
        nodes=list(names),
    )
