"""``funken up`` and ``funken down``: a Spark session that stays warm between runs."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from funken import DataStream, StreamExecutionEnvironment, config
from funken.api.jobs.client import JobClient
from funken.cli.failures import job_options, with_options
from funken.config import Configuration
from funken.config.values import duration_ms
from funken.errors import FunkenError
from funken.spark.warm import client as protocol
from funken.timing.clock import SystemClock, pause

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


# ---- A program that begins in this process at once, and moves to Spark by a savepoint when that has started.
#
# ``HandOver.records`` yields the records of both jobs as those of one. Spark starts in a thread meanwhile. Where
# the program ends first, the start is given up; where Spark does not start, the program ends here, and a line says
# why.


T = TypeVar("T")

Build = Callable[[StreamExecutionEnvironment, bool], DataStream[T]]
"""Adds the program to an environment, for the job here (True) or on Spark; its operators have uids. Returns its results."""

_HAND_OVER_LOOK_SECONDS = 0.05
_HAND_OVER_END_SECONDS = 10.0


def start_spark(configuration: Configuration, slots: int, wanted: Callable[[], bool]) -> None:
    """Start a session of Funken's own, which the next job of this process finds."""
    importlib.import_module("funken.spark.session").session_for(configuration, None, slots, wanted)


class HandOver:
    """One program in two jobs; the second one waits for ``start``."""

    def __init__(
        self, build: Build[Any], configuration: Configuration, name: str,
        start: Callable[[Configuration, int, Callable[[], bool]], None] = start_spark,
    ) -> None:  # fmt: skip
        self._build, self._name, self._start = build, name, start
        self._configuration = configuration.copy()
        self._ended = threading.Event()
        self._savepoint = ""

    def records(self) -> Generator[Any, None, None]:
        """Run both jobs, and yield their records."""
        with tempfile.TemporaryDirectory(prefix="funken-handover-") as folder:
            here = self._configuration.copy().set(config.TARGET, "local").set(config.SAVEPOINT_DIR, folder)
            yield from self._run_here(here)
            if self._savepoint:
                there = self._configuration.copy().set(config.SAVEPOINT_DIR, folder)
                environment = StreamExecutionEnvironment.get_execution_environment(
                    there.set(config.RESTORE_PATH, self._savepoint)
                )
                with self._build(environment, False).execute_and_collect(self._name) as records:
                    yield from records

    def _run_here(self, configuration: Configuration) -> Iterator[Any]:
        environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        results = self._build(environment, True)
        slots = environment.compile().slots + 1  # what collects the results
        with results.execute_and_collect(self._name) as records:
            mover = threading.Thread(
                target=self._move, args=(records.get_job_client(), slots), name="funken-handover", daemon=True
            )
            mover.start()
            try:
                yield from records
            finally:
                self._ended.set()
        mover.join(_HAND_OVER_END_SECONDS)

    def _move(self, client: JobClient, slots: int) -> None:
        begin = SystemClock().monotonic()
        try:
            self._start(self._configuration, slots, lambda: not self._ended.is_set())
        except FunkenError as error:
            if not self._ended.is_set():
                click.echo(f"The job stays in this process, for there is no Spark to move it to: {error}", err=True)
            return
        if self._ended.is_set():
            return
        seconds = SystemClock().monotonic() - begin
        click.echo(f"Spark has started after {seconds:.1f} s: the job moves there, with its state.", err=True)
        try:
            self._savepoint = client.stop_with_savepoint(False).result()
        except FunkenError:
            return  # the job has ended meanwhile, and its own result says how
