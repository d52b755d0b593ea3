"""Interval joins of blocks: the partners of all records of a block are found at once, and the function is computed for all pairs.

Each side's records are in a log (``columnar/keyed/logs.py``), and their places are kept by key and time (``KeyedTimes``
there): arrays in front of the tables of the record path, in RocksDB for example. A key that comes to the arrays is looked up in
the tables once. New records are stored in them, with the timers that drop them, before a snapshot, before records go to the
record path, and when the arrays are full: so both paths have the same snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np

from funken.columnar.block import Block
from funken.columnar.flat_maps import pair_schema
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import JoinIndex, each_once
from funken.columnar.keyed.keys import Slots, column_of_keys, key_of
from funken.columnar.keyed.logs import FoundPairs, KeyedTimes, RecordLog, grown
from funken.columnar.records import fits
from funken.columnar.recurrence import ALL, ListFold
from funken.columnar.typed.inference import TracedFlatMap, paths_of
from funken.expr.types import INT, Tuple, Type, atomic_fields
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.contents import ArrayPane, ListedRecords, ListPane
from funken.operators.columnar.path import BlockGate, ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarJoin
from funken.operators.columnar.stateless import given_of
from funken.operators.columnar.stored import StoredPanes
from funken.operators.columnar.windows import ColumnPanes
from funken.operators.join import CoGroup, IntervalJoinLogic, JoinPairs, TaggedUnion, WindowJoin, WindowJoinLogic
from funken.operators.window.contents import Pane
from funken.operators.window.driver import WindowDriver
from funken.state.backend import entries_in_memory, is_full, may_hold
from funken.windowing.windows import TimeWindow

_PAIRS = 1 << 14
"""About so many pairs are computed at a time."""
_FEW, _FEW_KEYS = 1 << 12, 1 << 16
"""So many records may be in a log, and so many keys have a number, whether they are kept or not."""
_LAST_TIME = 1 << 61


class _Side:
    """The records of one side."""

    def __init__(self, spec: ColumnarJoin, number: int, keep: int) -> None:
        self.schema = spec.schemas[number]
        self.key = spec.traced_keys[number].result
        self.used = leaves_used(spec.given, number, self.schema)
        self._keep = keep
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.log = RecordLog(self.schema)
        self.times = KeyedTimes(self._keep)
        #: by place, whether the table has the record
        self._saved: Array = np.empty(0, np.bool_)

    def add(self, numbers: Array, stamps: Array, records: Columns, saved: bool = False) -> None:
        """Keep records, with the numbers of their keys; ``saved``: the table has them."""
        if len(self.log) > _FEW and len(self.log) > 2 * len(self.times):
            places = self.times.places()
            self.log.keep(places)
            self.times.moved(places)
            self._saved = self._saved.take(places)
        begin = self.log.append(records)
        if len(self.log) > len(self._saved):
            self._saved = grown(self._saved, 2 * len(self.log))
        self._saved[begin : len(self.log)] = saved
        self.times.add(numbers, stamps, begin)

    def load(self, table: Any, keys: list[Any], begin: int) -> None:
        """Take over the records of keys from a number on; raise ``FallBackToRows``, and take none, if arrays cannot have them."""
        if begin == len(keys) or not may_hold(table):
            return
        found = [
            (number, at, bucket)
            for number in range(begin, len(keys))
            for at, bucket in (table.get(keys[number]) or {}).items()
        ]
        values = list(chain.from_iterable(bucket for _, _, bucket in found))
        if not all(fits(at, INT) for _, at, _ in found) or not all(fits(value, self.schema) for value in values):
            raise FallBackToRows("records of another type")
        if found:
            numbers, stamps = (np.array([each[place] for each in found], np.int64) for place in (0, 1))
            counts = np.array([len(bucket) for _, _, bucket in found])
            self.add(np.repeat(numbers, counts), np.repeat(stamps, counts), columns_of(values, self.schema), saved=True)

    def take_new(self) -> Iterator[tuple[int, int, Any]]:
        """Yield the key's number, the time and the value of records that the table has not; from now on it has them."""
        numbers, stamps, places = self.times.all()
        new = np.flatnonzero(~self._saved.take(places))
        self._saved[: len(self.log)] = True
        values = self.log.take(places.take(new)).to_list()
        return zip(numbers.take(new).tolist(), stamps.take(new).tolist(), values, strict=True)

    def leaves(self, places: Array) -> list[Column]:
        """Return the leaves that the function uses of the records at some places."""
        return [
            self.log.leaf(number, places) if used else Column(kind, None, True)
            for number, (used, (_, kind)) in enumerate(zip(self.used, atomic_fields(self.schema), strict=True))
        ]

    def leaves_of_block(self, block: Columns, positions: Array) -> list[Column]:
        """Return the leaves that the function uses of the records of a block at some positions."""
        return [
            leaf.take(positions) if used else Column(leaf.kind, None, True)
            for used, leaf in zip(self.used, block.leaves, strict=True)
        ]


