"""Inside a Spark task: a thread that reads blocks, and the loop that turns one task, or several of a stage.

The generator that Spark asks for more is the only thread for user code (``spark/task_shell.py`` has what is around each task).
Where there are several tasks (``execution.subtasks-per-worker``), each of them that has something to do is turned once, in
turns; what they send in a round goes together.

* *continuous*: the end of the input means that the query was stopped (the end of the data is a block of its own); the
  process then ends, because Spark keeps Python workers whose user code is blocked.
* *batch*: there is one task; the worker returns when all its vertices have ended; anything else is a failure, which Spark may
  repeat.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from funken import config
from funken.errors import TaskLost
from funken.runtime.chain.log_capture import WorkerLogs
from funken.runtime.messages import TaskId
from funken.runtime.process import collect_rarely
from funken.spark.scheduling import schedule
from funken.spark.task_shell import Deployment, InputEnded, SharedWorker, TaskShell
from funken.spark.warm.imports import PANDAS
from funken.state.rocksdb.backend import remove_all
from funken.timing.clock import Clock, SystemClock, usable_cores

# ---- Blocks as rows: what crosses Spark's shuffle is ``(target int, block binary)``, one block a row.
#
# In continuous mode each ``mapInArrow`` input holds its newest row back until another follows (Spark 4.3 asks for
# the next row before it counts the batch). A row that must not wait therefore travels with a filler, an empty block
# that is held in its place; only then, because a filler on every block costs a quarter of the throughput.


SCHEMA = "target int, block binary"
_ARROW = pa.schema([("target", pa.int32()), ("block", pa.binary())])


def to_batch(rows: list[tuple[int, bytes]]) -> pa.RecordBatch:
    """Make the Arrow batch of some rows.

    >>> to_batch([(1, b"one"), (0, b"")]).to_pydict()
    {'target': [1, 0], 'block': [b'one', b'']}
    """
    targets, blocks = zip(*rows, strict=True)
    # Of buffers: pa.array imports pandas, 0.14 s of CPU per worker, and takes twice as long (20 us for 32 rows).
    ends = array("i", accumulate(map(len, blocks), initial=0))
    columns = [
        pa.Array.from_buffers(pa.int32(), len(rows), [None, pa.py_buffer(array("i", targets))]),
        pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(blocks))]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def rows_of(batch: pa.RecordBatch) -> Iterable[tuple[int, bytes]]:
    """Return the rows of a batch, without fillers."""
    return [row for row in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True) if row[1]]


class Fillers:
    """Tracks which inputs have a row held back, and adds fillers when they must not wait.

    Target ``i`` is behind input ``i % inputs``, as ``repartitionById`` has it.

    >>> fillers = Fillers(inputs=2)
    >>> fillers.sent([(0, b"one"), (2, b"two")]), fillers.flushed([(3, b"three")])
    ([(0, b'one'), (2, b'two')], [(3, b'three'), (0, b''), (1, b'')])
    """

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs
        self._held: set[int] = set()

    def sent(self, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Note rows that go out as they are."""
        self._held.update(target % self._inputs for target, _ in rows)
        return rows

    def flushed(self, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return the rows to send so that nothing is held back: those given, and the fillers they need."""
        self.sent(rows)
        held = sorted(self._held)
        self._held.clear()
        return rows + [(each, b"") for each in held]


_READ_SECONDS = 600.0
_TOGETHER_SECONDS = 0.01
"""Blocks of several tasks go together if they come within this time (s)."""

_WATCH_SECONDS, _WAITS, _CROWDED = 10.0, 0.3, 0.5
"""A user is told if functions of tasks that share a worker wait for the first share of so long, or a worker waits for a core for
the second."""

_monotonic = SystemClock().monotonic

StageFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def stage_function(deployment: Deployment, stage: int, width: int, workers: int, behind: int) -> StageFunction:
    """Return the function that ``mapInArrow`` runs in every worker of a stage.

    A stage of ``width`` tasks has so many ``workers``, and the stage behind it ``behind``.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        schedule(deployment.settings.cpu_scheduling)
        tasks = [TaskId(stage, subtask) for subtask in range(context.partitionId(), width, workers)]
        return StageWorker(deployment, tasks, behind, workers).run(batches)

    return run


class ThreadWatch:
    """Tells the cause for which the thread of a worker waits: its functions (a service, a sleep), or a core."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: tuple[float, float, float] | None = None
        self._turned = 0.0

    def turned(self, seconds: float) -> tuple[float, float]:
        """Tasks were turned for so long (s); return the shares of the time since the last look, zeros if that was just now."""
        self._turned += seconds
        now = self._clock.monotonic()
        if self._since is not None and now < self._since[0] + _WATCH_SECONDS:
            return 0.0, 0.0
        usage, delay = self._clock.thread_usage(), self._clock.run_delay()
        if usage is None or delay is None:
            return 0.0, 0.0
        turned, since = self._turned, self._since
        self._since, self._turned = (now, usage.seconds, delay), 0.0
        if since is None:
            return 0.0, 0.0
        passed, ran, kept = now - since[0], usage.seconds - since[1], delay - since[2]
        return max(0.0, turned - ran - kept) / passed, kept / passed


class StageWorker(SharedWorker):
    """Runs some tasks of a stage in this process; the stage has so many ``workers``, and that ``behind`` it has so many."""

    def __init__(self, deployment: Deployment, tasks: Sequence[TaskId], behind: int, workers: int = 1) -> None:
        super().__init__()
        self.shared = len(tasks) > 1
        self._deployment = deployment
        self._continuous = deployment.continuous
        self._shells = [TaskShell(deployment, task, self) for task in tasks]
        self._by_subtask = {shell.id.subtask: shell for shell in self._shells}
        #: whose code runs
        self._current = self._shells[0]
        self._fillers = Fillers(behind)
        self._rows: list[tuple[int, bytes]] = []
        self._hasten = False
        self._logs: WorkerLogs | None = None
        self._workers = workers
        # One tells it for all, and only where the driver is on loopback: it knows the cores of no other machine.
        local = self._continuous and deployment.address[0] == "127.0.0.1"
        crowds = local and tasks[0] == TaskId(0, 0) and workers > usable_cores()
        self._watch = ThreadWatch(SystemClock()) if self.shared or crowds else None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks that the tasks send to the next stage."""
        reader = threading.Thread(target=self._read, args=(batches,), name="funken-input", daemon=True)
        settings = self._deployment.settings
        if not self._continuous and not settings.pausing:
            spark = TaskContext.get()
            assert spark is not None
            settings = replace(settings, attempt=spark.attemptNumber())
        try:
            # These threads run before any user code does: they end the process if that never returns.
            for shell in self._each():
                shell.connect()
            reader.start()
            first = self._shells[0]
            self._logs = WorkerLogs(first.id, settings, socket.gethostname(), first.send)
            for shell in self._each():
                shell.open(settings, self._logs)
            collect_rarely()
            yield from self._loop()
            if not self._continuous:
                for shell in self._each():
                    shell.finish_writing()
                self._read_on(reader)
        except GeneratorExit:
            raise
        except BaseException as error:
            self._current.report_failure(error)
            raise
        finally:
            self._close()

    def _each(self) -> Iterator[TaskShell]:
        for shell in self._shells:
            self._current = shell
            yield shell

    # ---- the reader

    def _read(self, batches: Iterator[pa.RecordBatch]) -> None:
        why: Exception | None = None
        try:
            for batch in batches:
                for shell, item in self._items(batch):
                    shell.admit(item)
        except Exception as error:  # noqa: BLE001 - stopped, or an upstream task is gone: the same as the end
            why = error
        self._shells[0].end_if_given_up()
        for shell in self._shells:
            shell.put(InputEnded(why))
        if self._continuous:
            self._shells[0].end_if_stuck()

    def _items(self, batch: pa.RecordBatch) -> Iterable[tuple[TaskShell, Any]]:
        if self._shells[0].id.stage:
            shells = self._by_subtask
            return [(shells[target], block) for target, block in rows_of(batch)]
        # What carries stage 0 means nothing by itself, unless the program reads it.
        return [(self._shells[0], batch)] if self._deployment.rows else ()

    def _read_on(self, reader: threading.Thread) -> None:
        """Wait until the reader is through, for Spark reads on in the same stream; after the last record little is left."""
        reader.join(_READ_SECONDS)
        if reader.is_alive():
            raise TaskLost(
                f"the input of {self._current.id} did not end within {_READ_SECONDS:.0f} s after its last record. The log of "
                "Spark's executor says whether its shuffle waits for another machine."
            )

    # ---- the loop

    def _loop(self) -> Iterator[pa.RecordBatch]:
        """Turn the tasks until the query is stopped, or they have finished."""
        shells = self._shells
        together = _TOGETHER_SECONDS if self.shared else 0.0
        now = _monotonic
        while True:
            begin = now()
            for shell in shells:
                if shell.empty() and shell.due > begin:
                    continue
                self._current = shell
                turned, blocked = now(), self.blocked
                for hasten, rows in shell.turn():
                    self._hasten |= hasten
                    self._rows += rows
                    if now() - begin >= together:
                        yield from self._emit()
                if self._watch is not None:
                    self._advise(*self._watch.turned(now() - turned - (self.blocked - blocked)))
                if shell.stopped:
                    yield from self._emit()
                    return
            yield from self._emit()
            self._wait()

    def _emit(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows to send; until Spark asks for more, the tasks are back-pressured."""
        rows = (self._fillers.flushed if self._hasten else self._fillers.sent)(self._rows)
        if rows:
            self._rows, self._hasten = [], False
            batch, begin = to_batch(rows), _monotonic()
            yield batch
            self.blocked += _monotonic() - begin
        self._hasten = False

    def _advise(self, waits: float, kept: float) -> None:
        """Tell the user once if fewer, or more, subtasks should share a worker."""
        option = config.SUBTASKS_PER_WORKER.key
        if self.shared and waits > _WAITS:
            kind, text = "waits", (
                f"its functions, or those chained to it, wait {waits:.0%} of the time, and so do the other subtasks that share "
                f"their worker. Set {option} to 1, or ask services with AsyncDataStream, for many records at once."
            )  # fmt: skip
        elif not self.shared and kept > _CROWDED:
            cores = usable_cores()
            several = -(-self._workers // cores)
            kind, text = "crowded", (
                f"the {self._workers} workers of its stage wait for one of {cores} cores {kept:.0%} of the time. Lower the "
                f"parallelism, or let {several} subtasks share a worker, unless their functions wait for something: {option}."
            )  # fmt: skip
        else:
            return
        self._watch = None
        min(self._shells, key=TaskShell.kept).warn(kind, text)

    def _wait(self) -> None:
        """Wait until something has arrived, or a task is due."""
        due = min(shell.due for shell in self._shells)
        while (left := due - _monotonic()) > 0 and all(shell.empty() for shell in self._shells):
            if not self.wakeup.wait(left):
                return

    # ---- the end

    def _close(self) -> None:
        for shell in self._shells:
            shell.close_task()
        if self._logs is not None:
            self._logs.close()
        self.done.set()
        PANDAS.needed()
        for shell in self._shells:
            shell.hang_up()
        if self._continuous:
            # The query is over, or fails by this. Leaving by the front door would write to a socket that Spark has closed.
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            remove_all()
            os._exit(0)
