"""Joins of records one by one: by an interval of time, and in windows.

Interval joins: pairs of records of one key whose timestamps are at most so far apart.

A left record joins the right ones from ``lower`` to ``upper`` ms after it, both included. Each record is kept until
the watermark has passed every possible partner; a pair is emitted as soon as its second record arrives, with the
larger of the two timestamps. A record behind the watermark is late, joins nothing and is not kept. (Flink's
``IntervalJoinOperator``.)

The invariant that bounds the state: a left record of timestamp *t* is dropped by the watermark ``t + max(upper, 0)``,
a right one by ``t + max(-lower, 0)``. In ``BATCH`` no record is late, and everything is kept until the input has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

from funken.columnar.block import Block
from funken.dataclass import dataclass
from funken.errors import InvalidProgram, StateNotKeyed
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, OperatorContext, Output, OutputTag, RuntimeContext, Timestamps, Values
from funken.operators.user_functions import OperatorTraits, Results, UserFunction
from funken.operators.window.driver import WindowDriver
from funken.operators.window.spec import WindowSpec
from funken.state.descriptors import MapStateDescriptor
from funken.state.keyed import NO_KEY
from funken.state.keygroups import PLAIN, normal_key, normal_keys
from funken.types.callables import S

_BUFFERS = (MapStateDescriptor("_interval_join.left"), MapStateDescriptor("_interval_join.right"))
_FLUSH = 4096
"""Maximal number of pairs that are held back: a block may make many more than it has records."""

Buckets = dict[int, list[Any]]
"""The records of one side and key, by timestamp."""


@dataclass(frozen=True)
class IntervalJoinSpec:
    """``function(left, right, context)`` for pairs with ``lower <= right's time - left's time <= upper`` (ms).

    ``left_late`` and ``right_late`` are the ids of side outputs for late records; ``None`` counts and drops them.
    """

    function: UserFunction
    key1: UserFunction
    key2: UserFunction
    lower: int
    upper: int
    left_late: str | None = None
    right_late: str | None = None

    @property
    def traits(self) -> OperatorTraits:
        """The keys."""
        reach = max(abs(self.lower), abs(self.upper))
        return OperatorTraits(keys=(self.key1, self.key2), lengths=(("records of its inputs meet within", reach),))

    def build(self) -> Operator:
        """Make the logic."""
        return IntervalJoinLogic(self)


class JoinContext:
    """The context of a ``ProcessJoinFunction``: the timestamps of the pair, and side outputs."""

    __slots__ = ("_results", "at", "left", "right")

    def __init__(self, results: Results) -> None:
        self._results = results
        self.left: int = MIN_TIMESTAMP
        self.right: int = MIN_TIMESTAMP
        self.at: int = MIN_TIMESTAMP

    def get_left_timestamp(self) -> int:
        """Return the timestamp of the left record."""
        return self.left

    def get_right_timestamp(self) -> int:
        """Return the timestamp of the right record."""
        return self.right

    def get_timestamp(self) -> int:
        """Return the timestamp of the pair: the larger one."""
        return self.at

    timestamp = get_timestamp

    def output(self, output_tag: OutputTag[S], value: S) -> None:
        """Send a value to a side output, as ``yield output_tag, value`` does."""
        self._results.side((output_tag, value), self.at)


class IntervalJoinLogic(Operator):
    """Keeps both sides by key and timestamp, and looks up partners when a record comes."""

    def __init__(self, spec: IntervalJoinSpec) -> None:
        self._spec = spec
        self._call = spec.function.bind()
        self._keys = spec.key1.bind(), spec.key2.bind()
        # Offsets from a record's timestamp to its partners, and to when it can be removed.
        self._reach = (spec.lower, spec.upper), (-spec.upper, -spec.lower)
        self._keep = max(spec.upper, 0), max(-spec.lower, 0)
        self._late_tags = spec.left_late, spec.right_late
        self._results = Results()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        if context.keyed is None or context.timers is None:
            raise StateNotKeyed(f"operator {context.operator!r} is an interval join without keyed state.")
        self._results.configure(context)
        self._store, self._timers = context.keyed, context.timers
        self._context = JoinContext(self._results)
        self._late = context.metrics.counter("numLateRecordsDropped")

    def open(self) -> None:
        """Find the state, open the user's function."""
        self._tables = tuple(self._store.state(descriptor).table for descriptor in _BUFFERS)
        self._spec.function.open(self.context)

    def close(self) -> None:
        """Close the user's function."""
        self._spec.function.close()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle left records."""
        self._take(0, values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle right records."""
        self._take(1, values, timestamps)

    def _take(self, side: int, values: Values, timestamps: Timestamps) -> None:
        late: tuple[Values, list[int]] = ([], [])
        store, key_of, keep, watermark = self._store, self._keys[side], self._keep[side], self.current_watermark
        mine, partners = self._tables[side], self._tables[1 - side]
        for value, at in zip(values, timestamps or [MIN_TIMESTAMP] * len(values), strict=True):
            if at < watermark or at == MIN_TIMESTAMP:
                self._refuse_unstamped(at)
                late[0].append(value)
                late[1].append(at)
                continue
            key = key_of(value)
            store.current_key = key = key if type(key) in PLAIN else normal_key(key)
            buckets: Buckets = mine.get(key) or {}
            bucket = buckets.get(at)
            if bucket is None:
                bucket = [value]
                self._timers.register_event_time_timer(key, side, at + keep)
            else:
                bucket.append(value)
            buckets[at] = bucket
            mine[key] = buckets
            others = partners.get(key)
            if others:
                self._pair(side, value, at, others)
        store.current_key = NO_KEY
        self._results.emit(self.output, stamped=True)
        self._emit_late(side, *late)

    def _pair(self, side: int, value: Any, at: int, others: Buckets) -> None:
        """Call the function for a record and each of its partners, the earliest first."""
        call, context, results = self._call, self._context, self._results
        low, high = self._reach[side]
        for there in within(others, at + low, at + high):
            context.at = larger = max(at, there)
            context.left, context.right = (there, at) if side else (at, there)
            for other in others[there]:
                made = call(other, value, context) if side else call(value, other, context)
                results.take(made, larger)
            if len(results.values) >= _FLUSH:
                results.emit(self.output, stamped=True)

    def _refuse_unstamped(self, at: int) -> None:
        if at == MIN_TIMESTAMP:
            raise InvalidProgram(
                f"operator {self.context.operator!r} got a record without a timestamp (Long.MIN_VALUE timestamp). "
                "Elements used in interval stream joins need to have timestamps: call "
                "assign_timestamps_and_watermarks(...) with a timestamp assigner on both streams."
            )

    def _emit_late(self, side: int, values: Values, timestamps: list[int]) -> None:
        tag = self._late_tags[side]
        if not values:
            return
        if tag is None:
            self._late.inc(len(values))
        else:
            self.output.emit_side(tag, values, timestamps)

    # ---- time

    def watermark(self, watermark: int) -> None:
        """Drop what no partner can come for any more, pass the watermark on."""
        if not self.context.batch:
            self.current_watermark = watermark
            self._timers.advance_watermark(watermark, self._drop)
        elif watermark == MAX_WATERMARK:
            self._timers.drain(self._drop, self._drop)
        self.output.watermark(watermark)

    def _drop(self, timestamp: int, key: Any, side: int) -> None:
        table = self._tables[side]
        buckets = table[key]
        del buckets[timestamp - self._keep[side]]
        if buckets:
            table[key] = buckets
        else:
            del table[key]


