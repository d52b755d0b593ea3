"""Process table functions: a function of the program over the rows of one or several tables, with keyed state and named timers.

A function has ``eval(ctx, **arguments)``, which yields rows: of its table arguments the one whose row has come is a ``Row`` with
its kind, the others are ``None``. It may have ``on_timer(ctx)``. A table with *set semantics* is partitioned: state and timers
are those of the partition. What is emitted stands behind the columns of the partition, or of the whole row where these pass
through, and before the time, if the function is told which column that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from funken.errors import InvalidProgram
from funken.expr.ir import Node
from funken.operators.base import OperatorContext, Output
from funken.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from funken.table.changelog import ChangelogMode
from funken.table.logical import TableArgument
from funken.table.runtime.block import BlockSchema, TableBlock
from funken.table.runtime.keyed_blocks import sort_key
from funken.table.runtime.operator import KeyedTableOperator, TableOperator, living, millis_of
from funken.table.runtime.stateless import NANOS
from funken.types.row import Row, RowKind

Tuple = tuple[Any, ...]
_OP_NAMES = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")


class ProcessTableContext:
    """The context of a process table function: time, timers, state, and the properties of its tables."""

    def __init__(self, operator: ProcessTable) -> None:
        self._operator = operator
        self.time: int | None = None
        """The time (ms) of the row or timer; ``None`` without ``on_time``."""
        self.timer: str | None = None
        """The name of the timer that is due, if it has one."""
        self._handles: dict[str, Any] = {}

    @property
    def current_watermark(self) -> int | None:
        """The watermark (ms); ``None`` if there was none yet in this run. Rows in order see the one before their release."""
        return self._operator.reached

    # ---- state

    def _state(self, name: str, descriptor: Any, ttl: int) -> Any:
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = self._operator.store.state(living(descriptor, ttl))
        return handle

    def value_state(self, name: str, default: Any = None, ttl: int = 0) -> Any:
        """Return a value of the partition."""
        return self._state(name, ValueStateDescriptor(f"state-{name}", default=default), ttl)

    def list_state(self, name: str, ttl: int = 0) -> Any:
        """Return a list of the partition."""
        return self._state(name, ListStateDescriptor(f"state-{name}"), ttl)

    def map_state(self, name: str, ttl: int = 0) -> Any:
        """Return a map of the partition."""
        return self._state(name, MapStateDescriptor(f"state-{name}"), ttl)

    def clear_state(self, name: str) -> None:
        """Remove one state of the partition."""
        self._handles[name].clear()

    def clear_all_state(self) -> None:
        """Remove all state of the partition that the function has used."""
        for handle in self._handles.values():
            handle.clear()

    def clear_all(self) -> None:
        """Remove all state and all timers of the partition."""
        self.clear_all_state()
        self.clear_all_timers()

    # ---- timers

    def register_on_time(self, name: str | int, time: int | None = None) -> None:
        """Let ``on_timer`` be called when the watermark reaches a time (ms); one of the same name is replaced."""
        if time is None:
            self._operator.register(None, int(name))
        else:
            self._operator.register(str(name), time)

    def clear_timer(self, name: str | int) -> None:
        """Delete a timer by name, or one without a name by its time."""
        self._operator.clear(name)

    def clear_all_timers(self) -> None:
        """Delete all timers of the partition."""
        self._operator.clear_all()

    # ---- tables

    def table_semantics(self, name: str) -> TableSemantics:
        """Return the semantics of a table argument."""
        return self._operator.semantics[name]

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The row kinds that the output may have."""
        return self._operator.mode


class TableSemantics:
    """A table argument: its columns, those of its partition, its time column, and the changes in it."""

    def __init__(self, names: Sequence[str], partition: Sequence[int], time: int | None, mode: ChangelogMode) -> None:
        self.names, self.partition, self.time, self.changelog_mode = tuple(names), tuple(partition), time, mode


class Tagged(TableOperator):
    """Marks the blocks of one of several tables, which one operator takes: the name of the first column says the table."""

    def __init__(self, index: int) -> None:
        self._index = index

    def block(self, block: TableBlock) -> None:
        """Rename the first column of a block."""
        self.emit(block.with_columns(block.batch.columns, self.schema.arrow))


