"""HTTP: pages as a source, a webhook as a sink, messages of a WebSocket, and the requests of all of them.

Requests to an HTTP service, and what its answers mean: the only module that imports ``urllib3``.

A request is repeated, with a pause that doubles or that the service asks for (``Retry-After``, of which a minute at most is
waited), where that may help: connections that fail, and answers 429, 500, 502, 503 and 504. A redirect to another host gets none
of the headers that may hold credentials. An address is shown without user, password and query, for there may be a token
in them; headers are never shown.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import field, replace
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

from funken import extras
from funken.connectors.base import (
    Boundedness,
    CommitterContext,
    ConnectorContext,
    Source,
    SplitEnumerator,
    StaticSplits,
)
from funken.connectors.reading import FeedReader, PeerClosed, PolledReader, SplitRecords
from funken.connectors.sink import CommitRequest, Committer, DeliveryGuarantee, Sink, SinkWriter, StagedWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.io.durations import DurationLike, duration_ms
from funken.timing.clock import SystemClock
from funken.types.callables import Generic, RECORD_contra, T_co

TRIES = 5
TIMEOUT_S = 30.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 60.0
_HARMLESS = frozenset({"accept", "content-type", "user-agent"})
"""Headers that another host may see; any other one may be a token."""
_AGAIN = frozenset({429, 500, 502, 503, 504})
_SHOWN_BODY = 300
_REMEDIES = {
    400: "correct the request",
    401: "correct the credentials in the headers",
    403: "correct the credentials in the headers, or let them do this",
    404: "correct the address",
    405: "correct the method",
    413: "send fewer records in a request (batch_size)",
    415: "correct the header Content-Type",
    422: "correct the request",
    429: "send less, or raise the limit of the service",
}


class RequestFailed(Exception):
    """A request was answered with an error, or not at all; the message names the error and the remedy."""


class HttpService:
    """Sends requests; one connection is kept open for each thread that does."""

    def __init__(self, headers: Mapping[str, str], tries: int = TRIES) -> None:
        client = urllib3()
        secret = {name.lower() for name in headers} - _HARMLESS
        retry = _patient_retry(client)(
            total=tries - 1, backoff_factor=_PAUSE_S, backoff_max=10.0, status_forcelist=_AGAIN, allowed_methods=None,
            raise_on_status=False, redirect=5,
            remove_headers_on_redirect=client.Retry.DEFAULT_REMOVE_HEADERS_ON_REDIRECT | secret,
        )  # fmt: skip
        timeout = client.Timeout(TIMEOUT_S)
        self._pool = client.PoolManager(maxsize=2, headers=dict(headers), retries=retry, timeout=timeout)
        self._errors = client.exceptions.HTTPError

    def request(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the body of the answer; raises ``RequestFailed`` unless its status is 2xx."""
        answer = self._send(method, url, body, headers)
        if 200 <= answer.status < 300:
            data: bytes = answer.data
            return data
        said = answer.data[:_SHOWN_BODY].decode("utf-8", "replace").strip()
        remedy = _REMEDIES.get(answer.status, "see the service's message")
        raise RequestFailed(f"{method} {shown(url)} was answered with {answer.status} {said!r}; {remedy}.")

    def reach(self, url: str) -> None:
        """Raise ``RequestFailed`` if the service cannot be reached; any answer of it is good."""
        self._send("OPTIONS", url, None, None)

    def _send(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str] | None) -> Any:
        given = None if headers is None else {**self._pool.headers, **headers}
        try:
            return self._pool.request(method, url, body=body, headers=given)
        except self._errors as error:
            why = getattr(error, "reason", None) or error
            raise RequestFailed(
                f"{method} {shown(url)} was not answered ({type(why).__name__}); start the service, or correct the address."
            ) from None  # the client's error has the whole address

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def _patient_retry(client: Any) -> Any:
    """Return the client's class of retries, with a bound to the wait that a service may ask of a task."""

    class PatientRetry(client.Retry):  # type: ignore[misc]
        def get_retry_after(self, response: Any) -> float | None:
            try:
                asked: float | None = super().get_retry_after(response)
            except client.exceptions.InvalidHeader:
                return None
            return None if asked is None else min(asked, _LONGEST_PAUSE_S)

    return PatientRetry


