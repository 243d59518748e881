"""A temporary PostgreSQL cluster that tests may start, kill and start again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

_NOBODY_SPECIAL = "postgres"


def binaries() -> Path | None:
    """The folder of PostgreSQL's server programs, if it is installed."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


class Cluster:
    """One cluster in a folder of its own. PostgreSQL refuses root, so root runs it as another."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None
        self._programs = found
        self._folder = Path(tempfile.mkdtemp(prefix="stagecut-postgresql-"))
        self._user = _NOBODY_SPECIAL if os.getuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._run("initdb", "--auth=trust", "--username=stagecut", "--encoding=UTF8", "--no-sync")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._databases = 0

    def start(self) -> None:
        """Start the server and wait until it answers."""
        # A kill of its processes loses nothing without fsync; only a power cut would.
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        log = str(self._folder / "log")
        self._run("pg_ctl", "start", "--wait", "--silent", "-o", options, "-l", log)

    def kill(self) -> None:
        """End every process of the server as a crash of the machine would: kill -9."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for process in [postmaster, *map(int, children)]:
            os.kill(process, signal.SIGKILL)
        while any(Path(f"/proc/{process}").exists() for process in map(int, children)):
            time.sleep(0.02)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def remove(self) -> None:
        """Stop the server and remove the cluster."""
        self._run("pg_ctl", "stop", "--wait", "--silent", "--mode=immediate")
        shutil.rmtree(self._folder)

    def new_database(self) -> str:
        """The URL of a database that nobody has used."""
        self._databases += 1
        name = f"test_{self._databases}"
        place = ["--host=127.0.0.1", f"--port={self.port}", "--username=stagecut"]
        subprocess.run([self._programs / "createdb", *place, name], check=True)
        return f"postgresql://stagecut@127.0.0.1:{self.port}/{name}"

    @property
    def data(self) -> Path:
        """The cluster's data directory."""
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        identity = pwd.getpwnam(self._user) if self._user else None
        subprocess.run(
            [self._programs / program, "-D", str(self.data), *arguments],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            user=identity.pw_uid if identity else None,
            group=identity.pw_gid if identity else None,
            extra_groups=[] if identity else None,
        )
