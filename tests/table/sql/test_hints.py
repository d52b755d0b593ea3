"""Hints that name relations: how long state is kept, and how a table outside is asked."""

import pytest

from funken.table.logical import LookupRetry, LookupSettings
from funken.table.sql.statements import InvalidQuery
from tests.table.sql.tables import physical, session

DAY = 86_400_000


@pytest.fixture(scope="module")
def tables():
    return session()


def line(tables, query, operator):
    return next(line for line in physical(tables, query) if line.startswith(f"{operator}("))


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("STATE_TTL('x' = '1d', 'y' = '4d'), STATE_TTL('y' = '8d')", "LEFT=1d, RIGHT=4d"),
        ("STATE_TTL('y' = '2 h')", "RIGHT=2h"),
        ("STATE_TTL('x' = '0 s')", "LEFT=0s"),
    ],
)
def test_the_state_of_each_side_of_a_join_has_a_lifetime(tables, hint, shown):
    query = f"SELECT /*+ {hint} */ x.k FROM a AS x JOIN a2 AS y ON x.k = y.k"
    assert f"stateTtlHints=[[[STATE_TTL options:{{{shown}}}]]]" in line(tables, query, "Join")


def test_the_sides_of_several_joins(tables):
    query = "SELECT /*+ STATE_TTL('a' = '1d', 'c' = '2d') */ a.k FROM a JOIN a2 ON a.k = a2.k JOIN c ON a.k = c.k"
    second, first = [line for line in physical(tables, query) if line.startswith("Join(")]
    assert "{LEFT=1d}" in first
    assert "{RIGHT=2d}" in second


def test_a_table_without_alias_may_be_named_with_its_database(tables):
    query = "SELECT /*+ STATE_TTL('default_database.a' = '1d') */ k, COUNT(*) FROM a GROUP BY k"
    assert "stateTtlHints=[[[STATE_TTL options:{default_database.a=1d}]]]" in line(tables, query, "GroupAggregate")
    assert "expires 1 d after the last write" in tables.explain_sql(query)


def test_distinct_rows_have_a_lifetime_as_well(tables):
    assert "expires 2 h" in tables.explain_sql("SELECT /*+ STATE_TTL('x' = '2h') */ DISTINCT k FROM a AS x")


def test_a_lifetime_of_zero_outlasts_that_of_the_session():
    tables = session()
    tables.get_config().set("table.exec.state.ttl", "1 h")
    query = "SELECT {} k, COUNT(*) FROM a GROUP BY k"
    assert "expires 1 h" in tables.explain_sql(query.format(""))
    assert "never expires" in tables.explain_sql(query.format("/*+ STATE_TTL('a' = '0 s') */"))


LOOKUP = "SELECT /*+ {} */ a.id, c.rate FROM a JOIN r FOR SYSTEM_TIME AS OF a.p AS c ON a.k = c.k"


def test_how_often_a_table_is_asked(tables):
    options = "'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='10s', 'max-attempts'='3'"
    shown = line(tables, LOOKUP.format(f"LOOKUP('table'='c', {options})"), "LookupJoin")
    assert "retry=[lookup_miss, FIXED_DELAY, 10000ms, 3]" in shown


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (
            "'table'='c', 'async'='true', 'output-mode'='allow_unordered', 'timeout'='500s', 'capacity'='2000'",
            "async=[UNORDERED, KEY_ORDERED: false, 500000ms, 2000]",
        ),
        ("'table'='c', 'async'='true'", "async=[ORDERED, KEY_ORDERED: false, 180000ms, 100]"),
    ],
)
def test_a_table_is_asked_for_a_block_of_keys_at_once(tables, options, shown):
    with pytest.warns(
        UserWarning, match="'async'.* has no effect here because the keys of a block are looked up at once"
    ):
        assert shown in line(tables, LOOKUP.format(f"LOOKUP({options})"), "LookupJoin")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (LOOKUP.format("LOOKUP('table'='r')"), "cannot match the name of input tables or views: `r` in `LOOKUP`.*a, c"),
        (LOOKUP.format("LOOKUP('async'='true')"), "incomplete required option.*'table'"),
        (LOOKUP.format("LOOKUP('table'='c', 'retries'='3')"), "unknown option 'retries'. Options are: table, async"),
        (LOOKUP.format("LOOKUP('table'='c', 'max-attempts'='3')"), "can be both null or all not null.*retry-predicate"),
        (
            LOOKUP.format("LOOKUP('table'='c', 'output-mode'='any')"),
            "'output-mode' is 'any', but must be one of: ordered",
        ),
        (LOOKUP.format("LOOKUP('table'='c', 'async'='maybe')"), "'async' is 'maybe'"),
        (LOOKUP.format("LOOKUP('table'='c', 'shuffle'='yes')"), "'shuffle' is 'yes'"),
        (LOOKUP.format("LOOKUP('table'='c', 'async'='false', 'capacity'='3')"), "options of 'async' = 'true'"),
        (LOOKUP.format("LOOKUP('c')"), "Invalid LOOKUP hint: it has no options"),
        ("SELECT /*+ STATE_TTL('b' = '1d') */ k, COUNT(*) FROM a GROUP BY k", "`b` in `STATE_TTL`. FROM has: a"),
        ("SELECT /*+ STATE_TTL('a' = 'soon') */ k, COUNT(*) FROM a GROUP BY k", "Invalid STATE_TTL hint: 'a': 'soon'"),
        ("SELECT /*+ STATE_TTL('a' = '-1') */ k, COUNT(*) FROM a GROUP BY k", "is negative"),
        ("SELECT /*+ STATE_TTL('a' = '1d') */ x.k FROM a AS x JOIN a2 ON x.k = a2.k", "`a` in `STATE_TTL`"),
    ],
)
def test_wrong_hints_are_refused(tables, query, message):
    with pytest.raises(InvalidQuery, match=message):
        tables.explain_sql(query)


def test_settings_are_values():
    assert LookupSettings(retry=LookupRetry(10, 3)) == LookupSettings(retry=LookupRetry(10, 3))


def test_the_shuffle_of_lookups_is_known(tables):
    with pytest.warns(UserWarning, match="'shuffle' has no effect here"):
        line(tables, LOOKUP.format("LOOKUP('table'='c', 'shuffle'='true')"), "LookupJoin")
    line(tables, LOOKUP.format("LOOKUP('table'='c', 'shuffle'='false')"), "LookupJoin")
