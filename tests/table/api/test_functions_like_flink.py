"""Functions of a program and expressions, as PyFlink 2.3 runs and shows them."""

import datetime

import pytest

from funken import Row, StreamExecutionEnvironment, Types
from funken.table import DataTypes, EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from funken.table.expression import (
    JsonExistsOnError,
    JsonOnNull,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
    TimePointUnit,
)
from funken.table.expressions import (
    array,
    call,
    coalesce,
    col,
    concat_ws,
    json_array,
    json_object,
    lit,
    local_time,
    map_from_arrays,
    row,
    row_interval,
    timestamp_diff,
    to_timestamp_ltz,
    with_columns,
)
from funken.table.sql.statements import InvalidQuery
from funken.table.udf import AggregateFunction, udaf, udf, udtf

A, B = col("a"), col("b")

TEXTS = [  # measured with PyFlink 2.3
    (lit(True), "true"),
    (lit("it's"), "'it''s'"),
    (lit(1e20), "1.0E20"),
    (lit(b"ab"), "[97, 98]"),
    (lit(10).year, "120"),
    (lit(2).quarters, "6"),
    (lit(-3).days, "-259200000"),
    (lit(5).millis, "5"),
    (row_interval(4), "4"),
    (A.try_cast(DataTypes.INT()), "TRY_CAST(a, INT)"),
    (A.cast("INT"), "cast(a, INT)"),
    (A.as_argument("x"), "ASSIGNMENT('x', a)"),
    (A.distinct, "distinct(a)"),
    (A.first_value, "first_value(a)"),
    (A.array_agg, "ARRAY_AGG(a)"),
    (A.list_agg(), "listAgg(a, ',')"),
    (A.percentile([0.25, 0.5]), "PERCENTILE(a, array(0.25, 0.5))"),
    (A.over("w"), "over(a, 'w')"),
    (A.over(col("w")), "over(a, w)"),
    (A.if_null(5), "IFNULL(a, 5)"),
    (B.like("a%"), "LIKE(b, 'a%')"),
    (B.trim(), "trim(true, true, ' ', b)"),
    (B.trim_leading("x"), "trim(true, false, 'x', b)"),
    (B.trim_trailing(), "trim(false, true, ' ', b)"),
    (B.starts_with("a"), "STARTSWITH(b, 'a')"),
    (B.translate("a", "b"), "TRANSLATE3(b, 'a', 'b')"),
    (B.init_cap, "initCap(b)"),
    (B.substr(1), "substr(b, 1)"),
    (B.regexp_extract("(a)", 1), "regexpExtract(b, '(a)', 1)"),
    (B.regexp_count("a"), "REGEXP_COUNT(b, 'a')"),
    (B.array_contains(1), "ARRAY_CONTAINS(b, 1)"),
    (B.map_keys, "MAP_KEYS(b)"),
    (B.extract(TimeIntervalUnit.MONTH), "extract(MONTH, b)"),
    (B.floor(TimeIntervalUnit.DAY), "floor(b, DAY)"),
    (B.ceil(), "ceil(b)"),
    (B.is_json(JsonType.OBJECT), "IS_JSON(b, OBJECT)"),
    (B.json_exists("$.a", JsonExistsOnError.TRUE), "JSON_EXISTS(b, '$.a', TRUE)"),
    (B.json_value("$.a"), "JSON_VALUE(b, '$.a', STRING, NULL, null, NULL, null)"),
    (
        B.json_value("$.a", DataTypes.INT(), JsonValueOnEmptyOrError.DEFAULT, 1, JsonValueOnEmptyOrError.ERROR),
        "JSON_VALUE(b, '$.a', INT, DEFAULT, 1, ERROR, null)",
    ),
    (
        B.json_query("$.a", JsonQueryWrapper.CONDITIONAL_ARRAY, JsonQueryOnEmptyOrError.EMPTY_ARRAY),
        "JSON_QUERY(b, '$.a', STRING, CONDITIONAL_ARRAY, EMPTY_ARRAY, NULL)",
    ),
    (json_object(JsonOnNull.NULL, "k", A), "JSON_OBJECT(NULL, 'k', a)"),
    (json_array(JsonOnNull.ABSENT, A), "JSON_ARRAY(ABSENT, a)"),
    (timestamp_diff(TimePointUnit.DAY, A, B), "timestampDiff(DAY, a, b)"),
    (to_timestamp_ltz(100), "TO_TIMESTAMP_LTZ(100)"),
    (coalesce(A, "q"), "COALESCE(a, 'q')"),
    (concat_ws("-", A, B), "concat_ws('-', a, b)"),
    (map_from_arrays(array(1), array("a")), "MAP_FROM_ARRAYS(array(1), array('a'))"),
    (local_time(), "localTime()"),
    (with_columns(A, B), "withColumns(a, b)"),
]


