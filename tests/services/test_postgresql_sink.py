"""``PostgresSink`` against a real server: the contract, prepared transactions in all their ends, and what ``check`` says."""

import pytest

from funken.connectors import CommitOutcome, CommitRequest, ConnectorContext, DeliveryGuarantee
from funken.connectors.base import CommitterContext
from funken.connectors.postgresql import PostgresDatabase, PostgresSink
from funken.connectors.sql import SqlSink
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.testing import check_sink, local
from tests.support.postgres import PASSWORD, PostgresServer

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
EXACTLY_ONCE = DeliveryGuarantee.EXACTLY_ONCE


def sink_to(server, table, guarantee=EXACTLY_ONCE, columns=("n", "word"), keys=(), **more):
    return PostgresSink(
        PostgresDatabase(server.conninfo), table, columns, keys, guarantee, transaction_prefix=f"p-{table}", **more
    )


def pair(n):
    return n, f"word {n}"


@pytest.fixture
def table(postgres):
    return postgres.table("n int, word text")


def rows(server, table):
    return sorted(server.execute(f"SELECT * FROM {table}"))


def of_sink(server, sink, operator="out"):
    family = sink.family(operator)
    return [gid for (gid,) in server.execute("SELECT gid FROM pg_prepared_xacts") if gid.startswith(family)]


@pytest.fixture
def writer_of():
    made = []

    def make(sink, subtask=0):
        made.append(sink.writer(ConnectorContext("sink", subtask, 2, operator_uid="out")))
        made[-1].open()
        return made[-1]

    yield make
    for writer in made:
        writer.close()


@pytest.fixture
def committer_of():
    made = []

    def make(sink):
        made.append(sink.committer(CommitterContext("sink", operator_uid="out")))
        made[-1].open()
        return made[-1]

    yield make
    for committer in made:
        committer.close()


def prepared(writer, values, checkpoint=1):
    writer.write(values, None, 0)
    writer.flush(end_of_input=False)
    [committable] = writer.prepare_commit(checkpoint, end_of_input=False)
    return CommitRequest(committable, operator_uid="out", checkpoint_id=checkpoint)


# ---- the contract


def test_prepared_transactions_keep_the_contract(postgres):
    def make(seed):
        table = postgres.table("n int, word text")
        return sink_to(postgres, table), lambda: postgres.execute(f"SELECT * FROM {table}")

    check_sink(make, record=pair, seeds=6, count=40)
    assert postgres.execute("SELECT gid FROM pg_prepared_xacts") == []


def test_staged_rows_keep_the_contract(postgres):
    def make(seed):
        table = postgres.table("n int, word text")
        sink = SqlSink(PostgresDatabase(postgres.conninfo), table, ("n", "word"), guarantee=EXACTLY_ONCE)
        postgres.execute("DROP TABLE IF EXISTS funken_commits")
        return sink, lambda: postgres.execute(f"SELECT * FROM {table}")

    check_sink(make, record=pair, seeds=3, count=40)


def test_at_least_once_keeps_the_contract(postgres):
    def make(seed):
        table = postgres.table("n int, word text")
        return sink_to(postgres, table, DeliveryGuarantee.AT_LEAST_ONCE), lambda: postgres.execute(
            f"SELECT * FROM {table}"
        )

    check_sink(make, record=pair, seeds=3, count=40, exactly_once=False)


def test_upserts_are_idempotent(postgres):
    tables = []

    def make(seed):
        tables.append(postgres.table("n int PRIMARY KEY, word text"))
        sink = sink_to(postgres, tables[-1], DeliveryGuarantee.AT_LEAST_ONCE, keys=("n",))
        return sink, lambda: postgres.execute(f"SELECT * FROM {tables[-1]}")

    check_sink(make, record=pair, seeds=3, count=40, exactly_once=False)
    for table in tables:
        assert rows(postgres, table) == [pair(n) for n in range(40)], "each row once, however often it was written"


def test_a_job_writes_records_by_name(postgres):
    table = postgres.table("word text, n int")
    stream = local([{"n": 1, "word": "50 %"}, {"n": None, "word": "tab\tand \\N"}])
    stream.sink_to(sink_to(postgres, table))
    stream.get_execution_environment().execute()

    assert rows(postgres, table) == [("50 %", 1), ("tab\tand \\N", None)]


def test_the_last_of_several_records_with_a_key_stays(postgres, writer_of):
    table = postgres.table("n int PRIMARY KEY, word text")
    writer = writer_of(sink_to(postgres, table, DeliveryGuarantee.AT_LEAST_ONCE, keys=("n",)))
    writer.write([(1, "old"), (2, "b"), (1, "new")], None, 0)

    assert rows(postgres, table) == [(1, "new"), (2, "b")]


# ---- the ends of a prepared transaction


def test_another_process_commits_and_commits_again(postgres, table, writer_of, committer_of):
    sink = sink_to(postgres, table)
    writer = writer_of(sink)
    request = prepared(writer, [pair(1)])
    writer.close()
    assert rows(postgres, table) == []

    committer_of(sink).recover([request])
    assert (request.outcome, rows(postgres, table)) == (CommitOutcome.COMMITTED, [pair(1)])
    committer_of(sink).commit([request])
    assert (request.outcome, rows(postgres, table)) == (CommitOutcome.ALREADY_COMMITTED, [pair(1)])


