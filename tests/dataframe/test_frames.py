"""Verbs of frames against pandas and SQLite, as streams and in batch."""

import copy
import datetime
import sqlite3
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pytest

import funken.dataframe as ff
from funken.errors import FunkenError
from funken.table import Schema, TableEnvironment
from funken.table.expressions import lit
from funken.types.row import Row

ROWS = [
    (1, "ann", "x", 5.0),
    (2, "bob", "y", None),
    (3, "ann", "y", 7.0),
    (4, None, "x", 2.5),
    (5, "bob", "y", 2.5),
    (5, "bob", "y", 2.5),
]
NAMES = ["id", "name", "kind", "price"]
T0 = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone


def frame():
    return ff.from_records(ROWS, schema=NAMES)


def sorted_rows(rows):
    return sorted((tuple(row) for row in rows), key=repr)


def final(a_frame):
    """The rows that are left, NULL as None."""
    return sorted_rows(tuple(row.values()) for row in a_frame.to_arrow().to_pylist())


def sqlite(query, **tables):
    """What SQLite says of a query over frames of the same names."""
    with sqlite3.connect(":memory:") as database:
        for name, (columns, rows) in tables.items():
            database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
        return sorted_rows(database.execute(query).fetchall())


@pytest.mark.parametrize(
    ("verb", "query"),
    [
        (lambda f: f.filter(ff.col("price") > 2.5), "SELECT * FROM t WHERE price > 2.5"),
        (lambda f: f.where("price > 2 AND kind = 'y'", name="bob"), "SELECT * FROM t WHERE price > 2 AND name = 'bob'"),
        (lambda f: f.filter(name=None), "SELECT * FROM t WHERE name IS NULL"),
        (lambda f: f.filter(lambda it: it.id > 3, kind="x"), "SELECT * FROM t WHERE id > 3 AND kind = 'x'"),
        (lambda f: f[f["id"] > 3][["kind", "id"]], "SELECT kind, id FROM t WHERE id > 3"),
        (lambda f: f.select("id", ["kind"], twice=ff.col("id") * 2), "SELECT id, kind, id * 2 FROM t"),
        (lambda f: f.with_column("id", lambda it: it.id + 1), "SELECT id + 1, name, kind, price FROM t"),
        (lambda f: f.with_columns((ff.col("id") + 1).alias("a"), b=ff.lit(1)), "SELECT *, id + 1, 1 FROM t"),
        (lambda f: f.drop("price", "no", strict=False), "SELECT id, name, kind FROM t"),
        (lambda f: f.distinct(), "SELECT DISTINCT * FROM t"),
        (lambda f: f.drop_null(), "SELECT * FROM t WHERE name NOT NULL AND price NOT NULL"),
        (lambda f: f.drop_null(["name"]), "SELECT * FROM t WHERE name NOT NULL"),
        (lambda f: f.fill_null({"price": 0.0}), "SELECT id, name, kind, COALESCE(price, 0.0) FROM t"),
        (lambda f: f.union_all(f), "SELECT * FROM t UNION ALL SELECT * FROM t"),
        (lambda f: f.union(f), "SELECT * FROM t UNION SELECT * FROM t"),
        (lambda f: f.intersect(f.filter("id > 2")), "SELECT * FROM t INTERSECT SELECT * FROM t WHERE id > 2"),
        (lambda f: f.minus(f.filter("id > 2")), "SELECT * FROM t EXCEPT SELECT * FROM t WHERE id > 2"),
        (
            lambda f: f.group_by("kind").agg(ff.col("price").sum.alias("s"), n=ff.col("id").count),
            "SELECT kind, SUM(price), COUNT(id) FROM t GROUP BY kind",
        ),
        (
            lambda f: f.group_by((ff.col("id") % 2).alias("odd"), "kind").agg(top=ff.col("price").max),
            "SELECT id % 2, kind, MAX(price) FROM t GROUP BY id % 2, kind",
        ),
        (lambda f: f.agg(ff.col("id").max.alias("m"), n=ff.col("name").count), "SELECT MAX(id), COUNT(name) FROM t"),
        (
            lambda f: f.top_n(1, partition_by="kind", order_by=["price", "id"], descending=[True, False]),
            "SELECT id, name, kind, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY kind ORDER BY price DESC, "
            "id) AS r FROM t) WHERE r <= 1",
        ),
        (
            lambda f: f.top_n(2, order_by="price", nulls_first=False),
            "SELECT id, name, kind, price FROM t WHERE price = 2.5 ORDER BY id LIMIT 2",
        ),
        (
            lambda f: f.drop_duplicates(["name", "kind"], order_by="id", keep="last"),
            "SELECT DISTINCT id, name, kind, price FROM t AS o WHERE id = (SELECT MAX(id) FROM t WHERE name IS o.name AND "
            "kind = o.kind)",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_verbs_equal_sqlite(tables, verb, query):
    assert final(verb(frame())) == sqlite(query, t=(NAMES, ROWS))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "outer"])
def test_joins_by_name_equal_pandas(tables, how):
    names = ["ann", "eve", None]
    right = ff.from_records(list(zip(names, [30, 40, 50], strict=True)), schema=["name", "age"])

    joined = frame().join(right, on="name", how=how)

    kind = "FULL" if how == "outer" else how
    wanted = sqlite(
        f"SELECT id, COALESCE(t.name, u.name), kind, price, age FROM t {kind} JOIN u ON t.name = u.name",
        t=(NAMES, ROWS),
        u=(["name", "age"], list(zip(names, [30, 40, 50], strict=True))),
    )
    assert joined.columns == [*NAMES, "age"]
    assert final(joined) == wanted


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"on": "name"}, "u.name = t.name"),
        ({"left_on": "id", "right_on": "age"}, "u.age = t.id"),
        ({"left_on": ff.col("id") * 2, "right_on": ff.col("age")}, "u.age = t.id * 2"),
        ({"left_on": ["name", "id"], "right_on": ["name", "age"]}, "u.name = t.name AND u.age = t.id"),
    ],
    ids=["shared", "other names", "expressions", "two"],
)
@pytest.mark.parametrize(("how", "negated"), [("semi", ""), ("anti", "NOT ")])
def test_semi_and_anti_joins_equal_sqlite(tables, how, negated, options, condition):
    rows = [("ann", 1), ("bob", 4), (None, 2)]

    found = final(frame().join(ff.from_records(rows, schema=["name", "age"]), how=how, **options))

    query = f"SELECT * FROM t WHERE {negated}EXISTS (SELECT 1 FROM u WHERE {condition})"
    assert found == sqlite(query, t=(NAMES, ROWS), u=(["name", "age"], rows))


