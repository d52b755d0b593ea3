"""The input gate of a subtask: its channels, their watermarks, which are idle or ended, and which are held back.

Invariants: the watermark passed to the operators never decreases and is the minimum over the inputs that are not idle, each
of which has the watermark of its valve (``StatusWatermarkValve``); the end is passed once, after ``MAX_WATERMARK``.

What comes on a *blocked* channel is held back, in order, until ``release``. Which channels are blocked, and what a barrier means,
is decided by the checkpoints of the task (``task/checkpoint_machine.py``): the gate passes barriers and ends to them.
"""

from __future__ import annotations

import copyreg
import enum
import pickle
import struct
import zlib
from array import array
from collections import deque, namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from types import CodeType
from typing import Any, NamedTuple, Protocol

from funken import config
from funken.columnar.block import Block, RowBlock, TupleBlock
from funken.dataclass import dataclass
from funken.errors import TransferCorrupted
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.packing import packed, unpacked
from funken.io.shapes import dumps, record_not_picklable
from funken.io.spill import SpillingQueue, SpillSpace
from funken.runtime.settings import FeedbackSettings
from funken.timing.instants import check_range

# ---- Blocks as bytes: a fixed header, and for data a pickle of the values and their timestamps, or of the columns
# of named tuples.
#
# Header: checksum of all that follows, kind, edge, upstream subtask, target subtask, sequence number in its
# channel, one number that the kind explains (watermark, checkpoint id, idle flag, source of a latency marker, round
# of a loop), and the wall-clock time (s) at which the oldest record of the block entered the job, or the marker was
# made. Only bytes that the job's own tasks wrote are ever read: Spark's shuffle or connections of the job carry
# them, and ``read_header`` refuses a block that is not what was sent, before anything of it is unpickled. The
# checksum costs 3 ns per record and side.


# ---- Named tuples across an exchange: a block of one class travels as the class and its fields, column by column.
#
# What arrives is what pickle would give, of exactly that class. So this is done only for classes whose instances
# pickle as ``collections.namedtuple`` defines: a class that defines how it is pickled or made is pickled, as is a
# block of several classes.
#
# Measured, side by side on 2000 records of two fields (seven): pickle takes 600 (830) ns to write and 200 (400) to
# read each, columns 77 (200) and 125 (305); plain tuples take 51 (210) and 48 (170).


FEWEST = 16
"""Blocks of fewer records are pickled: looking at their class would cost more than it saves."""

_GETNEWARGS = namedtuple("_Sample", "field").__getnewargs__.__code__  # type: ignore[attr-defined]
_INHERITED = ("__reduce_ex__", "__reduce__", "__getstate__", "__getattribute__", "__iter__", "__len__")


def fields_of(values: list[Any]) -> list[tuple[Any, ...]] | None:
    """Return the fields of named tuples of one class as columns; ``None`` where pickle must see the records itself.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: int
    ...     y: int
    >>> fields_of([Point(n, 2 * n) for n in range(16)]) == [(*range(16),), (*range(0, 32, 2),)]
    True
    >>> fields_of([(n, 2 * n) for n in range(16)])
    """
    if len(values) < FEWEST:
        return None
    cls = type(values[0])
    if cls is tuple or not issubclass(cls, tuple) or not is_simple_namedtuple(cls) or len(set(map(type, values))) > 1:
        return None
    # Instances made without __new__ may have any length.
    return list(zip(*values, strict=True)) if set(map(len, values)) == {len(cls._fields)} else None  # type: ignore[attr-defined]


def named_tuples_of(cls: type[Any], columns: list[tuple[Any, ...]]) -> list[Any]:
    """Return the named tuples that ``fields_of`` took apart.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: int
    ...     y: int
    >>> named_tuples_of(Point, [(1, 2), (3, 4)])
    [Point(x=1, y=3), Point(x=2, y=4)]
    """
    return list(map(tuple.__new__, repeat(cls), zip(*columns, strict=True)))


