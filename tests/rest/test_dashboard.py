"""The dashboard in a real browser: Debian's Chromium, if it is there. The jobs are made by hand, or run in this process."""

import hashlib
import logging
import os
import shutil
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from funken.rest import server
from funken.rest.app import dashboard_files
from funken.rest.settings import RestSettings
from funken.runtime.job.states import Bottleneck, ExecutionState, FailureRecord, JobStatus
from funken.runtime.log_entries import LogEntry
from tests.rest.conftest import JOB, FakeJob
from tests.rest.pictures import (
    FLAME,
    USERS_TRACEBACK,
    busy_job,
    failed_job,
    large_picture,
    remember_an_hour,
    served,
    sql_job,
    starting_job,
    tangled_picture,
)

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


NOT_COUNTED = "\N{EN DASH}"


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
def test_the_vertex_that_a_job_waits_for_is_said(page, serve):
    job = FakeJob()
    page.goto(serve(job))
    page.get_by_role("link", name="totals").click()
    page.wait_for_selector(".vertex[data-level]")
    assert not page.locator(".bottleneck").is_visible()
    slow = Bottleneck(1, "sums -> print", 0, 0.92, 0.8, 9_000, (0,))
    job.current = replace(job.current, taken=11_000, bottlenecks=(slow,))
    page.wait_for_selector(".bottleneck:visible")
    said = page.locator(".bottleneck").inner_text().replace("\u202f", " ")
    assert said.startswith(
        "sums -> print is the bottleneck: subtask 0 is 92 % busy; input held back for 80 % of the time since "
    )


@needs_browser
def test_a_vertex_that_is_chosen_shows_its_subtasks(page, serve):
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}")
    page.locator(".vertex").nth(1).click()

    page.wait_for_selector("#subtasks tbody tr >> nth=1")
    assert "worker-1" in page.locator("#subtasks").inner_text()


@needs_browser
def test_a_chain_that_is_chosen_shows_the_records_of_its_operators(page, serve):
    job = FakeJob()
    job.current = sql_job()
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.locator("#vertices tbody tr").nth(2).click()

    page.wait_for_selector("#operators tbody tr >> nth=2")
    rows = [each.split("\t") for each in page.locator("#operators tbody").inner_text().split("\n")]
    assert [row[0] for row in rows] == ["Join", "Calc", "Sink"]
    assert rows[0][1:] == ["4.80M", "3.60k/s", "3.60M", "2.70k/s"]
    assert rows[1][1:] == ["4.80M", "3.60k/s", NOT_COUNTED, NOT_COUNTED]
    assert f"{NOT_COUNTED}: not counted." in page.locator("#operators").inner_text()

    page.locator("#vertices tbody tr").nth(3).click()
    page.wait_for_function("document.querySelectorAll('#operators tbody tr').length == 2")
    assert "not counted" not in page.locator("#operators").inner_text()


@needs_browser
def test_a_job_without_latency_markers_has_no_column_for_them(page, serve):
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}")
    page.wait_for_selector("#vertices tbody tr")
    assert "Marker p99" not in page.locator("#vertices").inner_text()


PICTURES = {"large": large_picture, "tangled": tangled_picture}

