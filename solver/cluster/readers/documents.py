"""JSON and YAML read safely, errors with their line: no code, no aliases, no duplicate meaning."""

from __future__ import annotations

import json
from typing import Any

import yaml

from solver.cluster.readers.broken import broken


def from_json(text: str) -> Any:
    """The JSON value of ``text``.

    Raises:
        BrokenFile: It is none.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise broken(f"This is not JSON: {error.msg}.", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise broken(f"This is not JSON: {error}.") from None


def from_yaml(text: str) -> list[Any]:
    """The documents of a YAML stream, empty ones left out.

    Raises:
        BrokenFile: It is none, or it uses aliases.
    """
    try:
        return [document for document in yaml.load_all(text, _Loader) if document is not None]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise broken(f"This is not YAML: {error.problem}.", line) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise broken(f"This is not YAML: {reason}.") from None


class _Loader(yaml.SafeLoader):
    """Plain values only. A few aliases can stand for billions of values, so there are none."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, "aliases are not accepted", event.start_mark
            )
        return super().compose_node(parent, index)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
