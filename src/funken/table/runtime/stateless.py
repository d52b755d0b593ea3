"""Operators without state: between records and tables, Calc, watermarks, Expand, windows as rows, table functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.block import Block, RowBlock
from funken.errors import InvalidProgram
from funken.expr.evaluate import EvaluationContext, Evaluator
from funken.expr.ir import Call, Node, walk
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Operator, OperatorContext
from funken.table.logical import JoinType, TableCall, WindowKind, WindowShape
from funken.table.runtime.block import DELETE, UPDATE_BEFORE, BlockSchema, TableBlock
from funken.table.runtime.operator import TableOperator, checked_rowtime, millis_array, millis_of
from funken.table.runtime.windows import WallTime, WindowsOfTimes

# ---- Table functions as operators call them: a tuple of plain arguments in, rows of plain values out.


Tuple = tuple[Any, ...]


class RowFunction(Protocol):
    """A function that is called for each row."""

    def __call__(self, args: Tuple) -> Iterable[Tuple]:
        """Return the rows for some arguments."""
        ...

    def close(self) -> None:
        """Close the function."""
        ...


class _Unnest:
    """The items of an ARRAY, the pairs of a MAP, the items of a MULTISET as often as they are in it."""

    def __init__(self, call: TableCall) -> None:
        self._root = call.args[0].type.root
        self._numbered = "ORDINALITY" in call.function.upper()
        element = getattr(call.args[0].type, "element", None)
        width = len(call.row_type) - self._numbered
        self._of_rows = element is not None and element.root in ("ROW", "STRUCTURED") and width == len(element.fields)
        self._width = width

    def __call__(self, args: Tuple) -> Iterable[Tuple]:
        items = args[0]
        if items is None:
            return []
        rows = [self._row(item) for item in self._items(items)]
        if self._numbered:
            return [((None,) * self._width if row is None else row) + (number,) for number, row in enumerate(rows, 1)]
        return [row for row in rows if row is not None]  # as in Flink, a row that is NULL is none

    def _items(self, items: Any) -> Iterable[Any]:
        return [item for item, count in items for _ in range(count)] if self._root == "MULTISET" else list(items)

    def _row(self, item: Any) -> Tuple | None:
        if self._root == "MAP":
            return tuple(item)
        if self._of_rows:
            return None if item is None else tuple(item)
        return (item,)

    def close(self) -> None:
        pass


class _Replicate:
    """``REPLICATE_ROWS(n, a, b, ...)``: the row (a, b, ...) n times."""

    def __call__(self, args: Tuple) -> Iterable[Tuple]:
        return [args[1:]] * max(0, args[0] or 0)

    def close(self) -> None:
        pass


def table_function(call: TableCall, context: OperatorContext) -> RowFunction:
    """Return the function of a call, opened."""
    name = call.function.upper()
    if call.definition is not None:
        return call.definition.table_function(call, context)  # type: ignore[no-any-return]
    if name.startswith("UNNEST") or name.startswith("$UNNEST"):
        return _Unnest(call)
    if "REPLICATE_ROWS" in name:
        return _Replicate()
    raise InvalidProgram(f"{call.function} is no table function that Funken has. Register one of that name.")


NANOS = 1_000_000
"""Nanoseconds of a millisecond."""


class Expressions:
    """Expressions that are computed a block at a time; ``parameters`` are the query's."""

    def __init__(self, nodes: Sequence[Node], operator: Operator, parameters: dict[str, Any]) -> None:
        from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - the whole table, only where SQL runs

        self.nodes = list(nodes)
        for node in self.nodes:
            open_functions(node, operator.context)

        def watermark() -> int | None:
            return None if operator.current_watermark == MIN_TIMESTAMP else operator.current_watermark

        self.context = EvaluationContext(
            FUNCTIONS,
            parameters.get("time_zone", "UTC"),
            operator.context.processing_time,
            watermark,
            parameters,
        )

    def arrays(self, batch: pa.RecordBatch) -> list[Any]:
        """Return a column per expression."""
        return self.columns(Evaluator(batch, self.context))

    def columns(self, evaluator: Evaluator) -> list[Any]:
        """Return a column per expression, as an evaluator has it."""
        return [_whole(evaluator.column(node)) for node in self.nodes]

    def mask(self, batch: pa.RecordBatch) -> Any:
        """Return a mask of rows for which the first expression is TRUE."""
        return pc.fill_null(self.arrays(batch)[0], False)


