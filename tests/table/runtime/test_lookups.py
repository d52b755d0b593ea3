"""Joins with a table outside: rows that wait until there is a partner, and partners that are kept to be taken back."""

from typing import ClassVar

import pytest

from funken import InvalidProgram, Row, RowKind
from funken.expr.ir import InputRef
from funken.expr.sql.types import BigIntType, VarCharType
from funken.table.catalog import InvalidTable
from funken.table.connectors.contract import LookupTable
from funken.table.connectors.values import register_rows, results_of
from funken.table.exec_nodes import LookupKey
from funken.table.logical import JoinType, LookupRetry
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.lookups import KeptLookupJoin, LookupJoin
from tests.table.runtime.changelogs import Run, schema
from tests.table.sql.tables import physical, session

LEFT = schema("id:i k:s")
TABLE = schema("k:s city:s")
BOTH = BlockSchema(["id", "k", "k0", "city"], [BigIntType(), VarCharType(100), VarCharType(100), VarCharType(100)])


class Cities(LookupTable):
    """A table in memory; each call is noted."""

    rows: ClassVar[dict] = {}
    asked: ClassVar[list] = []

    def lookup(self, keys):
        Cities.asked.append(list(keys))
        return [[(key[0], city) for city in self.rows.get(key[0], ())] for key in keys]


@pytest.fixture(autouse=True)
def cities():
    Cities.rows, Cities.asked = {"a": ["Rome"]}, []
    return Cities


def run(logic=LookupJoin, kind=JoinType.INNER, **arguments):
    calc = [InputRef(place, type=each) for place, each in enumerate(TABLE.types)]
    keys = (LookupKey(0, left=1),)
    return Run(logic, [LEFT], BOTH, kind=kind, table=Cities(), table_schema=TABLE, keys=keys, calc=calc, **arguments)


RETRY = LookupRetry(1000, 2)


def test_a_key_without_rows_is_asked_for_again_and_rows_behind_it_wait(cities):
    join = run(retry=RETRY)
    assert join.feed("+I(1,a) +I(2,x) +I(3,a)").text() == "+I(1,a,a,Rome)"
    assert join.clock(1000).text() == ""
    cities.rows["x"] = ["Oslo", "Bern"]
    assert join.clock(2000).text() == "+I(2,x,x,Oslo) +I(2,x,x,Bern) +I(3,a,a,Rome)"
    assert cities.asked[-2:] == [[("x",)], [("x",)]]
    assert join.harness.operator.next_tick() is None


@pytest.mark.parametrize(
    ("kind", "expected"), [(JoinType.INNER, "+I(3,a,a,Rome)"), (JoinType.LEFT, "+I(2,x,N,N) +I(3,a,a,Rome)")]
)
def test_after_the_last_attempt_there_is_no_partner(kind, expected):
    join = run(kind=kind, retry=RETRY).feed("+I(2,x) +I(3,a)").clock(1000)
    assert join.text() == ""
    assert join.clock(2000).text() == expected


def test_results_may_overtake_rows_that_wait(cities):
    join = run(retry=RETRY, unordered=True)
    assert join.feed("+I(2,x) +I(3,a)").text() == "+I(3,a,a,Rome)"
    cities.rows["x"] = ["Oslo"]
    assert join.clock(1000).text() == "+I(2,x,x,Oslo)"


def test_a_null_key_is_not_asked_for(cities):
    join = run(kind=JoinType.LEFT, retry=RETRY)
    assert join.feed("+I(1,N)").text() == "+I(1,N,N,N)"
    assert cities.asked == []


def test_a_watermark_stays_behind_the_rows_before_it(cities):
    join = run(retry=RETRY).feed("+I(2,x)")
    sent = []
    join.harness.operator.output.watermark = sent.append
    join.watermark(5)
    assert sent == []
    join.clock(1000).clock(2000)
    assert sent == [5]


def test_rows_that_wait_are_in_a_snapshot(cities):
    join = run(retry=RETRY).feed("+I(2,x) +I(3,a)").again()
    cities.rows["x"] = ["Oslo"]
    assert join.clock(1).text() == "+I(2,x,x,Oslo) +I(3,a,a,Rome)"


def test_the_end_of_the_input_waits_for_rows():
    join = run(kind=JoinType.LEFT, retry=LookupRetry(10, 3)).feed("+I(2,x) +I(3,a)").end()
    assert join.text() == "+I(2,x,N,N) +I(3,a,a,Rome)"
    assert len(Cities.asked) == 5  # two blocks, three more attempts


def kept(kind=JoinType.INNER):
    return run(KeptLookupJoin, kind, left=(0,))


def test_what_was_found_is_taken_back_as_it_was(cities):
    join = kept().feed("+I(1,a)")
    cities.rows["a"] = ["Lyon"]
    join.again()
    assert join.feed("-U(1,a) +U(1,a) -D(1,a)").text() == (
        "+I(1,a,a,Rome) -U(1,a,a,Rome) +U(1,a,a,Lyon) -D(1,a,a,Lyon)"
    )