def leaves_used(given: TracedFlatMap, number: int, schema: Type) -> list[bool]:
    """Return of each leaf of a side whether the function of a pair uses it."""
    found = paths_of(chain.from_iterable(each.parts() for each in given.emissions), 0)
    paths = [path[1:] for path in found if not path or path[0] == number]
    return [any(leaf[: len(path)] == path for path in paths) for leaf, _ in atomic_fields(schema)]


class ColumnarIntervalJoinLogic(IntervalJoinLogic):
    """Keeps both sides in arrays, or in the tables of the record path."""

    columnar = True

    def __init__(self, spec: ColumnarJoin) -> None:
        join: Any = spec.spec
        super().__init__(join)
        self._vector = spec
        self._of_pair = pair_schema(*spec.schemas)
        function = TracedFunction(join.function, spec.given)
        self._paths = [
            ColumnPath(
                partial(self._join, number),
                function,
                TracedFunction(key, spec.traced_keys[number]),
                changes=True,
                of=self,
            )
            for number, key in enumerate((join.key1, join.key2))
        ]
        self._arrays = [_Side(spec, number, keep) for number, keep in enumerate(self._keep)]
        self._most: int | None = None
        self._clear()
        self.gate = BlockGate(self)

    def open(self) -> None:
        """Open the user's function."""
        super().open()
        self._most = entries_in_memory(self._store.backend, max(len(side.used) for side in self._arrays))
        self.context.before_snapshot.append(self._store_new)

    def process_block(self, block: Block) -> None:
        """Handle a block of left records."""
        self.gate.take(block, self._paths[0], super().process_block)

    def process_second_block(self, block: Block) -> None:
        """Handle a block of right records."""
        self.gate.take(block, self._paths[1], super().process_second_block)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle left records one by one."""
        self._leave()
        super().process(values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle right records one by one."""
        self._leave()
        super().process_second(values, timestamps)

    def _leave(self) -> None:
        """Go over to the record path."""
        if len(self._slots):
            self.gate.leave(self.size())
            self._store_new()
            self._clear()

    def size(self) -> int:
        """Return the number of records in the arrays."""
        return sum(len(side.times) for side in self._arrays)

    def _clear(self) -> None:
        self._slots, self._few_keys = Slots(), _FEW_KEYS
        #: keys with lower numbers were looked up in the tables
        self._looked = 0
        for side in self._arrays:
            side.clear()

    # ---- a block

    def _join(self, number: int, block: Columns) -> bool:
        stamps = block.timestamps
        if stamps is None or int(stamps.min()) < -_LAST_TIME or int(stamps.max()) > _LAST_TIME:
            raise FallBackToRows("no timestamps, or times at the end of time")
        if is_full(self._most, self.size(), len(self._slots)):
            self._store_new()
            self._clear()
        late = None
        if int(stamps.min()) < self.current_watermark:
            in_time = stamps >= self.current_watermark
            block, late = block.keep(in_time), block.keep(~in_time)
        if block.length:
            self._pair_up(number, block)
        if late is not None:
            assert late.timestamps is not None
            self._emit_late(number, late.to_list(), late.timestamps.tolist())
        return True

    def _pair_up(self, number: int, block: Columns) -> None:
        side, others = self._arrays[number], self._arrays[1 - number]
        stamps: Any = block.timestamps
        numbers = self._slots.find(key_of(side.key, block), block.length)
        for each, table in zip(self._arrays, self._tables, strict=True):
            each.load(table, self._slots.keys, self._looked)
        self._looked = len(self._slots)
        # Nothing has changed so far, and from here on nothing falls back.
        low, high = self._reach[number]
        for found in others.times.find(numbers, stamps + low, stamps + high, _PAIRS):
            self._emit_pairs(number, block, found)
        side.add(numbers, stamps, block)
        if len(self._slots) > self._few_keys:
            self._shrink()

    def _emit_pairs(self, number: int, block: Columns, found: FoundPairs) -> None:
        """Emit what the function gives for some pairs."""
        stamps: Any = block.timestamps
        at, there = stamps.take(found.probed), found.stamps
        of_left, of_right = (there, at) if number else (at, there)
        of_pair = np.maximum(at, there)
        leaves = [
            self._arrays[number].leaves_of_block(block, found.probed), self._arrays[1 - number].leaves(found.places)
        ]  # fmt: skip
        times = [Column(INT, each) for each in (of_left, of_right, of_pair)]
        pairs = Columns(self._of_pair, [*leaves[number], *leaves[1 - number], *times], len(at), of_pair)
        try:
            given = given_of(self._vector.given.emissions, self._vector.results, pairs)
        except FallBackToRows:
            self._call_with_pairs(number, block, found)
            return
        if given.length:
            self.output.emit_block(given)

    def _call_with_pairs(self, number: int, block: Columns, found: FoundPairs) -> None:
        """Call the function itself for some pairs, which the kernels cannot compute."""
        records = block.take(found.probed)
        own, partners = records.rows()[0], self._arrays[1 - number].log.take(found.places).to_list()
        lefts, rights = (partners, own) if number else (own, partners)
        mine: Any = records.timestamps
        call, context, results = self._call, self._context, self._results
        for left, right, at, there in zip(lefts, rights, mine.tolist(), found.stamps.tolist(), strict=True):
            context.at = max(at, there)
            context.left, context.right = (there, at) if number else (at, there)
            results.take(call(left, right, context), context.at)
        results.emit(self.output, stamped=True)

    def _shrink(self) -> None:
        """Forget the keys that have no records any more, if that is most of them; else wait until there are twice as many."""
        live = each_once(np.concatenate([side.times.numbers() for side in self._arrays]))
        if 2 * len(live) > len(self._slots):
            self._few_keys = 2 * len(self._slots)
            return
        keys = self._slots.keys
        self._slots, self._few_keys = Slots(), _FEW_KEYS
        if len(live):
            self._slots.find(column_of_keys([keys[number] for number in live.tolist()]), len(live))
        self._looked = len(self._slots)
        for side in self._arrays:
            side.times.renumbered(live)

    # ---- time

    def watermark(self, watermark: int) -> None:
        """Drop what no partner can come for any more, pass the watermark on."""
        for side in self._arrays:
            side.times.settle(watermark, len(side.log))
        super().watermark(watermark)

    def _store_new(self) -> None:
        """Put what has come since the last time into the tables, with the timers that drop it."""
        keys, register = self._slots.keys, self._timers.register_event_time_timer
        for number, (side, table, keep) in enumerate(zip(self._arrays, self._tables, self._keep, strict=True)):
            for slot, at, value in side.take_new():
                key = keys[slot]
                buckets = table.get(key) or {}
                bucket = buckets.get(at)
                if bucket is None:
                    bucket = [value]
                    register(key, number, at + keep)
                else:
                    bucket.append(value)
                buckets[at] = bucket
                table[key] = buckets


