"""The sink into Spark without Spark: what of its files is passed on, noted and removed, and what a repeated commit does."""

import os
import pickle

import pyarrow as pa
import pytest
from pyarrow import parquet

from funken import InvalidProgram, Types
from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.dataframes import SparkSink
from funken.connectors.dataframes.sink import SparkCommitter
from funken.connectors.sink import CommitOutcome, CommitRequest
from funken.errors import ValueDoesNotFit
from funken.testing import local

SCHEMA = pa.schema([("word", pa.string()), ("n", pa.int64())])


class Frames:
    """Stands for Spark: a DataFrame is the rows of its files."""

    @staticmethod
    def frame_of_files(paths, schema):
        return [row for path in paths for row in parquet.read_table(path, schema=schema).to_pylist()]

    @staticmethod
    def is_local():
        return True


@pytest.fixture(autouse=True)
def without_spark(monkeypatch):
    monkeypatch.setattr(SparkCommitter, "_frames", lambda self: Frames)


@pytest.fixture
def batches():
    return []


@pytest.fixture
def sink(tmp_path, batches):
    return SparkSink.for_each_batch(lambda frame, batch: batches.append((batch, frame)), SCHEMA, str(tmp_path / "rows"))


def prepared(sink, values, checkpoint, subtask=0):
    writer = sink.writer(ConnectorContext("out", subtask, 2))
    writer.write(values, None, now=0)
    (committable,) = writer.prepare_commit(checkpoint, end_of_input=False)
    return CommitRequest(committable, job_id="job", checkpoint_id=checkpoint, subtask=subtask)


def committer(sink):
    return sink.committer(CommitterContext("out", job_id="job", operator_uid="out"))


def rows_in(sink):
    return [name for name in os.listdir(sink.staging) if not name.startswith(".passed")]


def test_a_batch_is_what_one_checkpoint_covers(sink, batches):
    requests = [
        prepared(sink, [("to", 1), {"word": "be"}], 4, subtask=0),
        prepared(sink, [("or", 2)], 4, subtask=1),
        prepared(sink, [("not", 3)], 5),
    ]

    committer(sink).commit(requests)

    assert batches == [
        (4, [{"word": "to", "n": 1}, {"word": "be", "n": None}, {"word": "or", "n": 2}]),
        (5, [{"word": "not", "n": 3}]),
    ]
    assert rows_in(sink) == []


def test_a_batch_that_was_passed_on_is_not_passed_on_again(sink, batches):
    request = prepared(sink, [("to", 1)], 4)
    committer(sink).commit([request])

    committer(sink).recover([request])

    assert request.outcome is CommitOutcome.ALREADY_COMMITTED
    assert len(batches) == 1


def test_a_batch_is_not_passed_on_again_if_its_files_could_not_be_removed(sink, batches, monkeypatch):
    requests = [prepared(sink, [("to", 1)], 4), prepared(sink, [("be", 2)], 4, subtask=1)]

    def refuse(path):
        raise PermissionError(path)

    with monkeypatch.context() as broken:
        broken.setattr("os.remove", refuse)
        with pytest.raises(PermissionError):
            committer(sink).commit(requests)
    committer(sink).recover(requests)

    assert {request.outcome for request in requests} == {CommitOutcome.ALREADY_COMMITTED}
    assert len(batches) == 1
    assert rows_in(sink) == []


def test_a_later_run_with_the_same_job_id_is_passed_on_or_an_error(sink, batches):
    committer(sink).commit([prepared(sink, [("to", 1)], None)])
    committer(sink).commit([prepared(sink, [("be", 2)], None)])
    lost = prepared(sink, [("or", 3)], None)
    os.remove(lost.committable.hidden)
    committer(sink).commit([lost])

    assert batches == [(0, [{"word": "to", "n": 1}]), (0, [{"word": "be", "n": 2}])]
    assert lost.outcome is CommitOutcome.FAILED


def test_a_batch_whose_function_failed_comes_again_as_it_was(tmp_path):
    seen = []

    def fail_once(frame, batch):
        seen.append((batch, frame))
        if len(seen) == 1:
            raise ConnectionError("the database restarts")

    sink = SparkSink.for_each_batch(fail_once, SCHEMA, str(tmp_path))
    request = prepared(sink, [("to", 1)], 4)
    with pytest.raises(ConnectionError):
        committer(sink).commit([request])

    committer(sink).recover([request])

    assert seen == [(4, [{"word": "to", "n": 1}])] * 2
    assert request.outcome is CommitOutcome.COMMITTED


def test_rows_that_are_gone_are_an_error_and_no_silent_loss(sink):
    request = prepared(sink, [("to", 1)], 4)
    os.remove(request.committable.hidden)

    committer(sink).recover([request])

    assert request.outcome is CommitOutcome.FAILED
    assert "are gone, and there is no note that Spark got them" in request.reason


def test_what_is_in_no_checkpoint_is_removed(sink, batches):
    committer(sink).abort([prepared(sink, [("to", 1)], 4)])

    assert rows_in(sink) == []
    assert batches == []


def test_the_function_does_not_travel(tmp_path):
    lock = __import__("threading").Lock()  # as a session, it cannot be pickled
    sink = SparkSink.for_each_batch(lambda frame, batch: lock, SCHEMA, str(tmp_path))

    there = pickle.loads(pickle.dumps(sink))

    assert (there.schema, there.staging) == (SCHEMA, str(tmp_path))


def test_the_declared_type_is_the_schema(tmp_path):
    declared = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])

    assert SparkSink.for_format("parquet", staging=str(tmp_path)).of_type(declared).schema == SCHEMA


def test_a_record_with_other_columns(sink):
    with pytest.raises(
        ValueDoesNotFit, match=r"operator 'out': the record \{'name': 1\} has columns that the schema lacks"
    ):
        prepared(sink, [{"name": 1}], 4)


def test_a_job_without_checkpoints_is_one_batch(tmp_path, batches):
    words = local([("to", 2), ("be", 1)])
    words.sink_to(SparkSink.for_each_batch(lambda frame, batch: batches.append((batch, frame)), staging=str(tmp_path)))

    words.get_execution_environment().execute()

    assert batches == [(0, [{"f0": "to", "f1": 2}, {"f0": "be", "f1": 1}])]


def test_what_is_no_schema():
    with pytest.raises(InvalidProgram, match="SparkSink cannot make records of 7"):
        SparkSink.for_format("parquet", schema=7)
