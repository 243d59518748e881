"""Reports can be read by what they are for, whatever the names in them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from service.batches.documents import BatchDocument, CaseResult, CaseStatus
from service.batches.junit import junit
from service.batches.summary import summary

HOSTILE = "<b>&\"'| `x` \x00\ud800\n* end"
SUITE_ATTRIBUTES = {
    "name": ".+",
    "id": r"\d+",
    "package": ".+",
    "hostname": ".+",
    "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
    "tests": r"\d+",
    "failures": r"\d+",
    "errors": r"\d+",
    "skipped": r"\d+",
    "time": r"\d+\.\d+",
}


def batch(name: str = "nightly", case: str = "one") -> BatchDocument:
    def result(status: CaseStatus, *reasons: str) -> CaseResult:
        return CaseResult(
            name=f"{case} {status}",
            plan_id="0123456789abcdef",
            status=status,
            reasons=list(reasons),
            iteration_seconds=1.5 if status is CaseStatus.PASSED else None,
            solver_seconds=0.25,
        )

    return BatchDocument(
        id="b",
        name=name,
        status="running",
        created_at=1_796_040_000.0,
        against="a",
        cases=[
            result(CaseStatus.PASSED),
            result(CaseStatus.FAILED, "Too slow.", HOSTILE),
            result(CaseStatus.ERROR, "It crashed."),
            result(CaseStatus.PENDING),
        ],
        changes=[f"{case}: new."],
    )


@pytest.mark.parametrize("name", ["nightly", HOSTILE])
def test_a_junit_file_keeps_to_the_schemas(name: str) -> None:
    root = ElementTree.fromstring(junit(batch(name, name)).encode("utf-8"))
    assert root.tag == "testsuites"
    (suite,) = root
    assert suite.tag == "testsuite"
    assert set(suite.attrib) == set(SUITE_ATTRIBUTES)
    for attribute, pattern in SUITE_ATTRIBUTES.items():
        assert re.fullmatch(pattern, suite.attrib[attribute], re.DOTALL), attribute
    tags = [child.tag for child in suite]
    assert tags == ["properties", *["testcase"] * 4, "system-out", "system-err"]
    for case in suite.iter("testcase"):
        assert set(case.attrib) == {"name", "classname", "time"}
        assert len(case) <= 1
        for inner in case:
            assert inner.tag in ("failure", "error", "skipped")
            assert inner.tag == "skipped" or set(inner.attrib) == {"message", "type"}


def test_a_junit_file_counts_what_is_in_it() -> None:
    (suite,) = ElementTree.fromstring(junit(batch()).encode())
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert suite.attrib[attribute] == "1"
        assert len(list(suite.iter(tag))) == 1
    assert suite.attrib["tests"] == str(len(list(suite.iter("testcase"))))
    assert suite.attrib["time"] == "1.000"
    failure = suite.find(".//failure")
    assert failure is not None
    assert failure.attrib["message"] == "Too slow."


def test_the_summary_says_what_is_wrong_and_what_changed() -> None:
    text = summary(batch())
    assert "1 pending, 1 passed, 1 failed, 1 error of 4." in text
    assert "- **one failed**: Too slow." in text
    assert "### Changes since batch a" in text
    assert "- one: new." in text
    assert "| one passed | ✅ passed | 1.50 s |" in text


def test_names_cannot_break_the_table() -> None:
    for line in summary(batch(HOSTILE, HOSTILE)).splitlines():
        if line.startswith("| ") and "---" not in line:
            assert len(re.findall(r"(?<!\\)\|", line)) == 7
            assert "<b>" not in line
