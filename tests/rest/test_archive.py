"""The archive of jobs that are over: Flink's format, and what is left of a job when its driver is gone."""

import json
import logging
import os

import pytest

from funken import Configuration
from funken.errors import RequestRejected
from funken.rest.archive import Archive, answers_of, write_archive
from funken.rest.views.jobs import vertex_id
from funken.rest.views.machines import page_of
from tests.rest.conftest import JOB, picture

SUMS = vertex_id(picture().graph.vertices[1])


@pytest.fixture
def configuration(tmp_path):
    return Configuration({"jobmanager.archive.fs.dir": tmp_path / "archive", "historyserver.archive.retained-jobs": 2})


def test_an_archived_job_has_all_that_can_be_read_of_it(job, configuration, tmp_path):
    job.log.tell(logging.INFO, "restarted")

    path = write_archive(configuration, job.entry, by_default=False)

    assert path == tmp_path / "archive" / JOB
    assert (path.stat().st_mode | path.parent.stat().st_mode) & 0o077 == 0
    assert {tuple(sorted(each)) for each in json.loads(path.read_text())["archive"]} == {("json", "path")}
    answers = Archive(path.parent).answers(JOB)
    assert answers == json.loads(json.dumps(answers_of(job.entry)))
    assert answers[f"/jobs/{JOB}"]["name"] == "totals"
    assert answers[f"/jobs/{JOB}/vertices/{SUMS}/subtasks/1"]["subtask"] == 1
    assert answers[f"/jobs/{JOB}/checkpoints/details/7/subtasks/{SUMS}"]["id"] == 7
    assert answers[f"/jobs/{JOB}/logs"]["records"][0]["message"] == "restarted"
    assert answers[f"/jobs/{JOB}/snapshot"]["vertex_ids"]["1"] == SUMS
    assert not [path for path in answers if "{" in path]


def test_an_archive_keeps_the_newest(job, configuration, tmp_path):
    folder = tmp_path / "archive"
    folder.mkdir()
    for number in range(4):
        (folder / f"job-{number}").write_text("{}")
        os.utime(folder / f"job-{number}", (number, number))

    write_archive(configuration, job.entry, by_default=False)

    assert sorted(path.name for path in folder.iterdir()) == [JOB, "job-3"]


def test_a_job_that_nobody_wants_archived_is_not(job):
    assert write_archive(Configuration(), job.entry, by_default=False) is None


def test_an_archive_that_cannot_be_written_costs_a_warning(job, tmp_path, caplog):
    (tmp_path / "file").write_text("")

    assert write_archive(Configuration({"jobmanager.archive.fs.dir": tmp_path / "file"}), job.entry, True) is None
    assert "job 'totals' is not archived in" in caplog.text


def test_what_is_no_archive_is_left_out(job, configuration, tmp_path):
    path = write_archive(configuration, job.entry, by_default=False)
    (path.parent / "notes.txt").write_text("hello")
    (path.parent / "broken").write_text('{"archive": [{"path": "/jobs/overview", "json": "{}"}]}')
    (path.parent / ".hidden").write_text("")

    archive = Archive(path.parent)

    assert [each["jid"] for each in archive.overview()] == [JOB]
    with pytest.raises(RequestRejected, match="The archive of job notes.txt cannot be read"):
        archive.answers("notes.txt")
    with pytest.raises(RequestRejected, match="Job ../passwd not found"):
        archive.answers("../passwd")
    assert Archive(tmp_path / "nowhere").overview() == []


def test_pages_of_archived_logs_are_chosen_as_those_of_a_job_that_runs(job):
    for number in range(5):
        job.log.tell(logging.WARNING if number % 2 else logging.INFO, str(number))
    archived = answers_of(job.entry)[f"/jobs/{JOB}/logs"]

    def messages(**query):
        return [each["message"] for each in page_of(archived, query)["records"]]

    assert messages() == ["0", "1", "2", "3", "4"]
    assert messages(limit="2") == ["3", "4"]
    assert messages(after="1", limit="2") == ["1", "2"]
    assert page_of(archived, {"after": "1", "limit": "2"})["next"] == 3
    assert page_of(archived, {"after": "3"})["next"] == 5
    assert messages(level="WARN") == ["1", "3"]
    assert messages(vertex=SUMS) == [] and messages(subtask="0") == [] and messages(after="x") == messages()
