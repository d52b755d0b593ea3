"""``funken run --from-savepoint`` and ``funken state``, on a savepoint of a small job."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from funken import DataGeneratorSource, KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from funken.cli.main import main

KEYS = ["ant", "bee", "cat"]


class Last(KeyedProcessFunction):
    """Keeps the last number of a key, and a timer per key."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value, ctx):
        self.last.update({"number": value})
        ctx.timer_service().register_event_time_timer(10**12)


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    """A savepoint with three keys in it."""
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.get_configuration().set("execution.checkpointing.savepoint-dir", str(tmp_path_factory.mktemp("savepoints")))
    numbers = env.from_source(DataGeneratorSource(lambda i: i, None, 2000)).uid("numbers")
    numbers.key_by(lambda n: KEYS[n % 3]).process(Last()).name("keep the last").uid("last").for_each(len)
    client = env.execute_async("three keys")
    path = ""
    while not path or len(entries(path, "--operator", "last", "--state", "last")) < len(KEYS):
        path = client.trigger_savepoint().result(60)
    client.cancel().result(60)
    return path


def invoke(*arguments):
    return CliRunner().invoke(main, ["state", *map(str, arguments)])


def entries(path, *more):
    done = invoke("show", path, "--json", *more)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_ls_names_operators_and_their_states(savepoint):
    about = json.loads(invoke("ls", savepoint, "--json").output)
    assert (about["job_name"], about["kind"]) == ("three keys", "savepoint")
    last = next(entry for entry in about["operators"] if entry["id"] == "last")
    assert (last["name"], last["parallelism"], last["uid"]) == ("keep the last", 2, True)
    assert last["states"]["last"] == "value"

    table = invoke("ls", savepoint).output
    assert "of 'three keys'" in table
    assert "last (value)" in table


def test_show_reads_keys_and_values(savepoint):
    found = entries(savepoint, "--operator", "last", "--state", "last")
    assert sorted(entry["key"] for entry in found) == KEYS
    assert all(KEYS[entry["value"]["number"] % 3] == entry["key"] for entry in found)
    assert entries(savepoint, "--operator", "keep the last", "--state", "last") == found, "by its name too"


def test_show_finds_a_key_and_its_timers(savepoint):
    found = entries(savepoint, "--operator", "last", "--key", "bee")
    assert [(entry["state"], entry["kind"]) for entry in found] == [("last", "value"), ("event", "timer")]
    assert found[1]["value"] == 10**12
    assert "'bee'" in invoke("show", savepoint, "--key", "bee").output


def test_show_has_positions_of_sources_and_stops_at_the_limit(savepoint):
    assert any("IndexSplit" in str(entry["value"]) for entry in entries(savepoint, "--operator", "numbers"))
    assert "... and more" in invoke("show", savepoint, "--limit", 1).output


def test_what_is_no_savepoint_is_an_error_that_says_so(savepoint, tmp_path):
    for command in ("ls", "show"):
        done = invoke(command, tmp_path)
        assert (done.exit_code, "is no savepoint or checkpoint" in done.output) == (1, True)
    done = invoke("ls", Path(savepoint).parent)
    assert Path(savepoint).name in done.output, "it names those that are there"
    done = invoke("show", savepoint, "--operator", "none")
    assert (done.exit_code, "There are: numbers" in done.output) == (1, True)


def test_a_broken_or_newer_one_is_an_error(savepoint, tmp_path):
    content = Path(savepoint, "_metadata").read_text()
    for changed, message in ((content[:-50], "truncated"), (content.replace('"version":1', '"version":9'), "newer")):
        (tmp_path / "_metadata").write_text(changed)
        done = invoke("ls", tmp_path)
        assert (done.exit_code, message in done.output) == (1, True), done.output


def test_run_takes_a_savepoint(savepoint, tmp_path, monkeypatch):
    from funken.cli import run as module

    seen = {}
    monkeypatch.setattr(module, "set_default_configuration", lambda given: seen.update(given.to_dict()))
    monkeypatch.setattr(module, "run_script", lambda script, arguments, as_module: None)
    script = tmp_path / "job.py"
    script.write_text("")
    done = CliRunner().invoke(main, ["run", "-s", savepoint, "-n", str(script)])
    assert done.exit_code == 0, done.output
    assert seen["execution.state-recovery.path"] == savepoint
    assert str(seen["execution.state-recovery.ignore-unclaimed-state"]).lower() == "true"


def test_what_an_operator_keeps_in_its_own_way_has_keys_too(tmp_path):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1).enable_checkpointing("20 ms")
    numbers = env.from_source(DataGeneratorSource(lambda i: i, None, 2000)).uid("numbers")
    numbers.key_by(lambda n: KEYS[n % 3]).reduce(lambda a, b: a + b).uid("sums").for_each(lambda n: None)
    client = env.execute_async()
    path, found = "", []
    while not found:
        path = client.trigger_savepoint(str(tmp_path)).result(60)
        found = entries(path, "--operator", "sums", "--key", "ant")
    client.cancel().result(60)
    assert [entry["value"] % 3 for entry in found] == [0]
