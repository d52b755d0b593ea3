"""A job as the runners see it, and the runners by name.

A runner takes a ``Job`` and returns when it has finished, was cancelled, or raises what made it fail. Runners are
found by name and imported when first used: the API refers to Spark only by the text ``funken.spark.submit``.
"""

from __future__ import annotations

import importlib
import threading
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from funken.config import Configuration
from funken.plan.physical import PhysicalPlan
from funken.runtime.driver.checkpoints import JobCheckpoints
from funken.runtime.driver.master import JobMaster
from funken.runtime.interruption import Interruption
from funken.runtime.settings import TaskSettings


@dataclass
class Job:
    """One submission: the plan, how it is to run, and the master that follows it. ``session`` is the runner's own."""

    plan: PhysicalPlan
    settings: TaskSettings
    configuration: Configuration
    master: JobMaster
    session: Any = None
    checkpoints: JobCheckpoints | None = None
    frame: Any = None
    """The Spark DataFrame whose rows the program reads, if it reads one."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    suspended: bool = False
    """Whether it was stopped because its program ends, and not because nobody wants it any more."""
    checked: bool = False
    """Whether an attempt has found all sources and sinks in order."""
    ran: bool = False
    """Whether all tasks of an attempt were open once."""
    interruption: Interruption = field(default_factory=Interruption)

    @property
    def restartable(self) -> bool:
        """Whether another attempt makes sense.

        In a Spark batch job Spark itself has repeated what failed; and a job that has come to its end, with a commit that
        failed, can only be started anew.
        """
        return not self.master.buffers_output and not self.master.over

    def begin_attempt(self, attempt: int) -> None:
        """Make everything ready for an attempt: its settings, and from the second on a master of its own."""
        self.settings = replace(self.settings, attempt=attempt)
        if attempt:
            collectors = self.master.collectors
            self.master = JobMaster(self.plan)
            self.master.collectors = collectors
        if self.checkpoints is not None:
            self.checkpoints.claim()
            restoration = self.checkpoints.restoration()
            self.settings = replace(self.settings, checkpoints=self.checkpoints.plan_for(restoration))
            self.checkpoints.attach(self.master, attempt, restoration)
        if self.cancelled.is_set():
            self.master.cancel()

    def check(self) -> None:
        """Look at every source and sink before the tasks of an attempt are made; raise what they raise."""
        self.master.check()
        self.checked = True

    def cancel(self) -> None:
        """Request that the job stops."""
        self.cancelled.set()
        self.master.cancel()


class Runner(Protocol):
    """A way to run a plan."""

    def default_parallelism(self, configuration: Configuration, session: Any) -> int:
        """How many subtasks an operator gets by default."""

    def run(self, job: Job) -> None:
        """Run the job to its end; raise ``JobExecutionError`` if it fails; return early if it is cancelled."""


RUNNERS = {
    "local": "funken.runtime.driver.local:LocalRunner",
    "batch": "funken.spark.submit:BatchRunner",
    "micro-batch": "funken.spark.microbatch:MicroBatchRunner",
    "continuous": "funken.spark.submit:ContinuousRunner",
}


def runner_for(target: str) -> Runner:
    """Import and make the runner of a target."""
    module, name = RUNNERS[target].split(":")
    runner: Runner = getattr(importlib.import_module(module), name)()
    return runner
