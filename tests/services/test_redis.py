"""Redis streams and sinks against a real server: the contracts, a killed server, what is refused, what ``check`` says."""

import contextlib
import threading
import uuid
from functools import partial

import pytest

from funken import StreamExecutionEnvironment
from funken.connectors import CommitRequest, ConnectorContext, DeliveryGuarantee
from funken.connectors.base import CommitterContext
from funken.connectors.redis import RedisServer, RedisSink, RedisStreamSource
from funken.errors import InvalidConfiguration, SinkNotWritable, SourceNotReadable
from funken.testing import check_sink, check_source, local
from tests.support.redis import PASSWORD

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
EXACTLY_ONCE = DeliveryGuarantee.EXACTLY_ONCE


@pytest.fixture
def name():
    return f"t:{uuid.uuid4().hex[:8]}"


@pytest.fixture
def server(redis_process):
    return RedisServer(redis_process.url)


@pytest.fixture
def client(redis_process):
    with contextlib.closing(redis_process.client()) as client:
        yield client


def add(client, stream, numbers):
    with client.pipeline(transaction=False) as pipeline:
        for number in numbers:
            pipeline.xadd(stream, {"n": number})
        return pipeline.execute()


class Numbers(RedisStreamSource):
    """The numbers alone, which are hashable."""

    def reader(self, context):
        reader = super().reader(context)
        made, reader._record_of = reader._record_of, lambda split, entry: made(split, entry).fields["n"]
        return reader


# ---- the source


@pytest.mark.parametrize("bounded", [True, False])
def test_a_source_keeps_the_contract(server, client, name, bounded):
    streams = [f"{name}:{n}" for n in range(3)]
    for place, stream in enumerate(streams):
        add(client, stream, range(place * 100, place * 100 + 50 + place))
    expected = [str(place * 100 + n) for place in range(3) for n in range(50 + place)]
    check_source(Numbers(server, streams, bounded=bounded), expected, seeds=10)


def test_a_bounded_source_ends_with_what_was_there(server, client, name):
    ids = add(client, name, range(5000))
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    stream = env.from_source(RedisStreamSource(server, name, bounded=True))
    with stream.execute_and_collect() as results:
        add(client, name, range(5000, 5010))
        found = list(results)
    # What was added while the job started may be part of it or not.
    assert [int(message.fields["n"]) for message in found][:5000] == list(range(5000))
    assert [message.id for message in found][:5000] == [entry.decode() for entry in ids]
    assert {message.stream for message in found} == {name}


def test_an_entry_has_the_time_of_its_id(server, client, name):
    client.xadd(name, {"n": 1}, id="1700000000123-0")
    source = RedisStreamSource(server, name, bounded=True)
    enumerator = source.enumerator(1)
    enumerator.start()
    reader = source.reader(ConnectorContext("redis"))
    reader.add_splits(enumerator.next_splits(0))
    batch = poll(reader)
    reader.close()
    assert batch.timestamps == [1700000000123]


def poll(reader):
    waited = threading.Event()
    for _ in range(2000):
        found = reader.poll(1000, 0)
        if getattr(found, "values", None):
            return found
        waited.wait(0.005)
    raise AssertionError("no record within 10 s")


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, EXACTLY_ONCE])
def test_bytes_of_entries_and_commands_are_counted(server, client, name, guarantee):
    read, written = ConnectorContext("in"), ConnectorContext("out")
    sink = RedisSink(server, lambda n: ("XADD", name, "*", "käse", n, b"half", n / 2), guarantee)
    writer = sink.writer(written)
    writer.write(list(range(10, 30)), None, 0)
    writer.close()
    size = sum(len(f"XADD{name}*käse{n}half{n / 2}".encode()) for n in range(10, 30))
    assert written.metrics.snapshot() == {"numRecordsSend": 20, "numBytesSend": size}
    ids = add(client, f"{name}:in", range(10, 30))
    source = RedisStreamSource(server, f"{name}:in", bounded=True)
    enumerator = source.enumerator(1)
    enumerator.start()
    reader = source.reader(read)
    reader.add_splits(enumerator.next_splits(0))
    poll(reader)
    reader.close()
    assert read.metrics.snapshot() == {"numRecordsFetched": 20, "numBytesIn": sum(map(len, ids)) + 20 * len("n10")}


def test_a_source_starts_where_it_is_told_to(server, client, name):
    add(client, name, range(5))
    ids = add(client, name, range(5, 10))
    after = RedisStreamSource(server, name, start=ids[0].decode(), bounded=True)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    assert [m.fields["n"] for m in env.from_source(after).execute_and_collect(limit=99)] == list("6789")
    latest = RedisStreamSource(server, name, start="latest", bounded=True)
    assert env.from_source(latest).execute_and_collect(limit=99) == []


