import signal

import pytest

import funken
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