def is_simple_namedtuple(cls: type[Any]) -> bool:
    """Return True if pickle restores a class's instances by a call with their fields, which just takes them.

    Checked per block and not cached: a class may be changed, or get a function in ``copyreg``, at any time.
    """
    fields = getattr(cls, "_fields", None)
    return (
        type(fields) is tuple
        and len(fields) > 0
        and all(getattr(cls, name) is getattr(tuple, name) for name in _INHERITED)
        and not hasattr(cls, "__getattr__")
        and not hasattr(cls, "__getnewargs_ex__")
        and getattr(cls.__getnewargs__, "__code__", None) == _GETNEWARGS
        and getattr(cls.__new__, "__code__", None) == _new_of(fields)
        and cls.__dictoffset__ == 0
        and cls not in copyreg.dispatch_table
    )


@lru_cache(maxsize=256)
def _new_of(fields: tuple[str, ...]) -> CodeType | None:
    """Return the code of the ``__new__`` that ``namedtuple`` makes for these fields."""
    try:
        sample = namedtuple("_Sample", fields, rename=True)  # type: ignore[misc]
    except (TypeError, ValueError):
        return None
    return sample.__new__.__code__ if sample._fields == fields else None


ChannelId = tuple[int, int]
"""An edge and an upstream subtask."""


_CHECKSUM = struct.Struct("<I")
_FIELDS = struct.Struct("<BHHHIqd")
_SIZE = _CHECKSUM.size + _FIELDS.size
_PROTOCOL = 5
COLUMNS = 0xC0
"""The first byte of a block of columns (``columnar/keyed/codec.py``); no pickle begins so."""
ITSELF = 0xC1
"""The first byte of a block whose own pickle follows: of a form of rooms above this one."""


class BlockKind(enum.IntEnum):
    """The kind of a block."""

    DATA = 0
    WATERMARK = 1
    IDLE = 2
    BARRIER = 3
    END = 4
    LATENCY = 5
    ROUND = 6


class BlockHeader(NamedTuple):
    """The fields in front of every block."""

    kind: int
    edge: int
    upstream: int
    target: int
    sequence: int
    number: int
    ingested_at: float


def pack_header(
    kind: BlockKind,
    edge: int,
    upstream: int,
    target: int,
    sequence: int,
    number: int,
    ingested_at: float,
    content: bytes = b"",
) -> bytes:
    """Write a block: a header, and its payload."""
    fields = _FIELDS.pack(kind, edge, upstream, target, sequence & 0xFFFFFFFF, number, ingested_at)
    checksum = zlib.crc32(content, zlib.crc32(fields))
    return b"".join((_CHECKSUM.pack(checksum), fields, content))


def read_header(block: bytes) -> BlockHeader:
    """Read the header of a block; raises ``TransferCorrupted`` if the block differs from the one sent.

    >>> block = bytearray(pack_header(BlockKind.WATERMARK, 1, 0, 0, 0, 1000, 0.0))
    >>> read_header(bytes(block)).number
    1000
    >>> block[20] ^= 4
    >>> read_header(bytes(block))
    Traceback (most recent call last):
    ...
    funken.errors.TransferCorrupted: a block of 31 bytes that came from another task was changed on its way: its checksum does not
    match. Check the memory, the local disks and the network of the machines.
    """
    if len(block) < _SIZE:
        raise _corrupted(block, f"it has fewer than {_SIZE}")
    if zlib.crc32(memoryview(block)[_CHECKSUM.size :]) != _CHECKSUM.unpack_from(block)[0]:
        raise _corrupted(block, "its checksum does not match")
    return BlockHeader._make(_FIELDS.unpack_from(block, _CHECKSUM.size))


def _corrupted(block: bytes, fact: str) -> TransferCorrupted:
    return TransferCorrupted(
        f"a block of {len(block)} bytes that came from another task was changed on its way: {fact}. Check the memory, the local "
        "disks and the network of the machines."
    )


def payload_of(block: bytes) -> bytes:
    """Return the payload behind the header."""
    return block[_SIZE:]


