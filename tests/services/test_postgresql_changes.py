"""``PostgresCdcSource`` against a real server: the snapshot and all changes once, whoever fails meanwhile."""

import threading
import uuid
from dataclasses import dataclass

import pytest

from funken.connectors import Batch, Boundedness, ConnectorContext, NeedSplits, Source, SourceReader, Wait
from funken.connectors.postgresql import UNCHANGED, ChangeKind, PostgresCdcSource, PostgresDatabase
from funken.errors import SourceNotReadable
from funken.testing import check_source
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture
def source_of(postgres):
    made = []

    def make(*tables, server=postgres, **more):
        made.append(
            PostgresCdcSource(
                PostgresDatabase(server.conninfo),
                [f"public.{each}" for each in tables],
                f"s_{uuid.uuid4().hex[:8]}",
                **more,
            )
        )
        return made[-1]

    yield make
    for source in made:
        source.drop()


def plain(change):
    """A change as something that can be hashed."""
    before, after = (None if row is None else tuple(row.items()) for row in (change.before, change.after))
    return change.kind.value, before, after


@dataclass(frozen=True)
class Plain(Source):
    """Changes as tuples; and ``Wait(None)`` becomes a short wait, for the kit ends when it has waited often in vain."""

    source: PostgresCdcSource
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
        self.notify_checkpoint_complete = reader.notify_checkpoint_complete
        self.notify_checkpoint_aborted = reader.notify_checkpoint_aborted

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
def reading(source_of):
    made = []

    def make(*arguments, **more):
        made.append(Reading(source_of(*arguments, **more)))
        return made[-1]

    yield make
    for each in made:
        each.reader.close()


# ---- the contract


def test_bytes_of_the_snapshot_and_of_the_stream_are_counted(postgres, reading):
    table = postgres.table("id int PRIMARY KEY, word text", [(n, "käse") for n in range(10)])
    changes = reading(table, page_size=4)
    changes.read(10)
    of_rows = changes.context.metrics.snapshot()["numBytesIn"]
    assert of_rows == 10 * (8 + 5)

    postgres.execute(f"INSERT INTO {table} SELECT n, repeat('x', 1000) FROM generate_series(100, 149) n")
    changes.read(50)
    assert 50_000 < changes.context.metrics.snapshot()["numBytesIn"] - of_rows < 60_000


def test_the_snapshot_and_the_changes_keep_the_contract(postgres, source_of):
    table = postgres.table("id int PRIMARY KEY, word text", [(n, f"w{n}") for n in range(20)])
    source = source_of(table, page_size=4)
    enumerator = source.enumerator(1)
    enumerator.start()  # from here on the slot keeps the changes, which the snapshots of the runs have already
    postgres.execute(f"UPDATE {table} SET word = 'x' WHERE id < 5; DELETE FROM {table} WHERE id = 19")
    rows = [(n, "x" if n < 5 else f"w{n}") for n in range(19)]

    check_source(Plain(source), [("r", None, (("id", n), ("word", word))) for n, word in rows], seeds=4)


def test_the_changes_keep_the_contract(postgres, source_of):
    table = postgres.table("id int PRIMARY KEY, word text")
    source = source_of(table, snapshot=False)
    source.enumerator(1).start()
    with postgres.connect() as connection, connection.transaction():
        connection.cursor().executemany(f"INSERT INTO {table} VALUES (%s, 'a')", [(n,) for n in range(10)])
    postgres.execute(f"INSERT INTO {table} SELECT n, 'b' FROM generate_series(10, 39) n")
    expected = [("c", None, (("id", n), ("word", "a" if n < 10 else "b"))) for n in range(40)]

    check_source(WithoutAcknowledgement(source), expected, seeds=4)  # each run reads from the beginning


def test_a_bounded_source_keeps_the_contract_and_ends_where_the_log_was(postgres, source_of):
    table = postgres.table("id int PRIMARY KEY, word text", [(n, f"w{n}") for n in range(20)])
    source = source_of(table, page_size=4, boundedness=Boundedness.BOUNDED)
    source.enumerator(1).start()
    postgres.execute(f"UPDATE {table} SET word = 'x' WHERE id < 5; DELETE FROM {table} WHERE id = 19")
    rows = [(n, "x" if n < 5 else f"w{n}") for n in range(19)]

    ends = Plain(source, boundedness=Boundedness.BOUNDED)
    check_source(ends, [("r", None, (("id", n), ("word", word))) for n, word in rows], seeds=3)


