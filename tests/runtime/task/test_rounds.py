"""The markers of a loop in one task: when they are sent on, what they say, and what a head reports."""

from dataclasses import dataclass, field

import pytest

from funken.columnar.block import RowBlock
from funken.plan.nodes import Hash
from funken.runtime.exchange.gate import InputGate, LoopGate
from funken.runtime.messages import LoopEnd, LoopReported, LoopRound, TaskId
from funken.runtime.task.checkpoint_machine import LoopEnded, LoopEnding
from funken.runtime.task.task import TaskRounds
from funken.testing import local

TASK = TaskId(1, 0)


def plan():
    """[0] source -> [1] head -> [2] body, which also reads [3] others, and feeds back."""
    loop = local([1]).rebalance().iterate()
    others = loop.get_execution_environment().from_collection([2]).rebalance()
    body = loop.rebalance().union(others).process(lambda n, ctx: [n])
    loop.close_with(body.key_by(abs))
    body.rebalance().print()
    return loop.get_execution_environment().compile()


PLAN = plan()
EDGES = {
    (PLAN.vertices[edge.source].nodes[-1].kind, PLAN.vertices[edge.target].nodes[0].kind): edge for edge in PLAN.edges
}
INTO, AGAIN, ASIDE, BACK, OUT = (
    EDGES[pair]
    for pair in (
        ("source CollectionSource", "iterate"),
        ("iterate", "process"),
        ("source CollectionSource", "process"),
        ("process", "iterate"),
        ("process", "print"),
    )
)


@dataclass
class Output:
    edge: object
    rounds: list = field(default_factory=list)

    def round(self, number):
        self.rounds.append(number)


class Chain:
    waits = False

    def __init__(self):
        self.told = []

    def awaits_results(self):
        return self.waits

    def process(self, index, block):
        self.told.append(block.rows()[0])

    def watermark(self, watermark):
        self.told.append("end of time")

    def finish(self):
        self.told.append("finish")

    def end_input(self, *_):
        pass

    watermark_input = idle = end_input


class Handler:
    def barrier(self, *_):
        pass

    end = barrier


class Subtask:
    def __init__(self, vertex, chain, gate, outputs):
        self.vertex, self.chain, self.gate, self.outputs = vertex, chain, gate, outputs


class Shell:
    """A task with the head and one with the body of a loop."""

    def __init__(self):
        self.reports, self.events = [], []
        self.chains = [Chain(), Chain()]
        self.head = LoopGate(self.chains[0], [((INTO.id, 0), 0)], [(BACK.id, 0), (BACK.id, 1)], root=True)
        self.body = InputGate(self.chains[1], [((AGAIN.id, 0), 0), ((AGAIN.id, 1), 0), ((ASIDE.id, 0), 0)])
        self.again, self.back, self.out = Output(AGAIN), Output(BACK), Output(OUT)
        subtasks = {
            INTO.target: Subtask(PLAN.vertices[INTO.target], self.chains[0], self.head, [self.again]),
            BACK.source: Subtask(PLAN.vertices[BACK.source], self.chains[1], self.body, [self.back, self.out]),
        }
        for number, subtask in subtasks.items():
            subtask.gate.connect(number, Handler(), set())
        self.rounds = TaskRounds(TASK, PLAN, subtasks, self.reports.append, self.events.append)


@pytest.fixture
def shell():
    return Shell()


def report(number, records=0, busy=False):
    return LoopReported(TASK, -1, 0, INTO.target, number, records, busy)


def test_the_plan_is_what_the_tests_take_it_for():
    assert isinstance(BACK.partitioning, Hash) and BACK.feedback
    assert AGAIN.loop is not None and ASIDE.loop is None and OUT.loop is None


def test_a_vertex_sends_a_marker_on_when_it_came_by_all_of_the_loop_and_the_rest_has_ended(shell):
    shell.body.round((AGAIN.id, 0), 2)
    shell.body.round((AGAIN.id, 1), 2)
    assert shell.back.rounds == []
    shell.body.end((ASIDE.id, 0))
    assert shell.back.rounds == [2]
    assert shell.out.rounds == [], "what is behind the loop has no part in it"
    shell.body.round((AGAIN.id, 1), 4)
    assert shell.back.rounds == [2]
    shell.body.end((AGAIN.id, 0))
    assert shell.back.rounds == [2, 4]


def test_a_marker_says_that_an_operator_waits_for_results(shell):
    shell.body.end((ASIDE.id, 0))
    shell.body.round((AGAIN.id, 0), 2)
    shell.body.round((AGAIN.id, 1), 3)
    assert shell.back.rounds == [3], "one before it has said so"
    shell.chains[1].waits = True
    for channel in range(2):
        shell.body.round((AGAIN.id, channel), 4)
    assert shell.back.rounds == [3, 5]


def test_a_head_reports_the_end_of_its_inputs_and_what_each_round_brings_back(shell):
    shell.head.data((BACK.id, 0), RowBlock(["early"]))
    shell.head.end((INTO.id, 0))
    assert shell.reports == [report(0)]
    shell.rounds.handle(LoopRound(INTO.target, 1))
    assert shell.again.rounds == [2]
    shell.head.round((BACK.id, 0), 2)
    shell.head.data((BACK.id, 1), RowBlock(["a", "b"]))
    assert len(shell.reports) == 1
    shell.head.round((BACK.id, 1), 3)
    assert shell.reports[1:] == [report(1, records=3, busy=True)]
    shell.rounds.handle(LoopRound(INTO.target, 2, ends_time=True))
    assert shell.chains[0].told[-1] == "end of time" and shell.again.rounds == [2, 4]
    for channel in range(2):
        shell.head.round((BACK.id, channel), 4)
    assert shell.reports[2:] == [report(2)]


def test_a_head_is_closed_when_the_end_has_come_back(shell):
    shell.head.end((INTO.id, 0))
    shell.rounds.handle(LoopEnd(INTO.target))
    assert shell.chains[0].told == ["end of time", "finish"]
    assert shell.events == [LoopEnding(INTO.target)]
    shell.head.end((BACK.id, 0))
    assert not shell.rounds.closed
    shell.head.end((BACK.id, 1))
    assert shell.rounds.closed
    assert shell.events == [LoopEnding(INTO.target), LoopEnded(INTO.target)]
