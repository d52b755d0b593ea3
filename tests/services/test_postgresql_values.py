"""Values that PostgreSQL has and Python has not, in columns, arrays and ranges: by query, snapshot, change and sink."""

from __future__ import annotations

import datetime
import uuid
from contextlib import closing
from decimal import Decimal

import pytest

from funken import StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import Boundedness, DeliveryGuarantee
from funken.connectors.postgresql import (
    InfiniteDate,
    InfiniteDatetime,
    PostgresCdcSource,
    PostgresDatabase,
    PostgresSink,
    Unrepresentable,
)
from funken.connectors.sql import SqlSource
from funken.errors import FunkenError

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

UTC = datetime.UTC
NEW_YEAR = datetime.datetime.fromisoformat("2026-01-01 00:00")
VALUES = {
    "timestamptz": ("infinity", InfiniteDatetime.of("infinity", UTC)),
    "-timestamptz": ("-infinity", InfiniteDatetime.of("-infinity", UTC)),
    "timestamp": ("infinity", InfiniteDatetime.of("infinity", None)),
    "-timestamp": ("-infinity", InfiniteDatetime.of("-infinity", None)),
    "date": ("infinity", InfiniteDate.of("infinity")), "-date": ("-infinity", InfiniteDate.of("-infinity")),
    "date BC": ("0044-03-15 BC", "0044-03-15 BC"), "date far": ("12026-01-01", "12026-01-01"),
    "timestamp BC": ("0044-03-15 12:00 BC", "0044-03-15 12:00:00 BC"),
    "timestamp far": ("294276-12-31", "294276-12-31 00:00:00"),
    "timestamptz BC": ("0044-03-15 12:00+00 BC", "0044-03-15 12:00:00+00 BC"), "time": ("24:00:00", "24:00:00"),
    "timetz": ("24:00:00+00", "24:00:00+00"), "interval": ("100000000 years", "100000000 years"),
    "numeric": ("NaN", Decimal("NaN")), "numeric inf": ("Infinity", Decimal("Infinity")),
    "double precision": ("NaN", float("nan")), "double precision inf": ("-Infinity", float("-inf")),
    "date[]": ("{infinity,2026-01-02,0044-03-15 BC}", [InfiniteDate.of("infinity"), datetime.date(2026, 1, 2), "0044-03-15 BC"]),
    "timestamptz[]": ("{{-infinity}}", [[InfiniteDatetime.of("-infinity", UTC)]]),
    "numeric[]": ("{NaN,1}", [Decimal("NaN"), Decimal(1)]),
}  # fmt: skip
RANGES = {
    "daterange": ("[2026-01-01,infinity)", datetime.date(2026, 1, 1), InfiniteDate.of("infinity")),
    "tstzrange": (
        "[-infinity,2026-01-01 00:00+00)", InfiniteDatetime.of("-infinity", UTC), datetime.datetime(2026, 1, 1, tzinfo=UTC),
    ),
}  # fmt: skip


def collected(source):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "values")
    with stream.execute_and_collect() as found:
        return list(found)


def kind_of(name):
    return name.removeprefix("-").removesuffix(" BC").removesuffix(" far").removesuffix(" inf")