# ---- Joins and co-groups of windows over blocks: both sides of a window are columns, and its pairs or lists are
# made at once. The windows are those of ``operators/columnar``, before objects or in front of keyed state.


class JoinPane(ArrayPane):
    """The records of both sides of a window, each side in the order of arrival; the sides number their keys together."""

    def __init__(self, schemas: tuple[Type, Type]) -> None:
        self.slots = Slots()
        self.sides = [ListPane(ListFold(ALL), schema, self.slots) for schema in schemas]

    def check(self, contributions: list[ListedRecords], length: int) -> None:
        """Nothing can fail."""

    def add(self, key: Column, contributions: list[ListedRecords], length: int) -> None:
        """Add the records of a block of one side."""
        numbers = self.slots.find(key, length)
        self.touch(numbers)
        self.sides[contributions[0].side].put(numbers, contributions[0])

    @property
    def keys(self) -> list[Any]:
        """The keys, in the order of their first records."""
        return self.slots.keys

    @property
    def size(self) -> int:
        """The number of keys and records that are kept."""
        return len(self) + sum(len(side.records()[0]) for side in self.sides)

    def load(self, stored: Pane) -> None:
        """Take contents over; raise ``FallBackToRows`` if they are not of the shape, or keys are of other types."""
        if any(type(each) is not TaggedUnion for records in stored.values() for each in records):
            raise FallBackToRows("a record of another type")
        for number, side in enumerate(self.sides, 1):
            side.load({key: [each[1] for each in records if each[0] == number] for key, records in stored.items()})

    def entries(self, slots: Array) -> Iterator[tuple[Any, Any]]:
        """Return what gives out keys and records at some slots, as they are now: those of the first side first."""
        keys, sides = [self.keys[slot] for slot in slots.tolist()], []
        for number, side in enumerate(self.sides, 1):
            lists = side.columns().take(slots).to_list()
            sides.append(
                [[TaggedUnion(number, each, key) for each in some] for key, some in zip(keys, lists, strict=True)]
            )
        return ((key, firsts + seconds) for key, firsts, seconds in zip(keys, *sides, strict=True))

    def pairs(self, most: int) -> Iterator[tuple[Array, Array]]:
        """Return the positions of all pairs, in the order in which the function would be called; at most ``most`` at a time."""
        (lefts, _), (rights, _) = (side.records() for side in self.sides)
        order = np.argsort(lefts, kind="stable")
        for probed, partners in JoinIndex(rights).find(lefts.take(order)).pairs(most):
            yield order.take(probed), partners

    def columns(self) -> Columns:
        """Return the lists of records of each key, in the order of the keys' first records."""
        left, right = (side.columns() for side in self.sides)
        return Columns(Tuple((left.schema, right.schema)), [*left.leaves, *right.leaves], len(self))


