"""What a source does with messages: a schema makes records of them, a policy decides about those that it cannot read.

A message is *malformed* if the schema raises. The policy is part of the source's description:

* ``FAIL``: the job fails; the error names the message and where it was read.
* ``SKIP``: the message is dropped and counted in the metric ``malformedRecords``.
* ``EMIT``: a ``MalformedRecord`` takes its place in the stream, also counted. The program sends it where it wants (a dead letter
  topic, a file), exactly once like any record.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from funken.connectors.schemas import DeserializationSchema
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, JobExecutionError, MessageMalformed
from funken.metrics.registry import Counter

_SHOWN_BYTES = 80
_NOT_ITS_FAULT = (JobExecutionError, EnvironmentNotReady)  # a registry that is away is no reason to skip messages


class MalformedRecordPolicy(enum.Enum):
    """What a source does with a message that its schema cannot read."""

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

    ``remedy`` says what else to do about some malformed messages than to correct the schema.

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


__all__ = ["Attempts", "MalformedRecord", "MalformedRecordPolicy", "MessageDecoder"]
