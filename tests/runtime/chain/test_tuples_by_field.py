"""Tuples that travel field by field are the same tuples, in every form that they take on their way."""

import threading
import traceback
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    Configuration,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimestampAssigner,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.columnar.block import RowBlock, TupleBlock
from funken.errors import OperatorFailed, RecordNotPicklable
from funken.operators.base import Operator
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import Hash
from funken.plan.physical import Edge
from funken.runtime.chain.fused import give_loops
from funken.runtime.exchange import gate as wire
from funken.runtime.exchange.gate import BlockKind, decode_records, encode_fields, pack_header, read_header
from funken.runtime.exchange.writers import IngestionTime, writer_for
from funken.runtime.task.state_manager import ChannelStateWriter
from funken.types.row import Row


def environment(parallelism=2, **options):
    conf = Configuration(
        {"execution.target": "local", "pipeline.vectorized": "false", "parallelism.default": parallelism}
    )
    for key, value in options.items():
        conf.set_string(key.replace("__", "."), value)
    return StreamExecutionEnvironment.get_execution_environment(conf)


@pytest.fixture
def sent(monkeypatch):
    """How many blocks of tuples were sent field by field."""
    found = []
    encode = wire.encode_fields

    def encoded(*arguments):
        found.append(arguments[0].form[0])
        return encode(*arguments)

    monkeypatch.setattr("funken.runtime.exchange.writers.encode_fields", encoded)
    return found


class Millis(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def add(old, new):
    return (old[0], old[1] + new[1], new[2])


#: reduces of (key, number, text): some use the fields, some the tuple, some cannot be read
REDUCES = {
    "fields": (lambda old, new: (old[0], old[1] + new[1], new[2]), add),
    "the last": (lambda old, new: new, lambda old, new: new),
    "the first": (lambda old, new: old, lambda old, new: old),
    "called": (add, add),
    "branches": (lambda old, new: add(old, new) if new[1] else old, lambda old, new: add(old, new) if new[1] else old),
    "from behind": (lambda old, new: (old[0], new[-2], old[2]), lambda old, new: (old[0], new[1], old[2])),
}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 40), max_size=60), st.sampled_from(sorted(REDUCES)), st.booleans(), st.booleans(),
    st.integers(1, 3),
)  # fmt: skip
def test_a_keyed_reduce_gives_what_an_oracle_gives(numbers, name, stamped, batch, parallelism):
    reduce, oracle = REDUCES[name]
    env = environment(parallelism, execution__block__records="3")
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream = env.from_collection(numbers).set_parallelism(1)
    if stamped:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Millis())
        stream = stream.assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    made = stream.map(lambda number: (number % 4, number, str(number))).set_parallelism(1)
    keyed = made.key_by(lambda made: made[0])
    found = keyed.reduce(reduce).execute_and_collect(limit=1000)

    state, expected = {}, []
    for number in sorted(numbers) if batch and stamped else numbers:
        made = (number % 4, number, str(number))
        state[made[0]] = oracle(state[made[0]], made) if made[0] in state else made
        expected.append(state[made[0]])
    assert Counter(found) == Counter(state.values() if batch else expected)
    assert all(type(record) is tuple for record in found)


#: maps of a number to (key, number, text), some of whose fields are written as constants
MAPS = {
    "a text": lambda number: (number % 4, number, "one"),
    "a number": lambda number: (number % 4, 1, str(number)),
    "two": lambda number: (number % 4, 1, ""),
    "the key": lambda number: (True, number, str(number)),
    "all but the number": lambda number: (None, number, b""),
    "all": lambda number: (-1, 1, 1.5),
    "none": lambda number: (number % 4, number, [number]),
}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 40), max_size=40), st.sampled_from(sorted(MAPS)),
    st.sampled_from(["sum", "window", "again", "stamped"]),
)  # fmt: skip
def test_fields_that_are_constants_give_what_an_oracle_gives(numbers, name, how):
    made = MAPS[name]
    numbers = numbers if how in ("sum", "again") else sorted(numbers)  # nothing is late
    stream = environment(2, execution__block__records="3").from_collection(numbers).set_parallelism(1)
    if how in ("window", "stamped"):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Millis())
        stream = stream.assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    stream = stream.map(made).set_parallelism(1)
    if how == "again":  # what a map only passes on is a constant still
        stream = stream.map(lambda made: (made[0], made[1], made[2])).set_parallelism(1)
    keyed = stream.key_by(lambda made: made[0])
    if how == "window":
        keyed = keyed.window(TumblingEventTimeWindows.of(1000))
    found = keyed.reduce(lambda old, new: (old[0], old[1] + new[1], new[2])).execute_and_collect(limit=1000)

    state, expected = {}, []
    for key, number, text in map(made, numbers):
        state[key] = (key, state[key][1] + number if key in state else number, text)
        expected.append(state[key])
    assert Counter(map(repr, found)) == Counter(map(repr, state.values() if how == "window" else expected))


