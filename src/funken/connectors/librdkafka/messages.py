"""Messages of librdkafka as arrays: the compiled helper, the thread that fetches, runs of one partition.

Messages as arrays, by a compiled helper (``batches.c``): 0.2 instead of 0.55 us of CPU per message (decision 0045).

The client makes an object of each message, with its topic, key and value. Who needs only values, offsets and timestamps takes
them from librdkafka's own queue. Everything else stays the client's: the consumer is one of confluent-kafka, which connects,
authenticates, assigns and reports. Its handle is told by librdkafka's interface for plugins; the queues of the partitions are
forwarded to one of the helper's, and the consumer's own queue has only what calls back.

``load`` returns nothing where the helper was not compiled (a pure wheel, no C compiler at installation), cannot be loaded, or is
switched off by ``FUNKEN_NATIVE=0``; then ``ConsumerMessages`` does the same. docs/decisions/0045 has the measurements.

NumPy is loaded where there is a helper.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, TypeAlias

from funken import extras
from funken.connectors.reading import Feed
from funken.connectors.schemas import count_of

# ---- Runs: messages of one partition, in order, however they came out of the client.
#
# ``MessageRun`` has the client's own objects, ``NativeRun`` arrays, for who needs no more than values.


Place = tuple[str, int]
"""A partition: topic and number."""
Report = Callable[[Any], None]
"""A consumer of errors of partitions; it may raise."""
Run: TypeAlias = "MessageRun | NativeRun"
"""Messages of one partition."""
Fetched: TypeAlias = "MessageBlock | NativeBlock"
"""The result of one call of the client."""
Messages: TypeAlias = "ConsumerMessages | NativeMessages"
"""The messages of a consumer."""


class MessageRun:
    """A run of the client's objects; ``ends``: some only say that the partition ends there."""

    def __init__(self, key: Place, messages: list[Any], ends: bool, kafka: Any) -> None:
        self.key = key
        self.messages = messages
        self._ends = ends
        self._kafka = kafka

    def __len__(self) -> int:
        return len(self.messages)

    def take(self, limit: int) -> MessageRun:
        """Cut the first ones off."""
        taken = self.messages[:limit]
        del self.messages[:limit]
        return MessageRun(self.key, taken, self._ends, self._kafka)

    def until(self, end: int) -> tuple[MessageRun, bool]:
        """Return those before an offset, and whether the partition was read up to it.

        The last offsets may be of no message (a transaction's end, or compacted): then the end of the partition is reported.
        """
        if not self._ends and self.messages[-1].offset() + 1 < end:
            return self, False
        kept = [each for each in self.messages if each.error() is None and each.offset() < end]
        reached = any(each.offset() >= end - (each.error() is None) for each in self.messages)
        return MessageRun(self.key, kept, False, self._kafka), reached

    def offset(self, index: int) -> int:
        """Return the offset of a message."""
        found: int = self.messages[index].offset()
        return found

    def values(self) -> list[bytes | None]:
        """Return their values; ``None`` deletes a key."""
        return list(map(self._kafka.Message.value, self.messages))

    def text(self) -> bytes | None:
        """Return the values as the lines of a text; ``None`` if one has a line feed in it, or is ``None``."""
        values = self.values()
        if None in values:
            return None
        text = b"\n".join(values)  # type: ignore[arg-type]
        return text if count_of(text, b"\n") == len(values) - 1 else None

    def timestamps(self, positions: Sequence[int] | None) -> list[int] | None:
        """Return the timestamps (ms) of these, or of all; ``None`` if one has none."""
        messages = self.messages if positions is None else [self.messages[position] for position in positions]
        found = [message.timestamp()[1] for message in messages]
        return None if -1 in found else found


class MessageBlock:
    """The client's objects."""

    def __init__(self, messages: list[Any], kafka: Any) -> None:
        self._messages = messages
        self._kafka = kafka

    def __len__(self) -> int:
        return len(self._messages)

    def runs(self, keys: Collection[Place], several: bool, report: Report) -> Iterator[MessageRun]:
        """Cut the block without a loop over its messages (benchmarks/kafka.py, "bytes")."""
        kafka, block = self._kafka, self._messages
        message, end_of_partition = kafka.Message, kafka.KafkaError._PARTITION_EOF
        ends = any(map(message.error, block))  # an error is true; comparing one with None breaks (confluent-kafka 2.16)
        if ends:
            errors = [each.error() for each in block]
            for error in errors:
                if error is not None and error.code() != end_of_partition:
                    report(error)
            block = [
                each for each, error in zip(block, errors, strict=True)
                if error is None or error.code() == end_of_partition
            ]  # fmt: skip
        places: Iterable[Any] = map(message.partition, block)
        if several:
            places = zip(map(message.topic, block), places, strict=True)
        known: dict[Any, Place] = {(key if several else key[1]): key for key in keys}
        begin = 0
        for where, run in groupby(places):
            end = begin + len(list(run))
            if where in known:  # else it has ended
                yield MessageRun(known[where], block[begin:end], ends, kafka)
            begin = end


