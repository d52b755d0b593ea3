"""The driver's half of a job: who waits for whom, which failure counts, what a second attempt repeats."""

import pickle
import threading

import pytest

from funken import NumberSequenceSource, Sink, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors.sink import Committer, PreparedCommittable
from funken.errors import JobExecutionError, OperatorFailed, TaskLost
from funken.operators.coordinators import AddSplits, Collector, RequestSplits
from funken.operators.sink import CollectSink
from funken.runtime.driver.master import JobMaster
from funken.runtime.messages import (
    CoordinatorEvent,
    OperatorEvent,
    TaskEnded,
    TaskFailed,
    TaskId,
    TaskOpening,
    TaskStarted,
)

SOURCE, SINK = TaskId(0, 0), TaskId(1, 0)


@pytest.fixture
def plan():
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    stream = env.from_source(NumberSequenceSource(1, 4), WatermarkStrategy.no_watermarks(), "numbers").rebalance()
    stream._sink("collect", CollectSink("out"))
    return env.compile("test")


@pytest.fixture
def sink(plan):
    return plan.vertices[-1].nodes[-1].id


@pytest.fixture
def collected(sink):
    return lambda task, *records: CoordinatorEvent(task, sink, payload=pickle.dumps([*records]), output=True)


def in_thread(call):
    """Start a call that is expected to wait."""
    done = threading.Event()
    result = []

    def run():
        result.append(call())
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return done, result


# ---- the collector


def fill(collector):
    """Put blocks until there is no room; return the call that waits."""
    number = 0
    while True:
        done, _ = in_thread(lambda number=number: collector.put([number]))
        if not done.wait(0.2):
            return done, number
        number += 1


def test_a_slow_reader_holds_the_writer_up():
    collector = Collector()
    waiting, last = fill(collector)

    assert collector.get() == [0]
    assert waiting.wait(10)
    assert [collector.get() for _ in range(last)] == [[n] for n in range(1, last + 1)]


def test_large_blocks_hold_the_writer_up_sooner():
    collector = Collector()
    for _ in range(2):
        collector.put([0] * 64_000)
    done, _ = in_thread(lambda: collector.put([1]))
    assert not done.wait(0.2)

    assert len(collector.get()) == 64_000
    assert done.wait(10)
    assert [len(collector.get()) for _ in range(2)] == [64_000, 1]


def test_closing_lets_the_writer_go_and_drops_everything():
    collector = Collector()
    waiting, _ = fill(collector)

    collector.close()

    assert waiting.wait(10)
    collector.put(["more"])
    assert collector.get() is None


def test_the_end_comes_after_the_last_block():
    collector = Collector()
    collector.put([1])
    collector.end()
    collector.end()

    assert [collector.get(), collector.get(), collector.get()] == [[1], None, None]


@pytest.mark.parametrize("wake", [Collector.end, Collector.close])
def test_a_reader_that_waits_is_woken(wake):
    collector = Collector()
    done, result = in_thread(collector.get)
    assert not done.is_set()

    wake(collector)

    assert done.wait(10)
    assert result == [None]


# ---- reports


def test_a_job_is_over_when_every_task_has_finished(plan):
    master = JobMaster(plan)
    for task in (SOURCE, SINK):
        master.handle(TaskStarted(task))
    assert master.all_started.is_set()

    master.handle(TaskEnded(SOURCE))
    assert not master.ended.is_set()
    master.handle(TaskEnded(SINK))
    assert master.ended.is_set()
    assert master.error is None


def test_splits_are_handed_out_once_and_again_to_a_second_attempt(plan):
    master = JobMaster(plan)
    source = plan.vertices[0].nodes[0].id

    def ask():
        sent = []
        master.send = lambda task, command: sent.append((task, command))
        master.handle(CoordinatorEvent(SOURCE, source, 0, RequestSplits()))
        ((task, command),) = sent
        assert task == SOURCE
        assert isinstance(command, OperatorEvent)
        assert isinstance(command.payload, AddSplits)
        return command.payload

    master.handle(TaskStarted(SOURCE))
    first = ask()
    assert first.splits
    assert ask().no_more

    master.handle(TaskStarted(SOURCE))
    assert ask().splits == first.splits
    assert ask().no_more


def test_the_first_failure_counts_unless_it_was_only_a_lost_worker(plan):
    cause, other = OperatorFailed("cause"), OperatorFailed("other")
    lost = TaskLost("lost")

    master = JobMaster(plan)
    master.handle(TaskFailed(SOURCE, error=lost, secondary=True))
    assert (master.error, master.ended.is_set()) == (lost, True)
    master.handle(TaskFailed(SINK, error=TaskLost("also lost"), secondary=True))
    assert master.error is lost
    master.handle(TaskFailed(SINK, error=cause))
    master.handle(TaskFailed(SOURCE, error=other))
    master.handle(TaskFailed(SOURCE, error=lost, secondary=True))
    assert master.error is cause


def test_what_breaks_after_a_cancel_is_no_failure(plan):
    master = JobMaster(plan)
    master.cancel()
    master.handle(TaskFailed(SOURCE, error=OperatorFailed("interrupted")))

    assert master.ended.is_set()
    assert master.error is None


def test_an_error_of_another_kind_becomes_one_of_the_job(plan):
    master = JobMaster(plan)
    master.fail(ValueError("odd"))

    assert isinstance(master.error, JobExecutionError)
    assert str(master.error) == "odd"


