"""Functions over whole blocks: what they are given, what they may return, and what a wrong result is told."""

import dataclasses
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    Configuration,
    DataGeneratorSource,
    DataStream,
    FilterFunction,
    InvalidProgram,
    JobExecutionError,
    MapFunction,
    Row,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
    vectorized,
)
from funken.columnar.vectorized.functions import schema_declared
from funken.expr.types import FLOAT, INT, Optional, Tuple
from funken.testing import local

FORMATS = ["numpy", "arrow", "pandas", "polars"]


class Sale(NamedTuple):
    item: str
    price: float


@dataclasses.dataclass(frozen=True)
class Reading:
    at: int
    ok: bool


SHAPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {}
INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
FLOATS = st.floats(allow_nan=False)
for _name, _declared, _records in (
    ("int", int, INTS),
    ("text", str, TEXTS),
    ("tuple", (int, str, float, bool), st.tuples(INTS, TEXTS, FLOATS, st.booleans())),
    ("dict", {"a": int, "b": str}, st.builds(lambda a, b: {"a": a, "b": b}, INTS, TEXTS)),
    ("named tuple", Sale, st.builds(Sale, TEXTS, FLOATS)),
    ("dataclass", Reading, st.builds(Reading, INTS, st.booleans())),
    ("row", Types.ROW_NAMED(["a"], [Types.LONG()]), st.builds(lambda a: Row(a=a), INTS)),
    ("none", {"a": int | None, "b": str | None}, st.builds(lambda a, b: {"a": a, "b": b}, INTS | st.none(), TEXTS | st.none())),
    ("objects", (bytes, datetime.date), st.tuples(st.binary(max_size=3), st.dates())),
):  # fmt: skip
    SHAPES[_name] = (_declared, st.lists(_records, min_size=1, max_size=9))


def results(stream: DataStream, limit: int = 1000) -> list[Any]:
    return stream.execute_and_collect(limit=limit)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(sorted(SHAPES)), st.sampled_from(FORMATS), st.booleans())
def test_what_is_handed_on_as_it_is_stays_what_it_was(data: Any, shape: str, form: str, in_columns: bool) -> None:
    declared, strategy = SHAPES[shape]
    records = data.draw(strategy)
    if form == "polars":
        pytest.importorskip("polars")
    stream = local(records)
    if in_columns:  # what comes behind a declared result comes as columns
        stream = stream.map_batches(lambda block: block, declared)
    stream = stream.map(vectorized(output_type=declared, batch_format=form)(lambda block: block))
    assert ("of columns" in stream._environment.explain()) == in_columns
    assert list(map(repr, results(stream))) == list(map(repr, records))


@pytest.mark.parametrize("form", FORMATS)
def test_a_function_sees_the_same_arrays_of_records_and_of_columns(form: str) -> None:
    if form == "polars":
        pytest.importorskip("polars")
    seen: dict[bool, list[str]] = {}
    for vectorize in (True, False):
        kinds: list[str] = []

        def look(block: Any, kinds: list[str] = kinds) -> Any:
            fields = block if form == "numpy" else [block[name] for name in ("f0", "f1", "f2")]
            kinds += [str(each.dtype if hasattr(each, "dtype") else each.type) for each in fields]
            return fields[0]

        configuration = Configuration({"pipeline.vectorized": vectorize})
        env = StreamExecutionEnvironment.create_local_environment(1, configuration)
        source = DataGeneratorSource(lambda i: (i, f"{i}", i / 2), 5)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks())
        assert results(numbers.map(vectorized(output_type=int, batch_format=form)(look))) == [0, 1, 2, 3, 4]
        seen[vectorize] = kinds
    assert seen[True] == seen[False]


