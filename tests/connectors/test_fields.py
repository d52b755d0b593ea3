"""Records of random and counted fields: ranges, nulls and lengths, and the same records in every run and attempt."""

import collections
import datetime
import decimal
import pickle
import statistics
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pytest

from funken import Types
from funken.connectors import ConnectorContext, RandomField, SequenceField, fields_source
from funken.errors import InvalidProgram
from funken.testing import check_source

NOW = datetime.datetime(2026, 11, 23, 12)  # noqa: DTZ001 - as the type has none


class Order(NamedTuple):
    number: int
    item: str
    price: float


def records(source, count):
    return [source.generator_function.map(index) for index in range(count)]


def test_it_keeps_the_contract_of_a_source_and_ends_with_its_shortest_sequence():
    source = fields_source(Order, {"number": SequenceField(5, 44)}, number_of_rows=60)
    assert source.count == 40
    check_source(source, records(source, 40), seeds=10)
    assert [each.number for each in records(source, 40)] == [*range(5, 45)]
    assert fields_source(Order).count is None
    assert fields_source(Order, number_of_rows=7).count == 7


def test_another_process_and_another_parallelism_make_the_same_records():
    source = fields_source(Order, {"price": RandomField(min=0, max=1)}, number_of_rows=50, seed=3)
    again = pickle.loads(pickle.dumps(source))
    found = []
    for subtask in range(3):
        reader = again.reader(ConnectorContext("orders", subtask, 3))
        reader.add_splits(again.enumerator(3).next_splits(subtask))
        while hasattr(got := reader.poll(4, 0), "values"):
            found += got.values
        reader.close()
    assert sorted(found) == sorted(records(source, 50))
    assert records(source, 5) != records(fields_source(Order, {"price": RandomField(min=0, max=1)}, seed=4), 5)


TYPES = {
    "byte": Types.BYTE(), "long": Types.LONG(), "double": Types.DOUBLE(), "float": Types.FLOAT(), "bool": Types.BOOLEAN(),
    "text": Types.STRING(), "when": Types.SQL_TIMESTAMP(), "day": Types.SQL_DATE(), "sum": Types.BIG_DEC(),
    "many": Types.LIST(Types.INT()), "raw": Types.PRIMITIVE_ARRAY(Types.BYTE()),
}  # fmt: skip


def test_every_type_has_values_of_its_own():
    fields = {
        "byte": RandomField(min=-3, max=3), "double": RandomField(min=-1.5, max=2), "text": RandomField(length=7),
        "when": RandomField(max_past=60_000), "sum": RandomField(min=0, max=2), "many": RandomField(min=1, max=2, length=5),
        "raw": RandomField(length=9, var_len=True), "day": RandomField(max_past=datetime.timedelta(days=3)),
    }  # fmt: skip
    source = fields_source(Types.ROW_NAMED(list(TYPES), list(TYPES.values())), fields, now=NOW)
    rows = [row.as_dict() for row in records(source, 4000)]
    values = {name: [row[name] for row in rows] for name in TYPES}
    assert set(values["byte"]) == {*range(-3, 4)}
    assert max(values["long"]) > 2**62
    assert min(values["long"]) < -(2**62)
    assert all(-1.5 <= each <= 2 for each in values["double"])
    assert statistics.mean(values["double"]) == pytest.approx(0.25, abs=0.1)
    assert max(map(abs, values["float"])) > 1e38
    assert 1800 < sum(values["bool"]) < 2200
    assert {len(each) for each in values["text"]} == {7}
    assert len(set(values["text"])) > 3990
    assert all(NOW - datetime.timedelta(minutes=1) <= each <= NOW for each in values["when"])
    assert set(values["day"]) == {datetime.date(2026, 11, day) for day in (20, 21, 22, 23)}
    assert all(isinstance(each, decimal.Decimal) and 0 <= each <= 2 for each in values["sum"])
    assert all(len(each) == 5 and set(each) <= {1, 2} for each in values["many"])
    assert {len(each) for each in values["raw"]} == {*range(1, 10)}
    pa.Table.from_pylist(rows)


def test_fields_are_independent_and_even():
    pairs = collections.Counter(
        (one, other)
        for one, other in (
            record
            for record in records(
                fields_source(
                    Types.TUPLE([Types.INT(), Types.INT()]),
                    {"f0": RandomField(min=0, max=3), "f1": RandomField(min=0, max=3)},
                ),
                16_000,
            )
        )
    )
    assert len(pairs) == 16
    assert all(850 < count < 1150 for count in pairs.values())


def test_nulls_come_at_their_rate():
    values = [one.item for one in records(fields_source(Order, {"item": RandomField(null_rate=0.25)}), 4000)]
    assert 850 < values.count(None) < 1150
    assert all(
        each is None for each in [o.item for o in records(fields_source(Order, {"item": RandomField(null_rate=1)}), 9)]
    )


@dataclass
class Texts:
    name: str
    rate: float


def test_sequences_may_be_text_and_floats():
    source = fields_source(Texts, {"name": SequenceField(9, 11), "rate": SequenceField(0, 5)})
    assert records(source, source.count) == [Texts("9", 0.0), Texts("10", 1.0), Texts("11", 2.0)]


@pytest.mark.parametrize(("record_type", "fields", "message"), [
    (Order, {"items": RandomField()}, "no field 'items' among number, item, price"),
    (Order, {"number": SequenceField(3, 1)}, "runs from 3 to 1"),
    (Order, {"number": RandomField(min=3, max=1)}, "cannot be from 3 to 1"),
    (Order, {"item": RandomField(null_rate=2)}, "null rate of 'item' is 2"),
    (Order, {"item": RandomField(length=0, var_len=True)}, "cannot have the length 0"),
    (Types.ROW_NAMED(["b"], [Types.BYTE()]), {"b": RandomField(max=300)}, "within -128 and 127"),
    (Types.ROW_NAMED(["b"], [Types.BYTE()]), {"b": SequenceField(1, 300)}, "leaves the range of its type int8"),
    (Types.ROW_NAMED(["b"], [Types.BOOLEAN()]), {"b": SequenceField(1, 3)}, "cannot be a sequence"),
    (Types.ROW_NAMED(["m"], [Types.MAP(Types.INT(), Types.INT())]), {}, "cannot be random"),
])  # fmt: skip
def test_what_no_field_can_be_is_refused(record_type, fields, message):
    with pytest.raises(InvalidProgram, match=message):
        fields_source(record_type, fields)
