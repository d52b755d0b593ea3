"""A submitted job, from the program's side: how it is run and restarted, saved, stopped, and watched.

``execute`` runs a job in the calling thread; ``execute_async`` in one of its own, and returns a ``JobClient``.
``watch_jobs`` registers an observer of every job of the process.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from types import TracebackType
from typing import Any, Generic

from funken import config
from funken.api.jobs.notebook import shown_in_notebook
from funken.api.jobs.results import CompletableFuture, JobDisplay, JobExecutionResult, NotToRun, T, watchers, when_over
from funken.checkpoint.machine import Outcome, Stop
from funken.checkpoint.store.epochs import Term
from funken.config import Configuration
from funken.errors import (
    CheckpointError,
    InvalidConfiguration,
    InvalidProgram,
    JobCancelled,
    JobExecutionError,
    LeadershipLost,
)
from funken.io.storage import Storage
from funken.leaderelection.election import (
    JobResultEntry,
    LeaderElection,
    election_of,
    keep_result,
    publish,
    result_of_job,
    storage_of,
    withdraw,
)
from funken.metrics.registry import MetricPoint, MetricReporter, reporter_of
from funken.operators.coordinators import Collector
from funken.plan.physical import PhysicalPlan
from funken.rest.serving import Shown, serve
from funken.runtime.driver.diagnosis import JobStacks
from funken.runtime.driver.job import Job, JobLogs, Runner
from funken.runtime.driver.job_checkpoints import JobCheckpoints
from funken.runtime.driver.local_runner import JobExecution
from funken.runtime.job.points import points_of
from funken.runtime.job.snapshot import JobSnapshot
from funken.runtime.job.states import JobClosed, JobStatus, JobSubmitted
from funken.runtime.messages import MetricsReport, TaskId
from funken.runtime.process import process_status
from funken.starting import ctrl_c_heard
from funken.timing.clock import SystemClock, came
from funken.types.callables import place_of_program

# ---- A job that several drivers may run: this one waits until it leads, and stops the job when it does not any
# more.
#
# While it waits it is a standby: its Spark session is there and warm, its job is CREATED. The first thing that a
# leader does is to claim the job's checkpoints in its term, so that its predecessor, whatever state that is in,
# completes none any more.


logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_FIRST_SECONDS = 2.0
"""The time (s) that a driver waits for leadership before it takes itself for a standby."""
_ENDS = {Outcome.FINISHED, Outcome.CANCELLED, Outcome.FAILED}


class Leadership:
    """The part of one driver in one job; without high availability it always leads."""

    def __init__(self, job: Job, runner: Runner, stop: Callable[[], object]) -> None:
        self._job = job
        self._runner = runner
        self._stop = stop
        self._election: LeaderElection | None = None
        self._reason = ""
        self._ended: JobResultEntry | None = None

    def wait(self, begun: Callable[[], None], url: str | None = None) -> None:
        """Wait until this driver leads, or its job is cancelled; ``begun`` is called before. ``url``: its address.

        Raises ``EnvironmentNotReady`` if kazoo is needed and missing, ``InvalidConfiguration`` for a job without checkpoints.
        """
        job = self._job
        election = self._election = election_of(job.configuration)
        if election is None:
            return
        if job.checkpoints is None:
            raise InvalidConfiguration(
                f"job {job.plan.name!r} runs without checkpoints, so that no standby can take it over. Set "
                "high-availability.type to none for a batch job."
            )
        begun()
        election.start(self._lose)
        logger.info("job %r: this driver is a candidate (%s)", job.plan.name, election.name)
        if not came(election.granted, _FIRST_SECONDS) and not job.cancelled.is_set():
            self._warm_up()
        while not came(election.granted, _LOOK_SECONDS):
            if job.cancelled.is_set():
                return
        self._ended = result_of_job(storage_of(job.configuration))
        if self._ended is not None:
            self._stop()
            return
        logger.warning("job %r: this driver leads in term %d", job.plan.name, election.term)
        job.checkpoints.term = Term(election.name, election.term)
        if url is not None:
            self._note("who looks for all jobs does not find it", lambda storage: publish(storage, url))

    def _warm_up(self) -> None:
        """Let this standby have its Spark session, in which a job has run; without it a takeover takes longer."""
        name = self._job.plan.name
        try:
            self._runner.prepare(self._job)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job may run all the same when this driver leads
            logger.warning("job %r: this standby is cold: %s: %s", name, type(error).__name__, error)
        else:
            logger.info("job %r: this standby is warm", name)

    def _lose(self, reason: str) -> None:
        self._reason = reason
        logger.warning("job %r: this driver does not lead any more: %s", self._job.plan.name, reason)
        self._stop()

    def outcome(self, error: BaseException) -> BaseException | None:
        """Return the job's exception here: the error or its meaning; ``None`` if another has finished the job."""
        stopped = isinstance(error, JobCancelled)
        if stopped and self._reason:
            return LeadershipLost(
                f"job {self._job.plan.name!r} is not run by this driver any more: {self._reason}. Another takes it over; start "
                "this program again for a standby."
            )
        if not stopped or self._ended is None:
            return error
        if self._ended.status == JobStatus.FINISHED.name:
            logger.warning("job %r has been finished by another driver", self._job.plan.name)
            return None
        if self._ended.status == JobStatus.FAILED.name:
            return JobExecutionError(
                f"job {self._job.plan.name!r} has failed under another driver: {self._ended.failure}"
            )
        return error

    def close(self, error: BaseException | None = None) -> None:
        """The job is over here: note how it has ended, if it has for good, and let another driver lead if it has not."""
        if self._election is None:
            return
        outcome = self._job.machine.outcome
        if outcome in _ENDS and self._election.granted.is_set() and not self._reason and self._ended is None:
            entry = JobResultEntry(self._job.machine.status.name, "" if error is None else str(error))
            self._note("a standby runs it again", lambda storage: keep_result(storage, entry))
            self._note("its address is left", withdraw)
        self._election.close()

    def _note(self, otherwise: str, write: Callable[[Storage], None]) -> None:
        """Write in the folder of the drivers; a storage that refuses costs a warning, which names the consequence."""
        try:
            write(storage_of(self._job.configuration))
        except CheckpointError as error:
            logger.warning("job %r: %s, because %s", self._job.plan.name, otherwise, error)


