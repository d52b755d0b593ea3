"""The reporters that come with Funken, and what becomes of a job whose reporter fails, hangs or is not there."""

import json
import logging
import os
import threading
import urllib.request
from typing import ClassVar

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    Encoder,
    FileSink,
    MapFunction,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.api.jobs import client as reporting
from funken.api.jobs.client import ReporterThread
from funken.errors import InvalidConfiguration
from funken.metrics.registry import MetricPoint, reporter_of
from funken.metrics.reporters.lines import JsonLinesReporter, LogReporter
from funken.rest.views.jobs import vertex_id
from funken.rest.views.metrics import of_coordinators

BOUND = 30
POINTS = [
    MetricPoint("numRestarts", 2, {"job_id": "1", "job_name": "words"}),
    MetricPoint(
        "numRecordsIn", 7, {"job_id": "1", "job_name": "words", "operator_name": "count", "subtask_index": "0"}
    ),
]


class Counts(MapFunction):
    def open(self, runtime_context):
        group = runtime_context.get_metrics_group().add_group("orders")
        self.seen = group.counter("seen")
        self.sizes = group.distribution("sizes")
        self.read = group.add_group("topic", "a.b").counter("read")

    def map(self, value):
        self.seen.inc()
        self.read.inc()
        self.sizes.update(value)
        return value


class Recording:
    """A reporter that a test can follow; ``module:Class`` names it."""

    made: ClassVar[list] = []

    def __init__(self):
        self.made.append(self)
        self.reports, self.options, self.closed = [], None, threading.Event()

    def open(self, options):
        self.options = options

    def report(self, metrics):
        self.reports.append(metrics)

    def close(self):
        self.closed.set()


class Pulling(Recording):
    def pull(self, read):
        self.read = read


class Failing(Recording):
    def report(self, metrics):
        super().report(metrics)
        raise ConnectionError("no answer")


class Closed(Recording):
    def open(self, options):
        raise PermissionError("port 80")


class Hanging(Recording):
    let_go = threading.Event()

    def report(self, metrics):
        self.let_go.wait(BOUND)


def run(options, numbers=100):
    conf = Configuration({"execution.target": "local", "parallelism.default": 1} | options)
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    source = DataGeneratorSource(lambda i: i, numbers)
    counted = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counted.map(Counts()).uid("counts").name("counts").rebalance().for_each(lambda n: None).uid("end")
    return env.execute("numbers")


def mine(kind, **more):
    return {"metrics.reporters": "mine", "metrics.reporter.mine.class": f"{__name__}:{kind.__name__}"} | more


def test_a_reporter_is_given_its_options_and_the_last_metrics_of_the_job():
    Recording.made.clear()
    run(mine(Recording, **{"metrics.reporter.mine.interval": "1 h", "metrics.reporter.mine.region": "west"}))

    (reporter,) = Recording.made
    assert reporter.options == {"class": f"{__name__}:Recording", "region": "west"} and reporter.closed.is_set()
    found = {(each.scope.get("operator_id"), each.name): each for each in reporter.reports[-1]}
    assert found[None, "numRestarts"].value == 0
    assert found["numbers", "numRecordsIn"].value == found["end", "numRecordsIn"].value == 100
    assert found["counts", "orders.seen"].value == 100
    assert found["counts", "orders.sizes.max"].value == 99
    assert found["counts", "orders.topic.read"].value == 100
    assert found["counts", "orders.topic.read"].scope["topic"] == "a.b"
    scope = found["counts", "orders.seen"].scope
    assert (scope["job_name"], scope["operator_name"], scope["subtask_index"]) == ("numbers", "counts", "0")
    assert scope["task_name"] == "numbers -> counts" and scope["host"]


def test_a_reporter_that_fails_costs_one_warning_and_not_the_job(caplog):
    Recording.made.clear()
    calls = threading.Event()

    class Twice(Failing):
        def report(self, metrics):
            if len(self.reports) == 2:
                calls.set()
            super().report(metrics)

    thread = ReporterThread("mine", Twice(), {}, 0.001, lambda: POINTS)
    assert calls.wait(BOUND)
    thread.end()
    thread.join(BOUND)

    assert [record.getMessage() for record in caplog.records] == [
        "metric reporter 'mine' has failed, and is called again in 0.001 s: ConnectionError: no answer."
    ]
    assert Recording.made[0].closed.is_set()


