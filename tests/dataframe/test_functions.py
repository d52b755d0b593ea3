"""Functions of the program over frames: scalar, table, aggregate, of records and batches; ``sql`` with names of variables."""

import functools
import warnings
from collections.abc import Iterator
from typing import TypedDict

import pandas as pd
import pyarrow as pa
import pytest

import funken.dataframe as ff
from funken.dataframe.types import type_of_hint
from funken.errors import FunkenError
from funken.table import AggregateFunction, AsyncScalarFunction, ScalarFunction, TableEnvironment, TableFunction
from funken.types.row import Row


class Token(TypedDict):
    word: str
    size: int


@ff.udf
def plus_one(value: int) -> int:
    return value + 1


@ff.udf
async def waits(value: int) -> int:
    return value * 10


@ff.udf(return_dtype=ff.DataType.int64())
def on_series(values: pd.Series) -> pd.Series:
    return values + 5


@ff.udf(return_dtype="BIGINT")
def on_arrays(values: pa.Array) -> pa.Array:
    return pa.compute.add(values, 7)


@ff.udf
def token(text: str) -> Token:
    return {"size": len(text), "word": text}


class Greeting:
    def __init__(self, word="hi"):
        self.word = word

    def __call__(self, name: str) -> str:
        return f"{self.word} {name}"


class Opened(ScalarFunction):
    def open(self, function_context):
        self.factor = 3

    def eval(self, value: int) -> int:
        return value * self.factor


class Lookup(AsyncScalarFunction):
    async def eval(self, value: int) -> str:
        return f"<{value}>"


def people():
    return ff.from_records([(1, "ann"), (2, "bob")], schema=["id", "name"])


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (lambda: plus_one(ff.col("id")), [2, 3]),
        (lambda: ff.udf(lambda value, more: value + more, return_dtype=int)(ff.col("id"), 2), [3, 4]),
        (lambda: waits(ff.col("id")), [10, 20]),
        (lambda: on_series(ff.col("id")), [6, 7]),
        (lambda: on_arrays(ff.col("id")), [8, 9]),
        (lambda: token(ff.col("name")), [Row(word="ann", size=3), Row(word="bob", size=3)]),
        (lambda: ff.udf(Greeting)(ff.col("name")), ["hi ann", "hi bob"]),
        (lambda: ff.udf(Greeting("ho"))(ff.col("name")), ["ho ann", "ho bob"]),
        (lambda: ff.udf(Opened)(ff.col("id")), [3, 6]),
        (lambda: ff.udf(Opened())(ff.col("id")), [3, 6]),
        (lambda: ff.udf(Lookup)(ff.col("id")), ["<1>", "<2>"]),
        (lambda: ff.udf(functools.partial(lambda a, b: a * b, 4), return_dtype=int, name="four")(ff.col("id")), [4, 8]),
    ],
    ids=[
        "plain",
        "lambda",
        "async",
        "pandas",
        "arrow",
        "struct",
        "class",
        "object",
        "opened class",
        "opened",
        "lookup",
        "partial",
    ],
)
def test_scalar_functions(tables, expression, wanted):
    assert [row[0] for row in people().select(result=expression()).collect()] == wanted


def test_a_declaration_says_its_type():
    assert plus_one.return_dtype == ff.DataType.int64()
    assert str(token.return_dtype) == "DataType(ROW<`word` STRING, `size` BIGINT>)"


@pytest.mark.parametrize(
    ("error", "says", "make"),
    [
        (ValueError, "cannot be NOT NULL", lambda: ff.DataType.null().not_null()),
        (FunkenError, "no type", lambda: ff.DataType.of(object())),
    ],
)
def test_a_declaration_without_a_type_is_refused(error, says, make):
    with pytest.raises(error, match=says):
        make()


def tokens(record) -> Iterator[Token]:
    for word in record["name"]:
        yield {"size": record["id"], "word": word}


