"""A function that raises ``SystemExit`` or ``GeneratorExit`` has failed; the program does not end with it."""

import pytest

from funken.dataset import ExecutionEnvironment
from funken.errors import OperatorFailed


def explode(kind):
    def function(value, *others):
        if value == 2:
            raise kind("as planned")
        return value

    return function


PROGRAMS = {
    "map": lambda data, function: data.map(function),
    "filter": lambda data, function: data.filter(function),
    "flat_map": lambda data, function: data.flat_map(lambda value: [function(value)]),
    "reduce": lambda data, function: data.reduce(lambda a, b: function(2)),
    "reduce of a group": lambda data, function: data.group_by(lambda value: 0).reduce(lambda a, b: function(2)),
    "reduce_group": lambda data, function: data.reduce_group(lambda group: list(map(function, group))),
    "map_partition": lambda data, function: data.map_partition(lambda values: list(map(function, values))),
    "join": lambda data, function: (
        data.join(data.map(abs))
        .where(lambda value: value)
        .equal_to(lambda value: value)
        .using(lambda a, b: function(a))
    ),
}


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, ValueError])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_operator_has_failed(name, kind):
    data = ExecutionEnvironment.create_local_environment(parallelism=1).from_elements(1, 2, 3)

    with pytest.raises(OperatorFailed, match=f"{kind.__name__}: as planned"):
        PROGRAMS[name](data, explode(kind)).collect()
