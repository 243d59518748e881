"""The API's description: bodies, problems and examples; and its pages, without any other host."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.batches.documents import BatchRequest
from service.documents import PlanEvent
from service.problems import MEDIA_TYPE, Problem
from service.schema_examples import example_requests, sample, schema_examples
from service.version import VERSION
from solver.request import PlanRequest

_REFERENCE = "#/components/schemas/{model}"
_ASSETS_URL = "/docs/assets"


def json_body(model: type[BaseModel], *, evaluation: bool = False) -> dict[str, Any]:
    """The description of a JSON body; the examples run as they are.

    An evaluation needs the whole layout, so only the sample that gives it is shown there.
    """
    requests = {"a-small-profile": sample("request")} if evaluation else example_requests()
    return body_of(model, requests)


def body_of(model: type[BaseModel], examples: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a JSON body with these examples."""
    _bodies.add(model)
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": _REFERENCE.format(model=model.__name__)},
                    "examples": {
                        name: {"summary": name.replace("-", " "), "value": value}
                        for name, value in examples.items()
                    },
                }
            },
        }
    }


_bodies: set[type[BaseModel]] = set()
"""The bodies that routes read themselves, so that FastAPI does not describe them."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The descriptions of these statuses as problem documents."""
    schema = {"$ref": _REFERENCE.format(model=Problem.__name__)}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Serve the description of ``app``, and pages that show it with assets of our own."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    assets = find_spec("fastapi_offline")
    assert assets is not None
    assert assets.origin is not None
    app.mount(
        _ASSETS_URL, StaticFiles(directory=Path(assets.origin).parent / "static"), "docs-assets"
    )

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        page = get_swagger_ui_html(
            openapi_url=f"{root}/openapi.json",
            title="Stagecut API",
            swagger_js_url=f"{root}{_ASSETS_URL}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_ASSETS_URL}/swagger-ui.css",
            swagger_favicon_url=f"{root}{_ASSETS_URL}/favicon.png",
            swagger_ui_parameters={"docExpansion": "list", "tryItOutEnabled": True},
        )
        return HTMLResponse(bytes(page.body).decode().replace("<body>", _way_back(root), 1))

    @app.get("/redoc", include_in_schema=False)
    async def redoc(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        return get_redoc_html(
            openapi_url=f"{root}/openapi.json",
            title="Stagecut API",
            redoc_js_url=f"{root}{_ASSETS_URL}/redoc.standalone.js",
            redoc_favicon_url=f"{root}{_ASSETS_URL}/favicon.png",
            with_google_fonts=False,
        )


def _way_back(root: str) -> str:
    """The beginning of the API page's body: links to the other pages, and the system's colours."""
    return f"""<body>
<script>
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
follow();
dark.addEventListener("change", follow);
</script>
<style>
nav.back {{ font: 15px system-ui, sans-serif; max-width: 1460px; margin: 0 auto; }}
nav.back {{ padding: 12px 20px; }}
nav.back a {{ color: #0172ad; margin-right: 18px; }}
html.dark-mode nav.back a {{ color: #79c0ff; }}
</style>
<nav class="back" aria-label="Site"><a href="{root}/">Stagecut: make a plan</a>
<a href="{root}/guides">Guides</a><a href="{root}/redoc">The same to read</a></nav>"""


def _described(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="Stagecut",
        version=VERSION,
        summary="Plans pipeline training of large models, exactly and with a proof.",
        routes=app.routes,
        tags=app.openapi_tags,
    )
    _, definitions = models_json_schema(
        [
            (PlanRequest, "validation"),
            (BatchRequest, "validation"),
            (PlanEvent, "serialization"),
            *((body, "validation") for body in sorted(_bodies, key=lambda body: body.__name__)),
            (Problem, "serialization"),
        ],
        ref_template=_REFERENCE,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(definitions["$defs"])
    for name, example in schema_examples().items():
        if name in schemas:
            schemas[name]["examples"] = [example]
    _describe_refusals(document)
    return document


def _describe_refusals(document: dict[str, Any]) -> None:
    """A parameter that does not fit is answered with a problem, not with FastAPI's own schema."""
    for operations in document["paths"].values():
        for operation in operations.values():
            if operation["responses"].get("422", {}).get("description") == "Validation Error":
                operation["responses"]["422"] = problems(422)[422]
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