PROBLEMS = """() => {
  const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const at = (node) => node.getBoundingClientRect();
  const frame = at(document.querySelector("svg.graph"));
  const boxes = [...document.querySelectorAll(".vertex .box")].map(at);
  const rates = [...document.querySelectorAll(".rate")].filter((rate) => rate.textContent);
  const wrong = [];
  for (const vertex of document.querySelectorAll(".vertex"))
    for (const text of vertex.querySelectorAll("text"))
      if (!inside(at(text), at(vertex.querySelector(".box")))) wrong.push(`${text.textContent} leaves its box`);
  boxes.forEach((box, number) => {
    if (!inside(box, frame)) wrong.push(`box ${number} leaves the frame`);
    boxes.slice(0, number).forEach((other) => meets(box, other) && wrong.push(`box ${number} is over another`));
  });
  rates.forEach((rate, number) => {
    if (boxes.some((box) => meets(at(rate), box))) wrong.push(`${rate.textContent} is over a box`);
    if (rates.slice(0, number).some((other) => meets(at(rate), at(other)))) wrong.push(`${rate.textContent} covers a rate`);
  });
  for (const edge of document.querySelectorAll(".edge")) {
    const toScreen = edge.getScreenCTM();
    const length = edge.getTotalLength();
    for (let part = 1; part < 40; part += 1) {
      const { x, y } = edge.getPointAtLength((part / 40) * length).matrixTransform(toScreen);
      const crossed = boxes.findIndex((box) => x > box.left + 1 && x < box.right - 1 && y > box.top + 1 && y < box.bottom - 1);
      if (crossed >= 0) { wrong.push(`edge ${edge.dataset.edge} crosses box ${crossed}`); break; }
    }
  }
  return wrong;
}"""


@needs_browser
@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize(("form", "vertices"), [("large", 4), ("large", 30), ("tangled", 12), ("tangled", 30)])
def test_boxes_rates_and_edges_of_a_graph_stay_apart(page, serve, form, vertices, width):
    job = FakeJob()
    job.current = PICTURES[form](vertices)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.wait_for_selector(f".vertex[data-level] >> nth={vertices - 1}", state="attached")
    page.get_by_label("All of it").click()

    assert page.evaluate(PROBLEMS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing scrolls sideways"


@needs_browser
def test_a_large_graph_opens_at_a_size_that_can_be_read_and_is_moved_over_its_map(page, serve):
    job = FakeJob()
    job.current = large_picture(30)
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.wait_for_selector(".vertex[data-level] >> nth=29", state="attached")
    first, last = page.locator(".vertex .box").first, page.locator(".vertex .box").last
    frame = page.locator("svg.graph").bounding_box()

    def is_seen(box):
        place = box.bounding_box()
        right, bottom = place["x"] + place["width"], place["y"] + place["height"]
        return (
            place["x"] >= frame["x"] and right <= frame["x"] + frame["width"] and bottom <= frame["y"] + frame["height"]
        )

    assert first.bounding_box()["width"] >= 140, "texts of eight pixels"
    assert is_seen(first) and not is_seen(last)
    shoot(page, "dashboard-large")
    seen = page.locator(".map").bounding_box()
    page.mouse.click(seen["x"] + seen["width"] - 2, seen["y"] + seen["height"] / 2)
    assert is_seen(last) and not is_seen(first)
    page.locator("svg.graph").focus()
    page.keyboard.press("0")
    assert is_seen(last) and is_seen(first)
    assert page.locator(".map.whole").count() == 1, "a map of what is seen whole is not needed"
    width = first.bounding_box()["width"]
    page.get_by_label("Larger").click()
    assert first.bounding_box()["width"] > width


@needs_browser
def test_a_drag_that_ends_outside_the_graph_is_over(page, serve):
    job = FakeJob()
    job.current = large_picture(30)
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.wait_for_selector(".vertex[data-level] >> nth=29", state="attached")
    page.locator("svg.graph").scroll_into_view_if_needed()
    frame = page.locator("svg.graph").bounding_box()
    x, y = frame["x"] + frame["width"] / 2, frame["y"] + 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 3)  # too little to be a drag
    page.mouse.up()
    before = page.locator(".vertex .box").first.bounding_box()
    page.mouse.move(x, y + 40)
    page.mouse.move(x - 100, y + 60)
    assert page.locator(".vertex .box").first.bounding_box() == before


