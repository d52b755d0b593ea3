"""Random windows and functions over whole blocks, with columns and without. ``make fuzz-vectorized`` runs more of them."""

import pytest

from funken.columnar.keyed import groups
from funken.columnar.keyed import logs as list_log
from funken.expr.types import INT
from funken.operators.columnar import contents, rolling, sessions, windows
from funken.operators.columnar import windows as counts
from tests.support.traced.windows import BatchFuzzer, WindowFuzzer

CASES, PART = 300, 100


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_columns_give_and_keep_what_records_do(first: int) -> None:
    fuzzer = WindowFuzzer()
    found = [difference for case in range(first, first + PART) if (difference := fuzzer.run(case))]

    assert not found, "\n".join(f"{case}: {fact}\n{source}" for case, source, fact in found)
    assert fuzzer.counts["columns"] > PART / 2
    assert fuzzer.counts["window functions"] > PART / 8
    assert set(fuzzer.refusals) <= {
        "per record: shows the order of the records of a session",
        "per record: keeps a list of the records of a window, in their order",
        "per record: gives one object twice that can be changed",
    }


@pytest.mark.parametrize(
    "broken",
    [
        "order of sessions",
        "sums",
        "minimum",
        "bounds",
        "order of records",
        "lists",
        "alike",
        "full windows",
        "slides",
        "gaps",
    ],
)
def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "order of sessions":
        monkeypatch.setattr(sessions, "places_of_ends", lambda found, places: places)
    elif broken == "sums":
        monkeypatch.setattr(sessions, "SUM", "none")
    elif broken == "bounds":
        made = windows.given_of
        monkeypatch.setattr(
            windows,
            "given_of",
            lambda given, schema, block: made(given, schema, block.take(range(block.length)[::-1])),
        )
    elif broken == "lists":
        monkeypatch.setattr(contents, "MOST", "least")
    elif broken == "alike":
        monkeypatch.setattr(contents, "KEEP", "begin")
    elif broken == "full windows":
        monkeypatch.setattr(list_log.ListLog, "empty", lambda self, slots: None)
    elif broken == "slides":
        last = counts._Last.records
        monkeypatch.setattr(
            counts._Last, "records", lambda self, owner, ends, counts: last(self, owner, counts, counts)
        )
    elif broken == "gaps":
        monkeypatch.setattr(sessions, "evaluate", lambda gap, length, block: sessions.Column(INT, 1, True))
    elif broken == "order of records":
        monkeypatch.setattr(rolling, "ranks", lambda columns, length: groups.ranks(columns[:1], length))
    else:
        monkeypatch.setattr(contents, "MAX", "min")
    fuzzer = WindowFuzzer()
    assert any(fuzzer.run(case) for case in range(400))


def test_records_pass_through_functions_over_whole_blocks() -> None:
    fuzzer = BatchFuzzer()
    found = [difference for case in range(CASES) if (difference := fuzzer.run(case))]

    assert not found, "\n".join(f"{case}: {fact}\n{source}" for case, source, fact in found)
