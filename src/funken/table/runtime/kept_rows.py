"""One row per key, in columns: of operators that keep the best or the last row of each key.

A large block reads and replaces rows as columns. A row that a small block touches is kept as plain data from then on, until a
large block needs it: so neither pays for the other. In snapshots it is a value per key.

Columns may be a cache of state in files. A key that a block has is looked up there once. Changes are stored before a snapshot,
and when there are too many rows: then the columns are emptied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.logs import grown
from funken.operators.base import OperatorContext, Output
from funken.state.backend import entries_in_memory, is_full, whole
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.state.descriptors import StateKind
from funken.state.keyed import KeyedStateStore
from funken.table.runtime.aggregates import joined
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.keyed_blocks import KeyedRows, KeyNumbers
from funken.table.runtime.operator import KeyedTableOperator

Array = Any
Tuple = tuple[Any, ...]
_FEWEST = 64
_FEW_GONE = 4096
_PARTS = 4
"""So many batches of about one size become one."""
_LARGEST = 1 << 28
"""Batches of more bytes are left as they are: the offsets of texts have 32 bits."""
_AT_ONCE = 1024


class RowBatches:
    """Rows in few batches, known by their places in the order of arrival.

    >>> from funken.expr.sql.types import BigIntType
    >>> rows = RowBatches(BlockSchema(["n"], [BigIntType()]))
    >>> for numbers in ([1, 2], [3]):
    ...     rows.add(pa.record_batch({"n": numbers}))
    >>> rows.columns(np.array([2, 0]))[0].to_pylist()
    [3, 1]
    """

    def __init__(self, schema: BlockSchema, parts: Iterable[pa.RecordBatch] = (), ends: Array | None = None) -> None:
        self._schema, self._parts = schema, list(parts)
        self._ends = np.empty(0, np.int64) if ends is None else ends

    def frozen(self) -> RowBatches:
        """Return the rows as they are now."""
        return RowBatches(self._schema, self._parts, self._ends)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        parts = self._parts
        parts.append(batch)
        while len(parts) >= _PARTS:
            last = parts[-_PARTS:]
            if last[0].num_rows > _PARTS * last[-1].num_rows or sum(part.nbytes for part in last) > _LARGEST:
                break
            parts[-_PARTS:] = [joined(last)]
        self._ends = np.cumsum([part.num_rows for part in parts])

    def batch(self, places: Array) -> pa.RecordBatch:
        """Return the rows at some places."""
        return pa.RecordBatch.from_arrays(self.columns(places), schema=self._schema.arrow)

    def columns(self, places: Array, read: Iterable[int] | None = None) -> list[pa.Array]:
        """Return columns of the rows at some places; those that are not read are NULL."""
        wanted = range(len(self._schema)) if read is None else sorted(read)
        if not len(places):
            found = [pa.array([], self._schema.arrow.field(at).type) for at in wanted]
        elif len(self._parts) == 1:
            at_places = pa.array(places)
            found = [self._parts[0].column(at).take(at_places) for at in wanted]
        else:
            found = self._of_parts(places, wanted)
        if read is None:
            return found
        by_place = dict(zip(wanted, found, strict=True))
        return [
            by_place[at] if at in by_place else pa.nulls(len(places), field.type)
            for at, field in enumerate(self._schema.arrow)
        ]

    def _of_parts(self, places: Array, wanted: Sequence[int]) -> list[pa.Array]:
        numbers = np.searchsorted(self._ends, places, "right")
        there = np.flatnonzero(np.bincount(numbers))
        if len(there) == 1:
            part = self._parts[int(there[0])]
            at_places = pa.array(places - (self._ends[there[0]] - part.num_rows))
            return [part.column(at).take(at_places) for at in wanted]
        order = np.argsort(numbers.astype(np.uint16), kind="stable")
        back = np.empty(len(places), np.int64)
        back[order] = np.arange(len(places))
        found: list[list[pa.Array]] = [[] for _ in wanted]
        ordered, ends = places.take(order), np.cumsum(np.bincount(numbers))
        for number in there.tolist():
            part = self._parts[number]
            begin = 0 if number == 0 else int(ends[number - 1])
            at_places = pa.array(ordered[begin : ends[number]] - (self._ends[number] - part.num_rows))
            for arrays, at in zip(found, wanted, strict=True):
                arrays.append(part.column(at).take(at_places))
        to_back = pa.array(back)
        return [pa.concat_arrays(arrays).take(to_back) for arrays in found]


class TableInColumns:
    """An ``OperatorTable`` in columns, by key: all there is, or a cache of state in files."""

    _keys: KeyNumbers
    #: keys with lower numbers were looked up in the state
    _looked = 0
    _state: Any = None
    _most: int | None = None

    def __len__(self) -> int:
        raise NotImplementedError

    def put_before(self, backend: Any, state: Any, columns: int) -> None:
        """Be a cache of a state."""
        self._state, self._most = state, entries_in_memory(backend, columns)

    def make_room(self) -> None:
        """Empty the columns if they have too much."""
        if is_full(self._most, len(self) + len(self._keys), len(self._keys)):
            self.store()
            self._empty()

    def store(self) -> None:
        """Put what has changed into the state."""
        for key, _, entry in self.begin_snapshot(False, lambda row: None).rows:
            self._state.table[key] = entry

    def bring(self) -> None:
        """Take over what the state has of new keys."""
        begin, self._looked = self._looked, len(self._keys)
        if self._state is not None and begin < self._looked:
            new, get = [self._keys[number] for number in range(begin, self._looked)], self._state.table.get
            self.load((key, None, entry) for key in new if (entry := whole(get(key))))

    def _empty(self) -> None:
        """Forget everything."""
        raise NotImplementedError

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the keys that have changed since the last one."""
        raise NotImplementedError

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add rows of a snapshot."""
        raise NotImplementedError


class KeepsColumns(KeyedTableOperator):
    """Base of the operators that keep rows in columns: of state in files, as many as memory has room for."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Begin without rows."""
        super().setup(context, output)
        self._declared: list[tuple[Any, StateKind, str, int, int]] = []

    def keep(self, name: str, table: Any, kind: StateKind, columns: int, ttl: int = 0) -> Any:
        """Declare the state that a table is, in ``setup``; return the table."""
        self._declared.append((table, kind, name, columns, ttl))
        if not self.in_files:
            self.store.register(name, kind, table, ttl or None)
        return table

    def open_kept(self) -> None:
        """Open these states, in ``open``."""
        for table, kind, name, columns, ttl in self._declared if self.in_files else ():
            state = (self.map_state if kind is StateKind.MAP else self.value_state)(name, ttl)
            table.put_before(self.store.backend, state, columns)
            self.context.before_snapshot.append(table.store)


