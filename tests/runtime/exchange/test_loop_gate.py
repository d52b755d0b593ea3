"""The gate of a head: what comes back is given to the operator, and decides nothing else."""

import pytest

from funken.columnar.block import RowBlock
from funken.ids import MAX_WATERMARK
from funken.runtime.exchange.gate import LoopGate

ONE, TWO, BACK, LATER = (0, 0), (0, 1), (5, 0), (5, 1)


class Chain:
    def __init__(self):
        self.told = []

    def process(self, index, block):
        self.told.append(block.rows()[0])

    def watermark(self, watermark):
        self.told.append(watermark)

    def finish(self):
        self.told.append("finish")

    def idle(self, idle):
        self.told.append("idle" if idle else "active")

    def end_input(self, *_):
        pass

    watermark_input = end_input


class Handler:
    def __init__(self):
        self.told = []

    def barrier(self, vertex, channel, checkpoint, unaligned):
        self.told.append((channel, checkpoint))

    def end(self, vertex, channel=None):
        self.told.append(("end", channel))

    def round(self, vertex, channel, number):
        self.told.append(("round", channel, number))


@pytest.fixture
def head():
    def made(root=True):
        chain, handler, blocked = Chain(), Handler(), set()
        gate = LoopGate(chain, [(ONE, 0), (TWO, 0)], [BACK, LATER], root)
        gate.connect(7, handler, blocked)
        return gate, chain, handler, blocked

    return made


def test_time_is_that_of_the_inputs(head):
    gate, chain, _, _ = head()
    gate.watermark(ONE, 5)
    gate.data(BACK, RowBlock(["back"]))
    gate.watermark(TWO, 3)
    assert chain.told == [["back"], 3]
    assert gate.came_back == 1


def test_a_head_whose_inputs_are_idle_stays_so_while_records_go_round(head):
    gate, chain, _, _ = head()
    gate.idle(ONE, True)
    gate.idle(TWO, True)
    gate.data(BACK, RowBlock(["back"]))
    assert chain.told == ["idle", ["back"], "idle"]
    gate.data(ONE, RowBlock(["new"]))
    gate.data(BACK, RowBlock(["again"]))
    assert chain.told[3:] == ["active", ["new"], ["again"]]


def test_a_root_holds_the_end_of_time_and_its_own_back(head):
    gate, chain, handler, _ = head()
    for channel in (ONE, TWO):
        gate.watermark(channel, MAX_WATERMARK)
        gate.end(channel)
    assert chain.told == []
    assert handler.told == [("end", ONE), ("end", TWO)]
    assert gate.inputs_ended and not gate.finished

    gate.data(BACK, RowBlock(["back"]))
    gate.end_event_time()
    gate.end_event_time()
    assert chain.told == [["back"], MAX_WATERMARK]

    gate.finish()
    assert chain.told[-1] == "finish"
    assert gate.finished and not gate.closed
    gate.end(BACK)
    gate.end(LATER)
    assert gate.closed


def test_a_head_inside_a_loop_ends_with_its_inputs(head):
    gate, chain, _, _ = head(root=False)
    gate.end(ONE)
    gate.end(TWO)
    assert chain.told == [MAX_WATERMARK, "finish"]


def test_what_comes_back_too_late_is_counted_and_dropped(head):
    gate, chain, _, _ = head()
    gate.end(ONE)
    gate.end(TWO)
    gate.finish()
    gate.data(BACK, RowBlock(["late", "later"]))
    assert gate.too_late == 2
    assert chain.told == [MAX_WATERMARK, "finish"]


def test_a_head_that_had_finished_in_an_attempt_before_gives_its_operators_nothing(head):
    gate, chain, _, _ = head()
    gate.over = True
    gate.data(BACK, RowBlock(["late"]))
    assert chain.told == [] and gate.too_late == 1


def test_a_head_that_is_stopped_holds_back_what_comes_back(head):
    gate, chain, handler, blocked = head()
    gate.connect_rounds(handler)
    blocked.update({BACK, LATER})
    gate.data(BACK, RowBlock(["back"]))
    gate.round(BACK, 2)
    gate.end(BACK)
    gate.data(ONE, RowBlock(["new"]))
    assert chain.told == [["new"]] and handler.told == []

    blocked.clear()
    gate.release()
    assert chain.told == [["new"], ["back"]]
    assert handler.told == [("round", BACK, 2), ("end", None)]