def encode_records(values: list[Any], timestamps: list[int] | None, operator: str, subtask: int) -> bytes:
    """Pickle records; plain pickle where it can, cloudpickle for local classes, else ``RecordNotPicklable``."""
    stamps = None if timestamps is None else _stamps_of(timestamps, lambda: values)
    columns = fields_of(values)
    content = (values, stamps) if columns is None else (type(values[0]), columns, stamps)
    return dumps(content, record_not_picklable, values, operator, subtask)


def encode_fields(block: TupleBlock, operator: str, subtask: int) -> bytes:
    """Pickle tuples field by field, which takes a third of the time; raises ``RecordNotPicklable``."""
    stamps = None if block.timestamps is None else _stamps_of(block.timestamps, lambda: block.rows()[0])
    return dumps((tuple, block.fields, dict(block.constants), stamps), _field_not_picklable, block, operator, subtask)


def _stamps_of(timestamps: Sequence[int], records: Callable[[], Iterable[Any]]) -> bytes:
    try:
        stamps = array("q", timestamps).tobytes()
    except OverflowError:
        check_range(timestamps, records())
        raise
    return packed(stamps)


def _field_not_picklable(error: Exception, block: TupleBlock, operator: str, subtask: int) -> Exception:
    return record_not_picklable(error, block.rows()[0], operator, subtask)


def decode_records(block: bytes) -> Block:
    """Read the records of a data block whose ``read_header`` was read, in rows or columns as they were sent."""
    if block[_SIZE] == COLUMNS:
        from funken.columnar.keyed.codec import decode_block  # noqa: PLC0415 - NumPy is loaded only where there are columns

        return decode_block(memoryview(block)[_SIZE:])
    if block[_SIZE] == ITSELF:
        brought: Block = pickle.loads(memoryview(block)[_SIZE + 1 :])
        return brought
    *content, stamps = pickle.loads(memoryview(block)[_SIZE:])
    timestamps = None
    if stamps is not None:
        times = array("q")
        times.frombytes(unpacked(stamps, 8 * len(content[0] if len(content) == 1 else content[1][0])))
        timestamps = times.tolist()
    match content:
        case [values]:
            return RowBlock(values, timestamps)
        case [_, fields, constants]:
            return TupleBlock(fields, timestamps, constants)
        case [kind, fields]:
            return RowBlock(named_tuples_of(kind, fields), timestamps)
    raise AssertionError(f"a block of {len(content)} parts")


# ---- One watermark and one status out of those of several channels: Flink's ``StatusWatermarkValve``.
#
# The watermark is the minimum over the channels that are *aligned*, and never decreases. A channel that becomes
# idle is not aligned any more, and is left out. When it is active again it is ignored until its own watermark has
# caught up with the valve's: else a source that was idle for an hour would stop event time for all until it has
# read an hour's records. When the last channel becomes idle, and it held the minimum, the highest watermark of any
# of them counts.


@dataclass(slots=True)
class InputChannel:
    """One upstream subtask of one edge; ``aligned``: it takes part in the minimum."""

    input: int
    watermark: int = MIN_TIMESTAMP
    idle: bool = False
    aligned: bool = True
    ended: bool = False


