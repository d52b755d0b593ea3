"""Sources one after the other: the contract, the order, what is made at the switch, and snapshots on both sides of it."""

import pickle
from dataclasses import dataclass

import pytest

from funken import (
    CollectionSource,
    Configuration,
    DataGeneratorSource,
    FileSource,
    HybridSource,
    NumberSequenceSource,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    StreamFormat,
    WatermarkStrategy,
)
from funken.connectors import Batch, Boundedness, ConnectorContext, QueuedReader, Source, SplitEnumerator, Wait
from funken.errors import InvalidProgram, JobExecutionError
from funken.testing import check_source

LINES = StreamFormat.text_line_format()


def hybrid(first, *others):
    builder = HybridSource.builder(first)
    for other in others:
        builder = builder.add_source(*other) if isinstance(other, tuple) else builder.add_source(other)
    return builder.build()


def environment(parallelism):
    configuration = Configuration({"execution.block.records": 3})
    return StreamExecutionEnvironment.create_local_environment(parallelism, configuration)


@pytest.fixture
def files(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("".join(f"{number}-{line}\n" for line in range(20)))
    return FileSource.for_record_stream_format(LINES, tmp_path).set_split_bytes(30).build()


EXPECTED = [f"{number}-{line}" for number in range(3) for line in range(20)]


def test_it_keeps_the_contract_of_a_source(files):
    source = hybrid(files, NumberSequenceSource(1, 30), CollectionSource(["x", "y"]))
    assert source.boundedness is Boundedness.BOUNDED
    assert source.max_parallelism == 1
    check_source(hybrid(files, NumberSequenceSource(1, 30)), [*EXPECTED, *range(1, 31)], seeds=40)
    check_source(source, [*EXPECTED, *range(1, 31), "x", "y"], seeds=10)


def test_it_may_end_with_a_source_that_does_not(files):
    source = hybrid(files, (lambda switch: DataGeneratorSource(lambda index: index, 50), Boundedness.BOUNDED))
    check_source(source, [*EXPECTED, *range(50)], seeds=20)
    endless = hybrid(files, Tail(20))
    assert endless.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    check_source(endless, [*EXPECTED, *range(20)], seeds=20)


@dataclass(frozen=True)
class TailSplit:
    id: str
    position: int


class TailReader(QueuedReader):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def poll(self, limit, now):
        if not self.queue:
            return Wait(1)
        split = self.queue[0]
        values = [*range(split.position, min(self.count, split.position + limit))]
        self.queue[0] = TailSplit(split.id, split.position + len(values))
        return Batch(values, split=split.id) if values else Wait(1)


class TailEnumerator(SplitEnumerator):
    """Finds its only split while the job runs."""

    discovery_interval = 5

    def __init__(self):
        self.found, self.left = False, []

    def next_splits(self, subtask):
        left, self.left = self.left, []
        return left

    def discover(self, now):
        return None if self.found else [TailSplit("tail", 0)]

    def add_discovered(self, found):
        self.found, self.left = True, found
        return True

    def snapshot(self):
        return self.found, self.left

    def restore(self, snapshot):
        self.found, self.left = snapshot


@dataclass(frozen=True)
class Tail(Source):
    count: int
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def enumerator(self, parallelism):
        return TailEnumerator()

    def reader(self, context):
        return TailReader(self.count)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("batch", [False, True])
def test_no_record_comes_before_the_last_one_of_the_source_before(files, parallelism, batch):
    env = environment(parallelism)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH if batch else RuntimeExecutionMode.STREAMING)
    source = hybrid(files, NumberSequenceSource(0, 99), (lambda switch: CollectionSource("xyz"), Boundedness.BOUNDED))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "both").set_parallelism(1)
    with stream.execute_and_collect() as records:
        assert list(records) == [*EXPECTED, *range(100), "x", "y", "z"]
    wide = environment(parallelism).from_source(
        hybrid(files, NumberSequenceSource(0, 99)), WatermarkStrategy.no_watermarks(), "both"
    )
    with wide.execute_and_collect() as records:
        found = list(records)
    assert sorted(map(str, found)) == sorted([*EXPECTED, *map(str, range(100))])


