"""Jobs that run in a notebook are shown below the cell; a stand-in for IPython takes the pictures."""

import contextvars
import logging
import re
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy, show_progress
from funken.api.jobs.notebook import JobProgress, LiveJob, Reading
from funken.dataset import ExecutionEnvironment
from funken.errors import JobCancelled, OperatorFailed
from funken.testing import local
from tests.support.blocking import LET_GO, wait_and_fail

BOUND = 30
CELL = contextvars.ContextVar("cell", default=None)


class Notebook:
    """What IPython has of its kernel: displays, and what is in each by now."""

    def __init__(self):
        self.pictures = []
        self.cells = []
        self.changed = threading.Condition()
        self.display = SimpleNamespace(display=self.show)

    def get_ipython(self):
        return SimpleNamespace(kernel=object())

    def show(self, progress, *, display_id):
        assert display_id
        self.cells.append(CELL.get())
        pictures = []
        self.pictures.append(pictures)
        handle = SimpleNamespace(update=lambda progress: self.take(pictures, progress))
        handle.update(progress)
        return handle

    def take(self, pictures, progress):
        with self.changed:
            pictures.append(progress._repr_html_())
            self.changed.notify_all()

    def wait_for(self, pattern):
        def found():
            return any(re.search(pattern, picture) for pictures in self.pictures for picture in pictures)

        with self.changed:
            assert self.changed.wait_for(found, BOUND), (pattern, self.pictures)


@pytest.fixture
def notebook(monkeypatch):
    found = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", found)
    return found


def text_of(html):
    return re.sub(r"<[^>]*>", " ", html)


def endless(every="20 ms", checkpoints=None):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    env.get_configuration().set("notebook.progress-interval", every)
    if checkpoints is not None:
        env.enable_checkpointing("50 ms")
        env.get_configuration().set("execution.checkpointing.dir", str(checkpoints))
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: int(time.time() * 1000)
    )
    env.from_source(DataGeneratorSource(str, None, 500), by_time, "numbers").uid("numbers").for_each(len)
    return env


def test_a_running_job_is_one_table_that_is_replaced_and_in_the_end_a_line(notebook):
    client = endless().execute_async("<endless>")
    notebook.wait_for(r"<td>RUNNING</td><td>[\d,]+</td><td>[1-9]")
    client.cancel().result(BOUND)

    (pictures,) = notebook.pictures
    assert len(pictures) > 2
    assert all(picture.startswith("<b>&lt;endless&gt;</b>") for picture in pictures)
    assert sum("<table>" in picture for picture in pictures) == len(pictures) - 1
    assert re.match(r" &lt;endless&gt; : cancelled after [\d.]+ s: \d+ records", text_of(pictures[-1]))


def test_rate_watermark_lag_late_records_and_checkpoints_are_its_columns(notebook, tmp_path):
    client = endless(checkpoints=tmp_path).execute_async()
    whole = r"\d\d:\d\d:\d\d</td><td>[\d.]+ m?s</td>.*\d completed"
    notebook.wait_for(whole)
    client.cancel().result(BOUND)

    shown = next(picture for picture in notebook.pictures[0] if re.search(whole, picture))
    header, cells = (re.findall(f"<{kind}>(.*?)</{kind}>", shown) for kind in ("th", "td"))
    row = dict(zip(header, cells, strict=True))
    assert list(row) == [
        "time", "state", "records/s", "records", "late", "watermark", "lag", "latency p50/p99", "checkpoints",
    ]  # fmt: skip
    assert row["late"] == "0"
    assert re.fullmatch(r"\d\d:\d\d:\d\d", row["watermark"])
    assert re.fullmatch(r"[\d.]+ m?s", row["lag"])
    assert re.match(r"\d+ completed.*, the last one \d+ ms, ", row["checkpoints"])
    assert "completed" in notebook.pictures[0][-1]


def test_a_job_that_fails_is_said_to_have_failed(notebook):
    LET_GO.clear()
    stream = local([1]).map(wait_and_fail)
    stream.for_each(repr)
    env = stream.get_execution_environment()
    env.get_configuration().set("notebook.progress-interval", "10 ms")
    client = env.execute_async("division")
    notebook.wait_for("<table>")
    LET_GO.set()

    with pytest.raises(OperatorFailed):
        client.get_job_execution_result().result(BOUND)
    assert re.match(r" division : failed after [\d.]+ s", text_of(notebook.pictures[0][-1]))


