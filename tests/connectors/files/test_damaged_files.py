"""Files that are cut off, damaged, or followed by something: all their lines are read, or an error names the file."""

import bz2
import gzip
import io
import lzma

import pytest

from funken import Configuration, FileSource, StreamExecutionEnvironment, StreamFormat, Types
from funken.connectors import CsvSchema, JsonSchema
from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.file_format import compressed, decompressed
from funken.connectors.files.line_files import LineFormat
from funken.dataset import ExecutionEnvironment
from funken.errors import SourceNotReadable
from funken.graph.columns.parts import ParquetChunks

FIRST, SECOND = b"".join(b'{"n": %d}\n' % number for number in range(40)), b'{"n": 40}\n'


def zstd(data):
    file = io.BytesIO()
    with compressed(file, "zstd") as stream:
        stream.write(data)
    return file.getvalue()


COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
CHECKED = [".gz", ".bz2", ".xz"]
"""Those with checksums: Arrow's streams of Zstandard have none."""


def read(data, ending):
    return decompressed(io.BytesIO(data), ending).read()


@pytest.mark.parametrize("ending", COMPRESS)
def test_all_streams_of_a_file_are_read(ending):
    data = COMPRESS[ending](FIRST) + COMPRESS[ending](b"") + COMPRESS[ending](SECOND)

    assert read(data, ending) == FIRST + SECOND
    with decompressed(io.BytesIO(data), ending) as stream:  # a byte at a time
        assert b"".join(iter(lambda: stream.read(1), b"")) == FIRST + SECOND


@pytest.mark.parametrize("ending", COMPRESS)
def test_a_file_that_is_cut_off_anywhere_but_between_streams_raises(ending):
    first = COMPRESS[ending](FIRST)
    data = first + COMPRESS[ending](SECOND)
    for cut in range(1, len(data)):
        if cut == len(first):
            assert read(data[:cut], ending) == FIRST
        else:
            with pytest.raises((OSError, EOFError)):
                read(data[:cut], ending)


@pytest.mark.parametrize("ending", CHECKED)
def test_a_byte_that_changed_loses_nothing_silently(ending):
    data = COMPRESS[ending](FIRST) + COMPRESS[ending](SECOND)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        try:
            found = read(damaged, ending)
        except (OSError, EOFError):
            continue
        assert found == FIRST + SECOND  # gzip has bytes that mean nothing: a time, a system


ZEROS, FOUR = b"\0", b"\0" * 4
BEHIND = [
    *[(ending, b"tail", False) for ending in COMPRESS], *[(ending, b"\0\0x", False) for ending in COMPRESS],
    (".gz", ZEROS, True), (".gz", FOUR * 9, True), (".xz", FOUR, True), (".xz", FOUR * 50_000, True),
    (".xz", ZEROS, False), (".xz", ZEROS * 6, False), (".bz2", ZEROS, False), (".bz2", FOUR, False), (".zst", FOUR, False),
    *[(ending, COMPRESS[ending](b"")[:4], False) for ending in COMPRESS],
]  # fmt: skip


@pytest.mark.parametrize(("ending", "behind", "is_padding"), BEHIND)
@pytest.mark.parametrize("more", [b"", SECOND], ids=["at the end", "between streams"])
def test_behind_a_stream_there_is_padding_another_or_damage(ending, behind, is_padding, more):
    data = COMPRESS[ending](FIRST) + behind + (COMPRESS[ending](more) if more else b"")

    if is_padding:
        assert read(data, ending) == FIRST + more
    else:
        with pytest.raises((OSError, EOFError)):
            read(data, ending)


def environment(vectorized):
    configuration = Configuration({"pipeline.vectorized": vectorized})
    return StreamExecutionEnvironment.create_local_environment(1, configuration)