def test_the_next_run_of_a_bounded_source_begins_where_the_last_one_ended(postgres, source_of):
    table = postgres.table("id int PRIMARY KEY, word text")
    source = source_of(table, snapshot=False, boundedness=Boundedness.BOUNDED)
    source.enumerator(1).start()
    seen = []
    for word in ("a", "b", "c"):
        postgres.execute(f"INSERT INTO {table} VALUES ({ord(word)}, '{word}')")
        seen.append(run_to_the_end(source, lambda: postgres.execute(f"INSERT INTO {table} VALUES (1, 'late')"), word))
        wait_until_unused(postgres, source)
        postgres.execute(f"DELETE FROM {table} WHERE id = 1")

    words = [[change.after["word"] for change in run if change.after is not None] for run in seen]
    assert words == [["a"], ["late", "b"], ["late", "c"]]


def test_the_last_acknowledgement_arrives_though_more_is_on_its_way(postgres, source_of):
    for _ in range(8):  # by luck it arrived in three of five cases
        table = postgres.table("id int, word text")
        source = source_of(table, snapshot=False, boundedness=Boundedness.BOUNDED)
        source.enumerator(1).start()
        postgres.execute(f"INSERT INTO {table} VALUES (0, 'first')")
        flood = f"INSERT INTO {table} SELECT n, repeat('x', 2000) FROM generate_series(1, 3000) AS n"
        assert len(run_to_the_end(source, lambda flood=flood: postgres.execute(flood), "first")) == 1
        wait_until_unused(postgres, source)

        again = run_to_the_end(source, lambda: None, None)
        assert {change.after["word"][0] for change in again} == {"x"}


def wait_until_unused(postgres, source):
    """Wait until the server has taken the last message of the connection."""
    while postgres.execute("SELECT active FROM pg_replication_slots WHERE slot_name = %s", (source.slot,)) != [
        (False,)
    ]:
        pass


def run_to_the_end(source, meanwhile, until):
    """Read until the source ends, with a checkpoint there; when a word was read, something happens to the table."""
    job, found = Reading(source), []
    for _ in range(100_000):
        got = job.reader.poll(100, 0)
        if isinstance(got, NeedSplits):
            break
        if isinstance(got, Batch):
            found += got.values
            if any(change.after and change.after["word"] == until for change in got.values):
                meanwhile()
        else:
            assert job.woken.wait(60), f"only {found}"
            job.woken.clear()
    assert job.reader.split_finished() == ["changes"]
    assert job.reader.snapshot_state(1) == []
    job.reader.notify_checkpoint_complete(1)
    job.reader.close()  # which sends the acknowledgement
    return found


@dataclass(frozen=True)
class WithoutAcknowledgement(Plain):
    def reader(self, context):
        reader = super().reader(context)
        del reader.notify_checkpoint_complete
        return reader


# ---- snapshot and log


def test_changes_while_the_snapshot_is_read_are_there_once(postgres, reading):
    table = postgres.table("id int PRIMARY KEY, word text", [(n, "old") for n in range(1, 9)])
    job = reading(table, page_size=2)
    state = {}

    def apply(changes):
        for change in changes:
            if change.before is not None or change.kind is ChangeKind.DELETE:
                assert change.before["id"] in state, change
                del state[change.before["id"]]
            if change.after is not None:
                fresh = change.kind in (ChangeKind.READ, ChangeKind.INSERT)
                assert not fresh or change.after["id"] not in state, f"{change} is there twice"
                state[change.after["id"]] = change.after["word"]

    apply(job.read(2))  # the first page: 1, 2
    postgres.execute(f"UPDATE {table} SET word = 'new' WHERE id IN (1, 7)")
    postgres.execute(f"DELETE FROM {table} WHERE id IN (2, 8)")
    postgres.execute(f"INSERT INTO {table} VALUES (0, 'new'), (9, 'new')")
    postgres.execute(f"UPDATE {table} SET id = 10 WHERE id = 1; UPDATE {table} SET id = -1 WHERE id = 7")
    apply(job.read(3))
    job = job.again()
    postgres.execute(f"INSERT INTO {table} VALUES (-2, 'newer')")
    while state != dict(postgres.execute(f"SELECT id, word FROM {table}")):
        apply(job.read(1))
    postgres.execute(f"INSERT INTO {table} VALUES (11, 'last')")
    apply(job.read(1))

    assert state == dict(postgres.execute(f"SELECT id, word FROM {table}"))
    job.reader.close()


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_row_that_only_a_failed_attempt_has_emitted_is_deleted(postgres, reading, identity):
    table = postgres.table("id int PRIMARY KEY, n int", [(n, n) for n in range(8)])
    postgres.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}")
    job, rows = reading(table, page_size=2), {}

    def upsert(changes):
        for change in changes:
            row = change.after or change.before
            rows[row["id"]] = None if change.after is None else row["n"]

    upsert(job.read(2))
    stored = job.reader.snapshot_state(1)
    upsert(job.read(4))  # in no checkpoint
    job.reader.close()
    postgres.execute(f"DELETE FROM {table} WHERE id IN (1, 3, 6); UPDATE {table} SET id = 9, n = 90 WHERE id = 4")
    postgres.execute(f"DELETE FROM {table} WHERE id = 2")
    postgres.execute(f"INSERT INTO {table} VALUES (2, 20)")
    job = Reading(job.source, stored, restored=1)
    changes = job.read(3)
    assert [change.kind.name for change in changes] == ["READ"] * 3
    stored = job.reader.snapshot_state(2)
    job.reader.close()
    job = Reading(job.source, stored, restored=2)
    changes += job.read(2)  # a row, and a change of the first page
    assert [(change.kind.name, change.before and change.before["id"]) for change in changes[3:]] == [
        ("READ", None),
        ("DELETE", 1),
    ]
    deletions = job.read(3 if identity == "DEFAULT" else 6)  # nothing else happens in the database
    upsert([*changes, *deletions])
    job.reader.close()

    assert {key: n for key, n in rows.items() if n is not None} == dict(postgres.execute(f"SELECT id, n FROM {table}"))
    assert [(change.kind.name, change.before) for change in deletions] == (
        [("DELETE", {"id": id_}) for id_ in (3, 6, 4)]
        if identity == "DEFAULT"
        else [each for id_ in (3, 6, 4) for each in (("INSERT", None), ("DELETE", {"id": id_, "n": id_}))]
    )