@needs_browser
@pytest.mark.parametrize("lag", [None, 9_200, 750_000, 90_000_000])
def test_a_box_says_how_far_the_watermark_lags(page, serve, lag):
    job = FakeJob()
    job.current = large_picture(9)
    if lag is not None:
        job.current = replace(job.current, taken=1_700_000_000_000 + lag)
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.wait_for_selector(".vertex[data-level] >> nth=8", state="attached")
    page.get_by_label("All of it").click()

    assert page.evaluate(PROBLEMS) == []
    shown = "watermark " if lag is None else "lag "
    assert all(shown in page.locator(".vertex").nth(n).text_content() for n in range(9))


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
def test_a_checkpoint_in_progress_says_for_how_long_and_for_whom_it_waits(page, serve):
    job = FakeJob()
    job.current = busy_job(9, 12)
    page.goto(f"{serve(job)}/#/jobs/{JOB}/checkpoints")
    row = page.locator("#checkpoints tbody tr").nth(0)
    row.wait_for()
    said = row.inner_text()
    assert "700 ms" in said and "waits for count orders 3, subtasks 0, 1, 2 and 1 more" in said


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
def test_of_many_vertices_the_busiest_are_drawn(page, serve):
    job = FakeJob()
    job.current = busy_job(30, 1)
    page.goto(f"{serve(job)}/#/jobs/{JOB}/metrics")
    chart = page.locator(".chart", has_text="Records in, by vertex")
    chart.locator("path.series").first.wait_for(state="attached")
    assert "(the busiest 6 of 30)" in chart.inner_text() and "count orders 3" in chart.inner_text()
    assert chart.locator("path.series").count() == 6


@needs_browser
def test_any_metric_is_drawn_on_demand(page, serve):
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}/metrics")
    page.get_by_label("Metric").select_option("numRecordsIn")
    page.get_by_role("button", name="Add a chart").click()

    chart = page.locator(".charts.chosen section")
    page.wait_for_selector(".charts.chosen .legend:has-text('sum 100')")
    assert "numRecordsIn, numbers" in chart.inner_text()
    chart.get_by_role("button").click()
    assert chart.count() == 0


@needs_browser
def test_checkpoints_have_a_summary_and_a_deleted_one_is_marked(page, serve):
    job = FakeJob()
    history = job.current.checkpoints.history
    older = replace(history[-1], id=6, discarded=True)
    job.current = replace(
        job.current, checkpoints=replace(job.current.checkpoints, history=(*history, older)),
        configuration=job.current.configuration | {"execution.checkpointing.timeout": "90 s"},
    )  # fmt: skip
    page.goto(f"{serve(job)}/#/jobs/{JOB}/checkpoints")
    page.wait_for_selector("#checkpoints .SUBSUMED")
    page.get_by_text("Summary and configuration").click()

    text = page.locator("#summary").inner_text()
    assert "p99" in text and "50 ms" in text and "175 B" in text
    assert "1 min 30 s" in text


@needs_browser
def test_states_over_time_and_machines_are_shown(page, serve):
    url = serve(FakeJob())
    page.goto(f"{url}/#/jobs/{JOB}/timeline")
    page.wait_for_selector(".timeline .t-RUNNING >> nth=3", state="attached")
    titles = page.locator(".timeline rect title").all_text_contents()
    assert "numbers, subtask 1: running" in "\n".join(titles) and "8.5 s" in "\n".join(titles)

    page.goto(f"{url}/#/jobs/{JOB}/machines")
    page.wait_for_selector("#machines tbody tr >> nth=1")
    assert "Machines: 1. Processes: 2." in page.locator("#machines").inner_text()


@needs_browser
def test_the_log_is_searched_and_downloaded(page, serve):
    job = FakeJob()
    job.log.take([
        LogEntry(2000 + n, logging.INFO, "shop", text, "sums", "sums", 0, 0, "worker-1", 40)
        for n, text in enumerate(["sold apples", "sold pears"])
    ])  # fmt: skip
    page.goto(f"{serve(job)}/#/jobs/{JOB}/logs")
    page.wait_for_selector(".log .entry >> nth=1")
    page.get_by_label("Search").fill("PEARS")

    assert [page.locator(".log .entry").nth(n).is_visible() for n in range(2)] == [False, True]
    with page.expect_download() as started:
        page.get_by_role("button", name="Download").click()
    text = Path(started.value.path()).read_text()
    assert "sold pears" in text and "apples" not in text
    assert started.value.suggested_filename == "totals.log"