def test_a_join_by_a_condition_and_a_cross_join(tables):
    ages = [("ann", 3), ("bob", 5)]
    right = ff.from_records(ages, schema=["who", "age"])

    by_condition = frame().join(right, on=ff.col("id") < ff.col("age"), how="left")

    query = "SELECT t.*, u.* FROM t LEFT JOIN u ON t.id < u.age"
    assert final(by_condition) == sqlite(query, t=(NAMES, ROWS), u=(["who", "age"], ages))
    assert len(final(frame().join(right, how="cross"))) == len(ROWS) * 2


def test_a_batch_is_sorted(tables):
    if tables.is_streaming:
        pytest.skip("a stream sorts by time")
    found = frame().sort(["price", "id"], descending=[True, False], nulls_first=[False, None]).collect()

    wanted = pd.DataFrame(ROWS, columns=NAMES).sort_values(["price", "id"], ascending=[False, True], na_position="last")
    assert [row[0] for row in found] == list(wanted["id"])
    assert [row[0] for row in frame().sort("id").offset(1).head(2).collect()] == [2, 3]


def test_explode_keeps_the_place_of_the_column(tables):
    tagged = ff.from_dict({"id": [1, 2, 3], "tags": [["a", "b"], [], None], "z": [7, 8, 9]})

    assert final(tagged.explode("tags")) == sorted_rows([(1, "a", 7), (1, "b", 7), (2, None, 8), (3, None, 9)])
    assert final(tagged.explode("tags", output_column="tag", ignore_empty_and_null=True)) == [(1, "a", 7), (1, "b", 7)]
    assert tagged.explode("tags", output_column="tag").columns == ["id", "tag", "z"]
    maps = ff.from_dict({"id": [1], "m": [{"x": 1, "y": 2}]}).explode("m", output_column=["k", "v"])
    assert final(maps) == [(1, "x", 1), (1, "y", 2)]


