"""What people do, done in a real browser: make plans, watch, cancel, read, compare, download."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from service.jobs.study import Study
from service.pages.stylesheet import left_out
from service.schema_examples import sample
from service.store import Store, calibrations
from solver.calibrations import Calibration
from solver.capacity.documents import CapacityRequest
from solver.contingencies.documents import ContingencyRequest
from solver.request import PlanRequest
from tests.service.conftest import TOY, WAIT, asking
from tests.service.pages.browser import Watched, browser, watched
from tests.service.pages.conftest import keep
from tests.service.pages.plans import long_pipeline
from tests.service.pages.running import running
from tests.service.toy_planner import SOLVE_LOG, gate

pytestmark = pytest.mark.slow

expect.set_options(timeout=180_000)

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text("utf-8")
PNG = b"\x89PNG\r\n\x1a\n"
SMALL_LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 8,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 5632,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}
FLAGS = (
    "--num-layers 8 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048"
    " --max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1"
    " --global-batch-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4"
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as launched:
        yield launched


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the service over the real solver has its store."""
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def origin(place: Path) -> Iterator[str]:
    """A service over the real solver."""
    with running(place) as address:
        yield address


@pytest.fixture(scope="module")
def toy_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the service over the toy planner has its store."""
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="module")
def toy_origin(toy_place: Path) -> Iterator[str]:
    """A service whose solves last as long as the model's name says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SOLVE_LOG, str(toy_place / "solves"))
        with running(toy_place, TOY) as address:
            yield address


@pytest.fixture
def reader(chromium: Browser, origin: str) -> Iterator[Watched]:
    with watched(chromium, origin) as page:
        yield page


@pytest.fixture(scope="module")
def plan_ids(origin: str) -> list[str]:
    """Two plans of the real solver."""
    return [
        ask(origin, sample("request") | {"cluster": {"memory_bytes": m}}) for m in (2.3e10, 4e10)
    ]


@pytest.fixture(scope="module")
def kept(origin: str, place: Path) -> dict[str, str]:
    """Addresses of answers that are in the store: 64 stages x 512 micro-batches, and studies."""
    assert origin
    curve = CapacityRequest.model_validate(sample("capacity_request"))
    failing = ContingencyRequest.model_validate(sample("contingency_request"))
    deep = sample("request") | {"cluster": {"memory_bytes": 6e10}}
    store = Store(f"sqlite:///{place}/plans.db")
    found = {
        "deep": "/plans/"
        + keep(store, PlanRequest.model_validate(deep), long_pipeline().plan.model_dump_json()),
        "capacity": "/capacity/"
        + keep(store, Study(curve.job, "capacity", curve), json.dumps(sample("capacity"))),
        "contingency": "/contingencies/"
        + keep(
            store, Study(failing.job, "contingency", failing), json.dumps(sample("contingency"))
        ),
    }
    with store.writing() as session:
        calibrations.keep(session, Calibration.model_validate(sample("calibration")), 0.0)
    store.close()
    return found


@pytest.fixture(scope="module")
def batch(origin: str) -> str:
    """The address of a batch of which a case is not as expected."""
    cases = [
        {"name": "as asked", "request": sample("request")},
        {"request": sample("request"), "expectations": {"max_iteration_seconds": 0.1}},
    ]
    body = {"name": "nightly", "cases": cases}
    answer = httpx2.post(f"{origin}/v1/batches", json=body, headers=WAIT, timeout=400)
    return f"/batches/{answer.json()['id']}"


def ask(origin: str, request: dict[str, Any]) -> str:
    answer = httpx2.post(f"{origin}/v1/plans", json=request, headers=WAIT, timeout=400)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def under_way(origin: str, model: str) -> str:
    """A solve that lasts as long as the model's name says; its id."""
    answer = httpx2.post(f"{origin}/v1/plans", json=asking(model), timeout=400)
    return str(answer.json()["id"])


