"""The server of a process: a real one, on loopback, over real jobs of this process."""

import json
import logging
import multiprocessing
import os
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
import warnings
from pathlib import Path

import pytest

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.errors import RequestRejected, RestServerFailed, ServerNotReached
from funken.rest import server, serving
from funken.rest.client import RestClient
from funken.rest.settings import RestSettings, rest_settings
from funken.runtime.job.states import JobStatus

pytest.importorskip("uvicorn")

SERVED = {
    "execution.target": "local",
    "parallelism.default": 2,
    "rest.enabled": "true",
    "rest.cache.execution-graph.timeout": 0,
}
WAIT = 60


@pytest.fixture(autouse=True)
def servers(monkeypatch):
    """Servers of this test's own."""
    found = server._Servers()
    monkeypatch.setattr(server, "_servers", found)
    os.register_at_fork(after_in_child=found.forget)
    yield found
    found.close()


@pytest.fixture
def start(tmp_path):
    """Start a job that does not end by itself; it is cancelled after the test."""
    started = []

    def begin(options=None, name="endless", function=len):
        given = {"execution.checkpointing.interval": "1 h", "execution.checkpointing.dir": tmp_path / "checkpoints"}
        env = StreamExecutionEnvironment.get_execution_environment(Configuration(SERVED | given | (options or {})))
        numbers = env.from_source(DataGeneratorSource(str, None, 1000), WatermarkStrategy.no_watermarks(), "numbers")
        numbers.uid("numbers").key_by(len).map(function).uid("lengths").for_each(lambda _: None)
        started.append(env.execute_async(name))
        return started[-1]

    yield begin
    for client in started:
        client.cancel().result(timeout=WAIT)


def read(url, method="GET", data=None):
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=WAIT) as response:
        return json.load(response)


def test_a_job_on_this_process_is_served_if_that_is_wanted(start):
    client = start()
    url = client.get_web_interface_url()

    assert url.startswith("http://127.0.0.1:")
    assert read(f"{url}/jobs") == {"jobs": [{"id": client.get_job_id(), "status": "RUNNING"}]}
    vertices = read(f"{url}/jobs/{client.get_job_id()}")["vertices"]
    assert [vertex["parallelism"] for vertex in vertices] == [2, 2]


def test_jobs_of_a_process_share_a_server_and_stay_visible_when_they_are_over(start):
    one, other = start(name="one"), start(name="other")
    assert one.get_web_interface_url() == other.get_web_interface_url()

    one.cancel().result(timeout=WAIT)

    found = read(f"{other.get_web_interface_url()}/jobs/overview")["jobs"]
    assert [(job["name"], job["state"]) for job in found] == [("one", "CANCELED"), ("other", "RUNNING")]


def test_a_local_job_of_a_program_has_no_server(start):
    assert start({"rest.enabled": "auto"}).get_web_interface_url() is None


def test_a_local_job_has_a_server_at_the_port_of_its_configuration(start):
    assert start({"rest.enabled": "auto", "rest.port": 0}).get_web_interface_url().startswith("http://127.0.0.1:")
    assert start({"rest.enabled": "false", "rest.port": 0}).get_web_interface_url() is None


def test_a_local_job_goes_on_without_a_server_if_its_port_is_taken(start, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        client = start({"rest.enabled": "auto", "rest.port": taken.getsockname()[1]})

        assert client.get_web_interface_url() is None
    assert "The job goes on without a server" in caplog.text


def test_a_job_on_spark_is_served_by_default():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "batch"}))
    env.from_collection([1]).set_parallelism(1).for_each(len)

    assert env._submit("on Spark")._served is True


def test_the_address_is_logged(start, caplog):
    with caplog.at_level(logging.INFO, "funken.rest"):
        client = start(name="words")

    assert f"job 'words': REST and dashboard at {client.get_web_interface_url()}" in caplog.text


