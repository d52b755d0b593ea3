"""Types in pickles, such as those of savepoints."""

import pickle

import pytest

from funken.table.types import DataTypes, IntType

TYPES = [
    DataTypes.INT(False),
    DataTypes.DECIMAL(5, 2),
    DataTypes.ROW([DataTypes.FIELD("a", DataTypes.ARRAY(DataTypes.TIMESTAMP(3), False))], False),
]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_type_comes_back_as_it_was(type_):
    assert pickle.loads(pickle.dumps(type_)) == type_


@pytest.mark.parametrize("is_nullable", [True, False])
def test_a_pickle_of_before_has_its_nullability(is_nullable):
    old = IntType.__new__(IntType)
    old.__dict__["nullable"] = is_nullable  # the name of the field until it became that of a method
    found = pickle.loads(pickle.dumps(old))

    assert found == DataTypes.INT(is_nullable)
    assert found.nullable() == DataTypes.INT()
