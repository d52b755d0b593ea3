"""The application: routes, parameters, bodies, errors. No server, no job."""

import json
import logging
from dataclasses import replace

import pytest

from funken.rest.endpoints import ENDPOINTS
from funken.rest.jobs import digest
from funken.rest.views.jobs import APPLICATION, vertex_id
from funken.runtime.job.states import JobStatus
from funken.runtime.log_entries import LogEntry
from tests.rest.conftest import JOB, picture

SUMS = vertex_id(picture().graph.vertices[1])
_FILLED = {
    "{jobid}": JOB, "{vertexid}": SUMS, "{subtaskindex}": "0", "{attempt}": "0", "{checkpointid}": "7",
    "{taskmanagerid}": digest("worker-1"), "{applicationid}": APPLICATION,
}  # fmt: skip
_LOGS = {"/jobmanager/logs/{logname}": f"{JOB}.log", "/taskmanagers/{taskmanagerid}/logs/{logname}": "taskmanager.log"}
_EMPTY = {"/jobmanager/log", "/jobmanager/stdout", "/taskmanagers/{taskmanagerid}/stdout"}
"""Nothing is told of the job itself, and nothing is printed."""
READ = [each for each in ENDPOINTS if each.method == "GET" and not each.changes and "{triggerid}" not in each.path]


def filled(path):
    path = path.replace("{logname}", _LOGS.get(path, ""))
    for name, value in _FILLED.items():
        path = path.replace(name, value)
    return path


def warned(text, subtask=1, level=logging.WARNING):
    return LogEntry(2000, level, "shop", text, "sums", "sums", subtask, 0, "worker-1", 41)


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("endpoint", READ, ids=lambda each: each.path)
def test_every_path_answers(api, job, prefix, endpoint):
    job.log.take([warned("no price")])

    answer = api.get(prefix + filled(endpoint.path))

    assert answer.status == 200
    if endpoint.shape == "string":
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        line = b"1970-01-01 00:00:02.000Z WARN  sums (1) #0 shop: no price\n"
        assert answer.body == (b"" if endpoint.path in _EMPTY else line)
        return
    assert answer.headers["content-type"] == "application/json"
    assert isinstance(answer.json, {"object": dict, "array": list}[endpoint.shape])


def test_equal_requests_are_answered_from_the_same_bytes(api, job, clock):
    before = api.get(f"/jobs/{JOB}").json
    job.current = picture(name="renamed")
    assert api.get(f"/jobs/{JOB}").json == before
    clock.advance(500)

    assert api.get(f"/jobs/{JOB}").json["name"] == "renamed"


def test_an_answer_depends_on_its_parameters(api):
    first = api.get(f"/jobs/{JOB}/metrics?get=numRestarts").json
    second = api.get(f"/jobs/{JOB}/metrics?get=uptime").json

    assert (first[0]["id"], second[0]["id"]) == ("numRestarts", "uptime")
    assert api.get(f"/jobs/{JOB}/metrics?get=").json == []


def test_numbers_that_json_does_not_have_are_null(api, job):
    first = job.current.vertices[0]
    odd = replace(first.subtasks[0], metrics=replace(first.subtasks[0].metrics, busy_ms=float("nan")))
    job.current = replace(job.current, vertices=(replace(first, subtasks=(odd,)), job.current.vertices[1]))
    job.entry.refresh()

    text = api.get(f"/jobs/{JOB}/snapshot").body.decode()

    assert json.loads(text, parse_constant=pytest.fail)["vertices"][0]["subtasks"][0]["metrics"]["busy_ms"] is None


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/nothing", 404, "There is no /nothing."),
        ("/jobs/unknown", 404, "Job unknown not found."),
        (f"/jobs/{JOB}/vertices/xyz", 400, "path parameter 'vertexid': 32 hexadecimal digits are needed."),
        (f"/jobs/{JOB}/vertices/{SUMS}/subtasks/-1", 400, "path parameter 'subtaskindex': a whole number"),
        (f"/jobs/{JOB}/vertices/{SUMS}/subtasks/metrics?subtasks=0-99999999", 400, "query parameter 'subtasks'"),
        (f"/jobs/{JOB}/vertices/{SUMS}/subtasks/metrics?agg=median", 400, "query parameter 'agg': some of min"),
        (f"/jobs/{JOB}/exceptions?maxExceptions=0", 400, "query parameter 'maxExceptions'"),
        (f"/jobs/{JOB}/savepoints/{'0' * 32}", 404, "There is no operation"),
        ("/jobs/metrics?jobs=nothing", 404, "Job nothing not found."),
    ],
)
def test_what_does_not_fit_is_an_error_as_flink_has_it(api, path, status, text):
    answer = api.get(path)

    assert answer.status == status
    assert list(answer.json) == ["errors"]
    assert text in answer.json["errors"][0]


def test_logs_are_chosen_by_level_vertex_and_subtask_and_never_old(api, job):
    def messages(query):
        return [each["message"] for each in api.get(f"/jobs/{JOB}/logs?{query}").json["records"]]

    assert messages("") == []
    job.log.tell(logging.INFO, "restarted")
    job.log.take([warned("first", 0), warned("second"), warned("third", 1, logging.INFO)])

    assert messages("") == ["restarted", "first", "second", "third"]
    assert messages("after=2&limit=1") == ["second"]
    assert messages(f"vertex={SUMS}") == ["first", "second", "third"]
    assert messages(f"vertex={vertex_id(picture().graph.vertices[0])}") == []
    assert messages("subtask=1&level=WARN") == ["second"]
    assert api.get(f"/jobs/{JOB}/logs?level=LOUD").status == 400
    assert api.get(f"/jobs/{JOB}/logs?vertex={'0' * 32}").status == 404


