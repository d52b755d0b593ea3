"""A job as a REST server sees it, made by hand: two vertices of two subtasks, checkpoints, a failure."""

from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from funken.api.jobs.results import CompletableFuture
from funken.config import Configuration
from funken.errors import InvalidProgram
from funken.rest.jobs import Jobs
from funken.rest.settings import RestSettings
from funken.runtime.driver.diagnosis import JobStacks
from funken.runtime.driver.job import JobLogs
from funken.runtime.job.snapshot import (
    CheckpointsSnapshot,
    CheckpointStats,
    EdgeInfo,
    JobGraph,
    JobSnapshot,
    OperatorInfo,
    RestoredCheckpoint,
    SubtaskCheckpointStats,
    SubtaskMetrics,
    SubtaskSnapshot,
    VertexInfo,
    VertexSnapshot,
)
from funken.runtime.job.states import ExecutionState, FailureRecord, JobStatus
from funken.timing.clock import ManualClock
from tests.support.asgi import Api

JOB = "0123456789abcdef0123456789abcdef"
_RAN = {ExecutionState.CREATED: 1000, ExecutionState.SCHEDULED: 1010, ExecutionState.RUNNING: 1500}


def subtask(number, state=ExecutionState.RUNNING, times=None, **metrics):
    return SubtaskSnapshot(number, state, 0, times or _RAN, "worker-1", 40 + number, None, SubtaskMetrics(**metrics))


def picture(**changes):
    """A job that has run for 9 s."""
    graph = JobGraph(
        (
            VertexInfo(0, "numbers", 2, 128, 0, (OperatorInfo("numbers", "numbers", "Source", "numbers"),)),
            VertexInfo(1, "sums -> print", 2, 128, 1, (OperatorInfo("sums", "sums", "Reduce", "sums"),)),
        ),
        (EdgeInfo(0, 1, 0, "HASH", None, False),),
    )
    sources = (
        subtask(0, records_in=70, records_out=70, output_watermark=900, back_pressured_ms_per_second=700.0),
        subtask(1, records_in=30, records_out=30, output_watermark=800, back_pressured_ms_per_second=50.0),
    )
    sums = (
        subtask(0, records_in=60, input_watermark=800, user={"sums": {"late": 2, "orders": {"count": 4, "rate": 0.5}}}),
        subtask(1, records_in=40, input_watermark=800, busy_ms_per_second=300.0),
    )
    parts = (
        SubtaskCheckpointStats(0, 0, 4010, 100, 1.0, 2.0, 3.0, 4.0),
        SubtaskCheckpointStats(0, 1, 4020, 50),
        SubtaskCheckpointStats(1, 0, 4030, 25, unaligned=True),
    )
    completed = CheckpointStats(7, "checkpoint", "COMPLETED", 4000, 4, 4, 4040, 4050, 175, "/c/chk-7", "", parts)
    failed = CheckpointStats(8, "checkpoint", "FAILED", 5000, 4, 1, 5001, 5100, 0, "/c/chk-8", "timed out")
    begun = CheckpointStats(9, "savepoint", "IN_PROGRESS", 9900, 4)
    checkpoints = CheckpointsSnapshot(
        5,
        1,
        1,
        1,
        completed,
        None,
        failed,
        RestoredCheckpoint(3, "savepoint", "/s/3", 1200),
        (begun, failed, completed),
    )
    failure = FailureRecord(
        6000, 0, "OperatorFailed", "operator 'sums' failed", "sums", 1, "1/1", "worker-1", "Trace\nboom"
    )
    job = JobSnapshot(
        JOB,
        "totals",
        JobStatus.RUNNING,
        10_000,
        {JobStatus.CREATED: 1000, JobStatus.RUNNING: 1500},
        1,
        1,
        graph,
        (
            VertexSnapshot(0, "numbers", ExecutionState.RUNNING, sources),
            VertexSnapshot(1, "sums -> print", ExecutionState.RUNNING, sums),
        ),
        checkpoints,
        1,
        (failure,),
        (),
        {"execution.checkpointing.interval": "5 s", "s3.secret-key": "******", "pipeline.object-reuse": "true"},
    )
    return replace(job, **changes)


class FakeJob:
    """A job that counts what is asked of it."""

    def __init__(self, **changes):
        self.current = picture(**changes)
        self.taken = 0
        self.asked = []
        self.savepoint = Future()
        self.log = JobLogs(JOB, Configuration(), lambda: 2000)
        self.commands = []
        self.sampled = JobStacks(lambda task, command: self.commands.append((task, command)), ManualClock())

    def snapshot(self):
        self.taken += 1
        return self.current

    def logs(self):
        return self.log

    def trigger_savepoint(self, savepoint_directory=None):
        if savepoint_directory == "/refused":
            raise InvalidProgram("it runs without checkpoints")
        self.asked.append(("savepoint", savepoint_directory))
        return CompletableFuture(self.savepoint)

    def stop_with_savepoint(self, advance_to_end_of_event_time, savepoint_directory=None):
        self.asked.append(("stop", advance_to_end_of_event_time, savepoint_directory))
        return CompletableFuture(self.savepoint)

    def rescale(self, parallelism):
        self.asked.append(("rescale", parallelism))
        return CompletableFuture(self.savepoint)

    def trigger_checkpoint(self):
        self.asked.append(("checkpoint",))
        return CompletableFuture(self.savepoint)

    def stacks(self):
        return self.sampled

    def suspend(self):
        self.asked.append(("suspend",))

    def cancel(self):
        self.asked.append(("cancel",))
        times = {**self.current.timestamps, JobStatus.CANCELLING: 10_000}
        self.current = replace(self.current, state=JobStatus.CANCELLING, timestamps=times)


@pytest.fixture(autouse=True, scope="session")
def registry(tmp_path_factory):
    """Servers of tests are registered in a folder of their own, not in the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture
def clock():
    return ManualClock(0)


@pytest.fixture
def jobs(clock):
    return Jobs(0.5, 2, clock)


@pytest.fixture
def job(jobs):
    job = FakeJob()
    job.entry = jobs.add(job)
    return job


@pytest.fixture
def api_with(jobs):
    """Make the application with other settings."""
    application = pytest.importorskip("funken.rest.app").application
    return lambda **settings: Api(application(jobs, RestSettings(**settings)))


@pytest.fixture
def api(api_with, job):
    return api_with()


@pytest.fixture
def certificate_in():
    """What makes certificates, in a folder."""
    pytest.importorskip("cryptography")

    def certificate_in(folder, name, days):
        """Make a certificate for this machine that has been valid for a day, and ends in so many days; return both files."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(who)
            .issuer_name(who)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=30))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(key, hashes.SHA256())
        )
        files = folder / f"{name}.pem", folder / f"{name}.key"
        files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
        secret = (
            serialization.NoEncryption() if name != "locked" else serialization.BestAvailableEncryption(b"open-sesame")
        )
        files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret))
        return files

    return certificate_in
