"""What an operator sees of a job in trouble, on both targets: the vertex to look at, and what its functions do."""

import json
import time

import cloudpickle
import pytest

from funken.rest.client import RestClient
from tests.support import situations
from tests.support.situations import SITUATIONS, is_named

pytestmark = [pytest.mark.ways("local", "continuous"), pytest.mark.timeout(300)]

BOUND = 120


@pytest.fixture(autouse=True, scope="module")
def functions_travel():
    """Spark's workers cannot import what is beside the tests."""
    cloudpickle.register_pickle_by_value(situations)
    yield
    cloudpickle.unregister_pickle_by_value(situations)


@pytest.fixture
def start(environment, tmp_path):
    started = []

    def begin(build, **options):
        conf = {
            "rest.enabled": "true", "rest.port": 0, "rest.cache.execution-graph.timeout": 0,
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        }  # fmt: skip
        env = environment(conf | options)
        build(env)
        started.append(env.execute_async("in trouble"))
        return started[-1]

    yield begin
    for client in started:
        client.cancel().result(timeout=BOUND)


@pytest.mark.parametrize("situation", sorted(SITUATIONS))
def test_the_vertex_to_look_at_is_named_everywhere(start, situation, monkeypatch):
    monkeypatch.setattr("funken.runtime.job.snapshot._STUCK_MILLIS", 3_000)
    build, vertex = SITUATIONS[situation]
    words = "has waited" if situation == "stuck checkpoint" else "is the bottleneck"
    job = is_named(start(build), vertex, BOUND, words)

    if situation == "skewed key":
        (price,) = [each for each in job.vertices if each.name == "price"]
        shares = [each.metrics.busy_ms_per_second for each in price.subtasks]
        assert shares[job.bottlenecks[0].subtask] == max(shares) > 2 * min(shares)
    if situation == "stuck checkpoint":
        assert any(each.held_up_by for each in job.checkpoints.history)


def frames(tree):
    yield tree["name"], tree["value"]
    for child in tree["children"]:
        yield from frames(child)


def test_the_flame_graph_of_a_vertex_shows_the_function_that_takes_the_time(start):
    client = start(situations.slow_middle)
    rest, job = RestClient(client.get_web_interface_url()), client.get_job_id()
    (enrich,) = [each["id"] for each in rest.get("jobs", job)["vertices"] if each["name"] == "enrich"]
    end, found = time.monotonic() + BOUND, {}
    while time.monotonic() < end:
        found = rest.get("jobs", job, "vertices", enrich, "flamegraph", type="full")
        if found.get("data") and any(name.startswith("slowly (") for name, _ in frames(found["data"])):
            break
        time.sleep(0.2)
    shares = dict(frames(found["data"]))
    slow = sum(value for name, value in frames(found["data"]) if name.startswith("slowly ("))
    assert slow > 0.5 * shares["root"], json.dumps(found)
    assert found["endTimestamp"] > 0
