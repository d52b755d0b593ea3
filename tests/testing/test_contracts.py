"""The contract test kit: what keeps the contract passes, and each way to break it is seen."""

import gzip
import sqlite3
import threading
from dataclasses import dataclass, replace

import pytest

from funken import (
    BucketAssigner,
    CollectionSource,
    DataGeneratorSource,
    Encoder,
    FileSink,
    FileSource,
    NumberSequenceSource,
    RollingPolicy,
    Sink,
    SinkWriter,
    StreamFormat,
)
from funken.connectors import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    Committer,
    QueuedReader,
    RateLimitedSource,
    Source,
    SourceReader,
    StaticSplits,
    Wait,
)
from funken.connectors.datagen import IndexSplit
from funken.testing import ContractViolation, check_sink, check_source

# ---- sources


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (CollectionSource(range(40)), range(40)),
        (NumberSequenceSource(1, 40), range(1, 41)),
        (DataGeneratorSource(lambda i: i, 40), range(40)),
        (RateLimitedSource(NumberSequenceSource(1, 40), 500), range(1, 41)),
    ],
)
def test_a_source_keeps_its_contract(source, expected):
    check_source(source, expected, seeds=30)


@pytest.mark.parametrize("monitored", [False, True])
def test_the_file_source_keeps_its_contract(tmp_path, monitored):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}{n}\n" for n in range(30)))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"".join(b"c%d\n" % n for n in range(30))))
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path).set_split_bytes(50)
    source = builder.monitor_continuously(1000).build() if monitored else builder.build()

    check_source(source, [f"{name}{n}" for name in "abc" for n in range(30)])


def test_failing_io_costs_attempts_but_no_records():
    polls = iter(range(10**9))

    def fails():
        if next(polls) % 17 == 16:
            raise OSError("the disk does not answer")

    check_source(NumberSequenceSource(1, 40), range(1, 41), fails=fails)


class Reader(QueuedReader):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def poll(self, limit, now):
        while self.queue:
            split = self.queue[0]
            indices = split.take(limit)
            if indices:
                self.queue[0] = split.after(indices)
                return Batch(list(indices), split=split.id)
            self.end_split()
        return NEED_SPLITS

    def snapshot_state(self, checkpoint_id):
        splits = super().snapshot_state(checkpoint_id)
        match self.fault:
            case "skips":
                return [replace(split, position=split.position + 1) for split in splits]
            case "repeats":
                return [replace(split, position=max(0, split.position - 1)) for split in splits]
            case "forgets":
                return splits[1:]
        return splits


@dataclass(frozen=True)
class Broken(Source):
    fault: str

    def enumerator(self, parallelism):
        return StaticSplits([IndexSplit("low", 0, 20), IndexSplit("high", 20, 40)], parallelism)

    def reader(self, context):
        return Reader(self.fault)


def test_the_source_that_the_broken_ones_are_made_of_keeps_its_contract():
    check_source(Broken(""), range(40))


@pytest.mark.parametrize("fault", ["skips", "repeats", "forgets"])
def test_a_source_whose_snapshot_is_wrong_is_seen(fault):
    with pytest.raises(ContractViolation, match=r"seed \d+, at the end: lost .*, too many .*\n  attempt 0"):
        check_source(Broken(fault), range(40))


class WakingReader(SourceReader):
    """Has a record whenever a thread has brought one."""

    def __init__(self, context, source):
        self.context, self.source, self.position, self.brought = context, source, None, False

    def add_splits(self, splits):
        [self.position] = splits

    def poll(self, limit, now):
        if self.position == 5 and self.source.endless:
            return Wait(None)
        if self.position is None or self.position == 5:
            self.position = None
            return NEED_SPLITS
        if self.brought:
            self.brought, self.position = False, self.position + 1
            return Batch([self.position])
        threading.Thread(target=self.bring).start()
        return Wait(None)

    def bring(self):
        self.brought = True
        if self.source.wakes:
            self.context.wake()

    def snapshot_state(self, checkpoint_id):
        return [] if self.position is None else [self.position]


@dataclass(frozen=True)
class Waking(Source):
    wakes: bool
    endless: bool = False
    max_parallelism = 1

    @property
    def boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED if self.endless else Boundedness.BOUNDED

    def enumerator(self, parallelism):
        return StaticSplits([0], parallelism)

    def reader(self, context):
        return WakingReader(context, self)


def test_a_reader_that_wakes_its_task_is_waited_for():
    check_source(Waking(True), range(1, 6), seeds=3)


