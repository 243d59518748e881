"""``stagecut capacity``, ``place`` and ``move``: what schedulers ask, from a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.command_line import (
    INFEASIBLE,
    AsJson,
    ServerUrl,
    problems_as_exit_status,
    read_file,
    show,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from solver.capacity.documents import CapacityAnswer
    from solver.placement.documents import PlacementAnswer
    from solver.transitions.documents import TransitionAnswer

File = Annotated[str, typer.Argument(metavar="FILE", help="The request as JSON; - reads stdin.")]


def capacity(file: File, as_json: AsJson = False, server: ServerUrl = None) -> None:
    """Say what a job is worth on every number of nodes."""
    from solver.capacity.documents import CapacityAnswer, CapacityRequest

    with problems_as_exit_status(as_json):
        answer = answer_to("capacity", file, CapacityRequest, CapacityAnswer, server)
        show(answer.model_dump_json(indent=2)) if as_json else _show_capacity(answer)
        if answer.status != "succeeded":
            raise typer.Exit(INFEASIBLE)


def place(file: File, as_json: AsJson = False, server: ServerUrl = None) -> None:
    """Put a plan on free nodes, across as few leafs as possible."""
    from solver.placement.documents import PlacementAnswer, PlacementRequest

    with problems_as_exit_status(as_json):
        answer = answer_to("placement", file, PlacementRequest, PlacementAnswer, server)
        show(answer.model_dump_json(indent=2)) if as_json else _show_placement(answer)
        if answer.status != "succeeded":
            raise typer.Exit(INFEASIBLE)


def move(file: File, as_json: AsJson = False, server: ServerUrl = None) -> None:
    """Say what state moves from one plan to another."""
    from solver.transitions.documents import TransitionAnswer, TransitionRequest

    with problems_as_exit_status(as_json):
        answer = answer_to("transition", file, TransitionRequest, TransitionAnswer, server)
        show(answer.model_dump_json(indent=2)) if as_json else _show_transition(answer)


_PATHS = {
    "capacity": "/v1/capacity",
    "contingency": "/v1/contingencies",
    "placement": "/v1/placements",
    "transition": "/v1/transitions",
}


def answer_to(
    kind: str, file: str, asked: type[BaseModel], answered: type[Any], server: str | None
) -> Any:
    """The answer of the service at ``server``, or without one of the solver in this process.

    Raises:
        ProblemError: The file holds no such request, or it cannot be answered.
    """
    from service.console.progress import PartsLine, aside
    from service.console.standard_output import kept_for_answers
    from service.reading import parse, validate

    request = validate(asked, parse(read_file(file)))
    with PartsLine(aside(), "Working it out") as progress:
        if server:
            from service.client import Client

            with Client(server) as client:
                return client.study(_PATHS[kind], request, answered)
        from solver import fleet

        with kept_for_answers():
            return fleet.study(kind, json.loads(request.model_dump_json()), progress)


def _show_capacity(answer: CapacityAnswer) -> None:
    from service.console.fleet import curve_table

    for curve in answer.curves:
        show(curve_table(curve))


def _show_placement(answer: PlacementAnswer) -> None:
    if answer.error:
        show(answer.error)
        return
    for node in answer.nodes:
        stages = ",".join(map(str, node.stages))
        show(f"{node.first_rank:>6}  {node.name}  {node.leaf}  stage {stages}")
    gigabytes = (answer.crossing_bytes or 0.0) / 1e9
    show(f"{gigabytes:.4g} GB cross leafs in an iteration, gap {100 * (answer.gap or 0):.2g}%")
    if answer.words:
        show(" ".join(answer.words.slurm))
    for number, score in enumerate(answer.scores):
        crossing = score.crossing_bytes
        worth = "does not fit" if crossing is None else f"{crossing / 1e9:.4g} GB"
        show(f"candidate {number}: {worth}")


def _show_transition(answer: TransitionAnswer) -> None:
    show(f"ranks in order: {' '.join(answer.nodes)}")
    for move in answer.moves:
        size = (move.weight_bytes + move.optimizer_bytes) / 1e9
        show(f"  {move.source} -> {move.target}  {size:.4g} GB")
    show(
        f"{answer.moved_bytes / 1e9:.4g} GB move, {answer.checkpoint_bytes / 1e9:.4g} GB come from "
        f"the checkpoint, {answer.seconds:.4g} s in all"
    )
    for note in answer.notes:
        show(note)
