"""Iceberg tables in a catalog on SQLite: the contracts, and what is refused."""

import datetime

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyiceberg")

from funken.connectors import CommitOutcome, CommitRequest, ConnectorContext  # noqa: E402
from funken.connectors.base import Batch, CommitterContext  # noqa: E402
from funken.connectors.iceberg import IcebergCatalog, IcebergSink, IcebergSource  # noqa: E402
from funken.errors import SinkNotWritable, SourceNotReadable, ValueDoesNotFit  # noqa: E402
from funken.testing import check_sink, check_source  # noqa: E402

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])


@pytest.fixture
def lake(tmp_path):
    lake = IcebergCatalog(
        "lake", {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"}
    )
    lake.load().create_namespace("n")
    return lake


def table_in(lake, name, schema=SCHEMA, **more):
    return lake.load().create_table(f"n.{name}", schema, **more)


def rows(lake, name):
    return sorted(tuple(row.values()) for row in lake.load().load_table(f"n.{name}").scan().to_arrow().to_pylist())


def prepared(lake, records, checkpoint=1, subtask=0):
    writer = IcebergSink(lake, "n.t").writer(ConnectorContext("out", subtask, operator_uid="out"))
    writer.open()
    writer.write(records, None, 0)
    [committable] = writer.prepare_commit(checkpoint, end_of_input=False)
    writer.close()
    return CommitRequest(committable, job_id="job", operator_uid="out", subtask=subtask, checkpoint_id=checkpoint)


def committer(lake, restored=None):
    return IcebergSink(lake, "n.t").committer(CommitterContext("out", 1, "job", "out", 0, restored))


def test_the_sink_keeps_its_contract(lake):
    def make(seed):
        table_in(lake, f"t{seed}")
        return IcebergSink(lake, f"n.t{seed}"), lambda: rows(lake, f"t{seed}")

    check_sink(make, record=lambda n: (n, f"w{n}"), seeds=1, count=12)


def test_a_checkpoint_is_one_commit_and_says_so(lake):
    table_in(lake, "t")
    committer(lake).commit([prepared(lake, [(subtask, "a")], 7, subtask) for subtask in range(3)])
    table = lake.load().load_table("n.t")

    assert rows(lake, "t") == [(0, "a"), (1, "a"), (2, "a")]
    assert [each.summary["funken.checkpoint"] for each in table.snapshots()] == ["7"]


def test_a_job_that_starts_from_an_earlier_checkpoint_loses_nothing(lake):
    table_in(lake, "t")
    committer(lake).commit([prepared(lake, [(1, "a")], 1), prepared(lake, [(2, "a")], 2)])
    same = prepared(lake, [(2, "a")], 2)
    committer(lake, restored=2).recover([same])
    assert same.outcome is CommitOutcome.ALREADY_COMMITTED
    again = prepared(lake, [(2, "a")], 2)
    earlier = committer(lake, restored=1)
    earlier.recover([])
    earlier.commit([again])

    assert again.outcome is CommitOutcome.COMMITTED
    assert rows(lake, "t") == [(1, "a"), (2, "a"), (2, "a")], "in twice, as a job that goes back in time writes it"


@pytest.mark.parametrize("checkpoint", [None, 4])
def test_a_commit_whose_answer_is_lost_is_in_once(lake, monkeypatch, checkpoint):
    table_in(lake, "t")
    mine = committer(lake)
    add, failures = mine.add, iter([True, False])

    def lost(*given):
        add(*given)
        if next(failures):
            raise OSError("connection reset")

    monkeypatch.setattr(mine, "add", lost)
    requests = [prepared(lake, [(subtask, "a")], checkpoint, subtask) for subtask in range(2)]
    for tried in range(2):
        for request in requests:
            request.retries = tried
        mine.commit(requests)
        assert {request.outcome for request in requests} == {
            CommitOutcome.ALREADY_COMMITTED if tried else CommitOutcome.RETRY_LATER
        }

    assert rows(lake, "t") == [(0, "a"), (1, "a")]


def test_files_of_an_attempt_that_does_not_count_are_deleted(lake, tmp_path):
    table_in(lake, "t")
    request = prepared(lake, [(1, "a")])
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    committer(lake).abort([request])
    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.mark.parametrize("name", ["identity", "year", "month", "day", "hour", "truncate", "both"])
def test_a_file_holds_records_of_one_partition(lake, name):
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import (
        DayTransform,
        HourTransform,
        IdentityTransform,
        MonthTransform,
        TruncateTransform,
        YearTransform,
    )

    schema = pa.schema([("n", pa.int64()), ("word", pa.string()), ("at", pa.timestamp("us"))])
    of = {"year": YearTransform(), "month": MonthTransform(), "day": DayTransform(), "hour": HourTransform()}
    parts = (
        [(3, of[name])] if name in of else [(2, TruncateTransform(2) if name == "truncate" else IdentityTransform())]
    )
    if name == "both":
        parts.append((3, DayTransform()))
    fields = [
        PartitionField(source_id=at, field_id=1000 + n, transform=t, name=f"p{n}") for n, (at, t) in enumerate(parts)
    ]
    plain = table_in(lake, "plain", schema)
    table_in(lake, "t", plain.schema(), partition_spec=PartitionSpec(*fields))
    words = ["tea", "teapot", None, "né", "jam", ""]
    times = [datetime.datetime(2024 + n % 2, 1 + n % 3, 1 + n % 5, n % 7, n) for n in range(40)]  # noqa: DTZ001
    records = [(n, words[n % 6], None if n == 7 else times[n]) for n in range(40)]
    committer(lake).commit([prepared(lake, records[:25], 1, 0), prepared(lake, records[25:], 1, 1)])

    def part_of(record):
        def value(column, transform):
            found = record[column - 1]
            if found is None:
                return None
            if column == 2:
                return found[:2] if name == "truncate" else found
            return found.isoformat()[: {"year": 4, "month": 7, "day": 10, "hour": 13}.get(str(transform), 10)]

        return tuple(value(column, transform) for column, transform in parts)

    expected = {
        (subtask, part_of(record)) for subtask, some in enumerate((records[:25], records[25:])) for record in some
    }
    table = lake.load().load_table("n.t")
    assert sorted((row["n"], row["word"], row["at"]) for row in table.scan().to_arrow().to_pylist()) == records
    files = table.inspect.files().to_pylist()
    assert len(files) == len(expected) > 2
    partitions = [tuple(each["partition"].values()) for each in table.inspect.partitions().to_pylist()]
    assert len(partitions) == len(set(partitions)) == len({part for _, part in expected})
    assert name != "identity" or len(list(table.scan("word == 'tea'").plan_files())) == 2


def test_what_is_wrong_is_said_before_anything_runs(lake, tmp_path):
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import BucketTransform, TruncateTransform

    table = table_in(lake, "t")
    for name, column, transform in (("p", 2, BucketTransform(4)), ("q", 1, TruncateTransform(10))):
        spec = PartitionSpec(PartitionField(source_id=column, field_id=1000, transform=transform, name="part"))
        table_in(lake, name, table.schema(), partition_spec=spec)
    nowhere = IcebergCatalog(
        "lake", {"type": "sql", "uri": f"sqlite:///{tmp_path}/none/secret.db", "warehouse": "file:///"}
    )
    for sink, message in (
        (IcebergSink(lake, "n.none"), "no Iceberg table 'n.none'; create it"),
        (IcebergSink(lake, "n.p"), r"partitioned by bucket\[4\] of 'word' \(string\).*partition by identity, year"),
        (IcebergSink(lake, "n.q"), r"partitioned by truncate\[10\] of 'n' \(long\)"),
        (IcebergSink(nowhere, "n.t"), "cannot be used .*correct its properties"),
    ):
        with pytest.raises(SinkNotWritable, match=message) as failure:
            sink.check()
        assert "secret" not in str(failure.value) + repr(sink)
    with pytest.raises(SourceNotReadable, match="no snapshot 17"):
        table.append(pa.table({"n": [1], "word": ["a"]}, SCHEMA))
        IcebergSource(lake, "n.t", snapshot_id=17).enumerator(1).start()
    with pytest.raises(ValueDoesNotFit, match="'n' of the table is int64"):
        prepared(lake, [("one", "a")])


class Numbers(IcebergSource):
    def reader(self, context):
        reader = super().reader(context)
        poll = reader.poll

        def plain(limit, now):
            got = poll(limit, now)
            return Batch([row["n"] for row in got.values], split=got.split) if isinstance(got, Batch) else got

        reader.poll = plain
        return reader


def test_the_source_keeps_its_contract_also_for_an_older_snapshot(lake):
    table = table_in(lake, "t")
    assert Numbers(lake, "n.t").enumerator(1).start() is None
    for start in (0, 10):
        table.append(pa.table({"n": range(start, start + 10), "word": ["a"] * 10}, SCHEMA))
    first = table.snapshots()[0].snapshot_id
    with table.update_schema() as update:
        update.rename_column("word", "name")

    check_source(Numbers(lake, "n.t", columns=("n",)), range(20), seeds=1)
    check_source(Numbers(lake, "n.t", snapshot_id=first, columns=("n",)), range(10), seeds=1)
