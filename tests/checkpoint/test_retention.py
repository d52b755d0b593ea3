"""How a job ended, whether it is restarted, and what becomes of its checkpoints: every cell of the table in the guide."""

import pickle
from pathlib import Path

import pytest

from funken.checkpoint.machine import Outcome
from funken.checkpoint.restart_strategy import fault_of, is_retried, outcome_of
from funken.checkpoint.settings import CheckpointSettings, kept_after
from funken.config import Configuration
from funken.errors import (
    CheckpointIncompatible,
    Fault,
    InvalidProgram,
    JobCancelled,
    JobExecutionError,
    OperatorFailed,
    RecordNotPicklable,
    RestoreFailed,
    SessionLost,
    SessionStopped,
    SourceNotReadable,
    SparkNotStarted,
    StorageFailed,
    SuppressRestarts,
    TaskLost,
    TooFewTaskSlots,
)
from funken.runtime.chain.chain import attribute_failure, failure_event
from funken.runtime.messages import TaskId

FINISHED, CANCELLED, FAILED, LOST, SUSPENDED = Outcome
NEVER, ON_FAILURE, ALWAYS = "no_externalized_checkpoints", "delete_on_cancellation", "retain_on_cancellation"

KEPT = {
    # retention, id: finished, cancelled, failed, lost, suspended
    (None, True): (False, True, True, True, True),
    (NEVER, True): (False, False, False, True, True),
    (ON_FAILURE, True): (False, False, True, True, True),
    (ALWAYS, True): (False, True, True, True, True),
    (None, False): (False, False, False, True, False),
    (NEVER, False): (False, False, False, True, False),
    (ON_FAILURE, False): (False, False, True, True, False),
    (ALWAYS, False): (False, True, True, True, True),
}


@pytest.mark.parametrize(("retention", "has_id"), KEPT)
@pytest.mark.parametrize("outcome", Outcome)
def test_after_which_end_checkpoints_are_kept(retention, has_id, outcome):
    options = {"execution.job-id": "orders"} if has_id else {}
    if retention is not None:
        options["execution.checkpointing.externalized-checkpoint-retention"] = retention

    kept = CheckpointSettings.of(Configuration(options)).policy.kept_after

    assert (outcome in kept) is KEPT[retention, has_id][list(Outcome).index(outcome)]
    assert kept == kept_after(retention, has_id)


def test_the_table_of_the_guide_says_the_same():
    guide = Path(__file__).parents[2] / "docs" / "guide" / "fault-tolerance.md"
    rows = [line.strip("| \n").split("|") for line in guide.read_text().splitlines() if line.startswith("| job ")]

    told = [tuple(cell.strip() == "kept" for cell in row[1:]) for row in rows]

    columns = [(None, True), (NEVER, True), (ON_FAILURE, True), (ALWAYS, True)]
    columns += [(None, False), (NEVER, False), (ON_FAILURE, False), (ALWAYS, False)]
    assert told == [tuple(KEPT[column][index] for column in columns) for index in range(len(Outcome))]


def user_failure(error):
    """The failure of an operator, as it arrives from a worker."""
    try:
        raise error
    except Exception as raised:  # noqa: BLE001 - whatever the test has chosen
        return pickle.loads(pickle.dumps(attribute_failure(raised, 0)))


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (user_failure(RuntimeError("boom")), FAILED),
        (user_failure(SuppressRestarts("enough")), FAILED),
        (user_failure(InvalidProgram("no")), FAILED),
        (RecordNotPicklable("a lock"), FAILED),
        (InvalidProgram("cannot be sent to the workers"), FAILED),
        (user_failure(OSError("no space left")), LOST),
        (user_failure(ConnectionRefusedError("database")), LOST),
        (user_failure(MemoryError()), LOST),
        (user_failure(StorageFailed("read-only")), LOST),
        (TaskLost("killed"), LOST),
        (SessionLost("no JVM"), LOST),
        (SessionStopped("no JVM"), LOST),
        (SparkNotStarted("no JVM"), LOST),
        (TooFewTaskSlots("2"), LOST),
        (SourceNotReadable("gone"), LOST),
        (RestoreFailed("rotten"), LOST),
        (CheckpointIncompatible("another program"), LOST),
        (StorageFailed("not reachable"), LOST),
        (JobExecutionError("Spark ended the job"), LOST),
        (ConnectionRefusedError("a sink that was looked at"), LOST),
    ],
)
def test_whose_failure_it_was(error, outcome):
    assert outcome_of(error, cancelled=False, suspended=False) is outcome
    assert outcome_of(error, cancelled=True, suspended=False) is CANCELLED
    assert outcome_of(error, cancelled=True, suspended=True) is SUSPENDED


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(0)])
def test_a_program_that_ends_suspends_its_job(error):
    assert outcome_of(error, cancelled=False, suspended=False) is SUSPENDED
    assert outcome_of(error, cancelled=True, suspended=False) is SUSPENDED
    assert outcome_of(JobCancelled("at its end"), cancelled=True, suspended=True) is SUSPENDED


@pytest.mark.parametrize(
    ("error", "before_it_ran", "later"),
    [
        (user_failure(RuntimeError("boom")), True, True),
        (user_failure(ConnectionRefusedError("database")), True, True),
        (user_failure(FileNotFoundError("model.bin")), False, True),
        (user_failure(PermissionError("model.bin")), False, True),
        (user_failure(ModuleNotFoundError("torch")), False, True),
        (user_failure(InvalidProgram("no")), False, True),
        (user_failure(KeyError("PASSWORD")), False, True),
        (user_failure(SuppressRestarts("enough")), False, False),
        (SourceNotReadable("gone"), False, True),
        (TaskLost("killed"), True, True),
        (SessionLost("no JVM"), True, True),
        (JobExecutionError("did not start in time"), True, True),
        (TooFewTaskSlots("2"), False, True),
        (SparkNotStarted("no JVM"), False, True),
        (SessionStopped("no JVM"), False, False),
        (StorageFailed("not reachable"), False, True),
        (InvalidProgram("cannot be sent to the workers"), False, False),
        (SuppressRestarts("from a sink's check"), False, False),
        (OSError("from a sink's check"), False, True),
    ],
)
def test_what_is_tried_again_before_the_job_ran_and_later(error, before_it_ran, later):
    assert is_retried(error, checked=True, ran=False) is before_it_ran
    assert is_retried(error, checked=True, ran=True) is later
    assert not is_retried(error, checked=False, ran=False), "what the first check of sources and sinks finds"


def test_restarts_are_suppressed_by_a_cause_too():
    try:
        raise RuntimeError("no rights") from SuppressRestarts("ask for them")
    except RuntimeError as error:
        assert Fault.FINAL in attribute_failure(error, 0).fault
        assert fault_of(error) == Fault.FINAL


def test_causes_that_go_round_in_a_circle_end():
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one

    assert fault_of(one) == Fault(0)


def test_what_is_known_of_a_cause_survives_an_error_that_cannot_travel():
    class Local(OperatorFailed):
        """No other process can find its class."""

    error = Local("no rights")
    error.fault = Fault.FINAL

    assert failure_event(TaskId(0, 0), error).error.fault is Fault.FINAL
