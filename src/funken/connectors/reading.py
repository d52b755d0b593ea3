"""From messages to records: a schema parses them, a policy handles broken ones.

A message is *malformed* if the schema raises. The policy is part of the source's description:

* ``FAIL``: the job fails; the error names the message and where it was read.
* ``SKIP``: the message is dropped and counted in the metric ``malformedRecords``.
* ``EMIT``: a ``MalformedRecord`` takes its place in the stream, also counted. The program sends it where it wants (a dead letter
  topic, a file), exactly once like any record.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from funken.connectors.base import NEED_SPLITS, Batch, ConnectorContext, NeedSplits, Service, SourceReader, Wait
from funken.connectors.schemas import DeserializationSchema
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, JobExecutionError, MessageMalformed
from funken.metrics.registry import Counter

_SHOWN_BYTES = 80
_NOT_ITS_FAULT = (JobExecutionError, EnvironmentNotReady)  # a registry that is away is no reason to skip messages


class MalformedRecordPolicy(enum.Enum):
    """The treatment of a message that a source's schema cannot read."""

    FAIL = "fail"
    SKIP = "skip"
    EMIT = "emit"


@dataclass(frozen=True)
class MalformedRecord:
    """A message that the schema cannot read, in the stream in place of its record (``MalformedRecordPolicy.EMIT``).

    >>> MalformedRecord(b'{"n":', "orders-0 offset 7", "JSONDecodeError: Expecting value").where
    'orders-0 offset 7'
    """

    message: bytes
    where: str
    error: str


class MessageDecoder:
    """Applies a schema and a policy to blocks of messages; ``payload`` returns the bytes of a message for errors.

    ``remedy`` is another remedy for some malformed messages than to correct the schema.

    >>> from funken.connectors.formats.json_schema import JsonSchema
    >>> decoder = MessageDecoder(JsonSchema(), MalformedRecordPolicy.SKIP, Counter())
    >>> decoder.decode([b"1", b"{", b"3"], lambda index: f"message {index}")
    ([1, 3], [0, 2])
    >>> decoder.malformed.count
    1

    ``None`` instead of positions: each message has a record. The position of a message with several records is repeated.

    >>> decoder.decode([b"1", b"2"], str)
    ([1, 2], None)
    """

    def __init__(
        self, schema: DeserializationSchema, policy: MalformedRecordPolicy, malformed: Counter,
        payload: Callable[[Any], bytes] = bytes, remedy: Callable[[bytes], str] = lambda message: "",
    ) -> None:  # fmt: skip
        self._schema = schema
        self._policy = policy
        self._payload = payload
        self._remedy = remedy
        self._all = schema.deserialize_all if schema.holds_several else None
        # Without a form of its own for blocks, a schema would read those of which it drops a message twice.
        self._by_block = schema.reads_blocks and not schema.holds_several
        self.malformed = malformed

    def decode(self, messages: Sequence[Any], where: Callable[[int], str]) -> tuple[list[Any], list[int] | None]:
        """Return the records, and the positions of their messages; ``where`` names the place of a message for errors."""
        if self._by_block:
            try:
                records = self._schema.deserialize_block(messages)
            except Exception:  # noqa: BLE001 - found again, message by message
                records = []
            if len(records) == len(messages):
                return list(records), None
        return self._one_by_one(messages, where)

    def batch(self, messages: Sequence[Any], times: list[int], split: str, where: Callable[[int], str]) -> Batch:
        """Return the records of messages, each with the time (ms) of its message."""
        values, positions = self.decode(messages, where)
        return Batch(values, times if positions is None else [times[index] for index in positions], split)

    def _one_by_one(self, messages: Sequence[Any], where: Callable[[int], str]) -> tuple[list[Any], list[int] | None]:
        records: list[Any] = []
        positions: list[int] = []
        for index, message in enumerate(messages):
            try:
                if self._all is not None:
                    several = self._all(message)
                    records += several
                    positions += [index] * len(several)
                    continue
                record = self._schema.deserialize(message)
            except _NOT_ITS_FAULT:
                raise
            except Exception as error:  # noqa: BLE001 - the policy decides
                record = self._malformed(message, where(index), error)
            if record is not None:
                records.append(record)
                positions.append(index)
        complete = self._all is None and len(records) == len(messages)
        return records, None if complete else positions

    def _malformed(self, message: Any, where: str, error: Exception) -> MalformedRecord | None:
        reason = f"{type(error).__name__}: {error}"
        payload = self._payload(message)
        if self._policy is MalformedRecordPolicy.FAIL:
            shown = repr(payload[:_SHOWN_BYTES]) + (" ..." if len(payload) > _SHOWN_BYTES else "")
            remedy = self._remedy(payload) or (
                "correct the schema, or set MalformedRecordPolicy.SKIP or EMIT to go on without it"
            )
            raise MessageMalformed(
                f"{where}: {type(self._schema).__name__} cannot read the message {shown} ({reason}); {remedy}."
            ) from error
        self.malformed.inc()
        return MalformedRecord(payload, where, reason) if self._policy is MalformedRecordPolicy.EMIT else None


