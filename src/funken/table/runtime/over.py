"""OVER: a column per call, of the rows around each row of its partition.

Ordered by a time attribute, rows wait for the watermark (or are handled as they come) and their results are final. Ordered by
anything else, a row that comes in between changes the results of those behind it: all rows of a partition are kept, and what
changed is emitted again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import Any

from funken.ids import MAX_WATERMARK
from funken.table.logical import BoundKind, FrameBound, OverGroup, TimeAttribute
from funken.table.runtime.aggregates import AggregateCalls
from funken.table.runtime.block import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, TableBlock
from funken.table.runtime.exchange import hashable
from funken.table.runtime.keyed_blocks import sort_key
from funken.table.runtime.operator import KeyedTableOperator, TableOperator, is_accumulate, rows_left
from funken.table.runtime.stateless import NANOS

Tuple = tuple[Any, ...]
_RANKS = {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"}
_SHIFTS = {"LAG", "LEAD"}
_UNITS: dict[str, Any] = {
    "TIMESTAMP": NANOS,
    "TIMESTAMP_LTZ": NANOS,
    "DATE": Fraction(1, 86_400_000),
}
"""Number of units of a column's values in a distance of one: of times, distances are milliseconds."""


class _Frames:
    """The results of a group of calls for the rows of a partition that are in order."""

    def __init__(self, group: OverGroup, operator: KeyedTableOperator) -> None:
        self.group = group
        self.key_of = sort_key(group.order)
        plain = [call for call in group.calls if call.function.upper() not in _RANKS | _SHIFTS]
        self._places = [call.function.upper() in _RANKS | _SHIFTS for call in group.calls]
        self._aggregates = AggregateCalls(plain, operator.inputs[0], operator.context)
        self._unit = _UNITS.get(operator.inputs[0].types[group.order[0].index].root, 1) if group.order else 1

    def results(self, rows: Sequence[Tuple]) -> list[Tuple]:
        """Return the values of the calls for each row."""
        keys = [self.key_of(row) for row in rows]
        columns = [
            self._special(call, rows, keys)
            for call, special in zip(self.group.calls, self._places, strict=True)
            if special
        ]
        frames = self._framed(rows, keys)
        found = []
        for place in range(len(rows)):
            own, others = iter(frames[place]), iter([column[place] for column in columns])
            found.append(tuple(next(others) if special else next(own) for special in self._places))
        return found

    def _framed(self, rows: Sequence[Tuple], keys: list[Any]) -> list[Tuple]:
        lower, upper = self.group.lower, self.group.upper
        found: list[Tuple] = []
        grows = lower.kind is BoundKind.UNBOUNDED_PRECEDING
        values = [] if self.group.rows or not self._by_distance() else list(map(self._value, rows))
        accumulators, done = self._aggregates.create(), 0
        for place in range(len(rows)):
            end = self._end(upper, values, keys, place)
            if grows:
                while done < end:
                    self._aggregates.accumulate(accumulators, rows[done])
                    done += 1
            else:
                accumulators = self._aggregates.create()
                for each in rows[self._start(lower, values, keys, place) : end]:
                    self._aggregates.accumulate(accumulators, each)
            found.append(self._aggregates.values(accumulators))
        return found

    def _by_distance(self) -> bool:
        return any(
            bound.kind in (BoundKind.PRECEDING, BoundKind.FOLLOWING) for bound in (self.group.lower, self.group.upper)
        )

    def _start(self, bound: FrameBound, values: Sequence[Any], keys: list[Any], place: int) -> int:
        if self.group.rows:
            return max(0, place + _shift(bound))
        if bound.kind is BoundKind.CURRENT_ROW or abs(values[place]) == inf:
            return bisect_left(keys, keys[place])
        return bisect_left(values, values[place] + _shift(bound) * self._unit)

    def _end(self, bound: FrameBound, values: Sequence[Any], keys: list[Any], place: int) -> int:
        if bound.kind is BoundKind.UNBOUNDED_FOLLOWING:
            return len(keys)
        if self.group.rows:
            return max(0, place + _shift(bound) + 1)
        if bound.kind is BoundKind.CURRENT_ROW or abs(values[place]) == inf:
            return bisect_right(keys, keys[place])
        return bisect_right(values, values[place] + _shift(bound) * self._unit)

    def _value(self, row: Tuple) -> Any:
        """Return the measure of distances: it grows with the order; NULL is infinitely far from all values."""
        key = self.group.order[0]
        value = row[key.index]
        if value is None:
            return -inf if key.nulls_first else inf
        return value if key.ascending else -value

    def _special(self, call: Any, rows: Sequence[Tuple], keys: list[Any]) -> list[Any]:
        name, count = call.function.upper(), len(rows)
        if name in _SHIFTS:
            return _shifted(call, rows, -1 if name == "LAG" else 1)
        match name:
            case "ROW_NUMBER":
                return list(range(1, count + 1))
            case "RANK":
                return [bisect_left(keys, key) + 1 for key in keys]
            case "DENSE_RANK":
                found, last = [], 0
                for place, key in enumerate(keys):
                    last += not place or key != keys[place - 1]
                    found.append(last)
                return found
            case "PERCENT_RANK":
                return [bisect_left(keys, key) / (count - 1) if count > 1 else 0.0 for key in keys]
            case "CUME_DIST":
                return [bisect_right(keys, key) / count for key in keys]
        buckets = rows[0][call.args[0]] if rows and call.args else 1
        size, more = divmod(count, buckets)
        return [bucket + 1 for bucket in range(buckets) for _ in range(size + (bucket < more))]

    def close(self) -> None:
        self._aggregates.close()


