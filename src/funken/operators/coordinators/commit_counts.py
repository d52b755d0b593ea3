"""What the commits of a job have come to, for its metrics."""

from __future__ import annotations

from funken.dataclass import dataclass


@dataclass
class CommitCounts:
    """Committables of all sinks of a job, over all its attempts, by Flink's names; written by the threads that commit.

    >>> counts = CommitCounts()
    >>> counts.metrics()
    {}
    >>> counts.success += 2
    >>> counts.last_duration = 0.0123
    >>> [(name, value) for name, value in counts.metrics().items() if value]
    [('numCommittablesSuccess', 2), ('lastCommitDuration', 12.3)]
    """

    success: int = 0
    already: int = 0
    retry: int = 0
    failure: int = 0
    #: how long (s) the last commit of a checkpoint took, with its retries
    last_duration: float | None = None

    def metrics(self) -> dict[str, int | float]:
        """Return them by name; nothing before the first commit."""
        if self.last_duration is None:
            return {}
        return {
            "numCommittablesSuccess": self.success,
            "numCommittablesAlreadyCommitted": self.already,
            "numCommittablesRetry": self.retry,
            "numCommittablesFailure": self.failure,
            "lastCommitDuration": round(self.last_duration * 1000, 3),
        }


__all__ = ["CommitCounts"]
