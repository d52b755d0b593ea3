"""``StreamExecutionEnvironment``: sources in, a plan out, and the ways to run it.

It holds the program under construction and its configuration, and hands the compiled plan to a runner; of Spark it
knows a session that it passes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from funken import config
from funken.api.options import CheckpointConfig, ExecutionConfig, RuntimeExecutionMode
from funken.api.reading import ReadShortcuts
from funken.api.streams.family import StaysHere
from funken.api.streams.settings import positive
from funken.api.streams.stream import DataStream, check_strategy
from funken.config import Configuration
from funken.config.configuration import warn
from funken.connectors.base import Source
from funken.connectors.collection import CollectionSource
from funken.errors import FunkenError, InvalidProgram
from funken.io.durations import DurationLike, duration_ms
from funken.operators.source import SourceSpec
from funken.plan.nodes import NodeInput, StreamGraph
from funken.plan.unexecuted import started, warn_at_exit
from funken.timing.watermarks import WatermarkStrategy
from funken.types.callables import S, check_collection, check_fields, check_kind
from funken.types.convert import converter
from funken.types.info import TypeInformation, declared
from funken.types.row import Row

if TYPE_CHECKING:
    from funken.api.jobs.client import CloseableIterator, JobClient
    from funken.api.jobs.results import JobExecutionResult
    from funken.api.submission import Submission
    from funken.expr.types import Type
    from funken.ids import OperatorId
    from funken.plan.physical import PhysicalPlan
    from funken.runtime.driver.job import Job, Runner


# ---- A program as text, JSON and a picture: what ``explain()`` returns, and what a notebook shows of an
# environment.


class ProgramDisplay:
    """The part of an environment that shows its program: as it stands, else the one that was executed last."""

    graph: StreamGraph
    _executed: PhysicalPlan | None = None

    def compile(self, name: str | None = None) -> PhysicalPlan:
        """Compile the program as it stands."""
        raise NotImplementedError

    def _shown(self) -> PhysicalPlan:
        self.graph.unused = False
        return self._executed if self._executed is not None and not len(self.graph) else self.compile()

    def explain(self, format: str = "text") -> str:
        """Return the plan: stages, vertices, edges, decisions of rules; as ``text``, ``json``, or drawn as ``svg``.

        After ``execute()`` it is the plan of the executed program, until something is added.

        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
        >>> _ = env.from_collection([1]).key_by(lambda x: x).sum().print()
        >>> print(env.explain())
        Flink Streaming Job: 2 stages, 3 task slots
        stage 0 (width 1)
          [0] collection
              columns: collection: per record: has fewer than 200,000 elements
              fusion: one loop: key_by (inlined)
              -> [1] by HASH
        stage 1 (width 2)
          [1] sum -> print  x2
              columns: sum: per record: 'collection' gives it single records
              columns: print: per record: 'sum' gives it single records
              fusion: one loop: key (inlined) + sum
        rules, in this order: chaining, errors, state backend, columns, projection, pre-aggregation, fusion, declared types,
        batch order, workers
        """
        from funken.plan.explain import explain_json, explain_text, plan_svg

        plan = self._shown()
        return {"json": explain_json, "svg": plan_svg}.get(format, explain_text)(plan)

    def get_execution_plan(self) -> str:
        """Return the plan as JSON.

        >>> import json
        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
        >>> _ = env.from_collection([1]).key_by(lambda x: x).sum().print()
        >>> [(edge["from"], edge["to"], edge["partitioning"]) for edge in json.loads(env.get_execution_plan())["edges"]]
        [(0, 1, 'HASH')]
        """
        return self.explain("json")

    def __repr__(self) -> str:
        operators = len(self.graph)
        return f"<{type(self).__name__}: {operators} operator{'s' * (operators != 1)}>"

    def _repr_html_(self) -> str:
        from funken.plan.explain import plan_svg

        try:
            return plan_svg(self._shown())
        except FunkenError as error:
            return f"<code>{escape(repr(self))}</code> {escape(str(error))}"


class StreamExecutionEnvironment(ReadShortcuts, ProgramDisplay, StaysHere):
    """An environment in which a program begins and is executed.

    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> _ = env.from_collection(["b", "a"]).map(str.upper).print()
    >>> result = env.execute("letters")
    B
    A

    Most settings of a program's execution are options of its configuration, and have a method too:

    >>> env = env.set_parallelism(2).set_max_parallelism(64).set_buffer_timeout(5).disable_operator_chaining()
    >>> env.get_parallelism(), env.get_max_parallelism(), env.get_buffer_timeout(), env.is_chaining_enabled()
    (2, 64, 5, False)
    >>> env.get_configuration().to_dict()["execution.buffer-timeout.interval"]
    5
    >>> env = env.configure(Configuration({"execution.checkpointing.interval": "10 s"}))
    >>> env.get_checkpoint_config().get_checkpoint_interval()
    10000
    """

    _to_streams = "from_collection(), from_source() or read_text_file() makes one"

    def __init__(self, configuration: Configuration | None = None, session: Any = None) -> None:
        self._configuration = configuration.copy() if configuration else Configuration()
        self._session = session
        self._frame: Any = None
        self.graph = StreamGraph()
        warn_at_exit()

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None, spark: Any = None
    ) -> StreamExecutionEnvironment:
        """Return an environment that runs on Spark: in the ``SparkSession`` given, the active one, or a new local one.

        The option ``execution.target`` chooses another way to run; see ``funken.config``. Options of the command line
        (``funken run -D``) count where neither ``configuration`` nor the program sets them. Nothing starts before
        ``execute``.

        >>> configuration = Configuration({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(configuration)
        >>> env.from_collection(["on", "Spark", "without", "it"]).filter(str.islower).execute_and_collect(limit=3)
        ['on', 'without', 'it']
        """
        environment = StreamExecutionEnvironment(config.default_configuration(), spark)
        return environment.configure(configuration) if configuration else environment

    @staticmethod
    def create_local_environment(
        parallelism: int | None = None, configuration: Configuration | None = None
    ) -> StreamExecutionEnvironment:
        """Return an environment that runs in this process, without Spark: for tests, notebooks and debuggers.

        Without a parallelism there is one subtask per core; all of them run in one thread.
        """
        environment = StreamExecutionEnvironment(configuration)
        environment._configuration.set(config.TARGET, "local")
        return environment if parallelism is None else environment.set_parallelism(parallelism)

    # ---- sources

    def from_collection(self, collection: Iterable[S], type_info: TypeInformation | None = None) -> DataStream[S]:
        """Read a collection; bounded, in one subtask. A declared type is applied to the elements at once.

        >>> from funken import Row, Types
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> type_info = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
        >>> people = env.from_collection([("ann", 33), Row(name="bob", age=29)], type_info)
        >>> people.map(lambda person: person.name).execute_and_collect(limit=2)
        ['ann', 'bob']
        """
        check_collection(collection, "from_collection()")
        of = declared(type_info)
        elements: Iterable[S] = collection
        if of is not None:
            elements = [*map(converter(of, lambda text: warn(f"from_collection(): {text}")), collection)]
        return self.from_source(CollectionSource(elements), WatermarkStrategy.no_watermarks(), "collection", of)

    def from_source(
        self,
        source: Source[S],
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str = "source",
        type_info: TypeInformation | None = None,
    ) -> DataStream[S]:
        """Read a source, with timestamps and watermarks by a strategy, per split; none by default.

        ``type_info`` declares the type of the records. Raises ``TypeError`` for an object that is no ``Source``.

        >>> from funken import NumberSequenceSource
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 1000)
        >>> numbers = env.from_source(NumberSequenceSource(1, 3), strategy, "numbers")
        >>> numbers.process(lambda n, ctx: [(n, ctx.timestamp())]).execute_and_collect(limit=3)
        [(1, 1000), (2, 2000), (3, 3000)]
        """
        check_kind(source, Source, "from_source()", "from_collection() reads a list, read_text_file() a file.")
        check_fields(source)
        if watermark_strategy is not None:
            check_strategy(watermark_strategy, "from_source()")
        node = self.graph.add(
            name=source_name,
            kind=f"source {type(source).__name__}",
            spec=SourceSpec(source, watermark_strategy or WatermarkStrategy.no_watermarks(), declared(type_info)),
            parallelism_limit=source.max_parallelism,
        )
        return DataStream(self, (NodeInput(node.id),))

    def from_spark(
        self,
        frame: Any,
        watermark_strategy: WatermarkStrategy[Row] | None = None,
        source_name: str = "spark",
    ) -> DataStream[Row]:
        """Read a Spark ``DataFrame`` as a stream of ``Row`` with its column names; one per program.

        A static one is read by a Spark batch job. A *streaming* one runs in micro-batches (``foreachBatch``), for sources
        and queries that real-time mode cannot run: the same program and the same state from batch to batch, exactly once
        per batch. Its watermark rises at the end of a batch, because the rows of a batch come partition after partition.
        Name ``execution.checkpointing.dir`` and ``execution.job-id`` to go on after the program was stopped or died;
        ``execution.micro-batch.interval`` and ``.available-now`` say when batches begin and whether it ends by itself.

        Raises ``InvalidProgram`` for other objects than DataFrames of classic (not Connect) PySpark, or for a second one.

        >>> StreamExecutionEnvironment.get_execution_environment().from_spark("words")
        Traceback (most recent call last):
        funken.errors.InvalidProgram: from_spark() needs a DataFrame of pyspark.sql, but got 'words'
        """
        if not (hasattr(frame, "isStreaming") and hasattr(frame, "mapInArrow")):
            raise InvalidProgram(f"from_spark() needs a DataFrame of pyspark.sql, but got {frame!r}")
        if not hasattr(frame, "_jdf"):
            raise InvalidProgram(
                "from_spark() cannot read a DataFrame of Spark Connect: it needs a SparkSession of its own."
            )
        if self._frame is not None:
            raise InvalidProgram(
                "the program reads a second DataFrame: from_spark() can be called once. Join or union them in Spark first."
            )
        from funken.connectors.dataframe import RowsSource

        rows = RowsSource(tuple(frame.columns), frame.isStreaming, frame.schema)
        stream = self.from_source(rows, watermark_strategy, source_name)
        self._frame = frame
        return stream

    # ---- configuration

    def configure(self, configuration: Configuration | Mapping[str, object]) -> StreamExecutionEnvironment:
        """Take over all options that are set in ``configuration``, also a dict of them; raises ``InvalidConfiguration``.

        >>> env = StreamExecutionEnvironment.create_local_environment().configure({"pipeline.vectorized": False})
        >>> env.get_configuration().get(config.VECTORIZED)
        False
        """
        given = configuration if isinstance(configuration, Configuration) else Configuration(configuration)
        self._configuration.add_all(given)
        return self

    def get_configuration(self) -> Configuration:
        """Return the configuration; changes to it take effect."""
        return self._configuration

    def get_config(self) -> ExecutionConfig:
        """Return the part of the configuration that Flink keeps in an ``ExecutionConfig``.

        >>> env = StreamExecutionEnvironment.create_local_environment()
        >>> _ = env.get_config().set_auto_watermark_interval(50)
        >>> env.get_configuration().get(config.AUTO_WATERMARK_INTERVAL)
        50
        """
        return ExecutionConfig(self._configuration)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the part of the configuration that concerns checkpoints."""
        return CheckpointConfig(self._configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the default number of subtasks of an operator; raises ``InvalidProgram`` below 1."""
        self._configuration.set(config.PARALLELISM, positive(parallelism, "parallelism"))
        return self

    def get_parallelism(self) -> int:
        """Return the default parallelism, -1 if it was not set."""
        return self._configuration.get(config.PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups, which no operator can have more subtasks than; kept state depends on it."""
        self._configuration.set(config.MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, -1 if it was not set."""
        return self._configuration.get(config.MAX_PARALLELISM)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Choose between STREAMING, BATCH and AUTOMATIC; BATCH raises ``InvalidProgram`` at ``execute`` if a source is unbounded.

        >>> from funken import DataGeneratorSource
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH).from_source(DataGeneratorSource(str), None, "endless").print()
        >>> env.execute()
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: runtime mode BATCH cannot run unbounded sources, but 'endless' never ends. Use ...
        """
        check_kind(execution_mode, RuntimeExecutionMode, "set_runtime_mode()", "Give RuntimeExecutionMode.BATCH, say.")
        self._configuration.set(config.RUNTIME_MODE, execution_mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: DurationLike) -> StreamExecutionEnvironment:
        """Set the longest wait of a record for its block to fill (a duration, or ms; 0: none; -1: until it is full)."""
        self._configuration.set_duration(config.BUFFER_TIMEOUT, timeout_millis)
        return self

    def get_buffer_timeout(self) -> int:
        """Return the longest wait of a record for its block to fill (ms)."""
        return self._configuration.get(config.BUFFER_TIMEOUT)

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Keep every operator in a vertex of its own."""
        self._configuration.set(config.CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Tell whether operators are chained."""
        return self._configuration.get(config.CHAINING)

    def enable_checkpointing(self, interval: DurationLike, mode: Any = None) -> StreamExecutionEnvironment:
        """Take a checkpoint every ``interval`` (a duration, or ms): the state survives failures, and sinks commit with it.

        Name a place that all machines reach with ``execution.checkpointing.dir``; without it, checkpoints are in a
        temporary folder of this machine and last as long as the job.

        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1).enable_checkpointing(1000)
        >>> env.get_checkpoint_config().get_checkpoint_interval()
        1000
        """
        if duration_ms(interval) == 0:
            raise InvalidProgram(
                "enable_checkpointing(0): 0 is no interval. Pass the time between two checkpoints, such as '10 s'."
            )
        self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            self.get_checkpoint_config().set_checkpointing_mode(mode)
        return self

    # ---- running

    def compile(self, name: str | None = None) -> PhysicalPlan:
        """Compile the program as it stands, without running it.

        Raises ``InvalidProgram`` for an empty program, and for settings of operators that contradict each other.

        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
        >>> _ = env.from_collection([1]).key_by(lambda x: x).sum().print()
        >>> plan = env.compile()
        >>> [(vertex.name, vertex.parallelism) for vertex in plan.vertices], plan.slots
        ([('collection', 1), ('sum -> print', 2)], 3)
        """
        self.graph.unused = False
        return self._submission(name).stage().plan()

    def _submission(self, name: str | None) -> Submission:
        from funken.api.submission import Submission

        return Submission(self.graph, self._configuration, self._session, self._frame, name, self._prepared)

    def _prepared(self, plan: PhysicalPlan) -> PhysicalPlan:
        """Return a compiled plan as it is to run."""
        return plan

    def _shape_of(self, operator: OperatorId) -> Type | None:
        """Return the shape of an operator's results, if it can be traced in the functions of the program."""
        return self._submission("").shape_of(operator)

    def _in_a_function(self) -> str:
        return (
            "the StreamExecutionEnvironment; take the values that it needs into variables before, or into open() of a function "
            "object"
        )

    def _submit(self, name: str | None) -> JobClient:
        from funken.api.jobs.client import JobClient

        if name is not None:
            check_kind(name, str, "execute()", "Its argument is the name of the job.")
        submission = self._submission(name)
        runner, target = submission.runner()
        return JobClient(self._job(submission, runner, target == "batch"), runner, served=target != "local")

    def job(self, name: str | None = None, runner: Runner | None = None, hold: bool = False) -> Job:
        """Take the program as a job that a runner can run; the environment is empty afterwards.

        ``hold`` keeps a task's output back until the task has finished, for runners that repeat tasks. ``execute`` does
        all this by itself.

        >>> from funken.runtime.driver.local_runner import LocalRunner
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> _ = env.from_collection(["by", "hand"]).print()
        >>> LocalRunner().run(env.job("my job"))
        by
        hand
        """
        return self._job(self._submission(name), runner, hold)

    def _job(self, submission: Submission, runner: Runner | None, hold: bool) -> Job:
        job = submission.job(runner, hold)
        self._executed, self._frame = job.plan, None
        return job

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program to its end; the environment is empty afterwards.

        Raises ``InvalidProgram`` for a program that cannot be planned, and ``JobExecutionError`` for a job that failed.
        Ctrl-C stops the job and leaves nothing of it behind.

        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> _ = env.from_collection([2, 0]).map(lambda x: 1 // x).name("invert").print()
        >>> env.execute("fractions")
        Traceback (most recent call last):
        ...
        funken.errors.OperatorFailed: operator 'invert' (subtask 0) failed at the record 0: ZeroDivisionError: ...
        """
        return self._submit(job_name).run()

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the program and return at once, with a client to watch and cancel it.

        The job's failure is raised where its result is asked for.

        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> _ = env.from_collection(["b", "a"]).print()
        >>> result = env.execute_async("letters").get_job_execution_result().result()
        b
        a
        """
        client = self._submit(job_name)
        client.start()
        started.add(client)
        return client

    def _collect(self, sink: str, job_name: str | None) -> CloseableIterator[Any]:
        """Start the program and return the records of a ``CollectSink`` of it."""
        from funken.api.jobs.client import CloseableIterator

        client = self._submit(job_name)
        collector = client._collector(sink)
        client.start()
        return CloseableIterator(collector, client)

    def close(self) -> None:
        """Release the environment; a Spark session that Funken made is kept for the next job.

        >>> from contextlib import closing
        >>> with closing(StreamExecutionEnvironment.create_local_environment(parallelism=1)) as env:
        ...     env.from_collection([1]).execute_and_collect(limit=1)
        [1]
        """
