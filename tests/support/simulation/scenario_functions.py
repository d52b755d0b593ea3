"""The functions and sources of simulated programs.

What they emit does not depend on the order in which subtasks work. Where state alone would not show that it is wrong, a
function looks for it and emits what must not be: ``SPURIOUS`` if a timer fires that nobody waits for, ``OVERDUE`` if one did
not fire when it was due.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from funken import (
    AsyncFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ValueStateDescriptor,
    WatermarkGenerator,
)
from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    ConnectorContext,
    NeedSplits,
    QueuedReader,
    Source,
    SplitEnumerator,
    StaticSplits,
    Wait,
)
from funken.connectors.datagen import IndexSplit

END = 10**9
"""A time after every record."""
SPURIOUS, OVERDUE = "a timer that nobody waits for", "a timer that did not fire when it was due"

COUNT = ValueStateDescriptor("count", default=0)
WAITING = MapStateDescriptor("waiting")
BUCKETS = MapStateDescriptor("buckets")
RULES = MapStateDescriptor("rules")
ODD = OutputTag("odd")
LATE = OutputTag("late")
HELD = "held"
SEEN = "seen"


class CountEach(KeyedProcessFunction):
    """Numbers the records of a key."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._count.update(self._count.value() + 1)
        yield ctx.get_current_key(), self._count.value()


class CountBuckets(KeyedProcessFunction):
    """Counts the records of each 50 ms by timers of event time, and sums up at the end."""

    def open(self, runtime_context: Any) -> None:
        self._buckets = runtime_context.get_map_state(BUCKETS)
        self._sum = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> None:
        bucket = ctx.timestamp() // 50 * 50 + 50
        self._buckets.put(bucket, (self._buckets.get(bucket) or 0) + 1)
        self._sum.update(self._sum.value() + value)
        ctx.timer_service().register_event_time_timer(bucket)
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp == END:
            yield ctx.get_current_key(), "sum", self._sum.value(), self._buckets.is_empty()
        else:
            yield ctx.get_current_key(), timestamp, self._buckets.get(timestamp)
            self._buckets.remove(timestamp)


class Delay(KeyedProcessFunction):
    """Holds each record back for a while of processing time; some release all of their key, and delete their timers."""

    def open(self, runtime_context: Any) -> None:
        self._waiting = runtime_context.get_map_state(WAITING)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        due = timers.current_processing_time() + 10 + value % 40
        self._waiting.put(value, due)
        timers.register_processing_time_timer(due)
        timers.register_event_time_timer(END)
        if value % 5 == 4:
            for waiting, at in list(self._waiting.items()):
                timers.delete_processing_time_timer(at)
                self._waiting.remove(waiting)
                yield ctx.get_current_key(), waiting

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        now = ctx.timer_service().current_processing_time()
        found = [(value, due) for value, due in self._waiting.items() if timestamp in (due, END)]
        if not found and timestamp != END:
            yield ctx.get_current_key(), SPURIOUS
        for value, due in found:
            if timestamp == END:
                ctx.timer_service().delete_processing_time_timer(due)
                if due <= now:
                    yield ctx.get_current_key(), OVERDUE
            self._waiting.remove(value)
            yield ctx.get_current_key(), value


class Square(AsyncFunction):
    """Asks for a square."""

    async def async_invoke(self, value: Any) -> list[Any]:
        return [(value, value * value)]


class CountBoth(KeyedCoProcessFunction):
    """Numbers the records of a key on both inputs together."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(COUNT)

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._count.update(self._count.value() + 1)
        yield ctx.get_current_key(), self._count.value()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield from self.process_element1(value, ctx)


class Parity(ProcessFunction):
    """Sends odd numbers to the side."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value % 2:
            yield ODD, value
        else:
            yield value


class Rules(KeyedBroadcastProcessFunction):
    """At the end tells for each key its sum, and the rules."""

    def open(self, runtime_context: Any) -> None:
        self._sum = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> None:
        self._sum.update(self._sum.value() + value)
        ctx.timer_service().register_event_time_timer(END)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value % 5, (rules.get(value % 5) or 0) + value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        rules = tuple(sorted(ctx.get_broadcast_state(RULES).items()))
        yield ctx.get_current_key(), self._sum.value(), rules


