"""Barriers at a gate: the cut that a snapshot is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.columnar.block import RowBlock
from tests.support.barriers import AligningGate
from tests.support.receiver import Receiver


class Log(Receiver):
    """A receiver that writes down watermarks and the end as well."""

    def watermark(self, watermark):
        self.told.append(f"watermark {watermark}")

    def finish(self):
        self.told.append("finish")


A, B = (0, 0), (0, 1)


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def gate(log):
    return AligningGate(log, [(A, 0), (B, 0)])


def test_what_follows_a_barrier_waits_for_the_other_barriers(gate, log):
    gate.data(A, RowBlock(["a1"]))
    gate.barrier(A, 1)
    gate.data(A, RowBlock(["a2"]))
    gate.data(B, RowBlock(["b1"]))
    assert log.told == ["a1", "b1"]

    gate.barrier(B, 1)

    assert log.told == ["a1", "b1", "barrier 1", "a2"]


def test_watermarks_and_ends_wait_too(gate, log):
    gate.barrier(A, 1)
    gate.watermark(A, 5)
    gate.end(A)
    gate.watermark(B, 9)
    assert log.told == []

    gate.barrier(B, 1)

    assert log.told == ["barrier 1", "watermark 5", "watermark 9"]


def test_a_channel_that_has_ended_is_not_waited_for(gate, log):
    gate.end(A)

    gate.barrier(B, 1)

    assert log.told == ["barrier 1"]


def test_a_channel_that_idles_is_waited_for(gate, log):
    gate.idle(A, True)
    gate.barrier(B, 1)
    gate.data(A, RowBlock(["a1"]))
    gate.barrier(A, 1)

    assert log.told == ["a1", "barrier 1"]


def test_a_channel_that_ends_instead_of_its_barrier_completes_the_alignment(gate, log):
    gate.barrier(A, 1)
    gate.data(A, RowBlock(["a1"]))

    gate.end(B)

    assert log.told == ["barrier 1", "a1"]


def test_the_next_barrier_may_be_held_behind_the_first(gate, log):
    gate.barrier(A, 1)
    gate.data(A, RowBlock(["a1"]))
    gate.barrier(A, 2)
    gate.data(A, RowBlock(["a2"]))
    gate.barrier(B, 1)
    gate.data(B, RowBlock(["b1"]))
    assert log.told == ["barrier 1", "a1", "b1"]

    gate.barrier(B, 2)

    assert log.told == ["barrier 1", "a1", "b1", "barrier 2", "a2"]


def test_a_later_checkpoint_gives_up_an_earlier_one(gate, log):
    gate.barrier(A, 1)
    gate.data(A, RowBlock(["a1"]))
    gate.barrier(B, 2)
    assert log.told == ["a1"]

    gate.barrier(A, 2)
    gate.barrier(B, 1)

    assert log.told == ["a1", "barrier 2"]


def test_an_aborted_checkpoint_lets_through_what_was_held(gate, log):
    gate.barrier(A, 1)
    gate.data(A, RowBlock(["a1"]))

    gate.abort(1)
    gate.barrier(B, 1)

    assert log.told == ["a1"]


def test_at_least_once_holds_nothing(log):
    gate = AligningGate(log, [(A, 0), (B, 0)], align=False)

    gate.barrier(A, 1)
    gate.data(A, RowBlock(["a1"]))
    gate.barrier(B, 1)

    assert log.told == ["a1", "barrier 1"]


@given(data=st.data(), width=st.integers(1, 4), checkpoints=st.integers(1, 4))
def test_every_snapshot_is_the_cut_its_barriers_make(data, width, checkpoints):
    """Per channel: what came before barrier n is handled before snapshot n, the rest after it, and all in order."""
    sent = {
        channel: [
            item
            for n in range(1, checkpoints + 1)
            for item in [*[(channel, n, i) for i in range(data.draw(st.integers(0, 3)))], n]
        ]
        for channel in range(width)
    }
    log = Log()
    gate = AligningGate(log, [((0, channel), 0) for channel in range(width)])

    left = {channel: list(items) for channel, items in sent.items()}
    while any(left.values()):
        channel = data.draw(st.sampled_from([channel for channel, items in left.items() if items]))
        item = left[channel].pop(0)
        if isinstance(item, int):
            gate.barrier((0, channel), item)
        else:
            gate.data((0, channel), RowBlock([item]))

    assert [told for told in log.told if isinstance(told, str)] == [f"barrier {n}" for n in range(1, checkpoints + 1)]
    seen = 1
    for told in log.told:
        if isinstance(told, str):
            seen += 1
        else:
            assert told[1] == seen, f"{told} is on the wrong side of barrier {seen}"
    for channel in range(width):
        expected = [item for item in sent[channel] if not isinstance(item, int)]
        assert [told for told in log.told if told[0] == channel] == expected