def test_a_method_that_a_path_does_not_have_is_rejected(api):
    assert api.post("/overview").status == 405
    assert "POST /overview. Allowed are: " in api.post("/overview").json["errors"][0]


def test_a_savepoint_is_begun_and_then_followed(api, job):
    begun = api.post(f"/jobs/{JOB}/savepoints", {"target-directory": "/s", "cancel-job": False})
    trigger = begun.json["request-id"]

    assert (begun.status, job.asked) == (202, [("savepoint", "/s")])
    assert api.get(f"/jobs/{JOB}/savepoints/{trigger}").json == {"status": {"id": "IN_PROGRESS"}}

    job.savepoint.set_result("/s/savepoint-1")

    found = api.get(f"/jobs/{JOB}/savepoints/{trigger}").json
    assert found == {"status": {"id": "COMPLETED"}, "operation": {"location": "/s/savepoint-1"}}


def test_a_savepoint_that_fails_says_why(api, job):
    trigger = api.post(f"/v1/jobs/{JOB}/savepoints").json["request-id"]
    job.savepoint.set_exception(OSError("no disk"))

    cause = api.get(f"/jobs/{JOB}/savepoints/{trigger}").json["operation"]["failure-cause"]

    assert (cause["class"], "no disk" in cause["stack-trace"]) == ("OSError", True)


def test_a_savepoint_that_is_given_up_has_failed(api, job):
    trigger = api.post(f"/jobs/{JOB}/savepoints").json["request-id"]
    job.savepoint.cancel()

    answer = api.get(f"/jobs/{JOB}/savepoints/{trigger}")

    assert (answer.status, "failure-cause" in answer.json["operation"]) == (200, True)


def test_a_request_repeated_with_its_trigger_id_begins_nothing_new(api, job):
    body = {"triggerId": "a" * 32}
    answers = [api.post(f"/jobs/{JOB}/savepoints", body).json for _ in range(2)]

    assert answers == [{"request-id": "a" * 32}] * 2
    assert job.asked == [("savepoint", None)]


@pytest.mark.parametrize(
    ("path", "body", "asked"),
    [
        ("savepoints", {"cancel-job": True, "target-directory": None}, ("stop", False, None)),
        ("stop", {"targetDirectory": "/s", "drain": True}, ("stop", True, "/s")),
        ("stop", {}, ("stop", False, None)),
    ],
)
def test_a_job_is_stopped_with_a_savepoint(api, job, path, body, asked):
    assert api.post(f"/jobs/{JOB}/{path}", body).status == 202
    assert job.asked == [asked]


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"{", 400, "The body is no JSON"),
        (b"[" * 30_000, 400, "The body is no JSON"),
        (b"[]", 400, "has to be a JSON object"),
        (b'{"targt": 1}', 400, "unknown field 'targt'"),
        (b'{"target-directory": 5}', 400, "field 'target-directory'"),
        (b'{"target-directory": "a\\u0000b"}', 400, "field 'target-directory'"),
        (b'{"target-directory": "\\ud800"}', 400, "field 'target-directory'"),
        (b'{"cancel-job": "yes"}', 400, "field 'cancel-job'"),
        (b'{"target-directory": "/refused"}', 409, "it runs without checkpoints"),
        (b" " * 70_000, 413, "more than 65536 bytes"),
    ],
)
def test_a_body_that_does_not_fit_is_rejected(api, job, body, status, text):
    answer = api.post(f"/jobs/{JOB}/savepoints", body)

    assert answer.status == status
    assert text in answer.json["errors"][0]
    assert job.asked == []


def test_a_body_of_another_type_is_rejected(api):
    assert api.post(f"/jobs/{JOB}/stop", {}, **{"content-type": "text/plain"}).status == 415


def test_a_job_is_cancelled(api, job):
    answer = api.patch(f"/jobs/{JOB}?mode=cancel")

    assert (answer.status, answer.json, job.asked) == (202, {}, [("cancel",)])
    assert api.get(f"/jobs/{JOB}").json["state"] == "CANCELLING"
    assert api.patch(f"/jobs/{JOB}?mode=stop").status == 400


def test_a_job_that_is_over_is_not_changed(api, jobs, job):
    job.current = picture(state=JobStatus.FINISHED, timestamps={JobStatus.CREATED: 1, JobStatus.FINISHED: 2})
    jobs.close(job.entry)

    assert api.patch(f"/jobs/{JOB}").json == {"errors": [f"Job {JOB} is FINISHED; it cannot be cancelled any more."]}
    assert api.post(f"/jobs/{JOB}/savepoints").status == 409
    assert job.asked == []


def test_a_job_that_is_cancelled_already_may_be_cancelled_again(api, jobs, job):
    job.current = picture(state=JobStatus.CANCELED, timestamps={JobStatus.CREATED: 1, JobStatus.CANCELED: 2})
    jobs.close(job.entry)

    assert api.patch(f"/jobs/{JOB}").status == 202


def test_the_document_describes_every_endpoint(api):
    paths = api.get("/openapi.json").json["paths"]

    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == {
        (each.method, each.path) for each in ENDPOINTS
    }


def test_the_page_is_served(api):
    found = api.get("/")

    assert (found.status, found.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert api.get("/main.js").headers["content-type"].startswith("text/javascript")
    assert api.get("/../app.py").status == 404
