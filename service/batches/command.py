"""What `stagecut batch` does: read, run here or at a server, write the reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from service.batches import lines, local
from service.batches.documents import BatchDocument
from service.batches.junit import junit
from service.batches.summary import summary
from service.console.files import write
from service.problems import ProblemError, problem
from service.settings import Settings


@dataclass(frozen=True)
class Where:
    """Who solves: the service at ``server``, or this machine with the store at ``store``."""

    server: str | None = None
    store: str | None = None


def run(
    text: bytes,
    name: str,
    where: Where,
    against: str | None,
    on_done: Callable[[int, int], None],
) -> BatchDocument:
    """The finished batch of the lines in ``text``.

    ``against`` is an earlier batch: its id at the server, or the file that ``--json`` wrote.

    Raises:
        ProblemError: A line does not fit; problems name lines, and nothing was run.
    """
    if where.server is None:
        earlier = _read_earlier(against) if against else None
        asked = lines.read_lines(text, name)
        try:
            return local.run(
                asked.batch, Settings(), earlier=earlier, store_url=where.store, on_done=on_done
            )
        except ProblemError as error:
            raise asked.named(error) from None
    from service.client import Client

    asked = lines.read_lines(text, name, against)
    with Client(where.server) as client:
        try:
            return client.batch(asked.batch, on_done)
        except ProblemError as error:
            raise asked.named(error) from None


def write_reports(
    batch: BatchDocument, junit_file: str | None, summary_file: str | None, json_file: str | None
) -> None:
    """Write the files that were asked for.

    Raises:
        ProblemError: One cannot be written.
    """
    if junit_file:
        write(junit_file, junit(batch))
    if summary_file:
        write(summary_file, summary(batch))
    if json_file:
        write(json_file, batch.model_dump_json(indent=2) + "\n")


def _read_earlier(file: str) -> BatchDocument:
    try:
        return BatchDocument.model_validate_json(Path(file).read_bytes())
    except (OSError, ValueError):
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "The earlier batch cannot be read",
                f"There is no batch in the file {file[:200]!r}.",
                field="--against",
                hint="Name a file that `stagecut batch --json` wrote, or with --server the id of a"
                " batch.",
            )
        ) from None