def test_a_transaction_that_is_open_while_the_snapshot_is_read_is_in_the_log(postgres, reading):
    table = postgres.table("id int PRIMARY KEY, word text", [(1, "a")])
    job = reading(table)
    with postgres.connect() as other, other.transaction():
        other.execute(f"INSERT INTO {table} VALUES (2, 'b')")
        assert [plain(each) for each in job.read(1)] == [("r", None, (("id", 1), ("word", "a")))]

    assert [plain(each) for each in job.read(1)] == [("c", None, (("id", 2), ("word", "b")))]


def test_text_keys_are_compared_as_the_server_does(postgres, reading):
    words = ["B", "a", "Z", "é", "z", "_", "10", "9", "Ä", "ab"]
    table = postgres.table("word varchar, n int, PRIMARY KEY (word, n)", [(word, n) for n, word in enumerate(words)])
    job = reading(table, page_size=3)
    first = job.read(4)
    postgres.execute(f"DELETE FROM {table} WHERE word IN ('B', 'é', 'a')")
    rest = job.read(len(words) - 4 - 1)
    state = {each.after["word"] for each in [*first, *rest] if each.after}
    state -= {each.before["word"] for each in [*first, *rest] if each.before}
    while state != set(words) - {"B", "é", "a"}:
        [change] = job.read(1)
        assert change.kind is ChangeKind.DELETE
        state.remove(change.before["word"])


# ---- changes


def test_each_kind_of_change_has_what_the_server_knows(postgres, reading):
    table = postgres.table("id int PRIMARY KEY, word text, at timestamptz, many int[], price numeric")
    job = reading(table, snapshot=False)
    row = "'a', '2026-01-02 03:04:05+01', '{1,2}', 1.50"
    postgres.execute(f"INSERT INTO {table} VALUES (1, {row})")
    postgres.execute(f"UPDATE {table} SET word = NULL")
    postgres.execute(f"UPDATE {table} SET id = 2")
    postgres.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    postgres.execute(f"UPDATE {table} SET word = 'b'")
    postgres.execute(f"DELETE FROM {table}")
    postgres.execute(f"TRUNCATE {table}")
    inserted, nulled, moved, full, deleted, truncated = job.read(6)
    [(expected,)] = postgres.execute("SELECT '2026-01-02 03:04:05+01'::timestamptz")

    assert (inserted.kind, inserted.before, inserted.table) == (ChangeKind.INSERT, None, f"public.{table}")
    assert inserted.after["at"] == expected
    assert (inserted.after["many"], str(inserted.after["price"])) == ([1, 2], "1.50")
    assert (nulled.kind, nulled.before, nulled.after["word"]) == (ChangeKind.UPDATE, None, None)
    assert (moved.before, moved.after["id"]) == ({"id": 1}, 2)
    assert (full.before["word"], full.after["word"]) == (None, "b")
    assert (deleted.kind, deleted.before["word"], deleted.after) == (ChangeKind.DELETE, "b", None)
    assert truncated.kind is ChangeKind.TRUNCATE
    assert job.times == sorted(job.times)
    assert [each.lsn for each in (inserted, nulled, moved, full, deleted, truncated)] == sorted(
        {each.lsn for each in (inserted, nulled, moved, full, deleted, truncated)}
    )


