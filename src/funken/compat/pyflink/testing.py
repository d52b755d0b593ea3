"""PyFlink's test bases for jobs that are tested with them: environments in this process, and sinks that collect.

Tables that are written to ``'connector' = 'test-sink'`` are collected, too. ``pyflink.testing.source_sink_utils`` returns
their rows.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import unittest
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from funken import config
from funken.compat.pyflink.environment import RuntimeExecutionMode, StreamExecutionEnvironment
from funken.compat.pyflink.table_environments import StreamTableEnvironment
from funken.compat.pyflink.watermarks import TimestampAssigner
from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.sink import CommitRequest, Committer, Sink, SinkWriter
from funken.table.connectors.contract import SinkTable, TableContext
from funken.table.connectors.factory import TableFactory, register_connector
from funken.table.connectors.values import KeptChanges, KeptRows, results_of
from funken.table.values import java_row
from funken.types.info import TypeInformation
from funken.types.text import written

_COLLECTED: dict[str, list[tuple[Any, str]]] = {}


@dataclass(frozen=True)
class DataStreamTestSinkFunction(Sink):
    """Collects the records of a stream as text: for ``add_sink``, and ``get_results`` after ``execute``.

    >>> from funken import Types
    >>> env, sink = StreamExecutionEnvironment.create_local_environment(1), DataStreamTestSinkFunction()
    >>> pair = Types.TUPLE([Types.STRING(), Types.INT()])
    >>> _ = env.from_collection([("to", 1), ("be", 2)], pair).add_sink(sink)
    >>> _ = env.execute()
    >>> sink.get_results()
    ['(to,1)', '(be,2)']
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    type_info: TypeInformation | None = None

    def of_type(self, type_info: TypeInformation | None) -> Sink:
        """Return the sink for records of a declared type."""
        return replace(self, type_info=type_info)

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return _Collecting(self)

    def committer(self, context: CommitterContext) -> Committer:
        """Make the committer."""
        return _Keeping(self.id)

    def get_results(self, is_python_object: bool = False, stringify: bool = True) -> list[Any]:
        """Return the records as Python or (by default) as Flink writes them, or as they are, and forget them."""
        pairs = _COLLECTED.pop(self.id, [])
        if not stringify:
            return [value for value, _ in pairs]
        return [str(value) if is_python_object else shown for value, shown in pairs]

    def clear(self) -> None:
        """Forget the collected records."""
        _COLLECTED.pop(self.id, None)


class _Keeping(Committer):
    def __init__(self, sink: str) -> None:
        self._sink = sink

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Keep the records that the subtasks collected."""
        _COLLECTED.setdefault(self._sink, []).extend(request.committable for request in requests)


class _Collecting(SinkWriter):
    def __init__(self, sink: DataStreamTestSinkFunction) -> None:
        self._show = str if sink.type_info is None else written(sink.type_info)
        self._pairs: list[tuple[Any, str]] = []

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Collect a block."""
        self._pairs += [(value, self._show(value)) for value in values]

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Return the records collected since the last time."""
        pairs, self._pairs = self._pairs, []
        return pairs


class SecondColumnTimestampAssigner(TimestampAssigner):
    """Takes the second field for the timestamp."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return it."""
        return int(value[1])


class PyFlinkTestCase(unittest.TestCase):
    """A folder, ``tempdir``, for the tests of a class."""

    tempdir: ClassVar[str]
    mode: ClassVar[RuntimeExecutionMode] = RuntimeExecutionMode.STREAMING

    @classmethod
    def setUpClass(cls) -> None:
        """Make the folder."""
        cls.tempdir = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls) -> None:
        """Remove the folder."""
        shutil.rmtree(cls.tempdir, ignore_errors=True)

    @classmethod
    def assert_equals(cls, actual: list[Any], expected: list[Any]) -> None:
        """Compare two lists whose order does not matter; sorts both.

        >>> PyFlinkTestCase.assert_equals(["b", "a"], ["a", "b"])
        """
        actual.sort()
        expected.sort()
        assert actual == expected, f"{actual} != {expected}"

    @classmethod
    def to_py_list(cls, actual: Sequence[Any]) -> list[Any]:
        """Return the items as a list."""
        return list(actual)