def fill(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.locator(f"[name='{name.replace('__', '.')}']").fill(value)


def choose_form(page: Page, words: str) -> None:
    page.locator(".tabs label", has_text=words).click()


def layout(page: Page, **fields: str) -> None:
    page.get_by_text("Fix parts of the layout").click()
    fill(page, **{f"layout__{name}": value for name, value in fields.items()})


def catalogue(page: Page) -> None:
    page.locator("[name='model.name']").select_option("gpt-2")
    fill(page, training__sequence_length="1024", training__global_batch_size="16")
    fill(page, cluster__nodes="1")
    layout(page, tensor_parallel="2", pipeline_parallel="4", micro_batch_size="1")


def config_json(page: Page) -> None:
    choose_form(page, "config.json")
    fill(page, model__huggingface=json.dumps(SMALL_LLAMA), cluster__nodes="1")
    fill(page, training__sequence_length="2048", training__global_batch_size="16")
    layout(page, tensor_parallel="2", pipeline_parallel="2", micro_batch_size="1")


def megatron_flags(page: Page) -> None:
    choose_form(page, "Megatron-LM flags")
    fill(page, model__megatron_args=FLAGS, cluster__nodes="1")
    fill(page, training__sequence_length="", training__global_batch_size="")


def profile(page: Page) -> None:
    choose_form(page, "Profile")
    fill(page, model__profile=json.dumps(sample("request")["model"]["profile"]))
    fill(page, cluster__memory_gib="30", training__global_batch_size="8")
    layout(page, pipeline_parallel="2")


@pytest.mark.parametrize("form", [catalogue, config_json, megatron_flags, profile])
def test_a_plan_is_made_from_each_form_of_model(reader: Watched, form: Any) -> None:
    reader.go("/")
    form(reader.page)
    expect(reader.page.locator("#verdict")).to_have_text("This can be planned.")
    reader.page.get_by_role("button", name="Find the best plan").click()
    expect(reader.page.locator(".lead")).to_contain_text("One iteration takes")
    expect(reader.page.locator("svg.picture").first).to_be_visible()


def test_problems_are_told_at_their_field_as_one_types(reader: Watched) -> None:
    reader.go("/")
    layout(reader.page, tensor_parallel="5")
    problem = reader.page.locator("[id='layout.tensor_parallel-problem']")
    expect(problem).to_contain_text("cannot be divided into groups of 5")
    expect(reader.page.locator("[name='layout.tensor_parallel']")).to_have_attribute(
        "aria-invalid", "true"
    )
    fill(reader.page, layout__tensor_parallel="4")
    expect(problem).to_be_empty()
    expect(reader.page.locator("#verdict")).to_have_text("This can be planned.")


def test_form_and_json_write_each_other(reader: Watched) -> None:
    reader.go("/")
    page = reader.page
    fill(page, cluster__nodes="4")
    expect(page.locator("#json")).to_have_value(re.compile('"nodes": 4'))
    request = json.loads(page.locator("#json").input_value())
    request["layout"] = {"tensor_parallel": 4, "interleaving_group": 3}
    request["model"] = {"megatron_args": FLAGS}
    page.locator("#json").fill(json.dumps(request))
    expect(page.locator("[name='layout.tensor_parallel']")).to_have_value("4")
    expect(page.locator("[name='model.megatron_args']")).to_be_visible()
    page.locator("#json").fill('{"model": ')
    expect(page.locator("#json-problem")).not_to_be_empty()
    expect(page.locator("#json")).to_have_attribute("aria-invalid", "true")


def test_a_changed_request_keeps_what_the_form_does_not_show(reader: Watched, origin: str) -> None:
    first = ask(origin, sample("request") | {"solver": {"relative_gap": 0.03}})
    reader.go(f"/plans/{first}")
    reader.page.get_by_role("button", name="Change the request").click()
    expect(reader.page.locator("#verdict")).to_have_text("This can be planned.")
    fill(reader.page, training__global_batch_size="12")
    expect(reader.page.locator("#json")).to_have_value(re.compile('"global_batch_size": 12'))
    reader.page.get_by_role("button", name="Find the best plan").click()
    expect(reader.page.locator(".lead")).to_contain_text("One iteration takes")
    reader.page.get_by_text("The request with curl").click()
    asked = reader.page.locator("#use pre").last
    expect(asked).to_contain_text('"relative_gap": 0.03')
    expect(asked).to_contain_text('"global_batch_size": 12')


def test_a_solve_is_watched_until_it_is_done(
    chromium: Browser, toy_origin: str, toy_place: Path
) -> None:
    with watched(chromium, toy_origin) as reader:
        asked = under_way(toy_origin, "until-watched")
        reader.page.goto(f"{toy_origin}/plans/{asked}")
        expect(reader.page.locator("#incumbent")).to_have_text("2.00 s")
        expect(reader.page.locator("#bound")).to_have_text("1.00 s")
        expect(reader.page.locator("#gap")).to_have_text("50%")
        expect(reader.page.locator("#closing")).to_be_visible()
        gate(toy_place / "solves", "watched").touch()
        expect(reader.page.locator(".lead")).to_contain_text("One iteration takes 1.50 s")


def test_a_solve_is_cancelled_and_asked_again(chromium: Browser, toy_origin: str) -> None:
    with watched(chromium, toy_origin) as reader:
        asked = under_way(toy_origin, "until-never")
        reader.page.goto(f"{toy_origin}/plans/{asked}")
        reader.page.get_by_role("button", name="Cancel").click()
        expect(reader.page.locator(".lead")).to_have_text("The solve was cancelled.")
        reader.page.get_by_role("button", name="Ask again").click()
        expect(reader.page.locator("#progress")).to_be_visible()
        reader.page.get_by_role("button", name="Cancel").click()
        expect(reader.page.locator(".lead")).to_have_text("The solve was cancelled.")


def test_two_plans_are_chosen_and_compared(reader: Watched, plan_ids: list[str]) -> None:
    reader.go("/")
    for plan_id in plan_ids:
        reader.page.locator(f"input[value='{plan_id}']").check()
    reader.page.get_by_role("button", name="Compare the chosen").click()
    expect(reader.page.locator("table.compare thead th")).to_have_count(2)
    expect(reader.page.locator("tr.differs", has_text="Usable memory per device")).to_be_visible()


def test_the_timeline_is_zoomed_with_mouse_and_keyboard(
    reader: Watched, plan_ids: list[str]
) -> None:
    reader.go(f"/plans/{plan_ids[0]}")
    part = reader.page.locator("#timeline-part")

    def length() -> float:
        return float(part.get_attribute("data-to") or 0) - float(
            part.get_attribute("data-from") or 0
        )

    whole = length()
    reader.page.get_by_role("link", name="Zoom in").click()
    expect(part).not_to_have_attribute("data-to", str(whole))
    assert length() == pytest.approx(whole / 2, rel=1e-3)
    start = part.get_attribute("data-from") or ""
    reader.page.locator("[data-timeline]").focus()
    reader.page.keyboard.press("ArrowRight")
    expect(part).not_to_have_attribute("data-from", start)
    reader.page.keyboard.press("0")
    expect(part).to_have_attribute("data-from", "0.0")
    assert length() == pytest.approx(whole)
    expect(reader.page.locator("#timeline .critical")).to_have_count(2)
    reader.page.get_by_label("Critical path").uncheck()
    expect(reader.page.locator("#timeline .critical")).to_have_count(0)


FIRST_FORWARD = """() => {
  const path = document.querySelector("#timeline path.forward");
  const [x, y, width, height] = path.getAttribute("d").match(/-?[\\d.]+/g).map(Number);
  const at = new DOMPoint(x + width / 2, y + height / 2).matrixTransform(path.getScreenCTM());
  return [at.x, at.y];
}"""


def test_a_pass_that_is_pointed_at_says_what_it_is(reader: Watched, plan_ids: list[str]) -> None:
    reader.go(f"/plans/{plan_ids[0]}#timeline")
    tip = reader.page.locator(".tip")
    expect(tip).to_be_hidden()
    reader.page.mouse.move(*reader.page.evaluate(FIRST_FORWARD))
    expect(tip).to_have_text(re.compile(r"^forward · micro-batch 0 · stage 0 · .* ms, from 0"))
    expect(reader.page.locator("#timeline .pointed")).to_have_count(1)
    reader.page.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    reader.page.mouse.click(*reader.page.evaluate(FIRST_FORWARD))
    expect(tip).to_be_visible()
    reader.page.evaluate("scrollBy(0, 40)")
    expect(tip).to_be_hidden()


def test_offload_can_be_chosen_where_it_can_be_planned(reader: Watched) -> None:
    reader.go("/")
    reader.page.get_by_text("Fix parts of the layout").click()
    offload = reader.page.get_by_label("Activations may wait in host memory")
    offload.select_option("on")
    reader.page.get_by_label("Recompute", exact=True).select_option("full")
    expect(offload).to_be_disabled()


def test_memory_follows_the_chosen_stage(reader: Watched, plan_ids: list[str]) -> None:
    reader.go(f"/plans/{plan_ids[0]}")
    reader.page.get_by_label("Stage", exact=True).select_option("1")
    expect(reader.page.locator("#memory-part .wide svg")).to_have_attribute(
        "aria-label", re.compile("Memory of stage 1")
    )


def taken(page: Page, folder: Path) -> dict[str, bytes]:
    """Everything that the page offers for download, by its file's name."""
    for details in page.locator("details").all():
        details.evaluate("element => { element.open = true; }")
    saved: dict[str, bytes] = {}
    for link in page.locator(".downloads a").all():
        with page.expect_download() as caught:
            link.click()
        name = caught.value.suggested_filename
        caught.value.save_as(folder / name)
        saved[name] = (folder / name).read_bytes()
    return saved


def is_whole(name: str, content: bytes) -> bool:
    """Whether the file is of the kind that its name says, and not empty."""
    match Path(name).suffix:
        case ".png":
            return content.startswith(PNG) and len(content) > 2000
        case ".svg" | ".xml":
            return len(ElementTree.fromstring(content)) > 0
        case ".json":
            return bool(json.loads(content))
        case ".html":
            return content.startswith(b"<!doctype html>") and b"</html>" in content
        case _:
            return len(content) > 20


def test_everything_of_a_plan_can_be_taken_away(
    reader: Watched, plan_ids: list[str], tmp_path: Path
) -> None:
    reader.go(f"/plans/{plan_ids[0]}")
    saved = taken(reader.page, tmp_path)
    begin = f"stagecut-{plan_ids[0][:12]}"
    pictures = ("timeline", "memory", "memory-over-time", "tensors", "breakdown", "baselines")
    expected = {f"{begin}-{name}.{kind}" for name in pictures for kind in ("svg", "png")}
    expected |= {f"{begin}.json", f"{begin}.html", f"{begin}-trace.json"}
    assert set(saved) == expected
    for name, content in saved.items():
        assert is_whole(name, content), name
    assert json.loads(saved[f"{begin}.json"])["status"] == "succeeded"
    assert len(json.loads(saved[f"{begin}-trace.json"])["traceEvents"]) > 32


def test_curves_contingencies_and_batches_can_be_taken_away(
    reader: Watched, kept: dict[str, str], batch: str, tmp_path: Path
) -> None:
    kinds = {
        kept["capacity"]: [".json", ".png", ".svg"],
        kept["contingency"]: [".json"],
        batch: [".json", ".md", ".xml"],
    }
    for address, expected in kinds.items():
        reader.go(address)
        saved = taken(reader.page, tmp_path)
        assert sorted(Path(name).suffix for name in saved) == expected, address
        for name, content in saved.items():
            assert is_whole(name, content), name


def test_a_curve_is_asked_for_from_a_plan_and_watched_until_it_is_there(
    reader: Watched, origin: str
) -> None:
    job = {"model": {"name": "gpt-2"}, "cluster": {"device": "H100-SXM5-80GB", "nodes": 1}}
    run = {"sequence_length": 1024, "global_batch_size": 8}
    layout = {"tensor_parallel": 1, "pipeline_parallel": 1, "micro_batch_size": 1}
    cluster = job["cluster"] | {"devices_per_node": 8}  # type: ignore[operator]
    asked = job | {"cluster": cluster, "training": run, "layout": layout}
    page = reader.page
    reader.go(f"/plans/{ask(origin, asked)}")
    page.get_by_role("button", name="On more or fewer nodes").click()
    expect(page.locator("[name='nodes.maximum']")).to_have_value("2")
    fill(page, nodes__maximum="0")
    problem = page.locator("[id='nodes.maximum-problem']")
    expect(problem).to_contain_text("not allowed")
    fill(page, nodes__maximum="2")
    expect(page.locator("#verdict")).to_have_text("This can be worked out.")
    page.get_by_role("button", name="Work out the curve").click()
    expect(page.get_by_role("figure", name="Throughput against nodes").first).to_be_visible()
    expect(page.locator("article")).to_have_attribute("data-pending", "no")


def test_contingencies_are_asked_for_and_problems_are_told_at_their_field(
    reader: Watched,
) -> None:
    page = reader.page
    reader.go("/contingencies")
    fill(page, nodes="gpu01")
    expect(page.locator("#nodes-problem")).to_contain_text("are 4 nodes of 8")
    page.locator("[name='model.name']").select_option("gpt-2")
    fill(page, nodes="", spares="", training__sequence_length="1024", cluster__nodes="2")
    fill(page, training__global_batch_size="16", layout__tensor_parallel="1")
    expect(page.locator("#verdict")).to_have_text("This can be worked out.")
    page.get_by_role("button", name="Work out what to do").click()
    expect(page.get_by_role("heading", name="What to do")).to_be_visible()


def test_a_curve_under_way_says_how_far_it_is_and_is_cancelled(
    chromium: Browser, toy_origin: str
) -> None:
    """The one worker is busy, so the curve waits."""
    busy = under_way(toy_origin, "until-nothing")
    body = sample("capacity_request")
    with watched(chromium, toy_origin) as reader:
        waiting = httpx2.post(f"{toy_origin}/v1/capacity", json=body, timeout=400).json()["id"]
        reader.page.goto(f"{toy_origin}/capacity/{waiting}")
        expect(reader.page.locator(".lead")).to_have_text("Waiting for a free worker.")
        expect(reader.page.locator("progress")).to_be_visible()
        reader.page.get_by_role("button", name="Cancel").click()
        expect(reader.page.locator(".lead")).to_have_text("It was cancelled.")
        reader.page.get_by_role("button", name="Change the question").click()
        expect(reader.page.locator("[name='nodes.maximum']")).to_have_value("5")
    httpx2.delete(f"{toy_origin}/v1/plans/{busy}", timeout=400)


def test_sixty_four_stages_and_512_micro_batches_are_moved_through_without_freezing(
    reader: Watched, kept: dict[str, str]
) -> None:
    reader.go(kept["deep"])
    page, part = reader.page, reader.page.locator("#timeline-part")
    assert page.evaluate("document.querySelectorAll('*').length") < 12_000
    page.locator("[data-timeline]").focus()
    for key in ("0", "+", "+", "ArrowRight", "2"):
        before = f"{part.get_attribute('data-from')} {part.get_attribute('data-to')}"
        page.keyboard.press(key)
        page.wait_for_function(
            "before => { const { from, to } = document.getElementById('timeline-part').dataset;"
            " return `${from} ${to}` !== before; }",
            arg=before,
        )
    expect(page.locator("[data-timeline]")).to_be_focused()
    longest = page.evaluate(
        "() => { const start = performance.now(); document.body.getBoundingClientRect();"
        " document.querySelector('[data-timeline]').scrollIntoView();"
        " document.body.getBoundingClientRect(); return performance.now() - start; }"
    )
    assert longest < 500


def test_colours_are_chosen_and_kept(reader: Watched) -> None:
    reader.go("/")
    root = reader.page.locator("html")
    reader.page.locator("#theme").click()
    reader.page.locator("#theme").click()
    expect(root).to_have_attribute("data-theme", "dark")
    reader.go("/guides")
    expect(root).to_have_attribute("data-theme", "dark")


PAGES = {
    "make a plan": "/",
    "a request changed": "/?like={first}",
    "plan": "/plans/{first}",
    "comparison": "/compare?ids={first},{second}",
    "what to compare": "/compare",
    "ask for a curve": "/capacity",
    "ask for contingencies": "/contingencies",
    "curve": "{capacity}",
    "contingencies": "{contingency}",
    "batches": "/batches",
    "batch": "{batch}",
    "calibration": "/calibrations/ours",
    "guides": "/guides",
    "guide": "/guides/reading-a-plan",
}


OVERLAPPING = """[...document.querySelectorAll("table th, table td")]
  .filter((cell) => cell.scrollWidth > cell.clientWidth + 1 && cell.clientWidth > 0
    && getComputedStyle(cell).overflowX === "visible")
  .map((cell) => cell.textContent.trim())"""
"""Cells of tables whose words run into their neighbours."""


LEFT_OUT = [one for one in left_out() if "::" not in one and ":host" not in one]
APPLYING = "selectors => selectors.filter((one) => document.querySelector(one))"
"""Rules of the style library that a page is served without and would need."""


@pytest.fixture(scope="module")
def known(plan_ids: list[str], kept: dict[str, str], batch: str) -> dict[str, str]:
    """What stands in the addresses of pages."""
    return {"first": plan_ids[0], "second": plan_ids[1], "batch": batch, **kept}


@pytest.fixture(scope="module")
def still(chromium: Browser, origin: str) -> Iterator[Watched]:
    """A reader whom nothing moves, so that colours change at once."""
    with watched(chromium, origin, reduced_motion="reduce") as page:
        yield page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_fits_a_phone(
    still: Watched, known: dict[str, str], name: str
) -> None:
    page = still.page
    page.emulate_media(color_scheme="light")
    still.go(PAGES[name].format(**known))
    for width in (360, 768):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OVERLAPPING) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.evaluate(APPLYING, LEFT_OUT) == []
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.evaluate(AXE)
    assert serious(page, "{}") == []
    page.emulate_media(color_scheme="dark")  # all else does not depend on colours
    assert serious(page, "{ runOnly: ['color-contrast'] }") == []


