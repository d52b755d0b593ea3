"""Buckets of columns: the same files as of records, whatever the assigner looks at."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from funken import (
    BucketAssigner,
    Configuration,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps import BUCKET
from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.tracing import trace
from funken.connectors import CsvSchema
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.errors import JobExecutionError
from funken.expr.types import INT, STR, Tuple
from funken.operators.columnar.stateless import ColumnarSinkLogic, grouped_by
from funken.operators.sink import WriterSink
from funken.plan.columns import columnar_sink

UNTIMED = WatermarkStrategy.no_watermarks()
TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row["i"] * 1000)
PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])


class ByLetter(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"letter={element[0]}"


class ByMinute(BucketAssigner):
    prefix = "minute"

    def get_bucket_id(self, element, context):
        return f"{self.prefix}={context.timestamp() // 60_000:03d}"


class ByEitherOne(BucketAssigner):
    def get_bucket_id(self, element, context):
        if element[1] < 5:
            return ""
        return f"late/{context.timestamp()}" if element[0] == "a" else "other"


class ByTable(BucketAssigner):
    def __init__(self):
        self.names = {"a": "first"}

    def get_bucket_id(self, element, context):
        return self.names.get(element[0], "rest")


class UpOrDown(BucketAssigner):
    def get_bucket_id(self, element, context):
        return ".." if element[1] == 7 else "down"


class ByClock(BucketAssigner):
    def get_bucket_id(self, element, context):
        return str(context.current_processing_time() // 10**9)


class Number(BucketAssigner):
    def get_bucket_id(self, element, context):
        return element[1]


def csv(folder, assigner, policy=None):
    lines = CsvReaderFormat.for_schema(CsvSchema(PAIRS)).encoder()
    builder = FileSink.for_row_format(folder, lines).with_bucket_assigner(assigner)
    return (builder if policy is None else builder.with_rolling_policy(policy)).build()


def job(folder, vectorized, sink, rows, strategy=TIMED):
    parquet.write_table(pa.table({"s": [s for s, _ in rows], "i": [i for _, i in rows]}), folder / "in.parquet")
    options = {"execution.target": "local", "parallelism.default": 1, "pipeline.vectorized": vectorized}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    source = FileSource.for_bulk_file_format(ParquetFormat(), folder / "in.parquet").build()
    stream = env.from_source(source, strategy, "files").map(lambda row: (row["s"], row["i"]))
    stream.sink_to(sink).name("out")
    return env


def written(folder):
    """The lines by bucket: a bucket's files, which are cut where blocks end, in the order in which they were begun."""
    found = {}
    for path in sorted(folder.rglob("part-*"), key=lambda path: int(path.name.rpartition("-")[2])):
        found.setdefault(str(path.parent.relative_to(folder)), []).extend(path.read_text().splitlines())
    return found


ROWS = [("abc"[i * i % 3], i) for i in range(200)]


