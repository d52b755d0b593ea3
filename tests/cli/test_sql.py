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


def test_final_rows_are_as_wide_as_their_values_and_have_the_zone_of_the_session(capsys, client):
    script = """
        SET 'execution.target' = 'local'; SET 'table.local-time-zone' = 'Asia/Shanghai';
        SET 'sql-client.execution.result-mode' = 'table';
        SELECT TO_TIMESTAMP_LTZ(0, 3) AS t, COUNT(*) AS c FROM (VALUES (1), (2)) AS v(x) GROUP BY TO_TIMESTAMP_LTZ(0, 3);
        SET 'sql-client.execution.result-mode' = 'tableau'; SET 'execution.runtime-mode' = 'batch';
        SELECT 'Bob' AS name, 'some text that is longer than thirty characters' AS text
    """
    shown = [line for line in printed(capsys, client, script) if line.startswith("|")]
    assert shown == [
        "|                       t | c |",
        "| 1970-01-01 08:00:00.000 | 2 |",
        "| name |                           text |",
        "|  Bob | some text that is longer th... |",
    ]


def test_statement_sets_are_not_nested_and_may_be_empty_in_a_session(capsys, client):
    client.statement("BEGIN STATEMENT SET")
    for statement in ("BEGIN STATEMENT SET", "SELECT 1"):
        with pytest.raises(click.ClickException, match="INSERT statements"):
            client.statement(statement)
    capsys.readouterr()
    assert printed(capsys, client, "END") == ["OK"]


@pytest.mark.parametrize("statement", ["DESCRIBE JOB 'nope'", "STOP JOB 'nope' WITH SAVEPOINT"])
def test_a_job_of_another_session_is_refused(client, statement):
    with pytest.raises(click.ClickException, match=r"job 'nope' is none of this session\. It has none"):
        client.script(statement)


def test_a_script_that_is_not_there_is_named(client):
    with pytest.raises(
        click.ClickException, match=r"SOURCE 'missing.sql' cannot be read in the folder /.*Correct the path"
    ):
        client.script("SOURCE 'missing.sql'")
