"""``funken service``, ``run --detach``, ``history``, ``completion``."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from funken.cli.main import main
from funken.io.temporary import cache_folder
from funken.rest.client import RestClient
from funken.rest.settings import registered

pytest.importorskip("uvicorn")

WAIT = 100
JOB = """
import logging, sys
from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy

print("begins")
env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(DataGeneratorSource(str, None, 1000), WatermarkStrategy.no_watermarks(), "numbers")
numbers.map(lambda n: (logging.getLogger("shop").warning("sold %s", n), n)[1]).name("sell").for_each(len)
env.execute(sys.argv[1])
"""


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("funken.rest.archive.cache_folder", cache_folder)


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def output(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def wait_until(condition, what):
    until = time.monotonic() + WAIT
    while not (found := condition()):
        assert time.monotonic() < until, f"not within {WAIT} s: {what}"
        time.sleep(0.1)
    return found


def is_gone(pid):
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")


def test_a_job_in_the_background_is_shown_by_the_service_and_kept_in_the_history(tmp_path):
    archive = tmp_path / "archive"
    (tmp_path / "job.py").write_text(JOB)
    done = run(
        "run", "--detach", "--target", "local", "-p", 1, "-D", f"jobmanager.archive.fs.dir={archive}",
        tmp_path / "job.py", "shop",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (driver,) = registered()
    command = [sys.executable, "-m", "funken", "service", "--port", "0", "-D", f"jobmanager.archive.fs.dir={archive}"]
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        assert f"runs in process {driver.pid}: {driver.url}/#/jobs/" in done.output
        wait_until(lambda: [each for each in registered() if each.kind == "service"], "the service is there")
        (found,) = [each for each in registered() if each.kind == "service"]
        client = RestClient(found.url)
        (job,) = wait_until(lambda: listed(client), "the service answers")
        assert (job["name"], job["state"]) == ("shop", "RUNNING")
        assert [each["name"] for each in output("list", "--json")] == ["shop"]  # once, not of driver and service
        wait_until(lambda: "sell (0) #0 shop: sold " in output("logs", "shop"), "the job logs")

        assert "CANCELED" in output("cancel", "shop", "--url", found.url)

        wait_until(lambda: is_gone(driver.pid), "the driver ends")
        wait_until(lambda: client.get("jobs", "overview")["jobs"][0]["state"] == "CANCELED", "it is in the archive")
        assert client.get("jobs", job["jid"], "exceptions")["all-exceptions"] == []
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(WAIT)
        if not is_gone(driver.pid):
            os.kill(driver.pid, signal.SIGKILL)
    assert service.returncode == 0
    assert "shop" in output("history", "--dir", archive) and "CANCELED" in output("history", "--dir", archive)
    assert "sell (0) #0 shop: sold " in output("history", "shop", "--dir", archive)
    assert "begins" in next((tmp_path / "cache/funken/drivers").iterdir()).read_text()
    assert output("history", job["jid"][:5], "--dir", archive, "--json")["state"] == "CANCELED"


def test_a_job_in_the_background_is_stopped_although_its_program_ends_at_once(tmp_path):
    archive = tmp_path / "archive"
    (tmp_path / "job.py").write_text(JOB)
    done = run(
        "run", "--detach", "--target", "local", "-p", 1, "-D", f"jobmanager.archive.fs.dir={archive}",
        "-D", "execution.checkpointing.interval=1h", "-D", f"execution.checkpointing.dir={tmp_path}/checkpoints",
        tmp_path / "job.py", "shop",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (driver,) = registered()
    try:
        path = output("stop", "shop", "--savepoint-dir", tmp_path / "saved").strip()

        assert Path(path).parent == tmp_path / "saved" and Path(path).is_dir()
        wait_until(lambda: is_gone(driver.pid), "the driver ends")
        assert "FINISHED" in output("history", "--dir", archive)
    finally:
        if not is_gone(driver.pid):
            os.kill(driver.pid, signal.SIGKILL)


def listed(client):
    from funken.errors import ServerNotReached

    try:
        return client.get("jobs", "overview")["jobs"]
    except ServerNotReached:
        return []


def test_a_program_that_fails_at_once_is_told_of(tmp_path):
    (tmp_path / "job.py").write_text("raise SystemExit('no orders today')")

    done = run("run", "--detach", "--target", "local", tmp_path / "job.py")

    assert done.exit_code == 1
    assert "the program has ended with exit code 1" in done.output and "no orders today" in done.output


def test_a_job_that_would_not_be_found_is_not_begun(tmp_path):
    (tmp_path / "job.py").write_text("")

    assert "needs a REST server" in run("run", "--detach", "-D", "rest.enabled=false", tmp_path / "job.py").output


def test_a_port_that_is_taken_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("service", "--port", taken.getsockname()[1])

    assert done.exit_code == 1
    assert "cannot listen at port" in done.output and "rest.port" in done.output


def test_without_an_archive_there_is_no_history(tmp_path):
    assert "No job is archived in" in output("history")
    assert "there is no folder" in run("history", "--dir", tmp_path / "nothing").output
    assert "no archived job is 'shop'" in run("history", "shop").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_what_the_shell_reads(shell, tmp_path):
    script = output("completion", shell)
    assert "_FUNKEN_COMPLETE" in script

    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        assert subprocess.run([shell, "-n", tmp_path / "script"], check=False).returncode == 0


def test_commands_and_options_are_completed():
    done = CliRunner().invoke(
        main,
        [],
        prog_name="funken",
        env={"_FUNKEN_COMPLETE": "bash_complete", "COMP_WORDS": "funken sav", "COMP_CWORD": "1"},
    )

    assert done.output.split() == ["plain,savepoint"]
