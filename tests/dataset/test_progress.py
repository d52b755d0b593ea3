"""What is seen of a program while it runs, and at its end: in one process and in several."""

import io
import re
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from rich.console import Console

from funken.api.jobs.notebook import (
    BatchProgress,
    IterationProgress,
    OperatorProgress,
    SuperstepProgress,
    show_progress,
    watch_batch_jobs,
)
from funken.cli.progress import BatchProgressDisplay, line_of, table_of
from funken.dataset.cluster import runner
from funken.errors import OperatorFailed
from tests.dataset import workers
from tests.dataset.programs import TINY, environment
from tests.dataset.test_workers import cluster

BOUND = 30


@pytest.fixture(params=["one process", "workers"])
def make(request, monkeypatch):
    if request.param == "one process":
        return environment
    monkeypatch.setattr(runner, "run_stage", workers.run_stage)
    return cluster


@contextmanager
def watched():
    """Collect the jobs that begin."""
    jobs = []

    @contextmanager
    def watch(job):
        jobs.append(job)
        yield

    with watch_batch_jobs(watch):
        yield jobs


def counts(progress):
    return {each.name: (each.records_in, each.records_out) for each in progress.operators}


def test_records_in_and_out_of_every_operator(make):
    env = make(2)
    pairs = env.from_collection([(n % 5, 1) for n in range(100)]).filter(lambda pair: pair[0] < 3)
    assert len(pairs.group_by(0).sum(1).collect()) == 3

    progress = env.get_last_job_execution_result().progress

    found = counts(progress)
    assert found["collection"] == (0, 100)
    assert found["filter"] == (100, 60)
    assert found["combine (sum)"] == (60, 6)
    assert found["sum"] == (6, 3)
    assert found["sink"] == (3, 0)
    assert {each.state for each in progress.operators} == {"done"}
    assert progress.records_read == 100
    assert 0 < max(each.seconds for each in progress.operators) <= progress.seconds


def test_supersteps_are_timed_and_counted(make):
    env = make(2)
    start = env.from_collection(range(10)).iterate(4)
    start.close_with(start.rebalance().map(lambda n: n + 1).flat_map(lambda n: [n, n])).count()

    progress = env.get_last_job_execution_result().progress

    (iteration,) = progress.iterations
    assert [each.number for each in iteration.supersteps] == [1, 2, 3, 4]
    assert [each.records for each in iteration.supersteps] == [20, 40, 80, 160]
    assert all(0 < each.seconds < BOUND for each in iteration.supersteps)
    assert iteration.reason == "the maximum is reached"
    assert sum(each.seconds for each in iteration.supersteps) <= progress.seconds
    assert counts(progress)["flat_map"] == (150, 300)


def test_worksets_of_a_delta_iteration(make):
    env = make(2)
    start = env.from_collection([(n, 0) for n in range(8)])
    iteration = start.iterate_delta(start, 10, 0)
    more = iteration.get_workset().map(lambda pair: (pair[0], pair[1] + 1)).filter(lambda pair: pair[1] < 3)
    iteration.close_with(more, more).count()

    (shown,) = env.get_last_job_execution_result().progress.iterations

    assert [each.workset for each in shown.supersteps] == [8, 8, 8]
    assert [each.records for each in shown.supersteps] == [8, 8, 0]


def test_spilled_bytes_by_operator_and_superstep(make):
    env = make(2, TINY)
    start = env.from_collection([(n, f"{n:060d}") for n in range(3000)]).iterate(2)
    start.close_with(start.partition_by_hash(0).sort_partition(0, descending=True)).count()

    result = env.get_last_job_execution_result()

    assert result.progress.spilled["sort_partition"] > 100_000
    assert result.progress.spilled_bytes == result.spilled_bytes
    per_superstep = [each.spilled for each in result.progress.iterations[0].supersteps]
    assert min(per_superstep) > 50_000
    assert sum(per_superstep) <= result.spilled_bytes


def test_a_program_is_seen_while_it_runs(make):
    env = make(1)
    slow = lambda n: workers.CALLS["wait"](n)  # noqa: E731, PLW0108 - travels without what it waits for
    entered, seen = threading.Event(), threading.Event()

    def wait(n):
        entered.set()
        assert seen.wait(BOUND)
        return n

    workers.CALLS["wait"] = wait
    with watched() as jobs:
        thread = threading.Thread(target=env.from_collection(range(5)).map(slow).name("slow").count)
        thread.start()
        assert entered.wait(BOUND)
        for _ in range(BOUND * 20):  # workers report twice a second
            states = {each.name: each.state for each in jobs[0].progress().operators}
            if states["slow"] == "running":
                break
            threading.Event().wait(0.05)
        during = jobs[0].progress()
        seen.set()
        thread.join(BOUND)

    assert states["slow"] == "running"
    assert counts(during)["slow"] == (5, 0)
    assert during.seconds > 0
    assert jobs[0].progress().operators[-1].state == "done"


