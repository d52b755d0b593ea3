"""``MySqlCdcSource`` against a real MariaDB: the snapshot and all changes once, whoever fails meanwhile."""

import contextlib
import datetime
import itertools
import re
import threading
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

import pytest

from funken import WatermarkStrategy
from funken.connectors import Batch, Boundedness, ConnectorContext, NeedSplits, Source, SourceReader, Wait
from funken.connectors.mysql import ChangeKind, MySqlCdcSource, MySqlDatabase, StartupOptions
from funken.errors import SourceNotReadable
from funken.testing import check_source
from tests.support.mariadb import MariaServer

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
SERVER_IDS = itertools.count(1000)


def database_of(server, **more):
    return MySqlDatabase("127.0.0.1", **({"user": "root", "database": "shop", "port": server.port} | more))


def source_of(server, *tables, **more):
    names = [f"shop.{each}" if isinstance(each, str) else each for each in tables]
    return MySqlCdcSource(database_of(server), names, next(SERVER_IDS), **more)


def plain(change):
    """A change as something that can be hashed."""
    before, after = (None if row is None else tuple(row.items()) for row in (change.before, change.after))
    return change.kind.value, before, after


@dataclass(frozen=True)
class Plain(Source):
    """Changes as tuples; and ``Wait(None)`` becomes a short wait, for the kit ends when it has waited often in vain."""

    source: MySqlCdcSource
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    max_parallelism = 1

    def enumerator(self, parallelism):
        return self.source.enumerator(parallelism)

    def reader(self, context):
        return PlainReader(self.source.reader(context))


class PlainReader(SourceReader):
    def __init__(self, reader):
        self.reader = reader
        self.open, self.close, self.add_splits = reader.open, reader.close, reader.add_splits
        self.snapshot_state, self.split_finished = reader.snapshot_state, reader.split_finished

    def poll(self, limit, now):
        got = self.reader.poll(limit, now)
        if isinstance(got, Batch):
            return Batch([plain(change) for change in got.values], got.timestamps, got.split)
        if isinstance(got, Wait):
            threading.Event().wait(0.005)
            return Wait(5)
        return got


class Reading:
    """One reader that goes on from its own snapshots."""

    def __init__(self, source, splits=None, restored=None):
        self.source = source
        if splits is None:
            enumerator = source.enumerator(1)
            enumerator.start()
            splits = enumerator.next_splits(0)
        self.woken = threading.Event()
        self.context = ConnectorContext("changes", wake=self.woken.set, restored_checkpoint_id=restored)
        self.reader = source.reader(self.context)
        self.reader.open()
        self.reader.add_splits(splits)
        self.times = []

    def read(self, count, limit=100):
        """Read until there are so many changes."""
        found = []
        for _ in range(100_000):
            if len(found) >= count:
                return found
            got = self.reader.poll(min(limit, count - len(found)), 0)
            if isinstance(got, Batch):
                found += got.values
                self.times += got.timestamps
            else:
                assert self.woken.wait(60), f"only {found}"
                self.woken.clear()
        raise AssertionError(f"only {found}")

    def again(self):
        splits = self.reader.snapshot_state(1)
        self.reader.close()
        return Reading(self.source, splits)


@pytest.fixture
def reading(mariadb):
    made = []

    def make(*tables, server=mariadb, **more):
        made.append(Reading(source_of(server, *tables, **more)))
        return made[-1]

    yield make
    for each in made:
        each.reader.close()


LATEST = StartupOptions.latest()

# ---- the contract


def test_the_snapshot_and_the_changes_keep_the_contract(mariadb):
    table = mariadb.table("id int PRIMARY KEY, word text", [(n, f"w{n}") for n in range(20)])
    source = source_of(mariadb, table, page_size=4)
    source.enumerator(1).start()
    mariadb.execute(f"UPDATE {table} SET word = 'x' WHERE id < 5")
    mariadb.execute(f"DELETE FROM {table} WHERE id = 19")
    rows = [(n, "x" if n < 5 else f"w{n}") for n in range(19)]

    check_source(Plain(source), [("r", None, (("id", n), ("word", word))) for n, word in rows], seeds=3)


