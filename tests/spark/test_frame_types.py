"""Every type of Spark goes into a stream and comes back as it was: ``from_spark()``, then ``to_spark()`` without a schema."""

import datetime
from decimal import Decimal

import pytest

from funken import Row
from funken.errors import InvalidProgram
from funken.spark.frames import session as session_of_spark

pytestmark = pytest.mark.spark

AT = datetime.datetime(2024, 1, 2, 3, 4, 5, 6)  # noqa: DTZ001 - as Spark gives them
TYPES = {
    "boolean": [True, None],
    "tinyint": [-128, None],
    "smallint": [300, None],
    "int": [1, None],
    "bigint": [2**40, None],
    "float": [0.5, None],
    "double": [0.1, float("inf")],
    "string": ["a", ""],
    "binary": [b"a", None],
    "date": [datetime.date(2024, 2, 29), None],
    "timestamp": [AT, None],
    "timestamp_ntz": [AT, None],
    "interval day to second": [datetime.timedelta(days=1, microseconds=1), None],
    "decimal(20,4)": [Decimal("1.2300"), None],
    "decimal(38,18)": [Decimal("1.5").quantize(Decimal("1E-18")), None],
    "array<int>": [[1, None, 2], []],
    "array<array<string>>": [[["a"], []], None],
    "array<date>": [[datetime.date(2024, 1, 1), None], None],
    "array<decimal(10,2)>": [[Decimal("1.20")], None],
    "map<string,int>": [{"a": 1, "b": None}, {}],
    "map<int,string>": [{1: "a"}, None],
    "map<string,struct<x:int,y:string>>": [{"a": (1, "y")}, None],
    "struct<x:int,y:string>": [(1, "a"), (None, "b")],
    "struct<x:array<struct<m:map<string,double>>>,d:decimal(10,2)>": [([({"k": 1.5},)], Decimal("1.20")), None],
    "void": [None, None],
}


@pytest.fixture(scope="module")
def spark():
    return session_of_spark()


@pytest.fixture(scope="module")
def frame(spark):
    schema = ", ".join(["i int", *(f"c{number} {kind}" for number, kind in enumerate(TYPES))])
    rows = [(place, *(values[place] for values in TYPES.values())) for place in range(2)]
    return spark.createDataFrame(rows, schema)


def types_of(frame):
    return {each.name: each.dataType.simpleString() for each in frame.schema}


def rows_of(frame):
    return [tuple(row) for row in frame.orderBy("i").collect()]


@pytest.mark.ways("batch")
@pytest.mark.parametrize(
    "function",
    [None, lambda row: row, Row.as_dict, lambda row: Row(**row.as_dict())],
    ids=["none", "row", "dict", "new"],
)
def test_rows_come_back_as_they_were(mode, env, frame, function):
    stream = env.from_spark(frame)

    back = (stream if function is None else stream.map(function)).to_spark()

    assert types_of(back) == types_of(frame)
    assert rows_of(back) == rows_of(frame)


@pytest.mark.ways("batch")
def test_a_column_of_other_values_has_their_type(mode, env, spark):
    frame = spark.createDataFrame(
        [(1, 100, {"a": 1}), (2, 3, {"b": 2})], "i int, small tinyint, counts map<string,int>"
    )

    def changed(row):
        return {"i": row.i, "small": row.small * 1000, "counts": len(row.counts), "half": row.i / 2}

    back = env.from_spark(frame).map(changed).to_spark()

    assert types_of(back) == {"i": "int", "small": "bigint", "counts": "bigint", "half": "double"}
    assert rows_of(back) == [(1, 100_000, 1, 0.5), (2, 3000, 1, 1.0)]


@pytest.mark.ways("local")
@pytest.mark.parametrize("parallelism", [2])
def test_subtasks_that_saw_other_types_give_one_frame(mode, env):
    records = [
        {"i": number, "price": Decimal(f"{10**number}.5"), "note": None if number < 3 else "x"} for number in range(6)
    ]

    back = env.from_collection(records).rebalance().map(lambda record: record).set_parallelism(2).to_spark()

    assert rows_of(back.select("i", "price", "note")) == [(each["i"], each["price"], each["note"]) for each in records]


@pytest.mark.ways("local")
def test_a_column_whose_types_have_none_in_common_is_named(mode, env):
    records = [{"i": number, "n": number if number % 2 else str(number)} for number in range(4)]
    apart = env.from_collection(records).partition_custom(
        lambda key, width: key % width, lambda record: record["i"] % 2
    )

    with pytest.raises(InvalidProgram, match=r"column 'n' has the types (string and int64|int64 and string) .*Convert"):
        apart.map(lambda record: record).set_parallelism(2).to_spark()


@pytest.mark.ways("local")
def test_spans_of_time_and_nulls_of_any_stream(mode, env):
    records = [{"i": 1, "span": datetime.timedelta(hours=-1), "none": None, "a`b": 1}]

    back = env.from_collection(records).to_spark()

    assert rows_of(back) == [(1, datetime.timedelta(hours=-1), None, 1)]
    assert types_of(back)["span"] == "interval day to second"
