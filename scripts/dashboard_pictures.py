"""Take pictures of every page of the dashboard in Chromium, at three widths, empty, loading, failing, small and large.

    python scripts/dashboard_pictures.py FOLDER [--only TEXT] [--widths 1440,1024,390] [--dark]

Needs Playwright's Python package and a Chromium of the system. Exits with 1 if a page logs an error, scrolls sideways, or has
text that leaves its box. The pictures are for looking at; they do not belong into the repository.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from funken import Configuration, DataGeneratorSource, JobClient, StreamExecutionEnvironment, WatermarkStrategy
from funken.rest.server import RestServer
from funken.rest.settings import RestSettings
from tests.rest import pictures
from tests.rest.conftest import JOB

TABS = (
    "graph",
    "plan",
    "metrics",
    "checkpoints",
    "exceptions",
    "logs",
    "flame",
    "timeline",
    "machines",
    "configuration",
)
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
HEIGHTS = {1440: 900, 1024: 768, 390: 844}
EXPECTED = ("404", "401", "Failed to load", "503")
"""What Chromium logs of answers that a page expects."""
OVERFLOW = """() => {
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const found = wide > 0 ? [`scrolls sideways by ${wide} px`] : [];
  for (const node of document.querySelectorAll("button, .state, h1, h2, .tabs a"))
    if (node.scrollWidth > node.clientWidth + 1 && node.clientWidth)
      found.push(`${node.textContent.slice(0, 30)} leaves its box`);
  for (const bar of document.querySelectorAll(".loadbar")) {
    const whole = bar.getBoundingClientRect().width;
    const parts = [...bar.children].reduce((total, part) => total + part.getBoundingClientRect().width, 0);
    if (Math.abs(whole - parts) > 1) found.push(`a bar of ${Math.round(parts)} px is shown in ${Math.round(whole)}`);
  }
  return found;
}"""


@dataclass
class Page:
    """A page to be drawn: a job, a tab, what is done before the picture, what is answered in the place of the server."""

    name: str
    address: str
    job: Callable[[], Any] | None = None
    before: Callable[[Any], None] | None = None
    answers: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    lost: bool = False


def pages() -> Iterator[Page]:
    """Yield all pages."""
    yield Page("jobs-none", "#/")
    yield Page("jobs", "#/", pictures.busy_job)
    yield Page("token", "#/", pictures.busy_job, settings={"token": "a-token-of-some-length"})
    yield Page("unknown-job", f"#/jobs/{'f' * 32}", pictures.busy_job)
    yield Page("loading", f"#/jobs/{JOB}", pictures.busy_job, answers={"/snapshot": None})
    yield Page("lost", f"#/jobs/{JOB}", pictures.busy_job, lost=True)
    flame = {"**/flamegraph*": {"endTimestamp": pictures.NOW, "data": pictures.FLAME}}
    makers = {
        "thirty": pictures.busy_job, "one": lambda: pictures.busy_job(1, 1), "failed": pictures.failed_job,
        "starting": pictures.starting_job, "sql": pictures.sql_job,
    }  # fmt: skip
    for kind, make in makers.items():
        for tab in TABS:
            answers = flame if tab == "flame" and kind != "starting" else {}
            yield Page(f"{kind}-{tab}", f"#/jobs/{JOB}/{tab}", make, PREPARED.get((kind, tab)), answers)
    yield Page("thirty-vertex", f"#/jobs/{JOB}", pictures.busy_job, _choose_vertex)
    yield Page("sql-vertex", f"#/jobs/{JOB}", pictures.sql_job, _choose_chain)
    yield Page("thirty-whole", f"#/jobs/{JOB}", pictures.busy_job, lambda page: page.get_by_label("All of it").click())
    yield Page("thirty-cancel", f"#/jobs/{JOB}", pictures.busy_job, lambda page: page.locator("#cancel").click())


def _choose_vertex(page: Any) -> None:
    page.locator("#vertices tbody tr").nth(3).click()
    page.locator("#subtasks").scroll_into_view_if_needed()


def _choose_chain(page: Any) -> None:
    page.locator("#vertices tbody tr").nth(2).click()
    page.locator("#operators").scroll_into_view_if_needed()


def _second_vertex(page: Any) -> None:
    page.get_by_label("Vertex").select_option(index=1)
    page.wait_for_selector(".flame .frame:has-text('signed')", state="attached")


def _summary(page: Any) -> None:
    page.wait_for_selector("#checkpoints tbody tr")
    page.get_by_text("Summary and configuration").click()


def _chart(page: Any) -> None:
    page.get_by_label("Span").select_option(label="last hour")
    page.get_by_label("Metric").select_option("numRecordsIn")
    page.get_by_role("button", name="Add a chart").click()
    page.wait_for_selector(".charts.chosen path.series", state="attached")


def _operator(page: Any) -> None:
    page.locator(".plan .vertex").nth(2).click()


PREPARED = {("one", "checkpoints"): _summary, ("thirty", "metrics"): _chart, ("sql", "plan"): _operator}


def parsed(number: int) -> dict[str, int]:
    """Be a function that is seen in a flame graph."""
    found: dict[str, int] = json.loads(json.dumps({"order": number, "shop": number % 50}))
    return found


def signed(order: dict[str, int]) -> str:
    """Be another one."""
    return hashlib.sha256(repr(order).encode() * 200).hexdigest()


def start_job() -> JobClient:
    """Start a job in this process that computes, for a flame graph as users see it."""
    conf = Configuration(
        {"execution.target": "local", "parallelism.default": 2, "rest.enabled": "true", "rest.port": 0}
    )
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    numbers = env.from_source(DataGeneratorSource(int), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.rebalance().map(parsed).name("parse").map(signed).name("sign").for_each(len)
    return env.execute_async("a real job")


class Camera:
    """Draws pages in one browser; ``problems`` has what was wrong with them."""

    def __init__(self, browser: Any, folder: Path, dark: bool) -> None:
        self._browser = browser
        self._folder = folder
        self._dark = dark
        self.problems: list[str] = []

    def take(self, wanted: Page, width: int) -> None:
        """Draw a page at a width."""
        server = RestServer(RestSettings(keep_seconds=0, **wanted.settings))
        try:
            if wanted.job is not None:
                job = pictures.served(wanted.job())
                job.entry = server.jobs.add(job)
                if wanted.name.endswith("-metrics"):
                    pictures.remember_an_hour(job.entry, job)
            self._draw(wanted, width, server.url, server.close)
        finally:
            server.close()

    def take_of(self, client: JobClient, width: int) -> None:
        """Draw the flame graph of a job that runs."""
        url = client.get_web_interface_url()
        assert url is not None
        wanted = Page("real-flame", f"#/jobs/{client.get_job_id()}/flame", before=_second_vertex)
        self._draw(wanted, width, url)

    def _draw(self, wanted: Page, width: int, url: str, close: Callable[[], None] = lambda: None) -> None:
        name = f"{wanted.name}-{width}{'-dark' if self._dark else ''}"
        size = {"width": width, "height": HEIGHTS.get(width, 900)}
        context = self._browser.new_context(viewport=size, color_scheme="dark" if self._dark else "light")
        page = context.new_page()
        page.set_default_timeout(20_000)
        logged: list[str] = []
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on("console", lambda message: logged.append(message.text) if message.type == "error" else None)
        for path, answer in wanted.answers.items():
            pattern = path if "*" in path else f"**{path}"
            page.route(pattern, _answer(answer))
        try:
            page.goto(f"{url}/{wanted.address}")
            page.wait_for_timeout(700)
            if wanted.before is not None:
                wanted.before(page)
                page.wait_for_timeout(400)
            if wanted.lost:
                close()
                page.wait_for_selector("body.lost")
            page.screenshot(
                path=self._folder / f"{name}.png", full_page=not wanted.lost and "cancel" not in wanted.name
            )
            logged += page.evaluate(OVERFLOW)
        finally:
            context.close()
        self.problems += [f"{name}: {text}" for text in logged if not any(each in text for each in EXPECTED)]


def _answer(answer: Any) -> Callable[[Any], None]:
    def respond(route: Any) -> None:
        if answer is not None:  # None: never
            route.fulfill(status=200, content_type="application/json", body=json.dumps(answer))

    return respond


def main() -> int:
    """Draw the pages that were asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only pages whose name has this text")
    parser.add_argument("--widths", default="1440,1024,390")
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not everyone has it
    except ImportError:
        chromium = None
    if chromium is None:
        print("Chromium and the Python package playwright are needed.", file=sys.stderr)
        return 2
    given.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=list(FLAGS))
        camera = Camera(browser, given.folder, given.dark)
        for width in map(int, given.widths.split(",")):
            for wanted in pages():
                if given.only in wanted.name:
                    camera.take(wanted, width)
                    print(wanted.name, width, flush=True)
        if given.only in "real-flame":
            client = start_job()
            try:
                for width in map(int, given.widths.split(",")):
                    camera.take_of(client, width)
                    print("real-flame", width, flush=True)
            finally:
                client.cancel().result(timeout=60)
        browser.close()
    for problem in camera.problems:
        print(problem)
    return 1 if camera.problems else 0


if __name__ == "__main__":
    sys.exit(main())
