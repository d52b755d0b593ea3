"""`funken sql`: what its session keeps between statements, that is modes and jobs."""

import click
import pytest

from funken.cli.sql import SqlClient
from funken.table import EnvironmentSettings, TableEnvironment

GROUPS = "SELECT k, COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS t(k) GROUP BY k"


@pytest.fixture
def client(tmp_path):
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    options = {
        "execution.target": "local",
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(tmp_path),
    }
    for key, value in options.items():
        environment.get_config().set(key, value)
    made = SqlClient(environment, click.echo, waits=False)
    yield made
    made.close()


def printed(capsys, client, script):
    client.script(script)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("settings", "is_batch"),
    [
        ("SET 'execution.runtime-mode' = 'batch'", True),
        ("SET 'execution.runtime-mode' = 'BATCH'; SET 'execution.runtime-mode' = 'streaming'", False),
        ("SET 'execution.runtime-mode' = 'batch'; RESET 'execution.runtime-mode'", False),
        ("SET 'execution.runtime-mode' = 'batch'; RESET", False),
        ("SET 'execution.runtime-mode' = 'batch'; RESET 'parallelism.default'", True),
    ],
)
def test_the_mode_of_queries_follows_its_option(capsys, client, settings, is_batch):
    rows = [
        line
        for line in printed(capsys, client, f"{settings}; SET 'execution.target' = 'local'; {GROUPS}")
        if "|" in line
    ]
    assert ("| op |" in rows[0]) is not is_batch
    assert len(rows) == (3 if is_batch else 5)


ENDLESS = """
CREATE TABLE g (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '5');
CREATE TABLE b (a INT) WITH ('connector' = 'blackhole');
SET 'pipeline.name' = 'mine';
INSERT INTO b SELECT a FROM g
"""


def test_a_session_shows_and_stops_its_jobs(capsys, client, tmp_path):
    assert printed(capsys, client, "SHOW JOBS")[-1] == "Empty set"
    printed(capsys, client, ENDLESS)
    [job] = client.jobs
    identity = job.get_job_id()

    for statement in ("SHOW JOBS", f"DESCRIBE JOB '{identity}'"):
        cells = [cell.strip() for cell in printed(capsys, client, statement)[3].strip("|").split("|")]
        assert cells[:3] == [identity, "mine", "RUNNING"]

    shown = printed(capsys, client, f"STOP JOB '{identity}' WITH SAVEPOINT")
    assert str(tmp_path) in shown[3]
    assert "FINISHED" in printed(capsys, client, "SHOW JOBS")[3]


def test_a_job_is_stopped_without_a_savepoint(capsys, client):
    printed(capsys, client, ENDLESS)
    identity = client.jobs[0].get_job_id()
    with pytest.raises(click.ClickException, match="WITH DRAIN needs a savepoint"):
        client.script(f"STOP JOB '{identity}' WITH DRAIN")
    assert printed(capsys, client, f"STOP JOB '{identity}'") == ["OK"]
    assert "CANCELED" in printed(capsys, client, "SHOW JOBS")[3]


@pytest.mark.parametrize("statement", ["DESCRIBE JOB 'nope'", "STOP JOB 'nope' WITH SAVEPOINT"])
def test_a_job_of_another_session_is_refused(client, statement):
    with pytest.raises(click.ClickException, match=r"job 'nope' is none of this session\. It has none"):
        client.script(statement)