def urllib3() -> Any:
    """Return the client; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required("urllib3", "http", "the HTTP connectors need urllib3")


def shown(url: str) -> str:
    """Return an address without secret parts.

    >>> shown("https://ada:secret@api.example:8443/v1/orders?token=secret")
    'https://api.example:8443/v1/orders'
    """
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def checked(url: str, schemes: tuple[str, ...] = ("http", "https")) -> str:
    """Return an address; raises ``InvalidConfiguration`` if it is none."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in schemes and bool(parts.hostname) and (parts.port or True)
    except ValueError:
        right = False
    if not right:
        raise InvalidConfiguration(
            f"an address begins with {' or '.join(f'{each}://' for each in schemes)} and has a host."
        )
    return url


# ---- Pages of an HTTP service as a source, by cursors.
#
# A cursor says from where to read on: a page's number, an id, a time. The source asks for the page of a cursor, and
# a function finds the records and the next cursor in the answer. The position in a checkpoint is the cursor of the
# page that is being read, and how many of its records were read. So each record comes once if a page, asked for
# again, begins with the same records.


_LONGEST_POLL_PAUSE_S = 0.5
_now = SystemClock().monotonic


@dataclass(frozen=True, slots=True)
class HttpSplit:
    """The pages from a cursor on, ``skip`` records of the first of which were read; ``id`` is its place among the starts."""

    id: str
    cursor: Any
    skip: int = 0


@dataclass(frozen=True)
class HttpSource(Source[T_co], Generic[T_co]):
    """Reads pages: ``page(cursor)`` returns the address of one, ``parse(body)`` its records and the next cursor.

    The next cursor ``None`` means that this was the last page: a ``bounded`` source ends, another one asks for the same page
    again, and emits what was added to it. After such a page, and after one without records, it waits for the ``interval`` (ms,
    ``timedelta`` or text such as ``"5 s"``). Each of ``starts`` is a split, which one subtask reads. ``headers`` are not shown.

    An answer that is an error is asked for again a few times; then the job fails with ``SourceNotReadable``.

    >>> import json
    >>> def parse(body):
    ...     page = json.loads(body)
    ...     return page["items"], page["next"]
    >>> orders = HttpSource(lambda cursor: f"https://shop.example/orders?after={cursor}", parse, starts=[0], interval="5 s")
    >>> orders.boundedness.name
    'CONTINUOUS_UNBOUNDED'
    """

    page: Callable[[Any], str]
    parse: Callable[[bytes], tuple[Sequence[T_co], Any]]
    starts: Sequence[Any] = (None,)
    interval: DurationLike = "5 s"
    bounded: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check the parameters."""
        duration_ms(self.interval)
        if not self.starts:
            raise InvalidConfiguration("an HttpSource reads from one or more starts; pass a list of cursors.")

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """The boundedness of the source."""
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator of the starts."""
        splits = [HttpSplit(f"pages-{number}", start) for number, start in enumerate(self.starts)]
        return StaticSplits(splits, parallelism)

    def reader(self, context: ConnectorContext) -> HttpReader:
        """Make a reader."""
        return HttpReader(self, context)


