"""What a worker of a continuous job adds for loops: connections over which tails send blocks back to heads.

Blocks from stage to stage go through Spark's shuffle, which has no way back. So a task with heads listens on an address of its
own, which it reports to the driver; the tails are told all of them when every task has started, and connect then
(``spark/barrier/peers.py``: authenticated, encrypted where the job is). A block that comes back is put into the task's lane,
by the thread that reads the connection, which waits for nothing but memory and disk. What a task sends back to itself goes
there at once.
"""

from __future__ import annotations

from collections.abc import Callable

from funken.plan.physical import PhysicalPlan
from funken.runtime.exchange.feedback_lane import FeedbackLane
from funken.runtime.messages import FeedbackAddress, FeedbackAddresses, TaskId
from funken.runtime.settings import FeedbackSettings
from funken.runtime.task.loop import Task
from funken.runtime.task.mailbox import Mailbox
from funken.spark.barrier.peers import Frame, Peers
from funken.spark.control.client import ControlClient
from funken.spark.control.credentials import Credentials


class Feedback:
    """The feedback of one task; ``notify`` has its loop call ``look``. Without a loop that concerns the task it does nothing."""

    def __init__(self, task: TaskId, notify: Callable[[], None]) -> None:
        self._task = task
        self._notify = notify
        self._notified = False
        self._error: Exception | None = None
        self._addresses: FeedbackAddresses | None = None
        self._connected: set[TaskId] = set()
        #: what is to be sent, while it is not known where
        self._unsent: list[tuple[TaskId, bytes]] = []
        self._lane: FeedbackLane | None = None
        self._peers: Peers | None = None
        self._numbers: dict[tuple[int, int], int] = {}
        self._names: dict[int, str] = {}

    def open(
        self, plan: PhysicalPlan, settings: FeedbackSettings, control: ControlClient, credentials: Credentials
    ) -> None:
        """Listen if the task hosts heads, and report where."""
        head = plan.head_tasks().get(self._task)
        if head is None and self._task not in plan.tail_tasks():
            return
        tasks = [TaskId(stage, index) for stage, width in enumerate(plan.widths) for index in range(width)]
        self._numbers = {task: number for number, task in enumerate(tasks)}
        self._names = dict(enumerate(map(str, tasks)))
        self._peers = Peers(
            self._numbers[self._task], control.host, credentials, self._receive, self._failed, self._names.__getitem__
        )
        if head is not None:
            self._lane = FeedbackLane.of(settings, head)
            control.send(FeedbackAddress(self._task, address=self._peers.address))

    def knows(self, command: object) -> bool:
        """Take the addresses of the heads; return whether the command was that. May be called by any thread."""
        if not isinstance(command, FeedbackAddresses):
            return False
        self._addresses = command
        self._notify()
        return True

    def send_back(self, head: TaskId, block: bytes) -> None:
        """Send a block back; raise ``TaskLost`` if the head's task is gone."""
        if head == self._task:
            assert self._lane is not None
            self._lane.put(block)
            return
        if self._addresses is None:  # what a snapshot holds may be sent before all tasks have started
            self._unsent.append((head, block))
            return
        self._send_unsent(self._addresses)
        self._send(head, block, self._addresses)

    def _send_unsent(self, known: FeedbackAddresses) -> None:
        unsent, self._unsent = self._unsent, []
        for head, block in unsent:
            self._send(head, block, known)

    def _send(self, head: TaskId, block: bytes, known: FeedbackAddresses) -> None:
        assert self._peers is not None
        number = self._numbers[head]
        if head not in self._connected:
            self._peers.connect_to(number, known.addresses[head])
            self._connected.add(head)
        self._peers.send(number, Frame(0, 0, 0, 0, block))

    def _receive(self, peer: int, frame: Frame) -> None:
        assert self._lane is not None
        self._lane.put(frame.data)
        if not self._notified:  # until the loop has looked, once is enough
            self._notified = True
            self._notify()

    def _failed(self, error: Exception) -> None:
        self._error = error
        self._notify()

    def look(self, finished: bool) -> None:
        """The loop is about to look at the lane; raise what has failed, unless the task has finished anyway."""
        self._notified = False
        if self._error is not None and not finished:
            raise self._error
        if self._unsent and self._addresses is not None:
            self._send_unsent(self._addresses)

    def polls(self) -> bool:
        """Whether the sources of the task may be polled: what had come back when they last were has been taken."""
        lane = self._lane
        if lane is None:
            return True
        if lane.due:
            return False
        lane.turn()
        return True

    def mailbox(self, inner: Mailbox, task: Task) -> Mailbox:
        """Return the mailbox of the task: its own, or one that also has what came back."""
        return inner if self._lane is None else HeadMailbox(inner, task, self._lane)

    def close(self) -> None:
        """Hang up."""
        if self._peers is not None:
            self._peers.close()


class HeadMailbox:
    """The mailbox of a task with heads: what had come back when new input was last taken goes before what is new."""

    def __init__(self, inner: Mailbox, task: Task, lane: FeedbackLane) -> None:
        self._inner = inner
        self._task = task
        self._lane = lane

    def empty(self) -> bool:
        """Whether nothing has arrived that the task should take; what came back may wait while blocks are queued."""
        return self._inner.empty() and (self._task.work or not len(self._lane))

    def deliver(self) -> bool:
        """Give something to the task; return whether the turn goes on."""
        if not self._task.work and (self._lane.due or (len(self._lane) and self._inner.empty())):
            self._task.receive(self._lane.take())
            return True
        goes_on = self._inner.deliver()
        self._lane.turn()
        return goes_on

    def processed(self) -> None:
        """A block was processed."""
        self._inner.processed()

    def flushes(self) -> bool:
        """Whether the task flushes in this turn if no block is queued."""
        return self._inner.flushes() and not len(self._lane)


__all__ = ["Feedback", "HeadMailbox"]
