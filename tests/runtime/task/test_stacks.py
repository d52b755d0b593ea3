"""What the functions of a job do, seen while one does not return, and without stopping it."""

import gc
import os
import threading
import time

import pytest

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.runtime.driver import diagnosis as driver_stacks
from funken.runtime.messages import TaskId
from funken.runtime.process import process_status
from funken.runtime.task.stacks import StackSampler
from tests.support.blocking import LET_GO, REACHED, reach_and_wait

BOUND = 30
TASK = TaskId(1, 0)


@pytest.fixture
def blocked(monkeypatch):
    """A job whose function waits for somebody."""
    monkeypatch.setattr(driver_stacks, "SAMPLE_SECONDS", 0.1)
    LET_GO.clear()
    REACHED.clear()
    conf = Configuration({"execution.target": "local", "parallelism.default": 1})
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    numbers = env.from_source(DataGeneratorSource(int, None, 1000), WatermarkStrategy.no_watermarks(), "numbers")
    prices = numbers.uid("numbers").rebalance().map(reach_and_wait).name("price").uid("price")
    prices.for_each(lambda number: None).uid("end")
    client = env.execute_async("prices")
    assert REACHED.wait(BOUND)
    yield client
    LET_GO.set()
    client.cancel().result(timeout=BOUND)


def sampled(client, task):
    client.stacks().request([task])
    until = time.monotonic() + BOUND
    while not (found := client.stacks().newest([task])) and time.monotonic() < until:
        threading.Event().wait(0.01)
    return found[0]


def test_a_function_that_does_not_return_is_on_the_stack_of_its_operator(blocked):
    found = sampled(blocked, TASK)

    (stack,) = [each for each in found.stacks if any("reach_and_wait" in name for name in each.functions)]
    assert (stack.operator, stack.subtask, stack.on_cpu) == ("price", 0, False)
    assert any(name.startswith("Task.step (runtime/task/task.py:") for name in stack.functions)
    assert found.stacks[stack] >= 2


def test_threads_are_dumped_and_a_task_that_is_not_there_costs_the_time_only(blocked):
    begun = time.monotonic()
    dumps = blocked.stacks().threads([TASK, TaskId(9, 9)], 0.3)
    (job,) = [each for each in dumps[0].threads if each.name.startswith("funken-job")]

    assert time.monotonic() - begun < BOUND
    assert {each.pid for each in dumps} == {os.getpid()}
    assert job.text.index("reach_and_wait") < job.text.index("LocalLoop.turn")


def test_a_thread_that_computes_is_on_the_cpu():
    made, done, found = [], threading.Event(), []

    def compute():
        made.append(StackSampler())
        while not done.is_set():
            sum(range(2000))

    thread = threading.Thread(target=compute)
    thread.start()
    while not made:
        threading.Event().wait(0.001)
    for _ in range(20):  # the lock of the interpreter may be another thread's for a while
        found.append(made[0].sample(0.3))
        if any(stack.on_cpu for stack in found[-1]):
            break
    done.set()
    thread.join()

    assert any(stack.on_cpu and "compute" in stack.functions[-1] for stack in found[-1])
    assert all((stack.operator, stack.subtask) == ("", -1) for stack in found[-1])


def test_the_status_of_a_process_is_that_of_this_one_and_is_kept_for_a_moment():
    status = process_status()
    gc.collect()

    assert (status.pid, status.cores) == (os.getpid(), os.cpu_count())
    assert 0 < status.resident < status.physical_memory
    assert 0 <= status.cpu_load <= 1
    assert process_status() is status or process_status().collections > status.collections
