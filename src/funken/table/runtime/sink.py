"""Sinks whose writers take the blocks of tables as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.block import Block
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    LogicalType,
    MapType,
    RowType,
    VarBinaryType,
    VarCharType,
)
from funken.operators.base import Operator
from funken.operators.sink import WriterSink, WriterSinkLogic
from funken.operators.user_functions import OperatorTraits
from funken.table.logical import SortKey
from funken.table.runtime.block import DELETE, BlockSchema, TableBlock, as_table
from funken.table.runtime.exchange import hashable
from funken.table.runtime.keyed_blocks import sort_key
from funken.table.runtime.operator import KeyedTableOperator, TableOperator, is_accumulate, rows_left


@dataclass(frozen=True)
class TableSink(WriterSink):
    """A sink whose ``write`` takes a ``TableBlock`` as its values."""

    schema: BlockSchema

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return super().traits.but(columnar=True)

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        return TableSinkLogic(self)


class TableSinkLogic(WriterSinkLogic):
    """Hands blocks of tables to a writer."""

    columnar = True

    def __init__(self, spec: TableSink) -> None:
        super().__init__(spec.sink)
        self._schema = spec.schema

    def watermark(self, watermark: int) -> None:
        """Tell a writer that completes folders by event time."""
        super().watermark(watermark)
        reach = getattr(self._writer, "reach", None)
        if reach is not None:
            reach(watermark)

    def process_block(self, block: Block) -> None:
        """Write a block."""
        table = as_table(block, self._schema.arrow)
        self.process(table, table.timestamps)  # type: ignore[arg-type]  # the writer takes blocks


# ---- The constraints of a sink's table: NOT NULL and lengths of texts and bytes, of columns and of what is inside
# of them.


_TEXTS = (CharType, VarCharType, BinaryType, VarBinaryType)
_FIXED = (CharType, BinaryType)
_UNLIMITED = (1 << 31) - 1


def is_limited(kind: LogicalType) -> bool:
    """Return True if values of a type have a length.

    >>> is_limited(CharType(2)), is_limited(VarCharType(_UNLIMITED)), is_limited(ArrayType(CharType(2)))
    (True, False, False)
    """
    return isinstance(kind, _TEXTS) and kind.length < _UNLIMITED


class Nesting:
    """The depth to which constraints are checked: ``IGNORE`` (columns only), ``ROWS``, or ``ROWS_AND_COLLECTIONS``."""

    def __init__(self, depth: str) -> None:
        self.rows, self.collections = depth != "IGNORE", depth == "ROWS_AND_COLLECTIONS"

    def inner(self, kind: LogicalType) -> list[LogicalType]:
        """Return the types of the parts that are checked.

        >>> [str(each) for each in Nesting("ROWS").inner(RowType.of(("a", ArrayType(CharType(2)))))]
        ['ARRAY<CHAR(2)>']
        >>> Nesting("ROWS").inner(ArrayType(CharType(2)))
        []
        """
        if isinstance(kind, RowType) and self.rows:
            return [field.type for field in kind.fields]
        if isinstance(kind, ArrayType) and self.collections:
            return [kind.element]
        if isinstance(kind, MapType) and self.collections:
            return [kind.key, kind.value]
        return []

    def parts(self, kind: LogicalType, value: Any) -> Iterator[tuple[str, LogicalType, Any]]:
        """Return the parts of a value that are checked, with where they are."""
        if value is None or not self.inner(kind):
            return
        if isinstance(kind, RowType):
            for field, part in zip(kind.fields, value, strict=True):
                yield f".{field.name}", field.type, part
        elif isinstance(kind, ArrayType):
            for place, part in enumerate(value):
                yield f"[{place}]", kind.element, part
        elif isinstance(kind, MapType):
            for key, item in value:
                yield "[key]", kind.key, key
                yield "[value]", kind.value, item

    def has(self, kind: LogicalType, found: Callable[[LogicalType], bool]) -> bool:
        """Return True if a part of a type, at any depth, fulfils a predicate."""
        return any(found(part) or self.has(part, found) for part in self.inner(kind))

    def null_in(self, kind: LogicalType, value: Any) -> str | None:
        """Return the place of a part that is NULL and must not be.

        >>> rows = RowType.of(("a", ArrayType(CharType(2).not_null())))
        >>> Nesting("ROWS_AND_COLLECTIONS").null_in(rows, (["x", None],))
        '.a[1]'
        """
        for path, part_type, part in self.parts(kind, value):
            if part is None and not part_type.is_nullable:
                return path
            below = self.null_in(part_type, part)
            if below is not None:
                return path + below
        return None


@dataclass(frozen=True)
class ConstraintRules:
    """Rules for constraints: the depth of the check, and the treatment of rows that break them.

    ``nested``: see ``Nesting``. ``drops``: rows with a NULL that must not be are dropped, not errors. ``lengths``: values that
    are too long or too short are ignored (``IGNORE``), cut or filled (``TRIM_PAD``), or errors (``ERROR``).
    """

    nested: str = "IGNORE"
    drops: bool = False
    lengths: str = "IGNORE"

    @property
    def nesting(self) -> Nesting:
        """The depth to which constraints are checked."""
        return Nesting(self.nested)

    def limits(self, kind: LogicalType) -> bool:
        """Return True if values of a column have lengths that are checked."""
        return self.lengths != "IGNORE" and (is_limited(kind) or self.nesting.has(kind, is_limited))

    def demands(self, kind: LogicalType) -> bool:
        """Return True if a column has something to check."""
        return not kind.is_nullable or self.nesting.has(kind, lambda part: not part.is_nullable) or self.limits(kind)

    def check(self, columns: Sequence[LogicalType]) -> None:
        """Raise ``InvalidProgram`` if values inside of collections would have to be cut."""
        nesting = self.nesting

        def holds(kind: LogicalType) -> bool:
            return isinstance(kind, ArrayType | MapType) and nesting.has(kind, is_limited)

        if self.lengths == "TRIM_PAD" and any(holds(kind) or nesting.has(kind, holds) for kind in columns):
            raise InvalidProgram(
                "Trimming and/or padding is not supported if constraint checking is enabled on types nested in collections. "
                "Set 'table.exec.sink.nested-constraint-enforcer' to ROWS, or 'table.exec.sink.type-length-enforcer' to ERROR."
            )


class Enforce(TableOperator):
    """Checks the constraints of a table's ``columns``; with ``partial`` deletions may have a key alone."""

    def __init__(
        self, columns: Sequence[LogicalType], rules: ConstraintRules, table: str, partial: bool = False
    ) -> None:
        self._columns, self._rules, self._table, self._partial = columns, rules, table, partial
        self._nesting = nesting = rules.nesting
        self._not_null = [place for place, kind in enumerate(columns) if not kind.is_nullable]
        self._deep = [
            place for place, kind in enumerate(columns) if nesting.has(kind, lambda part: not part.is_nullable)
        ]
        self._limited = [place for place, kind in enumerate(columns) if rules.limits(kind)]

    def block(self, block: TableBlock) -> None:
        """Check a block."""
        for place in self._not_null:
            column = block.batch.column(place)
            if column.null_count:
                name = self.schema.names[place]
                block = self._kept(block, column.is_valid().to_numpy(zero_copy_only=False), [name] * len(block))
        for place in self._deep:
            values = self.inputs[0].values(block.batch.column(place), place)
            nulls = [self._nesting.null_in(self._columns[place], value) for value in values]
            name = self.schema.names[place]
            valid = np.array([each is None for each in nulls], np.bool_)
            block = self._kept(block, valid, [f"{name}{each or ''}" for each in nulls])
        if self._limited and len(block):
            arrays = list(block.batch.columns)
            for place in self._limited:
                arrays[place] = self._fitted(arrays[place], place)
            block = block.with_columns(arrays, self.schema.arrow)
        self.emit(block)

    def _kept(self, block: TableBlock, valid: Any, paths: Sequence[str]) -> TableBlock:
        if self._partial and block.kinds is not None:
            valid = valid | (block.kinds == DELETE)
        if valid.all():
            return block
        if not self._rules.drops:
            raise InvalidProgram(
                f"Column '{paths[int(np.argmin(valid))]}' is NOT NULL, however, a null value is being written into it. You can "
                "set job configuration 'table.exec.sink.not-null-enforcer'='DROP' to suppress this exception and drop such "
                f"records silently. (table {self._table})"
            )
        return block.take(np.flatnonzero(valid))

    def _fitted(self, column: pa.Array, place: int) -> pa.Array:
        kind = self._columns[place]
        if isinstance(kind, _TEXTS):
            size = pc.utf8_length(column) if pa.types.is_string(column.type) else pc.binary_length(column)
            fits = pc.equal(size, kind.length) if isinstance(kind, _FIXED) else pc.less_equal(size, kind.length)
            if pc.all(fits).as_py() is not False:  # of NULLs only: None
                return column
        values = self.inputs[0].values(column, place)
        return self.schema.array([self._fit(kind, value, self.schema.names[place]) for value in values], place)

    def _fit(self, kind: LogicalType, value: Any, path: str) -> Any:
        if value is None:
            return None
        if isinstance(kind, _TEXTS):
            size = len(value)
            if size == kind.length or (size < kind.length and not isinstance(kind, _FIXED)):
                return value
            if self._rules.lengths == "ERROR":
                raise InvalidProgram(
                    f"Column '{path}' is {kind.nullable()}, however, a string of length {size} is being written into it. You "
                    "can set job configuration 'table.exec.sink.type-length-enforcer' to control this behaviour. "
                    f"(table {self._table})"
                )
            cut = value[: kind.length]
            return (
                cut.ljust(kind.length)
                if isinstance(cut, str)
                else cut.ljust(kind.length, b"\0")
                if size < kind.length
                else cut
            )
        if isinstance(kind, RowType) and self._nesting.inner(kind):
            return tuple(
                self._fit(field.type, part, f"{path}.{field.name}")
                for field, part in zip(kind.fields, value, strict=True)
            )
        for where, part_type, part in self._nesting.parts(kind, value):  # collections are checked, but never changed
            self._fit(part_type, part, path + where)
        return value


