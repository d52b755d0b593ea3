"""When partly filled blocks leave: each operator's own buffer timeout, under virtual time."""

import pytest

from funken import (
    DataGeneratorSource,
    InvalidProgram,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.runtime.exchange.gate import BlockKind, decode_records, read_header
from funken.runtime.messages import TaskId
from funken.runtime.settings import TaskSettings
from funken.runtime.task.task import Task
from funken.timing.clock import ManualClock


class Upstream:
    """The task of a source whose operator ``middle`` has a buffer timeout, and what it has sent."""

    def __init__(self, timeout, default=10):
        env = StreamExecutionEnvironment.create_local_environment(1)
        numbers = env.from_source(DataGeneratorSource(lambda i: i, 100, 1000), WatermarkStrategy.no_watermarks())
        middle = numbers.map(lambda n: n)
        if timeout is not None:
            middle.set_buffer_timeout(timeout)
        middle.rebalance().map(lambda n: n)
        self.clock = ManualClock(1_000)
        plan = env.compile()
        assert [vertex.stage for vertex in plan.vertices] == [0, 1], "a timeout breaks no chain"
        settings = TaskSettings(block_records=8, buffer_timeout=default)
        self.reports = []
        self.task = Task(plan, TaskId(0, 0), settings, self.clock, self.reports.append)
        self.task.open()
        self.task.poll()
        operator = self.reports.pop().operator
        source = self.task.subtasks[0].source
        source.add_splits([plan.vertices[0].nodes[0].spec.source.enumerator(1).next_splits(0)[0]], no_more=True)
        assert operator == plan.vertices[0].nodes[0].id

    def pass_time(self, millis):
        """Let the source read what is due by then."""
        self.clock.advance(millis)
        due = self.task.advance()
        self.task.poll()
        self.task.advance()
        return due

    def sent(self):
        blocks = [data for _, data in self.task.outbox if read_header(data).kind == BlockKind.DATA]
        self.task.outbox.clear()
        return [len(decode_records(block)) for block in blocks]


def test_nothing_waits_with_a_timeout_of_0():
    upstream = Upstream(0)

    upstream.pass_time(3)

    assert upstream.sent()
    assert upstream.task.take_urgent_flush(), "no buffer after this one may hold it back either"
    assert not upstream.task.take_urgent_flush()


def test_records_wait_as_long_as_their_operator_says_and_no_longer():
    upstream = Upstream(50)
    upstream.pass_time(3)

    upstream.task.flush()
    assert upstream.sent() == [], "the environment's timeout is another's"
    assert upstream.task.advance() == 1_053, "the loop knows when to come back"
    upstream.clock.set(1_052)
    upstream.task.advance()
    assert upstream.sent() == []

    upstream.clock.set(1_053)
    upstream.task.advance()

    assert upstream.sent()
    assert upstream.task.take_urgent_flush()


@pytest.mark.parametrize(("timeout", "default"), [(-1, 10), (None, -1)])
def test_without_a_timeout_only_full_blocks_leave_and_what_a_watermark_pushes(timeout, default):
    upstream = Upstream(timeout, default)
    upstream.pass_time(3)
    upstream.clock.advance(10_000)
    upstream.task.advance()
    upstream.task.flush()
    assert upstream.sent() == []

    upstream.pass_time(0)
    (size,) = upstream.sent()
    assert size >= 8, "the block is full"
    upstream.pass_time(3)
    upstream.task.subtasks[0].chain.watermark(5)

    assert len(upstream.sent()) == 1


@pytest.mark.parametrize(("timeout", "default"), [(None, 10), (1000, 10), (None, -1)])
def test_what_waits_for_a_timeout_has_an_age(timeout, default):
    upstream = Upstream(timeout, default)
    flushing = upstream.task.flushing
    assert flushing.oldest == float("inf")
    upstream.pass_time(3)
    first = upstream.clock.wall()
    upstream.pass_time(2)
    assert flushing.oldest == (first if default > 0 else float("inf")), "no full block is sent any earlier"
    upstream.task.flush()
    assert flushing.oldest == (first if timeout else float("inf"))
    flushing.flush_timed()
    assert flushing.oldest == float("inf")


def test_while_a_window_holds_the_source_back_what_waits_for_long_is_sent():
    upstream = Upstream(None)
    upstream.pass_time(3)
    throttle, read = upstream.task.throttle, len(upstream.task.outbox)
    held, throttle.pause = [], lambda: 7
    throttle.must_send = lambda oldest: held.append(upstream.clock.wall() - oldest) or held[-1] >= 0.02
    for _ in range(10):
        upstream.clock.advance(3)
        assert upstream.task.poll() == 7
    assert held[:7] == pytest.approx([0.003 * turn for turn in range(1, 8)])
    assert held[7:] == [float("-inf")] * 3
    assert len(upstream.task.outbox) > read
    assert upstream.task.take_urgent_flush()


def test_the_environments_timeout_is_the_loops_affair():
    upstream = Upstream(None)
    upstream.pass_time(3)
    assert upstream.sent() == []

    upstream.task.flush()

    assert upstream.sent()
    assert not upstream.task.take_urgent_flush()


def test_a_timeout_below_minus_1_is_refused():
    env = StreamExecutionEnvironment.create_local_environment(1)

    with pytest.raises(InvalidProgram, match="-2 ms: give -1, 0, a duration or"):
        env.from_collection([1]).map(str).set_buffer_timeout(-2)


def test_columns_wait_as_long_as_their_operator_says_and_no_longer():
    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks())
    pairs = numbers.map(lambda n: (n % 10, n)).set_buffer_timeout(50)
    pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    plan, clock = env.compile(), ManualClock(1_000)
    task = Task(plan, TaskId(0, 0), TaskSettings(block_records=2000), clock, lambda event: None)
    task.open()
    task.subtasks[0].source.add_splits(
        [plan.vertices[0].nodes[0].spec.source.enumerator(1).next_splits(0)[0]], no_more=False
    )
    task.poll()
    assert task.advance() == 1_050, "the loop knows when to come back"
    assert not task.outbox

    clock.set(1_050)
    task.advance()

    [(_, data)] = task.outbox
    assert len(decode_records(data)) == 100
    assert type(decode_records(data)).__name__ == "Columns"
