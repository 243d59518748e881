"""A plan as the writers of configurations see it: what each stage holds and does, by layer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from solver.errors import BadRequest
from solver.plan import BlockRecompute, Evaluation, LayoutAnswer, Plan, Stage
from solver.request import Training
from solver.targets.layers import EMBEDDING, ENDS, HEAD, PREDICTION
from solver.targets.words import Remarks


@dataclass(frozen=True)
class Planned:
    """A plan to be written.

    Args:
        layout: Its parallel layout.
        stages: In model order.
        global_batch_size: Sequences of an iteration (micro-batches per pipeline of a profile).
        micro_batches: Per pipeline and iteration.
        sequence_length: Tokens of a sequence; None for a profile.
        precision: Of the matrix products, as requests name it.
        overlaps_exchange: Experts' tokens are exchanged beside another micro-batch's products.
        setting: The recompute setting in the framework's own words where the plan was made for the
            framework that it is written for; None: it has to be found in what the stages do.
    """

    layout: LayoutAnswer
    stages: list[Stage]
    global_batch_size: int
    micro_batches: int
    sequence_length: int | None = None
    precision: str = "bf16"
    overlaps_exchange: bool = False
    setting: dict[str, object] | None = None

    @property
    def layers(self) -> int:
        """Layers of the model, its ends apart."""
        return sum(layers_of(stage) for stage in self.stages)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Global numbers [first, after the last) of each stage's layers."""
        edges = [0, *itertools.accumulate(layers_of(stage) for stage in self.stages)]
        return list(itertools.pairwise(edges))

    @property
    def replicas(self) -> int:
        """Replicas of the pipeline."""
        return self.layout.data_parallel

    @property
    def devices(self) -> int:
        """Devices that the layout occupies."""
        layout = self.layout
        inner = layout.tensor_parallel * layout.context_parallel
        return inner * layout.pipeline_parallel * layout.data_parallel


def planned_for(
    training: Training,
    plan: Evaluation | Plan,
    setting: Mapping[str, object] | None = None,
) -> Planned:
    """A plan or an evaluation with what is known of its run.

    Raises:
        BadRequest: It holds no plan.
    """
    if plan.layout is None or plan.micro_batches is None or not plan.stages:
        raise BadRequest("There is no plan to be written.", hint="Give one that succeeded.")
    layout = plan.layout
    sequences = plan.micro_batches * layout.micro_batch_size * layout.data_parallel
    return Planned(
        layout=layout,
        stages=plan.stages,
        global_batch_size=training.global_batch_size or sequences,
        micro_batches=plan.micro_batches,
        sequence_length=training.sequence_length,
        precision=training.precision.value,
        overlaps_exchange=training.overlap_expert_parallel and layout.expert_parallel > 1,
        setting=None if setting is None else dict(setting),
    )


def layers_of(stage: Stage) -> int:
    """Layers on a stage."""
    return sum(count for name, count in stage.blocks if name not in ENDS)


def holds(stage: Stage, end: str) -> int:
    """How many blocks of that name a stage holds."""
    return sum(count for name, count in stage.blocks if name == end)


def has_embedding(stage: Stage) -> bool:
    """Whether the embedding stands on the stage."""
    return holds(stage, EMBEDDING) > 0


def has_head(stage: Stage) -> bool:
    """Whether the head stands on the stage."""
    return holds(stage, HEAD) > 0


def predictions_of(stage: Stage) -> int:
    """Multi-token-prediction modules on a stage."""
    return holds(stage, PREDICTION)


def layer_choices(stage: Stage) -> list[BlockRecompute]:
    """What every layer of a stage does, in model order; entries of count 1.

    Layers of a kind that do differently are told apart only by number: those that recompute most
    come first, since the tensors of a stage's first layers are held longest within its backward.
    """
    waiting: dict[str, list[BlockRecompute]] = {}
    for entry in stage.recompute:
        if entry.block not in ENDS:
            waiting.setdefault(entry.block, []).append(entry)
    for entries in waiting.values():
        entries.sort(key=lambda e: (not e.whole, -len(e.recomputed)))
    kinds = [name for name, count in stage.blocks for _ in range(count) if name not in ENDS]
    queues = {name: [e for e in found for _ in range(e.count)] for name, found in waiting.items()}
    return [queues[name].pop(0).model_copy(update={"count": 1}) for name in kinds]


def first_whole_layers(planned: Planned, number: int, framework: str, remarks: Remarks) -> int:
    """First layers of a stage that are run again; what is more than that is said in words."""
    choices = layer_choices(planned.stages[number])
    whole = [entry.whole for entry in choices]
    if any(entry.recomputed and not entry.whole for entry in choices):
        remarks.lost.append(f"Stage {number} recomputes parts of layers; {framework} whole ones.")
    count = whole.index(False) if False in whole else len(whole)
    if any(whole[count:]):
        remarks.lost.append(f"Stage {number} recomputes other than its first layers.")
    return count


def context_word(
    planned: Planned, framework: str, words: Mapping[str, str], remarks: Remarks
) -> str:
    """A framework's word for how split sequences are exchanged; its first where it lacks that."""
    method = planned.layout.context_method
    usual = next(iter(words))
    if planned.layout.context_parallel > 1 and method not in words:
        remarks.lost.append(
            f"{framework} does not exchange split sequences by {method}; it would by {usual}."
        )
    return words.get(method, words[usual])
