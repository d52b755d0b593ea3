"""How many records a source reads at once: more where columns are computed, as long as what is called is quick."""

import cloudpickle
import pytest

from funken import DiscardingSink, NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.runtime.messages import TaskId
from funken.runtime.settings import TaskSettings
from funken.runtime.task.subtasks import COLUMNS_FACTOR, MIXED_FACTOR
from funken.runtime.task.task import Task
from funken.timing.clock import ManualClock

BLOCK, NUMBERS = 100, NumberSequenceSource(0, 100_000)


def called(value):
    return ("9" in value) is not BLOCK  # which is not traced


def pieces(build, cost=0.0):
    """Run a task of one source; return how many records it read at each poll once it is warm."""
    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = env.from_source(NUMBERS, WatermarkStrategy.no_watermarks(), "numbers")
    build(numbers).sink_to(DiscardingSink())
    clock = ManualClock(0)
    plan = cloudpickle.loads(cloudpickle.dumps(env.compile()))
    task = Task(plan, TaskId(0, 0), TaskSettings(block_records=BLOCK), clock, lambda event: None)
    task.open()
    (subtask,) = task.subtasks.values()
    subtask.source.add_splits(NUMBERS.enumerator(1).next_splits(0), no_more=True)
    emit = subtask.source.poll
    sizes = []

    def poll(room, now):
        before = subtask.source.records
        found = emit(room, now)
        sizes.append(subtask.source.records - before)
        clock.advance(round(sizes[-1] * cost * 1000))
        return found

    subtask.source.poll = poll
    for _ in range(30):
        task.poll()
    return sizes[10:]


def traced(numbers):
    return numbers.map(lambda i: f"line {i}").filter(lambda line: "9" in line)


def mixed(numbers):
    return numbers.map(lambda i: f"line {i}").filter(called)


@pytest.mark.parametrize(
    ("build", "cost", "size"),
    [
        (traced, 0.0, COLUMNS_FACTOR * BLOCK),
        (mixed, 0.0, MIXED_FACTOR * BLOCK),
        (mixed, 1e-5, BLOCK),
        (lambda numbers: numbers.map_block(lambda block: [f"line {i}" for i in block]).filter(called), 0.0, BLOCK),
    ],
    ids=["columns", "some columns", "some columns, and a slow function", "none"],
)
def test_what_works_on_columns_gets_more_at_once(build, cost, size):
    assert set(pieces(build, cost)) == {size}
