"""From a program to a job: as a stream or as a batch, and by which of the runners; contradictions are refused.

This is what ``execute()`` and ``explain()`` import, and a program under construction does not: compiler, rules and driver.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import field
from functools import cache
from typing import Any

from funken import config, extras
from funken.checkpoint.settings import CheckpointSettings
from funken.config import Configuration
from funken.connectors.dataframe import RowsSource
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.types import Type
from funken.ids import OperatorId
from funken.leaderelection.election import with_high_availability
from funken.operators.user_functions import traits_of
from funken.plan.nodes import StreamGraph
from funken.plan.physical import PhysicalPlan, compile_plan
from funken.plan.rules.stage import RewriteStage
from funken.runtime.driver.job import Job, Recompile, Runner, runner_for
from funken.runtime.driver.job_checkpoints import JobCheckpoints
from funken.runtime.driver.master import JobMaster
from funken.runtime.settings import TaskSettings, new_job_id
from funken.timing.clock import usable_cores

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submission:
    """A program on its way to a runner: its graph, configuration, Spark session and DataFrame, and the name of its job.

    ``prepare`` is applied to the compiled plan.
    """

    graph: StreamGraph
    configuration: Configuration
    session: object
    frame: object
    name: str | None
    prepare: Callable[[PhysicalPlan], PhysicalPlan]
    plans: dict[int, PhysicalPlan] = field(default_factory=dict)
    """What has been compiled, by the default parallelism."""

    def compiled(self, runner: Runner | None = None) -> PhysicalPlan:
        """Compile the program, without the rules that choose how operators run."""
        conf, width = self.configuration, self.configuration.get(config.PARALLELISM)
        if width < 1:
            width = runner.default_parallelism(conf, self.session) if runner is not None else 1
        if width not in self.plans:
            plan = compile_plan(self.graph, self.name or conf.get(config.NAME), width, conf.get(config.MAX_PARALLELISM))
            self.plans[width] = self.prepare(plan)
        return self.plans[width]

    def stage(self, runner: Runner | None = None) -> RewriteStage:
        """Compile the program, and apply the rules."""
        compiled = self.compiled(runner)
        batch = wants_batch(self.configuration, compiled)
        return RewriteStage.of(compiled, self.configuration, batch, self._cores(compiled))

    def _cores(self, compiled: PhysicalPlan) -> int | None:
        """Return the number of cores that simultaneous workers share, if it is known."""
        try:
            continuous = target_of(self.configuration, compiled, self.frame, self.session) == "continuous"
        except InvalidProgram:  # said where it is run
            return None
        return shared_cores(self.configuration, self.session) if continuous else None

    def shape_of(self, operator: OperatorId) -> Type | None:
        """Return the shape of an operator's output, if the functions before it can be read."""
        compiled = compile_plan(self.graph.up_to(operator), "", 1)
        batch = wants_batch(self.configuration, compiled)
        return RewriteStage.of(compiled, self.configuration, batch).shapes().get(operator)

    def runner(self) -> tuple[Runner, str]:
        """Choose the runner, and name its target."""
        target = target_of(self.configuration, self.compiled(), self.frame, self.session)
        if target == "local" and self.configuration.get(config.TARGET) == "auto":
            _say_without_spark()
        return runner_for(target), target

    def job(self, runner: Runner | None, hold: bool) -> Job:
        """Make the job, and take the program out of its graph."""
        conf = with_high_availability(self.configuration)
        stage = self.stage(runner)
        plan = stage.plan()
        settings = TaskSettings.of(conf, conf.get(config.JOB_ID) or new_job_id(), is_batch(conf, plan))
        checkpoints = None
        if not settings.batch and not hold and self.frame is None and CheckpointSettings.wanted(conf):
            checkpoints = JobCheckpoints.of(plan, conf, settings.job_id)
        conf, again = conf.copy(), recompiler(self.graph.take(), plan.name, conf.copy(), stage.context.cores)
        master = JobMaster(plan, hold, conf)
        return Job(plan, settings, conf, master, self.session, checkpoints, self.frame, stage=stage, recompile=again)


@cache
def _say_without_spark() -> None:
    """Say once that a program does not run on Spark, since nobody has asked for that."""
    logger.warning(
        "PySpark is not installed, so programs run in this process. For Spark: pip install 'funken[spark]'. "
        "With execution.target 'local' there is no such line."
    )


def wants_batch(configuration: Configuration, plan: PhysicalPlan) -> bool:
    """Return True if a program emits each result once; a loop cannot, for it never has all input of an operator."""
    mode = configuration.get(config.RUNTIME_MODE)
    if plan.has_loop:
        _check_loop(configuration, plan)
        return False
    return mode == "batch" or (mode == "automatic" and plan.bounded)


