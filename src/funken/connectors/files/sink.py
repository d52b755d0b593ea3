"""Files as a sink: written hidden, visible only when the job's driver commits them.

A *part* file has a hidden name while it is written (``.part-<uuid>-<n>.inprogress.<attempt>``), is *pending* once it
is closed, and gets its name (``part-<uuid>-<n>``) by a rename when what it holds is committed: at a completed
checkpoint, or at the end of the job. So a reader never sees a file that is not whole, and a failed attempt leaves no
visible file.

Every checkpoint closes all part files; a rolling policy only closes them earlier. (Flink can keep one open over
several checkpoints, since it can truncate; what becomes visible at a checkpoint is the same.) With compaction
(``compaction.py``), files that are closed wait until several of them become one.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import IO, Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from funken.columnar.block import Block
from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.files.compaction import (
    FileCommitter,
    FileCompactor,
    FileCompactStrategy,
    PendingFile,
    WaitingFiles,
)
from funken.connectors.files.file_format import BulkFormat, BulkWriter
from funken.connectors.files.line_files import RowWriter
from funken.connectors.files.part_files import Encoder, OutputFileConfig, RollingPolicy, explained
from funken.connectors.schemas import of_funken
from funken.connectors.sink import Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, InvalidProgram, SinkNotWritable
from funken.ids import MIN_TIMESTAMP, Millis
from funken.io.durations import DurationLike, duration_ms
from funken.io.filesystem import absolute, locate
from funken.types.callables import Generic, S, T_contra, check_kind
from funken.types.info import TypeInformation

# ---- Which folder below a file sink's base path a record goes to.
#
# An assigner is asked for a whole block first (``bucket_of_block``), since most know the folder without looking at
# the records; only if it does not is it asked record by record. The empty string is the base path itself.


# Runs of Java's pattern letters, as fields of a Python format string for (datetime, milliseconds, quarter).
_FIELDS = {
    "yyyy": "{0.year:04d}",
    "yy": "{0:%y}",
    "y": "{0.year}",
    "uuuu": "{0.year:04d}",
    "u": "{0.year}",
    "Q": "{2}",
    "MMMM": "{0:%B}",
    "MMM": "{0:%b}",
    "MM": "{0.month:02d}",
    "M": "{0.month}",
    "DDD": "{0:%j}",
    "dd": "{0.day:02d}",
    "d": "{0.day}",
    "EEEE": "{0:%A}",
    "EEE": "{0:%a}",
    "E": "{0:%a}",
    "a": "{0:%p}",
    "HH": "{0.hour:02d}",
    "H": "{0.hour}",
    "hh": "{0:%I}",
    "mm": "{0.minute:02d}",
    "m": "{0.minute}",
    "ss": "{0.second:02d}",
    "s": "{0.second}",
    "SSS": "{1:03d}",
}
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<field>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<other>[^A-Za-z'])")
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?")


class BucketContext:
    """An assigner's context for a record; times in ms.

    >>> context = BucketContext(now=5000)
    >>> context.current_processing_time(), context.timestamp()
    (5000, None)
    >>> [(record, context.timestamp()) for record in context.each(["a", "b"], [10, 20])]
    [('a', 10), ('b', 20)]
    """

    __slots__ = ("_now", "_timestamp")

    def __init__(self, now: int) -> None:
        self._now = now
        self._timestamp: int = MIN_TIMESTAMP

    def timestamp(self) -> Millis | None:
        """Return the record's timestamp; ``None`` if it has none."""
        return None if self._timestamp == MIN_TIMESTAMP else Millis(self._timestamp)

    def current_processing_time(self) -> Millis:
        """Return the time of day (ms since the epoch)."""
        return Millis(self._now)

    def each(self, values: list[Any], timestamps: list[int] | None) -> Iterator[Any]:
        """Yield the records; the context is about the one last yielded."""
        for index, value in enumerate(values):
            self._timestamp = timestamps[index] if timestamps is not None else MIN_TIMESTAMP
            yield value


