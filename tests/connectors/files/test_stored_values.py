"""Parquet, ORC and lake tables keep values exactly, of records and of columns, or refuse them; times by their zones."""

import io
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from funken import BucketAssigner, Configuration, FileSink, FileSource, Row, StreamExecutionEnvironment, Types
from funken.connectors import ConnectorContext
from funken.connectors.delta import DeltaSink, DeltaSource
from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.connectors.formats.arrow import array_of
from funken.dataset import ExecutionEnvironment
from funken.errors import FunkenError, InvalidProgram
from funken.types import Instant

EAST = timezone(timedelta(hours=2))
NAIVE = datetime.fromisoformat("2024-03-10T02:30:00.5")
AWARE = NAIVE.replace(tzinfo=EAST)
WRONG = [
    (pa.int32(), 1.5), (pa.int32(), True), (pa.int8(), 128), (pa.uint8(), -1), (pa.int64(), "1"), (pa.string(), b"a"),
    (pa.string(), 5),
    (pa.binary(), "a"), (pa.float32(), 1e39), (pa.float64(), 2**53 + 1), (pa.date32(), NAIVE), (pa.timestamp("us"), AWARE),
    (pa.timestamp("ms"), NAIVE.replace(microsecond=1)), (pa.timestamp("s"), NAIVE), (pa.timestamp("us"), date(2024, 1, 1)),
    (pa.time64("us"), time(1, tzinfo=UTC)), (pa.time32("s"), time(0, 0, 0, 1)), (pa.bool_(), 1), (pa.decimal128(5, 2),
    Decimal("0.001")),
    (pa.decimal128(5, 2), Decimal("1E+5")), (pa.list_(pa.int32()), [0.5]), (pa.list_(pa.string()), "ab"),
    (pa.map_(pa.string(), pa.int8()), {"a": 1.5}), (pa.map_(pa.string(), pa.int8()), {5: 1}), (pa.struct([("x",
    pa.date32())]), {"x": NAIVE}),
]  # fmt: skip
RIGHT = [
    (pa.int32(), 5), (pa.float32(), float("inf")), (pa.float32(), float("nan")), (pa.float64(), 5), (pa.timestamp("us",
    "UTC"), AWARE),
    (pa.timestamp("us", "UTC"), NAIVE), (pa.timestamp("ms"), NAIVE), (pa.timestamp("us", "Europe/Paris"), AWARE),
    (pa.string(), "a"),
    (pa.list_(pa.list_(pa.int8())), [[1], None]), (pa.map_(pa.string(), pa.int8()), {"a": 1}), (pa.struct([("x",
    pa.int8())]), {"x": 1}),
    (pa.struct([("x", pa.int8())]), {}), (pa.decimal128(5, 2), Decimal("1.500")), (pa.date32(), date.max), (pa.null(), None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), WRONG)
def test_a_value_that_would_come_back_as_another_is_refused(kind, value):
    with pytest.raises((ValueError, TypeError, OverflowError, pa.ArrowException)):
        array_of([None, value], kind)


@pytest.mark.parametrize(("kind", "value"), RIGHT)
def test_a_value_that_fits_is_taken(kind, value):
    assert len(array_of([None, value], kind)) == 2


def environment(vectorized):
    return StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))


def copied(tmp_path, table, target, vectorized, function=lambda row: row):
    (tmp_path / "in").mkdir(exist_ok=True)
    parquet.write_table(table, tmp_path / "in" / "a.parquet")
    env = environment(vectorized)
    stream = env.from_source(FileSource.for_format(ParquetFormat(), str(tmp_path / "in")).build()).map(function)
    sink = FileSink.for_bulk_format(str(tmp_path / "out"), target)
    stream.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    env.execute()
    env = environment(vectorized)
    return env.from_source(FileSource.for_format(type(target)(), str(tmp_path / "out")).build()).execute_and_collect(
        limit=9
    )


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("format", [ParquetFormat, OrcFormat])
@pytest.mark.parametrize(
    ("values", "kind", "declared"),
    [
        ([2**31], pa.int64(), Types.INT()), ([0.5], pa.float64(), Types.INT()), ([1e39], pa.float64(), Types.FLOAT()),
        ([AWARE], pa.timestamp("us", "UTC"), Types.SQL_TIMESTAMP()), ([2**53 + 1], pa.int64(), Types.DOUBLE()),
    ],
)  # fmt: skip
def test_columns_and_records_refuse_the_same(tmp_path, values, kind, declared, format, vectorized):
    rows = Types.ROW_NAMED(["v"], [declared])

    with pytest.raises(FunkenError, match="does not fit the columns of the file"):
        copied(tmp_path, pa.table({"v": pa.array(values, kind)}), format(rows), vectorized, lambda row: {"v": row["v"]})


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
def test_an_instant_stays_that_instant(tmp_path, vectorized):
    instants = pa.table({"v": pa.array([AWARE, None], pa.timestamp("us", "UTC"))})

    found = copied(tmp_path, instants, ParquetFormat(), vectorized, lambda row: {"v": row["v"]})
    assert [row["v"] for row in found] == [AWARE, None]
    assert found[0]["v"].utcoffset() == timedelta(0)


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
def test_points_in_time_are_instants_where_they_are_declared(tmp_path, vectorized):
    rows = Types.ROW_NAMED(["v", "n"], [Types.INSTANT(), Types.BIG_INT()])
    parquet.write_table(
        pa.table({"v": pa.array([AWARE], pa.timestamp("us", "UTC")), "n": pa.array([Decimal(10**37)], pa.decimal128(38, 0))}),
        tmp_path / "a.parquet",
    )  # fmt: skip
    stream = environment(vectorized).from_source(FileSource.for_format(ParquetFormat(rows), str(tmp_path)).build())

    assert stream.map(lambda row: (row["v"], row["n"])).execute_and_collect(limit=9) == [
        (Instant(1710030600, 500_000_000), 10**37)
    ]


