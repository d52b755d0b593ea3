"""Interval joins of blocks: the partners of all records of a block are found at once, and the function is computed for all pairs.

Each side's records are in a log (``columnar/keyed/logs.py``), and their places are kept by key and time (``KeyedTimes``
there). The tables and timers of the record path have what the last snapshot had, less what has been dropped since, as they would
there. What has come since is brought to them before a snapshot, and before records go to the record path: so both have the same
snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np

from funken.columnar.block import Block
from funken.columnar.flat_maps import pair_schema
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, joined, lists_with
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import JoinIndex, each_once
from funken.columnar.keyed.keys import Slots, coded, column_of_keys, key_of
from funken.columnar.keyed.logs import FoundPairs, KeyedTimes, RecordLog
from funken.columnar.records import fits
from funken.columnar.typed.inference import TracedFlatMap, paths_of
from funken.expr.types import INT, ListOf, Tuple, Type, atomic_fields
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.contents import ArrayPane
from funken.operators.columnar.path import BlockGate, ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarJoin
from funken.operators.columnar.stateless import given_of
from funken.operators.columnar.windows import ColumnPanes
from funken.operators.join import CoGroup, IntervalJoinLogic, JoinPairs, TaggedUnion, WindowJoin, WindowJoinLogic
from funken.operators.window.contents import Pane
from funken.operators.window.driver import WindowDriver
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
        #: the place of the first record that is not in the table
        self.saved = 0

    def add(self, added: tuple[Array, Array], records: Columns) -> None:
        """Keep the records of a block."""
        if len(self.log) > _FEW and len(self.log) > 2 * len(self.times):
            self.shrink()
        self.times.add(added, self.log.append(records))

    def shrink(self) -> None:
        """Let the log have no others than those that are kept."""
        places = self.times.places()
        self.log.keep(places)
        self.times.moved(places)
        self.saved = int(np.searchsorted(places, self.saved))

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
        self._slots = Slots()
        self._few_keys = _FEW_KEYS
        self._in_arrays = False
        self.gate = BlockGate(self)

    def open(self) -> None:
        """Open the user's function."""
        super().open()
        self.context.before_snapshot.append(self._hand_over)

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
        if self._in_arrays:
            self.gate.leave(sum(len(side.times) for side in self._arrays))
            self._hand_over()
            self._clear()

    def _clear(self) -> None:
        self._in_arrays, self._slots, self._few_keys = False, Slots(), _FEW_KEYS
        for side in self._arrays:
            side.clear()

    # ---- a block

    def _join(self, number: int, block: Columns) -> bool:
        stamps = block.timestamps
        if stamps is None or int(stamps.min()) < -_LAST_TIME or int(stamps.max()) > _LAST_TIME:
            raise FallBackToRows("no timestamps, or times at the end of time")
        if not self._in_arrays:
            self._load()
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
        # Nothing has changed so far, and from here on nothing falls back.
        added = side.times.sorted(numbers, stamps)
        low, high = self._reach[number]
        for found in others.times.find(numbers, stamps + low, stamps + high, _PAIRS):
            self._emit_pairs(number, block, found)
        side.add(added, block)
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
        for side in self._arrays:
            side.times.renumbered(live)

    # ---- time

    def watermark(self, watermark: int) -> None:
        """Drop what no partner can come for any more, pass the watermark on."""
        if self._in_arrays:
            for side in self._arrays:
                side.times.settle(watermark, len(side.log))
        super().watermark(watermark)

    # ---- between arrays and tables

    def _load(self) -> None:
        """Take over all that is in the tables; raises ``FallBackToRows`` if arrays cannot have it."""
        self._clear()
        entries = 0
        try:
            for side, table in zip(self._arrays, self._tables, strict=True):
                entries += len(table)
                found = [(key, at, bucket) for key, buckets in table.items() for at, bucket in buckets.items()]
                if found:
                    self._load_side(side, *map(list, zip(*found, strict=True)))
        except FallBackToRows:
            self._clear()
            self.gate.leave(entries)
            raise
        self._in_arrays = True

    def _load_side(self, side: _Side, keys: list[Any], times: list[int], buckets: list[list[Any]]) -> None:
        values = list(chain.from_iterable(buckets))
        if not all(fits(at, INT) for at in times) or not all(fits(value, side.schema) for value in values):
            raise FallBackToRows("records of another type")
        counts = np.fromiter(map(len, buckets), np.int64, len(buckets))
        numbers = np.repeat(self._slots.find(column_of_keys(keys), len(keys)), counts)
        side.add(
            side.times.sorted(numbers, np.repeat(np.array(times, np.int64), counts)), columns_of(values, side.schema)
        )
        side.saved = len(side.log)

    def _hand_over(self) -> None:
        """Bring what has come since the last time to the tables, with the timers that drop it."""
        for number, side in enumerate(self._arrays if self._in_arrays else ()):
            numbers, stamps, places = side.times.since(side.saved)
            side.saved = len(side.log)
            if not len(places):
                continue
            table, keep, keys = self._tables[number], self._keep[number], self._slots.keys
            register = self._timers.register_event_time_timer
            values = side.log.take(places).to_list()
            for slot, at, value in zip(numbers.tolist(), stamps.tolist(), values, strict=True):
                key = keys[slot]
                buckets = table.get(key) or {}
                bucket = buckets.get(at)
                if bucket is None:
                    buckets[at] = [value]
                    register(key, number, at + keep)
                else:
                    bucket.append(value)
                table[key] = buckets


