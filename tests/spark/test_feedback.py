"""The way back between two workers: blocks arrive in order, the loop is woken, a lost worker is noticed."""

import threading
import time

import pytest

from funken.errors import TaskLost
from funken.runtime.messages import FeedbackAddress, FeedbackAddresses, TaskId
from funken.runtime.settings import FeedbackSettings
from funken.spark.control.tls import Credentials
from funken.spark.peers import Feedback, HeadMailbox
from funken.testing import local

BOUND = 30
HEAD, TAIL = TaskId(1, 0), TaskId(2, 0)


def plan():
    loop = local([1]).rebalance().iterate()
    loop.close_with(loop.key_by(abs).reduce(max).rebalance())
    loop.print()
    return loop.get_execution_environment().compile()


class Control:
    host = "127.0.0.1"

    def __init__(self):
        self.sent = []

    def send(self, event):
        self.sent.append(event)


@pytest.fixture
def workers():
    control, key, woken = Control(), Credentials(b"k" * 32), threading.Semaphore(0)
    head, tail = Feedback(HEAD, woken.release), Feedback(TAIL, lambda: None)
    for each in (head, tail):
        each.open(plan(), FeedbackSettings(memory=50), control, key)
    yield head, tail, control, woken
    head.close()
    tail.close()


class Task:
    work = False

    def __init__(self):
        self.received = []

    def receive(self, block):
        self.received.append(block)


class Inner:
    def __init__(self, task, blocks):
        self.task, self.blocks = task, blocks

    def empty(self):
        return not self.blocks

    def deliver(self):
        self.task.receive(self.blocks.pop(0))
        return True

    def processed(self):
        pass

    def flushes(self):
        return True


def connect(tail, control):
    assert tail.knows(FeedbackAddresses({event.task: event.address for event in control.sent}))


def test_blocks_come_back_in_order_and_beyond_the_budget(workers):
    head, tail, control, woken = workers
    assert [type(event) for event in control.sent] == [FeedbackAddress], "only heads listen"
    connect(tail, control)
    sent = [b"%03d" % n for n in range(100)]
    for block in sent:
        tail.send_back(HEAD, block)
    assert woken.acquire(timeout=BOUND)
    head.look(finished=False)
    task = Task()
    mailbox = head.mailbox(Inner(task, []), task)
    end = time.monotonic() + BOUND
    while len(task.received) < 100 and time.monotonic() < end:
        if not mailbox.empty():
            assert mailbox.deliver()
    assert task.received == sent


@pytest.mark.parametrize("next_is", ["a look", "a block"])
def test_what_is_sent_before_it_is_known_where_waits(workers, next_is):
    head, tail, control, woken = workers
    tail.send_back(HEAD, b"first")
    tail.look(finished=False)
    connect(tail, control)
    if next_is == "a look":
        tail.look(finished=False)
    else:
        tail.send_back(HEAD, b"second")
    assert woken.acquire(timeout=BOUND)
    assert head._lane.take() == b"first"


def test_what_came_back_goes_first_but_does_not_hold_up_new_input(workers):
    head, _, _, _ = workers
    task = Task()
    inner = Inner(task, [b"new 1", b"new 2"])
    mailbox = head.mailbox(inner, task)
    assert isinstance(mailbox, HeadMailbox)
    head.send_back(HEAD, b"back 1")
    assert head.polls(), "nothing was due"
    assert not head.polls(), "a block is"
    mailbox.deliver()
    head.send_back(HEAD, b"back 2")
    for _ in range(3):
        mailbox.deliver()
    assert task.received == [b"back 1", b"new 1", b"back 2", b"new 2"]
    task.work = True
    head.send_back(HEAD, b"back 3")
    assert mailbox.empty(), "it waits where it is while the task has something to do"


def test_a_head_that_is_gone_is_a_lost_task(workers):
    head, tail, control, _ = workers
    connect(tail, control)
    tail.send_back(HEAD, b"block")
    head.close()
    with pytest.raises(TaskLost, match="the connection to stage 1, task 0 has ended"):
        for _ in range(1000):
            tail.send_back(HEAD, b"x" * 65536)


def test_a_tail_that_is_gone_fails_the_head_unless_that_has_finished(workers):
    head, tail, control, woken = workers
    connect(tail, control)
    tail.send_back(HEAD, b"block")
    assert woken.acquire(timeout=BOUND)
    head.look(finished=False)
    tail.close()
    assert woken.acquire(timeout=BOUND)
    head.look(finished=True)
    with pytest.raises(TaskLost, match="the connection to stage 2, task 0 has ended"):
        head.look(finished=False)


def test_a_task_that_no_loop_concerns_neither_listens_nor_asks(workers):
    _, _, control, _ = workers
    source = Feedback(TaskId(0, 0), lambda: None)
    source.open(plan(), FeedbackSettings(), control, Credentials(b"k" * 32))
    inner = object()
    assert len(control.sent) == 1 and source.polls() and source.mailbox(inner, Task()) is inner
    source.close()
