"""The pattern queries over Nexmark's events give what plain loops find."""

from __future__ import annotations

from pathlib import Path

import pytest

from funken import StreamExecutionEnvironment

BENCH = Path(__file__).parents[2] / "benchmarks" / "nexmark"
ROWS = {"p1": 86, "p2": 2552, "p3": 24}


@pytest.fixture(autouse=True)
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH.parent / "compare"))
    monkeypatch.syspath_prepend(str(BENCH))


class Nobody:
    """An oracle that is asked nothing."""

    count = 2000

    def rows(self, query, nexmark):
        raise AssertionError(query)


@pytest.mark.parametrize("name", list(ROWS))
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_pattern_query_gives_what_a_loop_finds(name, parallelism, tmp_path):
    from checking import check
    from queries.patterns import PATTERNS

    found = check(
        PATTERNS[name], lambda: StreamExecutionEnvironment.create_local_environment(parallelism), 1, Nobody(), tmp_path
    )
    assert found == ROWS[name]