def test_rows_are_exploded_as_rows(tables):
    items = [[("apple", 2), (None, None)], [], None]
    orders = ff.from_records(list(zip([1, 2, 3], items, strict=True)), schema=["id", "items"])

    found = [tuple(row) for row in orders.explode("items", output_column="item").collect()]
    assert found == [(1, Row(_1="apple", _2=2)), (1, Row(_1=None, _2=None)), (2, None), (3, None)]
    inner = orders.explode(ff.col("items").alias("i"), ignore_empty_and_null=True)
    assert (inner.columns, len(inner.collect())) == (["id", "i"], 2)
    words = ff.from_dict({"text": ["to,be"]}).explode(ff.col("text").split(","), output_column="word")
    assert [tuple(row) for row in words.collect()] == [("to,be", "to"), ("to,be", "be")]


def test_nan_and_null_are_two(tables):
    scores = ff.from_dict({"id": [1, 2, None], "score": [0.5, float("nan"), None], "name": ["a", None, "c"]})

    assert final(scores.drop_nan()) == [(1, 0.5, "a"), (None, None, "c")]
    assert final(scores.drop_nan(["id"]).select("name")) == [("a",), ("c",), (None,)]
    assert final(scores.fill_nan(7).select("score")) == [(0.5,), (7.0,), (None,)]
    assert final(scores.fill_nan(0).fill_null(0)) == [(0, 0.0, "c"), (1, 0.5, "a"), (2, 0.0, "0")]
    assert final(scores.fill_null("?", subset=["name"]).select("name")) == [("?",), ("a",), ("c",)]
    assert str(scores.fill_null(0)) == str(scores)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ([(1, None), (None, "a")], "ARRAY<ROW<`_1` BIGINT, `_2` STRING>>"),
        ([[None], [1]], "ARRAY<ARRAY<BIGINT>>"),
        ([{"a": (None, 1)}, {"a": ("b", None)}], "ARRAY<MAP<STRING NOT NULL, ROW<`_1` STRING, `_2` BIGINT>>>"),
        ([(None,), (None,)], "ARRAY<ROW<`_1` STRING>>"),
    ],
)
def test_a_null_in_one_value_is_typed_by_another(stream_tables, value, type_):
    assert str(ff.from_dict({"a": [value]})) == f"<DataFrame (a {type_})>"


def test_a_stream_is_sorted_by_an_expression_up_to_a_limit(tables):
    found = ff.range(6).sort(ff.col("id") % 3, descending=True)

    assert sorted(row[0] for row in found.limit(2).collect() if row.get_row_kind().name != "DELETE")[-1] in (2, 5)
    assert {one[0] for one in final(found.limit(2))} == {2, 5}
    assert {one[0] for one in final(found.offset(2).limit(2))} == {1, 4}


def test_a_watermark_is_in_the_schema(tables):
    [spec] = events().to_table().get_resolved_schema().get_watermark_specs()

    assert spec.get_rowtime_attribute() == "ts"


def test_frames_are_copied_and_say_the_names_of_other_libraries():
    assert copy.copy(ff.range(1)).columns == ["id"]
    for name, says in (("fillna", "fill_null"), ("colums", "Did you mean columns?"), ("sort_values", r"sort\(\)")):
        with pytest.raises(AttributeError, match=says):
            getattr(ff.range(1), name)


def test_explode_of_a_multiset_repeats_elements(tables):
    collected = frame().select("kind").agg(kinds=ff.col("kind").collect)

    assert final(collected.explode("kinds")) == [("x",)] * 2 + [("y",)] * 4


