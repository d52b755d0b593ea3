"""Commands over REST, on jobs of this process."""

import json
import logging
import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.cli.main import main
from funken.rest import server
from funken.rest import settings as addresses
from funken.rest.settings import ServerAddress, register, registered, registry_folder
from funken.runtime.log_entries import LogEntry

pytest.importorskip("uvicorn")

WAIT = 60


@pytest.fixture(autouse=True)
def own_servers(monkeypatch, tmp_path):
    """A registry and servers of this test's own."""
    found = server._Servers()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(server, "_servers", found)
    yield
    found.close()


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(name="endless", checkpoints=True):
        options = {
            "execution.target": "local",
            "parallelism.default": 1,
            "rest.enabled": "true",
            "rest.cache.execution-graph.timeout": 0,
        }
        if checkpoints:
            options |= {
                "execution.checkpointing.interval": "1 h",
                "execution.checkpointing.dir": tmp_path / "checkpoints",
            }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
        numbers = env.from_source(DataGeneratorSource(str, None, 1000), WatermarkStrategy.no_watermarks(), "numbers")
        numbers.uid("numbers").key_by(len).map(len).uid("lengths").for_each(lambda _: None)
        started.append(env.execute_async(name))
        return started[-1]

    yield begin
    for client in started:
        client.cancel().result(timeout=WAIT)


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def output(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def test_jobs_of_this_user_are_listed(start):
    client = start("words")

    assert f"{client.get_job_id()}  words  RUNNING" in output("list")
    assert output("list", "--json")[0]["url"] == client.get_web_interface_url()

    client.cancel().result(timeout=WAIT)

    assert output("list") == "No job runs.\n"
    assert "CANCELED" in output("list", "--all")


def test_without_a_driver_there_is_no_job():
    assert output("list", "--json") == []
    done = run("info")
    assert (done.exit_code, "no job runs here" in done.output) == (1, True)


def test_a_job_is_found_by_id_by_the_beginning_of_one_and_by_name(start):
    job = start("words").get_job_id()
    start("others")

    assert {output("info", each, "--json")["jid"] for each in (job, job[:8], "words")} == {job}
    done = run("info")
    assert (done.exit_code, "more than one job runs here" in done.output) == (1, True)
    assert run("info", "nothing").exit_code == 1


def test_the_only_job_needs_no_name_where_nothing_changes(start):
    start("words")

    assert output("info").startswith("words  (")
    assert run("cancel").exit_code == 2


def test_the_vertices_of_a_job_are_shown(start):
    start("words")

    text = output("top", "--once")
    assert "words  RUNNING" in text and "numbers" in text
    assert [each["vertex"] for each in output("top", "--json")] == ["numbers", "map -> for_each"]


def test_metrics_are_printed_by_name(start):
    start("words")

    assert "numRestarts 0\n" in output("metrics")
    assert set(output("metrics", "--only", "numRestarts", "--json")) == {"numRestarts"}
    assert any(name.startswith("numbers.0.") for name in output("metrics", "--json"))


def test_a_savepoint_is_taken_and_the_job_ended_with_another(start, tmp_path):
    client = start("words")

    path = output("savepoint", "words", "--savepoint-dir", tmp_path / "saved").strip()
    assert path.startswith(str(tmp_path / "saved"))
    assert output("checkpoints", "--json")["counts"]["completed"] == 1
    assert path in output("checkpoints")
    second = output("savepoint", "words", "--savepoint-dir", tmp_path / "second").strip()
    assert [each in output("checkpoints", "--limit", 1) for each in (path, second)] == [False, True]

    last = output("stop", "words", "--savepoint-dir", tmp_path / "last", "--json")
    assert last["location"].startswith(str(tmp_path / "last"))
    client.get_job_execution_result().result(timeout=WAIT)
    assert {task.state.name for vertex in client.snapshot().vertices for task in vertex.subtasks} == {"FINISHED"}


def test_a_savepoint_is_deleted_and_nothing_else(start, tmp_path):
    start("words")
    path = output("savepoint", "words", "--savepoint-dir", tmp_path / "saved").strip()
    Path(path, "notes.txt").write_text("by hand")
    made = output("checkpoint", "words").strip()

    refused = run("savepoint", "--dispose", made)

    assert (refused.exit_code, "no savepoint: its job deletes it" in refused.output) == (1, True)
    assert output("savepoint", "-d", path) == f"{path} is deleted.\n"
    assert [each.name for each in Path(path).iterdir()] == ["notes.txt"]
    assert run("savepoint", "-d", path).exit_code == 1
    assert Path(made).is_dir()
    assert run("savepoint").exit_code == run("savepoint", "words", "-d", path).exit_code == 2


def test_a_checkpoint_is_made_now(start):
    client = start("words")

    made = output("checkpoint", "words", "--json")

    assert (made["jid"], made["checkpointId"]) == (client.get_job_id(), 1)
    assert made["location"].endswith("/chk-1")
    assert output("checkpoint", "words").strip().endswith("/chk-2")


def test_a_checkpoint_of_a_job_without_checkpoints_fails_with_the_reason(start):
    start("words", checkpoints=False)

    done = run("checkpoint", "words")

    assert (done.exit_code, "runs without checkpoints" in done.output) == (1, True)


def test_the_path_of_a_checkpoint_that_is_deleted_is_not_shown(start):
    client = start("words")
    paths = [client._job.checkpoints.checkpoint().result(60) for _ in range(3)]
    client.trigger_savepoint(str(Path(paths[0]).parents[2] / "saved")).result(60)  # by then the first one is deleted

    text = output("checkpoints")
    assert [path in text for path in paths] == [False, True, True]
    assert "(deleted)" in text
    assert not Path(paths[0]).exists()


def test_a_savepoint_of_a_job_without_checkpoints_fails_with_the_reason(start):
    start("words", checkpoints=False)

    done = run("savepoint", "words")

    assert (done.exit_code, "runs without checkpoints" in done.output) == (1, True)


def test_a_job_is_cancelled(start):
    start("words")

    assert "is CANCELED" in output("cancel", "words")
    assert run("cancel", "words", "--no-wait").exit_code == 0  # it is cancelled already


def test_a_driver_that_does_not_answer_is_an_error_only_if_it_was_named():
    register(ServerAddress(os.getpid(), "http://127.0.0.1:9"))

    done = run("list")
    assert (done.exit_code, "no REST server answers" in done.stderr) == (0, True)
    assert run("list", "--url", "http://127.0.0.1:9").exit_code == 1
    assert run("list", "--url", "file:///etc/passwd").exit_code == 1


def test_the_folder_of_addresses_is_private(start):
    start("words")
    folder = registry_folder()

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]


