"""``'connector' = 'mongodb'``: documents, read once, written by key or appended, and looked up."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from funken.connectors.mongodb import (
    MongoServer,
    MongoSink,
    MongoSource,
    PartitionStrategy,
    codec_options,
    pymongo,
)
from funken.connectors.sink import DeliveryGuarantee
from funken.dataclass import dataclass
from funken.errors import SourceNotReadable
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import (
    FieldComparison,
    LookupTable,
    ScanTable,
    SinkTable,
    SourceCondition,
    TableContext,
)
from funken.table.connectors.databases import LOOKUP_OPTIONS, CachedLookup
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.formats import Columns
from funken.table.connectors.json_values import JsonRules, reader_of
from funken.table.connectors.options import (
    ConnectorOption,
    OptionValues,
    boolean,
    duration,
    integer,
    memory_bytes,
    one_of,
    positive,
)
from funken.table.types import ArrayType, IntegralType, LogicalType, MapType, RowType, is_text
from funken.types.row import Row, RowKind

_STRATEGIES = ("default", "single", "sample", "split-vector", "sharded", "pagination")
_OPTIONS = (
    ConnectorOption("uri"),
    ConnectorOption("database"),
    ConnectorOption("collection"),
    ConnectorOption("filter.handling.policy", one_of("always", "never"), "always"),
    ConnectorOption("scan.fetch-size", integer, 2048),
    ConnectorOption("scan.cursor.no-timeout", boolean, True, unused="no cursor stays open between two pages"),
    ConnectorOption("scan.partition.strategy", one_of(*_STRATEGIES), "default"),
    ConnectorOption("scan.partition.size", memory_bytes, 64 * 2**20),
    ConnectorOption("scan.partition.samples", integer, 10),
    *LOOKUP_OPTIONS,
    ConnectorOption("lookup.retry.interval", duration, 1000, unused="the client repeats a read that was not answered"),
    ConnectorOption("sink.buffer-flush.max-rows", integer, 1000),
    ConnectorOption("sink.buffer-flush.interval", duration, 1000, unused="the rows of a block are written at once"),
    ConnectorOption("sink.max-retries", integer, 3),
    ConnectorOption("sink.retry.interval", duration, 1000),
    ConnectorOption("sink.ordered", boolean, True),
    ConnectorOption("sink.bypass-document-validation", boolean, False),
    ConnectorOption("sink.delivery-guarantee", one_of("at-least-once", "none"), "at-least-once"),
    ConnectorOption("sink.parallelism", positive, None),
)
_OPERATORS = {"=": "$eq", "<>": "$ne", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte", "IN": "$in"}
_REMOVED = (RowKind.DELETE, RowKind.UPDATE_BEFORE)
Convert = Callable[[Any], Any]

# ---- values


def _plain(value: Any) -> Any:
    """Return a value of BSON as one that readers of columns take: ids as texts, timestamps as times."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    name = type(value).__name__
    if name == "Timestamp":
        return value.as_datetime()
    return str(value) if name in ("ObjectId", "UUID") else value


def _reader(type_: LogicalType) -> Convert:
    """Return a reader of values of a column; a text column takes any value, as extended JSON."""
    read = reader_of(type_, JsonRules())
    if not is_text(type_):
        return lambda value: read(_plain(value))
    dumps = pymongo("bson.json_util").dumps

    def read_text(value: Any) -> Any:
        plain = value if isinstance(value, dict | list) else _plain(value)
        return read(plain if isinstance(plain, str) else dumps(plain))

    return read_text


def _same(value: Any) -> Any:
    return value


def _writer(type_: LogicalType) -> Convert:
    """Return a converter of a column's values to BSON."""
    if isinstance(type_, RowType):
        writers = [(one.name, _or_none(_writer(one.type))) for one in type_.fields]
        return lambda row: {name: write(value) for (name, write), value in zip(writers, row, strict=True)}
    if isinstance(type_, ArrayType):
        element = _or_none(_writer(type_.element))
        return lambda values: [element(each) for each in values]
    if isinstance(type_, MapType):
        of_value = _or_none(_writer(type_.value))
        return lambda values: {str(key): of_value(value) for key, value in values.items()}
    return datetime.time.isoformat if type(type_).__name__ == "TimeOfDayType" else _same


def _or_none(write: Convert) -> Convert:
    return lambda value: None if value is None else write(value)


