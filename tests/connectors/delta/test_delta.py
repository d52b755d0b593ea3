"""Delta tables: the contracts, partitions, versions as they come, and what is refused."""

import json
from datetime import date
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from funken.connectors import CommitOutcome, CommitRequest, ConnectorContext  # noqa: E402
from funken.connectors.base import Batch, CommitterContext  # noqa: E402
from funken.connectors.delta import DeltaSink, DeltaSource  # noqa: E402
from funken.errors import SinkNotWritable, SourceNotReadable, ValueDoesNotFit  # noqa: E402
from funken.testing import check_sink, check_source, local  # noqa: E402

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])


def table_at(folder, schema=SCHEMA, **more):
    deltalake.DeltaTable.create(str(folder), schema=schema, **more)
    return str(folder)


def rows(path):
    return sorted(tuple(row.values()) for row in deltalake.DeltaTable(path).to_pyarrow_table().to_pylist())


def read_all(source):
    enumerator = source.enumerator(1)
    enumerator.start()
    return drained(source, enumerator)


def drained(source, enumerator):
    """Read all splits that there are now."""
    found, reader = [], source.reader(ConnectorContext("source"))
    while splits := enumerator.next_splits(0):
        reader.add_splits(splits)
        while isinstance(got := reader.poll(2, 0), Batch):
            found += got.values
    return found


def discover(enumerator):
    found = enumerator.discover(0)
    return found is not None and enumerator.add_discovered(found)


# ---- the sink


def test_the_sink_keeps_its_contract(tmp_path):
    def make(seed):
        path = table_at(tmp_path / str(seed))
        return DeltaSink(path), lambda: rows(path)

    check_sink(make, record=lambda n: (n, f"w{n}"), seeds=3, count=20)


def committed(path, number, request, restored=None):
    committer = DeltaSink(path).committer(CommitterContext("out", 1, "job", "out", 0, restored))
    committer.open()
    committer.recover([request] if request.checkpoint_id == restored else [])
    if request.checkpoint_id != restored:
        committer.commit([request])
    return request


def prepared(path, records, checkpoint=1, subtask=0):
    writer = DeltaSink(path).writer(ConnectorContext("out", subtask, operator_uid="out"))
    writer.open()
    writer.write(records, None, 0)
    [committable] = writer.prepare_commit(checkpoint, end_of_input=False)
    writer.close()
    return CommitRequest(committable, job_id="job", operator_uid="out", subtask=subtask, checkpoint_id=checkpoint)


def test_a_checkpoint_is_one_commit(tmp_path):
    path = table_at(tmp_path / "t")
    committer = DeltaSink(path).committer(CommitterContext("out", 2, "job", "out"))
    committer.recover([])
    committer.commit([prepared(path, [(subtask, "a")], subtask=subtask) for subtask in range(3)])

    assert rows(path) == [(0, "a"), (1, "a"), (2, "a")]
    assert deltalake.DeltaTable(path).version() == 1


def test_a_job_that_starts_from_an_earlier_checkpoint_loses_nothing(tmp_path):
    path = table_at(tmp_path / "t")
    committed(path, 1, prepared(path, [(1, "a")], 1))
    committed(path, 2, prepared(path, [(2, "a")], 2), restored=1)
    again = committed(path, 2, prepared(path, [(2, "a")], 2), restored=1)

    assert again.outcome is CommitOutcome.COMMITTED
    assert rows(path) == [(1, "a"), (2, "a"), (2, "a")], "in twice, as a job that goes back in time writes it"


@pytest.mark.parametrize("checkpoint", [None, 4])
def test_a_commit_whose_answer_is_lost_is_in_once(tmp_path, monkeypatch, checkpoint):
    path = table_at(tmp_path / "t")
    committer = DeltaSink(path).committer(CommitterContext("out", 1, "job", "out"))
    write, failures = committer.add, iter([True, False])

    def lost(*given):
        write(*given)
        if next(failures):
            raise OSError("connection reset")

    monkeypatch.setattr(committer, "add", lost)
    requests = [prepared(path, [(subtask, "a")], checkpoint, subtask) for subtask in range(2)]
    for tried in range(2):
        for request in requests:
            request.retries = tried
        committer.commit(requests)
        assert {request.outcome for request in requests} == {
            CommitOutcome.ALREADY_COMMITTED if tried else CommitOutcome.RETRY_LATER
        }

    assert rows(path) == [(0, "a"), (1, "a")]


