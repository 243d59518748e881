"""Plain PyTorch: any split, any subset of tensors per layer.

Read from PyTorch 2.13: ``torch.distributed.pipelining`` runs GPipe, 1F1B and interleaved 1F1B over
any stages it is given. The export is one module: a runtime of saved-tensor hooks that keeps and
rebuilds what it is told (``pytorch_runtime.py``), and the plan. Layers are written as named ops.
"""

from __future__ import annotations

import pprint
from pathlib import Path

from solver.costs.pipeline import Block, PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Menu
from solver.partition.regime import Regime
from solver.plan import Export
from solver.recompute.choice import keep_all
from solver.recompute.frontier import Frontier, frontier, frontier_of
from solver.targets.layers import framed
from solver.targets.planned import Planned, has_embedding, has_head, layer_choices
from solver.targets.target import Target
from solver.targets.words import Remarks, python_export


class PyTorch(Target):
    """PyTorch alone."""

    name = "pytorch"
    title = "PyTorch"
    version = "2.13"
    schedules = ("1f1b", "gpipe")
    virtual_stages = True
    zero_stages = (0, 1, 2, 3)

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:  # noqa: ARG002
        """Every layer keeps what it will; the model's ends keep everything."""
        return [Regime(menu=_menu)]

    def export(self, planned: Planned) -> Export:
        """The runtime and the plan."""
        remarks = Remarks()
        runtime = Path(__file__).with_name("pytorch_runtime.py").read_text("utf-8")
        plan = pprint.pformat(_plan(planned, remarks), width=96, compact=True, sort_dicts=False)
        text = f"{runtime}\n\nPLAN: dict[str, Any] = {plan}\n"
        remarks.known.append(
            "Build your layers as PlannedLayer with ops of these names, stage by stage of "
            "stage_layers(PLAN, number), and run them by pipeline_schedule."
        )
        if planned.layout.tensor_parallel * planned.layout.data_parallel > 1:
            remarks.known.append(
                "Tensor and data parallelism are your model's: apply DTensor and FSDP to its "
                "modules."
            )
        return python_export(self, text, remarks)


def _menu(costs: PipelineCosts) -> Menu:
    return FreeMenu(costs, tuple(_choices(block) for block in framed(costs).blocks))


def _choices(block: Block) -> Frontier:
    return frontier(block) if block.checkpointable else frontier_of([keep_all(block)])


def _plan(planned: Planned, remarks: Remarks) -> dict[str, object]:
    """Stages with their layers; what layers recompute stands once, by number."""
    layout = planned.layout
    sets: dict[tuple[str, ...], int] = {}
    stages: list[dict[str, object]] = []
    for stage, (first, _) in zip(planned.stages, planned.ranges, strict=True):
        choices = layer_choices(stage)
        if any(entry.group > 1 for entry in choices):
            remarks.lost.append("Groups of layers that keep one input are not written.")
        stages.append(
            {
                "embedding": has_embedding(stage),
                "head": has_head(stage),
                "first_layer": first,
                "layers": [
                    sets.setdefault(tuple(entry.recomputed), len(sets)) for entry in choices
                ],
            }
        )
    return {
        "schedule": layout.schedule,
        "pipeline_parallel": layout.pipeline_parallel,
        "virtual_stages": layout.virtual_stages,
        "micro_batches": planned.micro_batches,
        "micro_batch_size": layout.micro_batch_size,
        "recomputed": [list(names) for names in sets],
        "stages": stages,
    }