def test_what_is_in_no_checkpoint_is_rolled_back_and_only_that(postgres, table, writer_of, committer_of):
    sink, other = sink_to(postgres, table), sink_to(postgres, postgres.table("n int, word text"))
    lost, kept, foreign = (prepared(writer_of(each), [pair(n)]) for n, each in enumerate((sink, sink, other)))

    committer_of(sink).recover([kept])

    assert rows(postgres, table) == [pair(1)]
    assert of_sink(postgres, sink) == []
    assert len(of_sink(postgres, other)) == 1
    committer_of(other).abort([foreign])
    assert of_sink(postgres, other) == []
    committer_of(sink).commit([lost])
    assert lost.outcome is CommitOutcome.FAILED
    assert "records are lost" in lost.reason
    assert "aborted" in lost.reason


def test_a_recovery_ends_writers_of_former_attempts(postgres, table, writer_of, committer_of):
    sink = sink_to(postgres, table)
    zombie = writer_of(sink)
    zombie.write([pair(1)], None, 0)

    committer_of(sink).recover([])

    with pytest.raises(SinkNotWritable):
        zombie.write([pair(2)], None, 0)
    assert rows(postgres, table) == []


def test_an_empty_checkpoint_prepares_nothing(postgres, table, writer_of):
    assert writer_of(sink_to(postgres, table)).prepare_commit(1, end_of_input=False) == []


def test_a_prepared_transaction_survives_the_server(own_postgres, writer_of, committer_of):
    table = own_postgres.table("n int, word text")
    sink = sink_to(own_postgres, table)
    committer = committer_of(sink)
    request = prepared(writer_of(sink), [pair(1)])
    own_postgres.kill()
    committer.commit([request])
    assert request.outcome is CommitOutcome.RETRY_LATER
    own_postgres.start()
    again = CommitRequest(request.committable, operator_uid="out", checkpoint_id=1)
    committer.commit([again])

    assert (again.outcome, rows(own_postgres, table)) == (CommitOutcome.COMMITTED, [pair(1)])


# ---- before anything runs


def test_prepared_transactions_that_are_not_allowed_are_refused(postgres_programs):
    server = PostgresServer(postgres_programs, max_prepared_transactions=0)
    try:
        server.start()
        table = server.table("n int, word text")
        with pytest.raises(SinkNotWritable, match="max_prepared_transactions = 0.*restart the server"):
            sink_to(server, table).check()
        sink_to(server, table, DeliveryGuarantee.AT_LEAST_ONCE).check()
    finally:
        server.remove()


def test_check_says_what_is_wrong_and_what_to_do(postgres, table):
    postgres.execute("CREATE ROLE reader LOGIN")
    wrong = [
        (sink_to(postgres, "nowhere"), "nowhere.*create the table"),
        (sink_to(postgres, table, columns=("n", "wrod")), "wrod.*correct the columns"),
        (sink_to(postgres, table, DeliveryGuarantee.AT_LEAST_ONCE, keys=("n",)), "primary key or unique index"),
    ]
    for sink, message in wrong:
        with pytest.raises(SinkNotWritable, match=message):
            sink.check()
    for change, message in (
        ("user=reader", "permission denied.*grant it"),
        ("user=nobody_here", "correct the user"),
        ("dbname=nowhere", "create the database"),
        ("port=1", "start the server"),
    ):
        database = PostgresDatabase(f"{postgres.conninfo} {change}")
        with pytest.raises(SinkNotWritable, match=message):
            PostgresSink(database, table, ("n", "word")).check()
    with pytest.raises(InvalidConfiguration, match="has no columns"):
        PostgresSink(PostgresDatabase(postgres.conninfo), table).check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE {} DROP COLUMN word", "word.*correct the columns"),
        ("ALTER TABLE {} ALTER COLUMN word TYPE int USING 0", "invalid input syntax for type integer"),
        ("DROP TABLE {}", "does not exist.*create the table"),
    ],
)
def test_a_table_that_is_dropped_or_changed_while_it_is_written_is_named(postgres, table, writer_of, change, message):
    writer = writer_of(sink_to(postgres, table))
    name, _ = prepared(writer, [pair(1)]).committable
    postgres.execute(f"COMMIT PREPARED '{name}'")  # else it holds the table's lock
    postgres.execute(change.format(table))

    with pytest.raises(SinkNotWritable, match=f"table '{table}' cannot be written: .*{message}"):
        writer.write([pair(2)], None, 0)


def test_a_column_that_is_added_while_a_table_is_written_stays_empty(postgres, table, writer_of, committer_of):
    sink = sink_to(postgres, table)
    writer = writer_of(sink)
    committer_of(sink).commit([prepared(writer, [pair(1)])])
    postgres.execute(f"ALTER TABLE {table} ADD COLUMN more int")
    committer_of(sink).commit([prepared(writer, [pair(2)], 2)])

    assert rows(postgres, table) == [(1, "word 1", None), (2, "word 2", None)]


def test_a_password_is_shown_nowhere(postgres, table):
    postgres.execute("CREATE DATABASE guarded")
    postgres.execute(f"CREATE ROLE ada LOGIN PASSWORD '{PASSWORD}'")
    database = PostgresDatabase(f"{postgres.conninfo} dbname=guarded user=ada password=wrong-{PASSWORD}")
    sink = PostgresSink(database, table, ("n", "word"))
    with pytest.raises(SinkNotWritable, match="password authentication failed.*correct user and password") as failure:
        sink.check()

    assert PASSWORD not in str(failure.value) + repr(failure.value) + repr(sink) + repr(database)
    assert (
        PostgresDatabase(f"{postgres.conninfo} dbname=guarded user=ada password={PASSWORD}").connect().close() is None
    )