def test_a_source_without_end_may_wait_when_all_is_read(monkeypatch):
    monkeypatch.setattr("funken.testing.contracts._WAKE_SECONDS", 5.0)
    check_source(Waking(True, endless=True), range(1, 6), seeds=3)
    with pytest.raises(ContractViolation, match=r"lost none, too many 1 \(5 x 1\)"):
        check_source(Waking(True, endless=True), range(1, 5), seeds=1)


def test_a_reader_that_wakes_nobody_is_seen(monkeypatch):
    monkeypatch.setattr("funken.testing.contracts._WAKE_SECONDS", 0.05)
    with pytest.raises(ContractViolation, match=r"Wait\(None\), and woke nobody"):
        check_source(Waking(False), range(1, 6), seeds=1)


# ---- sinks


def test_the_file_sink_keeps_its_contract(tmp_path):
    def make(seed):
        folder = tmp_path / str(seed)

        def read():
            return [line for file in folder.glob("*") if file.name[0] != "." for line in file.read_text().splitlines()]

        return (
            FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=10))
            .build(),
            read,
        )

    check_sink(make)


class Rows(SinkWriter):
    """Numbers its records, by writer state: the states of all writers add up to the records that were written."""

    def __init__(self, table):
        self.table, self.rows, self.count = table, [], 0

    def restore_state(self, states):
        self.count = sum(states)

    def write(self, values, timestamps, now):
        self.rows += values
        self.count += len(values)
        if self.table.fault == "writes before the commit":
            self.table.committed.setdefault("early", []).extend(values)

    def prepare_commit(self, checkpoint_id, end_of_input):
        rows, self.rows = self.rows, []
        if self.table.fault == "loses the last transaction" and end_of_input:
            return []
        return [rows]

    def snapshot_state(self, checkpoint_id):
        return [self.count]


class Table(Sink, Committer):
    def __init__(self, fault):
        self.fault, self.committed, self.commits = fault, {}, 0

    def writer(self, context):
        return Rows(self)

    def committer(self, context):
        return self

    def commit(self, requests):
        for request in requests:
            self.commits += 1
            key = request.job_id, request.operator_uid, request.subtask, request.checkpoint_id
            if self.fault == "not idempotent":
                key = self.commits
            elif self.fault == "takes subtasks for one":
                key = request.checkpoint_id
            elif self.fault == "forgets to retry" and self.commits % 3 == 0:
                continue
            elif self.fault == "retries" and self.commits % 3 == 0:
                request.retry_later("busy")
                continue
            self.committed[key] = request.committable

    def recover(self, requests):
        if self.fault != "recovers nothing":
            super().recover(requests)

    def rows(self):
        return [row for rows in self.committed.values() for row in rows]


def table(fault):
    def make(seed):
        made = Table(fault)
        return made, made.rows

    return make


@pytest.mark.parametrize("fault", ["", "retries"])
def test_a_sink_keeps_its_contract(fault):
    check_sink(table(fault), seeds=40)


@pytest.mark.parametrize(
    "fault",
    [
        "writes before the commit",
        "loses the last transaction",
        "not idempotent",
        "takes subtasks for one",
        "forgets to retry",
        "recovers nothing",
    ],
)
def test_a_sink_that_loses_or_doubles_is_seen(fault):
    with pytest.raises(ContractViolation, match=r"seed \d+, .*: lost .*, too many"):
        check_sink(table(fault))


def test_what_is_at_least_once_may_double_but_not_lose():
    check_sink(table("not idempotent"), exactly_once=False)
    with pytest.raises(ContractViolation):
        check_sink(table("recovers nothing"), exactly_once=False)


def test_a_sink_on_a_database_keeps_its_contract(tmp_path):
    def make(seed):
        path = str(tmp_path / f"{seed}.db")
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE words (word)")
        db.close()

        class Words(Table):
            def commit(self, requests):
                with sqlite3.connect(path) as db:
                    for request in requests:
                        name = f"done_{request.subtask}_{request.checkpoint_id}"
                        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone():
                            db.execute(f"CREATE TABLE {name} (x)")
                            db.executemany("INSERT INTO words VALUES (?)", [(word,) for word in request.committable])
                db.close()

            def rows(self):
                db = sqlite3.connect(path)
                found = [word for (word,) in db.execute("SELECT word FROM words")]
                db.close()
                return found

        made = Words("")
        return made, made.rows

    check_sink(make, seeds=5)
