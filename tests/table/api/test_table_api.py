"""The Table API: each call gives what its SQL gives, as final rows."""

import datetime
import re
from decimal import Decimal

import pyarrow as pa
import pytest

from funken import Row, RowKind, StreamExecutionEnvironment
from funken.errors import FunkenError, InvalidProgram, ValueDoesNotFit
from funken.expr.sql.functions import FUNCTIONS
from funken.table.catalog import InvalidTable
from funken.table.collecting import remaining
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from funken.table.expression import Expression
from funken.table.expressions import (
    CURRENT_ROW,
    UNBOUNDED_RANGE,
    UNBOUNDED_ROW,
    and_,
    array,
    call_sql,
    col,
    concat,
    if_then_else,
    lit,
    map_,
    not_,
    null_of,
    range_,
    row,
    row_interval,
    with_columns,
    without_columns,
)
from funken.table.sql.statements import InvalidQuery
from funken.table.types import DataTypes
from funken.table.udf import AggregateFunction, MapView, TableAggregateFunction, udaf, udf, udtaf, udtf
from funken.table.window import Over, Session, Slide, Tumble
from funken.types.info import Types

ORDERS = [("ann", "tea", 3, 1), ("bob", "jam", 5, 2), ("ann", "jam", 2, 7), ("cid", None, 4, 12)]


@pytest.fixture
def env():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    tables.get_config().set("table.local-time-zone", "UTC")
    return tables


@pytest.fixture
def orders(env):
    return env.from_elements(ORDERS, ["who", "item", "n", "at"])


def rows(table):
    with table.execute().collect() as found:
        return sorted((tuple(one) for one in remaining(found)), key=repr)


def test_select_computes_and_names_columns(orders):
    table = orders.select(col("who").upper_case, (col("n") * 2).alias("double"), lit("x"))

    assert table.names == ["_c0", "double", "_c2"]
    assert rows(table)[0] == ("ANN", 4, "x")


def test_conditions_use_operators_and_nulls_are_neither(orders):
    assert rows(orders.where((col("n") > 2) & (col("item") != "jam")).select(col("who"))) == [("ann",)]
    assert rows(orders.where(~(col("item") == "jam")).select(col("who"))) == [("ann",), ("cid",)]  # NULL is not TRUE
    assert rows(orders.where(not_(col("item") == "jam")).select(col("who"))) == [("ann",)]
    assert rows(orders.where(and_(col("n").between(2, 4), col("item").is_not_null)).select(col("n"))) == [(2,), (3,)]


def test_members_of_expressions_are_functions_of_sql(env):
    table = env.sql_query("SELECT 'abc' AS s, CAST(ROW(7, 'x') AS ROW<n INT, t STRING>) AS r")

    found = table.select(
        col("s").starts_with("a"), col("s").ends_with("b"), col("r").get(0), col("r").get(1), col("r").get("t")
    )

    assert rows(found) == [(True, False, 7, "x", "x")]


def test_a_condition_has_no_truth_value(orders):
    with pytest.raises(InvalidProgram, match="use &"):
        orders.where(col("n") > 2 and col("n") < 5)


def test_columns_are_added_replaced_renamed_and_dropped(orders):
    assert orders.add_columns((col("n") + 1).alias("m")).names == ["who", "item", "n", "at", "m"]
    assert orders.add_or_replace_columns((col("n") + 1).alias("n")).names == ["who", "item", "n", "at"]
    assert orders.rename_columns(col("n").alias("count")).names == ["who", "item", "count", "at"]
    assert orders.drop_columns(col("n"), col("at")).names == ["who", "item"]
    assert orders.alias("a", "b", "c", "d").names == ["a", "b", "c", "d"]
    with pytest.raises(InvalidProgram, match=r"'n' exists already; use add_or_replace_columns\(\)"):
        orders.add_columns(lit(1).alias("n"))
    with pytest.raises(InvalidProgram, match=r"no column 'nope'; it has: who, item, n, at"):
        orders.drop_columns(col("nope"))


def test_ranges_of_columns_stand_for_their_names(orders):
    assert orders.select(with_columns(range_("item", "at"))).names == ["item", "n", "at"]
    assert orders.select(with_columns(range_(1, 2))).names == ["who", "item"]
    assert orders.select(without_columns(range_("item", "at"))).names == ["who"]
    assert orders.select(col("*")).names == ["who", "item", "n", "at"]
    assert orders.select(orders.who).names == ["who"]