def test_deleted_entries_and_an_empty_end_do_not_hold_a_bounded_source(server, client, name):
    ids = add(client, name, range(10))
    client.xdel(name, *ids[7:])
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    found = env.from_source(RedisStreamSource(server, name, bounded=True)).execute_and_collect(limit=99)
    assert [m.fields["n"] for m in found] == list("0123456")


def test_trimmed_entries_that_were_not_read_are_told(server, client, name, caplog):
    ids = add(client, name, range(10))
    client.xtrim(name, minid=ids[6], approximate=False)
    source = RedisStreamSource(server, name)
    reader = source.reader(ConnectorContext("redis"))
    from funken.connectors.redis import RedisStreamSplit

    reader.add_splits([RedisStreamSplit(name, ids[2].decode(), read=3)])  # out of a checkpoint
    assert poll(reader).values[0].fields["n"] == "6"
    reader.close()
    assert f"3 entries after {ids[2].decode()} were trimmed or deleted" in caplog.text


def test_entries_that_are_trimmed_while_a_job_reads_are_told_if_they_were_not_read(
    server, client, name, caplog, monkeypatch
):
    from funken.connectors.redis import RedisStreamReader

    monkeypatch.setattr("funken.connectors.redis._ENTRIES", 10)
    ids = add(client, name, range(-5, 40))[5:]
    client.xtrim(name, minid=ids[0], approximate=False)  # what was gone before the job began
    enumerator = RedisStreamSource(server, name).enumerator(1)
    enumerator.start()
    streams = RedisStreamReader(server, ConnectorContext("redis"), lambda split, entry: entry)
    [streams._ahead[name]] = enumerator.next_splits(0)

    def read():
        return [int(fields[b"n"]) for block in streams._fetch() for _, fields in block.records]

    def told():
        return [record.getMessage().partition(": stream ")[2].partition(" were ")[0] for record in caplog.records]

    assert read() == [*range(10)]
    client.xtrim(name, minid=ids[10], approximate=False)  # what was read
    assert read() == [*range(10, 20)]
    assert told() == []
    client.xtrim(name, minid=ids[25], approximate=False)
    assert read() == [*range(25, 35)]
    assert told() == [f"{name!r}: 5 entries after {ids[19].decode()}"]
    assert read() == [*range(35, 40)]
    client.xdel(name, *ids[25:])  # what was read
    assert (read(), len(told())) == ([], 1)
    late = add(client, name, range(40, 42))
    client.xdel(name, *late)
    assert (read(), read(), told()[1:]) == ([], [], [f"{name!r}: 2 entries after {ids[-1].decode()}"])
    add(client, name, range(42, 60))
    client.xtrim(name, maxlen=3, approximate=False)
    assert (read(), told()[2:]) == ([57, 58, 59], [f"{name!r}: 15 entries after {ids[-1].decode()}"])


def test_bytes_are_left_as_they_are_without_an_encoding(server, client, name):
    client.xadd(name, {b"\xff": b"\x00\xfe"})
    source = RedisStreamSource(server, name, bounded=True, encoding=None)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    [message] = env.from_source(source).execute_and_collect(limit=9)
    assert message.fields == {b"\xff": b"\x00\xfe"}


def test_what_cannot_be_read_is_said_before_anything_runs(server, client, name, own_redis):
    def started(source):
        source.enumerator(1).start()

    with pytest.raises(SourceNotReadable, match=f"'{name}' is not there at redis://127.0.0.1:.*may_be_missing"):
        started(RedisStreamSource(server, name))
    started(RedisStreamSource(server, name, may_be_missing=True))
    client.set(name, "text")
    with pytest.raises(SourceNotReadable, match=r"WRONGTYPE.*use another key"):
        started(RedisStreamSource(server, name))
    wrong = RedisServer(own_redis.url.replace(PASSWORD, "guess"))
    with pytest.raises(SourceNotReadable, match="correct user and password") as told:
        started(RedisStreamSource(wrong, name))
    assert "guess" not in str(told.value)
    assert "guess" not in repr(wrong)
    own_redis.stop()
    with pytest.raises(SourceNotReadable, match="start the server, or correct redis://127.0.0.1"):
        started(RedisStreamSource(RedisServer(own_redis.url), name))


def test_a_reader_survives_a_server_that_is_killed_and_comes_back(own_redis, name):
    with contextlib.closing(own_redis.client()) as client:
        add(client, name, range(10))
    source = RedisStreamSource(RedisServer(own_redis.url), name)
    enumerator = source.enumerator(1)
    enumerator.start()
    reader = source.reader(ConnectorContext("redis"))
    reader.add_splits(enumerator.next_splits(0))
    assert len(poll(reader).values) == 10
    own_redis.kill()
    own_redis.start()
    with contextlib.closing(own_redis.client()) as client:
        add(client, name, range(10, 12))
    assert [m.fields["n"] for m in poll(reader).values][-1] in ("10", "11")
    reader.close()


