"""Every method and path of Flink 2.3's REST API: answered, or refused with the reason."""

import json
import re

import pytest

from funken.rest.endpoints import ENDPOINTS, REFUSED
from funken.rest.jobs import digest
from funken.rest.views.jobs import APPLICATION, vertex_id
from funken.runtime.messages import CallStack, SampleStacks, StacksSampled, TaskId
from tests.rest.conftest import JOB, picture

FLINK = """
DELETE /cluster
GET /config
GET /overview
GET /datasets
GET /datasets/delete/:triggerid
DELETE /datasets/:datasetid
GET /jars
POST /jars/upload
DELETE /jars/:jarid
GET /jars/:jarid/plan
POST /jars/:jarid/plan
POST /jars/:jarid/run
POST /jars/:jarid/run-application
GET /applications/overview
GET /applications/:applicationid
POST /applications/:applicationid/cancel
GET /applications/:applicationid/exceptions
GET /applications/:applicationid/jobmanager/config
GET /jobmanager/config
GET /jobmanager/environment
GET /jobmanager/log
GET /jobmanager/stdout
GET /jobmanager/logs
GET /jobmanager/logs/:filename
GET /jobmanager/metrics
GET /jobmanager/thread-dump
GET /jobmanager/profiler
POST /jobmanager/profiler
GET /jobmanager/profiler/:filename
GET /jobs
POST /jobs
GET /jobs/metrics
GET /jobs/overview
GET /jobs/:jobid
PATCH /jobs/:jobid
GET /jobs/:jobid/accumulators
GET /jobs/:jobid/checkpoints
POST /jobs/:jobid/checkpoints
GET /jobs/:jobid/checkpoints/config
GET /jobs/:jobid/checkpoints/details/:checkpointid
GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid
GET /jobs/:jobid/checkpoints/:triggerid
PATCH /jobs/:jobid/clientHeartbeat
GET /jobs/:jobid/config
POST /jobs/:jobid/coordinators/:operatorUid
GET /jobs/:jobid/exceptions
GET /jobs/:jobid/execution-result
GET /jobs/:jobid/jobmanager/config
GET /jobs/:jobid/jobmanager/environment
GET /jobs/:jobid/jobmanager/log-url
GET /jobs/:jobid/metrics
GET /jobs/:jobid/plan
GET /jobs/:jobid/rescales/config
GET /jobs/:jobid/rescales/details/:rescaleuuid
GET /jobs/:jobid/rescales/history
GET /jobs/:jobid/rescales/overview
GET /jobs/:jobid/rescales/summary
PATCH /jobs/:jobid/rescaling
GET /jobs/:jobid/rescaling/:triggerid
GET /jobs/:jobid/resource-requirements
PUT /jobs/:jobid/resource-requirements
POST /jobs/:jobid/savepoints
GET /jobs/:jobid/savepoints/:triggerid
GET /jobs/:jobid/status
POST /jobs/:jobid/stop
GET /jobs/:jobid/taskmanagers/:taskmanagerid/log-url
GET /jobs/:jobid/vertices/:vertexid
GET /jobs/:jobid/vertices/:vertexid/accumulators
GET /jobs/:jobid/vertices/:vertexid/backpressure
GET /jobs/:jobid/vertices/:vertexid/flamegraph
GET /jobs/:jobid/vertices/:vertexid/jm-operator-metrics
GET /jobs/:jobid/vertices/:vertexid/metrics
GET /jobs/:jobid/vertices/:vertexid/subtasks/accumulators
GET /jobs/:jobid/vertices/:vertexid/subtasks/metrics
GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex
GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt
GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt/accumulators
GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics
GET /jobs/:jobid/vertices/:vertexid/subtasktimes
GET /jobs/:jobid/vertices/:vertexid/taskmanagers
GET /jobs/:jobid/vertices/:vertexid/watermarks
GET /jobs/:jobid/yarn-cancel
GET /jobs/:jobid/yarn-stop
POST /savepoint-disposal
GET /savepoint-disposal/:triggerid
GET /taskmanagers
GET /taskmanagers/metrics
GET /taskmanagers/:taskmanagerid
GET /taskmanagers/:taskmanagerid/log
GET /taskmanagers/:taskmanagerid/stdout
GET /taskmanagers/:taskmanagerid/logs
GET /taskmanagers/:taskmanagerid/logs/:filename
GET /taskmanagers/:taskmanagerid/metrics
GET /taskmanagers/:taskmanagerid/thread-dump
GET /taskmanagers/:taskmanagerid/profiler
POST /taskmanagers/:taskmanagerid/profiler
GET /taskmanagers/:taskmanagerid/profiler/:filename
"""
CALLS = [tuple(line.split()) for line in FLINK.split("\n") if line]
SUMS = vertex_id(picture().graph.vertices[1])
WORKER = digest("worker-1")


def shape(path):
    """A path without the names of its parameters."""
    return re.sub(r"\{[^}]*\}|:[A-Za-z]+", "*", path)


ANSWERED = {(each.method, shape(each.path)) for each in ENDPOINTS}
REASONS = {(method, shape(path)): reason for method, path, reason in REFUSED}


@pytest.mark.parametrize(("method", "path"), CALLS, ids=lambda each: each)
def test_every_call_of_flink_is_answered_or_refused_in_words(api, method, path):
    call = method, shape(path)

    assert (call in ANSWERED) != (call in REASONS)

    if call in REASONS:
        answer = api.request(method, re.sub(r":[A-Za-z]+", "0" * 32, path).replace(f"jobs/{'0' * 32}", f"jobs/{JOB}"))
        assert (answer.status, answer.json) == (501, {"errors": [REASONS[call]]})