def test_a_job_with_a_reporter_that_fails_finishes(caplog):
    assert run(mine(Failing)).get_net_runtime() >= 0
    assert "ConnectionError: no answer" in caplog.text


def test_a_reporter_that_cannot_be_opened_is_left_out(caplog):
    run(mine(Closed))

    assert "could not be opened, the job continues without it: PermissionError: port 80" in caplog.text


def test_a_reporter_that_hangs_is_left_behind(caplog, monkeypatch):
    monkeypatch.setattr(reporting, "_CLOSE_SECONDS", 0.05)
    Hanging.let_go.clear()
    try:
        run(mine(Hanging))
    finally:
        Hanging.let_go.set()

    assert "has not ended within 0.05 s and is left behind" in caplog.text


def test_a_reporter_that_is_not_known_fails_the_job_before_it_runs():
    with pytest.raises(
        InvalidConfiguration, match="metric reporter 'graphite' cannot be made: .* log, json, prometheus"
    ):
        run({"metrics.reporters": "graphite"})


def test_flinks_factories_are_known():
    options = {"factory.class": "org.apache.flink.metrics.slf4j.Slf4jReporterFactory"}

    assert isinstance(reporter_of("slf4j", options), LogReporter)


@pytest.mark.parametrize(("value", "message"), [("1 ms", "must be 10 or more"), ("soon", "soon")])
def test_an_interval_that_does_not_fit_is_refused_when_it_is_set(value, message):
    with pytest.raises(InvalidConfiguration, match=message):
        Configuration({"metrics.reporter.mine.interval": value})


def test_metrics_are_logged(caplog):
    reporter = reporter_of("log", {})
    reporter.open({})
    with caplog.at_level(logging.INFO):
        reporter.report(POINTS)
    reporter.close()

    assert caplog.messages == ["metrics\nwords.numRestarts: 2\nwords.count.0.numRecordsIn: 7"]


def test_metrics_are_appended_to_a_file_as_json_lines(tmp_path):
    path = tmp_path / "deep" / "metrics.jsonl"
    for _ in range(2):
        reporter = JsonLinesReporter()
        reporter.open({"path": path})
        reporter.report(POINTS)
        reporter.close()

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["name"], line["value"]) for line in lines] == [("numRestarts", 2), ("numRecordsIn", 7)] * 2
    assert lines[1]["scope"]["operator_name"] == "count" and lines[0]["time"].endswith("+00:00")


def test_a_file_without_a_path_is_refused():
    with pytest.raises(ValueError, match="no path; set metrics.reporter.<name>.path"):
        JsonLinesReporter().open({})


def test_prometheus_scrapes_loopback():
    pytest.importorskip("prometheus_client")
    reporter = reporter_of("prometheus", {})
    reporter.open({"port": 0})
    try:
        reporter.report(POINTS)
        address = f"http://127.0.0.1:{reporter.port}/metrics"
        with urllib.request.urlopen(address, timeout=BOUND) as answer:
            lines = answer.read().decode().splitlines()
        assert reporter._server.server_address[0] == "127.0.0.1"
    finally:
        reporter.close()

    assert 'flink_jobmanager_job_numRestarts{job_id="1",job_name="words"} 2.0' in lines
    assert (
        'flink_taskmanager_job_task_numRecordsIn{job_id="1",job_name="words",operator_name="count",subtask_index="0"} 7.0'
        in lines
    )


def test_prometheus_reads_metrics_when_they_are_scraped():
    pytest.importorskip("prometheus_client")
    reporter, scrapes = reporter_of("prometheus", {}), []

    def read():
        scrapes.append(len(scrapes) + 1)
        return [MetricPoint("numRestarts", scrapes[-1], {"job_id": "1", "job_name": "words"})]

    def scraped():
        with urllib.request.urlopen(f"http://127.0.0.1:{reporter.port}/metrics", timeout=BOUND) as answer:
            return [line for line in answer.read().decode().splitlines() if line.startswith("flink")]

    reporter.open({"port": 0})
    try:
        reporter.pull(read)
        found = scraped() + scraped()
        reporter.report(POINTS[:1])
        last = scraped()
    finally:
        reporter.close()

    name = 'flink_jobmanager_job_numRestarts{job_id="1",job_name="words"}'
    assert found == [f"{name} 1.0", f"{name} 2.0"]
    assert (last, scrapes) == ([f"{name} 2.0"], [1, 2])