def test_the_changes_keep_the_contract(mariadb):
    table = mariadb.table("id int PRIMARY KEY, word text")
    [(file, position, *_)] = mariadb.execute("SHOW MASTER STATUS")
    with contextlib.closing(mariadb.connect()) as connection:
        connection.begin()
        connection.cursor().executemany(f"INSERT INTO {table} VALUES (%s, 'a')", [(n,) for n in range(10)])
        connection.commit()
    mariadb.execute(f"DELETE FROM {table} WHERE id < 2")
    source = source_of(mariadb, table, start=StartupOptions.specific_offset(file, position))
    rows = [(("id", n), ("word", "a")) for n in range(10)]

    check_source(Plain(source), [("c", None, row) for row in rows] + [("d", row, None) for row in rows[:2]], seeds=3)


def test_a_bounded_source_keeps_the_contract_and_ends_where_the_log_was(mariadb):
    table = mariadb.table("id int PRIMARY KEY, word text", [(n, f"w{n}") for n in range(20)])
    source = source_of(mariadb, table, page_size=4, boundedness=Boundedness.BOUNDED)
    rows = [("r", None, (("id", n), ("word", f"w{n}"))) for n in range(20)]

    check_source(Plain(source, boundedness=Boundedness.BOUNDED), rows, seeds=3)
    job = Reading(source)
    found = job.read(20)
    mariadb.execute(f"DELETE FROM {table}")
    while not isinstance(got := job.reader.poll(100, 0), NeedSplits):
        if isinstance(got, Batch):
            found += got.values
        assert job.woken.wait(60)
        job.woken.clear()
    assert len(found) in (20, 40)  # the deletion is before the end or after it, whole
    assert job.reader.split_finished() == ["changes"]
    job.reader.close()


# ---- snapshot and log


@pytest.mark.parametrize("key", ["int", "varchar(20)"])
def test_changes_while_the_snapshot_is_read_are_there_once(mariadb, reading, key):
    at = (lambda n: n) if key == "int" else (lambda n: chr(ord("m") + n) if n % 2 else chr(ord("M") + n))
    table = mariadb.table(f"id {key} PRIMARY KEY, word text", [(at(n), "old") for n in range(1, 9)])
    job = reading(table, page_size=2)
    state = {}

    def apply(changes):
        for change in changes:
            if change.before is not None:
                assert state.pop(change.before["id"]) == change.before["word"], change
            if change.after is not None:
                assert change.after["id"] not in state, f"{change} is there twice"
                state[change.after["id"]] = change.after["word"]

    apply(job.read(2))  # the first page: 1, 2
    mariadb.execute(f"UPDATE {table} SET word = 'new' WHERE id IN (%s, %s)", (at(1), at(7)))
    mariadb.execute(f"DELETE FROM {table} WHERE id IN (%s, %s)", (at(2), at(8)))
    mariadb.execute(f"INSERT INTO {table} VALUES (%s, 'new'), (%s, 'new')", (at(0), at(9)))
    mariadb.execute(f"UPDATE {table} SET id = %s WHERE id = %s", (at(10), at(1)))
    mariadb.execute(f"UPDATE {table} SET id = %s WHERE id = %s", (at(-1), at(7)))
    apply(job.read(3))
    job = job.again()
    mariadb.execute(f"INSERT INTO {table} VALUES (%s, 'newer')", (at(-2),))
    while state != dict(mariadb.execute(f"SELECT id, word FROM {table}")):
        apply(job.read(1))
    mariadb.execute(f"INSERT INTO {table} VALUES (%s, 'last')", (at(11),))
    apply(job.read(1))

    assert state == dict(mariadb.execute(f"SELECT id, word FROM {table}"))
    job.reader.close()


