"""The rows of a Spark DataFrame as a source: Spark passes them to the tasks, there are no splits.

Invariants: a subtask emits its rows in the order in which they arrive; rows are released (``done``) when their
last row has been emitted, so that a slow job holds up Spark. With ``streaming`` the source reads one micro-batch: the
watermark stays behind its last row, because the rows of a batch have no order among partitions; and at its end the job
pauses, it does not end. Which batch that is, is the enumerator's only state, and so part of the checkpoint it ends with.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.columnar.records import NOT_READ
from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    ConnectorContext,
    NeedSplits,
    Source,
    SourceReader,
    SplitEnumerator,
    Wait,
)
from funken.connectors.formats.arrow_columns import columns_of_batch, schema_of_type
from funken.dataclass import dataclass
from funken.expr.types import ROW, Composite, Record, Type, outer_fields
from funken.types.convert import python_values
from funken.types.row import Row

_WAIT = Wait(1000)


class RowsEnumerator(SplitEnumerator):
    """Has no splits; holds the number of the micro-batch that is read, and of the one before it."""

    def __init__(self) -> None:
        self.batch = -1

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return that there are none."""
        return None

    def snapshot(self) -> int:
        """Return the number of the batch that the checkpoint ends."""
        return self.batch

    def restore(self, snapshot: Any) -> None:
        """Nothing to restore: the runner sets the number of the batch."""


class RowsReader(SourceReader):
    """Emits the rows that it is fed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._new = Row(*names)
        #: the schema of the columns that are wanted, and the numbers of those; ``None``: rows are
        self._schema: Composite | None = None
        self._wanted: Sequence[int] = range(len(names))
        self._leaves: Sequence[int] | None = None
        self._fed: deque[tuple[list[Any] | Block, Callable[[], None]]] = deque()
        self._at = 0
        self._ended = False

    def read_record_columns(self, schema: Type, wanted: Sequence[int] | None) -> None:
        """Emit columns of the wanted fields, where the rows have that form."""
        assert isinstance(schema, Composite)
        self._schema, self._leaves = schema, wanted
        self._wanted = range(len(schema)) if wanted is None else outer_fields(schema, wanted)

    def feed(self, columns: Sequence[Any], done: Callable[[], None]) -> None:
        """Take rows by columns, which are arrays of Arrow: all, or those that are wanted.

        ``done`` is called when the last of them has been emitted.
        """
        rows = len(columns[0])
        arrays: dict[int, Any] = dict(zip(self._numbers(len(columns)), columns, strict=True))
        width = len(self._schema) if self._schema is not None else len(columns)
        if self._schema is not None:
            wanted = [arrays[number] if number in self._wanted else None for number in range(width)]
            block = columns_of_batch(self._schema, wanted, rows, self._leaves)
            if block is not None:
                self._fed.append((block, done))
                return
        lists = (python_values(arrays[number]) if number in arrays else [NOT_READ] * rows for number in range(width))
        self._fed.append((list(map(self._new, *lists)), done))

    def _numbers(self, given: int) -> Sequence[int]:
        """Return the columns to read."""
        return self._wanted if given == len(self._wanted) else range(given)

    def end(self) -> None:
        """There are no more rows."""
        self._ended = True

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Nothing: there are no splits."""

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return rows; feeding wakes the task, so that it need not poll often."""
        while self._fed:
            rows, done = self._fed[0]
            values: Any
            values, self._at = rows[self._at : self._at + limit], self._at + limit
            if self._at >= len(rows):
                self._fed.popleft()
                self._at = 0
                done()
            if len(values):
                return Batch(values)
        return NEED_SPLITS if self._ended else _WAIT

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return nothing: it is between batches that there are snapshots."""
        return []


@dataclass(frozen=True)
class RowsSource(Source):
    """The rows of a DataFrame with these columns; ``streaming``: of one micro-batch of it after the other.

    Spark passes columns of Arrow. Where the program works on columns, they stay what they are; a part of the rows of which a
    column that is read has a null becomes records.

    >>> import pyarrow as pa
    >>> reader = RowsSource(("word", "n"), streaming=False).reader(ConnectorContext("words", 0, 1))
    >>> reader.feed([pa.array(["to", "be"]), pa.array([2, 3])], done=lambda: print("all emitted"))
    >>> reader.poll(1, now=0).values
    [Row(word='to', n=2)]
    >>> reader.poll(5, now=0).values
    all emitted
    [Row(word='be', n=3)]
    """

    columns: tuple[str, ...]
    streaming: bool
    schema: Any = None
    """Spark's schema of the columns, if it is known."""
    boundedness: Boundedness = field(init=False)

    def __post_init__(self) -> None:
        """A streaming DataFrame has no end."""
        unbounded = Boundedness.CONTINUOUS_UNBOUNDED
        object.__setattr__(self, "boundedness", unbounded if self.streaming else Boundedness.BOUNDED)

    def record_schema(self) -> Type:
        """Return the schema of the rows."""
        if self.schema is None or not self.columns or len(set(self.columns)) < len(self.columns):
            raise NotVectorizable("reads a DataFrame whose columns have no types, or two of one name")
        types = importlib.import_module("funken.spark.frames").arrow_schema(self.schema).types
        return Record(map(schema_of_type, types), ROW, self.columns)

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator."""
        return RowsEnumerator()

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make a reader."""
        return RowsReader(self.columns)