# ---- The thread that takes blocks of messages out of the client, so that a reader never waits and is woken when
# there are some.
#
# Only this thread calls the consumer: while it polls, no call of another thread returns (confluent-kafka 2.16).
# What it has taken is bounded, and the client's own queue by its properties: a reader that does not read stops the
# fetching.


FETCHED = 2_500
"""The most records in a block."""
_QUEUED = 7_500
"""Nothing more is taken while so many are queued: of 20,000 the first are out of the processor's cache when they are read."""
_POLL_S = 0.05


class ConsumerMessages:
    """Messages as objects of the client."""

    def __init__(self, consumer: Any, kafka: Any) -> None:
        self._consumer, self._kafka = consumer, kafka

    def assign(self, partitions: list[Any]) -> None:
        """Read these partitions too."""
        self._consumer.incremental_assign(partitions)

    def take(self, most: int, seconds: float) -> Fetched | None:
        """Return those that are there, else wait for the first."""
        # Where there is enough, one call: after each, the thread may have to wait for Python's lock (5 ms).
        block = self._consumer.consume(most, 0)
        if not block:
            first = self._consumer.poll(seconds)
            if first is None:
                return None
            block = [first, *self._consumer.consume(most - 1, 0)]
        return MessageBlock(block, self._kafka)

    def close(self) -> None:
        """Nothing is held."""


class Fetcher(Feed[Fetched]):
    """Fetches blocks of messages in a thread, from ``start`` until ``stop``."""

    look_s = _POLL_S

    def __init__(self, messages: Messages, wake: Callable[[], None]) -> None:
        super().__init__("kafka-fetcher", wake, _QUEUED)
        self._messages = messages
        self._calls: deque[Callable[[], None]] = deque()

    def size_of(self, item: Fetched) -> int:
        """Return the number of messages."""
        return len(item)

    def call(self, work: Callable[[], None]) -> None:
        """Run a call in the thread, which alone calls the consumer, soon and in order; ``take`` raises its errors."""
        with self._changed:
            self._calls.append(work)
            self._changed.notify()

    def receive(self) -> None:
        """Make the calls, and fetch while there is room."""
        while not self.stopped:
            while self._calls:
                self._calls.popleft()()
            if self.has_room() and (block := self._messages.take(FETCHED, _POLL_S)) is not None:
                self.put((block,))


logger = logging.getLogger(__name__)

SWITCH = "FUNKEN_NATIVE"
LIBRARY = Path(__file__).with_name("batches.clib")
_BOUND = (
    "rd_kafka_consume_batch_queue", "rd_kafka_message_destroy", "rd_kafka_message_timestamp", "rd_kafka_message_errstr",
    "rd_kafka_conf_interceptor_add_on_new",
)  # fmt: skip
_HAS_ERRORS, _HAS_NULLS, _HAS_LINE_FEEDS = 1, 2, 4
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_queue_new": (ctypes.c_void_p, [ctypes.c_void_p]),
    "rd_kafka_queue_destroy": (None, [ctypes.c_void_p]),
    "rd_kafka_queue_forward": (None, [ctypes.c_void_p, ctypes.c_void_p]),
    "rd_kafka_queue_get_partition": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32]),
    "rd_kafka_topic_name": (ctypes.c_char_p, [ctypes.c_void_p]),
}
_OWN: dict[str, tuple[Any, list[Any]]] = {
    "funken_bind": (None, [ctypes.c_void_p]),
    "funken_created": (ctypes.c_void_p, []),
    "funken_take": (
        ctypes.c_int64,
        [ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 1, ctypes.c_int64, ctypes.c_void_p],
    ),
    "funken_copy": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 8]),
    "funken_drop": (None, [ctypes.c_void_p, ctypes.c_int64]),
}


class Native:
    """The helper, and the functions of librdkafka that it and its users call."""

    def __init__(self, helper: ctypes.CDLL, librdkafka: ctypes.CDLL) -> None:
        for library, signatures in ((librdkafka, _SIGNATURES), (helper, _OWN)):
            for name, (result, arguments) in signatures.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
        self.helper: Any = helper
        self.librdkafka: Any = librdkafka
        functions = (ctypes.c_void_p * len(_BOUND))(
            *(ctypes.cast(getattr(librdkafka, name), ctypes.c_void_p) for name in _BOUND)
        )
        self.helper.funken_bind(functions)


