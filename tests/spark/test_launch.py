"""A JVM that starts, but never answers, or is not wanted any more."""

import pytest
from pyspark import SparkContext, java_gateway

from funken.spark import jvm


@pytest.fixture
def launched(monkeypatch):
    """Launch a program in the place of a JVM, and return its exit code."""

    def launched(wanted):
        monkeypatch.setattr(SparkContext, "_gateway", None)
        with jvm._killed_unless(wanted):
            process = java_gateway.Popen(["sleep", "60"])
            return process.wait(30)

    return launched


def test_one_that_never_answers_is_killed_with_a_message(launched, monkeypatch, caplog):
    monkeypatch.setattr(jvm, "_LAUNCH_SECONDS", 0.1)

    assert launched(lambda: True) == -9
    assert "the JVM has not answered within 0 s and is killed" in caplog.text


def test_one_that_is_not_wanted_any_more_is_killed(launched, caplog):
    assert launched(lambda: False) == -9
    assert caplog.text == ""
