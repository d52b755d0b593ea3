"""``'connector' = 'values'``: rows of this process, for tests of queries; written rows stay in this process.

Rows are registered under an id (``register_rows``), which the option ``data-id`` names. With ``result-path`` results are files of
that folder, for tests whose writers are in other processes (``written_results``). A source hands out one row at a time, so that
several sources take turns. A sink with a primary key fails on a deletion of a row that it does not have.
"""

from __future__ import annotations

import glob
import itertools
import pickle
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    ConnectorContext,
    NeedSplits,
    QueuedReader,
    Source,
    SplitEnumerator,
    StaticSplits,
    Wait,
)
from funken.connectors.sink import Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import LookupTable, ScanTable, SinkTable, TableContext
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.options import ConnectorOption, OptionValues, boolean, duration, text
from funken.types.row import Row, RowKind

_rows: dict[str, list[Row]] = {}
_results: dict[str, KeptChanges] = {}
_ids = itertools.count(1)

_OPTIONS = (
    ConnectorOption("data-id", text, ""),
    ConnectorOption("changelog-mode", ChangelogMode.parse, None),
    ConnectorOption("bounded", boolean, True),
    ConnectorOption("disable-lookup", boolean, True),
    ConnectorOption("async", boolean, False),
    ConnectorOption("filterable-fields", text, ""),
    ConnectorOption("enable-projection-push-down", boolean, True),
    ConnectorOption("enable-watermark-push-down", boolean, False),
    ConnectorOption("readable-metadata", text, ""),
    ConnectorOption("writable-metadata", text, ""),
    ConnectorOption("partition-list", text, ""),
    ConnectorOption("sink-insert-only", boolean, False),
    ConnectorOption("sink-changelog-mode-enforced", ChangelogMode.parse, None),
    ConnectorOption("sink.supports-delete-by-key", boolean, False),
    ConnectorOption("source.produces-delete-by-key", boolean, False),
    ConnectorOption("enable-vector-search", boolean, False),
    ConnectorOption("result-id", text, ""),
    ConnectorOption("result-path", text, ""),
    ConnectorOption("hold-open", boolean, False),
    ConnectorOption("start-delay", duration, 0),
)


def register_rows(rows: Iterable[Any]) -> str:
    """Keep rows (tuples, or ``Row``s with row kinds) and return the id by which the option ``data-id`` names them.

    >>> len(rows_of(register_rows([(1, "a"), Row.of_kind(RowKind.DELETE, 1, "a")])))
    2
    """
    name = f"rows-{next(_ids)}"
    _rows[name] = [row if isinstance(row, Row) else Row(*row) for row in rows]
    return name


def rows_of(data_id: str) -> list[Row]:
    """Return the rows that are registered under an id; none for an empty id."""
    if not data_id:
        return []
    if data_id not in _rows:
        raise InvalidProgram(f"no rows are registered as {data_id!r}; call register_rows() and use its result.")
    return _rows[data_id]


class KeptChanges:
    """The input of a sink: the changes in order, and the rows that are left of them."""

    def __init__(self, key: tuple[int, ...] = ()) -> None:
        self.changes: list[Row] = []
        self.key = key
        self._by_key: dict[tuple[Any, ...], Row] = {}

    def add(self, row: Row) -> None:
        """Take a change; raises ``ValueError`` for a deletion of a key that is not there."""
        if self.key:
            key = tuple(_hashable(row[index]) for index in self.key)
            if row.get_row_kind() in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
                if self._by_key.pop(key, None) is None:
                    raise ValueError(f"the sink has no row to delete for the key {key}: {row!r}")
            else:
                self._by_key[key] = row
        self.changes.append(row)

    def rows(self) -> list[Row]:
        """Return the rows that are left, as insertions."""
        if self.key:
            return [_inserted(row) for row in self._by_key.values()]
        left: list[Row] = []
        for row in self.changes:
            plain = _inserted(row)
            if row.get_row_kind() in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
                left.remove(plain)
            else:
                left.append(plain)
        return left


