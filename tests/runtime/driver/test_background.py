"""Storage that hangs holds up neither the end of a job nor that of the program."""

import logging
import threading

import pytest

from funken import StreamExecutionEnvironment
from funken.checkpoint.machine import Outcome
from funken.config import Configuration
from funken.runtime.driver import job_checkpoints as checkpointing
from funken.runtime.driver.coordinators import BackgroundWorker
from funken.runtime.driver.job_checkpoints import JobCheckpoints


@pytest.fixture
def hanging():
    """Work that hangs until the test is over."""
    over = threading.Event()
    yield lambda: over.wait(5)
    over.set()


def test_a_job_ends_although_its_storage_hangs(hanging, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(checkpointing, "_TIDY_SECONDS", 0.01)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    env.from_collection([1]).for_each(len)
    settings = Configuration({"execution.checkpointing.dir": str(tmp_path)})
    checkpoints = JobCheckpoints.of(env.job("hung up").plan, settings, "job")
    checkpoints.background(hanging)

    checkpoints.stopped(Outcome.FAILED)

    (record,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    assert "'hung up' is over, but the checkpoint storage at " in record.getMessage()
    assert f"{tmp_path}/job did not answer within" in record.getMessage()


def test_work_is_done_in_order_whatever_one_raises(caplog):
    done, background = [], BackgroundWorker("at work")
    background.submit(lambda: done.append(1))
    background.submit(lambda: 1 / 0)
    background.submit(lambda: done.append(2))

    assert background.close(20)
    background.submit(lambda: done.append(3))

    assert background.close(20)
    assert done == [1, 2]
    assert "at work" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_what_hangs_does_not_keep_the_program_from_ending(hanging):
    background = BackgroundWorker("hangs")
    background.submit(hanging)

    assert not background.close(0.01)
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "hangs"] == [True]


def test_nothing_to_do_is_done_at_once():
    assert BackgroundWorker("idle").close(0)


def test_what_work_leads_to_is_done_after_close_too():
    done, background, closed = [], BackgroundWorker("at work"), threading.Event()

    def work():
        closed.wait(20)
        background.submit(lambda: done.append("what follows"))

    background.submit(work)
    threading.Thread(
        target=lambda: (background.close(0), background.submit(lambda: done.append("late")), closed.set())
    ).start()

    assert closed.wait(20)
    assert background.close(20)
    assert done == ["what follows"]