# ---- Joins and co-groups of windows over blocks: both sides of a window are columns, and its pairs or lists are
# made at once.
#
# A pane is in columns while only columns come for it, and becomes the lists of the record path when rows come, and
# in a snapshot: so a snapshot of one path is a snapshot of the other.


_Part = tuple[Array, Array, Columns]
"""Records of one side: the numbers of their keys, and which of all records of the pane they are, and they themselves."""


class JoinPane(ArrayPane):
    """The records of both sides of a window, in the order of arrival."""

    def __init__(self, schemas: tuple[Type, Type]) -> None:
        self._schemas = schemas
        self._slots = Slots()
        self._parts: tuple[list[_Part], list[_Part]] = ([], [])
        self._count = 0

    def add_side(self, side: int, key: Column, records: Columns) -> None:
        """Add the records of a block of one side."""
        numbers, places = self._slots.find(key, records.length), np.arange(self._count, self._count + records.length)
        self._parts[side].append((numbers, places, records.stamped(None)))
        self._count += records.length

    def side(self, side: int) -> _Part:
        """Return all records of a side."""
        parts = self._parts[side]
        if not parts:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, columns_of([], self._schemas[side])
        if len(parts) > 1:
            numbers, places = (np.concatenate([part[number] for part in parts]) for number in (0, 1))
            parts[:] = [(numbers, places, joined([records for _, _, records in parts]))]
        return parts[0]

    @property
    def keys(self) -> list[Any]:
        """The keys, in the order of their first records."""
        return self._slots.keys

    def load(self, stored: Pane) -> None:
        """Take contents over; raise ``FallBackToRows`` if they are not of the shape, or keys are of other types."""
        if not stored:
            return
        tagged = [each for records in stored.values() for each in records]
        if any(type(each) is not TaggedUnion or not fits(each[1], self._schemas[each[0] - 1]) for each in tagged):
            raise FallBackToRows("a record of another type")
        slots = self._slots.find(column_of_keys(list(stored)), len(stored))
        numbers = np.repeat(slots, np.array(list(map(len, stored.values()))))
        sides = np.array([each[0] for each in tagged], np.int64) - 1
        for side, schema in enumerate(self._schemas):
            places = np.flatnonzero(sides == side)
            if len(places):
                records = columns_of([tagged[place][1] for place in places.tolist()], schema)
                self._parts[side].append((numbers.take(places), places, records))
        self._count = len(tagged)

    def copied(self) -> Iterator[tuple[Any, Any]]:
        """Return what gives out the contents by key, as they are now, in that order."""
        keys = self._slots.keys
        numbers, places = (np.concatenate([self.side(side)[number] for side in (0, 1)]) for number in (0, 1))
        firsts, seconds = (self.side(side)[2].to_list() for side in (0, 1))
        values, sides = [*firsts, *seconds], [1] * len(firsts) + [2] * len(seconds)
        found: Pane = {key: [] for key in keys}
        order = np.argsort(places)
        for at, number in zip(order.tolist(), numbers.take(order).tolist(), strict=True):
            found[keys[number]].append(TaggedUnion(sides[at], values[at], keys[number]))
        return iter(found.items())

    def pairs(self, most: int) -> Iterator[tuple[Array, Array]]:
        """Return the positions of all pairs, in the order in which the function would be called; at most ``most`` at a time."""
        (lefts, _, _), (rights, _, _) = self.side(0), self.side(1)
        order = np.argsort(lefts, kind="stable")
        for probed, partners in JoinIndex(rights).find(lefts.take(order)).pairs(most):
            yield order.take(probed), partners

    def groups(self) -> Columns:
        """Return the lists of records of each key, in the order of the keys' first records."""
        lists: list[Column] = []
        for side, schema in enumerate(self._schemas):
            numbers, _, records = self.side(side)
            by_key = records.take(np.argsort(numbers, kind="stable"))
            lists.append(lists_with(schema, np.bincount(numbers, minlength=len(self)), by_key))
        left, right = self._schemas
        return Columns(Tuple((ListOf(left), ListOf(right))), lists, len(self))


