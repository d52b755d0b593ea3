"""Keys beyond the cache: records of a block are dealt out at once, to the targets and in the order that a router gives."""

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.errors import InvalidProgram
from funken.operators.base import Operator
from funken.operators.stateless import Filter, FlatMap, Map
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import Hash
from funken.plan.physical import Edge
from funken.runtime.chain.fused import FusedOperators, give_loops
from funken.runtime.exchange import writers as hash_writer
from funken.runtime.exchange import writers as many_keys
from funken.runtime.exchange.gate import BlockKind, decode_records, read_header
from funken.runtime.exchange.writers import HashWriter, IngestionTime, ManyKeys, writer_for
from funken.state.keygroups import key_group_of, subtask_of


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    """Also small blocks are dealt out."""
    kept, many_keys._FEWEST = many_keys._FEWEST, 1
    yield
    many_keys._FEWEST = kept


FEW, MANY = 10**6, 3
"""Limits of the cache: with the first it never is full, with the second nearly always."""


class Sent:
    """A writer whose cache has a limit, and what it sent."""

    def __init__(self, key, limit, targets=3):
        edge = Edge(
            id=5, source=0, source_node=1, side=None, target=1, index=0, partitioning=Hash(UserFunction(key)),
            source_parallelism=1, target_parallelism=targets, target_max_parallelism=128, source_stage=0, target_stage=1,
        )  # fmt: skip
        self.blocks = []
        kept, hash_writer.CACHED_KEYS = hash_writer.CACHED_KEYS, limit
        try:
            send = lambda target, block: self.blocks.append((target, block))  # noqa: E731
            self.writer = writer_for(edge, 0, "up", send, IngestionTime(), 7, 1 << 20)
            if isinstance(self.writer, HashWriter):
                give_loops(self.writer, Operator())
        finally:
            hash_writer.CACHED_KEYS = kept

    def arrived(self):
        """Return what came, with its target."""
        self.writer.flush()
        found = []
        for target, block in self.blocks:
            if read_header(block).kind == BlockKind.DATA:
                values, stamps = decode_records(block).rows()
                found += [(target, *pair) for pair in zip(values, stamps or [None] * len(values), strict=True)]
        return found


KEYS = st.lists(
    st.integers()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=3)
    | st.none()
    | st.booleans()
    | st.tuples(st.integers(), st.text(max_size=2))
    | st.tuples(st.integers()),
    max_size=30,
)
ALIKE = (
    st.lists(st.integers(), max_size=30)
    | st.lists(st.text(max_size=3), max_size=30)
    | st.lists(st.tuples(st.integers(), st.text(max_size=2)), max_size=30)
)


@given(st.lists(st.tuples(KEYS | ALIKE, st.booleans()), max_size=8))
def test_records_go_where_the_router_sends_them(blocks):
    dealt, routed = Sent(lambda record: record[0], MANY), Sent(lambda record: record[0], FEW)
    for number, (keys, stamped) in enumerate(blocks):
        values = [(key, number, position) for position, key in enumerate(keys)]
        stamps = [position * 10 for position in range(len(keys))] if stamped else None
        for sent in (dealt, routed):
            sent.writer.emit(values, stamps)

    assert by_target(dealt) == by_target(routed)
    for target, (key, *_), _ in dealt.arrived():
        assert target == subtask_of(key_group_of(key, 128), 128, 3)


def by_target(sent):
    return [[record for of, *record in sent.arrived() if of == target] for target in range(3)]


RUNS = {
    "fields": ([Map(UserFunction(lambda i: (i * 7, i)))], lambda pair: pair[0]),
    "one field": ([Map(UserFunction(lambda i: (i,)))], lambda pair: pair[0]),
    "whole tuples": ([Map(UserFunction(lambda i: (i, i)))], lambda pair: pair),
    "filtered": ([Map(UserFunction(lambda i: i + 1)), Filter(UserFunction(lambda i: i % 3 > 0))], lambda i: i),
    "several": ([FlatMap(UserFunction(lambda i: [str(i), str(i * 2)]))], lambda text: text),
}


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(RUNS)),
    st.lists(st.tuples(st.lists(st.integers(-50, 50), max_size=20), st.booleans()), max_size=6),
)
def test_loops_keep_keys_as_they_look_them_up(name, blocks):
    specs, key = RUNS[name]
    sent = [Sent(key, MANY), Sent(key, FEW)]
    runs = [FusedOperators([spec.build() for spec in specs], each.writer) for each in sent]
    for values, stamped in blocks:
        for run in runs:
            run.process(values, [value * 10 for value in values] if stamped else None)

    assert by_target(sent[0]) == by_target(sent[1])