class PyFlinkStreamingTestCase(PyFlinkTestCase):
    """An environment, ``env``, for each test: with parallelism 2, in this process unless the options say otherwise."""

    def setUp(self) -> None:
        """Make the environment."""
        self.env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2).set_runtime_mode(self.mode)
        if self.env.get_configuration().get(config.TARGET) == "auto":
            self.env.get_configuration().set(config.TARGET, "local")


PyFlinkITTestCase = PyFlinkStreamingTestCase


class PyFlinkUTTestCase(PyFlinkStreamingTestCase):
    """The same, with a table environment, ``t_env``."""

    def setUp(self) -> None:
        """Make the environments."""
        super().setUp()
        self.t_env = StreamTableEnvironment.create(self.env)


class PyFlinkTableTestCase(PyFlinkTestCase):
    """An environment, ``env``, and a table environment, ``t_env``, for the tests of a class."""

    env: ClassVar[Any]
    t_env: ClassVar[StreamTableEnvironment]

    @classmethod
    def setUpClass(cls) -> None:
        """Make the environments."""
        super().setUpClass()
        cls.env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2).set_runtime_mode(cls.mode)
        if cls.env.get_configuration().get(config.TARGET) == "auto":
            cls.env.get_configuration().set(config.TARGET, "local")
        cls.t_env = StreamTableEnvironment.create(cls.env)


PyFlinkStreamTableTestCase = PyFlinkTableTestCase


class PyFlinkBatchTableTestCase(PyFlinkTableTestCase):
    """The same under ``BATCH``."""

    mode = RuntimeExecutionMode.BATCH


class PyFlinkBatchTestCase(PyFlinkStreamingTestCase):
    """The same under ``BATCH``."""

    mode = RuntimeExecutionMode.BATCH


def exec_insert_table(table: Any, table_path: str) -> Any:
    """Write a table, wait for the end of the job, and return its result."""
    return table.execute_insert(table_path).get_job_client().get_job_execution_result().result()


def run_with_config(config_dict: dict[str, str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that sets options of a test's environment for as long as the test runs."""

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            configuration = self.env.get_configuration()
            before = {key: configuration.to_dict().get(key) for key in config_dict}
            for key, value in config_dict.items():
                configuration.set_string(key, value)
            try:
                return test(self, *args, **kwargs)
            finally:
                for key, value in before.items():
                    if value is None:
                        configuration.remove_config(key)
                    else:
                        configuration.set_string(key, value)

        return run

    return decorate


# ---- tables that are collected

_WRITTEN: dict[str, tuple[KeptChanges, tuple[Any, ...]]] = {}


class CollectedTable(SinkTable):
    """Keeps rows in this process."""

    def __init__(self, context: TableContext) -> None:
        self._name = context.path
        self._id = f"test-sink of {uuid.uuid4().hex}"
        _WRITTEN[self._id] = (results_of(self._id), tuple(type_ for _, type_ in context.columns))

    def sink(self, stream: Any) -> Any:
        """Keep the rows."""
        return stream.sink_to(KeptRows(self._id, ())).name(self._name)


class CollectedTableFactory(TableFactory):
    """Makes tables that are collected."""

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink that keeps the rows."""
        return CollectedTable(context)


def retract_results() -> list[str]:
    """Return the rows that all changes of the tables of ``test-sink`` leave, as text, and forget the changes.

    >>> t_env = StreamTableEnvironment.create(StreamExecutionEnvironment.create_local_environment(1))
    >>> _ = t_env.execute_sql("CREATE TABLE words (word STRING, n BIGINT) WITH ('connector' = 'test-sink')")
    >>> t_env.execute_sql("INSERT INTO words SELECT w, COUNT(*) FROM (VALUES ('a'), ('a')) AS t(w) GROUP BY w").wait()
    >>> retract_results()
    ['+I[a, 2]']
    """
    found = [java_row(row, types) for kept, types in _WRITTEN.values() for row in kept.rows()]
    _WRITTEN.clear()
    return found


results = retract_results

register_connector("test-sink", CollectedTableFactory())

__all__ = [
    "PyFlinkITTestCase",
    "PyFlinkStreamTableTestCase",
    "exec_insert_table",
    "results",
    "retract_results",
    "run_with_config",
]
