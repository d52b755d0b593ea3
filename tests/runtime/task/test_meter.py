"""What a task measures of itself, with its clock in the test's hand."""

import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.runtime.messages import TaskId
from funken.runtime.settings import TaskSettings
from funken.runtime.task.task import Task
from funken.timing.clock import ManualClock

CLOCK = ManualClock(0)


def spend(value):
    """A function that takes 100 ms per record."""
    CLOCK.advance(100)
    return value


def tasks():
    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = env.from_source(DataGeneratorSource(lambda i: i, 100), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda n: n).rebalance().map(spend).for_each(lambda n: None)
    plan = env.compile()
    made = [Task(plan, TaskId(stage, 0), TaskSettings(block_records=10), CLOCK, lambda event: None) for stage in (0, 1)]
    for task in made:
        task.open()
    source = next(iter(made[0].subtasks.values())).source
    source.add_splits(DataGeneratorSource(lambda i: i, 100).enumerator(1).next_splits(0), no_more=True)
    return made


def of(task):
    (metrics,) = task.measured().vertices.values()
    return metrics


def test_a_subtask_is_busy_while_its_functions_work():
    first, second = tasks()
    first.poll()
    first.flush()
    for _, data in first.outbox:
        second.receive(data)
    while second.work:
        second.step()

    read = of(first).records_in
    assert read and of(first).records_out == of(second).records_in == read
    assert of(second).busy == pytest.approx(read * 0.1) and of(first).busy == 0.0
    assert of(first).bytes_out == of(second).bytes_in == sum(len(data) for _, data in first.outbox)
    assert second.measured().at == CLOCK.monotonic()


def test_a_source_that_has_to_pause_is_back_pressured(monkeypatch):
    first, _ = tasks()
    monkeypatch.setattr(first.throttle, "pause", lambda: 50)
    first.poll()
    CLOCK.advance(300)
    first.poll()
    CLOCK.advance(200)
    assert of(first).back_pressured == 0.5  # it still pauses

    monkeypatch.setattr(first.throttle, "pause", lambda: 0)
    first.poll()
    CLOCK.advance(1000)

    assert of(first).back_pressured == 0.5


def test_output_that_is_not_taken_counts_for_every_subtask():
    first, second = tasks()
    second.meter.blocked += 2.0

    assert of(second).back_pressured == 2.0 and of(first).back_pressured == 0.0
