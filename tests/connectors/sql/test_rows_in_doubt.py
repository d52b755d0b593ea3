"""A job of change data capture that fails amid the snapshot, while rows come and go: what a sink has in the end.

The readers are the real ones; a table and its log in memory stand for the server, so that each interleaving is one seed.
"""

import pickle
import random
import threading
from collections import Counter

import pytest

from funken.connectors import Batch, ConnectorContext
from funken.connectors.mysql import reader as mysql
from funken.connectors.mysql.binlog import LoggedChanges, LogPosition
from funken.connectors.mysql.columns import MySqlKey
from funken.connectors.postgresql import source as postgresql
from funken.connectors.postgresql.replication import CommittedTransaction
from funken.connectors.sql.changes import ChangeKind, TableChange

TABLE, SIZE, KEYS = "public.t", 2, 9


class Table:
    """Rows by their keys, and a log of transactions, whose number is also their position."""

    def __init__(self, ids, whole=True):
        self.rows = {id_: {"id": id_, "n": id_} for id_ in ids}
        self.whole, self.log = whole, []

    @property
    def position(self):
        return len(self.log)

    def change(self, id_, row, joined=False):
        """Insert, update, delete or move a row, in a transaction of its own or the one before."""
        before = self.rows.pop(id_, None)
        if row is not None:
            self.rows[row["id"]] = row
        kind = ChangeKind.INSERT if before is None else ChangeKind.DELETE if row is None else ChangeKind.UPDATE
        if before is not None and not self.whole:
            before = None if row is not None and row["id"] == id_ else {"id": id_}
        if not joined:
            self.log.append([])
        self.log[-1].append(TableChange(kind, TABLE, before, row, self.position))

    def disturb(self, chance, count):
        """Do something to some rows."""
        done = self.position
        for n in range(100 * (done + 1), 100 * (done + 1) + count):
            id_ = chance.randrange(KEYS)
            to = chance.choice([id_, id_, chance.randrange(KEYS), None, None])
            if to is None and id_ not in self.rows:
                continue
            if to is not None and to != id_ and (to in self.rows or id_ not in self.rows):
                to = id_
            joined = self.position > done and chance.random() < 0.5
            self.change(id_, None if to is None else {"id": to, "n": n}, joined)

    def page(self, after):
        found = sorted(id_ for id_ in self.rows if after is None or id_ > after[0])[:SIZE]
        return [(id_, self.rows[id_]["n"]) for id_ in found], len(found) < SIZE


class Stream:
    """What is in the log after a position."""

    received_bytes = timestamp = 0

    def __init__(self, table, since):
        self.table, self.at, self.told = table, since, -1
        self.start = self.stop = lambda: None
        self.asks = False

    def take(self):
        if self.at < self.table.position:
            self.at += 1
            return self.item(self.table.log[self.at - 1])
        if self.told < self.at:
            self.told = self.at
            return self.position(self.at)
        return None


class PostgresStream(Stream):
    position = staticmethod(int)

    def item(self, changes):
        return CommittedTransaction(self.at, self.at, 0, changes, {TABLE: 2})


class PostgresReader(postgresql.CdcReader):
    def __init__(self, table, context):
        super().__init__(postgresql.PostgresDatabase("dbname=none"), "s", "p", SIZE, False, context)
        self.table, self.working = table, lambda: self._work.busy

    @staticmethod
    def first():
        return postgresql.CdcSplit("changes", (TABLE,), ((TABLE, ("id",)),))

    def _read_page(self, split):
        rows, is_last = self.table.page(split.after)
        following = self.table.position + 1
        return postgresql.PageRows(TABLE, f"{following}:{following}:", 0, ["id", "n"], rows, is_last)

    def _read_fence(self, split):
        return self.table.position

    def _begin(self, split):
        if split.pages:
            self._seen = postgresql.SeenChanges(split.pages, dict(split.keys), split.doubt, self._doubts.note)
        self._stream = PostgresStream(self.table, split.lsn)
        return self._stream