class BucketAssigner(Generic[T_contra]):
    """Decides the folder of each record; subclass it and define ``get_bucket_id``.

    >>> class ByCountry(BucketAssigner):
    ...     def get_bucket_id(self, element, context):
    ...         return f"country={element['country']}"
    >>> ByCountry().get_bucket_id({"country": "pt"}, BucketContext(now=0))
    'country=pt'
    """

    def get_bucket_id(self, element: T_contra, context: BucketContext) -> str:
        """Return the folder, relative to the base path; ``""`` is the base path."""
        raise NotImplementedError

    def bucket_of_block(self, context: BucketContext) -> str | None:
        """Return the one folder of all records of this moment, or ``None`` if it depends on the record.

        >>> hourly = BucketAssigner.date_time_bucket_assigner(timezone_id="UTC")
        >>> hourly.bucket_of_block(BucketContext(now=1_700_000_000_000))
        '2023-11-14--22'
        """
        return None

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner[object]:
        """Put all files into the base path itself.

        >>> BucketAssigner.base_path_bucket_assigner().get_bucket_id("any record", BucketContext(now=0))
        ''
        """
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner[object]:
        """Name folders after the time of day at which records are written; by default in the machine's time zone.

        ``format_str`` is a pattern of Java's ``DateTimeFormatter``. Raises ``InvalidConfiguration`` for a letter or a time
        zone that is not known.

        >>> daily = BucketAssigner.date_time_bucket_assigner("'day='yyyyMMdd", "Asia/Tokyo")
        >>> daily.get_bucket_id("any record", BucketContext(now=1_700_000_000_000))
        'day=20231115'
        """
        return DateTimeBucketAssigner(format_str, timezone_id)


@dataclass(frozen=True)
class BasePathBucketAssigner(BucketAssigner[object]):
    """No folders."""

    def get_bucket_id(self, element: object, context: BucketContext) -> str:
        """Return the empty string."""
        return ""

    def bucket_of_block(self, context: BucketContext) -> str:
        """Return the empty string."""
        return ""


@dataclass(frozen=True)
class DateTimeBucketAssigner(BucketAssigner[object]):
    """A folder per hour, or per unit of the pattern of Java's ``DateTimeFormatter``.

    >>> noon = BucketContext(now=1_700_000_000_000)
    >>> DateTimeBucketAssigner(timezone_id="UTC").bucket_of_block(noon)
    '2023-11-14--22'
    >>> DateTimeBucketAssigner("'day='yyyyMMdd'/'HHmm", "Asia/Tokyo").bucket_of_block(noon)
    'day=20231115/0713'
    """

    format_str: str = "yyyy-MM-dd--HH"
    timezone_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse a pattern that cannot be understood, before the job runs."""
        _template(self.format_str)
        _zone(self.timezone_id)

    def get_bucket_id(self, element: object, context: BucketContext) -> str:
        """Return the formatted time of day."""
        return self.bucket_of_block(context)

    def bucket_of_block(self, context: BucketContext) -> str:
        """Return the formatted time of day."""
        seconds, ms = divmod(context.current_processing_time(), 1000)
        at = datetime.fromtimestamp(seconds, tz=UTC).astimezone(_zone(self.timezone_id))
        return _template(self.format_str).format(at, ms, (at.month + 2) // 3)


@lru_cache
def _template(pattern: str) -> str:
    """Translate a pattern of Java's ``DateTimeFormatter`` to a format string."""
    template, end = "", 0
    for token in _TOKEN.finditer(pattern):
        if token.start() != end:
            break
        end = token.end()
        if token["field"]:
            if token["field"] not in _FIELDS:
                raise InvalidConfiguration(
                    f"{token['field']!r} in the date pattern {pattern!r} is not supported; "
                    f"use {', '.join(_FIELDS)}, and put letters that mean themselves into '...'."
                )
            template += _FIELDS[token["field"]]
            continue
        literal = token["other"] or token["quoted"].replace("''", "'") or "'"
        if literal in "[]{}#" and token["other"]:
            raise InvalidConfiguration(f"{literal!r} in the date pattern {pattern!r} is reserved; put it into '...'.")
        template += literal.replace("{", "{{").replace("}", "}}")
    if end != len(pattern):
        raise InvalidConfiguration(f"the date pattern {pattern!r} has a ' without a second one.")
    return template


