"""What the tests of the DataSet API share: environments, data, and ways to compare."""

import random

from funken import Configuration
from funken.dataset import ExecutionEnvironment
from funken.dataset.columns.block import ColumnBlock

PARALLELISM = (1, 2, 4)
TINY = 48 * 1024  # of managed memory: what the tests of spilling run with


def environment(parallelism=2, budget=None):
    configuration = Configuration({"parallelism.default": parallelism})
    if budget is not None:
        configuration.set("execution.memory.managed", budget)
    return ExecutionEnvironment.create_local_environment(configuration=configuration)


def pairs(count, keys, seed=0, width=0):
    """Return (key, number, text) records, random but always the same."""
    chance = random.Random(seed)
    return [(chance.randrange(keys), number, "x" * chance.randrange(width + 1)) for number in range(count)]


def same(one, other):
    """Compare as bags."""
    return sorted(one, key=repr) == sorted(other, key=repr)


def rows_made(monkeypatch):
    """Return a list that gets the size of every block of columns whose records are made from now on."""
    made, rows = [], ColumnBlock.rows

    def count(block):
        if block._rows is None:
            made.append(len(block))
        return rows(block)

    monkeypatch.setattr(ColumnBlock, "rows", count)
    return made
