"""Connections between the workers of a stage: one authenticated TCP connection per ordered pair, frames of bytes on it.

A worker listens on the address at which it reaches the driver, and proves the job's key as on a control connection
(``spark/control/channel.py``). Each inbound connection has a thread that hands every frame to ``receive``, which must not wait
for anything but memory and disk: then no sender waits for a consumer, and the connections cannot deadlock. A frame that is
damaged, and a peer that hangs up before ``close``, are given to ``failed``.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from funken.errors import MessageTooLarge, TaskLost, TransferCorrupted
from funken.plan.physical import PhysicalPlan
from funken.runtime.exchange.gate import FeedbackLane
from funken.runtime.messages import FeedbackAddress, FeedbackAddresses, TaskId
from funken.runtime.settings import FeedbackSettings
from funken.runtime.task.task import Mailbox, Task
from funken.spark.control.channel import LARGEST, Address, ControlClient, connect
from funken.spark.control.server import Acceptor
from funken.spark.control.tls import Connection, Credentials

_HELLO = struct.Struct("!I")
_HEADER = struct.Struct("!BQIIII")
_BUFFER = 256 * 1024


class Frame(NamedTuple):
    """A message between workers: the program defines ``kind``, ``edge``, ``superstep`` and ``records``."""

    kind: int
    edge: int
    superstep: int
    records: int
    data: bytes


Receive = Callable[[int, Frame], None]


class Peers:
    """One worker's connections. ``send`` may be called from several threads."""

    def __init__(
        self, index: int, host: str, credentials: Credentials, receive: Receive, failed: Callable[[Exception], None],
        name: Callable[[int], str] = "worker {}".format,
    ) -> None:  # fmt: skip
        self._index = index
        self._credentials = credentials
        self._receive = receive
        self._failed = failed
        self._name = name
        self._closing = False
        self._lock = threading.Lock()
        self._inbound: list[Connection] = []
        self._outbound: dict[int, tuple[Connection, threading.Lock]] = {}
        self._acceptor = Acceptor((host, 0), credentials, self._admit)
        self.address: Address = (host, self._acceptor.address[1])

    def connect(self, addresses: Sequence[Address]) -> None:
        """Connect to every other worker; raise ``TaskLost`` if one cannot be reached."""
        for peer, address in enumerate(addresses):
            if peer != self._index:
                self.connect_to(peer, address)

    def connect_to(self, peer: int, address: Address) -> None:
        """Connect to one other worker; raise ``TaskLost`` if it cannot be reached."""
        connection = connect(address, self._credentials, self._name(peer))
        with self._lock:
            self._outbound[peer] = connection, threading.Lock()
        connection.sendall(_HELLO.pack(self._index))

    def send(self, peer: int, frame: Frame) -> None:
        """Send a frame; raise ``TaskLost`` if the peer is gone."""
        if len(frame.data) > LARGEST:
            raise MessageTooLarge(
                f"a block of {len(frame.data):,} bytes cannot be sent to another worker, which takes up to {LARGEST:,}. "
                "Make smaller records."
            )
        connection, lock = self._outbound[peer]
        header = _HEADER.pack(*frame[:4], len(frame.data), zlib.crc32(frame.data))
        try:
            with lock:
                connection.sendall(header)
                if frame.data:
                    connection.sendall(frame.data)
        except OSError as error:
            raise self._lost(peer, str(error)) from error

    # ---- the threads

    def _admit(self, connection: Connection) -> None:
        with self._lock:
            if self._closing:  # meanwhile, in the TLS handshake
                connection.close()
                return
            self._inbound.append(connection)
        threading.Thread(target=self._serve, args=(connection,), name="funken-peer", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        peer = -1
        try:
            with connection.makefile("rb", _BUFFER) as stream:
                (peer,) = _HELLO.unpack(_exactly(stream.read, _HELLO.size))
                while True:
                    kind, edge, superstep, records, size, checksum = _HEADER.unpack(_exactly(stream.read, _HEADER.size))
                    data = _exactly(stream.read, min(size, LARGEST)) if size else b""
                    if zlib.crc32(data) != checksum:
                        raise TransferCorrupted(
                            f"a block of {size:,} bytes from {self._name(peer)} was changed on its way: its checksum "
                            "does not match. "
                            "Check the network and the memory of the machines."
                        )
                    self._receive(peer, Frame(kind, edge, superstep, records, data))
        except (OSError, ValueError, EOFError) as error:
            if not self._closing:
                self._failed(self._lost(peer, str(error)))
        except Exception as error:  # noqa: BLE001 - a full disk, for example: it fails the worker, not this thread alone
            self._failed(error)

    def _lost(self, peer: int, why: str) -> TaskLost:
        return TaskLost(
            f"the connection to {self._name(peer)} has ended ({why}): it has failed, was killed, or cannot be reached.",
            subtask=peer,
        )

    def close(self) -> None:
        """Hang up on everybody, and stop listening."""
        self._closing = True
        self._acceptor.close()
        with self._lock:
            everything = [*self._inbound, *(connection for connection, _ in self._outbound.values())]
        for connection in everything:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    data = read(size)
    if len(data) < size:
        raise EOFError("the connection has ended")
    return data


# ---- What a worker of a continuous job adds for loops: connections over which tails send blocks back to heads.
#
# Blocks from stage to stage go through Spark's shuffle, which has no way back. So a task with heads listens on an
# address of its own, which it reports to the driver; the tails are told all of them when every task has started,
# and connect then (``spark/peers.py``: authenticated, encrypted where the job is). A block that comes back
# is put into the task's lane, by the thread that reads the connection, which waits for nothing but memory and disk.
# What a task sends back to itself goes there at once.


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
        """The loop is about to look at the lane; raise its failure, unless the task has finished anyway."""
        self._notified = False
        if self._error is not None and not finished:
            raise self._error
        if self._unsent and self._addresses is not None:
            self._send_unsent(self._addresses)

    def polls(self) -> bool:
        """Return True if the sources of the task may be polled: the feedback at their last poll has been taken."""
        lane = self._lane
        if lane is None:
            return True
        if lane.due:
            return False
        lane.turn()
        return True

    def mailbox(self, inner: Mailbox, task: Task) -> Mailbox:
        """Return the mailbox of the task: its own, or one that also has the feedback."""
        return inner if self._lane is None else HeadMailbox(inner, task, self._lane)

    def close(self) -> None:
        """Hang up."""
        if self._peers is not None:
            self._peers.close()


class HeadMailbox:
    """The mailbox of a task with heads: feedback up to the last new input goes before new blocks."""

    def __init__(self, inner: Mailbox, task: Task, lane: FeedbackLane) -> None:
        self._inner = inner
        self._task = task
        self._lane = lane

    def empty(self) -> bool:
        """Return True if nothing has arrived that the task should take; feedback may wait while blocks are queued."""
        return self._inner.empty() and (self._task.work or not len(self._lane))

    def deliver(self) -> bool:
        """Deliver something to the task; return whether the turn goes on."""
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
        """Return True if the task flushes in this turn if no block is queued."""
        return self._inner.flushes() and not len(self._lane)