def test_groups_have_aggregates(orders):
    table = orders.group_by(col("who")).select(
        col("who"), col("n").sum.alias("total"), col("item").count.distinct.alias("items")
    )

    assert rows(table) == [("ann", 5, 2), ("bob", 5, 1), ("cid", 4, 0)]
    assert rows(orders.select(col("n").max, col("n").min)) == [(5, 2)]
    assert rows(orders.select(col("who")).distinct()) == [("ann",), ("bob",), ("cid",)]


def test_joins_need_names_of_their_own(env, orders):
    prices = env.from_elements([("tea", 1.5), ("jam", 2.0), ("rice", 9.0)], ["product", "price"])

    assert rows(orders.join(prices).where(col("item") == col("product")).select(col("who"), col("price"))) == [
        ("ann", 1.5), ("ann", 2.0), ("bob", 2.0),
    ]  # fmt: skip
    left = orders.left_outer_join(prices, col("item") == col("product")).select(col("who"), col("price"))
    assert rows(left) == [("ann", 1.5), ("ann", 2.0), ("bob", 2.0), ("cid", None)]
    full = orders.full_outer_join(prices, col("item") == col("product")).select(col("who"), col("product"))
    assert (None, "rice") in rows(full)
    with pytest.raises(InvalidProgram, match=r"ambiguous names: \[at, item, n, who\]"):
        orders.join(orders)


def test_set_operations_compare_rows(env):
    left = env.from_elements([(1,), (1,), (2,)], ["a"])
    right = env.from_elements([(1,), (3,)], ["a"])

    assert rows(left.union(right)) == [(1,), (2,), (3,)]
    assert rows(left.union_all(right)) == [(1,), (1,), (1,), (2,), (3,)]
    assert rows(left.intersect(right)) == [(1,)]
    assert rows(left.minus(right)) == [(2,)]
    assert rows(left.minus_all(right)) == [(1,), (2,)]


def test_the_first_rows_by_an_order(orders):
    assert rows(orders.order_by(col("n").desc).fetch(2).select(col("n"))) == [(4,), (5,)]
    assert rows(orders.order_by(col("n").asc).limit(1, 1).select(col("n"))) == [(3,)]


def test_a_table_is_a_name_in_sql(env, orders):
    assert rows(env.sql_query(f"SELECT who FROM {orders} WHERE n = 5")) == [("bob",)]
    subset = orders.where(col("n") > 4).select(col("who"))
    assert rows(orders.where(col("who").in_(subset)).select(col("n"))) == [(5,)]
    assert rows(orders.where(col("n").in_(2, 3)).select(col("n"))) == [(2,), (3,)]


def test_functions_of_the_program_are_expressions(orders):
    double = udf(lambda n: None if n is None else 2 * n, result_type=DataTypes.BIGINT(), name="double")

    @udtf(result_types=[DataTypes.STRING(), DataTypes.INT()])
    def letters(text):
        for letter in text or "":
            yield letter, ord(letter)

    assert rows(orders.select(double(col("n"))))[0] == (10,)
    found = orders.join_lateral(letters(col("item")).alias("letter", "code")).where(col("letter") == "t")
    assert rows(found.select(col("who"), col("code"))) == [("ann", ord("t"))]
    padded = orders.left_outer_join_lateral(letters(col("item")).alias("letter", "code")).where(col("letter").is_null)
    assert rows(padded.select(col("who"))) == [("cid",)]
    assert rows(orders.flat_map(letters(col("item"))).select(col("f0")).distinct()) == [(x,) for x in "aejmt"]
    pair = udf(lambda row: (row.who, row.n), result_type="ROW<name STRING, amount BIGINT>", name="pair")
    assert orders.map(pair).names == ["name", "amount"]


def test_aggregate_functions_of_the_program(orders):
    class Mean(AggregateFunction):
        def create_accumulator(self):
            return [0, 0]

        def accumulate(self, accumulator, value):
            accumulator[0] += value
            accumulator[1] += 1

        def get_value(self, accumulator):
            return accumulator[0] / accumulator[1]

    mean = udaf(Mean(), result_type="DOUBLE", name="mean")
    spread = udaf(lambda n: float(n.max() - n.min()), result_type="DOUBLE", func_type="pandas", name="spread")

    assert rows(orders.group_by(col("who")).select(col("who"), mean(col("n")), spread(col("n"))))[0] == (
        "ann",
        2.5,
        1.0,
    )
    parts = orders.group_by(col("who")).aggregate(mean(col("n")).alias("m")).select(col("who"), col("m"))
    assert rows(parts)[0] == ("ann", 2.5)


