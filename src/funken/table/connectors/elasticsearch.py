"""``'connector' = 'elasticsearch-7'`` and ``'opensearch'``: documents, written by key or with an id of the cluster."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from funken.connectors.elasticsearch import BulkAction, ElasticsearchServer, ElasticsearchSink
from funken.connectors.files.sink import BucketContext, DateTimeBucketAssigner
from funken.connectors.sink import DeliveryGuarantee
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import SinkTable, TableContext
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.formats import Columns
from funken.table.connectors.json_values import JsonRules, text_writer, writer_of
from funken.table.connectors.options import (
    ConnectorOption,
    OptionValues,
    boolean,
    duration,
    integer,
    memory_bytes,
    names,
    one_of,
    positive,
    text,
)
from funken.timing.clock import SystemClock
from funken.types.row import Row, RowKind

_ACTIONS, _BYTES = 1000, 2 * 2**20
_BLOCKS = "the actions of a block of rows are sent at once"
_OPTIONS = (
    ConnectorOption("hosts", names),
    ConnectorOption("index"),
    ConnectorOption("document-type", text, None, unused="no cluster of today has types of documents"),
    ConnectorOption("document-id.key-delimiter", text, "_"),
    ConnectorOption("username", text, None),
    ConnectorOption("password", text, None),
    ConnectorOption("failure-handler", one_of("fail", "ignore", "retry-rejected"), "fail"),
    ConnectorOption("sink.delivery-guarantee", one_of("at-least-once", "none"), "at-least-once"),
    ConnectorOption("sink.flush-on-checkpoint", boolean, True, unused=_BLOCKS),
    ConnectorOption("sink.bulk-flush.max-actions", integer, _ACTIONS),
    ConnectorOption("sink.bulk-flush.max-size", memory_bytes, _BYTES),
    ConnectorOption("sink.bulk-flush.interval", duration, 1000, unused=_BLOCKS),
    ConnectorOption("sink.bulk-flush.backoff.strategy", one_of("disabled", "constant", "exponential"), "exponential"),
    ConnectorOption("sink.bulk-flush.backoff.max-retries", integer, 5),
    ConnectorOption("sink.bulk-flush.backoff.delay", duration, 200),
    ConnectorOption("connection.path-prefix", text, ""),
    ConnectorOption("connection.max-retry-timeout", duration, None, unused="requests are repeated as the backoff says"),
    ConnectorOption("connection.request-timeout", duration, None, unused="there is no pool to wait for"),
    ConnectorOption("connection.timeout", duration, 10_000),
    ConnectorOption("socket.timeout", duration, 60_000),
    ConnectorOption("allow-insecure", boolean, False),
    ConnectorOption("format", one_of("json"), "json"),
    ConnectorOption("sink.parallelism", positive, None),
)
_PLACE = re.compile(r"\{([^{}|]+)(?:\|([^{}]*))?\}")
_NOW = ("now()", "current_timestamp", "current_date")


@dataclass(frozen=True)
class IndexName:
    """The index of a row: a name, or a pattern such as ``orders-{shop}`` or ``orders-{at|yyyy-MM-dd}``.

    >>> from funken.table.types import parse_type
    >>> columns = (("shop", parse_type("STRING")), ("day", parse_type("DATE")))
    >>> import datetime
    >>> IndexName("orders-{shop}-{day|yyyy.MM}", columns).of(["north", datetime.date(2026, 11, 29)])
    'orders-north-2026.11'
    """

    pattern: str
    columns: Columns

    def check(self, path: str) -> None:
        """Raise ``InvalidProgram`` for a column that the table has not."""
        there = [name for name, _ in self.columns]
        for name, _ in _PLACE.findall(self.pattern):
            if name.strip() not in there and name.strip().lower() not in _NOW:
                raise InvalidProgram(
                    f"Table {path!r}: 'index' = {self.pattern!r} names column {name!r}; it has: {', '.join(there)}."
                )

    def of(self, row: Iterable[Any]) -> str:
        """Return the index of a row."""
        if "{" not in self.pattern:
            return self.pattern
        values = {name: value for (name, _), value in zip(self.columns, row, strict=False)}

        def filled(match: re.Match[str]) -> str:
            name, form = match[1].strip(), match[2]
            now = name.lower() in _NOW
            value = SystemClock().now() if now else values[name]
            if value is None:
                raise ValueError(f"column {name!r} is NULL, and names the index")
            if form is None and not now:
                return str(value)
            millis = value if isinstance(value, int) else _millis(value)
            return DateTimeBucketAssigner(form or "yyyy-MM-dd", "UTC").bucket_of_block(BucketContext(now=millis))

        return _PLACE.sub(filled, self.pattern)


def _millis(value: Any) -> int:
    """Return a date or time as if it were of UTC."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    return int(value.timestamp() * 1000)