@pytest.mark.parametrize(("expression", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_an_expression_has_flinks_text(expression, text):
    assert str(expression) == text


@pytest.fixture
def tables():
    return TableEnvironment.create(EnvironmentSettings.in_batch_mode())


def rows(table):
    with table.execute().collect() as found:
        return [tuple(one) for one in found]


def pairs(tables):
    return tables.from_elements([(1, "a"), (2, None)], "ROW<a INT, b STRING>")


def test_fields_of_a_call_are_numbered_and_those_of_a_column_have_its_name(tables):
    pair = udf(lambda a: Row(a, "q"), result_type="ROW<x INT, y STRING>")(A)
    with_row = pairs(tables).select(pair.alias("r"))

    chosen = pairs(tables).select(pair.get("x"), pair.get(1), pair.flatten)
    assert chosen.names == ["_c0", "_c1", "_c2", "_c3"]
    assert rows(chosen)[0] == (1, "q", 1, "q")
    named = with_row.select(col("r").get("x"), col("r").get(1), col("r").get("x").cast("BIGINT"))
    assert named.names == ["r$x", "r$_1", "r$x-BIGINT"]


def test_a_row_names_its_fields(tables):
    table = pairs(tables).select(row(A, row(B)).alias("r"))

    assert "`r` ROW<`f0` INT, `f1` ROW<`f0` STRING> NOT NULL> NOT NULL" in str(table.get_resolved_schema())
    assert rows(table.select(col("r").get("f1").get("f0").alias("b"))) == [("a",), (None,)]


def test_arguments_are_converted_to_the_declared_types(tables):
    text = udf(repr, input_types=[DataTypes.DOUBLE()], result_type=DataTypes.STRING())
    tables.create_temporary_function("shown", text)
    split = udtf(lambda a: [repr(a)], input_types=["DOUBLE"], result_types=["STRING"])

    assert rows(pairs(tables).select(text(A))) == [("1.0",), ("2.0",)]
    assert rows(tables.sql_query("SELECT shown(CAST(1.5 AS DECIMAL(3, 1))), shown(NULL)")) == [("1.5", "None")]
    assert rows(pairs(tables).join_lateral(split(A).alias("t")).select(col("t"))) == [("1.0",), ("2.0",)]


def test_arguments_of_other_types_and_numbers_are_refused(tables):
    whole = udf(lambda *values: 1, input_types=[DataTypes.INT()], result_type=DataTypes.INT())

    with pytest.raises(InvalidQuery, match="Invalid argument type at position 0. Data type INT expected but STRING"):
        pairs(tables).select(whole(B))
    with pytest.raises(InvalidQuery, match="Invalid number of arguments. 1 arguments expected after .* but 2 passed"):
        pairs(tables).select(whole(A, A))


@pytest.mark.parametrize(
    ("types", "result", "expected"),
    [
        (["INT"], lambda a: (a, a + 1), [(1,), (2,)]),
        (["INT", "INT"], lambda a: [(a, a, a)], [(1, 1), (2, 2)]),
        (["ROW<i INT>"], lambda a: [(Row(a),)], [((1,),), ((2,),)]),
        (["ROW<i INT>"], lambda a: [Row(a)], [((1,),), ((2,),)]),
    ],
)
def test_the_rows_of_a_table_function(tables, types, result, expected):
    names = [f"w{place}" for place in range(len(types))]
    table = pairs(tables).join_lateral(udtf(result, result_types=types)(A).alias(*names))

    found = [tuple(tuple(one) if isinstance(one, Row) else one for one in each) for each in rows(table)]
    assert [each[2:] for each in found] == expected


def test_series_of_an_aggregate_have_the_types_of_the_columns(tables):
    shown = udaf(lambda a, b: f"{a.dtype} {b.dtype}", result_type="STRING", func_type="pandas")
    table = tables.from_elements([(1, "a"), (None, "b")], "ROW<a INT, b STRING>")

    assert sorted(rows(table.group_by(B).select(shown(A, B)))) == [("float64 object",), ("int32 object",)]


class Sums(AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def accumulate(self, accumulator, values):
        accumulator[0] += values.a
        accumulator[1] += values.n

    def get_value(self, accumulator):
        return Row(*accumulator)


def test_fields_of_an_aggregate_may_have_names_of_keys(tables):
    table = tables.from_elements([(1, 2), (1, 3)], ["a", "n"])
    sums = udaf(Sums(), result_type="ROW<a BIGINT, b BIGINT>", name="sums")

    assert rows(table.group_by(A).aggregate(sums.alias("c", "d")).select(A, col("c"), col("d"))) == [(1, 2, 5)]
    unnamed = table.group_by(A).aggregate(sums).select(col("*"))
    assert (unnamed.names, rows(unnamed)) == (["a", "a_0", "b"], [(1, 2, 5)])


@pytest.mark.parametrize("type_info", [Types.ROW, Types.TUPLE])
def test_columns_of_a_stream_are_chosen_and_renamed_by_field(type_info):
    env = StreamExecutionEnvironment.create_local_environment(1)
    tables = StreamTableEnvironment.create(env)
    stream = env.from_collection([(1, "a", 2.5)], type_info([Types.INT(), Types.STRING(), Types.DOUBLE()]))

    table = tables.from_data_stream(stream, col("f2"), col("f0").alias("p"))
    assert table.names == ["f2", "p"]
    assert rows(table) == [(2.5, 1)]


@pytest.mark.parametrize("func_type", ["general", "pandas"])
@pytest.mark.parametrize("precision", [0, 3, 6])
@pytest.mark.parametrize("of", [DataTypes.TIMESTAMP, DataTypes.TIMESTAMP_LTZ])
def test_times_have_no_digits_that_their_type_has_not(tables, of, precision, func_type):
    given = datetime.datetime.fromisoformat("1969-12-31T23:59:59.123456")
    kind = of(precision)
    shown = "1969-12-31 23:59:59" + (f".{123456 // 10 ** (6 - precision)}" if precision else "")
    text = col("t").cast(DataTypes.TIMESTAMP(6)).cast(DataTypes.STRING())
    whole = shown.ljust(20, ".").ljust(26, "0")

    made = tables.from_elements([(given,)], DataTypes.ROW([DataTypes.FIELD("t", kind)]))
    assert rows(made.select(col("t").cast(DataTypes.STRING()), text)) == [(shown, whole)]
    if func_type == "general":
        result = udf(lambda number: given, result_type=kind)
    else:
        result = udf(lambda numbers: [given] * len(numbers), result_type=kind, func_type="pandas")
    made = tables.from_elements([(1,)], ["n"]).select(result(col("n")).alias("t"))
    assert rows(made.select(col("t").cast(DataTypes.STRING()), text)) == [(shown, whole)]


@pytest.mark.parametrize(("kind", "unit"), [("TIMESTAMP(0)", "s"), ("TIMESTAMP(3)", "ms"), ("TIMESTAMP(6)", "us")])
def test_a_function_of_pandas_gets_times_in_the_unit_of_their_precision(tables, kind, unit):
    shown = udf(lambda times: [str(times.dtype)] * len(times), result_type="STRING", func_type="pandas")
    fields = udf(lambda row: [str(row["at"].dtype)] * len(row), result_type="STRING", func_type="pandas")
    at = col("s").cast(kind)
    given = tables.from_elements([("2020-01-01 00:00:00",)], ["s"]).select(at.alias("at"), row(at).alias("r"))
    found = given.select(shown(col("at")), fields(col("r").cast(f"ROW<at {kind}>")))
    assert [tuple(row) for row in found.execute().collect()] == [(f"datetime64[{unit}]",) * 2]


@pytest.mark.parametrize("name", ["split", "reverse", "words"])
def test_a_table_function_may_have_the_name_of_a_built_in_one(tables, name):
    texts = tables.from_elements([("to be",)], ["a"])
    tables.create_temporary_view("texts", texts)
    query = f"SELECT w, n FROM texts, LATERAL TABLE({name}(a)) AS T(w, n)"
    missing = (
        "No match found" if name == "words" else f"{name} is no table function, but a built-in scalar or aggregate"
    )
    with pytest.raises(InvalidQuery, match=missing):
        tables.sql_query(query)
    split = udtf(lambda text: [(word, len(word)) for word in text.split()], result_types=["STRING", "INT"])
    tables.create_temporary_function(name, split)
    expected = [("to", 2), ("be", 2)]
    assert [tuple(one) for one in tables.sql_query(query).execute().collect()] == expected
    joined = texts.join_lateral(call(name, col("a")).alias("w", "n")).select(col("w"), col("n"))
    assert [tuple(one) for one in joined.execute().collect()] == expected
    if name == "reverse":  # in SELECT the built-in one is meant
        assert [tuple(one) for one in tables.sql_query("SELECT reverse(a) FROM texts").execute().collect()] == [
            ("eb ot",)
        ]


def test_one_and_zero_are_truth_values_of_a_function(tables):
    even = udf(lambda number: (number + 1) % 2, result_type=DataTypes.BOOLEAN())
    assert rows(tables.from_elements([(1,), (2,)], ["n"]).select(even(col("n")))) == [(False,), (True,)]
    assert rows(tables.from_elements([(1,), (2,)], ["n"]).where(even(col("n")))) == [(2,)]