def test_what_is_refused_is_flinks():
    assert set(REASONS) <= {(method, shape(path)) for method, path in CALLS}


def test_a_checkpoint_is_begun_and_then_followed(api, job):
    begun = api.post(f"/jobs/{JOB}/checkpoints", {"checkpointType": "CONFIGURED"})
    trigger = begun.json["request-id"]
    before = api.get(f"/jobs/{JOB}/checkpoints/{trigger}").json
    job.savepoint.set_result("/c/orders/chk-12")

    assert (begun.status, job.asked) == (202, [("checkpoint",)])
    assert before == {"status": {"id": "IN_PROGRESS"}}
    assert api.get(f"/jobs/{JOB}/checkpoints/{trigger}").json == {
        "status": {"id": "COMPLETED"},
        "operation": {"checkpointId": 12},
    }


@pytest.mark.parametrize("path", ["yarn-cancel", "yarn-stop"])
def test_a_get_that_cancels_is_not_taken_from_another_site_nor_answered_from_before(api, job, path):
    evil = api.get(f"/jobs/{JOB}/{path}", sec_fetch_site="cross-site")

    assert (evil.status, job.asked) == (403, [])
    assert [api.get(f"/jobs/{JOB}/{path}").status for _ in range(2)] == [202, 202]
    assert job.asked == [("cancel",), ("cancel",)]


def test_all_vertices_are_to_have_one_parallelism(api, job):
    path, both = f"/jobs/{JOB}/resource-requirements", [vertex_id(info) for info in picture().graph.vertices]

    def bounds(*upper):
        return {
            vertex: {"parallelism": {"lowerBound": 1, "upperBound": each}}
            for vertex, each in zip(both, upper, strict=True)
        }

    def put(body):
        return api.request("PUT", path, json.dumps(body).encode(), {"content-type": "application/json"})

    assert api.get(path).json == bounds(2, 2)
    assert put(bounds(2, 2)).status == 200
    assert job.asked == []
    assert put(bounds(4, 4)).status == 200
    assert job.asked == [("rescale", 4)]
    assert "Send one upper bound for all vertices." in put(bounds(3, 4)).json["errors"][0]
    assert put({both[0]: {"parallelism": 3}}).status == 400
    assert put({"0" * 32: {"parallelism": {"upperBound": 3}}}).status == 404


def test_a_flame_graph_is_of_the_operators_of_a_vertex(api, job):
    path = f"/jobs/{JOB}/vertices/{SUMS}/flamegraph"
    waiting = api.get(path).json
    asked = [command for _, command in job.commands]
    busy, idle = CallStack("sums", 0, True, ("run", "add")), CallStack("", -1, False, ("run", "wait"))
    other = CallStack("numbers", 0, True, ("run", "read"))
    job.sampled.take(StacksSampled(TaskId(1, 0), stacks={busy: 5, idle: 2, other: 9}, ended=7000))

    def children(query=""):
        root = api.get(path + query).json["data"]
        return {each["name"]: each["value"] for each in (root["children"][0]["children"] if root["children"] else [])}

    assert waiting == {"endTimestamp": -3, "data": None}
    assert asked == [SampleStacks(2.0), SampleStacks(2.0)]
    assert api.get(path).json["endTimestamp"] == 7000
    assert children() == {"add": 5, "wait": 2}
    assert children("?type=ON_CPU") == {"add": 5}
    assert children("?type=off_cpu") == {"wait": 2}
    assert children("?subtaskindex=0") == {"add": 5, "wait": 2}
    assert api.get(path + "?subtaskindex=1").json["endTimestamp"] == -3
    assert api.get(path + "?subtaskindex=2").status == 404
    assert len(job.commands) == 2, "sampled again within seconds"


def test_the_driver_is_stopped_with_what_its_jobs_need_to_resume(api, job):
    assert api.request("DELETE", "/cluster", b"", {"origin": "http://evil.example"}).status == 403
    assert api.request("DELETE", "/cluster").status == 200
    assert job.asked == [("suspend",)]


def test_a_program_is_an_application_whose_jobs_are_cancelled_together(api, job):
    overview = api.get("/applications/overview").json["applications"][0]

    assert (overview["id"], overview["name"], overview["status"], overview["jobs"]["RUNNING"]) == (
        APPLICATION, "totals", "RUNNING", 1,
    )  # fmt: skip
    assert [each["jid"] for each in api.get(f"/applications/{APPLICATION}").json["jobs"]] == [JOB]
    assert api.get(f"/applications/{'0' * 32}").status == 404
    assert api.post(f"/applications/{APPLICATION}/cancel", {}).status == 202
    assert job.asked == [("cancel",)]


def test_the_logs_of_the_driver_and_of_machines_are_listed(api, job):
    job.log.tell(20, "restarted")

    names = [each["name"] for each in api.get("/jobmanager/logs").json["logs"]]

    assert names == ["driver.log", f"{JOB}.log"]
    assert b"funken.job: restarted" in api.get("/jobmanager/logs/driver.log").body
    assert api.get(f"/taskmanagers/{WORKER}/logs/secrets").status == 404
    assert api.get(f"/taskmanagers/{'0' * 32}/log").status == 404
