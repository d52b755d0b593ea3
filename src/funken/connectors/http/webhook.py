"""A webhook as a sink: records are sent as the bodies of HTTP requests.

At least once, the records of a block are sent before ``write`` returns, and may be sent again after a failure. Exactly once, the
bodies of a checkpoint are sent when it is complete, each with a header ``Idempotency-Key`` that is the same whenever it is sent
again; a service that honours it takes each once. Job and checkpoint alone make no key: a later run with the same job id, from its
beginning or from an older checkpoint, has them again, with other bodies. So the writer adds a random part, which is stored with
the bodies.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import quote

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.http.service import HttpService, RequestFailed, checked, shown
from funken.connectors.sink import CommitRequest, Committer, DeliveryGuarantee, Sink, SinkWriter, StagedWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable


def json_array(records: Sequence[Any]) -> bytes:
    """Return records as a JSON array.

    >>> json_array([{"item": "tea"}, {"item": "jam"}])
    b'[{"item": "tea"}, {"item": "jam"}]'
    """
    return json.dumps(list(records)).encode()


def json_lines(records: Sequence[Any]) -> bytes:
    r"""Return records as lines of JSON.

    >>> json_lines([{"item": "tea"}, {"item": "jam"}])
    b'{"item": "tea"}\n{"item": "jam"}\n'
    """
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@dataclass(frozen=True)
class WebhookSink(Sink):
    """Sends records to an address, up to ``batch_size`` in a request; ``body(records)`` makes its body.

    ``headers`` may hold credentials: they are not shown. A request is sent again for a while where that may help; in the end the
    job fails with ``SinkNotWritable``, which has the status and the beginning of the answer.

    >>> WebhookSink("https://hooks.example/orders?token=secret", headers={"Authorization": "Bearer secret"})
    WebhookSink('https://hooks.example/orders')
    >>> WebhookSink("hooks.example")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: an address begins with http:// or https:// and has a host.
    """

    url: str = field(repr=False)
    body: Callable[[Sequence[Any]], bytes] = field(default=json_array, repr=False)
    batch_size: int = 100
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"}, repr=False)
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def __post_init__(self) -> None:
        """Check what can be checked without the service."""
        checked(self.url)
        if self.batch_size < 1:
            raise InvalidConfiguration(f"a batch of {self.batch_size} records is none; pass a positive number.")

    def __repr__(self) -> str:
        return f"WebhookSink({shown(self.url)!r})"

    def check(self) -> None:
        """Reach the service; nothing is sent to it."""
        service = HttpService({}, tries=2)
        try:
            service.reach(self.url)
        except RequestFailed as error:
            raise SinkNotWritable(str(error)) from error
        finally:
            service.close()

    def bodies(self, records: Sequence[Any]) -> Iterator[bytes]:
        """Cut records into bodies."""
        for start in range(0, len(records), self.batch_size):
            yield self.body(records[start : start + self.batch_size])

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        exactly_once = self.guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return StagedBodiesWriter(self, context) if exactly_once else WebhookWriter(self, context)

    def committer(self, context: CommitterContext) -> Committer | None:
        """Make the committer of an exactly-once sink."""
        return WebhookCommitter(self, context) if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else None


class WebhookWriter(SinkWriter):
    """Sends blocks as they come."""

    def __init__(self, sink: WebhookSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._service = HttpService(sink.headers)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Send a block."""
        for body in self._sink.bodies(values):
            try:
                self._service.request(self._sink.method, self._sink.url, body)
            except RequestFailed as error:
                raise self.failure(str(error)) from error
            self.count_sent(0, len(body))
        self.count_sent(len(values))

    def close(self) -> None:
        """Close the connection."""
        self._service.close()


class StagedBodiesWriter(StagedWriter):
    """Keeps the records of a checkpoint, and gives their bodies away as the committable, with a random part for their keys."""

    def __init__(self, sink: WebhookSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Keep a block."""
        self.staged += values
        self.count_sent(len(values))

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Return the random part and the bodies."""
        bodies = [
            body for staged in super().prepare_commit(checkpoint_id, end_of_input) for body in self._sink.bodies(staged)
        ]
        self.count_sent(0, sum(map(len, bodies)))
        return [(secrets.token_hex(8), bodies)] if bodies else []


class WebhookCommitter(Committer):
    """Sends staged bodies, each with its key."""

    def __init__(self, sink: WebhookSink, context: CommitterContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._service = HttpService(sink.headers)

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Send all bodies; those that were sent before are sent again with the same keys."""
        for request in requests:
            token, bodies = request.committable
            place = f"{request.job_id}/{request.operator_uid}/{request.subtask}/{request.checkpoint_id}/{token}"
            for number, body in enumerate(bodies):
                key = {"Idempotency-Key": quote(f"{place}/{number}")}
                try:
                    self._service.request(self._sink.method, self._sink.url, body, key)
                except RequestFailed as error:
                    raise self.failure(str(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self._service.close()


__all__ = ["WebhookSink", "json_array", "json_lines"]