@pytest.fixture
def events(env):
    env.execute_sql(
        "CREATE TABLE events (who STRING, n BIGINT, sec BIGINT, ts AS TO_TIMESTAMP_LTZ(sec * 1000, 3), "
        "WATERMARK FOR ts AS ts) WITH ('connector' = 'values', 'data-id' = '" + _registered() + "')"
    )
    return env.from_path("events")


def _registered():
    from funken.table.connectors.values import register_rows

    return register_rows([(who, n, at) for who, _, n, at in ORDERS])


def at(seconds):
    return datetime.datetime.fromisoformat("1970-01-01") + datetime.timedelta(seconds=seconds)


def test_windows_group_by_time(events):
    tumbling = events.window(Tumble.over(lit(5).seconds).on(col("ts")).alias("w")).group_by(col("w"), col("who"))
    assert rows(tumbling.select(col("who"), col("w").start, col("w").end, col("n").sum)) == [
        ("ann", at(0), at(5), 3), ("ann", at(5), at(10), 2), ("bob", at(0), at(5), 5), ("cid", at(10), at(15), 4),
    ]  # fmt: skip
    sliding = events.window(Slide.over(lit(10).seconds).every(lit(5).seconds).on(col("ts")).alias("w"))
    assert rows(sliding.group_by(col("w")).select(col("w").start, col("n").sum)) == [
        (at(-5), 8), (at(0), 10), (at(10), 4), (at(5), 6),
    ]  # fmt: skip
    sessions = events.window(Session.with_gap(lit(4).seconds).on(col("ts")).alias("w")).group_by(col("w"))
    assert rows(sessions.select(col("w").start, col("n").sum)) == [(at(1), 8), (at(12), 4), (at(7), 2)]


def test_frames_of_rows(events):
    by_time = Over.partition_by(col("who")).order_by(col("ts"))
    frame = events.over_window(by_time.preceding(UNBOUNDED_RANGE).alias("w"))
    assert rows(frame.select(col("who"), col("n").sum.over(col("w")))) == [
        ("ann", 3),
        ("ann", 5),
        ("bob", 5),
        ("cid", 4),
    ]
    last = events.over_window(by_time.preceding(row_interval(1)).following(CURRENT_ROW).alias("w"))
    assert rows(last.select(col("n").sum.over(col("w"))))[0] == (3,)
    running = events.over_window(by_time.preceding(UNBOUNDED_ROW).alias("w"))
    assert rows(running.select(col("n").count.over(col("w"))))[-1] == (2,)


def test_windows_are_named_in_group_by(events):
    window = Tumble.over(lit(5).seconds).on(col("ts")).alias("w")
    with pytest.raises(InvalidProgram, match="does not name the window 'w'"):
        events.window(window).group_by(col("who"))
    with pytest.raises(InvalidProgram, match="is no window of a group"):
        events.select(col("x").start)


def test_values_of_every_kind_are_constants(env):
    one = env.from_elements([(1,)], ["a"])
    moment = datetime.datetime.fromisoformat("2024-02-03T04:05:06")
    table = one.select(
        lit(Decimal("1.50")), lit("it's"), lit(True), lit(b"\x01"), lit(moment), lit(moment.date()), lit(None, "INT"),
        array(1, 2), map_("k", 1), null_of("DATE"), concat("a", "b"),
        if_then_else(col("a") == 1, "one", "other"), call_sql("1 + 1"), lit(1.5), lit(5_000_000_000),
    )  # fmt: skip

    assert rows(table) == [
        (
            Decimal("1.50"), "it's", True, b"\x01", moment, moment.date(), None, [1, 2], {"k": 1}, None, "ab", "one", 2, 1.5,
            5_000_000_000,
        )
    ]  # fmt: skip


def test_changes_become_rows_and_rows_changes(env, orders):
    counts = orders.group_by(col("who")).select(col("who"), col("n").count.alias("c"))
    log = counts.to_changelog()

    assert log.names == ["op", "who", "c"]
    assert ("UPDATE_AFTER", "ann", 2) in rows(log)


