"""How a program runs: as a stream or as a batch, and by which of the runners; what contradicts itself is refused."""

from __future__ import annotations

import enum
import os
import re
import sys
from typing import Any

from funken import config
from funken.config import Configuration
from funken.connectors.dataframe import RowsSource
from funken.errors import InvalidProgram
from funken.operators.traits import traits_of
from funken.plan.graph import StreamGraph
from funken.plan.physical import PhysicalPlan, compile_plan
from funken.plan.rules.stage import RewriteStage
from funken.runtime.driver.rescaling import Recompile
from funken.timing.clock import usable_cores


class RuntimeExecutionMode(enum.Enum):
    """Whether results come as they develop (STREAMING), or once; AUTOMATIC is BATCH if every source is bounded.

    >>> from funken import StreamExecutionEnvironment
    >>> def totals(mode):
    ...     env = StreamExecutionEnvironment.create_local_environment(parallelism=1).set_runtime_mode(mode)
    ...     with env.from_collection([1, 2, 3]).key_by(lambda n: "all").sum().execute_and_collect() as results:
    ...         return list(results)
    >>> totals(RuntimeExecutionMode.STREAMING), totals(RuntimeExecutionMode.BATCH)
    ([1, 3, 6], [6])
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2


def wants_batch(configuration: Configuration, plan: PhysicalPlan) -> bool:
    """Whether a program is to give each result once; one with a loop cannot, for it never has all input of an operator."""
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
    """Whether a program gives each result once; raises ``InvalidProgram`` if that was asked for and it never ends."""
    batch = wants_batch(configuration, plan)
    if batch and not plan.bounded:
        names = [node.name for node in plan.nodes if not traits_of(node.spec).bounded]
        raise InvalidProgram(
            f"runtime mode BATCH cannot run unbounded sources, but {', '.join(map(repr, names))} never ends. Use "
            "STREAMING or AUTOMATIC, or bound the source."
        )
    return batch


def target_of(configuration: Configuration, plan: PhysicalPlan, frame: Any = None, session: object = None) -> str:
    """Name the runner of a program, and of the DataFrame that it reads; raises ``InvalidProgram`` if there is none.

    A bounded program runs as a batch job in a session that was not made for continuous operators.
    """
    batch = is_batch(configuration, plan)
    target = configuration.get(config.TARGET)
    if frame is not None:
        return _target_of_rows(target, plan, frame)
    if target == "micro-batch":
        raise InvalidProgram("execution.target 'micro-batch' is for streaming DataFrames; there is no from_spark().")
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
    """Whether continuous operators can run in the session that there is: one of Funken's has the settings.

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
    """Return what compiles a program again, for another parallelism."""

    def recompile(parallelism: int) -> RewriteStage:
        compiled = compile_plan(graph, name, parallelism, configuration.get(config.MAX_PARALLELISM))
        return RewriteStage.of(compiled, configuration, wants_batch(configuration, compiled), cores)

    return recompile