def _whole(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def open_functions(node: Node, context: OperatorContext) -> None:
    """Open the functions of the program that an expression calls."""
    handle = getattr(node, "handle", None)
    if handle is not None and hasattr(handle, "open"):
        handle.open(context)
    for child in node.children:
        open_functions(child, context)


def is_async(node: Node) -> bool:
    """Return True if an expression is the call of an asynchronous function."""
    return isinstance(node, Call) and getattr(node.handle, "kind", "") == "scalar" and hasattr(node.handle, "retries")


def has_async(node: Node | None) -> bool:
    """Return True if an expression has a call of an asynchronous function in it."""
    return node is not None and any(map(is_async, walk(node)))


def close_functions(node: Node) -> None:
    """Close the functions of the program that an expression calls."""
    handle = getattr(node, "handle", None)
    if handle is not None and hasattr(handle, "close"):
        handle.close()
    for child in node.children:
        close_functions(child)


# ---- between records and tables


_FIRST, _FEW = 100, 2
"""A column that is NULL in so many first rows is said; at the end of the input in so few."""


class UnseenColumns:
    """Watches the first blocks of a table for columns without any value; ``remedy`` ends the warning on them."""

    def __init__(self, names: Sequence[str], remedy: str, warn: Callable[[str, str], None]) -> None:
        self._unseen = dict(enumerate(names))
        self._remedy, self._warn = remedy, warn
        self._rows = 0

    def goes_on(self, batch: pa.RecordBatch) -> bool:
        """Look at a batch; return False if there is nothing more to watch."""
        self._rows += batch.num_rows
        for place in [place for place in self._unseen if batch.column(place).null_count < batch.num_rows]:
            del self._unseen[place]
        if self._unseen and self._rows >= _FIRST:
            self.end()
        return bool(self._unseen)

    def end(self) -> None:
        """Warn of the columns that had no value."""
        names, self._unseen = ", ".join(map(repr, self._unseen.values())), {}
        if names and self._rows >= _FEW:
            of = "are" if "," in names else "is"
            self._warn("unseen columns", f"{names} {of} NULL in each of its first {self._rows:,} rows. {self._remedy}")


class RowsToTable(TableOperator):
    """Makes blocks of tables of records: ``Row``s with row kinds, tuples, or batches of Arrow.

    ``doubt`` is the remedy if a column has no value, of a source whose format gives NULL for names that it does not find.
    One of the ``delimiters`` in each first row means that rows were not taken apart.
    """

    _unseen: UnseenColumns | None = None
    _is_first = True

    def __init__(self, doubt: str = "", delimiters: str = "") -> None:
        self._doubt, self._delimiters = doubt, delimiters

    def open(self) -> None:
        """Begin to watch the columns."""
        super().open()
        if self._doubt:
            self._unseen = UnseenColumns(self.schema.names, self._doubt, self.context.warn)

    def emit(self, block: TableBlock) -> None:
        """Emit a block, and watch the first ones."""
        if self._is_first and block.batch.num_rows:
            self._is_first = False
            names = self.schema.names
            self._look_for_delimiters(block.batch.column(0))
            if len(names) > 1 and [column[0].as_py() for column in block.batch.columns] == list(names):
                self.context.warn(
                    "header",
                    f"its first row {tuple(names)} has the names of the columns, so the file has a header. Leave it out with "
                    "'csv.ignore-first-line' = 'true'.",
                )
        if self._unseen is not None and not self._unseen.goes_on(block.batch):
            self._unseen = None
        super().emit(block)

    def _look_for_delimiters(self, column: pa.Array) -> None:
        rows = column[:_FIRST].to_pylist() if self._delimiters else []
        for each in self._delimiters if len(rows) >= _FEW else "":
            if all(isinstance(row, str) and each in row for row in rows):
                self.context.warn(
                    "delimiter",
                    f"each of its first {len(rows)} rows has a {each!r} in its only column {self.schema.names[0]!r}. If that is "
                    f"the delimiter of the file, set 'csv.field-delimiter' = '{each}' and declare a column for each field.",
                )
                return

    def finish(self) -> None:
        """Judge the columns of a short input."""
        if self._unseen is not None:
            self._unseen.end()
        super().finish()

    def process_block(self, block: Block) -> None:
        """Convert a block."""
        if isinstance(block, TableBlock):
            arrow = self.schema.arrow
            same = block.schema.equals(arrow)
            self.emit(block if same else block.with_columns(_cast(block.batch.columns, self.schema), arrow))
            return
        values, stamps = block.rows()
        if values and isinstance(values[0], pa.RecordBatch):
            for batch in values:
                arrays = [
                    column.cast(field.type) for column, field in zip(batch.columns, self.schema.arrow, strict=True)
                ]
                self.emit(TableBlock(pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)))
            return
        made = self.schema.of_rows(
            [row if isinstance(row, list | tuple) or hasattr(row, "_kind") else (row,) for row in values]
        )
        made.timestamps = None if stamps is None else np.array(stamps, np.int64)
        self.emit(made)