def within(buckets: Buckets, low: int, high: int) -> Iterable[int]:
    """Return the timestamps from ``low`` to ``high`` that have records, in order; reads only that range where possible.

    >>> list(within({9: ["b"], 5: ["a"], 20: ["c"]}, 5, 9))
    [5, 9]
    """
    between = getattr(buckets, "between", None)
    if between is not None:  # a view of a map that is not in memory
        found: list[int] = between(low, high)
        return found
    if high - low < len(buckets):
        return [at for at in range(low, high + 1) if at in buckets]
    return sorted(at for at in buckets if low <= at <= high)


# ---- Window joins and co-groups: two inputs, one window operator.
#
# The records of both inputs go into the windows of one ``WindowSpec`` as ``TaggedUnion``s, and the window's function
# gets them by side; everything else is the windows' driver's. A co-group sees every key that occurs in the window, on
# one side or on both; a join is the co-group that calls its function for each pair. Results carry the largest
# timestamp of their window.


class TaggedUnion(NamedTuple):
    """A record of a window join, as assigners, triggers and evictors of your own see it.

    >>> record = TaggedUnion(2, "right", key="k")
    >>> record.is_one(), record.get_one(), record.is_two(), record.get_two()
    (False, None, True, 'right')
    """

    input: int
    value: Any
    key: Any

    def is_one(self) -> bool:
        """Return True if the record is of the first stream."""
        return self.input == 1

    def is_two(self) -> bool:
        """Return True if the record is of the second stream."""
        return self.input == 2

    def get_one(self) -> Any:
        """Return the record if it came from the first stream, else ``None``."""
        return self.value if self.input == 1 else None

    def get_two(self) -> Any:
        """Return the record if it came from the second stream, else ``None``."""
        return self.value if self.input == 2 else None


