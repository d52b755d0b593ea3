"""The base of table operators: blocks of rows with kinds in, blocks out, and between them keyed state, timers and expressions.

An operator is described by a ``TableSpec``: the class of its logic, the schemas of inputs and output, and plain arguments. The
logic is given ``TableBlock``s, whatever form a block had on its way, emits tuples with kinds by ``collect``, and sends them on as
one block when it has handled what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.block import Block, RowBlock
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK
from funken.operators.base import Operator, OperatorContext, Output, Timestamps, Values
from funken.operators.user_functions import BatchInput, OperatorTraits
from funken.state.backend import FileSnapshotBackend
from funken.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from funken.state.handles import SHARED
from funken.state.keyed import NO_KEY
from funken.table.runtime.block import INSERT, UPDATE_AFTER, BlockSchema, TableBlock, as_table
from funken.table.runtime.exchange import hashable, key_tuples

_FLUSH = 8192
"""Maximal number of rows that are held back."""
Tuple = tuple[Any, ...]


@dataclass(frozen=True)
class TableSpec:
    """The specification of a table operator: its logic, and the arguments of the logic."""

    logic: type[TableOperator]
    inputs: tuple[BlockSchema, ...]
    output: BlockSchema
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def traits(self) -> OperatorTraits:
        """The traits: rows come in the order of arrival, in bounded jobs too."""
        return OperatorTraits(batch_input=BatchInput.ANY_ORDER)

    def build(self) -> TableOperator:
        """Make the logic of one subtask."""
        logic = self.logic(**self.arguments)
        logic.inputs, logic.schema = self.inputs, self.output
        return logic


class TableOperator(Operator):
    """Base of the operators: one input, or two with ``second``."""

    columnar = True
    changes_records = False
    inputs: tuple[BlockSchema, ...]
    """The schemas of the inputs."""
    schema: BlockSchema
    """The schema of the output."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self.__rows: list[Sequence[Any]] = []
        self.__kinds: list[int] = []

    # ---- to be overridden

    def block(self, block: TableBlock) -> None:
        """Handle a block of the first input."""
        raise NotImplementedError

    def second(self, block: TableBlock) -> None:
        """Handle a block of the second input."""
        raise NotImplementedError

    # ---- to be called

    def collect(self, row: Sequence[Any], kind: int = INSERT) -> None:
        """Emit a row."""
        self.__rows.append(row)
        self.__kinds.append(kind)
        if len(self.__rows) >= _FLUSH:
            self.flush()

    def collect_all(self, rows: Iterable[Sequence[Any]], kind: int = INSERT) -> None:
        """Emit rows of one row kind."""
        for row in rows:
            self.collect(row, kind)

    def collect_rows(self, rows: Sequence[Sequence[Any]]) -> None:
        """Emit many new rows."""
        self.__rows.extend(rows)
        self.__kinds.extend(repeat(INSERT, len(rows)))
        if len(self.__rows) >= _FLUSH:
            self.flush()

    def emit(self, block: TableBlock) -> None:
        """Emit a block, behind collected rows."""
        self.flush()
        if len(block):
            self.output.emit_block(block)

    def flush(self) -> None:
        """Send on collected rows."""
        if self.__rows:
            rows, kinds = self.__rows, self.__kinds
            self.__rows, self.__kinds = [], []
            self.output.emit_block(self.schema.block(rows, kinds))

    # ---- the engine's side

    def process_block(self, block: Block) -> None:
        """Handle a block in any form."""
        self.block(as_table(block, self.inputs[0].arrow))
        self.flush()

    def process_second_block(self, block: Block) -> None:
        """Handle a block of the second input in any form."""
        self.second(as_table(block, self.inputs[1].arrow))
        self.flush()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records."""
        self.process_block(RowBlock(values, timestamps))

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the second input."""
        self.process_second_block(RowBlock(values, timestamps))


