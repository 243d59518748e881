"""A batch as a JUnit file, as every continuous integration reads it.

The common part of the two schemas in use (Ant's and Jenkins's): one suite, a case each, at most one
``failure`` or ``error`` in a case.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.etree import ElementTree

from service.batches.documents import BatchDocument, CaseResult, CaseStatus

_MOMENT = "%Y-%m-%dT%H:%M:%S"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(batch: BatchDocument) -> str:
    """The text of the file."""
    counts = batch.counts
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": _clean(batch.name),
            "id": "0",
            "package": "stagecut",
            "hostname": "stagecut",
            "timestamp": datetime.fromtimestamp(batch.created_at, UTC).strftime(
                "%Y-%m-%dT%H:%M:%S"
            ),
            "tests": str(len(batch.cases)),
            "failures": str(counts[CaseStatus.FAILED]),
            "errors": str(counts[CaseStatus.ERROR]),
            "skipped": str(counts[CaseStatus.PENDING]),
            "time": _seconds(sum(case.solver_seconds or 0.0 for case in batch.cases)),
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("batch", batch.id), ("against", batch.against)):
        if value is not None:
            ElementTree.SubElement(properties, "property", name=name, value=_clean(value))
    for case in batch.cases:
        _case(suite, batch, case)
    ElementTree.SubElement(suite, "system-out").text = _clean("\n".join(batch.changes))
    ElementTree.SubElement(suite, "system-err")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _case(suite: ElementTree.Element, batch: BatchDocument, case: CaseResult) -> None:
    element = ElementTree.SubElement(
        suite,
        "testcase",
        name=_clean(case.name),
        classname=f"stagecut.{_clean(batch.name)}",
        time=_seconds(case.solver_seconds or 0.0),
    )
    match case.status:
        case CaseStatus.PENDING:
            ElementTree.SubElement(element, "skipped")
        case CaseStatus.FAILED | CaseStatus.ERROR:
            kind = "failure" if case.status is CaseStatus.FAILED else "error"
            said = _clean("\n".join(case.reasons))
            message = said.partition("\n")[0]
            found = ElementTree.SubElement(element, kind, message=message, type=case.status.value)
            found.text = f"{said}\nplan {case.plan_id}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _clean(text: str) -> str:
    """Without what XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