TAGGED_KEY = UserFunction(itemgetter(2))
"""The key of the inner window: it was extracted when the record was tagged."""


@dataclass(frozen=True)
class CoGroup:
    """A window function of tagged records: ``function(first, second)`` gets those of each side in a list."""

    function: UserFunction

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the user's function."""
        if self.function.rich:
            self.function.target.open(runtime_context)

    def close(self) -> None:
        """Close the user's function."""
        self.function.close()

    def apply(self, key: Any, window: Any, tagged: Iterable[TaggedUnion]) -> Iterable[Any] | None:
        """Call the function."""
        first, second = sides(tagged)
        made: Iterable[Any] | None = self.function.bind()(first, second)
        return made


@dataclass(frozen=True)
class JoinPairs(CoGroup):
    """A window function of tagged records: ``function(one, two)`` for each pair.

    It returns one result, or, if it is ``flat``, an iterable of results or ``None``.
    """

    flat: bool = False

    def apply(self, key: Any, window: Any, tagged: Iterable[TaggedUnion]) -> Iterable[Any] | None:
        """Call the function for each pair."""
        first, second = sides(tagged)
        join = self.function.bind()
        if self.flat:
            return _flat_pairs(join, first, second)
        return (join(one, two) for one in first for two in second)


def sides(tagged: Iterable[TaggedUnion]) -> tuple[list[Any], list[Any]]:
    """Return the records of the first stream, and those of the second, each in the order of arrival."""
    first: list[Any] = []
    second: list[Any] = []
    for side, value, _ in tagged:
        (first if side == 1 else second).append(value)
    return first, second


def _flat_pairs(join: Callable[[Any, Any], Iterable[Any] | None], first: list[Any], second: list[Any]) -> Iterator[Any]:
    for one in first:
        for two in second:
            made = join(one, two)
            if made is not None:
                yield from made


@dataclass(frozen=True)
class WindowJoin:
    """Two inputs in the windows of ``window``, whose key is ``TAGGED_KEY`` and whose function takes tagged records."""

    key1: UserFunction
    key2: UserFunction
    window: WindowSpec

    @property
    def traits(self) -> OperatorTraits:
        """The keys; the logic is that of the windows."""
        return OperatorTraits(
            keys=(self.key1, self.key2), logic=self.window.traits.logic, in_keyed_state=self.in_keyed_state
        )

    def in_keyed_state(self) -> WindowJoin:
        """Return the same join with its windows in keyed state."""
        return replace(self, window=self.window.in_keyed_state())

    def build(self) -> Operator:
        """Make the logic."""
        return WindowJoinLogic(self)


class WindowJoinLogic(WindowDriver):
    """Windows over two inputs: records are tagged with the input that they come from."""

    def __init__(self, spec: WindowJoin) -> None:
        super().__init__(spec.window)
        self._keys = spec.key1.bind(), spec.key2.bind()
        self.takes_fields = False

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Add records of the first input."""
        self._tagged(0, values, timestamps)

    def process_block(self, block: Block) -> None:
        """Add a block of the first input."""
        self.process(*block.rows())

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Add records of the second input."""
        self._tagged(1, values, timestamps)

    def _tagged(self, side: int, values: Values, timestamps: Timestamps) -> None:
        keys = normal_keys(list(map(self._keys[side], values)))
        super().process(list(map(TaggedUnion._make, zip(repeat(side + 1), values, keys, strict=False))), timestamps)
