"""What a snapshot looks like in Flink's REST API."""

from dataclasses import replace

import pytest

from funken.errors import RequestRejected
from funken.rest.views import checkpoints, jobs, metrics, vertices
from funken.runtime.job.snapshot import CheckpointStats
from funken.runtime.job.states import ExecutionState, JobStatus
from tests.rest.conftest import JOB, picture, subtask

SOURCE, SUMS = (jobs.vertex_id(info) for info in picture().graph.vertices)


def test_the_overview_counts_tasks_by_state():
    found = jobs.overview_entry(picture())

    assert (found["jid"], found["state"], found["start-time"], found["end-time"]) == (JOB, "RUNNING", 1000, -1)
    assert (found["duration"], found["last-modification"]) == (9000, 1500)
    assert found["tasks"] | {"total": 4, "running": 4, "failed": 0, "reconciling": 0} == found["tasks"]


def test_details_have_vertices_with_sums_of_their_subtasks():
    found = jobs.details(picture())

    assert [vertex["name"] for vertex in found["vertices"]] == ["numbers", "sums -> print"]
    assert found["vertices"][0]["metrics"]["read-records"] == 100
    assert (found["vertices"][0]["start-time"], found["vertices"][0]["duration"]) == (1000, 9000)
    assert found["timestamps"]["RUNNING"] == 1500
    assert found["timestamps"]["FAILED"] == 0


def test_the_plan_names_the_inputs_of_each_vertex():
    nodes = jobs.plan(picture())["plan"]["nodes"]

    assert [node["id"] for node in nodes] == [SOURCE, SUMS]
    assert nodes[0]["inputs"] == []
    assert nodes[1]["inputs"] == [{"num": 0, "id": SOURCE, "ship_strategy": "HASH", "exchange": "pipelined_bounded"}]


def test_the_ids_of_vertices_do_not_depend_on_the_run():
    assert [jobs.vertex_id(info) for info in picture(id="other", attempt=3).graph.vertices] == [SOURCE, SUMS]


def test_a_job_id_that_does_not_fit_into_an_address_is_replaced():
    assert len(jobs.details(picture(id="a/b"))["jid"]) == 32


def test_the_configuration_has_no_secrets():
    found = jobs.configuration(picture())

    assert found["configuration"]["s3.secret-key"] == "******"
    assert found["execution-config"]["object-reuse-mode"] is True


def test_exceptions_have_the_traceback_of_the_user():
    found = jobs.exceptions(picture(failure_count=3), 20)

    assert found["exceptionHistory"]["truncated"] is True
    entry = found["exceptionHistory"]["entries"][0]
    assert (entry["taskName"], entry["location"], entry["timestamp"]) == ("sums (1)", "worker-1", 6000)
    assert entry["stacktrace"] == "operator 'sums' failed\n\nTrace\nboom"


def test_the_result_of_a_job_that_failed_names_the_cause():
    assert jobs.execution_result(picture()) == {"status": {"id": "IN_PROGRESS"}}

    ended = picture(state=JobStatus.FAILED, timestamps={JobStatus.CREATED: 1000, JobStatus.FAILED: 3000})
    found = jobs.execution_result(ended)["job-execution-result"]

    assert (found["application-status"], found["net-runtime"]) == ("FAILED", 2000)
    assert "boom" in found["failure-cause"]["stack-trace"]


def test_a_vertex_lists_its_subtasks():
    found = vertices.details(picture(), SUMS)["subtasks"]

    assert [(each["subtask"], each["status"], each["host"]) for each in found] == [
        (0, "RUNNING", "worker-1"),
        (1, "RUNNING", "worker-1"),
    ]
    assert found[0]["status-duration"] == {"CREATED": 10, "SCHEDULED": 490, "RUNNING": 8500}


def test_a_subtask_that_ended_has_an_end():
    times = {ExecutionState.CREATED: 1000, ExecutionState.FAILED: 1800}
    job = picture()
    start, end, duration = jobs.times_of(job, [subtask(0, ExecutionState.FAILED, times)])

    assert (start, end, duration) == (1000, 1800, 800)
    assert jobs.times_of(job, [subtask(0, ExecutionState.FAILED, times), subtask(1)])[1] == -1


@pytest.mark.parametrize(
    "ask",
    [
        lambda job: vertices.details(job, "0" * 32),
        lambda job: vertices.subtask_details(job, SUMS, 2),
        lambda job: vertices.subtask_details(job, SUMS, 0, attempt=9),
        lambda job: metrics.of_subtasks(job, SUMS, None, None, [5]),
        lambda job: checkpoints.details(job, 99),
    ],
)
def test_what_is_not_there_is_rejected(ask):
    with pytest.raises(RequestRejected) as error:
        ask(picture())

    assert error.value.status == 404


def test_back_pressure_has_levels_and_ratios():
    found = vertices.back_pressure(picture(), SOURCE)

    assert found["backpressure-level"] == "high"
    assert found["bottlenecks"] == []
    assert [(each["ratio"], each["backpressureLevel"]) for each in found["subtasks"]] == [(0.7, "high"), (0.05, "ok")]


def test_a_source_shows_the_watermark_of_its_output():
    assert vertices.watermarks(picture(), SOURCE) == [
        {"id": "0.currentInputWatermark", "value": "900"},
        {"id": "1.currentInputWatermark", "value": "800"},
    ]