class JoinPanes(ColumnPanes):
    """The windows of both sides: panes of columns, and of lists where that cannot be."""

    def __init__(self, driver: WindowDriver, spec: ColumnarJoin) -> None:
        self.driver = driver
        self.share(driver)
        self._joins = spec
        self.gate = BlockGate(driver, measured=False)
        join: Any = spec.spec
        self._pairs: CoGroup = join.window.function.call.target
        self._results: Any = TracedFunction(self._pairs.function, spec.given)
        self._paths = [
            ColumnPath(
                partial(self._add, side=side), TracedFunction(key, spec.traced_keys[side]), changes=True, of=driver
            )
            for side, key in enumerate((join.key1, join.key2))
        ]
        self._used = [leaves_used(spec.given, side, schema) for side, schema in enumerate(spec.schemas)]

    def take_side(self, side: int, block: Block, in_rows: Callable[[Block], None]) -> None:
        """File a block of one side away, or give it in rows."""
        self.gate.take(block, self._paths[side], in_rows)

    def key(self, block: Columns, side: int) -> Column:
        """Return the keys of records of an input."""
        return key_of(self._joins.traced_keys[side].result, block)

    def parts(self, block: Columns, side: int) -> list[Any]:
        """Return what records of an input add to panes."""
        return [ListedRecords(block.stamped(None), None, side)]

    @property
    def fields(self) -> int:
        """The number of fields of a record."""
        return max(map(len, self._used))

    def _empty(self) -> Any:
        return JoinPane(self._joins.schemas)

    # ---- results

    def emit_pane(self, pane: JoinPane, window: TimeWindow) -> bool:
        """Emit the results of a pane as columns; ``False``: they have to be made one by one."""
        if not self._results.ready():
            return False
        at = window.max_timestamp()
        if isinstance(self._pairs, JoinPairs):
            sides = [side.records()[1].records for side in pane.sides]
            for positions in pane.pairs(_PAIRS):
                self._emit_pairs(self._pairs, sides, positions, at)
            return True
        try:
            given = self._given(pane.columns(), at)
        except FallBackToRows:
            return False
        self.emit(given)
        return True

    def _given(self, seen: Columns, at: int) -> Columns:
        """Return what the function gives for pairs, or for groups; raises ``FallBackToRows``."""
        stamped = seen.stamped(np.full(seen.length, at, np.int64))
        return given_of(self._joins.given.emissions, self._joins.results, stamped)

    def _emit_pairs(self, join: JoinPairs, sides: list[Columns], positions: tuple[Array, Array], at: int) -> None:
        """Emit what the function gives for some pairs."""
        leaves = [
            leaf.take(those) if used else Column(leaf.kind, None, True)
            for records, those, all_used in zip(sides, positions, self._used, strict=True)
            for leaf, used in zip(records.leaves, all_used, strict=True)
        ]
        try:
            given = self._given(Columns(Tuple(self._joins.schemas), leaves, len(positions[0])), at)
        except FallBackToRows:
            pairs = [records.take(those).to_list() for records, those in zip(sides, positions, strict=True)]
            call, results = join.function.bind(), self.driver.emitter.results
            self.driver.emitter.flush()  # of windows before this one
            if join.flat:
                for one, two in zip(*pairs, strict=True):
                    results.take(call(one, two), at)
            else:
                results.take(map(call, *pairs), at)
            self.driver.emitter.flush()
        else:
            self.emit(given)


class StoredJoinPanes(StoredPanes, JoinPanes):
    """The same panes in front of keyed state."""


class ColumnarWindowJoinLogic(WindowJoinLogic):
    """Gives blocks to the windows, and rows where those cannot take them."""

    def __init__(self, spec: ColumnarJoin) -> None:
        super().__init__(cast("WindowJoin", spec.spec))
        self._panes = (StoredJoinPanes if self.spec.general else JoinPanes)(self, spec)
        self.use(self._panes)

    def process_block(self, block: Block) -> None:
        """File a block of the first input away."""
        self._panes.take_side(0, block, super().process_block)

    def process_second_block(self, block: Block) -> None:
        """File a block of the second input away."""
        self._panes.take_side(1, block, super().process_second_block)
