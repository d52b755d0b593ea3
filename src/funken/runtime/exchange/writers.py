"""Edge writers: spread records over the subtasks of a target, collect them into blocks, hand full blocks on.

One writer per exchange and upstream subtask. Its channels are FIFO: whatever is written to one target arrives in that
order, control blocks (watermark, barrier, end) included, because a control block first flushes the records before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from math import inf
from typing import Any, TypeAlias

from funken.columnar.block import Block, RowBlock, TupleBlock
from funken.errors import InvalidProgram, KeyNotHashable
from funken.operators.base import Timestamps, Values
from funken.plan.nodes import Broadcast, Custom, Forward, Global, Hash, Rebalance, Rescale, Shuffle
from funken.plan.physical import Edge
from funken.runtime.exchange.gate import BlockKind, encode_fields, encode_records, pack_header
from funken.runtime.settings import PIECE_RECORDS
from funken.state.keygroups import KeyRouter

Send = Callable[[int, bytes], None]


class IngestionTime:
    """The ingestion time of the oldest record being processed (wall clock, s); shared by all writers of a task."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0.0


class EdgeWriter:
    """Buffers records per target; subclasses choose the targets in ``emit``."""

    def __init__(
        self, edge: Edge, subtask: int, operator: str, send: Send, ingested_at: IngestionTime, records: int, size: int
    ) -> None:
        self.edge = edge
        self.targets = edge.target_parallelism
        self._subtask = subtask
        self._operator = operator
        self._send = send
        self._ingestion_time = ingested_at
        self._max_records = max(1, records)
        #: how many records make a block; it grows while their bytes allow
        self._limit = min(self._max_records, PIECE_RECORDS)
        self._max_bytes = size
        self._stamped = False
        self.records = 0
        """Number of records sent."""
        self.bytes = 0
        """Number of bytes of records sent."""
        self._sequence = [0] * self.targets
        self._values: list[Values] = [[] for _ in range(self.targets)]
        self._stamps: list[list[int]] = [[] for _ in range(self.targets)]
        self._since: list[float] = [0.0] * self.targets
        #: latency markers that wait with the records
        self._markers: list[tuple[int, float]] = []

    @property
    def waiting(self) -> bool:
        """True if records are buffered."""
        return any(self._values)

    @property
    def oldest(self) -> float:
        """The ingestion time of the oldest buffered record (wall clock, s), ``inf``: there is none."""
        return min((since for since in self._since if since), default=inf)

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Buffer a block of the operator's output."""
        raise NotImplementedError

    def emit_block(self, block: Block) -> None:
        """Buffer a block of the operator's output, in any form."""
        self.emit(*block.rows())

    def _align(self, timestamps: Timestamps) -> list[int] | None:
        """Keep a buffer either with or without timestamps: flush it when that changes."""
        if (timestamps is not None) != self._stamped:
            self.flush()
            self._stamped = timestamps is not None
        return timestamps

    def _send_full(self) -> None:
        # Once per block and target: the record loop itself checks nothing.
        at, limit = self._ingestion_time.at, self._limit
        for target, values in enumerate(self._values):
            if values:
                if not self._since[target]:
                    self._since[target] = at
                if len(values) >= limit:
                    self._send_block(target)

    def _send_block(self, target: int) -> None:
        values = self._values[target]
        payload = encode_records(values, self._stamps[target] if self._stamped else None, self._operator, self._subtask)
        self._adapt(len(payload), len(values))
        self.records += len(values)
        self._send_data(target, payload, self._since[target] or self._ingestion_time.at)
        # Emptied, not replaced: bound append methods of these lists are cached per key.
        values.clear()
        self._stamps[target].clear()
        self._since[target] = 0.0

    def _adapt(self, size: int, count: int) -> None:
        if size > self._max_bytes and count > 1:
            self._limit = max(1, min(self._limit, count) * self._max_bytes // (2 * size))
        elif size < self._max_bytes // 4 and self._limit < self._max_records:
            self._limit = min(self._max_records, self._limit * 2)

    def _send_data(self, target: int, payload: bytes, ingested_at: float) -> None:
        block = pack_header(
            BlockKind.DATA, self.edge.id, self._subtask, target, self._sequence[target], 0, ingested_at, payload
        )
        self._sequence[target] += 1
        self.bytes += len(block)
        self._send(target, block)

    def flush(self) -> None:
        """Send every record that waits."""
        for target, values in enumerate(self._values):
            if values:
                self._send_block(target)
        if self._markers:
            self._send_markers()

    def latency(self, source: int, marked: float) -> None:
        """Send a latency marker of a source, made at a time (wall clock, s), to one target; it waits as records do."""
        self._markers.append((source, marked))
        if not self.waiting:
            self._send_markers()

    def _send_markers(self) -> None:
        for source, marked in self._markers:
            target = random.choice(self._reachable())
            kind, number = BlockKind.LATENCY, self._sequence[target]
            self._sequence[target] += 1
            self._send(target, pack_header(kind, self.edge.id, self._subtask, target, number, source, marked))
        self._markers.clear()

    def _reachable(self) -> Sequence[int]:
        """Return the targets that records may go to."""
        return range(self.targets)

    def control(self, kind: BlockKind, number: int, content: bytes = b"") -> None:
        """Send a control block to every target, after all records before it."""
        self.flush()
        self._send_control(kind, number, content)

    def overtaking_barrier(self, number: int, content: bytes) -> list[Block]:
        """Send a barrier to every target, ahead of the buffered records; return these, per target."""
        self._send_control(BlockKind.BARRIER, number, content)
        stamped = self._stamped
        return [
            RowBlock(list(values), list(stamps) if stamped else None)
            for values, stamps in zip(self._values, self._stamps, strict=True)
            if values
        ]

    def _send_control(self, kind: BlockKind, number: int, content: bytes) -> None:
        for target in range(self.targets):
            block = pack_header(kind, self.edge.id, self._subtask, target, self._sequence[target], number, 0.0, content)
            self._sequence[target] += 1
            self._send(target, block)


class RebalanceWriter(EdgeWriter):
    """Round robin, record by record, over the targets that this subtask reaches: all of them, its share, or one.

    The start differs between upstream subtasks, if they reach all.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        up, down = self.edge.source_parallelism, self.targets
        self._next = 0
        match self.edge.partitioning:
            case Global():
                self._chosen = [0]
            case Forward():
                self._chosen = [self._subtask]
            case Rescale() if up >= down:
                self._chosen = [self._subtask * down // up]
            case Rescale():
                self._chosen = [t for t in range(down) if t * up // down == self._subtask]
            case _:
                self._chosen = list(range(down))
                self._next = self._subtask % down

    def _reachable(self) -> Sequence[int]:
        return self._chosen

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Deal a block out."""
        stamps = self._align(timestamps)
        chosen = self._chosen
        width = len(chosen)
        for offset in range(min(width, len(values))):
            target = chosen[(self._next + offset) % width]
            self._values[target].extend(values if width == 1 else values[offset::width])
            if stamps is not None:
                self._stamps[target].extend(stamps if width == 1 else stamps[offset::width])
        self._next = (self._next + len(values)) % width
        self._send_full()


class ShuffleWriter(EdgeWriter):
    """To a random target."""

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Scatter a block."""
        stamps = self._align(timestamps)
        for position, target in enumerate(random.choices(range(self.targets), k=len(values))):
            self._values[target].append(values[position])
            if stamps is not None:
                self._stamps[target].append(stamps[position])
        self._send_full()


class BroadcastWriter(EdgeWriter):
    """Every record to every target; pickled once."""

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Keep a block once, for all."""
        stamps = self._align(timestamps)
        self._values[0].extend(values)
        if stamps is not None:
            self._stamps[0].extend(stamps)
        self._send_full()

    def _send_data(self, target: int, payload: bytes, ingested_at: float) -> None:
        for each in range(self.targets):
            super()._send_data(each, payload, ingested_at)


class CustomWriter(EdgeWriter):
    """To the target that the user's partitioner names."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        partitioning = self.edge.partitioning
        assert isinstance(partitioning, Custom)
        self._key, self._partition = partitioning.key.bind(), partitioning.partitioner.bind()

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Call the partitioner for each record."""
        stamps = self._align(timestamps)
        for position, value in enumerate(values):
            target = self._partition(self._key(value), self.targets)
            if not hasattr(target, "__index__") or not 0 <= target < self.targets:
                raise InvalidProgram(
                    f"the partitioner after operator {self._operator!r} returned {target!r} for {value!r}; it must be "
                    f"from 0 to {self.targets - 1}, the parallelism of the next operator less one."
                )
            self._values[target].append(value)
            if stamps is not None:
                self._stamps[target].append(stamps[position])
        self._send_full()


# ---- Where records belong while there are more keys than a cache can hold: computed for the keys of a block at
# once.
#
# A key that ``KeyRouter`` has not cached costs 0.4 us. If it forgets what it has before each key came a few times,
# it is left alone: an array of keys takes a fifth of that time. How many keys there are is counted on, so that
# their cache is used again when there are few. NumPy is loaded only then.


_USES = 8
"""A cache pays if a key that is put into it is used so often."""
_FEWEST = 100
"""Blocks of fewer records are not dealt out: the calls take 20 us, as looking up 50 keys that are not there."""
_BITS = 1 << 20
"""Keys are counted by so many bits: enough to tell some hundred thousands from few."""


class ManyKeys:
    """Knows of the records of a writer whether their keys are many, and deals them out if so.

    >>> many = ManyKeys(max_parallelism=128, targets=2, limit=3)
    >>> many.note(records=4, cleared=1)  # a cache of three keys was full after four records
    >>> many.takes(1000), many.takes(10), many.deal([10, 11, 12, 13])
    (True, False, [[0, 1, 3], [2]])
    """

    def __init__(self, max_parallelism: int, targets: int, limit: int) -> None:
        self._found = False
        self._max_parallelism = max_parallelism
        self._targets = targets
        self._limit = limit
        self._records = 0
        self._owners: Any = None

    def takes(self, records: int) -> bool:
        """Return True if a block of so many records is to be dealt out."""
        return self._found and records >= _FEWEST

    def note(self, records: int, cleared: int) -> None:
        """Take note of a block whose keys were looked up in a cache, and of the number of its clearings."""
        if self._found:
            return
        self._records += records
        if cleared:
            self._found = self._records < _USES * self._limit * cleared
            self._records = 0

    def deal(self, keys: list[Any]) -> list[list[int]]:
        """Return the positions of the records of each target; raises ``KeyNotHashable``."""
        if self._owners is None:
            from funken.columnar.keyed.keys import KeyOwners  # noqa: PLC0415 - NumPy, only where it pays

            self._owners = KeyOwners(self._max_parallelism, self._targets, _BITS)
        self._records += len(keys)
        dealt: list[list[int]] = self._owners.deal(keys)
        if self._records >= 2 * _USES * self._limit:
            self._found = self._owners.count() > self._limit // 2
            self._records = 0
        return dealt


# ---- The edge writer of ``key_by``: records go where their keys belong, one by one, or tuples field by field.
#
# A loop over a block's records looks each key up in a cache that holds the bound ``append`` of its target's buffer.
# Where keys are more than the cache holds, the loop keeps them instead, and where they belong is computed for the
# block (``ManyKeys``).


CACHED_KEYS = 200_000
"""For so many keys it is known where they belong."""

_TEXTS = frozenset({str, bytes})
"""Types whose equal objects differ in nothing but where they are, and are pickled once if they are one."""

Loop: TypeAlias = Callable[..., None]
"""Appends the records of a block, and their timestamps if there are any.

``loop(known, find, values[, timestamps])``: to what a router knows of their keys, or finds. ``loop(keep, appends, values[,
timestamps])``: all to the same lists, and each key is given to ``keep``.
"""
Loops: TypeAlias = Callable[[bool, bool, bool], Loop]
"""Returns the loop over records with timestamps or without, the one that keeps keys or that looks them up, and the one to which
a router gives one object for all equal texts or not."""


class FieldRouter(KeyRouter):
    """Routes to appenders of the fields of tuples; with ``one_text`` also to the key, and the type it may stand for.

    A field that is the key then becomes the key that is here: of equal texts one object remains, which is pickled in a third of
    the time and read in half of it. Of numbers it would save nothing, and a look at their types costs a quarter of the loop.

    >>> texts = FieldRouter(128, 1, lambda target: ([].append,), one_text=True)
    >>> [texts[key][1:] for key in ("to", b"be", 0.5)]
    [('to', <class 'str'>), (b'be', <class 'bytes'>), (0.5, None)]
    >>> numbers = FieldRouter(128, 1, lambda target: "append")
    >>> numbers[1], numbers.texts, numbers["to"], numbers.texts
    ('append', False, 'append', True)
    """

    __slots__ = ("one_text", "texts")

    def __init__(
        self, max_parallelism: int, parallelism: int, choose: Callable[[int], Any], limit: int = CACHED_KEYS,
        one_text: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(max_parallelism, parallelism, choose, limit)
        self.one_text = one_text
        self.texts = False
        """True if any key was a text."""

    def choice(self, key: Any) -> Any:
        """Return them."""
        kind = type(key)
        if kind in _TEXTS:
            self.texts = True
        found = super().choice(key)
        return (*found, key, kind if kind in _TEXTS else None) if self.one_text else found


class HashWriter(EdgeWriter):
    """Records with equal keys to one target, by key group."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        partitioning = self.edge.partitioning
        assert isinstance(partitioning, Hash)
        self.key = partitioning.key.bind()
        # Hot: a dict from key to the bound append of its target's buffer, so that a record costs the key function,
        # one dict lookup and one append.
        self._append = self._router(lambda target: self._values[target].append)
        self._appends = self._router(lambda target: (self._values[target].append, self._stamps[target].append))
        self._many_keys = ManyKeys(self.edge.target_max_parallelism, self.targets, CACHED_KEYS)
        #: the loops of the key selector, set by the chain; the loop of a run has the key selector in it, and calls ``spread``
        self.loops: Loops
        self._known_keys = CACHED_KEYS

        #: tuples that wait field by field, of each target; empty unless ``take_fields`` was called
        self._fields: list[list[list[Any]]] = []
        #: the fields that all of these tuples have in common
        self._constants: Mapping[int, Any] = {}
        self._has_key = False

    def _router(self, choose: Callable[[int], Any]) -> KeyRouter:
        return KeyRouter(self.edge.target_max_parallelism, self.targets, choose, CACHED_KEYS)

    def take_fields(self, count: int, constants: Mapping[int, Any], has_key: bool) -> bool:
        """Be ready for tuples field by field; whether that is possible.

        ``count`` fields of theirs are appended, at least one; ``constants`` are the others, by their place in the tuples.
        ``has_key``: whether one of the former is the key.
        """
        if type(self) is not HashWriter:
            return False
        self._constants, self._has_key = constants, has_key
        self._fields = [[[] for _ in range(count)] for _ in range(self.targets)]
        self._route_fields(one_text=False)
        return True

    def _route_fields(self, *, one_text: bool) -> None:
        """Make the routers to appenders of fields; a single one is no tuple."""
        appends = [[each.append for each in lists] for lists in self._fields]
        alone = len(appends[0]) == 1 and not one_text

        def of(target: int) -> Any:
            return appends[target][0] if alone else (*appends[target],)

        def of_stamped(target: int) -> Any:
            return (*appends[target], self._stamps[target].append)

        groups, keys = self.edge.target_max_parallelism, self._known_keys
        self._field_appends = FieldRouter(groups, self.targets, of, keys, one_text)
        self._stamped_field_appends = FieldRouter(groups, self.targets, of_stamped, keys, one_text)

    @property
    def waiting(self) -> bool:
        """True if records are buffered, in either form."""
        return any(fields[0] for fields in self._fields) or super().waiting

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Spread a block by key."""
        self._flush_fields()
        try:
            self.spread(self.loops, values, timestamps)
        except KeyNotHashable as error:
            raise self.refused(error) from None

    def spread(self, loops: Loops, values: Values, timestamps: Timestamps) -> None:
        """Let a loop append the records of a block where they belong."""
        stamps = self._align(timestamps)
        if self._many_keys.takes(len(values)):
            self._gather(loops, 1, values, stamps, [[each] for each in self._values])
        else:
            self._route(loops, self._append if stamps is None else self._appends, values, stamps)
        self._send_full()

    def spread_fields(self, loops: Loops, values: Values, timestamps: Timestamps) -> None:
        """``spread`` of loops that append the fields of tuples."""
        if any(self._values):
            super().flush()
        stamps = self._align(timestamps)
        if self._many_keys.takes(len(values)):
            self._gather(loops, len(self._fields[0]), values, stamps, self._fields)
        else:
            router = self._field_appends if stamps is None else self._stamped_field_appends
            self._route(loops, router, values, stamps, router.one_text)
            if router.texts and self._has_key and not router.one_text:
                self._route_fields(one_text=True)
        at, limit = self._ingestion_time.at, self._limit
        for target, fields in enumerate(self._fields):
            if fields[0]:
                if not self._since[target]:
                    self._since[target] = at
                if len(fields[0]) >= limit:
                    self._send_fields(target)

    def _route(
        self, loops: Loops, router: KeyRouter, values: Values, stamps: list[int] | None, one_text: bool = False
    ) -> None:  # fmt: skip
        before = router.cleared
        given = (values,) if stamps is None else (values, stamps)
        loops(stamps is not None, False, one_text)(router.known, router.find, *given)
        self._many_keys.note(len(values), router.cleared - before)

    def _gather(
        self, loops: Loops, columns: int, values: Values, stamps: list[int] | None, buffers: list[list[list[Any]]]
    ) -> None:  # fmt: skip
        """Let a loop append the records to lists of their own, and deal them out."""
        given = (values,) if stamps is None else (values, stamps)
        keys: list[Any] = []
        block: list[list[Any]] = [[] for _ in range(columns + len(given) - 1)]
        loops(stamps is not None, True, False)(keys.append, [each.append for each in block], *given)
        self._deal(keys, block, buffers)

    def _deal(self, keys: list[Any], block: list[list[Any]], buffers: list[list[list[Any]]]) -> None:
        """Deal a block, and its timestamps if there are any, to the ``buffers`` of the targets."""
        try:
            dealt = self._many_keys.deal(keys)
        except KeyNotHashable as error:
            raise self.refused(error) from None
        for target, positions in enumerate(dealt):
            for column, to in zip(block, [*buffers[target], self._stamps[target]], strict=False):
                to.extend(map(column.__getitem__, positions))

    def _send_fields(self, target: int) -> None:
        fields, stamps = self._fields[target], self._stamps[target]
        block = TupleBlock(fields, stamps if self._stamped else None, self._constants)
        payload = encode_fields(block, self._operator, self._subtask)
        count = len(fields[0])
        self._adapt(len(payload), count)
        self.records += count
        self._send_data(target, payload, self._since[target] or self._ingestion_time.at)
        for each in (*fields, stamps):  # emptied, not replaced: bound append methods of these lists are cached per key
            each.clear()
        self._since[target] = 0.0

    def _flush_fields(self) -> None:
        for target, fields in enumerate(self._fields):
            if fields[0]:
                self._send_fields(target)

    def flush(self) -> None:
        """Send every record that waits."""
        self._flush_fields()
        super().flush()

    def overtaking_barrier(self, number: int, content: bytes) -> list[Block]:
        """Send a barrier to every target, ahead of the records that wait; return these."""
        waiting: list[Block] = [
            TupleBlock([list(each) for each in fields], list(stamps) if self._stamped else None, self._constants)
            for fields, stamps in zip(self._fields, self._stamps, strict=False)
            if fields[0]
        ]
        return waiting + super().overtaking_barrier(number, content)

    def refused(self, error: KeyNotHashable) -> KeyNotHashable:
        """Return the error for a key that cannot be one, with the operator whose records it is of."""
        return KeyNotHashable(f"key_by after operator {self._operator!r}: {error}")


WRITERS: dict[type, type[EdgeWriter]] = {
    Hash: HashWriter, Shuffle: ShuffleWriter, Broadcast: BroadcastWriter, Custom: CustomWriter
} | dict.fromkeys((Rebalance, Rescale, Forward, Global), RebalanceWriter)  # fmt: skip


def writer_for(
    edge: Edge, subtask: int, operator: str, send: Send, ingested_at: IngestionTime, records: int, size: int
) -> EdgeWriter:
    """Make the writer of an edge's partitioning; with a buffer timeout of 0, a block is full at one record."""
    form = edge.partitioning.form
    # By name: the writers of columns need NumPy, and those of tables are in a room above.
    writers = WRITERS if form is None else import_module(form.writers).WRITERS
    kind: type[EdgeWriter] = writers[type(edge.partitioning)]
    return kind(edge, subtask, operator, send, ingested_at, 1 if edge.buffer_timeout == 0 else records, size)


# ---- When partly filled blocks are flushed: by the buffer timeout of the operator that emits them, else the
# environment's.
#
# The environment's timeout is kept by the loops: they call ``Task.flush`` when it has passed, or earlier when there
# is nothing else to do; with -1 that sends nothing. An operator that has one of its own (``set_buffer_timeout``) is
# looked after here: 0 sends after every block, by way of a writer whose blocks are full at one record; -1 never
# sends but full blocks and what a control block pushes; n sends n ms after the first record was seen to wait.
# Looked at once per turn of the loop, never per record.


_SOON = 100


def all_flush_soon(edges: Iterable[Edge], default: int) -> bool:
    """Return True if every buffer timeout is short (ms), so that a record's age is due to queueing and processing."""
    timeouts = [default if edge.buffer_timeout is None else edge.buffer_timeout for edge in edges]
    return all(0 <= timeout <= _SOON for timeout in timeouts)


def _no_flush() -> None:
    """Do not flush."""


class FlushTimers:
    """The writers of one task."""

    def __init__(self, default: int) -> None:
        self._default = default
        self._timed: list[tuple[EdgeWriter, int]] = []
        self._untimed: list[EdgeWriter] = []
        #: since when (ms) records were seen to wait, by position in ``_timed``
        self._since: dict[int, int] = {}
        self._urgent = False

    def add(self, writer: EdgeWriter) -> Callable[[], None]:
        """Register a writer; return the function that ``Task.flush`` calls for it."""
        timeout = writer.edge.buffer_timeout
        if timeout is not None and timeout > 0:
            self._timed.append((writer, timeout))
        if timeout is not None or self._default < 0:
            return _no_flush
        self._untimed.append(writer)
        return writer.flush

    @property
    def waiting(self) -> bool:
        """True if records wait for the environment's timeout."""
        return any(writer.waiting for writer in self._untimed)

    @property
    def oldest(self) -> float:
        """The ingestion time of the oldest record that waits for a timeout (wall clock, s), ``inf``: none waits."""
        writers = [*self._untimed, *(writer for writer, _ in self._timed)]
        return min((writer.oldest for writer in writers), default=inf)

    def request_urgent_flush(self) -> None:
        """Request that sent records wait in no buffer on their way."""
        self._urgent = True

    def take_urgent_flush(self) -> bool:
        """Return True if an urgent flush was requested since the last call."""
        pressed, self._urgent = self._urgent, False
        return pressed

    def flush_timed(self) -> None:
        """Flush the writers that have a timeout of their own."""
        for writer, _ in self._timed:
            if writer.waiting:
                writer.flush()
        self._since.clear()

    def advance(self, now: int) -> int | None:
        """Flush writers whose timeout has passed; return when (ms) the next is due, ``None`` if no record waits."""
        due: int | None = None
        for position, (writer, timeout) in enumerate(self._timed):
            if not writer.waiting:
                self._since.pop(position, None)
                continue
            at = self._since.setdefault(position, now) + timeout
            if at <= now:
                del self._since[position]
                writer.flush()
                self._urgent = True
            else:
                due = at if due is None else min(due, at)
        return due
