"""A plan in Megatron-LM's flags, as far as they can say it.

Read from Megatron-LM (core 0.20 development, August 2026): ``--pipeline-model-parallel-layout``
takes any contiguous split, but recompute is one setting for all ranks: full with ``uniform`` or
``block`` and one number, or one list of modules. Whatever a plan decides beyond that is said in
plain words instead.
"""

from __future__ import annotations

from itertools import groupby

from solver.plan import Export, LayoutAnswer, Stage


def megatron_export(layout: LayoutAnswer, stages: list[Stage], global_batch_size: int) -> Export:
    """The flags of a plan, and notes on what they leave out."""
    recompute, notes = _recompute(stages)
    arguments = [*_layout(layout, global_batch_size), *_split(layout, stages, notes), *recompute]
    return Export(framework="megatron-lm", arguments=arguments, exact=not notes, notes=notes)


def _layout(layout: LayoutAnswer, global_batch_size: int) -> list[str]:
    flags = [
        f"--tensor-model-parallel-size {layout.tensor_parallel}",
        f"--pipeline-model-parallel-size {layout.pipeline_parallel}",
        f"--context-parallel-size {layout.context_parallel}",
        f"--micro-batch-size {layout.micro_batch_size}",
        f"--global-batch-size {global_batch_size}",
    ]
    if layout.expert_parallel > 1:
        flags.append(f"--expert-model-parallel-size {layout.expert_parallel}")
    if layout.sequence_parallel:
        flags.append("--sequence-parallel")
    if layout.zero_stage == 1:
        flags.append("--use-distributed-optimizer")
    if layout.zero_stage >= 2:
        strategy = {2: "optim_grads", 3: "optim_grads_params"}[layout.zero_stage]
        flags += ["--use-megatron-fsdp", f"--data-parallel-sharding-strategy {strategy}"]
    return flags


def _split(layout: LayoutAnswer, stages: list[Stage], notes: list[str]) -> list[str]:
    """The layout string: E embedding, t layer, L loss; ``|`` ends a stage."""
    if layout.pipeline_parallel == 1:
        return []
    if layout.schedule == "gpipe":
        notes.append("Megatron-LM has no GPipe schedule; it would run 1F1B.")
    words = []
    for stage in stages:
        names = [(name, count) for name, count in stage.blocks if name not in _ENDS]
        layers = sum(count for _, count in names)
        word = "E" * any(name == "embedding" for name, _ in stage.blocks)
        word += "" if layers == 0 else "t" if layers == 1 else f"t*{layers}"
        word += "L" * any(name == "head" for name, _ in stage.blocks)
        words.append(word)
    if any(word == "E" for word in words):
        notes.append("A stage without layers is known to hang in some Megatron-LM releases.")
    return [f"--pipeline-model-parallel-layout '{_folded(words)}'"]


_ENDS = ("embedding", "head")


def _folded(words: list[str]) -> str:
    """Stages in order; runs of more than two equal ones as ``(word|)*n``."""
    text = ""
    for word, group in groupby(words):
        count = len(list(group))
        text += f"({word}|)*{count}" if count > 2 else f"{word}|" * count
    return text.removesuffix("|")


def _recompute(stages: list[Stage]) -> tuple[list[str], list[str]]:
    """One setting for all ranks if the plan is one; else words."""
    decided = [entry for stage in stages for entry in stage.recompute if entry.block not in _ENDS]
    if not any(entry.recomputed for stage in stages for entry in stage.recompute):
        return [], []
    if decided and all(entry.whole for entry in decided):
        group = decided[0].group
        return [
            "--recompute-granularity full",
            "--recompute-method uniform",
            f"--recompute-num-layers {group}",
        ], []
    first = _first_layers(stages)
    if first is not None:
        return [
            "--recompute-granularity full",
            "--recompute-method block",
            f"--recompute-num-layers {first}",
        ], []
    return [], [_in_words(stage) for stage in stages if _in_words(stage)]


def _first_layers(stages: list[Stage]) -> int | None:
    """The k of ``block`` if every stage recomputes its first min(k, layers) layers in full."""
    counts = []
    for stage in stages:
        layers = [entry for entry in stage.recompute if entry.block not in _ENDS]
        if any(entry.recomputed and not entry.whole for entry in layers):
            return None
        total = sum(entry.count for entry in layers)
        counts.append((sum(entry.count for entry in layers if entry.whole), total))
    most = max((whole for whole, _ in counts), default=0)
    return most if all(whole == min(most, total) for whole, total in counts) else None


def _in_words(stage: Stage) -> str:
    said = [
        f"{entry.count} x {entry.block} recompute {', '.join(entry.recomputed)}"
        for entry in stage.recompute
        if entry.recomputed
    ]
    if not said:
        return ""
    return f"Not expressible by flags: stage {stage.index}: {'; '.join(said)}."