@lru_cache
def _zone(timezone_id: str | None) -> tzinfo | None:
    if timezone_id is None:
        return None
    offset = _OFFSET.fullmatch(timezone_id)
    if offset:
        distance = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        return timezone(-distance if offset["sign"] == "-" else distance)
    try:
        return ZoneInfo("UTC" if timezone_id == "Z" else timezone_id)
    except (OSError, ValueError, KeyError):  # missing, malformed, not installed
        raise InvalidConfiguration(
            f"the time zone {timezone_id!r} is unknown on this machine; use a name such as 'Europe/Berlin' or an "
            f"offset such as 'GMT+01:00' (the package tzdata brings the names where the system has none)."
        ) from None


_MINUTE = Millis(60_000)


@dataclass(frozen=True)
class FileSink(Sink[T_contra], Generic[T_contra]):
    r"""Part files in folders below ``base_path``, a local path or URI; made by ``for_row_format`` or ``for_bulk_format``.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from funken.testing import local
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = FileSink.for_row_format(folder, Encoder.simple_string_encoder())
    ...     words = local(["to", "be"])
    ...     _ = words.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    ...     _ = words.get_execution_environment().execute()
    ...     [file.read_text() for file in Path(folder).glob("part-*")]
    ['to\nbe\n']

    The job writes files hidden, and they get their names when they are committed.

    >>> from funken.connectors.sink import CommitRequest
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = FileSink(folder, Encoder.simple_string_encoder(), BucketAssigner.base_path_bucket_assigner())
    ...     sink.check()
    ...     writer = sink.writer(ConnectorContext("sink", subtask=0, parallelism=1))
    ...     writer.write(["to"], None, now=0)
    ...     pending = [CommitRequest(file) for file in writer.prepare_commit(1, end_of_input=False)]
    ...     before = len(list(Path(folder).glob("part-*")))
    ...     committer = sink.committer(CommitterContext("sink"))
    ...     committer.commit(pending)
    ...     before, len(list(Path(folder).glob("part-*")))
    ...     writer.write(["be"], None, now=1)
    ...     committer.abort([CommitRequest(file) for file in writer.prepare_commit(2, end_of_input=True)])
    ...     len(list(Path(folder).iterdir()))
    (0, 1)
    1
    """

    base_path: str
    encoder: Encoder[T_contra] | BulkFormat
    bucket_assigner: BucketAssigner[T_contra] = field(default_factory=DateTimeBucketAssigner)
    rolling_policy: RollingPolicy = field(default_factory=RollingPolicy.default_rolling_policy)
    output_file_config: OutputFileConfig = field(default_factory=OutputFileConfig)
    bucket_check_interval: Millis = _MINUTE
    compact_strategy: FileCompactStrategy | None = None
    compactor: FileCompactor | None = None

    @property
    def written_folder(self) -> str:
        """The base path.

        >>> from funken import Encoder
        >>> FileSink.for_row_format("/out", Encoder.simple_string_encoder()).build().written_folder
        '/out'
        """
        return self.base_path

    def __post_init__(self) -> None:
        """Make the base path mean the same in every process."""
        try:
            object.__setattr__(self, "base_path", absolute(self.base_path))
        except ValueError as error:
            raise InvalidProgram(str(error)) from None

    @staticmethod
    def for_row_format(base_path: str | os.PathLike[str], encoder: Encoder[S]) -> RowFormatBuilder[S]:
        """Start to describe a sink that writes record by record.

        >>> sink = FileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).build()
        >>> sink.base_path, sink.bucket_assigner
        ('/data/out', DateTimeBucketAssigner(format_str='yyyy-MM-dd--HH', timezone_id=None))
        """
        remedy = "Give the path, then Encoder.simple_string_encoder(), say."
        check_kind(encoder, Encoder, f"the file sink of {base_path!r}", remedy)
        return RowFormatBuilder(FileSink(os.fspath(base_path), encoder))

    @staticmethod
    def for_bulk_format(base_path: str | os.PathLike[str], writer_factory: BulkFormat) -> RowFormatBuilder[Any]:
        """Start to describe a sink of files that are more than one record after the other: Parquet, ORC, Avro, compressed rows.

        >>> from funken.connectors.files.arrow_files import ParquetFormat
        >>> FileSink.for_bulk_format("/data/out", ParquetFormat()).build().output_file_config.part_suffix
        '.parquet'
        """
        names = OutputFileConfig(part_suffix=writer_factory.suffix)
        return RowFormatBuilder(FileSink(os.fspath(base_path), writer_factory, output_file_config=names))

    def check(self) -> None:
        """Find out whether files can be created below the base path, without creating any.

        Raises ``SinkNotWritable`` if not: the message names the path and the system's error.
        """
        if isinstance(self.encoder, BulkFormat):
            self.encoder.check()
        with explained(self.base_path, self.base_path):
            files, base = locate(self.base_path)
            files.check_writable(base)

    def of_type(self, type_info: TypeInformation | None) -> FileSink:
        r"""Return the sink for records of a declared type: a text encoder then writes them as Flink does.

        >>> from funken import Types
        >>> sink = FileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).build()
        >>> sink.of_type(Types.TUPLE([Types.STRING(), Types.INT()])).encoder.encode([("to", 2)])
        b'(to,2)\n'
        """
        return replace(self, encoder=self.encoder.of_type(type_info))

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """True if the format takes columns.

        >>> from funken.connectors.files.arrow_files import ParquetFormat
        >>> FileSink.for_bulk_format("/data/out", ParquetFormat()).build().takes_columns
        True
        """
        return self.encoder.takes_columns

    @property
    def grouped_by(self) -> Callable[[Any, Any], str] | None:  # type: ignore[override]
        """The function that returns the folder of a record; ``None`` if one folder is that of a whole block.

        >>> FileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).build().grouped_by  # by the time of day
        """
        assigner = self.bucket_assigner
        of_records = type(assigner).bucket_of_block is BucketAssigner.bucket_of_block
        return assigner.get_bucket_id if of_records else None

    @property
    def reads_only(self) -> bool:  # type: ignore[override]
        """True if only an encoder and an assigner of Funken see the records: those of users may change records.

        >>> FileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).build().reads_only
        True
        """
        return isinstance(self.encoder, Encoder) and of_funken(self.encoder) and of_funken(self.bucket_assigner)

    def writer(self, context: ConnectorContext) -> FileWriter:
        """Make a writer."""
        return FileWriter(self, context)

    def committer(self, context: CommitterContext) -> FileCommitter:
        """Make the committer."""
        return FileCommitter(self.base_path)