class Number(int):
    """An int that is not just one."""


@given(
    st.lists(st.sampled_from([1, True, 1.0, Number(1), 0.0, -0.0, "a", "b", b"a", None, 10**30, (1, 2)]), max_size=40),
    st.booleans(),
    st.sampled_from([MANY, FEW]),
)
def test_keys_that_are_equal_keep_their_type(keys, stamped, limit):
    sent = Sent(lambda pair: pair[0], limit)
    run = FusedOperators([Map(UserFunction(lambda key: (key, 1))).build()], sent.writer)
    for _ in range(2):  # in the first it is seen whether there are texts
        run.process(keys, [*range(len(keys))] if stamped else None)

    assert Counter((repr(key), type(key)) for _, (key, _), _ in sent.arrived()) == Counter(
        (repr(key), type(key)) for key in keys * 2
    )


def test_texts_that_are_equal_travel_once():
    sent = Sent(lambda pair: pair[0], FEW, targets=1)
    run = FusedOperators([Map(UserFunction(lambda number: (str(number), 1))).build()], sent.writer)
    for _ in range(2):  # in the first it is seen that there are texts
        run.process([1000] * 7, None)

    _, (_, block) = sent.blocks
    first, *others = [key for key, _ in decode_records(block).rows()[0]]
    assert all(other is first for other in others) and block.count(b"1000") == 1


def test_a_text_that_is_a_key_but_no_field_is_not_looked_for():
    sent = Sent(lambda pair: str(pair[0]), MANY)
    run = FusedOperators([Map(UserFunction(lambda number: (number, 1))).build()], sent.writer)
    for _ in range(2):
        run.process([*range(20)], None)

    assert sent.writer._field_appends.texts and not sent.writer._field_appends.one_text
    assert Counter(value for _, value, _ in sent.arrived()) == Counter({(number, 1): 2 for number in range(20)})


def test_the_cache_is_used_again_when_keys_are_few():
    sent = Sent(lambda i: i, 50)
    deals = []
    for number in range(140):
        deals.append(sent.writer._many_keys.takes(99))
        sent.writer.emit([*range(number * 20, number * 20 + 20)] if number < 40 else [*range(20)], None)

    assert not any(deals[:2]) and all(deals[4:40])
    assert not any(deals[-20:])
    assert sorted(value for _, value, _ in sent.arrived()) == sorted([*range(800), *[*range(20)] * 100])


def test_small_blocks_are_looked_up(monkeypatch):
    def deal(self, keys):
        assert len(keys) >= 10
        return [[], [*range(len(keys))], []]

    monkeypatch.setattr(many_keys, "_FEWEST", 10)
    monkeypatch.setattr(ManyKeys, "deal", deal)
    sent = Sent(lambda i: i, MANY)
    for _ in range(3):
        sent.writer.emit([*range(9)], None)
    assert not sent.writer._many_keys.takes(9)
    sent.writer.emit([*range(10)], None)
    assert [value for target, value, _ in sent.arrived() if target == 1][-10:] == [*range(10)]


def test_a_cache_that_is_seldom_full_is_kept():
    many = ManyKeys(128, 2, 100)
    for _ in range(20):
        many.note(799, cleared=0)
        many.note(1, cleared=1)

    assert not many.takes(1000)


@pytest.mark.parametrize("fused", [False, True])
def test_a_key_without_a_hash_is_refused(fused):
    sent = Sent(lambda i: i if i < 100 else [i], MANY)
    run = FusedOperators([Map(UserFunction(lambda i: i)).build()], sent.writer).process if fused else sent.writer.emit
    run([*range(20)], None)
    assert sent.writer._many_keys.takes(99)

    with pytest.raises(InvalidProgram, match=r"key_by after operator 'up': unhashable type: 'list'.*a tuple instead"):
        run([1, 2, 100], None)


def test_the_only_target_gets_all_in_their_order():
    sent = Sent(lambda i: i, MANY, targets=1)
    sent.writer.emit([*range(20)], None)
    sent.writer.emit([*range(20)], None)

    assert [value for _, value, _ in sent.arrived()] == [*range(20), *range(20)]


def test_numpy_is_not_loaded_for_few_keys():
    program = (
        "import sys; from tests.runtime.exchange.test_many_keys import Sent\n"
        "sent = Sent(lambda i: i, 100); sent.writer.emit([*range(90)] * 20, None)\n"
        "assert 'numpy' not in sys.modules; [sent.writer.emit([*range(500)], None) for _ in range(3)]\n"
        "assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