def test_to_pandas_has_the_rows_that_are_left(env, orders):
    frame = orders.group_by(col("who")).select(col("who"), col("n").sum.alias("total")).to_pandas()

    assert dict(zip(frame["who"], frame["total"], strict=True)) == {"ann": 5, "bob": 5, "cid": 4}


def test_from_elements_infers_types_and_names(env):
    table = env.from_elements([(1, 1.5, "a", [1], {"k": 2}, True, datetime.date(2024, 1, 2))])
    assert str(table.plan.row_type) == (
        "(_1 BIGINT, _2 DOUBLE, _3 STRING, _4 ARRAY<BIGINT>, _5 MAP<STRING NOT NULL, BIGINT>, _6 BOOLEAN, _7 DATE)"
    )
    assert env.from_elements([{"a": 1, "b": "x"}]).names == ["a", "b"]
    typed = env.from_elements(
        [(1, "x")], DataTypes.ROW([DataTypes.FIELD("i", DataTypes.INT()), DataTypes.FIELD("s", DataTypes.STRING())])
    )
    assert str(typed.plan.row_type) == "(i INT, s STRING)"
    with pytest.raises(InvalidProgram, match="Some column types cannot be determined after inferring"):
        env.from_elements([(1, None)])
    with pytest.raises(InvalidProgram, match="a row has 3 values, but the table has 2 columns"):
        env.from_elements([(1, 2, 3)], "ROW<a INT, b INT>")


def test_a_pandas_aggregate_of_no_values_is_null(env):
    mean = udaf(lambda v: v.mean(), result_type="DOUBLE", func_type="pandas")
    table = env.from_elements([("a", 1.0), ("a", 2.0), ("b", None)], ["k", "v"])
    assert rows(table.group_by(col("k")).select(col("k"), mean(col("v")))) == [("a", 1.5), ("b", None)]


def test_temporary_views_are_temporary_tables(env, orders):
    env.create_temporary_view("seen", orders)
    assert (env.list_temporary_tables(), env.list_temporary_views()) == (["seen"], ["seen"])


def test_elements_may_be_expressions(env):
    elements = [row(1, "abc", 2.0), row(2, "def", 3.0)]
    types = [
        DataTypes.FIELD("a", DataTypes.BIGINT()),
        DataTypes.FIELD("b", DataTypes.STRING()),
        DataTypes.FIELD("c", DataTypes.FLOAT()),
    ]
    table = env.from_elements(elements, DataTypes.ROW(types))
    assert [type_.root for type_ in table.plan.row_type.types] == ["BIGINT", "VARCHAR", "FLOAT"]
    assert rows(table) == [(1, "abc", 2.0), (2, "def", 3.0)]
    assert env.from_elements(elements, ["x", "y", "z"]).names == ["x", "y", "z"]
    with pytest.raises(InvalidProgram, match="a row has 3 values, but the table has 2 columns"):
        env.from_elements(elements, DataTypes.ROW(types[:2]))


def test_a_map_view_goes_over_what_it_had():
    view = MapView({"a": 1, "b": 2, "c": 3})
    keys = view.keys()
    for key in keys:
        if key != "b":
            keys.remove()
    assert (list(view.items()), list(view.values()), len(view)) == ([("b", 2)], [2], 1)


def test_values_within_values_have_their_types_too(env):
    with pytest.raises(
        ValueDoesNotFit, match="field 'a' of an element of column 'c' is STRING, but a row has True there"
    ):
        env.from_elements([([("x",), (True,)],)], "ROW<c ARRAY<ROW<a STRING>>>")
    with pytest.raises(TypeError, match="column 'a' is BIGINT, but a row has 'x' there"):
        env.from_elements([("x",)], "ROW<a BIGINT>")
    with pytest.raises(ValueDoesNotFit, match="column 'n' is STRING, but the data has TINYINT there"):
        env.from_arrow(
            pa.table({"n": pa.array([1], pa.int8())}), DataTypes.ROW([DataTypes.FIELD("n", DataTypes.STRING())])
        )


def test_fields_of_rows_are_columns(env):
    table = env.from_elements([(7, Row(1, "a"))], "ROW<id BIGINT, r ROW<x INT, y STRING>>")
    flat = table.select(col("id"), col("r").flatten)
    assert (flat.names, rows(flat)) == (["id", "r$x", "r$y"], [(7, 1, "a")])
    assert table.select(col("r").get("y")).names == table.select(col("r").y).names == ["r$y"]
    chosen = table.select(col("r").get(0), col("r").get("y").cast("STRING"))
    assert (chosen.names, rows(chosen)) == (["r$_0", "r$y-STRING"], [(1, "a")])
    with pytest.raises(InvalidQuery, match="'summ' is no field and no function of a value of the type BIGINT"):
        table.select(col("id").summ)


