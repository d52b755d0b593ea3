"""Redis as a sink: each record becomes one command or several.

At least once, a writer sends the commands of a block in one go, and they may be sent again after a failure: ``SET`` and ``HSET``
do no harm then, ``INCR`` and ``XADD`` do. Exactly once, a committable is the commands of a subtask; the committer lets a script
on the server run them in parts, and note how far it has come in the same step. Redis cannot roll back: a command that it
refuses in the midst fails the job, and so does every start from that checkpoint, until someone has looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.redis.server import RedisServer, redis
from funken.connectors.sink import (
    CommitRequest,
    Committer,
    DeliveryGuarantee,
    MarkingCommitter,
    Sink,
    SinkWriter,
    StagedWriter,
)
from funken.dataclass import dataclass
from funken.errors import SinkNotWritable

NOTES = "funken:commits"
"""What the keys of notes begin with: a hash for each job and operator, with a field for each subtask."""

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
class RedisSink(Sink):
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
    command: Callable[[Any], Command | list[Command]]
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def check(self) -> None:
        """Reach the server, and let it run a script if that is needed."""
        connection = self.server.connect("funken check")
        try:
            connection.ping()
            if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
                connection.eval("return 1", 0)
        except self.server.errors as error:
            raise SinkNotWritable(
                f"the server {self.server.shown} cannot be written: {self.server.problem(error)}"
            ) from error
        finally:
            connection.close()

    def commands(self, record: Any, operator: str) -> list[Command]:
        """Return the commands of a record; raises ``SinkNotWritable`` for what is none."""
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
        exactly_once = self.guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return StagedCommandsWriter(self, context) if exactly_once else RedisWriter(self, context)

    def committer(self, context: CommitterContext) -> Committer | None:
        """Make the committer of an exactly-once sink."""
        return RedisCommitter(self, context) if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else None


def _bytes_of(command: Command) -> int:
    """Return how long the parts of a command are, as they are sent."""
    return sum([len(part if isinstance(part, bytes) else str(part).encode()) for part in command])


class RedisWriter(SinkWriter):
    """Sends blocks as they come."""

    def __init__(self, sink: RedisSink, context: ConnectorContext) -> None:
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
                size += _bytes_of(command)
        try:
            pipeline.execute()
        except server.errors as error:
            raise self.failure(f"{server.shown} cannot be written: {server.problem(error)}") from error
        self.count_sent(len(values), size)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class StagedCommandsWriter(StagedWriter):
    """Keeps the commands of a checkpoint, and gives them away as the committable."""

    def __init__(self, sink: RedisSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Keep the commands of a block."""
        commands = [command for value in values for command in self._sink.commands(value, self.context.operator)]
        self.staged += commands
        self.count_sent(len(values), sum(map(_bytes_of, commands)))


class RedisCommitter(MarkingCommitter):
    """Runs staged commands by the script, which notes that they are done."""

    def __init__(self, sink: RedisSink, context: CommitterContext) -> None:
        super().__init__(context)
        self._sink, self.place = sink, sink.server.shown
        self._connection = sink.server.connect(f"funken {context.operator}")
        self._script = self._connection.register_script(_SCRIPT)

    def _notes(self, job_id: str, operator_uid: str) -> str:
        return f"{NOTES}:{job_id}:{operator_uid or self.operator}"

    def forget_marks(self, since: int | None) -> bool:
        """Forget later notes; raise ``SinkNotWritable`` if an earlier one says that the server refused a command."""
        key, has_later = self._notes(self.context.job_id, ""), False
        try:
            for subtask, note in self._connection.hgetall(key).items():
                failed = note.startswith(b"failed ")
                later = int(note.split()[1 if failed else 0]) > (-1 if since is None else since)
                if failed and not later:
                    raise self._refused(note.decode("utf-8", "replace"), key, subtask.decode())
                if later:
                    self._connection.hdel(key, subtask)
                    has_later = True
        except self._sink.server.errors as error:
            raise self._failed(error) from error
        return has_later

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Run the commands of each request that are not noted."""
        for request in requests:
            try:
                self._run(request)
            except redis("redis.exceptions").ResponseError as error:
                key = self._notes(request.job_id, request.operator_uid)
                failed = self._refused(str(error), key, str(request.subtask)) if "FUNKEN" in str(error) else None
                raise failed or self._failed(error) from error
            except self._sink.server.errors as error:
                raise self._failed(error) from error

    def _run(self, request: CommitRequest) -> None:
        key = self._notes(request.job_id, request.operator_uid)
        if request.checkpoint_id is None:  # a job without checkpoints commits once
            self._connection.hdel(key, str(request.subtask))
        done = before = 0
        for part in _parts(request.committable):
            arguments = [item for command in part for item in (len(command), *command)]
            done += self._script([key], [request.subtask, request.checkpoint_id or 0, before, *arguments])
            before += len(part)
        if not done:
            request.already_committed()

    def _failed(self, error: Exception) -> SinkNotWritable:
        server = self._sink.server
        return self.failure(f"{server.shown} cannot be written: {server.problem(error)}")

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


def _parts(commands: Sequence[Command]) -> Iterator[list[Command]]:
    """Cut commands into parts for one call each; the same ones whenever it is repeated."""
    part: list[Command] = []
    arguments = 0
    for command in commands:
        if part and (len(part) >= _PART or arguments + len(command) > _PART_ARGUMENTS):
            yield part
            part, arguments = [], 0
        part.append(command)
        arguments += len(command)
    if part:
        yield part


__all__ = ["NOTES", "RedisSink", "RedisWriter"]
