"""The service: the jobs of several drivers and of the archive at one address."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from funken import Configuration
from funken.errors import InvalidConfiguration
from funken.io.storage import LocalStorage
from funken.leaderelection.election import publish
from funken.rest import server
from funken.rest.archive import Archive, write_archive
from funken.rest.jobs import Jobs, digest
from funken.rest.service import Drivers, Leaders
from funken.rest.settings import RestSettings, ServerAddress
from funken.runtime.job.states import JobStatus
from funken.timing.clock import ManualClock
from tests.rest.conftest import JOB, FakeJob
from tests.support.asgi import Api

pytest.importorskip("uvicorn")
TOKEN = "a-token-of-some-length"


@pytest.fixture
def drivers():
    """Start drivers with jobs; each has one."""
    running = []

    def begin(job, **settings):
        running.append(server.RestServer(RestSettings(keep_seconds=0, **settings)))
        running[-1].jobs.add(job)
        return ServerAddress(1, running[-1].url, settings.get("token_file", ""))

    yield begin
    for each in running:
        each.close()


@pytest.fixture
def service(tmp_path):
    """Make the service over these addresses, and an archive with the job ``old``."""
    from funken.rest.service import service_application

    def make(*addresses, **settings):
        over = {JobStatus.CREATED: 10, JobStatus.FAILED: 20}
        old = Jobs(0).add(FakeJob(id="old", name="yesterday", state=JobStatus.FAILED, timestamps=over))
        write_archive(Configuration({"jobmanager.archive.fs.dir": tmp_path}), old, by_default=False)
        known = Drivers(lambda: list(addresses), ManualClock(0))
        return Api(service_application(known, Archive(tmp_path), RestSettings(**settings)))

    return make


def test_all_jobs_are_listed_those_that_are_over_included(drivers, service):
    api = service(drivers(FakeJob()), drivers(FakeJob(id="orders", name="orders")))

    assert {each["jid"]: each["state"] for each in api.get("/jobs/overview").json["jobs"]} == {
        JOB: "RUNNING",
        "orders": "RUNNING",
        "old": "FAILED",
    }
    assert len(api.get("/v1/jobs").json["jobs"]) == 3
    counts = api.get("/overview").json
    assert (counts["jobs-running"], counts["jobs-failed"], counts["taskmanagers"]) == (2, 1, 1)
    assert api.get("/taskmanagers").json["taskmanagers"][0]["slotsNumber"] == 8  # four subtasks of each job
    assert api.get("/config").json["features"]["web-history"] is True


def test_what_is_about_a_machine_is_answered_by_a_driver_with_tasks_there(drivers, service):
    api = service(drivers(FakeJob()), drivers(FakeJob(id="orders")))
    machine = digest("worker-1")

    assert api.get(f"/taskmanagers/{machine}").json["path"] == "worker-1"
    assert [each["name"] for each in api.get(f"/v1/taskmanagers/{machine}/logs").json["logs"]] == [
        "taskmanager.log", "taskmanager.out",
    ]  # fmt: skip
    assert api.get(f"/taskmanagers/{machine}/metrics?get=x").json == []
    assert api.get(f"/taskmanagers/{'0' * 32}/log").status == 404


def test_what_is_about_a_job_is_answered_by_its_driver(drivers, service):
    job = FakeJob()
    api = service(drivers(FakeJob(id="orders")), drivers(job))

    assert api.get(f"/jobs/{JOB}").json["name"] == "totals"
    assert api.get(f"/v1/jobs/{JOB}/metrics?get=numRestarts").json == [{"id": "numRestarts", "value": "1"}]
    begun = api.post(f"/jobs/{JOB}/savepoints", {"target-directory": "/s"})
    assert (begun.status, job.asked) == (202, [("savepoint", "/s")])
    assert api.get(f"/jobs/{JOB}/savepoints/{begun.json['request-id']}").json["status"] == {"id": "IN_PROGRESS"}
    assert api.patch(f"/jobs/{JOB}?mode=cancel").status == 202
    assert job.asked[-1] == ("cancel",)
    assert api.post(f"/jobs/{JOB}/savepoints", {"unknown": 1}).status == 400
    assert api.get(f"/jobs/{JOB}/nothing").status == 404


def test_an_archived_job_can_be_read_and_not_changed(service):
    api = service()

    assert api.get("/jobs/old").json["state"] == "FAILED"
    assert api.get("/v1/jobs/old/exceptions").json["exceptionHistory"]["entries"]
    assert api.get("/jobs/old/logs?limit=5").json["records"] == []
    assert api.patch("/jobs/old?mode=cancel").status == 409
    assert api.get("/jobs/old/nothing").status == 404
    assert api.get("/jobs/nobody").status == 404
    assert api.get("/jobs/..%2F..%2Fetc%2Fpasswd").status == 404


def test_a_driver_that_is_gone_is_left_out(drivers, service):
    api = service(ServerAddress(1, "http://127.0.0.1:1"), drivers(FakeJob()))

    assert {each["jid"] for each in api.get("/jobs/overview").json["jobs"]} == {JOB, "old"}


def test_a_driver_that_ends_in_between_is_an_error(drivers, service, monkeypatch):
    api = service(drivers(FakeJob()))
    assert api.get(f"/jobs/{JOB}").status == 200
    monkeypatch.setattr("funken.rest.client.RestClient.forward", refused)

    answer = api.get(f"/jobs/{JOB}")

    assert (answer.status, "does not answer" in answer.json["errors"][0]) == (502, True)


def refused(*_):
    from funken.errors import ServerNotReached

    raise ServerNotReached("no REST server answers")


def test_the_service_asks_for_its_own_token_and_sends_the_drivers(drivers, service, tmp_path_factory):
    token_file = tmp_path_factory.mktemp("secret") / "token"
    token_file.write_text("another-token-of-some-length")
    token_file.chmod(0o600)
    api = service(drivers(FakeJob(), token="another-token-of-some-length", token_file=str(token_file)), token=TOKEN)

    assert api.get("/jobs/overview").status == 401
    assert api.get(f"/jobs/{JOB}", authorization=f"Bearer {TOKEN}").status == 200
    assert api.get("/").status == 200  # the page, which then asks for the token


def test_pages_of_other_sites_can_change_nothing(drivers, service):
    api = service(drivers(FakeJob()))

    assert api.patch(f"/jobs/{JOB}", origin="http://evil.example").status == 403
    assert Api(api.app, host="evil.example:8081").get("/jobs").status == 403


def test_of_a_leader_and_its_standby_the_leader_is_shown(drivers, service):
    standby = FakeJob(name="standby", state=JobStatus.INITIALIZING, timestamps={JobStatus.CREATED: 5000})
    api = service(drivers(standby), drivers(FakeJob()))

    assert api.get(f"/jobs/{JOB}").json["name"] == "totals"


def test_leaders_of_other_machines_are_found_where_the_drivers_keep_their_lease(drivers, tmp_path_factory):
    from funken.rest.service import service_application

    shared = tmp_path_factory.mktemp("shared")
    secret = tmp_path_factory.mktemp("secret") / "token"
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    leader = drivers(FakeJob(), token=TOKEN, token_file=str(secret))
    publish(LocalStorage(f"{shared}/_high-availability/shop/{JOB}"), leader.url)
    conf = {"high-availability.storageDir": str(shared), "rest.authentication.token-file": str(secret)}
    clock = ManualClock(0)
    leaders = Leaders.of(Configuration(conf))
    known = Drivers(lambda: [drivers(FakeJob(id="orders"))], clock, leaders.addresses)
    api = Api(service_application(known, Archive(shared / "archive"), RestSettings()))

    assert {each["jid"] for each in api.get("/jobs/overview").json["jobs"]} == {JOB, "orders"}
    assert api.get(f"/jobs/{JOB}").json["name"] == "totals"


def test_loopback_of_another_machine_is_left_out_and_a_broken_storage_costs_a_warning(tmp_path, caplog):
    clock = ManualClock(0)
    here, elsewhere = (Leaders(str(tmp_path), clock=clock, host=host) for host in ("", "elsewhere"))
    storage = LocalStorage(f"{tmp_path}/_high-availability/shop/orders")
    publish(storage, "http://127.0.0.1:8081")
    publish(storage.at("../bills"), "http://10.0.0.7:8081")
    (tmp_path / "_high-availability/shop/bills/rest").with_name("leader").mkdir()
    storage.at("../torn").write("rest", b"{")

    assert {each.url for each in here.addresses()} == {"http://127.0.0.1:8081", "http://10.0.0.7:8081"}
    assert {each.url for each in elsewhere.addresses()} == {"http://10.0.0.7:8081"}

    broken = Leaders("nowhere://x", clock=clock)
    assert broken.addresses() == [] and broken.addresses() == []
    assert caplog.text.count("leaders of jobs cannot be looked for") == 1


def test_who_asks_while_the_storage_takes_its_time_has_the_leaders_of_before(tmp_path, monkeypatch):
    clock, asked, let_go = ManualClock(0), threading.Event(), threading.Event()
    publish(LocalStorage(f"{tmp_path}/_high-availability/shop/orders"), "http://10.0.0.7:8081")
    leaders = Leaders(str(tmp_path), clock=clock)
    before = leaders.addresses()
    assert [each.url for each in before] == ["http://10.0.0.7:8081"]

    def hangs(directory):
        asked.set()
        return let_go.wait(60) and []

    monkeypatch.setattr("funken.rest.service._LOOK_SECONDS", 0.05)
    monkeypatch.setattr("funken.rest.service.published", hangs)
    clock.advance(10_000)
    with ThreadPoolExecutor(1) as other:
        looking = other.submit(leaders.addresses)
        assert asked.wait(60)
        assert leaders.addresses() == before
        let_go.set()
        assert looking.result(60) == []
    assert leaders.addresses() == []


def test_an_election_without_a_place_to_look_is_refused():
    assert Leaders.of(Configuration()) is None
    with pytest.raises(InvalidConfiguration, match="where leaders can be found"):
        Leaders.of(Configuration({"high-availability.type": "zookeeper"}))