class TableToRows(TableOperator):
    """Makes ``Row``s with names and row kinds of blocks of tables; ``time`` is the column of their timestamps.

    ``deletes``: rows before an update are deleted. The row behind one has another key, or does not come.
    ``required``: columns that may not be NULL; ``drops``: rows in which one is are dropped, not errors.
    """

    columnar = True

    def __init__(
        self, time: int | None = None, deletes: bool = False, required: Sequence[int] = (), drops: bool = False
    ) -> None:
        self._time, self._deletes, self._required, self._drops = time, deletes, required, drops

    def block(self, block: TableBlock) -> None:
        """Convert a block."""
        for place in self._required:
            column = block.batch.column(place)
            if not column.null_count:
                continue
            if not self._drops:
                raise InvalidProgram(
                    f"Column '{self.schema.names[place]}' is NOT NULL, however, a null value is being written into it. A "
                    "function or a cast gives NULL though its type is NOT NULL: declare the result nullable, write TRY_CAST, "
                    "or drop such rows with 'table.exec.sink.not-null-enforcer'='DROP'."
                )
            block = block.take(np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)))
        stamps = None if self._time is None else millis_of(block.batch.column(self._time))
        if self._deletes and block.kinds is not None:
            block = TableBlock(block.batch, np.where(block.kinds == UPDATE_BEFORE, np.int8(DELETE), block.kinds))
        if len(block):
            rows: list[Any] = self.schema.rows(block)
            self.output.emit_block(RowBlock(rows, None if stamps is None else list(map(_stamp, stamps))))


def _stamp(millis: int | None) -> int:
    return int(MIN_TIMESTAMP) if millis is None else millis


# ---- Calc and its like


class Calc(TableOperator):
    """Keeps the rows for which a condition is TRUE, and computes columns."""

    def __init__(
        self, expressions: Sequence[Node], condition: Node | None = None, parameters: dict[str, Any] | None = None
    ) -> None:
        self._nodes, self._condition, self._parameters = expressions, condition, parameters or {}

    def open(self) -> None:
        """Open the functions."""
        self._computed = Expressions(self._nodes, self, self._parameters)
        self._kept = None
        if self._condition is not None:
            self._kept = Expressions([self._condition], self, self._parameters)

    def block(self, block: TableBlock) -> None:
        """Compute a block: of the rows that are left out nothing but the condition."""
        context = self._computed.context if self._kept is None else self._kept.context
        evaluator, kinds, stamps = Evaluator(block.batch, context), block.kinds, block.timestamps
        if self._kept is not None:
            mask = pc.fill_null(_whole(evaluator.column(self._kept.nodes[0])), False)
            if not mask.true_count:
                return
            some = mask if mask.true_count < len(block) else None
            evaluator = evaluator.under(some, self._computed.context)
            if some is not None:
                kinds, stamps = (_kept(each, some) for each in (kinds, stamps))
        arrays = _cast(self._computed.columns(evaluator), self.schema)
        self.emit(TableBlock(pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow), kinds, stamps))

    def close(self) -> None:
        """Close the functions."""
        for node in (*self._nodes, *filter(None, [self._condition])):
            close_functions(node)


def _kept(values: Any, mask: pa.Array) -> Any:
    return None if values is None else np.asarray(values)[mask.to_numpy(zero_copy_only=False)]


def _cast(arrays: Sequence[pa.Array], schema: BlockSchema) -> list[pa.Array]:
    """Cast columns to the declared Arrow types; values stay the same."""
    return [
        array if array.type == field.type else array.cast(field.type) if not pa.types.is_null(array.type)
        else pa.nulls(len(array), field.type)
        for array, field in zip(arrays, schema.arrow, strict=True)
    ]  # fmt: skip


class Expand(TableOperator):
    """One row per projection for each row: row by row, as the next operator is to see them."""

    def __init__(self, projections: Sequence[Sequence[Node]], parameters: dict[str, Any] | None = None) -> None:
        self._projections, self._parameters = projections, parameters or {}

    def open(self) -> None:
        """Open the functions."""
        self._computed = [Expressions(nodes, self, self._parameters) for nodes in self._projections]

    def block(self, block: TableBlock) -> None:
        """Compute a block."""
        width = len(self._computed)
        parts = [_cast(computed.arrays(block.batch), self.schema) for computed in self._computed]
        order = pa.array(np.arange(width * len(block)).reshape(width, len(block)).T.ravel())
        arrays = [pa.concat_arrays(column).take(order) for column in zip(*parts, strict=True)]
        kinds = None if block.kinds is None else np.repeat(block.kinds, width)
        self.emit(TableBlock(pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow), kinds))