def test_columns_may_be_added_renamed_retyped_and_dropped_meanwhile(postgres, reading):
    table = postgres.table("id int PRIMARY KEY, word text")
    job = reading(table, snapshot=False)
    for change, values in (
        ("ADD COLUMN n int", "2, 'b', 7"),
        ("RENAME COLUMN word TO name", "3, 'c', 8"),
        ("ALTER COLUMN n TYPE text", "4, 'd', '9'"),
        ("DROP COLUMN name", "5, '10'"),
    ):
        postgres.execute(f"ALTER TABLE {table} {change}; INSERT INTO {table} VALUES ({values})")

    assert [each.after for each in job.read(4)] == [
        {"id": 2, "word": "b", "n": 7},
        {"id": 3, "name": "c", "n": 8},
        {"id": 4, "name": "d", "n": "9"},
        {"id": 5, "n": "10"},
    ]


def test_a_large_value_that_was_not_changed_is_not_sent(postgres, reading):
    table = postgres.table("id int PRIMARY KEY, n int, large text")
    postgres.execute(f"ALTER TABLE {table} ALTER COLUMN large SET STORAGE EXTERNAL")
    job = reading(table, snapshot=False)
    postgres.execute(f"INSERT INTO {table} VALUES (1, 1, repeat('x', 100000)); UPDATE {table} SET n = 2")

    assert [(each.after["n"], each.after["large"]) for each in job.read(2)] == [(1, "x" * 100_000), (2, UNCHANGED)]


# ---- positions


def test_a_transaction_that_was_emitted_in_part_goes_on_where_it_was(postgres, reading):
    table = postgres.table("id int PRIMARY KEY")
    job = reading(table, snapshot=False)
    postgres.execute(f"INSERT INTO {table} SELECT * FROM generate_series(1, 10)")
    found = [each.after["id"] for each in job.read(4, limit=2)]
    job = job.again()
    found += [each.after["id"] for each in job.read(6)]
    job = job.again()
    postgres.execute(f"INSERT INTO {table} VALUES (11)")
    found += [each.after["id"] for each in job.read(1)]
    job.reader.close()

    assert found == list(range(1, 12))


def test_the_server_forgets_what_a_complete_checkpoint_holds_and_not_before(postgres, source_of):
    table = postgres.table("id int PRIMARY KEY")
    source = source_of(table)
    job = Reading(source)
    postgres.execute(f"INSERT INTO {table} VALUES (1)")
    job.read(1)

    def confirmed():
        query = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
        return postgres.execute(query, (source.slot,))[0][0]

    before = confirmed()
    old = job.reader.snapshot_state(1)
    postgres.execute(f"INSERT INTO {table} VALUES (2)")
    job.read(1)
    job.reader.snapshot_state(2)
    assert confirmed() == before
    job.reader.notify_checkpoint_complete(2)
    for _ in range(600):
        if confirmed() != before:
            break
        threading.Event().wait(0.1)
    assert confirmed() != before
    job.reader.close()

    late = Reading(source, old)
    with pytest.raises(SourceNotReadable, match="changes in between are lost"):
        late.read(1)
    late.reader.close()


def test_reading_goes_on_when_the_server_was_killed(own_postgres, source_of):
    table = own_postgres.table("id int PRIMARY KEY")
    source = source_of(table, server=own_postgres)
    job = Reading(source)
    own_postgres.execute(f"INSERT INTO {table} VALUES (1)")
    found = job.read(1)
    own_postgres.kill()
    own_postgres.start()
    own_postgres.execute(f"INSERT INTO {table} VALUES (2)")
    found += job.read(1)
    job.reader.close()

    assert [each.after["id"] for each in found] == [1, 2]


# ---- before anything runs


def test_what_is_wrong_is_said_at_the_start(postgres, source_of):
    keyless, other = postgres.table("n int"), postgres.table("id float PRIMARY KEY")
    nothing = postgres.table("id int PRIMARY KEY")
    postgres.execute(f"ALTER TABLE {nothing} REPLICA IDENTITY NOTHING")
    for table, message in (
        ("nowhere", "no table 'public.nowhere'; create it"),
        (keyless, "no primary key.*use snapshot=False"),
        (other, "cannot be compared here.*float8"),
        (nothing, "REPLICA IDENTITY DEFAULT"),
    ):
        with pytest.raises(SourceNotReadable, match=message):
            source_of(table).enumerator(1).start()


def test_a_server_that_does_not_log_changes_is_refused(postgres_programs):
    server = PostgresServer(postgres_programs, wal_level="replica")
    try:
        server.start()
        table = server.table("id int PRIMARY KEY")
        with pytest.raises(SourceNotReadable, match="wal_level = replica.*restart the server"):
            PostgresCdcSource(PostgresDatabase(server.conninfo), [table], "s").enumerator(1).start()
    finally:
        server.remove()
