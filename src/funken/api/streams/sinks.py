"""The ends of a stream: sinks, or the program itself with ``execute_and_collect``."""

from __future__ import annotations

import importlib
import threading
from html import escape
from typing import TYPE_CHECKING, Any, Literal, overload

from funken import extras
from funken.api.functions import as_user_function
from funken.api.streams.family import Suggesting
from funken.api.streams.settings import OperatorSettings, type_of
from funken.connectors.sink import Sink
from funken.errors import InvalidProgram, JobCancelled
from funken.io.durations import DurationLike, duration_ms
from funken.io.standard import write_out
from funken.operators.sink import CollectSink, ForEach, PrintSink, WriterSink
from funken.operators.user_functions import traits_of
from funken.plan.nodes import Node, NodeInput
from funken.types.callables import Generic, T_co, check_fields, check_kind
from funken.types.convert import ArrowSchema, ArrowTable

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from funken.api.environment import StreamExecutionEnvironment
    from funken.api.jobs.client import CloseableIterator
    from funken.expr.types import Type

_FRAMES = ("connectors.dataframes.sink", "spark.frames")


class DataStreamSink(OperatorSettings, Suggesting):
    """A sink of the program, to be named and configured; it runs when the environment's ``execute`` is called.

    >>> from funken.testing import local
    >>> numbers = local([1, 2])
    >>> sink = numbers.print().name("to the terminal").uid("printed").set_parallelism(2).disable_chaining()
    >>> sink
    <DataStreamSink 'to the terminal'>
    >>> [(vertex.name, vertex.parallelism) for vertex in numbers.get_execution_environment().compile().vertices]
    [('collection', 1), ('to the terminal', 2)]
    """

    _to_streams = "a sink ends one: call it on the stream before the sink"

    def __init__(self, environment: StreamExecutionEnvironment, node: Node) -> None:
        self._environment = environment
        self._sink = node

    def _node(self, what: str) -> Node:
        return self._sink

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._environment.graph[self._sink.id].name!r}>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code><br>{self._environment._repr_html_()}"


