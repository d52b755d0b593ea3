"""What the driver keeps of the metrics of a job, and how a client reads it."""

import random
import time
from dataclasses import replace

import pytest

from funken.errors import RequestRejected
from funken.rest import history
from funken.rest.jobs import Jobs
from funken.rest.views.jobs import vertex_id
from funken.runtime.job.states import JobStatus
from funken.runtime.job.time_series import TimeSeries
from tests.rest.conftest import JOB, FakeJob, picture, subtask

SOURCE, SUMS = (vertex_id(info) for info in picture().graph.vertices)


@pytest.mark.parametrize("seed", range(20))
def test_series_are_what_a_list_of_samples_says(seed):
    chance = random.Random(seed)
    interval, span = chance.choice([1, 5, 10]), 60
    series, samples, at = TimeSeries(span, interval, 10_000), {}, 0
    for _ in range(200):
        at += interval * chance.choice([1, 1, 1, 2, 9])
        values = {name: chance.random() for name in "abc" if chance.random() < 0.7}
        series.add(at, values)
        samples[at] = values
    expected = [each for each in samples if each > at - span]
    times, found = series.read()
    assert times == expected
    assert found == {name: [samples[each].get(name) for each in expected] for name in "abc"}
    since = expected[len(expected) // 2]
    times, found = series.read(lambda name: name == "a", since)
    assert times == [each for each in expected if each > since] and list(found) == ["a"]
    assert len(found["a"]) == len(times)


def test_memory_stays_within_the_bound_and_what_has_no_room_is_counted():
    series = TimeSeries(3600, 5, 10_000)
    for at in range(0, 3600, 5):
        series.add(at, {name: float(at) for name in range(at // 100)})
        assert len(series) <= 10_000
    assert series.interval == 20, "35 series of 360 values are too many"
    series.add(3600, dict.fromkeys(range(20_000), 1.0))
    assert len(series) <= 10_000 and series.left_out > 10_000
    times, found = series.read()
    assert times[-1] == 3600 and found[0][-1] == 1.0


def test_a_series_is_coarser_afterwards():
    series = TimeSeries(3600, 5, 10_000)
    for at in range(0, 3600, 5):
        series.add(at, {"records": float(at)})
    series.thin(40)
    times, found = series.read()
    assert len(times) == 90 and times[-1] == 3595 and found["records"] == [float(each) for each in times]


def test_a_sample_has_every_metric_of_a_job_its_vertices_and_functions():
    found = history.sample_of(picture())
    assert found["", "numRestarts", "sum"] == 1
    assert [found[SOURCE, "numRecordsIn", kind] for kind in ("sum", "min", "max")] == [100, 30, 70]
    assert found[SUMS, "sums.late", "sum"] == 2, "a metric that one subtask has"
    assert found[SUMS, "sums.orders.rate", "max"] == 0.5


def test_the_history_of_a_job_is_answered_by_vertex_and_metric(api, job, jobs):
    for seconds in range(4):
        metrics = [subtask(n, records_in_per_second=10.0 * seconds + n) for n in range(2)]
        job.current = picture(taken=10_000 + 5000 * seconds)
        vertices = (replace(job.current.vertices[0], subtasks=tuple(metrics)), job.current.vertices[1])
        job.current = replace(job.current, vertices=vertices)
        job.entry.refresh()
        history.record(job.entry)
    found = api.get(f"/jobs/{JOB}/history").json
    assert found["times"] == [10_000, 15_000, 20_000, 25_000] and found["interval"] == 5000
    assert found["job"]["numRestarts"] == [1] * 4
    assert found["vertices"][SOURCE]["numRecordsInPerSecond"]["sum"] == [1, 21, 41, 61]
    assert "numRecordsIn" not in found["vertices"][SOURCE]

    query = f"vertex={SOURCE}&get=numRecordsInPerSecond,numRecordsIn&since=15000"
    found = api.get(f"/jobs/{JOB}/history?{query}").json
    assert found["times"] == [20_000, 25_000] and found["job"] == {}
    assert found["vertices"] == {
        SOURCE: {
            "numRecordsInPerSecond": {"sum": [41, 61], "min": [20, 30], "max": [21, 31]},
            "numRecordsIn": {"sum": [0, 0], "min": [0, 0], "max": [0, 0]},
        }
    }
    assert api.get(f"/jobs/{JOB}/history?get=numRestarts").json["job"] == {"numRestarts": [1] * 4}
    assert api.get(f"/jobs/{JOB}/history?vertex={'0' * 32}").status == 404
    assert api.get(f"/jobs/{JOB}/history?since=yesterday").status == 400


def test_a_job_that_is_over_keeps_its_history_and_gets_no_more(jobs):
    job = FakeJob()
    entry = jobs.add(job)
    history.record(entry)
    over = {JobStatus.CREATED: 1000, JobStatus.FINISHED: 16_000}
    job.current = picture(state=JobStatus.FINISHED, taken=20_000, timestamps=over)
    jobs.close(entry)
    history.record(entry)
    found = history.answer(entry, None, None, None)
    assert found["times"] == [10_000] and found["interval"] == 40_000
    with pytest.raises(RequestRejected, match="vertex"):
        history.answer(entry, "f" * 32, None, None)


class Broken(FakeJob):
    """A job whose snapshots fail after the first."""

    def snapshot(self):
        if self.taken:
            raise OSError("no such job")
        return super().snapshot()


def test_the_sampler_takes_samples_until_it_is_closed_and_a_job_that_fails_costs_only_its_own(monkeypatch, caplog):
    monkeypatch.setattr(history, "HISTORY_INTERVAL", 10)
    jobs = Jobs(0)
    broken = Broken(id="broken", name="broken")
    jobs.add(broken)
    job = FakeJob()
    entry = jobs.add(job)
    sampler = history.Sampler(jobs)
    until = time.monotonic() + 20
    while not history.answer(entry, None, None, None)["times"]:
        assert time.monotonic() < until
    sampler.close()
    sampler.join(30)
    assert "job 'broken': a sample of its metrics is lost" in caplog.text
    job.current = picture(taken=90_000)
    assert history.answer(entry, None, None, None)["times"] == [10_000]
