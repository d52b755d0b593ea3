"""PyFlink's test bases for jobs that are tested with them: environments in this process, and a sink that collects."""

from __future__ import annotations

import shutil
import tempfile
import unittest
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from funken import config
from funken.compat.pyflink.environment import RuntimeExecutionMode, StreamExecutionEnvironment
from funken.compat.pyflink.watermarks import TimestampAssigner
from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.sink import CommitRequest, Committer, Sink, SinkWriter
from funken.types.info import TypeInformation
from funken.types.text import written

_COLLECTED: dict[str, list[tuple[Any, str]]] = {}


@dataclass(frozen=True)
class DataStreamTestSinkFunction(Sink):
    """Collects what a stream emits, as text: for ``add_sink``, and ``get_results`` after ``execute``.

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
        """Forget what was collected."""
        _COLLECTED.pop(self.id, None)


class _Keeping(Committer):
    def __init__(self, sink: str) -> None:
        self._sink = sink

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Keep what the subtasks collected."""
        _COLLECTED.setdefault(self._sink, []).extend(request.committable for request in requests)


class _Collecting(SinkWriter):
    def __init__(self, sink: DataStreamTestSinkFunction) -> None:
        self._show = str if sink.type_info is None else written(sink.type_info)
        self._pairs: list[tuple[Any, str]] = []

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Collect a block."""
        self._pairs += [(value, self._show(value)) for value in values]

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Return what was collected since the last time."""
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


class PyFlinkStreamingTestCase(PyFlinkTestCase):
    """An environment, ``env``, for each test: with parallelism 2, in this process unless the options say otherwise."""

    def setUp(self) -> None:
        """Make the environment."""
        self.env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2).set_runtime_mode(self.mode)
        if self.env.get_configuration().get(config.TARGET) == "auto":
            self.env.get_configuration().set(config.TARGET, "local")


class PyFlinkUTTestCase(PyFlinkStreamingTestCase):
    """The same."""


class PyFlinkITTestCase(PyFlinkStreamingTestCase):
    """The same."""


class PyFlinkBatchTestCase(PyFlinkStreamingTestCase):
    """The same under ``BATCH``."""

    mode = RuntimeExecutionMode.BATCH


__all__ = [
    "DataStreamTestSinkFunction",
    "PyFlinkBatchTestCase",
    "PyFlinkITTestCase",
    "PyFlinkStreamingTestCase",
    "PyFlinkTestCase",
    "PyFlinkUTTestCase",
    "SecondColumnTimestampAssigner",
]
