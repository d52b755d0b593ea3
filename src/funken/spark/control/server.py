"""The driver's side of the control connections: one authenticated TCP connection per task, reports up, orders down.

The driver listens on loopback, or for a cluster on the address that Spark's driver uses. A peer must prove that it
knows the job's random key before a byte of it is unpickled (``handshake.py``), and costs next to nothing until then
(``acceptor.py``). The key travels in the task closure, by Spark's own channels, and is never logged. Where the job
has a certificate, TLS follows (``credentials.py``).

The driver has one thread per authenticated connection, which reads and handles its reports. Orders to one worker never
wait for another worker.

Heartbeats go both ways, from threads of their own, so that neither a function that takes long nor a reader that is slow delays
them (``runtime/heartbeats.py`` decides who is lost). A worker that is lost is killed if it is on this machine; on another one
it ends itself when it runs again, because the driver has hung up. Whatever such a worker still does has no effect: only the
driver completes checkpoints and commits, and it receives nothing any more.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import traceback
from collections.abc import Sequence
from typing import Protocol

from funken import config
from funken.errors import JobExecutionError, MessageTooLarge, TaskLost
from funken.runtime.heartbeats import HeartbeatMonitor, HeartbeatSettings, Peer
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
from funken.spark.control.acceptor import Acceptor
from funken.spark.control.channel import Address, Channel, HungUp
from funken.spark.control.credentials import Connection, Credentials
from funken.spark.processes import kill_worker
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)

_SEND_SECONDS = 10.0
_REPEAT_SECONDS = 300.0
_now = SystemClock().monotonic


class Master(Protocol):
    """Who handles the events of tasks, from several threads."""

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
        f"and is given up: it was stopped, its machine is frozen or cannot be reached, or a function keeps Python's "
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