def logged(at):
    return LogPosition("b.1", at)


class MySqlStream(Stream):
    position = staticmethod(logged)
    pending = None

    def __init__(self, table, since, emitted):
        super().__init__(table, since)
        self.skip = emitted

    def take(self):
        """The end of a transaction is an item of its own."""
        if self.pending is not None:
            end, self.pending = self.pending, None
            return end
        return super().take()

    def item(self, changes):
        end, skip, self.skip = logged(self.at), self.skip, 0
        if skip == len(changes):
            return end
        self.pending = end
        return LoggedChanges(changes[skip:], end)


class MySqlReader(mysql.MySqlCdcReader):
    def __init__(self, table, context):
        super().__init__(mysql.MySqlDatabase("db", "ada", ""), 1, {}, SIZE, 0, False, context)
        self.table, self.working = table, lambda: self._work.busy

    @staticmethod
    def first():
        return mysql.MySqlCdcSplit("changes", (TABLE,), ((TABLE, (MySqlKey("id", "int"),)),), logged(0))

    def _read_page(self, split):
        rows, is_last = self.table.page(split.after)
        keys = [row[:1] for row in rows]
        return mysql.PageRows(TABLE, logged(self.table.position), 0, ["id", "n"], rows, is_last, keys)

    def _read_fence(self, split):
        return logged(self.table.position)

    def _begin(self):
        self._stream = MySqlStream(self.table, self._split.position.offset, self._split.emitted)
        return self._stream


class Job:
    """One reader, from a checkpoint on."""

    def __init__(self, kind, table, splits=None):
        self.woken = threading.Event()
        restored = None if splits is None else 1
        self.reader = kind(table, ConnectorContext("changes", wake=self.woken.set, restored_checkpoint_id=restored))
        self.reader.add_splits([kind.first()] if splits is None else splits)

    def read(self, limit):
        """Read one batch; nothing if the log has no more."""
        for _ in range(10_000):
            got = self.reader.poll(limit, 0)
            if isinstance(got, Batch):
                return got.values
            if not self.reader.working():
                return []
            assert self.woken.wait(30)
            self.woken.clear()
        raise AssertionError("it polls for ever")

    def close(self):
        splits = self.reader.snapshot_state(1)
        self.reader.close()
        return splits


def upsert(sink, changes):
    """Take changes as a sink does that writes at least once, by key: it keeps what a failed attempt wrote."""
    for change in changes:
        if change.after is not None:
            sink[change.after["id"]] = change.after
        if change.before is not None and (change.after is None or change.before["id"] != change.after["id"]):
            sink.pop(change.before["id"], None)


def weigh(weights, changes):
    for change in changes:
        for row, weight in ((change.before, -1), (change.after, 1)):
            if row is not None:
                weights[row["id"], row["n"]] += weight
                assert weights[row["id"], row["n"]] >= 0, "a row is deleted that was not there"


@pytest.mark.parametrize("kind", [PostgresReader, MySqlReader])
def test_a_row_that_only_a_failed_attempt_has_emitted_is_deleted(kind):
    table, sink = Table(range(6)), {}
    job = Job(kind, table)
    upsert(sink, job.read(10))
    stored = job.reader.snapshot_state(1)
    upsert(sink, job.read(10))  # 2 and 3, in no checkpoint
    job.close()
    table.change(3, None)
    job = Job(kind, table, stored)
    while found := job.read(10):
        upsert(sink, found)
    job.close()

    assert sink == table.rows


@pytest.mark.parametrize("kind", [PostgresReader, MySqlReader])
def test_a_row_that_is_deleted_and_inserted_again_before_its_page_is_read_stays(kind):
    table, sink = Table(range(6)), {}
    job = Job(kind, table)
    upsert(sink, job.read(10))
    stored = job.close()
    table.change(3, None)
    table.change(3, {"id": 3, "n": 30})
    job = Job(kind, table, stored)
    while found := job.read(10):
        upsert(sink, found)
    job.close()

    assert sink == table.rows


