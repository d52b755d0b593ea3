"""Compaction: many small files become few, each record is visible once whatever fails, and nothing that was visible goes."""

import bz2
import errno
import gzip
import pickle
from typing import NamedTuple

import pytest
from pyarrow import parquet

from funken import BucketAssigner, Encoder, FileSink, FileSource, RollingPolicy, StreamFormat
from funken.connectors import CommitRequest, CommitterContext, ConnectorContext, CsvSchema, JsonSchema
from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.compaction import CompactedFile, FileCompactor, FileCompactStrategy
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.file_format import BulkFormat
from funken.connectors.files.line_files import CompressedRows, LineEncoder, LineFormat
from funken.errors import InvalidProgram, SinkNotWritable
from funken.io.filesystem import Files
from funken.testing import check_sink

BASE = BucketAssigner.base_path_bucket_assigner()
EVERY_SECOND = FileCompactStrategy(num_checkpoints=2)
LINES = Encoder.simple_string_encoder()


class Sale(NamedTuple):
    item: str
    n: int


def sink(encoder, folder, strategy, compactor=None, assigner=BASE):
    start = FileSink.for_row_format if isinstance(encoder, Encoder) else FileSink.for_bulk_format
    builder = start(folder, encoder).with_bucket_assigner(assigner)
    builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return (builder.disable_compact() if strategy is None else builder.enable_compact(strategy, compactor)).build()


def writer(of, states=()):
    made = of.writer(ConnectorContext("out"))
    if states:
        made.restore_state(pickle.loads(pickle.dumps(list(states))))
    made.open()
    return made


def commit(of, committables):
    of.committer(CommitterContext("out")).commit([CommitRequest(each) for each in committables])