class JoinPanes(ColumnPanes):
    """The windows of both sides: panes of columns, and of lists where that cannot be."""

    def __init__(self, driver: WindowDriver, spec: ColumnarJoin) -> None:
        self.driver = driver
        self.share(driver)
        self._joins = spec
        self.gate = BlockGate(driver, measured=False)
        join: Any = spec.spec
        self._pairs: CoGroup = join.window.function.call.target
        self._function = TracedFunction(self._pairs.function, spec.given)
        self._paths = [
            ColumnPath(
                partial(self._take_side, side), TracedFunction(key, spec.traced_keys[side]), changes=True, of=driver
            )
            for side, key in enumerate((join.key1, join.key2))
        ]
        self._used = [leaves_used(spec.given, side, schema) for side, schema in enumerate(spec.schemas)]

    def take_side(self, side: int, block: Block, in_rows: Callable[[Block], None]) -> None:
        """File a block of one side away, or give it in rows."""
        self.gate.take(block, self._paths[side], in_rows)

    def _take_side(self, side: int, block: Columns) -> bool:
        stamps = block.timestamps
        if stamps is None or int(stamps.min()) == MIN_TIMESTAMP:
            raise FallBackToRows("no timestamps")  # the record path raises it
        if int(stamps.min()) < self.windows.open_from:
            in_time = stamps >= self.windows.open_from
            late = stamps[~in_time]
            block = block.keep(in_time)
            self._file_side(side, block)
            self.driver.count_late(int(np.count_nonzero(late <= self.driver.current_watermark)))
        else:
            self._file_side(side, block)
        return True

    def _file_side(self, side: int, block: Columns) -> None:
        if not block.length:
            return
        key = key_of(self._joins.traced_keys[side].result, block)
        # Nothing is added before all panes are there.
        steps = [(cast("JoinPane", self.pane(start)), mask) for start, mask in self.assign(block)]
        if len(steps) > 1:
            key = coded(key, block.length)
        for pane, mask in steps:
            if mask is None:
                pane.add_side(side, key, block)
            else:
                pane.add_side(side, key.keep(mask), block.keep(mask))

    def _empty(self) -> Any:
        return JoinPane(self._joins.schemas)

    # ---- results

    def fire(self, start: int, window: TimeWindow) -> bool:
        """Fire a pane of columns, and remove it; ``False``: its results have to be made one by one."""
        pane: Any = self.panes[start]
        if not self._function.ready():
            return False
        at = window.max_timestamp()
        if not isinstance(self._pairs, JoinPairs):
            try:
                given = self._given(pane.groups(), at)
            except FallBackToRows:
                return False
            self.windows.table.pop(start)
            self.emit(given)
            return True
        self.windows.table.pop(start)
        self.driver.emitter.flush()  # of windows before this one
        sides = [pane.side(side)[2] for side in (0, 1)]
        for positions in pane.pairs(_PAIRS):
            self._emit_pairs(self._pairs, sides, positions, at)
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
            self._call_with_pairs(join, pairs, at)
            return
        self.emit(given)

    def _call_with_pairs(self, join: JoinPairs, pairs: list[list[Any]], at: int) -> None:
        """Call the function itself for some pairs, which the kernels cannot compute."""
        call, results = join.function.bind(), self.driver.emitter.results
        if join.flat:
            for one, two in zip(*pairs, strict=True):
                results.take(call(one, two), at)
        else:
            results.take(map(call, *pairs), at)
        self.driver.emitter.flush()


class ColumnarWindowJoinLogic(WindowJoinLogic):
    """Gives blocks to the windows, and rows where those cannot take them."""

    def __init__(self, spec: ColumnarJoin) -> None:
        super().__init__(cast("WindowJoin", spec.spec))
        self._panes = JoinPanes(self, spec)
        self.use(self._panes)

    def process_block(self, block: Block) -> None:
        """File a block of the first input away."""
        self._panes.take_side(0, block, super().process_block)

    def process_second_block(self, block: Block) -> None:
        """File a block of the second input away."""
        self._panes.take_side(1, block, super().process_second_block)
