"""What the documentation says is so: links, commands, names, requests, figures, reference."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import service.routes
from docs.generate_reference import PAGES
from docs.quotes import FIGURES_AGREE, Quote, agree, fresh, pages, quotes
from service.cli import app
from service.settings import Settings
from solver.errors import BadRequest
from solver.question import question
from solver.request import PlanRequest
from tests.test_architecture import LEVELS

ROOT = Path(__file__).parents[1]
REFUSED = {"misspelt.json", "illegal.json", "unknown-model.json"}
SOURCES = "\n".join(
    path.read_text()
    for folder in ("solver", "service")
    for kind in ("*.py", "*.csv", "*.json")
    for path in sorted((ROOT / folder).rglob(kind))
)

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(*languages: str) -> Iterator[tuple[Path, str]]:
    for page in pages():
        for language, content in _BLOCK.findall(page.read_text()):
            if language in languages:
                yield page, content


def prose(page: Path) -> str:
    return _BLOCK.sub("", page.read_text())


@cache
def anchors(page: Path) -> set[str]:
    """Where a link into a page can lead: its headings as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# -- links and pictures --------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages(), ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert found.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(found), target


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in _LINK.findall(prose(page)):
            found = (page.parent / target.partition("#")[0]).resolve()
            if found.suffix == ".md" and found.exists():
                waiting.append(found)
    assert set(pages()) <= reached


def test_the_readme_begins_with_what_to_type() -> None:
    first = text("README.md").splitlines()[:5]
    assert any(line.startswith("make run ") for line in first)
    assert any(line.startswith("make test ") for line in first)


@pytest.mark.parametrize("picture", sorted(ROOT.glob("docs/pictures/*.svg")), ids=lambda p: p.name)
def test_a_picture_is_of_the_plan_that_is_quoted_beside_it(picture: Path) -> None:
    tree = ElementTree.fromstring(picture.read_text())
    title = tree.findtext("{http://www.w3.org/2000/svg}title") or ""
    drawn = float(re.findall(r"takes ([\d.]+) s", title)[0])
    (page,) = (page for page in pages() if picture.name in page.read_text())
    quoted = float(re.findall(r"One iteration takes ([\d.]+) s", page.read_text())[0])
    assert drawn == pytest.approx(quoted, rel=FIGURES_AGREE)
    assert "prefers-color-scheme: dark" in picture.read_text()


# -- requests ------------------------------------------------------------------------------------


def requests() -> dict[str, object]:
    found: dict[str, object] = {}
    for number, (page, content) in enumerate(blocks("json")):
        found[f"{named(page)}:{number}"] = json.loads(content)
    for path in sorted(ROOT.glob("docs/guides/requests/*.json")):
        if path.name not in REFUSED:
            found[path.name] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("request_", requests().values(), ids=requests().keys())
def test_every_request_can_be_planned(request_: object) -> None:
    assert question(PlanRequest.model_validate(request_)).layouts


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_request_that_shows_a_mistake_is_refused(name: str) -> None:
    document = json.loads((ROOT / "docs/guides/requests" / name).read_text())
    with pytest.raises((ValueError, BadRequest)):
        question(PlanRequest.model_validate(document))


# -- commands and names --------------------------------------------------------------------------


def shell_lines() -> Iterator[tuple[Path, str]]:
    for page, content in blocks("sh", "yaml"):
        for line in content.splitlines():
            yield page, line.partition("#")[0].replace("- run:", "").strip()
    for quote in quotes():
        for command in quote.commands:
            yield quote.page, command
    for page in pages():
        for line in re.findall(r"^    (\S.*)$", prose(page), re.MULTILINE):
            yield page, line.partition("#")[0]


def test_every_command_exists_with_its_options() -> None:
    group = get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    seen = set()
    for page, line in shell_lines():
        for part in re.split(r"\|(?!\S)|;|&&", line):
            if "stagecut" not in part:
                continue
            words = [word for word in shlex.split(part) if not re.match(r"\w+=", word)]
            if not words or Path(words[0]).name != "stagecut":
                continue
            name, arguments = words[1], words[2:]
            assert name in group.commands, f"{named(page)}: {line}"
            command = group.commands[name]
            if isinstance(command, typer.core.TyperGroup):
                assert arguments[0] in command.commands, f"{named(page)}: {line}"
                command, arguments = command.commands[arguments[0]], arguments[1:]
            known = {option for p in command.params for option in p.opts}
            for argument in arguments:
                if argument.startswith("--"):
                    assert argument in known, f"{named(page)}: {line}"
            seen.add(name)
    assert {"plan", "evaluate", "serve", "migrate"} <= seen