def test_records_go_to_their_partitions(tmp_path):
    schema = pa.schema([("day", pa.date32()), ("n", pa.int64()), ("shop", pa.string()), ("open", pa.bool_())])
    path = table_at(tmp_path / "t", schema, partition_by=["day", "shop", "open"])
    records = [
        {"day": date(2026, 1, 1 + n % 2), "n": n, "shop": ("a/b c=d%", None, "ü")[n % 3], "open": n % 2 == 0}
        for n in range(12)
    ]
    stream = local(records)
    stream.sink_to(DeltaSink(path))
    stream.get_execution_environment().execute()

    def by_number(found):
        return sorted((dict(row) for row in found), key=lambda row: row["n"])

    assert by_number(deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()) == records
    assert by_number(read_all(DeltaSource(path))) == records
    continuous = DeltaSource(path, monitor_continuously="1 s", starting_version=0)
    enumerator = continuous.enumerator(1)
    enumerator.start()
    assert discover(enumerator)
    assert by_number(drained(continuous, enumerator)) == records


def test_a_record_that_does_not_fit_is_named(tmp_path):
    path = table_at(tmp_path / "t")
    with pytest.raises(ValueDoesNotFit, match="'out'.*'n' of the table is int64"):
        prepared(path, [("one", "a")])
    with pytest.raises(ValueDoesNotFit, match="no field 'word'"):
        prepared(path, [{"n": 1}])


def test_a_table_that_is_not_there_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(SinkNotWritable, match="no Delta table at .*create it"):
        DeltaSink(str(tmp_path / "none")).check()
    with pytest.raises(SourceNotReadable, match="no Delta table at"):
        DeltaSource(str(tmp_path / "none")).enumerator(1).start()
    assert "secret" not in repr(DeltaSink("s3://lake/t", {"key": "secret"}))


# ---- the source


def test_the_source_keeps_its_contract(tmp_path):
    path = table_at(tmp_path / "t")
    for start in range(0, 30, 10):
        deltalake.write_deltalake(
            path, pa.table({"n": range(start, start + 10), "word": ["a"] * 10}, SCHEMA), mode="append"
        )

    class Plain(DeltaSource):
        def reader(self, context):
            reader = super().reader(context)
            poll = reader.poll

            def plain(limit, now):
                got = poll(limit, now)
                return Batch([row["n"] for row in got.values], split=got.split) if isinstance(got, Batch) else got

            reader.poll = plain
            return reader

    check_source(Plain(path), range(30), seeds=5)
    check_source(Plain(path, version=2), range(20), seeds=2)


def test_versions_are_read_as_they_come_and_compaction_adds_nothing(tmp_path):
    path = table_at(tmp_path / "t")
    source = DeltaSource(path, monitor_continuously="1 s")
    enumerator = source.enumerator(1)
    enumerator.start()
    found = drained(source, enumerator)
    for n in range(4):
        deltalake.write_deltalake(path, pa.table({"n": [n], "word": ["a"]}, SCHEMA), mode="append")
        if n % 2:
            assert discover(enumerator)
            again = source.enumerator(1)
            again.restore(enumerator.snapshot())
            enumerator = again
            found += drained(source, enumerator)
    deltalake.DeltaTable(path).optimize.compact()
    assert not discover(enumerator)
    assert enumerator.discover(0) is None

    assert [row["n"] for row in found] == [0, 1, 2, 3]


def test_a_version_that_removes_rows_fails_a_stream(tmp_path):
    path = table_at(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"n": [1, 2], "word": ["a", "b"]}, SCHEMA), mode="append")
    enumerator = DeltaSource(path, monitor_continuously="1 s").enumerator(1)
    enumerator.start()
    deltalake.DeltaTable(path).delete("n = 1")

    with pytest.raises(SourceNotReadable, match="version 2 .* removes rows.*starting_version=3"):
        enumerator.discover(0)
    assert [row["n"] for row in read_all(DeltaSource(path))] == [2]


def test_a_version_that_is_not_in_the_log_is_said(tmp_path):
    path = table_at(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"n": [1], "word": ["a"]}, SCHEMA), mode="append")
    enumerator = DeltaSource(path, monitor_continuously="1 s", starting_version=0).enumerator(1)
    enumerator.start()
    enumerator.restore((5, []))
    assert enumerator.discover(0) is None
    log = Path(path, "_delta_log")
    assert json.loads((log / f"{1:020d}.json").read_text().splitlines()[0])
    enumerator.restore((0, []))
    (log / f"{0:020d}.json").rename(tmp_path / "gone")
    with pytest.raises(SourceNotReadable):
        enumerator.discover(0)