@dataclass(frozen=True)
class RowToAction:
    """Makes actions of changes: with a key an upsert or a deletion, without one a new document."""

    columns: Columns
    keys: tuple[int, ...]
    delimiter: str
    index: IndexName

    def __post_init__(self) -> None:
        """Make the writers of values."""
        rules = JsonRules()
        object.__setattr__(self, "_writers", [(name, writer_of(type_, rules)) for name, type_ in self.columns])
        object.__setattr__(self, "_texts", [text_writer(self.columns[place][1])[1] for place in self.keys])

    def __reduce__(self) -> tuple[Any, ...]:
        """Writers are made anew."""
        return RowToAction, (self.columns, self.keys, self.delimiter, self.index)

    def __call__(self, row: Row) -> BulkAction:
        """Return the action of a change."""
        writers: list[tuple[str, Callable[[Any], str]]] = self._writers  # type: ignore[attr-defined]
        texts: list[Callable[[Any], Any]] = self._texts  # type: ignore[attr-defined]
        index = self.index.of(row)
        id_ = None
        if self.keys:
            parts = [text(row[place]) for place, text in zip(self.keys, texts, strict=True)]
            id_ = self.delimiter.join(map(str, parts))
            if row.get_row_kind() in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
                return BulkAction.delete(index, id_)
        document = {
            name: None if value is None else msgspec.Raw(write(value).encode())
            for (name, write), value in zip(writers, row, strict=False)
        }
        return BulkAction.index(index, document) if id_ is None else BulkAction.upsert(index, document, id_)


class DocumentSink(SinkTable):
    """Writes rows as documents."""

    def __init__(self, context: TableContext, options: OptionValues) -> None:
        self._context, self._options = context, options
        self.changelog_mode = ChangelogMode.upsert() if context.primary_key else ChangelogMode.insert_only()
        self.deletes_by_key = bool(context.primary_key)
        self._index = IndexName(options["index"], context.columns)
        self._index.check(context.path)

    def sink(self, stream: Any) -> Any:
        """Write the rows."""
        options, context = self._options, self._context
        strategy = options["sink.bulk-flush.backoff.strategy"]
        server = ElasticsearchServer(
            options["hosts"],
            username=options["username"],
            password=options["password"],
            path_prefix=options["connection.path-prefix"],
            verify=not options["allow-insecure"],
            connect_timeout=options["connection.timeout"] / 1000,
            timeout=options["socket.timeout"] / 1000,
            retries=0 if strategy == "disabled" else options["sink.bulk-flush.backoff.max-retries"],
            delay=options["sink.bulk-flush.backoff.delay"] / 1000,
            exponential=strategy == "exponential",
        )
        lost = options["failure-handler"] == "ignore" or options["sink.delivery-guarantee"] == "none"
        keys = tuple(context.names.index(name) for name in context.primary_key)
        sink = ElasticsearchSink(
            server,
            RowToAction(context.columns, keys, options["document-id.key-delimiter"], self._index),
            max_actions=options["sink.bulk-flush.max-actions"] or _ACTIONS,
            max_bytes=options["sink.bulk-flush.max-size"] or _BYTES,
            guarantee=DeliveryGuarantee.NONE if lost else DeliveryGuarantee.AT_LEAST_ONCE,
        )
        made = stream.sink_to(sink).name(context.path)
        return made if options["sink.parallelism"] is None else made.set_parallelism(options["sink.parallelism"])


class ElasticsearchFactory(TableFactory):
    """Makes tables of Elasticsearch and OpenSearch.

    >>> ElasticsearchFactory().sink(TableContext("t", options={"connector": "elasticsearch-7", "hosts": "http://es:9200"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: One or more required options are missing for table 't': index.
    Set them in its WITH clause: WITH ('index' = '...').
    """

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink of documents."""
        return DocumentSink(context, OptionValues(context.path, context.options, _OPTIONS))
