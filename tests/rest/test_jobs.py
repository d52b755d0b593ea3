"""The jobs of a server: snapshots are shared, and jobs that are over are bounded."""

import threading
from dataclasses import replace

import pytest

from funken.errors import RequestRejected
from funken.runtime.job.states import JobStatus
from tests.rest.conftest import JOB, FakeJob


def test_requests_within_the_bound_share_a_snapshot(jobs, job, clock):
    entry = jobs.get(JOB)
    first = entry.picture()
    clock.advance(499)
    assert entry.picture() is first
    clock.advance(1)

    assert entry.picture() is not first
    assert job.taken == 3  # the first when the job was added


def test_of_a_job_that_is_over_only_the_last_snapshot_is_kept(jobs, job, clock):
    job.current = replace(job.current, state=JobStatus.FINISHED)
    jobs.close(job.entry)
    clock.advance(10_000)

    assert jobs.get(JOB).snapshot.state is JobStatus.FINISHED
    assert jobs.get(JOB).job is None
    assert job.taken == 2


def test_a_snapshot_that_is_being_taken_when_the_job_ends_does_not_hide_its_end(jobs):
    job = FakeJob()
    entry = jobs.add(job)
    inside, closed = threading.Event(), threading.Event()
    running = job.current

    def slow():
        inside.set()
        closed.wait(0.2)  # in vain, as long as only one snapshot is taken at a time
        return running

    job.snapshot = slow
    reader = threading.Thread(target=entry.picture)
    reader.start()
    assert inside.wait(10)
    job.current = replace(running, state=JobStatus.FINISHED)
    job.snapshot = lambda: job.current
    jobs.close(entry)
    closed.set()
    reader.join(10)

    assert entry.snapshot.state is JobStatus.FINISHED


def test_only_the_newest_jobs_that_are_over_are_shown(jobs):
    running = jobs.add(FakeJob(id="running"))
    for name in ("one", "two", "three"):
        jobs.close(jobs.add(FakeJob(id=name)))

    assert [entry.id for entry in jobs.all()] == ["running", "two", "three"]
    assert jobs.get("running") is running
    with pytest.raises(RequestRejected, match="Job one not found"):
        jobs.get("one")


def test_a_job_that_starts_again_replaces_its_former_run(jobs):
    jobs.close(jobs.add(FakeJob(id="orders")))
    again = jobs.add(FakeJob(id="orders"))

    assert jobs.all() == [again]