def _shift(bound: FrameBound) -> int:
    if bound.kind is BoundKind.CURRENT_ROW:
        return 0
    return -(bound.offset or 0) if bound.kind is BoundKind.PRECEDING else bound.offset or 0


def _shifted(call: Any, rows: Sequence[Tuple], direction: int) -> list[Any]:
    found = []
    for place, row in enumerate(rows):
        by = row[call.args[1]] if len(call.args) > 1 else 1
        other = place + direction * by
        if 0 <= other < len(rows):
            found.append(rows[other][call.args[0]])
        else:
            found.append(row[call.args[2]] if len(call.args) > 2 else None)
    return found


class _TimedGroup:
    """The calls of a group over rows that come in the order of time: incremental."""

    def __init__(self, group: OverGroup, operator: KeyedTableOperator) -> None:
        self.group = group
        self.aggregates = AggregateCalls(group.calls, operator.inputs[0], operator.context)
        lower = group.lower
        self.unbounded = lower.kind is BoundKind.UNBOUNDED_PRECEDING
        self.before = 0 if lower.kind is BoundKind.CURRENT_ROW else lower.offset or 0
        names = [call.function.upper() for call in group.calls]
        self._ranks = [(place, name) for place, name in enumerate(names) if name in ("RANK", "DENSE_RANK")]

    def create(self) -> Any:
        """Return the state of a new partition: accumulators, or the rows that a frame may reach, with their times."""
        return self.aggregates.create() if self.unbounded else []

    def add(self, state: Any, rows: Sequence[Tuple], time: int) -> tuple[Any, list[Tuple]]:
        """Add rows of one time; return the state then, and the results of each row."""
        if self.unbounded:
            return self._accumulated(state, rows)
        return self._framed(list(state), rows, time)

    def _accumulated(self, state: Any, rows: Sequence[Tuple]) -> tuple[Any, list[Tuple]]:
        before = [(place, name, state[place]) for place, name in self._ranks]
        results = []
        for row in rows:
            self.aggregates.accumulate(state, row)
            if self.group.rows:
                results.append(self.aggregates.values(state))
        if not self.group.rows:
            results = [self.aggregates.values(state)] * len(rows)
        for place, name, count in before:  # rows of one time are equal
            if name == "DENSE_RANK":
                state[place] = count + 1
            results = [(*found[:place], count + 1, *found[place + 1 :]) for found in results]
        return state, results

    def _framed(self, kept: list[Any], rows: Sequence[Tuple], time: int) -> tuple[Any, list[Tuple]]:
        results = []
        if self.group.rows:
            for row in rows:
                kept = [*kept, (time, row)][-self.before - 1 :]
                results.append(self._value(kept))
            return kept[max(0, len(kept) - self.before) :], results
        kept = [entry for entry in kept if entry[0] >= time - self.before] + [(time, row) for row in rows]
        return kept, [self._value(kept)] * len(rows)

    def _value(self, kept: list[Any]) -> Tuple:
        accumulators = self.aggregates.create()
        for _, row in kept:
            self.aggregates.accumulate(accumulators, row)
        return self.aggregates.values(accumulators)


