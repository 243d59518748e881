"""One process per pipeline device: they run pipelines one after the other and write what they saw.

Processes speak over gloo; each computes on one thread, so that a device is a core.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

from rehearsal.model import Shape, blocks, loss
from rehearsal.scaled import Small, first_layers
from solver.targets.pytorch_runtime import PlannedLayer, pipeline_schedule


@dataclass(frozen=True)
class Seen:
    """What came of one pipeline; stages in model order.

    ``kept_bytes``: by the layers of each stage, per micro-batch. ``order``: of each device, as
    (F or B, stage, micro-batch). ``gradients``: of every block's parameters.
    """

    seconds: float
    losses: list[float]
    kept_bytes: list[int]
    order: list[list[tuple[str, int, int]]]
    gradients: dict[int, list[Tensor]]


def run(pipelines: list[Small], shape: Shape, repeats: int, limit_seconds: float) -> list[Seen]:
    """Run pipelines that need the same number of devices.

    Raises:
        RuntimeError: A process failed or did not end in time.
    """
    devices = pipelines[0].devices
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        started = [
            context.Process(
                target=_device, args=(rank, devices, pipelines, shape, repeats, folder), daemon=True
            )
            for rank in range(devices)
        ]
        for process in started:
            process.start()
        deadline = time.monotonic() + limit_seconds
        for process in started:
            process.join(max(deadline - time.monotonic(), 0.1))
        failed = [process for process in started if process.exitcode != 0]
        for process in started:
            process.kill()
        if failed:
            raise RuntimeError(f"{len(failed)} of {devices} processes failed or took too long.")
        told = [torch.load(Path(folder) / f"{rank}.pt") for rank in range(devices)]
    return [_together(number, told, pipeline) for number, pipeline in enumerate(pipelines)]


def unsplit(small: Small, shape: Shape) -> tuple[list[float], dict[int, list[Tensor]]]:
    """Losses and gradients of the whole model in this process, without recompute."""
    torch.set_num_threads(1)
    model = blocks(shape, [frozenset[str]()] * sum(small.layers))
    tokens, targets = _data(small, shape)
    losses = []
    for ids, wanted in zip(
        tokens.chunk(small.micro_batches), targets.chunk(small.micro_batches), strict=True
    ):
        value = loss(nn.Sequential(*model)(ids), wanted)
        value.backward()
        losses.append(value.item())
    return losses, {number: _gradients(block) for number, block in enumerate(model)}


def _data(small: Small, shape: Shape) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(5)
    size = (small.micro_batches * shape.micro_batch, shape.sequence)
    tokens = torch.randint(shape.vocabulary, size, generator=made).float()
    return tokens, tokens.roll(-1, dims=1)


def _gradients(module: nn.Module) -> list[Tensor]:
    return [p.grad.clone() for p in module.parameters() if p.grad is not None]


def _device(
    rank: int, devices: int, pipelines: list[Small], shape: Shape, repeats: int, folder: str
) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=devices
    )
    running = [_Running(small, shape, rank) for small in pipelines]
    for _ in range(1 + repeats):  # in turn, so that a busy machine is busy for all of them
        for one in running:
            one.step()
    torch.save([one.told() for one in running], Path(folder) / f"{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


class _Running:
    """This process's part of a pipeline."""

    def __init__(self, small: Small, shape: Shape, rank: int) -> None:
        self._model = blocks(shape, list(small.recomputed))
        self._numbers = _contents(small)
        self._mine = list(range(rank, len(small.layers), small.devices))
        self._order: list[tuple[str, int, int]] = []
        stages = [
            _stage(self._model, self._numbers, number, shape, self._order) for number in self._mine
        ]
        self._schedule = pipeline_schedule(small.schedule, stages, small.micro_batches, loss)
        tokens, targets = _data(small, shape)
        self._losses: list[Tensor] = []
        self._inputs = (tokens,) if 0 in self._mine else ()
        last = len(small.layers) - 1 in self._mine
        self._wanted = {"target": targets, "losses": self._losses} if last else {}
        self._seconds: list[float] = []

    def step(self) -> None:
        """One iteration, from all processes' start to all processes' end."""
        for block in self._model:
            block.zero_grad()
        self._order.clear()
        self._losses.clear()
        torch.distributed.barrier()
        started = time.perf_counter()
        self._schedule.step(*self._inputs, **self._wanted)
        torch.distributed.barrier()
        self._seconds.append(time.perf_counter() - started)

    def told(self) -> dict[str, Any]:
        """What this process saw; the first iteration only warms up."""
        layers = {number: [self._model[b] for b in self._numbers[number]] for number in self._mine}
        return {
            "seconds": statistics.median(self._seconds[1:]),
            "losses": [value.item() for value in self._losses],
            "kept_bytes": {
                number: sum(b.kept_bytes for b in held if isinstance(b, PlannedLayer))
                for number, held in layers.items()
            },
            "order": list(self._order),
            "gradients": {
                b: _gradients(self._model[b]) for n in self._mine for b in self._numbers[n]
            },
        }


def _contents(small: Small) -> list[list[int]]:
    """Block numbers of every stage: 0 is the embedding, the last one the head."""
    last = sum(small.layers) + 1
    found = []
    for stage, (first, count) in enumerate(zip(first_layers(small), small.layers, strict=True)):
        inner = list(range(first + 1, first + 1 + count))
        found.append([*([0] if stage == 0 else []), *inner])
    found[-1].append(last)
    return found


def _stage(
    model: list[nn.Module],
    numbers: list[list[int]],
    number: int,
    shape: Shape,
    order: list[tuple[str, int, int]],
) -> Any:
    """A stage of the pipeline that notes what it does."""
    from torch.distributed.pipelining import PipelineStage

    between = torch.empty(shape.micro_batch, shape.sequence, shape.hidden, requires_grad=True)
    tokens = torch.empty(shape.micro_batch, shape.sequence)
    logits = torch.empty(shape.micro_batch, shape.sequence, shape.vocabulary, requires_grad=True)
    stage = PipelineStage(
        nn.Sequential(*(model[block] for block in numbers[number])),
        number,
        len(numbers),
        torch.device("cpu"),
        input_args=(tokens if number == 0 else between,),
        output_args=(logits if number == len(numbers) - 1 else between,),
    )
    for work, name in (("F", "forward_one_chunk"), ("B", "backward_one_chunk")):
        setattr(stage, name, _noted(getattr(stage, name), work, number, order))
    return stage


def _noted(function: Any, work: str, number: int, order: list[tuple[str, int, int]]) -> Any:
    def noted(micro_batch: int, *args: Any, **more: Any) -> Any:
        order.append((work, number, micro_batch))
        return function(micro_batch, *args, **more)

    return noted


def _together(number: int, told: list[list[dict[str, Any]]], small: Small) -> Seen:
    mine = [of_rank[number] for of_rank in told]
    kept = {stage: size for one in mine for stage, size in one["kept_bytes"].items()}
    return Seen(
        seconds=max(one["seconds"] for one in mine),
        losses=next(one["losses"] for one in mine if one["losses"]),
        kept_bytes=[kept[stage] for stage in range(len(small.layers))],
        order=[one["order"] for one in mine],
        gradients={b: g for one in mine for b, g in one["gradients"].items()},
    )