def test_a_port_that_is_taken_fails_the_job_with_its_name(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        client = start({"rest.port": port})
        error = client.get_job_execution_result().exception(timeout=WAIT)

    assert isinstance(error, RestServerFailed)
    assert f"cannot listen at port {port} of '127.0.0.1'" in str(error) and "rest.port" in str(error)


def test_of_several_ports_the_first_free_one_is_taken(start):
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        first, free = taken.getsockname()[1], other.getsockname()[1]
        other.close()
        client = start({"rest.bind-port": f"{first},{free}"})

    assert client.get_web_interface_url() == f"http://127.0.0.1:{free}"


def test_without_the_extra_a_job_runs_without_a_server(start, monkeypatch, caplog):
    monkeypatch.setattr(serving, "available", lambda: False)
    serving._tell_once.cache_clear()
    with caplog.at_level(logging.INFO, "funken.rest"):
        assert serving.serve(Configuration(), None, by_default=True) is None
        assert serving.serve(Configuration(), None, by_default=True) is None

    assert caplog.text.count("pip install 'funken[rest]'") == 1
    with pytest.raises(RestServerFailed, match="not installed"):
        serving.serve(Configuration({"rest.enabled": "true"}), None, by_default=False)


def test_a_response_does_not_wait_for_the_acknowledgement_of_its_head():
    running = server.RestServer(RestSettings())
    try:
        assert running._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    finally:
        running.close()


def test_a_closed_server_has_no_thread_and_no_port():
    running = server.RestServer(RestSettings())
    read(f"{running.url}/jobs")
    running.close()

    assert not running._thread.is_alive()
    with pytest.raises(urllib.error.URLError):
        read(f"{running.url}/jobs")


def test_a_savepoint_is_taken_and_the_job_ended_with_another(start, tmp_path):
    client = start()
    job = f"{client.get_web_interface_url()}/jobs/{client.get_job_id()}"
    body = json.dumps({"target-directory": str(tmp_path / "saved")}).encode()

    trigger = read(f"{job}/savepoints", "POST", body)["request-id"]
    path = completed(f"{job}/savepoints/{trigger}")["location"]
    assert path.startswith(str(tmp_path / "saved"))

    trigger = read(f"{job}/stop", "POST", json.dumps({"targetDirectory": str(tmp_path / "last")}).encode())[
        "request-id"
    ]
    assert completed(f"{job}/savepoints/{trigger}")["location"].startswith(str(tmp_path / "last"))
    client.get_job_execution_result().result(timeout=WAIT)
    assert read(job)["state"] == "FINISHED"
    assert read(f"{job}/checkpoints")["latest"]["savepoint"]["checkpoint_type"] == "SAVEPOINT"


@pytest.mark.parametrize("asked", ["stop", "cancel"])
def test_a_server_closes_when_the_end_of_what_was_begun_has_been_read(start, servers, asked):
    client = start()
    job = f"{client.get_web_interface_url()}/jobs/{client.get_job_id()}"
    if asked == "stop":
        trigger = read(f"{job}/stop", "POST", b"{}")["request-id"]
    else:
        read(job, "PATCH")
    client.get_job_execution_result().exception(timeout=WAIT)  # the job is over, and nobody has asked since
    closing = threading.Thread(target=servers.close)
    closing.start()
    closing.join(0.5)
    assert closing.is_alive()

    if asked == "stop":
        assert "location" in completed(f"{job}/savepoints/{trigger}")
    else:
        assert read(job)["state"] == "CANCELED"

    closing.join(WAIT)
    with pytest.raises(urllib.error.URLError):
        read(job)


def test_a_server_whose_clients_are_gone_closes_all_the_same(start, servers, monkeypatch):
    monkeypatch.setattr(server, "_READ_SECONDS", 0.1)
    client = start()
    job = f"{client.get_web_interface_url()}/jobs/{client.get_job_id()}"
    read(job, "PATCH")
    client.get_job_execution_result().exception(timeout=WAIT)

    servers.close()

    with pytest.raises(urllib.error.URLError):
        read(job)


def completed(url):
    """Wait until an operation is over."""
    turn = threading.Event()
    for _ in range(WAIT * 20):
        found = read(url)
        if found["status"]["id"] == "COMPLETED":
            return found["operation"]
        turn.wait(0.05)
    raise AssertionError(f"{url} is still in progress")


def test_a_job_that_failed_shows_the_traceback_of_the_user(start):
    def invert(text):
        return 1 // 0

    client = start(function=invert, options={"restart-strategy.type": "none"})
    assert client.get_job_execution_result().exception(timeout=WAIT) is not None

    job = f"{client.get_web_interface_url()}/jobs/{client.get_job_id()}"
    assert read(job)["state"] == JobStatus.FAILED.name
    entry = read(f"{job}/exceptions")["exceptionHistory"]["entries"][0]
    assert entry["taskName"].startswith("map") and "return 1 // 0" in entry["stacktrace"]


def test_a_client_written_for_flink_lists_inspects_saves_and_cancels(start, tmp_path, monkeypatch):
    # `make setup` puts it into a folder of its own: its wheel installs a package `tests`, which would hide ours.
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / ".venv" / "clients")
    flink = pytest.importorskip("flink_rest_client", reason="flink-rest-client is not there").FlinkRestClient
    client = start(name="totals")
    port = int(client.get_web_interface_url().rpartition(":")[2])
    rest = flink.get("127.0.0.1", port)
    job = client.get_job_id()

    assert rest.overview()["jobs-running"] == 1
    assert rest.config()["features"]["web-cancel"] is True
    assert rest.jobs.job_ids() == [job]
    assert rest.jobs.overview()[0]["name"] == "totals"
    assert rest.jobs.get(job)["state"] == "RUNNING"
    assert rest.jobs.get_config(job)["execution-config"]["job-parallelism"] == 2
    assert len(rest.jobs.get_plan(job)["nodes"]) == 2
    assert rest.jobs.get_metrics(job)["numRestarts"] == "0"
    assert rest.jobs.get_exceptions(job)["exceptionHistory"]["entries"] == []
    assert rest.jobs.get_checkpointing_configuration(job)["interval"] == 3_600_000
    assert rest.jobs.get_execution_result(job)["status"]["id"] == "IN_PROGRESS"

    vertex = rest.jobs.get_vertex(job, rest.jobs.get_vertex_ids(job)[1])
    assert vertex.details()["parallelism"] == 2
    assert vertex.backpressure()["status"] == "ok"
    assert vertex.subtasks.subtask_ids() == [0, 1]
    assert "0.numRecordsIn" in vertex.metric_names()
    assert set(vertex.subtasks.metrics(["numRecordsIn"])["numRecordsIn"]) == {"min", "max", "sum", "avg"}
    assert vertex.subtasks.get(0)["subtask"] == 0
    assert vertex.subtasktimes()["id"] == vertex.vertex_id
    assert vertex.watermarks() == []

    saved = rest.jobs.create_savepoint(job, str(tmp_path / "saved"))
    url = f"{client.get_web_interface_url()}/jobs/{job}/savepoints/{saved.trigger_id}"
    assert completed(url)["location"].startswith(str(tmp_path / "saved"))
    assert saved.status["status"]["id"] == "COMPLETED"
    checkpoint = rest.jobs.get_checkpoint_ids(job)[0]
    assert rest.jobs.get_checkpoint_details(job, checkpoint, show_subtasks=True)["is_savepoint"] is True

    machine = rest.taskmanagers.taskmanager_ids()[0]
    for _ in range(WAIT * 20):  # tasks report twice a second
        if rest.taskmanagers.get(machine)["hardware"]["cpuCores"]:
            break
        threading.Event().wait(0.05)
    assert float(rest.taskmanagers.get_metrics(machine)["Status.JVM.Memory.Heap.Used"]) > 0
    assert any("funken-job" in name for name in rest.taskmanagers.get_thread_dump(machine))
    assert rest.taskmanagers.metrics(["Status.JVM.Threads.Count"])["Status.JVM.Threads.Count"]["min"] >= 1
    assert rest.jobmanager.metrics()["numRunningJobs"] == "1"
    assert [each["name"] for each in rest.jobmanager.logs()] == ["driver.log", f"{job}.log"]
    assert "switched from CREATED to RUNNING" in rest.jobmanager.get_log(f"{job}.log")
    assert rest.jars.all()["files"] == []
    rescaled = rest.jobs.rescale(job, 1)
    assert completed(f"{client.get_web_interface_url()}/jobs/{job}/rescaling/{rescaled.trigger_id}") == {
        "parallelism": 1
    }

    assert rest.jobs.terminate(job) is True
    assert client.get_job_execution_result().exception(timeout=WAIT) is not None
    assert rest.jobs.get(job)["state"] == "CANCELED"