def test_times_with_and_without_a_zone_are_not_mixed_silently():
    writer = ParquetFormat().create(io.BytesIO())
    writer.write([{"v": NAIVE}, {"v": AWARE}])

    with pytest.raises(ValueError, match="field 'v' has times with a zone, and without"):
        writer.finish()


def test_orc_has_no_times_of_day():
    with pytest.raises(InvalidProgram, match="field 'v': ORC has no times of day; declare"):
        OrcFormat(Types.ROW_NAMED(["v"], [Types.LIST(Types.SQL_TIME())]))
    writer = OrcFormat().create(io.BytesIO())
    writer.write([{"v": time(1)}])
    with pytest.raises(ValueError, match="does not fit the columns of the file"):
        writer.finish()


DELTA = pa.schema([
    ("i", pa.int32()), ("at", pa.timestamp("us")), ("z", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("p",
    pa.decimal128(5, 2)),
    ("s", pa.string()), ("l", pa.list_(pa.int64())),
])  # fmt: skip


def test_delta_tables_keep_values_or_refuse_them(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable.create(str(tmp_path / "t"), schema=DELTA)
    names = DELTA.names
    row = (1, NAIVE, AWARE, date(9999, 12, 31), Decimal("1.50"), "a", [2**62])
    env = environment(False)
    env.from_collection([row, (None,) * len(names), (2, datetime.fromisoformat("9999-12-31"), *row[2:])]).sink_to(
        DeltaSink(str(tmp_path / "t"))
    )
    env.execute()

    found = environment(True).from_source(DeltaSource(str(tmp_path / "t"))).execute_and_collect(limit=9)
    assert sorted(found, key=lambda each: str(each["i"])) == [
        dict(zip(names, row, strict=True)), dict(zip(names, (2, datetime.fromisoformat("9999-12-31"), *row[2:]), strict=True)),
        dict.fromkeys(names),
    ]  # fmt: skip
    writer = DeltaSink(str(tmp_path / "t")).writer(ConnectorContext("out"))
    writer.open()
    for name, value in {"i": 1.5, "at": AWARE, "d": NAIVE, "p": Decimal("0.001"), "s": b"a", "l": [0.5]}.items():
        with pytest.raises(ValueError, match=f"column '{name}' of the table is"):
            writer.write([Row(**(dict.fromkeys(names) | {name: value}))], None, 0)


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
def test_a_damaged_file_of_a_delta_table_is_named(tmp_path, vectorized):
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path), pa.table({"n": [1, 2]}))
    [path] = tmp_path.glob("*.parquet")
    path.write_bytes(b"damaged")

    with pytest.raises(FunkenError, match=rf"data file '{path.name}' of Delta table .* cannot be read after row 0"):
        environment(vectorized).from_source(DeltaSource(str(tmp_path))).map(lambda row: row["n"]).execute_and_collect(
            limit=9
        )


def test_a_data_set_does_not_cut_numbers_down_to_the_type_of_the_first(tmp_path):
    env = ExecutionEnvironment.create_local_environment(parallelism=1)
    env.from_collection([(number,) for number in range(5000)] + [(1.5,)]).write_as_parquet(str(tmp_path / "out"))

    with pytest.raises(FunkenError, match="field 'f0': 1.5 is no int64, which the first records have there"):
        env.execute()


@pytest.mark.parametrize(
    ("declared", "text"), [(int, "12_34"), (Types.INT(), "2147483648"), (float, "inf"), (Types.BYTE(), "128")]
)
def test_fields_of_folders_are_numbers_as_those_of_files_are(tmp_path, declared, text):
    (tmp_path / f"n={text}").mkdir()
    parquet.write_table(pa.table({"v": [1]}), tmp_path / f"n={text}" / "a.parquet")
    source = FileSource.for_format(ParquetFormat(), str(tmp_path)).set_partition_fields({"n": declared}).build()

    with pytest.raises(FunkenError, match=f"the folder n={text} has no value of"):
        environment(True).from_source(source).execute_and_collect(limit=9)


@pytest.mark.parametrize("continuously", [False, True])
def test_columns_that_delta_tables_are_partitioned_by_have_their_types(tmp_path, continuously):
    deltalake = pytest.importorskip("deltalake")
    kinds = {
        "p": pa.decimal128(5, 2),
        "z": pa.timestamp("us", "UTC"),
        "at": pa.timestamp("us"),
        "d": pa.date32(),
        "s": pa.string(),
    }
    schema = pa.schema([("n", pa.int64()), *kinds.items()])
    deltalake.DeltaTable.create(str(tmp_path / "t"), schema=schema, partition_by=[*kinds])
    row = {"n": 1, "p": Decimal("1.50"), "z": AWARE, "at": NAIVE, "d": date(2024, 2, 29), "s": "a"}
    env = environment(False)
    env.from_collection([Row(**row)]).sink_to(DeltaSink(str(tmp_path / "t")))
    env.execute()

    if continuously:
        source = DeltaSource(str(tmp_path / "t"), monitor_continuously=1000, starting_version=1)
        enumerator = source.enumerator(1)
        enumerator.start()
        enumerator.add_discovered(enumerator.discover(0))
        [split] = enumerator.next_splits(0)
        assert dict(split.partition) == {name: row[name] for name in kinds}
    else:
        assert environment(True).from_source(DeltaSource(str(tmp_path / "t"))).execute_and_collect(limit=9) == [row]