@needs_browser
@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/home/ann/funken/job.py", True), ("/home/ann/pyspark/job.py", True), ("/home/ann/library/job.py", True),
        ("/home/ann/funken/src/funken/operators/base.py", False), ("/tmp/spark/funken.zip/funken/ids.py", False),
        ("/opt/spark/python/pyspark/worker.py", False), ("/usr/lib/python3.11/json/decoder.py", False),
        ("<frozen runpy>", False), ("<funken operators, map>", False), ("<stdin>", True),
    ],
)  # fmt: skip
def test_frames_of_libraries_are_told_from_the_users(page, serve, path, own):
    page.goto(serve(FakeJob()))
    text = f'Traceback\n  File "{path}", line 1, in f\n    f()\nKeyError'
    asked = "async (text) => (await import('/traceback.js')).parts(text).filter((part) => part.frame)[0].own"
    assert page.evaluate(asked, text) is own


@needs_browser
def test_a_traceback_begins_at_the_line_of_the_user(page, serve):
    failure = FailureRecord(6000, 0, "KeyError", "'pear'", "sums", 1, "1/1", "worker-1", USERS_TRACEBACK)
    page.goto(f"{serve(FakeJob(failures=(failure,)))}/#/jobs/{JOB}/exceptions")
    page.wait_for_selector(".traceback .own")

    assert "job.py" in page.locator(".traceback .own").inner_text()
    assert page.locator(".traceback summary").all_inner_texts() == ["2 frames of libraries"]
    assert not page.locator(".traceback details span").last.is_visible()
    page.locator(".traceback summary").click()
    assert "emit(function(value))" in page.locator(".traceback details span").last.inner_text()
    assert "KeyError: 'pear'" in page.locator(".traceback").inner_text()


@needs_browser
def test_a_job_that_does_not_exist_is_said_to(page, serve):
    url = serve(FakeJob())
    page.goto(f"{url}/#/jobs/{'f' * 32}")
    page.wait_for_selector("h1:has-text('No such job')")
    page.get_by_role("link", name="All jobs of this driver").click()
    page.wait_for_selector("td:has-text('totals')")
    page.problems[:] = [each for each in page.problems if "404" not in each]


@needs_browser
def test_a_driver_that_is_gone_is_not_shown_as_running(page):
    running = server.RestServer(RestSettings(keep_seconds=0))
    job = FakeJob()
    job.entry = running.jobs.add(job)
    page.goto(f"{running.url}/#/jobs/{JOB}")
    page.wait_for_selector(".vertex[data-level]")
    running.close()

    page.wait_for_selector("#connection:has-text('The driver does not answer')")
    assert page.locator("body.lost").count() == 1
    assert "Last answer: " in page.locator("#connection").inner_text()
    page.problems[:] = [each for each in page.problems if "Failed to load" not in each]


@needs_browser
@pytest.mark.parametrize(
    "tab",
    ["graph", "plan", "metrics", "checkpoints", "exceptions", "logs", "timeline", "machines", "configuration"],
)
def test_no_page_scrolls_sideways_on_a_telephone(page, serve, tab):
    job = FakeJob()
    job.current = large_picture(30)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{serve(job)}/#/jobs/{JOB}/{tab}")
    page.wait_for_selector("#tab > *")

    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@needs_browser
