"""Bytes that were damaged: blocks, messages, manifests and state, each read as a job reads it.

A *subject* has samples, which are files by name, and reads them. A case damages a file of a sample: what is read then is right
for one of them, or an error of Funken's own. Case number n of a seed is the same each time. Found is what raises anything else,
gives another value, takes longer than ``SECONDS``, or allocates more than ``BYTES`` (while ``tracemalloc`` runs).
"""

from __future__ import annotations

import json
import random
import socket
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from funken.checkpoint.incremental import IncrementalSnapshots, SnapshotOptions
from funken.checkpoint.restore import RestoreTarget, plan_restore, read_state
from funken.checkpoint.store.blobs import SubtaskHandle, SubtaskState
from funken.checkpoint.store.completed import METADATA, CompletedCheckpointStore, Manifest, OperatorEntry, SnapshotKind
from funken.errors import FunkenError, TaskLost
from funken.ids import CheckpointId, Millis
from funken.operators.coordinators import AddSplits
from funken.runtime import messages as sealed
from funken.runtime.exchange.gate import BlockKind, decode_records, encode_records, pack_header, payload_of, read_header
from funken.runtime.messages import CheckpointAcknowledged, CoordinatorEvent, OperatorEvent, TaskId, TriggerCheckpoint
from funken.runtime.task.state_manager import BufferedBlock, ChannelState, EdgeName, UnsentRecords
from funken.spark.control.channel import Channel, HungUp
from funken.state.delta_tables import GroupedSnapshot, OperatorStates
from funken.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from funken.state.keyed import KeyedStateStore
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.testing.memory_storage import MemoryStorage
from funken.timing.clock import SystemClock

SECONDS = 2.0
"""How long reading may take."""

BYTES = 200 * 10**6
"""How much memory reading may take."""

Files = dict[str, bytes]
_now = SystemClock().monotonic
_GROUPS = 8
_LARGEST = 100_000
_EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)


class Point(NamedTuple):
    """A record with fields."""

    x: int
    y: str


@dataclass
class Subject:
    """Something that is read: ``right`` are the values that it may have; if there are none, only errors are looked at."""

    name: str
    weight: int
    samples: list[Files]
    read: Callable[[Files], Any]
    right: list[Any] = field(default_factory=list)
    damage: Callable[[bytes, bytes, random.Random], bytes] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A case that went wrong, and how."""

    case: int
    subject: str
    fact: str


class Fuzzer:
    """Runs cases; ``counts`` has how often what came out, by subject."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.subjects = list(subjects())
        self._ends = list(accumulate(subject.weight for subject in self.subjects))
        self.counts: dict[str, dict[str, int]] = {subject.name: {} for subject in self.subjects}
        self.slowest = 0.0
        self.largest = 0

    def run(self, case: int) -> Finding | None:
        """Run a case."""
        chance = random.Random(f"{self._seed} {case}")
        subject = chance.choices(self.subjects, cum_weights=self._ends)[0]
        sample, other = chance.choice(subject.samples), chance.choice(subject.samples)
        name = chance.choice(sorted(sample))
        files = dict(sample)
        files[name] = (subject.damage or damaged)(files[name], other[chance.choice(sorted(other))], chance)
        if len(files) > 1 and chance.random() < 0.1:
            del files[name]
        tracemalloc.reset_peak()
        begin, used = _now(), tracemalloc.get_traced_memory()[0]
        outcome, fact = self._outcome(subject, files)
        took, more = _now() - begin, tracemalloc.get_traced_memory()[1] - used
        self.slowest, self.largest = max(self.slowest, took), max(self.largest, more)
        if took > SECONDS:
            outcome, fact = "slow", f"took {took:.1f} s"
        elif more > BYTES:
            outcome, fact = "memory", f"allocated {more} bytes"
        counts = self.counts[subject.name]
        counts[outcome] = counts.get(outcome, 0) + 1
        return Finding(case, subject.name, fact) if fact else None

    def _outcome(self, subject: Subject, files: Files) -> tuple[str, str]:
        try:
            value = subject.read(files)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            if _is_memory(error):
                return "memory", f"wants too much memory: {error}"
            if isinstance(error, FunkenError):
                return type(error).__name__, ""
            return "raw", f"raises {type(error).__name__}: {error}"
        if subject.right and value not in subject.right:
            return "wrong", f"gives another value: {str(value)[:200]}"
        return "right", ""


