"""The dashboard in a real browser: Debian's Chromium, if it is there. The jobs are made by hand, or run in this process."""

import logging
import os
import shutil
from dataclasses import replace

import pytest

from funken.rest import server
from funken.rest.app import dashboard_files
from funken.rest.settings import RestSettings
from funken.runtime.job.graph import EdgeInfo, JobGraph, OperatorInfo, VertexInfo
from funken.runtime.job.history import FailureRecord
from funken.runtime.job.snapshot import VertexSnapshot
from funken.runtime.job.states import ExecutionState, JobStatus
from funken.runtime.log_entries import LogEntry
from tests.rest.conftest import JOB, FakeJob, picture, subtask

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TOKEN = "a-token-of-some-length"

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield running
        running.close()


@pytest.fixture
def page(browser, serve):
    """A page of a laptop's size; what it logs as an error fails the test. It is closed before its server is."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    found = context.new_page()
    found.set_default_timeout(30_000)
    problems = []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    found.problems = problems
    yield found
    context.close()
    assert problems == []


@pytest.fixture
def serve():
    """Serve a job made by hand."""
    running = []

    def begin(job, **settings):
        running.append(server.RestServer(RestSettings(keep_seconds=0, **settings)))
        job.entry = running[0].jobs.add(job)
        return running[0].url

    yield begin
    for each in running:
        each.close()


def shoot(page, name):
    """Write a screenshot for the documentation, where that is wanted."""
    folder = os.environ.get("FUNKEN_SCREENSHOTS")
    if folder:
        page.screenshot(path=os.path.join(folder, f"{name}.png"))


def large_picture(vertices):
    """A job of as many vertices, in a chain that forks and joins; all kinds of load."""
    infos, edges, states = [], [], []
    for number in range(vertices):
        stage = number if number < 4 else 4 + (number - 4) // 3
        name = f"{('read', 'parse', 'enrich', 'count', 'join', 'rank')[number % 6]} orders {number}"
        infos.append(VertexInfo(number, name, 4, 128, stage, (OperatorInfo(f"op-{number}", name, "Map", None),)))
        if number:
            edges.append(EdgeInfo(max(0, number - (1 if number < 4 else 3)), number, 0, "HASH", None, False))
        metrics = {
            "records_in": 5000 * number,
            "records_in_per_second": 1200.0 * (number + 1),
            "records_out_per_second": 800.0 * (number + 1),
            "back_pressured_ms_per_second": 900.0 if number == 2 else 250.0 if number == 5 else 0.0,
            "busy_ms_per_second": 950.0 if number == 3 else 80.0,
            "input_watermark": 1_700_000_000_000 + number,
        }
        states.append(
            VertexSnapshot(number, name, ExecutionState.RUNNING, tuple(subtask(i, **metrics) for i in range(4)))
        )
    return picture(graph=JobGraph(tuple(infos), tuple(edges)), vertices=tuple(states), name="thirty operators")


@needs_browser
def test_the_graph_has_a_box_for_each_vertex_in_the_colour_of_its_load(page, serve):
    job = FakeJob()
    url = serve(job)
    page.goto(url)
    page.get_by_role("link", name="totals").click()
    page.wait_for_selector(".vertex[data-level]")

    boxes = page.locator(".vertex")
    assert boxes.count() == 2
    assert [boxes.nth(n).get_attribute("data-level") for n in range(2)] == ["high", "ok"]
    colours = [boxes.nth(n).locator(".box").evaluate("node => getComputedStyle(node).fill") for n in range(2)]
    assert colours[0] != colours[1]
    assert page.locator(".edge").count() == 1

    source, sums = job.current.vertices
    calm = [replace(each.metrics, back_pressured_ms_per_second=0.0) for each in source.subtasks]
    subtasks = tuple(replace(each, metrics=metrics) for each, metrics in zip(source.subtasks, calm, strict=True))
    job.current = replace(job.current, taken=11_000, vertices=(replace(source, subtasks=subtasks), sums))

    page.wait_for_selector('.vertex[data-level="ok"] >> nth=1')
    assert boxes.nth(0).locator(".box").evaluate("node => getComputedStyle(node).fill") == colours[1]


@needs_browser
def test_a_vertex_that_is_chosen_shows_its_subtasks(page, serve):
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}")
    page.locator(".vertex").nth(1).click()

    page.wait_for_selector("#subtasks tbody tr >> nth=1")
    assert "worker-1" in page.locator("#subtasks").inner_text()


@needs_browser
def test_the_graph_of_a_large_job_fits_the_screen_of_a_laptop(page, serve):
    job = FakeJob()
    job.current = large_picture(30)
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.wait_for_selector(".vertex[data-level] >> nth=29")

    graph = page.locator("svg.graph").bounding_box()
    boxes = [page.locator(".vertex .box").nth(n).bounding_box() for n in range(30)]
    assert graph["width"] <= 1280
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 1280 for box in boxes)
    assert graph["y"] + graph["height"] <= 800
    assert min(box["width"] for box in boxes) >= 130  # at their own size: texts of 11 pixels
    overlaps = [
        (a, b) for a in range(30) for b in range(a)
        if abs(boxes[a]["x"] - boxes[b]["x"]) < boxes[a]["width"] and abs(boxes[a]["y"] - boxes[b]["y"]) < boxes[a]["height"]
    ]  # fmt: skip
    assert overlaps == []
    shoot(page, "dashboard-large")


OVERLAPS = """() => {
  const graph = document.querySelector("svg.graph").getBoundingClientRect();
  const inside = (a, b) => a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
  const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const at = (node) => node.getBoundingClientRect();
  const wrong = [];
  for (const vertex of document.querySelectorAll(".vertex"))
    for (const text of vertex.querySelectorAll("text"))
      if (!inside(at(text), at(vertex.querySelector(".box")))) wrong.push(`${text.textContent} leaves its box`);
  for (const rate of document.querySelectorAll(".rate")) {
    if (!rate.textContent) continue;
    if (!inside(at(rate), graph)) wrong.push(`${rate.textContent} leaves the graph`);
    for (const box of document.querySelectorAll(".box"))
      if (meets(at(rate), at(box))) wrong.push(`${rate.textContent} is over a box`);
  }
  return wrong;
}"""


@needs_browser
@pytest.mark.parametrize("lag", [None, 9_200, 750_000, 90_000_000])
@pytest.mark.parametrize("vertices", [4, 9, 30])
def test_no_text_of_the_graph_leaves_its_box_or_covers_another(page, serve, vertices, lag):
    job = FakeJob()
    job.current = large_picture(vertices)
    if lag is not None:
        job.current = replace(job.current, taken=1_700_000_000_000 + lag)
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.wait_for_selector(f".vertex[data-level] >> nth={vertices - 1}")

    assert page.evaluate(OVERLAPS) == []
    shown = "wm " if lag is None else "lag "
    assert all(shown in page.locator(".vertex").nth(n).text_content() for n in range(vertices))


@needs_browser
def test_what_is_not_known_of_a_job_takes_no_place(page, serve):
    job = FakeJob()
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.wait_for_selector(".vertex[data-level]")
    assert "Ended" not in page.locator(".facts").inner_text()

    over = {JobStatus.CREATED: 1000, JobStatus.FINISHED: 6000}
    job.current = replace(job.current, state=JobStatus.FINISHED, timestamps=over, taken=11_000)

    page.wait_for_selector(".facts:has-text('Ended')")


@needs_browser
def test_a_savepoint_is_asked_for_confirmed_and_its_result_shown(page, serve):
    job = FakeJob()
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.locator("#savepoint").click()
    assert job.asked == []  # not before it is confirmed
    page.locator("#folder").fill("/savepoints")
    page.locator("#confirm").click()
    page.wait_for_selector("#notice:has-text('in progress')")
    assert job.asked == [("savepoint", "/savepoints")]

    job.savepoint.set_result("/savepoints/savepoint-1")

    page.wait_for_selector("#notice:has-text('/savepoints/savepoint-1')")


@needs_browser
def test_a_savepoint_that_is_refused_says_why(page, serve):
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}")
    page.locator("#savepoint").click()
    page.locator("#folder").fill("/refused")
    page.locator("#confirm").click()

    page.wait_for_selector("#notice:has-text('it runs without checkpoints')")
    page.problems[:] = [
        each for each in page.problems if "409" not in each
    ]  # Chromium logs every status of 400 and more


@needs_browser
def test_a_job_is_cancelled_after_a_question(page, serve):
    job = FakeJob()
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.locator("#cancel").click()
    page.get_by_role("button", name="Back").click()
    assert job.asked == []
    page.locator("#cancel").click()
    page.locator("#confirm").click()

    page.wait_for_selector(".head .state.CANCELLING")
    assert job.asked == [("cancel",)]


@needs_browser
def test_what_tasks_log_is_shown_as_it_comes_and_can_be_chosen(page, serve):
    job = FakeJob()
    entries = [
        LogEntry(2000, logging.INFO, "shop", "<b>sold</b> apples", "sums", "sums", 0, 0, "worker-1", 40),
        LogEntry(2001, logging.WARNING, "shop", "no price for pears", "sums", "sums", 1, 0, "worker-1", 41),
        LogEntry(2002, logging.ERROR, "shop", "no shop", "numbers", "numbers", 1, 0, "worker-1", 42),
    ]
    job.log.take(entries)
    page.goto(f"{serve(job)}/#/jobs/{JOB}/logs")
    page.wait_for_selector(".log .entry >> nth=2")
    assert "shop: <b>sold</b> apples" in page.locator(".log .entry").nth(0).inner_text()
    shoot(page, "dashboard-logs")

    job.log.take([LogEntry(2003, logging.INFO, "shop", "sold pears", "sums", "sums", 1, 0, "worker-1", 41)])
    page.wait_for_selector(".log .entry >> nth=3")

    page.get_by_label("Level").select_option("WARN")
    page.wait_for_selector(".log .entry >> nth=2", state="detached")
    page.get_by_label("Vertex").select_option(label="sums -> print")
    page.wait_for_selector(".log .entry >> nth=1", state="detached")
    assert "no price for pears" in page.locator(".log").inner_text()
    page.get_by_label("Subtask").select_option("0")
    page.wait_for_selector("text=Nothing was logged.")


@needs_browser
def test_what_failed_is_shown_as_text_and_never_as_markup(page, serve):
    evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    failure = FailureRecord(6000, 0, "OperatorFailed", evil, evil, 1, "1/1", "worker-1", f"Traceback\n{evil}\nboom")
    job = FakeJob(
        name=evil,
        state=JobStatus.FAILED,
        timestamps={JobStatus.CREATED: 1000, JobStatus.FAILED: 6000},
        failures=(failure,),
    )
    page.goto(f"{serve(job)}/#/jobs/{JOB}/exceptions")
    page.wait_for_selector(".failure pre")

    assert page.locator(".failure pre").inner_text() == f"Traceback\n{evil}\nboom"
    assert page.locator("h1").inner_text() == evil
    assert page.locator("main img").count() == 0
    assert page.locator(".head .state.FAILED").count() == 1
    assert page.locator("#cancel").is_disabled()
    assert "owned" not in (page.title().replace(evil, ""))


@needs_browser
def test_checkpoints_are_listed_and_shown_by_subtask(page, serve):
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}/checkpoints")
    page.wait_for_selector("#checkpoints tbody tr >> nth=2")
    assert "timed out" in page.locator("#checkpoints").inner_text()
    bars = [page.locator("rect.mark").nth(n).bounding_box() for n in range(3)]
    assert all(bar["width"] < 40 for bar in bars)  # a few checkpoints do not fill the page
    assert page.locator(".axis text").count() == 4  # three durations; under three bars there is room for one time
    page.locator("#checkpoints tbody tr").nth(2).click()

    page.wait_for_selector("#checkpoint tbody tr >> nth=3")
    shoot(page, "dashboard-checkpoints")
    assert "sums -> print" in page.locator("#checkpoint").inner_text()


@needs_browser
def test_metrics_are_drawn_and_the_configuration_is_listed(page, serve):
    job = FakeJob()
    page.goto(f"{serve(job)}/#/jobs/{JOB}/metrics")
    page.wait_for_selector("path.series >> nth=1", state="attached")
    page.get_by_role("link", name="Configuration").click()
    page.wait_for_selector("td:has-text('s3.secret-key')")

    assert "******" in page.locator("main").inner_text()
    page.get_by_label("Filter").fill("object")
    assert page.locator("main tbody tr").count() == 1


@needs_browser
def test_a_server_with_a_token_asks_for_it(page, serve):
    page.goto(serve(FakeJob(), token=TOKEN))
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")

    page.wait_for_selector("td:has-text('totals')")
    page.problems[:] = [each for each in page.problems if "401" not in each]


@needs_browser
def test_the_theme_can_be_chosen(page, serve):
    page.goto(serve(FakeJob()))
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.locator("#theme").click()
    dark = page.evaluate(ground)
    page.reload()

    assert light != dark == page.evaluate(ground)


def test_the_page_needs_no_other_site():
    for path, (body, _) in dashboard_files().items():
        text = body.decode()
        links = [part for part in text.replace("http://www.w3.org/2000/svg", "").split() if "://" in part]
        assert [part for part in links if "s3://" not in part] == [], path
        assert "innerHTML" not in text and "eval(" not in text, path
