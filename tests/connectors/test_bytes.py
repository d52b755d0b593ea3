"""The metrics ``numBytesIn`` and ``numBytesSend`` of connectors that need no server; ``tests/services`` has the others."""

import gzip
import json
import socket
import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from funken import BucketAssigner, Encoder, FileSink, FileSource, RollingPolicy, StreamFormat, Types
from funken.connectors import Batch, ConnectorContext, CsvSchema, DeliveryGuarantee, JsonSchema, NeedSplits
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.line_files import CompressedRows, LineEncoder, LineFormat
from funken.connectors.http import HttpSource, WebhookSink, WebSocketSource, json_array
from funken.connectors.schemas import size_of_rows as bytes_of
from funken.connectors.sockets import SocketSource
from funken.connectors.sql import SqliteDatabase, SqlSink, SqlSource

ROW = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])
ROWS = [{"word": f"wörd{n}", "n": n} for n in range(3000)]


def metrics_of(context):
    return {name: value for name, value in context.metrics.snapshot().items() if "Bytes" in name or "Send" in name}


def read(source, records=None, columns=False):
    """Read all that a source has, or so many records; return how many came, and the metrics."""
    woken, enumerator = threading.Event(), source.enumerator(1)
    context = ConnectorContext("in", wake=woken.set)
    enumerator.start()
    reader = source.reader(context)
    if columns:
        reader.read_record_columns(source.record_schema(), None)
    reader.open()
    count = 0
    try:
        while records is None or count < records:
            polled = reader.poll(700, now=1)
            if isinstance(polled, Batch):
                count += len(polled.values)
            elif isinstance(polled, NeedSplits):
                splits = enumerator.next_splits(0)
                if not splits:
                    break
                reader.add_splits(splits)
            elif polled.millis is None:
                assert woken.wait(30)
                woken.clear()
    finally:
        reader.close()
    return count, metrics_of(context)


# ---- files


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("split_bytes", [None, 50, 1000])
def test_of_lines_each_byte_counts_once_however_they_are_split(tmp_path, columns, split_bytes):
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    (tmp_path / "a.json").write_bytes(lines)
    (tmp_path / "b.json").write_bytes(b"".join(lines.splitlines(True)[:40]))
    builder = FileSource.for_format(LineFormat(JsonSchema(ROW)), tmp_path)
    source = (builder if split_bytes is None else builder.set_split_bytes(split_bytes)).build()
    size = sum(file.stat().st_size for file in tmp_path.iterdir())

    assert read(source, columns=columns) == (3040, {"numBytesIn": size})


@pytest.mark.parametrize("columns", [False, True])
def test_of_other_files_the_size_counts_as_it_is_on_disk(tmp_path, columns):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    schema = CsvSchema(ROW)
    text = b"word,n\n" + b"\n".join(schema.serialize_block(list(map(tuple, map(dict.values, ROWS))))) + b"\n"
    files = {"a.csv": text, "b.csv.gz": gzip.compress(text)}
    for name, data in files.items():
        (tmp_path / "csv").mkdir(exist_ok=True)
        (tmp_path / "csv" / name).write_bytes(data)
    parquet.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "c.parquet", row_group_size=1000)
    csv_source = FileSource.for_format(CsvReaderFormat.for_schema(schema, header=True), tmp_path / "csv").build()
    parquet_source = FileSource.for_format(ParquetFormat(ROW), tmp_path / "c.parquet").set_split_bytes(500).build()

    assert read(csv_source, columns=columns) == (6000, {"numBytesIn": sum(map(len, files.values()))})
    assert read(parquet_source, columns=columns) == (
        3000,
        {"numBytesIn": (tmp_path / "c.parquet").stat().st_size},
    )


def test_a_reader_that_goes_on_counts_what_it_reads_itself(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"0123456\n" * 100_000)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path).build()
    enumerator, first, second = source.enumerator(1), ConnectorContext("in"), ConnectorContext("in")
    enumerator.start()
    reader = source.reader(first)
    reader.add_splits(enumerator.next_splits(0))
    reader.poll(1000, 0)
    [split] = reader.snapshot_state(1)
    reader.close()
    again = source.reader(second)
    again.add_splits([split])
    while isinstance(again.poll(10_000, 0), Batch):
        pass
    again.close()

    assert metrics_of(first)["numBytesIn"] < 800_000 / 2
    assert metrics_of(second) == {"numBytesIn": 800_000 - 8 * 1000}


@pytest.mark.parametrize(
    "format",
    [
        Encoder.simple_string_encoder(),
        LineEncoder(JsonSchema()),
        CompressedRows(LineEncoder(JsonSchema()), "gzip"),
        ParquetFormat(ROW),
    ],
)
def test_a_file_sink_counts_the_files_that_it_has_closed(tmp_path, format):
    row_format = isinstance(format, Encoder)
    builder = (FileSink.for_row_format if row_format else FileSink.for_bulk_format)(tmp_path, format)
    builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    sink = builder.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=5000)).build()
    context = ConnectorContext("out")
    writer = sink.writer(context)
    writer.open()
    for start in range(0, 3000, 1000):
        writer.write(ROWS[start : start + 1000], None, 0)
    writer.prepare_commit(1, end_of_input=True)
    written = sum(file.stat().st_size for file in tmp_path.iterdir())

    assert written > 1000
    assert metrics_of(context) == {"numRecordsSend": 3000, "numBytesSend": written}