def test_a_constant_is_sent_once_a_block():
    text = "a text that is the same in all records"
    content = encode_fields(TupleBlock([[*range(90)]], None, {1: text}), "up", 0)
    block = decode_records(pack_header(BlockKind.DATA, 5, 0, 0, 0, 0, 0.0, content))

    assert block.rows()[0] == [(number, text) for number in range(90)]
    assert len(content) < 350


@pytest.mark.parametrize("name", sorted(set(MAPS) - {"none"}))
def test_constants_are_no_fields_of_a_block(monkeypatch, name):
    forms = []

    def encoded(block, *others):
        forms.append((len(block.fields), dict(block.constants)))
        return encode_fields(block, *others)

    monkeypatch.setattr("funken.runtime.exchange.writers.encode_fields", encoded)
    stream = environment().from_collection([*range(10)]).map(MAPS[name]).key_by(lambda made: made[0])
    stream.reduce(lambda old, new: new).execute_and_collect(limit=10)
    expected = {
        "a text": (2, {2: "one"}), "a number": (2, {1: 1}), "two": (1, {1: 1, 2: ""}), "the key": (2, {0: True}),
        "all but the number": (1, {0: None, 2: b""}), "all": (1, {1: 1, 2: 1.5}),
    }  # fmt: skip

    assert forms
    assert all(form == expected[name] for form in forms)


def test_they_do_travel_field_by_field(sent):
    stream = environment().from_collection([*range(100)]).map(lambda number: (number % 4, 1))
    stream.key_by(lambda made: made[0]).reduce(lambda old, new: (old[0], old[1] + new[1])).execute_and_collect(
        limit=100
    )

    assert set(sent) == {2}


@pytest.mark.parametrize(
    "made",
    [
        lambda number: [number % 4, 1],
        lambda number: Row(number % 4, 1),
        lambda number: (number, 1, *()),
        lambda number: (number, 1) if number else (0, 1),
    ],
    ids=["list", "row", "sum of tuples", "branch"],
)
def test_what_is_not_written_as_a_tuple_goes_as_it_is(sent, made):
    stream = environment().from_collection([*range(10)]).map(made)
    found = stream.key_by(lambda made: made[0]).reduce(lambda old, new: new).execute_and_collect(limit=100)

    assert sent == []
    assert Counter(map(repr, found)) == Counter(repr(made(number)) for number in range(10))


def test_a_tuple_that_is_keyed_as_a_whole_goes_as_it_is(sent):
    stream = environment().from_collection([*range(10)]).map(lambda number: (number, 1))
    stream.key_by(lambda made: made).sum(1).execute_and_collect(limit=100)

    assert sent == []


def test_tuples_are_not_made_between_maps_and_filters(sent):
    stream = environment().from_collection([*range(10)]).map(lambda number: (number, 1))
    stream = stream.filter(lambda made: made[0] > 2).map(lambda made: (made[0] % 3, made[1] + 1, made[0]))
    stream = stream.filter(lambda made: made[2] != 5).map(lambda made: (made[1], made[0]))
    found = stream.key_by(lambda made: made[1]).reduce(lambda old, new: (old[0] + new[0], old[1]))

    assert Counter(found.execute_and_collect(limit=100)) == Counter(
        {(2, 0): 1, (4, 0): 1, (6, 0): 1, (2, 1): 1, (4, 1): 1, (2, 2): 1}
    )
    assert sent


def test_other_operators_get_tuples(sent):
    stream = environment().from_collection([3, 4, 5]).map(lambda number: (number, [number]))
    found = (
        stream.key_by(lambda made: made[0]).map(lambda made: (type(made).__name__, made)).execute_and_collect(limit=9)
    )

    assert sorted(found) == [("tuple", (3, [3])), ("tuple", (4, [4])), ("tuple", (5, [5]))]
    assert sent


def test_a_record_at_which_a_reduce_fails_is_named(sent):
    env = environment(1)
    stream = env.from_collection([1, 2, "three"]).map(lambda value: (1, value)).key_by(lambda made: made[0])
    stream.reduce(lambda old, new: (old[0], old[1] + new[1])).name("sum").print()
    with pytest.raises(OperatorFailed) as caught:
        env.execute()

    assert str(caught.value).startswith(
        "operator 'sum' (subtask 0) failed at the record (1, 'three'): TypeError: unsupported operand"
    )
    frames = traceback.extract_tb(caught.value.__cause__.__traceback__)
    assert frames[-1].filename == __file__
    assert "old[1] + new[1]" in frames[-1].line
    assert sent