def test_many_writers_during_the_snapshot_lose_and_double_nothing(mariadb, reading):
    table = mariadb.table("id int PRIMARY KEY, n int", [(n, 0) for n in range(200)])
    job, stopped = reading(table, page_size=10), threading.Event()

    def write(first):
        with contextlib.closing(mariadb.connect()) as connection:
            cursor = connection.cursor()
            for turn in itertools.count():
                if stopped.is_set():
                    return
                at = (first * 97 + turn * 31) % 400
                cursor.execute(
                    f"INSERT INTO {table} VALUES (%s, 1) ON DUPLICATE KEY UPDATE n = n + 1"
                    if turn % 3
                    else f"DELETE FROM {table} WHERE id = %s",
                    (at,),
                )

    threads = [threading.Thread(target=write, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    state = {}

    def apply(changes):
        for change in changes:
            if change.before is not None:
                assert state.pop(change.before["id"]) == change.before["n"], change
            if change.after is not None:
                assert change.after["id"] not in state, change
                state[change.after["id"]] = change.after["n"]

    try:
        apply(job.read(400))
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    while state != dict(mariadb.execute(f"SELECT id, n FROM {table}")):
        apply(job.read(1))


def test_a_row_that_only_a_failed_attempt_has_emitted_is_deleted(mariadb, reading):
    table = mariadb.table("id varchar(20) PRIMARY KEY, n int", [(f"k{n}", n) for n in range(8)])
    job, rows = reading(table, page_size=2), {}

    def upsert(changes):
        for change in changes:
            row = change.after or change.before
            rows[row["id"]] = None if change.after is None else row["n"]

    upsert(job.read(2))
    stored = job.reader.snapshot_state(1)
    upsert(job.read(4))  # in no checkpoint
    job.reader.close()
    mariadb.execute(f"DELETE FROM {table} WHERE id IN ('k1', 'k3', 'k6')")
    mariadb.execute(f"UPDATE {table} SET id = 'k9', n = 90 WHERE id = 'k4'")
    mariadb.execute(f"DELETE FROM {table} WHERE id = 'k2'")
    mariadb.execute(f"INSERT INTO {table} VALUES ('k2', 20)")
    job = Reading(job.source, stored, restored=1)
    changes = job.read(3)
    assert [change.kind.name for change in changes] == ["READ"] * 3
    stored = job.reader.snapshot_state(2)
    job.reader.close()
    job = Reading(job.source, stored, restored=2)
    mariadb.execute(f"INSERT INTO {table} VALUES ('a', 7)")  # in the first page, so it is a change of the log
    changes += job.read(9)  # a row, two changes, and three rows that are inserted and deleted
    upsert(changes)
    job.reader.close()

    wanted = dict(mariadb.execute(f"SELECT id, n FROM {table}"))
    assert {key: n for key, n in rows.items() if n is not None} == wanted
    weights = Counter({("k0", 0): 1, ("k1", 1): 1})  # as a table of changes has it: what is deleted was there
    for change in changes:
        for row, weight in ((change.before, -1), (change.after, 1)):
            if row is not None:
                weights[row["id"], row["n"]] += weight
    assert {row for row, weight in weights.items() if weight == 1} == set(wanted.items())
    assert set(weights.values()) == {0, 1}


def test_a_transaction_that_is_open_while_the_snapshot_is_read_is_there_once(mariadb, reading):
    table = mariadb.table("id int PRIMARY KEY, word text", [(1, "a"), (5, "a")])
    job = reading(table, page_size=2)
    with contextlib.closing(mariadb.connect()) as other:
        other.begin()
        other.cursor().execute(f"INSERT INTO {table} VALUES (9, 'b')")
        assert [each.after["id"] for each in job.read(2)] == [1, 5]
        threading.Timer(0.5, other.commit).start()  # the last page waits for it
        assert [each.after["id"] for each in job.read(1)] == [9]
    mariadb.execute(f"INSERT INTO {table} VALUES (10, 'c')")
    assert [plain(each) for each in job.read(1)] == [("c", None, (("id", 10), ("word", "c")))]


# ---- changes


COLUMNS = """id int unsigned PRIMARY KEY, tu tinyint unsigned, mu mediumint unsigned, big bigint unsigned, price decimal(10,4),
f float, db double, bits bit(9), c char(10),
latin varchar(20) CHARACTER SET latin1, fixed binary(4), bytes blob, en enum('a','b','ö'),
st set('x','y','zä'), js json, d date, at datetime(6), ts timestamp(3) NULL, t time, t6 time(6), y year"""
ROWS = [
    "(1, 255, 16777215, 18446744073709551615, -123456.7891, 1.1, 1e300, 257, 'ab ', 'é', 'ab', x'00ff', 'ö', 'zä,x', "
    "'{\"a\": 1}', '2024-02-29', '2024-02-29 12:00:01.123456', '2024-02-29 12:00:01.654', '-12:34:56', '-00:00:01.5', 2024)",
    "(2, 0, 0, 0, 0, 0, 0, 0, '', '', '', '', '', '', '[]', '0000-00-00', '0000-00-00', 0, 0, '-838:59:58.999999', 0)",
    f"(3{', NULL' * 20})",
]


def test_each_type_has_the_same_values_in_the_snapshot_and_in_the_log(mariadb, reading):
    table = mariadb.table(COLUMNS)
    with contextlib.closing(mariadb.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        for row in ROWS:
            cursor.execute(f"INSERT INTO {table} VALUES {row}")
    job = reading(table)
    rows = [change.after for change in job.read(3)]
    mariadb.execute(f"DELETE FROM {table}")
    logged = [change.before for change in job.read(3)]

    assert [list(map(repr, row.items())) for row in rows] == [list(map(repr, row.items())) for row in logged]
    assert rows[0] == {
        "id": 1, "tu": 255, "mu": 16777215, "big": 18446744073709551615, "price": Decimal("-123456.7891"),
        "f": 1.100000023841858, "db": 1e300, "bits": 257, "c": "ab", "latin": "é", "fixed": b"ab\0\0", "bytes": b"\0\xff",
        "en": "ö", "st": "x,zä", "js": '{"a": 1}', "d": datetime.date(2024, 2, 29),
        "at": datetime.datetime.fromisoformat("2024-02-29 12:00:01.123456"),
        "ts": datetime.datetime(2024, 2, 29, 12, 0, 1, 654000, datetime.UTC),
        "t": -datetime.timedelta(hours=12, minutes=34, seconds=56), "t6": -datetime.timedelta(seconds=1.5), "y": 2024,
    }  # fmt: skip
    assert (rows[1]["en"], rows[1]["st"], rows[1]["d"], rows[1]["ts"], rows[1]["y"]) == ("", "", None, None, 0)
    assert set(rows[2].values()) == {3, None}


def test_each_kind_of_change_is_there_with_its_rows(mariadb, reading):
    table = mariadb.table("id int PRIMARY KEY, word text")
    job = reading(table, start=LATEST)
    mariadb.execute(f"INSERT INTO {table} VALUES (1, 'a')")
    mariadb.execute(f"UPDATE {table} SET word = NULL, id = 2")
    mariadb.execute(f"DELETE FROM {table}")
    mariadb.execute(f"/* by hand */ TRUNCATE `{table}`")
    inserted, updated, deleted, truncated = job.read(4)

    assert (inserted.kind, inserted.table, inserted.after) == (
        ChangeKind.INSERT,
        f"shop.{table}",
        {"id": 1, "word": "a"},
    )
    assert (updated.before, updated.after) == ({"id": 1, "word": "a"}, {"id": 2, "word": None})
    assert (deleted.kind, deleted.before, deleted.after) == (ChangeKind.DELETE, {"id": 2, "word": None}, None)
    assert truncated.kind is ChangeKind.TRUNCATE
    positions = [each.lsn for each in (inserted, updated, deleted, truncated)]
    assert positions == sorted(set(positions))
    [(now,)] = mariadb.execute("SELECT UNIX_TIMESTAMP() * 1000")
    assert now - 60_000 < inserted.timestamp <= now


def test_columns_may_be_added_renamed_retyped_and_dropped_meanwhile(mariadb, reading):
    table = mariadb.table("id int PRIMARY KEY, word text")
    job = reading(table, start=LATEST)
    for change, values in (
        ("ADD COLUMN n int", "2, 'b', 7"),
        ("CHANGE COLUMN word name text", "3, 'c', 8"),
        ("MODIFY COLUMN n text", "4, 'd', '9'"),
        ("DROP COLUMN name", "5, '10'"),
    ):
        mariadb.execute(f"ALTER TABLE {table} {change}")
        mariadb.execute(f"INSERT INTO {table} VALUES ({values})")

    assert [each.after for each in job.read(4)] == [
        {"id": 2, "word": "b", "n": 7},
        {"id": 3, "name": "c", "n": 8},
        {"id": 4, "name": "d", "n": "9"},
        {"id": 5, "n": "10"},
    ]


def test_only_the_tables_and_columns_that_are_named_are_read(mariadb, reading):
    one = mariadb.table("id int PRIMARY KEY, word text, place point", [])
    other = mariadb.table("id int PRIMARY KEY")
    hidden = mariadb.table("id int PRIMARY KEY")
    pattern = re.compile(rf"shop\.({one}|{other})")
    job = reading(pattern, columns={f"shop.{one}": ["word"]}, start=LATEST)
    mariadb.execute(f"INSERT INTO {hidden} VALUES (1)")
    mariadb.execute(f"INSERT INTO {one} VALUES (1, 'a', POINT(1, 2))")
    mariadb.execute(f"INSERT INTO {other} VALUES (2)")

    assert [(each.table, each.after) for each in job.read(2)] == [
        (f"shop.{one}", {"id": 1, "word": "a"}),
        (f"shop.{other}", {"id": 2}),
    ]


def test_a_log_begins_where_it_is_asked_to(own_mariadb):
    table = own_mariadb.table("id int PRIMARY KEY")
    own_mariadb.execute(f"INSERT INTO {table} VALUES (1)")
    own_mariadb.execute("FLUSH BINARY LOGS")
    [(file, position, *_)] = own_mariadb.execute("SHOW MASTER STATUS")
    threading.Event().wait(1.1)  # times of the log are of seconds
    [(millis,)] = own_mariadb.execute("SELECT UNIX_TIMESTAMP() * 1000")
    own_mariadb.execute(f"INSERT INTO {table} VALUES (2)")
    for start, wanted in (
        (StartupOptions.earliest(), [1, 2]),
        (StartupOptions.specific_offset(file, position), [2]),
        (StartupOptions.timestamp(int(millis)), [2]),
    ):
        job = Reading(source_of(own_mariadb, table, start=start))
        assert [each.after["id"] for each in job.read(len(wanted))] == wanted
        job.reader.close()
    with pytest.raises(SourceNotReadable, match=r"no position bin.000077:4 of the binary log"):
        Reading(source_of(own_mariadb, table, start=StartupOptions.specific_offset("bin.000077", 4)))


# ---- positions and failures


def test_a_transaction_that_was_emitted_in_part_goes_on_where_it_was(mariadb, reading):
    table = mariadb.table("id int PRIMARY KEY")
    job = reading(table, start=LATEST)
    mariadb.execute(f"INSERT INTO {table} SELECT seq FROM seq_1_to_10")
    found = [each.after["id"] for each in job.read(4, limit=2)]
    job = job.again()
    found += [each.after["id"] for each in job.read(6)]
    job = job.again()
    mariadb.execute(f"INSERT INTO {table} VALUES (11)")
    found += [each.after["id"] for each in job.read(1)]
    job.reader.close()

    assert found == list(range(1, 12))


def test_reading_goes_on_when_the_connection_is_ended_or_the_server_is_killed(own_mariadb):
    table = own_mariadb.table("id int PRIMARY KEY")
    job = Reading(source_of(own_mariadb, table, start=LATEST))
    own_mariadb.execute(f"INSERT INTO {table} VALUES (1)")
    found = job.read(1)
    threads = own_mariadb.execute("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")
    for (thread,) in threads:
        own_mariadb.execute(f"KILL {thread}")
    own_mariadb.execute(f"INSERT INTO {table} VALUES (2)")
    found += job.read(1)
    own_mariadb.kill()
    own_mariadb.start()
    own_mariadb.execute(f"INSERT INTO {table} VALUES (3)")
    found += job.read(1)
    job.reader.close()

    assert threads
    assert [each.after["id"] for each in found] == [1, 2, 3]


def test_a_position_whose_log_was_purged_is_an_error(own_mariadb):
    table = own_mariadb.table("id int PRIMARY KEY")
    job = Reading(source_of(own_mariadb, table, start=LATEST))
    splits = job.reader.snapshot_state(1)
    job.reader.close()
    own_mariadb.execute("FLUSH BINARY LOGS")
    [(file, *_)] = own_mariadb.execute("SHOW MASTER STATUS")
    own_mariadb.execute(f"PURGE BINARY LOGS TO '{file}'")
    late = Reading(job.source, splits)
    with pytest.raises(SourceNotReadable, match=r"cannot be read from bin\.\d+:\d+: .*\(1236\); start from the newest"):
        late.read(1)
    late.reader.close()


def test_two_readers_with_one_server_id_are_told_apart(mariadb, reading):
    table = mariadb.table("id int PRIMARY KEY")
    first = reading(table, start=LATEST)
    mariadb.execute(f"INSERT INTO {table} VALUES (1)")
    first.read(1)
    second = Reading(first.source)
    try:
        mariadb.execute(f"INSERT INTO {table} VALUES (2)")
        second.read(1)
        with pytest.raises(SourceNotReadable, match="server id .* give each reader its own"):
            for id_ in range(3, 500):
                mariadb.execute(f"INSERT INTO {table} VALUES ({id_})")
                first.read(1)
                second.read(1)
    finally:
        second.reader.close()


def test_a_session_that_logs_less_than_rows_is_noticed(mariadb, reading):
    for setting, message in (
        ("binlog_format = STATEMENT", "a statement in place of changed rows"),
        ("binlog_row_image = MINIMAL", "only parts of rows"),
    ):
        table = mariadb.table("id int PRIMARY KEY, word text", [(1, "a")])
        job = reading(table, start=LATEST)
        with contextlib.closing(mariadb.connect()) as connection:
            connection.cursor().execute(f"SET SESSION {setting}")
            connection.cursor().execute(f"UPDATE {table} SET word = 'b' WHERE id = 1")
        with pytest.raises(SourceNotReadable, match=message):
            job.read(1)


def test_a_prepared_xa_transaction_is_refused(mariadb, reading):
    table = mariadb.table("id int PRIMARY KEY")
    job = reading(table, start=LATEST)
    with contextlib.closing(mariadb.connect()) as connection:
        cursor = connection.cursor()
        for statement in (
            "XA START 'x'",
            f"INSERT INTO {table} VALUES (1)",
            "XA END 'x'",
            "XA PREPARE 'x'",
            "XA COMMIT 'x'",
        ):
            cursor.execute(statement)
    with pytest.raises(SourceNotReadable, match="an XA transaction that is only prepared"):
        job.read(1)


# ---- before anything runs


def test_what_is_wrong_with_a_table_is_said_at_the_start(mariadb):
    keyless, inexact = mariadb.table("n int"), mariadb.table("id float PRIMARY KEY")
    place, unlocked = (
        mariadb.table("id int PRIMARY KEY, place point"),
        mariadb.table("id int PRIMARY KEY", more="ENGINE MyISAM"),
    )
    virtual = mariadb.table("id int PRIMARY KEY, twice int AS (id * 2) VIRTUAL")
    mariadb.execute(f"CREATE VIEW v_{place} AS SELECT 1")
    for table, message in (
        ("nowhere", "no table 'shop.nowhere'; create it"),
        (f"v_{place}", "is a view, whose changes are not logged"),
        (keyless, "no primary key.*StartupOptions.latest"),
        (inexact, r"cannot be compared here: id \(float\)"),
        (place, r"types that cannot be read: place \(point\); leave them out"),
        (unlocked, "the engine MyISAM, which locks no rows"),
        (virtual, "does not hold the virtual column 'twice'"),
    ):
        with pytest.raises(SourceNotReadable, match=message):
            source_of(mariadb, table).enumerator(1).start()
    source_of(mariadb, keyless, start=LATEST).enumerator(1).start()


def test_a_user_who_may_not_replicate_is_told_what_to_grant(mariadb, reading):
    table = mariadb.table("id int PRIMARY KEY", [(1,)])
    mariadb.execute("CREATE OR REPLACE USER ada@'%' IDENTIFIED BY 'secret'")
    mariadb.execute("GRANT SELECT ON shop.* TO ada@'%'")

    def source(**more):
        return MySqlCdcSource(database_of(mariadb, user="ada", **more), [f"shop.{table}"], next(SERVER_IDS))

    with pytest.raises(SourceNotReadable, match=r"Access denied.*\(1045\); correct user and password") as wrong:
        source(password="guessed").enumerator(1).start()
    assert "guessed" not in str(wrong.value)
    with pytest.raises(SourceNotReadable, match="BINLOG MONITOR"):
        source(password="secret").enumerator(1).start()
    mariadb.execute("GRANT BINLOG MONITOR ON *.* TO ada@'%'")
    job = Reading(source(password="secret"))
    job.read(1)
    with pytest.raises(SourceNotReadable, match="grant REPLICATION SLAVE|needs REPLICATION SLAVE"):
        job.read(1)
    job.reader.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"log_bin": None}, "writes no binary log; start it with log_bin"),
        ({"binlog_format": "MIXED"}, "binlog_format = MIXED.*SET GLOBAL binlog_format = 'ROW'"),
        ({"binlog_row_image": "MINIMAL"}, "SET GLOBAL binlog_row_image = 'FULL'"),
        ({"binlog_row_metadata": "NO_LOG"}, "SET GLOBAL binlog_row_metadata = 'FULL'"),
        ({"log_bin_compress": "ON"}, "SET GLOBAL log_bin_compress = OFF"),
    ],
)
def test_a_server_that_does_not_log_rows_is_refused(mariadb_server_programs, settings, message):
    server = MariaServer(mariadb_server_programs, **settings)
    try:
        server.start()
        table = server.table("id int PRIMARY KEY")
        with pytest.raises(SourceNotReadable, match=message):
            source_of(server, table).enumerator(1).start()
    finally:
        server.remove()