class KeyedTableOperator(TableOperator):
    """Base of the operators with keyed state: a key is a tuple of the values of some columns."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        assert context.keyed is not None and context.timers is not None
        self.store, self.timers = context.keyed, context.timers
        #: whether state is in files, where arrays of all of it must not be in memory
        self.in_files = isinstance(context.keyed.backend, FileSnapshotBackend)

    # ---- to be overridden

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """An event-time timer is due; the key is current."""

    def on_processing_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """A processing-time timer is due; the key is current."""

    # ---- to be called

    def value_state(self, name: str, ttl: int = 0) -> Any:
        """Return a value per key; ``ttl`` (ms): its lifetime after a write, 0 for ever."""
        return self._shared(self.store.state(living(ValueStateDescriptor(name), ttl)))

    def map_state(self, name: str, ttl: int = 0) -> Any:
        """Return a map per key."""
        return self._shared(self.store.state(living(MapStateDescriptor(name), ttl)))

    def list_state(self, name: str, ttl: int = 0) -> Any:
        """Return a list per key."""
        return self._shared(self.store.state(living(ListStateDescriptor(name), ttl)))

    @staticmethod
    def _shared(handle: Any) -> Any:
        """Let a state keep its arguments as they are: read values change only to be stored again in the same block."""
        handle.plain = SHARED
        return handle

    def now(self) -> int:
        """Return the processing time (ms)."""
        return self.context.processing_time()

    def keyed_rows(
        self, block: TableBlock, columns: Sequence[int], index: int = 0
    ) -> Iterable[tuple[Tuple, Tuple, int]]:
        """Return the key, the values and the row kind of each row of an input; the caller makes the key current."""
        self.context.next_time()
        rows = self.inputs[index].tuples(block.batch)
        return zip(key_tuples(block.batch, columns), rows, block.kind_list(), strict=True)

    # ---- the engine's side

    def process_block(self, block: Block) -> None:
        """Handle a block in any form."""
        super().process_block(block)
        self.store.current_key = NO_KEY

    def process_second_block(self, block: Block) -> None:
        """Handle a block of the second input in any form."""
        super().process_second_block(block)
        self.store.current_key = NO_KEY

    def watermark(self, watermark: int) -> None:
        """Fire the timers that are due, then pass the watermark on."""
        self.current_watermark = watermark
        self.timers.advance_watermark(watermark, self._event)
        if watermark == MAX_WATERMARK:
            self.before_end()
        self.flush()
        self.store.current_key = NO_KEY
        self.output.watermark(self.watermark_after(watermark))

    def before_end(self) -> None:
        """All input has come, and event time is over."""

    def watermark_after(self, watermark: int) -> int:
        """Return the watermark behind the operator."""
        return watermark

    def next_tick(self) -> int | None:
        """Return the time of the next processing-time timer."""
        return self.timers.next_processing_time()

    def tick(self, now: int) -> None:
        """Fire the processing-time timers that are due."""
        self.timers.advance_processing_time(now, self._processing)
        self.flush()
        self.store.current_key = NO_KEY

    def _event(self, timestamp: int, key: Any, namespace: Any) -> None:
        self.context.next_time()
        self.store.current_key = key
        self.on_event_time(timestamp, key, namespace)

    def _processing(self, timestamp: int, key: Any, namespace: Any) -> None:
        self.context.next_time()
        self.store.current_key = key
        self.on_processing_time(timestamp, key, namespace)


def living(descriptor: StateDescriptor[Any], ttl: int) -> StateDescriptor[Any]:
    """Add a lifetime (ms) to a state; 0: it lives for ever."""
    if ttl > 0:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(ttl).build())
    return descriptor


# ---- kinds


def is_accumulate(kind: int) -> bool:
    """Return True if a row kind adds a row."""
    return kind in (INSERT, UPDATE_AFTER)


def rows_left(changes: Iterable[tuple[Any, int]]) -> list[Tuple]:
    """Return the rows that are left of changes, each as often as it was added and not removed.

    >>> rows_left([((1,), 0), ((2,), 0), ((1,), 3)])
    [(2,)]
    """
    left: dict[Any, list[Any]] = {}
    for row, kind in changes:
        entry = left.setdefault(hashable(row), [row, 0])
        entry[1] += 1 if is_accumulate(kind) else -1
    return [row for row, count in left.values() for _ in range(count)]


# ---- time


def millis_of(column: pa.Array) -> list[int | None]:
    """Return the milliseconds since the epoch of a column of timestamps, of local time as if it were UTC.

    >>> import datetime
    >>> millis_of(pa.array([datetime.datetime(1970, 1, 1, 0, 0, 1), None], pa.timestamp("us")))
    [1000, None]
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        per_milli = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit]
        numbers: list[int | None] = column.cast(pa.int64()).to_pylist()
        if per_milli == 0:
            return [None if number is None else number * 1000 for number in numbers]
        return [None if number is None else number // per_milli for number in numbers]
    if pa.types.is_integer(kind):
        return list(column.to_pylist())
    if pa.types.is_date(kind):
        days = column.cast(pa.int32()).to_pylist()
        return [None if day is None else day * 86_400_000 for day in days]
    raise InvalidProgram(
        f"a time attribute is a TIMESTAMP or TIMESTAMP_LTZ column, but this one is of Arrow type {kind}."
    )


def checked_rowtime(block: TableBlock, column: int) -> pa.Array:
    """Return a column of event times; raises ``InvalidProgram`` for a NULL."""
    array = block.batch.column(column)
    if array.null_count:
        raise InvalidProgram(
            f"RowTime field should not be null, please convert it to a non-null long value: column "
            f"{block.schema.names[column]!r} of row {pc.index(array.is_null(), True).as_py() + 1} of a block is NULL. "
            "Filter such rows, or give the column another value."
        )
    return array


def rowtimes(block: TableBlock, column: int) -> list[int]:
    """Return the event times (ms) of rows; raises ``InvalidProgram`` for a NULL."""
    return millis_of(checked_rowtime(block, column))  # type: ignore[return-value]


def millis_array(column: pa.Array) -> Any:
    """Return the milliseconds of a column of times without NULLs as an array of int64.

    >>> import datetime
    >>> millis_array(pa.array([datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500)], pa.timestamp("us"))).tolist()
    [-1]
    """
    per_milli = {"us": 1000, "ns": 1_000_000}.get(getattr(column.type, "unit", ""))
    if per_milli is None or not pa.types.is_timestamp(column.type):
        return np.array(millis_of(column), np.int64)
    return np.floor_divide(column.view(pa.int64()).to_numpy(zero_copy_only=False), per_milli)
