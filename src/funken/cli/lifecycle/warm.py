"""``funken up`` and ``funken down``: a Spark session that stays warm between runs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from funken.cli.options import job_options, with_options
from funken.config import Configuration
from funken.config.values import duration_ms
from funken.errors import FunkenError
from funken.spark.warm import protocol
from funken.timing.clock import SystemClock
from funken.timing.waiting import pause

_START_SECONDS = 180.0
_END_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_LOG_LINES = 20


def _place() -> Path:
    place = protocol.folder()
    if place is None:
        raise click.ClickException(
            "there is no place for a warm session: neither $XDG_RUNTIME_DIR nor $HOME leads to a folder that only you can use."
        )
    return place


@click.command()
@click.option(
    "--idle-timeout", metavar="DURATION", default="1 h", show_default=True,
    help="End the session when no program has used it for so long; 0: never.",
)  # fmt: skip
@job_options(default_target="auto")
def up(idle_timeout: str, target: str, parallelism: int | None, configuration: Configuration) -> None:
    """Start a Spark session that stays: later runs begin in it, and need not start Spark.

    It is found by programs of this user, this Python and this Funken whose options ask for the same Spark (spark.master,
    execution.shuffle-memory, ...), and is lent to one at a time; all others start their own, as without it. Files that a program
    imports are read anew in every run. The session keeps the folder and the environment of this command for what Spark's own
    JVM reads, such as credentials of Hadoop.

    \b
    funken up
    funken run job.py
    funken down
    """
    place = _place()
    with_options(configuration, target, parallelism)
    try:
        idle = duration_ms(idle_timeout) / 1000
    except (FunkenError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--idle-timeout") from None
    name = _name(configuration)
    if (found := protocol.ask(place, name, "status")) is not None:
        click.echo(f"A warm session is there already (process {found[1]['pid']}).")
        return
    begin = SystemClock().monotonic()
    with tempfile.NamedTemporaryFile("w+", dir=place, prefix="warm-", suffix=".log") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "funken.spark.warm.resident", json.dumps(configuration.to_dict()), str(idle)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            answer = _wait(place, name, child)
        except BaseException:
            child.terminate()
            raise
        if answer is None:
            log.seek(0)
            said = "".join(log.readlines()[-_LOG_LINES:])
            raise click.ClickException(f"the session did not start:\n{said}")
    click.echo(
        f"A warm session is up (process {answer['pid']}, after {SystemClock().monotonic() - begin:.0f} s); 'funken down' ends it."
    )


def _name(configuration: Configuration) -> str:
    from funken.spark.session import SessionLaunch  # noqa: PLC0415 - it imports pyspark

    return SessionLaunch.of(configuration, 0).name


def _wait(place: Path, name: str, child: subprocess.Popen[bytes]) -> dict[str, object] | None:
    end = SystemClock().monotonic() + _START_SECONDS
    while SystemClock().monotonic() < end and child.poll() is None:
        if (found := protocol.ask(place, name, "status")) is not None:
            found[0].close()
            return found[1]
        pause(_LOOK_SECONDS)
    child.terminate()
    return None


@click.command()
def down() -> None:
    """End the warm sessions of this user; a program that uses one fails."""
    place = _place()
    ending = {}
    for name in protocol.names_in(place):
        if (found := protocol.ask(place, name, "down")) is not None:
            ending[name] = found[1]["pid"]
            found[0].close()
    if not ending:
        click.echo("There is no warm session.")
        return
    end = SystemClock().monotonic() + _END_SECONDS
    while left := ending.keys() & set(protocol.names_in(place)):
        if SystemClock().monotonic() > end:
            raise click.ClickException(
                f"process {ending[left.pop()]} has not ended within {_END_SECONDS:.0f} s; kill it."
            )
        pause(_LOOK_SECONDS)
    click.echo(f"{len(ending)} warm session{'s' * (len(ending) > 1)} ended.")
