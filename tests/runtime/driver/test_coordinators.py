"""Operator coordinators: events both ways, their state in checkpoints, and what they are notified of."""

from dataclasses import dataclass

import pytest

from funken import StreamExecutionEnvironment
from funken.errors import JobExecutionError
from funken.operators.base import Operator
from funken.operators.coordinators import OperatorCoordinator
from funken.operators.wrappers import Converting
from funken.runtime.driver.local_runner import LocalRunner
from funken.runtime.driver.master import JobMaster
from funken.runtime.messages import CoordinatorEvent, OperatorEvent, TaskId, TaskStarted, TriggerCheckpoint

TASK = TaskId(0, 0)


class Numbering(OperatorCoordinator):
    """Gives each subtask that asks the next number."""

    def __init__(self, context, story):
        super().__init__(context)
        self.next, self.story = 0, story

    def start(self):
        self.story.append(("start", self.next))

    def handle_event(self, subtask, payload):
        self.next += 1
        self.story.append(("event", subtask, payload))
        self.context.worker.call_async(lambda: self.next, lambda found: self.context.send_event(subtask, found))

    def checkpoint(self, checkpoint_id):
        self.story.append(("checkpoint", checkpoint_id))
        return self.next

    def notify_checkpoint_complete(self, checkpoint_id):
        self.story.append(("complete", checkpoint_id))

    def reset_to_checkpoint(self, checkpoint_id, state):
        self.next = state

    def subtask_failed(self, subtask):
        self.story.append(("failed", subtask))

    def close(self):
        self.story.append(("close",))


class NumberedLogic(Operator):
    """Holds records back until it has a number."""

    def open(self):
        self.held, self.number = [], None
        self.context.send_event("a number, please")

    def process(self, values, timestamps):
        self.held += values
        self._release()

    def handle_operator_event(self, payload):
        self.number = payload
        self._release()

    def _release(self):
        if self.number is not None:
            held, self.held = self.held, []
            self.output.emit([(self.number, value) for value in held], None)


@dataclass(frozen=True)
class Numbered:
    story: list

    def build(self):
        return NumberedLogic()

    def coordinator(self, context):
        return Numbering(context, self.story)


def job(story, spec=None):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    numbers = env.from_collection([1, 2])
    numbers._apply("numbered", spec or Numbered(story))
    return env.job("test")


@pytest.fixture
def story():
    return []


@pytest.fixture
def master(story):
    made = job(story).master
    made.coordinators.threaded = False
    return made


def number_of(master):
    nodes = [node for vertex in master.plan.vertices for node in vertex.nodes]
    return next(node.id for node in nodes if node.name == "numbered")


def test_an_event_is_answered_under_the_lock(master, story):
    sent = []
    master.send = lambda task, command: sent.append((task, command))
    master.check()
    operator = number_of(master)

    master.handle(CoordinatorEvent(TASK, operator, 0, payload="please"))

    assert story == [("start", 0), ("event", 0, "please")]
    assert sent == [(TASK, OperatorEvent(operator, 0, 1))]


def test_the_state_is_that_of_the_moment_of_the_trigger(master, story):
    sent = []
    master.send = lambda task, command: sent.append(command)
    master.check()
    operator = number_of(master)
    master.handle(CoordinatorEvent(TASK, operator, 0))

    states = master.trigger([TASK], TriggerCheckpoint(5), 5)
    assert states[operator] == 1
    assert [type(command) for command in sent] == [OperatorEvent, TriggerCheckpoint]

    again = job(story).master
    again.coordinators.threaded = False
    again.coordinators.restore(states)
    again.check()
    assert story[-1] == ("start", 1)


def test_a_subtask_that_begins_again_is_reported(master, story):
    master.check()
    for _ in range(2):
        master.handle(TaskStarted(TASK))

    assert story[1:] == [("failed", 0)]


def test_an_operator_without_a_coordinator_sends_no_events(story):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    env.from_collection([1]).map(str).name("shout").print()
    plan = env.compile("test")
    shout = next(node.id for vertex in plan.vertices for node in vertex.nodes if node.name == "shout")

    master = JobMaster(plan)

    master.handle(CoordinatorEvent(TASK, shout, 0))

    assert "operator 'shout' sends an event, but has no coordinator" in str(master.error)


def test_an_event_for_a_subtask_that_does_not_exist_is_rejected(master):
    coordinator = master.coordinators._find(number_of(master))

    with pytest.raises(JobExecutionError, match=r"'numbered' sends an event to subtask 7, but .* subtasks 0 to 0"):
        coordinator.context.send_event(7, "hello")


@pytest.mark.parametrize("wrap", [lambda spec: spec, Converting])
def test_an_operator_and_its_coordinator_talk_in_a_job(story, wrap):
    made = job(story, wrap(Numbered(story)))
    LocalRunner().run(made)
    made.master.succeed()

    assert [entry[0] for entry in story] == ["start", "event", "close"]


def test_what_a_coordinator_raises_fails_the_job_with_its_operators_name(master):
    master.check()
    operator = number_of(master)
    coordinator = master.coordinators._find(operator)
    coordinator.handle_event = lambda subtask, payload: 1 / 0

    master.handle(CoordinatorEvent(TASK, operator, 0))

    assert str(master.error).startswith("the coordinator of operator 'numbered' failed: ZeroDivisionError")
    assert isinstance(master.error.__cause__, ZeroDivisionError)


def test_a_coordinator_that_cannot_be_closed_is_no_failure(master, caplog):
    master.check()
    master.coordinators._find(number_of(master)).close = lambda: 1 / 0

    master.close()

    assert master.error is None
    assert "the coordinator of operator 'numbered' cannot be closed: ZeroDivisionError" in caplog.text


def test_checkpoints_notify_coordinators(master, story):
    master.coordinators.notify_complete(3)

    assert story == [("complete", 3)]