class Letters(TableFunction):
    def eval(self, record) -> Iterator[str]:
        yield from record["name"][:2]


@pytest.mark.parametrize(
    ("function", "options", "names", "wanted"),
    [
        (tokens, {}, ["word", "size"], [("a", 1), ("n", 1), ("n", 1), ("b", 2), ("o", 2), ("b", 2)]),
        (lambda record: list(record["name"])[:1], {"return_dtype": str}, ["f0"], [("a",), ("b",)]),
        (lambda record: (record["id"], record["name"]), {"return_dtype": "ROW<n BIGINT, name STRING>"}, ["n", "name"],
         [(1, "ann"), (2, "bob")]),
        (lambda record: None, {"return_dtype": int}, ["f0"], []),
        (ff.udtf(Letters), {}, ["f0"], [("a",), ("n",), ("b",), ("o",)]),
    ],
    ids=["typed dict", "scalar", "tuple", "nothing", "table function"],
)  # fmt: skip
def test_flat_map_gives_any_number_of_rows(tables, function, options, names, wanted):
    found = people().flat_map(function, **options)

    assert found.columns == names
    assert [tuple(row) for row in found.collect()] == wanted


def test_map_gives_a_row_for_each(tables):
    by_name = people().map(
        lambda record: {"b": record["id"], "a": record["name"]}, return_dtype="ROW<a STRING, b BIGINT>"
    )

    assert by_name.columns == ["a", "b"]
    assert [tuple(row) for row in by_name.collect()] == [("ann", 1), ("bob", 2)]
    assert [tuple(row) for row in people().map(lambda record: record["id"], return_dtype=int).collect()] == [(1,), (2,)]


class Point:
    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"b": (2, 3), "no": 1}, Row(a=None, b=[2, 3], m=None, p=None)),
        (("x", [4], {"k": 1}, {"x": 5}), Row(a="x", b=[4], m={"k": 1}, p=Row(x=5))),
        (Row(m=[("k", 2)], p=Point(6), a="y", b=None), Row(a="y", b=None, m={"k": 2}, p=Row(x=6))),
        (Row("z", [], {}, (7,)), Row(a="z", b=[], m={}, p=Row(x=7))),
        (None, None),
    ],
    ids=["dict", "tuple", "named row", "row", "null"],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_nested_results_are_what_their_type_says(stream_tables, value, wanted, is_async):
    async def later(number):
        return value

    type_ = "ROW<a STRING, b ARRAY<BIGINT>, m MAP<STRING, BIGINT>, p ROW<x BIGINT>>"
    made = ff.udf(later if is_async else lambda number: value, return_dtype=type_, name="made")

    assert ff.range(1).select(found=made(ff.col("id"))).collect() == [Row(wanted)]


@pytest.mark.parametrize(
    ("result", "type_", "wanted"),
    [
        (None, "BIGINT", []),
        ([], "BIGINT", []),
        (3, "BIGINT", [3]),
        ((3,), "BIGINT", [3]),
        (Row(3), "BIGINT", [3]),
        ([None, 3], "BIGINT", [None, 3]),
        ([[1, 2], []], "ARRAY<BIGINT>", [[1, 2], []]),
        ({"x": 1}, "MAP<STRING, BIGINT>", [{"x": 1}]),
        (Row({"x": 1}), "MAP<STRING, BIGINT>", [{"x": 1}]),
        (["a", "b"], "ROW<word STRING>", ["a", "b"]),
        ([[1, 2], []], "ROW<words ARRAY<BIGINT>>", [[1, 2], []]),
        ([{"p": {"x": 1}}], "ROW<p ROW<x BIGINT>>", [Row(x=1)]),
    ],
)
def test_rows_that_a_table_function_emits(stream_tables, result, type_, wanted):
    function = ff.udtf(lambda record: result, return_dtype=type_)

    assert [row[0] for row in ff.range(1).flat_map(function).collect()] == wanted


