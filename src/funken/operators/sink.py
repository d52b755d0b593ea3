"""Sinks: a connector's writer, a callable per record, printing, and collecting for the program that runs the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.connectors.base import declares
from funken.connectors.sink import DeliveryGuarantee, PreparedCommittable, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.io.shapes import dumps_records
from funken.operators.base import Operator, Timestamps, Values, connector_context
from funken.operators.coordinators import (
    CollectCoordinator,
    CommitCoordinator,
    OperatorCoordinatorContext,
    PrintCoordinator,
)
from funken.operators.stateless import UserFunctionOperator
from funken.operators.user_functions import LoopCall, OperatorTraits, UserFunction
from funken.types.info import TypeInformation
from funken.types.text import printed

WRITER_STATE = "writer"
"""The name of the states of writers in the operator's state: they are redistributed as a list."""


@dataclass(frozen=True)
class WriterSink:
    """A connector's sink."""

    sink: Sink

    @property
    def traits(self) -> OperatorTraits:
        """It is a sink."""
        never_waits = self.sink.never_waits and declares(self.sink, "never_waits", "writer")
        exactly_once = DeliveryGuarantee.EXACTLY_ONCE
        commits = type(self.sink).committer is not Sink.committer
        return OperatorTraits(
            sink=True,
            calls=() if never_waits else None,
            folder=self.sink.written_folder,
            commits=commits and getattr(self.sink, "guarantee", exactly_once) is exactly_once,
        )

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        return WriterSinkLogic(self.sink)

    def coordinator(self, context: OperatorCoordinatorContext) -> CommitCoordinator:
        """Make the committer, on the driver."""
        return CommitCoordinator(context, self.sink)


class WriterSinkLogic(Operator):
    """Writes blocks; at the end of the input hands the committables to the driver."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.changes_records = not (sink.reads_only and declares(sink, "reads_only", "writer"))
        self._writer: SinkWriter | None = None
        self._ended = False

    def open(self) -> None:
        """Make a writer, restore its state and open it."""
        self._writer = self._sink.writer(connector_context(self.context))
        states = self.context.operator_state.split.get(WRITER_STATE)
        if states:
            self._writer.restore_state(list(states))
        self._writer.open()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Write a block."""
        assert self._writer is not None
        self._writer.write(values, timestamps, self.context.processing_time())

    def write_groups(self, groups: list[tuple[Any, Any]]) -> None:
        """Write the parts of a block."""
        assert self._writer is not None
        self._writer.write_groups(groups, self.context.processing_time())

    def finish(self) -> None:
        """Prepare the last transaction; with checkpoints, the last of them does it."""
        assert self._writer is not None
        self._writer.flush(end_of_input=True)
        self._ended = True
        if not self.context.checkpointing:
            self.context.send_event(self._prepared(None), output=True)

    def prepare_snapshot(self, checkpoint_id: int) -> Sequence[Any]:
        """Flush, close the transaction, and put the writer's state into the operator's."""
        if self._writer is None:
            return ()
        self._writer.flush(end_of_input=self._ended)
        prepared = self._prepared(checkpoint_id)
        states = self._writer.snapshot_state(checkpoint_id)
        if states or WRITER_STATE in self.context.operator_state.split:
            self.context.operator_state.split[WRITER_STATE] = list(states)
        return prepared

    def _prepared(self, checkpoint_id: int | None) -> list[PreparedCommittable]:
        assert self._writer is not None
        context = self.context
        return [
            PreparedCommittable(context.job_id, checkpoint_id, context.subtask, committable)
            for committable in self._writer.prepare_commit(checkpoint_id, end_of_input=self._ended)
        ]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the writer."""
        if self._writer is not None:
            self._writer.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the writer."""
        if self._writer is not None:
            self._writer.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()


@dataclass(frozen=True)
class ForEach:
    """A function called for its effect."""

    function: UserFunction

    @property
    def traits(self) -> OperatorTraits:
        """It is a sink."""
        return OperatorTraits(sink=True, calls=(LoopCall(self.function),))

    def build(self) -> Operator:
        """Make the logic."""
        return ForEachLogic(self.function)


class ForEachLogic(UserFunctionOperator):
    """Calls a function per record and drops its results."""

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
    standard_error: bool = False

    @property
    def traits(self) -> OperatorTraits:
        """It is a sink."""
        return OperatorTraits(sink=True, calls=())

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        return PrintLogic(self.identifier, self.type_info)

    def coordinator(self, context: OperatorCoordinatorContext) -> PrintCoordinator:
        """Make the coordinator that writes the lines."""
        return PrintCoordinator(context, self.standard_error)


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
        self.context.send_event([prefix + show(value) for value in values], output=True)


@dataclass(frozen=True)
class CollectSink:
    """Sends records to the program that runs the job (``execute_and_collect``)."""

    name: str

    @property
    def traits(self) -> OperatorTraits:
        """It is a sink."""
        return OperatorTraits(sink=True, calls=())

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        return CollectLogic()

    def coordinator(self, context: OperatorCoordinatorContext) -> CollectCoordinator:
        """Make the coordinator that hands the records to the program."""
        return CollectCoordinator(context, self.name)


class CollectLogic(Operator):
    """Sends blocks of records to the driver."""

    changes_records = False

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Send a block."""
        data = dumps_records(list(values), self.context.operator, self.context.subtask)
        self.context.send_event(data, output=True)
