"""Short ways to read: the part of ``StreamExecutionEnvironment`` with files and topics in one call.

Each of these methods is ``from_source()`` with a source of ``funken.connectors``; where one lacks a setting, build that source.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, overload

from funken.errors import InvalidProgram
from funken.types.callables import T

if TYPE_CHECKING:
    from funken.api.streams.stream import DataStream
    from funken.connectors.base import Source
    from funken.connectors.files.file_format import FileFormat
    from funken.connectors.files.source import FileSource
    from funken.connectors.kafka.enumerator import KafkaOffsetsInitializer
    from funken.connectors.reading import MalformedRecordPolicy
    from funken.connectors.schemas import DeserializationSchema, Document
    from funken.io.durations import DurationLike
    from funken.timing.watermarks import WatermarkStrategy
    from funken.types.info import TypeInformation
    from funken.types.row import Row

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A file, a folder, a pattern, or several of these."""


class ReadShortcuts:
    """The part of an environment that reads files and topics."""

    if TYPE_CHECKING:

        def from_source(  # noqa: D102
            self, source: Source[T], watermark_strategy: WatermarkStrategy[T] | None = None, source_name: str = ""
        ) -> DataStream[T]: ...

    def read_text_file(
        self, path: Paths, charset_name: str = "UTF-8", *, watch: DurationLike | None = None
    ) -> DataStream[str]:
        r"""Read the lines of text files, folders and patterns; ``watch`` looks for new files so often, without end.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.txt").write_text("to be\nor not\n")
        ...     env.read_text_file(f"{folder}/*.txt").execute_and_collect(limit=2)
        ['to be', 'or not']
        """
        from funken.connectors.files.line_files import StreamFormat

        text = StreamFormat.text_line_format(charset_name)
        return self._read_files("read_text_file()", path, text, watch, None)

    @overload
    def read_json(
        self, path: Paths, record_type: type[T] | TypeInformation[T], *,
        malformed: MalformedRecordPolicy | None = None,
        watch: DurationLike | None = None, watermark_strategy: WatermarkStrategy[T] | None = None,
    ) -> DataStream[T]: ...  # fmt: skip
    @overload
    def read_json(
        self, path: Paths, record_type: None = None, *,
        malformed: MalformedRecordPolicy | None = None,
        watch: DurationLike | None = None, watermark_strategy: WatermarkStrategy[Document] | None = None,
    ) -> DataStream[Document]: ...  # fmt: skip
    def read_json(
        self, path: Paths, record_type: type[T] | TypeInformation[T] | None = None, *,
        malformed: MalformedRecordPolicy | None = None,
        watch: DurationLike | None = None, watermark_strategy: WatermarkStrategy[T] | None = None,
    ) -> DataStream[T]:  # fmt: skip
        r"""Read JSON lines: dicts, or records of a dataclass or another ``record_type``.

        ``watch`` looks for new files so often, without end. A line that is no JSON fails the job, unless ``malformed`` skips it.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "sales.json").write_text('{"item": "tea", "n": 3}\n{"item": "jam", "n": 1}\n')
        ...     env.read_json(folder).map(lambda sale: sale["n"]).execute_and_collect(limit=2)
        [3, 1]
        """
        from funken.connectors.files.line_files import LineFormat
        from funken.connectors.formats.json_schema import JsonSchema
        from funken.connectors.reading import MalformedRecordPolicy

        lines = LineFormat(JsonSchema(record_type), malformed or MalformedRecordPolicy.FAIL)
        return self._read_files("read_json()", path, lines, watch, watermark_strategy)

    @overload
    def read_csv(
        self, path: Paths, record_type: type[T] | TypeInformation[T], *, header: bool = True, delimiter: str = ",",
        malformed: MalformedRecordPolicy | None = None,
        watch: DurationLike | None = None, watermark_strategy: WatermarkStrategy[T] | None = None,
    ) -> DataStream[T]: ...  # fmt: skip
    @overload
    def read_csv(
        self, path: Paths, record_type: None = None, *, header: bool = True, delimiter: str = ",",
        malformed: MalformedRecordPolicy | None = None,
        watch: DurationLike | None = None, watermark_strategy: WatermarkStrategy[Row] | None = None,
    ) -> DataStream[Row]: ...  # fmt: skip
    def read_csv(
        self, path: Paths, record_type: type[T] | TypeInformation[T] | None = None, *, header: bool = True, delimiter: str = ",",
        malformed: MalformedRecordPolicy | None = None,
        watch: DurationLike | None = None, watermark_strategy: WatermarkStrategy[T] | None = None,
    ) -> DataStream[T]:  # fmt: skip
        r"""Read delimited text: rows with the types that the first 1,000 lines show, or records of a ``record_type``.

        Columns are named by the header, or ``f0``, ``f1``, ... without one. A line that does not fit fails the
        job, unless ``malformed`` skips it. Raises ``SourceNotReadable`` if there is no file yet to look into.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "sales.csv").write_text("item,n\ntea,3\njam,1\n")
        ...     env.read_csv(folder).execute_and_collect(limit=2)
        [Row(item='tea', n=3), Row(item='jam', n=1)]
        """
        from funken.connectors.files.csv_files import CsvReaderFormat, infer_csv
        from funken.connectors.formats.csv_schema import CsvSchema
        from funken.connectors.reading import MalformedRecordPolicy

        policy = malformed or MalformedRecordPolicy.FAIL
        if record_type is None:
            first = self._files("read_csv()", path).first_path()
            found = replace(infer_csv(first, header=header, delimiter=delimiter), malformed=policy)
        else:
            found = CsvReaderFormat.for_schema(CsvSchema(record_type, delimiter), header, policy)
        return self._read_files("read_csv()", path, found, watch, watermark_strategy)

    @overload
    def read_parquet(
        self, path: Paths, record_type: type[T] | TypeInformation[T], *, fields: Iterable[str] | None = None,
        watch: DurationLike | None = None, watermark_strategy: WatermarkStrategy[T] | None = None,
    ) -> DataStream[T]: ...  # fmt: skip
    @overload
    def read_parquet(
        self, path: Paths, record_type: None = None, *, fields: Iterable[str] | None = None,
        watch: DurationLike | None = None, watermark_strategy: WatermarkStrategy[Document] | None = None,
    ) -> DataStream[Document]: ...  # fmt: skip
    def read_parquet(
        self, path: Paths, record_type: type[T] | TypeInformation[T] | None = None, *, fields: Iterable[str] | None = None,
        watch: DurationLike | None = None, watermark_strategy: WatermarkStrategy[T] | None = None,
    ) -> DataStream[T]:  # fmt: skip
        """Read Parquet files: dicts (of ``fields`` only), or records of a ``record_type``.

        >>> import tempfile
        >>> import pyarrow as pa
        >>> from pyarrow import parquet
        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parquet.write_table(pa.table({"item": ["tea", "jam"], "n": [3, 1]}), f"{folder}/sales.parquet")
        ...     env.read_parquet(folder, fields=["n"]).execute_and_collect(limit=2)
        [{'n': 3}, {'n': 1}]
        """
        from funken.connectors.files.arrow_files import ParquetFormat

        parquet = ParquetFormat(record_type, None if fields is None else tuple(fields))
        return self._read_files("read_parquet()", path, parquet, watch, watermark_strategy)

    @overload
    def read_kafka(
        self, topics: str | Iterable[str], bootstrap_servers: str, schema: None = None, *,
        group_id: str | None = None, starting_offsets: str | KafkaOffsetsInitializer = "earliest", bounded: bool = False,
        properties: Mapping[str, str] | None = None, watermark_strategy: WatermarkStrategy[Document] | None = None,
    ) -> DataStream[Document]: ...  # fmt: skip
    @overload
    def read_kafka(
        self, topics: str | Iterable[str], bootstrap_servers: str, schema: DeserializationSchema[T], *,
        group_id: str | None = None, starting_offsets: str | KafkaOffsetsInitializer = "earliest", bounded: bool = False,
        properties: Mapping[str, str] | None = None, watermark_strategy: WatermarkStrategy[T] | None = None,
    ) -> DataStream[T]: ...  # fmt: skip
    def read_kafka(
        self, topics: str | Iterable[str], bootstrap_servers: str, schema: DeserializationSchema[T] | None = None, *,
        group_id: str | None = None, starting_offsets: str | KafkaOffsetsInitializer = "earliest", bounded: bool = False,
        properties: Mapping[str, str] | None = None, watermark_strategy: WatermarkStrategy[T] | None = None,
    ) -> DataStream[T]:  # fmt: skip
        """Read the values of topics, by a ``DeserializationSchema``; without one they are JSON documents.

        ``starting_offsets`` is ``"earliest"``, ``"latest"``, ``"committed"`` (of the ``group_id``) or an initializer. ``bounded``
        ends at the offsets that are the latest at the start.

        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> env.read_kafka("orders", "localhost:9092", group_id="billing", starting_offsets="committed")
        <DataStream of 'kafka orders'>
        """
        from funken.connectors.formats.json_schema import JsonSchema
        from funken.connectors.kafka.enumerator import KafkaOffsetsInitializer
        from funken.connectors.kafka.source import KafkaSource

        named = {
            "earliest": KafkaOffsetsInitializer.earliest,
            "latest": KafkaOffsetsInitializer.latest,
            "committed": KafkaOffsetsInitializer.committed_offsets,
        }
        if isinstance(starting_offsets, str):
            if starting_offsets not in named:
                raise InvalidProgram(
                    f"read_kafka() cannot start at {starting_offsets!r}. Choose one of {', '.join(named)}, or give a "
                    "KafkaOffsetsInitializer."
                )
            starting_offsets = named[starting_offsets]()
        names = [topics] if isinstance(topics, str) else [*topics]
        builder = KafkaSource.builder().set_bootstrap_servers(bootstrap_servers).set_topics(*names)
        builder = builder.set_properties(properties or {}).set_starting_offsets(starting_offsets)
        builder = builder.set_value_only_deserializer(JsonSchema() if schema is None else schema)
        if group_id is not None:
            builder = builder.set_group_id(group_id)
        if bounded:
            builder = builder.set_bounded(KafkaOffsetsInitializer.latest())
        return self.from_source(builder.build(), watermark_strategy, f"kafka {', '.join(names)}")

    # ---- files

    def _read_files(
        self, who: str, path: Paths, form: FileFormat, watch: DurationLike | None,
        watermark_strategy: WatermarkStrategy[T] | None,
    ) -> DataStream[T]:  # fmt: skip
        source = self._files(who, path, form, watch)
        return self.from_source(source, watermark_strategy, f"files {source.paths[0].rpartition('/')[2]}")

    @staticmethod
    def _files(
        who: str, path: Paths, form: FileFormat | None = None, watch: DurationLike | None = None
    ) -> FileSource:  # fmt: skip
        from funken.connectors.files.line_files import StreamFormat
        from funken.connectors.files.source import FileSource

        paths = [path] if isinstance(path, str | os.PathLike) else [*path] if isinstance(path, Iterable) else []
        if not paths or not all(isinstance(each, str | os.PathLike) for each in paths):
            raise InvalidProgram(f"{who} needs a path or several paths, but got {path!r}.")
        builder = FileSource.for_format(form or StreamFormat.text_line_format(), *paths)
        return (builder if watch is None else builder.monitor_continuously(watch)).build()