# ---- The ends of bounded queries: rows in order, and what is left of a changelog when all of it has come.


Tuple = tuple[Any, ...]


class FinalRows(KeyedTableOperator):
    """Emits the rows that are left at the end of the input: by primary key the last one, otherwise as often as they were added.

    All of it is in one task.
    """

    def __init__(self, keys: Sequence[int]) -> None:
        self._keys = tuple(keys)

    def open(self) -> None:
        """Open the state: each row with its number of occurrences, in the order of arrival."""
        self._state = self.map_state("rows")

    def block(self, block: TableBlock) -> None:
        """Apply the changes of a block."""
        self.store.current_key = ()
        for row, kind in zip(self.inputs[0].tuples(block.batch), block.kind_list(), strict=True):
            name = hashable([row[place] for place in self._keys]) if self._keys else hashable(row)
            before = self._state.get(name)
            if self._keys:
                if is_accumulate(kind):
                    self._state.put(name, (row, 1))
                elif before is not None and (kind == 3 or before[0] == row):
                    self._state.remove(name)
                continue
            count = (0 if before is None else before[1]) + (1 if is_accumulate(kind) else -1)
            if count:
                self._state.put(name, (row, count))
            elif before is not None:
                self._state.remove(name)

    def before_end(self) -> None:
        """Emit the final rows."""
        self.store.current_key = ()
        for row, count in self._state.values():
            for _ in range(count):
                self.collect(row)
        self._state.clear()


class Sort(KeyedTableOperator):
    """All rows of a bounded input in order, at its end."""

    def __init__(self, order: Sequence[SortKey]) -> None:
        self._order = order

    def open(self) -> None:
        """Open the state."""
        self._rows = self.list_state("rows")

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block."""
        self.store.current_key = ()
        self._rows.add_all(list(zip(self.inputs[0].tuples(block.batch), block.kind_list(), strict=True)))

    def before_end(self) -> None:
        """Emit the rows in order."""
        self.store.current_key = ()
        rows = rows_left(self._rows.get())
        rows.sort(key=sort_key(self._order))
        self.collect_all(rows)
        self._rows.clear()