ROW = Types.ROW_NAMED(["n"], [Types.LONG()])
TEXTS = {
    "text": StreamFormat.text_line_format(), "json": LineFormat(JsonSchema()), "typed json": LineFormat(JsonSchema(ROW)),
    "csv": CsvReaderFormat(CsvSchema(ROW)), "csv lines": LineFormat(CsvSchema(ROW)),
}  # fmt: skip


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("format", TEXTS)
@pytest.mark.parametrize("ending", [*COMPRESS, ".gz second"])
def test_the_first_compressed_file_is_named_if_it_is_damaged(tmp_path, format, ending, vectorized):
    ending, _, second = ending.partition(" ")
    content = b"1\n" if "csv" in format else FIRST
    whole = COMPRESS[ending](content)
    (tmp_path / f"a{ending}").write_bytes((whole if second else b"") + whole[:-5])
    stream = environment(vectorized).from_source(FileSource.for_format(TEXTS[format], str(tmp_path)).build())

    with pytest.raises(SourceNotReadable, match=rf"a\{ending} cannot be read"):
        stream.map(lambda record: record).execute_and_collect(limit=99)


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("format", [ParquetFormat(), OrcFormat(), AvroFormat()], ids=["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    "content", [b"x", b"PAR1" * 9, b"ORC" * 9, b"Obj\x01" * 9], ids=["x", "parquet", "orc", "avro"]
)
def test_the_first_file_of_columns_is_named_if_it_is_damaged(tmp_path, format, content, vectorized):
    (tmp_path / "a.data").write_bytes(content)
    stream = environment(vectorized).from_source(FileSource.for_format(format, str(tmp_path)).build())

    with pytest.raises(SourceNotReadable, match=r"a\.data cannot be read"):
        stream.map(lambda record: record["n"]).execute_and_collect(limit=99)


def test_an_error_says_how_far_the_file_was_read(tmp_path):
    text = "".join(f"{number}\n" for number in range(200_000)).encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(text)[:-9])
    (tmp_path / "b.csv").write_bytes(text + b'"')

    def reading(format, name):
        environment(False).from_source(FileSource.for_format(format, str(tmp_path / name)).build()).execute_and_collect(
            limit=10**6
        )

    with pytest.raises(SourceNotReadable, match=r"a\.gz cannot be read after line \d{5,}: Compressed file ended"):
        reading(TEXTS["text"], "a.gz")
    with pytest.raises(Exception, match=r"b\.csv row 200001: .* it is no CSV"):
        reading(TEXTS["csv"], "b.csv")


DATASETS = {
    "text": ("a.gz", lambda env, path: env.read_text_file(path)), "bz2": ("a.bz2", lambda env, path: env.read_text_file(path)),
    "xz": ("a.xz", lambda env, path: env.read_text_file(path)), "csv": ("a.csv.gz", lambda env, path: env.read_csv_file(path)),
    "json": ("a.json.zst", lambda env, path: env.read_json_file(path)),
}  # fmt: skip


@pytest.mark.parametrize("kind", DATASETS)
def test_data_sets_read_and_name_compressed_files(tmp_path, kind):
    name, reading = DATASETS[kind]
    compress = COMPRESS[f".{name.rpartition('.')[2]}"]
    path = tmp_path / name

    path.write_bytes(compress(FIRST) + compress(SECOND))
    env = ExecutionEnvironment.create_local_environment(parallelism=2)
    assert reading(env, str(path)).count() == 41

    path.write_bytes(compress(FIRST) + compress(SECOND)[:-3])
    with pytest.raises(SourceNotReadable, match=rf"cannot read '.*{name}'( after line 4\d)?: "):
        reading(env, str(path)).count()


def test_data_sets_name_files_that_are_none(tmp_path):
    env = ExecutionEnvironment.create_local_environment(parallelism=1)
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    (tmp_path / "a.txt").write_bytes(b"tea\ncaf\xe9\n")
    (tmp_path / "a.json").write_bytes(b'{"n": 1}\n{"n":\n')
    (tmp_path / "deep.json").write_bytes(b"[" * 100_000 + b"]" * 100_000)

    with pytest.raises(SourceNotReadable, match=r"ParquetInput cannot read '.*a\.parquet'"):
        env.read_parquet_file(str(tmp_path / "a.parquet")).collect()
    with pytest.raises(SourceNotReadable, match=r"TextInput cannot read '.*a\.txt' after line 1: .*0xe9"):
        env.read_text_file(str(tmp_path / "a.txt")).collect()
    with pytest.raises(SourceNotReadable, match=r"JsonInput cannot read '.*a\.json', line 2 from byte 0"):
        env.read_json_file(str(tmp_path / "a.json")).collect()
    with pytest.raises(SourceNotReadable, match=r"deep\.json', line 1 from byte 0: maximum recursion"):
        env.read_json_file(str(tmp_path / "deep.json")).collect()


def test_graphs_name_files_that_are_none(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")

    with pytest.raises(SourceNotReadable, match=r"a\.parquet' cannot be read: .*Is it a file of Parquet"):
        ParquetChunks(str(tmp_path / "a.parquet"), "from", "to", None).create_splits(1)
