"""A job's events from wherever they come."""

from types import SimpleNamespace

import pytest

from funken.api.jobs.client import JobClient
from funken.runtime.driver.local_runner import JobExecution, LocalRunner
from funken.runtime.job.states import CancelRequested, JobScheduled, JobStatus, JobSubmitted, RunAttempt
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


def test_a_job_whose_end_is_interrupted_before_it_is_decided_ends_all_the_same(monkeypatch):
    stream = local([1])
    stream.for_each(len)
    client = JobClient(stream.get_execution_environment().job("interrupted"), LocalRunner())

    def interrupt(self, *_):
        raise KeyboardInterrupt

    monkeypatch.setattr(JobExecution, "run", interrupt)
    monkeypatch.setattr(JobExecution, "end", interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.run()

    assert client.get_job_status().result() is JobStatus.CANCELED
    assert client.get_job_execution_result().done()


def test_an_attempt_is_planned_anew_where_windows_were_saved_in_keyed_state(monkeypatch):
    stream = local([1])
    stream.for_each(len)
    job = stream.get_execution_environment().job("windows")
    planned = []
    monkeypatch.setattr(job, "stage", SimpleNamespace(plan=lambda found: planned.append(set(found))))
    general, aligned = ({name: None} for name in ("_window.contents", "_windows.panes"))

    for states in (aligned, general, general, aligned):
        restores = {("window", 0): SimpleNamespace(states=states), ("other", 0): SimpleNamespace(states={})}
        job._plan_attempt(SimpleNamespace(subtasks=restores))
    job._plan_attempt(None)

    assert planned == [{"window"}, set()]
