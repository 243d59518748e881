"""The rules of who may import whom, held by looking at every import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("solver", "service", "migrations")
WEB_AND_DATABASE = ("fastapi", "starlette", "sqlalchemy", "alembic", "uvicorn", "pgqueuer")

# The rooms of the solver from the bottom up; a room imports only from its own and lower levels.
LEVELS = (
    {"errors", "strict", "calibrations", "request", "identity", "progress", "quiet"},
    {"workload", "cluster", "layouts", "schedules"},
    {"costs"},
    {"recompute"},
    {"partition"},
    {"memory"},
    {
        "plan",
        "assess",
        "verify",
        "verify_offload",
        "verify_orders",
        "verify_places",
        "baselines",
        "begun",
        "stalls",
        "targets",
    },
    {
        "search",
        "answer",
        "question",
        "explain",
        "prices",
        "given_stages",
        "finished",
        "brought_back",
    },
    {"calibrate", "capacity", "placement", "transitions"},
    {"contingencies", "expected", "checkpoints"},
    {"planner", "recheck", "recheck_shared", "fleet", "projections", "imports"},
)


def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(module: str, *, lazy: bool = True) -> Iterator[str]:
    """Modules that ``module`` imports; with ``lazy`` also those imported inside functions."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    for node in ast.walk(tree) if lazy else _at_import(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else str(node.module)


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when the module is imported, types apart."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _at_import(child)


def solver_modules() -> list[str]:
    return sorted(name for name in MODULES if name.startswith("solver."))


@pytest.mark.parametrize("module", solver_modules())
def test_the_solver_knows_nothing_of_web_or_database(module: str) -> None:
    forbidden = {"service", "migrations", *WEB_AND_DATABASE}
    assert {name.partition(".")[0] for name in imports(module)} & forbidden == set()


@pytest.mark.parametrize("module", solver_modules())
def test_imports_of_the_solver_point_downwards(module: str) -> None:
    level = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}
    own = level[module.split(".")[1]]
    for name in imports(module):
        if name.startswith("solver."):
            room = name.split(".")[1]
            assert level[room] <= own, f"{module} imports upwards: {name}"


def test_no_imports_go_in_a_circle() -> None:
    graph = {
        module: {name for name in imports(module, lazy=False) if name in MODULES} - {module}
        for module in MODULES
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' -> '.join(error.args[1])}")


def test_only_the_command_line_and_the_solver_process_reach_the_planner() -> None:
    importers = {
        module
        for module in MODULES
        if module.startswith("service.") and "solver.planner" in imports(module)
    }
    of_the_command_line = {
        "service.all_cores",
        "service.calibration_commands",
        "service.cli",
        "service.local",
    }
    assert importers <= {*of_the_command_line, "service.jobs.solver_process"}


def test_only_the_store_writes_queries() -> None:
    for module in MODULES:
        if module.startswith("service.routes.") or module == "service.app":
            assert not any(name.startswith("sqlalchemy") for name in imports(module)), module


def test_the_service_process_loads_no_solver_library() -> None:
    program = (
        "import sys; from service.app import create_app; from service.settings import Settings; "
        "from fastapi.testclient import TestClient\n"
        "with TestClient(create_app(Settings(database_url='sqlite:///:memory:'))) as client:\n"
        "    for path in ('/', '/guides', '/healthz', '/v1/models', '/v1/devices', '/openapi.json')"
        ":\n"
        "        assert client.get(path).status_code == 200\n"
        "loaded = {'ortools', 'highspy', 'pandas', 'solver.planner'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
