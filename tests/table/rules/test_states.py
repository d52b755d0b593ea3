"""The state report of EXPLAIN: which operator keeps what, until when, and the warning of state without bound."""

import pytest

from funken.errors import FunkenError
from funken.table import EnvironmentSettings, TableEnvironment


@pytest.fixture
def tables():
    found = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    found.execute_sql(
        "CREATE TABLE o (id BIGINT, u STRING, price INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')"
    )
    return found


def report(tables, query):
    """The lines of the report, each as (operator, what it keeps, until when)."""
    head, _, state = tables.explain_sql(query).partition("== State ==\n")
    assert head
    return [
        (line.partition("(")[0], *line.rpartition(": keeps ")[2].split("; ")) if ": keeps " in line else line
        for line in state.splitlines()
        if line
    ]


WINDOWS = "TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
END = "until the watermark passes the end of the window"


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        (f"SELECT COUNT(*) FROM {WINDOWS} GROUP BY window_start, window_end",
         [("WindowAggregate", "the accumulators of open windows", END)]),
        ("SELECT COUNT(*) FROM o", [("GroupAggregate", "the accumulators of one group", "for ever")]),
        ("SELECT * FROM o LIMIT 3", [("Limit", "the first 3 rows of all", "for ever")]),
        ("SELECT * FROM o a JOIN o b ON a.id = b.id AND a.ts BETWEEN b.ts - INTERVAL '5' MINUTE AND b.ts",
         [("IntervalJoin", "the rows of both sides", "until no row within 5 min can come any more")]),
        ("SELECT SUM(price) OVER (PARTITION BY u ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) FROM o",
         [("OverAggregate", "the rows of each partition (u)", "until the watermark is 1 h behind them")]),
        ("SELECT u FROM o WHERE price > 3", []),
    ],
    ids=["window", "one group", "limit", "interval join", "over", "none"],
)  # fmt: skip
def test_bounded_state_has_no_warning(tables, query, kept):
    assert report(tables, query) == kept


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT u, COUNT(DISTINCT price) FROM o GROUP BY u",
         [("GroupAggregate", "the accumulators of each group (u), with its distinct values")]),
        ("SELECT DISTINCT u FROM o", [("GroupAggregate", "the values of (u) that were seen")]),
        ("SELECT a.u FROM o a JOIN o b ON a.id = b.id",
         [("Join", "the rows of the left side"), ("Join", "the rows of the right side")]),
        ("SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY u ORDER BY price) AS r FROM o) WHERE r <= 3",
         [("Rank", "the first 3 rows of each partition (u)")]),
        ("SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY u ORDER BY ts DESC) AS r FROM o) WHERE r = 1",
         [("Deduplicate", "the last row of each key (u)")]),
    ],
    ids=["group", "distinct", "join", "rank", "deduplicate"],
)  # fmt: skip
def test_state_without_bound_is_warned_of_until_it_expires(tables, query, kept):
    *states, warning = report(tables, query)
    assert states == [(*one, "never expires") for one in kept]
    assert warning.startswith(f"WARNING: state without bound in {kept[0][0]}: ")

    tables.get_config().set("table.exec.state.ttl", "1 d")
    assert report(tables, query) == [(*one, "expires 1 d after the last write") for one in kept]


def test_a_batch_keeps_nothing():
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())

    assert "== State ==" not in tables.explain_sql("SELECT a, COUNT(*) FROM (VALUES (1)) AS t(a) GROUP BY a")


def test_keys_that_differ_are_explained_with_the_ways_out(tables):
    tables.execute_sql(
        "CREATE TABLE s (u STRING, n BIGINT, PRIMARY KEY (u) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 't', "
        "'properties.bootstrap.servers' = 'h:1', 'key.format' = 'json', 'value.format' = 'json')"
    )
    query = "SELECT u, id FROM (SELECT id, u, COUNT(*) FROM o GROUP BY id, u)"

    with pytest.raises(
        FunkenError, match=r"1\. ON CONFLICT.*2\. .*PRIMARY KEY \(u, n\).*3\. .*GROUP BY u, or ROW_NUMBER"
    ):
        tables.explain_sql(f"INSERT INTO s {query}")


def test_each_way_out_works(tables):
    options = (
        "'connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:1', 'key.format' = 'json', "
    )
    options += "'value.format' = 'json'"
    for name, key in (("by_u", "u"), ("by_both", "u, n")):
        tables.execute_sql(
            f"CREATE TABLE {name} (u STRING, n BIGINT, PRIMARY KEY ({key}) NOT ENFORCED) WITH ({options})"
        )
    grouped = "SELECT u, id FROM (SELECT id, u, COUNT(*) FROM o GROUP BY id, u)"

    with_conflict = report(tables, f"INSERT INTO by_u {grouped} ON CONFLICT DO DEDUPLICATE")
    assert ("Sink", "the rows of each primary key", "never expires") in with_conflict
    assert not any(one[0] == "Sink" for one in report(tables, f"INSERT INTO by_both {grouped}"))
    assert not any(one[0] == "Sink" for one in report(tables, "INSERT INTO by_u SELECT u, COUNT(*) FROM o GROUP BY u"))
