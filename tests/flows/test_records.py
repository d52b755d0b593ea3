"""What may be a record: whatever Python code defines, wherever it defines it."""

import dataclasses
import enum
from collections import namedtuple
from datetime import UTC, datetime
from decimal import Decimal

import pytest

Point = namedtuple("Point", "x y")


@dataclasses.dataclass(frozen=True)
class Order:
    customer: str
    amount: float


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def test_classes_of_the_program_survive_an_exchange_and_come_back(env, collect):
    @dataclasses.dataclass(frozen=True)
    class Local:
        name: str

    class Plain:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return type(other) is type(self) and other.value == self.value

        def __hash__(self):
            return hash(self.value)

    records = [
        Point(1, 2), Order("ann", 2.5), Colour.RED, Local("here"), Plain([1]).value, {"a": [None]}, {1, 2}, b"\x00",
        1 << 80, Decimal("0.1"), datetime(2024, 2, 29, tzinfo=UTC), "\ud800", ("nested", (Point(3, 4),)), Ellipsis,
    ]  # fmt: skip
    stream = env.from_collection(records).rebalance().map(lambda record: (type(record).__name__, record))

    found = collect(stream)

    assert len(found) == len(records)
    for name, record in found:
        assert record in records
        assert type(record).__name__ == name
        assert any(type(record) is type(one) for one in records)


SCRIPT = """
import sys
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
from funken import Configuration, MapFunction, StreamExecutionEnvironment

class Kind(Enum):
    SMALL = "small"
    LARGE = "large"

@dataclass(frozen=True)
class Item:
    name: str
    kind: Kind

class Pair(NamedTuple):
    item: Item
    count: int

class Classify(MapFunction):
    def map(self, value):
        return Pair(Item(value, Kind.LARGE if len(value) > 2 else Kind.SMALL), 1)

def run(mode):
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": mode}))
    env.set_parallelism(2)
    stream = env.from_collection(["a", "bcd", "a"]).map(Classify()).key_by(lambda pair: pair.item).sum("count")
    with stream.execute_and_collect() as found:
        records = sorted(found, key=lambda pair: (pair.item.name, pair.count))
    assert all(type(pair) is Pair and type(pair.item) is Item and pair.item.kind in Kind for pair in records)
    for pair in records:
        print(pair.item.name, pair.item.kind.value, pair.count)

if __name__ == "__main__":
    for mode in sys.argv[1:]:
        run(mode)
"""


@pytest.mark.parametrize("modes", [["local"], pytest.param(["batch", "continuous"], marks=pytest.mark.spark)])
def test_classes_of_a_script(modes, script):
    done = script(SCRIPT, *modes)

    assert done.stdout.splitlines() == ["a small 1", "a small 2", "bcd large 1"] * len(modes), done.stderr