# ---- Runs the metric reporters of a job: each in a thread of its own, so that a slow one delays neither the job
# nor another.
#
# A reporter that raises costs a warning, the first time of each row of failures; the job goes on. At the end of the
# job each is given the last metrics and closed, and the job waits for that no longer than a bound.


_CLOSE_SECONDS = 5.0
_PREFIX = "metrics.reporter."

Read = Callable[[], Sequence[MetricPoint]]


class ReporterThread:
    """One reporter at work; ``close`` ends it within a bound."""

    def __init__(
        self, name: str, reporter: MetricReporter, options: dict[str, Any], seconds: float, read: Read
    ) -> None:
        self._name = name
        self._reporter = reporter
        self._options = options
        self._seconds = seconds
        self._read = read
        self._failing = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"funken-metrics-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._reporter.open(self._options)
        except Exception as error:  # noqa: BLE001 - a reporter may raise anything, and must not fail the job
            logger.warning(
                "metric reporter %r could not be opened, the job continues without it: %s: %s. See %s%s.*.",
                self._name, type(error).__name__, error, _PREFIX, self._name,
            )  # fmt: skip
            return
        if (pull := getattr(self._reporter, "pull", None)) is not None:
            pull(self._read)
            self._ended.wait()
        while not self._ended.wait(self._seconds):
            self._report()
        self._report()
        try:
            self._reporter.close()
        except Exception as error:  # noqa: BLE001 - as above
            logger.warning("metric reporter %r could not be closed: %s: %s.", self._name, type(error).__name__, error)

    def _report(self) -> None:
        try:
            self._reporter.report(self._read())
        except Exception as error:  # noqa: BLE001 - as above
            if not self._failing:
                logger.warning(
                    "metric reporter %r has failed, and is called again in %g s: %s: %s.",
                    self._name, self._seconds, type(error).__name__, error,
                )  # fmt: skip
            self._failing = True
        else:
            self._failing = False

    def end(self) -> None:
        """Request the last report; does not wait."""
        self._ended.set()

    def join(self, seconds: float) -> None:
        """Wait for the last report, for so long."""
        self._thread.join(max(0.0, seconds))
        if self._thread.is_alive():
            logger.warning(
                "metric reporter %r has not ended within %g s and is left behind; let report() wait for a bounded time.",
                self._name, _CLOSE_SECONDS,
            )  # fmt: skip