def test_classes_are_created_where_they_are_used(stream_tables):
    created = []

    class Client(TableFunction):
        def __init__(self):
            created.append("client")

        def eval(self, record) -> Iterator[int]:
            yield record["id"]

    class Worker:
        def __init__(self):
            created.append("worker")

        def __call__(self, record) -> Iterator[int]:
            yield record["id"]

    declarations = [ff.udtf(Client), ff.udtf(Worker)]
    assert created == ["client"]
    assert [ff.range(2).flat_map(each).collect() for each in declarations] == [[Row(0), Row(1)]] * 2


def test_hints_of_a_class_body_and_others_that_are_unknown():
    class Describe:
        class Output(TypedDict):
            value: int

        def __call__(self, value: int) -> "Output":
            return {"value": value}

    def late(value) -> int:
        return value

    late.__annotations__["value"] = "NotThere"
    assert [str(ff.udf(each).return_dtype) for each in (Describe, Describe(), Describe().__call__, late)] == [
        *["DataType(ROW<`value` BIGINT>)"] * 3,
        "DataType(BIGINT)",
    ]
    assert (plus_one.__name__, plus_one.__module__) == ("plus_one", __name__)


class Summary(AggregateFunction):
    def create_accumulator(self):
        return [0]

    def accumulate(self, accumulator, value):
        accumulator[0] += value

    def get_value(self, accumulator) -> Token:
        return {"size": accumulator[0], "word": "all"}

    def get_accumulator_type(self):
        return "ARRAY<BIGINT>"


def test_an_aggregate_of_dicts_is_a_row(stream_tables):
    found = people().agg(total=ff.udaf(Summary)(ff.col("id"))).select(ff.col("total").get("size"))

    assert [tuple(row.values()) for row in found.to_arrow().to_pylist()] == [(3,)]


@pytest.mark.parametrize("batch_format", ["pandas", "pyarrow"])
def test_map_batches_gives_as_many_rows(tables, batch_format):
    def doubled(batch):
        if batch_format == "pandas":
            return batch.assign(twice=batch["id"] * 2)
        return batch.append_column("twice", pa.compute.multiply(batch["id"], 2))

    found = people().map_batches(doubled, return_dtype="ROW<twice BIGINT, name STRING>", batch_format=batch_format)

    assert found.columns == ["twice", "name"]
    assert [tuple(row) for row in found.collect()] == [(2, "ann"), (4, "bob")]


def test_lateral_joins(tables):
    letters = ff.udtf(
        lambda text, least: [one for one in text if one > least], return_dtype="ROW<letter STRING>", name="letters"
    )

    inner = people().join_lateral(letters(ff.col("name"), "m"))
    left = people().join_lateral(letters(ff.col("name"), "o").alias("l"), how="left")

    assert [tuple(row) for row in inner.collect()] == [(1, "ann", "n"), (1, "ann", "n"), (2, "bob", "o")]
    assert inner.columns == ["id", "name", "letter"]
    assert [tuple(row) for row in left.collect()] == [(1, "ann", None), (2, "bob", None)]


class Total(AggregateFunction):
    def create_accumulator(self):
        return [0]

    def accumulate(self, accumulator, value):
        accumulator[0] += value

    def retract(self, accumulator, value):
        accumulator[0] -= value

    def get_value(self, accumulator) -> int:
        return accumulator[0]


def test_aggregate_functions(tables):
    total = ff.udaf(Total)
    numbers = ff.from_dict({"k": ["a", "b", "a"], "v": [1, 2, 5]})

    sums = numbers.group_by("k").agg(total=total(ff.col("v"))).to_pandas()
    assert dict(zip(sums["k"], sums["total"], strict=True)) == {"a": 6, "b": 2}