class Attempts:
    """Calls a function that may return ``None``; the more often it has in a row, the more seldom it is called: once in 16 times.

    >>> attempts = Attempts(lambda data: print("tried") if data < 4 else data)
    >>> [attempts(number) for number in range(8)]
    tried
    tried
    tried
    [None, None, None, None, None, None, None, 7]
    """

    def __init__(self, attempt: Callable[[Any], Any]) -> None:
        self._attempt = attempt
        self._missed = self._pause = 0

    def __call__(self, data: Any) -> Any:
        """Call the function, or return ``None``."""
        if self._pause:
            self._pause -= 1
            return None
        found = self._attempt(data)
        self._missed = 0 if found is not None else min(self._missed + 1, 5)
        self._pause = (1 << self._missed >> 1) - 1 if self._missed else 0
        return found


# ---- Readers of services that may keep them waiting: a thread asks, so that ``poll`` never waits.
#
# ``PolledReader`` has the thread, positions, counters, and the pausing of splits; a connector defines ``fetch`` and
# ``advance``. ``FeedReader`` is one whose split is a connection on which a peer sends, and which is made again when
# it breaks.


B = TypeVar("B")

_JOIN_S, _IDLE_S = 15.0, 0.2


class Feed(Generic[B]):
    """Items that a thread receives, kept until ``take``; define ``receive``, which puts items until the feed is stopped.

    Nothing more is to be received while ``most`` of what ``size_of`` counts is kept. What ``receive`` raises is raised by
    ``take`` after the items before it. ``wake`` is called when there is something to take.
    """

    look_s = 1.0
    """The longest wait (s) for room."""

    def __init__(self, name: str, wake: Callable[[], None], most: int) -> None:
        self._wake, self._most = wake, most
        self._items: deque[B] = deque()
        self._queued = 0
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"funken-{name}", daemon=True)

    # ---- what a feed defines

    def receive(self) -> None:
        """Put items while there is room, until the feed is stopped."""
        raise NotImplementedError

    def size_of(self, item: B) -> int:
        """Return the size of an item, in the unit of ``most``."""
        return 1

    def leave(self) -> None:
        """Leave the service, at the end of the thread."""

    # ---- in the task

    def start(self) -> None:
        """Start to receive, unless it has started."""
        if self._thread.ident is None:
            self._thread.start()

    def take(self) -> B | None:
        """Return the next item, ``None`` if there is none; raises the error that has ended the thread."""
        with self._changed:
            if self._items:
                item = self._items.popleft()
                self._queued -= self.size_of(item)
                self._changed.notify()
                return item
            if self._error is not None:
                raise self._error
            return None

    def stop(self, wait_s: float = _JOIN_S) -> bool:
        """End the thread, within the time that the service is silent; return whether it ended within ``wait_s``."""
        self._stopped.set()
        with self._changed:
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    # ---- in the thread

    @property
    def stopped(self) -> bool:
        """True if the thread is to end."""
        return self._stopped.is_set()

    def pause(self, seconds: float) -> bool:
        """Wait; returns at once, and true, if the thread is to end."""
        return self._stopped.wait(seconds)

    def has_room(self) -> bool:
        """Return True if more may be received; wait a moment before returning False."""
        with self._changed:
            if self._queued >= self._most and not self.stopped:
                self._changed.wait(self.look_s)
            return self._queued < self._most

    def put(self, items: Sequence[B], wakes: bool = True) -> None:
        """Keep items."""
        with self._changed:
            self._items.extend(items)
            self._queued += sum(map(self.size_of, items))
        if wakes:
            self._wake()

    def _run(self) -> None:
        try:
            self.receive()
        except Exception as error:  # noqa: BLE001 - raised in the reader
            self._error = error
            self._wake()
        finally:
            self.leave()


