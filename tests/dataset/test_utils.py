"""A checksum and a summary of a data set."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import InvalidProgram
from funken.dataset import DataSetUtils
from tests.dataset.programs import PARALLELISM, environment

records = st.lists(st.tuples(st.integers(-99, 99) | st.none(), st.text(max_size=5), st.booleans()), max_size=30)


@given(records, st.sampled_from(PARALLELISM))
def test_a_summary_is_that_of_the_values(data, parallelism):
    found = DataSetUtils.summarize(environment(parallelism).from_collection(data))

    for place, column in enumerate(found):
        values = [record[place] for record in data if record[place] is not None]
        values = [len(value) if isinstance(value, str) else value for value in values]
        assert column.count == len(data)
        assert column.nulls == len(data) - len(values)
        if values:
            assert (column.least, column.greatest, column.total) == (min(values), max(values), sum(values))
            assert column.mean == pytest.approx(statistics.fmean(values))
        if len(values) > 1:
            assert column.variance == pytest.approx(statistics.variance(map(float, values)), abs=1e-9)
    assert len(found) == (3 if data else 0)


def test_a_field_of_several_kinds_is_only_counted():
    (found,) = DataSetUtils.summarize(environment(2).from_elements(1, "a", 2, (), 3).map(lambda n: [n]))

    assert (found.count, found.least, found.mean, found.variance) == (5, None, None, None)


def test_records_of_different_widths_are_refused():
    with pytest.raises(InvalidProgram, match="records with 1 and with 2 fields"):
        DataSetUtils.summarize(environment(2).from_elements((1,), (1, 2)))


@given(st.lists(st.tuples(st.integers(), st.text(max_size=3)), max_size=20), st.randoms())
def test_a_checksum_does_not_depend_on_the_order(data, chance):
    shuffled = list(data)
    chance.shuffle(shuffled)

    found = DataSetUtils.checksum_hash_code(environment(2).from_collection(data))

    assert found == DataSetUtils.checksum_hash_code(environment(4).from_collection(shuffled))
    assert found.count == len(data)
    if data:
        assert found != DataSetUtils.checksum_hash_code(environment(2).from_collection(data[1:]))
