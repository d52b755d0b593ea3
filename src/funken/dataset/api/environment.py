"""``ExecutionEnvironment``: where data sets begin, and where the program is planned and executed."""

from __future__ import annotations

import importlib
import linecache
import os
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from os import PathLike
from typing import Any, overload

from funken import Configuration, DataStream, JobExecutionResult, Row, config, extras
from funken.api.jobs.notebook import BatchProgress, batch_shown_in_notebook, batch_watchers
from funken.api.streams.settings import positive
from funken.config.configuration import warn
from funken.dataset.api.dataset import DataSet, DataSink
from funken.dataset.formats.inputs import (
    CollectionInput,
    CsvInput,
    InputFormat,
    JsonInput,
    ParquetInput,
    SequenceInput,
    TextInput,
    check_elements,
)
from funken.dataset.optimizer import optimizer as explaining
from funken.dataset.optimizer.optimizer import Plan, optimize
from funken.dataset.plan import nodes
from funken.dataset.runtime import local
from funken.dataset.runtime.context import Accumulator
from funken.dataset.runtime.pipeline import RunningProgram
from funken.errors import InvalidProgram
from funken.operators.user_functions import traits_of
from funken.plan import unexecuted
from funken.plan.unexecuted import warn_at_exit
from funken.types.callables import T


def cluster() -> Any:
    """Return the module that runs programs on Spark; programs that do not never load pyspark."""
    return importlib.import_module("funken.dataset.cluster.runner")