def test_with_tls_and_a_token_only_who_has_both_gets_an_answer(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    key, certificate, token = (tmp_path / name for name in ("key.pem", "certificate.pem", "token"))
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *subject]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=WAIT)
    token.write_text("a-token-of-some-length")
    token.chmod(0o600)
    options = {"authentication.token-file": token, "ssl.certificate": certificate, "ssl.key": key}
    running = server.RestServer(rest_settings(Configuration({f"rest.{name}": each for name, each in options.items()})))
    try:
        assert running.url.startswith("https://127.0.0.1:")
        trusted = RestClient(running.url, "a-token-of-some-length", str(certificate))
        assert trusted.get("jobs") == {"jobs": []}
        with pytest.raises(RequestRejected, match="A token is needed"):
            RestClient(running.url, "", str(certificate)).get("jobs")
        with pytest.raises(ServerNotReached, match="CERTIFICATE_VERIFY_FAILED"):
            RestClient(running.url, "a-token-of-some-length").get("jobs")
        with pytest.raises(ServerNotReached):
            RestClient(running.url.replace("https", "http")).get("jobs")
    finally:
        running.close()


def test_a_certificate_that_cannot_serve_is_refused_before_a_job_begins(tmp_path, start, certificate_in):
    good, key = certificate_in(tmp_path, "good", 30)
    expired, expired_key = certificate_in(tmp_path, "expired", -1)
    locked, locked_key = certificate_in(tmp_path, "locked", 30)
    (tmp_path / "text.pem").write_text("no certificate")

    def refused(certificate, key):
        with pytest.raises(RestServerFailed) as error:
            rest_settings(Configuration({"rest.ssl.certificate": certificate, "rest.ssl.key": key}))
        return str(error.value)

    assert rest_settings(Configuration({"rest.ssl.certificate": good, "rest.ssl.key": key})).scheme == "https"
    assert "certificate has expired" in refused(expired, expired_key)
    assert "KEY_VALUES_MISMATCH" in refused(good, expired_key)
    assert "TLS is not possible" in refused(locked, locked_key)
    assert "TLS is not possible" in refused(tmp_path / "text.pem", key)
    failed = start({"rest.ssl.certificate": expired, "rest.ssl.key": expired_key})
    assert "certificate has expired" in str(failed.get_job_execution_result().exception(WAIT))


def test_a_certificate_that_expires_meanwhile_is_an_error_of_the_client(tmp_path, monkeypatch, certificate_in):
    certificate, key = certificate_in(tmp_path, "expired", -1)
    running = server.RestServer(RestSettings(certificate=str(certificate), key=str(key)))
    try:
        with pytest.raises(ServerNotReached, match="certificate has expired"):
            RestClient(running.url.replace("127.0.0.1", "localhost"), "", str(certificate)).get("jobs")
    finally:
        running.close()


def test_a_fork_has_a_server_of_its_own(start, servers):
    url = start().get_web_interface_url()
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def child():
        found = servers.get(RestSettings())
        sender.send((found.url, read(f"{found.url}/jobs")))

    process = multiprocessing.get_context("fork").Process(target=child)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process that has threads
        process.start()
    assert receiver.poll(WAIT)
    forked, jobs = receiver.recv()
    process.join(WAIT)

    assert (forked != url, jobs) == (True, {"jobs": []})
    assert len(read(f"{url}/jobs")["jobs"]) == 1
