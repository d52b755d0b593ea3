"""Run the PyFlink programs of a folder as they are, over stubbed inputs, and count what became of them.

    python scripts/pyflink_corpus.py FOLDER [--kind table|datastream] [-k TEXT]... [--part 1/8] [--limit SECONDS]

A program is a ``.py`` file that imports ``pyflink`` and does something at its top level. Each runs under
``funken run --pyflink`` in a process of its own, in a copy of its repository (the folder of FOLDER that holds it). Topics of
Kafka, tables of databases, ``datagen`` and missing input files give a few rows of the declared schema, in the declared format.
Sinks write to places that are thrown away. Modules of the repository can be imported, and variables of the environment that the
program requires have values. The programs themselves are not changed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

import funken.cli.main
import funken.compat.pyflink
import funken.config
import funken.table.environment
import funken.table.execution
import funken.table.physical
from funken.api.environment import StreamExecutionEnvironment
from funken.api.streams.stream import DataStream
from funken.cli import run as command
from funken.cli.main import main as funken_main
from funken.connectors.base import Batch, NeedSplits, Wait
from funken.connectors.elasticsearch import ElasticsearchSink
from funken.connectors.files.sink import FileSink
from funken.connectors.files.source import FileSource, FileSourceBuilder
from funken.connectors.kafka.reader import ConsumerRecord, KafkaRecordDeserializationSchema
from funken.connectors.kafka.sink import KafkaSink
from funken.connectors.kafka.source import KafkaSource
from funken.connectors.kinesis import FirehoseSink, KinesisSink, KinesisSource
from funken.connectors.sql import SqliteDatabase, SqlSink
from funken.table.connectors.cdc import MySqlChanges, PostgresChanges
from funken.table.connectors.databases import JdbcFactory
from funken.table.connectors.filesystem import FilesystemFactory
from funken.table.connectors.generated import DatagenFactory, FieldRule, _parts, random_value
from funken.table.connectors.kafka import TopicTable
from funken.table.connectors.kinesis import KinesisTable
from funken.table.connectors.values import KeptRows, RowsInTurns, SourceReaderInTurns
from funken.table.types import arrow_type
from funken.types.row import Row

assert funken.cli.main
assert funken.compat.pyflink
assert funken.table.environment
assert funken.table.execution
assert funken.table.physical  # forked processes have all of it already

ROWS = 24
"""How many rows a stubbed input has."""
RAN, STOPPED, BROKEN, FAILED, HUNG = "ran", "stopped with a message", "broken by itself", "failed", "hung"
WORDS = (RAN, STOPPED, BROKEN, FAILED, HUNG)


# ---- programs


@dataclass(frozen=True)
class Program:
    """A program of the corpus."""

    path: Path
    root: Path
    """The folder of its repository."""

    @property
    def name(self) -> str:
        """Repository and path."""
        return f"{self.root.name}/{self.path.relative_to(self.root)}"


_ACTS = re.compile(
    r"\b(execute\w*|print|collect|main|run\w*|start\w*|wait|to_pandas|insert_into|sql_update|print_schema|create)\b"
)


def is_program(tree: ast.Module) -> bool:
    """Whether a module does something when it is run: more than definitions, imports and constants."""
    for statement in tree.body:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            return True
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            continue
        if any(isinstance(node, ast.Call) and _ACTS.search(ast.unparse(node.func)) for node in ast.walk(statement)):
            return True
    return False


def programs_of(folder: Path) -> Iterator[tuple[Program, str]]:
    """Yield the programs of a folder with their texts, equal ones once."""
    seen = set()
    for path in sorted(folder.rglob("*.py")):
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        if not re.search(r"^\s*(from|import) pyflink\b", text, re.MULTILINE) or zlib.crc32(text.encode()) in seen:
            continue
        seen.add(zlib.crc32(text.encode()))
        with contextlib.suppress(SyntaxError):  # one that cannot be parsed is a program: it is broken by itself
            if not is_program(ast.parse(text)):
                continue
        root = folder / path.relative_to(folder).parts[0] if path.parent != folder else folder
        yield Program(path, root), text


# ---- stubs: what a program reads


def rule_of(type_: Any) -> FieldRule:
    """Return the rule for small values of a type."""
    return FieldRule(type_, 1, 9, 4, inner=tuple(rule_of(part) for _, part in _parts("", type_)))


class Inputs:
    """Makes the inputs of one program, below a folder."""

    def __init__(self, folder: Path, text: str, as_texts: bool = False) -> None:
        self.folder = folder
        self.as_texts = as_texts
        """Numbers in documents are texts, and lines have many fields: the other of two guesses."""
        self.keys = re.findall(r"""(?:\[|\.get\()\s*['"](\w+)['"]""", text)
        self.nested = re.findall(r"""\[['"](\w+)['"]\]\s*\[['"](\w+)['"]\]""", text)
        self.times = next(iter(re.findall(r"""strptime\([^,]+,\s*['"]([^'"]+)""", text)), "%Y-%m-%d %H:%M:%S")
        self.texts_are_json = "json.loads(" in text
        self.delimiter = next(iter(re.findall(r"""split\(['"](.)['"]""", text)), ",")
        self.plain = None if "json" in text.lower() else str if "int(" in text else "name{} to be".format

    def rows(self, columns: Any) -> list[tuple[Any, ...]]:
        """Return rows for columns of tables."""
        source = random.Random(len(columns))
        rules = [(name, type_, rule_of(type_)) for name, type_ in columns]
        return [
            tuple(self._value(name, rule, type_, index, source, random_value) for name, type_, rule in rules)
            for index in range(ROWS)
        ]

    def _value(self, name: str, rule: Any, type_: Any, index: int, source: random.Random, make: Any) -> Any:
        kind = type(type_).__name__
        begin = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=10 * index)
        if kind == "LocalZonedTimestampType":
            return begin
        if kind == "TimestampType":
            return begin.replace(tzinfo=None)
        if kind == "VarCharType" and re.search("time|date|_at$|^ts$|^dt", name.lower()):
            return begin.strftime("%Y-%m-%d %H:%M:%S")
        if kind == "BigIntType" and re.search("time|^ts$|_ts$", name.lower()):
            return round(begin.timestamp() * 1000)
        if kind == "VarCharType" and self.texts_are_json and type_.length > 1000:
            return self.message(index).decode()
        if kind == "VarCharType":
            return f"{name}{index % 3}"[: type_.length]
        return make(rule, type_, source)

    def message(self, index: int) -> bytes:
        """Return a message for a schema that takes any text: JSON with the keys that the program asks for."""
        if self.plain is not None and self.as_texts:
            return self.delimiter.join(map(str, range(index, index + 12))).encode()
        if self.plain is not None and not self.keys:
            return self.plain(index).encode()
        at = datetime.datetime(2024, 1, 1, 0, index % 6, tzinfo=datetime.UTC).strftime(self.times)
        found: dict[str, Any] = {key: at if "time" in key else index % 5 for key in self.keys}
        for outer, _ in self.nested:
            found[outer] = {inner: found[inner] for of, inner in self.nested if of == outer}
        if self.as_texts:
            found = {key: str(value) if isinstance(value, int) else value for key, value in found.items()}
        return json.dumps(found or {"id": index, "name": f"name{index % 3}"}).encode()

    def lines(self) -> bytes:
        """Return a file of lines."""
        return b"\n".join(self.message(index) for index in range(ROWS)) + b"\n"

    def place(self, path: str) -> str:
        """Return where something that is written to a path, or is missing there, is kept."""
        plain = re.sub(r"^[a-z0-9]+:/*", "", str(path)).strip("/") or "root"
        return str(self.folder / "stubs" / plain)


def exists(path: Any) -> bool:
    """Whether there is something at a local path; what is no path is left to the source, which says so."""
    return not isinstance(path, str) or (
        "://" not in path.removeprefix("file://") and os.path.exists(re.sub("^file:/*", "/", path))
    )


def stub(inputs: Inputs) -> None:
    """Put the stubs into this process."""
    _stub_streams(inputs)
    _stub_tables(inputs)
    _stub_files(inputs)


class StampedReader(SourceReaderInTurns):
    """Reads rows with their timestamps."""

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next row."""
        batch = super().poll(limit, now)
        if not isinstance(batch, Batch):
            return batch
        ((row, timestamp),) = batch.values
        return Batch([row], [timestamp], split=batch.split)


class StampedRows(RowsInTurns):
    """Rows of a topic: pairs of a row and its timestamp."""

    def reader(self, context: Any) -> StampedReader:
        """Make a reader."""
        return StampedReader(self.rows, False, 0, context)


def _stub_streams(inputs: Inputs) -> None:
    reading: list[TopicTable] = []
    stream, from_source, sink_to = TopicTable.stream, StreamExecutionEnvironment.from_source, DataStream.sink_to

    def of_table(table: TopicTable, env: Any) -> Any:
        reading.append(table)
        try:
            return stream(table, env)
        finally:
            reading.pop()

    def payloads(deserializer: Any) -> list[tuple[bytes | None, bytes | None]]:
        if reading:
            table = reading[-1]
            values = table._value.encoder(table._value_columns)
            keys = None if table._key is None else table._key.encoder(table._key_columns)
            value_rows, key_rows = inputs.rows(table._value_columns), inputs.rows(table._key_columns)
            return [
                (None if keys is None else keys.serialize(Row(*key)), values.serialize(Row(*row)))
                for key, row in zip(key_rows, value_rows, strict=True)
            ]
        return [(b"key", message) for message in messages(deserializer, inputs)]

    def stubbed_source(env: Any, source: Any, watermark_strategy: Any = None, *args: Any, **more: Any) -> Any:
        if isinstance(source, KinesisSource):
            schema = source.deserialization_schema
            source = RowsInTurns(tuple(schema.deserialize(each) for each in messages(schema, inputs)))
        if isinstance(source, KafkaSource):
            records = [
                ConsumerRecord("topic", 0, index, 1_704_067_200_000 + 10_000 * index, key, value)
                for index, (key, value) in enumerate(payloads(source.deserializer))
            ]
            read = source.deserializer.deserialize_all
            whole = isinstance(source.deserializer, KafkaRecordDeserializationSchema)
            source = StampedRows(
                tuple((row, record.timestamp) for record in records for row in read(record if whole else record.value))
            )
        return from_source(env, source, watermark_strategy, *args, **more)

    def stubbed_sink(stream: Any, sink: Any) -> Any:
        if isinstance(sink, KafkaSink):
            serialize = sink.serializer.serialize

            def written(value: Any) -> Any:
                serialize(value)
                return value

            return sink_to(stream.map(written), KeptRows("written", ()))
        return sink_to(stream, KeptRows("written", ()) if isinstance(sink, _ELSEWHERE) else sink)

    submit = StreamExecutionEnvironment._submit

    def submitted(env: Any, name: Any) -> Any:
        folder = env.get_configuration().get(funken.config.CHECKPOINT_DIR)
        if folder and "://" in folder.removeprefix("file://"):
            env.get_configuration().set(funken.config.CHECKPOINT_DIR, inputs.place(folder))
        return submit(env, name)

    StreamExecutionEnvironment._submit = submitted  # type: ignore[method-assign]
    TopicTable.stream = of_table  # type: ignore[method-assign]
    StreamExecutionEnvironment.from_source = stubbed_source  # type: ignore[method-assign]
    DataStream.sink_to = stubbed_sink  # type: ignore[method-assign]


_ELSEWHERE = (SqlSink, ElasticsearchSink, KinesisSink, FirehoseSink)


def messages(deserializer: Any, inputs: Inputs) -> list[bytes]:
    """Return messages for a schema of the DataStream API."""
    schema = getattr(deserializer, "schema", deserializer)
    schema = getattr(schema, "_schema", schema)
    kind, type_info = type(schema).__name__, getattr(schema, "record_type", None)
    types = {}
    if kind == "AvroSchema":
        types = {each["name"]: str(each["type"]) for each in json.loads(schema.schema).get("fields", ())}
    elif hasattr(type_info, "field_types"):
        names = getattr(type_info, "field_names", None) or [f"f{place}" for place in range(len(type_info.field_types))]
        types = dict(zip(names, map(str, type_info.field_types), strict=True))
    if not types:
        return [inputs.message(index) for index in range(ROWS)]
    records = [{name: _value_of(of, name, index) for name, of in types.items()} for index in range(ROWS)]
    if kind == "CsvSchema":
        return [schema.serialize(Row(*record.values())) for record in records]
    return [schema.serialize(record) if kind == "AvroSchema" else json.dumps(record).encode() for record in records]


def _value_of(type_: str, name: str, index: int) -> Any:
    if re.match("MapTypeInfo|Map<", type_):
        return {"key": str(index % 3)}
    if re.match("(Basic|Object|Primitive)ArrayTypeInfo|ListTypeInfo", type_):
        return []
    if "SQL_TIMESTAMP" in type_ or ("STRING" in type_.upper() and "time" in name.lower()):
        return f"2024-01-01 00:0{index % 6}:00"
    if re.search("Integer|Long|Short|Byte|BigInteger|INT|LONG|int|long", type_) and "[" not in type_:
        return 1_704_067_200_000 + index if re.search("time|^ts", name.lower()) else index % 7
    if re.search("Float|Double|BigDecimal|FLOAT|DOUBLE|float|double", type_):
        return index / 4
    if re.search("bool", type_.lower()):
        return index % 2 == 0
    return f"{name}{index % 3}"


def _stub_tables(inputs: Inputs) -> None:
    parts, scan = JdbcFactory._parts, DatagenFactory.scan

    def of_database(factory: Any, context: Any) -> Any:
        _, options, _ = parts(factory, context)
        file = inputs.folder / "stubs.sqlite"
        columns = ", ".join(f'"{name}"' for name in context.names)
        key = f", PRIMARY KEY ({', '.join(context.primary_key)})" if context.primary_key else ""
        name = options["table-name"]
        with contextlib.closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f'CREATE TABLE IF NOT EXISTS "{name}" ({columns}{key})')
            marks = ", ".join("?" * len(context.names))
            for row in inputs.rows(context.columns):
                plain = [value if isinstance(value, int | float | str | bytes | None) else str(value) for value in row]
                connection.execute(f'INSERT OR IGNORE INTO "{name}" VALUES ({marks})', plain)
        return replace(context), options, SqliteDatabase(str(file))

    def bounded(factory: Any, context: Any) -> Any:
        count = min(int(context.options.get("number-of-rows", ROWS)), 10 * ROWS)
        given = {**context.options, "number-of-rows": str(count), "rows-per-second": "100000"}
        return scan(factory, replace(context, options=given))

    def of_changes(table: Any, env: Any) -> Any:
        rows = tuple(Row(*row) for row in inputs.rows(table._context.columns))
        return env.from_source(RowsInTurns(rows), None, "changes")

    def of_shards(table: Any, env: Any) -> Any:
        about = {"timestamp": datetime.datetime.fromtimestamp(1_704_067_200, datetime.UTC), "shard-id": "shard"}
        behind = [about.get(key, "0") for key, _ in table._context.metadata]
        rows = tuple(Row(*row, *behind) for row in inputs.rows(table._context.columns))
        return env.from_source(RowsInTurns(rows), table.watermarks, "shards")

    KinesisTable.stream = of_shards  # type: ignore[method-assign]
    MySqlChanges.stream = PostgresChanges.stream = of_changes  # type: ignore[assignment, method-assign]
    JdbcFactory._parts = of_database  # type: ignore[method-assign]
    DatagenFactory.scan = bounded  # type: ignore[method-assign]


def _stub_files(inputs: Inputs) -> None:
    scan, sink = FilesystemFactory.scan, FilesystemFactory.sink
    records, rows = FileSource.for_record_stream_format, FileSink.for_row_format

    def moved(context: Any) -> Any:
        return replace(context, options={**context.options, "path": inputs.place(context.options.get("path", ""))})

    def stubbed_scan(factory: Any, context: Any) -> Any:
        path = context.options.get("path", "")
        if path and not exists(path):
            context = moved(context)
            if not os.path.exists(context.options["path"]):
                make_file(factory, context, inputs)
        return scan(factory, context)

    def stubbed_sink(factory: Any, context: Any) -> Any:
        return sink(factory, moved(context) if context.options.get("path") else context)

    def stubbed_records(format_: Any, *paths: str) -> Any:
        found = []
        for path in paths:
            if not exists(path):
                path = inputs.place(path)  # noqa: PLW2901
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_bytes(inputs.lines())
            found.append(path)
        return records(format_, *found)

    FilesystemFactory.scan, FilesystemFactory.sink = stubbed_scan, stubbed_sink  # type: ignore[method-assign]
    FileSourceBuilder.monitor_continuously = lambda builder, *_: builder  # type: ignore[assignment, method-assign]
    FileSource.for_record_stream_format = staticmethod(stubbed_records)  # type: ignore[method-assign]
    FileSink.for_row_format = staticmethod(lambda path, encoder: rows(inputs.place(path), encoder))  # type: ignore[method-assign]


def make_file(factory: Any, context: Any, inputs: Inputs) -> None:
    """Write the file that a table of files lacks."""
    _, format_ = factory._parts(context)
    path = Path(context.options["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = inputs.rows(context.columns)
    if format_ is not None:
        encoder = format_.encoder(context.columns)
        path.write_bytes(b"".join(encoder.serialize(Row(*row)) + b"\n" for row in rows))
    else:
        fields = [(name, arrow_type(type_)) for name, type_ in context.columns]
        arrays = [
            pa.array(list(column), type_) for column, (_, type_) in zip(zip(*rows, strict=True), fields, strict=True)
        ]
        pyarrow.parquet.write_table(pa.table(arrays, names=[name for name, _ in fields]), path)


# ---- running

_KNOWN = (
    "InvalidProgram", "InvalidTable", "NotInFunken", "NotAvailableYet", "InvalidConfiguration", "ImportError", "InvalidQuery",
    "StateNotKeyed", "JavaAttribute", "ValueDoesNotFit", "InvalidStatement", "ModuleNotFoundError", "SinkNotWritable",
)  # fmt: skip


_REQUIRED = re.compile(r"""environ\[\s*['"](\w+)['"]""")
"""The variables of the environment that a program cannot do without."""


def variable(name: str) -> str:
    """Return a value for a variable of the environment."""
    if re.search("PORT|COUNT|NUM|SIZE|PARALLEL|INTERVAL|SECONDS|_MS$", name):
        return "1000"
    return "localhost:9092" if re.search("BROKER|SERVER|BOOTSTRAP", name) else name.lower()


def module_folders(root: Path, folder: Path, text: str) -> list[Path]:
    """Return the folders of a repository from which a program in one of them is meant to import: the nearest first."""
    found: list[Path] = []
    for name in dict.fromkeys(re.findall(r"^\s*(?:from|import) (\w+)", text, re.MULTILINE)):
        beside = (folder / name).is_dir() or (folder / f"{name}.py").exists()
        if name != "pyflink" and not beside and importlib.util.find_spec(name) is None:
            found += [
                path.parent for path in (*root.rglob(f"{name}.py"), *root.rglob(name)) if path.suffix or path.is_dir()
            ]
    return [root, *sorted(found, key=lambda each: len(Path(os.path.relpath(each, folder)).parts))]


def child(program: Program, folder: Path, text: str, guess: Guess) -> None:
    """Run a program in this process, which is forked for it; write what was raised."""
    copy = folder / "copy"
    shutil.copytree(program.root, copy, symlinks=True, ignore_dangling_symlinks=True)
    script = copy / program.path.relative_to(program.root)
    os.chdir(copy if guess.in_root else script.parent)
    run = command.run_script

    def watched(*args: Any) -> None:
        try:
            run(*args)
        except BaseException as error:
            chain, shown = [], error
            while shown is not None:
                chain.append([f"{type(shown).__name__}", str(shown)])
                shown = shown.__cause__ or shown.__context__  # type: ignore[assignment]
            frames = traceback.extract_tb(error.__traceback__)
            sides = (
                each.filename
                for each in reversed(frames)
                if each.name != "__getattr__" and re.search("/copy/|/funken/|pyflink_corpus", each.filename)
            )
            where = next(sides, "")  # the innermost frame of the program or of Funken
            (folder / "error.json").write_text(json.dumps({"chain": chain, "where": where}))
            raise

    command.run_script = watched
    sys.path.extend(map(str, module_folders(copy, script.parent, text)))
    for name in _REQUIRED.findall(text):
        os.environ.setdefault(name, variable(name))
    os.environ.setdefault("IS_LOCAL", "true")  # the examples of Amazon's service read their properties from a file then
    stub(Inputs(folder, text, guess.as_texts))
    sys.argv = ["funken", "run", "--pyflink", "--target", "local", str(script)]
    funken_main()


@dataclass(frozen=True)
class Guess:
    """What a program expects that it does not say: where it runs, and which inputs it has."""

    in_root: bool = False
    as_texts: bool = False


_NOT_THERE = re.compile("FileNotFoundError|TemplateNotFound|No such file")
_UNFIT = re.compile(
    "(OperatorFailed|JobExecutionError).*(IndexError|ValueDoesNotFit|TypeError|ValueError|AttributeError|KeyError)",
    re.DOTALL,
)


def run_program(program: Program, text: str, limit: float) -> tuple[str, str]:
    """Run a program, again with another guess if the first one did not fit; return the word for its end, and why."""
    word, why = _run(program, text, limit, Guess())
    again = Guess(in_root=True) if _NOT_THERE.search(why) else Guess(as_texts=True) if _UNFIT.search(why) else None
    if word in (RAN, HUNG) or again is None:
        return word, why
    second, reason = _run(program, text, limit, again)
    return (second, reason) if second == RAN else (word, why)


def _run(program: Program, text: str, limit: float, guess: Guess) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="corpus") as name:
        folder = Path(name)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            code = 1
            try:
                for file, number in (("stdout", 1), ("stderr", 2)):
                    handle = os.open(folder / file, os.O_WRONLY | os.O_CREAT)
                    os.dup2(handle, number)
                (folder / "stdin").write_text("\n" * 100)  # who asks for a key gets it
                os.dup2(os.open(folder / "stdin", os.O_RDONLY), 0)
                child(program, folder, text, guess)
                code = 0
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            except BaseException:  # noqa: BLE001 - it is the end of this process
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        ended = _wait(pid, limit)
        said = (folder / "stderr").read_text("utf-8", "replace") if (folder / "stderr").exists() else ""
        error = json.loads((folder / "error.json").read_text()) if (folder / "error.json").exists() else None
        return verdict(ended, error, said, str(folder))


def _wait(pid: int, limit: float) -> int | None:
    """Wait for a process, and end it with its group if it takes too long; return its code, ``None`` then."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


_OWN = {
    "SyntaxError", "IndentationError", "TabError", "NameError", "UnboundLocalError", "FileNotFoundError", "KeyError",
    "NotADirectoryError", "ConnectionRefusedError", "UnicodeDecodeError", "ZeroDivisionError", "JSONDecodeError", "IndexError",
    "gaierror", "ValueError", "TemplateNotFound",
}  # fmt: skip
_ELSEWHERE_MISSING = {"CalledProcessError", "ConnectionError", "NewConnectionError"}
"""What is raised where a service or a command of the program is not there."""
_SAYS_WHAT = re.compile(
    r"\b(Use|use|Call|call|Return|Write|write|Install|install|Set|Register|Available|available|there (is|are)|instead|Rename|"
    r"Read|needs)\b"
)


_SURFACES = Path(__file__).parents[1] / "tests" / "compat"


def _names_nothing(name: str, message: str) -> bool:
    """Return True if a program asks an object for a name that PyFlink has nowhere, or imports from a package without one."""
    attribute = re.search(r"has no attribute '(\w+)'", message)
    if name == "AttributeError" and attribute is not None and not attribute[1].startswith("_j_"):
        surfaces = (_SURFACES / file for file in ("pyflink_surface.json", "pyflink_1_surface.json"))
        return "'NoneType'" in message or not any(f'"{attribute[1]}"' in file.read_text() for file in surfaces)
    return "attempted relative import" in message or (name == "TypeError" and "NoneType" in message)


def verdict(ended: int | None, error: Any, said: str, folder: str) -> tuple[str, str]:
    """Return the word for an end, and why."""
    if ended is None:
        return HUNG, " ".join(said.split())[-200:]
    if ended == 0:
        return RAN, ""
    if error is None:
        lines = [line for line in said.splitlines() if line.strip()]
        return FAILED, lines[-1] if lines else f"exit code {ended}"
    chain = error["chain"]
    name, message = chain[0]
    message = message.replace(folder, "")
    why = f"{name}: {message}"
    if name == "SystemExit":
        return BROKEN, f"it left with {message}"
    missing = next((text for kind, text in chain if "ModuleNotFoundError" in (kind, text.partition(":")[0])), None)
    if (name == "ModuleNotFoundError" and "pyflink" not in message) or (missing and "pyflink" not in missing):
        return BROKEN, why
    if any(kind in _ELSEWHERE_MISSING for kind, _ in chain):
        return BROKEN, why
    in_program = "/copy/" in error["where"]
    if in_program and _names_nothing(name, message):
        return BROKEN, why
    if name in _OWN and (in_program or name.endswith(("SyntaxError", "IndentationError", "TabError"))):
        return BROKEN, why
    inner = next((f"{kind}: {text}" for kind, text in reversed(chain) if kind != "JobExecutionError"), why)
    shown = why if name != "JobExecutionError" else f"{why} | {inner}"
    known = any(kind in _KNOWN for kind, _ in chain)
    return STOPPED if known and _SAYS_WHAT.search(message) else FAILED, shown


def kind_of(why: str) -> str:
    """Return a reason without what differs between programs."""
    return re.sub(r"'[^']*'|\d+", "_", " ".join(why.split()))[:110]


def main() -> int:
    """Run the programs, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=["table", "datastream"], help="only programs that import this package")
    parser.add_argument("-k", dest="only", action="append", default=[], help="only programs whose name contains this")
    parser.add_argument("--part", default="1/1", help="the i-th of n parts")
    parser.add_argument("--limit", type=float, default=40.0, help="seconds for each program")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no program after this time")
    parser.add_argument(
        "--report", type=Path, help="a file for the outcomes, as JSON lines; programs in it are not run again"
    )
    given = parser.parse_args()

    place, parts = map(int, given.part.split("/"))
    chosen = [
        (program, text)
        for program, text in programs_of(given.folder)
        if (given.kind is None or ("pyflink.table" in text) == (given.kind == "table"))
        and (not given.only or any(part in program.name for part in given.only))
    ][place - 1 :: parts]
    done = {}
    if given.report and given.report.exists():
        done = {each["name"]: each for each in map(json.loads, given.report.read_text().splitlines())}
    end = time.monotonic() + given.seconds
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for program, text in chosen:
        if program.name in done:
            word, why = done[program.name]["word"], done[program.name]["why"]
        elif time.monotonic() > end:
            continue
        else:
            word, why = run_program(program, text, given.limit)
            if given.report:
                with given.report.open("a") as file:
                    file.write(json.dumps({"name": program.name, "word": word, "why": why}) + "\n")
        found[word].append((program.name, why))
    for word in WORDS[1:]:
        print(f"\n{word}: {len(found[word])}")
        for name, why in found[word]:
            print(f"  {name}: {' '.join(why.split())[:220]}")
    reasons = Counter((word, kind_of(why)) for word in WORDS[1:] for _, why in found[word])
    print("\nreasons by frequency:")
    for (word, why), count in reasons.most_common(40):
        print(f"  {count:3} {word}: {why}")
    total = sum(map(len, found.values()))
    print(f"\n{total} programs: " + ", ".join(f"{len(found[word])} {word}" for word in WORDS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
