"""What a job does with its election, in one process."""

import logging

import pytest

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment
from funken.errors import EnvironmentNotReady, InvalidConfiguration, StorageFailed
from funken.io.storage import LocalStorage
from funken.leaderelection.election import LeaseElection, published
from funken.runtime.driver.local_runner import LocalRunner
from funken.timing.clock import SystemClock

WAIT = 60


def started(folder, count=None, **options):
    conf = {
        "execution.target": "local",
        "parallelism.default": 1,
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(folder),
        "high-availability.type": "lease",
        "high-availability.cluster-id": "orders",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(conf | options))
    env.from_source(DataGeneratorSource(int, count, 1000)).uid("numbers").for_each(lambda _: None)
    return env.execute_async("orders")


def test_without_kazoo_the_job_fails_and_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kazoo.client", None)
    options = {"high-availability.type": "zookeeper", "high-availability.zookeeper.quorum": "127.0.0.1:1"}
    with pytest.raises(EnvironmentNotReady, match="pip install 'funken\\[zookeeper\\]'"):
        started(tmp_path, **options).get_job_execution_result().result(timeout=WAIT)


def test_without_zookeeper_the_job_fails_and_says_where_it_looked(tmp_path):
    pytest.importorskip("kazoo", reason="install it with: pip install 'funken[zookeeper]'")
    options = {
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": "127.0.0.1:1",
        "high-availability.zookeeper.client.connection-timeout": "500 ms",
    }
    with pytest.raises(EnvironmentNotReady, match=r"no ZooKeeper at 127\.0\.0\.1:1 has answered within 0\.5 s"):
        started(tmp_path, **options).get_job_execution_result().result(timeout=WAIT)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"execution.checkpointing.interval": 0}, "a standby has no checkpoint to take the job over from"),
        ({"high-availability.type": "zookeeper"}, "high-availability.zookeeper.quorum is not set"),
    ],
)
def test_what_is_missing_is_refused_at_once(tmp_path, options, says):
    with pytest.raises(InvalidConfiguration, match=says):
        started(tmp_path, **options)


def test_a_standby_can_be_cancelled_and_a_job_that_has_finished_is_not_run_again(tmp_path):
    other = LeaseElection(LocalStorage(f"{tmp_path}/_high-availability/orders/orders/leader"), duration=300.0)
    other.start(lambda reason: None)
    assert other.granted.wait(WAIT)
    standby = started(tmp_path)
    assert standby.get_job_status().result().name == "CREATED"
    standby.cancel().result(timeout=WAIT)
    other.close()

    first = started(tmp_path, count=10)
    first.get_job_execution_result().result(timeout=WAIT)
    again = started(tmp_path, count=10)
    assert again.get_job_execution_result().result(timeout=WAIT).get_job_id() == "orders"
    assert again.snapshot().attempt == 0 and again.get_job_status().result().name == "SUSPENDED"


class Preparing(LocalRunner):
    """Notes for which jobs it was to prepare something; fails if that is wished."""

    def __init__(self, error=None):
        super().__init__()
        self.prepared, self.error = [], error

    def prepare(self, job):
        self.prepared.append(job)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [None, EnvironmentNotReady("no slot is free")])
def test_a_standby_prepares_what_an_attempt_needs_and_a_leader_does_not(tmp_path, monkeypatch, caplog, error):
    caplog.set_level(logging.INFO, "funken.api.jobs.client")
    monkeypatch.setattr("funken.api.jobs.client._FIRST_SECONDS", 0.5)
    runner = Preparing(error)
    monkeypatch.setattr("funken.api.submission.runner_for", lambda target: runner)
    first = started(tmp_path, count=10)
    first.get_job_execution_result().result(timeout=WAIT)
    assert runner.prepared == []

    other = LeaseElection(LocalStorage(f"{tmp_path}/_high-availability/bills/orders/leader"), duration=300.0)
    other.start(lambda reason: None)
    assert other.granted.wait(WAIT)
    options = {"high-availability.cluster-id": "bills", "execution.job-id": "orders"}
    standby = started(tmp_path, count=10, **options)
    until = SystemClock().monotonic() + WAIT
    while "this standby is" not in caplog.text and SystemClock().monotonic() < until:
        standby.get_job_status()
    assert len(runner.prepared) == 1
    assert ("cold: EnvironmentNotReady: no slot is free" in caplog.text) is (error is not None)
    other.close()
    standby.get_job_execution_result().result(timeout=WAIT)


def test_a_leader_notes_where_it_answers_until_its_job_is_over(tmp_path):
    pytest.importorskip("uvicorn")
    client = started(tmp_path, **{"rest.enabled": "true"})
    until = SystemClock().monotonic() + WAIT
    while not (found := published(str(tmp_path))) and SystemClock().monotonic() < until:
        client.get_job_status()
    assert [each.url for each in found] == [client.get_web_interface_url()]

    client.cancel().result(timeout=WAIT)
    assert published(str(tmp_path)) == []


def test_a_note_that_cannot_be_written_does_not_keep_the_job_from_running(tmp_path, monkeypatch, caplog):
    def refuse(storage, url):
        raise StorageFailed("no space is left")

    monkeypatch.setattr("funken.api.jobs.client.publish", refuse)
    pytest.importorskip("uvicorn")
    started(tmp_path, count=10, **{"rest.enabled": "true"}).get_job_execution_result().result(timeout=WAIT)

    assert "who looks for all jobs does not find it, because no space is left" in caplog.text