def printing():
    """A job whose source task prints; and the print sink."""
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    numbers = env.from_source(NumberSequenceSource(1, 4), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.print()
    numbers.rebalance().print()
    plan = env.compile("test")
    return plan, [vertex.nodes[-1].id for vertex in plan.vertices]


def printed(task, sink, line):
    return CoordinatorEvent(task, sink, payload=[line], output=True)


def test_output_is_held_until_its_task_has_finished(plan, collected, capsys):
    master = JobMaster(plan, hold=True)
    master.handle(TaskStarted(SINK))
    master.handle(collected(SINK, "from a first attempt"))
    master.handle(TaskStarted(SINK))  # Spark repeats the task
    master.handle(collected(SINK, "from the second"))
    assert not master.collectors["out"].waiting()

    master.handle(TaskEnded(SINK))

    assert master.collectors["out"].get() == ["from the second"]


def held_once(plan, *events):
    """A master of a job whose tasks Spark repeats, that both tasks have told of their start."""
    master = JobMaster(plan, hold=True)
    master.spark_retries = True
    for event in (TaskOpening(SOURCE), TaskStarted(SOURCE), *events):
        master.handle(event)
    return master


def test_a_failure_that_spark_may_make_up_for_does_not_end_the_job(plan):
    master = held_once(plan, TaskFailed(SOURCE, error=OperatorFailed("once")))
    assert (master.error, master.ended.is_set()) == (None, False)

    master.handle(TaskStarted(SOURCE))
    master.handle(TaskEnded(SOURCE))
    for error in (OperatorFailed("cause"), TaskLost("lost")):
        master.handle(TaskFailed(SINK, error=error, secondary=isinstance(error, TaskLost)))
    master.spark_gave_up()

    assert str(master.error) == "cause"


def test_what_a_task_prints_counts_once_though_it_is_repeated_after_it_has_finished(capsys):
    """Its executor was lost before anybody read what it wrote."""
    plan, (sink, _) = printing()
    master = held_once(plan)
    for text in ("first", "again"):
        master.handle(TaskOpening(SOURCE))
        master.handle(TaskStarted(SOURCE))
        master.handle(printed(SOURCE, sink, text))
        master.handle(TaskEnded(SOURCE))

    assert capsys.readouterr().out == "first\n"
    assert master.error is None


def test_what_waits_for_a_slow_reader_counts_already(plan, collected):
    master = held_once(plan, *[collected(SINK, number) for number in range(100)])
    waiting, _ = in_thread(lambda: master.handle(TaskEnded(SINK)))
    assert not waiting.wait(0.1)

    for event in (TaskStarted(SINK), collected(SINK, "again"), TaskEnded(SINK)):
        master.handle(event)

    out = master.collectors["out"]
    assert [out.get() for _ in range(100)] == [[number] for number in range(100)]
    assert waiting.wait(10)
    assert not out.waiting()


def test_a_task_that_others_have_read_cannot_be_repeated(plan):
    master = held_once(plan, TaskEnded(SOURCE), TaskOpening(SINK))

    master.handle(TaskOpening(SOURCE))

    assert isinstance(master.error, TaskLost)
    assert "Spark repeats stage 0, task 0, which had finished" in str(master.error)


class Recording(Sink):
    def __init__(self):
        self.told = []

    def committer(self, context):
        return Recorded(self.told)


class Recorded(Committer):
    def __init__(self, told):
        self.told = told

    def commit(self, requests):
        self.told.append(("commit", [request.committable for request in requests]))

    def abort(self, requests):
        self.told.append(("abort", [request.committable for request in requests]))


def test_what_a_void_attempt_prepared_is_dropped():
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    sink = Recording()
    numbers = env.from_source(NumberSequenceSource(1, 4), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.rebalance().sink_to(sink)
    plan = env.compile("test")
    writer = plan.vertices[-1].nodes[-1].id
    master = held_once(plan, TaskStarted(SINK))

    def prepared(name):
        return CoordinatorEvent(SINK, writer, payload=[PreparedCommittable("job", None, 0, name)], output=True)

    for event in (
        *(prepared("failed"), TaskStarted(SINK)),
        *(prepared("counts"), TaskEnded(SINK)),
        *(TaskStarted(SINK), prepared("too many"), TaskEnded(SINK), prepared("under way")),
    ):
        master.handle(event)
    assert sink.told == [("abort", ["failed"]), ("abort", ["too many"])]

    master.abandon()

    assert sink.told[2:] == [("abort", ["under way"]), ("abort", ["counts"])]


def test_a_slow_reader_does_not_keep_other_tasks_from_reporting(plan, collected):
    """What is held is delivered when its task finishes: that waits for the reader, a failure elsewhere must not."""
    master = JobMaster(plan, hold=True)
    for number in range(200):
        master.handle(collected(SINK, number))
    done, _ = in_thread(lambda: master.handle(TaskEnded(SINK)))
    assert not done.wait(0.2)

    failure, _ = in_thread(lambda: master.handle(TaskFailed(SOURCE, error=OperatorFailed("boom"))))

    assert failure.wait(10)
    assert isinstance(master.error, OperatorFailed)
    assert not done.is_set()
    master.coordinators.abandon()
    assert done.wait(10)


def test_what_a_reader_has_not_read_survives_the_attempt_and_what_waits_does_not(plan, collected):
    master = JobMaster(plan)
    master.handle(collected(SINK, "first"))
    waiting = [in_thread(lambda: master.handle(collected(SINK, "more")))[0] for _ in range(70)]
    assert not all(done.wait(0.05) for done in waiting)

    master.coordinators.abandon()

    assert all(done.wait(10) for done in waiting)
    again = JobMaster(plan, collectors=master.collectors)
    out = again.collectors["out"]
    assert out.get() == ["first"]
    again.handle(collected(SINK, "of the second attempt"))
    again.collectors.end()
    assert [*iter(out.get, None)][-1] == ["of the second attempt"]