def test_a_restart_is_counted(make, tmp_path):
    if make is environment:
        pytest.skip("one process does not restart")
    env = make(2)
    env.get_configuration().set("restart-strategy.type", "fixed-delay").set(
        "restart-strategy.fixed-delay.delay", "10 ms"
    )
    marker = tmp_path / "failed"

    def fail_once(n):
        if not marker.exists():
            marker.touch()
            raise ValueError("once")
        return n

    assert env.from_collection(range(50)).map(fail_once).count() == 50
    progress = env.get_last_job_execution_result().progress
    assert progress.restarts == 1
    assert counts(progress)["map"] == (50, 50)  # of the attempt that succeeded


PROGRESS = BatchProgress(
    "ranks",
    12.3,
    (
        OperatorProgress("edges", "SOURCE", 2, 0, 1_000_000, 1.5, "done"),
        OperatorProgress("join", "MERGE", 2, 2_000_000, 7, 10.0, "running"),
    ),
    (IterationProgress("iterate", 30, tuple(SuperstepProgress(n, 0.25, 100, 2_000_000) for n in range(1, 9))),),
    {"join": 16_000_000, "exchange": 5},
    2,
)


def shown(renderable):
    console = Console(file=io.StringIO(), width=200)
    console.print(renderable)
    return console.file.getvalue()


def test_the_table_has_operators_and_the_newest_supersteps():
    text = shown(table_of(PROGRESS))

    assert re.search(r"join +MERGE +2 +2,000,000 +7 +16.0 MB +10.0 s +running", text)
    assert re.search(r"exchange +5 bytes", text)
    assert re.search(r"iterate +8 +250 ms +100 +2.0 MB", text)
    assert not re.search(r"iterate +3 ", text)
    assert "superstep 9 of at most 30" in text
    assert str(PROGRESS).splitlines()[0] == "ranks: 12.3 s, " + PROGRESS.facts()


def test_a_line_names_what_is_at_work():
    line = line_of(PROGRESS)

    assert line.startswith(
        "ranks: 12 s, 1 of 2 operators done, 1,000,000 records read, iterate: superstep 9 of at most 30"
    )
    assert "16.0 MB spilled, 2 restarts; at work: join 2,000,000" in line


@pytest.mark.parametrize("terminal", [False, True])
def test_the_display_says_how_a_program_ended(terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200)
    env = environment(2)
    with watch_batch_jobs(BatchProgressDisplay(console, every=0.05).watch):
        env.from_collection(range(4)).map(lambda n: threading.Event().wait(0.15)).count()
        with pytest.raises(OperatorFailed):
            env.from_elements(0).map(lambda n: 1 // n).collect()
    text = console.file.getvalue()

    assert re.search(r"collect\(\): finished after \d+\.\d s: 4 of 4 operators done, 4 records read", text)
    assert "collect(): failed after" in text
    assert ("at work: " in text) or terminal
    assert ("records out" in text) is terminal


def test_a_notebook_has_one_table_that_is_replaced(monkeypatch):
    shown, updated = [], []

    class Handle:
        def update(self, progress):
            updated.append(progress._repr_html_())

    def display(progress, display_id):
        shown.append(progress._repr_html_())
        return Handle()

    python = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=object()), display=SimpleNamespace(display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", python)
    env = environment(1)
    with show_progress(every=0.02):
        env.from_collection(range(4)).map(lambda n: threading.Event().wait(0.05)).name("<slow>").collect()

    assert len(shown) == 1
    assert "<td>&lt;slow&gt;</td>" in updated[-1]
    assert "4 records read" in updated[-1]
    assert updated[-1] == env.get_last_job_execution_result()._repr_html_()


def test_outside_of_notebooks_there_are_lines(capsys):
    with show_progress(every=0.02):
        environment(1).from_collection(range(3)).map(lambda n: threading.Event().wait(0.05)).collect()

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2
    assert "3 of 3 operators done, 3 records read" in lines[-1]