def test_a_folder_that_others_can_write_is_not_used():
    folder = registry_folder()
    folder.mkdir(parents=True)
    folder.chmod(0o777)

    assert register(ServerAddress(os.getpid(), "http://127.0.0.1:1")) is None
    (folder / "1-1.json").write_text(json.dumps({"pid": os.getpid(), "url": "http://127.0.0.1:1"}))
    assert registered() == []


def test_the_address_of_a_process_that_was_killed_is_removed(monkeypatch):
    path = register(ServerAddress(os.getpid(), "http://127.0.0.1:1"))
    assert len(registered()) == 1
    monkeypatch.setattr(addresses, "_is_there", lambda pid: False)

    assert registered() == []
    assert not path.exists()


def test_a_job_is_rescaled_and_says_why_if_it_cannot_be(start):
    client = start("sized")
    done = run("rescale", "sized", "-p", 2)
    assert done.exit_code == 0, done.output
    assert "runs with parallelism 2" in done.output
    assert {vertex.parallelism for vertex in client.plan.vertices} == {2}
    assert client.restarts == 0

    refused = run("rescale", "sized", "-p", 30_000)
    assert refused.exit_code == 1
    assert "parallelism" in refused.output
    assert client.get_job_status().result().name == "RUNNING"
    assert run("rescale", "sized").exit_code == 2


def test_a_job_without_checkpoints_cannot_be_rescaled(start):
    start("plain", checkpoints=False)
    refused = run("rescale", "plain", "-p", 2)
    assert refused.exit_code == 1 and "it has no checkpoints" in refused.output


def test_logs_are_printed_chosen_and_followed(start):
    client = start("talkative")
    client.logs().take(
        [
            LogEntry(1000, logging.WARNING, "shop", text, "lengths", "lengths", number, 0)
            for number, text in enumerate("ab")
        ]
    )

    assert "1970-01-01 00:00:01.000Z WARN  lengths (1) #0 shop: b" in output("logs", "talkative")
    assert "switched from" in output("logs", "talkative")
    assert output("logs", "talkative", "--subtask", 0).count("\n") == 1
    assert output("logs", "talkative", "--level", "error") == ""
    assert "no vertex has 'nothing' in its name" in run("logs", "talkative", "--vertex", "nothing").output
    assert '"message": "a"' in run("logs", "talkative", "--vertex", "map", "--json", "-n", 1, "-s", 0).output

    client.cancel().result(timeout=WAIT)

    followed = output("logs", client.get_job_id(), "--follow")  # a job that is over: until its end
    assert followed.rstrip().endswith("to CANCELED.")