def results_of(result_id: str, key: tuple[int, ...] = ()) -> KeptChanges:
    """Return the changes of sinks with this ``result-id``; they keep one list.

    >>> results_of("nothing yet").changes
    []
    """
    return _results.setdefault(result_id, KeptChanges(key))


def _inserted(row: Row) -> Row:
    return Row(*row)


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((_hashable(key), _hashable(item)) for key, item in value.items())
    return value


@dataclass(frozen=True, slots=True)
class RowsSplit:
    """The rows from ``offset`` on."""

    offset: int = 0
    id: ClassVar[str] = "rows"


@dataclass(frozen=True)
class RowsInTurns(Source[Row]):
    """Rows, one at a time; it stays open behind the last one if it is not bounded."""

    rows: tuple[Row, ...]
    boundedness: Boundedness = Boundedness.BOUNDED
    delay: int = 0
    max_parallelism = 1

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator of the one split."""
        return StaticSplits((RowsSplit(),), parallelism)

    def reader(self, context: ConnectorContext) -> SourceReaderInTurns:
        """Make a reader."""
        return SourceReaderInTurns(self.rows, self.boundedness is not Boundedness.BOUNDED, self.delay, context)


class SourceReaderInTurns(QueuedReader):
    """Reads one row per call."""

    def __init__(self, rows: tuple[Row, ...], stays_open: bool, delay: int, context: ConnectorContext) -> None:
        super().__init__(context)
        self._rows = rows
        self._stays_open = stays_open
        self._delay = delay
        self._begin: int | None = None

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read from the beginning: after a restore there are other rows."""
        super().add_splits([RowsSplit() for _ in splits])

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next row."""
        if self._begin is None:
            self._begin = now + self._delay
        if now < self._begin:
            return Wait(self._begin - now)
        while self.queue:
            offset = self.queue[0].offset
            if offset < len(self._rows):
                self.queue[0] = RowsSplit(offset + 1)
                return Batch([self._rows[offset]], split=RowsSplit.id)
            if self._stays_open:
                return Wait(50)
            self.end_split()
        return NEED_SPLITS


class ValuesScan(ScanTable):
    """Reads registered rows."""

    def __init__(self, context: TableContext, options: OptionValues) -> None:
        self._rows = tuple(rows_of(options["data-id"]))
        self._name = context.path
        self._delay = options["start-delay"]
        self.changelog_mode = options["changelog-mode"] or ChangelogMode.insert_only()
        self.takes_watermarks = options["enable-watermark-push-down"]
        self.bounded = options["bounded"] and not options["hold-open"]
        self.deletes_by_key = options["source.produces-delete-by-key"]

    def stream(self, env: Any) -> Any:
        """Return the rows, one by one."""
        endless = Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED
        return env.from_source(RowsInTurns(self._rows, endless, self._delay), self.watermarks, self._name)


@dataclass(frozen=True)
class KeptRows(Sink):
    """Keeps rows in this process, or in files of a folder."""

    result_id: str
    key: tuple[int, ...]
    folder: str = ""
    never_waits = True

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        if self.folder:
            return WrittenRowsWriter(Path(self.folder, f"{self.result_id}.{context.subtask}.{uuid.uuid4().hex}"))
        return KeptRowsWriter(results_of(self.result_id, self.key))


class KeptRowsWriter(SinkWriter):
    """Adds rows to the results."""

    def __init__(self, results: KeptChanges) -> None:
        self._results = results

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Add a block."""
        for row in values:
            self._results.add(row)


class WrittenRowsWriter(SinkWriter):
    """Appends rows to a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Add a block."""
        self._file.write(pickle.dumps(values))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def written_results(folder: str | Path, result_id: str, key: tuple[int, ...] = ()) -> KeptChanges:
    """Return the changes of sinks with a ``result-path`` and this ``result-id``, one writer after the other."""
    results = KeptChanges(key)
    for path in sorted(Path(folder).glob(f"{glob.escape(result_id)}.*")):
        with path.open("rb") as file, suppress(EOFError):
            while True:
                for row in pickle.load(file):
                    results.add(row)
    return results


