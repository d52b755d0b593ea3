"""The demonstration of recovery: what it counts, what it kills, and that it would show a loss."""

import io
import os
import re
import signal
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from rich.console import Console

from funken import Configuration, StreamExecutionEnvironment
from funken.cli.main import main
from funken.demo import fraud
from funken.demo.chaos import KILL_AFTER, Chaos, Timeline, worker_of
from funken.demo.fraud import Verdict, Watch, expected
from funken.runtime.job.states import JobStatus
from funken.runtime.messages import MetricsReport, TaskId, VertexMetrics

RATE, COUNT = 20_000, 20_000


class DiesOnce(Watch):
    """The watch, which fails in the first attempt when a card has had some payments."""

    def open(self, runtime_context):
        super().open(runtime_context)
        self.dies = runtime_context.get_attempt_number() == 0

    def process_element(self, value, ctx):
        if self.dies and value.at > 500:
            raise RuntimeError("a worker dies")
        return super().process_element(value, ctx)


def run(folder, monkeypatch, **options):
    monkeypatch.setattr(fraud, "Watch", DiesOnce)
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"}
    checkpoints = {"execution.checkpointing.interval": "50 ms"}
    env = StreamExecutionEnvironment.create_local_environment(2, Configuration(restarts | checkpoints | options))
    fraud.watch_payments(env, RATE, COUNT, str(folder))
    env.execute()
    return Verdict.of(expected(RATE, COUNT), fraud.results_in(str(folder)))


def test_nothing_is_lost_or_doubled_when_a_task_dies(tmp_path, monkeypatch):
    verdict = run(tmp_path, monkeypatch)

    assert (verdict.payments, verdict.exact) == (COUNT, True)
    assert verdict.alarms > 0
    assert str(verdict).endswith("lost 0, doubled 0")


def test_at_least_once_would_be_noticed():
    right = list(expected(RATE, COUNT))
    kind, card, payments, cents = next(row for row in right if row[0] == "total")
    rest = [row for row in right if row[:2] != (kind, card)]

    assert Verdict.of(right, right).exact
    doubled = Verdict.of(right, [*rest, (kind, card, payments + 3, cents)])
    assert (doubled.doubled, doubled.lost, doubled.exact) == (3, 0, False)
    lost = Verdict.of(right, rest)
    assert (lost.lost, lost.wrong_sums, lost.exact) == (payments, 1, False)
    twice = Verdict.of(right, [*right, (kind, card, payments, cents), ("total", -1, 2, 0)])
    assert (twice.doubled, twice.exact) == (payments + 2, False)
    alarm = next(row for row in right if row[0] == "alarm")
    assert Verdict.of(right, [*right, alarm]).doubled_alarms == 1


class Job:
    """A job that is looked at: three tasks in processes of their own."""

    restarts = 0

    def __init__(self, state=JobStatus.RUNNING, pids=(11, 12)):
        self.records = 0
        self.plan = SimpleNamespace(vertices=[SimpleNamespace(id=0, source=True), SimpleNamespace(id=1, source=None)])
        self.state = state
        self.pids = pids

    def metrics(self):
        vertices = {0: VertexMetrics(records_in=self.records), 1: VertexMetrics(latency={40: self.records})}
        return {TaskId(0, 0): MetricsReport(TaskId(0, 0), vertices=vertices)}

    def snapshot(self):
        subtasks = [SimpleNamespace(pid=pid) for pid in self.pids]
        return SimpleNamespace(state=self.state, vertices=[SimpleNamespace(subtasks=subtasks)])


@pytest.fixture
def watched():
    killed = []
    chaos = Chaos(Console(file=io.StringIO(), width=100), 20, lambda *call: killed.append(call))
    chaos._client = Job()
    return chaos, chaos._client, killed


def test_without_a_terminal_a_worker_is_killed_once_after_a_while(watched):
    chaos, job, killed = watched
    chaos.step(1, interactive=False)
    job.records = 1000
    for second in range(2, 20):
        chaos.step(second, interactive=False)
        assert bool(killed) == (second - 2 >= KILL_AFTER)

    assert killed == [(11, signal.SIGKILL)]


def test_a_key_kills_a_worker_and_the_next_one_only_after_recovery(watched):
    chaos, job, killed = watched
    job.records = 1000
    chaos.step(1, interactive=True)
    assert killed == []

    chaos.request()
    chaos.step(2, interactive=True)
    chaos.request()
    chaos.step(3, interactive=True)
    assert len(killed) == 1, "it has not recovered yet"

    job.restarts, job.records = 1, 10
    chaos.step(4, interactive=True)
    assert (len(killed), chaos.timeline.recoveries) == (2, [2])


def test_it_is_drawn(watched):
    chaos, job, _ = watched
    for second in range(6):
        job.records = 1000 * second
        chaos.step(second, interactive=True)
    chaos.request()
    job.records = 6000
    chaos.step(6, interactive=True)
    out = Console(file=io.StringIO(), width=100)
    out.print(chaos.render())

    text = out.file.getvalue()
    assert re.search(r"1,000 +.*\n.*records/s", text)
    assert "worker 11 killed: recovering from the newest checkpoint ..." in text
    assert "█" in text


def test_the_own_process_is_never_killed():
    assert worker_of(Job(pids=(0, os.getpid()))) is None
    assert worker_of(Job(pids=(0, os.getpid(), 7))) == 7
    assert worker_of(Job(state=JobStatus.RESTARTING)) is None


def test_a_restart_begins_the_numbers_anew():
    timeline = Timeline()
    timeline.sample(0, 0, {}, 0)
    timeline.sample(1, 5000, {}, 0)
    timeline.sample(2, 100, {}, 1)
    timeline.sample(3, 600, {}, 1)

    assert [sample.rate for sample in timeline.samples] == [0.0, 5000.0, 0.0, 500.0]


def test_the_command_without_workers_says_that_none_was_killed():
    done = CliRunner().invoke(main, ["demo", "--chaos", "--target=local", "--seconds=1", "--speed=500"])

    assert done.exit_code == 0, done.output
    assert "no worker was killed" in done.stdout
    assert re.search(r"500 payments, \d+ alarms?: lost 0, doubled 0", done.stdout)


@pytest.mark.spark
def test_a_worker_of_spark_is_killed_and_nothing_is_lost(tmp_path):
    picture = tmp_path / "run.svg"
    done = CliRunner().invoke(main, ["demo", "--chaos", "--seconds=12", "--speed=500", "--picture", str(picture)])

    assert done.exit_code == 0, done.output
    assert re.search(r"worker \d+ was killed at \d+\.\d s; \d+\.\d s later the job read on", done.stdout)
    assert re.search(r"6,000 payments, \d+ alarms?: lost 0, doubled 0", done.stdout)
    assert picture.read_text().startswith("<svg")
    assert "@font-face" not in picture.read_text(), "nothing is loaded from elsewhere"
    assert picture.read_text().count("@keyframes") > 8
    assert "lost" in picture.read_text().rpartition("<svg")[2], "the last frame has the verdict"