class StatusWatermarkValve:
    """The channels of one input.

    >>> slow, fast = InputChannel(0), InputChannel(0)
    >>> valve = StatusWatermarkValve([slow, fast])
    >>> valve.watermark_of(fast, 100), valve.status(slow, idle=True), valve.watermark
    (False, True, 100)
    >>> valve.status(slow, idle=False), valve.watermark_of(slow, 7), valve.watermark_of(fast, 200), valve.watermark
    (False, False, True, 200)
    """

    __slots__ = ("_channels", "idle", "watermark")

    def __init__(self, channels: Iterable[InputChannel]) -> None:
        self._channels = list(channels)
        self.watermark: int = MIN_TIMESTAMP
        self.idle = False

    @property
    def ended(self) -> bool:
        """True if all channels have ended."""
        return all(channel.ended for channel in self._channels)

    def watermark_of(self, channel: InputChannel, watermark: int) -> bool:
        """The watermark of a channel rose, which is active again if it was idle; return whether the valve's rose."""
        channel.watermark = watermark
        if channel.idle:
            self.status(channel, False)
        elif not channel.aligned:
            channel.aligned = watermark >= self.watermark
        return self._find_minimum()

    def status(self, channel: InputChannel, idle: bool) -> bool:
        """A channel went idle, or is active again; return whether the valve's watermark rose."""
        channel.idle = idle
        if not idle:
            self.idle = False
            channel.aligned = channel.watermark >= self.watermark
            return False
        channel.aligned = False
        self.idle = all(other.idle for other in self._channels)
        if channel.watermark != self.watermark:
            return False
        return self._raise(max(other.watermark for other in self._channels)) if self.idle else self._find_minimum()

    def _find_minimum(self) -> bool:
        aligned = [channel.watermark for channel in self._channels if channel.aligned]
        return bool(aligned) and self._raise(min(aligned))

    def _raise(self, watermark: int) -> bool:
        if watermark <= self.watermark:
            return False
        self.watermark = watermark
        return True


class Receiver(Protocol):
    """The consumer of a gate: the head of a chain."""

    def process(self, index: int, block: Block) -> None:
        """Handle a block of an input."""

    def watermark(self, watermark: int) -> None:
        """The watermark of all inputs together rose."""

    def watermark_input(self, index: int, watermark: int) -> None:
        """The watermark of one input rose."""

    def idle(self, idle: bool) -> None:
        """Everything went idle, or came back."""

    def end_input(self, index: int) -> None:
        """One input ended."""

    def finish(self) -> None:
        """All inputs ended."""

    def pause(self) -> None:
        """All inputs ended for now: there is more to come in another micro-batch."""


class BarrierHandler(Protocol):
    """A handler of the barriers and ends that arrive at the gates of a task."""

    def barrier(self, vertex: int, channel: ChannelId, checkpoint: int, unaligned: bool) -> None:
        """A barrier arrived, and everything before it on its channel was processed."""

    def end(self, vertex: int, channel: ChannelId) -> None:
        """A channel has ended."""


class RoundHandler(Protocol):
    """A handler of the markers of the rounds of a loop that arrive at the gates of a task."""

    def round(self, vertex: int, channel: ChannelId, number: int) -> None:
        """A marker arrived, and everything before it on its channel was processed."""

    def end(self, vertex: int) -> None:
        """A channel has ended."""


