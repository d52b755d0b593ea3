"""Drive Flink's own dashboard over a job of Funken, in Chromium: every page and every action, no error, no failed call.

The dashboard's files are in the Maven artefact flink-runtime-web, which is downloaded once into the user's cache. A small server
puts them in front of the REST API of a job that runs in this process. Needs Chromium and the package playwright.

    python scripts/flink_dashboard.py 1.20.3 2.3.0 [--pictures FOLDER]

Prints what failed, and ends with 1 if anything did.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import mimetypes
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from funken import Configuration, DataGeneratorSource, JobClient, StreamExecutionEnvironment, WatermarkStrategy
from funken.io.temporary import cache_folder
from funken.rest.client import RestClient

ARTEFACT = "https://repo1.maven.org/maven2/org/apache/flink/flink-runtime-web/{0}/flink-runtime-web-{0}.jar"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
JOB_TABS = ("overview", "exceptions", "timeline", "dataskew", "checkpoints", "configuration")
VERTEX_TABS = (
    "detail", "subtasks", "taskmanagers", "watermarks", "accumulators", "backpressure", "metrics", "flamegraph",
)  # fmt: skip
MACHINE_TABS = ("metrics", "logs", "stdout", "log-list", "thread-dump", "profiler")
CHECKPOINT_TABS = ("Overview", "History", "Summary", "Configuration")
GAVE_UP = "Job failed during initialization"
"""What the dashboard shows in place of a job that it does not understand."""
WAIT_MS = 15_000
_SETTLE_MS = 700
_ZOOM_MS = 4000


def static_files(version: str) -> dict[str, bytes]:
    """Return the files of the dashboard of a version, by path."""
    folder = cache_folder() or Path(tempfile.gettempdir())
    jar = folder / "flink-runtime-web" / f"{version}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(ARTEFACT.format(version), timeout=120) as answer:
            jar.write_bytes(answer.read())
    with zipfile.ZipFile(io.BytesIO(jar.read_bytes())) as archive:
        names = [each for each in archive.namelist() if each.startswith("web/") and not each.endswith("/")]
        return {f"/{name.removeprefix('web/')}": archive.read(name) for name in names}


class Front(ThreadingHTTPServer):
    """Serves files, and passes everything else on to a REST server; ``calls`` has what was asked of that one."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes], url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.rest = RestClient(url)
        self.calls: list[tuple[str, str, int]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where the dashboard is."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Front
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        content = self.server.files.get("/index.html" if path == "/" else path)
        if content is not None and self.command == "GET":
            self._send(200, mimetypes.guess_type(path)[0] or "text/html", content)
            return
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        kind = self.headers.get("content-type") or "application/json"
        status, kind, found = self.server.rest.forward(self.command, self.path, body, kind)
        self.server.calls.append((self.command, self.path, status))
        self._send(status, kind, found)

    def _send(self, status: int, kind: str, content: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # the page was left meanwhile
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer


def start_job(folder: str, name: str) -> JobClient:
    """Start a job of three vertices that fails once, logs, prints, and makes checkpoints."""
    conf = Configuration(
        {
            "execution.target": "local", "parallelism.default": 2, "rest.enabled": True, "pipeline.name": name,
            "execution.checkpointing.interval": 1000, "execution.checkpointing.dir": folder,
            "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 3,
            "restart-strategy.fixed-delay.delay": "100 ms", "taskmanager.system-out.mode": "log",
        }
    )  # fmt: skip
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, at: n)
    numbers = env.from_source(DataGeneratorSource(int, None, 500), watermarks, "numbers").uid("numbers")
    begun, failed = time.monotonic(), Path(folder, "failed")

    def check(number: int) -> int:
        if number % 1000 == 999 and time.monotonic() > begun + 3 and not failed.exists():
            failed.touch()
            raise ValueError("a price is missing")
        time.sleep(0.0005)
        return number

    checked = numbers.map(check).name("check").uid("check")
    checked.key_by(lambda n: n % 7).sum().uid("sums").name("sums").for_each(
        lambda n: n % 5000 or logging.getLogger("shop").warning("a sum of %d", n)
    )
    return env.execute_async(name)


class Walk:
    """One browser page that goes everywhere, and what went wrong on its way."""

    def __init__(self, page: Any, front: Front, pictures: Path | None) -> None:
        self.page = page
        self._front = front
        self._pictures = pictures
        self._place = ""
        self.visited: list[str] = []
        self.problems: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.set_default_navigation_timeout(4 * WAIT_MS)
        page.on("pageerror", lambda error: self._problem(f"exception: {error}"))
        page.on("console", lambda message: message.type == "error" and self._problem(f"console: {message.text}"))
        page.on("requestfailed", self._gave_up)
        page.on("response", lambda answer: answer.status >= 400 and self._problem(f"{answer.status} {answer.url}"))

    def _problem(self, text: str) -> None:
        self.problems.append(f"{self._place}: {text}")
        print(self.problems[-1], file=sys.stderr, flush=True)

    def _gave_up(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page itself gives a call up when it is left
            self._problem(f"{request.failure} {request.url}")

    def visit(self, route: str, expected: str | None = None) -> None:
        """Go to a page, wait until its calls are answered, and check that the dashboard has not gone elsewhere."""
        self._place = route
        self.visited.append(route)
        self.page.goto(f"{self._front.url}/#/{route}")
        self.settle(expected)
        if self.page.get_by_text(GAVE_UP).count():
            self._problem(f"shows {GAVE_UP!r}")
        if f"#/{route}" not in self.page.url:
            self._problem(f"the dashboard went to {self.page.url}")
        self.shoot(route)

    def settle(self, expected: str | None = None) -> None:
        """Wait until the page stands still, and shows a text."""
        self.page.wait_for_timeout(_SETTLE_MS)
        if expected is not None:
            try:
                self.page.get_by_text(expected).first.wait_for(state="visible")
            except Exception as error:  # noqa: BLE001 - whatever playwright raises
                self._problem(f"does not show {expected!r}: {str(error).splitlines()[0]}")

    def click(self, what: str, locator: Any, expected: str | None = None) -> None:
        """Do what a user does on the page."""
        self._place = f"{self._place.partition(' > ')[0]} > {what}"
        self.visited.append(self._place)
        try:
            locator.first.click()
        except Exception as error:  # noqa: BLE001 - as above
            self._problem(f"cannot be done: {str(error).splitlines()[0]}")
            return
        self.settle(expected)
        self.shoot(self._place)

    def shoot(self, name: str) -> None:
        """Keep a picture, if pictures are wanted."""
        if self._pictures is not None:
            safe = "".join(each if each.isalnum() else "-" for each in name)
            self.page.screenshot(path=self._pictures / f"{len(self.visited):03}-{safe[:80]}.png")


def walk_job(walk: Walk, kind: str, job: str, vertices: list[str]) -> None:
    """Visit every page of a job."""
    for tab in JOB_TABS:
        walk.visit(f"job/{kind}/{job}/{tab}")
        if tab == "overview":
            walk.page.wait_for_timeout(
                _ZOOM_MS
            )  # the graph is zoomed, which fails on a page that is not shown any more
        if tab == "checkpoints":
            inner = walk.page.locator("flink-job-checkpoints")
            for each in CHECKPOINT_TABS:
                walk.click(each, inner.locator(".ant-tabs-tab", has_text=each))
                if each == "History":
                    walk.click("a checkpoint", inner.locator("tbody .ant-table-row-expand-icon:visible"))
    for vertex in vertices:
        walk.visit(f"job/{kind}/{job}/overview")  # the drawer is closed: from one vertex to the next it fails by itself
        for tab in VERTEX_TABS:
            walk.visit(f"job/{kind}/{job}/overview/{vertex}/{tab}")
            if tab == "flamegraph" and kind == "running":
                walk.page.wait_for_timeout(4000)
                for each in ("On-CPU", "Off-CPU", "Mixed"):
                    walk.click(each, walk.page.locator("label", has_text=each))


def walk_everything(walk: Walk, version: str, client: JobClient, rest: RestClient) -> None:
    """Visit every page and do everything that the dashboard offers; ends the job."""
    job = client.get_job_id()
    vertices = [each["id"] for each in rest.get("jobs", job)["vertices"]]
    walk.visit("overview", "Running Job")
    walk.visit("job/running")
    walk.visit("job/completed")
    if not version.startswith("1."):
        application = rest.get("applications", "overview")["applications"][0]["id"]
        for route in ("running", "completed", f"running/{application}/overview", f"running/{application}/exceptions"):
            walk.visit(f"application/{route}")
    walk_job(walk, "running", job, vertices)
    walk.visit("task-manager")
    machine = rest.get("taskmanagers")["taskmanagers"][0]["id"]
    for tab in MACHINE_TABS:
        walk.visit(f"task-manager/{machine}/{tab}")
    for name in ("taskmanager.log", "taskmanager.out"):
        walk.visit(f"task-manager/{machine}/log-list/{name}")
    for tab in ("metrics", "config", "logs", "stdout", "log", "thread-dump", "profiler"):
        walk.visit(f"job-manager/{tab}")
    for name in ("driver.log", f"{job}.log"):
        walk.visit(f"job-manager/log/{name}")
    walk.visit(f"job/running/{job}/overview")
    walk.click("cancel", walk.page.get_by_text("Cancel Job"))
    walk.click("confirm", walk.page.get_by_role("button", name="Yes"))
    deadline = time.monotonic() + 30
    while client.get_job_status().result().name != "CANCELED" and time.monotonic() < deadline:
        walk.page.wait_for_timeout(200)
    if client.get_job_status().result().name != "CANCELED":
        walk.problems.append("Cancel Job: the job still runs after 30 s")
    walk_job(walk, "completed", job, vertices[:1])


def drive(version: str, pictures: Path | None) -> list[str]:
    """Run a job, go through the dashboard of a version, and return what failed."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only here

    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        client = start_job(folder, f"acceptance of {version}")
        url = client.get_web_interface_url()
        assert url is not None
        front, rest = Front(static_files(version), url), RestClient(url)
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        walk = Walk(browser.new_page(viewport={"width": 1440, "height": 900}), front, pictures)
        try:
            walk_everything(walk, version, client, rest)
        finally:
            client.cancel().result(timeout=60)
            browser.close()
            front.shutdown()
    failed = [f"{method} {path}: {status}" for method, path, status in front.calls if status >= 400]
    paths = {(method, path.partition("?")[0]) for method, path, _ in front.calls}
    print(
        f"{version}: {len(walk.visited)} pages and actions, {len(front.calls)} calls of {len(paths)} paths, "
        f"{len(walk.problems)} problems, {len(failed)} failed calls"
    )
    return [*walk.problems, *dict.fromkeys(failed)]


def main() -> int:
    """Drive the dashboards of the versions that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=["1.20.3", "2.3.0"])
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    problems = []
    for version in options.versions:
        pictures = None if options.pictures is None else options.pictures / version
        problems += [f"{version} {each}" for each in drive(version, pictures)]
    for each in problems:
        print(each)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
