"""Webhooks, pages and WebSockets against servers of the test's own, which answer what they are told to."""

import json
import threading
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from funken import StreamExecutionEnvironment
from funken.connectors import CommitRequest, ConnectorContext, DeliveryGuarantee
from funken.connectors import http as feeds
from funken.connectors import http as http_service
from funken.connectors.base import CommitterContext
from funken.connectors.http import HttpSource, WebhookSink, WebSocketSource, json_lines
from funken.errors import InvalidConfiguration, OperatorFailed, SinkNotWritable, SourceNotReadable
from funken.testing import check_sink, check_source, local

websockets_server = pytest.importorskip("websockets.sync.server", reason="install it with: pip install 'funken[http]'")
pytest.importorskip("urllib3", reason="install it with: pip install 'funken[http]'")
pytestmark = pytest.mark.timeout(120)
EXACTLY_ONCE = DeliveryGuarantee.EXACTLY_ONCE


class Service:
    """Keeps the requests; ``answers`` are statuses to be given first, ``pages`` bodies by path."""

    def __init__(self):
        self.requests, self.answers, self.pages, self.by_key = [], [], {}, {}
        self.more = {"Retry-After": "0"}
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status = 200 if self.command == "OPTIONS" else service.answers.pop(0) if service.answers else 200
                service.requests.append((self.command, self.path, body, dict(self.headers)))
                if status == 200 and self.command == "POST":
                    service.by_key.setdefault(self.headers.get("Idempotency-Key") or len(service.by_key), body)
                answer = json.dumps(service.pages.get(self.path, "said")).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                for name, value in service.more.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET = do_OPTIONS = handle_one

            def log_message(self, *given):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def posted(self):
        return [body for method, _, body, _ in self.requests if method == "POST"]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def service():
    made = Service()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch):
    monkeypatch.setattr(http_service, "_PAUSE_S", 0.001)
    monkeypatch.setattr(feeds, "_FIRST_PAUSE_S", 0.001)


# ---- webhooks


def test_records_are_sent_in_batches_with_headers(service):
    records = local(list(range(5)))
    records.sink_to(
        WebhookSink(f"{service.url}/hook?token=x", json_lines, batch_size=2, headers={"Authorization": "me"})
    )
    records.get_execution_environment().execute()
    assert sorted(b"".join(service.posted()).split()) == [b"0", b"1", b"2", b"3", b"4"]
    assert max(body.count(b"\n") for body in service.posted()) == 2
    method, path, _, headers = service.requests[-1]
    assert (method, path, headers["Authorization"]) == ("POST", "/hook?token=x", "me")


def writer(service, **more):
    return WebhookSink(f"{service.url}/hook?token=secret", **more).writer(ConnectorContext("out", 1))


def test_a_request_is_repeated_where_that_may_help(service):
    service.answers = [503, 429, 500]
    writer(service).write([1, 2], None, 0)
    assert service.posted() == [b"[1, 2]"] * 4


@pytest.mark.parametrize(
    ("status", "remedy"), [(404, "correct the address"), (401, "correct the credentials"), (418, "see")]
)
def test_an_error_is_told_with_the_answer_and_without_secrets(service, status, remedy):
    service.answers = [status]
    with pytest.raises(
        SinkNotWritable,
        match=f"operator 'out': POST {service.url}/hook was answered with {status} '\"said\"'; {remedy}",
    ) as told:
        writer(service).write([1], None, 0)
    assert "secret" not in str(told.value)
    assert len(service.posted()) == 1


def test_a_service_that_stays_away_is_told(service):
    service.answers = [503] * 99
    with pytest.raises(SinkNotWritable, match="answered with 503"):
        writer(service).write([1], None, 0)
    assert len(service.posted()) == http_service.TRIES
    service.close()
    with pytest.raises(SinkNotWritable, match=r"was not answered \(NewConnectionError\); start the service"):
        writer(service).write([1], None, 0)
    with pytest.raises(SinkNotWritable, match="start the service"):
        WebhookSink(service.url).check()


def test_exactly_once_needs_no_more_than_a_service_that_honours_the_key(service):
    sink = WebhookSink(service.url, batch_size=2, guarantee=EXACTLY_ONCE)
    staged = sink.writer(ConnectorContext("out"))
    staged.write([1, 2, 3], None, 0)
    assert service.posted() == []
    [bodies] = staged.prepare_commit(7, end_of_input=False)
    assert staged.prepare_commit(8, end_of_input=False) == []
    committer = sink.committer(CommitterContext("out"))
    for _ in range(2):
        committer.commit([CommitRequest(bodies, job_id="a job", operator_uid="out", subtask=1, checkpoint_id=7)])
    committer.close()
    places = {key.rpartition("/")[0].rpartition("/")[0] for key in service.by_key}
    assert (places, list(service.by_key.values())) == ({"a%20job/out/1/7"}, [b"[1, 2]", b"[3]"])
    assert len(service.posted()) == 4


def test_a_later_run_with_the_same_job_id_has_other_keys(service):
    sink = WebhookSink(service.url, guarantee=EXACTLY_ONCE)
    committer = sink.committer(CommitterContext("out"))
    for record in (1, 2):
        staged = sink.writer(ConnectorContext("out"))
        staged.write([record], None, 0)
        [bodies] = staged.prepare_commit(None, end_of_input=True)
        committer.commit([CommitRequest(bodies, job_id="nightly", operator_uid="out")])
    committer.close()
    assert list(service.by_key.values()) == [b"[1]", b"[2]"]


