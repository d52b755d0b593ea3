"""Functions that are given whole rows: map, flat_map, aggregate, flat_aggregate."""

import pytest

from funken import Row, StreamExecutionEnvironment
from funken.errors import InvalidProgram
from funken.table import AggregateFunction, DataTypes, ScalarFunction, StreamTableEnvironment, TableAggregateFunction
from funken.table.expressions import col
from funken.table.udf import udaf, udf, udtaf, udtf

PAIR = DataTypes.ROW([DataTypes.FIELD("x", DataTypes.BIGINT()), DataTypes.FIELD("y", DataTypes.BIGINT())])


@pytest.fixture
def table():
    env = StreamTableEnvironment.create(StreamExecutionEnvironment.create_local_environment(1))
    return env.from_elements([("a", 1), ("b", 5), ("a", 3)], ["word", "n"])


def rows(table):
    with table.execute().collect() as found:
        return sorted(tuple(row) for row in found)


def left(table):
    return sorted(tuple(row) for row in table.to_pandas().itertuples(index=False))


def test_a_function_of_rows_sees_names(table):
    both = udf(lambda row: Row(row.n, 2 * row.n), result_type=PAIR)
    assert table.map(both).names == ["x", "y"]
    assert rows(table.map(both.alias("p", "q")).select(col("q"))) == [(2,), (6,), (10,)]


def test_a_function_of_pandas_gets_constants_as_they_are(table):
    def tagged(numbers, tag, factor):
        return numbers.map(lambda n: f"{tag}{n * {2: 20}[factor]}")

    function = udf(tagged, result_type=DataTypes.STRING(), func_type="pandas")
    assert rows(table.select(function(col("n"), "n=", 2))) == [("n=100",), ("n=20",), ("n=60",)]


@pytest.mark.parametrize(
    "as_row", [Row(y=2, x=1), {"y": 2, "x": 1}, Row(1, 2), (1, 2), Row(p=1, q=2), Row(z=3, y=2, x=1)]
)
def test_fields_of_rows_are_found_by_name_if_they_have_these_names(table, as_row):
    assert rows(table.map(udf(lambda row: as_row, result_type=PAIR))) == [(1, 2)] * 3
    nested = DataTypes.ROW([DataTypes.FIELD("pair", PAIR)])
    assert rows(table.map(udf(lambda row: Row(as_row), result_type=nested))) == [(Row(x=1, y=2),)] * 3


def test_elements_are_rows_by_name():
    env = StreamTableEnvironment.create(StreamExecutionEnvironment.create_local_environment(1))
    types = DataTypes.ROW([DataTypes.FIELD("word", DataTypes.STRING()), DataTypes.FIELD("pair", PAIR)])
    elements = [Row(pair=Row(y=2, x=1), word="a"), Row("b", (1, 2)), Row(word="c", pair=None)]
    assert rows(env.from_elements(elements, types)) == [("a", Row(x=1, y=2)), ("b", Row(x=1, y=2)), ("c", None)]


def test_a_function_of_pandas_sees_a_frame(table):
    both = udf(lambda frame: frame.assign(y=frame["n"] * 2)[["n", "y"]], result_type=PAIR, func_type="pandas")
    assert rows(table.map(both)) == [(1, 2), (3, 6), (5, 10)]
    mean = udaf(
        lambda frame: (frame["n"].mean(), frame["n"].max()),
        result_type=DataTypes.ROW([DataTypes.FIELD("m", DataTypes.DOUBLE()), DataTypes.FIELD("h", DataTypes.BIGINT())]),
        func_type="pandas",
    )
    assert left(table.group_by(col("word")).aggregate(mean).select(col("*"))) == [("a", 2.0, 3), ("b", 5.0, 5)]


