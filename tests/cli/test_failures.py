import signal

import pytest

import funken
from funken.api.jobs.results import watch_jobs
from funken.cli.failures import ending_well, explained
from funken.errors import FunkenError, OperatorFailed
from funken.testing import local

OWN = f'  File "{funken.__path__[0]}/runtime/task.py", line 1, in step\n    gate.data()\n    ~~~~~~~~~^^\n'
ELSEWHERE = '  File "/opt/site-packages/funken/operators/stateless.py", line 2, in process\n    call(value)\n'
THEIRS = '  File "/home/ada/funken/jobs.py", line 3, in inverse\n    return 1 / x\n'


def test_frames_of_funken_are_left_out():
    trace = f"Traceback (most recent call last):\n{OWN}{ELSEWHERE}{THEIRS}ZeroDivisionError: division by zero"

    text = explained(OperatorFailed("map failed", "map", 0, trace))

    assert text == (f"map failed\n\nTraceback (most recent call last):\n{THEIRS}ZeroDivisionError: division by zero")


def test_the_line_of_the_program_is_named():
    with pytest.raises(FunkenError) as raised:
        local([1]).set_parallelism(0)

    assert explained(raised.value, __file__).splitlines()[-1] == (
        f"in {__file__}, line {raised.traceback[0].lineno + 1}: local([1]).set_parallelism(0)"
    )


def test_sigterm_lets_the_program_clean_up():
    before = signal.getsignal(signal.SIGTERM)
    cleaned = []

    with pytest.raises(SystemExit) as ended, ending_well():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleaned.append(True)

    assert ended.value.code == 143
    assert cleaned == [True]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_the_exit_code(number, exit_code):
    with pytest.raises(SystemExit) as ended, ending_well():
        signal.raise_signal(number)

    assert ended.value.code == exit_code


@pytest.fixture
def exits(monkeypatch):
    """The exit codes that would have ended the process at once."""
    codes = []
    monkeypatch.setattr("os._exit", codes.append)
    return codes


def test_a_second_signal_ends_the_process_at_once(exits, capfd):
    with pytest.raises(SystemExit), ending_well():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            with pytest.raises(KeyboardInterrupt):  # os._exit returns in this test
                signal.raise_signal(signal.SIGTERM)

    assert exits == [143]
    assert "Interrupted again: what still ran is left as it is." in capfd.readouterr().err


def test_a_signal_after_another_job_has_begun_is_the_first_one_again(exits):
    with pytest.raises(SystemExit), ending_well() as signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with watch_jobs(signals.watch):
            local([1]).execute_and_collect("another", limit=1)
        signal.raise_signal(signal.SIGINT)

    assert exits == []


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_well():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
