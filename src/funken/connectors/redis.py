"""Redis: streams as a source, commands as a sink, and how a server is reached.

How a Redis server is reached, and what its errors mean: the only module that imports ``redis``.

A ``RedisServer`` travels to the tasks; a password in it is in no ``repr`` and in no error. The client retries what may go away
by itself: a connection that is refused or lost, a server that loads its data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import field, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from funken import extras
from funken.connectors.base import (
    Batch,
    Boundedness,
    CommitterContext,
    ConnectorContext,
    Service,
    Source,
)
from funken.connectors.reading import PolledReader, SplitRecords
from funken.connectors.sink import (
    CommitRequest,
    Committer,
    DeliveryGuarantee,
    MarkingCommitter,
    Sink,
    SinkWriter,
    StagedWriter,
    parts,
)
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable, SourceNotReadable
from funken.types.callables import Generic, T_contra

TRIES = 4
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0
_TIMEOUT_S = 10.0
_SCHEMES = ("redis", "rediss", "unix")


def redis(module: str = "redis") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required(module, "redis", "the Redis connectors need redis-py")


@dataclass(frozen=True)
class RedisServer(Service):
    """A server by its URL, ``redis://[user:password@]host:port/database``; ``rediss://`` is over TLS, ``unix://`` a socket.

    It takes redis-py's parameters of the URL (``?ssl_ca_certs=...``). A password is not shown.

    >>> RedisServer("redis://ada:secret@cache.example:6380/2")
    RedisServer('redis://cache.example:6380/2')
    >>> RedisServer("cache.example:6380")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: the URL of a RedisServer begins with redis://, rediss:// or unix:// (it is not shown:
    there may be a password in it); write 'redis://host:6379/0'.
    """

    url: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check that it is a URL of Redis."""
        try:
            parts = urlsplit(self.url)
            right = parts.scheme in _SCHEMES and (parts.port or True)
        except ValueError:
            right = False
        if not right:
            raise InvalidConfiguration(
                "the URL of a RedisServer begins with redis://, rediss:// or unix:// (it is not shown: there may be a password "
                "in it); write 'redis://host:6379/0'."
            )

    def __repr__(self) -> str:
        return f"RedisServer({self.shown!r})"

    @property
    def shown(self) -> str:
        """The URL without user, password and parameters."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"

    def connect(self, name: str = "funken", tries: int = TRIES) -> Any:
        """Return a client; ``name`` is seen in ``CLIENT LIST``. It connects with the first command."""
        client, errors = redis(), redis("redis.exceptions")
        backoff = redis("redis.backoff").ExponentialBackoff(cap=_LONGEST_PAUSE_S, base=_FIRST_PAUSE_S)
        return client.Redis.from_url(
            self.url,
            client_name="".join(letter if letter.isalnum() or letter in "-_./" else "-" for letter in name),
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            health_check_interval=30,
            retry=redis("redis.retry").Retry(backoff, tries - 1),
            retry_on_error=[errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError],
        )

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors that ``problem`` explains."""
        return (redis("redis.exceptions").RedisError, OSError)

    def problem(self, error: Exception) -> str:
        """Return the meaning of an error, and the remedy."""
        errors = redis("redis.exceptions")
        fact = str(error).strip() or type(error).__name__
        known: Sequence[tuple[tuple[type[Exception], ...], str]] = (
            ((errors.AuthenticationError,), "correct user and password in the URL"),
            ((errors.NoPermissionError,), "grant it to this user (ACL SETUSER)"),
            ((errors.ReadOnlyError,), "connect to the primary: this server is a replica"),
            ((errors.OutOfMemoryError,), "raise maxmemory of the server, or let it evict keys"),
            ((errors.BusyLoadingError,), "wait until the server has loaded its data"),
            ((errors.ConnectionError, errors.TimeoutError, OSError), f"start the server, or correct {self.shown}"),
            ((errors.DataError,), "return commands of str, bytes, int and float"),
        )
        remedy = next((text for kinds, text in known if isinstance(error, kinds)), "see the server's message")
        if "WRONGTYPE" in fact:
            remedy = "use another key: this one holds another kind of value"
        return f"{fact}; {remedy}."


