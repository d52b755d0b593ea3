"""What is shown of a job: its name and status, and in a notebook its plan with how much each vertex has read."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from funken.plan.drawing import plan_svg

if TYPE_CHECKING:
    from funken.api.jobs.results import CompletableFuture
    from funken.plan.physical import PhysicalPlan
    from funken.runtime.driver.job import Job
    from funken.runtime.job.states import JobStatus
    from funken.runtime.messages import MetricsReport, TaskId


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
        """What was noticed about the job so far, such as late records; also logged.

        >>> from funken.testing import local
        >>> _ = (words := local(["to", "be"])).for_each(len)
        >>> words.get_execution_environment().execute_async().warnings
        ()
        """
        return tuple(warning.text for warning in self._job.diagnosis.warnings)