# ---- the sink


def push(key, record):
    return "RPUSH", key, record


@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_sink_keeps_the_contract(server, client, name, guarantee):
    def make(seed):
        key = f"{name}:{seed}"

        def visible():
            return [value.decode() for value in client.lrange(key, 0, -1)]

        # the notes of a former run bear the same job's name
        for notes in client.scan_iter("funken:commits:*"):
            client.delete(notes)
        return RedisSink(server, partial(push, key), guarantee), visible

    check_sink(make, seeds=20, exactly_once=guarantee is EXACTLY_ONCE)


def test_a_program_counts_exactly_once(server, client, name):
    words = local(["to", "be", "or", "not", "to", "be"])
    words.sink_to(RedisSink(server, lambda word: ("HINCRBY", name, word, 1), EXACTLY_ONCE))
    words.get_execution_environment().execute()
    assert client.hgetall(name) == {b"to": b"2", b"be": b"2", b"or": b"1", b"not": b"1"}


def committer_of(sink, **more):
    return sink.committer(CommitterContext("sink", job_id="job", operator_uid=uuid.uuid4().hex, **more))


def test_thousands_of_commands_are_run_in_parts_and_once(server, client, name):
    sink = RedisSink(server, lambda n: ("RPUSH", name, n), EXACTLY_ONCE)
    committer = committer_of(sink)
    request = CommitRequest([("RPUSH", name, n) for n in range(2345)], job_id="job", checkpoint_id=3)
    committer.commit([request])
    committer.commit([request])
    assert request.outcome.name == "ALREADY_COMMITTED"
    assert [int(n) for n in client.lrange(name, 0, -1)] == list(range(2345))
    committer.close()


def test_a_commit_that_was_cut_off_goes_on_where_it_ended(server, client, name):
    sink = RedisSink(server, lambda n: n, EXACTLY_ONCE)
    committer = committer_of(sink)
    commands = [("RPUSH", name, n) for n in range(1200)]
    committer.commit([CommitRequest(commands[:500], job_id="job", checkpoint_id=3)])  # the first part of it
    committer.commit([CommitRequest(commands, job_id="job", checkpoint_id=3)])
    assert [int(n) for n in client.lrange(name, 0, -1)] == list(range(1200))
    committer.close()


def test_a_command_that_is_refused_fails_every_start_until_someone_has_looked(server, client, name):
    client.set(f"{name}:text", "no list")
    sink = RedisSink(server, lambda n: n, EXACTLY_ONCE)
    committer = committer_of(sink, restored_checkpoint_id=3)
    commands = [("RPUSH", name, 1), ("RPUSH", f"{name}:text", 2), ("RPUSH", name, 3)]
    request = CommitRequest(commands, job_id="job", checkpoint_id=3)
    with pytest.raises(SinkNotWritable, match=r"refused command 2 of subtask 0 in checkpoint 3: .*WRONGTYPE"):
        committer.commit([request])
    for repeated in (committer.commit, committer.recover):
        with pytest.raises(SinkNotWritable, match=r"Mend what it refuses.* HSET 'funken:commits:job:.*' 0 '3 1'"):
            repeated([request])
    assert client.lrange(name, 0, -1) == [b"1"]
    client.delete(f"{name}:text")
    client.hset(committer._notes("job", ""), "0", "3 1")  # as the message says
    committer.recover([request])
    assert client.lrange(name, 0, -1) == [b"1", b"3"]
    assert client.lrange(f"{name}:text", 0, -1) == [b"2"]
    committer.close()


def test_a_sink_says_what_is_wrong_before_anything_runs(own_redis):
    wrong = RedisServer(own_redis.url.replace(PASSWORD, "guess"))
    with pytest.raises(SinkNotWritable, match="correct user and password") as told:
        RedisSink(wrong, lambda value: value).check()
    assert "guess" not in str(told.value)
    RedisSink(RedisServer(own_redis.url), lambda value: value, EXACTLY_ONCE).check()
    own_redis.stop()
    with pytest.raises(SinkNotWritable, match="start the server"):
        RedisSink(RedisServer(own_redis.url), lambda value: value).check()


@pytest.mark.parametrize("made", ["SET a 1", ("SET", "a", None), ("SET", "a", True), [("SET", "a", object())], ()])
def test_what_is_no_command_is_refused(server, made):
    with pytest.raises(SinkNotWritable, match="operator 'out'"):
        RedisSink(server, lambda record: made).commands(1, "out")


def test_configuration_is_checked(server):
    with pytest.raises(InvalidConfiguration, match="different streams"):
        RedisStreamSource(server, ["a", "a"])
    with pytest.raises(InvalidConfiguration, match="begins with redis://"):
        RedisServer("http://localhost")
