"""What deploys Stagecut is sound: image and compose file by their own commands, run here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BIN = Path(sys.executable).parent


def instructions(name: str) -> list[str]:
    """Arguments of the Dockerfile's instructions of that name, continuation lines joined."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name}\s+(.*)$", joined, re.MULTILINE)


def exec_form(text: str) -> list[str]:
    command: list[str] = json.loads(text[text.index("[") :])
    return command


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_the_image_runs_as_nobody_special_from_a_slim_base() -> None:
    assert all(":" in base and "slim" in base for base in instructions("FROM"))
    (user,) = instructions("USER")
    assert user not in ("root", "0")
    assert f"--create-home {user}" in instructions("RUN")[1]


def test_everything_that_the_image_copies_is_there_and_not_ignored() -> None:
    kept = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")
    }
    for copy in instructions("COPY"):
        if "--from" not in copy:
            for source in copy.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert source in kept, source


def test_the_image_installs_the_pinned_versions() -> None:
    assert any("-c constraints.txt" in run for run in instructions("RUN"))


@pytest.mark.slow
def test_what_the_image_runs_works_and_its_health_check_tells(tmp_path: Path) -> None:
    port = str(free_port())
    swap = {
        "8000": port,
        "http://127.0.0.1:8000": f"http://127.0.0.1:{port}",
        "0.0.0.0": "127.0.0.1",
    }
    environment = {**os.environ, "STAGECUT_DATABASE_URL": f"sqlite:///{tmp_path}/a.db"}

    def native(command: list[str]) -> list[str]:
        return [str(BIN / command[0]), *(swap.get(word, word) for word in command[1:])]

    check = native(exec_form(instructions("HEALTHCHECK")[0]))
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode != 0
    command = native(exec_form(instructions("CMD")[-1]))
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as service:
        try:
            until = time.monotonic() + 300
            while subprocess.run(check, capture_output=True, check=False).returncode != 0:
                assert time.monotonic() < until
                time.sleep(0.2)
        finally:
            service.send_signal(signal.SIGTERM)
        assert service.wait(120) in (0, -signal.SIGTERM)


def test_the_compose_file_joins_a_service_to_a_healthy_database() -> None:
    services: dict[str, Any] = COMPOSE["services"]
    service, database = services["service"], services["database"]
    assert service["build"] == "."
    assert service["depends_on"]["database"]["condition"] == "service_healthy"
    assert database["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    url = service["environment"]["STAGECUT_DATABASE_URL"]
    assert "@database:5432/" in url
    assert database["environment"]["POSTGRES_DB"] == url.rpartition("/")[2]
    assert set(COMPOSE["volumes"]) == {"database"}


def test_the_compose_file_lets_workers_solve_for_the_service() -> None:
    service, worker = COMPOSE["services"]["service"], COMPOSE["services"]["worker"]
    assert worker["command"] == ["stagecut", "worker"]
    assert service["environment"]["STAGECUT_WORKS"] == "false"
    for name in ("STAGECUT_DATABASE_URL",):
        assert worker["environment"][name] == service["environment"][name]
    assert worker["depends_on"]["service"]["condition"] == "service_healthy"


def test_every_setting_that_a_deployment_gives_exists() -> None:
    from service.settings import Settings

    given = set(re.findall(r"\bSTAGECUT_([A-Z_]+)", DOCKERFILE + str(COMPOSE)))
    assert given <= {name.upper() for name in Settings.model_fields}


def test_every_direct_dependency_is_pinned() -> None:
    pinned = {
        re.split(r"[=<>;\s]", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    named = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    wanted = {re.split(r"[\[=<>;\s]", name)[0].lower().replace("_", "-") for name in named}
    assert wanted - {"stagecut"} <= pinned
    assert "://" not in (ROOT / "constraints.txt").read_text()


def test_continuous_integration_runs_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


def made(target: str) -> list[str]:
    """The commands that ``make TARGET`` would run here."""
    done = subprocess.run(
        ["make", "-n", "-B", target], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["run", "plan", "test", "check", "benchmark"])
def test_make_targets_install_first_and_from_the_constraints(target: str) -> None:
    commands = made(target)
    installs = [number for number, line in enumerate(commands) if "pip install" in line]
    assert installs
    assert "-c constraints.txt" in commands[installs[0]]
    works = [number for number, line in enumerate(commands) if ".venv/bin/" in line]
    assert works[-1] > installs[-1]


@pytest.mark.slow
def test_make_run_plans_the_example_and_stays_up(tmp_path: Path) -> None:
    """With this environment as the installed one, `make run` goes through all of its steps."""
    environment = tmp_path / "venv"
    environment.mkdir()
    (environment / "bin").symlink_to(BIN)
    (environment / ".installed").touch()
    command = [
        "make",
        "run",
        f"VENV={environment}",
        "PORT=0",
        "EXAMPLE=service/samples/request.json",
    ]
    settings = {**os.environ, "STAGECUT_DATABASE_URL": f"sqlite:///{tmp_path}/a.db"}
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as service:
        assert service.stdout is not None
        for line in service.stdout:
            said.append(line)
            if line.startswith("Stop it"):
                break
        assert service.poll() is None
        os.killpg(service.pid, signal.SIGINT)
        service.wait(120)
    text = "".join(said)
    assert "One iteration takes" in text
    assert re.search(r"^Pages +http://127.0.0.1:\d+$", text, re.MULTILINE)
    assert re.search(r"^API page +http://127.0.0.1:\d+/docs$", text, re.MULTILINE)


def test_shell_words_in_the_image_are_in_exec_form() -> None:
    """Signals reach the service only if no shell stands between."""
    for name in ("CMD", "HEALTHCHECK"):
        for text in instructions(name):
            assert shlex.split(exec_form(text)[0]) == ["stagecut"]