class Label(BroadcastProcessFunction):
    """Lets the main side through, and keeps the other."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, True)


class Blind(KeyedProcessFunction):
    """Writes state without reading it first, and state that it reads; now and then looks whether the two fit.

    A record that looks may come before or after one that writes, but never sees half of what that one wrote. A timer is
    registered and deleted in turn, and in the end it is deleted.
    """

    ARMED = END - 1

    def open(self, runtime_context: Any) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last"))
        self._flag = runtime_context.get_state(ValueStateDescriptor("flag"))
        self._mirror = runtime_context.get_state(ValueStateDescriptor("mirror"))
        self._count = runtime_context.get_state(COUNT)
        self._marks = runtime_context.get_map_state(MapStateDescriptor("marks"))
        self._list = runtime_context.get_list_state(ListStateDescriptor("list"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        timers.register_event_time_timer(END)
        if value % 3 == 2:
            yield value, self._fits()
            return
        self._last.update(value)
        self._marks.put(value, -value)
        self._list.add(value)
        _, count = self._mirror.value(), self._count.value() + 1
        self._mirror.update((value, count % 2))
        self._count.update(count)
        if count % 2:
            self._flag.update(count)
            timers.register_event_time_timer(self.ARMED)
        else:
            self._flag.clear()
            timers.delete_event_time_timer(self.ARMED)

    def _fits(self) -> bool:
        count = self._count.value()
        mirror = self._mirror.value() or (None, 0)
        kept = sorted(self._list.get() or ())
        return (
            (self._last.value(), bool(self._flag.value())) == (mirror[0], bool(mirror[1]))
            and count == len(kept)
            and kept == sorted(self._marks.keys())
        )

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp == self.ARMED:
            if self._count.value() % 2 == 0:
                yield ctx.get_current_key(), SPURIOUS
            return
        entries = tuple(sorted(self._marks.items()))
        yield ctx.get_current_key(), entries, tuple(sorted(self._list.get() or ())), self._count.value(), self._fits()


class Lateness(KeyedProcessFunction):
    """Tells whether each record is late."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, ctx.timestamp() <= ctx.timer_service().current_watermark()


class LatenessBefore(ProcessFunction):
    """Tells the same of each record right behind its source."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, ctx.timestamp() <= ctx.timer_service().current_watermark()


class EachRecord(WatermarkGenerator):
    """Every record is followed by a watermark."""

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: Any) -> None:
        pass


class Hold(FlatMapFunction, CheckpointedFunction):
    """Holds up to three records back, in operator state, and counts in a union list what each subtask has seen.

    At the end what is held is still there: with what was emitted it is all that came.
    """

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self._held = store.get_list_state(ListStateDescriptor(HELD))
        self._counts = store.get_union_list_state(ListStateDescriptor(SEEN))
        self._waiting = self._held.get()

    def open(self, runtime_context: Any) -> None:
        self._index = runtime_context.get_index_of_this_subtask()
        width = runtime_context.get_number_of_parallel_subtasks()
        self._seen = sum(count for index, count in self._counts if index % width == self._index)

    def snapshot_state(self, context: Any) -> None:
        self._held.update(self._waiting)
        self._counts.update([(self._index, self._seen)])

    def flat_map(self, value: Any) -> Iterator[Any]:
        self._seen += 1
        self._waiting.append(value)
        while len(self._waiting) > 3:
            yield self._waiting.pop(0)


# ---- a source that idles


@dataclass(frozen=True)
class BurstSource(Source):
    """The numbers below ``count``; after each ``burst`` of them a subtask has none for ``pause`` ms."""

    count: int
    burst: int
    pause: int

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Deal the numbers out in turn."""
        parts = min(parallelism, self.count)
        return StaticSplits([IndexSplit(f"{n}/{parts}", n, self.count, parts) for n in range(parts)], parallelism)

    def reader(self, context: ConnectorContext) -> BurstReader:
        """Make a reader; how long it pauses differs between subtasks."""
        return BurstReader(self.burst, self.pause * (1 + context.subtask))


class BurstReader(QueuedReader):
    """Reads a burst, waits, reads on."""

    def __init__(self, burst: int, pause: int) -> None:
        super().__init__()
        self._burst = burst
        self._pause = pause
        self._left = burst
        self._until = 0

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next numbers of the burst."""
        while self.queue:
            split: IndexSplit = self.queue[0]
            if not self._left:
                self._left, self._until = self._burst, now + self._pause
            if now < self._until:
                return Wait(self._until - now)
            taken = split.take(min(limit, self._left))
            if taken:
                self._left -= len(taken)
                self.queue[0] = split.after(taken)
                return Batch(list(taken), split=split.id)
            self.end_split()
        return NEED_SPLITS