def test_charts_begin_with_the_hour_that_the_driver_has_kept(page, serve):
    job = served(busy_job(9, 1))
    url = serve(job)
    remember_an_hour(job.entry, job)
    page.goto(f"{url}/#/jobs/{JOB}/metrics")
    page.wait_for_selector("path.series", state="attached")
    page.get_by_label("Span").select_option(label="last hour")
    read = page.locator(".chart", has_text="Records read by sources")
    assert len(read.locator("path.series").get_attribute("d").split("L")) >= 180

    page.get_by_label("Metric").select_option("busyTimeMsPerSecond")
    page.get_by_role("button", name="Add a chart").click()
    chosen = page.locator(".charts.chosen .chart")
    page.wait_for_selector(".charts.chosen path.series", state="attached")
    lines = chosen.locator("path.series")
    page.wait_for_function(
        "document.querySelector('.charts.chosen path.series').getAttribute('d').split('L').length >= 700"
    )
    assert [lines.nth(n).get_attribute("class") for n in range(4)] == [f"series s{n}" for n in range(4)]

    read.locator("svg").hover()
    assert (
        read.locator(".moment").inner_text().startswith("at ") and read.locator(".cursor").get_attribute("style") == ""
    )
    page.mouse.move(0, 0)
    assert read.locator(".moment").inner_text() == ""


@needs_browser
def test_a_driver_without_a_history_has_charts_of_what_the_page_has_seen(page, serve):
    page.route("**/history*", lambda route: route.fulfill(status=404, json={"errors": ["The archive has none."]}))
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}/metrics")
    page.wait_for_selector("path.series", state="attached")
    page.problems[:] = [each for each in page.problems if "404" not in each]


@needs_browser
def test_a_flame_graph_is_searched_and_a_bar_made_the_whole_width(page, serve):
    asked = []
    page.route("**/flamegraph*", lambda route: (asked.append(route.request.url), route.fulfill(
        json={"endTimestamp": 1_790_000_000_000, "data": FLAME})))  # fmt: skip
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}/flame")
    price = page.get_by_role("button", name="price (job.py:7)")
    price.wait_for()
    assert "200 samples" in page.locator("#flame").inner_text()
    whole = page.locator(".flame").bounding_box()["width"]
    assert price.bounding_box()["width"] == pytest.approx(whole * 0.45, abs=3)
    assert "user" in price.get_attribute("class") and price.locator("title").text_content().endswith(
        "45 %, 90 of 200 samples"
    )
    assert "own" in page.get_by_role("button", name="ChainLoop.block").get_attribute("class")

    price.click()
    assert price.bounding_box()["width"] == pytest.approx(whole, abs=3)
    assert page.get_by_role("button", name="region (job.py:15)").count() == 0
    page.get_by_role("button", name="Whole graph").click()
    page.get_by_label("Search").fill("SHA256")
    assert page.locator(".flame .found").count() == 1
    assert "15 %" in page.locator("p.frame").inner_text()

    page.get_by_label("Subtask").select_option("1")
    page.get_by_label("Samples", exact=True).select_option("OFF_CPU")
    page.wait_for_selector(".flame .frame", state="attached")
    assert "subtaskindex=1" in asked[-1] and "type=OFF_CPU" in asked[-1]


@needs_browser
@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (404, {"errors": ["There is no flame graph."]}, "There is no flame graph."),
        (200, {"endTimestamp": -1, "data": None}, "The job is over"),
        (200, {"endTimestamp": -3, "data": None}, "Sampling"),
        (200, {"endTimestamp": 1_790_000_000_000, "data": {"name": "root", "value": 0, "children": []}}, "No samples"),
    ],
)
def test_a_flame_graph_that_is_not_there_says_why(page, serve, status, answer, said):
    page.route("**/flamegraph*", lambda route: route.fulfill(status=status, json=answer))
    with page.expect_response("**/flamegraph*"):
        page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}/flame")
    page.wait_for_selector(f"#flame :text('{said}')")
    page.problems[:] = [each for each in page.problems if "404" not in each]