def serious(page: Page, rules: str) -> list[str]:
    """What axe-core finds that keeps people out."""
    found = page.evaluate(f"async () => (await axe.run({rules})).violations")
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def test_every_example_of_the_api_page_runs_as_it_is(origin: str) -> None:
    of_a_model = ask(origin, sample("contingency_request")["job"])
    description = httpx2.get(f"{origin}/openapi.json", timeout=400).json()
    tried = 0
    for path, operations in description["paths"].items():
        body = operations.get("post", {}).get("requestBody", {}).get("content", {})
        for kind, content in body.items():
            for name, example in content.get("examples", {}).items():
                value = example["value"]
                text = value if isinstance(value, str) else json.dumps(value)
                headers = {"Content-Type": kind}
                address = origin + path.replace("{plan_id}", of_a_model)
                answer = httpx2.post(address, content=text, headers=headers, timeout=400)
                assert answer.status_code in (200, 201, 202), (path, name, answer.text)
                tried += 1
                if path == "/v1/plans":
                    httpx2.delete(f"{origin}/v1/plans/{answer.json()['id']}", timeout=400)
    assert tried >= 9


def test_the_api_page_is_served_whole(chromium: Browser, origin: str) -> None:
    with watched(chromium, origin) as reader:
        reader.go("/docs")
        expect(reader.page.locator(".opblock").first).to_be_visible()