# ---- The reader of Redis streams: a thread waits for entries, so that a poll never does.


logger = logging.getLogger(__name__)

_ENTRIES = 1000
"""The most entries of a stream in one reply."""
_BLOCK_MS = 200
_BEGINNING = "0-0"

Entry = tuple[bytes, dict[bytes, bytes]]
RecordOf = Callable[["RedisStreamSplit", Entry], Any]


@dataclass(frozen=True, slots=True)
class RedisStreamSplit:
    """A stream: ``last`` is the id of the last entry that was read, ``until`` of the last one to be read, if it is bounded.

    ``read`` is the number of entries up to that one, if it is known: so entries that were deleted unread are noticed.
    """

    id: str
    last: str
    until: str | None = None
    read: int | None = None

    def after(self, last: str, count: int) -> RedisStreamSplit:
        """Return the split when some more entries were read."""
        return replace(self, last=last, read=None if self.read is None else self.read + count)


def in_order(entry_id: str) -> tuple[int, int]:
    """Return the parts of an id, which are in the order of entries; raises ``ValueError`` if it is none.

    >>> in_order("1700000000000-3"), in_order("5")
    ((1700000000000, 3), (5, 0))
    """
    millis, _, number = entry_id.partition("-")
    return int(millis), int(number or 0)


class RedisStreamReader(PolledReader):
    """Reads streams; ``record_of`` makes the record of an entry."""

    def __init__(self, server: RedisServer, context: ConnectorContext, record_of: RecordOf) -> None:
        super().__init__(context)
        self.service, self.place, self._record_of = server, f"streams at {server.shown}", record_of
        self._connection = server.connect(f"funken {context.operator}")
        self._count = context.metrics.counter("numRecordsFetched")
        #: by stream, up to which entry it was said that something is lost
        self._warned: dict[str, str] = {}

    def batch(self, split: RedisStreamSplit, records: Sequence[Entry]) -> Batch:
        """Make records of entries, with the times in their ids."""
        self._count.inc(len(records))
        try:
            values = [self._record_of(split, entry) for entry in records]
        except SourceNotReadable as error:
            raise self.failure(str(error)) from error.__cause__
        return Batch(values, [in_order(entry[0].decode())[0] for entry in records], split.id)

    def advance(self, split: RedisStreamSplit, records: Sequence[Entry]) -> RedisStreamSplit:
        """Go on after the last entry."""
        return split.after(records[-1][0].decode(), len(records))

    def disconnect(self) -> None:
        """Close the connection."""
        self._connection.close()

    def fetch(self, splits: Sequence[RedisStreamSplit]) -> Sequence[SplitRecords]:
        """Read present entries; else wait for entries."""
        positions = {split.id: split for split in splits}
        found = self._there(positions)
        # A stream that is read to its end must not wait for others.
        if not found and all(split.until is None for split in splits):
            found = self._connection.xread(_after(positions), count=_ENTRIES, block=_BLOCK_MS)
        # The second version of the protocol gives pairs, the third a mapping with the entries one deeper.
        pairs = found.items() if isinstance(found, dict) else found
        entries = {_text(stream): _flat(entries) for stream, entries in pairs}
        return [block for split in positions.values() for block in self._blocks(split, entries.get(split.id, []))]

    def _blocks(self, split: RedisStreamSplit, entries: list[Entry]) -> list[SplitRecords]:
        following: RedisStreamSplit | None = split
        if split.until is not None:
            last = in_order(split.until)
            is_end = not entries or in_order(entries[-1][0].decode()) >= last
            entries = [entry for entry in entries if in_order(entry[0].decode()) <= last]
            following = None if is_end else split
        if entries and following is not None:
            following = self.advance(split, entries)
        if not entries and following == self._ahead.get(split.id):
            return []
        return [SplitRecords(split.id, entries, following, sum(map(_bytes_of, entries)))]

    def _there(self, positions: dict[str, RedisStreamSplit]) -> Any:
        """Read present entries, and in the same moment look for entries that were deleted unread."""
        with self._connection.pipeline(transaction=True) as pipeline:
            for stream in positions:
                pipeline.xinfo_stream(stream)
            pipeline.xread(_after(positions), count=_ENTRIES)
            *infos, found = pipeline.execute(raise_on_error=False)
        if isinstance(found, Exception):
            raise found
        caught_up = positions.keys() - {_text(stream) for stream in dict(found)}
        for stream, info in zip(list(positions), infos, strict=True):
            if isinstance(info, dict):  # else the stream is not there
                positions[stream] = self._looked_at(positions[stream], info, stream in caught_up)
        return found

    def _looked_at(self, split: RedisStreamSplit, info: dict[str, Any], caught_up: bool) -> RedisStreamSplit:
        """Warn of entries that are gone and were not read; return the split with the known facts of its place."""
        added = info.get("entries-added")  # Redis before 7 has none of this
        if added is None:
            return split
        first, lost = info["first-entry"], 0
        behind = first is None or in_order(first[0].decode()) > in_order(split.last)
        if (
            split.read is not None and behind
        ):  # all that is there was not read, so what is not there and not read is gone
            lost = added - split.read - info["length"]
        deleted = info.get("max-deleted-entry-id", b"0-0").decode()
        warned = max(split.last, self._warned.get(split.id, _BEGINNING), key=in_order)
        if lost > 0 or (split.last != _BEGINNING and in_order(deleted) > in_order(warned)):
            self._warned[split.id] = deleted
            logger.warning(
                "operator %r: stream %r: %s after %s were trimmed or deleted before they were read: they are lost. Trim less "
                "(MAXLEN, MINID), or read faster.",
                self.context.operator, split.id, f"{lost} entries" if lost > 0 else "entries", split.last,
            )  # fmt: skip
        if caught_up:
            return replace(split, read=added)
        return split if not lost or split.read is None else replace(split, read=split.read + lost)


