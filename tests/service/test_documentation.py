"""The API page works without any other host, and says everything."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from solver.request import PlanRequest


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(Settings(database_url="sqlite://")))


@pytest.fixture(scope="module")
def document(client: TestClient) -> dict[str, Any]:
    described: dict[str, Any] = client.get("/openapi.json").json()
    return described


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_a_page_names_no_foreign_host_and_its_assets_are_here(
    client: TestClient, page: str
) -> None:
    text = client.get(page).text
    assert "//" not in re.sub(r"<!--.*?-->|/\*.*?\*/", "", text.replace("// ", ""))
    assets = re.findall(r'<(?:script|img|link)\b[^>]* (?:src|href)="([^"]+)"', text)
    assert len(assets) >= 2
    for asset in assets:
        response = client.get(asset)
        assert response.status_code == 200
        assert len(response.content) > 500


def test_every_operation_has_a_summary_and_its_problems(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            for status, response in operation["responses"].items():
                if status >= "400":
                    assert "application/problem+json" in response["content"], (method, path)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    references = set(re.findall(r"'#/components/schemas/([^']+)'", str(document)))
    assert "PlanRequest" in references
    assert references <= set(schemas)


def test_every_schema_has_an_example(document: dict[str, Any]) -> None:
    without = [
        name
        for name, schema in document["components"]["schemas"].items()
        if schema.get("type") == "object" and "examples" not in schema
    ]
    assert without == []


def test_every_example_request_is_well_formed(document: dict[str, Any]) -> None:
    for path in ("/v1/plans", "/v1/evaluations"):
        content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert content["examples"]
        for example in content["examples"].values():
            PlanRequest.model_validate(example["value"])
