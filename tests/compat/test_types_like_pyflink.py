"""Types and schemas answer as PyFlink's do; ``type_cases.py`` has recorded its answers."""

import time

import pytest
from pyflink.table import types as T

from tests.compat.type_cases import answer, cases, names, with_subject

ON_PURPOSE = {
    "t.precision": {"D.INTERVAL(D.YEAR(4), D.MONTH())": "PyFlink forgets the digits of years before TO MONTH"},
    "T.from_arrow_type(pa.large_string())": "a large_string is a STRING, too",
    "str(S().column_by_metadata('m', D.INT(), 'm').build())": "a key that is the column's name is not written",
}


@pytest.fixture
def known(monkeypatch):
    """Return the names of the expressions, in the zone of the recorded answers."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for kind in (T.TimeType, T.LocalZonedTimestampType):
        monkeypatch.setattr(kind, "EPOCH_ORDINAL", 0)
    yield names()
    monkeypatch.undo()
    time.tzset()


def agrees(recorded, found, error):
    """Return True if an answer is PyFlink's; an error of Java is any error, another one has that class among its own."""
    if found == recorded:
        return True
    if error is None or not recorded.startswith("!"):
        return False
    return recorded.startswith("!Py4J") or recorded[1:] in [each.__name__ for each in type(error).__mro__]


def excused(expression, definition):
    reason = ON_PURPOSE.get(expression)
    return definition in reason if isinstance(reason, dict) else reason is not None


def test_types_and_schemas_answer_as_those_of_pyflink(known):
    compared, differing = 0, []
    subjects = {}
    for expression, definition, recorded in cases():
        subjects[definition] = with_subject(known, definition)
        found, error = answer(expression, subjects[definition])
        compared += 1
        if agrees(recorded, found, error) == excused(expression, definition):
            differing.append((definition, expression, recorded, found, error))

    assert differing == []
    assert compared > 3_000


def test_a_difference_is_seen(known):
    assert not agrees("IntType(true)", *answer("D.BIGINT()", known))
    assert not agrees("!KeyError", *answer("D.TIME(10)", known))
    assert agrees("!AssertionError", *answer("D.TIME(10)", known))
    assert not agrees("!AssertionError", *answer("D.TIME(1)", known))
