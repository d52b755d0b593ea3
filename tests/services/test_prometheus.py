"""A real Prometheus scrapes a job that runs: what it stores under Flink's names, and which of ``deploy/``'s alerts fire."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    MapFunction,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from tests.support.kafka import free_port
from tests.support.prometheus import PrometheusProcess, prometheus_program

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
DEPLOY = Path(__file__).parents[2] / "deploy"
RULES, DASHBOARD = DEPLOY / "prometheus" / "alerts.yml", DEPLOY / "grafana" / "funken.json"
WAIT_S = 60


class Lookup(MapFunction):
    """Counts, under a group, and fails at some records."""

    def __init__(self, failing):
        self._failing = failing

    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().add_group("topic", "orders").counter("seen")

    def map(self, value):
        self.seen.inc()
        if value % 1000 == self._failing:
            raise ValueError("no such order")
        return value


@pytest.fixture
def scraped(tmp_path):
    """Start a job with a reporter, and a Prometheus that scrapes it."""
    pytest.importorskip("prometheus_client")
    program, missing = prometheus_program()
    if program is None:
        pytest.skip(missing)
    running = []

    def begin(failing=-1):
        port = free_port()
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration({
                "execution.target": "local", "parallelism.default": 2, "metrics.latency.interval": "100 ms",
                "execution.checkpointing.interval": "200 ms", "execution.checkpointing.dir": tmp_path / "checkpoints",
                "metrics.reporters": "prometheus", "metrics.reporter.prometheus.port": port,
                "metrics.reporter.prometheus.interval": "200 ms", "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": 1000, "restart-strategy.fixed-delay.delay": "200 ms",
            })
        )  # fmt: skip
        numbers = env.from_source(DataGeneratorSource(int, None, 5000), WatermarkStrategy.no_watermarks(), "numbers")
        looked_up = numbers.uid("numbers").map(Lookup(failing)).uid("lookup")
        looked_up.key_by(lambda n: n % 7).sum().uid("sums").for_each(lambda _: None)
        running.append(env.execute_async("orders"))
        folder = tmp_path / "prometheus"
        folder.mkdir()
        server = PrometheusProcess(program, folder, f"127.0.0.1:{port}", RULES)
        running.append(server)
        return server.start()

    yield begin
    for each in reversed(running):
        each.stop() if isinstance(each, PrometheusProcess) else each.cancel().result(timeout=WAIT_S)


def eventually(found):
    """Return the first answer that is not empty."""
    deadline = time.monotonic() + WAIT_S
    while not (answer := found()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)
    return answer


def test_metrics_of_job_tasks_functions_and_markers_are_stored_under_flinks_names(scraped):
    prometheus = scraped()

    def of_both():  # one may be there before the other
        rates = prometheus.query("rate(flink_taskmanager_job_task_numRecordsIn[2s]) > 0")
        return rates if {labels["subtask_index"] for labels, _ in rates} == {"0", "1"} else []

    assert {labels["job_name"] for labels, _ in eventually(of_both)} == {"orders"}
    done = eventually(lambda: prometheus.query("flink_jobmanager_job_numberOfCompletedCheckpoints > 1"))
    assert [labels["job_name"] for labels, _ in done] == ["orders"]
    seen = eventually(
        lambda: prometheus.query('sum(flink_taskmanager_job_task_operator_topic_seen{topic="orders"}) > 1000')
    )
    assert len(seen) == 1
    assert eventually(lambda: prometheus.query("flink_taskmanager_job_latency_p99 >= 0"))
    used = eventually(lambda: prometheus.query("flink_taskmanager_Status_JVM_Memory_Heap_Used > 0"))
    assert [labels["job_name"] for labels, _ in used] == ["orders"]
    read = eventually(lambda: prometheus.query("flink_taskmanager_job_task_operator_numRecordsIn > 0"))
    assert {labels["operator_id"] for labels, _ in read} >= {"numbers", "lookup", "sums"}
    assert [target["health"] for target in prometheus.ask("targets")["activeTargets"]] == ["up"]


def test_every_panel_of_the_dashboard_has_data_and_its_menu_the_job(scraped):
    dashboard = json.loads(DASHBOARD.read_text())
    prometheus = scraped()
    expressions = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
    assert len(expressions) >= len(dashboard["panels"]) == 10
    for expression in expressions:
        assert expression.count('job_name=~"$job"') == 1
        text = expression.replace("$job", "orders")
        found = eventually(lambda text=text: prometheus.query(text))
        assert {labels["job_name"] for labels, _ in found} == {"orders"}, expression
    (menu,) = [each["query"] for each in dashboard["templating"]["list"] if each["name"] == "job"]
    series, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", menu).groups()
    assert {labels[label] for labels, _ in prometheus.query(series)} == {"orders"}


def test_a_job_that_restarts_again_and_again_fires_its_alert(scraped):
    prometheus = scraped(failing=500)

    def firing():
        alerts = prometheus.ask("alerts")["alerts"]
        return [
            each for each in alerts if each["state"] == "firing" and each["labels"]["alertname"] == "FunkenJobRestarts"
        ]

    (alert,) = eventually(firing)
    assert alert["annotations"]["summary"].startswith("orders has restarted ")
    assert alert["labels"]["severity"] == "critical"


def test_every_rule_is_one_that_prometheus_accepts():
    checker = shutil.which("promtool")
    if checker is None:
        pytest.skip("promtool is not there (Debian, Ubuntu: apt-get install prometheus)")
    done = subprocess.run([checker, "check", "rules", RULES], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


_CASES = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'flink_jobmanager_job_uptime{{job_id="a", job_name="orders"}}'
        values: '0+60000x10 _x10'
      - series: 'flink_jobmanager_job_uptime{{job_id="b", job_name="stays"}}'
        values: '0+60000x20'
      - series: 'flink_jobmanager_job_checkpointInterval{{job_id="b", job_name="stays"}}'
        values: '3600000x20'
      - series: 'flink_jobmanager_job_timeSinceLastCheckpoint{{job_id="b", job_name="stays"}}'
        values: '0+60000x20'
      - series: 'flink_jobmanager_job_checkpointInterval{{job_id="c", job_name="stuck"}}'
        values: '60000x20'
      - series: 'flink_jobmanager_job_timeSinceLastCheckpoint{{job_id="c", job_name="stuck"}}'
        values: '0+60000x20'
    promql_expr_test:
      - {{expr: 'ALERTS{{alertstate="firing"}}', eval_time: 9m, exp_samples: [{stuck}]}}
      - {{expr: 'ALERTS{{alertstate="firing"}}', eval_time: 19m, exp_samples: [{gone}, {stuck}]}}
"""


def test_a_job_that_is_gone_fires_and_checkpoints_are_measured_by_the_interval_of_their_job(tmp_path):
    checker = shutil.which("promtool")
    if checker is None:
        pytest.skip("promtool is not there (Debian, Ubuntu: apt-get install prometheus)")

    def firing(alert, job_id, name):
        labels = f'alertname="{alert}", alertstate="firing", job_id="{job_id}", job_name="{name}", severity="critical"'
        return f"{{labels: 'ALERTS{{{labels}}}', value: 1}}"

    cases = tmp_path / "cases.yml"
    gone, stuck = firing("FunkenJobGone", "a", "orders"), firing("FunkenNoCheckpoint", "c", "stuck")
    cases.write_text(_CASES.format(rules=RULES, gone=gone, stuck=stuck))
    done = subprocess.run(
        [checker, "test", "rules", cases], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )

    assert done.returncode == 0, done.stdout + done.stderr
