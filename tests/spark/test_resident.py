"""The process of a warm session, without Spark: what it does when a program gives the session back."""

import socket
import threading
from types import SimpleNamespace

import pytest

from funken.spark.warm import resident


@pytest.fixture
def given_back(monkeypatch):
    """Give a session back whose JVM does something when all jobs are to be cancelled; return whether the process is to end."""

    def give_back(cancel):
        context = SimpleNamespace(cancelAllJobs=cancel)
        monkeypatch.setattr(resident.SparkContext, "_active_spark_context", context)
        monkeypatch.setattr(resident.jvm, "lives", lambda context: True)
        monkeypatch.setattr(resident, "_CANCEL_SECONDS", 0.05)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = resident.Resident(ours, "token", 0)
            process._leased = theirs
            process._give_back()
            return process._is_over()

    return give_back


def test_a_session_that_is_given_back_is_lent_again(given_back):
    cancelled = []
    assert not given_back(lambda: cancelled.append(True))
    assert cancelled == [True]


def test_one_whose_jvm_does_not_answer_ends(given_back):
    answers = threading.Event()
    try:
        assert given_back(lambda: answers.wait(20))
    finally:
        answers.set()
