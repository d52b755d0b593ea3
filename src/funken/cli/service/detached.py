"""``funken run --detach``: a driver in the background, which goes on when the terminal is closed.

The driver is a process of its own, in a session of its own. What it prints goes to a file that only the user can read; its job is
found as any other, in the registry folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from funken import config
from funken.config import Configuration
from funken.errors import FunkenError
from funken.io.cache import cache_folder
from funken.rest.addresses import ServerAddress, registered
from funken.rest.client import RestClient
from funken.rest.server import available

_POLL_SECONDS = 0.2
_KEPT = 100
_TAIL = 4_000


def output_folder() -> Path:
    """Return the folder of what detached drivers print; raises ``ClickException`` if it cannot be had."""
    cache = cache_folder()
    if cache is None:
        raise click.ClickException("this user has no folder for the output of the driver: set HOME or XDG_CACHE_HOME.")
    folder = cache / "drivers"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in sorted(folder.glob("*.out"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise click.ClickException(f"the output of the driver cannot be written to {folder}: {error}.") from error
    return folder


def check_detachable(configuration: Configuration) -> None:
    """Raise ``ClickException`` if a job in the background would not be found."""
    if not available():
        raise click.ClickException("--detach needs packages that are not installed: pip install 'funken[rest]'.")
    if configuration.get(config.REST_ENABLED) == "false":
        raise click.ClickException(f"--detach needs a REST server; do not set {config.REST_ENABLED.key} to false.")


def run_detached(arguments: list[str], seconds: float, found: Callable[[], list[ServerAddress]] = registered) -> None:
    """Start ``funken run`` with these arguments in the background; return when its job is known, and print which it is.

    Raises ``ClickException`` if the driver ends before, or does not get so far in time; then it is left as it is.
    """
    output = output_folder() / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.out"
    with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        driver = subprocess.Popen(
            [sys.executable, "-m", "funken", "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    until = time.monotonic() + seconds
    while True:
        code = driver.poll()
        entry = None if code is not None else _job_of(driver.pid, found)
        if entry is not None:
            driver.returncode = 0  # it goes on when this process ends, which is nothing to warn of
            url, job = entry
            click.echo(f"{job['name']} ({job['jid']}) runs in process {driver.pid}: {url}/#/jobs/{job['jid']}")
            click.echo(f"What it prints: {output}")
            return
        if code == 0:
            click.echo(f"The program has ended. What it printed: {output}")
            return
        if code is not None:
            raise click.ClickException(f"the program has ended with exit code {code}. {output}:\n{_tail(output)}")
        if time.monotonic() >= until:
            driver.returncode = 0
            raise click.ClickException(
                f"no job of process {driver.pid} was seen within {seconds:g} s; it goes on. What it prints: {output}"
            )
        time.sleep(_POLL_SECONDS)


def _job_of(pid: int, found: Callable[[], list[ServerAddress]]) -> tuple[str, dict[str, Any]] | None:
    """Return the address and the newest job of a process, if it shows one."""
    for address in found():
        if address.pid == pid:
            try:
                jobs = RestClient.of(address).get("jobs", "overview")["jobs"]
            except FunkenError:
                continue  # it is about to be there
            if jobs:
                return address.url, max(jobs, key=lambda job: int(job["start-time"]))
    return None


def _tail(path: Path) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read().decode(errors="replace").rstrip()