@needs_browser
def test_of_a_job_without_running_tasks_nothing_is_sampled(page, serve):
    page.route("**/flamegraph*", lambda route: route.fulfill(json={"endTimestamp": -3, "data": None}))
    page.goto(f"{serve(served(starting_job()))}/#/jobs/{JOB}/flame")
    page.wait_for_selector("#flame :text('No task runs.')")


@needs_browser
def test_a_checkpoint_that_timed_out_does_not_flatten_the_others(page, serve):
    page.goto(f"{serve(served(busy_job(9, 100)))}/#/jobs/{JOB}/checkpoints")
    page.wait_for_selector(".mark >> nth=99", state="attached")
    high = "each => Number(each.getAttribute('height'))"
    failed, others = (
        page.locator(f".mark{kind}").evaluate_all(f"all => all.map({high})") for kind in (".FAILED", ".COMPLETED")
    )
    frame = page.get_by_role("img", name="Checkpoints").evaluate("node => node.getBoundingClientRect().height")
    assert len(failed) == 3 and max(failed) < frame and max(failed) == min(failed)
    assert max(failed) / 2 < max(others) < max(failed)


@needs_browser
@pytest.mark.parametrize("width", [1440, 390])
def test_the_plan_of_a_sql_job_is_drawn(page, serve, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{serve(served(sql_job()))}/#/jobs/{JOB}/plan")
    page.wait_for_selector(".plan .vertex >> nth=8", state="attached")
    page.get_by_label("All of it").click()

    assert page.evaluate(PROBLEMS) == []
    assert page.locator(".plan .edge").count() == 8 and page.locator(".plan .edge:not(.chained)").count() == 3
    join = page.get_by_role("button", name="Join")
    assert "joinType=[InnerJoin]" in join.text_content()
    join.click()
    assert "rightInputSpec=[HasUniqueKey]" in page.locator("#operator pre").inner_text()
    if width > 1000:
        shoot(page, "dashboard-plan")
    join.click()
    assert not page.locator("#operator").is_visible()


@needs_browser
def test_a_page_that_waits_for_its_first_answer_says_so_and_has_no_button_to_press(page, serve):
    page.route("**/snapshot", lambda route: None)
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}")
    page.wait_for_selector("h1:has-text('Loading')")
    assert page.locator("#cancel").is_disabled() and page.locator(".facts").inner_text() == ""


@needs_browser
def test_a_job_that_has_failed_says_why_on_every_page(page, serve):
    page.goto(f"{serve(served(failed_job()))}/#/jobs/{JOB}/machines")
    cause = page.locator(".cause")
    cause.wait_for()
    assert "in enrich orders 2, subtask 1." in cause.inner_text() and "KeyError: 'pear'" in cause.inner_text()
    cause.get_by_role("link").click()
    page.wait_for_selector(".failure .traceback")


@needs_browser
def test_a_job_that_runs_only_in_part_says_what_it_waits_for(page, serve):
    job = FakeJob()
    page.goto(f"{serve(job)}/#/jobs/{JOB}")
    page.wait_for_selector(".vertex")
    assert "Now" not in page.locator(".facts").inner_text()
    waiting = [replace(each, state=ExecutionState.SCHEDULED) for each in job.current.vertices[1].subtasks]
    vertices = (job.current.vertices[0], replace(job.current.vertices[1], subtasks=tuple(waiting)))
    job.current = replace(job.current, taken=11_000, vertices=vertices)
    page.wait_for_selector(".facts :text('running (2 of 4 subtasks)')")


@needs_browser
def test_of_many_checkpoints_the_newest_are_listed_and_all_on_demand(page, serve):
    page.goto(f"{serve(served(busy_job(9, 200)))}/#/jobs/{JOB}/checkpoints")
    rows = page.locator("#checkpoints tbody tr")
    page.get_by_role("button", name="Show all 201").click()
    assert rows.count() == 201
    rows.nth(150).click()
    page.get_by_role("button", name="Show the newest 25").click()
    assert rows.count() == 26, "the one that was chosen stays"


