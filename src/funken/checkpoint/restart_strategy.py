"""Restart strategies: the next attempt after a failure and its delay, or the end of the job.

``fault_of`` says what is known of a cause, ``is_retried`` whether the strategy is asked at all, ``outcome_of`` how a job
ended that has not finished, which decides on its checkpoints. All are pure.

A strategy is notified of each failure and returns ms to wait, or ``None``: the job has failed for good. It reads no clock
and draws no random number; both are arguments (``jitter`` from -1 to 1). One failure per attempt is reported, no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import field
from typing import Protocol

from funken import config
from funken.checkpoint.machine import Outcome
from funken.checkpoint.store.blobs import folder_of
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import (
    CheckpointError,
    EnvironmentNotReady,
    Fault,
    InvalidConfiguration,
    InvalidProgram,
    JavaNotFound,
    JobExecutionError,
    LeadershipLost,
    SessionNotSuitable,
    SessionStopped,
    StateError,
    SuppressRestarts,
)
from funken.ids import CheckpointId, Millis

_ENVIRONMENT = (OSError, MemoryError, EnvironmentNotReady, CheckpointError)
_PERMANENT = (
    # of the environment
    FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError,
    # of the program: ValueError covers InvalidProgram, LookupError a missing key of a configuration
    ImportError, NameError, AttributeError, TypeError, ValueError, LookupError, NotImplementedError, StateError,
)  # fmt: skip
_FINAL = (SuppressRestarts, LeadershipLost, JavaNotFound, SessionNotSuitable, SessionStopped)


def fault_of(error: BaseException) -> Fault:
    """Return the known cause of a failure.

    >>> fault_of(FileNotFoundError("model.bin")), fault_of(RuntimeError("no answer"))
    (<Fault.ENVIRONMENT|PERMANENT: 3>, <Fault: 0>)
    """
    if isinstance(error, JobExecutionError):
        return error.fault
    fault = Fault(0)
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, _FINAL):
            fault |= Fault.FINAL
        seen.add(id(cause))
        cause = cause.__cause__
    if isinstance(error, _ENVIRONMENT):
        fault |= Fault.ENVIRONMENT
    if isinstance(error, _PERMANENT):
        fault |= Fault.PERMANENT
    return fault


def is_retried(error: Exception, *, checked: bool, ran: bool) -> bool:
    """Return True if the restart strategy is asked after a failure.

    ``checked``: an attempt has found its sources and sinks in order; ``ran``: all tasks of an attempt were open once.

    >>> missing = FileNotFoundError("model.bin")
    >>> is_retried(missing, checked=True, ran=False), is_retried(missing, checked=True, ran=True)
    (False, True)
    """
    fault = fault_of(error)
    if not checked or Fault.FINAL in fault:
        return False
    if isinstance(error, JobExecutionError):
        return ran or Fault.PERMANENT not in fault
    return ran and not isinstance(error, InvalidProgram)


def outcome_of(error: BaseException, *, cancelled: bool, suspended: bool) -> Outcome:
    """Say how a job ended that has not finished: by whom it was stopped, or whose failure it was.

    >>> outcome_of(KeyboardInterrupt(), cancelled=True, suspended=False)
    <Outcome.SUSPENDED: 'suspended'>
    """
    if suspended or not isinstance(error, Exception):
        return Outcome.SUSPENDED
    if cancelled:
        return Outcome.CANCELLED
    return Outcome.LOST if Fault.ENVIRONMENT in fault_of(error) else Outcome.FAILED


def resume_hint(job_id: str, kept: Sequence[int], root: str, unusable: str = "") -> str | None:
    """Say from where a job that has ended can go on; ``None`` if there is nothing to say.

    ``unusable``: why none of its complete checkpoints can be used.

    >>> resume_hint("orders", [], "/checkpoints")
    "no checkpoint was complete, so a start with execution.job-id 'orders' begins anew"
    """
    if kept:
        name = f"checkpoint {kept[-1]} ({root}/{folder_of(CheckpointId(kept[-1]))})"
        if job_id:
            return f"a start with {config.JOB_ID.key} {job_id!r} resumes from {name}"
        return f"{name} stays; start from it with {config.RESTORE_PATH.key}, or delete it"
    if unusable:
        start = f"a start with {config.JOB_ID.key} {job_id!r} is refused" if job_id else "it cannot go on"
        return f"{start} unless that is mended, or {config.ALLOW_FRESH_START.key} is set: {unusable.rstrip('.')}"
    return f"no checkpoint was complete, so a start with {config.JOB_ID.key} {job_id!r} begins anew" if job_id else None


class RestartStrategy(Protocol):
    """Decides about restarts; remembers the failures of one job."""

    def failed(self, now: Millis, jitter: float = 0.0) -> Millis | None:
        """An attempt failed at ``now``; return the delay before the next (ms), ``None``: there is none."""
        ...


@dataclass(slots=True)
class NoRestart:
    """The first failure is the last."""

    def failed(self, now: Millis, jitter: float = 0.0) -> Millis | None:
        """Give up."""
        return None


@dataclass(slots=True)
class FixedDelay:
    """So many restarts in all, each after the same time.

    >>> strategy = FixedDelay(attempts=2, delay=Millis(50))
    >>> [strategy.failed(Millis(0)) for _ in range(3)]
    [50, 50, None]
    """

    attempts: int
    delay: Millis
    restarts: int = 0

    def failed(self, now: Millis, jitter: float = 0.0) -> Millis | None:
        """Wait, unless there were too many."""
        self.restarts += 1
        return self.delay if self.restarts <= self.attempts else None


@dataclass(slots=True)
class FailureRate:
    """Restarts as long as no more than so many failures fall into an interval.

    >>> strategy = FailureRate(failures=1, interval=Millis(1000), delay=Millis(5))
    >>> [strategy.failed(Millis(at)) for at in (0, 2000, 2500)]
    [5, 5, None]
    """

    failures: int
    interval: Millis
    delay: Millis
    recent: deque[Millis] = field(default_factory=deque)

    def failed(self, now: Millis, jitter: float = 0.0) -> Millis | None:
        """Wait, unless there were too many lately."""
        self.recent.append(now)
        while now - self.recent[0] > self.interval:
            self.recent.popleft()
        return self.delay if len(self.recent) <= self.failures else None


@dataclass(slots=True)
class ExponentialDelay:
    """Longer and longer waits, until the job has run for long enough to start over.

    >>> strategy = ExponentialDelay(Millis(100), Millis(300), 2.0, Millis(10_000), jitter_factor=0.1)
    >>> [strategy.failed(Millis(at)) for at in (0, 1000, 2000)], strategy.failed(Millis(20_000), jitter=-1)
    ([100, 200, 300], 90)
    """

    initial: Millis
    maximum: Millis
    multiplier: float
    reset_after: Millis
    jitter_factor: float = 0.0
    attempts: int = 2**31 - 1
    restarts: int = 0
    backoff: float = 0.0
    restarted_at: Millis | None = None

    def failed(self, now: Millis, jitter: float = 0.0) -> Millis | None:
        """Wait longer than the last time, or as at first if that was long ago; ``jitter`` moves it up or down a little."""
        if self.restarted_at is None or now - self.restarted_at >= self.reset_after:
            self.restarts, self.backoff = 0, self.initial
        else:
            self.backoff = min(self.backoff * self.multiplier, self.maximum)
        self.restarts += 1
        if self.restarts > self.attempts:
            return None
        delay = Millis(round(min(self.backoff * (1 + self.jitter_factor * jitter), self.maximum)))
        self.restarted_at = Millis(now + delay)
        return delay


def restart_strategy(configuration: Configuration) -> RestartStrategy:
    """Make the strategy that the options ask for; without any: exponential delay if there are checkpoints, else none.

    >>> restart_strategy(Configuration({"restart-strategy.type": "fixed-delay"}))
    FixedDelay(attempts=1, delay=1000, restarts=0)
    """
    get = configuration.get
    kind = get(config.RESTART_STRATEGY)
    if kind == "default":
        kind = "exponential-delay" if get(config.CHECKPOINT_INTERVAL) > 0 else "none"
    if kind == "none":
        return NoRestart()
    if kind == "fixed-delay":
        return FixedDelay(get(config.FIXED_DELAY_ATTEMPTS), Millis(get(config.FIXED_DELAY)))
    if kind == "failure-rate":
        return FailureRate(
            get(config.FAILURE_RATE_MAX),
            Millis(get(config.FAILURE_RATE_INTERVAL)),
            Millis(get(config.FAILURE_RATE_DELAY)),
        )
    initial, maximum = get(config.EXPONENTIAL_INITIAL), get(config.EXPONENTIAL_MAX)
    if maximum < initial:
        option = config.EXPONENTIAL_MAX
        raise InvalidConfiguration(
            f"option {option.key!r} is {maximum}; it must be the initial backoff, {initial}, or more. It means: {option.doc}"
        )
    return ExponentialDelay(
        Millis(initial),
        Millis(maximum),
        get(config.EXPONENTIAL_MULTIPLIER),
        Millis(get(config.EXPONENTIAL_RESET)),
        get(config.EXPONENTIAL_JITTER),
        get(config.EXPONENTIAL_ATTEMPTS),
    )