def test_every_command_in_prose_exists() -> None:
    group = get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    for page in pages():
        for code in _CODE.findall(prose(page)):
            match = re.match(r"stagecut ([a-z]+)", code)
            assert not match or match[1] in group.commands, f"{named(page)}: {code}"


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([\w.$()/-]+):", text("Makefile"), re.MULTILINE))
    targets = {target.replace("$(VENV)", ".venv") for target in targets}
    seen = set()
    for page in pages():
        lines = [line for at, line in shell_lines() if at == page] + _CODE.findall(prose(page))
        for line in lines:
            match = re.match(r"make(?: -C \S+)? ([\w./-]+)", line)
            if match:
                assert match[1] in targets, f"{named(page)}: {line}"
                seen.add(match[1])
    assert {"run", "test", "plan", "check"} <= seen


def test_every_operation_exists() -> None:
    modules = [
        importlib.import_module(f"service.routes.{module.name}")
        for module in pkgutil.iter_modules(service.routes.__path__)
    ]
    routers = [module.router for module in modules if hasattr(module, "router")]
    operations = {
        f"{method} {re.sub('{[^}]*}', '{id}', route.path)}"
        for router in routers
        for route in router.routes
        for method in route.methods
    }
    for page in pages():
        for operation in re.findall(r"`((?:GET|POST|PUT|DELETE) /[^`\s]*)`", page.read_text()):
            shape = re.sub("{[^}]*}", "{id}", operation)
            assert shape in operations, f"{named(page)}: {operation}"


def test_every_setting_exists() -> None:
    known = {name.upper() for name in Settings.model_fields} | {"KEY"}  # the client's own
    for page in pages():
        for name in re.findall(r"STAGECUT_([A-Z][A-Z_]*[A-Z])", page.read_text()):
            assert name in known, f"{named(page)}: STAGECUT_{name}"


@pytest.mark.parametrize("name", ["mathematics.md", "costs.md", "architecture.md"])
def test_every_name_of_code_exists(name: str) -> None:
    ours = {code for code in _CODE.findall(prose(ROOT / "docs" / name)) if "/" not in code}
    for code in sorted(ours):
        if code.startswith(("STAGECUT_", "torch.")) or code.endswith(
            (".py", ".json", ".csv", ".md")
        ):
            continue
        for part in code.split("."):
            if re.fullmatch(r"[A-Za-z_]\w{3,}", part):
                assert re.search(rf"\b{part}\b", SOURCES), code


@pytest.mark.parametrize("page", pages(), ids=named)
def test_every_path_exists(page: Path) -> None:
    for code in _CODE.findall(prose(page)):
        if re.fullmatch(r"[\w./-]+\.(py|md|csv|json)|(solver|service|tests|docs)/[\w./-]*", code):
            places = [ROOT, page.parent, ROOT / "solver"]
            stands = any((place / code).exists() for place in places)
            assert stands or "/" not in code or code.startswith("your"), code


def test_every_import_of_an_example_works() -> None:
    for page, content in blocks("python"):
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{named(page)}: {alias.name}"


# -- architecture --------------------------------------------------------------------------------


def test_the_architecture_names_every_folder_of_code_and_nothing_else() -> None:
    page = prose(ROOT / "docs/architecture.md")
    rows = set(re.findall(r"^\| `([\w./]+)` \|", page, re.MULTILINE))
    for row in rows:
        assert (ROOT / row).exists(), row
    folders = {
        f"{path.parent.relative_to(ROOT)}/"
        for package in ("solver", "service")
        for path in (ROOT / package).rglob("__init__.py")
    } - {"solver/", "service/"}
    assert {folder for folder in folders if folder.count("/") == 2} <= rows
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "solver").glob("*.py")}
    assert modules - {"solver/__init__.py"} <= rows


def test_the_architecture_draws_the_levels_that_imports_keep() -> None:
    page = text("docs/architecture.md")
    (drawn,) = re.findall(r"```text\n(planner .*?)```", page, re.DOTALL)
    levels = [set(line.split()) for line in drawn.splitlines() if "│" not in line]
    assert levels == [set(level) for level in reversed(LEVELS)]


# -- what is generated ---------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_reference_is_up_to_date(page: str) -> None:
    assert text(f"docs/{page}") == PAGES[page](), "run: python docs/generate_reference.py"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_field_says_what_it_means(page: str) -> None:
    assert not re.findall(r"^\| `(\w+)` .*\|\s*\|$", PAGES[page](), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("quote", quotes(), ids=lambda quote: quote.commands[0][:60])
def test_what_is_quoted_is_what_the_command_says(quote: Quote) -> None:
    assert agree(quote.text, fresh(quote)), "run: python docs/quotes.py"
