"""The Nexmark programs give what DuckDB gave, from topics of a broker as well."""

import json
from pathlib import Path

import pytest

from funken import Configuration, StreamExecutionEnvironment

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
BENCH = Path(__file__).parents[2] / "benchmarks" / "nexmark"
PARTS = 2


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH.parent / "compare"))
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.fixture(scope="module")
def filled(kafka):
    """Fill the topics once; returns how their names begin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH.parent / "compare"))
        patch.syspath_prepend(str(BENCH))
        import broker
        from golden import COUNT, EVENTS
        from topics import KINDS, messages, topic_of
    for kind in KINDS:
        kafka.topic(PARTS, topic_of("nexmark", kind))
    broker.fill(kafka.servers, messages(EVENTS, COUNT, "nexmark", PARTS))
    return "nexmark"


@pytest.mark.parametrize("name", ["q0", "q3", "q5", "q8", "q9", "q11", "q15", "q17", "q18", "q23"])
def test_a_program_gives_from_topics_what_duckdb_gave(name, kafka, filled, bench, tmp_path):
    from checking import results
    from golden import PLACE, digest
    from queries.catalogue import QUERIES
    from streams import KafkaStreams

    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration({"execution.target": "local", "parallelism.default": PARTS})
    )
    found = results(QUERIES[name], env, KafkaStreams(env, kafka.servers, filled, str(tmp_path)))
    assert digest(found) == json.loads(PLACE.read_text())[name]