def _after(positions: dict[str, RedisStreamSplit]) -> dict[str, str]:
    return {stream: split.last for stream, split in positions.items()}


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _bytes_of(entry: Entry) -> int:
    """Return the size of the id, the names and the values of an entry (bytes)."""
    entry_id, fields = entry
    return len(entry_id) + sum(map(len, fields)) + sum(map(len, fields.values()))


def _flat(entries: Any) -> list[Entry]:
    """Return the entries that have fields: one that was deleted since has none."""
    flat = entries[0] if entries and isinstance(entries[0], list) else entries
    return [(entry_id, fields) for entry_id, fields in flat if fields is not None]


# ---- Redis streams as a source: each stream is a split, and its position the id of the last entry that was read.
#
# Streams are logs: entries stay until they are trimmed. So positions in checkpoints are all that exactly-once
# reading takes, and consumer groups are not used. A bounded source reads up to the entry that was the last one when
# the job began.


class RedisMessage(NamedTuple):
    """An entry of a stream; keys and values of ``fields`` are text, or bytes if the source has no ``encoding``.

    >>> RedisMessage("orders", "1700000000000-0", {"item": "tea"}).fields["item"]
    'tea'
    """

    stream: str
    id: str
    fields: dict[Any, Any]


@dataclass(frozen=True)
class RedisStreamSource(Source[RedisMessage]):
    """The entries of streams, as ``RedisMessage``; the event time is the time in an entry's id (ms), unless one is assigned.

    ``start`` is ``"earliest"``, ``"latest"`` (what is added after the job began) or an id, after which reading begins. With
    ``bounded`` the source ends with what was there when the job began. A stream that is not there is an error, unless it
    ``may_be_missing``. ``encoding`` decodes fields and values; ``None`` leaves them as bytes.

    Raises ``SourceNotReadable``, before anything runs, if the server or a stream is not there or cannot be read.

    >>> RedisStreamSource(RedisServer("redis://localhost:6379"), ["orders"], bounded=True).streams
    ('orders',)
    >>> RedisStreamSource(RedisServer("redis://localhost:6379"), ["orders"], start="now")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: 'now' is no place to start from in a Redis stream; pass 'earliest', 'latest' or an id such
    as '1700000000000-0'.
    """

    server: RedisServer
    streams: Sequence[str]
    start: str = "earliest"
    bounded: bool = False
    may_be_missing: bool = False
    encoding: str | None = "utf-8"

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the server."""
        names = (self.streams,) if isinstance(self.streams, str) else tuple(self.streams)
        object.__setattr__(self, "streams", names)
        if not names or len(set(names)) < len(names):
            raise InvalidConfiguration(f"a RedisStreamSource reads one or more different streams, not {list(names)}.")
        if self.start not in ("earliest", "latest"):
            try:
                in_order(self.start)
            except ValueError:
                raise InvalidConfiguration(
                    f"{self.start!r} is no place to start from in a Redis stream; pass 'earliest', 'latest' or an id such as "
                    "'1700000000000-0'."
                ) from None

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """The boundedness of the source."""
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def list_splits(self) -> Sequence[RedisStreamSplit]:
        """Look at each stream."""
        with closing(self.server.connect("funken check")) as connection:
            return [self._found(connection, stream) for stream in self.streams]

    def _found(self, connection: Any, stream: str) -> RedisStreamSplit:
        last = _BEGINNING
        read: int | None = 0
        added: int | None = 0
        with self.server.explained(f"the stream {stream!r} at {self.server.shown} cannot be read", SourceNotReadable):
            if connection.exists(stream):
                info = connection.xinfo_stream(stream)
                last, added = info["last-generated-id"].decode(), info.get("entries-added")
                read = None if added is None else added - info["length"]
            elif not self.may_be_missing:
                raise SourceNotReadable(
                    f"the stream {stream!r} is not there at {self.server.shown}; correct its name, add an entry, or pass "
                    "may_be_missing=True."
                )
        begins = {"earliest": (_BEGINNING, read), "latest": (last, added)}
        begin, before = begins.get(self.start, (self.start, None))
        split = RedisStreamSplit(stream, begin, read=before)
        return replace(split, until=last) if self.bounded else split

    def reader(self, context: ConnectorContext) -> RedisStreamReader:
        """Make a reader."""
        return RedisStreamReader(self.server, context, lambda split, entry: message_of(split.id, entry, self.encoding))


def message_of(stream: str, entry: tuple[bytes, dict[bytes, bytes]], encoding: str | None) -> RedisMessage:
    """Return the record of an entry.

    >>> message_of("orders", (b"1-0", {b"item": b"tea"}), "utf-8").fields
    {'item': 'tea'}
    """
    number, fields = entry[0].decode(), entry[1]
    if encoding is None:
        return RedisMessage(stream, number, dict(fields))
    found: dict[Any, Any] = {}
    for name, value in fields.items():
        try:
            found[name.decode(encoding)] = value.decode(encoding)
        except UnicodeDecodeError as error:
            raise SourceNotReadable(
                f"the entry {number} of the stream {stream!r} has a field {name!r} that is no {encoding} ({error}). "
                "Read bytes with encoding=None, and decode them in a function."
            ) from error
    return RedisMessage(stream, number, found)


# ---- Redis as a sink: each record becomes one command or several.
#
# At least once, a writer sends the commands of a block in one go, and they may be sent again after a failure:
# ``SET`` and ``HSET`` do no harm then, ``INCR`` and ``XADD`` do. Exactly once, a committable is the commands of a
# subtask; the committer lets a script on the server run them in parts, and note how far it has come in the same
# step. Redis cannot roll back: a command that it refuses in the midst fails the job, and so does every start from
# that checkpoint, until someone has looked.


NOTES = "funken:commits"
"""The beginning of the keys of notes: a hash for each job and operator, with a field for each subtask."""

_PART, _PART_ARGUMENTS = 500, 4000
"""The most commands, and the most arguments of them, that one call of the script runs."""
_PLAIN = (str, bytes, int, float)

# KEYS: the hash of notes; ARGV: subtask, checkpoint, how many commands were run before, then each command with its length first.
# A note is "checkpoint commands", or "failed checkpoint commands error".
_SCRIPT = """
local noted = redis.call('HGET', KEYS[1], ARGV[1])
local checkpoint, before = tonumber(ARGV[2]), tonumber(ARGV[3])
if noted then
  if string.sub(noted, 1, 7) == 'failed ' then return redis.error_reply('FUNKEN ' .. noted) end
  local at, done = string.match(noted, '^(%d+) (%d+)')
  if tonumber(at) > checkpoint then return 0 end
  if tonumber(at) == checkpoint then noted = tonumber(done) else noted = 0 end
