"""A written plan on the command line: its text, or its files in a folder."""

from __future__ import annotations

from pathlib import Path

from service.exporting import Files
from service.problems import ProblemError, problem


def shown(files: Files) -> str:
    """The text of the file that starts the job if there is one, else of the configuration."""
    return (files.launch.text if files.launch else files.export.text).rstrip("\n")


def write_into(folder: str, files: Files) -> None:
    """Write all files into a folder, which is made if need be.

    Raises:
        ProblemError: They cannot be written.
    """
    contents = {files.export.file: files.export.text}
    if files.launch:
        contents[files.launch.file] = files.launch.text
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ProblemError(
            problem(400, "no-output", "The file cannot be written", f"{folder}: {error.strerror}.")
        ) from None