def test_the_next_source_is_made_of_where_the_one_before_ended(files):
    asked = []

    def after(switch):
        enumerator = switch.get_previous_enumerator()
        asked.append(enumerator.next_splits(0))
        return NumberSequenceSource(7, 8)

    source = hybrid(files, (after, Boundedness.BOUNDED))
    enumerator, reader = source.enumerator(1), source.reader(ConnectorContext("both"))
    enumerator.start()
    found, now = [], 0
    while True:
        got = reader.poll(5, now)
        if isinstance(got, Batch):
            assert not asked or got.split.startswith("1/")
            found += got.values
            continue
        enumerator.splits_read(0)
        step = enumerator.discover(now)
        if step is not None:
            enumerator.add_discovered(step)
        splits = enumerator.next_splits(0)
        if splits is None:
            break
        reader.add_splits(pickle.loads(pickle.dumps(splits)))
    assert found == [*EXPECTED, 7, 8]
    assert asked == [None]
    # Made at the switch, it is restored, and not made again.
    again = source.enumerator(2)
    again.restore(pickle.loads(pickle.dumps(enumerator.snapshot())))
    assert again.next_splits(0) is None
    assert len(asked) == 1
    reader.close()


class Marked(CollectionSource):
    """A source whose readers tell what happens to them."""

    log: list = []  # noqa: RUF012 - shared on purpose

    def reader(self, context):
        reader, log, name = super().reader(context), self.log, self.name
        reader.notify_checkpoint_complete = lambda number: log.append((name, "complete", number))
        reader.close = lambda: log.append((name, "closed"))
        return reader


def marked(name, *values):
    source = Marked(values)
    object.__setattr__(source, "name", name)
    return source


def test_a_reader_that_is_done_is_notified_of_the_checkpoint_with_its_last_records():
    Marked.log.clear()
    source = hybrid(marked("first", 1), marked("second", 2, 3))
    enumerator, reader = source.enumerator(1), source.reader(ConnectorContext("both"))
    enumerator.start()
    reader.add_splits(enumerator.next_splits(0))
    assert reader.poll(9, 0).values == [1]
    assert enumerator.next_splits(0) == []
    enumerator.splits_read(0)
    enumerator.add_discovered(enumerator.discover(0))
    reader.add_splits(enumerator.next_splits(0))
    assert reader.poll(1, 0).values == [2]
    assert len(reader.split_finished()) == 1
    state = reader.snapshot_state(4)
    assert [split.index for split in state] == [1]
    reader.notify_checkpoint_complete(3)
    assert ("first", "closed") not in Marked.log
    reader.notify_checkpoint_complete(4)
    assert Marked.log == [
        ("first", "complete", 3), ("second", "complete", 3), ("first", "complete", 4), ("second", "complete", 4),
        ("first", "closed"),
    ]  # fmt: skip
    reader.close()


def test_what_can_have_no_successor_is_refused():
    endless = DataGeneratorSource(lambda index: index)
    with pytest.raises(InvalidProgram, match="does not end, so none can follow it"):
        hybrid(endless, NumberSequenceSource(1, 2))
    with pytest.raises(InvalidProgram, match="source 0 of a hybrid source, DataGeneratorSource, does not end"):
        HybridSource((endless, NumberSequenceSource(1, 2)), Boundedness.BOUNDED)
    with pytest.raises(InvalidProgram, match="is no source and makes none"):
        HybridSource.builder(NumberSequenceSource(1, 2)).add_source(7)


def test_a_function_that_makes_no_source_fails_the_job():
    source = hybrid(NumberSequenceSource(1, 2), (lambda switch: 7, Boundedness.BOUNDED))
    stream = environment(1).from_source(source, WatermarkStrategy.no_watermarks(), "both")
    with (
        pytest.raises(JobExecutionError, match="returned 7, which is no source"),
        stream.execute_and_collect() as records,
    ):
        list(records)