def messages_of(kafka: Any, properties: dict[str, Any], values_only: bool) -> tuple[Any, Messages]:
    """Make a consumer of the client ``kafka``, and its fetch function; ``values_only``: without keys and headers."""
    native = load() if values_only else None
    if native is None:
        consumer = kafka.Consumer(properties)
        return consumer, ConsumerMessages(consumer, kafka)
    messages = NativeMessages(native, kafka, properties)
    return messages.consumer, messages


def load() -> Native | None:
    """Return the helper, if there is one and it is not switched off; the client has been imported."""
    return None if os.environ.get(SWITCH) == "0" else _loaded()


@functools.cache
def _loaded() -> Native | None:
    try:
        extras.load("numpy")
        helper, librdkafka = ctypes.CDLL(str(LIBRARY)), ctypes.CDLL(_path_of_librdkafka())
        return Native(helper, librdkafka)
    except (OSError, AttributeError, ImportError) as error:
        logger.debug("Kafka's messages are taken one by one: %s", error)
        return None


def _path_of_librdkafka() -> str:
    """Return the library that the client has loaded; raises ``OSError`` if that is not known."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").split(maxsplit=5)[-1]
            if "librdkafka" in path.rpartition("/")[2]:
                return path
    raise OSError("the client is not linked to a librdkafka of its own")


class NativeMessages:
    """Messages of a consumer as arrays; only one thread may use it."""

    def __init__(self, native: Native, kafka: Any, properties: dict[str, Any]) -> None:
        self._native, self._kafka = native, kafka
        others = properties.get("plugin.library.paths")
        plugins = f"{others};{LIBRARY}" if others else str(LIBRARY)
        native.helper.funken_created()
        self.consumer = kafka.Consumer({**properties, "plugin.library.paths": plugins})
        self._handle = native.helper.funken_created()
        if not self._handle:
            raise OSError("librdkafka did not report the handle of the consumer")
        self._queue = native.librdkafka.rd_kafka_queue_new(self._handle)
        self._partitions: dict[tuple[str, int], int] = {}
        self._pointers: Any = None
        self._numpy: Any = extras.load("numpy")

    def assign(self, partitions: list[Any]) -> None:
        """Read these partitions too; they are forwarded first, so that no message goes elsewhere."""
        for each in partitions:
            place = (each.topic, each.partition)
            if place not in self._partitions:
                librdkafka = self._native.librdkafka
                queue = librdkafka.rd_kafka_queue_get_partition(self._handle, each.topic.encode(), each.partition)
                librdkafka.rd_kafka_queue_forward(queue, self._queue)
                self._partitions[place] = queue
        self.consumer.incremental_assign(partitions)

    def take(self, most: int, seconds: float) -> Fetched | None:
        """Return those that are there, else wait for the first."""
        reported = self.consumer.poll(0)  # calls back; what it returns is none of a partition
        if reported is not None:
            return MessageBlock([reported], self._kafka)
        helper, numpy = self._native.helper, self._numpy
        if self._pointers is None or len(self._pointers) < most:
            self._pointers = (ctypes.c_void_p * most)()
        size = ctypes.c_int64()
        count = helper.funken_take(self._queue, int(seconds * 1000), self._pointers, most, ctypes.byref(size))
        if not count:
            return None
        try:
            text, starts = numpy.empty(size.value, numpy.uint8), numpy.empty(count + 1, numpy.int64)
            of_each = [numpy.empty(count, kind) for kind in ("int64", "int64", "int32", "int32", "uint8", "uint64")]
            arrays = (array.ctypes.data for array in (text, starts, *of_each))
            found = helper.funken_copy(self._pointers, count, *arrays)
            offsets, timestamps, partitions, codes, nulls, topics = of_each
            places = numpy.flatnonzero((numpy.diff(partitions) != 0) | (numpy.diff(topics) != 0)) + 1
            begins = [0, *places.tolist()]
            names = [self._topic(int(topics[begin])) for begin in begins]
        finally:
            helper.funken_drop(self._pointers, count)
        return NativeBlock(
            text, starts, offsets, timestamps, partitions, codes, nulls, begins, names, found, self._kafka
        )

    def _topic(self, pointer: int) -> str:
        """Return the name of a topic; not kept, since a pointer may be another topic's when its messages are freed."""
        return self._native.librdkafka.rd_kafka_topic_name(pointer).decode() if pointer else ""

    def close(self) -> None:
        """Leave the queues."""
        for queue in (*self._partitions.values(), self._queue):
            self._native.librdkafka.rd_kafka_queue_destroy(queue)
        self._partitions.clear()
        self._queue = None