def test_the_servers_own_id_is_refused(mariadb):
    table = mariadb.table("id int PRIMARY KEY")
    with pytest.raises(SourceNotReadable, match="has server id 1 itself"):
        MySqlCdcSource(database_of(mariadb), [f"shop.{table}"], 1).enumerator(1).start()


# ---- jobs


@pytest.mark.ways("local")
def test_a_job_reads_rows_and_then_changes(env, mariadb):
    table = mariadb.table("id int PRIMARY KEY, word text", [(1, "a"), (2, "b")])
    changes = env.from_source(source_of(mariadb, table), WatermarkStrategy.for_monotonous_timestamps(), "changes")
    described = changes.map(lambda change: (change.kind.value, change.after["word"]))
    with described.execute_and_collect() as found:
        got = sorted(next(found) for _ in range(2))
        mariadb.execute(f"UPDATE {table} SET word = 'c' WHERE id = 1")
        mariadb.execute(f"INSERT INTO {table} VALUES (3, 'd')")
        got += sorted(next(found) for _ in range(2))

    assert got == [("r", "a"), ("r", "b"), ("c", "d"), ("u", "c")]


DECLARED = """CREATE TABLE orders (id INT, item STRING, big BOOLEAN, at TIMESTAMP(3),
kind STRING METADATA FROM 'row_kind' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED) WITH (
'connector' = 'mysql-cdc', 'hostname' = '127.0.0.1', 'port' = '{port}', 'username' = 'root',
'database-name' = 'shop', 'table-name' = '{tables}', 'server-time-zone' = 'Asia/Tokyo', 'scan.startup.mode' = '{mode}',
'server-id' = '{id}')"""
ORDERS = "id int PRIMARY KEY, item text, big tinyint(1), at timestamp(3) NULL, place point"


