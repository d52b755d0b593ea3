"""Joins and co-groups of windows over blocks: both sides of a window are columns, and its pairs or lists are made at once.

A pane is in columns while only columns come for it, and becomes the lists of the record path when rows come, and in a snapshot:
so a snapshot of one path is a snapshot of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, joined, lists_with
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import JoinIndex
from funken.columnar.keyed.keys import Slots, coded, column_of_keys, key_of
from funken.columnar.records import fits
from funken.expr.types import ListOf, Tuple, Type
from funken.ids import MIN_TIMESTAMP
from funken.operators.columnar.flat_map import given_of
from funken.operators.columnar.path import ColumnPath, TracedFunction, why_in_rows
from funken.operators.columnar.windows import ColumnPanes
from funken.operators.join.window_join import CoGroup, JoinPairs, TaggedUnion, WindowJoinLogic
from funken.operators.stateful.interval_join import leaves_used
from funken.operators.stateful.specs import ColumnarWindowJoin
from funken.operators.window.contents import Pane
from funken.operators.window.driver import WindowDriver
from funken.windowing.windows import TimeWindow

_PAIRS = 1 << 14
"""About so many pairs are computed at a time."""
_Part = tuple[Array, Array, Columns]
"""Records of one side: the numbers of their keys, and which of all records of the pane they are, and they themselves."""


class JoinPane:
    """The records of both sides of a window, in the order of arrival."""

    def __init__(self, schemas: tuple[Type, Type]) -> None:
        self._schemas = schemas
        self._slots = Slots()
        self._parts: tuple[list[_Part], list[_Part]] = ([], [])
        self._count = 0

    def __len__(self) -> int:
        return len(self._slots)

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

    def __init__(self, driver: WindowDriver, spec: ColumnarWindowJoin) -> None:
        self.driver = driver
        self.share(driver)
        self._joins = spec
        self.returns = 0
        assert spec.window.function is not None
        self._pairs: CoGroup = spec.window.function.call.target
        self._function = TracedFunction(self._pairs.function, spec.given)
        self._paths = [
            ColumnPath(
                partial(self._take_side, side), TracedFunction(key, spec.traced_keys[side]), changes=True, of=driver
            )
            for side, key in enumerate((spec.key1, spec.key2))
        ]
        self._used = [leaves_used(spec.given, side, schema) for side, schema in enumerate(spec.schemas)]

    def take_side(self, side: int, block: Block) -> bool:
        """File a block of one side away; ``False``: it has to be given in rows."""
        may = self.returns < self.most_returns and not self.driver.context.batch
        if not may:
            self._paths[side].left(block, why_in_rows(self.driver.context.batch))
        return may and self._paths[side](block) is not None

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
            self.table.drop(start)
            self.emit(given)
            return True
        self.table.drop(start)
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

    columnar = True

    def __init__(self, spec: ColumnarWindowJoin) -> None:
        super().__init__(spec)
        self._panes = JoinPanes(self._inner, spec)
        self._inner.use(self._panes)

    def process_block(self, block: Block) -> None:
        """File a block of the first input away."""
        if len(block) and not self._panes.take_side(0, block):
            self.process(*block.rows())

    def process_second_block(self, block: Block) -> None:
        """File a block of the second input away."""
        if len(block) and not self._panes.take_side(1, block):
            self.process_second(*block.rows())


__all__ = ["ColumnarWindowJoinLogic", "JoinPane"]
