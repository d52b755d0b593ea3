"""The task loop: long blocks of slow records are cut, and failures name who is to blame."""

import asyncio

import pytest

from funken import (
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    StateTtlConfig,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from funken.errors import OperatorFailed
from funken.runtime.exchange.gate import BlockKind, encode_records, pack_header
from funken.runtime.messages import MetricsReport, OperatorWarning, TaskEnded, TaskId
from funken.runtime.settings import TaskSettings
from funken.runtime.task.task import Task
from funken.timing.clock import ManualClock


class Bench:
    """The task of stage 1 in a program of two stages, fed by hand."""

    def __init__(self, build, parallelism=1, **settings):
        env = StreamExecutionEnvironment.create_local_environment(parallelism)
        self.clock = ManualClock(1_000)
        build(env.from_collection([0]).rebalance(), self.clock)
        self.plan = env.compile()
        self.reports = []
        self.task = Task(self.plan, TaskId(1, 0), TaskSettings(**settings), self.clock, self.reports.append)
        self.task.open()
        self.sequence = 0

    def block(self, kind, payload=b"", number=0):
        (edge,) = (edge for edge in self.plan.edges if not edge.local)
        self.sequence += 1
        self.task.receive(pack_header(kind, edge.id, 0, 0, self.sequence, number, 0.0, payload))

    def data(self, values):
        self.block(BlockKind.DATA, encode_records(values, None, "test", 0))

    def steps(self):
        """Work everything off; return how many ms each step took."""
        spent = []
        while self.task.work:
            before = self.clock.now()
            self.task.step()
            spent.append(self.clock.now() - before)
        return spent


def test_long_blocks_of_slow_records_are_cut():
    seen = []
    cost = 1  # ms per record

    def build(stream, clock):
        def slow(value):
            clock.advance(cost)
            seen.append(value)

        stream.map(slow)

    bench = Bench(build, block_records=1000)
    for start in (0, 1000):  # also when nothing is known yet
        bench.data([*range(start, start + 1000)])
        steps = bench.steps()
        assert max(steps) <= 20
        assert sum(steps) == 1000

    cost = 0  # they become quick: the pieces grow back
    for start in range(2000, 20_000, 1000):
        bench.data([*range(start, start + 1000)])
        steps = bench.steps()
    assert len(steps) == 1
    assert seen == [*range(20_000)]


def test_a_single_record_is_never_cut():
    bench = Bench(lambda stream, clock: stream.map(lambda value: clock.advance(500)), block_records=10)

    for _ in range(3):
        bench.data([1, 2])
        steps = bench.steps()

    assert steps == [500, 500]


class Remind(KeyedProcessFunction):
    """Wants to be called 5 s after each record."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 5000)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} at {timestamp}"


def reminding(before=lambda value, clock: None):
    """A task with ``Remind``; in front of it, or behind it, something slow."""
    seen = []

    def build(stream, clock):
        def see(value):
            before(value, clock)
            seen.append(value)

        stream.key_by(lambda value: value).process(Remind()).map(see)

    return Bench(build), seen


def test_a_timer_that_is_due_when_the_input_ends_fires():
    bench, seen = reminding()
    bench.data(["a", "b"])
    bench.steps()
    bench.clock.advance(5000)  # and nobody has asked the task to advance
    bench.block(BlockKind.END)
    bench.steps()

    assert seen == ["a at 6000", "b at 6000"]
    assert bench.task.finished


def test_a_timer_that_is_not_due_when_the_input_ends_is_dropped():
    bench, seen = reminding()
    bench.data(["a"])
    bench.steps()
    bench.clock.advance(4999)
    bench.block(BlockKind.END)
    bench.steps()

    assert seen == []
    assert bench.task.finished


def test_a_timer_that_is_due_fires_before_a_watermark_and_the_next_block():
    bench, seen = reminding()
    bench.data(["a"])
    bench.data(["b"])
    bench.task.step()
    bench.clock.advance(5000)
    bench.task.step()

    assert seen == ["a at 6000"]


def test_time_goes_on_within_a_block():
    """The clock of a function, and the lifetime of state, are those of the machine's clock."""
    seen = []

    class Slow(KeyedProcessFunction):
        def open(self, runtime_context):
            last = ValueStateDescriptor("last")
            last.enable_time_to_live(StateTtlConfig.new_builder(5000).build())
            self.last = runtime_context.get_state(last)

        def process_element(self, value, ctx):
            for _ in range(100):  # however often state is looked at, the next record has a time of its own
                last = self.last.value()
            seen.append((value, ctx.timer_service().current_processing_time(), last))
            self.last.update(value)
            bench.clock.advance(value)

    bench = Bench(lambda stream, clock: stream.key_by(lambda value: 0).process(Slow()))
    bench.data([4999, 5000, 1])
    bench.steps()

    assert seen == [(4999, 1000, None), (5000, 5999, 4999), (1, 10_999, None)]


def test_timers_fire_between_the_pieces_of_a_block_that_is_slow_further_down():
    """The first block is cut small, since nobody knows yet that each record takes 10 s."""
    seen = []

    def build(stream, clock):
        def slow(value):
            clock.advance(10_000)
            seen.append(value)
            return value

        class Both(Remind):
            def process_element(self, value, ctx):
                yield value
                super().process_element(value, ctx)

        stream.key_by(lambda value: 0).process(Both()).map(slow)

    bench = Bench(build)
    bench.data([*range(100)])
    bench.steps()

    first = seen.index("0 at 6000")
    assert first <= 16
    assert 0 < len(seen) - 100 <= 100


def test_the_end_closes_the_operators_and_then_is_told():
    told = []

    class Tell(MapFunction):
        def map(self, value):
            told.append(value)
            return value

        def close(self):
            told.append("closed")

    bench = Bench(lambda stream, clock: stream.map(Tell()))
    bench.data([1])
    bench.block(BlockKind.END)
    bench.steps()

    assert told == [1, "closed"]
    kinds = [type(event) for event in bench.reports if not isinstance(event, OperatorWarning)]  # of what it changes
    assert kinds == [MetricsReport, TaskEnded]
    assert bench.task.finished


def test_an_error_of_close_fails_the_job_only_if_nothing_else_did():
    class Fail(MapFunction):
        def map(self, value):
            raise ValueError("in map")

        def close(self):
            raise KeyError("in close")

    bench = Bench(lambda stream, clock: stream.map(Fail()).name("failing"))
    bench.data([1])
    with pytest.raises(OperatorFailed, match="in map"):
        bench.steps()
    bench.task.close()

    bench = Bench(lambda stream, clock: stream.map(Fail()).name("failing"))
    bench.block(BlockKind.END)
    with pytest.raises(OperatorFailed, match="KeyError: 'in close'"):
        bench.steps()


OWN = type("Own", (BaseException,), {})


class Close(MapFunction):
    """Tells when it is closed, and then raises."""

    def __init__(self, closed, name, error=None):
        self.closed, self.name, self.error = closed, name, error

    def map(self, value):
        return value

    def close(self):
        self.closed.append(self.name)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, OWN])
