"""Where the records of a data set go: output formats, this process, a Spark ``DataFrame``."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from funken import DataStream, StreamExecutionEnvironment
from funken.api.streams.settings import positive
from funken.dataset.api.operator import DataSetOperator
from funken.dataset.formats.outputs import (
    CollectOutput,
    CsvOutput,
    JsonOutput,
    OutputFormat,
    ParquetOutput,
    PrintOutput,
    TextOutput,
    WriteMode,
)
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import SortField, make_key
from funken.errors import InvalidProgram

if TYPE_CHECKING:
    from funken.dataset.api.environment import ExecutionEnvironment


# ---- ``DataSink``: the end of a program, and the properties that can still be set on it.


class DataSink:
    """Where records go when the program is executed.

    >>> import tempfile
    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> path = tempfile.mkdtemp() + "/pairs"
    >>> sink = env.from_elements((2, "b"), (1, "a")).write_as_csv(path)
    >>> _ = sink.name("pairs").set_parallelism(1).sort_local_output(0)
    >>> result = env.execute()
    >>> env.read_text_file(path).collect()
    ['1,a', '2,b']
    """

    def __init__(self, environment: ExecutionEnvironment, node: nodes.SinkNode) -> None:
        self._current = node
        self._executed = False
        environment._sinks.append(self)

    def _read(self) -> nodes.Node:
        """Return the node for the execution; from then on it is fixed."""
        self._executed = True
        return self._current

    def _change(self, **changes: Any) -> DataSink:
        if self._executed:
            raise InvalidProgram(
                f"the sink {self._current.name!r} was executed already. Set its properties before execute()."
            )
        self._current = dataclasses.replace(self._current, **changes)
        return self

    def name(self, name: str) -> DataSink:
        """Name the sink."""
        return self._change(name=name)

    def set_parallelism(self, parallelism: int) -> DataSink:
        """Set the number of tasks, and so of files."""
        return self._change(parallelism=positive(parallelism, "parallelism"))

    def sort_local_output(self, field: Any, descending: bool = False) -> DataSink:
        """Sort what each task writes; a further call adds a field of less weight."""
        node = self._current
        made = make_key((field,), node.inputs[0].type, "sort_local_output")
        added = SortField(made.paths[0] if made.paths else (), descending, made.selector)
        return self._change(ordering=(*node.ordering, added))


class DataSetResults(DataSetOperator):
    """The half of a data set that ends a program.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> pairs = env.from_elements((1, 5), (2, 3))
    >>> pairs.collect()
    [(1, 5), (2, 3)]

    Files; ``execute`` writes them:

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = pairs.write_as_csv(folder / "csv").set_parallelism(1)
    >>> _ = pairs.write_as_text(folder / "text").set_parallelism(1)
    >>> _ = pairs.write_as_formatted_text(folder / "formatted", lambda pair: f"{pair[0]}!").set_parallelism(1)
    >>> _, _ = pairs.write_as_json(folder / "json"), pairs.write_as_parquet(folder / "parquet")
    >>> result = env.execute()
    >>> [(folder / name).read_text().split() for name in ("csv", "text", "formatted")]
    [['1,5', '2,3'], ['(1,', '5)', '(2,', '3)'], ['1!', '2!']]
    >>> sorted(path.name for path in (folder / "json").iterdir())
    ['1', '2']
    """

    def output(self, output_format: OutputFormat) -> DataSink:
        """Write the records with an output format, when the program is executed; ``OutputFormat`` shows one.

        >>> from funken.dataset import DiscardingOutput, ExecutionEnvironment
        >>> sink = ExecutionEnvironment.create_local_environment().from_elements(1).output(DiscardingOutput())
        """
        node = nodes.SinkNode(
            id=self._environment._next_id(), name="sink", inputs=(self._read("output"),), format=output_format
        )
        return DataSink(self._environment, node)

    def write_as_text(self, path: Any, write_mode: WriteMode = WriteMode.NO_OVERWRITE) -> DataSink:
        """Write ``str(record)`` lines: one file with a parallelism of 1, else a folder of files ``1`` to ``n``."""
        return self.output(TextOutput(path, write_mode))

    def write_as_formatted_text(
        self, path: Any, formatter: Callable[[Any], str], write_mode: WriteMode = WriteMode.NO_OVERWRITE
    ) -> DataSink:
        """Write ``formatter(record)`` lines."""
        return self.output(TextOutput(path, write_mode, formatter))

    def write_as_csv(self, path: Any, write_mode: WriteMode = WriteMode.NO_OVERWRITE, delimiter: str = ",") -> DataSink:
        """Write the fields of each record as a line of CSV."""
        return self.output(CsvOutput(path, write_mode, delimiter))

    def write_as_json(self, path: Any, write_mode: WriteMode = WriteMode.NO_OVERWRITE) -> DataSink:
        """Write each record as a line of JSON."""
        return self.output(JsonOutput(path, write_mode))

    def write_as_parquet(self, path: Any, write_mode: WriteMode = WriteMode.NO_OVERWRITE) -> DataSink:
        """Write records with named fields, or tuples (``f0``, ``f1``), as Parquet."""
        return self.output(ParquetOutput(path, write_mode))

    def collect(self) -> list[Any]:
        """Execute the program, with the sinks that were added, and return the records in the order of the partitions."""
        output = CollectOutput()
        self.output(output)
        self._environment.execute("collect()")
        return output.take()

    def print(self) -> None:
        """Execute the program and print the records.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> env.from_elements("a", "b").print()
        a
        b
        """
        output = PrintOutput()
        self.output(output)
        self._environment.execute("print()")
        output.show()

    def to_data_stream(self, environment: StreamExecutionEnvironment) -> DataStream[Any]:
        """Execute the program and return the records as a bounded stream of an environment; they are kept in this process.

        >>> from funken import StreamExecutionEnvironment
        >>> from funken.dataset import ExecutionEnvironment
        >>> numbers = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements(1, 2)
        >>> stream = numbers.to_data_stream(StreamExecutionEnvironment.create_local_environment(parallelism=1))
        >>> stream.map(lambda n: n + 1).execute_and_collect(limit=2)
        [2, 3]
        """
        return environment.from_collection(self.collect())

    def to_spark(self, spark: Any = None, schema: Any = None) -> Any:
        """Execute the program and return the records as a ``DataFrame`` of Spark, with a column per field.

        The fields of tuples are ``f0``, ``f1``. The rows are kept as Parquet in a temporary folder, which is removed when this
        process ends. Without a ``schema`` the columns are those of the records; if there may be no record, give one. Without a
        session, it is that of the environment, the active one, or a new one.

        >>> from funken.dataset import ExecutionEnvironment
        >>> pairs = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements((1, "a"), (2, "b"))
        >>> pairs.filter(lambda pair: False).to_spark()
        Traceback (most recent call last):
        funken.errors.InvalidProgram: to_spark(): there is no record, so its columns are not known. Give the schema.
        """
        frames = importlib.import_module("funken.dataset.cluster.worker")
        folder = frames.result_folder()
        self.write_as_parquet(f"{folder}/rows")
        self._environment.execute("to_spark()")
        return frames.frame_of(
            f"{folder}/rows", schema, self._environment.get_configuration(), spark or self._environment._spark
        )
