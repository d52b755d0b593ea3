"""What is in deploy/ names metrics that jobs have."""

import json
import re
from pathlib import Path

from funken import DataGeneratorSource, StreamExecutionEnvironment
from funken.metrics.reporters.prometheus import PrometheusReporter
from funken.runtime.job.points import points_of

DEPLOY = Path(__file__).parents[2] / "deploy"
TEXTS = {path.name: path.read_text() for path in DEPLOY.rglob("*") if path.suffix in {".yml", ".json"}}
LATENCY = {"flink_taskmanager_job_task_latencyP50", "flink_taskmanager_job_task_latencyP99"}  # once there are records


def test_every_metric_that_is_named_exists():
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1).enable_checkpointing(1000)
    _ = env.from_source(DataGeneratorSource(int, None, 1000)).key_by(lambda n: n % 9).sum().for_each(str)
    client = env.execute_async()
    points = points_of(client.snapshot())
    client.cancel().result(timeout=60)
    known = {PrometheusReporter.family(point) for point in points} | LATENCY
    known |= {f"flink_jobmanager_job_lastCheckpoint{name}" for name in ("Duration", "Size")}

    assert set(TEXTS) == {"alerts.yml", "funken.json"}
    for name, text in TEXTS.items():
        named = set(re.findall(r"flink_[a-zA-Z0-9_]+", text))
        assert len(named) > 5
        assert named - known == set(), name


def test_the_dashboard_is_json_with_panels_of_their_own():
    panels = json.loads(TEXTS["funken.json"])["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == 10