def test_every_operator_is_closed_and_the_first_error_is_told(error):
    closed = []

    def build(stream, clock):
        first = stream.map(Close(closed, "a", error("in a"))).name("first")
        first.map(Close(closed, "b", KeyError("in b"))).map(Close(closed, "c"))

    bench = Bench(build)
    bench.block(BlockKind.END)
    with pytest.raises(OperatorFailed, match=rf"'first'.*{error.__name__}: in a"):
        bench.steps()

    assert sorted(closed) == ["a", "b", "c"]


@pytest.mark.parametrize("ended", [True, False])
def test_ctrl_c_in_a_close_is_told_once_all_are_closed(ended):
    closed = []

    def build(stream, clock):
        stream.map(Close(closed, "a", ValueError())).map(Close(closed, "b", KeyboardInterrupt())).map(
            Close(closed, "c")
        )

    bench = Bench(build)
    if ended:
        bench.block(BlockKind.END)
    with pytest.raises(KeyboardInterrupt):
        bench.steps()
        bench.task.close()

    assert sorted(closed) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        StopIteration("early"),
        ValueError(lambda: 1),
        GeneratorExit("x"),
        asyncio.CancelledError(),
        OWN("x"),
    ],
)
def test_whatever_a_function_raises_is_blamed_on_it(error):
    def explode(value):
        raise error

    bench = Bench(lambda stream, clock: stream.map(str).map(explode).name("culprit").print())
    bench.data([1])

    with pytest.raises(OperatorFailed) as caught:
        bench.steps()
    assert caught.value.operator == "culprit"
    assert f"operator 'culprit' (subtask 0) failed at the record '1': {type(error).__name__}: " in str(caught.value)


@pytest.mark.parametrize("way", ["map", "filter"])
@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_the_record_that_a_function_failed_at_is_named(way, culprit):
    def explode(value):
        if value == culprit:
            raise ValueError
        return True

    bench = Bench(lambda stream, clock: getattr(stream, way)(explode))
    bench.data([0, 1, 2])

    with pytest.raises(OperatorFailed, match=f"failed at the record {culprit}: ValueError"):
        bench.steps()


def test_a_record_is_not_blamed_for_what_happens_to_the_block_it_was_in():
    bench = Bench(lambda stream, clock: stream.map(lambda value: value).process(Refuse()).name("later"))
    bench.data([1, 2])

    with pytest.raises(OperatorFailed, match="operator 'later' \\(subtask 0\\) failed at the record 1: KeyError"):
        bench.steps()


class Refuse(ProcessFunction):
    def process_element(self, value, ctx):
        raise KeyError(value)