def _is_memory(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, MemoryError) or _is_memory(error.__cause__ or error.__context__))


# ---- damage


def damaged(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Flip bits, cut, repeat, leave out, splice with another, overwrite numbers, insert noise; once or a few times."""
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        data = chance.choice(_DAMAGES)(data, other, chance)[:_LARGEST]
    return data


def _flip(data: bytes, other: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8)) if data else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(0, len(data))]


def _range(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randint(0, len(data))
    return start, min(len(data), start + chance.choice((1, 4, 16, len(data))))


def _repeat(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, stop = _range(data, chance)
    return data[:stop] + data[start:stop] * chance.choice((1, 1, 10)) + data[stop:]


def _leave_out(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, stop = _range(data, chance)
    return data[:start] + data[stop:]


def _splice(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(0, len(data))] + other[chance.randint(0, len(other)) :]


def _number(data: bytes, other: bytes, chance: random.Random) -> bytes:
    size = chance.choice((1, 2, 4, 8))
    number = chance.choice(_EXTREMES) & (1 << 8 * size) - 1
    at = chance.randint(0, len(data))
    return data[:at] + number.to_bytes(size, chance.choice(("little", "big"))) + data[at + size :]


def _insert(data: bytes, other: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + chance.randbytes(chance.choice((1, 4, 100))) + data[at:]


_DAMAGES = (_flip, _flip, _cut, _repeat, _leave_out, _splice, _number, _number, _insert)
_WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 2**62, 2**63, 10**100, 1.5, float("inf"), "", "x", "../x", "AAAA", [], [[]], [1, 2, 3, 4], {}, {"a": 1},
)  # fmt: skip


def _misshapen(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Put something else into a place of a manifest's body, leave it out, or nest it; the checksum is right again."""
    body = json.loads(data)["body"]
    places = list(_places(body, ()))
    for _ in range(chance.choice((1, 1, 3))):
        *path, last = chance.choice(places)
        try:
            inner = body
            for key in path:
                inner = inner[key]
            if isinstance(inner, dict) and not isinstance(last, str):  # JSON has no such key; there was a list
                continue
            if chance.random() < 0.2:
                del inner[last]
            elif chance.random() < 0.1:
                inner[last] = json.loads("[" * 200 + "]" * 200)
            else:
                inner[last] = chance.choice(_WRONG)
        except (KeyError, IndexError, TypeError):  # it has gone with what was changed before
            continue
    return Manifest.seal(body)


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from _places(each, (*path, key))


# ---- what is read


def subjects() -> Iterator[Subject]:
    """Make all subjects; those that need a package that is not there are left out."""
    yield _of_one("blocks", 30, _record_blocks(), _read_block)
    columns = _column_blocks()
    if columns:
        yield _of_one("columns", 15, columns, _read_block)
    yield _of_one("control blocks", 10, _control_blocks(), lambda block: (read_header(block), payload_of(block)))
    yield _of_one("messages", 15, [sealed.dumps(message) for message in _messages()], sealed.loads)
    yield _of_one("connections", 10, [_sent(message) for message in _messages()], _received)
    in_memory = _checkpoints(None)
    manifests = [files[f"job/chk-2/{METADATA}"] for files in in_memory]
    yield _of_one("manifests", 15, manifests, lambda data: Manifest.from_bytes(data, "here"))
    fields = _of_one("fields", 10, manifests, lambda data: _started(Manifest.from_bytes(data, "here")))
    fields.right, fields.damage = [], _misshapen
    yield fields
    right = [value for files in in_memory for value in _all_read(files)]
    yield Subject("checkpoints", 8, in_memory, _read_checkpoint, right)
    with tempfile.TemporaryDirectory(prefix="funken-fuzz-") as folder:
        shared = _databases(folder)
        if shared is not None:
            in_files = _checkpoints(shared)
            right = [value for files in in_files for value in _all_read(files)]
            shared.folder.remove()
            yield Subject("databases", 3, in_files, _read_checkpoint, right)


def _of_one(name: str, weight: int, samples: list[bytes], read: Callable[[bytes], Any]) -> Subject:
    right = [read(sample) for sample in samples]
    return Subject(name, weight, [{name: sample} for sample in samples], lambda files: read(files[name]), right)


def _record_blocks() -> list[bytes]:
    chance = random.Random(1)
    records: list[list[Any]] = [
        [],
        list(range(50)),
        [("word", number, number / 3) for number in range(40)],
        [{"name": "x" * number, "tags": ["a", number]} for number in range(20)],
        [Point(number, str(number)) for number in range(30)],
        [chance.randbytes(200) for _ in range(10)],
    ]
    return [
        pack_header(BlockKind.DATA, 1, 0, 1, number, 0, 12.5, encode_records(values, stamps, "op", 0))
        for number, values in enumerate(records)
        for stamps in (None, list(range(len(values))))
    ]


def _read_block(block: bytes) -> Any:
    return read_header(block), *decode_records(block).rows()


def _column_blocks() -> list[bytes]:
    try:
        from funken.columnar.kernels.columns import columns_of
        from funken.columnar.keyed.codec import encode_block
        from funken.expr.types import FLOAT, INT, STR, Tuple
    except ImportError:
        return []
    records: list[tuple[list[Any], Any]] = [
        (list(range(100)), INT),
        ([number * 0.5 for number in range(40)], FLOAT),
        ([(number % 3, f"word {number}") for number in range(60)], Tuple((INT, STR))),
        ([10**15 + number for number in range(30)], INT),
    ]
    return [
        pack_header(BlockKind.DATA, 1, 0, 1, number, 0, 12.5, encode_block(columns_of(values, shape, stamps)))
        for number, (values, shape) in enumerate(records)
        for stamps in (None, list(range(len(values))))
    ]


def _control_blocks() -> list[bytes]:
    kinds = (
        (BlockKind.WATERMARK, 2**40, b""),
        (BlockKind.IDLE, 1, b""),
        (BlockKind.BARRIER, 7, b"!"),
        (BlockKind.END, 0, b""),
    )
    return [pack_header(kind, 2, 1, 0, 3, number, 0.0, after) for kind, number, after in kinds]


def _messages() -> list[Any]:
    task = TaskId(1, 2)
    handle = SubtaskHandle(states={"n": {"kind": "value", "ttl": None}}, committables=b"prepared" * 20)
    return [
        CoordinatorEvent(task, 1, 0, ["to be", "or not"], output=True),
        CoordinatorEvent(task, 1, 0, b"records" * 50, output=True),
        CheckpointAcknowledged(task, attempt=1, checkpoint=7, handles={("count", 0): handle}),
        OperatorEvent(0, 1, AddSplits((("file", 0, 4096), ("file", 4096, 8192)), True)),
        TriggerCheckpoint(12),
    ]


def _sent(message: Any) -> bytes:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        channel.send(message)
        channel.close()
        return b"".join(iter(lambda: theirs.recv(2**16), b""))


def _received(data: bytes) -> Any:
    """Read what a peer sent before it hung up; the end of a connection is no error, but a lost task."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.close()
        channel = Channel(ours)
        try:
            return channel.receive()
        except HungUp as error:
            raise TaskLost("the connection has ended") from error
        finally:
            channel.close()


# ---- checkpoints


def _databases(folder: str) -> TaskDatabases | None:
    try:
        shared = TaskDatabases(16 * 2**20, 0.5, folder, min_free_space=0)
        _ = shared.memory
    except FunkenError:
        return None
    return shared


def _checkpoints(shared: TaskDatabases | None) -> list[Files]:
    return [_job(shared, inline) for inline in (0, 150)]


def _job(shared: TaskDatabases | None, inline: int) -> Files:
    """Return the files of a job with two checkpoints: values, maps, timers, lists, records in flight."""
    storage = MemoryStorage()
    job = storage.at("job")
    backend = None if shared is None else RocksDBBackend(shared, _GROUPS, range(_GROUPS))
    store = KeyedStateStore(_GROUPS, range(_GROUPS), lambda: 0, backend)
    count, seen = store.state(ValueStateDescriptor("count")), store.state(MapStateDescriptor("seen"))
    incremental = IncrementalSnapshots("count", 0, SnapshotOptions(inline_below=inline))
    catalog = CompletedCheckpointStore(job)
    for checkpoint in (CheckpointId(1), CheckpointId(2)):
        for key in range(20 * checkpoint):
            store.current_key = f"key {key}"
            count.update((checkpoint, "x" * key))
            seen.put(key % 7, {"at": checkpoint})
        files = store.snapshot_files()
        state = SubtaskState(
            keyed=store.snapshot() if files is None else files[0],
            timers=GroupedSnapshot(_GROUPS, {3: {"event": [(1000, "key 1", None)]}}),
            operator_state=OperatorStates({"own": list(range(checkpoint))}, {"all": ["u"]}, {"rules": {"a": 1}}),
            database=None if files is None else files[1],
        )
        in_flight = _in_flight(checkpoint).to_state()
        state.inflight, state.inflight_keyed = in_flight.inflight, in_flight.inflight_keyed
        handle = incremental.write(incremental.snapshot(state, checkpoint, [("file", checkpoint)]), job)
        entry = OperatorEntry("count", "count", 1, _GROUPS, True, (handle,))
        catalog.store(
            Manifest("job", "Job", checkpoint, SnapshotKind.CHECKPOINT, Millis(5), (entry,), {"source": b"splits" * 10})
        )
    if backend is not None:
        backend.close()
    return dict(storage.files)


def _in_flight(checkpoint: int) -> ChannelState:
    edge = EdgeName("source", None, "count", 0)
    piece = BufferedBlock(edge, 1, 1, 0, BlockKind.DATA, 0, list(range(checkpoint * 10)), None)
    return ChannelState([piece], [piece], [UnsentRecords(edge, ["sent"], [5])])


def _read_checkpoint(files: Files) -> Any:
    """Read what a driver that starts, and its tasks, would read."""
    catalog = CompletedCheckpointStore(MemoryStorage(files=dict(files)).at("job"))
    catalog.scan()
    manifest = catalog.latest()
    return manifest and _read(manifest, catalog)


def _all_read(files: Files) -> list[Any]:
    catalog = CompletedCheckpointStore(MemoryStorage(files=dict(files)).at("job"))
    catalog.scan(check_contents=True)
    return [_read(manifest, catalog) for manifest in catalog.complete.values()]


def _read(manifest: Manifest, catalog: CompletedCheckpointStore) -> Any:
    plan = plan_restore(manifest, catalog.storage.uri, [RestoreTarget("count", "count", 1, _GROUPS)], own=True)
    found: list[Any] = [manifest.checkpoint, dict(plan.enumerators), dict(plan.committables)]
    for restore in plan.subtasks.values():
        for piece in read_state(catalog.storage, restore):
            ChannelState().add(piece)
            found.append((piece.keyed, piece.timers, piece.operator_state, piece.inflight, piece.inflight_keyed))
    return found


def _started(manifest: Manifest) -> Any:
    return plan_restore(manifest, "here", [RestoreTarget("count", "count", 2, _GROUPS)], allow_non_restored=True)