class HttpReader(PolledReader):
    """Reads splits in turn, a page of each."""

    blocks_ahead = 1

    def __init__(self, source: HttpSource[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._source = source
        self._interval_s = duration_ms(source.interval) / 1000
        self._service = HttpService(source.headers)
        #: by split, when its next page is to be asked for (s)
        self._due: dict[str, float] = {}

    def fetch(self, splits: Sequence[HttpSplit]) -> Sequence[SplitRecords]:
        """Ask for the page that is due first."""
        split = min(splits, key=lambda split: self._due.get(split.id, 0.0))
        now = _now()
        due = self._due.get(split.id, 0.0)
        if due > now:
            self.fetcher.pause(min(due - now, _LONGEST_POLL_PAUSE_S))
            return ()
        body = self._service.request("GET", checked(self._source.page(split.cursor)))
        records, cursor = self._source.parse(body)
        self._due[split.id] = now + (self._interval_s if cursor is None or not records else 0.0)
        following: HttpSplit | None = None
        if cursor is not None:
            following = HttpSplit(split.id, cursor)
        elif not self._source.bounded:  # the same page again, of which all this was read
            following = replace(split, skip=max(split.skip, len(records)))
        return [SplitRecords(split.id, records[split.skip :], following, len(body))]

    def advance(self, split: HttpSplit, records: Sequence[Any]) -> HttpSplit:
        """Skip the records of the page that were read."""
        return replace(split, skip=split.skip + len(records))

    def explain(self, error: Exception) -> Exception:
        """Name the operator in the service's error; errors of the program's functions are its own."""
        return self.failure(str(error)) if isinstance(error, RequestFailed) else error

    def disconnect(self) -> None:
        """Close the connections."""
        self._service.close()


# ---- A webhook as a sink: records are sent as the bodies of HTTP requests.
#
# At least once, the records of a block are sent before ``write`` returns, and may be sent again after a failure.
# Exactly once, the bodies of a checkpoint are sent when it is complete, each with a header ``Idempotency-Key`` that
# is the same whenever it is sent again; a service that honours it takes each once. Job and checkpoint alone make no
# key: a later run with the same job id, from its beginning or from an older checkpoint, has them again, with other
# bodies. So the writer adds a random part, which is stored with the bodies.


def json_array(records: Sequence[object]) -> bytes:
    """Return records as a JSON array.

    >>> json_array([{"item": "tea"}, {"item": "jam"}])
    b'[{"item": "tea"}, {"item": "jam"}]'
    """
    return json.dumps(list(records)).encode()


def json_lines(records: Sequence[object]) -> bytes:
    r"""Return records as lines of JSON.

    >>> json_lines([{"item": "tea"}, {"item": "jam"}])
    b'{"item": "tea"}\n{"item": "jam"}\n'
    """
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@dataclass(frozen=True)
class WebhookSink(Sink[RECORD_contra], Generic[RECORD_contra]):
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
    body: Callable[[Sequence[RECORD_contra]], bytes] = field(default=json_array, repr=False)
    batch_size: int = 100
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"}, repr=False)
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the service."""
        checked(self.url)
        if self.batch_size < 1:
            raise InvalidConfiguration(f"a batch of {self.batch_size} records is none; pass a positive number.")

    def __repr__(self) -> str:
        return f"WebhookSink({shown(self.url)!r})"

    def check(self) -> None:
        """Reach the service; nothing is sent to it."""
        with closing(HttpService({}, tries=2)) as service:
            try:
                service.reach(self.url)
            except RequestFailed as error:
                raise SinkNotWritable(str(error)) from error

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

    def __init__(self, sink: WebhookSink[Any], context: ConnectorContext) -> None:
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
    """Keeps the records of a checkpoint, and returns their bodies as the committable, with a random key part."""

    def __init__(self, sink: WebhookSink[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Return the random part and the bodies."""
        bodies = [
            body for staged in super().prepare_commit(checkpoint_id, end_of_input) for body in self._sink.bodies(staged)
        ]
        self.count_sent(0, sum(map(len, bodies)))
        return [(secrets.token_hex(8), bodies)] if bodies else []


class WebhookCommitter(Committer):
    """Sends staged bodies, each with its key."""

    def __init__(self, sink: WebhookSink[Any], context: CommitterContext) -> None:
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


# ---- Messages of a WebSocket as a source, for feeds that cannot be read again.
#
# What was received after the last checkpoint is lost when the job fails, and what is sent while nobody is
# connected, too. One subtask reads. Where every message counts, let something that keeps them (a broker) stand
# before it.


_CONNECT_S, _RECEIVE_S = 10.0, 0.2
_FIRST_PAUSE_S, _LONGEST_RECONNECT_PAUSE_S = 0.5, 10.0
_MESSAGES = 1000
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class WebSocketSplit:
    """The whole feed; it has no position."""

    id: ClassVar[str] = "websocket"


@dataclass(frozen=True)
class WebSocketSource(Source[str | bytes]):
    """Messages that a server sends, ``str`` or ``bytes``; ``subscribe`` are messages that it is sent after each connect.

    Connecting is tried again ``max_retries`` times (-1: without end) with a pause that doubles from 0.5 to 10 s, also after the
    server has closed; a message sets the count back. Then the job fails with ``SourceNotReadable``, or the source ends if the
    server had closed in good order. ``headers`` are not shown.

    >>> WebSocketSource("wss://feed.example/trades?token=secret", subscribe=['{"op": "subscribe"}'])
    WebSocketSource('wss://feed.example/trades')
    """

    url: str = field(repr=False)
    subscribe: tuple[str | bytes, ...] = ()
    max_retries: int = 5
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    max_parallelism = 1

    def __post_init__(self) -> None:
        """Check the address."""
        checked(self.url, ("ws", "wss"))
        object.__setattr__(self, "subscribe", tuple(self.subscribe))

    def __repr__(self) -> str:
        return f"WebSocketSource({shown(self.url)!r})"

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator of the one split."""
        return StaticSplits((WebSocketSplit(),), parallelism)

    def reader(self, context: ConnectorContext) -> WebSocketReader:
        """Make a reader."""
        return WebSocketReader(self, context)


class WebSocketReader(FeedReader):
    """Returns the messages that arrive."""

    def __init__(self, source: WebSocketSource, context: ConnectorContext) -> None:
        self.first_pause_s, self.longest_pause_s = _FIRST_PAUSE_S, _LONGEST_RECONNECT_PAUSE_S
        super().__init__(context, source.max_retries)
        self._source = source
        self._connection: Any = None
        self._stack = ExitStack()

    def open(self) -> None:
        """Look for the client."""
        self.broken = (websockets("websockets.exceptions").WebSocketException, OSError, TimeoutError)

    def connect(self) -> None:
        """Connect, and subscribe."""
        source = self._source
        connect = websockets("websockets.sync.client").connect(
            source.url, additional_headers=dict(source.headers), open_timeout=_CONNECT_S, close_timeout=1.0,
            max_size=_MOST_BYTES,
        )  # fmt: skip
        self._connection = self._stack.enter_context(connect)
        with self._closing():
            for message in source.subscribe:
                self._connection.send(message)

    def receive(self) -> tuple[Sequence[Any], int]:
        """Wait for a message; take those that are there, too."""
        messages: list[Any] = []
        wait = _RECEIVE_S
        with self._closing():
            try:
                while len(messages) < _MESSAGES:
                    messages.append(self._connection.recv(timeout=wait))
                    wait = 0.0
            except TimeoutError:
                pass
            except websockets("websockets.exceptions").ConnectionClosed:
                if not messages:
                    raise  # else the next call finds it closed
        return messages, sum(map(_bytes_of, messages))

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            yield
        except websockets("websockets.exceptions").ConnectionClosedOK as error:
            raise PeerClosed(str(error)) from error

    def explain(self, error: Exception) -> Exception:
        """Return the error with the unreadable address, and the remedy."""
        if not isinstance(error, self.broken):
            return error
        return self.failure(
            f"{shown(self._source.url)} cannot be read: {str(error) or type(error).__name__}. Start the server, correct the "
            "address or the headers, or pass max_retries."
        )

    def disconnect(self) -> None:
        """Close the connection."""
        self._connection = None
        self._stack.close()


def _bytes_of(message: str | bytes) -> int:
    return len(message.encode() if isinstance(message, str) and not message.isascii() else message)


def websockets(module: str) -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required(module, "http", "a WebSocketSource needs websockets")


__all__ = [
    "DeliveryGuarantee",
    "HttpReader",
    "HttpService",
    "HttpSource",
    "HttpSplit",
    "RequestFailed",
    "WebSocketReader",
    "WebSocketSource",
    "WebhookSink",
    "checked",
    "json_array",
    "json_lines",
    "shown",
]