class DataSetResult(JobExecutionResult):
    """The result of a finished program: its duration, its accumulators, and its use of memory.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> env.from_elements(1).count()
    1
    >>> result = env.get_last_job_execution_result()
    >>> result.spilled_bytes, result.spill_files, result.peak_managed_memory < 1000
    (0, 0, True)
    >>> result.get_all_accumulator_results(), result.iterations
    ({}, [])
    >>> [(each.name, each.records_in, each.records_out) for each in result.progress.operators]
    [('elements', 0, 1), ('count', 1, 1), ('sink', 1, 0)]
    """

    def __init__(self, job_id: str, net_runtime: int, outcome: local.ExecutionOutcome, progress: BatchProgress) -> None:
        super().__init__(job_id, net_runtime)
        self._accumulators: dict[str, Accumulator] = outcome.accumulators
        self.spilled_bytes = outcome.spilled
        self.spill_files = outcome.spill_files
        self.peak_managed_memory = outcome.peak
        self.iterations = outcome.iterations
        self.restarts = outcome.restarts
        self.progress = progress

    def _repr_html_(self) -> str:
        return self.progress._repr_html_()

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the values of all accumulators by name."""
        return {name: accumulator.get_local_value() for name, accumulator in self._accumulators.items()}


class ExecutionEnvironment:
    """Makes data sets, and executes the program that is built of them.

    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> env.generate_sequence(1, 4).map(lambda n: n * n).collect()
    [1, 4, 9, 16]
    >>> env.set_parallelism(1).get_parallelism(), env.get_configuration().get(config.PARALLELISM)
    (1, 1)
    >>> env.from_elements("a", "b").count(), env.from_collection(range(3)).count()
    (2, 3)

    Files:

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> pairs = env.from_elements((1, "a"), (2, "b"))
    >>> _, _ = pairs.write_as_csv(f"{folder}/csv"), pairs.write_as_json(f"{folder}/json")
    >>> _ = pairs.write_as_parquet(f"{folder}/parquet")
    >>> "driver_strategy" in env.get_execution_plan()
    True
    >>> result = env.execute("write files")
    >>> env.get_last_job_execution_result() is result
    True
    >>> env.read_text_file(f"{folder}/csv").collect(), env.read_csv_file(f"{folder}/csv", [int, str]).collect()
    (['1,a', '2,b'], [(1, 'a'), (2, 'b')])
    >>> env.read_json_file(f"{folder}/json").collect(), env.read_parquet_file(f"{folder}/parquet", ["f1"]).collect()
    ([[1, 'a'], [2, 'b']], [('a',), ('b',)])
    """

    def __init__(self, configuration: Configuration | None = None, spark: Any = None) -> None:
        self._configuration = configuration or Configuration()
        self._spark = spark
        self._sinks: list[DataSink] = []
        self._last_id = 0
        self._cached_files: dict[str, str] = {}
        self._last_result: DataSetResult | None = None
        self._built: list[str] = []
        self._dropped: list[tuple[str, int]] = []
        self.unused = False
        warn_at_exit()

    def _complaint(self) -> str:
        """Return that the program never ran, for the end of the script."""
        return unexecuted.never_ran(self._built, "collect() on the data set")

    def _add(self, name: str) -> None:
        if len(self._built) < 8:
            self._built.append(name)
        if not self.unused:
            self.unused = True
            unexecuted.begun.add(self)

    def __del__(self) -> None:
        if self.unused:
            unexecuted.lost.append(self._complaint())

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None, spark: Any = None
    ) -> ExecutionEnvironment:
        """Return an environment that runs on Spark: in the ``SparkSession`` given, the active one, or a new local one.

        With ``execution.target`` set to ``local`` it runs in this process. Nothing starts before the program is executed.

        >>> configuration = Configuration({"execution.target": "local", "parallelism.default": 2})
        >>> ExecutionEnvironment.get_execution_environment(configuration).from_elements(1, 2).count()
        2
        """
        environment = ExecutionEnvironment(config.default_configuration(), spark)
        if configuration is not None:
            environment._configuration.add_all(configuration)
        return environment

    @staticmethod
    def create_local_environment(
        parallelism: int | None = None, configuration: Configuration | None = None
    ) -> ExecutionEnvironment:
        """Return an environment that runs in this process, without Spark: for tests, notebooks and debuggers.

        Without a parallelism there is one subtask per core; all of them run in one thread.
        """
        environment = ExecutionEnvironment(configuration)
        environment._configuration.set(config.TARGET, "local")
        return environment if parallelism is None else environment.set_parallelism(parallelism)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    # ---- settings

    def get_configuration(self) -> Configuration:
        """Return the configuration."""
        return self._configuration

    def get_parallelism(self) -> int:
        """Return the number of tasks per operator; if it is not set, the number of cores of the session or this machine."""
        parallelism = self._configuration.get(config.PARALLELISM)
        if parallelism > 0:
            return parallelism
        return (
            importlib.import_module("funken.spark.submit").default_parallelism(self._spark)
            if self._on_spark
            else os.cpu_count() or 1
        )

    def set_parallelism(self, parallelism: int) -> ExecutionEnvironment:
        """Set the number of tasks per operator."""
        self._configuration.set(config.PARALLELISM, positive(parallelism, "parallelism"))
        return self

    def register_cached_file(self, path: str | PathLike[str], name: str) -> None:
        """Make a file known to functions, which find it with ``get_distributed_cache().get_file(name)``.

        >>> import tempfile
        >>> from funken import MapFunction
        >>> class FromFile(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.name = open(runtime_context.get_distributed_cache().get_file("greeting")).read()
        ...     def map(self, value):
        ...         return f"{self.name}, {value}"
        """
        found = os.path.abspath(os.fspath(path).removeprefix("file://"))
        if not os.path.exists(found):
            raise InvalidProgram(f"register_cached_file(): there is no file {found!r}. Correct the path.")
        if self._cached_files.setdefault(name, found) != found:
            raise InvalidProgram(
                f"register_cached_file(): the name {name!r} stands for another file already. Rename one."
            )

    # ---- sources

    @property
    def _vectorized(self) -> bool:
        return self._configuration.get(config.VECTORIZED)

    def create_input(self, input_format: InputFormat[T]) -> DataSet[T]:
        """Read with an input format; ``InputFormat`` shows one of one's own.

        >>> from funken.dataset.formats.inputs import SequenceInput
        >>> ExecutionEnvironment.create_local_environment(parallelism=1).create_input(SequenceInput(1, 3)).collect()
        [1, 2, 3]
        """
        return self._source(input_format, "source")

    def _source(self, input_format: InputFormat[T], name: str, parallelism: int | None = None) -> DataSet[T]:
        node = nodes.SourceNode(
            id=self._next_id(),
            name=name,
            format=input_format,
            type=input_format.record_type(),
            parallelism=parallelism,
        )
        return DataSet(self, node)

    def from_collection(self, elements: Iterable[T]) -> DataSet[T]:
        """Begin with the elements of a collection; each task has a contiguous part of them."""
        return self._source(CollectionInput(check_elements(elements, "from_collection")), "collection")

    def from_elements(self, *elements: T) -> DataSet[T]:
        """Begin with these elements."""
        return self._source(CollectionInput(check_elements(elements, "from_elements")), "elements")

    def generate_sequence(self, first: int, last: int) -> DataSet[int]:
        """Begin with the numbers from ``first`` to ``last``, both included."""
        return self._source(SequenceInput(first, last, self._vectorized), "sequence")

    def read_text_file(self, path: str | PathLike[str], encoding: str = "utf-8") -> DataSet[str]:
        """Read lines of text: from a file, the files of a folder, or those that match a pattern.

        ``.gz``, ``.bz2``, ``.xz`` and ``.zst`` files are decompressed.
        """
        return self._source(TextInput(os.fspath(path), encoding, self._vectorized), "text")

    @overload
    def read_csv_file(
        self, path: str | PathLike[str], types: Iterable[type], delimiter: str, skip_header: bool, target: type[T]
    ) -> DataSet[T]: ...
    @overload
    def read_csv_file(
        self,
        path: str | PathLike[str],
        types: Iterable[type] = (),
        delimiter: str = ",",
        skip_header: bool = False,
        *,
        target: type[T],
    ) -> DataSet[T]: ...
    @overload
    def read_csv_file(
        self, path: str | PathLike[str], types: Iterable[type] = (), delimiter: str = ",", skip_header: bool = False
    ) -> DataSet[tuple[Any, ...]]: ...
    def read_csv_file(
        self,
        path: str | PathLike[str],
        types: Iterable[type] = (),
        delimiter: str = ",",
        skip_header: bool = False,
        target: type | None = None,
    ) -> DataSet[Any]:
        """Read lines of CSV as tuples of these types, or as objects of the class ``target``."""
        made = CsvInput(os.fspath(path), tuple(types), delimiter, skip_header, target, self._vectorized)
        return self._source(made, "csv")

    def read_json_file(self, path: str | PathLike[str]) -> DataSet[Any]:
        """Read lines of JSON."""
        return self._source(JsonInput(os.fspath(path)), "json")

    @overload
    def read_parquet_file(
        self, path: str | PathLike[str], columns: Iterable[str] = (), *, target: type[T]
    ) -> DataSet[T]: ...
    @overload
    def read_parquet_file(self, path: str | PathLike[str]) -> DataSet[dict[str, Any]]: ...
    @overload
    def read_parquet_file(
        self, path: str | PathLike[str], columns: Iterable[str], target: None = None
    ) -> DataSet[tuple[Any, ...]]: ...
    @overload
    def read_parquet_file(self, path: str | PathLike[str], columns: Iterable[str], target: type[T]) -> DataSet[T]: ...
    def read_parquet_file(
        self, path: str | PathLike[str], columns: Iterable[str] = (), target: type | None = None
    ) -> DataSet[Any]:
        """Read Parquet: dicts, tuples of the chosen columns, or objects of the class ``target``."""
        return self._source(ParquetInput(os.fspath(path), tuple(columns), target, self._vectorized), "parquet")

    def from_spark(self, frame: Any, folder: str | None = None) -> DataSet[Row]:
        """Begin with the rows of a static ``DataFrame`` of Spark, as ``Row`` with its column names.

        They are written once, now, as Parquet: to a folder in ``folder``, or in the temporary folder of this machine. On a
        cluster, name one that all machines share. The files are removed when the data set is not used any more.

        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> env.from_spark("words")
        Traceback (most recent call last):
        funken.errors.InvalidProgram: from_spark() needs a DataFrame of pyspark.sql, but got 'words'.
        """
        return self._source(importlib.import_module("funken.dataset.cluster.worker").rows_of(frame, folder), "spark")

    def from_data_stream(self, stream: DataStream[T]) -> DataSet[T]:
        """Begin with the records of a bounded stream: its program is executed now, and the records are kept in this process.

        >>> from funken.testing import local
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> sorted(env.from_data_stream(local([1, 2, 3]).map(lambda n: n * 2)).collect())
        [2, 4, 6]
        """
        endless = [node.name for node in stream.get_execution_environment().graph if not traits_of(node.spec).bounded]
        if endless:
            raise InvalidProgram(
                f"source {endless[0]!r} never ends, and a data set does. Bound the source, as with count= or set_bounded()."
            )
        with stream.execute_and_collect() as records:
            return self._source(CollectionInput(check_elements(records, "from_data_stream")), "stream")

    # ---- execution

    @property
    def _on_spark(self) -> bool:
        target = self._configuration.get(config.TARGET)
        if target not in ("auto", "local", "batch"):
            raise InvalidProgram(
                f"execution.target {target!r} is for streams; a DataSet program runs on 'batch' (Spark) or 'local'."
            )
        return target != "local" and (target != "auto" or extras.has_spark())

    def _plan(self) -> Plan:
        self._built, self.unused = [], False
        dropped, self._dropped = dict.fromkeys(self._dropped), []
        for file, line in dropped:
            written = linecache.getline(file, line).strip()
            warn(
                f"line {line} of {os.path.basename(file)} drops a data set{written and f' ({written})'}: no operator reads it. "
                "A method returns a new data set, so use that one, as in data = data.filter(...), or call collect() on it."
            )
        if not self._sinks:
            raise InvalidProgram(
                "the program has no sink. Write or output a data set before execute(), or call collect(), count() or print()."
            )
        return optimize([sink._current for sink in self._sinks], self.get_parallelism())

    def explain(self) -> str:
        """Return the chosen plan of the sinks that were added, with costs, and the rejected plans.

        >>> from funken.dataset.formats.outputs import DiscardingOutput
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> _ = env.from_elements((1, 2)).group_by(0).sum(1).output(DiscardingOutput())
        >>> print(env.explain().splitlines()[0])
        Plan, costs: network 4, disk 25, cpu 101
        """
        return explaining.text(self._plan())

    def get_execution_plan(self) -> str:
        """Return the chosen plan as JSON."""
        return explaining.json_text(self._plan())

    def execute(self, job_name: str = "") -> DataSetResult:
        """Run the program up to all sinks that were added since the last execution."""
        try:
            plan = self._plan()
        finally:  # a program that cannot be planned is not tried again with the next one
            for sink in self._sinks:
                sink._read()
            self._sinks = []
        directories = self._configuration.get(config.TEMPORARY_DIRECTORIES).split(",")
        details = (
            plan.sinks,
            self._configuration.get(config.MANAGED_MEMORY),
            [directory.strip() for directory in directories],
            self._configuration.get(config.JOB_PARAMETERS),
            self._cached_files,
        )
        program = RunningProgram(
            job_name or "batch job",
            plan.sinks,
            explained=lambda as_json: explaining.json_text(plan) if as_json else explaining.text(plan),
        )
        program.begin()
        with ExitStack() as watching:
            watching.callback(program.end)
            watching.enter_context(batch_shown_in_notebook(program, self._configuration))
            for watch in batch_watchers():
                watching.enter_context(watch(program))
            if self._on_spark:
                outcome = cluster().run(*details, self._configuration, self._spark, program.name, program)
            else:
                outcome = local.run(*details, program)
            program.end()
        progress = program.progress()
        self._last_result = DataSetResult(uuid.uuid4().hex, int(progress.seconds * 1000), outcome, progress)
        return self._last_result

    def get_last_job_execution_result(self) -> DataSetResult:
        """Return the result of the last execution, also of ``collect``, ``count`` and ``print``."""
        if self._last_result is None:
            raise InvalidProgram("nothing was executed yet. Call execute(), collect(), count() or print() first.")
        return self._last_result