@dataclass(frozen=True)
class RowFormatBuilder(Generic[T_contra]):
    """PyFlink's way to describe a file sink; each call returns a new builder.

    >>> builder = FileSink.for_row_format("/data/out", Encoder.simple_string_encoder())
    >>> builder = builder.with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy/MM/dd", "UTC"))
    >>> builder = builder.with_output_file_config(OutputFileConfig(part_prefix="words", part_suffix=".txt"))
    >>> builder = builder.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1 << 20))
    >>> sink = builder.with_bucket_check_interval(1000).build()
    >>> sink.output_file_config.part_prefix, sink.rolling_policy.part_size, sink.bucket_check_interval
    ('words', 1048576, 1000)
    """

    sink: FileSink[T_contra]

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner[T_contra]) -> RowFormatBuilder[T_contra]:
        """Decide the folders; by default one per hour."""
        return RowFormatBuilder(replace(self.sink, bucket_assigner=bucket_assigner))

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> RowFormatBuilder[T_contra]:
        """Decide the names; by default ``part-<uuid>-<n>``."""
        return RowFormatBuilder(replace(self.sink, output_file_config=output_file_config))

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> RowFormatBuilder[T_contra]:
        """Decide when files are closed between checkpoints; by default at 128 MiB or after a minute."""
        return RowFormatBuilder(replace(self.sink, rolling_policy=rolling_policy))

    def with_bucket_check_interval(self, interval: DurationLike) -> RowFormatBuilder[T_contra]:
        """Set the interval of checks of the age of files; by default every minute."""
        return RowFormatBuilder(replace(self.sink, bucket_check_interval=duration_ms(interval)))

    def enable_compact(
        self, strategy: FileCompactStrategy, compactor: FileCompactor | None = None
    ) -> RowFormatBuilder[T_contra]:
        """Put small files together before they become visible; by default as their format does it.

        Raises ``InvalidProgram`` if the format cannot, and there is no ``compactor``.

        >>> strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(5).build()
        >>> builder = FileSink.for_row_format("/data/out", Encoder.simple_string_encoder())
        >>> builder.enable_compact(strategy).build().compact_strategy.num_checkpoints
        5
        """
        if compactor is None and type(self.sink.encoder).merge is BulkFormat.merge:
            raise InvalidProgram(
                f"{type(self.sink.encoder).__name__} puts no files together; pass a FileCompactor, or define merge()."
            )
        return RowFormatBuilder(replace(self.sink, compact_strategy=strategy, compactor=compactor))

    def disable_compact(self) -> RowFormatBuilder[T_contra]:
        """Put no files together, the default; files that wait in the job's snapshot are committed as they are.

        >>> FileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).disable_compact().build().compact_strategy
        """
        return RowFormatBuilder(replace(self.sink, compact_strategy=None, compactor=None))

    def build(self) -> FileSink[T_contra]:
        """Return the sink."""
        return self.sink


