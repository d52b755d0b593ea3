"""Tables of SQLite, and by SQLAlchemy: the contracts, ranges against an oracle, and what is said when something is wrong."""

import sqlite3
from collections import namedtuple
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import Row
from funken.connectors import CommitOutcome, CommitRequest, DeliveryGuarantee
from funken.connectors.base import CommitterContext
from funken.connectors.schemas import RowMaker
from funken.connectors.sql import EngineDatabase, SqliteDatabase, SqlSink, SqlSource
from funken.connectors.sql.database import SqlDatabase, SqlProblem, patiently
from funken.connectors.sql.source import ranges
from funken.errors import InvalidConfiguration, SinkNotWritable, SourceNotReadable, ValueDoesNotFit
from funken.testing import check_sink, check_source

EXACTLY_ONCE = DeliveryGuarantee.EXACTLY_ONCE


def run(path, statement, rows=None):
    with closing(sqlite3.connect(path)) as db, db:
        return (db.execute(statement) if rows is None else db.executemany(statement, rows)).fetchall()


def made(path, key=False):
    run(path, f"CREATE TABLE t (n INTEGER {'PRIMARY KEY' if key else ''}, word TEXT)")
    return str(path)


def with_sqlalchemy(path):
    pytest.importorskip("sqlalchemy")
    return EngineDatabase(f"sqlite:///{path}")


# ---- the sink


@pytest.mark.parametrize("database", [SqliteDatabase, with_sqlalchemy])
@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_the_sink_keeps_its_contract(tmp_path, database, guarantee):
    def make(seed):
        path = made(tmp_path / f"{seed}.db")
        sink = SqlSink(database(path), "t", ("n", "word"), guarantee=guarantee)
        return sink, lambda: run(path, "SELECT * FROM t")

    check_sink(make, record=lambda n: (n, f"w{n}"), seeds=4, count=30, exactly_once=guarantee is EXACTLY_ONCE)


def test_upserts_leave_each_row_once(tmp_path):
    paths = []

    def make(seed):
        paths.append(made(tmp_path / f"{seed}.db", key=True))
        return SqlSink(SqliteDatabase(paths[-1]), "t", ("n", "word"), ("n",)), lambda: run(paths[-1], "SELECT * FROM t")

    check_sink(make, record=lambda n: (n, f"w{n}"), seeds=3, count=30, exactly_once=False)
    for path in paths:
        assert sorted(run(path, "SELECT * FROM t")) == [(n, f"w{n}") for n in range(30)]


def test_a_job_that_starts_from_an_earlier_checkpoint_loses_nothing(tmp_path):
    path = made(tmp_path / "t.db")
    sink = SqlSink(SqliteDatabase(path), "t", ("n", "word"), guarantee=EXACTLY_ONCE)

    def commit(number, restored, recover=()):
        request = CommitRequest([(number, "a")], job_id="job", operator_uid="out", checkpoint_id=number)
        committer = sink.committer(CommitterContext("out", 1, "job", "out", 0, restored))
        committer.open()
        committer.recover([request] if recover else [])
        if not recover:
            committer.commit([request])
        committer.close()
        return request.outcome

    assert commit(1, None) is CommitOutcome.COMMITTED
    assert commit(2, 1) is CommitOutcome.COMMITTED
    assert commit(2, 2, recover=True) is CommitOutcome.ALREADY_COMMITTED
    assert commit(2, 1) is CommitOutcome.COMMITTED, "the job went back to checkpoint 1: in twice, but not lost"
    assert run(path, "SELECT n FROM t") == [(1,), (2,), (2,)]


@pytest.mark.parametrize("checkpoint", [None, 4])
def test_a_commit_whose_answer_is_lost_is_in_once(tmp_path, checkpoint):
    path = made(tmp_path / "t.db")
    sink = SqlSink(SqliteDatabase(path), "t", ("n", "word"), guarantee=EXACTLY_ONCE)
    for run_of_the_job in range(2):
        committer = sink.committer(CommitterContext("out", 2, "job", "out"))
        committer.open()
        committer.recover([])
        transaction, failures = committer._session.transaction, iter([True])

        def lost(work, transaction=transaction, failures=failures):
            result = transaction(work)
            if next(failures, False):
                raise sqlite3.OperationalError("database is locked")  # what the client knows of a commit that it sent
            return result

        committer._session.transaction = lost
        rows = [[(run_of_the_job, "a")], [(run_of_the_job, "b")]]
        committer.commit([
            CommitRequest(each, job_id="job", operator_uid="out", subtask=subtask, checkpoint_id=checkpoint)
            for subtask, each in enumerate(rows)
        ])  # fmt: skip
        committer.close()

    assert run(path, "SELECT * FROM t") == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]