class BackgroundFetcher(Feed[B]):
    """Calls ``fetch`` in a thread for as long as there is room for the blocks that it returns.

    ``fetch`` may wait for its service, by ``pause`` or for a bounded time; it returns no block if none has come, and ``None``
    if there will never be more. ``close`` is called in the thread at its end.

    >>> blocks = iter([["a", "b"], ["c"]])
    >>> woken = threading.Semaphore(0)
    >>> fetcher = BackgroundFetcher("letters", lambda: [block] if (block := next(blocks, None)) else None, woken.release)
    >>> fetcher.start()
    >>> found = [fetcher.take() for _ in range(2) if woken.acquire(timeout=10)]
    >>> fetcher.stop()
    True
    >>> found
    [['a', 'b'], ['c']]
    """

    def __init__(
        self,
        name: str,
        fetch: Callable[[], Sequence[B] | None],
        wake: Callable[[], None],
        close: Callable[[], None] = lambda: None,
        queued: int = 4,
    ) -> None:
        super().__init__(f"fetch-{name}", wake, queued)
        self._fetch, self._close = fetch, close

    def receive(self) -> None:
        """Fetch while there is room."""
        while not self.stopped:
            if self.has_room():
                blocks = self._fetch()
                if blocks is None:
                    return
                if blocks:
                    self.put(blocks)

    def leave(self) -> None:
        """Call ``close``."""
        self._close()


class SplitRecords(NamedTuple):
    """Records of one split; ``following`` is the split after them, ``None`` if they are its last."""

    split: str
    records: Sequence[Any]
    following: Any
    size: int = 0
    """Number of their bytes on the way."""


