"""The driver's side of the control connections: one authenticated TCP connection per task, reports up, orders down.

The driver listens on loopback, or for a cluster on the address that Spark's driver uses. A peer must prove that it
knows the job's random key before a byte of it is unpickled (``ServerHandshake``), and costs next to nothing until then
(``Acceptor``). The key travels in the task closure, by Spark's own channels, and is never logged. Where the job
has a certificate, TLS follows (``tls.py``).

The driver has one thread per authenticated connection, which reads and handles its reports. Orders to one worker never
wait for another worker.

Heartbeats go both ways, from threads of their own, so that neither a function that takes long nor a reader that is slow delays
them (``runtime/settings.py`` decides who is lost). A worker that is lost is killed if it is on this machine; on another one
it ends itself when it runs again, because the driver has hung up. Whatever such a worker still does has no effect: only the
driver completes checkpoints and commits, and it receives nothing any more.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import selectors
import socket
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Protocol

from funken import config
from funken.errors import JobExecutionError, MessageTooLarge, TaskLost
from funken.runtime.messages import (
    DriverHeartbeat,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskId,
    TaskOpening,
    TaskStarted,
    WorkerHeartbeat,
)
from funken.runtime.settings import HeartbeatMonitor, HeartbeatSettings, Peer
from funken.spark.control.channel import HANDSHAKE_SECONDS, Address, Channel, HungUp, ServerHandshake
from funken.spark.control.tls import Connection, Credentials
from funken.spark.daemon import kill_worker
from funken.timing.clock import Clock, SystemClock

# ---- The driver's listening socket: one thread authenticates all peers, and passes on those that have the key.
#
# Any process that reaches the port may connect, so what a peer costs before it is authenticated is bounded: no
# thread, at most ``MOST`` descriptors in total, 64 bytes of memory, and ``HANDSHAKE_SECONDS`` from its first byte
# to its last. Where there are more peers the oldest is dropped: one that answers needs a round trip, one that does
# not would stay. A worker that is dropped because of others connects again. When the process has no descriptor
# left, peers in handshake are dropped, and accepting pauses until there may be one.


logger = logging.getLogger(__name__)

MOST = 256
_AT_ONCE = 16
_BACKLOG = 4096
_PAUSE_SECONDS = 0.2
_WARN_SECONDS = 60.0
_JOIN_SECONDS = 5.0
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Peer:
    """A connection that is not authenticated yet."""

    __slots__ = ("connection", "deadline", "handshake")

    def __init__(self, connection: socket.socket, key: bytes, deadline: float) -> None:
        self.connection = connection
        self.handshake = ServerHandshake(key)
        self.deadline = deadline


class Acceptor:
    """Listens on ``address`` in a thread of its own; ``admit`` is called there with each authenticated connection.

    Where the job has a certificate it is called in a thread of that connection, which does the TLS handshake before.
    """

    def __init__(
        self,
        address: Address,
        credentials: Credentials,
        admit: Callable[[Connection], None],
        clock: Clock | None = None,
    ) -> None:
        self._credentials = credentials
        self._admit = admit
        self._now = (clock or SystemClock()).monotonic
        self._listener = socket.create_server(address, backlog=_BACKLOG)
        self._listener.setblocking(False)
        self.address: Address = self._listener.getsockname()
        #: in the order of their deadlines
        self._peers: dict[_Peer, None] = {}
        self._paused_until: float | None = None
        self._warned = float("-inf")
        self._closing = False
        self._awake, self._wake = socket.socketpair()
        self._awake.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._awake, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="funken-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and hang up on every peer that is not authenticated."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        self._thread.join(_JOIN_SECONDS)

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        finally:
            for peer in list(self._peers):
                self._drop(peer)
            self._selector.close()
            for end in (self._listener, self._awake, self._wake):
                end.close()

    def _turn(self) -> None:
        ready = self._selector.select(self._patience())
        knocking = False
        for key, _ in ready:
            if key.data is not None:
                self._read(key.data)
            knocking = knocking or key.fileobj is self._listener
        if knocking:
            self._accept()
        now = self._now()
        while self._peers and (oldest := next(iter(self._peers))).deadline <= now:
            self._drop(oldest)
        if self._paused_until is not None and self._paused_until <= now:
            self._paused_until = None
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _patience(self) -> float | None:
        moments = [peer.deadline for peer in list(self._peers)[:1]]
        if self._paused_until is not None:
            moments.append(self._paused_until)
        return max(0.0, min(moments) - self._now()) if moments else None

    def _accept(self) -> None:
        """Accept a few; between them, those that have answered are read, so that they are not the ones to be dropped."""
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_RESOURCES:
                    self._out_of_resources(error)
                    return
                continue  # this one is gone already
            peer = _Peer(connection, self._credentials.key, self._now() + HANDSHAKE_SECONDS)
            try:
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.send(peer.handshake.greeting)  # the first bytes always have room
                self._selector.register(connection, selectors.EVENT_READ, peer)
            except OSError:
                connection.close()
                continue
            self._peers[peer] = None
            if len(self._peers) > MOST:
                self._drop(next(iter(self._peers)))

    def _read(self, peer: _Peer) -> None:
        if peer not in self._peers:
            return  # dropped in this very turn
        try:
            data = peer.connection.recv(peer.handshake.missing)
            answer = peer.handshake.take(data)
            if answer is not None:
                peer.connection.send(answer)
        except BlockingIOError:
            return
        except OSError:
            self._drop(peer)
            return
        if not data or (answer is not None and not peer.handshake.accepted):
            self._drop(peer)
        elif answer is not None:
            self._forget(peer)
            self._hand_on(peer.connection)

    def _hand_on(self, connection: socket.socket) -> None:
        try:
            connection.setblocking(True)
            if self._credentials.certificate:
                threading.Thread(target=self._secure, args=(connection,), name="funken-tls", daemon=True).start()
            else:
                self._admit(connection)
        except Exception:
            logger.exception("a worker that has authenticated itself could not be taken; it is to connect again")
            connection.close()

    def _secure(self, connection: socket.socket) -> None:
        try:
            self._admit(self._credentials.secure(connection, server=True))
        except OSError as error:
            logger.warning(
                "a peer that knows the job's key did not do the TLS handshake, and was dropped: %s: %s. "
                "Does a device between the machines change their traffic?", type(error).__name__, error,
            )  # fmt: skip
        except Exception:
            logger.exception("a worker that has authenticated itself could not be taken; it is to connect again")
            connection.close()

    def _forget(self, peer: _Peer) -> None:
        del self._peers[peer]
        self._selector.unregister(peer.connection)

    def _drop(self, peer: _Peer) -> None:
        self._forget(peer)
        peer.connection.close()

    def _out_of_resources(self, error: OSError) -> None:
        now = self._now()
        if now - self._warned >= _WARN_SECONDS:
            self._warned = now
            logger.warning(
                "the driver's control port %s:%d cannot accept connections: %s. %d of them are in handshake and half of these "
                "are dropped; accepting resumes in %g s. Raise the limit of open files (ulimit -n), or close what the program "
                "keeps open.", *self.address, error, len(self._peers), _PAUSE_SECONDS,
            )  # fmt: skip
        for peer in list(self._peers)[: (len(self._peers) + 1) // 2]:
            self._drop(peer)
        self._paused_until = now + _PAUSE_SECONDS
        self._selector.unregister(self._listener)


_SEND_SECONDS = 10.0
_REPEAT_SECONDS = 300.0
_now = SystemClock().monotonic


class Master(Protocol):
    """The handler of the events of tasks, from several threads."""

    def handle(self, event: TaskEvent) -> Sequence[tuple[TaskId, TaskCommand]]:
        """Handle an event; return commands that are to be sent."""

    def fail(self, error: JobExecutionError) -> object:
        """Fail the job."""


class _Worker:
    """The driver's side of one authenticated connection.

    ``over``: its last report has come. ``silent``: it was ended because it sent no heartbeat.
    """

    def __init__(self, channel: Channel, peer: Peer) -> None:
        self.channel = channel
        self.peer = peer
        self.opening: TaskOpening | None = None
        self.over = False
        self.stalls = False
        self.silent: TaskLost | None = None
        channel.progress = lambda: peer.heard(_now())

    @property
    def local_pid(self) -> int | None:
        """Its process id, if it is known and of this machine."""
        opening = self.opening
        return opening.pid if opening and opening.pid and opening.host == socket.gethostname() else None


class ControlServer:
    """The driver's side: passes events to the master, and carries its commands."""

    def __init__(
        self, master: Master, host: str = "127.0.0.1", bind: str | None = None,
        heartbeat: HeartbeatSettings | None = None, encrypted: bool = False,
    ) -> None:  # fmt: skip
        self.credentials = Credentials.new(encrypted)
        self._heartbeat = heartbeat or HeartbeatSettings()
        self._monitor = HeartbeatMonitor(self._heartbeat.timeout / 1000, _now())
        self._master = master
        self._closing = False
        #: guards all of these; notified when a worker has hung up
        self._changed = threading.Condition()
        self._workers: set[_Worker] = set()
        self._newest: dict[TaskId, _Worker] = {}
        self._started: dict[TaskId, _Worker] = {}
        #: lost tasks that Spark is to start again, and until when
        self._awaited: dict[TaskId, tuple[float, TaskLost]] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._beat, name="funken-heartbeat", daemon=True).start()
        self._acceptor = Acceptor((bind or host, 0), self.credentials, self._admit)
        self.address: Address = (host, self._acceptor.address[1])

    def _admit(self, connection: Connection) -> None:
        """Take an authenticated connection."""
        channel = Channel(connection)
        channel.bound_sending(_SEND_SECONDS)
        worker = _Worker(channel, self._monitor.add(_now()))
        thread = threading.Thread(target=self._serve, args=(worker,), name="funken-task", daemon=True)
        with self._changed:
            self._workers.add(worker)
            if self._closing:
                channel.hang_up()
        try:
            thread.start()
        except RuntimeError:
            self._forget(worker)
            raise

    def _serve(self, worker: _Worker) -> None:
        try:
            self._listen_to(worker)
        finally:
            self._forget(worker)

    def _forget(self, worker: _Worker) -> None:
        self._monitor.remove(worker.peer)
        worker.channel.close()
        with self._changed:
            self._workers.discard(worker)
            self._changed.notify_all()

    def _listen_to(self, worker: _Worker) -> None:
        """Pass a task's event to the master; an error here fails the job, it must not be lost in this thread."""
        task: TaskId | None = None
        while True:
            worker.peer.heard(_now())
            try:
                event: TaskEvent = worker.channel.receive()
                worker.peer.hold()  # what it sends while this is handled is not read
            except HungUp:
                replaced = task is not None and self._newest.get(task, worker) is not worker
                if task is not None and not worker.over and not replaced and not self._closing:
                    self._ended(task, worker)
                return
            except MessageTooLarge as error:
                self._master.fail(error)
                return
            except Exception as error:  # noqa: BLE001 - whatever unpickling what users report may raise
                self._master.fail(_not_handled("a task", error))
                return
            task = event.task
            if isinstance(event, TaskOpening):
                self._opened(worker, event)
            if self._newest.get(task, worker) is not worker:
                return
            if self._closing:
                continue  # only its end is still of interest
            if isinstance(event, WorkerHeartbeat):
                self._note_stall(worker, event)
                continue
            if isinstance(event, TaskStarted):
                with self._changed:
                    self._started[task] = worker
            worker.over = worker.over or isinstance(event, TaskEnded | TaskFailed)
            try:
                for target, command in self._master.handle(event):
                    self.send(target, command)
            except Exception as error:  # noqa: BLE001 - a source's enumerator, or printing, may raise anything
                self._master.fail(error if isinstance(error, JobExecutionError) else _not_handled(str(task), error))
                return

    def _ended(self, task: TaskId, worker: _Worker) -> None:
        """Report a worker whose connection has ended before its task did."""
        error = worker.silent
        if error is None:
            self._master.handle(TaskFailed(task, error=_lost(task), secondary=True))
            return
        if (
            worker.local_pid is None
        ):  # Spark retries the task if the whole executor is lost; else the job would never end
            with self._changed:
                self._awaited[task] = (_now() + _REPEAT_SECONDS, error)
        self._master.handle(TaskFailed(task, error=error))

    def _opened(self, worker: _Worker, opening: TaskOpening) -> None:
        with self._changed:
            worker.opening = opening
            before, self._newest[opening.task] = self._newest.get(opening.task), worker
            self._awaited.pop(opening.task, None)
        if before is not None and before is not worker:
            before.channel.hang_up()  # Spark has started the task again: its former worker is ignored

    def send(self, task: TaskId, command: TaskCommand) -> None:
        """Send an order; a task that is gone gets none, and one that reads none for long is lost."""
        with self._changed:
            worker = self._started.get(task)
        if worker is None:
            return
        try:
            worker.channel.send(command)
        except OSError as error:
            with self._changed:
                if self._started.get(task) is worker:
                    del self._started[task]
            if isinstance(error, BlockingIOError):
                self._master.handle(TaskFailed(task, error=_deaf(task)))
                worker.channel.hang_up()  # what was sent of the order is no order

    # ---- heartbeats

    def _beat(self) -> None:
        due = 0.0
        while not self._closed.wait(self._heartbeat.tick_seconds):
            now = _now()
            lost = self._monitor.tick(now)
            with self._changed:
                workers = list(self._workers)
                given_up = [task for task, (until, _) in self._awaited.items() if until <= now]
                errors = [self._awaited.pop(task)[1] for task in given_up]
            for worker in workers:
                if worker.peer in lost:
                    self._lose(worker, worker.peer.silence(now))
            for error in errors:
                self._master.fail(error)
            if now >= due:
                due = now + self._heartbeat.send_seconds
                for worker in workers:
                    with contextlib.suppress(OSError, ValueError):  # it is gone, and its own thread notices
                        worker.channel.send_if_possible(DriverHeartbeat())

    def _lose(self, worker: _Worker, silence: float) -> None:
        """A worker is silent: end it. Its own thread, which notices that, reports it: this one must not wait for the master."""
        if worker.opening is not None:
            worker.silent = _silent(worker.opening, silence, self._heartbeat, worker.local_pid is not None)
        _kill(worker)
        worker.channel.hang_up()

    def kill_silent(self) -> None:
        """Kill the workers on this machine that are overdue: the attempt is over, and Spark would wait for them."""
        overdue = max(2 * self._heartbeat.send_seconds, self._heartbeat.timeout / 2000)
        now = _now()
        with self._changed:
            silent = [worker for worker in self._workers if worker.peer.silence(now) >= overdue]
        for worker in silent:
            _kill(worker)

    def _note_stall(self, worker: _Worker, event: WorkerHeartbeat) -> None:
        stalls = event.stalled >= self._heartbeat.timeout / 1000
        if stalls and not worker.stalls:
            logger.warning(
                "%s is alive, but has been at the same step for %.0f s: a function takes so long, or its output waits for the "
                "tasks behind it (backpressure). It takes part in no checkpoint meanwhile.", event.task, event.stalled,
            )  # fmt: skip
        worker.stalls = stalls

    # ---- the end

    def wait_gone(self, seconds: float) -> bool:
        """Wait until every task has disconnected; return whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._workers, seconds)

    def kill_local(self) -> None:
        """Kill the workers of this machine that are still connected: code that holds the GIL cannot be interrupted."""
        with self._changed:
            left = list(self._workers)
        for worker in left:
            _kill(worker)

    def close(self) -> None:
        """Stop listening and disconnect: tasks notice, end, and disconnect too; there is no wait for other peers."""
        with self._changed:
            self._closing = True
            workers = list(self._workers)
        self._closed.set()
        self._acceptor.close()
        for worker in workers:
            worker.channel.hang_up(socket.SHUT_WR)


def _kill(worker: _Worker) -> None:
    """Kill a worker's process, stopped or not, if it is on this machine."""
    if worker.local_pid is not None:
        kill_worker(worker.local_pid)


