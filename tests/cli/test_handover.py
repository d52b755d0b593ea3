"""A program that begins here and moves: the records of two jobs are those of one."""

import threading
from contextlib import contextmanager

import pytest

from funken import Configuration, DataGeneratorSource, WatermarkStrategy
from funken.api.jobs.results import watch_jobs
from funken.cli.warm import HandOver
from funken.demo.command import begins_here, demo
from funken.errors import SparkNotStarted

COUNT = 300
BOUND = 60


def build(environment, here):
    source = DataGeneratorSource(lambda index: index, count=COUNT, rate_per_second=200 if here else None)
    numbers = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    return numbers.key_by(lambda number: number % 3).sum().uid("sums")


@pytest.fixture
def jobs():
    """The jobs that ran."""
    seen = []

    @contextmanager
    def note(client):
        seen.append(client)
        yield

    with watch_jobs(note):
        yield seen


def run(start, seen=lambda count: None):
    """Run the program; ``seen`` is told how many records there were."""
    configuration = Configuration({"execution.target": "local", "parallelism.default": 1})
    found = []
    for record in HandOver(build, configuration, "sums", start).records():
        found.append(record)
        seen(len(found))
    return found


def expected():
    sums = [0, 0, 0]
    for number in range(COUNT):
        sums[number % 3] += number
        yield sums[number % 3]


def test_state_and_position_move(jobs):
    some = threading.Event()

    def start(configuration, slots, wanted):
        assert some.wait(BOUND)

    found = run(start, lambda count: some.set() if count == 5 else None)

    assert sorted(found) == sorted(expected())
    assert len(jobs) == 2, "it did not move"


def test_a_program_that_ends_before_spark_is_there_gives_up_the_start(jobs):
    given_up = threading.Event()

    def start(configuration, slots, wanted):
        while wanted():
            threading.Event().wait(0.01)
        given_up.set()
        raise SparkNotStarted("killed")

    assert sorted(run(start)) == sorted(expected())
    assert len(jobs) == 1
    assert given_up.wait(BOUND)


def test_without_spark_it_ends_here(jobs, capsys):
    def start(configuration, slots, wanted):
        raise SparkNotStarted("no memory")

    assert sorted(run(start)) == sorted(expected())
    assert len(jobs) == 1
    assert "there is no Spark to move it to: no memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("where", "speed", "target", "here"),
    [
        (None, None, "continuous", True),
        ("text", 100.0, "continuous", True),
        ("text", None, "continuous", False),
        (None, 0, "continuous", False),
        (None, None, "batch", False),
        (None, None, "local", False),
        ("-", None, "continuous", False),
        ("socket://localhost:1", None, "continuous", False),
    ],
)
def test_only_a_text_that_comes_slowly_begins_here(where, speed, target, here):
    assert begins_here(where, speed, Configuration({"execution.target": target})) == here


def test_the_demo_says_so():
    assert "begins in this process at once" in " ".join(demo.help.split())


@pytest.mark.parametrize(
    ("master", "here"), [("", True), ("local[4]", True), ("spark://host:7077", False), ("yarn", False)]
)
def test_on_a_cluster_nothing_begins_here(master, here):
    assert begins_here(None, None, Configuration({"execution.target": "continuous", "spark.master": master})) == here


def test_under_spark_submit_nothing_begins_here(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not begins_here(None, None, Configuration({"execution.target": "continuous"}))