class PolledReader(SourceReader):
    """Asks a service in a thread. Define ``fetch``, and ``advance`` unless splits have no position within a block.

    A split has an ``id``. Splits are read side by side, as their records come, and can be paused. ``fetch``, ``connect`` and
    ``disconnect`` run in the thread; all else runs in the task.

    >>> from dataclasses import dataclass, replace
    >>> SHELVES = {"poems": ["Ode", "Sonnet"], "plays": ["Hamlet"]}  # stands for a service
    >>> @dataclass(frozen=True)
    ... class Shelf:
    ...     id: str
    ...     position: int = 0
    >>> class ShelfReader(PolledReader):
    ...     def fetch(self, splits):
    ...         return [SplitRecords(split.id, SHELVES[split.id][split.position :], None) for split in splits]
    ...     def advance(self, split, records):
    ...         return replace(split, position=split.position + len(records))
    >>> woken = threading.Semaphore(0)
    >>> reader = ShelfReader(ConnectorContext("shelves", wake=woken.release))
    >>> reader.add_splits([Shelf("poems"), Shelf("plays", position=1)])
    >>> woken.acquire(timeout=10), reader.poll(1, now=0).values, reader.snapshot_state(1)[0], reader.poll(1, now=0).values
    (True, ['Ode'], Shelf(id='poems', position=1), ['Sonnet'])
    >>> reader.poll(1, now=0) is NEED_SPLITS, sorted(reader.split_finished())
    (True, ['plays', 'poems'])
    >>> reader.close()
    """

    pauses_splits = True
    blocks_ahead = 4
    """Number of blocks that may wait before the service is not asked for more."""
    service: Service | None = None
    place = ""
    """The name of the data that the service has."""
    close_s = _JOIN_S
    """The longest wait (s) of ``close`` for the thread, which ends by itself in any case."""

    def __init__(self, context: ConnectorContext | None = None) -> None:
        super().__init__(context)
        self._splits: dict[str, Any] = {}
        self._block: SplitRecords | None = None
        self._taken = 0
        #: ids of paused splits, and the blocks that were fetched of them
        self._paused: set[str] = set()
        self._held: deque[SplitRecords] = deque()
        self._ready: deque[SplitRecords] = deque()
        self._lock = threading.Lock()
        #: by id, the splits after all that was fetched of them
        self._ahead: dict[str, Any] = {}
        self.fetcher = BackgroundFetcher[SplitRecords](
            type(self).__name__, self._fetch, self.context.wake, self.disconnect, self.blocks_ahead
        )

    # ---- what a connector defines

    def fetch(self, splits: Sequence[Any]) -> Sequence[SplitRecords] | None:
        """Ask for the next records of some of these splits; wait for a bounded time, or by ``self.fetcher.pause``.

        ``None``: there will never be more records of any split.
        """
        raise NotImplementedError

    def advance(self, split: Any, records: Sequence[Any]) -> Any:
        """Return the split after some more of a block's records."""
        return split

    def batch(self, split: Any, records: Sequence[Any]) -> Batch:
        """Return the stream's records of fetched ones."""
        return Batch(list(records), split=split.id)

    def end_of_batch(self, records: Sequence[Any], end: int) -> int:
        """Return the end of a batch that has all records before ``end``, for positions that several records share."""
        return end

    def explain(self, error: Exception) -> Exception:
        """Return the error that ``poll`` raises for one of ``fetch``; the ``service`` knows its own."""
        if self.service is not None and isinstance(error, self.service.errors):
            return self.failure(f"{self.place} cannot be read: {self.service.problem(error)}")
        return error if isinstance(error, JobExecutionError) else self.failure(f"{type(error).__name__}: {error}")

    def disconnect(self) -> None:
        """Leave the service, at the end of the thread."""

    # ---- in the thread

    def _fetch(self) -> Sequence[SplitRecords] | None:
        with self._lock:
            splits = [split for name, split in self._ahead.items() if name not in self._paused]
        if not splits:
            self.fetcher.pause(_IDLE_S)
            return ()
        blocks = self.fetch(splits)
        with self._lock:
            for block in blocks or ():
                if block.following is None:
                    self._ahead.pop(block.split, None)
                else:
                    self._ahead[block.split] = block.following
        return blocks

    # ---- in the task

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these too."""
        for split in splits:
            self._splits[split.id] = split
        with self._lock:
            self._ahead.update({split.id: split for split in splits})
        if splits:
            self.fetcher.start()

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return records of one split."""
        while True:
            if self._block is not None and self._taken == len(self._block.records):
                self._end_block(self._block)
            if self._block is None and not self._next_block():
                return Wait(None) if self._splits else NEED_SPLITS
            block = self._block
            assert block is not None
            if block.split in self._paused:
                self._hold(block)
            elif block.records:
                return self._take(block, limit)

    def _take(self, block: SplitRecords, limit: int) -> Batch:
        end = self.end_of_batch(block.records, min(self._taken + max(1, limit), len(block.records)))
        records = block.records[self._taken : end]
        before, self._taken = self._splits[block.split], end
        self._splits[block.split] = self.advance(before, records)
        return self.batch(before, records)

    def _next_block(self) -> bool:
        try:
            block = self._ready.popleft() if self._ready else self.fetcher.take()
        except Exception as error:
            explained = self.explain(error)
            if explained is error:
                raise
            raise explained from error
        if block is None:
            return False
        self._block, self._taken = block, 0
        self.bytes_in.inc(block.size)
        return True

    def _end_block(self, block: SplitRecords) -> None:
        # Not with the last records, but at the next poll: until then the split counts for the watermark.
        self._block = None
        if block.following is None:
            self.finished.append(block.split)
            del self._splits[block.split]
        else:
            self._splits[block.split] = block.following

    def _hold(self, block: SplitRecords) -> None:
        self._held.append(block._replace(records=block.records[self._taken :], size=0))
        self._block = None

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Ask for no more records of some splits, and hold back those that were fetched."""
        with self._lock:
            self._paused = (self._paused | set(pause)) - set(resume)
        held, self._held = self._held, deque()
        for block in reversed(held):  # in their order, before what came later
            (self._held if block.split in self._paused else self._ready).appendleft(block)
        if self._ready:
            self.context.wake()

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the splits with their positions."""
        return list(self._splits.values())

    def close(self) -> None:
        """End the thread."""
        self.fetcher.stop(self.close_s)


