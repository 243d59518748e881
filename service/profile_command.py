"""``stagecut profile``: a model's layers measured on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.command_line import problems_as_exit_status, show


def add_to(app: typer.Typer) -> None:
    """Give the command to ``app``."""
    app.command("profile")(profile)


def profile(
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="A catalogue name, or a config.json.")
    ],
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write the request here.")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, max=4000, help="Layers to plan; the model's if absent.")
    ] = None,
    sequence_length: Annotated[
        int, typer.Option(min=1, max=16_777_216, help="Tokens of one sequence.")
    ] = 4096,
    micro_batch_size: Annotated[
        int, typer.Option(min=1, max=65_536, help="Sequences of one micro-batch.")
    ] = 1,
    tensor_parallel: Annotated[
        int, typer.Option(min=1, max=1024, help="Measure one rank's share of so many.")
    ] = 1,
    expert_parallel: Annotated[
        int, typer.Option(min=1, max=1024, help="Likewise, of the experts.")
    ] = 1,
    data_parallel: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Replicas that shard the optimizer's state.")
    ] = 1,
    pipeline_parallel: Annotated[
        int, typer.Option(min=1, max=1024, help="Stages of the plan that is asked.")
    ] = 4,
    micro_batches: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Micro-batches of an iteration.")
    ] = 32,
    precision: Annotated[str, typer.Option(help="bf16, fp16 or fp32.")] = "bf16",
    memory_bytes: Annotated[
        float | None,
        typer.Option(min=1, help="Of one device; what it has less a reserve if absent."),
    ] = None,
    send_seconds: Annotated[
        float, typer.Option(min=0, help="One boundary tensor between neighbouring stages.")
    ] = 0.0,
    collectives: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE", help="Add collectives as predicted for this device of the catalogue."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cuda, cpu …; the accelerator if there is one.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Of each op; median.")] = 10,
) -> None:
    """Measure a model's layers here, as a profile. To plan with; needs PyTorch."""
    from rich.console import Console

    from service.console.profiles import page
    from service.profiling import profiled
    from service.reading import validate
    from solver.request import Training

    with problems_as_exit_status(False):
        asked = validate(Training, {"precision": precision})
        with Console(stderr=True).status("Measuring") as line:
            found = profiled(
                model,
                lambda block: line.update(f"Measuring {block}"),
                layers=layers,
                sequence_length=sequence_length,
                micro_batch_size=micro_batch_size,
                tensor_parallel=tensor_parallel,
                expert_parallel=expert_parallel,
                data_parallel=data_parallel,
                pipeline_parallel=pipeline_parallel,
                micro_batches=micro_batches,
                precision=asked.precision,
                memory_bytes=memory_bytes,
                send_seconds=send_seconds,
                collectives=collectives,
                device=device,
                repeats=repeats,
            )
        text = found.request.model_dump_json(indent=2, exclude_unset=True) + "\n"
        if out is None:
            show(text.rstrip())
        else:
            Path(out).write_text(text, encoding="utf-8")
            show(page(found, out))
