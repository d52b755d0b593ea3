"""The message of an error that user code raises."""

import pytest

from funken.errors import OperatorFailed
from funken.testing import local


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("no such shop.", "failed at the record 1: ValueError: no such shop. The traceback of the function follows."),
        ("no such shop", "failed at the record 1: ValueError: no such shop. The traceback of the function follows."),
    ],
)
def test_it_ends_with_one_full_stop(message, line):
    def fail(number):
        raise ValueError(message)

    with pytest.raises(OperatorFailed) as failed:
        local([1]).map(fail).name("shops").execute_and_collect(limit=1)

    assert str(failed.value).splitlines()[0] == f"operator 'shops' (subtask 0) {line}"