def test_a_service_cannot_make_a_task_wait_for_hours(service, monkeypatch):
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    for asked in ("86400", "Wed, 01 Jan 2098 00:00:00 GMT", "soon"):
        service.answers, service.more = [503], {"Retry-After": asked}
        writer(service).write([1], None, 0)
    assert sum(pause == 60 for pause in pauses) == 2
    assert max(pauses) == 60


def test_another_host_does_not_see_the_headers(service):
    other = Service()
    try:
        service.answers, service.more = [307], {"Location": f"{other.url}/taken"}
        writer(service, headers={"X-Api-Key": "secret", "Content-Type": "text/plain"}).write([1], None, 0)
        [(method, path, body, headers)] = other.requests
        assert (method, path, body, headers["Content-Type"]) == ("POST", "/taken", b"[1]", "text/plain")
        assert "X-Api-Key" not in headers
    finally:
        other.close()


@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_webhook_keeps_the_contract(service, guarantee):
    def make(seed):
        service.by_key.clear()
        return WebhookSink(service.url, batch_size=7, guarantee=guarantee), partial(received, service)

    check_sink(make, seeds=8, exactly_once=guarantee is EXACTLY_ONCE)


def received(service):
    return [record for body in list(service.by_key.values()) for record in json.loads(body)]


def test_configuration_is_checked():
    for wrong in ("hooks.example", "ftp://hooks.example", "http://:80", "http://a:x"):
        with pytest.raises(InvalidConfiguration, match="begins with http"):
            WebhookSink(wrong)
    with pytest.raises(InvalidConfiguration, match="batch of 0"):
        WebhookSink("http://hooks.example", batch_size=0)
    with pytest.raises(InvalidConfiguration, match="ws://"):
        WebSocketSource("http://feed.example")
    with pytest.raises(InvalidConfiguration, match="starts"):
        HttpSource(str, json.loads, starts=[])


# ---- pages


def page_of(url, cursor):
    return f"{url}/{cursor}"


def parse(body):
    page = json.loads(body)
    return page["items"], page["next"]


def pages(service, name, count, size=7):
    """Pages of a list of numbers."""
    for first in range(0, count, size):
        items = [f"{name}{n}" for n in range(first, min(first + size, count))]
        following = f"{name}-{first + size}" if first + size < count else None
        service.pages[f"/{name}-{first}"] = {"items": items, "next": following}
    return [f"{name}{n}" for n in range(count)]


def test_a_bounded_source_of_pages_keeps_the_contract(service):
    expected = pages(service, "a", 40) + pages(service, "b", 3) + pages(service, "c", 30, size=1)
    source = HttpSource(partial(page_of, service.url), parse, starts=["a-0", "b-0", "c-0"], bounded=True)
    check_source(source, expected, seeds=10)


def test_an_unbounded_source_of_pages_keeps_the_contract(service):
    expected = pages(service, "a", 20) + pages(service, "b", 9)
    source = HttpSource(partial(page_of, service.url), parse, starts=["a-0", "b-0"], interval=1)
    check_source(source, expected, seeds=5)


def test_a_last_page_that_grows_is_read_on(service):
    pages(service, "a", 3)
    source = HttpSource(partial(page_of, service.url), parse, starts=["a-0"], interval=1)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    with env.from_source(source).execute_and_collect() as results:
        found = [next(results) for _ in range(3)]
        pages(service, "a", 9)
        found += [next(results) for _ in range(6)]
    assert found == [f"a{n}" for n in range(9)]


def test_a_page_that_cannot_be_read_fails_the_job_with_the_answer(service):
    service.answers = [403]
    source = HttpSource(partial(page_of, service.url), parse, starts=["a"])
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    with pytest.raises(SourceNotReadable, match=r"GET http://.*/a was answered with 403 .*credentials"):
        env.from_source(source).execute_and_collect(limit=1)


def test_what_a_parser_raises_has_its_own_traceback(service):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    with pytest.raises(OperatorFailed, match=r"(?s)in parse.*TypeError"):
        env.from_source(HttpSource(partial(page_of, service.url), parse, starts=["a"])).execute_and_collect(limit=1)


# ---- WebSockets


class Feed:
    """A server; ``serve(connection)`` is called for each connection."""

    def __init__(self, serve):
        self.connections = 0

        def handler(connection):
            self.connections += 1
            serve(self.connections, connection)

        self._server = websockets_server.serve(handler, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}/?token=secret"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *given):
        self._server.shutdown()
        self._thread.join(10)


def collected(source, limit=99):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    return env.from_source(source).execute_and_collect(limit=limit)


def test_messages_come_after_the_subscription_until_the_server_closes():
    def serve(number, connection):
        topic = connection.recv(timeout=10)
        for n in range(3000):
            connection.send(f"{topic} {n}")
        connection.send(b"\x00")

    with Feed(serve) as feed:
        found = collected(WebSocketSource(feed.url, ["trades"], max_retries=0), limit=9999)
    assert found == [*(f"trades {n}" for n in range(3000)), b"\x00"]


def test_it_connects_again_and_subscribes_again():
    def serve(number, connection):
        connection.send(f"{connection.recv(timeout=10)} {number}")
        if number < 4:
            connection.socket.close()  # without a word
        else:
            connection.recv(timeout=60)

    with Feed(serve) as feed:
        assert Counter(collected(WebSocketSource(feed.url, ["a"], max_retries=3), limit=4)) == Counter(
            ["a 1", "a 2", "a 3", "a 4"]
        )


def test_a_feed_that_is_not_there_is_told_without_its_token():
    with Feed(lambda number, connection: None) as feed:
        url = feed.url
    with pytest.raises(SourceNotReadable, match="Start the server, correct the address") as told:
        collected(WebSocketSource(url, max_retries=2))
    assert "secret" not in str(told.value)
