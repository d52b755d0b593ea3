"""A program that begins in this process at once, and moves to Spark by a savepoint when that has started.

``HandOver.records`` yields the records of both jobs as those of one. Spark starts in a thread meanwhile. Where the program ends
first, the start is given up; where Spark does not start, the program ends here, and a line says why.
"""

from __future__ import annotations

import importlib
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

import click

from funken import Configuration, DataStream, StreamExecutionEnvironment, config
from funken.api.jobs.client import JobClient
from funken.errors import FunkenError
from funken.timing.clock import SystemClock

T = TypeVar("T")

Build = Callable[[StreamExecutionEnvironment, bool], DataStream[T]]
"""Adds the program to an environment, for the job here (True) or on Spark; its operators have uids. Returns its results."""

_LOOK_SECONDS = 0.05
_END_SECONDS = 10.0


def start_spark(configuration: Configuration, slots: int, wanted: Callable[[], bool]) -> None:
    """Start a session of Funken's own, which the next job of this process finds."""
    importlib.import_module("funken.spark.session").session_for(configuration, None, slots, wanted)


class HandOver:
    """One program in two jobs; ``start`` is what the second one waits for."""

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
        mover.join(_END_SECONDS)

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