def test_a_method_of_an_object_that_is_opened() -> None:
    class Scale(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.factor = 3

        @vectorized(output_type=int)
        def map(self, value: Any) -> Any:
            return value * self.factor

    class Large(FilterFunction):
        @vectorized
        def filter(self, value: Any) -> Any:
            return value > 3

    numbers = local([1, 2, 3]).map(Scale()).filter(Large())
    assert results(numbers) == [6, 9]
    assert results(local([1, 2, 3]).key_by(lambda n: n).map(Scale())) == [3, 6, 9]


def stamped(stream: DataStream) -> list[Any]:
    return results(stream.process(lambda record, ctx: [(record, ctx.timestamp())]))


def test_map_and_filter_keep_timestamps_and_batches_of_another_length_have_none() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 10)
    numbers = local([1, 2, 3, 4]).assign_timestamps_and_watermarks(strategy)
    assert stamped(numbers.map(vectorized(lambda n: -n))) == [(-1, 10), (-2, 20), (-3, 30), (-4, 40)]
    assert stamped(numbers.filter(vectorized(lambda n: n % 2 == 0))) == [(2, 20), (4, 40)]
    assert stamped(numbers.map_batches(lambda n: n + 1, int)) == [(2, 10), (3, 20), (4, 30), (5, 40)]
    assert stamped(numbers.map_batches(lambda n: n[1:], int)) == [(2, None), (3, None), (4, None)]
    assert stamped(numbers.map_batches(lambda n: n[:0], int)) == []


def test_a_filter_hands_on_the_records_themselves() -> None:
    records = [{"a": [1]}, {"a": [2]}]
    assert results(local(records).filter(vectorized(lambda r: np.array([True, False])))) == [{"a": [1]}]


def test_records_without_a_declared_type_have_the_form_of_the_result() -> None:
    numbers = local([1, 2])
    assert results(numbers.map(vectorized(lambda n: {"n": n, "half": n / 2}))) == [
        {"n": 1, "half": 0.5},
        {"n": 2, "half": 1.0},
    ]
    assert results(numbers.map(vectorized(lambda n: Sale("tea", n * 1.0)))) == [Sale("tea", 1.0), Sale("tea", 2.0)]
    assert results(numbers.map(vectorized(lambda n: (n, (n, "x"))))) == [(1, (1, "x")), (2, (2, "x"))]
    frame = vectorized(batch_format="pandas")(lambda n: n.to_frame("n").assign(even=n % 2 == 0))
    assert results(numbers.map(frame)) == [{"n": 1, "even": False}, {"n": 2, "even": True}]
    assert "gives records: declares no type that has columns" in numbers.map(frame)._environment.explain()


def test_a_declared_type_without_columns_converts_each_record() -> None:
    stream = local([1, 200]).map(vectorized(lambda n: n), output_type=Types.BYTE())
    assert results(stream) == [1, -56]


def test_nested_records_and_objects_pass_through_tables() -> None:
    records = [{"id": 1, "at": {"x": 1.5, "y": Decimal("0.1")}}, {"id": 2, "at": {"x": 2.5, "y": Decimal(3)}}]
    declared = {"id": int, "at": {"x": float, "y": Decimal}}
    for form in ("numpy", "arrow", "pandas"):
        stream = local(records).map(vectorized(output_type=declared, batch_format=form)(lambda block: block))
        assert results(stream) == records, form


def test_missing_values_and_times_of_pandas() -> None:
    def times(seconds: Any) -> Any:
        import pandas as pd

        return pd.DataFrame({"at": pd.to_datetime(seconds, unit="s"), "n": seconds.astype("Int64").where(seconds > 1)})

    declared = {"at": datetime.datetime, "n": int | None}
    stream = local([1, 2]).map(vectorized(output_type=declared, batch_format="pandas")(times))
    assert results(stream) == [
        {"at": datetime.datetime.fromisoformat("1970-01-01T00:00:01"), "n": None},
        {"at": datetime.datetime.fromisoformat("1970-01-01T00:00:02"), "n": 2},
    ]


def test_arrays_of_numpy_are_read_only_and_results_are_copied() -> None:
    def change(numbers: Any) -> Any:
        numbers += 1
        return numbers

    with pytest.raises(JobExecutionError, match="read-only"):
        results(local([1]).map(vectorized(change)))
    kept = np.zeros(2, np.int64)

    def into(numbers: Any) -> Any:
        kept[:] = numbers
        return kept

    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"execution.block.records": 2}))
    stream = env.from_collection([1, 2, 3, 4]).map(vectorized(output_type=int)(into)).key_by(lambda n: 0)
    assert results(stream.reduce(lambda a, b: a + b)) == [1, 3, 6, 10]