# ---- services


class Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    got: list = []  # noqa: RUF012 - each test clears it

    def do_GET(self):
        self._answer(b'{"items": ["k\xc3\xa4se", "tea"]}')

    def do_POST(self):
        self.got.append(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(b"")

    def _answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given):
        pass


@pytest.fixture
def service():
    pytest.importorskip("urllib3", reason="install it with: pip install 'funken[http]'")
    Pages.got.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_pages_of_http_count_by_their_bodies(service):
    pages = HttpSource(
        lambda cursor: f"{service}/{cursor}",
        lambda body: (json.loads(body)["items"], None),
        starts=[1, 2],
        bounded=True,
    )

    assert read(pages) == (4, {"numBytesIn": 2 * len(b'{"items": ["k\xc3\xa4se", "tea"]}')})


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_webhook_counts_its_bodies(service, guarantee):
    context = ConnectorContext("out")
    writer = WebhookSink(service, guarantee=guarantee).writer(context)
    writer.write(ROWS, None, 0)
    writer.prepare_commit(1, end_of_input=True)
    writer.close()
    bodies = [json_array(ROWS[start : start + 100]) for start in range(0, 3000, 100)]

    assert Pages.got == ([] if guarantee is DeliveryGuarantee.EXACTLY_ONCE else bodies)
    assert metrics_of(context) == {"numRecordsSend": 3000, "numBytesSend": sum(map(len, bodies))}


def test_messages_of_a_websocket_count_as_utf_8():
    serve = pytest.importorskip("websockets.sync.server", reason="install it with: pip install 'funken[http]'").serve

    def send(connection):
        for message in ("tea", "käse", b"\0\1"):
            connection.send(message)

    with serve(send, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = WebSocketSource(f"ws://127.0.0.1:{server.socket.getsockname()[1]}", max_retries=0)
        found = read(source)
        server.shutdown()

    assert found == (3, {"numBytesIn": 3 + 5 + 2})


def test_what_a_socket_receives_counts():
    with socket.create_server(("localhost", 0)) as server:

        def send():
            with server.accept()[0] as peer:
                peer.sendall("tea\nkäse\n".encode())

        thread = threading.Thread(target=send)
        thread.start()
        found = read(SocketSource("localhost", server.getsockname()[1]), 2)
        thread.join()

    assert found == (2, {"numBytesIn": 10})


# ---- tables


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        ([], 0),
        ([("tea", 3), ("käse", None)], 3 + 5 + 8),
        ([(b"\0\1", "x"), (None, 1.5), (bytearray(3), None)], 2 + 3 + 1 + 8),
        ([(memoryview(bytes(4)),), ("\udc80",)], 4 + 3),
        ([(None, None)], 0),
    ],
)
def test_rows_count_by_their_values(rows, size):
    assert bytes_of(rows) == size
    assert bytes_of(rows) == sum(bytes_of([(cell,)]) for row in rows for cell in row)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_rows_of_sql_count_in_both_directions(tmp_path, guarantee):
    with closing(sqlite3.connect(tmp_path / "t.db")) as db, db:
        db.execute("CREATE TABLE t (word TEXT, n INTEGER)")
    database, context = SqliteDatabase(str(tmp_path / "t.db")), ConnectorContext("out")
    writer = SqlSink(database, "t", ("word", "n"), guarantee=guarantee).writer(context)
    writer.write(ROWS, None, 0)
    writer.close()
    size = sum(len(row["word"].encode()) + 8 for row in ROWS)

    assert metrics_of(context) == {"numRecordsSend": 3000, "numBytesSend": size}
    if guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
        assert read(SqlSource(database, "SELECT * FROM t", "n", page_size=700)) == (3000, {"numBytesIn": size})


def test_data_files_of_a_lake_table_count_by_what_was_read_of_them(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    lake = pytest.importorskip("deltalake")
    from funken.connectors.delta import DeltaSource

    lake.write_deltalake(str(tmp_path), arrow.Table.from_pylist(ROWS))
    [file] = tmp_path.glob("*.parquet")
    about = parquet.ParquetFile(file).metadata
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    size = sum(group.column(number).total_compressed_size for group in groups for number in range(2))

    assert 0 < size < file.stat().st_size
    assert read(DeltaSource(str(tmp_path))) == (3000, {"numBytesIn": size})


def test_data_files_of_iceberg_count_by_their_size(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyiceberg")
    from funken.connectors.iceberg import IcebergCatalog, IcebergSource

    about = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"}
    catalog = IcebergCatalog("lake", about)
    catalog.load().create_namespace("n")
    rows = arrow.Table.from_pylist(ROWS)
    catalog.load().create_table("n.t", rows.schema).append(rows)
    [file] = tmp_path.rglob("*.parquet")

    assert read(IcebergSource(catalog, "n.t")) == (3000, {"numBytesIn": file.stat().st_size})