class InputGate:
    """Merges the channels of one subtask: records, watermarks, idleness and ends."""

    def __init__(self, receiver: Receiver, channels: Iterable[tuple[ChannelId, int]]) -> None:
        self._receiver = receiver
        self._vertex = 0
        self._handler: BarrierHandler | None = None
        #: of a vertex that is in a loop
        self._rounds: RoundHandler | None = None
        #: the channels that are held back, and what came on them, in order
        self._blocked: set[ChannelId] = set()
        self._held: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.channels = {key: InputChannel(index) for key, index in channels}
        self._inputs = sorted({channel.input for channel in self.channels.values()})
        self.inputs = len(self._inputs)
        self._valves = {
            i: StatusWatermarkValve(c for c in self.channels.values() if c.input == i) for i in self._inputs
        }
        self.combined: int = MIN_TIMESTAMP
        self.records = 0
        """Number of records that were passed on."""
        self._idle = False
        self.finished = False
        self._pauses = False

    def connect(self, vertex: int, handler: BarrierHandler, blocked: set[ChannelId]) -> None:
        """Pass barriers and ends to a handler, as those of a vertex; it keeps ``blocked`` up to date."""
        self._vertex, self._handler, self._blocked = vertex, handler, blocked

    def connect_rounds(self, handler: RoundHandler) -> None:
        """Pass the markers of rounds to a handler; after ``connect``."""
        self._rounds = handler

    def data(self, key: ChannelId, block: Block) -> None:
        """A block of records arrived."""
        if key in self._blocked:
            self._held.append((self.data, (key, block)))
            return
        channel = self.channels[key]
        if channel.idle:
            self._advance(channel.input, self._valves[channel.input].status(channel, False))
        self.records += block.records
        self._receiver.process(channel.input, block)

    def watermark(self, key: ChannelId, watermark: int) -> None:
        """A channel's watermark arrived; one that goes back is ignored."""
        if key in self._blocked:
            self._held.append((self.watermark, (key, watermark)))
            return
        channel = self.channels[key]
        if watermark > channel.watermark:
            self._advance(channel.input, self._valves[channel.input].watermark_of(channel, watermark))

    def idle(self, key: ChannelId, idle: bool) -> None:
        """A channel became idle, or active again."""
        if key in self._blocked:
            self._held.append((self.idle, (key, idle)))
            return
        channel = self.channels[key]
        if channel.idle != idle:
            self._advance(channel.input, self._valves[channel.input].status(channel, idle))

    def end(self, key: ChannelId, pauses: bool = False) -> None:
        """A channel ended; ``pauses``: only for this micro-batch, and its watermark stands where it is."""
        if key in self._blocked:
            self._held.append((self.end, (key, pauses)))
            return
        channel = self.channels[key]
        channel.ended = True
        self._pauses |= pauses
        if not pauses:
            valve = self._valves[channel.input]
            if channel.watermark < MAX_WATERMARK:
                self._advance(channel.input, valve.watermark_of(channel, MAX_WATERMARK))
            if valve.ended:
                self._receiver.end_input(channel.input)
        if all(c.ended for c in self.channels.values()):
            self._end_inputs()
        if self._handler is not None:
            self._handler.end(self._vertex, key)
        if self._rounds is not None:
            self._rounds.end(self._vertex)

    def _end_inputs(self) -> None:
        self.finished = True
        if self._pauses:
            self._receiver.pause()
        else:
            self._receiver.finish()

    def barrier(self, key: ChannelId, checkpoint: int, unaligned: bool = False) -> None:
        """A channel's barrier arrived, and everything before it was processed."""
        if key in self._blocked:
            self._held.append((self.barrier, (key, checkpoint, unaligned)))
        elif self._handler is not None:
            self._handler.barrier(self._vertex, key, checkpoint, unaligned)

    def round(self, key: ChannelId, number: int) -> None:
        """The marker of a round of a loop arrived, and everything before it was processed."""
        if key in self._blocked:
            self._held.append((self.round, (key, number)))
        elif self._rounds is not None:
            self._rounds.round(self._vertex, key, number)

    def release(self) -> None:
        """Process held blocks; a barrier among them may block channels anew, and then the rest is held again."""
        held, self._held = self._held, deque()
        for handle, arguments in held:
            handle(*arguments)

    def _advance(self, index: int, rose: bool) -> None:
        if rose:
            self._receiver.watermark_input(index, self._valves[index].watermark)
        # The last watermark of a valve that goes idle counts before its idleness.
        live = [valve.watermark for i, valve in self._valves.items() if not valve.idle or (rose and i == index)]
        if live:
            self._emit_idle(False)
        watermark = min(live, default=MIN_TIMESTAMP)
        if watermark > self.combined:
            self.combined = watermark
            self._pass_watermark(watermark)
        self._emit_idle(all(valve.idle for valve in self._valves.values()))

    def _pass_watermark(self, watermark: int) -> None:
        self._receiver.watermark(watermark)

    def _emit_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self._receiver.idle(idle)


# ---- The input gate of the head of a loop: besides its inputs it has feedback channels, on which its own results
# come back.
#
# What comes back is given to the same operator. It has no part in anything else: the watermark, idleness and the
# alignment of barriers are those of the inputs alone. So are the ends, but for a *root*, which has all its inputs
# outside the loop: when these have ended it holds the end of event time back, and its own, until it is told that
# the loop is empty.