def tables_of(mariadb, mode, tables):
    from funken.table import StreamTableEnvironment

    tables_env = StreamTableEnvironment.create()
    tables_env.execute_sql(DECLARED.format(port=mariadb.port, tables=tables, mode=mode, id=f"{next(SERVER_IDS)}-9999"))
    return tables_env


def test_a_query_reads_tables_of_a_pattern_as_they_are(mariadb):
    names = [mariadb.table(ORDERS) for _ in range(2)]
    for id_, name in enumerate(names):
        mariadb.execute(f"INSERT INTO {name} VALUES ({id_}, 'tea', 1, '2026-01-02 03:04:05.678', POINT(1, 2))")
    tables_env = tables_of(mariadb, "snapshot", "|".join(names))

    with tables_env.execute_sql("SELECT * FROM orders").collect() as found:
        rows = sorted((tuple(row) for row in found), key=lambda row: row[0])

    [(utc,)] = mariadb.execute(f"SELECT UNIX_TIMESTAMP(at) FROM {names[0]}")
    tokyo = datetime.datetime.fromtimestamp(float(utc), datetime.timezone(datetime.timedelta(hours=9))).replace(
        tzinfo=None
    )
    assert rows == [(0, "tea", True, tokyo, "+I"), (1, "tea", True, tokyo, "+I")]