class RowPerKey(TableInColumns):
    """The one row of each key, and a number that goes with it.

    ``entry`` makes of row and number the value that is stored, ``parsed`` takes it apart.
    """

    def __init__(
        self, schema: BlockSchema, width: int, entry: Callable[[Tuple, int], Any], parsed: Callable[[Any], tuple[Tuple, int]]
    ) -> None:  # fmt: skip
        self._schema, self._width, self._entry, self._parsed = schema, width, entry, parsed
        self._empty()

    def _empty(self) -> None:
        self._keys, self._batches, self._looked = KeyNumbers(self._width), RowBatches(self._schema), 0
        #: how many rows are in the batches, and how many of these are replaced
        self._count = self._gone = 0
        #: of each slot: where its row is (-1: in ``_plain``, if there is one), its number, whether it has changed
        self._places, self._numbers = (np.empty(0, np.int64) for _ in range(2))
        self._changed = np.zeros(0, np.bool_)
        #: entries by slot
        self._plain: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._keys)

    # ---- blocks

    def slots(self, rows: KeyedRows) -> Array:
        """Return the slots of keys, whose rows are in columns from now on; new keys get new ones."""
        self.make_room()
        slots = self._keys.numbers(rows)
        self._reserve()
        self.bring()
        if self._plain:
            self._to_columns([slot for slot in slots.tolist() if slot in self._plain])
        return slots

    def places(self, slots: Array) -> Array:
        """Return where the rows of slots are; -1: there is none."""
        return self._places.take(slots)

    def numbers(self, slots: Array) -> Array:
        """Return the numbers that go with rows."""
        return self._numbers.take(slots)

    def columns(self, places: Array, read: Iterable[int] | None = None) -> list[pa.Array]:
        """Return columns of rows; those that are not read are NULL."""
        return self._batches.columns(places, read)

    def batch(self, places: Array) -> pa.RecordBatch:
        """Return rows."""
        return self._batches.batch(places)

    def put(self, slots: Array, batch: pa.RecordBatch, numbers: Any = 0) -> None:
        """Let rows take the place of those of slots."""
        self._changed[slots] = True
        self._put(slots, batch, numbers)

    def _put(self, slots: Array, batch: pa.RecordBatch, numbers: Any) -> None:
        self._gone += int(np.count_nonzero(self._places.take(slots) >= 0))
        self._places[slots] = np.arange(self._count, self._count + len(slots))
        self._numbers[slots] = numbers
        self._count += len(slots)
        self._batches.add(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema.arrow))
        if self._gone > max(_FEW_GONE, self._count - self._gone):
            self._compact()

    def _to_columns(self, slots: Sequence[int]) -> None:
        if slots:
            rows, numbers = zip(*(self._parsed(self._plain.pop(slot)) for slot in slots), strict=True)
            self._put(np.array(slots, np.int64), self._schema.batch(rows), np.array(numbers, np.int64))

    def _compact(self) -> None:
        slots = np.flatnonzero(self._places[: len(self._keys)] >= 0)
        batch = self.batch(self._places.take(slots))
        self._batches, self._count, self._gone = RowBatches(self._schema), len(slots), 0
        self._batches.add(batch)
        self._places[slots] = np.arange(len(slots))

    def _reserve(self) -> None:
        size = len(self._places)
        if len(self._keys) > size:
            room = max(_FEWEST, 2 * len(self._keys))
            self._places, self._numbers, self._changed = (
                grown(each, room) for each in (self._places, self._numbers, self._changed)
            )
            self._places[size:] = -1

    # ---- one key

    def _slot(self, key: Tuple, new: bool) -> int:
        slot = self._keys.number(key, new)
        if new:
            self._reserve()
            self.bring()
        return slot

    def get(self, key: Tuple) -> Any:
        """Return the entry of a key, ``None`` if there is none; it is plain data from now on."""
        self.make_room()
        slot = self._slot(key, new=self._state is not None)
        found = self._plain.get(slot)
        if found is None and slot >= 0 and self._places[slot] >= 0:
            (row,) = self._schema.tuples(self.batch(self._places[slot : slot + 1]))
            found = self._plain[slot] = self._entry(row, int(self._numbers[slot]))
            self._places[slot] = -1
            self._gone += 1
        return found

    def set(self, key: Tuple, entry: Any) -> None:
        """Keep the entry of a key."""
        slot = self._slot(key, new=True)
        if self._places[slot] >= 0:
            self._places[slot] = -1
            self._gone += 1
        self._plain[slot] = entry
        self._changed[slot] = True

    # ---- snapshots

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the keys that have changed since the last one."""
        count = len(self._keys)
        changed = self._changed[:count]
        chosen = np.arange(count) if complete else np.flatnonzero(changed)
        changed[:] = False
        plain = {slot: self._plain[slot] for slot in chosen.tolist() if slot in self._plain}
        there = chosen[self._places.take(chosen) >= 0]
        places, numbers = self._places.take(there), self._numbers.take(there)
        return TableSnapshot(self._written(plain, there, places, numbers, self._batches.frozen()), iter(()))

    def _written(
        self, plain: dict[int, Any], slots: Array, places: Array, numbers: Array, batches: RowBatches
    ) -> Iterator[StateRow]:
        for slot, entry in plain.items():
            yield self._keys[slot], None, entry
        for at in range(0, len(slots), _AT_ONCE):
            some = slice(at, at + _AT_ONCE)
            rows = self._schema.tuples(batches.batch(places[some]))
            for slot, row, number in zip(slots[some].tolist(), rows, numbers[some].tolist(), strict=True):
                yield self._keys[slot], None, self._entry(row, number)

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add rows of a snapshot."""
        for key, _, stored in rows:
            # one that had a lifetime, which these have not, is a pair of what was stored and its time
            self.set(key, stored[0] if type(stored[0]) is tuple else stored)
            self._changed[self._keys.number(key)] = False


class KeyedRowState:
    """The row of the current key, as a value state has it."""

    def __init__(self, store: KeyedStateStore, rows: RowPerKey) -> None:
        self._store, self._rows = store, rows

    def value(self) -> Any:
        """Return the entry."""
        return self._rows.get(self._store.current_key)

    def update(self, entry: Any) -> None:
        """Keep an entry."""
        self._rows.set(self._store.current_key, entry)


class KeepsRows(KeepsColumns):
    """Base of the operators that keep one row per key."""

    def keep_rows(
        self, name: str, keys: Sequence[int], entry: Callable[[Tuple, int], Any], parsed: Callable[[Any], tuple[Tuple, int]]
    ) -> None:  # fmt: skip
        """Declare the state, in ``setup``."""
        schema = self.inputs[0]
        self.kept = self.keep(name, RowPerKey(schema, len(keys), entry, parsed), StateKind.VALUE, len(schema))

    def open_rows(self) -> Any:
        """Open the state, in ``open``; return it as a value state."""
        self.open_kept()
        return KeyedRowState(self.store, self.kept)