def _check_loop(configuration: Configuration, plan: PhysicalPlan) -> None:
    """Raise ``InvalidProgram`` if a program with a loop is to run stage by stage."""
    name = plan.heads[0].vertex.nodes[0].name
    for option, wrong in ((config.RUNTIME_MODE, "batch"), (config.TARGET, "batch"), (config.TARGET, "micro-batch")):
        if configuration.get(option) == wrong:
            raise InvalidProgram(
                f"{option.key} {wrong!r} cannot run the loop that operator {name!r} begins: an operator would have to "
                "end before the next begins, and what comes back would find none. Use STREAMING or AUTOMATIC with the target "
                "'continuous' or 'local', also for bounded input; or DataSet.iterate() of funken.dataset, which has supersteps."
            )


def is_batch(configuration: Configuration, plan: PhysicalPlan) -> bool:
    """Return True if a program emits each result once; raises ``InvalidProgram`` if it should but never ends."""
    batch = wants_batch(configuration, plan)
    if batch and not plan.bounded:
        names = [node.name for node in plan.nodes if not traits_of(node.spec).bounded]
        raise InvalidProgram(
            f"runtime mode BATCH cannot run unbounded sources, but {', '.join(map(repr, names))} never ends. Use "
            "STREAMING or AUTOMATIC, or bound the source."
        )
    return batch


def target_of(configuration: Configuration, plan: PhysicalPlan, frame: object = None, session: object = None) -> str:
    """Name the runner of a program, and of the DataFrame that it reads; raises ``InvalidProgram`` if there is none.

    A bounded program runs as a batch job in a session that was not made for continuous operators. Without PySpark, all
    programs run in this process.
    """
    batch = is_batch(configuration, plan)
    target = configuration.get(config.TARGET)
    if frame is not None:
        return _target_of_rows(target, plan, frame)
    if target == "micro-batch":
        raise InvalidProgram("execution.target 'micro-batch' is for streaming DataFrames; there is no from_spark().")
    if target == "auto" and not extras.has_spark():
        return "local"
    if target == "auto":
        waits_for_all = plan.bounded and not plan.has_loop and not _is_continuous(session)
        return "batch" if batch or waits_for_all else "continuous"
    if target == "batch" and not plan.bounded:
        raise InvalidProgram("execution.target 'batch' cannot run unbounded sources; use 'continuous' or 'local'.")
    return target


def _target_of_rows(target: str, plan: PhysicalPlan, frame: Any) -> str:
    """Choose the one way in which a program that reads a DataFrame can run."""
    if plan.has_loop:
        raise InvalidProgram(
            f"a program that reads a DataFrame cannot have the loop that operator {plan.heads[0].vertex.nodes[0].name!r} begins: "
            "its stages run one after the other. Read the data with a source of Funken, or use DataSet.iterate() of "
            "funken.dataset."
        )
    needed = "micro-batch" if frame.isStreaming else "batch"
    if target not in ("auto", needed):
        kind = "streaming" if frame.isStreaming else "static"
        raise InvalidProgram(
            f"execution.target {target!r} cannot read a {kind} DataFrame; leave it 'auto', or set {needed!r}."
        )
    traits = [(node.name, traits_of(node.spec)) for node in plan.nodes]
    endless = [name for name, found in traits if not (found.bounded or isinstance(found.source, RowsSource))]
    if endless:
        raise InvalidProgram(
            f"source {endless[0]!r} never ends, so it cannot be read beside a DataFrame. Read it with Spark and union "
            "the two, or bound it."
        )
    return needed


def _spark_context(session: object) -> object:
    """Return the context of a session, else the active one, if there is one; nothing is started to find out."""
    context: object = getattr(session, "sparkContext", None)
    if context is None and "pyspark" in sys.modules:
        context = sys.modules["pyspark"].SparkContext._active_spark_context
    return context


def _is_continuous(session: object) -> bool:
    """Return True if continuous operators can run in the session that there is: one of Funken's has the settings.

    >>> from types import SimpleNamespace
    >>> def having(**settings):
    ...     return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: settings))
    >>> _is_continuous(having()), _is_continuous(having(**{"spark.python.udf.pipelined.enabled": "true"}))
    (False, True)
    """
    settings = getattr(_spark_context(session), "getConf", None)
    if settings is None:
        return True
    return str(settings().get("spark.python.udf.pipelined.enabled", "")).lower() == "true"


def shared_cores(configuration: Configuration, session: object) -> int | None:
    """Return the cores of this machine if the workers of a job are on it, else ``None``; nothing is started to find out.

    >>> from types import SimpleNamespace
    >>> shared_cores(Configuration(), SimpleNamespace(sparkContext=SimpleNamespace(master="yarn")))
    """
    context = _spark_context(session)
    if context is None and "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit chose the master
        return None
    master = str(configuration.get(config.MASTER) if context is None else getattr(context, "master", None))
    return usable_cores() if re.fullmatch(r"|local(\[.*\])?", master) else None


def recompiler(graph: StreamGraph, name: str, configuration: Configuration, cores: int | None) -> Recompile:
    """Return a function that compiles a program again, for another parallelism."""

    def recompile(parallelism: int) -> RewriteStage:
        compiled = compile_plan(graph, name, parallelism, configuration.get(config.MAX_PARALLELISM))
        return RewriteStage.of(compiled, configuration, wants_batch(configuration, compiled), cores)

    return recompile
