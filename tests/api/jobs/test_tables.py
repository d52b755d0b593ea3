"""Collected records as Arrow tables and pandas frames."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from funken import DataGeneratorSource, InvalidProgram, Row, StreamExecutionEnvironment, WatermarkStrategy
from funken.testing import local


class Word(NamedTuple):
    text: str
    length: int


@dataclass(frozen=True)
class Sale:
    what: str
    price: float | None


@pytest.mark.parametrize(
    ("records", "columns"),
    [
        ([Word("to", 2)], {"text": ["to"], "length": [2]}),
        ([Sale("tea", 1.5), Sale("jam", None)], {"what": ["tea", "jam"], "price": [1.5, None]}),
        ([Row(a=1, b="x")], {"a": [1], "b": ["x"]}),
        ([Row(1, "x")], {"f0": [1], "f1": ["x"]}),
        ([(1, "x"), (2, "y")], {"f0": [1, 2], "f1": ["x", "y"]}),
        ([{"a": 1}, {"b": 2}], {"a": [1, None], "b": [None, 2]}),
        ([1, 2], {"value": [1, 2]}),
        ([], {}),
    ],
    ids=["named tuples", "dataclasses", "rows", "rows without names", "tuples", "dicts", "numbers", "none"],
)
def test_records_become_columns(records, columns):
    stream = local(records or ["none"]).filter(lambda record: record != "none")
    assert stream.to_arrow().to_pydict() == columns


def test_a_frame_of_pandas():
    frame = local([Word("to", 2), Word("question", 8)]).to_pandas()
    assert list(frame["length"]) == [2, 8]


def test_values_without_a_common_type_are_refused():
    with pytest.raises(InvalidProgram, match=r"column 'value' of the records cannot be .*map\(\) before"):
        local([1, "x"]).to_arrow()


def test_a_stream_without_end_needs_a_limit():
    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = env.from_source(DataGeneratorSource(lambda n: n), WatermarkStrategy.no_watermarks(), "numbers")
    with pytest.raises(InvalidProgram, match="'numbers' never ends, and a table does"):
        numbers.to_pandas()
    assert numbers.to_arrow(limit=3).num_rows == 3
