"""Readers of Arrow's batches: as records, and as blocks of columns; positions count rows, alike for both."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from funken.columnar.expressions import RecordSchema, fields_of_leaves
from funken.connectors.formats.arrow_columns import NOT_READ, columns_of_batch, names_of
from funken.connectors.formats.record_types import RecordShape
from funken.types.arrow import python_values

_BATCH_ROWS = 8192
_COLUMN_ROWS = 32_768
"""Rows of a batch that becomes a block of columns."""


class RowGroup(Protocol):
    """Some rows of a file that are read together."""

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield batches of these columns (more may be there), of so many rows at most."""
        ...


class RowGroups:
    """The groups of rows of one split: the names of the file's columns, and of each group its rows (0: not known) and reader."""

    def __init__(self, names: Sequence[str], groups: Sequence[tuple[int, RowGroup]]) -> None:
        self.names = names
        self.groups = groups


class ArrowRecords:
    """The records of groups of rows, a batch at a time; positions count the rows of the split."""

    _rows = _BATCH_ROWS

    def __init__(self, groups: RowGroups, shape: RecordShape | None, fields: Sequence[str] | None, done: int) -> None:
        self._shape = shape
        wanted = groups.names if shape is None and fields is None else (shape.names if shape else fields or ())
        there = set(groups.names)
        missing = [name for name in wanted if name not in there and (shape is None or name in shape.required)]
        if missing:
            raise ValueError(f"it has no column {missing[0]!r}, but {', '.join(map(repr, groups.names))}")
        #: the columns that records are made of, and those of them that are read
        self._names = tuple(name for name in wanted if name in there)
        self._read: Sequence[str] = self._names
        self._types: Any = None if shape is None else shape.types()
        self._row = done
        self._size = 0
        self._skip = done
        self._groups = list(groups.groups)
        while self._groups and 0 < self._groups[0][0] <= self._skip:  # whole groups that are done are not read again
            self._skip -= self._groups.pop(0)[0]
        self._batches: Iterator[Any] | None = None

    def next(self) -> Sequence[Any]:
        """Return the records of the next batch."""
        self._row += self._size
        self._size = 0
        if self._batches is None:
            self._batches = (batch for _, group in self._groups for batch in group.batches(self._read, self._rows))
        for batch in self._batches:
            if self._skip >= batch.num_rows:
                self._skip -= batch.num_rows
                continue
            left, self._skip = batch.slice(self._skip), 0
            self._size = left.num_rows
            return self._made(left)
        return ()

    def _made(self, batch: Any) -> Sequence[Any]:
        return self._records(batch)

    def _records(self, batch: Any) -> Sequence[Any]:
        """Make records; fields that are not read are marked as such."""
        read, rows = set(self._read), batch.num_rows
        if self._shape is None:
            values = [python_values(batch.column(name)) if name in read else [NOT_READ] * rows for name in self._names]
            return [dict(zip(self._names, row, strict=True)) for row in zip(*values, strict=True)] or [{}] * rows
        columns: list[Sequence[Any]] = []
        for name, declared in zip(self._shape.names, self._types, strict=True):
            if name not in self._names:
                columns.append([self._shape.defaults(name)] * rows)
            elif name not in read:
                columns.append([NOT_READ] * rows)
            else:
                columns.append(python_values(_converted(name, batch.column(name), declared.type)))
        return [self._shape.make(values) for values in zip(*columns, strict=True)]

    def position(self, taken: int) -> int:
        """Return how many rows of the split are done."""
        return self._row + taken


class ArrowColumns(ArrowRecords):
    """The same as blocks of columns, of the wanted fields; records where a batch has no such form."""

    _rows = _COLUMN_ROWS

    def __init__(
        self, groups: RowGroups, shape: RecordShape | None, fields: Sequence[str] | None, done: int, schema: RecordSchema,
        wanted: Sequence[int] | None,
    ) -> None:  # fmt: skip
        super().__init__(groups, shape, fields, done)
        self._schema = schema
        names = names_of(schema, shape)
        self._leaves = wanted
        self._wanted = names if wanted is None else [names[number] for number in fields_of_leaves(schema, wanted)]
        #: whether the file has the columns that the schema names
        self._fits = names == self._names
        self._read = [name for name in self._names if name in self._wanted]

    def _made(self, batch: Any) -> Any:
        if self._fits:
            read = set(self._read)
            arrays = [batch.column(name) if name in read else None for name in self._names]
            if self._types is not None:
                arrays = [
                    None if array is None else _converted(name, array, declared.type)
                    for name, array, declared in zip(self._names, arrays, self._types, strict=True)
                ]
            made = columns_of_batch(self._schema, arrays, batch.num_rows, self._leaves)
            if made is not None:
                return made
        return self._records(batch)


def _converted(name: str, column: Any, wanted: Any) -> Any:
    if column.type == wanted:
        return column
    arrow = importlib.import_module("pyarrow")
    try:
        return column.cast(wanted)
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
        raise ValueError(f"its column {name!r} is {column.type}, and was declared as {wanted} ({error})") from None


__all__ = ["ArrowColumns", "ArrowRecords", "RowGroup", "RowGroups"]
