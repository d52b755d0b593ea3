"""The log of a job: in memory, in files, without secrets."""

import json
import logging

import pytest

from funken import Configuration
from funken.runtime.driver import job as job_logs
from funken.runtime.driver.job import JobLogs
from funken.runtime.log_entries import LogEntry
from funken.testing import local


def entry(text, level=logging.INFO, subtask=0):
    return LogEntry(1000, level, "shop", text, "map", "map-1", subtask, 0)


def logs_of(**options):
    return JobLogs("orders/eu", Configuration(options), lambda: 5000)


def messages(page):
    return [each["message"] for each in page.records]


def test_pages_follow_one_another():
    logs = logs_of()
    logs.take([entry(str(number)) for number in range(5)], "worker-1", 7)

    first = logs.read(0, 2)
    second = logs.read(first.next, 10)

    assert (messages(first), messages(second), second.next) == (["0", "1"], ["2", "3", "4"], 5)
    assert messages(logs.read(None, 2)) == ["3", "4"]
    assert logs.read(5, 10).records == []
    assert (first.records[0]["host"], first.records[0]["pid"]) == ("worker-1", 7)


def test_a_page_has_what_fits_and_goes_on_behind_what_does_not():
    logs = logs_of()
    logs.take([entry(str(number), subtask=number % 2) for number in range(6)])

    page = logs.read(0, 2, lambda each: each["subtask"] == 1)

    assert messages(page) == ["1", "3"]
    assert messages(logs.read(page.next, 2, lambda each: each["subtask"] == 1)) == ["5"]


def test_what_is_not_kept_any_more_is_counted(monkeypatch):
    monkeypatch.setattr(job_logs, "_KEPT", 3)
    logs = logs_of()
    logs.take([entry(str(number)) for number in range(10)])

    page = logs.read(2, 10)

    assert (messages(page), page.lost, page.next) == (["7", "8", "9"], 5, 10)


def test_a_file_goes_on_in_a_new_one_and_the_oldest_are_dropped(tmp_path):
    logs = logs_of(**{"env.log.dir": tmp_path / "logs", "env.log.file-size": "1 kb", "env.log.max": 2})
    assert not (tmp_path / "logs").exists()  # nothing was logged
    for number in range(60):
        logs.take([entry(f"{number:03}")])

    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert set(names) <= {"orders_eu.log", "orders_eu.log.1", "orders_eu.log.2"} and "orders_eu.log.2" in names
    lines = [
        json.loads(line)["message"]
        for name in sorted(names, reverse=True)
        for line in (tmp_path / "logs" / name).read_text().splitlines()
    ]
    assert lines == [f"{number:03}" for number in range(60 - len(lines), 60)] and len(lines) > 5
    assert (tmp_path / "logs").stat().st_mode & 0o077 == 0
    assert (tmp_path / "logs" / names[0]).stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    logs = logs_of(**{"env.log.dir": tmp_path / "file"})

    logs.take([entry("one")])
    logs.take([entry("two")])

    assert messages(logs.read(0, 9)) == ["one", "two"]
    assert [each.message.partition(":")[0] for each in caplog.records] == [
        f"the log of a job cannot be written to {tmp_path / 'file' / 'orders_eu.log'}, and is kept in memory only"
    ]


def test_secrets_are_masked(tmp_path):
    logs = logs_of(**{"pipeline.global-job-parameters": "db.password:open-sesame", "env.log.dir": tmp_path})

    logs.take([entry("as open-sesame at jdbc://me:pw@db/orders, api_key=1234")])

    assert messages(logs.read(0, 1)) == ["as ****** at jdbc://******@db/orders, api_key=******"]
    assert "sesame" not in (tmp_path / "orders_eu.log").read_text()


def test_the_logging_of_the_program_gets_what_workers_log(caplog, monkeypatch):
    monkeypatch.setattr(job_logs, "cache_folder", lambda: None)
    logs = logs_of()
    logs.from_workers()

    with caplog.at_level(logging.WARNING):
        logs.take([entry("fine"), entry("no price", logging.WARNING, 2)])

    assert caplog.record_tuples == [("shop", logging.WARNING, "map (2): no price")]


def test_logs_of_workers_are_in_the_users_cache_which_does_not_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(job_logs, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(job_logs, "_FILES", 2)
    (tmp_path / "logs").mkdir()
    for number in range(4):
        (tmp_path / "logs" / f"{number}.log").write_text("")

    logs = logs_of()
    logs.from_workers()
    logs.take([entry("one")])

    assert len(list((tmp_path / "logs").glob("*.log"))) == 3
    assert logs.path == str(tmp_path / "logs" / "orders_eu.log")


def test_a_job_tells_what_becomes_of_it():
    words = local(["to"])
    words.map(lambda word: 1 // 0).name("divide").for_each(len)
    client = words.get_execution_environment().execute_async("fails")
    error = client.get_job_execution_result().exception(60)

    found = messages(client.logs().read(0, 100))

    assert error is not None
    assert found[0] == "The job switched from CREATED to RUNNING." or "INITIALIZING" in found[0]
    assert found[-1].endswith("to FAILED.")
    assert [each for each in found if "operator 'divide'" in each and "ZeroDivisionError" in each]


@pytest.mark.parametrize("set_level", [True, False])
def test_levels_of_a_program_in_this_process_hold_unless_one_is_set(set_level):
    options = {"env.log.level": "DEBUG"} if set_level else {}
    words = local(["to"])
    words.get_execution_environment().configure(Configuration(options))
    logger = logging.getLogger("shop")
    words.for_each(lambda word: logger.debug("fine"))
    client = words.get_execution_environment().execute_async()
    client.get_job_execution_result().result(60)

    assert ("fine" in messages(client.logs().read(0, 100))) is set_level