def events():
    rows = [(place % 2, place, T0 + datetime.timedelta(seconds=4 * place)) for place in range(12)]
    return ff.from_records(rows, schema=["k", "v", "ts"], watermark=("ts", "ts - INTERVAL '1' SECOND"))


def seconds(rows):
    return sorted(
        tuple((one - T0).total_seconds() if isinstance(one, datetime.datetime) else one for one in row) for row in rows
    )


WINDOW = ["window_start", "window_end"]


def test_tumbling_windows_equal_pandas(tables):
    found = events().tumble(on="ts", size=datetime.timedelta(seconds=10)).group_by("k", *WINDOW).agg(s=ff.col("v").sum)

    rows = pd.DataFrame({"k": [n % 2 for n in range(12)], "v": range(12), "at": [4 * n for n in range(12)]})
    sums = rows.groupby(["k", rows["at"] // 10])["v"].sum()
    assert seconds(final(found)) == sorted((k, w * 10.0, w * 10.0 + 10, s) for (k, w), s in sums.items())


def test_hopping_cumulating_and_session_windows(tables):
    size = datetime.timedelta(seconds=20)
    hops = events().hop(on=ff.col("ts"), slide=lit(10).seconds, size=size).group_by(*WINDOW).agg(n=ff.col("v").count)
    steps = events().cumulate(on="ts", step=lit(10).seconds, size=size).group_by(*WINDOW).agg(n=ff.col("v").count)
    sessions = events().filter("v NOT IN (3, 4, 5)").session(on="ts", gap=lit(10).seconds)
    by_key = events().session(on="ts", gap=datetime.timedelta(seconds=9), partition_by="k")

    at = [4 * n for n in range(12)]
    hop_rows = [(s, s + 20.0, sum(s <= t < s + 20 for t in at)) for s in (-10.0, 0.0, 10.0, 20.0, 30.0, 40.0)]
    assert seconds(final(hops)) == hop_rows
    ends = [(s, e) for s in (0.0, 20.0, 40.0) for e in (s + 10, s + 20)]
    assert seconds(final(steps)) == [(s, e, n) for s, e in ends if (n := sum(s <= t < e for t in at))]
    assert seconds(final(sessions.group_by(*WINDOW).agg(n=ff.col("v").count))) == [(0.0, 18.0, 3), (24.0, 54.0, 6)]
    assert seconds(final(by_key.group_by("k", *WINDOW).agg(n=ff.col("v").count))) == [
        (0, 0.0, 49.0, 6),
        (1, 4.0, 53.0, 6),
    ]


@pytest.mark.parametrize(
    ("frame_of", "width"),
    [
        ({"rows": 2}, lambda n: range(max(0, n - 2), n + 1)),
        ({"rows": ff.UNBOUNDED}, lambda n: range(n + 1)),
        ({"rows": (ff.preceding(ff.UNBOUNDED), ff.following(ff.CURRENT_ROW))}, lambda n: range(n + 1)),
        ({"rows": (ff.preceding(1), ff.CURRENT_ROW)}, lambda n: range(max(0, n - 1), n + 1)),
        ({"range": "8 s"}, lambda n: range(max(0, n - 2), n + 1)),
        ({"range": datetime.timedelta(seconds=4)}, lambda n: range(max(0, n - 1), n + 1)),
        ({}, lambda n: range(n + 1)),
    ],
    ids=["rows", "unbounded", "ends of ends", "pair", "text", "timedelta", "default"],
)
def test_frames_of_over(tables, frame_of, width):
    found = events().select("v", total=ff.col("v").sum.over(order_by="ts", **frame_of))

    assert final(found) == sorted_rows((n, sum(width(n))) for n in range(12))


def test_frames_of_over_by_partition_and_in_expressions(tables):
    total = ff.col("v").sum.over(order_by="ts", partition_by="k", rows=1)

    assert final(events().select("v", more=total + 1)) == sorted_rows((n, n + max(0, n - 2) + 1) for n in range(12))
    assert str(total) == "over(sum(v), ts, 1, CURRENT_ROW, k)"


@pytest.mark.parametrize(
    ("error", "says", "options"),
    [
        (ValueError, "mutually exclusive", {"rows": 1, "range": "1 s"}),
        (ValueError, "larger than 0", {"rows": 0}),
        (TypeError, "bool", {"rows": True}),
        (TypeError, "two-element", {"rows": (ff.preceding(1),)}),
        (ValueError, "lower bound", {"rows": (ff.following(1), ff.CURRENT_ROW)}),
        (ValueError, "duration string", {"range": "INTERVAL '1' HOUR"}),
        (TypeError, "must not be empty", {"partition_by": []}),
        (ValueError, "rows bounds must use the same frame kind", {"rows": (ff.preceding("1 s"), ff.CURRENT_ROW)}),
        (ValueError, "range bounds must use the same frame kind", {"range": (ff.preceding(1), ff.CURRENT_ROW)}),
        (TypeError, "column name or Expression", {"partition_by": [42]}),
        (TypeError, "CURRENT_ROW and its kin", {"rows": (ff.preceding(1), ff.lit(1))}),
    ],
)
def test_a_frame_that_is_none_is_refused(error, says, options):
    with pytest.raises(error, match=says):
        ff.col("v").sum.over(order_by="ts", **options)


class Person(NamedTuple):
    name: str
    age: int


@pytest.mark.parametrize(
    ("data", "schema", "wanted"),
    [
        ([{"a": 1, "b": "x"}], None, [(1, "x")]),
        ([{"a": 1, "b": "x", "c": 2}], ["b", "a"], [("x", 1)]),
        ([Person("ann", 1)], None, [("ann", 1)]),
        ([Person("ann", 1)], ["age"], [(1,)]),
        ([(1, 2), [3, None]], ["a", "b"], [(1, 2), (3, None)]),
        ([(1, {}), (2, {"a": 1})], ["a", "b"], [(1, {}), (2, {"a": 1})]),
    ],
)
def test_records(stream_tables, data, schema, wanted):
    assert [tuple(row) for row in ff.from_records(data, schema).collect()] == wanted


@pytest.mark.parametrize(
    ("error", "says", "make"),
    [
        (
            ValueError,
            "no column named|does not exist|not found",
            lambda: ff.range(1).tumble(on="ts", size=lit(1).second),
        ),
        (FunkenError, "ts", lambda: ff.range(1).filter(ff.col("ts") > 1)),
        (AttributeError, "no column and no method 'ts'", lambda: ff.range(1).ts),
    ],
)
def test_a_mistake_says_what_it_is(stream_tables, error, says, make):
    with pytest.raises(error, match=says):
        make()


def test_pandas_and_arrow_keep_their_types(stream_tables):
    table = pa.table({"a": pa.array([1, None], pa.int16()), "b": pa.array([["x"], []])})
    stamps = pd.DataFrame({"ts": pd.to_datetime(["2026-01-01 00:00:00.123456"])})

    assert (
        ff.from_arrow(table, ["c", "d"]).schema.get_column_data_types()
        == ff.from_arrow(table).schema.get_column_data_types()
    )
    assert str(ff.from_arrow(table)) == "<DataFrame (a SMALLINT, b ARRAY<STRING>)>"
    marked = ff.from_pandas(stamps, watermark=("ts", "ts"))
    assert str(marked) == "<DataFrame (ts TIMESTAMP(3) *ROWTIME*)>"
    assert marked.collect() == [Row(T0 + datetime.timedelta(milliseconds=123))]


def test_a_frame_is_a_table(stream_tables):
    table = stream_tables.from_elements([(1,)], ["id"])

    assert ff.from_table(table).to_table() is table
    assert ff.from_table(table).pipe(lambda it, n: it.limit(n), 1).collect() == [Row(1)]


def test_changes_have_kinds(stream_tables):
    counts = frame().group_by("kind").agg(n=ff.col("id").count).filter(kind="x")

    wanted = [("x", 1, "+I"), ("x", 1, "-U"), ("x", 2, "+U")]
    with counts.iter_rows(include_row_kind=True, row_kind_field="op") as rows:
        assert [tuple(row.values()) for row in rows] == wanted
    assert [tuple(row.values()) for row in counts.take(2, include_row_kind=True)] == wanted[:2]
    batch = counts.take_batch(9, batch_format="pyarrow", include_row_kind=True)
    assert batch.schema.names == ["kind", "n", "__row_kind__"]
    assert batch["__row_kind__"].to_pylist() == ["+I", "-U", "+U"]


def test_batches_equal_pandas(stream_tables):
    with frame().iter_batches(batch_size=4) as batches:
        parts = list(batches)

    assert [len(part) for part in parts] == [4, 2]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), frame().to_pandas())