@dataclass(frozen=True)
class DocumentToRow:
    """Makes rows of documents, by the names of their fields."""

    columns: Columns
    path: str

    def values(self, document: Mapping[str, Any]) -> list[Any]:
        """Return the values of the columns; raises ``SourceNotReadable``."""
        readers = self.__dict__.get("_readers")
        if readers is None:
            readers = [(name, _reader(type_)) for name, type_ in self.columns]
            object.__setattr__(self, "_readers", readers)
        found = []
        for name, read in readers:
            value = document.get(name)
            try:
                found.append(None if value is None else read(value))
            except (ValueError, TypeError, ArithmeticError) as error:
                raise SourceNotReadable(
                    f"Table {self.path!r}: the document {document.get('_id')!r} cannot be a row: column {name!r}: {error}; "
                    "declare the column with another type, or as STRING."
                ) from None
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Readers are made anew."""
        return DocumentToRow, (self.columns, self.path)

    def __call__(self, document: Mapping[str, Any]) -> Row:
        """Return the row."""
        return Row(*self.values(document))


@dataclass(frozen=True)
class RowToWrite:
    """Makes writes of changes: with a key an update or a deletion by ``_id``, without one an insertion."""

    columns: Columns
    keys: tuple[str, ...]
    writers: list[tuple[str, Convert]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the writers of values."""
        object.__setattr__(self, "writers", [(name, _or_none(_writer(type_))) for name, type_ in self.columns])

    def __reduce__(self) -> tuple[Any, ...]:
        """Writers are made anew."""
        return RowToWrite, (self.columns, self.keys)

    def __call__(self, row: Row) -> Any:
        """Return the write of a change."""
        library = pymongo()
        document = {name: write(value) for (name, write), value in zip(self.writers, row, strict=True)}
        if "_id" in document:
            document["_id"] = id_value(document["_id"])
        if not self.keys:
            if document.get("_id", 0) is None:
                del document["_id"]
            return library.InsertOne(document)
        key = {name: document[name] for name in self.keys}
        id_ = key[self.keys[0]] if len(key) == 1 else key
        if row.get_row_kind() in _REMOVED:
            return library.DeleteOne({"_id": id_})
        document.pop("_id", None)
        change = {"$set": document} if document else {"$setOnInsert": {"_id": id_}}
        return library.UpdateOne({"_id": id_}, change, upsert=True)


def id_value(value: Any) -> Any:
    """Return the value of a column ``_id`` as the server has it: a text of 24 hexadecimal digits is an ``ObjectId``."""
    object_id = pymongo("bson").ObjectId
    return object_id(value) if isinstance(value, str) and object_id.is_valid(value) else value


# ---- tables


def _server(options: OptionValues) -> MongoServer:
    return MongoServer(options["uri"])


def condition_of(comparison: FieldComparison) -> dict[str, Any] | None:
    """Return a filter that leaves out documents which do not fulfil a comparison; ``None`` if it may compare otherwise.

    Values of another kind than the column's stay in, for they may become such values.
    """
    name = comparison.column
    if comparison.operator == "IS NULL":
        return {name: None}
    if comparison.operator == "IS NOT NULL":
        return {name: {"$ne": None}}
    is_text_column = is_text(comparison.type)
    if not is_text_column and not isinstance(comparison.type, IntegralType):
        return None
    if is_text_column and comparison.operator not in ("=", "IN"):
        return None
    values = list(comparison.values) if comparison.operator == "IN" else comparison.values[0]
    kind = "string" if is_text_column else "number"
    return {"$or": [{name: {_OPERATORS[comparison.operator]: values}}, {name: {"$not": {"$type": kind}}}]}


