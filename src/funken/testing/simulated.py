"""A whole job in one process under virtual time: nothing sleeps, and the test turns the clock.

The same plan, tasks and blocks as on a cluster; only the clock is a ``ManualClock``. Processing-time windows and timers,
periodic watermarks, idleness and paced sources all follow it, so an hour of processing time takes seconds, and every run
gives the same output.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import TracebackType

from funken import DataStream, StreamExecutionEnvironment
from funken.io.durations import DurationLike, duration_ms
from funken.operators.sink import CollectSink
from funken.plan.nodes import portable
from funken.runtime.driver.local_runner import LocalLoop
from funken.timing.clock import ManualClock
from funken.types.callables import Generic, S, T

_RECORDS = "simulated"


class SimulatedJob(Generic[T]):
    """The program that ends in ``stream``, run by hand; its records are in ``output``.

    ``start`` is processing time at the beginning (ms). The environment is empty afterwards, as after ``execute``.

    >>> from datetime import timedelta
    >>> from funken import TumblingProcessingTimeWindows
    >>> from funken.testing import local
    >>> stream = local([1, 2, 3]).key_by(lambda n: n % 2).window(TumblingProcessingTimeWindows.of(timedelta(hours=1)))
    >>> SimulatedJob(stream.reduce(lambda a, b: a + b)).run()
    []

    Flink drops windows that processing time has not closed when the input ends. With a paced source, time passes:

    >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> numbers = env.from_source(DataGeneratorSource(lambda i: i, count=None, rate_per_second=2))
    >>> sums = numbers.key_by(lambda n: "all").window(TumblingProcessingTimeWindows.of(timedelta(seconds=2)))
    >>> with SimulatedJob(sums.reduce(lambda a, b: a + b)) as job:
    ...     job.advance(timedelta(seconds=2))
    ...     job.advance("2 s")
    ...     job.now, job.finished
    [6]
    [22]
    (4000, False)
    """

    def __init__(self, stream: DataStream[T], start: int = 0) -> None:
        stream._sink(_RECORDS, CollectSink(_RECORDS))
        self._job = stream.get_execution_environment().job("simulated")
        self._collector = self._job.master.collectors[_RECORDS]
        self._collector.limit = math.inf  # one thread writes and reads
        self._clock = ManualClock(start)
        self._job.master.coordinators.threaded = False  # what they do takes no time
        self._job.master.check()
        self._loop = LocalLoop(self._job, portable(self._job.plan), self._clock, lambda seconds: None)
        self._loop.open()
        self.output: list[T] = []
        """Every record so far."""
        self._wait = 0

    @property
    def now(self) -> int:
        """Processing time (ms)."""
        return self._clock.now()

    @property
    def finished(self) -> bool:
        """True if the job has ended by itself."""
        return self._loop.over

    def _settle(self) -> None:
        self._wait = self._loop.settle()
        while self._collector.waiting():
            self.output.extend(self._collector.get() or ())

    def advance(self, duration: DurationLike) -> list[T]:
        """Let processing time pass (``timedelta``, ``"5 s"``, ms), tick by tick; return the records that came of it."""
        end = self._clock.now() + duration_ms(duration)
        before = len(self.output)
        self._settle()
        while not self.finished and self._clock.now() < end:
            self._clock.set(min(end, self._clock.now() + max(1, self._wait)))
            self._settle()
        self._clock.set(end)
        return self.output[before:]

    def run(self) -> list[T]:
        """Let time pass until the job has ended (all sources are bounded), and return every record."""
        self._settle()
        while not self.finished:
            self._clock.advance(max(1, self._wait))
            self._settle()
        self.close()
        return self.output

    def close(self) -> None:
        """End the job, as leaving the ``with`` block does; operators are closed.

        >>> from funken.testing import local
        >>> job = SimulatedJob(local([1, 2]).map(lambda n: -n))
        >>> job.advance("1 s")
        [-1, -2]
        >>> job.finished
        True
        >>> job.close()
        """
        self._job.cancel()
        self._loop.close()

    def __enter__(self) -> SimulatedJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# ---- Short ways to run a whole program in a test.


def local(records: Iterable[S], parallelism: int = 1) -> DataStream[S]:
    """Return a stream of ``records`` in an environment that runs in this process.

    >>> local([1, 2]).map(lambda x: -x).execute_and_collect(limit=2)
    [-1, -2]
    """
    return StreamExecutionEnvironment.create_local_environment(parallelism).from_collection(list(records))