else
  noted = 0
end
local i, count, ran = 4, before, 0
while i <= #ARGV do
  local length = tonumber(ARGV[i])
  if count >= noted then
    local reply = redis.pcall(unpack(ARGV, i + 1, i + length))
    if type(reply) == 'table' and reply['err'] then
      local note = 'failed ' .. ARGV[2] .. ' ' .. count .. ' ' .. reply['err']
      redis.call('HSET', KEYS[1], ARGV[1], note)
      return redis.error_reply('FUNKEN ' .. note)
    end
    ran = ran + 1
  end
  count = count + 1
  i = i + length + 1
end
if ran > 0 then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. count) end
return ran
"""

Command = tuple[Any, ...]


@dataclass(frozen=True)
class RedisSink(Sink[T_contra], Generic[T_contra]):
    """Writes records as commands: ``command(record)`` returns one, a tuple, or a list of them; an empty list writes nothing.

    The parts of a command are str, bytes, int or float. With ``EXACTLY_ONCE`` the commands of a checkpoint are run when it is
    complete; the server has to allow scripts, and all keys have to be on one server (no cluster).

    Raises ``SinkNotWritable``, before anything runs, if the server is not there or refuses user and password.

    >>> sink = RedisSink(RedisServer("redis://localhost:6379"), lambda pair: ("HSET", "totals", pair[0], pair[1]))
    >>> sink.commands(("tea", 3), "totals")
    [('HSET', 'totals', 'tea', 3)]
    >>> sink.commands(("tea", None), "totals")
    Traceback (most recent call last):
    ...
    funken.errors.SinkNotWritable: operator 'totals': the command ('HSET', 'totals', 'tea', None) has a part of type NoneType;
    convert it to str, bytes, int or float.
    """

    server: RedisServer
    command: Callable[[T_contra], Command | list[Command]]
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def check(self) -> None:
        """Reach the server, and let it run a script if that is needed."""
        with self.server.reached(f"the server {self.server.shown}", SinkNotWritable, name="funken check") as connection:
            connection.ping()
            if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
                connection.eval("return 1", 0)

    def commands(self, record: Any, operator: str) -> list[Command]:
        """Return the commands of a record; raises ``SinkNotWritable`` for other objects."""
        made = self.command(record)
        found = made if isinstance(made, list) else [made]
        for each in found:
            if not isinstance(each, tuple) or not each:
                raise SinkNotWritable(
                    f"operator {operator!r}: the function of the sink returned {each!r} for a record; return a tuple such as "
                    "('SET', key, value), or a list of them.",
                    operator,
                )
            for part in each:
                if not isinstance(part, _PLAIN) or isinstance(part, bool):
                    raise SinkNotWritable(
                        f"operator {operator!r}: the command {each!r} has a part of type {type(part).__name__}; convert it to "
                        "str, bytes, int or float.",
                        operator,
                    )
        return found

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        if self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return RedisWriter(self, context)

        def commands_of(values: list[Any]) -> list[Command]:
            return [command for value in values for command in self.commands(value, context.operator)]

        return StagedWriter(context, commands_of, lambda commands: sum(map(_bytes_of_command, commands)))

    def committer(self, context: CommitterContext) -> Committer | None:
        """Make the committer of an exactly-once sink."""
        return RedisCommitter(self, context) if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else None


def _bytes_of_command(command: Command) -> int:
    """Return the size of the parts of a command, as they are sent (bytes)."""
    return sum([len(part if isinstance(part, bytes) else str(part).encode()) for part in command])


class RedisWriter(SinkWriter):
    """Sends blocks as they come."""

    def __init__(self, sink: RedisSink[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._connection = sink.server.connect(f"funken {context.operator}")

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Send the commands of a block, and read all replies."""
        server = self._sink.server
        pipeline = self._connection.pipeline(transaction=False)
        size = 0
        for value in values:
            for command in self._sink.commands(value, self.context.operator):
                pipeline.execute_command(*command)
                size += _bytes_of_command(command)
        with server.explained(f"{server.shown} cannot be written", self.failure):
            pipeline.execute()
        self.count_sent(len(values), size)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class RedisCommitter(MarkingCommitter):
    """Runs staged commands by the script, which notes that they are done."""

    def __init__(self, sink: RedisSink[Any], context: CommitterContext) -> None:
        super().__init__(context)
        self._sink, self.place = sink, sink.server.shown
        self._connection = sink.server.connect(f"funken {context.operator}")
        self._script = self._connection.register_script(_SCRIPT)

    def _notes(self, job_id: str, operator_uid: str) -> str:
        return f"{NOTES}:{job_id}:{operator_uid or self.operator}"

    def forget_marks(self, since: int | None) -> bool:
        """Forget later notes; raise ``SinkNotWritable`` if an earlier one says that the server refused a command."""
        key, has_later = self._notes(self.context.job_id, ""), False
        with self._explained():
            for subtask, note in self._connection.hgetall(key).items():
                failed = note.startswith(b"failed ")
                later = int(note.split()[1 if failed else 0]) > (-1 if since is None else since)
                if failed and not later:
                    raise self._refused(note.decode("utf-8", "replace"), key, subtask.decode())
                if later:
                    self._connection.hdel(key, subtask)
                    has_later = True
        return has_later

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Run the commands of each request that are not noted."""
        for request in requests:
            with self._explained():
                try:
                    self._run(request)
                except redis("redis.exceptions").ResponseError as error:
                    if "FUNKEN" not in str(error):
                        raise
                    key = self._notes(request.job_id, request.operator_uid)
                    raise self._refused(str(error), key, str(request.subtask)) from error

    def _run(self, request: CommitRequest) -> None:
        key = self._notes(request.job_id, request.operator_uid)
        if request.checkpoint_id is None:  # a job without checkpoints commits once
            self._connection.hdel(key, str(request.subtask))
        done = before = 0
        for part in parts(request.committable, _PART, _PART_ARGUMENTS, len):  # the same ones whenever it is repeated
            arguments = [item for command in part for item in (len(command), *command)]
            done += self._script([key], [request.subtask, request.checkpoint_id or 0, before, *arguments])
            before += len(part)
        if not done:
            request.already_committed()

    def _explained(self) -> AbstractContextManager[None]:
        server = self._sink.server
        return server.explained(f"{server.shown} cannot be written", self.failure)

    def _refused(self, note: str, key: str, subtask: str) -> SinkNotWritable:
        _, checkpoint, number, why = note.removeprefix("FUNKEN ").split(" ", 3)
        return self.failure(
            f"{self._sink.server.shown} refused command {int(number) + 1} of subtask "
            f"{subtask} in checkpoint {checkpoint}: {why}. Those before it are done, those after it are not. Mend what it "
            f"refuses, then go on after the refused command with HSET '{key}' {subtask} '{checkpoint} {int(number) + 1}', or "
            f"repeat it with HSET '{key}' {subtask} '{checkpoint} {number}'."
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


__all__ = [
    "NOTES",
    "TRIES",
    "DeliveryGuarantee",
    "RedisMessage",
    "RedisServer",
    "RedisSink",
    "RedisStreamReader",
    "RedisStreamSource",
    "RedisStreamSplit",
    "RedisWriter",
    "in_order",
    "redis",
]