class StreamEnds(Generic[T_co]):
    """The part of ``DataStream`` with which a stream ends."""

    _environment: StreamExecutionEnvironment
    _inputs: tuple[NodeInput, ...]

    def _apply(self, name: str, spec: Any, keyed: bool = False, **fields: Any) -> Node:
        """Add a node that reads the stream."""
        raise NotImplementedError

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print records where the program runs, as ``N> record`` if the sink is parallel.

        >>> from funken.testing import local
        >>> words = local(["to", "be"])
        >>> _ = words.print("word")
        >>> _ = words.get_execution_environment().execute()
        word> to
        word> be
        """
        return self._sink("print", PrintSink(sink_identifier, type_of(self)))

    def sink_to(self, sink: Sink[T_co]) -> DataStreamSink:
        """Write records with a connector, such as ``FileSink``; raises ``TypeError`` for other objects.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from funken import Encoder, FileSink
        >>> from funken.testing import local
        >>> words = local(["to", "be"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = words.sink_to(FileSink.for_row_format(folder, Encoder.simple_string_encoder()).build())
        ...     _ = words.get_execution_environment().execute()
        ...     [path.read_text().split() for path in Path(folder).rglob("part-*")]
        [['to', 'be']]
        """
        remedy = (
            "Use for_each() for a function, print() to print, FileSink.for_row_format(path, encoder).build() for files."
        )
        check_kind(sink, Sink, "sink_to()", remedy)
        check_fields(sink)
        return self._sink("sink", WriterSink(sink.of_type(type_of(self))))

    add_sink = sink_to

    def for_each(self, func: Callable[[T_co], object]) -> DataStreamSink:
        """Call ``func(record)`` in the workers, for its effect; at least once per record if the job restarts.

        >>> from funken.testing import local
        >>> words = local(["to", "be"])
        >>> _ = words.for_each(lambda word: print("sent", word))
        >>> _ = words.get_execution_environment().execute()
        sent to
        sent be
        """
        return self._sink("for_each", ForEach(as_user_function(func, "for_each", "for_each()")))

    def _sink(self, name: str, spec: Any) -> DataStreamSink:
        return DataStreamSink(self._environment, self._apply(name, spec))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T_co]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T_co]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T_co]: ...

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None, *, as_arrow: Literal[True]
    ) -> ArrowTable: ...

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None, *, as_pandas: Literal[True]
    ) -> pd.DataFrame: ...

    def execute_and_collect(
        self,
        job_execution_name: str | None = None,
        limit: int | None = None,
        *,
        as_arrow: bool = False,
        as_pandas: bool = False,
    ) -> CloseableIterator[T_co] | list[T_co] | ArrowTable | pd.DataFrame:
        """Run the program and return this stream's records: an iterator to be closed, or a list of ``limit`` records.

        The records of one subtask keep their order. ``as_arrow`` and ``as_pandas`` return a table instead, as ``to_arrow()`` and
        ``to_pandas()`` do. Raises ``ValueError`` for a limit below 1 and for two forms at once, and the job's failure.

        >>> from funken.testing import local
        >>> with local([1, 2, 3]).execute_and_collect() as records:
        ...     sum(records)
        6
        >>> local([("to", 2), ("be", 1)]).execute_and_collect(as_arrow=True).to_pydict()
        {'f0': ['to', 'be'], 'f1': [2, 1]}
        """
        if limit is not None:
            check_kind(limit, int, "limit of execute_and_collect()", "Give a number of records.")
        if limit is not None and limit <= 0:
            raise ValueError(f"limit must be more than 0, but is {limit}")
        if as_arrow and as_pandas:
            raise ValueError("execute_and_collect() returns one form: as_arrow or as_pandas, not both")
        if as_arrow:
            return self.to_arrow(limit, job_execution_name)
        if as_pandas:
            return self.to_pandas(limit, job_execution_name)
        sink = f"collect-{len(self._environment.graph)}"
        self._apply("collect", CollectSink(sink), **self._width())
        iterator: CloseableIterator[T_co] = self._environment._collect(sink, job_execution_name)
        if limit is None:
            return iterator
        with iterator:
            records: list[T_co] = []
            for record in iterator:
                records.append(record)
                if len(records) == limit:
                    break
            return records

    def show(self, n: int = 20, wait: DurationLike = "10 s") -> None:
        """Run the program, show its first ``n`` records as a table, and stop it.

        A stream without end has ``wait`` (a duration) from its first record on for the others. In a notebook the table is
        HTML. Raises ``ValueError`` for ``n`` below 1, and the job's failure.

        >>> from funken.testing import local
        >>> words = local(["to", "be", "or"]).map(lambda word: {"word": word, "length": len(word)})
        >>> words.show(2)
        word  length
        ----  ------
        to         2
        be         2
        """
        check_kind(n, int, "show()", "Give a number of records.")
        if n < 1:
            raise ValueError(f"show() shows at least 1 record, but n is {n}")
        records: list[T_co] = []
        waiting: threading.Timer | None = None
        with self.execute_and_collect("show") as iterator:
            client = iterator.get_job_client()
            try:
                for record in iterator:
                    records.append(record)
                    if len(records) == n:
                        break
                    if waiting is None:
                        waiting = threading.Timer(duration_ms(wait) / 1000, client.cancel)
                        waiting.daemon = True
                        waiting.start()
            except JobCancelled:
                pass  # the time is over
            finally:
                if waiting is not None:
                    waiting.cancel()
        from funken.api.jobs.notebook import display_of_notebook
        from funken.api.jobs.tables import ShownRecords

        display = display_of_notebook()
        if display is None:
            write_out(f"{ShownRecords(records)}\n")
        else:
            display(ShownRecords(records), display_id=False)

    def to_arrow(self, limit: int | None = None, job_execution_name: str | None = None) -> ArrowTable:
        """Run the program and return this stream's records as a ``pyarrow.Table``.

        Fields of dicts, rows, named tuples and dataclasses are columns; those of other tuples are ``f0``, ``f1``, ..., and any
        other record is a column ``value``. Columns have the declared types of the stream, where it has some, also without
        records; else those of the values. Without either they are those that could be traced in the functions, if any.

        Raises ``InvalidProgram`` for a stream without end, unless it has a ``limit``, and for records that do not fit one table.

        >>> from funken.testing import local
        >>> local(["to", "be"]).map(lambda word: {"word": word, "length": len(word)}).to_arrow().to_pydict()
        {'word': ['to', 'be'], 'length': [2, 2]}
        >>> local([1, ("to", 2)]).to_arrow()
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: the records 1 and ('to', 2) do not fit one table: the columns of the one are value, those of
        the other f0, f1. Bring them into one form in a map() before, or collect the streams apart.
        """
        from funken.api.jobs.tables import table_of

        if limit is not None:
            return table_of(self.execute_and_collect(job_execution_name, limit), type_of(self), self._traced)
        endless = [node.name for node in self._environment.graph if not traits_of(node.spec).bounded]
        if endless:
            raise InvalidProgram(
                f"source {endless[0]!r} never ends, and a table does: say how many records are enough (limit=), or bound it."
            )
        with self.execute_and_collect(job_execution_name) as records:
            return table_of(list(records), type_of(self), self._traced)

    def _traced(self) -> Type | None:
        if len(self._inputs) != 1 or self._inputs[0].side is not None:
            return None
        return self._environment._shape_of(self._inputs[0].upstream)

    def to_pandas(self, limit: int | None = None, job_execution_name: str | None = None) -> pd.DataFrame:
        """Run the program and return this stream's records as a ``pandas.DataFrame``; raises errors of ``to_arrow``.

        >>> from funken.testing import local
        >>> print(local([("to", 2), ("be", 1)]).to_pandas())
           f0  f1
        0  to   2
        1  be   1
        """
        extras.load("pandas")
        return self.to_arrow(limit, job_execution_name).to_pandas()

    def to_spark(self, schema: object = None, path: str = "", job_execution_name: str | None = None) -> Any:
        """Return this stream's records as a ``DataFrame`` of Spark, with a column per field (``f0``, ``f1``, ... of tuples).

        Of a stream that ends it runs the program, and the DataFrame is static. Of one that does not it adds a sink, and the
        DataFrame is a streaming one, of the commits of checkpoints: start the job with ``execute_async()``, and a query on the
        DataFrame. Rows change sides as Parquet files in ``path``, a folder or URI; by default a temporary folder of this machine,
        which is removed when this process ends. ``schema`` is one of Spark (or its text) or Arrow, or a record type; by default
        it is the declared type, else that of the records.

        Raises ``InvalidProgram`` for an endless stream whose columns are not known, or that has no checkpoints.

        >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> env.from_source(DataGeneratorSource(str)).to_spark(schema="value string")
        Traceback (most recent call last):
        funken.errors.InvalidProgram: to_spark() of a stream without end shows what checkpoints commit: call ...
        """
        extras.need("spark", "to_spark()")
        staging, files = (importlib.import_module(f"funken.{name}") for name in _FRAMES)
        endless = not all(traits_of(node.spec).bounded for node in self._environment.graph)
        if endless and self._environment.get_checkpoint_config().get_checkpoint_interval() <= 0:
            raise InvalidProgram(
                "to_spark() of a stream without end shows what checkpoints commit: call enable_checkpointing()."
            )
        sink = staging.StagingSink(
            path or staging.temporary_folder(),
            staging.schema_of(schema, "to_spark()"),
            self._known_columns(),
        )
        sink = sink.of_type(type_of(self))
        if endless and sink.schema is None:
            raise InvalidProgram(
                "to_spark() of a stream without end needs its columns: give the schema, or declare the type."
            )
        self._sink("to_spark", WriterSink(sink))
        folder = sink.files.base_path
        if endless:
            return files.stream_of_files(folder, sink.schema, self._environment._session)
        self._environment.execute(job_execution_name or "to_spark()")
        return files.frame_of_folder(folder, sink.schema, self._environment._session)

    def _known_columns(self) -> ArrowSchema | None:
        """Return the columns of the DataFrame that the program reads, as a schema of Arrow; ``None`` if it reads none."""
        frame = self._environment._frame
        return None if frame is None else importlib.import_module(f"funken.{_FRAMES[1]}").arrow_schema(frame.schema)

    def _width(self) -> dict[str, Any]:
        """Return the parallelism of a sink that keeps the order: its operator's, or 1 if several operators differ."""
        if any(given.partitioning is not None for given in self._inputs):
            return {}
        nodes = [self._environment.graph[given.upstream] for given in self._inputs]
        widths = {(node.parallelism, node.parallelism_limit) for node in nodes}
        return dict(zip(("parallelism", "parallelism_limit"), widths.pop() if len(widths) == 1 else (1,), strict=False))
