"""Edge writers: nothing is lost or doubled, every channel is FIFO, and each partitioning keeps its promise."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.columnar.kernels.columns import columns_of
from funken.errors import InvalidProgram, KeyNotHashable
from funken.expr.types import INT
from funken.operators.base import Operator
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import COLUMNS, Broadcast, Custom, Forward, Global, Hash, Rebalance, Rescale, Shuffle
from funken.plan.physical import Edge
from funken.runtime.chain.fused import give_loops
from funken.runtime.exchange.gate import BlockKind, decode_records, read_header
from funken.runtime.exchange.writers import HashWriter, IngestionTime, writer_for
from funken.state.keygroups import key_group_of, subtask_of

PARTITIONINGS = {
    "hash": Hash(UserFunction(lambda value: value % 7)),
    "rebalance": Rebalance(),
    "rescale": Rescale(),
    "shuffle": Shuffle(),
    "broadcast": Broadcast(),
    "global": Global(),
    "forward": Forward(),
    "custom": Custom(UserFunction(lambda key, width: key % width), UserFunction(lambda value: value)),
}


class Channels:
    """What a writer sent, by target, decoded."""

    def __init__(self, partitioning, up=1, down=3, subtask=0, records=4, size=1 << 20):
        self.sent = [[] for _ in range(down)]
        self.sizes = []
        self.edge = Edge(
            id=5, source=0, source_node=1, side=None, target=1, index=0, partitioning=partitioning,
            source_parallelism=up, target_parallelism=down, target_max_parallelism=128, source_stage=0, target_stage=1,
        )  # fmt: skip
        self.writer = writer_for(self.edge, subtask, "upstream", self.send, IngestionTime(), records, size)
        if isinstance(self.writer, HashWriter):
            give_loops(self.writer, Operator())

    def send(self, target, block):
        head = read_header(block)
        assert (head.edge, head.target, head.sequence) == (5, target, len(self.sent[target]))
        if head.kind == BlockKind.DATA:
            values, stamps = decode_records(block).rows()
            self.sizes.append(len(values))
            self.sent[target].append((values, stamps))
        else:
            self.sent[target].append((BlockKind(head.kind), head.number))

    def values(self, target):
        return [value for block, _ in self.data(target) for value in block]

    def stamps(self, target):
        return [stamp for block, stamps in self.data(target) for stamp in (stamps or [None] * len(block))]

    def data(self, target):
        return [entry for entry in self.sent[target] if not isinstance(entry[0], BlockKind)]


@given(
    st.sampled_from(sorted(PARTITIONINGS)),
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.sampled_from(["", "flush", "watermark"])), max_size=20),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 4),
    st.integers(1, 30),
    st.sampled_from([1, 60, 1 << 20]),
)
def test_no_writer_loses_or_doubles_or_reorders(name, blocks, up, down, subtask, records, size):
    if name == "forward":
        down = up
    subtask %= up
    channels = Channels(PARTITIONINGS[name], up, down, subtask, records, size)

    emitted, watermarks, number = [], 0, 0
    for count, stamped, then in blocks:
        values = [*range(number, number + count)]
        number += count
        emitted += [(value, value * 10 if stamped else None) for value in values]
        channels.writer.emit(values, [value * 10 for value in values] if stamped else None)
        if then == "flush":
            channels.writer.flush()
        elif then == "watermark":
            watermarks += 1
            channels.writer.control(BlockKind.WATERMARK, number)
    channels.writer.control(BlockKind.END, 0)

    arrived = [list(zip(channels.values(t), channels.stamps(t), strict=True)) for t in range(down)]
    copies = down if name == "broadcast" else 1
    assert Counter(pair for pairs in arrived for pair in pairs) == Counter({pair: copies for pair in emitted})
    for target, pairs in enumerate(arrived):
        assert pairs == sorted(pairs), "the values were emitted in ascending order"
        assert len([entry for entry in channels.sent[target] if entry[0] is BlockKind.WATERMARK]) == watermarks
        assert channels.sent[target][-1] == (BlockKind.END, 0)
        seen = 0
        for first, second in channels.sent[target]:
            if first is BlockKind.WATERMARK:
                assert seen <= second, "a record overtook the watermark behind it"
            elif first is not BlockKind.END:
                seen = max(seen, *first) + 1
    assert max(channels.sizes, default=0) < records + 9, (
        "what waits is less than a block, and is sent with the next one"
    )
    assert channels.writer.records == number


@given(
    st.sampled_from(["rebalance", "rescale", "global", "forward"]),
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans(), st.booleans()), max_size=12),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(1, 30),
)
def test_columns_arrive_where_records_do(name, blocks, up, down, subtask, records):
    down = up if name == "forward" else down
    rows, mixed = (
        Channels(partitioning, up, down, subtask % up, records)
        for partitioning in (PARTITIONINGS[name], replace(PARTITIONINGS[name], form=COLUMNS))
    )
    number = 0
    for count, stamped, as_columns, flushed in blocks:
        values = [*range(number, number + count)]
        stamps = [value * 10 for value in values] if stamped else None
        number += count
        rows.writer.emit(values, stamps)
        if as_columns:
            mixed.writer.emit_block(columns_of(values, INT, stamps))
        else:
            mixed.writer.emit(values, stamps)
        if flushed:
            mixed.writer.flush()
            assert not mixed.writer.waiting
    barrier = number % 2
    left = mixed.writer.overtaking_barrier(7, b"") if barrier else []
    rows.writer.control(BlockKind.END, 0)
    mixed.writer.control(BlockKind.END, 0)

    for target in range(down):
        assert mixed.values(target) == rows.values(target)
        assert mixed.stamps(target) == rows.stamps(target)
    assert mixed.writer.records == number
    behind = [value for sent in mixed.sent for value in after_barrier(sent)]
    assert sorted(value for block in left for value in block.rows()[0]) == sorted(behind if barrier else [])


def after_barrier(sent):
    """Return the records that a barrier has overtaken."""
    kinds = [first for first, _ in sent]
    behind = sent[kinds.index(BlockKind.BARRIER) :] if BlockKind.BARRIER in kinds else []
    return [value for first, _ in behind if not isinstance(first, BlockKind) for value in first]


def test_columns_are_sent_as_columns():
    channels = Channels(Global(form=COLUMNS), down=2)
    kept = []
    channels.writer._send = lambda target, block: kept.append((target, decode_records(block)))
    channels.writer.emit_block(columns_of([1, 2, 3], INT))
    channels.writer.flush()

    assert [(target, type(block).__name__, block.rows()[0]) for target, block in kept] == [(0, "Columns", [1, 2, 3])]


def test_equal_keys_go_to_the_owner_of_their_key_group():
    channels = Channels(Hash(UserFunction(str)), down=4)
    channels.writer.emit(list(range(100)), None)
    channels.writer.flush()

    for target in range(4):
        assert all(subtask_of(key_group_of(str(v), 128), 128, 4) == target for v in channels.values(target))


def test_rebalance_starts_elsewhere_in_every_subtask():
    firsts = []
    for subtask in range(3):
        channels = Channels(Rebalance(), up=3, subtask=subtask)
        channels.writer.emit(["first"], None)
        channels.writer.flush()
        firsts.append([target for target in range(3) if channels.values(target)])

    assert firsts == [[0], [1], [2]]


@pytest.mark.parametrize(("up", "down"), [(1, 4), (2, 4), (4, 2), (3, 2), (2, 3), (5, 5)])
def test_rescale_gives_each_target_to_a_share_of_the_sources(up, down):
    reached = []
    for subtask in range(up):
        channels = Channels(Rescale(), up, down, subtask)
        channels.writer.emit(list(range(100)), None)
        channels.writer.flush()
        reached.append({target for target in range(down) if channels.values(target)})

    assert set().union(*reached) == set(range(down))
    assert all(len(targets) == 1 for targets in reached) or sum(map(len, reached)) == down


def test_a_block_leaves_when_it_is_full_and_the_rest_when_it_is_flushed():
    channels = Channels(Global(), down=1, records=4)

    channels.writer.emit([1, 2, 3], None)
    assert channels.values(0) == []
    channels.writer.emit([4, 5], None)
    assert channels.values(0) == [1, 2, 3, 4, 5]
    channels.writer.emit([6], None)
    assert channels.values(0) == [1, 2, 3, 4, 5]
    channels.writer.flush()
    assert channels.values(0) == [1, 2, 3, 4, 5, 6]


def test_blocks_of_large_records_become_short_and_grow_back():
    channels = Channels(Global(), down=1, records=64, size=10_000)

    for number in range(200):
        channels.writer.emit([str(number % 10) * 2_000 + str(number)], None)  # pickle knows equal strings again
    assert channels.sizes[-1] <= 5
    for _ in range(2_000):
        channels.writer.emit([0], None)
    assert channels.sizes[-1] == 64


def test_a_key_without_a_stable_hash_is_refused():
    channels = Channels(Hash(UserFunction(lambda value: object())))

    with pytest.raises(KeyNotHashable, match="type 'object'"):
        channels.writer.emit([1], None)


def test_an_unhashable_key_is_refused():
    channels = Channels(Hash(UserFunction(lambda value: [value])))

    with pytest.raises(InvalidProgram, match="key_by after operator 'upstream': unhashable type"):
        channels.writer.emit([1], None)


def test_a_type_error_of_the_key_selector_stays_what_it_is():
    channels = Channels(Hash(UserFunction(lambda value: value + "")))

    with pytest.raises(TypeError, match="unsupported operand"):
        channels.writer.emit([1], None)


@pytest.mark.parametrize("target", [-1, 3])
def test_a_partitioner_that_misses_is_refused(target):
    channels = Channels(Custom(UserFunction(lambda key, width: target), UserFunction(lambda value: value)))

    with pytest.raises(InvalidProgram, match=f"returned {target} for 'x'; it must be from 0 to 2"):
        channels.writer.emit(["x"], None)
