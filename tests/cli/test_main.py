import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import funken
import funken.__main__
from funken import config, starting
from funken.cli import main as command_line
from funken.cli.main import main
from funken.errors import JavaNotFound

COMMANDS = (
    "cancel", "checkpoints", "demo", "doctor", "explain", "info", "list", "metrics", "options", "run", "savepoint", "state",
    "stop", "top", "version",
)  # fmt: skip


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_help_names_every_command():
    text = invoke("--help").output

    assert "Apache Flink's DataStream model in Python, on Apache Spark" in text
    assert all(f"\n  {command} " in text for command in COMMANDS)


@pytest.mark.parametrize(("command", "line"), [(name, line) for name, (_, line) in command_line._COMMANDS.items()])
def test_the_help_has_the_first_sentence_of_each_command(command, line):
    found = main.get_command(click.Context(main), command)

    assert found.get_short_help_str(limit=200) == line


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    assert invoke(command, "-h").output.startswith(f"Usage: main {command}")


def test_options_lists_them_all():
    text = invoke("options").output

    assert all(option.key in text for option in config.options())


def test_options_can_be_searched():
    assert "execution.buffer-timeout" in invoke("options", "buffer").output
    assert "parallelism" not in invoke("options", "buffer").output
    assert invoke("options", "nonsense").exit_code == 1


def test_options_are_found_by_what_they_mean():
    lines = invoke("options", "Savepoint").output.splitlines()

    assert lines[0].startswith("execution.checkpointing.savepoint-dir")
    assert all("savepoint" in line.lower() for line in lines)
    assert any("savepoint" not in line.split(" = ")[0] for line in lines)
    both = invoke("options", "CHECKPOINT", "timeout").output
    assert 0 < len(both.splitlines()) < len(lines) * 3
    assert all("checkpoint" in line.lower() and "timeout" in line.lower() for line in both.splitlines())
    assert "no option has 'much nonsense' in its name or meaning" in invoke("options", "much", "nonsense").output


def test_options_without_a_terminal_are_one_line_each(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = invoke("options").output.splitlines()

    assert [line.split(" = ")[0] for line in lines] == [option.key for option in config.options()]
    assert all(option.doc.split()[-1] == line.split()[-1] for option, line in zip(config.options(), lines, strict=True))
    assert "rest.port = 0\tThe port of the REST server. 0: any free one; its address is logged." in lines


def test_version_names_what_funken_runs_on():
    text = invoke("version").output

    assert f"funken   {funken.__version__}\n" in text
    assert [line.split()[0] for line in text.splitlines()] == ["funken", "pyspark", "pyarrow", "python", "java"]


def test_version_works_without_java(monkeypatch):
    def none():
        raise JavaNotFound("there is none")

    monkeypatch.setattr("funken.cli.about.ensure_java", none)

    assert "java     none: there is none" in invoke("version").output


def test_the_package_can_be_run():
    done = subprocess.run(
        [sys.executable, "-m", "funken", "--version"], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == f"funken, version {funken.__version__}\n"


def test_version_does_not_wait_for_a_java_that_hangs(monkeypatch):
    def hang(*arguments, timeout, **options):
        raise subprocess.TimeoutExpired("java", timeout)

    monkeypatch.setattr("funken.cli.about.ensure_java", lambda: "/opt/java")
    monkeypatch.setattr(subprocess, "run", hang)

    assert "java     unknown: Command 'java' timed out after 30.0 seconds (/opt/java)" in invoke("version").output


@pytest.mark.parametrize(
    "imported", ["funken.starting", "funken.config.configuration", "funken.cli.main", "funken.plan.explain"]
)
def test_ctrl_c_while_the_command_line_is_imported(tmp_path, imported):
    (tmp_path / "job.py").write_text("input()")
    command = [sys.executable, "-X", "importtime", "-m", "funken", "run", str(tmp_path / "job.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.split()[-1] == imported:
                process.send_signal(signal.SIGINT)
                break
        else:
            process.kill()
        rest = process.stderr.read()

    assert process.returncode == 130
    assert "Traceback" not in rest
    assert "Interrupted." in rest


def test_ctrl_c_that_python_ignored_comes_again(capfd):
    class Closing:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    with starting.raised_again(KeyboardInterrupt, starting.interrupt), pytest.raises(KeyboardInterrupt):
        Closing()
        threading.Event().wait(30)

    assert capfd.readouterr() == ("", "")


def test_nothing_is_raised_again_behind_the_block(monkeypatch):
    class Deaf:
        def __del__(self):
            raise KeyboardInterrupt

    left, threads, woken = threading.Event(), [], []
    monkeypatch.setattr(starting.time, "sleep", lambda _: left.wait(60))
    monkeypatch.setattr(starting, "start_new_thread", lambda work, _: threads.append(threading.Thread(target=work)))
    with starting.raised_again(KeyboardInterrupt, lambda: woken.append("again")):
        Deaf()
    (thread,) = threads
    thread.start()
    left.set()
    thread.join(60)

    assert woken == []


def test_ctrl_c_ends_every_command_with_130(monkeypatch):
    monkeypatch.setattr("funken.cli.jobs.all_jobs", interrupted)

    done = CliRunner().invoke(main, ["list"])

    assert (done.exit_code, done.stderr) == (130, "Interrupted.\n")


def interrupted(*arguments, **options):
    raise KeyboardInterrupt


@pytest.mark.parametrize("way", ["file", "link", "module"])
def test_the_command_is_run_as_a_file_too_as_spark_submit_does(tmp_path, way):
    """Modules of the package have names of Python's own, and the folder of a file that is run is looked in first."""
    file = Path(funken.__main__.__file__)
    link = tmp_path / "main.py"
    link.symlink_to(file)
    command = {"file": [str(file)], "link": [str(link)], "module": ["-m", "funken"]}[way]
    environment = {**os.environ, "PYTHONPATH": str(file.parents[1])}
    done = subprocess.run(
        [sys.executable, *command, "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("funken, version "), done.stderr


def test_garbage_is_collected_again_once_a_command_is_imported():
    assert gc.isenabled()
    main.get_command(None, "sql")
    assert gc.isenabled()
