"""The commits of a sink: who is asked again, how often, and what fails the job."""

import threading

import pytest

from funken import Encoder, FileSink
from funken.connectors import CommitRequest, Committer, Sink, SinkWriter
from funken.connectors.sink import PreparedCommittable
from funken.errors import CommitError
from funken.operators.coordinators import CommitCoordinator, CommitSettings, OperatorCoordinatorContext
from funken.runtime.driver.coordinators import CoordinatorWorker
from funken.testing import local


class Scripted(Committer):
    """Answers each request as its committable's script says, a word per call."""

    def __init__(self):
        self.calls = []

    def open(self):
        self.calls.append("open")

    def close(self):
        self.calls.append("close")

    def recover(self, requests):
        self.calls.append(("recover", [request.committable for request in requests]))
        if requests:
            self._answer(requests)

    def commit(self, requests: list[CommitRequest]):
        self.calls.append(("commit", [request.committable for request in requests]))
        self._answer(requests)

    def _answer(self, requests):
        for request in requests:
            match request.committable.split()[request.retries : request.retries + 1]:
                case ["later"]:
                    request.retry_later("the database is busy")
                case ["lost"]:
                    request.failed(TimeoutError("the transaction timed out"))
                case ["done"]:
                    request.already_committed()

    def abort(self, requests):
        self.calls.append(("abort", [request.committable for request in requests]))


class Out(Sink):
    def __init__(self, committer):
        self.made = committer

    def committer(self, context):
        return self.made


def prepared(*committables):
    return [PreparedCommittable("job", 7, number, text) for number, text in enumerate(committables)]


class Pauses:
    """The worker of a test: runs everything at once, and ends the attempt at a pause if that is wanted."""

    def __init__(self, ends_after=99):
        self.pauses, self.ends_after = [], ends_after

    def call(self, work, seconds, what):
        return work()

    def pause(self, seconds):
        self.pauses.append(seconds)
        return len(self.pauses) <= self.ends_after


@pytest.fixture
def committer():
    return Scripted()


def coordinator(committer, retries=10, ends_after=99):
    worker = Pauses(ends_after)
    context = OperatorCoordinatorContext("orders", operator_uid="orders-v1", worker=worker)
    return CommitCoordinator(context, Out(committer), CommitSettings(retries)), worker


def test_what_is_to_be_retried_is_retried_alone_with_growing_pauses(committer):
    commits, worker = coordinator(committer)

    commits.commit(prepared("ok", "later later ok", "later done", "done"))

    assert committer.calls == [
        "open",
        ("commit", ["ok", "later later ok", "later done", "done"]),
        ("commit", ["later later ok", "later done"]),
        ("commit", ["later later ok"]),
    ]
    assert worker.pauses == [0.1, 0.2]


def test_retries_have_a_bound(committer):
    commits, worker = coordinator(committer, retries=7)

    with pytest.raises(CommitError, match="'orders': what subtask 1 prepared for checkpoint 7 .* busy \\(7 retries\\)"):
        commits.commit(prepared("ok", "later " * 99))

    assert len(committer.calls) == 1 + 8
    assert worker.pauses[-2:] == [3.2, 5.0]


def test_retries_end_with_the_attempt(committer):
    commits, _ = coordinator(committer, ends_after=1)

    with pytest.raises(CommitError, match="the attempt has ended"):
        commits.commit(prepared("later " * 99))

    assert len(committer.calls) == 3


def test_a_request_that_failed_fails_the_commit_with_its_cause(committer):
    commits, _ = coordinator(committer)

    with pytest.raises(CommitError, match="subtask 0 .* checkpoint 7 .*: the transaction timed out") as failure:
        commits.commit(prepared("lost"))

    assert isinstance(failure.value.__cause__, TimeoutError)


def test_an_attempt_recovers_once_before_anything_is_committed(committer):
    commits, _ = coordinator(committer)
    commits.recover(prepared("later ok"))
    commits.start()

    assert committer.calls == ["open", ("recover", ["later ok"]), ("commit", ["later ok"])]

    commits.close()
    assert committer.calls[-1] == "close"


def test_an_attempt_that_starts_from_nothing_recovers_nothing(committer):
    commits, _ = coordinator(committer)
    commits.start()

    assert committer.calls == ["open", ("recover", [])]