class NativeBlock:
    """Arrays of one batch: ``begins`` is where its partitions change, and ``names`` their topics."""

    def __init__(
        self, text: Any, starts: Any, offsets: Any, timestamps: Any, partitions: Any, codes: Any, nulls: Any,
        begins: list[int], names: list[str], found: int, kafka: Any,
    ) -> None:  # fmt: skip
        self.text, self.starts, self.offsets, self.timestamps = text, starts, offsets, timestamps
        self.nulls, self.found = nulls, found
        self._partitions, self._codes = partitions, codes
        self._begins, self._names, self._kafka = begins, names, kafka

    def __len__(self) -> int:
        return len(self.offsets)

    @functools.cached_property
    def data(self) -> bytes:
        """The values, each with a line feed behind it."""
        return bytes(self.text)

    def runs(self, keys: Collection[Place], several: bool, report: Report) -> Iterator[NativeRun]:
        """Return the runs of these partitions."""
        known = {(key[0], key[1]): key for key in keys}
        ends = [*self._begins[1:], len(self)]
        for begin, end, topic in zip(self._begins, ends, self._names, strict=True):
            key = known.get((topic, int(self._partitions[begin])))
            if not self.found & _HAS_ERRORS or not self._codes[begin:end].any():
                if key is not None:  # else it has ended
                    yield NativeRun(self, key, begin, end)
                continue
            yield from self._with_errors(key, begin, end, report)

    def _with_errors(self, key: Place | None, begin: int, end: int, report: Report) -> Iterator[NativeRun]:
        """Cut a run at its errors, of which those that tell the end of the partition belong to the run before."""
        errors = self._kafka.KafkaError
        at = begin
        for index in range(begin, end):
            code = int(self._codes[index])
            if not code:
                continue
            if code != errors._PARTITION_EOF:
                report(errors(code, self.value(index).decode(errors="replace")))
            elif key is not None:
                yield NativeRun(self, key, at, index, int(self.offsets[index]))
                at = index + 1
                continue
            if key is not None and at < index:
                yield NativeRun(self, key, at, index)
            at = index + 1
        if key is not None and at < end:
            yield NativeRun(self, key, at, end)

    def value(self, index: int) -> bytes:
        """Return the bytes of a message, or the text of an error."""
        return bytes(self.text[int(self.starts[index]) : int(self.starts[index + 1]) - 1])


class NativeRun:
    """A range of a block; ``end_of_partition``: which offset was reported to be the end after it."""

    def __init__(
        self, block: NativeBlock, key: Place, begin: int, end: int, end_of_partition: int | None = None
    ) -> None:
        self.key = key
        self._block, self._begin, self._end = block, begin, end
        self._end_of_partition = end_of_partition

    def __len__(self) -> int:
        return self._end - self._begin

    def take(self, limit: int) -> NativeRun:
        """Cut the first ones off."""
        begin, self._begin = self._begin, self._begin + limit
        return NativeRun(self._block, self.key, begin, self._begin)

    def until(self, end: int) -> tuple[NativeRun, bool]:
        """Return those before an offset, and whether the partition was read up to it."""
        reached = self._end_of_partition is not None and self._end_of_partition >= end
        if self._begin < self._end and self.offset(-1) + 1 >= end:
            reached = True
            offsets = self._block.offsets[self._begin : self._end]
            return NativeRun(self._block, self.key, self._begin, self._begin + int((offsets < end).sum())), True
        return self, reached

    def offset(self, index: int) -> int:
        """Return the offset of a message."""
        return int(self._block.offsets[self._begin + index if index >= 0 else self._end + index])

    def values(self) -> list[bytes | None]:
        """Return their values."""
        block, data = self._block, self._block.data
        bounds = block.starts[self._begin : self._end + 1].tolist()
        values: list[bytes | None] = [data[at : to - 1] for at, to in pairwise(bounds)]
        if block.found & _HAS_NULLS:
            for index in block.nulls[self._begin : self._end].nonzero()[0].tolist():
                values[index] = None
        return values

    def text(self) -> bytes | None:
        """Return the values as the lines of a text, if they are."""
        block = self._block
        if block.found & (_HAS_NULLS | _HAS_LINE_FEEDS):
            return None
        return bytes(block.text[int(block.starts[self._begin]) : int(block.starts[self._end]) - 1])

    def timestamps(self, positions: Sequence[int] | None) -> list[int] | None:
        """Return the timestamps of these, or of all."""
        found = self._block.timestamps[self._begin : self._end]
        if positions is not None:
            found = found[list(positions)]
        return None if (found < 0).any() else found.tolist()

    @property
    def messages(self) -> list[Any]:
        """There are no objects: consumers of keys and headers get ``MessageRun``s."""
        raise NotImplementedError