WRONG: list[tuple[Callable[[Any], Any], Any, str]] = [
    (lambda r: r[0][:1], str, "the result has 1 value, but the block has 2 records"),
    (lambda r: (r[0], r[1][:1]), (str, int), "the field 1 of the result has 1 value, but the block has 2 records"),
    (lambda r: r[1] * 0.5, int, "the result is declared as int, but the function returned an array of float64"),
    (lambda r: r[1] > 0, int, "the result is declared as int, but the function returned an array of bool"),
    (lambda r: ["a", None], str, "the result is declared as str, but the function returned the value None"),
    (lambda r: {"a": r[0]}, {"b": str}, "the result is declared as {b: str}, but the function returned a dict"),
    (lambda r: r[0], (str, int), "the result is declared as (str, int), but the function returned an array of object"),
    (lambda r: np.ones((2, 2)), float, "the result is an array of 2 dimensions"),
    (lambda r: r[1].astype(np.uint64) * np.uint64(2**63 - 1) * np.uint64(2), int, "an array of uint64"),
    (lambda r: [2**63, 1], int, "a value that no column of int can hold"),
    (lambda r: ["\ud800", "a"], str, "a value that no column of str can hold"),
]


@pytest.mark.parametrize(("function", "declared", "fact"), WRONG)
def test_a_result_that_does_not_fit_is_told_with_its_operator(function: Any, declared: Any, fact: str) -> None:
    stream = local([("a", 1), ("b", 2)]).map(vectorized(output_type=declared)(function)).name("judge")
    with pytest.raises(JobExecutionError) as caught:
        results(stream)
    assert caught.value.operator == "judge"
    assert fact in str(caught.value)


def test_wrong_masks_and_batches_are_told() -> None:
    with pytest.raises(JobExecutionError, match="a mask of bools, but this one returned an array of int64"):
        results(local([1, 2]).filter(vectorized(lambda n: n)))
    with pytest.raises(JobExecutionError, match="the mask has 1 value, but the block has 2 records"):
        results(local([1, 2]).filter(vectorized(lambda n: n[:1] > 0)))
    with pytest.raises(
        JobExecutionError, match="the field 1 of the result has 1 value, but the field 0 of the result has 2"
    ):
        results(local([1, 2]).map_batches(lambda n: (n, n[:1])))
    with pytest.raises(JobExecutionError, match="single values only"):
        results(local([1, 2]).map_batches(lambda n: 1))
    with pytest.raises(JobExecutionError, match="record 1 of the block, {b: object}, has other fields than the first"):
        results(local([{"a": 1}, {"b": 1}]).map(vectorized(lambda r: r)))
    with pytest.raises(JobExecutionError, match="'value' has values that are not of one type of Arrow"):
        results(local([1, "a"]).map(vectorized(batch_format="arrow")(lambda r: r)))


def test_mistakes_in_the_program_are_told_before_it_runs() -> None:
    numbers = local([1])
    with pytest.raises(InvalidProgram, match="'jax' is unknown"):
        vectorized(batch_format="jax")
    with pytest.raises(InvalidProgram, match="key_by.. calls its function with one record"):
        numbers.key_by(vectorized(lambda n: n))
    with pytest.raises(InvalidProgram, match="flat_map.. calls its function with one record"):
        numbers.flat_map(vectorized(lambda n: n))
    with pytest.raises(TypeError, match="declared with Types, or with Python types"):
        numbers.map(vectorized(output_type="int")(lambda n: n))
    with pytest.raises(TypeError, match="map_batches.. needs a function"):
        numbers.map_batches(3)  # type: ignore[arg-type]


def test_declarations() -> None:
    class Odd:
        pass

    assert repr(schema_declared(Sale)) == "Sale(item: str, price: float)"
    assert schema_declared(tuple[int, float | None]) == Tuple((INT, Optional(FLOAT)))
    assert schema_declared(Types.LIST(Types.LONG())) is None
    for wrong in (Odd, list[int], (), {1: int}, int | str):
        with pytest.raises(TypeError):
            schema_declared(wrong)


def test_columns_begin_at_a_declared_result_and_state_is_that_of_records() -> None:
    def sums(vectorize: bool) -> list[Any]:
        configuration = Configuration({"pipeline.vectorized": vectorize})
        env = StreamExecutionEnvironment.create_local_environment(1, configuration)
        pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
        keyed = pairs.map(vectorized(output_type=(str, int))(lambda p: (p[0], p[1] * 2))).key_by(lambda p: p[0])
        stream = keyed.reduce(lambda x, y: (x[0], x[1] + y[1]))
        assert ("reduce: vectorized" in env.explain()) == vectorize
        return results(stream)

    assert sums(True) == sums(False) == [("a", 2), ("b", 4), ("a", 8)]