class MongoScan(ScanTable):
    """Reads the documents of a collection once."""

    def __init__(self, context: TableContext, options: OptionValues, conditions: Sequence[Any] = ()) -> None:
        self._context, self._options, self._conditions = context, options, tuple(conditions)

    def filtered(self, conditions: Sequence[SourceCondition]) -> tuple[ScanTable, tuple[int, ...]]:
        """Return a scan that asks the server for less."""
        if self._options["filter.handling.policy"] == "never":
            return self, ()
        found: dict[int, Any] = {}
        for place, condition in enumerate(conditions):
            comparison = condition.comparison()
            if comparison is not None and comparison.column in self._context.names:
                made = condition_of(comparison)
                if made is not None:
                    found[place] = made
        return MongoScan(self._context, self._options, [*self._conditions, *found.values()]), tuple(found)

    def selected(self, names: Sequence[str]) -> ScanTable:
        """Return a scan that asks for some fields only."""
        types = dict(self._context.columns)
        context = replace(self._context, columns=tuple((name, types[name]) for name in names))
        return MongoScan(context, self._options, self._conditions)

    def stream(self, env: Any) -> Any:
        """Return the rows."""
        options, context = self._options, self._context
        strategy = options["scan.partition.strategy"]
        source = MongoSource(
            _server(options),
            options["database"],
            options["collection"],
            query={"$and": list(self._conditions)} if self._conditions else {},
            fields=tuple(dict.fromkeys([*context.names, "_id"])),
            fetch_size=options["scan.fetch-size"],
            partition_strategy=PartitionStrategy("default" if strategy in ("split-vector", "sharded") else strategy),
            partition_size=options["scan.partition.size"],
            samples_per_partition=options["scan.partition.samples"],
        )
        return (
            env.from_source(source, None, context.path).map(DocumentToRow(context.columns, context.path)).name("rows")
        )


class MongoTable(SinkTable):
    """Writes documents: with a primary key it is their ``_id``, without one they are inserted."""

    def __init__(self, context: TableContext, options: OptionValues) -> None:
        self._context, self._options = context, options
        self.changelog_mode = ChangelogMode.upsert() if context.primary_key else ChangelogMode.insert_only()
        self.deletes_by_key = bool(context.primary_key)

    def sink(self, stream: Any) -> Any:
        """Write the rows."""
        options, context = self._options, self._context
        lost = options["sink.delivery-guarantee"] == "none"
        sink = MongoSink(
            _server(options),
            options["database"],
            options["collection"],
            RowToWrite(context.columns, context.primary_key),
            batch_size=max(1, options["sink.buffer-flush.max-rows"]),
            max_retries=options["sink.max-retries"],
            retry_interval=options["sink.retry.interval"] / 1000,
            ordered=options["sink.ordered"],
            bypass_document_validation=options["sink.bypass-document-validation"],
            guarantee=DeliveryGuarantee.NONE if lost else DeliveryGuarantee.AT_LEAST_ONCE,
        )
        made = stream.sink_to(sink).name(context.path)
        return made if options["sink.parallelism"] is None else made.set_parallelism(options["sink.parallelism"])


class MongoLookup(CachedLookup):
    """Looks documents up by fields."""

    def __init__(self, context: TableContext, options: OptionValues, keys: Sequence[str]) -> None:
        super().__init__(options)
        self._server, self._keys = _server(options), tuple(keys)
        self._place = options["database"], options["collection"]
        self._rows_of = DocumentToRow(context.columns, context.path)
        types = dict(context.columns)
        self._types = tuple(types[name] for name in keys)
        self._client: Any = None

    def open(self) -> None:
        """Connect."""
        self._client = self._server.connect()

    def read(self, key: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Ask the server."""
        database, collection = self._place
        condition = {
            name: id_value(part) if name == "_id" else _writer(type_)(part)
            for name, type_, part in zip(self._keys, self._types, key, strict=True)
        }
        try:
            found = list(self._client[database].get_collection(collection, codec_options()).find(condition))
        except self._server.errors as error:
            raise SourceNotReadable(f"a lookup of {condition!r:.200} fails: {self._server.problem(error)}") from error
        return [tuple(self._rows_of.values(document)) for document in found]

    def close(self) -> None:
        """Close the client."""
        if self._client is not None:
            self._client.close()


class MongoFactory(TableFactory):
    """Makes tables of MongoDB.

    >>> MongoFactory().scan(TableContext("t", options={"connector": "mongodb", "uri": "mongodb://db", "database": "shop"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: One or more required options are missing for table 't': collection.
    Set them in its WITH clause: WITH ('collection' = '...').
    """

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the collection."""
        return MongoScan(context, OptionValues(context.path, context.options, _OPTIONS))

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink to the collection."""
        return MongoTable(context, OptionValues(context.path, context.options, _OPTIONS))

    def lookup(self, context: TableContext, keys: Sequence[str]) -> LookupTable:
        """Return a lookup of documents."""
        return MongoLookup(context, OptionValues(context.path, context.options, _OPTIONS), keys)