@pytest.mark.parametrize("kind", [PostgresReader, MySqlReader])
def test_a_checkpoint_amid_the_log_has_the_rows_in_doubt(kind):
    table, sink = Table(range(6)), {}
    job = Job(kind, table)
    upsert(sink, job.read(10))
    stored = job.reader.snapshot_state(1)
    upsert(sink, job.read(10))
    job.close()
    table.change(3, None)
    table.change(0, {"id": 0, "n": 7})  # in the page of the checkpoint
    job = Job(kind, table, stored)
    while (found := job.read(10))[0].kind is ChangeKind.READ:
        upsert(sink, found)
    assert [change.after for change in found] == [{"id": 0, "n": 7}]
    upsert(sink, found)
    job = Job(kind, table, job.close())
    upsert(sink, job.read(10))
    job.close()

    assert sink == table.rows


@pytest.mark.parametrize("kind", [PostgresReader, MySqlReader])
def test_a_checkpoint_of_before_there_were_doubts_is_restored(kind):
    table, sink = Table(range(6)), {}
    job = Job(kind, table)
    upsert(sink, job.read(10))
    [stored] = job.close()
    sink |= {2: table.rows[2], 3: table.rows[3]}  # in no checkpoint
    old = object.__new__(type(stored))
    old.__dict__.update({name: value for name, value in vars(stored).items() if name not in ("since", "doubt", "lost")})
    table.change(3, None)
    job = Job(kind, table, [pickle.loads(pickle.dumps(old))])
    while found := job.read(10):
        upsert(sink, found)
    job.close()

    assert sink == table.rows


@pytest.mark.parametrize("kind", [PostgresReader, MySqlReader])
def test_a_table_that_is_truncated_in_doubt_is_told(kind, caplog):
    table = Table(range(6))
    job = Job(kind, table)
    stored = job.reader.snapshot_state(1)
    job.read(10)
    job.close()
    table.rows = {}
    table.log.append([TableChange(ChangeKind.TRUNCATE, TABLE, None, None, 1)])
    job = Job(kind, table, stored)
    assert job.read(10) == []
    job.close()

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "may keep these rows" in caplog.text


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize(
    ("kind", "whole"), [(PostgresReader, True), (PostgresReader, False), (MySqlReader, True)], ids=["full", "key", "mysql"]
)  # fmt: skip
def test_an_upsert_sink_and_a_state_that_is_restored_have_the_rows_of_the_table(kind, whole, seed):
    chance = random.Random(seed)
    table = Table(chance.sample(range(KEYS), 6), whole)
    sink, weights = {}, Counter()
    job, stored, kept = Job(kind, table), None, Counter()
    for _ in range(chance.randrange(1, 4)):  # attempts that fail
        for _ in range(chance.randrange(12)):
            changes = job.read(chance.randrange(1, 5))
            upsert(sink, changes)
            if whole:
                weigh(weights, changes)
            if chance.random() < 0.4:
                stored, kept = job.reader.snapshot_state(1), Counter(weights)
            table.disturb(chance, chance.randrange(4))
        job.close()
        if stored is None:  # without a checkpoint nobody knows what was emitted
            sink = {}
        weights = Counter(kept)
        job = Job(kind, table, stored)
        table.disturb(chance, chance.randrange(4))
    while changes := job.read(chance.randrange(1, 5)):
        upsert(sink, changes)
        if whole:
            weigh(weights, changes)
        if chance.random() < 0.3 and table.position < 60:
            table.disturb(chance, chance.randrange(3))
        if chance.random() < 0.3:
            job = Job(kind, table, job.close())
    job.close()

    assert sink == table.rows
    if whole:
        assert +weights == Counter((row["id"], row["n"]) for row in table.rows.values())