def test_a_row_without_partner_is_taken_back_without_one(cities):
    join = kept(JoinType.LEFT).feed("+I(1,x)")
    cities.rows["x"] = ["Oslo"]
    assert join.feed("-D(1,x)").text() == "+I(1,x,N,N) -D(1,x,N,N)"


LOOKUP = "SELECT {} l.id, c.rate FROM (SELECT *, PROCTIME() AS p FROM {}) AS l JOIN r FOR SYSTEM_TIME AS OF l.p AS c ON l.k = c.k"
STRATEGY = "table.optimizer.non-deterministic-update.strategy"


def resolving(strategy="TRY_RESOLVE"):
    tables = session()
    tables.get_config().set(STRATEGY, strategy)
    return tables


def lookup(tables, query):
    return next(line for line in physical(tables, query) if line.startswith("LookupJoin("))


def test_only_rows_that_change_are_kept_and_only_if_that_is_wanted():
    shown = "upsertMaterialize=[true], upsertKey=[[0]]"
    assert shown in lookup(resolving(), LOOKUP.format("", "cp"))
    tables = resolving()
    tables.get_config().set("table.exec.state.ttl", "2 h")
    assert "the result for each row (id); expires 2 h" in tables.explain_sql(LOOKUP.format("", "cp"))
    assert shown not in lookup(resolving("IGNORE"), LOOKUP.format("", "cp"))
    assert "upsert" not in lookup(resolving(), LOOKUP.format("", "a"))


@pytest.mark.parametrize(
    ("strategy", "hint", "table", "message"),
    [
        ("TRY_RESOLVE", "", "c", "can not satisfy the determinism requirement.*no upsert key"),
        ("GUESS", "", "cp", "'GUESS' is none of IGNORE, TRY_RESOLVE"),
        (
            "TRY_RESOLVE",
            "/*+ LOOKUP('table'='c','retry-predicate'='lookup_miss','retry-strategy'='fixed_delay','fixed-delay'='1s',"
            "'max-attempts'='1') */",
            "cp",
            "a LOOKUP hint with a retry cannot be used",
        ),
    ],
)
def test_what_cannot_be_resolved_is_refused(strategy, hint, table, message):
    with pytest.raises((InvalidProgram, InvalidTable), match=message):
        resolving(strategy).explain_sql(LOOKUP.format(hint, table))


@pytest.mark.parametrize("retry", [None, LookupRetry(1000, 1)])
def test_an_upsert_that_finds_nothing_deletes_its_key(retry):
    join = run(deletes=True, retry=retry)
    join.feed("+I(1,a) +I(2,y) +U(1,x) +U(3,N) -D(1,x)", one_by_one=False).clock(1000).clock(2000)
    assert join.text() == "+I(1,a,a,Rome) -D(1,x,N,N) -D(3,N,N,N) -D(1,x,N,N)"


@pytest.mark.parametrize(
    ("kind", "by_key", "operators"),
    [
        ("", "true", ["LookupJoin", "TableSourceScan"]),
        ("", "false", ["LookupJoin", "ChangelogNormalize", "TableSourceScan"]),
        ("LEFT ", "false", ["LookupJoin", "TableSourceScan"]),
    ],
)
def test_no_row_stays_in_a_sink_by_key_whose_partner_is_another_one(kind, by_key, operators):
    tables = session()
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    changes = [
        Row.of_kind(RowKind.INSERT, 1, "a"),
        Row.of_kind(RowKind.INSERT, 2, "a"),
        Row.of_kind(RowKind.UPDATE_AFTER, 1, "x"),
        Row.of_kind(RowKind.UPDATE_AFTER, 2, "b"),
    ]
    rates, result = register_rows([("a", 5), ("b", 6)]), register_rows([])
    tables.execute_sql(
        "CREATE TABLE ups (id INT PRIMARY KEY NOT ENFORCED, k STRING) "
        f"WITH ('connector' = 'values', 'changelog-mode' = 'I,UA,D', 'data-id' = '{register_rows(changes)}')"
    )
    tables.execute_sql(
        "CREATE TABLE rated (k STRING PRIMARY KEY NOT ENFORCED, rate INT) "
        f"WITH ('connector' = 'values', 'disable-lookup' = 'false', 'data-id' = '{rates}')"
    )
    tables.execute_sql(
        "CREATE TABLE enriched (id INT PRIMARY KEY NOT ENFORCED, rate INT) WITH ('connector' = 'values', "
        f"'result-id' = '{result}', 'sink.supports-delete-by-key' = '{by_key}')"
    )
    insert = (
        "INSERT INTO enriched SELECT l.id, c.rate FROM (SELECT *, PROCTIME() AS p FROM ups) AS l "
        f"{kind}JOIN rated FOR SYSTEM_TIME AS OF l.p AS c ON l.k = c.k"
    )
    names = [line.partition("(")[0] for line in physical(tables, insert)]
    assert [name for name in names if name not in ("Sink", "Calc", "Exchange")] == operators

    tables.execute_sql(insert).wait()
    found = sorted(tuple(row) for row in results_of(result, (0,)).rows())
    assert found == ([(1, None)] if kind else []) + [(2, 6)]