@dataclass(slots=True)
class _Part:
    """An open part file."""

    file: IO[bytes]
    names: PendingFile
    created: int
    written: int
    writer: BulkWriter


class FileWriter(SinkWriter):
    """Writes the part files of one subtask: one open file per bucket, one write per block and bucket."""

    def __init__(self, sink: FileSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._id = uuid4()
        self._attempt = uuid4()
        self._count = 0
        self._parts: dict[str, _Part] = {}
        self._pending: list[PendingFile] = []
        self._sizes: dict[str, int] = {}
        self._restored: list[Any] = []
        self._waiting = WaitingFiles(
            locate(sink.base_path)[0],
            sink.compact_strategy,
            sink.encoder.merge if sink.compactor is None else sink.compactor.compact,
            self._attempt,
        )
        self._next_check: int | None = None

    def restore_state(self, states: list[Any]) -> None:
        """Take over the files that waited for compaction."""
        self._restored = states

    def open(self) -> None:
        """Find the files that waited; raise ``SinkNotWritable`` if one is lost."""
        with explained(self._sink.base_path, self._sink.base_path, self.context):
            self._waiting.restore(self._restored)

    def write(self, values: list[Any] | Block, timestamps: Any, now: int) -> None:
        """Write a block, of records or of columns."""
        if len(values):
            self.write_groups(self._by_bucket(values, timestamps, BucketContext(now)), now)

    def _by_bucket(self, values: Any, timestamps: Any, context: BucketContext) -> list[tuple[str, Any]]:
        bucket = self._sink.bucket_assigner.bucket_of_block(context)
        if bucket is not None:
            return [(bucket, values)]
        if isinstance(values, Block):
            values, timestamps = values.rows()
        assign = self._sink.bucket_assigner.get_bucket_id
        groups: dict[str, list[Any]] = {}
        for value in context.each(values, timestamps):
            groups.setdefault(assign(value, context), []).append(value)
        return list(groups.items())

    def write_groups(self, groups: list[tuple[str, Any]], now: int) -> None:
        """Write a block by bucket; files that are full or old are closed after it."""
        for name, group in groups:
            self._append(name, group, now)
        if self._next_check is None or now >= self._next_check:
            self._next_check = now + self._sink.bucket_check_interval
            policy = self._sink.rolling_policy
            old = [name for name, part in self._parts.items() if policy.is_old(now - part.created, now - part.written)]
            for name in old:
                self._roll(name)
        self.count_sent(sum(len(group) for _, group in groups))

    def _append(self, bucket: str, values: Any, now: int) -> None:
        part = self._parts.get(bucket)
        if part is None:
            part = self._parts[bucket] = self._create(bucket, now)
        with self._writing(part):
            part.writer.write(values)
        part.written = now
        if self._sink.rolling_policy.is_full(part.writer.size()):
            self._roll(bucket)

    @contextlib.contextmanager
    def _writing(self, part: _Part) -> Iterator[None]:
        context = self.context
        try:
            with explained(self._sink.base_path, part.names.hidden, context):
                yield
        except UnicodeEncodeError as error:
            raise SinkNotWritable(
                f"{context.operator}: {error.object[error.start : error.end]!r} has no place in {error.encoding} "
                f"({error.reason}); choose another charset, or replace it in a map() before the sink.",
                context.operator,
                context.subtask,
            ) from error
        except ValueError as error:
            raise SinkNotWritable(
                f"{context.operator}: {type(self._sink.encoder).__name__}: {error}.", context.operator, context.subtask
            ) from error

    def _create(self, bucket: str, now: int) -> _Part:
        with explained(self._sink.base_path, f"{self._sink.base_path}/{bucket}", self.context):
            if ".." in bucket.split("/"):
                raise PermissionError(f"the bucket {bucket!r} leads out of the base path")
            files, base = locate(self._sink.base_path)
            folder = f"{base}/{bucket.strip('/')}".rstrip("/")
            config = self._sink.output_file_config
            name = f"{config.part_prefix}-{self._id}-{self._count}"
            names = PendingFile(f"{folder}/.{name}.inprogress.{self._attempt}", f"{folder}/{name}{config.part_suffix}")
            self._count += 1
            file = files.create(names.hidden)
            encoder = self._sink.encoder
            try:
                writer = encoder.create(file) if isinstance(encoder, BulkFormat) else RowWriter(encoder, file)
            except BaseException:
                self._pending.append(names)  # close() removes it by name
                file.close()
                raise
            return _Part(file, names, now, now, writer)

    def _roll(self, bucket: str) -> None:
        """Close a bucket's file; it waits for the commit."""
        part = self._parts.pop(bucket)
        self._pending.append(part.names)  # from here on close() removes it by name
        with self._writing(part), contextlib.ExitStack() as failed:
            failed.callback(part.file.close)
            part.writer.finish()
            self._sizes[part.names.hidden] = int(part.file.tell())
            failed.pop_all()
            locate(self._sink.base_path)[0].seal(part.file)
        self.count_sent(0, self._sizes[part.names.hidden])

    def flush(self, end_of_input: bool) -> None:
        """Hand written bytes to the system."""
        for part in self._parts.values():
            with self._writing(part):
                part.writer.flush()

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Close all files and return them."""
        for bucket in list(self._parts):
            self._roll(bucket)
        with explained(self._sink.base_path, self._sink.base_path, self.context):
            ready = self._waiting.prepare([(names, self._sizes[names.hidden]) for names in self._pending], end_of_input)
        self._pending, self._sizes = [], {}
        return ready

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the files that wait for compaction."""
        return self._waiting.snapshot()

    def close(self) -> None:
        """Remove files that were not prepared."""
        for part in self._parts.values():
            self._pending.append(part.names)
            with contextlib.suppress(OSError):  # a full disk may refuse the last bytes; the file goes away anyway
                part.file.close()
        for names in self._pending:
            with contextlib.suppress(OSError):  # the error that led here matters more
                locate(self._sink.base_path)[0].remove(names.hidden)
        self._parts, self._pending = {}, []