def test_aggregate_functions_of_series():
    before = ff.get_table_environment()
    ff.set_table_environment(None)
    try:
        from funken.table import EnvironmentSettings

        environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        environment.get_config().set("execution.target", "local").set("parallelism.default", 1)
        ff.set_table_environment(environment)
        middle = ff.udaf(lambda values: values.median(), return_dtype=float, func_type="pandas", name="middle")
        found = ff.from_dict({"k": ["a", "a", "a"], "v": [1, 2, 9]}).group_by("k").agg(m=middle(ff.col("v"))).collect()
        assert found == [Row("a", 2.0)]
    finally:
        ff.set_table_environment(before)


# ---- sql


def test_a_query_knows_variables_by_name(tables):
    left = people()
    right = ff.from_records([(1, 30)], schema=["id", "age"])

    found = ff.sql("SELECT name, plus_one(age) FROM `left` JOIN `right` ON `left`.id = `right`.id")

    assert [tuple(row) for row in found.collect()] == [("ann", 31)]
    assert tables.list_temporary_views() == []
    assert tables.list_user_defined_functions() == []
    del left, right


def test_a_query_takes_names(tables):
    found = ff.sql("SELECT inc(id) AS n FROM src", auto_bind=False, src=people(), inc=plus_one).filter("n > 2")

    assert [tuple(row) for row in found.collect()] == [(3,)]


@pytest.mark.parametrize(
    ("error", "says", "query", "bindings"),
    [
        (ValueError, "only supports queries", "CREATE TABLE a (b INT)", {}),
        (TypeError, "must be a DataFrame", "SELECT 1", {"a": 1}),
        (TypeError, "query must be a string", 1, {}),
        (ValueError, "line 1", "SELECT nothing FROM src", {"src": people}),
    ],
)
def test_a_query_that_is_none_is_refused(tables, error, says, query, bindings):
    given = {name: value() if callable(value) else value for name, value in bindings.items()}
    with pytest.raises(error, match=says):
        ff.sql(query, auto_bind=False, **given)
    assert tables.list_temporary_views() == []


def test_a_taken_name_is_left_out_with_a_warning(tables):
    tables.execute_sql("CREATE TABLE orders (n INT) WITH ('connector' = 'blackhole')")
    orders = people()

    with pytest.warns(UserWarning, match="skipped 'orders': a table or view with this name already exists"):
        assert ff.sql("SELECT 1").columns == ["EXPR$0"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ff.sql("SELECT id FROM orders", auto_bind=False, orders=orders).columns == ["id"]


def test_frames_of_two_environments_do_not_mix(stream_tables):
    mine = people()
    ff.set_table_environment(TableEnvironment.create())
    other = people()

    with pytest.raises(ValueError, match="different TableEnvironments"):
        ff.sql("SELECT 1", a=mine, b=other)
    with pytest.raises(ValueError, match="same TableEnvironment"):
        mine.join(other, on="id")


def test_types_of_hints():
    assert str(type_of_hint(list[int | None])) == "ARRAY<BIGINT>"
    assert str(type_of_hint(dict[str, list[Token]])) == "MAP<STRING, ARRAY<ROW<`word` STRING, `size` BIGINT>>>"
    assert type_of_hint(int | str) is None
    assert type_of_hint(complex) is None


def test_providers_of_models():
    ff.set_model_provider("chat", ff.OpenAIProvider("https://example.test/v1", "key", max_tokens=5, model="m"))
    ff.set_model_provider("own", ff.GenericProvider("python", function="math:sqrt"))
    assert ff.list_model_providers()[-2:] == ["chat", "own"]
    triton = ff.TritonProvider("http://localhost", model_name="m", flatten_batch_dim=True, custom_headers={"a": "b"})
    assert triton.to_options() == {
        "endpoint": "http://localhost", "model-name": "m", "flatten-batch-dim": "true", "custom-headers": '{"a": "b"}',
    }  # fmt: skip
    ff.set_model_provider(provider=triton)
    assert ff.list_model_providers()[-1] == "triton"