@needs_browser
def test_the_time_line_of_a_job_that_has_run_for_long_shows_its_start(page, serve):
    page.goto(f"{serve(served(busy_job(9, 1)))}/#/jobs/{JOB}/timeline")
    page.wait_for_selector(".timeline .t-RUNNING", state="attached")
    starting = page.locator(".timeline .t-SCHEDULED").first
    assert starting.bounding_box()["width"] > 300
    page.get_by_label("Span").select_option("")
    assert starting.bounding_box()["width"] < 20


@needs_browser
@pytest.mark.parametrize("width", [1280, 1024, 390])
def test_each_subtask_has_a_bar_of_its_load(page, serve, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}")
    page.locator(".vertex").nth(0).click()
    page.wait_for_selector(".loadbar >> nth=1")
    assert (
        page.locator(".loadbar title").first.text_content().replace("\u202f", " ")
        == "busy 0 %, back-pressured 70 %, idle 30 %"
    )
    bar, whole = (
        page.locator(".loadbar .bar-pressed").first.bounding_box(),
        page.locator(".loadbar").first.bounding_box(),
    )
    assert bar["width"] == pytest.approx(0.7 * whole["width"], abs=1)


TRUNK = ["Thread.run (threading.py:982)", "Worker.run (spark/worker.py:90)", "Task.step (runtime/task/task.py:209)",
         "fused (<funken operators, fused>:6)"]  # fmt: skip


@needs_browser
def test_frames_of_funken_that_every_sample_has_are_one_bar_until_it_is_chosen(page, serve):
    data = {"name": "price (job.py:7)", "value": 90, "children": []}
    tree = {
        "name": TRUNK[-1],
        "value": 100,
        "children": [data, {"name": "wait (threading.py:1)", "value": 10, "children": []}],
    }
    for name in reversed(TRUNK[:-1]):
        tree = {"name": name, "value": 100, "children": [tree]}
    answer = {"endTimestamp": 1, "data": {"name": "root", "value": 100, "children": [tree]}}
    page.route("**/flamegraph*", lambda route: route.fulfill(json=answer))
    page.goto(f"{serve(FakeJob())}/#/jobs/{JOB}/flame")
    page.wait_for_selector(".flame .frame", state="attached")

    frames = page.locator(".flame .frame")
    assert [each.split(":")[0] for each in frames.locator("text").all_text_contents()][:2] == [
        "root", "4 frames of Funken, down to fused (<funken operators, fused>",
    ]  # fmt: skip
    assert frames.count() == 4 and page.locator(".flame .user").count() == 2
    frames.nth(1).click()
    assert frames.count() == 7 and page.locator(".flame .own").count() == 4


@needs_browser
def test_the_flame_graph_begins_with_the_vertex_that_the_job_waits_for(page, serve):
    job = FakeJob()
    job.current = busy_job(9, 1)
    page.route("**/flamegraph*", lambda route: route.fulfill(json={"endTimestamp": 1, "data": FLAME}))
    page.goto(f"{serve(job)}/#/jobs/{JOB}/flame")
    page.wait_for_selector(".flame .frame", state="attached")
    assert page.locator("#flame select[aria-label=Vertex] option:checked").inner_text() == "count orders 3"


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


def test_the_library_of_layouts_is_the_published_one():
    about = resources.files("funken.rest").joinpath("dashboard/dagre.txt").read_text()
    assert hashlib.sha256(dashboard_files()["/dagre.js"][0]).hexdigest() in about


def test_the_page_needs_no_other_site():
    for path, (body, _) in dashboard_files().items():
        text = body.decode()
        links = [part for part in text.replace("http://www.w3.org/2000/svg", "").split() if "://" in part]
        assert [part for part in links if "s3://" not in part] == [], path
        assert "innerHTML" not in text and "eval(" not in text, path