def test_a_system_function_may_stand_for_an_operator(env, orders):
    env.create_temporary_system_function("plus", udf(lambda a, b: a + b - 1, result_type="BIGINT"))
    assert rows(orders.select(col("n") + col("at")).limit(1)) == [(3,)]
    env.drop_temporary_system_function("plus")
    assert rows(orders.select(col("n") + col("at")).limit(1)) == [(4,)]


def test_rows_with_kinds_are_a_changelog(env):
    changes = env.from_elements([Row.of_kind(RowKind.INSERT, 1), Row.of_kind(RowKind.DELETE, 1)], "ROW<a INT>")

    with changes.execute().collect() as found:
        assert [str(one.get_row_kind()) for one in found] == ["+I", "-D"]


def test_what_is_gone_says_what_has_taken_its_place(env):
    with pytest.raises(AttributeError, match=r"scan\(\) is gone .* Use from_path\(\)"):
        env.scan("t")
    with pytest.raises(AttributeError, match="no column and no method 'nope'"):
        _ = env.from_elements([(1,)], ["a"]).nope


class Weighted(AggregateFunction):
    """A sum times a factor."""

    def __init__(self, factor):
        self._factor = factor

    def create_accumulator(self):
        return [0]

    def accumulate(self, accumulator, value):
        accumulator[0] += value * self._factor

    def get_value(self, accumulator):
        return accumulator[0]


def test_sources_and_functions_of_the_program_that_look_the_same_are_not_one(env):
    ones, twos = env.from_elements([(1, "a")], ["n", "s"]), env.from_elements([(2, "b")], ["n", "s"])
    assert sorted(rows(ones.union_all(twos))) == [(1, "a"), (2, "b")]

    more, times = (udf(function, result_type="BIGINT") for function in (lambda n: n + 1, lambda n: n * 10))
    assert sorted(rows(ones.select(more(col("n"))).union_all(ones.select(times(col("n")))))) == [(2,), (10,)]

    sums = [udaf(Weighted(factor), result_type="BIGINT", accumulator_type="ARRAY<BIGINT>") for factor in (1, 100)]
    first, second = (ones.group_by(col("s")).select(each(col("n")).alias("sum")) for each in sums)
    assert sorted(rows(first.union_all(second))) == [(1,), (100,)]


def test_two_streams_of_one_name_are_not_one(env):
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.create_local_environment(1))
    kinds = Types.ROW_NAMED(["n"], [Types.INT()])
    streams = [tables.stream_environment.from_collection([n]).map(Row, kinds) for n in (1, 2)]
    first, second = map(tables.from_data_stream, streams)
    assert sorted(tuple(row) for row in first.union_all(second).execute().collect()) == [(1,), (2,)]


def counted(events, window, *keys):
    found = events.window(window.on(col("p")).alias("w")).group_by(col("w"), *keys)
    found = found.select(*keys, col("v").sum.alias("s"), col("v").count)
    with found.execute().collect() as rows:
        return [tuple(row) for row in rows]


@pytest.fixture
def numbered():
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.create_local_environment(1))
    rows = [("a", number) for number in range(1, 8)] + [("b", 1), ("b", 2)]
    return tables.from_elements(rows, ["k", "v"]).select(col("k"), col("v"), call_sql("PROCTIME()").alias("p"))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Tumble.over(row_interval(2)), [("a", 3, 2), ("a", 7, 2), ("a", 11, 2), ("b", 3, 2)]),
        (Slide.over(row_interval(4)).every(row_interval(2)), [("a", 10, 4), ("a", 18, 4)]),
        (Slide.over(row_interval(2)).every(row_interval(3)), [("a", 3, 2), ("a", 9, 2), ("b", 3, 2)]),
    ],
)
def test_windows_of_rows(numbered, window, expected):
    assert counted(numbered, window, col("k")) == expected
    assert (
        "never expires"
        in numbered.window(window.on(col("p")).alias("w")).group_by(col("w"), col("k")).select(col("v").max).explain()
    )