def test_a_reporter_that_pulls_is_told_the_end_only():
    Recording.made.clear()
    run(mine(Pulling, **{"metrics.reporter.mine.interval": "10 ms"}), 20_000)

    (reporter,) = Recording.made
    assert len(reporter.reports) == 1
    assert {each.name for each in reporter.reports[0]} == {each.name for each in reporter.read()}


def test_the_operators_of_chains_and_the_processes_have_metrics():
    Recording.made.clear()
    run(mine(Recording, **{"metrics.reporter.mine.interval": "1 h"}))

    last = Recording.made[0].reports[-1]
    of_operators = {
        (each.scope["operator_id"], each.name): each.value for each in last if each.scope.get("kind") == "user"
    }
    assert of_operators["numbers", "numRecordsIn"] == of_operators["counts", "numRecordsOut"] == 100
    assert of_operators["numbers", "numRecordsOut"] == 100
    for kind, family in (("worker", "flink_taskmanager_"), ("driver", "flink_jobmanager_")):
        (used,) = [
            each for each in last if each.scope.get("kind") == kind and each.name == "Status.JVM.Memory.Heap.Used"
        ]
        assert used.value > 0 and str(os.getpid()) in used.scope["process"]
        pytest.importorskip("prometheus_client")
        assert reporter_of("prometheus", {}).family(used) == f"{family}Status_JVM_Memory_Heap_Used"


def test_the_coordinators_of_a_job_have_metrics(tmp_path):
    Recording.made.clear()
    options = mine(Recording, **{"metrics.reporter.mine.interval": "1 h"})
    conf = Configuration({"execution.target": "local", "parallelism.default": 1} | options)
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    numbers = env.from_collection(range(100)).uid("numbers")
    numbers.map(str).sink_to(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()).uid(
        "files"
    )
    numbers.print().uid("print")
    client = env.execute_async("counted")
    client.get_job_execution_result().result(timeout=BOUND)

    found = {
        (each.scope["operator_id"], each.name.removeprefix("coordinator.")): each
        for each in Recording.made[0].reports[-1]
        if each.scope.get("kind") == "coordinator"
    }
    values = {key: each.value for key, each in found.items() if not key[1].endswith("Duration")}
    assert values == {
        ("numbers", "enumerator.assignedSplits"): 1,
        ("numbers", "enumerator.unassignedSplits"): 0,
        ("files", "committer.numCommittablesSuccess"): 1,
        ("files", "committer.numCommittablesAlreadyCommitted"): 0,
        ("files", "committer.numCommittablesRetry"): 0,
        ("files", "committer.numCommittablesFailure"): 0,
        ("print", "numRecordsIn"): 100,
    }
    pytest.importorskip("prometheus_client")
    family = reporter_of("prometheus", {}).family(found["numbers", "enumerator.assignedSplits"])
    assert family == "flink_jobmanager_job_operator_coordinator_enumerator_assignedSplits"

    job = client.snapshot()
    info = job.graph.vertices[0]
    name = {operator.id: operator.name for operator in info.operators}["numbers"]
    wanted = f"{name}.coordinator.enumerator.assignedSplits"
    assert {"id": wanted} in of_coordinators(job, vertex_id(info), None)
    assert of_coordinators(job, vertex_id(info), [wanted]) == [{"id": wanted, "value": "1"}]


def test_prometheus_finds_the_port_taken(caplog):
    pytest.importorskip("prometheus_client")
    first = reporter_of("prometheus", {})
    first.open({"port": 0})
    try:
        run({"metrics.reporters": "prometheus", "metrics.reporter.prometheus.port": first.port})
    finally:
        first.close()

    assert "'prometheus' could not be opened" in caplog.text and "in use" in caplog.text
