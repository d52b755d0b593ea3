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
        (TypeError, "is not known", lambda: ff.udf(lambda value: value)),
        (TypeError, "return_dtype=", lambda: ff.udf(lambda value: value, func_type="pandas")),
        (ValueError, "func_type", lambda: ff.udf(plus_one.function, func_type="rows")),
        (TypeError, "no function", lambda: ff.udf(3)),
        (TypeError, "no AggregateFunction", lambda: ff.udaf(lambda value: value, return_dtype=int)),
        (TypeError, "asynchronous", lambda: ff.udtf(waits.function, return_dtype=int)),
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


def test_a_record_without_a_field_says_which(tables):
    broken = people().map(lambda record: {"b": 1}, return_dtype="ROW<a STRING, b BIGINT>")

    with pytest.raises(Exception, match="a record has no field 'a'"):
        broken.collect()


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
        (ValueError, "takes a query only", "CREATE TABLE a (b INT)", {}),
        (TypeError, "must be a DataFrame", "SELECT 1", {"a": 1}),
        (TypeError, "is a string", 1, {}),
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

    with pytest.warns(UserWarning, match="'orders': a table or view has that name"):
        ff.sql("SELECT 1")
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
    ff.set_model_provider("own", ff.GenericProvider("python", {"function": "math:sqrt"}))
    assert ff.list_model_providers()[-2:] == ["chat", "own"]
    triton = ff.TritonProvider("http://localhost", model_name="m", flatten_batch_dim=True, custom_headers={"a": "b"})
    assert triton.to_options() == {
        "endpoint": "http://localhost", "model-name": "m", "flatten-batch-dim": "true", "custom-headers": '{"a": "b"}',
    }  # fmt: skip
    with pytest.raises(ValueError, match="unknown; registered are"):
        ff.set_default_model_provider("nobody")
    with pytest.raises(TypeError, match="has no parameter 'speed'"):
        ff.OpenAIProvider("https://example.test", "key", speed=1)