@pytest.fixture
def table(postgres):
    name = f"t_{uuid.uuid4().hex[:8]}"
    yield name
    postgres.execute(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def cdc():
    made = []

    def make(database, table):
        made.append(
            PostgresCdcSource(
                database, [f"public.{table}"], f"s_{uuid.uuid4().hex[:8]}", boundedness=Boundedness.BOUNDED
            )
        )
        return made[-1]

    yield make
    for source in made:
        source.drop()


def create(postgres, table):
    columns = {f"c{at}": (kind_of(name), text) for at, (name, (text, _)) in enumerate(VALUES.items())}
    columns |= {f"r{at}": (name, text) for at, (name, (text, *_)) in enumerate(RANGES.items())}
    postgres.execute(
        f"CREATE TABLE {table}(id int PRIMARY KEY, {', '.join(f'{name} {kind}' for name, (kind, _) in columns.items())})"
    )
    values = ", ".join(f"'{text}'" for _, text in columns.values())
    return lambda number: f"INSERT INTO {table} VALUES ({number}, {values})"


def check(row):
    for at, (name, (_, expected)) in enumerate(VALUES.items()):
        found = row[f"c{at}"]
        assert repr(found) == repr(expected), name
    for at, (name, (_, lower, upper)) in enumerate(RANGES.items()):
        found = row[f"r{at}"]
        assert (found.lower, found.upper) == (lower, upper), name


def test_every_value_arrives_by_query_snapshot_and_change(postgres, table, cdc):
    database = PostgresDatabase(postgres.conninfo)
    insert = create(postgres, table)
    postgres.execute(insert(1))
    [row] = collected(SqlSource(database, f"SELECT * FROM {table}", "id", as_dicts=True))
    check(row)
    source = cdc(database, table)
    [change] = collected(source)
    check(change.after)
    later = PostgresCdcSource(
        database, [f"public.{table}"], source.slot, snapshot=False, boundedness=Boundedness.BOUNDED
    )
    postgres.execute(insert(2))
    postgres.execute(f"UPDATE {table} SET c0 = '-infinity' WHERE id = 2")
    changes = collected(later)
    check(changes[0].after)
    assert changes[1].after["c0"].sql == "-infinity"


@pytest.mark.parametrize("policy", [Unrepresentable.NONE, Unrepresentable.FAIL])
def test_what_cannot_be_held_is_none_or_fails_with_its_place(postgres, table, cdc, policy):
    database = PostgresDatabase(postgres.conninfo, policy)
    postgres.execute(f"CREATE TABLE {table}(id int PRIMARY KEY, at timestamp, bis date)")
    source = cdc(database, table)
    postgres.execute(f"INSERT INTO {table} VALUES (1, '2026-01-01', 'infinity'), (2, '0044-03-15 BC', '2026-01-01')")
    query = SqlSource(database, f"SELECT * FROM {table}", "id")
    changes = PostgresCdcSource(database, [f"public.{table}"], source.slot, boundedness=Boundedness.BOUNDED)
    if policy is Unrepresentable.NONE:
        assert [row[1:] for row in collected(query)] == [
            (NEW_YEAR, InfiniteDate.of("infinity")), (None, datetime.date(2026, 1, 1)),
        ]  # fmt: skip
        assert [change.after["at"] for change in collected(changes)] == [NEW_YEAR, None]
        return
    for what, place in ((query, "the query"), (changes, f"the snapshot of table 'public.{table}'")):
        with pytest.raises(FunkenError) as failed:
            collected(what)
        text = str(failed.value)
        assert place in text and "column 'at' of the row (id=2, at=0044-03-15 00:00:00 BC" in text
        assert "unrepresentable=Unrepresentable.TEXT" in text


def test_a_change_that_cannot_be_read_names_table_key_and_column(postgres, table, cdc):
    database = PostgresDatabase(postgres.conninfo, Unrepresentable.FAIL)
    postgres.execute(f"CREATE TABLE {table}(id int PRIMARY KEY, at time)")
    source = cdc(database, table)
    assert collected(source) == []
    later = PostgresCdcSource(
        database, [f"public.{table}"], source.slot, snapshot=False, boundedness=Boundedness.BOUNDED
    )
    postgres.execute(f"INSERT INTO {table} VALUES (7, '24:00:00')")
    with pytest.raises(FunkenError, match=rf"table 'public.{table}' \(key {{'id': 7}}.* column 'at' .*'24:00:00'"):
        collected(later)
    tolerant = PostgresCdcSource(
        PostgresDatabase(postgres.conninfo), [f"public.{table}"], source.slot, snapshot=False, boundedness=Boundedness.BOUNDED
    )  # fmt: skip
    assert [change.after for change in collected(tolerant)] == [{"id": 7, "at": "24:00:00"}]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("numeric", ["NaN", "NaN", "NaN", "Infinity", "1", "2", "30"]), ("numeric", ["NaN", "NaN"]),
        ("numeric", ["-Infinity", "5", "9"]),
        ("double precision", ["NaN", "NaN", "Infinity", "-Infinity", "1.5", "3"]),
        ("timestamptz", ["infinity", "infinity", "infinity", "-infinity", "2026-01-01", "2026-02-01"]),
        ("date", ["infinity", "-infinity", "2026-01-01", "2026-01-31"]), ("date", ["infinity", "infinity"]),
        ("date", ["0044-03-15 BC", "2026-01-01", "infinity"]), ("timestamp", ["294276-12-31", "2026-01-01"]),
    ],
)  # fmt: skip
def test_every_row_is_read_once_by_ranges_of_such_a_column(postgres, table, kind, texts, partitions):
    postgres.execute(f"CREATE TABLE {table}(id serial, k {kind})")
    postgres.execute(f"INSERT INTO {table}(k) VALUES {', '.join(f'({text!r})' for text in texts)}")
    for page_size in (1, 2, 100):
        source = SqlSource(
            PostgresDatabase(postgres.conninfo),
            f"SELECT id, k FROM {table}",
            "k",
            partitions=partitions,
            page_size=page_size,
        )
        assert sorted(row[0] for row in collected(source)) == list(range(1, len(texts) + 1)), page_size


def test_infinity_is_written_as_it_was_read(postgres, table):
    database = PostgresDatabase(postgres.conninfo)
    postgres.execute(f"CREATE TABLE {table}(id int PRIMARY KEY, at timestamptz, day date)")
    postgres.execute(f"INSERT INTO {table} VALUES (1, 'infinity', '-infinity')")
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    read = env.from_source(
        SqlSource(database, f"SELECT * FROM {table}", "id"), WatermarkStrategy.no_watermarks(), "read"
    )
    read.map(lambda row: (row[0] + 1, *row[1:])).sink_to(
        PostgresSink(database, table, ("id", "at", "day"), guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
    )
    env.execute()
    with closing(postgres.connect()) as connection:
        rows = connection.execute(f"SELECT at::text, day::text FROM {table} WHERE id = 2").fetchall()
    assert rows == [("infinity", "-infinity")]
