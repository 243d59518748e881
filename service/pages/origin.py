"""Forms that change something are taken from our own pages only."""

from __future__ import annotations

from fastapi import Request

from service.problems import ProblemError, problem


def refuse_foreign_forms(request: Request) -> None:
    """Refuse a form that a page of another site sends (browsers say so in Sec-Fetch-Site).

    Raises:
        ProblemError: It comes from elsewhere (403).
    """
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise ProblemError(
            problem(
                403,
                "foreign-form",
                "The form comes from another site",
                "Forms are taken from this service's own pages only.",
                hint="Programs use POST /v1/plans.",
            )
        )
