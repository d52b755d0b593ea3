"""The coordinator of a sink: commits on the driver what the writers prepared, and retries what cannot be committed yet.

The committer runs on the coordinator's worker thread only. Whoever wants a commit waits for it, with a bound, and never holds
the lock of the job master. Between retries there is a pause, which doubles; it ends early if the attempt fails, for the next
attempt commits the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from funken import config
from funken.config import Configuration
from funken.connectors.base import CommitterContext
from funken.connectors.sink import CommitOutcome, CommitRequest, Committer, PreparedCommittable, Sink
from funken.dataclass import dataclass
from funken.errors import CommitError
from funken.operators.coordinators.base import CommitCounts, OperatorCoordinator, OperatorCoordinatorContext
from funken.timing.clock import SystemClock

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass(frozen=True)
class CommitSettings:
    """How often a commit is retried, and how long one call of a committer may take (s)."""

    retries: int = 10
    timeout: float = 600.0

    @staticmethod
    def of(configuration: Configuration) -> CommitSettings:
        """Read the settings out of a configuration."""
        get = configuration.get
        return CommitSettings(get(config.COMMITTER_RETRIES), get(config.COMMITTER_TIMEOUT) / 1000)


class CommitCoordinator(OperatorCoordinator):
    """The commits of one sink in one attempt.

    >>> class Slow(Committer):
    ...     def commit(self, requests):
    ...         for request in requests:
    ...             print("commit", request.committable)
    ...             if request.retries < 1:
    ...                 request.retry_later("not yet")
    >>> class Out(Sink):
    ...     def committer(self, context):
    ...         return Slow()
    >>> coordinator = CommitCoordinator(OperatorCoordinatorContext("out"), Out())
    >>> coordinator.start()
    >>> coordinator.commit([PreparedCommittable("job", 1, 0, "part-0")])
    commit part-0
    commit part-0
    """

    def __init__(self, context: OperatorCoordinatorContext, sink: Sink, settings: CommitSettings | None = None) -> None:
        super().__init__(context)
        self._sink = sink
        self._settings = settings or CommitSettings.of(context.configuration)
        self._committer: Committer | None = None
        self._recovered = False
        self._opened = False
        self._counts = CommitCounts()
        #: what finished subtasks prepared in a job without checkpoints
        self._prepared: list[PreparedCommittable] = []

    def metrics(self) -> dict[str, int | float]:
        """Return what became of the committables of this sink."""
        return {f"committer.{name}": value for name, value in self._counts.metrics().items()}

    # ---- life

    def start(self) -> None:
        """Check the sink; recover, unless a checkpoint was recovered from."""
        self._sink.check()
        if not self._recovered:
            self.recover(())

    def recover(self, prepared: Sequence[PreparedCommittable]) -> None:
        """Commit what the checkpoint holds that the attempt starts from; once, before any task runs."""
        self._recovered = True
        committer = self._open(prepared)
        if committer is not None:
            self._until_done(committer, prepared, committer.recover)

    def close(self) -> None:
        """Close the committer."""
        committer, self._committer, self._opened = self._committer, None, False
        if committer is not None:
            self._call(committer.close, "close")

    def _open(self, prepared: Sequence[PreparedCommittable]) -> Committer | None:
        if not self._opened:
            of = self.context
            interval = of.configuration.get(config.CHECKPOINT_INTERVAL)
            self._committer = self._sink.committer(
                CommitterContext(
                    of.operator, of.parallelism, of.job_id, of.operator_uid, of.attempt, of.restored_checkpoint_id,
                    interval if interval > 0 else None,
                )
            )  # fmt: skip
            self._opened = True
            if self._committer is not None:
                self._call(self._committer.open, "open")
        if self._committer is None and prepared:
            raise CommitError(
                f"{of_operator(self.context)}: its writers prepared {len(prepared)} committables, but "
                f"{type(self._sink).__name__} has no committer; define committer(), or return nothing from prepare_commit().",
                self.context.operator,
            )
        return self._committer

    # ---- commits

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Keep what a subtask prepared until the job has succeeded."""
        self._prepared.extend(payload)  # at once, for any thread

    def discard_output(self, subtask: int, payload: Any) -> None:
        """Let the committer drop what an attempt prepared that does not count."""
        self.abort(payload)

    def succeeded(self) -> None:
        """The job has succeeded: commit what its subtasks prepared."""
        prepared, self._prepared = self._prepared, []
        self.commit(prepared)

    def commit(self, prepared: Sequence[PreparedCommittable]) -> None:
        """Commit, and retry what is to be retried; raises if something cannot be committed. May take long."""
        committer = self._open(prepared) if prepared else None
        if committer is not None:
            self._until_done(committer, prepared, committer.commit)

    def abort(self, prepared: Sequence[PreparedCommittable] = ()) -> None:
        """Let the committer drop what an attempt prepared in vain; without arguments all that is not committed."""
        if not prepared:
            prepared, self._prepared = self._prepared, []
        committer = self._open(prepared) if prepared else None
        if committer is not None:
            requests = self._requests(prepared)
            self._call(lambda: committer.abort(requests), "abort")

    def _until_done(
        self,
        committer: Committer,
        prepared: Iterable[PreparedCommittable],
        commit: Callable[[Sequence[CommitRequest]], None],
    ) -> None:
        requests, pause, retries = self._requests(prepared), _FIRST_PAUSE, 0
        clock = SystemClock()
        began = clock.monotonic()
        while True:
            given = tuple(requests)
            self._call(partial(commit, given), "commit")
            for counts in (self._counts, self.context.commits) if given else ():
                counts.count(given, clock.monotonic() - began)
            for request in requests:
                if request.outcome is CommitOutcome.FAILED:
                    raise self._failed(request, request.reason) from request.error
            requests = [request for request in requests if request.outcome is CommitOutcome.RETRY_LATER]
            if not requests:
                return
            if retries == self._settings.retries:
                raise self._failed(requests[0], f"{requests[0].reason or 'it was to be retried'} ({retries} retries)")
            if not self.context.worker.pause(pause):
                raise self._failed(
                    requests[0], f"{requests[0].reason or 'it was to be retried'}; the attempt has ended"
                )
            retries, pause = retries + 1, min(2 * pause, _LONGEST_PAUSE)
            for request in requests:
                request.retries, request.outcome = retries, CommitOutcome.COMMITTED
            commit = committer.commit

    def _requests(self, prepared: Iterable[PreparedCommittable]) -> list[CommitRequest]:
        return [
            CommitRequest(
                of.committable,
                job_id=of.job_id,
                operator_uid=self.context.operator_uid,
                subtask=of.subtask,
                checkpoint_id=of.checkpoint_id,
            )
            for of in prepared
        ]

    def _call(self, work: Callable[[], None], what: str) -> None:
        self.context.worker.call(
            work, self._settings.timeout, f"{of_operator(self.context)}: {what}() of its committer"
        )

    def _failed(self, request: CommitRequest, why: str) -> CommitError:
        at = "" if request.checkpoint_id is None else f" for checkpoint {request.checkpoint_id}"
        return CommitError(
            f"{of_operator(self.context)}: what subtask {request.subtask} prepared{at} is not committed: {why}",
            self.context.operator,
            request.subtask,
        )


def of_operator(context: OperatorCoordinatorContext) -> str:
    """Return how messages name the operator."""
    return f"operator {context.operator!r}"


__all__ = ["CommitCoordinator", "CommitSettings"]
