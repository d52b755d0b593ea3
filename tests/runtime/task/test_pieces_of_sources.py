"""A source whose records leave for no other vertex is given larger pieces while they are fast."""

import time

import pytest

from funken import Configuration, NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy


def largest(function, leaves, **options):
    """Return how many records a function of a source's vertex is given at a time, at most."""
    conf = Configuration(
        {"execution.target": "local", "pipeline.vectorized": "false", "parallelism.default": 1, **options}
    )
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    numbers = env.from_source(NumberSequenceSource(0, 79_999), WatermarkStrategy.no_watermarks(), "numbers")
    sizes = numbers.map_block(function)
    if leaves:
        sizes = sizes.key_by(lambda size: size).map(lambda size: size)
    found = sizes.execute_and_collect(limit=100_000)
    assert sum(found) == 80_000
    return max(found)


def slow(block):
    time.sleep(len(block) * 2e-6)
    return [len(block)]


@pytest.mark.parametrize(
    ("function", "leaves", "options", "most"),
    [
        (lambda block: [len(block)], False, {}, 8000),
        (lambda block: [len(block)], True, {}, 2000),
        (slow, False, {}, 2000),
        (lambda block: [len(block)], False, {"execution.block.records": 500}, 500),
        (lambda block: [len(block)], False, {"execution.block.records": 100_000}, 8000),
    ],
    ids=["one vertex", "an exchange", "slow", "small blocks", "large blocks"],
)
def test_the_largest_piece(function, leaves, options, most):
    assert largest(function, leaves, **options) == most