def test_metrics_are_listed_and_then_read():
    names = [each["id"] for each in metrics.of_vertex(picture(), SUMS, None)]

    assert "0.numRecordsIn" in names and "0.sums.late" in names and "0.sums.orders.rate" in names
    assert metrics.of_vertex(picture(), SUMS, ["1.numRecordsIn", "nothing"]) == [
        {"id": "1.numRecordsIn", "value": "40"}
    ]
    assert metrics.of_job(picture(), ["numRestarts"]) == [{"id": "numRestarts", "value": "1"}]
    assert metrics.of_one_subtask(picture(), SUMS, 0, ["sums.late"]) == [{"id": "sums.late", "value": "2"}]


def test_metrics_are_aggregated_over_subtasks():
    assert metrics.of_subtasks(picture(), SUMS, ["numRecordsIn"], ["sum", "max"], None) == [
        {"id": "numRecordsIn", "max": 60.0, "sum": 100.0}
    ]
    assert metrics.of_subtasks(picture(), SUMS, ["numRecordsIn"], ["sum"], [1])[0]["sum"] == 40.0


def test_checkpoints_have_counts_summary_and_history():
    found = checkpoints.statistics(picture())

    assert found["counts"] == {"restored": 1, "total": 7, "in_progress": 1, "completed": 5, "failed": 1}
    assert found["summary"]["state_size"]["max"] == 175
    assert [(each["id"], each["className"]) for each in found["history"]] == [
        (9, "in_progress"),
        (8, "failed"),
        (7, "completed"),
    ]
    assert found["history"][1]["failure_message"] == "timed out"
    assert found["latest"]["completed"]["external_path"] == "/c/chk-7"
    assert [each.get("discarded") for each in found["history"]] == [None, True, False]
    assert found["latest"]["restored"]["is_savepoint"] is True
    assert found["latest"]["savepoint"] is None


def test_a_checkpoint_whose_files_are_deleted_says_so():
    job = picture()
    gone = tuple(replace(each, discarded=True) for each in job.checkpoints.history)
    found = checkpoints.statistics(replace(job, checkpoints=replace(job.checkpoints, history=gone)))

    assert (found["history"][2]["external_path"], found["history"][2]["discarded"]) == ("/c/chk-7", True)


def test_a_checkpoint_is_shown_by_vertex_and_by_subtask():
    tasks = checkpoints.details(picture(), 7)["tasks"]
    parts = checkpoints.subtasks(picture(), 7, SUMS)

    assert (tasks[SOURCE]["state_size"], tasks[SOURCE]["num_acknowledged_subtasks"]) == (150, 2)
    assert [part["status"] for part in parts["subtasks"]] == ["completed", "pending_or_failed"]
    assert parts["subtasks"][0]["unaligned_checkpoint"] is True
    assert checkpoints.subtasks(picture(), 7, SOURCE)["summary"]["alignment"]["duration"]["max"] == 2


def test_the_options_of_checkpoints_include_defaults():
    found = checkpoints.configuration(picture())

    assert (found["interval"], found["mode"], found["timeout"]) == (5000, "exactly_once", 600_000)


def test_a_vertex_has_figures_over_its_subtasks():
    found = vertices.details(picture(), SUMS)["aggregated"]

    assert found["metrics"]["read-records"] == {
        "min": 40, "max": 60, "avg": 50, "sum": 100, "median": 60, "p25": 40, "p75": 60, "p95": 60,
    }  # fmt: skip
    assert found["status-duration"]["RUNNING"]["min"] == 8500
    assert set(found["status-duration"]) == {state.name for state in ExecutionState}


def test_the_time_that_is_neither_busy_nor_back_pressured_is_idle():
    job = picture()
    job = replace(
        job,
        vertices=(
            replace(job.vertices[0], subtasks=(subtask(0, busy_ms=2000.0, back_pressured_ms=500.0), subtask(1))),
            job.vertices[1],
        ),
    )

    metrics = jobs.details(job)["vertices"][0]["metrics"]

    assert metrics["accumulated-idle-time"] == (8500 - 2500) + 8500  # it has run from 1,500 to 10,000
    assert metrics["accumulated-busy-time"] == 2000


def waiting(age, last=50):
    """A job whose third checkpoint has been under way for so long; the one before it took ``last``."""
    job = picture()
    done = replace(job.checkpoints.latest_completed, ended=job.checkpoints.latest_completed.triggered + last)
    begun = CheckpointStats(8, "checkpoint", "IN_PROGRESS", job.taken - age, 4, 1, held_up_by=((1, 0), (1, 1)))
    return replace(job, checkpoints=replace(job.checkpoints, latest_completed=done, history=(begun, done)))


def test_a_checkpoint_that_takes_long_is_told_with_those_whom_it_waits_for():
    assert waiting(9_000).stuck_checkpoints() == []
    assert waiting(12_000).stuck_checkpoints() == ["checkpoint 8 has waited 12 s for sums -> print (subtasks 0 and 1)"]
    assert waiting(12_000, last=7_000).stuck_checkpoints() == []
    assert waiting(12_000).to_dict()["stuck_checkpoints"] == waiting(12_000).stuck_checkpoints()
    assert checkpoints.details(waiting(12_000), 8)["held-up-by"] == [
        {"vertex": SUMS, "name": "sums -> print", "subtasks": [0, 1]}
    ]
    assert checkpoints.details(waiting(12_000), 7)["held-up-by"] == []