@dataclass(frozen=True)
class InOrder:
    """Puts the values of rows into another order."""

    places: tuple[int, ...]

    def __call__(self, row: Row) -> Row:
        """Return the row with its values in order."""
        return Row.of_kind(row.get_row_kind(), *(row[place] for place in self.places))


class ValuesSink(SinkTable):
    """Writes rows to where the test finds them, without those of earlier jobs."""

    overwrites_by_streams = True

    def __init__(self, context: TableContext, options: OptionValues) -> None:
        upsert = bool(context.primary_key)
        mode = options["sink-changelog-mode-enforced"]
        if mode is None:
            mode = ChangelogMode.upsert(False) if upsert else ChangelogMode.all()
        if options["sink-insert-only"]:
            mode = ChangelogMode.insert_only()
        self.changelog_mode = mode
        self.deletes_by_key = options["sink.supports-delete-by-key"]
        self._name = context.path
        self._id = options["result-id"] or context.path
        self._folder = options["result-path"]
        self._key = tuple(context.names.index(name) for name in context.primary_key)
        order = [pair.split(":")[0].strip() for pair in options["writable-metadata"].split(",")]
        asked = [key for key, _ in context.metadata]
        places = [len(context.names) + asked.index(key) for key in order if key in asked]
        self._order = (*range(len(context.names)), *places)

    def overwriting(self, partition: Mapping[str, str]) -> SinkTable:
        """Return this sink."""
        return self

    def sink(self, stream: Any) -> Any:
        """Keep the rows, metadata in the order in which the connector lists it."""
        if self._order != tuple(range(len(self._order))):
            stream = stream.map(InOrder(self._order)).name("metadata")
        return stream.sink_to(KeptRows(self._id, self._key, self._folder)).name(self._name)


class ValuesLookup(LookupTable):
    """Looks registered rows up, as they are when the job begins."""

    def __init__(self, rows: Sequence[Row], keys: Sequence[int]) -> None:
        self._rows = [tuple(row) for row in rows]
        self._keys = tuple(keys)
        self._index: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}

    def open(self) -> None:
        """Index the rows by key."""
        self._index = {}
        for row in self._rows:
            self._index.setdefault(tuple(_hashable(row[index]) for index in self._keys), []).append(row)

    def lookup(self, keys: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each key."""
        return [self._index.get(tuple(map(_hashable, key)), []) for key in keys]


class ValuesFactory(TableFactory):
    """Makes tables of registered rows."""

    def _options(self, context: TableContext) -> OptionValues:
        return OptionValues(context.path, context.options, _OPTIONS)

    def metadata_of(self, context: TableContext) -> dict[str, str]:
        """Return the keys of ``readable-metadata`` and ``writable-metadata``: ``key:TYPE,key:TYPE``."""
        options = self._options(context)
        pairs = f"{options['readable-metadata']},{options['writable-metadata']}".split(",")
        return dict(pair.strip().split(":", 1) for pair in pairs if ":" in pair)

    def writable_of(self, context: TableContext) -> list[str]:
        """Return the keys of ``writable-metadata``."""
        return [pair.split(":")[0].strip() for pair in self._options(context)["writable-metadata"].split(",")]

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the rows."""
        return ValuesScan(context, self._options(context))

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink that keeps the rows."""
        return ValuesSink(context, self._options(context))

    def lookup(self, context: TableContext, keys: Sequence[str]) -> LookupTable:
        """Return a lookup of rows."""
        options = self._options(context)
        columns = context.names
        return ValuesLookup(rows_of(options["data-id"]), [columns.index(key) for key in keys])

    def has_lookup(self, context: TableContext) -> bool:
        """Return True if the option ``disable-lookup`` allows lookups."""
        return not self._options(context)["disable-lookup"]

    def has_vector_search(self, context: TableContext) -> bool:
        """Return True if the option ``enable-vector-search`` allows it."""
        return bool(self._options(context)["enable-vector-search"])