@contextmanager
def reporting(configuration: Configuration, read: Read) -> Iterator[None]:
    """Run the reporters that are configured while the block lasts; raises ``InvalidConfiguration`` if one is not known."""
    names = configuration.get(config.METRIC_REPORTERS)
    values = configuration.to_dict()
    made = []
    for name in names:
        prefix = f"{_PREFIX}{name}."
        options = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
        seconds = config.REPORTER_INTERVAL.parse(options.pop("interval", config.REPORTER_INTERVAL.default)) / 1000
        made.append((name, reporter_of(name, options), options, seconds))
    threads = [ReporterThread(name, reporter, options, seconds, read) for name, reporter, options, seconds in made]
    try:
        yield
    finally:
        for thread in threads:
            thread.end()
        now = SystemClock().monotonic
        until = now() + _CLOSE_SECONDS
        for thread in threads:
            thread.join(until - now())


_BEGIN_SECONDS = 60.0
_INTERRUPT_SECONDS = 5.0
"""The time (s) that user code of a cancelled job is interrupted again and again, once the grace period is over."""
_INTERRUPT_AGAIN_SECONDS = 0.2


class JobClient(JobDisplay):
    """A running job, as ``execute_async`` returns it.

    >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> _ = env.from_source(DataGeneratorSource(str, None, 1000), None, "endless").for_each(len)
    >>> client = env.execute_async("count for ever")
    >>> client.plan.name, len(client.get_job_id()), client.get_job_status().result().name
    ('count for ever', 32, 'RUNNING')
    >>> client.cancel().result(timeout=30)
    >>> client.get_job_status().result().name, client.get_job_execution_result().exception()
    ('CANCELED', JobCancelled("job 'count for ever' was cancelled"))

    A job can also be run by hand, with a runner of one's own choice:

    >>> from funken.runtime.driver.local_runner import LocalRunner
    >>> _ = env.from_collection(["a", "b"]).print()
    >>> client = JobClient(env.job("letters"), LocalRunner())
    >>> result = client.run()
    a
    b
    >>> [vertex.records_in for task in client.metrics().values() for vertex in task.vertices.values()]
    [2]
    """

    def __init__(self, job: Job, runner: Runner, served: bool = False) -> None:
        self._job = job
        self._runner = runner
        self._served = served
        self._context = copy_context()  # that of a notebook's cell, whatever thread runs the job
        if served:
            job.logs.from_workers()
        self._shown: Shown | None = None
        self._result: Future[JobExecutionResult] = Future()
        self._is_asked = False
        self._result.set_running_or_notify_cancel()  # a reader that gives up must not cancel the result itself
        self._wanted: set[str] = set()
        self._thread: threading.Thread | None = None
        self._begun = threading.Event()
        self._ending: threading.Thread | None = None
        self._settling = threading.RLock()  # a callback of the result may ask for what needs it

    def start(self) -> None:
        """Run the job in a thread of its own, once; returns when its watchers know of it.

        Raises ``JobExecutionError`` if one of them keeps the job from beginning for a minute.

        >>> from funken.runtime.driver.local_runner import LocalRunner
        >>> from funken.testing import local
        >>> words = local(["to", "be"])
        >>> _ = words.for_each(len)
        >>> client = JobClient(words.get_execution_environment().job("lengths"), LocalRunner())
        >>> client.start()
        >>> client.get_job_execution_result().result(timeout=30).get_job_id() == client.get_job_id()
        True
        """
        name = f"funken-job-{self._job.settings.job_id[:8]}"
        self._thread = threading.Thread(target=self._run_quietly, name=name, daemon=True)
        try:
            self._thread.start()
            if not came(self._begun, _BEGIN_SECONDS):
                raise JobExecutionError(
                    f"job {self._job.plan.name!r} did not begin within {_BEGIN_SECONDS:.0f} s and is "
                    "cancelled: a watcher (watch_jobs) has not returned. A watcher must not wait for the job "
                    "that it is shown."
                )
            if self._result.done() and isinstance(refused := self._result.exception(), NotToRun):
                raise refused
        except BaseException:
            self._job.cancel(suspend=True)  # nobody will have this client to do it
            raise

    def _complaint(self) -> str:
        """Return that the job has not ended, for the end of the script."""
        if self._is_asked and self._result.done():
            return ""
        if self._result.done():
            error = None if isinstance(self._result.exception(), JobCancelled) else self._result.exception()
            failure = "" if error is None else str(error.args[0] if error.args else error)
            failure = failure.removesuffix(" The traceback of the function follows.").removesuffix(".")
            remedy = "Ask for it, and the failure is raised: wait(), get_job_execution_result().result()."
            return (
                failure
                and f"never asked for the result of its job {self.plan.name!r}, which failed: {failure}. {remedy}"
            )
        return (
            f"ended while its job {self.plan.name!r} ran, and the job ends with it. Wait for the job: call wait() on the result "
            "of execute_sql() or execute_insert(), get_job_execution_result().result() on the client of execute_async()."
        )

    def _run_quietly(self) -> None:
        try:
            self.run()
        except BaseException:  # noqa: BLE001 - kept in the future; who asks for the result gets it
            return

    def run(self) -> JobExecutionResult:
        """Run the job here, once and to its end; prepared output is committed only if it succeeds.

        Raises ``JobExecutionError`` if it fails, ``JobCancelled`` if it is cancelled.
        """
        clock = SystemClock()
        begin = clock.monotonic()
        self._thread = threading.current_thread()
        execution = JobExecution(self._job, self._runner)
        leadership = Leadership(self._job, self._runner, self.suspend)
        master = self._job.master
        master.collectors.close_others(self._wanted)  # nobody will read them
        self._job.handle(JobSubmitted())
        try:
            self._shown = serve(self._job.configuration, self, self._served)
            with ExitStack() as watching:
                watching.enter_context(ctrl_c_heard(self._job.interruption.hear_ctrl_c))
                watching.enter_context(reporting(self._job.configuration, self._points))
                watching.enter_context(shown_in_notebook(self, self._job.configuration, self._context))
                for watch in watchers():
                    watching.enter_context(watch(self))
                leadership.wait(self._begun.set, self.get_web_interface_url())
                execution.run(self._begun.set)
            execution.end()
        except BaseException as error:  # noqa: BLE001 - kept in the future, and raised from there
            outcome: BaseException | None = error
            try:
                outcome = leadership.outcome(execution.end(error) or error)
            finally:
                execution.close()
                leadership.close(outcome)
                if outcome is not None:
                    self._settle(outcome)  # whoever waits hears of it, also if Ctrl-C came once more
            if outcome is not None:
                raise outcome from (error.__cause__ if outcome is error else error)
        finally:
            self._begun.set()
            master.collectors.end()
            self._job.diagnosis.finish()
        result = JobExecutionResult(self._job.settings.job_id, int((clock.monotonic() - begin) * 1000))
        execution.close()
        leadership.close()
        self._settle(result)
        return result

    def _points(self) -> list[MetricPoint]:
        return points_of(self._job.snapshot(), process_status())

    def _settle(self, result: JobExecutionResult | BaseException) -> None:
        """Set the result; only the first time counts."""
        with self._settling:
            if self._result.done():
                return
            if self._shown is not None:
                self._shown.close()
            if isinstance(result, JobExecutionResult):
                self._result.set_result(result)
            else:
                self._result.set_exception(result)

    @property
    def plan(self) -> PhysicalPlan:
        """The compiled plan."""
        return self._job.plan

    def explain(self) -> str:
        """Return the plan as text, with the numbers of records of vectorized operators per way so far, and reasons.

        >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> numbers = env.from_source(DataGeneratorSource(lambda i: i, 1000), None, "numbers")
        >>> _ = numbers.map(lambda i: i + 1).name("next").for_each(id)
        >>> client = env.execute_async()
        >>> _ = client.get_job_execution_result().result(timeout=30)
        >>> [line.strip() for line in client.explain().splitlines() if "so far" in line]
        ['so far 1,000 records on columns, 0 record by record']
        """
        from funken.plan.explain import explain_text, ways_taken

        metrics = [subtask.metrics.user for vertex in self.snapshot().vertices for subtask in vertex.subtasks]
        return explain_text(self.plan, ways_taken(self.plan, metrics))

    def get_job_id(self) -> str:
        """Return the job's id."""
        return self._job.settings.job_id

    def get_web_interface_url(self) -> str | None:
        """Return the address of the REST API and the dashboard; ``None`` if the job has none, or has not begun.

        >>> from funken.runtime.driver.local_runner import LocalRunner
        >>> from funken.testing import local
        >>> words = local(["to", "be"])
        >>> _ = words.for_each(len)
        >>> client = JobClient(words.get_execution_environment().job("lengths"), LocalRunner())
        >>> _ = client.run()
        >>> print(client.get_web_interface_url())  # rest.enabled: auto serves jobs on Spark
        None
        """
        return None if self._shown is None else self._shown.url

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the job's status now."""
        return CompletableFuture.of(self._job.machine.status)

    @property
    def restarts(self) -> int:
        """Number of restarts of the job after a failure.

        >>> from funken.runtime.driver.local_runner import LocalRunner
        >>> from funken.testing import local
        >>> words = local(["to", "be"])
        >>> _ = words.for_each(len)
        >>> client = JobClient(words.get_execution_environment().job("lengths"), LocalRunner())
        >>> _ = client.run()
        >>> client.restarts
        0
        """
        return self._job.machine.restarts

    def cancel(self) -> CompletableFuture[None]:
        """Stop the job; the future is done when nothing of it is left. A job that is over stays as it is.

        User code of a job that runs in this process is interrupted when ``task.cancellation.timeout`` is over. If that does
        not help, the future raises ``JobExecutionError``: it says which function blocks the job's thread, which is left.
        """
        return self._cancel(suspend=False)

    def _cancel(self, suspend: bool) -> CompletableFuture[None]:
        if not self._result.done():
            self._job.cancel(suspend)
            with self._settling:
                if self._ending is None:
                    self._ending = threading.Thread(target=self._end_user_code, name="funken-cancel", daemon=True)
                    self._ending.start()
        done: Future[None] = Future()

        def tell(result: Future[JobExecutionResult]) -> None:
            error = result.exception()
            if isinstance(error, _Blocked):
                done.set_exception(error)
            else:
                done.set_result(None)

        self._result.add_done_callback(tell)
        return CompletableFuture(done)

    def suspend(self) -> CompletableFuture[None]:
        """Stop the job because its program ends: one with an id of its own keeps its checkpoints, to be resumed.

        >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> _ = env.from_source(DataGeneratorSource(str, None, 1000)).for_each(len)
        >>> client = env.execute_async()
        >>> client.suspend().result(timeout=30); client.get_job_status().result().name
        'SUSPENDED'
        """
        return self._cancel(suspend=True)

    def _end_user_code(self) -> None:
        """Interrupt user code that does not come back; in the end give it up."""
        if self._is_over(self._job.settings.cancel_grace / 1000):
            return
        now = SystemClock().monotonic
        end = now() + _INTERRUPT_SECONDS
        while now() < end:
            self._job.interruption.interrupt()
            if self._is_over(_INTERRUPT_AGAIN_SECONDS):
                return
        blocked = self._job.interruption.where()
        if blocked is not None:
            function, trace = blocked
            self._job.handle(JobClosed(abandoned=True))
            self._settle(
                _Blocked(
                    f"job {self._job.plan.name!r} was cancelled, but its thread is still blocked in {function}, and does not "
                    "react to an interruption: it waits outside of Python, or catches every exception. It is left behind; "
                    "let the function wait for a bounded time only.",
                    traceback_text=f"Traceback of the blocked thread (most recent call last):\n{trace}",
                )
            )
            self._job.master.collectors.end()

    def _is_over(self, seconds: float) -> bool:
        return bool(wait([self._result], seconds).done)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Save the state of the running job, which goes on; the future has the savepoint's path.

        Without a directory it goes where ``execution.checkpointing.savepoint-dir`` says, else beside the checkpoints.
        Raises ``InvalidProgram`` for a job without checkpoints; a savepoint that fails is raised by the future.

        >>> import tempfile
        >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1).enable_checkpointing(1000)
        >>> _ = env.from_source(DataGeneratorSource(str, None, 1000)).uid("numbers").for_each(len)
        >>> client = env.execute_async()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = client.trigger_savepoint(folder).result(timeout=30)
        ...     path.startswith(folder), client.get_job_status().result().name
        ...     client.cancel().result(timeout=30)
        (True, 'RUNNING')
        """
        return CompletableFuture(self._savepoint(savepoint_directory, None))

    def trigger_checkpoint(self) -> CompletableFuture[str]:
        """Make a checkpoint of the running job now; the future has its path. Raises ``InvalidProgram`` without checkpoints.

        >>> import tempfile
        >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1).enable_checkpointing(60_000)
        >>> _ = env.from_source(DataGeneratorSource(str, None, 1000)).uid("numbers").for_each(len)
        >>> client = env.execute_async()
        >>> client.trigger_checkpoint().result(timeout=30).rpartition("/")[2]
        'chk-1'
        >>> client.cancel().result(timeout=30)
        """
        return CompletableFuture(self._saved().checkpoint())

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Save the state and end the job with it; the future has the savepoint's path when nothing of the job runs.

        With ``advance_to_end_of_event_time`` the job is drained: windows and event-time timers fire, as at the end of the
        input. Leave it False if a job is to resume from the savepoint.

        >>> import tempfile
        >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1).enable_checkpointing(1000)
        >>> _ = env.from_source(DataGeneratorSource(str, None, 1000)).uid("numbers").for_each(len)
        >>> client = env.execute_async()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = client.stop_with_savepoint(False, folder).result(timeout=30)
        ...     path.startswith(folder), client.get_job_status().result()
        (True, <JobStatus.FINISHED: 6>)
        """
        stop = Stop.DRAIN if advance_to_end_of_event_time else Stop.SUSPEND
        return CompletableFuture(when_over(self._savepoint(savepoint_directory, stop), self._result))

    def _savepoint(self, directory: str | None, stop: Stop | None) -> Future[str]:
        return self._saved().savepoint(directory, stop)

    def _saved(self) -> JobCheckpoints:
        """Return the checkpoints of the job; raises ``InvalidProgram`` if it has none."""
        if self._job.checkpoints is None:
            raise InvalidProgram(
                f"job {self._job.plan.name!r} runs without checkpoints, and so without savepoints. Call "
                "enable_checkpointing(), or set execution.checkpointing.savepoint-dir; a batch job has neither."
            )
        return self._job.checkpoints

    def rescale(self, parallelism: int) -> CompletableFuture[int]:
        """Go on with another parallelism, from a checkpoint that is made now; the future is done when all tasks run with it.

        Operators whose parallelism the program sets keep it. Raises ``InvalidProgram`` if the job has no checkpoints.

        >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1).enable_checkpointing(1000)
        >>> numbers = env.from_source(DataGeneratorSource(int, None, 1000)).uid("numbers").set_parallelism(1)
        >>> _ = numbers.key_by(lambda n: n % 9).sum().uid("sums").for_each(repr)
        >>> client = env.execute_async()
        >>> client.rescale(2).result(timeout=60), [vertex.parallelism for vertex in client.plan.vertices]
        (2, [1, 2])
        >>> client.cancel().result(timeout=30)
        """
        return CompletableFuture(self._job.rescale(parallelism))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return a future of the result; it raises the job's failure, or ``JobCancelled``."""
        self._is_asked = True
        return CompletableFuture(self._result)

    def _collector(self, sink: str) -> Collector:
        """Return the collector of a collecting sink's records."""
        self._wanted.add(sink)
        return self._job.master.collectors[sink]

    def snapshot(self) -> JobSnapshot:
        """Return a picture of the job: graph, states, metrics, checkpoints, failures, configuration; the job is not stopped.

        >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> _ = env.from_source(DataGeneratorSource(str, None, 1000), None, "numbers").for_each(len)
        >>> client = env.execute_async("count for ever")
        >>> job = client.snapshot()
        >>> job.name, job.state.name, [vertex.name for vertex in job.vertices]
        ('count for ever', 'RUNNING', ['numbers -> for_each'])
        >>> client.cancel().result(timeout=30)
        >>> client.snapshot().metrics()["numRestarts"]
        0
        """
        return self._job.snapshot()

    def logs(self) -> JobLogs:
        """Return the logs of the tasks and the fate of the job: ``read(after, limit)`` returns a page of them.

        >>> import logging
        >>> from funken.testing import local
        >>> words = local(["to", "be"])
        >>> _ = words.map(lambda word: logging.getLogger("shop").warning("no price for %s", word)).name("price").for_each(id)
        >>> client = words.get_execution_environment().execute_async()
        >>> _ = client.get_job_execution_result().result(timeout=30)
        >>> [(each["operator"], each["message"]) for each in client.logs().read(None, 10).records if each["operator"]]
        [('price', 'no price for to'), ('price', 'no price for be')]
        """
        return self._job.logs

    def stacks(self) -> JobStacks:
        """Return the sampler of the tasks' threads: ``request`` has tasks sampled, ``newest`` returns the samples.

        >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> _ = env.from_source(DataGeneratorSource(str, None, 1000)).for_each(len)
        >>> client = env.execute_async()
        >>> task = TaskId(0, 0)
        >>> any(each.name.startswith("funken-job") for each in client.stacks().threads([task], 30)[0].threads)
        True
        >>> client.cancel().result(timeout=30)
        """
        return self._job.stacks

    def metrics(self) -> dict[TaskId, MetricsReport]:
        """Return the newest metrics of each task: counts and the watermark per vertex; tasks report twice a second."""
        return dict(self._job.master.metrics)