def test_flat_map_and_lateral_joins(table):
    @udtf(result_types=[DataTypes.STRING(), DataTypes.BIGINT()])
    def copies(row):
        for place in range(min(row.n, 2)):
            yield row.word, place

    assert rows(table.flat_map(copies).alias("w", "p")) == [("a", 0), ("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    joined = table.join_lateral(copies.alias("w", "p")).where(col("p") == 1).select(col("n"))
    assert rows(joined) == [(3,), (5,)]


class Best(TableAggregateFunction):
    """The two largest numbers."""

    def create_accumulator(self):
        return []

    def accumulate(self, accumulator, row):
        accumulator.append(row.n)

    def retract(self, accumulator, row):
        accumulator.remove(row.n)

    def emit_value(self, accumulator):
        yield from sorted(accumulator, reverse=True)[:2]

    def get_result_type(self):
        return DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT())])


def test_table_aggregates_give_rows_of_groups(table):
    best = udtaf(Best())
    assert left(table.group_by(col("word")).flat_aggregate(best.alias("v")).select(col("word"), col("v"))) == [
        ("a", 1),
        ("a", 3),
        ("b", 5),
    ]
    again = table.group_by(col("word")).flat_aggregate(best.alias("n")).select(col("n")).flat_aggregate(best)
    assert left(again.select(col("n"))) == [(3,), (5,)]


def test_all_rows_of_a_group_are_taken_back_when_one_comes(table):
    best = udtaf(Best())
    environment = table._environment
    scores = environment.from_elements([("c", 2), ("c", 5), ("d", 1), ("c", 1)], ["word", "n"])
    found = scores.group_by(col("word")).flat_aggregate(best.alias("v")).select(col("word"), col("v"))
    with found.execute().collect() as rows:
        told = [f"{row.get_row_kind()}{tuple(row)}" for row in rows]
    first, second = ["+I('c', 2)"], ["+I('c', 5)", "+I('c', 2)"]
    taken = ["-D('c', 5)", "-D('c', 2)"]
    assert told == [*first, "-D('c', 2)", *second, "+I('d', 1)", *taken, *second]


def test_only_a_table_aggregate_is_flat(table):
    class Sum(AggregateFunction):
        def create_accumulator(self):
            return [0]

        def accumulate(self, accumulator, row):
            accumulator[0] += row.n

        def get_value(self, accumulator):
            return accumulator[0]

    total = udaf(Sum(), result_type="BIGINT", name="total")
    assert left(table.aggregate(total.alias("t")).select(col("t"))) == [(9,)]
    with pytest.raises(InvalidProgram, match=r"table aggregate function, of udtaf\(\), but total"):
        table.group_by(col("word")).flat_aggregate(total)


def test_an_alias_may_be_given_again():
    assert str(col("a").sum.alias("b").alias("c")) == "as(as(sum(a), 'b'), 'c')"


def test_an_alias_may_name_the_first_columns_only(table):
    assert table.alias("w").names == ["w", "n"]
    with pytest.raises(InvalidProgram, match="names 3 columns, but the table has 2"):
        table.alias("a", "b", "c")


def test_functions_that_are_none_are_refused_at_once():
    class Half(ScalarFunction):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Half()
    with pytest.raises(TypeError, match="is no function"):
        udf(object(), result_type="INT")
    with pytest.raises(InvalidProgram, match="'general, pandas' or 'arrow', but got 'panda'"):
        udf(lambda n: n, result_type="INT", func_type="panda")

    class Random(ScalarFunction):
        def eval(self):
            return 4

        def is_deterministic(self):
            return False

    with pytest.raises(InvalidProgram, match="Inconsistent deterministic: True and False"):
        udf(Random(), result_type="INT", deterministic=True)


def test_generated_decimals_may_have_38_digits():
    env = StreamTableEnvironment.create(StreamExecutionEnvironment.create_local_environment(1))
    env.execute_sql("CREATE TABLE t (d DECIMAL(38, 18)) WITH ('connector' = 'datagen', 'number-of-rows' = '3')")
    assert len(rows(env.from_path("t"))) == 3


def test_a_statement_without_rows_has_a_schema():
    env = StreamTableEnvironment.create(StreamExecutionEnvironment.create_local_environment(1))
    schema = env.execute_sql("CREATE TABLE t (n INT) WITH ('connector' = 'print')").get_resolved_schema()
    assert schema.get_column_names() == ["result"]