def test_windows_of_all_rows(numbered):
    assert counted(numbered, Tumble.over(row_interval(3))) == [(6, 3), (15, 3), (10, 3)]


@pytest.mark.parametrize(
    ("window", "field", "message"),
    [
        (Tumble.over(row_interval(2)), col("w").start, "it has no start, end or time"),
        (Tumble.over(row_interval(0)), col("v").sum, "at least one row"),
        (Slide.over(row_interval(2)).every(lit(1).minutes), col("v").sum, "a size in rows and one in time"),
        (Session.with_gap(row_interval(2)), col("v").sum, "ends after a gap, which is a length of time"),
    ],
)
def test_windows_of_rows_that_cannot_be(numbered, window, field, message):
    with pytest.raises(InvalidProgram, match=message):
        numbered.window(window.on(col("p")).alias("w")).group_by(col("w")).select(field)


def test_windows_of_rows_need_a_clock_and_rows_that_stay(numbered):
    tables = numbered._environment
    tables.execute_sql(
        "CREATE TABLE timed (v INT, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'values')"
    )
    tables.execute_sql(
        "CREATE TABLE moving (v INT, p AS PROCTIME()) WITH ('connector' = 'values', 'changelog-mode' = 'I,UB,UA,D')"
    )
    window = Tumble.over(row_interval(2))
    for name, time, message in (
        ("timed", "ts", "Event-time grouping windows on row intervals are currently not supported"),
        ("moving", "p", "GroupWindowAggregate doesn't support consuming update changes"),
    ):
        of_rows = tables.from_path(name).window(window.on(col(time)).alias("w")).group_by(col("w")).select(col("v").sum)
        with pytest.raises(InvalidTable, match=message):
            of_rows.explain()


def test_every_member_of_an_expression_is_a_function_that_there_is():
    class Names:
        def column(self, name):
            return name

        def aggregate(self, text):
            pass

        def operator(self, text, pattern, count):
            return pattern

    special = {"CAST", "CASE", "EXTRACT", "TIMESTAMPDIFF", "TRIM", "POSITION", "OVERLAY", "FLOOR", "CEIL"}
    unknown, called = [], 0
    for name, member in vars(Expression).items():
        if name.startswith("_") or name in (
            "as_argument",
            "over",
            "distinct",
            "start",
            "end",
            "rowtime",
            "proctime",
            "milli",
            "millis",
        ):
            continue
        made = getattr(col("a"), name, None) if isinstance(member, property) else None
        if made is None and getattr(member, "__signature__", None) is not None:
            given = [one for one in member.__signature__.parameters.values() if one.name != "self"]
            made = member(col("a"), *(col("b") for one in given if one.kind is not one.VAR_POSITIONAL))
        found = re.match(r"([A-Z]\w*)\(", made.sql(Names())) if isinstance(made, Expression) else None
        if found is not None:
            called += 1
            if found[1] not in FUNCTIONS and found[1] not in special:
                unknown.append((name, found[1]))
    assert called > 100
    assert unknown == []


def test_fields_of_rows_by_name_by_position_and_all_of_them():
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    row = DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT()), DataTypes.FIELD("y", DataTypes.STRING())])
    table = tables.from_elements(
        [(1, Row(5, "z"))], DataTypes.ROW([DataTypes.FIELD("i", DataTypes.INT()), DataTypes.FIELD("r", row)])
    )

    def both(of):
        return of.get_resolved_schema().get_column_names(), [tuple(one) for one in of.execute().collect()]

    assert both(table.select(col("i"), col("r").flatten)) == (["i", "r$x", "r$y"], [(1, 5, "z")])
    assert both(table.select(col("r").get("y"), col("r").get(0))) == (["r$y", "r$_0"], [("z", 5)])
    assert both(table.select(col("i").flatten, col("r").get(1).upper_case)) == (["i", "_c1"], [(1, "Z")])
    with pytest.raises(FunkenError, match="no field 2"):
        table.select(col("r").get(2))


def test_texts_that_are_no_dates_fail_where_the_table_api_converts_them():
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    table = tables.from_elements([("2024-01-02", "abc")], ["s", "t"])
    dates = table.select(col("s").to_date, col("t").starts_with("ab"), col("t").ends_with("x"))

    assert dates.get_resolved_schema().get_column_names() == ["s-DATE", "_c1", "_c2"]
    assert [tuple(row) for row in dates.execute().collect()] == [(datetime.date(2024, 1, 2), True, False)]
    with pytest.raises(FunkenError, match="abc"):
        list(table.select(col("t").to_date).execute().collect())