def test_a_field_that_cannot_be_pickled_is_named_with_its_record():
    with pytest.raises(
        RecordNotPicklable, match=r"'up' \(subtask 3\) emitted a record of type 'tuple'.*\(2, <unlocked"
    ):
        encode_fields(TupleBlock([[1, 2], ["a", threading.Lock()]]), "up", 3)


class Sent:
    """A writer whose tuples have two fields, and what it sent."""

    def __init__(self, targets=2, records=100):
        self.blocks = []
        edge = Edge(
            id=5, source=0, source_node=1, side=None, target=1, index=0,
            partitioning=Hash(UserFunction(lambda made: made[0])), source_parallelism=1, target_parallelism=targets,
            target_max_parallelism=128, source_stage=0, target_stage=1,
        )  # fmt: skip
        self.writer = writer_for(
            edge, 0, "up", lambda target, block: self.blocks.append(block), IngestionTime(), records, 1 << 20
        )
        give_loops(self.writer, Operator())
        assert self.writer.take_fields(2, {}, True)

    def spread(self, values, stamps=None):
        def plain(known, find, values):
            for first, second in values:
                one, two, *_ = known.get(first) or find(first)
                one(first)
                two(second)

        def stamped(known, find, values, stamps):
            for (first, second), at in zip(values, stamps, strict=True):
                one, two, stamp, *_ = known.get(first) or find(first)
                one(first)
                two(second)
                stamp(at)

        self.writer.spread_fields(lambda with_stamps, *_: stamped if with_stamps else plain, values, stamps)

    def arrived(self):
        for block in self.blocks:
            head = read_header(block)
            if head.kind == BlockKind.DATA:
                values, stamps = decode_records(block).rows()
                yield from zip(values, stamps or [None] * len(values), strict=True)
            else:
                yield BlockKind(head.kind)


STEPS = st.lists(
    st.tuples(st.sampled_from(["fields", "records", "flush", "watermark"]), st.booleans(), st.integers(1, 4)),
    max_size=12,
)


@given(STEPS, st.integers(1, 3))
def test_both_forms_keep_their_order(steps, records):
    sent, expected = Sent(1, records), []
    for number, (what, with_stamps, count) in enumerate(steps):
        values = [(number, one) for one in range(count)]
        stamps = [number * 10 + one for one in range(count)] if with_stamps else None
        if what == "flush":
            sent.writer.flush()
            assert not sent.writer.waiting
        elif what == "watermark":
            sent.writer.control(BlockKind.WATERMARK, number)
            expected.append(BlockKind.WATERMARK)
        else:
            (sent.spread if what == "fields" else sent.writer.emit)(values, stamps)
            expected += zip(values, stamps or [None] * count, strict=True)
    sent.writer.flush()

    assert list(sent.arrived()) == expected
    assert sent.writer.records == sum(item is not BlockKind.WATERMARK for item in expected)


@pytest.mark.parametrize("stamped", [False, True])
def test_a_barrier_overtakes_what_waits(stamped):
    sent = Sent(1)
    sent.spread([(1, "a"), (2, "b")], [10, 20] if stamped else None)
    assert sent.writer.waiting
    (overtaken,) = sent.writer.overtaking_barrier(7, b"")
    sent.writer.flush()

    assert overtaken.rows() == ([(1, "a"), (2, "b")], [10, 20] if stamped else None)
    assert next(sent.arrived()) is BlockKind.BARRIER
    assert [item[0] for item in list(sent.arrived())[1:]] == [(1, "a"), (2, "b")]


def test_a_marker_waits_with_them():
    sent = Sent(1)
    sent.spread([(1, "a")])
    sent.writer.latency(3, 1.0)
    sent.spread([(2, "b")])
    sent.writer.flush()

    assert list(sent.arrived()) == [((1, "a"), None), ((2, "b"), None), BlockKind.LATENCY]


def test_what_a_barrier_has_overtaken_is_kept_as_it_was():
    item = ["a"]
    state, block = ChannelStateWriter(), TupleBlock([[1], [item]], [10])
    head = read_header(pack_header(BlockKind.DATA, 5, 0, 0, 0, 0, 0.0))
    state.add(head, block)
    item.append("changed")

    (kept,) = (block for _, block in state.received)
    assert isinstance(kept, RowBlock)
    assert kept.rows() == ([(1, ["a"])], [10])