@pytest.mark.parametrize("assigner", [ByLetter(), ByMinute(), ByEitherOne(), ByTable()], ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("policy", [None, RollingPolicy.default_rolling_policy(part_size=64)], ids=["one", "many"])
def test_files_are_those_of_records(tmp_path, assigner, policy):
    found = []
    for vectorized in (False, True):
        out = tmp_path / f"out-{vectorized}"
        env = job(tmp_path, vectorized, csv(out, assigner, policy), ROWS)
        assert ("columns: out: vectorized" in env.explain()) is vectorized
        env.execute()
        found.append(written(out))
    assert found[0] == found[1]
    assert len(found[0]) > 1
    assert sum(map(len, found[0].values())) == len(ROWS)


def test_a_record_without_a_timestamp_is_asked_for_as_a_record(tmp_path):
    class Stamped(BucketAssigner):
        def get_bucket_id(self, element, context):
            return f"at {context.timestamp()}"

    env = job(tmp_path, True, csv(tmp_path / "out", Stamped()), ROWS[:3], UNTIMED)
    assert "columns: out: vectorized" in env.explain()
    env.execute()
    assert set(written(tmp_path / "out")) == {"at None"}


@pytest.mark.parametrize(
    ("assigner", "reason"),
    [
        (ByClock(), "its ByClock.get_bucket_id asks its context for current_processing_time()"),
        (Number(), "its Number.get_bucket_id gives no text"),
    ],
)
def test_explain_says_why_records_are_needed(tmp_path, assigner, reason):
    assert f"columns: out: per record: {reason}" in job(tmp_path, True, csv(tmp_path, assigner), ROWS).explain()


def test_a_bucket_outside_of_the_base_path_fails_the_job(tmp_path):
    env = job(tmp_path, True, csv(tmp_path / "out", UpOrDown()), ROWS)
    with pytest.raises(JobExecutionError, match="leads out of the base path"):
        env.execute()
    assert not list(tmp_path.glob("part-*"))


def test_an_assigner_that_knows_the_bucket_of_a_block_is_asked_for_that():
    class Hourly(BucketAssigner):
        def get_bucket_id(self, element, context):
            return "never"

        def bucket_of_block(self, context):
            return "hour"

    assert csv("/data/out", Hourly()).grouped_by is None
    assert csv("/data/out", ByLetter()).grouped_by is not None


def test_a_sink_with_a_writer_of_its_own_is_not_given_groups(tmp_path):
    class Lines(FileSink):
        takes_columns = True

        def writer(self, context):
            return super().writer(context)

    given = csv(tmp_path / "out", ByLetter())
    sink = Lines(given.base_path, given.encoder, bucket_assigner=given.bucket_assigner)
    env = job(tmp_path, True, sink, ROWS)
    assert "columns: out: vectorized" in env.explain()
    env.execute()
    assert set(written(tmp_path / "out")) == {"letter=a", "letter=b"}


def test_columns_of_parquet_stay_columns(tmp_path, monkeypatch):
    sink = FileSink.for_bulk_format(tmp_path / "out", ParquetFormat(PAIRS)).with_bucket_assigner(ByLetter()).build()
    env = job(tmp_path, True, sink, ROWS)
    monkeypatch.setattr("funken.columnar.kernels.columns.Columns.rows", None)
    monkeypatch.setattr(
        "funken.operators.columnar.path.CostWatch.sample", lambda self, length: 0
    )  # samples are records
    env.execute()
    for letter in "ab":
        (file,) = (tmp_path / "out" / f"letter={letter}").iterdir()
        rows = parquet.ParquetFile(file).read().to_pylist()
        assert [tuple(row.values()) for row in rows] == [row for row in ROWS if row[0] == letter]


def test_an_assigner_that_has_changed_is_asked_for_each_record():
    assigner = ByTable()
    logic = ColumnarSinkLogic(columnar_sink(WriterSink(csv("/data/out", assigner)), Tuple((STR, INT))))
    block = columns_of(ROWS, Tuple((STR, INT)))
    assert [name for name, _ in logic._groups(block)] == ["first", "rest"]

    assigner.names = {"a": "new"}

    assert logic._groups(block) is None


def test_what_else_is_asked_of_the_context_is_refused():
    class Passes(BucketAssigner):
        def get_bucket_id(self, element, context):
            return json.dumps(context)

    with pytest.raises(NotVectorizable):
        trace(Passes(), "get_bucket_id", BUCKET)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "ü", ""]), st.integers(-9, 9)), min_size=1), st.booleans())
def test_groups_are_those_of_a_dictionary(rows, timed):
    assigner = ByLetter() if not timed else ByMinute()
    found = trace(assigner, "get_bucket_id", BUCKET)
    traced, _ = found.typed(Tuple((STR, INT)), INT)
    stamps = [number * 40_000 for _, number in rows] if timed else None
    groups = grouped_by(columns_of(rows, Tuple((STR, INT)), stamps), traced)
    expected: dict[str, list[tuple[str, int]]] = {}
    for letter, number in rows:
        expected.setdefault(f"minute={number * 40_000 // 60_000:03d}" if timed else f"letter={letter}", []).append(
            (letter, number)
        )
    assert [(name, block.rows()[0]) for name, block in groups] == list(expected.items())


def test_times_that_are_not_there_make_no_groups():
    found = trace(ByMinute(), "get_bucket_id", BUCKET)
    traced, _ = found.typed(Tuple((STR, INT)), INT)
    with pytest.raises(FallBackToRows):
        grouped_by(columns_of([("a", 1)], Tuple((STR, INT))), type(found)(traced, True))
