"""The pages of calibrations say what a calibration rests on and who uses it."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from service.pages.pictures.calibration import residuals
from service.pages.pictures.svg import NARROW
from service.schema_examples import sample
from service.store import Store, calibrations
from solver.calibrations import Calibration, Residual
from solver.request import PlanRequest
from tests.service.pages.conftest import keep
from tests.service.pages.test_pages import Addresses

FITTED = Calibration.model_validate(sample("calibration"))


@pytest.fixture(scope="module")
def used_by(client: TestClient, plan_ids: list[str]) -> str:
    """A plan that names the calibration, beside those that do not."""
    assert plan_ids
    store: Store = client.app.state.store  # type: ignore[attr-defined]
    with store.writing() as session:
        calibrations.keep(session, FITTED, 1.0)
    request = PlanRequest.model_validate(sample("request"))
    return keep(store, request.model_copy(update={"calibration": FITTED.essential()}), "{}")


def test_a_calibration_page_says_how_near_it_comes(client: TestClient, used_by: str) -> None:
    text = client.get("/calibrations/ours").text
    for said in (
        "0.62% off on average, 7.5% on runs that the fit did not see",
        "90% of measured iterations are to be expected within −13.4% to +15.5%",
        "hidden 4096, 3 runs",
        "68.08 µs",
        f"/plans/{used_by}",
    ):
        assert said in text, said
    assert text.count('href="/plans/') == 1
    assert Addresses(text).inline == []


def test_a_version_has_its_own_address(client: TestClient, used_by: str) -> None:
    assert used_by
    where = f"/calibrations/ours/{FITTED.version}"
    assert client.get(where).status_code == 200
    assert where in client.get("/calibrations").text
    assert client.get(f"/v1{where}").json()["version"] == FITTED.version


def test_an_unknown_calibration_is_a_page_that_says_so(client: TestClient) -> None:
    answer = client.get("/calibrations/theirs")
    assert answer.status_code == 404
    assert "There is no calibration" in answer.text


@pytest.mark.parametrize("width", [NARROW, 1120.0])
def test_a_fit_without_any_error_is_drawn_too(width: float) -> None:
    perfect = Residual(group="all", runs=1, mean=0.0, mean_absolute=0.0, left_out=0.0)
    assert "all, 1 run" in residuals([perfect], width).inline()
