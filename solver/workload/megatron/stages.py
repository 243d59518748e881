"""How Megatron-LM divides the model over pipeline stages.

core/transformer/transformer_block.py and pipeline_parallel_layer_layout.py: evenly, unless a flag
sets the first and last stages apart, counts embedding or loss as a layer, or spells the stages out.
Stages are numbered over all devices of the first chunk, then of the second, and so on.
"""

from __future__ import annotations

from solver.workload.architecture import Architecture
from solver.workload.megatron.flags import Flags, wrong
from solver.workload.megatron.patterns import StageContent, pipeline_layout

_LAYOUT = "--pipeline-model-parallel-layout"
_FIRST = ("--decoder-first-pipeline-num-layers", "--first-pipeline-num-layers")
_LAST = ("--decoder-last-pipeline-num-layers", "--last-pipeline-num-layers")
_PER_CHUNK = "--num-layers-per-virtual-pipeline-stage"
_CHUNKS = "--num-virtual-stages-per-pipeline-rank"
_EMBEDDING = "--account-for-embedding-in-pipeline-split"
_LOSS = "--account-for-loss-in-pipeline-split"


def read_stages(flags: Flags, model: Architecture) -> tuple[StageContent, ...]:
    """The content of every (virtual) stage, in model order.

    Raises:
        BadRequest: The flags contradict one another or do not divide the model.
    """
    devices = flags.integer("--pipeline-model-parallel-size", 1)
    text = flags.text(_LAYOUT)
    if text is not None:
        return _spelled_out(flags, model, devices, text)
    first, last = _either(flags, _FIRST), _either(flags, _LAST)
    embedding, loss = flags.switch(_EMBEDDING), flags.switch(_LOSS)
    if (first or last) and (embedding or loss):
        given = _EMBEDDING if embedding else _LOSS
        raise wrong(given, f"{given} cannot stand beside numbers of first or last layers.")
    if first or last:
        layers = _apart(model.num_layers, devices, first, last)
        chunks = flags.integer(_CHUNKS, 1)
        if flags.optional_integer(_PER_CHUNK) is not None:
            raise wrong(
                _PER_CHUNK,
                f"{_PER_CHUNK} cannot stand beside numbers of first or last layers.",
                f"Give {_CHUNKS}.",
            )
        counts = _in_chunks(layers, chunks)
    else:
        padded = model.num_layers + embedding + loss
        chunks = _chunks(flags, padded, devices)
        counts = _evenly(padded, devices * chunks)
        counts[0] -= embedding
        counts[-1] -= loss
    return _with_ends(counts, model.multi_token_prediction)


def _spelled_out(
    flags: Flags, model: Architecture, devices: int, text: str
) -> tuple[StageContent, ...]:
    for flag in (*_FIRST, *_LAST, _PER_CHUNK, _CHUNKS, _EMBEDDING, _LOSS):
        if flag in flags:
            raise wrong(flag, f"{flag} and {_LAYOUT} exclude one another.", f"Leave out {flag}.")
    stages = pipeline_layout(_LAYOUT, text)
    if len(stages) % devices:
        raise wrong(
            _LAYOUT, f"{_LAYOUT} has {len(stages)} stages, not a multiple of {devices} devices."
        )
    layers = sum(stage.layers for stage in stages)
    if layers != model.num_layers:
        raise wrong(_LAYOUT, f"{_LAYOUT} has {layers} layers; the model has {model.num_layers}.")
    predictions = sum(stage.predictions for stage in stages)
    if predictions != model.multi_token_prediction:
        raise wrong(
            _LAYOUT,
            f"{_LAYOUT} has {predictions} prediction modules; --mtp-num-layers says "
            f"{model.multi_token_prediction}.",
        )
    if StageContent() in stages:
        raise wrong(
            _LAYOUT,
            f"Stage {stages.index(StageContent())} of {_LAYOUT} is empty.",
            "Give every stage a layer, the embedding or the loss.",
        )
    return tuple(stages)


def _either(flags: Flags, names: tuple[str, ...]) -> int | None:
    found = [number for name in names if (number := flags.optional_integer(name)) is not None]
    return found[0] if found else None


def _apart(layers: int, devices: int, first: int | None, last: int | None) -> list[int]:
    """Layers per device with the first or the last device's number given."""
    rest = layers - (first or 0) - (last or 0)
    others = devices - (first is not None) - (last is not None)
    flag = _FIRST[0] if first is not None else _LAST[0]
    if others < 1 or rest < others or rest % others:
        raise wrong(
            flag, f"The {rest} layers left do not divide over the {max(others, 0)} other devices."
        )
    middle = [rest // others] * others
    return [*([first] if first else []), *middle, *([last] if last else [])]


def _in_chunks(layers: list[int], chunks: int) -> list[int]:
    """Every device's layers in equal chunks, all devices' first chunk first."""
    for count in layers:
        if count % chunks:
            raise wrong(_CHUNKS, f"A device's {count} layers do not divide into {chunks} chunks.")
    return [count // chunks for count in layers] * chunks


def _chunks(flags: Flags, layers: int, devices: int) -> int:
    """Chunks per device."""
    per_chunk = flags.optional_integer(_PER_CHUNK)
    chunks = flags.optional_integer(_CHUNKS)
    if per_chunk is not None and chunks is not None:
        raise wrong(_CHUNKS, f"{_PER_CHUNK} and {_CHUNKS} exclude one another.")
    if chunks is not None:
        return chunks
    if per_chunk is None:
        return 1
    each = layers // devices
    if layers % devices or each % per_chunk:
        raise wrong(
            _PER_CHUNK,
            f"{layers} layers on {devices} devices do not divide into chunks of {per_chunk}.",
        )
    return each // per_chunk


def _evenly(layers: int, stages: int) -> list[int]:
    if layers % stages:
        raise wrong(
            "--pipeline-model-parallel-size",
            f"{layers} layers do not divide over {stages} pipeline stages.",
            f"Give {_LAYOUT}, or numbers of layers for the first and last stage.",
        )
    return [layers // stages] * stages


def _with_ends(counts: list[int], predictions: int) -> tuple[StageContent, ...]:
    final = len(counts) - 1
    return tuple(
        StageContent(
            embedding=position == 0,
            layers=count,
            predictions=predictions if position == final else 0,
            loss=position == final,
        )
        for position, count in enumerate(counts)
    )
