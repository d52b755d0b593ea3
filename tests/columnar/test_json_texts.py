"""``json.dumps`` on columns: the text that Python writes, letter by letter."""

import datetime
import decimal
import json
import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import DataGeneratorSource, DiscardingSink, Row, StreamExecutionEnvironment, WatermarkStrategy
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import computed
from funken.columnar.tracing import trace
from funken.expr.types import BOOL, DICT, DOCUMENT, FLOAT, INT, NAMED_TUPLE, ROW, STR, Object, Optional, Record, Tuple


class Point(NamedTuple):
    x: int
    y: float


POINT = ("x", "y")
INNER = Record((Optional(STR), BOOL), DICT, ("note", 'a "key"'))
SALE = Record(
    (STR, INT, FLOAT, INNER, Tuple((INT, STR)), Optional(INT), Optional(FLOAT), Record((INT, FLOAT), NAMED_TUPLE, POINT, Point)),
    DICT,
    ("item", "n", "price", "inner", "pair", "count", "rate", "at"),
)  # fmt: skip

texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=4), st.sampled_from(["a", "b c", '"', "\\", "\x7f", "é", "\n"])
)
ints, floats = st.integers(-(2**63), 2**63 - 1), st.one_of(st.floats(), st.floats(-1000, 1000), st.just(2.0))


def records_of(names: tuple[str, ...], *fields: Any) -> Any:
    """Dicts with their fields in order."""
    return st.tuples(*fields).map(lambda values: dict(zip(names, values, strict=True)))


sales = records_of(
    SALE.names, texts, ints, floats, records_of(INNER.names, st.none() | texts, st.booleans()), st.tuples(ints, texts),
    st.none() | ints, st.none() | floats, st.builds(Point, ints, floats),
)  # fmt: skip


FUNCTIONS = [
    json.dumps,
    lambda r: json.dumps(r, separators=(",", ":")),
    lambda r: json.dumps(r, ensure_ascii=False, sort_keys=True),
    lambda r: json.dumps({"item": r["item"], "price": r["price"]}),
    lambda r: json.dumps({"n": r["n"], "list": [1, r["item"], [r["rate"]]], "none": None, "yes": True}, sort_keys=True),
    lambda r: json.dumps([r["price"], r["n"]]) if r["inner"]["note"] else json.dumps(r["inner"]["note"]),
    lambda r: json.dumps({"a": {"b": {"c": r["count"]}}, **r["inner"]}, default=str),
    lambda r: (r["n"], json.dumps(r["item"]) + "!", json.dumps(r["at"]).encode("utf-8")),
    lambda r: json.dumps(r["item"].split(" ")),
]


@given(st.sampled_from(FUNCTIONS), st.lists(sales, min_size=1, max_size=5))
def test_it_is_what_python_writes(function, records):
    traced, schema = trace(function, None, 1).typed(SALE)

    assert computed(traced.result, schema, columns_of(records, SALE)).to_list() == [function(each) for each in records]


@pytest.mark.parametrize("number", [0.0, -0.0, 1e16, 1e-5, 1.5, math.nan, math.inf, -math.inf, 5e-324])
def test_floats_are_written_as_python_does_alone_and_among_others(number):
    traced, schema = trace(json.dumps, None, 1).typed(FLOAT)

    for values in ([number], [number, 2.5, -3.0]):
        assert computed(traced.result, schema, columns_of(values, FLOAT)).to_list() == [json.dumps(x) for x in values]


def test_dates_and_decimals_are_texts_by_default_str():
    schema = Tuple((Object("datetime"), Object("date"), Object("Decimal"), Object("timedelta")))
    record = (
        datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC),
        datetime.date(2026, 1, 2),
        decimal.Decimal("1.50"),
        datetime.timedelta(2),
    )

    def written(r: Any) -> str:
        return json.dumps({"at": r[0], "day": r[1], "price": r[2], "long": r[3]}, default=str)

    traced, kind = trace(written, None, 1).typed(schema)

    assert computed(traced.result, kind, columns_of([record], schema)).to_list() == [written(record)]


@pytest.mark.parametrize(
    ("function", "schema", "reason"),
    [
        (json.dumps, Object("Decimal"), r"calls json.dumps\(\) with a Decimal"),
        (json.dumps, Record((INT,), ROW, ("n",)), r"calls json.dumps\(\) with Row\(n: int\)"),
        (json.dumps, Record((INT,), DOCUMENT, ("n",)), r"calls json.dumps\(\) with {n: int, ...}"),
        (lambda n: json.dumps(n, indent=2), INT, r"calls json.dumps\(\) with indent"),
        (lambda n: json.dumps(n, default=repr), INT, r"calls json.dumps\(\) with default"),
        (lambda n: json.dumps(n, ensure_ascii=n > 1), INT, r"calls json.dumps\(\) with ensure_ascii"),
        (lambda n: json.dumps(n, separators=(str(n), ":")), INT, "with separators that are not constant"),
    ],
)
def test_what_is_not_written_on_columns(function, schema, reason):
    with pytest.raises(NotVectorizable, match=reason):
        trace(function, None, 1).typed(schema)


def test_a_program_that_writes_json_runs_on_columns():
    env = StreamExecutionEnvironment.create_local_environment(1)
    source = DataGeneratorSource(lambda i: {"user": f"u{i % 3}", "n": i}, 9)
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "made").map(json.dumps)

    assert lines.execute_and_collect(limit=9) == [json.dumps({"user": f"u{i % 3}", "n": i}) for i in range(9)]
    lines.sink_to(DiscardingSink())
    assert "per record" not in env.explain()


def test_what_cannot_be_written_fails_as_in_python():
    env = StreamExecutionEnvironment.create_local_environment(1)
    source = DataGeneratorSource(lambda i: Row(n=i), 3)
    with pytest.raises(Exception, match="Object of type Row is not JSON serializable"):
        env.from_source(source, WatermarkStrategy.no_watermarks(), "made").map(json.dumps).execute_and_collect(limit=3)
