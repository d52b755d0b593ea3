"""Sinks: a connector's writer, a callable per record, printing, and collecting for the program that runs the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from funken.connectors.base import ReaderContext, Sink, SinkWriter
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.stateless import UserFunctionOperator
from funken.operators.user_functions import UserFunction
from funken.types.info import TypeInformation
from funken.types.text import printed


@dataclass(frozen=True)
class WriterSink:
    """A connector's sink."""

    sink: Sink

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        return WriterSinkLogic(self.sink)


class WriterSinkLogic(Operator):
    """Writes blocks; at the end of the input hands what is to be committed to the driver."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writer: SinkWriter | None = None
        self._ended = False

    def open(self) -> None:
        """Open a writer."""
        context = self.context
        place = ReaderContext(context.operator, context.subtask, context.parallelism, context.job_id, context.attempt)
        self._writer = self._sink.writer(place)
        self._writer.open()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Write a block."""
        assert self._writer is not None
        self._writer.write(values, timestamps, self.context.processing_time())

    def finish(self) -> None:
        """Prepare the last transaction; with checkpoints, the last of them does it."""
        assert self._writer is not None
        self._writer.flush()
        self._ended = True
        if not self.context.checkpointing:
            self.context.report("commit", self.prepare_commit())

    def prepare_commit(self) -> Sequence[Any]:
        """Close the transaction."""
        if self._writer is None:
            return ()
        return self._writer.prepare_commit(end_of_input=self._ended)

    def close(self) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()


@dataclass(frozen=True)
class ForEach:
    """A function called for its effect."""

    function: UserFunction

    def build(self) -> Operator:
        """Make the logic."""
        return ForEachLogic(self.function)


class ForEachLogic(UserFunctionOperator):
    """Calls a function per record and drops what it returns."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Call for each."""
        call = self.call
        for value in values:
            call(value)


@dataclass(frozen=True)
class PrintSink:
    """``print()``: lines appear where the program runs, with Flink's prefixes, written as the declared type is."""

    identifier: str | None = None
    type_info: TypeInformation | None = None

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        return PrintLogic(self.identifier, self.type_info)


class PrintLogic(Operator):
    """Sends lines to the driver, a block at a time."""

    changes_records = False

    def __init__(self, identifier: str | None, type_info: TypeInformation | None) -> None:
        self._identifier = identifier
        self._show = printed(type_info)
        self._prefix = ""

    def open(self) -> None:
        """Find the prefix: ``id:N>``, ``id>``, ``N>``, or nothing at parallelism 1."""
        parts = [self._identifier] if self._identifier else []
        if self.context.parallelism > 1:
            parts.append(str(self.context.subtask + 1))
        self._prefix = ":".join(parts) + "> " if parts else ""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Show a block."""
        prefix, show = self._prefix, self._show
        self.context.report("print", [prefix + show(value) for value in values])


@dataclass(frozen=True)
class CollectSink:
    """Sends records to the program that runs the job (``execute_and_collect``)."""

    name: str

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        return CollectLogic(self.name)


class CollectLogic(Operator):
    """Sends blocks of records to the driver."""

    changes_records = False

    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Send a block."""
        self.context.report("collect", (self._name, list(values)))
