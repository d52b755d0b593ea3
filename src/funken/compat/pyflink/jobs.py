"""Jobs as PyFlink's users see them: ids and states of its own types, futures for everything that may take time."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import funken as native
from funken.api.jobs.client import CloseableIterator
from funken.api.jobs.results import CompletableFuture
from funken.compat.pyflink.adoption import adopt, adopting
from funken.runtime.job.states import JobStatus


class JobID:
    """The id of a job: 32 hexadecimal digits."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._job_id == other._job_id

    def __hash__(self) -> int:
        return hash(self._job_id)

    def __str__(self) -> str:
        return self._job_id

    def __repr__(self) -> str:
        return f"JobID({self._job_id!r})"


@adopting(native.JobExecutionResult)
class JobExecutionResult(native.JobExecutionResult):
    """The result of a finished job."""

    def get_job_id(self) -> JobID:  # type: ignore[override]
        """Return the job's id."""
        return JobID(self._job_id)

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return an accumulator's value, ``None`` if there is no such accumulator."""
        return self.get_all_accumulator_results().get(accumulator_name)

    def is_job_execution_result(self) -> bool:
        """Return True: this is the result of a job that ended."""
        return True

    def __str__(self) -> str:
        return f"Program execution finished\nJob with JobID {self._job_id} has finished.\n" \
               f"Job Runtime: {self._net_runtime} ms\n"  # fmt: skip


@adopting(native.JobClient)
class JobClient(native.JobClient):
    """A running job."""

    def get_job_id(self) -> JobID:  # type: ignore[override]
        """Return the job's id."""
        return JobID(super().get_job_id())

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:  # type: ignore[override]
        """Return a future of the result; it raises the job's failure."""
        result: Future[JobExecutionResult] = Future()

        def take(done: Future[native.JobExecutionResult]) -> None:
            error = done.exception()
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(adopt(done.result()))

        self._result.add_done_callback(take)
        return CompletableFuture(result)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the accumulators: there are none."""
        return CompletableFuture.of({})


__all__ = ["CloseableIterator", "CompletableFuture", "JobStatus"]