def test_taking_ends_an_unbounded_job(stream_tables):
    endless = ff.read_generic("datagen", schema={"x": ff.DataType.int64()}, options={"rows-per-second": "100"})

    assert len(endless.take(3)) == 3
    assert 0 < len(endless.take(100_000, timeout=2)) < 100_000
    assert endless.take(0) == []


@pytest.mark.parametrize(
    ("error", "says", "take"),
    [
        (ValueError, "conflicts", lambda f: f.iter_rows(include_row_kind=True, row_kind_field="id")),
        (TypeError, "row_kind_field", lambda f: f.take(1, include_row_kind=True, row_kind_field=1)),
        (ValueError, "batch_size", lambda f: f.iter_batches(batch_size=0)),
        (ValueError, "batch_format", lambda f: f.take_batch(1, batch_format="polars")),
        (ValueError, "non-negative", lambda f: f.take(-1)),
        (TypeError, "integer", lambda f: f.take(True)),
        (TypeError, "timeout", lambda f: f.take(1, timeout="1")),
    ],
)
def test_results_check_their_arguments_first(stream_tables, error, says, take):
    with pytest.raises(error, match=says):
        take(ff.range(3))


def test_show_prints_the_rows_that_are_left(tables, capsys):
    frame().group_by("kind").agg(n=ff.col("id").count).filter(kind="y").show()

    assert capsys.readouterr().out.splitlines()[3] == "|    y | 4 |"