def visible(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def hidden(folder):
    return sorted(path for path in folder.rglob(".*") if path.is_file())


def checkpoint(of, made, number, *blocks, end=False):
    for block in blocks:
        made.write(block, None, 0)
    return pickle.loads(pickle.dumps(made.prepare_commit(number, end_of_input=end)))


def test_files_of_several_checkpoints_become_one_and_go_when_it_is_visible(tmp_path):
    out = sink(LINES, tmp_path, EVERY_SECOND)
    made = writer(out)
    assert checkpoint(out, made, 1, ["a"], ["b"]) == []
    assert len(hidden(tmp_path)) == 1
    (ready,) = checkpoint(out, made, 2, ["c"])
    assert isinstance(ready, CompactedFile)
    assert len(ready.sources) == 2
    assert visible(tmp_path) == []
    for _ in range(2):  # a commit may be repeated
        commit(out, [ready])
        (file,) = visible(tmp_path)
        assert file.read_text() == "a\nb\nc\n"
        assert file.name.startswith("compacted-part-")
        assert hidden(tmp_path) == []
    assert made.snapshot_state(2) == []


def test_the_end_commits_what_waits_and_one_file_alone_stays_as_it_is(tmp_path):
    out = sink(LINES, tmp_path, FileCompactStrategy(num_checkpoints=9))
    made = writer(out)
    assert checkpoint(out, made, 1, ["a"]) == []
    commit(out, checkpoint(out, made, 2, end=True))
    (file,) = visible(tmp_path)
    assert file.name.startswith("part-")
    made.close()
    assert hidden(tmp_path) == []


def test_the_size_decides_too(tmp_path):
    out = sink(LINES, tmp_path, FileCompactStrategy(size_threshold=10))
    made = writer(out)
    sizes = []
    for number in range(9):
        commit(out, checkpoint(out, made, number, ["abc"]))
        sizes.append(len(visible(tmp_path)))
    assert sizes == [0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert {file.stat().st_size for file in visible(tmp_path)} == {12}


def test_folders_wait_each_for_itself(tmp_path):
    class ByLetter(BucketAssigner):
        def get_bucket_id(self, element, context):
            return element[0]

    out = sink(LINES, tmp_path, EVERY_SECOND, assigner=ByLetter())
    made = writer(out)
    commit(out, checkpoint(out, made, 1, ["a1", "b1"]))
    commit(out, checkpoint(out, made, 2, ["a2", "c1"]))
    commit(out, checkpoint(out, made, 3, ["a3"]))
    assert [(file.parent.name, file.read_text()) for file in visible(tmp_path)] == [
        ("a", "a1\na2\n"), ("b", "b1\n"), ("c", "c1\n"),
    ]  # fmt: skip
    commit(out, checkpoint(out, made, 4, end=True))
    assert sorted(file.read_text() for file in visible(tmp_path)) == ["a1\na2\n", "a3\n", "b1\n", "c1\n"]


FORMATS = {
    "lines": (LINES, StreamFormat.text_line_format(), str),
    "parquet": (ParquetFormat(Sale), ParquetFormat(Sale), None),
    "orc": (OrcFormat(Sale), OrcFormat(Sale), None),
    "avro": (AvroFormat(record_type=Sale), AvroFormat(record_type=Sale), None),
    "csv with a header": (
        CsvReaderFormat(CsvSchema(Sale), header=True).encoder(), CsvReaderFormat(CsvSchema(Sale), header=True), None,
    ),
    "json lines": (LineEncoder(JsonSchema(Sale)), LineFormat(JsonSchema(Sale)), None),
    "csv with a header, gzip": (
        CompressedRows(CsvReaderFormat(CsvSchema(Sale), header=True).encoder(), "gzip"),
        CsvReaderFormat(CsvSchema(Sale), header=True), None,
    ),
    "zstd": (CompressedRows(LineEncoder(CsvSchema(Sale)), "zstd"), LineFormat(CsvSchema(Sale)), None),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("strategy", [EVERY_SECOND, FileCompactStrategy(size_threshold=400)], ids=["count", "size"])
def test_every_format_keeps_the_contract_of_a_sink(job, tmp_path, name, strategy):
    encoder, format, make_record = FORMATS[name]

    def make(seed):
        folder = tmp_path / f"{seed}"
        out = sink(encoder, folder, strategy)

        def read():
            if not visible(folder):
                return []
            return job(FileSource.for_format(format, folder).build()).run()

        return out, read

    check_sink(make, record=make_record or (lambda n: Sale(f"tea {n}", n)), seeds=8, keeps_back=True)


def test_a_parquet_file_of_many_has_their_rows_in_large_groups(tmp_path):
    out = sink(ParquetFormat(Sale), tmp_path, FileCompactStrategy(num_checkpoints=5))
    made = writer(out)
    for number in range(5):
        commit(out, checkpoint(out, made, number, [Sale("tea", number)]))
    (file,) = visible(tmp_path)
    opened = parquet.ParquetFile(file)
    assert opened.metadata.num_row_groups == 1
    assert opened.read().column("n").to_pylist() == [*range(5)]


def test_files_of_two_schemas_stay_apart(tmp_path):
    out = sink(ParquetFormat(), tmp_path, EVERY_SECOND)
    made = writer(out)
    commit(out, checkpoint(out, made, 1, [{"n": 1}]))
    commit(out, checkpoint(out, made, 2, [{"n": "one"}]))
    found = [parquet.ParquetFile(file).read().to_pylist() for file in visible(tmp_path)]
    assert sorted(map(str, found)) == ["[{'n': 'one'}]", "[{'n': 1}]"]
    assert hidden(tmp_path) == []


def test_a_compactor_of_ones_own(tmp_path):
    for compactor, expected in (
        (FileCompactor.concat_file_compactor(b"--\n"), ["a\n--\nb\n"]),
        (FileCompactor.identical_file_compactor(), ["a\n", "b\n"]),
    ):
        folder = tmp_path / str(len(expected))
        out = sink(LINES, folder, EVERY_SECOND, compactor)
        made = writer(out)
        commit(out, checkpoint(out, made, 1, ["a"]))
        commit(out, checkpoint(out, made, 2, ["b"]))
        assert sorted(file.read_text() for file in visible(folder)) == expected


def test_an_abort_removes_what_no_checkpoint_knows_and_keeps_what_one_does(tmp_path):
    out = sink(LINES, tmp_path, EVERY_SECOND)
    made = writer(out)
    checkpoint(out, made, 1, ["a"])
    state = made.snapshot_state(1)
    ready = checkpoint(out, made, 2, ["b"])
    assert len(hidden(tmp_path)) == 3
    out.committer(CommitterContext("out")).abort([CommitRequest(each) for each in ready])
    assert len(hidden(tmp_path)) == 1
    again = writer(out, state)
    commit(out, checkpoint(out, again, 2, ["b again"]))
    assert [file.read_text() for file in visible(tmp_path)] == ["a\nb again\n"]


def test_a_snapshot_that_is_older_than_what_was_committed_since_doubles_nothing(tmp_path):
    out = sink(LINES, tmp_path, EVERY_SECOND)
    made = writer(out)
    checkpoint(out, made, 1, ["a"])
    state = made.snapshot_state(1)
    ready = checkpoint(out, made, 2, ["b"])
    commit(out, ready)
    again = writer(out, state)  # what waited is visible by now
    commit(out, checkpoint(out, again, 2, end=True))
    assert [file.read_text() for file in visible(tmp_path)] == ["a\nb\n"]


def test_a_commit_that_was_interrupted_before_its_sources_were_removed_doubles_nothing(tmp_path):
    out = sink(LINES, tmp_path, EVERY_SECOND)
    made = writer(out)
    checkpoint(out, made, 1, ["a"])
    state = made.snapshot_state(1)
    (ready,) = checkpoint(out, made, 2, ["b"])
    commit(out, [ready._replace(sources=())])
    again = writer(out, state)
    commit(out, checkpoint(out, again, 2, end=True))
    assert [file.read_text() for file in visible(tmp_path)] == ["a\nb\n"]


def test_a_commit_that_was_interrupted_before_the_whole_was_visible_loses_nothing(tmp_path, monkeypatch):
    out = sink(LINES, tmp_path, EVERY_SECOND)
    made = writer(out)
    checkpoint(out, made, 1, ["a"])
    state = made.snapshot_state(1)
    ready = checkpoint(out, made, 2, ["b"])

    def move(self, source, target):
        raise OSError(errno.EIO, "the machine goes down")

    with monkeypatch.context() as broken, pytest.raises(SinkNotWritable):
        broken.setattr(Files, "move", move)
        commit(out, ready)
    again = writer(out, state)
    commit(out, checkpoint(out, again, 2, ["b"], end=True))
    assert [file.read_text() for file in visible(tmp_path)] == ["a\nb\n"]


def test_a_file_that_waited_and_is_lost_fails_the_restore(tmp_path):
    out = sink(LINES, tmp_path, EVERY_SECOND)
    made = writer(out)
    checkpoint(out, made, 1, ["a"])
    state = made.snapshot_state(1)
    (file,) = hidden(tmp_path)
    file.unlink()
    with pytest.raises(
        SinkNotWritable, match="waited for compaction in the snapshot that the job starts from, and is gone"
    ):
        writer(out, state)


def test_a_sink_that_no_longer_compacts_commits_what_waits(tmp_path):
    out = sink(LINES, tmp_path, EVERY_SECOND)
    made = writer(out)
    checkpoint(out, made, 1, ["a"], ["b"])
    state = made.snapshot_state(1)
    plain = sink(LINES, tmp_path, None)
    again = writer(plain, state)
    commit(plain, checkpoint(plain, again, 2, ["c"]))
    assert sorted(file.read_text() for file in visible(tmp_path)) == ["a\nb\n", "c\n"]
    assert again.snapshot_state(2) == []


def test_a_format_that_cannot_put_files_together_says_what_to_do(tmp_path):
    class Own(BulkFormat):
        def create(self, file):
            raise NotImplementedError

    with pytest.raises(InvalidProgram, match="Own puts no files together; pass a FileCompactor"):
        sink(Own(), tmp_path, EVERY_SECOND)
    assert (
        sink(Own(), tmp_path, EVERY_SECOND, FileCompactor.identical_file_compactor()).compact_strategy is EVERY_SECOND
    )


@pytest.mark.parametrize(("name", "opened"), [("gzip", gzip.open), ("bz2", bz2.open)])
def test_compressed_rows_have_one_header(tmp_path, name, opened):
    out = sink(CompressedRows(CsvReaderFormat(CsvSchema(Sale), header=True).encoder(), name), tmp_path, EVERY_SECOND)
    made = writer(out)
    commit(out, checkpoint(out, made, 1, [Sale("tea", 1)]))
    commit(out, checkpoint(out, made, 2, [Sale("jam", 2)]))
    (file,) = visible(tmp_path)
    with opened(file, "rt") as text:
        assert text.read().split() == ["item,n", "tea,1", "jam,2"]