def tagged_schema(schema: BlockSchema, index: int) -> BlockSchema:
    """Return the schema of a table's blocks with the number of the table in it."""
    return BlockSchema(
        [f"{index}:{name}" if place == 0 else name for place, name in enumerate(schema.names)], schema.types
    )


class ProcessTable(KeyedTableOperator):
    """Calls a process table function for the rows of its tables, and for its timers."""

    def __init__(
        self,
        function: Any,
        tables: Sequence[TableArgument],
        schemas: Sequence[BlockSchema],
        scalars: Sequence[tuple[str, Any]],
        on_time: Sequence[int | None],
        modes: Sequence[ChangelogMode],
        passes: Sequence[bool],
        mode: ChangelogMode,
        timed: bool,
        width: int,
    ) -> None:
        self._function, self._tables, self._schemas, self._scalars = function, tables, schemas, scalars
        self._on_time, self._passes, self.mode, self._timed, self._width = on_time, passes, mode, timed, width
        self.semantics = {
            table.name: TableSemantics(schema.names, table.partition or (), time, each)
            for table, schema, time, each in zip(tables, schemas, _padded(on_time, len(tables)), modes, strict=True)
        }

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self.reached: int | None = None
        self._before: int | None = None

    def watermark(self, watermark: int) -> None:
        """Handle the rows and timers that waited for it."""
        self._before, self.reached = self.reached, watermark
        super().watermark(watermark)

    def open(self) -> None:
        """Open the function."""
        opened = getattr(self._function, "process_function", None)
        self._called = self._function if opened is None else opened(self.context)
        self._context = ProcessTableContext(self)
        self._timers = self.map_state("timers")
        self._sorted = [self.map_state(f"sorted-{place}") for place in range(len(self._tables))]
        self._last = self.value_state("last-sorted")
        self._constants = {name: constant(value) for name, value in self._scalars}
        self._is_set = any(table.partition is not None for table in self._tables)
        self._handles_timers = hasattr(self._called, "on_timer")
        self._key: Tuple = ()

    def process_block(self, block: Any) -> None:
        """Find out which table a block is of, and handle its rows."""
        name = block.schema.names[0] if isinstance(block, TableBlock) else block.rows()[0][0]._fields[0]
        index = int(name.split(":")[0]) if len(self._tables) > 1 else 0
        if not isinstance(block, TableBlock):
            block = self._schemas[index].of_rows(block.rows()[0])
        self._rows_of(block, index)
        self.flush()

    def _rows_of(self, block: TableBlock, index: int) -> None:
        table, schema, time_column = self._tables[index], self._schemas[index], _padded(self._on_time, index + 1)[index]
        times: Sequence[int | None] = [None] * len(block)
        if time_column is not None:
            times = millis_of(block.batch.column(time_column))
        rows = schema.rows(block)
        self.inputs = tuple(self._schemas)
        for (key, values, _), row, time in zip(
            self.keyed_rows(block, table.partition or (), index), rows, times, strict=True
        ):
            self.store.current_key = self._key = key
            if table.order and time is not None:
                self._sort(index, key, row, values, time)
            else:
                self._call(index, row, values, time)

    # ---- rows in order

    def _sort(self, index: int, key: Tuple, row: Row, values: Tuple, time: int) -> None:
        if time <= self.timers.current_watermark:
            return
        rows = self._sorted[index]
        rows.put(time, [*(rows.get(time) or ()), (row, values)])
        self.timers.register_event_time_timer(key, ("order", index), time)

    def _in_order(self, index: int, time: int) -> None:
        key_of = sort_key(self._tables[index].order)
        rows = self._sorted[index].get(time) or ()
        self._sorted[index].remove(time)
        for row, values in sorted(rows, key=lambda entry: key_of(entry[1])):
            self._call(index, row, values, time)

    # ---- calls

    def _call(self, index: int, row: Row, values: Tuple, time: int | None) -> None:
        arguments = {table.name: None for table in self._tables} | self._constants
        arguments[self._tables[index].name] = row
        context = self._context
        context.time, context.timer = time, None
        self._emit(self._called.eval(context, **arguments), self._prefix(index, values), time)

    def _prefix(self, index: int, values: Tuple | None) -> Tuple:
        found: list[Any] = []
        for place, table in enumerate(self._tables):
            if self._passes[place] and place == index and values is not None:
                found += values
            elif table.partition:
                found += (
                    self._key if values is None or place != index else [values[column] for column in table.partition]
                )
        return tuple(found)

    def _emit(self, made: Iterable[Any] | None, prefix: Tuple, time: int | None) -> None:
        types = self.schema.types[len(prefix) : len(self.schema) - self._timed]
        for each in made or ():
            row = each if isinstance(each, Row | tuple | list) else (each,)
            kind = row.get_row_kind() if isinstance(row, Row) else RowKind.INSERT
            if not self.mode.contains(kind):
                raise InvalidProgram(
                    f"Invalid row kind received: {kind.name}. Expected produced changelog mode: [{_names(self.mode)}]. Process "
                    f"table function {type(self._called).__name__!r} declares the kinds that it emits in its changelog mode."
                )
            values = self._plain(row, types)
            last = (None if time is None else time * NANOS,) if self._timed else ()
            self.collect((*prefix, *values, *last), kind.value)

    @staticmethod
    def _plain(row: Iterable[Any], types: Sequence[Any]) -> Tuple:
        from funken.table.values import internal_value  # noqa: PLC0415

        return tuple(internal_value(value, kind) for value, kind in zip(row, types, strict=True))

    # ---- timers

    def register(self, name: str | None, time: int) -> None:
        """Register a timer of the partition."""
        if not self._is_set:
            raise InvalidProgram(
                "Timers are not supported in the current PTF declaration. A table needs set semantics (PARTITION BY)."
            )
        if any(self._passes):
            raise InvalidProgram(
                "Timers are not supported in the current PTF declaration. A table's columns may not be passed through."
            )
        if name is not None:
            before = self._timers.get(name)
            if before is not None:
                self.timers.delete_event_time_timer(self._key, ("named", name), before)
            self._timers.put(name, time)
            self.timers.register_event_time_timer(self._key, ("named", name), time)
        else:
            self._timers.put(time, time)
            self.timers.register_event_time_timer(self._key, ("unnamed", time), time)

    def clear(self, name: str | int) -> None:
        """Delete a timer of the partition."""
        before = self._timers.get(name)
        if before is not None:
            kind = "named" if isinstance(name, str) else "unnamed"
            self.timers.delete_event_time_timer(self._key, (kind, name), before)
            self._timers.remove(name)

    def clear_all(self) -> None:
        """Delete all timers of the partition."""
        for name in list(self._timers.keys()):
            self.clear(name)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Handle rows that waited for their time, or call the function for its timer."""
        kind, name = namespace
        self._key = key
        if kind == "order":
            reached, self.reached = self.reached, self._before
            self._in_order(name, timestamp)
            self.reached = reached
            return
        self._timers.remove(name)
        context = self._context
        context.time, context.timer = timestamp, name if kind == "named" else None
        if self._handles_timers:
            self._emit(self._called.on_timer(context), self._prefix(-1, None), timestamp)

    def close(self) -> None:
        """Close the function."""
        close = getattr(getattr(self, "_called", None), "close", None)
        if close is not None:
            close()


def _names(mode: ChangelogMode) -> str:
    return ", ".join(kind.name for kind in RowKind if mode.contains(kind))


class ProcessOnce(ProcessTable):
    """A function without tables: called once."""

    def process_block(self, block: Any) -> None:
        """Call the function."""
        context = self._context
        context.time = context.timer = None
        self.store.current_key = self._key = ()
        self._emit(self._called.eval(context, **self._constants), (), None)
        self.flush()


def _padded(values: Sequence[Any], count: int) -> list[Any]:
    return [*values, *[None] * count][: max(count, len(values))] if len(values) < count else list(values)


def constant(value: Any) -> Any:
    """Return the value of a scalar argument as the program sees it: of an expression, its result."""
    if not isinstance(value, Node):
        return value
    import pyarrow as pa  # noqa: PLC0415

    from funken.expr.evaluate import EvaluationContext, evaluate  # noqa: PLC0415
    from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415
    from funken.table.values import to_python  # noqa: PLC0415

    array = evaluate([value], pa.record_batch({"row": [0]}), EvaluationContext(FUNCTIONS))[0]
    return to_python(array, value.type)[0]


# ---- changelogs as data


class ToChangelog(TableOperator):
    """TO_CHANGELOG: every change as an insertion, with a column that names its row kind behind the partition.

    A deletion has the columns ``kept`` only, if these are given.
    """

    def __init__(
        self,
        names: dict[str, str | None],
        keys: tuple[int, ...],
        rest: tuple[int, ...],
        kept: frozenset[int] | None,
    ) -> None:
        self._names, self._keys, self._rest = names, keys, rest
        self._kept = kept

    def block(self, block: TableBlock) -> None:
        """Convert a block."""
        for given, kind in zip(self.inputs[0].tuples(block.batch), block.kind_list(), strict=True):
            name, row = self._names.get(_OP_NAMES[kind]), given
            if name is None:
                continue
            if self._kept is not None and _OP_NAMES[kind] == "DELETE":
                row = tuple(value if place in self._kept else None for place, value in enumerate(given))
            self.collect((*(row[place] for place in self._keys), name, *(row[place] for place in self._rest)))


class FromChangelog(TableOperator):
    """FROM_CHANGELOG: rows with a column that names the row kind become changes of that kind."""

    def __init__(self, column: int, kinds: dict[str, str], shown: tuple[int, ...], skips: bool) -> None:
        self._column, self._kinds, self._shown, self._skips = column, kinds, shown, skips

    def block(self, block: TableBlock) -> None:
        """Convert a block."""
        for row in self.inputs[0].tuples(block.batch):
            code = row[self._column]
            if code in self._kinds:
                self.collect(tuple(row[place] for place in self._shown), _OP_NAMES.index(self._kinds[code]))
            elif not self._skips:
                raise InvalidProgram(
                    f"Received invalid op code '{code}' in FROM_CHANGELOG. Known are {', '.join(self._kinds)}: name others in "
                    "op_mapping, or write error_handling => 'SKIP'."
                )


def changelog_function(
    name: str,
    scalars: Mapping[str, Any],
    columns: Sequence[str],
    keys: tuple[int, ...],
    upsert_keys: Iterable[frozenset[int]],
) -> tuple[type[TableOperator], dict[str, Any]]:
    """Return the operator of TO_CHANGELOG or FROM_CHANGELOG, with its options."""
    rest = tuple(place for place in range(len(columns)) if place not in keys)
    mapping = constant(scalars.get("op_mapping"))
    if name == "TO_CHANGELOG":
        kept = None
        if scalars.get("produces_full_deletes") is False:
            kept = frozenset(keys) or min(upsert_keys, key=lambda key: (len(key), sorted(key)))
        return ToChangelog, {"names": op_mapping(mapping, to_kind=False), "keys": keys, "rest": rest, "kept": kept}
    op = constant(scalars.get("op")) or ("op",)
    column = list(columns).index(op[0] if isinstance(op, tuple | list) else op)
    shown = (*keys, *(place for place in rest if place != column))
    skips = scalars.get("error_handling") == "SKIP"
    kinds = op_mapping(mapping, to_kind=True)
    return FromChangelog, {"column": column, "kinds": kinds, "shown": shown, "skips": skips}


def op_mapping(given: Any, to_kind: bool) -> dict[str, str]:
    """Return the mapping of codes to row kinds (``to_kind``) or back; a key may name several, with commas.

    >>> op_mapping({"INSERT, UPDATE_AFTER": "u"}, False)
    {'INSERT': 'u', 'UPDATE_AFTER': 'u'}
    >>> sorted(op_mapping(None, True)) == sorted(_OP_NAMES)
    True
    """
    if given is None:
        return {name: name for name in _OP_NAMES}
    pairs = given.items() if hasattr(given, "items") else given
    found = {key.strip(): value for names, value in pairs for key in names.split(",")}
    unknown = [name for name in (found.values() if to_kind else found) if name not in _OP_NAMES]
    if unknown:
        raise InvalidProgram(f"Unknown change operation: '{unknown[0]}'. Valid values are: {', '.join(_OP_NAMES)}.")
    return found