def test_a_short_job_shows_nothing(notebook):
    assert local([1, 2]).execute_and_collect(limit=2) == [1, 2]
    assert notebook.pictures == []


def test_an_interval_of_zero_shows_nothing(notebook):
    client = endless(every=0).execute_async()
    assert not any(thread.name == "funken-show-progress" for thread in threading.enumerate())
    client.cancel().result(BOUND)
    assert notebook.pictures == []


def test_the_display_belongs_to_the_cell_that_started_the_job(notebook):
    CELL.set("first")
    client = endless().execute_async()
    CELL.set("second")
    notebook.wait_for("<table>")
    client.cancel().result(BOUND)

    assert notebook.cells == ["first"]


def test_a_display_that_fails_is_given_up_with_a_warning_and_the_job_goes_on(notebook, caplog):
    shown = threading.Event()

    def broken(progress, *, display_id):
        shown.set()
        raise OSError("no kernel")

    notebook.display.display = broken
    with caplog.at_level(logging.WARNING, "funken.api.jobs.notebook"):
        client = endless().execute_async("endless")
        assert shown.wait(BOUND)
        client.cancel().result(BOUND)

    assert isinstance(client.get_job_execution_result().exception(), JobCancelled)
    (message,) = [record.getMessage() for record in caplog.records if record.name == "funken.api.jobs.notebook"]
    assert "job 'endless' cannot be shown in the notebook any more, the job continues: OSError: no kernel." in message


def test_show_progress_shows_short_jobs_too_and_each_once(notebook):
    with show_progress(every=0.01):
        local([1, 2]).execute_and_collect("two", limit=2)
        client = endless(every="10 ms").execute_async("endless")
        notebook.wait_for("<b>endless</b><table>")
        client.cancel().result(BOUND)

    first, second = notebook.pictures
    assert re.match(r" two : (finished|cancelled) after ", text_of(first[-1]))
    assert re.match(r" endless : cancelled after ", text_of(second[-1]))


def test_outside_of_notebooks_show_progress_writes_lines(capsys):
    with show_progress(every=3600):
        stream = local([1, 2])
        stream.for_each(repr)
        stream.get_execution_environment().execute("two")

    assert re.fullmatch(r"two: finished after [\d.]+ s(: 2 records.*)?\n", capsys.readouterr().err)


def test_a_batch_program_is_shown_by_itself(notebook):
    env = ExecutionEnvironment.create_local_environment(parallelism=1)
    env.get_configuration().set("notebook.progress-interval", "10 ms")

    def slow(number):
        notebook.wait_for("<th>operator</th>")
        return number

    env.from_collection([1]).map(slow).name("slow").collect()

    (pictures,) = notebook.pictures
    assert "1 records read" in pictures[-1]


def test_what_is_shown_does_not_grow_with_the_job():
    def size(parallelism, operators):
        stream = local([1], parallelism)
        for number in range(operators):
            stream = stream.map(repr).name(f"step {number}").disable_chaining()
        stream.for_each(repr)
        client = stream.get_execution_environment().execute_async("job")
        client.get_job_execution_result().result(BOUND)
        return len(LiveJob(client).progress()._repr_html_())

    assert abs(size(1, 1) - size(8, 12)) < 40


def test_names_and_facts_are_escaped():
    shown = JobProgress("<b>", 1.0, "RUNNING", Reading(1, None, 0, None, None), "<i>", url="http://x/?a=1&b=2")

    html = shown._repr_html_()
    assert "<b>&lt;b&gt;</b>" in html and "&lt;i&gt;" in html and 'href="http://x/?a=1&amp;b=2"' in html


LIVE = """
import time
from funken import DataGeneratorSource, StreamExecutionEnvironment

def slow(number):
    time.sleep(0.02)
    return number

env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
env.get_configuration().set("notebook.progress-interval", "50 ms")
env.from_source(DataGeneratorSource(int, 40)).map(slow).for_each(repr)
env.execute("forty numbers")
"""


def test_a_kernel_shows_the_job_below_its_cell():
    import nbformat
    from nbclient import NotebookClient

    cells = [nbformat.v4.new_code_cell(LIVE), nbformat.v4.new_code_cell("None")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()

    shown = [output["data"] for output in notebook.cells[0].outputs if output["output_type"] == "display_data"]
    (last,) = shown
    assert re.match(r"<b>forty numbers</b>: finished after [\d.]+ s: 40 records", last["text/html"])
    assert last["text/plain"].startswith("forty numbers: finished after ")