def test_a_sink_whose_writers_prepare_needs_a_committer():
    commits, _ = coordinator(None)
    commits.start()

    with pytest.raises(CommitError, match="'orders': its writers prepared 1 committables, but Out has no committer"):
        commits.commit(prepared("lost"))


# ---- the worker thread


class Threads(Committer):
    def __init__(self):
        self.threads, self.may_go = set(), threading.Event()

    def _note(self, *_):
        self.threads.add(threading.current_thread())

    open = recover = commit = abort = close = _note


def threaded(committer, stopping=None, timeout=60.0):
    worker = CoordinatorWorker("commits", stopping or threading.Event(), threading.RLock(), pytest.fail)
    context = OperatorCoordinatorContext("orders", worker=worker)
    return CommitCoordinator(context, Out(committer), CommitSettings(timeout=timeout)), worker


def test_a_committer_is_called_in_one_thread_which_is_not_the_callers():
    committer = Threads()
    commits, worker = threaded(committer)
    commits.start()
    commits.commit(prepared("a"))
    commits.abort(prepared("b"))
    commits.close()
    worker.close()

    (thread,) = committer.threads
    assert thread is not threading.current_thread()


def test_a_commit_that_does_not_return_fails_after_its_time():
    class Hanging(Threads):
        def commit(self, requests):
            self.may_go.wait(60)

    committer = Hanging()
    commits, worker = threaded(committer, timeout=0.2)
    with pytest.raises(
        CommitError, match=r"operator 'orders': commit\(\) of its committer has not returned within 0 s"
    ):
        commits.commit(prepared("a"))
    committer.may_go.set()
    worker.close()


def test_a_pause_ends_when_the_attempt_does():
    stopping = threading.Event()
    _, worker = threaded(Threads(), stopping)
    stopping.set()

    assert not worker.pause(60)


def test_work_beside_hands_its_result_over_and_its_failure_fails_the_job():
    done, failures = threading.Event(), []

    def fail(error):
        failures.append(error)
        done.set()

    worker = CoordinatorWorker("listing", threading.Event(), threading.RLock(), fail)
    found = []
    worker.call_async(lambda: "files", found.append)
    worker.call_async(lambda: 1 / 0, found.append)

    assert done.wait(30)
    assert found == ["files"]
    assert isinstance(failures[0], ZeroDivisionError)
    worker.close()


# ---- what a committer knows of its job


class Asking(Sink, Committer):
    def __init__(self):
        self.contexts = []

    def writer(self, context):
        return Nothing()

    def committer(self, context):
        self.contexts.append(context)
        return self

    def commit(self, requests):
        pass


class Nothing(SinkWriter):
    def write(self, values, timestamps, now):
        pass


@pytest.mark.parametrize("interval", [None, 12_345])
def test_a_committer_knows_the_time_between_checkpoints(interval):
    stream = local(["a"])
    if interval is not None:
        stream.get_execution_environment().enable_checkpointing(interval)
    sink = Asking()
    stream.sink_to(sink)
    stream.get_execution_environment().execute()

    assert [context.checkpoint_interval for context in sink.contexts] == [interval]


def test_what_became_of_committables_is_counted():
    context = OperatorCoordinatorContext("out")
    coordinator = CommitCoordinator(context, Out(Scripted()))
    coordinator.start()
    assert context.commits.metrics() == {}

    coordinator.commit(prepared("", "later", "later done"))
    with pytest.raises(CommitError):
        coordinator.commit(prepared("lost"))
    duration = context.commits.metrics().pop("lastCommitDuration")

    assert duration >= 0
    assert context.commits == type(context.commits)(2, 1, 2, 1, context.commits.last_duration)


def test_a_job_tells_what_it_has_committed(tmp_path):
    stream = local(["a", "b"])
    stream.sink_to(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build())
    client = stream.get_execution_environment().execute_async("files")
    client.get_job_execution_result().result(60)
    metrics = client.snapshot().metrics()

    assert metrics["numCommittablesSuccess"] == 1
    assert metrics["lastCommitDuration"] > 0
    assert "numCommittablesRetry" in client.snapshot().to_dict()["commits"]
