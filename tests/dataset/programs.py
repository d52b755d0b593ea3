"""What the tests of the DataSet API share: environments, data, and ways to compare."""

import random

from funken import Configuration
from funken.dataset import ExecutionEnvironment

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
