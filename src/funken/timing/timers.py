"""Timers: which keys are called at which time, in event time and in processing time.

Invariants: a timer is registered once per domain, timestamp, key and namespace; timers fire in timestamp order, those
registered meanwhile included; a timer never fires while it is being registered, only when time advances.
No clock is read here: time is an argument, except for ``current_processing_time``, which reads the given one.
Snapshots are of everything, or of what changed since the last one, as those of keyed state (``state/keyed.py``). They may
be taken in slices (``begin_snapshot``): what has changed is noted with what became of it, and needs no second look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import itemgetter
from typing import Any, TypeAlias

from funken.ids import DEFAULT_MAX_PARALLELISM, MAX_WATERMARK, MIN_TIMESTAMP
from funken.state.delta_tables import CHUNK, GroupedSnapshot, SnapshotWriter, snapshot_at_once
from funken.state.keygroups import KeyRouter, check_max_parallelism, restored_key

logger = logging.getLogger(__name__)

Fire: TypeAlias = Callable[[int, Any, Any], None]
"""The callback of a due timer: ``fire(timestamp, key, namespace)``."""

Timer: TypeAlias = tuple[int, Any, Any]
"""``(timestamp, key, namespace)``."""

_MIN_GARBAGE = 64


class TimerQueue:
    """The timers of one domain: for each timestamp the slots ``(key, namespace)``, and a heap of the timestamps.

    Windows put many timers on one timestamp, so registering one that exists is two dict lookups and no heap operation.
    Deleting leaves an empty timestamp behind; as soon as half of them may be empty, they are swept out.
    """

    __slots__ = ("_deleted", "_firing", "_heap", "_slots")

    def __init__(self) -> None:
        self._slots: dict[int, dict[tuple[Any, Any], None]] = {}
        self._heap: list[int] = []
        self._deleted = 0
        self._firing = False

    def add(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Register a timer, unless it is there."""
        slots = self._slots.get(timestamp)
        if slots is None:
            self._slots[timestamp] = {(key, namespace): None}
            heappush(self._heap, timestamp)
        else:
            slots[key, namespace] = None

    def discard(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Delete a timer, if it is there."""
        slots = self._slots.get(timestamp)
        if slots is not None and (key, namespace) in slots:
            del slots[key, namespace]
            self._deleted += 1
            if self._deleted * 2 > max(len(self._heap), _MIN_GARBAGE) and not self._firing:
                self._sweep()

    def _sweep(self) -> None:
        self._slots = {timestamp: slots for timestamp, slots in self._slots.items() if slots}
        self._heap[:] = self._slots
        heapify(self._heap)
        self._deleted = 0

    def fire_until(self, limit: int, fire: Fire) -> None:
        """Remove and fire the timers at or before ``limit``, in timestamp order; ``fire`` may add and delete timers."""
        heap = self._heap
        self._firing = True
        try:
            while heap and heap[0] <= limit:
                self._fire_first(heap[0], fire)
        finally:
            self._firing = False

    def _fire_first(self, timestamp: int, fire: Fire) -> None:
        heap, slots = self._heap, self._slots[timestamp]
        for slot in list(slots):
            if slot in slots:  # else deleted by one that fired before it
                del slots[slot]
                fire(timestamp, slot[0], slot[1])
                if heap[0] != timestamp:  # an earlier timer was added: it comes first
                    return
        if not slots:
            heappop(heap)
            del self._slots[timestamp]

    @property
    def timestamps(self) -> Sequence[int]:
        """The timestamps that have timers, or had: a heap, always the same object."""
        return self._heap

    def slots_at(self, timestamp: int) -> Collection[tuple[Any, Any]]:
        """Return the keys and namespaces of the timers at a timestamp."""
        return self._slots.get(timestamp, ())

    def next(self) -> int | None:
        """Return the earliest timestamp that has a timer."""
        heap = self._heap
        while heap and not self._slots[heap[0]] and not self._firing:
            del self._slots[heappop(heap)]
        return heap[0] if heap else None

    def take(self, key: Any, namespace: Any, timestamp: int) -> bool:
        """Remove a timer; return whether it existed."""
        slots = self._slots.get(timestamp, {})
        return slots.pop((key, namespace), self) is None

    def clear(self) -> None:
        """Remove all timers."""
        self._slots.clear()
        self._heap.clear()
        self._deleted = 0

    def __iter__(self) -> Iterator[Timer]:
        return ((at, key, namespace) for at, slots in self._slots.items() for key, namespace in slots)

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))


class TrackedTimerQueue(TimerQueue):
    """A queue that tracks which timers are added and removed, each at most once, in the order of its first change."""

    __slots__ = ("_all_changed", "_changed")

    def __init__(self) -> None:
        super().__init__()
        #: whether each timer that changed is there now
        self._changed: dict[Timer, bool] = {}
        #: whether every timer that is there is among those
        self._all_changed = True

    def add(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Register a timer, unless it is there."""
        if (key, namespace) not in self._slots.get(timestamp, ()):
            self._changed[timestamp, key, namespace] = True
            super().add(key, namespace, timestamp)

    def discard(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Delete a timer, if it is there."""
        if (key, namespace) in self._slots.get(timestamp, ()):
            self._changed[timestamp, key, namespace] = False
            super().discard(key, namespace, timestamp)

    def fire_until(self, limit: int, fire: Fire) -> None:
        """Remove and fire the timers at or before ``limit``."""

        def noted(timestamp: int, key: Any, namespace: Any) -> None:
            self._changed[timestamp, key, namespace] = False
            fire(timestamp, key, namespace)

        super().fire_until(limit, noted)

    def take(self, key: Any, namespace: Any, timestamp: int) -> bool:
        """Remove a timer; return whether it existed."""
        self._changed[timestamp, key, namespace] = False
        return super().take(key, namespace, timestamp)

    def clear(self) -> None:
        """Remove all timers."""
        self._changed.update(dict.fromkeys(self, False))
        super().clear()

    def take_changed(self, complete: bool = False) -> dict[Timer, bool]:
        """Return the timers that came or went since the last call, and whether they are there; or all that are there."""
        changed = self._changed if self._all_changed or not complete else dict.fromkeys(self, True)
        self.forget_changes()
        return changed

    def forget_changes(self) -> None:
        """Start anew to note changes."""
        self._changed, self._all_changed = {}, False


class InternalTimerService:
    """The timers of one operator subtask, in both domains.

    ``register_event_time_timer``, ``register_processing_time_timer`` and the two ``delete_...`` take ``(key, namespace,
    timestamp)``; they are attributes, so that operators may bind them. ``processing_time`` gives the time for
    ``current_processing_time`` only. ``tracked``: changes are tracked, for ``snapshot_changes``.

    >>> timers = InternalTimerService(processing_time=lambda: 0)
    >>> timers.register_event_time_timer("key", None, 10)
    >>> timers.register_event_time_timer("key", None, 10)
    >>> timers.advance_watermark(20, lambda timestamp, key, namespace: print(timestamp, key))
    10 key
    """

    __slots__ = (
        "_event",
        "_group_of",
        "_processing",
        "current_processing_time",
        "current_watermark",
        "delete_event_time_timer",
        "delete_processing_time_timer",
        "key_groups",
        "max_parallelism",
        "register_event_time_timer",
        "register_processing_time_timer",
    )

    def __init__(
        self,
        processing_time: Callable[[], int],
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
        key_groups: range | None = None,
        tracked: bool = False,
    ) -> None:
        self.current_processing_time = processing_time
        self.current_watermark: int = MIN_TIMESTAMP
        self.max_parallelism = max_parallelism
        self.key_groups = range(max_parallelism) if key_groups is None else key_groups
        make = TrackedTimerQueue if tracked else TimerQueue
        self._event, self._processing = make(), make()
        self._group_of = KeyRouter(max_parallelism, max_parallelism, lambda group: group)
        self.register_event_time_timer = self._event.add
        self.register_processing_time_timer = self._processing.add
        self.delete_event_time_timer = self._event.discard
        self.delete_processing_time_timer = self._processing.discard

    def advance_watermark(self, watermark: int, fire: Fire) -> None:
        """Let event time reach ``watermark`` and fire due timers; a timer set in the past fires now at the latest."""
        self.current_watermark = watermark
        self._event.fire_until(watermark, fire)

    def advance_processing_time(self, now: int, fire: Fire) -> None:
        """Fire the processing-time timers that are due at ``now``."""
        self._processing.fire_until(now, fire)

    @property
    def event_times(self) -> Sequence[int]:
        """The timestamps of the event-time timers, likewise."""
        return self._event.timestamps

    @property
    def processing_times(self) -> Sequence[int]:
        """The timestamps of the processing-time timers, the earliest first; always the same object, for hot loops.

        One whose timers were deleted may still be there.
        """
        return self._processing.timestamps

    def slots_at(self, timestamp: int, event_time: bool) -> Collection[tuple[Any, Any]]:
        """Return the keys and namespaces of the timers at a timestamp, in event time or processing time."""
        return (self._event if event_time else self._processing).slots_at(timestamp)

    def next_processing_time(self) -> int | None:
        """Return the time of the next processing-time timer."""
        return self._processing.next()

    def drain(self, fire_event: Fire, fire_processing: Fire) -> None:
        """Fire everything, key by key: all of a key's event-time timers, then its processing-time ones (``BATCH``).

        Meanwhile the watermark is ``MAX_WATERMARK``, and timers that are registered are ignored, with a warning, so
        that one that registers itself again comes to an end.
        """
        domains = ((self._event, fire_event), (self._processing, fire_processing))
        by_key: dict[Any, list[tuple[TimerQueue, Fire, Timer]]] = {}
        for queue, fire in domains:
            for timer in sorted(queue, key=itemgetter(0)):
                by_key.setdefault(timer[1], []).append((queue, fire, timer))
        watermark, self.current_watermark = self.current_watermark, int(MAX_WATERMARK)
        for timers in by_key.values():
            for queue, fire, (timestamp, key, namespace) in timers:
                if queue.take(key, namespace, timestamp):  # else deleted by one that fired before it
                    fire(timestamp, key, namespace)
        self.current_watermark = watermark
        ignored = len(self._event) + len(self._processing)
        if ignored:
            logger.warning("%d timers were registered by timers at the end of a key and are ignored", ignored)
        self._event.clear()
        self._processing.clear()

    def pending(self) -> int:
        """Return the number of timers."""
        return len(self._event) + len(self._processing)

    def snapshot(self) -> GroupedSnapshot:
        """Return all timers as plain data, by key group and domain."""
        groups: dict[int, dict[str, list[Timer]]] = {}
        self._forget_changes()
        for domain, queue in self._domains():
            for timer in queue:
                groups.setdefault(self._group_of[timer[1]], {}).setdefault(domain, []).append(timer)
        return GroupedSnapshot(self.max_parallelism, groups)

    def snapshot_changes(self) -> GroupedSnapshot:
        """Return the timers that are new, and in ``deleted`` those that are gone; all, if that is not tracked."""
        if not self.tracked:
            return self.snapshot()
        changes = snapshot_at_once(self.begin_snapshot, complete=False)
        return GroupedSnapshot(self.max_parallelism, changes.groups, changes.deleted)

    @property
    def tracked(self) -> bool:
        """True if changes are tracked."""
        return isinstance(self._event, TrackedTimerQueue)

    def empty_snapshot(self, complete: bool) -> GroupedSnapshot:
        """Return a snapshot without timers, complete or of no changes."""
        return GroupedSnapshot(self.max_parallelism, {}, None if complete else {})

    def begin_snapshot(self, writer: SnapshotWriter, complete: bool, chunk: int = CHUNK) -> Iterator[None]:
        """Fix the changes, or all timers; each step of the result adds about ``chunk`` timers to ``writer``."""
        taken = [
            (domain, queue.take_changed(complete))
            for domain, queue in self._domains()
            if isinstance(queue, TrackedTimerQueue)
        ]
        return self._save(writer, complete, chunk, taken)

    def _save(
        self, writer: SnapshotWriter, complete: bool, chunk: int, taken: list[tuple[str, dict[Timer, bool]]]
    ) -> Iterator[None]:  # fmt: skip
        group_of = self._group_of
        for domain, changed in taken:
            timers = iter(changed.items())
            while some := list(islice(timers, chunk)):
                for timer, there in some:
                    if there or not complete:
                        kept = writer.groups if there else writer.deleted
                        kept.setdefault(group_of[timer[1]], {}).setdefault(domain, []).append(timer)
                writer.count += len(some)
                yield
            while changed:  # to free millions of timers at once would take long
                for _ in range(min(len(changed), chunk)):
                    changed.popitem()
                yield

    def _domains(self) -> tuple[tuple[str, TimerQueue], ...]:
        return ("event", self._event), ("processing", self._processing)

    def _forget_changes(self) -> None:
        for _, queue in self._domains():
            if isinstance(queue, TrackedTimerQueue):
                queue.forget_changes()

    def restore(self, snapshots: Iterable[GroupedSnapshot]) -> None:
        """Take from snapshots, of any parallelism, the timers of this subtask's key groups."""
        for snapshot in snapshots:
            check_max_parallelism(snapshot.max_parallelism, self.max_parallelism)
            for group in self.key_groups:
                timers = snapshot.groups.get(group, {})
                for queue, saved in (
                    (self._event, timers.get("event", ())),
                    (self._processing, timers.get("processing", ())),
                ):
                    for timestamp, key, namespace in saved:
                        queue.add(restored_key(key, group, self.max_parallelism), namespace, timestamp)
        self._forget_changes()
