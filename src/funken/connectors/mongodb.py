"""MongoDB: the documents of a collection as a source, writes as a sink, and how a server is reached.

It is the only module that imports ``pymongo`` and ``bson``. A ``MongoServer`` travels to the tasks; a password in it is in no
``repr`` and in no error.
"""

from __future__ import annotations

import datetime
import enum
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

from funken import extras
from funken.connectors.base import Batch, ConnectorContext, Service, Source
from funken.connectors.formats.record_types import as_document, named_document
from funken.connectors.reading import PolledReader, SplitRecords
from funken.connectors.schemas import Document
from funken.connectors.sink import DeliveryGuarantee, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable, SourceNotReadable
from funken.types.callables import Generic, RECORD_contra

_SHOWN = 300
_AUTHENTICATION, _UNAUTHORIZED, _DUPLICATE, _NO_STAGE = 18, 13, 11000, 40324
_TRANSIENT = frozenset({6, 7, 50, 89, 91, 112, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
"""Codes of errors that pass: a primary that steps down, a host that is away, a write conflict, a time that was exceeded."""
_REMEDIES = {
    _AUTHENTICATION: "correct user, password and authSource in the URI",
    _UNAUTHORIZED: "grant the user readWrite on the database",
    121: "correct the record in a map() before, or the validation of the collection",
    _DUPLICATE: "write by key (MongoUpsert), so that a repeated record does no harm",
}


def pymongo(module: str = "pymongo") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required(module, "mongodb", "the MongoDB connectors need pymongo")


@dataclass(frozen=True)
class MongoServer(Service):
    """A server or replica set by its URI, ``mongodb://user:password@host:27017/?replicaSet=..`` or ``mongodb+srv://..``.

    ``timeout`` (seconds) bounds the search for a server that answers. A password is not shown.

    >>> MongoServer("mongodb://ada:secret@db.example:27017")
    MongoServer('db.example:27017')
    >>> MongoServer("db.example:27017")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: the URI of a MongoServer begins with mongodb:// or mongodb+srv:// (it is not shown: there
    may be a password in it); write 'mongodb://host:27017'.
    """

    uri: str = field(repr=False)
    timeout: float = 10.0

    def __post_init__(self) -> None:
        """Check that it is a URI of MongoDB."""
        if not re.match(r"mongodb(\+srv)?://[^/]", self.uri):
            raise InvalidConfiguration(
                "the URI of a MongoServer begins with mongodb:// or mongodb+srv:// (it is not shown: there may be a password in "
                "it); write 'mongodb://host:27017'."
            )

    def __repr__(self) -> str:
        hosts = self.uri.partition("://")[2].partition("/")[0].rpartition("@")[2]
        return f"MongoServer({hosts!r})"

    def connect(self) -> Any:
        """Return a client; it connects when it is used."""
        library = pymongo()
        try:
            return library.MongoClient(
                self.uri, serverSelectionTimeoutMS=int(self.timeout * 1000), appname="funken", tz_aware=True
            )
        except (library.errors.PyMongoError, ValueError) as error:
            raise InvalidConfiguration(f"{self!r}: the client refuses the URI: {error}; correct it.") from None

    def check(self, client: Any) -> None:
        """Reach the server, as the user of the URI."""
        client.admin.command("ping")

    @property
    def errors(self) -> Any:
        """The exceptions of a client."""
        return pymongo("pymongo.errors").PyMongoError

    def problem(self, error: Exception) -> str:
        """Return an error of the client as a sentence, with the remedy."""
        code = getattr(error, "code", None)
        said = str(error).partition(", full error:")[0].partition(", Timeout:")[0][:_SHOWN]
        if isinstance(error, pymongo("pymongo.errors").ConnectionFailure):
            return f"{self!r} does not answer ({said}); start it, or correct the URI."
        remedy = _REMEDIES.get(code or 0, "see the log of the server")
        return f"{self!r} answers {said!r}{f' ({code})' if code else ''}; {remedy}."


def _document_value(value: Any) -> Any:
    """Return a value without a type of BSON as one that has it; the encoder raises for values that stay as they are."""
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    if isinstance(value, set | frozenset):
        return list(value)
    if hasattr(value, "dtype"):
        return value.tolist()
    return as_document(value)


@cache
def codec_options() -> Any:
    """Return the options for reading and writing: aware times, ``Decimal``, ``UUID``, and records within records."""
    codec, decimals = pymongo("bson.codec_options"), pymongo("bson.decimal128")

    class DecimalCodec(codec.TypeCodec):  # type: ignore[misc, name-defined]
        python_type = Decimal
        bson_type = decimals.Decimal128

        def transform_python(self, value: Decimal) -> Any:
            return decimals.Decimal128(value)

        def transform_bson(self, value: Any) -> Decimal:
            found: Decimal = value.to_decimal()
            return found

    registry = codec.TypeRegistry([DecimalCodec()], fallback_encoder=_document_value)
    standard = pymongo("bson.binary").UuidRepresentation.STANDARD
    return codec.CodecOptions(type_registry=registry, tz_aware=True, uuid_representation=standard)


# ---- The documents of a collection as a source, in the order of ``_id``.
#
# A split is a range of ``_id`` whose values have one type: a comparison of MongoDB never matches a value of another type, so a
# range across types would leave documents out. A split is read in pages, each a query by the index of ``_id`` from the last
# document on; no cursor stays open on the server while a job is held up.

_TYPES = ("null", "number", "string", "object", "binData", "objectId", "bool", "date", "timestamp")
_TRIES, _PAUSE_S = 5, 0.2


class PartitionStrategy(enum.Enum):
    """A strategy that cuts a collection into ranges of ``_id``.

    ``SAMPLE`` draws documents, ``PAGINATION`` counts them, ``SINGLE`` cuts nothing. ``DEFAULT`` draws, and counts on servers
    that draw none.
    """

    DEFAULT = "default"
    SINGLE = "single"
    SAMPLE = "sample"
    PAGINATION = "pagination"


@dataclass(frozen=True)
class MongoSource(Source[Document]):
    """The documents of a collection, once, as dicts; exactly once, since the last ``_id`` is in checkpoints.

    ``query`` is a filter of MongoDB. ``fields`` are names that are read; without ``_id`` among them it is left out. Parallel
    readers share the ranges that ``partition_strategy`` cuts, each of about ``partition_size`` bytes. Documents that change while
    they are read are there as they were before or after.

    >>> source = MongoSource(MongoServer("mongodb://db.example"), "shop", "orders", query={"state": "new"}, fields=["item"])
    >>> source.fetch_size, source.partition_strategy.name
    (2048, 'DEFAULT')
    >>> MongoSource(MongoServer("mongodb://db.example"), "shop", "orders", fetch_size=0)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: MongoSource: fetch_size is 0; pass a positive number.
    """

    server: MongoServer
    database: str
    collection: str
    query: Mapping[str, Any] = field(default_factory=dict, hash=False)
    fields: Sequence[str] = ()
    fetch_size: int = 2048
    partition_strategy: PartitionStrategy = PartitionStrategy.DEFAULT
    partition_size: int = 64 * 2**20
    samples_per_partition: int = 10

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the server."""
        _check_names(self)
        _check_positive(self, "fetch_size", "partition_size", "samples_per_partition")
        if isinstance(self.fields, str):
            raise InvalidConfiguration(f"MongoSource: fields is {self.fields!r}; pass a list of names.")
        object.__setattr__(self, "fields", tuple(self.fields))

    def list_splits(self) -> Sequence[MongoSplit]:
        """Look at the collection; return its ranges."""
        with self.server.reached(f"the collection {self.collection!r}", SourceNotReadable) as client:
            return self._cut(client)

    def _cut(self, client: Any) -> list[MongoSplit]:
        database = client[self.database]
        collection = database.get_collection(self.collection, codec_options())
        kinds = [kind for kind in _TYPES if collection.find_one({"_id": {"$type": kind}}, {"_id": 1})]
        strange = collection.find_one({"_id": {"$not": {"$type": list(_TYPES)}}}, {"_id": 1})
        if strange is not None:
            raise SourceNotReadable(
                f"the collection {self.collection!r} has an _id of a type that cannot be compared: {strange['_id']!r}; remove "
                "the document."
            )
        if not kinds and self.collection not in database.list_collection_names():
            raise SourceNotReadable(
                f"{self.server!r} has no collection {self.collection!r} in database {self.database!r}; create it, or "
                "correct its name."
            )
        count = 1
        if kinds and self.partition_strategy is not PartitionStrategy.SINGLE:
            size = database.command("collStats", self.collection).get("size", 0)
            count = max(1, math.ceil(size / self.partition_size))
        splits: list[MongoSplit] = []
        for kind in kinds:
            bounds = [None, *self._bounds(collection, kind, count), None]
            for lower, upper in pairwise(bounds):
                splits.append(MongoSplit(str(len(splits)), kind, lower, upper))
        return splits

    def _bounds(self, collection: Any, kind: str, count: int) -> list[Any]:
        """Return the bounds of the ranges by a strategy, without the first."""
        if count == 1:
            return []
        strategy = self.partition_strategy
        if strategy is not PartitionStrategy.PAGINATION:
            try:
                return self._sampled(collection, kind, count)
            except pymongo("pymongo.errors").OperationFailure as error:
                is_unknown = error.code == _NO_STAGE or "$sample" in str(error)
                if strategy is not PartitionStrategy.DEFAULT or not is_unknown:
                    raise
        return self._counted(collection, kind, count)

    def _sampled(self, collection: Any, kind: str, count: int) -> list[Any]:
        stages = [
            {"$match": {"_id": {"$type": kind}}}, {"$sample": {"size": count * self.samples_per_partition}},
            {"$project": {"_id": 1}}, {"$sort": {"_id": 1}},
        ]  # fmt: skip
        drawn = [document["_id"] for document in collection.aggregate(stages, allowDiskUse=True)]
        drawn = [one for one, before in zip(drawn, [None, *drawn], strict=False) if one != before]
        step = self.samples_per_partition
        return drawn[step::step]

    def _counted(self, collection: Any, kind: str, count: int) -> list[Any]:
        there = collection.count_documents({"_id": {"$type": kind}})
        step = max(1, math.ceil(there / count))
        found: list[Any] = []
        while len(found) < count - 1:
            condition = MongoSplit("", kind, lower=found[-1] if found else None).condition()
            page = collection.find({"_id": condition}, {"_id": 1}).sort("_id", 1).skip(step).limit(1)
            following = [document["_id"] for document in page]
            if not following:
                break
            found += following
        return found

    def reader(self, context: ConnectorContext) -> MongoReader:
        """Make a reader."""
        return MongoReader(self, context)


def _check_names(connector: Any) -> None:
    for name in ("database", "collection"):
        if not getattr(connector, name):
            raise InvalidConfiguration(f"{type(connector).__name__}: it needs the name of a {name}.")


def _check_positive(connector: Any, *names: str) -> None:
    for name in names:
        if getattr(connector, name) < 1:
            raise InvalidConfiguration(
                f"{type(connector).__name__}: {name} is {getattr(connector, name)}; pass a positive number."
            )


@dataclass(frozen=True, slots=True)
class MongoSplit:
    """Documents whose ``_id`` has a type: from ``lower`` on, before ``upper``, after ``last``; ``None``: no bound."""

    id: str
    type: str
    lower: Any = None
    upper: Any = None
    last: Any = None

    def condition(self) -> dict[str, Any]:
        """Return the condition on ``_id``.

        >>> MongoSplit("0", "string", lower="b", last="m").condition()
        {'$type': 'string', '$gt': 'm'}
        """
        found: dict[str, Any] = {"$type": self.type}
        if self.last is not None:
            found |= {"$gte": -math.inf} if self.last != self.last else {"$gt": self.last}  # NaN is before all numbers
        elif self.lower is not None:
            found["$gte"] = self.lower
        return found if self.upper is None else {**found, "$lt": self.upper}


class MongoReader(PolledReader):
    """Reads one split after the other, page by page."""

    def __init__(self, source: MongoSource, context: ConnectorContext) -> None:
        super().__init__(context)
        self._source, self.service, self.place = source, source.server, f"the collection {source.collection!r}"
        self._client: Any = None
        self._projection = {name: 1 for name in source.fields} | {"_id": 1} if source.fields else None
        self._drops_id = bool(source.fields) and "_id" not in source.fields
        self._decode = pymongo("bson").decode_all

    def fetch(self, splits: Sequence[MongoSplit]) -> Sequence[SplitRecords]:
        """Read the next page of the first split; a connection that is lost is made again."""
        split = splits[0]
        for attempt in range(1, _TRIES + 1):
            try:
                raw = self._page(split)
                break
            except pymongo("pymongo.errors").PyMongoError as error:
                if not _is_transient(error) or attempt == _TRIES or self.fetcher.pause(_PAUSE_S * 2**attempt):
                    raise
        documents = self._decode(raw, codec_options())
        complete = len(documents) < self._source.fetch_size or split.type == "null"  # there is one null at most
        following = None if complete else self.advance(split, documents)
        return [SplitRecords(split.id, documents, following, len(raw))]

    def _page(self, split: MongoSplit) -> bytes:
        source = self._source
        condition: dict[str, Any] = {"_id": split.condition()}
        if source.query:
            condition = {"$and": [dict(source.query), condition]}
        if self._client is None:
            self._client = source.server.connect()
        size = source.fetch_size
        collection = self._client[source.database].get_collection(source.collection, codec_options())
        cursor = collection.find_raw_batches(condition, self._projection, batch_size=size)
        return b"".join(cursor.sort("_id", 1).limit(size))

    def advance(self, split: MongoSplit, records: Sequence[Any]) -> MongoSplit:
        """Go on after the last document."""
        return replace(split, last=records[-1]["_id"])

    def batch(self, split: MongoSplit, records: Sequence[Any]) -> Batch:
        """Return the documents, without ``_id`` if it was not asked for."""
        if self._drops_id:
            records = [{name: value for name, value in each.items() if name != "_id"} for each in records]
        return Batch(list(records), split=split.id)

    def disconnect(self) -> None:
        """Close the client."""
        if self._client is not None:
            self._client.close()


def _is_transient(error: Any) -> bool:
    return isinstance(error, pymongo("pymongo.errors").AutoReconnect) or getattr(error, "code", None) in _TRANSIENT


# ---- Writes as a sink: at least once.
#
# The writes of a block are sent before ``write`` returns, so a checkpoint covers only what the server has. After a failure they
# are sent again: a write by key does no harm then. Without a key the server has the document twice.


def insert(record: object) -> Any:
    """Return the insertion of a record; without an ``_id`` the client makes one.

    >>> insert({"item": "tea"})
    InsertOne({'item': 'tea'})
    """
    return pymongo().InsertOne(dict(named_document(record)))


class MongoUpsert:
    """Writes each record in place of the one with its key: ``_id`` is the value of one field, or a document of several.

    >>> order = {"number": 7, "item": "tea"}
    >>> MongoUpsert("number").key(order), MongoUpsert("number", "item").key(order)
    (7, {'number': 7, 'item': 'tea'})
    """

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        if not keys:
            raise InvalidConfiguration("MongoUpsert: it needs the name of a field, or of several.")

    def key(self, document: Mapping[str, Any]) -> Any:
        """Return the ``_id`` of a document."""
        missing = [name for name in self.keys if document.get(name) is None]
        if missing:
            told = "None" if missing[0] in document else "missing"
            raise ValueError(f"its field {missing[0]!r} is {told}, and is its key")
        return document[self.keys[0]] if len(self.keys) == 1 else {name: document[name] for name in self.keys}

    def __call__(self, record: Any) -> Any:
        """Return the write of a record."""
        document = named_document(record)
        key = self.key(document)
        return pymongo().ReplaceOne({"_id": key}, {"_id": key, **document}, upsert=True)


@dataclass(frozen=True)
class MongoSink(Sink[RECORD_contra], Generic[RECORD_contra]):
    """Writes to a collection: ``serialize(record)`` returns a write of pymongo (``InsertOne``, ``UpdateOne``, ..) or several.

    By default records are inserted; ``MongoUpsert("number")`` writes them by key, so that each is there once whatever fails. A
    request has up to ``batch_size`` writes. Those that fail for a while are sent again, ``max_retries`` times. A write that the
    server refuses fails the job with ``SinkNotWritable``. With ``DeliveryGuarantee.NONE`` it is counted instead
    (``numRecordsSendErrors``) and left out.

    >>> sink = MongoSink(MongoServer("mongodb://db.example"), "shop", "orders", MongoUpsert("number"))
    >>> sink.guarantee
    <DeliveryGuarantee.AT_LEAST_ONCE: 'at-least-once'>
    >>> MongoSink(MongoServer("mongodb://db.example"), "shop", "orders", guarantee=DeliveryGuarantee.EXACTLY_ONCE)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: MongoSink: there is no exactly-once. Use AT_LEAST_ONCE and write by key ...
    """

    server: MongoServer
    database: str
    collection: str
    serialize: Callable[[RECORD_contra], Any] = insert
    batch_size: int = 1000
    max_retries: int = 3
    retry_interval: float = 1.0
    ordered: bool = True
    bypass_document_validation: bool = False
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        _check_names(self)
        _check_positive(self, "batch_size")
        if self.max_retries < 0 or self.retry_interval < 0:
            raise InvalidConfiguration("MongoSink: max_retries and retry_interval are at least 0; correct them.")
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise InvalidConfiguration(
                "MongoSink: there is no exactly-once. Use AT_LEAST_ONCE and write by key (MongoUpsert): a repeated write then "
                "writes the same document."
            )

    def check(self) -> None:
        """Reach the server."""
        with self.server.reached(f"the collection {self.collection!r}", SinkNotWritable) as client:
            self.server.check(client)

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return MongoWriter(self, context)


class MongoWriter(SinkWriter):
    """Sends the writes of a block, in their order, in requests of bounded size."""

    def __init__(self, sink: MongoSink[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._client: Any = None
        self._collection: Any = None
        library = pymongo()
        self._kinds = (
            library.InsertOne, library.ReplaceOne, library.UpdateOne, library.UpdateMany, library.DeleteOne, library.DeleteMany,
        )  # fmt: skip

    def open(self) -> None:
        """Make the client."""
        self._client = self._sink.server.connect()
        self._collection = self._client[self._sink.database].get_collection(self._sink.collection, codec_options())

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Send a block."""
        writes = [write for value in values for write in self._writes(value)]
        for start in range(0, len(writes), self._sink.batch_size):
            self._send(writes[start : start + self._sink.batch_size])
        self.count_sent(len(values))

    def _writes(self, value: Any) -> list[Any]:
        sink = self._sink
        try:
            made = sink.serialize(value)
        except (TypeError, ValueError) as error:
            if sink.serialize is insert or isinstance(sink.serialize, MongoUpsert):
                raise self.failure(f"the record {value!r:.200} cannot be written: {error}.") from error
            raise
        found = [made] if isinstance(made, self._kinds) else list(made) if isinstance(made, Iterable) else [made]
        for each in found:
            if not isinstance(each, self._kinds):
                raise self.failure(
                    f"the function of the sink returned {each!r:.200} for a record; return InsertOne, ReplaceOne, UpdateOne or "
                    "DeleteOne of pymongo, or a list of them."
                )
        return found

    def _send(self, writes: list[Any]) -> None:
        """Send writes; those that failed for a while are sent again."""
        sink, errors, attempt = self._sink, pymongo("pymongo.errors"), 0
        while writes:
            try:
                self._collection.bulk_write(
                    writes, ordered=sink.ordered, bypass_document_validation=sink.bypass_document_validation or None
                )
                return
            except errors.BulkWriteError as error:
                writes, problem = self._left(writes, error.details, attempt > 0)
            except (errors.InvalidDocument, errors.DocumentTooLarge, OverflowError, ArithmeticError) as error:
                raise self.failure(
                    f"a record is no document for the collection {sink.collection!r}: {error}; convert it in a map() before."
                ) from error
            except errors.PyMongoError as error:
                problem = sink.server.problem(error)
                if not _is_transient(error):
                    raise self.failure(f"the collection {sink.collection!r} cannot be written: {problem}") from error
            if not problem:
                continue
            if attempt == sink.max_retries:
                raise self.failure(
                    f"the collection {sink.collection!r} cannot be written after {attempt} retries: {problem}"
                )
            attempt += 1
            time.sleep(sink.retry_interval)

    def _left(self, writes: list[Any], details: Mapping[str, Any], was_sent: bool) -> tuple[list[Any], str]:
        """Return the writes to be sent again, and why they have to wait; raise for one that is refused for good."""
        sink, faults = self._sink, {each["index"]: each for each in details.get("writeErrors", ())}
        again, problem = [], ""
        for index, fault in faults.items():
            code, said = fault.get("code"), str(fault.get("errmsg", ""))[:_SHOWN]
            if was_sent and code == _DUPLICATE and self._is_there(writes[index]):
                continue
            if code in _TRANSIENT:
                again.append(writes[index])
                problem = f"{sink.server!r} answers {said!r} ({code})"
            elif sink.guarantee is DeliveryGuarantee.NONE:
                self.count_errors(1)
            else:
                self.count_errors(1)
                raise self.failure(
                    f"the collection {sink.collection!r} refuses {writes[index]!r:.200}: {said} ({code}); "
                    f"{_REMEDIES.get(code or 0, 'correct the record in a map() before')}."
                )
        if faults and sink.ordered:  # the server has stopped at the fault
            again += writes[max(faults) + 1 :]
        for fault in details.get("writeConcernErrors", ()):
            again, problem = writes, f"{sink.server!r} answers {str(fault.get('errmsg', ''))[:_SHOWN]!r}"
        return again, problem

    def _is_there(self, write: Any) -> bool:
        """Return True if an earlier attempt, whose answer was lost, has inserted this very document."""
        if not isinstance(write, self._kinds[0]):
            return False
        encode = pymongo("bson").encode
        sent: Any = write._doc
        found = self._collection.find_one({"_id": sent["_id"]})
        return found is not None and bool(
            encode(found, codec_options=codec_options()) == encode(sent, codec_options=codec_options())
        )

    def close(self) -> None:
        """Close the client."""
        if self._client is not None:
            self._client.close()


__all__ = [
    "MongoReader",
    "MongoServer",
    "MongoSink",
    "MongoSource",
    "MongoSplit",
    "MongoUpsert",
    "PartitionStrategy",
    "codec_options",
    "insert",
    "pymongo",
]