class DropUpdateBefore(TableOperator):
    """Drops -U."""

    def block(self, block: TableBlock) -> None:
        """Filter a block."""
        if block.kinds is None or not (block.kinds == UPDATE_BEFORE).any():
            self.emit(block)
        else:
            self.emit(block.take(np.flatnonzero(block.kinds != UPDATE_BEFORE)))


# ---- time


class WindowTable(TableOperator):
    """A window table function: each row once per window that it is in, with start, end and time of the window."""

    def __init__(self, window: WindowShape, rowtime: bool, local: bool, zone: str) -> None:
        self._window, self._rowtime, self._zone = window, rowtime, zone
        self._local = local  # whether the time is an instant, so that windows are in the zone's wall time

    def open(self) -> None:
        """Prepare the zone."""
        self._wall = WallTime(self._zone if self._local else None)

    def block(self, block: TableBlock) -> None:
        """Assign windows to the rows of a block."""
        if self._rowtime:
            times = millis_array(checked_rowtime(block, self._window.time))
        else:
            times = np.full(len(block), self.context.processing_time(), np.int64)
        found = WindowsOfTimes(self._window, self._wall.locals(times))
        given = block if self._window.kind is WindowKind.TUMBLE else block.take(found.rows)
        lasts = self._wall.instants(found.ends - 1)
        fields = list(self.schema.arrow)[-3:]
        arrays = [
            times_of(millis, field.type)
            for millis, field in zip((found.starts, found.ends, lasts), fields, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays([*given.batch.columns, *arrays], schema=self.schema.arrow)
        self.emit(TableBlock(batch, given.kinds, given.timestamps))


def times_of(millis: Any, kind: pa.DataType) -> pa.Array:
    """Return milliseconds as a column of timestamps."""
    return pa.array(millis * {"ms": 1, "us": 1000, "ns": NANOS}[kind.unit]).view(kind)


# ---- table functions


class Correlate(TableOperator):
    """Calls a table function for each row; LEFT pads a row without results with NULLs."""

    def __init__(
        self, call: TableCall, kind: JoinType, condition: Node | None = None, parameters: dict[str, Any] | None = None
    ) -> None:
        self._call, self._kind, self._condition, self._parameters = call, kind, condition, parameters or {}

    def open(self) -> None:
        """Open the function."""
        self._args = Expressions(self._call.args, self, self._parameters)
        self._schemas = BlockSchema(
            [str(place) for place in range(len(self._call.args))], [node.type for node in self._call.args]
        )
        self._function: RowFunction = table_function(self._call, self.context)
        self._width = len(self._call.row_type)
        self._kept = None
        if self._condition is not None:
            self._kept = Expressions([self._condition], self, self._parameters)

    def block(self, block: TableBlock) -> None:
        """Call the function for the rows of a block."""
        arrays = self._args.arrays(block.batch)
        arguments: Any = zip(*(self._schemas.values(array, i) for i, array in enumerate(arrays)), strict=True)
        if not arrays:
            arguments = [()] * len(block)
        pad = (None,) * self._width
        keep = self._matching if self._kept is not None else None
        rows = zip(self.inputs[0].tuples(block.batch), block.kind_list(), arguments, strict=True)
        for row, kind, args in rows:
            made = [(*row, *result) for result in self._function(args)]
            if keep is not None and made:
                made = keep(made)
            if made:
                self.collect_all(made, kind)
            elif self._kind is JoinType.LEFT:
                self.collect((*row, *pad), kind)

    def _matching(self, rows: list[Any]) -> list[Any]:
        assert self._kept is not None
        mask = self._kept.mask(self.schema.batch(rows)).to_pylist()
        return [row for row, kept in zip(rows, mask, strict=True) if kept]

    def close(self) -> None:
        """Close the function."""
        if hasattr(self, "_function"):
            self._function.close()


class Rename(TableOperator):
    """Passes blocks on: it joins the inputs of a union, whose columns have other names."""

    def block(self, block: TableBlock) -> None:
        """Rename the columns of a block."""
        if block.schema.equals(self.schema.arrow):
            self.emit(block)
        else:
            self.emit(block.with_columns(_cast(block.batch.columns, self.schema), self.schema.arrow))