def test_a_query_follows_the_changes_of_a_table(mariadb):
    name = mariadb.table(ORDERS)
    for id_, item in enumerate(("tea", "tea", "jam")):
        mariadb.execute(f"INSERT INTO {name} (id, item) VALUES ({id_}, '{item}')")
    counts = {}
    with (
        tables_of(mariadb, "initial", name)
        .execute_sql("SELECT item, COUNT(*) FROM orders GROUP BY item")
        .collect() as found
    ):

        def follow(until):
            while counts != until:
                row = next(found)
                if str(row.get_row_kind()) in ("+I", "+U"):
                    counts[row[0]] = row[1]
                elif str(row.get_row_kind()) == "-D":
                    del counts[row[0]]

        follow({"tea": 2, "jam": 1})
        mariadb.execute(f"UPDATE {name} SET item = 'tea' WHERE item = 'jam'")
        mariadb.execute(f"DELETE FROM {name} WHERE id = 0")
        follow({"tea": 2})


def test_rows_are_read_looked_up_and_written_by_a_database(mariadb):
    from funken.connectors.sql import SqlSink, SqlSource
    from funken.testing import local

    source, sink = (
        mariadb.table("id int PRIMARY KEY, item text", [(n, f"i{n % 3}") for n in range(20)]),
        mariadb.table("item varchar(20) PRIMARY KEY, n int"),
    )
    database = database_of(mariadb)
    env = local([]).get_execution_environment()
    rows = env.from_source(
        SqlSource(database, f"SELECT id, item FROM {source} WHERE id > %s", "id", parameters=(1,), page_size=7)
    )
    counts = rows.map(lambda row: (row[1], 1)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    counts.sink_to(SqlSink(database, sink, ("item", "n"), key_columns=("item",)))
    env.execute()

    assert mariadb.execute(f"SELECT * FROM {sink} ORDER BY item") == [("i0", 6), ("i1", 6), ("i2", 6)]
