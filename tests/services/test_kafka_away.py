"""Half a minute without any broker: a job whose source and exactly-once sink were in the midst of it goes on by itself."""

import threading
from collections import Counter

import pytest

from funken import Configuration, StreamExecutionEnvironment
from funken.connectors import RateLimitedSource
from funken.timing.clock import SystemClock
from tests.services.test_kafka_exactly_once import KEYS, program, sink_of, source_of

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
COUNT, PER_SECOND, AWAY_S = 4000, 400, 30


def until(condition, seconds=120):
    """Wait; false if it takes too long."""
    end = SystemClock().monotonic() + seconds
    while not condition() and SystemClock().monotonic() < end:
        threading.Event().wait(0.1)
    return condition()


def test_a_broker_may_be_away_for_thirty_seconds(own_kafka, tmp_path):
    come, go = own_kafka.topic(partitions=3), own_kafka.topic(partitions=2)
    own_kafka.produce(come, [str(number) for number in range(COUNT)])
    settings = {
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "sink.committer.retries": 100,  # by default ten, in 26 s: then the attempt ends, and the next one commits
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 20,
        "restart-strategy.fixed-delay.delay": "1 s",
    }
    env = StreamExecutionEnvironment.create_local_environment(2, Configuration(settings))
    program(env, RateLimitedSource(source_of(own_kafka.servers, come), PER_SECOND), sink_of(own_kafka.servers, go))
    job = env.execute_async()
    over = job.get_job_execution_result()

    def read():
        return sum(task.metrics.records_in for task in job.snapshot().vertices[0].subtasks)

    assert until(lambda: len(own_kafka.values(go)) > 0)
    own_kafka.kill()
    before = read()
    threading.Event().wait(AWAY_S)
    assert not over.done(), over.result()
    assert before < COUNT, "the source had more to read"
    own_kafka.start()
    over.result(timeout=150)

    restarts, wanted = job.snapshot().metrics()["numRestarts"], Counter()
    for key in range(KEYS):
        wanted.update(f"{key}:{n}" for n in range(1, len(range(key, COUNT, KEYS)) + 1))
    there = Counter(own_kafka.values(go))
    assert (there - wanted, wanted - there) == (Counter(), Counter())
    # One, if the broker was killed between batches of a transaction: then librdkafka ends it (OUT_OF_ORDER_SEQUENCE_NUMBER).
    # A job that could not wait would have restarted every second.
    assert restarts <= 1
