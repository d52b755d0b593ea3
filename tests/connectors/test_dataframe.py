"""The rows of a DataFrame as a source, without Spark: a reader that is fed columns of Arrow."""

import pyarrow as pa
import pytest

from funken import Row
from funken.connectors.base import ConnectorContext
from funken.connectors.dataframe import RowsSource

COUNTS = pa.map_(pa.string(), pa.int64())
VALUES = {
    "map": (COUNTS, [[("to", 1), ("be", 2)], None, []], [{"to": 1, "be": 2}, None, {}]),
    "map of maps": (pa.map_(pa.string(), COUNTS), [[("x", [("to", 1)])]], [{"x": {"to": 1}}]),
    "list of maps": (pa.list_(COUNTS), [[[("to", 1)], None]], [[{"to": 1}, None]]),
    "struct with a map": (
        pa.struct({"counts": COUNTS, "n": pa.int64()}),
        [{"counts": [("to", 1)], "n": 3}],
        [{"counts": {"to": 1}, "n": 3}],
    ),
    "list": (pa.list_(pa.int64()), [[1, None], None], [[1, None], None]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_map_is_a_dict_as_in_rows_of_spark(kind):
    type_, given, expected = VALUES[kind]
    reader = RowsSource(("key", "value"), streaming=False).reader(ConnectorContext("rows", 0, 1))
    reader.feed([pa.array(range(len(given))), pa.array(given, type_)], done=lambda: None)

    rows = reader.poll(9, now=0).values
    assert rows == [Row(key=number, value=value) for number, value in enumerate(expected)]
    assert rows[0].asDict() == rows[0].as_dict() == {"key": 0, "value": expected[0]}


def test_as_dict_is_recursive_on_demand_under_both_names():
    row = Row(a=Row(b=1), c=[Row(d=2)])

    assert row.asDict(recursive=True) == row.asDict(True) == {"a": {"b": 1}, "c": [{"d": 2}]}
    assert row.asDict() == {"a": Row(b=1), "c": [Row(d=2)]}