_FORGET = "forget"


class OverByTime(KeyedTableOperator):
    """Ordered by event time: rows wait for the watermark.

    A row is late if the watermark has passed it; where the frame has a lower bound, if a row of its partition as late as it was
    handled. A partition whose rows no frame of time can reach any more is forgotten.
    """

    rowtime = True

    def __init__(self, groups: Sequence[OverGroup], update_before: bool, ttl: int = 0) -> None:
        self._groups, self._ttl = groups, ttl

    def open(self) -> None:
        """Open the functions."""
        self._timed = [_TimedGroup(group, self) for group in self._groups]
        self._waiting = self.map_state("waiting")
        self._state = self.value_state("frames", 0 if self.rowtime else self._ttl)
        self._late = self.context.metrics.counter("numLateRecordsDropped")
        self._unbounded = all(group.unbounded for group in self._timed)
        ranges = all(not group.unbounded and not group.group.rows for group in self._timed)
        self._reach = max(group.before for group in self._timed) if ranges else None
        self._forgotten = self.value_state("forgotten")

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block until the watermark."""
        time_column = self._groups[0].order[0].index
        for key, row, kind in self.keyed_rows(block, self._groups[0].partition):
            if not is_accumulate(kind):
                continue
            self.store.current_key = key
            time = row[time_column] // NANOS
            if self._is_late(time):
                self._late.inc()
                continue
            self._waiting.put(time, [*(self._waiting.get(time) or ()), row])
            self.timers.register_event_time_timer(key, None, time)
            if self._reach is not None:
                self._forget_later(key, time, self._reach)

    def _is_late(self, time: int) -> bool:
        if self._unbounded:
            return time <= self.current_watermark
        state = self._state.value()
        return state is not None and time <= state[0]

    def _forget_later(self, key: Tuple, time: int, reach: int) -> None:
        due = self._forgotten.value()
        if due is None or due < time + reach + 1:
            due = time + reach * 3 // 2 + 1
            self._forgotten.update(due)
            self.timers.register_event_time_timer(key, _FORGET, due)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a time, or forget a partition."""
        if namespace == _FORGET:
            if self._forgotten.value() == timestamp:
                self._forgotten.clear()
                self._state.clear()
            return
        self._emit(self._waiting.get(timestamp) or (), timestamp)
        self._waiting.remove(timestamp)

    def _emit(self, rows: Sequence[Tuple], time: int) -> None:
        state = self._state.value()
        known = [group.create() for group in self._timed] if state is None else list(state[1])
        results = []
        for place, group in enumerate(self._timed):
            known[place], found = group.add(known[place], rows, time)
            results.append(found)
        self._state.update((time, known))
        for row, *values in zip(rows, *results, strict=True):
            self.collect((*row, *(value for some in values for value in some)))

    def close(self) -> None:
        """Close the functions."""
        for group in getattr(self, "_timed", ()):
            group.aggregates.close()


class OverByArrival(OverByTime):
    """Ordered by processing time: rows are handled as they come."""

    rowtime = False

    def block(self, block: TableBlock) -> None:
        """Handle the rows of a block."""
        for key, row, kind in self.keyed_rows(block, self._groups[0].partition):
            if is_accumulate(kind):
                self.store.current_key = key
                self._emit([row], self.now())