class _Blocked(JobExecutionError):
    """User code of a job that was cancelled does not come back."""


# ---- The records of ``execute_and_collect``, as they come.


class CloseableIterator(Generic[T]):
    """The records of ``execute_and_collect``, as they come; closing it stops the job.

    Iterate, call ``next()``, or use it in a ``with`` block, which closes it. It raises the job's failure.

    >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> squares = env.from_source(DataGeneratorSource(lambda index: index * index))
    >>> records = squares.execute_and_collect("squares")  # there is no end of them
    >>> records.next(), records.next(), next(records)
    (0, 1, 4)
    >>> records.close()
    >>> records.get_job_client().get_job_status().result().name
    'CANCELED'
    """

    def __init__(self, collector: Collector, client: JobClient) -> None:
        self._collector = collector
        self._client = client
        self._block: Iterator[T] = iter(())
        self._over = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: records of {self._client!r}>"

    def _repr_html_(self) -> str:
        return self._client._repr_html_()

    def __iter__(self) -> CloseableIterator[T]:
        return self

    def __next__(self) -> T:
        while True:
            for record in self._block:
                return record
            if self._over:
                raise StopIteration
            block = self._collector.get()
            if block is None:
                self._over = True
                self._client.get_job_execution_result().result()
                raise StopIteration
            self._block = iter(block)

    def __length_hint__(self) -> Any:
        """Warn if all records are asked for at once, as by ``list()``, and there is no end of them."""
        if not self._over and not self._client.plan.bounded:
            logger.warning(
                "job %r: all of its records are asked for at once (%s), but its input has no end, so this does not end. Iterate "
                "over them, or give execute_and_collect(limit=...).",
                self._client.plan.name, place_of_program(),
            )  # fmt: skip
        return NotImplemented

    def next(self) -> T:
        """Return the next record, waiting for it; raises ``StopIteration`` after the last."""
        return self.__next__()

    def get_job_client(self) -> JobClient:
        """Return the job that produces the records."""
        return self._client

    def close(self) -> None:
        """Stop the job if it runs, and wait until it has stopped."""
        self._close(self._client.cancel)

    def _close(self, stop: Callable[[], CompletableFuture[None]]) -> None:
        self._over = True
        self._block = iter(())
        self._collector.close()
        if not self._client.get_job_execution_result().done():
            stop().result()

    def __del__(self) -> None:
        if (
            not getattr(self, "_over", True)
            and not sys.is_finalizing()
            and not self._client.get_job_execution_result().done()
        ):
            logger.warning(
                "job %r: its records are read no more, but it runs on. Read them in a with block, or give "
                "execute_and_collect(limit=...).",
                self._client.plan.name,
            )

    def __enter__(self) -> CloseableIterator[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ends = kind is not None and not issubclass(kind, Exception | GeneratorExit)  # the program does: Ctrl-C, say
        self._close(self._client.suspend if ends else self._client.cancel)
