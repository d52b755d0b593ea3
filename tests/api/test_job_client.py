"""A job's client when it is interrupted: whoever waits for the job hears of its end, and nothing runs on unseen."""

import threading
from contextlib import contextmanager

import pytest

from funken.api import job
from funken.api.job import JobClient, watch_jobs
from funken.errors import JobCancelled, JobExecutionError
from funken.runtime.local import LocalRunner
from funken.testing import local


def client_of(runner):
    stream = local(["to", "be"])
    stream.for_each(len)
    return JobClient(stream.get_execution_environment().job("interrupted"), runner)


class Failing:
    def run(self, job):
        raise JobExecutionError("boom")


@pytest.mark.parametrize("again", [KeyboardInterrupt(), OSError("no disk")])
def test_a_job_whose_end_is_interrupted_has_a_result_all_the_same(monkeypatch, again):
    client = client_of(Failing())

    def stopped(outcome):
        raise again

    monkeypatch.setattr(client, "_stopped", stopped)

    with pytest.raises((KeyboardInterrupt, JobExecutionError)) as raised:
        client.run()

    assert str(client.get_job_execution_result().exception(timeout=1)) == "boom"
    assert isinstance(raised.value, KeyboardInterrupt) or "no disk" in raised.value.__notes__[0]


def test_an_interrupted_start_leaves_no_job_behind(monkeypatch):
    client = client_of(LocalRunner())

    class Interrupted:
        def set(self):
            pass

        def is_set(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(client, "_begun", Interrupted())

    with pytest.raises(KeyboardInterrupt):
        client.start()

    assert client._job.cancelled.is_set()


def test_a_watcher_that_does_not_return_ends_the_start(monkeypatch):
    returned = threading.Event()
    monkeypatch.setattr(job, "_BEGIN_SECONDS", 0.01)
    client = client_of(LocalRunner())

    @contextmanager
    def waiting(client):
        returned.wait(5)
        yield

    try:
        with (
            watch_jobs(waiting),
            pytest.raises(JobExecutionError, match=r"'interrupted' did not begin .* \(watch_jobs\)"),
        ):
            client.start()
    finally:
        returned.set()
    with pytest.raises(JobCancelled):
        client.get_job_execution_result().result(timeout=20)