class LoopGate(InputGate):
    """Merges the inputs and the feedback channels of one subtask of a head."""

    def __init__(
        self, receiver: Receiver, channels: Iterable[tuple[ChannelId, int]], feedback: Iterable[ChannelId], root: bool
    ) -> None:
        super().__init__(receiver, channels)
        self.feedback = tuple(feedback)
        self.root = root
        self.inputs_ended = False
        self.came_back = 0
        """Number of records that came back since the last round."""
        self.too_late = 0
        """Number of records that came back when the loop had ended."""
        self.over = False
        """True if the subtask had finished in the checkpoint that it starts from: its operators do not run."""
        self._feedback = set(self.feedback)
        self._event_time_ends = False

    @property
    def closed(self) -> bool:
        """True if the loop has ended, and everything that could come back has come."""
        return self.finished and not self._feedback

    def waits_for(self) -> set[ChannelId]:
        """Return the feedback channels that have not ended."""
        return self._feedback

    def data(self, key: ChannelId, block: Block) -> None:
        """A block arrived, by an input or back."""
        if key in self.channels or key in self._blocked:
            super().data(key, block)
        elif self.finished or self.over:
            self.too_late += block.records
        else:
            self.came_back += block.records
            self.records += block.records
            self._receiver.process(0, block)
            if self._idle:  # who gets the records takes the head for active, and would wait for its watermark
                self._receiver.idle(True)

    def end(self, key: ChannelId, pauses: bool = False) -> None:
        """A channel ended."""
        if key in self.channels or key in self._blocked:
            super().end(key, pauses)
            return
        self._feedback.discard(key)
        if self._rounds is not None:
            self._rounds.end(self._vertex)

    def _pass_watermark(self, watermark: int) -> None:
        if self.root and watermark == MAX_WATERMARK:
            self._event_time_ends = True
        else:
            super()._pass_watermark(watermark)

    def _end_inputs(self) -> None:
        self.inputs_ended = True
        if not self.root:
            super()._end_inputs()

    def end_event_time(self) -> None:
        """The loop is empty: let event time end in it."""
        if self._event_time_ends:
            self._event_time_ends = False
            super()._pass_watermark(MAX_WATERMARK)

    def finish(self) -> None:
        """The loop is empty, and stays so: end it."""
        self.end_event_time()
        super()._end_inputs()


# ---- The way back into a task that hosts heads of loops: blocks that came back, until the task takes them.
#
# Whatever comes is taken in, so that no tail ever waits for a head: a loop that multiplies its records fills the
# disk, not its edges. The task takes what came back before it takes new input, so that loops drain; but only what
# had come when it last took new input, so that a loop that never drains holds neither input nor barriers up.


class FeedbackLane:
    """The feedback of one task; ``put`` may be called by any thread.

    >>> lane = FeedbackLane(SpillingQueue(100, SpillSpace(), "head"))
    >>> lane.put(b"one")
    >>> lane.turn()  # new input was taken
    >>> lane.put(b"two")
    >>> lane.take(), lane.due, len(lane)
    (b'one', 0, 1)
    """

    __slots__ = ("_queue", "due")

    def __init__(self, queue: SpillingQueue) -> None:
        self._queue = queue
        self.due = 0
        """Number of blocks that are taken before new input is."""

    @staticmethod
    def of(settings: FeedbackSettings, head: str) -> FeedbackLane:
        """Make the lane of a task; ``head`` is the operator to name when the disk is full."""
        space = SpillSpace(settings.directories)
        space.remedy = f"raise {config.FEEDBACK_MEMORY.key}"
        return FeedbackLane(SpillingQueue(settings.memory, space, head))

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, block: bytes) -> None:
        """A block has come back."""
        self._queue.put(block)

    def take(self) -> bytes:
        """Remove and return the oldest block."""
        self.due = max(0, self.due - 1)
        return self._queue.get()

    def turn(self) -> None:
        """New input was taken, or there is none: the feedback so far is next."""
        self.due = len(self._queue)
