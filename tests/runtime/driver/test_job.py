"""A job's events from wherever they come."""

from funken.runtime.job.events import CancelRequested, JobScheduled, JobSubmitted, RunAttempt
from funken.testing import local


def test_an_event_within_an_event_waits_its_turn():
    stream = local([1])
    stream.for_each(len)
    job = stream.get_execution_environment().job("interrupted")
    handle, seen = job.machine.handle, []

    def interrupted(event, now, wall):
        """As if a signal handler cancelled the job while the machine works."""
        if isinstance(event, JobScheduled):
            assert job.handle(CancelRequested()) is None
            seen.append(job.machine.status.name)
        return handle(event, now, wall)

    job.machine.handle = interrupted
    job.handle(JobSubmitted())

    assert job.handle(JobScheduled()) == RunAttempt(0)
    assert seen == ["CREATED"] and job.machine.status.name == "CANCELLING" and job.cancelled.is_set()
    job.machine.validate()