def test_what_is_wrong_is_said_before_anything_runs(tmp_path):
    path = made(tmp_path / "t.db")
    for database, table, columns, keys, message in (
        (SqliteDatabase(str(tmp_path / "none.db")), "t", ("n",), (), "none.db' cannot be opened; create the database"),
        (SqliteDatabase(path), "s", ("n",), (), "no such table: s; create it"),
        (SqliteDatabase(path), "t", ("m",), (), "no column named m; correct the columns"),
        (SqliteDatabase(path), "t", ("n", "word"), ("n",), "unique index of exactly the key columns"),
    ):
        with pytest.raises(SinkNotWritable, match=message):
            SqlSink(database, table, columns, keys).check()
    with pytest.raises(InvalidConfiguration, match="has no columns"):
        SqlSink(SqliteDatabase(path), "t").check()
    with pytest.raises(InvalidConfiguration, match="key columns"):
        SqlSink(SqliteDatabase(path), "t", ("n",), ("m",))
    assert "secret" not in repr(EngineDatabase("postgresql://ada:secret@host/db"))


# ---- the source


@pytest.mark.parametrize("database", [SqliteDatabase, with_sqlalchemy])
def test_the_source_keeps_its_contract_also_where_rows_share_a_value(tmp_path, database):
    path = made(tmp_path / "t.db")
    rows = [(n // 3 if n < 20 else 7, f"w{n}") for n in range(40)]
    run(path, "INSERT INTO t VALUES (?, ?)", rows)
    source = SqlSource(database(path), "SELECT * FROM t WHERE word <> ?", "n", ("w1",), partitions=3, page_size=4)

    check_source(source, [row for row in rows if row[1] != "w1"], seeds=5)


@given(st.integers(-50, 50), st.integers(0, 100), st.integers(1, 12))
def test_ranges_have_each_number_once(lower, width, count):
    splits = ranges(lower, lower + width, count)
    for number in range(lower - 2, lower + width + 3):
        holding = [
            each
            for each in splits
            if (each.lower is None or each.lower <= number) and (each.upper is None or number < each.upper)
        ]
        assert len(holding) == 1
    assert len(splits) <= count


def test_ranges_are_of_numbers_and_dates():
    day = date(2026, 1, 1)
    assert ranges(day, day + timedelta(days=10), 2)[0].upper == date(2026, 1, 6)
    assert ranges(Decimal(1), Decimal(4), 2)[0].upper == Decimal("2.5")
    with pytest.raises(SourceNotReadable, match="choose a column of numbers or dates"):
        ranges("a", "z", 2)


def test_a_source_that_cannot_be_read_says_why(tmp_path):
    path = made(tmp_path / "t.db")
    for query, column, message in (
        ("SELECT * FROM s", "n", "no such table"),
        ("SELECT word FROM t", "n", "no such column|has no column"),
    ):
        with pytest.raises(SourceNotReadable, match=message):
            SqlSource(SqliteDatabase(path), query, column, partitions=2).enumerator(1).start()
    run(path, "INSERT INTO t VALUES (?, ?)", [(None, "a"), (1, "b")])
    with pytest.raises(SourceNotReadable, match="null in 1 rows"):
        SqlSource(SqliteDatabase(path), "SELECT * FROM t", "n").enumerator(1).start()


# ---- the parts


@dataclass
class Order:
    word: str
    n: int


def test_records_of_all_kinds_become_rows():
    named = namedtuple("named", ["word", "extra", "n"])
    records = [
        (1, "a"),
        [1, "a"],
        Row(1, "a"),
        Row(word="a", n=1),
        {"word": "a", "n": 1},
        Order("a", 1),
        named("a", 0, 1),
    ]

    assert RowMaker(["n", "word"], "sink").rows(records) == [(1, "a")] * 7
    assert RowMaker(["n"], "sink").rows([5, {"n": 6}, Order("a", 7)]) == [(5,), (6,), (7,)]
    for wrong in ((1, 2, 3), Row(n=1), {"n": 1}, 5):
        with pytest.raises(ValueDoesNotFit, match="sink.*columns: n, word"):
            RowMaker(["n", "word"], "sink").rows([wrong])


class Flaky(SqlDatabase):
    errors = (OSError,)

    def problem(self, error):
        return SqlProblem(str(error), "wait", transient=str(error) == "busy")


def test_transient_errors_are_retried_and_others_not():
    calls = []

    def work(*texts):
        def once():
            calls.append(1)
            if len(calls) <= len(texts):
                raise OSError(texts[len(calls) - 1])
            return "done"

        calls.clear()
        return once

    assert patiently(Flaky(), work("busy"), SinkNotWritable) == "done"
    with pytest.raises(SinkNotWritable, match="gone; wait"):
        patiently(Flaky(), work("gone"), lambda problem: SinkNotWritable(str(problem)))
    assert len(calls) == 1
    with pytest.raises(SinkNotWritable):
        patiently(Flaky(), work("busy", "busy"), lambda problem: SinkNotWritable(str(problem)), tries=2)
    assert len(calls) == 2