class OverByValue(KeyedTableOperator):
    """Ordered by other columns: an updating stream."""

    def __init__(self, groups: Sequence[OverGroup], update_before: bool, ttl: int = 0) -> None:
        self._groups, self._before, self._ttl = groups, update_before, ttl

    def open(self) -> None:
        """Open the functions."""
        self._frames = [_Frames(group, self) for group in self._groups]
        self._state = self.value_state("rows", self._ttl)
        self._key_of = sort_key(self._groups[0].order)
        self._unknown = self.context.metrics.counter("numRetractionsOfUnknownRows")

    def block(self, block: TableBlock) -> None:
        """Handle the rows of a block."""
        for key, row, kind in self.keyed_rows(block, self._groups[0].partition):
            self.store.current_key = key
            rows, results = map(list, self._state.value() or ((), ()))
            keys = list(map(self._key_of, rows))
            if is_accumulate(kind):
                place = bisect_right(keys, self._key_of(row))
                rows.insert(place, row)
                fresh = self._results(rows)
                self.collect((*row, *fresh[place]), INSERT if kind == INSERT else UPDATE_AFTER)
                self._changes(rows, [*results[:place], fresh[place], *results[place:]], fresh)
            else:
                found = self._find(rows, keys, row)
                if found is None:
                    self._unknown.inc()
                    continue
                self.collect((*rows.pop(found), *results.pop(found)), DELETE)
                fresh = self._results(rows)
                self._changes(rows, results, fresh)
            if rows:
                self._state.update((rows, fresh))
            else:
                self._state.clear()

    def _find(self, rows: list[Tuple], keys: list[Any], row: Tuple) -> int | None:
        wanted, key = hashable(row), self._key_of(row)
        for place in range(bisect_left(keys, key), bisect_right(keys, key)):
            if hashable(rows[place]) == wanted:
                return place
        return None

    def _results(self, rows: Sequence[Tuple]) -> list[Tuple]:
        if len(self._frames) == 1:
            return self._frames[0].results(rows)
        some = []
        for frames in self._frames:
            order = sorted(range(len(rows)), key=lambda place, frames=frames: frames.key_of(rows[place]))  # type: ignore[misc]
            found = dict(zip(order, frames.results([rows[place] for place in order]), strict=True))
            some.append([found[place] for place in range(len(rows))])
        return [tuple(value for part in parts for value in part) for parts in zip(*some, strict=True)]

    def _changes(self, rows: list[Tuple], old: list[Tuple], new: list[Tuple]) -> None:
        for row, before, after in zip(rows, old, new, strict=True):
            if before != after:
                if self._before:
                    self.collect((*row, *before), UPDATE_BEFORE)
                self.collect((*row, *after), UPDATE_AFTER)

    def close(self) -> None:
        """Close the functions."""
        for frames in getattr(self, "_frames", ()):
            frames.close()


class OverAtEnd(KeyedTableOperator):
    """Of a bounded input: every partition once, when all its rows are there."""

    def __init__(self, groups: Sequence[OverGroup], update_before: bool, ttl: int = 0) -> None:
        (self._group,) = groups

    def open(self) -> None:
        """Open the functions."""
        self._frames = _Frames(self._group, self)
        self._rows = self.list_state("rows")

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block."""
        found: dict[Tuple, list[tuple[Tuple, int]]] = {}
        for key, row, kind in self.keyed_rows(block, self._group.partition):
            found.setdefault(key, []).append((row, kind))
        for key, rows in found.items():
            self.store.current_key = key
            self._rows.add_all(rows)
            self.timers.register_event_time_timer(key, None, MAX_WATERMARK)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a partition with their results, in order."""
        rows = rows_left(self._rows.get())
        rows.sort(key=self._frames.key_of)
        for row, found in zip(rows, self._frames.results(rows), strict=True):
            self.collect((*row, *found))
        self._rows.clear()

    def close(self) -> None:
        """Close the functions."""
        if hasattr(self, "_frames"):
            self._frames.close()


def logic_of(order_time: TimeAttribute | None, batch: bool) -> type[TableOperator]:
    """Return the logic of OVER windows that are ordered by a time attribute, or by none."""
    if batch:
        return OverAtEnd
    if order_time is TimeAttribute.ROWTIME:
        return OverByTime
    return OverByArrival if order_time is TimeAttribute.PROCTIME else OverByValue
