"""Fused operators give what they give one by one: the same records, timestamps, targets, and errors."""

import re
import traceback
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import MapFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment
from funken.errors import OperatorFailed
from funken.runtime.exchange.gate import BlockKind, decode_records, encode_records, pack_header, read_header
from funken.runtime.messages import TaskId
from funken.runtime.settings import TaskSettings
from funken.runtime.task.task import Task
from funken.timing.clock import ManualClock

THREE = 3
SIDE = OutputTag("side")


class Sided(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        if value % THREE == 0:
            yield SIDE, value


class Rich(MapFunction):
    def map(self, value):
        return value + THREE


def added(number):
    return lambda value: value + number


def twice(value):
    yield value
    yield value + 100


#: by name: how it is added to a stream; some functions can be read and some are called
STEPS = {
    "add": lambda stream: stream.map(lambda value: value + 1),
    "add global": lambda stream: stream.map(lambda value: value + THREE),
    "add closure": lambda stream: stream.map(added(4)).map(added(5)),
    "add sometimes": lambda stream: stream.map(lambda value: value + 2 if value % THREE else value),
    "by field": lambda stream: (
        stream.map(lambda value: (value, value + 1))
        .filter(lambda pair: pair[0] != 7)
        .map(lambda pair: pair[1] - pair[0] + pair[0])
    ),
    "whole and by field": lambda stream: (
        stream.map(lambda value: (value % 7, value))
        .map(lambda pair: (pair, pair[1], max(pair)))
        .filter(lambda three: three[2] >= 0)
        .filter(lambda three: len(three[0]) == 2 or three)
        .map(lambda three: three[0][1])
    ),
    "pairs taken apart": lambda stream: stream.map(lambda value: (value, value)).flat_map(
        lambda pair: [pair[0], pair[1]]
    ),
    "rich": lambda stream: stream.map(Rich()),
    "even": lambda stream: stream.filter(lambda value: value % 2 == 0),
    "some": lambda stream: stream.filter(lambda value: value % THREE > 0 or value > 20),
    "twice": lambda stream: stream.flat_map(twice),
    "pair": lambda stream: stream.flat_map(lambda value: [value, value * 2]),
    "rarely": lambda stream: stream.flat_map(lambda value: None if value % THREE else [value]),
    "side": lambda stream: stream.process(Sided()),
    "block": lambda stream: stream.map_block(lambda block: block),
    "map fails": lambda stream: stream.map(lambda value: value // (value - 6)),
    "by field fails": lambda stream: stream.map(lambda value: (value, value - 6)).map(lambda pair: pair[0] // pair[1]),
    "filter fails": lambda stream: stream.filter(lambda value: fails_at(value, 4)),
    "flat_map fails": lambda stream: stream.flat_map(lambda value: [value] if fails_at(value, 5) else None),
    "process fails": lambda stream: stream.process(lambda value, ctx: [value] if fails_at(value, 5) else None),
}
FAILING = [name for name in STEPS if name.endswith("fails")]
ENDS = {
    "key_by": lambda stream: stream.key_by(lambda value: value % 5).sum(),
    "key_by, called": lambda stream: stream.key_by(lambda value: value % 3 if value > 5 else 1).sum(),
    "key_by, global": lambda stream: stream.key_by(lambda value: value % THREE).sum(),
    "key fails": lambda stream: stream.key_by(lambda value: 1 / (value - 7)).sum(),
    "key has no hash": lambda stream: stream.key_by(lambda value: [value] if value == 9 else value).sum(),
    "tuples": lambda stream: summed(stream.map(lambda value: (value % 5, value)), lambda pair: pair[0]),
    "one field": lambda stream: stream.map(lambda value: (value % 5,)).key_by(lambda one: one[0] + 1).sum(0),
    "two keys": lambda stream: summed(stream.map(lambda value: (value, 1, value)), lambda made: made[2] % 3 + made[0]),
    "tuple as key": lambda stream: summed(stream.map(lambda value: (value % 5, value)), lambda pair: pair),
    "filtered": lambda stream: summed(
        stream.map(lambda value: (value, value))
        .filter(lambda pair: pair[1] != 3)
        .map(lambda pair: (pair[0] % 4, pair[1])),
        lambda pair: pair[0],
    ),
    "field fails": lambda stream: summed(stream.map(lambda value: (1 // (value - 7), 1)), lambda pair: pair[0]),
    "key of tuple fails": lambda stream: summed(stream.map(lambda value: (value, 1)), lambda pair: 1 / (pair[0] - 7)),
    "field has no hash": lambda stream: summed(stream.map(lambda value: ([value], 1)), lambda pair: pair[0]),
    "rebalance": lambda stream: stream.rebalance().map(lambda value: value),
    "both": lambda stream: (stream.key_by(lambda value: value).sum(), stream.rebalance().map(lambda value: value)),
}


def summed(stream, key):
    return stream.key_by(key).reduce(lambda old, new: (old[0], old[1] + new[1]))


def fails_at(value, number):
    if value == number:
        raise KeyError(value)
    return True


def run(steps, end, side, blocks, fused=True):
    """Return the blocks that the middle task sends, or what it fails with."""
    env = StreamExecutionEnvironment.create_local_environment(2)
    stream = env.from_collection([0]).rebalance().map(lambda value: value)
    for number, name in enumerate(steps):
        stream = STEPS[name](stream).name(f"{number} {name}")
        if name == "side" and side:
            ENDS["key_by"](stream.get_side_output(SIDE).map(lambda value: -value))
    ENDS[end](stream)
    return feed(env, blocks, fused)


def feed(env, blocks, fused=True):
    """Give blocks to the task of stage 1."""
    plan = env.compile()
    (edge,) = (edge for edge in plan.edges if edge.target_stage == 1)
    if not fused:
        plan = replace(plan, vertices=tuple(replace(vertex, fused=()) for vertex in plan.vertices))
    task = Task(plan, TaskId(1, 0), TaskSettings(block_records=3), ManualClock(1), lambda event: None)
    task.open()
    try:
        for number, (values, stamped) in enumerate(blocks):
            stamps = [value * 10 for value in values] if stamped else None
            task.receive(
                pack_header(BlockKind.DATA, edge.id, 0, 0, number, 0, 0.0, encode_records(values, stamps, "test", 0))
            )
            while task.work:
                task.step()
        task.flush()
    except OperatorFailed as error:
        return str(error).split("\n")[0], error.operator
    channels = {}
    for target, block in task.outbox:
        values, stamps = decode_records(block).rows()
        found = channels.setdefault((read_header(block).edge, target), [])
        found += zip(values, stamps or [None] * len(values), strict=True)
    return channels


BLOCKS = st.lists(
    st.tuples(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.booleans()), min_size=1, max_size=3
)
QUIET = st.lists(st.sampled_from([name for name in STEPS if name not in FAILING]), max_size=4)


@settings(max_examples=25)
@given(
    QUIET,
    st.sampled_from([
        "key_by", "key_by, called", "key_by, global", "rebalance", "both", "tuples", "one field", "two keys", "tuple as key",
        "filtered",
    ]),
    st.booleans(), BLOCKS,
)  # fmt: skip
def test_a_chain_gives_the_same_fused(steps, end, side, blocks):
    assert run(steps, end, side, blocks) == run(steps, end, side, blocks, fused=False)


@settings(max_examples=25)
@given(
    QUIET, st.sampled_from([(name, "key_by") for name in FAILING] + [
        ("add", end) for end in ENDS if end.endswith(("fails", "no hash"))
    ]),
    QUIET, BLOCKS,
)  # fmt: skip
def test_a_chain_fails_with_the_same_error_at_the_same_record(before, failing, after, blocks):
    name, end = failing
    fused = run([*before, name, *after], end, False, blocks)
    plain = run([*before, name, *after], end, False, blocks, fused=False)

    if isinstance(fused, tuple) and fused != plain:  # a loop names the record where a key selector, or a comprehension
        fused = re.sub(" at the record [^:]*", "", fused[0]), fused[1]  # from Python 3.12 on, does not
    assert fused == plain


def failure(build, values):
    env = StreamExecutionEnvironment.create_local_environment(1)
    build(env.from_collection(values))
    with pytest.raises(OperatorFailed) as caught:
        env.execute()
    return caught.value


def test_a_function_that_was_inlined_is_in_the_traceback():
    error = failure(lambda stream: stream.map(str).map(lambda text: text[5]).name("sixth").filter(bool).print(), [12])

    assert str(error).startswith("operator 'sixth' (subtask 0) failed at the record '12': IndexError: ")
    frames = traceback.extract_tb(error.__cause__.__traceback__)
    assert frames[-1].filename == __file__
    assert "text[5]" in frames[-1].line
    assert "text[5]" in str(error)


def test_a_reduce_that_was_inlined_is_in_the_traceback():
    def build(stream):
        stream.key_by(lambda value: 1).reduce(lambda old, value: old + value).name("sum").print()

    error = failure(build, [1, 2, "three"])

    assert str(error).startswith(
        "operator 'sum' (subtask 0) failed at the record 'three': TypeError: unsupported operand"
    )
    assert "old + value" in str(error)


SEEN = []


def first(value):
    SEEN.append(("first", value))
    return [value, value]


def second(value):
    SEEN.append(("second", value))
    return True


def test_functions_see_records_one_by_one_and_once():
    SEEN.clear()
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_collection([0]).rebalance().flat_map(first).map(lambda value: value).filter(second)
    feed(env, [([1, 2], False)])

    assert SEEN == [
        ("first", 1), ("second", 1), ("second", 1), ("first", 2), ("second", 2), ("second", 2),
    ]  # fmt: skip


def test_explain_says_what_is_fused_and_what_is_inlined():
    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = (
        env.from_collection([1, 2, 3]).map(lambda value: (value, 1)).filter(lambda pair: pair[0] > 1 or pair[1] > 1)
    )
    numbers.key_by(lambda pair: pair[0]).reduce(lambda old, pair: (old[0], old[1] + pair[1])).print()

    text = env.explain()
    assert "\n      fusion: one loop: map (inlined) + filter + key_by (inlined)\n" in text
    assert "\n      fusion: one loop: key (inlined) + reduce (inlined)\n" in text