class PeerClosed(Exception):
    """The peer has closed the connection in good order."""


class FeedReader(PolledReader):
    """Reads a peer's messages on one connection, which has no position.

    A connection that breaks, or cannot be made, is made again ``max_retries`` times (-1: without end), with a pause that doubles;
    whatever arrives sets the count back. After that a peer that had closed in good order ends the split, and any other error
    fails the job. Define ``connect``, ``receive``, ``disconnect`` and ``broken``.
    """

    broken: tuple[type[Exception], ...] = (OSError,)
    """Errors after which a connection is made again."""
    first_pause_s, longest_pause_s = 0.5, 10.0

    def __init__(self, context: ConnectorContext, max_retries: int) -> None:
        super().__init__(context)
        self._max_retries, self._retries = max_retries, max_retries
        self._pause_s, self._pause_due = self.first_pause_s, 0.0
        self._connected = False
        #: whether the peer closed, and nothing was connected since
        self._peer_closed = False

    def connect(self) -> None:
        """Make a connection."""
        raise NotImplementedError

    def receive(self) -> tuple[Sequence[Any], int]:
        """Return arrivals, and their bytes; wait for a bounded time. Raise ``PeerClosed``, or one of ``broken``."""
        raise NotImplementedError

    def rest(self) -> Sequence[Any]:
        """Return the incomplete rest that arrived before the peer closed."""
        return ()

    def fetch(self, splits: Sequence[Any]) -> Sequence[SplitRecords] | None:
        """Connect, or receive."""
        name = splits[0].id
        rest: Sequence[Any] = ()
        blocks: list[SplitRecords] = []
        if self._pause_due and self.fetcher.pause(self._pause_due):
            return ()
        self._pause_due = 0.0
        try:
            if not self._connected:
                self.connect()
                self._connected, self._peer_closed = True, False
            records, size = self.receive()
        except (PeerClosed, *self.broken) as error:  # type: ignore[misc]
            if isinstance(error, PeerClosed):
                self._peer_closed, rest = True, self.rest()
            self._lost()
            if self._retries == 0 and not self._peer_closed:
                raise
            if rest:
                blocks.append(SplitRecords(name, rest, splits[0]))
            if self._retries == 0:
                return [*blocks, SplitRecords(name, (), None)]
            self._retries -= 1
            self._pause_due, self._pause_s = self._pause_s, min(2 * self._pause_s, self.longest_pause_s)
            return blocks
        if size:
            self._retries, self._pause_s = self._max_retries, self.first_pause_s
        return [SplitRecords(name, records, splits[0], size)] if records else []

    def _lost(self) -> None:
        self._connected = False
        self.disconnect()