def test_names_of_computed_keys_are_those_of_columns():
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    table = tables.from_elements([(1, "a", 10), (2, "b", 20), (3, "a", 30)], ["id", "k", "v"])
    sums = table.group_by((col("id") % 2).alias("odd"), col("k").alias("kk")).select(
        col("odd"), col("kk").upper_case.alias("kk"), col("v").sum.alias("s")
    )

    assert sorted(tuple(row) for row in sums.execute().collect()) == [(0, "B", 20), (1, "A", 40)]


@pytest.mark.parametrize("names", [(), ("n", "total")])
def test_properties_of_windows_beside_results_of_aggregate_functions(names):
    class CountAndSum(AggregateFunction):
        def create_accumulator(self):
            return Row(0, 0)

        def accumulate(self, accumulator, value):
            accumulator[0] += 1
            accumulator[1] += value

        def get_value(self, accumulator):
            return Row(*accumulator)

    class Both(TableAggregateFunction):
        def create_accumulator(self):
            return []

        def accumulate(self, accumulator, value):
            accumulator.append(value)

        def emit_value(self, accumulator):
            yield Row(len(accumulator), sum(accumulator))

    pair = "ROW<a BIGINT, b BIGINT>"
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    start = datetime.datetime.fromisoformat("2024-01-01")
    rows = [(start + datetime.timedelta(seconds=second), "k", second) for second in (1, 4, 12)]
    table = tables.from_elements(rows, ["ts", "k", "v"])
    groups = table.window(Tumble.over(lit(10).seconds).on(col("ts")).alias("w")).group_by(col("w"), col("k"))
    shown = names or ("a", "b")

    def named(call):
        return call.alias(*names) if names else call

    for chosen in (
        groups.aggregate(named(udaf(CountAndSum(), result_type=pair, accumulator_type=pair)(col("v")))),
        groups.flat_aggregate(named(udtaf(Both(), result_type=pair, accumulator_type="ARRAY<BIGINT>")(col("v")))),
    ):
        found = chosen.select(col("k"), col("w").end, *map(col, shown))
        assert found.get_resolved_schema().get_column_names() == ["k", "EXPR$0", *shown]
        assert sorted(tuple(row) for row in found.execute().collect()) == [
            ("k", start + datetime.timedelta(seconds=10), 2, 5),
            ("k", start + datetime.timedelta(seconds=20), 1, 12),
        ]
        assert chosen.select(col("*")).get_resolved_schema().get_column_names() == ["k", *shown]


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda table: table.select(), "no column is selected"),
        (lambda table: table.drop_columns(col("id"), col("k"), col("v")), "no column is selected"),
        (lambda table: table.select(with_columns(range_(2, 9))), "no column 9, but 3: id, k, v"),
        (lambda table: table.select(with_columns(0)), "no column 0, but 3"),
        (lambda table: table.select(without_columns(range_("id", "w"))), "no column 'w', but 3"),
        (lambda table: table.select(with_columns(range_("v", "k"))), "the first stands behind the last"),
        (lambda table: table.select(col("id"), col("v").alias("id")), "Ambiguous column name: id"),
        (lambda table: table.rename_columns(col("id").alias("k")), "Ambiguous column name: k"),
        (lambda table: table.alias("a", "a"), "Ambiguous column name: a"),
        (lambda table: table.alias("*"), r"alias\(\) does not take '\*'"),
        (lambda table: table.rename_columns(col("id")), "takes new names"),
        (lambda table: table.filter(None), "but it is None"),
        (lambda table: table.fetch(-1), "from 0 on, but it is -1"),
        (lambda table: table.offset(-2), "from 0 on, but it is -2"),
        (lambda table: table.aggregate(udf(lambda v: v, result_type="INT")(col("v"))), "takes an aggregate function"),
    ],
)
def test_columns_that_there_are_not_are_named(choose, message):
    table = TableEnvironment.create().from_elements([(1, "a", 10)], ["id", "k", "v"])
    with pytest.raises(InvalidProgram, match=message):
        choose(table)


def test_what_is_registered_as_a_function_can_be_called():
    tables = TableEnvironment.create()
    for register in (tables.create_temporary_function, tables.create_temporary_system_function):
        with pytest.raises(InvalidProgram, match="neither"):
            register("f", None)