def test_options_come_before_the_environment():
    before = ff.get_table_environment()
    ff.set_table_environment(None)
    try:
        config = type(ff.config)().set("execution.runtime-mode", "batch").set("table.builtin-catalog-name", "mine")
        environment = TableEnvironment.create(config.settings())
        assert not environment.is_streaming
        assert environment.get_current_catalog() == "mine"
        ff.set_table_environment(environment)
        with pytest.raises(RuntimeError, match="must be set before the table environment exists"):
            ff.config.set("a", "b")
        with pytest.raises(TypeError, match="value must be a string"):
            ff.config.set("parallelism.default", 4)
    finally:
        ff.set_table_environment(before)


def test_catalogs(stream_tables):
    ff.create_catalog("other", {"type": "generic_in_memory"})
    ff.use_catalog("other")
    assert (ff.get_current_catalog(), ff.list_catalogs()) == ("other", ["default_catalog", "other"])
    assert ff.get_current_database() in ff.list_databases()
    with pytest.raises(ValueError, match="already exists"):
        ff.create_catalog("other", {"type": "generic_in_memory"})
    with pytest.raises(ValueError, match="no-such"):
        ff.use_database("no-such")
    assert ff.get_catalog("nothing") is None


def test_schema_of_the_columns():
    schema = Schema.new_builder().column("a", ff.DataType.int64()).build()

    assert str(schema.columns[0].type) == "BIGINT"
    assert str(ff.col("a").cast(ff.DataType.decimal(4, 2))) == "cast(a, DECIMAL(4, 2))"


def test_show_keeps_lines_of_a_text(capsys):
    frames = ff.from_pandas(pd.DataFrame({"a": ["one\ntwo"]}))
    frames.show()

    assert "two" in capsys.readouterr().out
