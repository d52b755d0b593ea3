"""Results of jobs for the program: status, execution result, collected records, and futures of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from funken.errors import JobCancelled
from funken.io.durations import in_words
from funken.plan.explain import plan_svg
from funken.timing.clock import result_of

if TYPE_CHECKING:
    from funken.api.jobs.client import JobClient
    from funken.plan.physical import PhysicalPlan
    from funken.runtime.driver.job import Job
    from funken.runtime.job.states import JobStatus
    from funken.runtime.messages import MetricsReport, TaskId


T = TypeVar("T")


class JobExecutionResult:
    """The result of a finished job: its id, its duration, and its accumulators.

    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> _ = env.from_collection([1]).print()
    >>> result = env.execute()
    1
    >>> len(result.get_job_id()), result.get_net_runtime() < 60_000, result.get_all_accumulator_results()
    (32, True, {})
    """

    def __init__(self, job_id: str, net_runtime: int) -> None:
        self._job_id = job_id
        self._net_runtime = net_runtime

    def get_job_id(self) -> str:
        """Return the job's id: 32 hexadecimal digits."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return the running time of the job (ms)."""
        return self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return an accumulator, or raise ``KeyError``: functions of streams have metrics (``get_metrics_group()``) instead.

        >>> JobExecutionResult("0" * 32, 5).get_accumulator_result("lines")
        Traceback (most recent call last):
        ...
        KeyError: "there is no accumulator 'lines'; a function of a stream counts with get_metrics_group().counter('lines')"
        """
        found = self.get_all_accumulator_results()
        if accumulator_name not in found:
            counter = f"get_metrics_group().counter({accumulator_name!r})"
            others = f"there are: {', '.join(found)}" if found else f"a function of a stream counts with {counter}"
            raise KeyError(f"there is no accumulator {accumulator_name!r}; {others}")
        return found[accumulator_name]

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return all accumulators; there are none."""
        return {}

    def __repr__(self) -> str:
        return f"JobExecutionResult(job_id={self._job_id!r}, net_runtime={self._net_runtime} ms)"

    def _repr_html_(self) -> str:
        return f"<b>FINISHED</b> after {in_words(self._net_runtime)}, job <code>{self._job_id}</code>"


class CompletableFuture(Generic[T]):
    """PyFlink's future: ``result()`` waits.

    >>> future = CompletableFuture.of("savepoints/savepoint-1")
    >>> future.done(), future.cancelled(), future.exception(), future.result(timeout=5)
    (True, False, None, 'savepoints/savepoint-1')
    """

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    @staticmethod
    def of(value: T) -> CompletableFuture[T]:
        """Make a future that is done."""
        future: Future[T] = Future()
        future.set_result(value)
        return CompletableFuture(future)

    def result(self, timeout: float | None = None) -> T:
        """Wait (at most ``timeout`` s, then ``TimeoutError``) and return the value, or raise the failure."""
        return self._future.result(timeout) if timeout is not None else result_of(self._future)

    def done(self) -> bool:
        """Return True if ``result()`` would return at once."""
        return self._future.done()

    def cancel(self) -> bool:
        """Give up waiting; says nothing to the job."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return True if ``cancel`` was called in time."""
        return self._future.cancelled()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait and return the failure, if there is one."""
        return self._future.exception(timeout)


def when_over(made: Future[str], over: Future[JobExecutionResult]) -> Future[str]:
    """Return a future of a savepoint, done when the job is over too; it raises at once if the savepoint failed."""
    both: Future[str] = Future()
    both.set_running_or_notify_cancel()

    def settle(_: object) -> None:
        error = made.exception() or over.exception()
        if error is None:
            both.set_result(made.result())
        else:
            both.set_exception(error)

    def wait_for_the_end(_: object) -> None:
        if made.exception() is not None:
            both.set_exception(made.exception())  # the job goes on
        else:
            over.add_done_callback(settle)

    made.add_done_callback(wait_for_the_end)
    return both


# ---- Who is shown every job of this process, whatever starts it.


Watcher = Callable[["JobClient"], AbstractContextManager[object]]
"""Called with each job; its result is entered before anything runs, and left when all is over, with the error."""

_watchers: list[Watcher] = []


class NotToRun(BaseException):
    """A signal of a watcher that keeps a job from running and ends its script: ``execute_async`` raises it, too."""


@contextmanager
def watch_jobs(watcher: Watcher) -> Iterator[None]:
    """Show ``watcher`` every job that starts while the ``with`` block lasts, in the thread that runs the job.

    A watcher that raises keeps its job from running; the job then fails with its exception.

    >>> from funken.testing import local
    >>> @contextmanager
    ... def tell(client):
    ...     print("begins:", client.plan.name)
    ...     yield
    ...     print("is over")
    >>> numbers = local([1])
    >>> _ = numbers.print()
    >>> with watch_jobs(tell):
    ...     _ = numbers.get_execution_environment().execute("one record")
    begins: one record
    1
    is over
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def watchers() -> tuple[Watcher, ...]:
    """Return those who are shown the jobs that begin now."""
    return tuple(_watchers)


@contextmanager
def ending() -> Iterator[list[str]]:
    """Yield a list whose only word is the end of the ``with`` block: finished, cancelled, failed, or stopped.

    >>> with ending() as how:
    ...     pass
    >>> how
    ['finished']
    """
    how = ["stopped"]
    try:
        yield how
        how[0] = "finished"
    except JobCancelled:
        how[0] = "cancelled"
        raise
    except Exception:
        how[0] = "failed"
        raise


# ---- What is shown of a job: its name and status, and in a notebook its plan with how much each vertex has read.


class JobDisplay:
    """The part of a job's client that shows it; it is a picture of now."""

    _job: Job

    if TYPE_CHECKING:

        @property
        def plan(self) -> PhysicalPlan:  # noqa: D102
            ...

        def get_job_status(self) -> CompletableFuture[JobStatus]:  # noqa: D102
            ...

        def metrics(self) -> dict[TaskId, MetricsReport]:  # noqa: D102
            ...

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.plan.name!r}: {self.get_job_status().result().name}>"

    def _repr_html_(self) -> str:
        counts: dict[int, int] = {}
        for report in self.metrics().values():
            for vertex, numbers in report.vertices.items():
                counts[vertex] = counts.get(vertex, 0) + numbers.records_in
        notes = {vertex: f"{count:,} records in" for vertex, count in counts.items()}
        status = self.get_job_status().result().name
        return f"<b>{escape(self.plan.name)}</b>: {status}<br>{plan_svg(self.plan, notes)}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the job so far, about late records for example; also logged.

        >>> from funken.testing import local
        >>> _ = (words := local(["to", "be"])).for_each(len)
        >>> words.get_execution_environment().execute_async().warnings
        ()
        """
        return tuple(warning.text for warning in self._job.diagnosis.warnings)