def _silent(opening: TaskOpening, silence: float, settings: HeartbeatSettings, local: bool) -> TaskLost:
    return TaskLost(
        f"the worker of {opening.task} (process {opening.pid} on {opening.host}) has sent no heartbeat for {silence:.1f} s "
        f"and is lost: it was stopped, its machine is frozen or cannot be reached, or a function keeps Python's "
        f"interpreter lock. {'It was killed.' if local else 'It ends itself as soon as it runs again.'} If a function has to "
        f"keep the lock for so long, raise {config.HEARTBEAT_TIMEOUT.key} ({settings.timeout} ms).",
        subtask=opening.task.subtask,
    )


def _deaf(task: TaskId) -> TaskLost:
    return TaskLost(
        f"the worker of {task} has taken no order for {_SEND_SECONDS:g} s, and many wait: it was stopped, or a function keeps "
        "Python's interpreter lock.",
        subtask=task.subtask,
    )


def _lost(task: TaskId) -> TaskLost:
    return TaskLost(
        f"the worker of {task} ended without a word: it was killed (out of memory?) or crashed. See the executor's log; "
        "if memory is short, lower the parallelism or the state kept per key.",
        subtask=task.subtask,
    )


def _not_handled(who: str, error: Exception) -> JobExecutionError:
    return JobExecutionError(
        f"the driver could not handle what {who} reported: {type(error).__name__}: {error}",
        traceback_text="".join(traceback.format_exception(error)),
    )
