"""The bench that compares: no figure for a wrong result, ratios of neighbours, nothing run twice, nothing left running."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "benchmarks" / "compare"


@pytest.fixture(autouse=True)
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))


def run(case, number, speed, commit="c", **figures):
    return {"case": case, "round": number, "commit": commit, "figures": {"records_per_s": speed, **figures}}


@pytest.mark.parametrize("program", ["grep", "keyed", "windows"])
def test_the_oracle_takes_what_is_right_and_nothing_else(program):
    import oracle

    right = list(oracle.expected(program, keys=10, count=3000).elements())
    assert oracle.check(program, right, keys=10, count=3000) == len(right) > 0
    for wrong in (right[1:], right + right[:1], [*right[1:], ("foreign",)]):
        with pytest.raises(oracle.WrongResult):
            oracle.check(program, wrong, keys=10, count=3000)
    with pytest.raises(oracle.WrongResult):
        oracle.check_part(program, [*right, right[0]], keys=10, count=3000, per_ms=10, at_least=1)
    with pytest.raises(oracle.WrongResult):
        oracle.check_part(program, right[:1], keys=10, count=3000, per_ms=10, at_least=2)


def test_newest_counts_are_those_after_their_batch_and_no_others():
    import oracle

    first, second = [(0, 2), (1, 1)], [(0, 3), (1, 3)]
    assert oracle.check_newest([first, second], keys=2, size=3) == 4
    for wrong in ([(0, 2), (1, 3)], [(0, 3)], [*second, (1, 3)], first, []):  # some were right after another record
        with pytest.raises(oracle.WrongResult):
            oracle.check_newest([first, wrong], keys=2, size=3)


def test_the_oracle_for_a_few_numbers():
    import oracle

    assert oracle.expected("grep", 2, count=2000) == {"line 999 of the text": 1, "line 1999 of the text": 1}
    assert oracle.expected("keyed", 2, count=3) == {(0, 1): 1, (0, 2): 1, (1, 1): 1}
    assert oracle.expected("windows", 2, count=2001, per_ms=1) == {
        (0, 500, 1000): 1,
        (1, 500, 1000): 1,
        (0, 500, 2000): 1,
        (1, 500, 2000): 1,
        (0, 1, 3000): 1,
    }


def test_a_ratio_is_the_median_over_rounds_that_both_have():
    import report

    runs = [run("a", 0, 10.0), run("b", 0, 5.0), run("a", 1, 100.0), run("b", 1, 10.0), run("a", 2, 1000.0)]
    runs.append({**run("b", 2, 1.0), "figures": {"failed": "took too long"}})
    runs += [run("a", 3, 1.0, commit="older"), run("b", 3, 1.0)]
    documents = {"keyed": {"runs": runs}}
    assert report.ratio(documents, "keyed", "a", "b") == 6.0
    assert report.value(documents, "keyed", "b") == 5.0
    assert report.ratio(documents, "keyed", "a", "nobody") is None


def test_aims_are_met_from_above_for_speed_and_from_below_for_latency():
    import report

    def met(unit, measured):
        floor, aim = (100, 50) if unit == "ms" else (2, 4)
        return report.Verdict("", floor, aim, unit, [] if measured is None else [measured]).met

    assert [met("x", value) for value in (None, 1.9, 2, 4)] == ["not measured", "**no**", "floor", "aim"]
    assert [met("ms", value) for value in (101, 100, 50)] == ["**no**", "floor", "aim"]


def test_the_aims_tell_how_far_apart_the_rounds_were():
    import report

    runs = [run("funken", 0, 80.0), run("bytewax", 0, 20.0), run("funken", 1, 100.0), run("bytewax", 1, 20.0)]
    assert report.verdicts({"keyed": {"runs": runs}})[1].rounds == "2: 4 to 5"
    assert report.verdicts({"keyed": {"runs": runs[:2]}})[1].rounds == "1"
    assert "| 2: 4 to 5 | floor |" in report.aims({"keyed": {"runs": runs}})


def test_the_ratio_to_pyflink_is_that_to_its_better_mode():
    import report

    runs = [run("funken", 0, 80.0), run("pyflink-process", 0, 2.0), run("pyflink-thread", 0, 1.0)]
    assert report.verdicts({"keyed": {"runs": runs}})[0].measured == 40.0
    assert report.verdicts({"keyed": {"runs": runs[:2]}})[0].measured is None  # the other mode may be the better one


def test_the_cases_for_the_aims_are_what_their_table_needs():
    import report
    from experiments import AIMED, EXPERIMENTS

    def measured(left_out=None):
        cases = {name: [case for case in labels if (name, case) != left_out] for name, labels in AIMED.items()}
        runs = {name: {"runs": [run(case, 0, 1.0, p50=1, p99=2) for case in found]} for name, found in cases.items()}
        return [verdict.measured for verdict in report.verdicts(runs)]

    assert None not in measured()
    for name, labels in AIMED.items():
        assert set(labels) <= {case.label for case in EXPERIMENTS[name].cases}
        for case in labels:
            assert None in measured(left_out=(name, case))


def test_memory_is_listed_by_system():
    import report

    runs = [run("funken", 0, 1.0, memory=1e9), run("funken", 1, 1.0, memory=2e9), run("bytewax", 0, 1.0)]
    assert report.memory({"keyed": {"runs": runs}}).splitlines()[2:] == ["| Funken, opaque lambdas | 1,500 |"]
    assert report.memory({"keyed": {"runs": runs[2:]}}) == ""


def test_a_rate_that_was_not_kept_is_told_beside_its_latencies():
    import report

    latencies = {"p50": 1.0, "p90": 2.0, "p99": 3.0, "p99.9": 4.0}
    runs = [
        run("funken, 5 ms, full load", 0, 2e6, **latencies),
        run("funken, 5 ms, at 100,000/s", 0, 99_000.0, **latencies),
        run("funken, 0 ms, at 100,000/s", 0, 60_000.0, **latencies),
    ]
    rows = report.by_load({"buffer-timeout": {"runs": runs}}, "buffer-timeout").splitlines()[2:]
    assert rows == [
        "| funken, 0 ms | - | - | 1 / 2 / 3 / 4 (only 60,000/s) |",
        "| funken, 5 ms | 2 | 1 / 2 / 3 / 4 | 1 / 2 / 3 / 4 |",
    ]


def test_the_interval_that_is_measured_begins_after_the_warm_up():
    from protocol import Spec, bucket_of, watch

    readings = iter(
        [
            None,
            (0.0, 0, {}),
            (1.0, 10, {}),
            (2.0, 1000, {bucket_of(50): 5}),
            (3.0, 1000, {}),
            (5.0, 1600, {bucket_of(50): 6}),
        ]
    )
    figures = watch(lambda: next(readings), Spec(warmup=1, seconds=3))
    assert figures["records_per_s"] == 200.0
    assert figures["latency"] == {50: 1}
    assert figures["p99"] == 0.05


@pytest.mark.parametrize(("warmup", "rate"), [(1, 500.0), (30, 375.0)])
def test_input_that_ends_is_measured_to_its_end(warmup, rate):
    from protocol import Spec, watch

    readings = iter([(0.0, 500, {}), (2.0, 1000, {}), (4.0, 2000, {}), (9.0, 2000, {})])
    assert watch(lambda: next(readings), Spec(warmup=warmup, seconds=60), total=2000)["records_per_s"] == rate


def test_messages_of_the_kafka_experiment_are_checked():
    import json

    import kafka_common
    import oracle

    key, value = kafka_common.message(1234, keys=1000)
    assert (key, len(value), json.loads(value)["user"]) == (b"user-234", 150, "user-234")
    right = [(f"user-{key}", count) for key, count in oracle.expected("keyed", 1000)]
    assert kafka_common.check(right, 1000) == 25_000
    newest = {f"user-{key}": 25 for key in range(1000)}
    assert kafka_common.check_last(newest, 1000) == 1000
    for wrong in (
        lambda: kafka_common.check(right[1:], 1000),
        lambda: kafka_common.check_last(newest | {"user-7": 24}, 1000),
    ):
        with pytest.raises(oracle.WrongResult):
            wrong()


def test_percentiles_agree_with_the_engine():
    from protocol import bucket_of, percentiles

    from funken.metrics import registry as latency

    histogram = {bucket_of(micros): 1 for micros in range(0, 1_000_000, 997)}
    assert percentiles(histogram)["p99"] == latency.percentile(histogram, 0.99)
    assert bucket_of(123_456) == latency.bucket_of(123_456)


def test_a_finished_run_is_not_made_again_and_a_failed_one_is(tmp_path, monkeypatch):
    import rounds
    from experiments import Case, Experiment
    from protocol import Spec

    experiment = Experiment("x", "X", (Case("good", "bytewax"), Case("bad", "bytewax", {"program": "grep"})))
    monkeypatch.setattr(rounds, "commit", lambda: "one")
    monkeypatch.setattr(
        rounds, "measure", lambda system, spec: {"records_per_s": 1.0} if spec.program == "keyed" else {"failed": "no"}
    )
    monkeypatch.setattr(rounds.environments, "versions", dict)

    def todo(seconds=1.0, fresh=False):
        made = rounds.Rounds(experiment, tmp_path / "x.json", Spec(seconds=seconds), fresh, print)
        return made, [(number, case.label) for number, case in made.plan(2)]

    first, turns = todo()
    assert turns == [(0, "good"), (0, "bad"), (1, "bad"), (1, "good")]
    for number, case in first.plan(1):
        first.run(number, case)
    assert todo()[1] == [(0, "bad"), (1, "bad"), (1, "good")]
    assert todo(fresh=True)[1] == todo(seconds=2.0)[1] == turns
    monkeypatch.setattr(rounds, "commit", lambda: "two")
    assert todo()[1] == turns


def test_what_a_run_started_ends_with_it():
    import processes

    child = "import subprocess, sys; p = subprocess.Popen(['sleep', '60'], process_group=0); print(p.pid, flush=True); p.wait()"
    leader = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True, start_new_session=True)
    grandchild = int(leader.stdout.readline())
    processes.end_session(leader.pid)
    assert leader.wait(10) < 0
    leader.stdout.close()
    stat = Path(f"/proc/{grandchild}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_what_a_run_or_its_server_uses_is_not_what_others_use():
    import processes

    burn = "import time; end = time.process_time() + 0.15\nwhile time.process_time() < end: pass\nprint(flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    own, served, mistaken = processes.Others(child.pid), processes.Others(-1, child.pid), processes.Others(-1)
    child.stdout.readline()
    for each in (own, served, mistaken):
        each.sample()
    processes.end_session(child.pid)
    child.wait(10)
    child.stdin.close()
    child.stdout.close()
    assert own.share() < mistaken.share() <= 1
    assert served.share() < mistaken.share()
    assert (own.used > 0.1, served.used, processes.used_by(child.pid)) == (True, 0, 0)


def test_what_a_session_uses_is_told_by_kind_of_thread():
    import processes
    from threads import threads_of, used_between

    burn = (
        "import threading, time\ndef work():\n    while time.thread_time() < 0.1: pass\n    print(flush=True); time.sleep(60)\n"
        "print(flush=True); input(); threading.Thread(target=work, daemon=True).start(); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    child.stdout.readline()  # what it takes to start does not count
    before = threads_of(child.pid)
    child.stdin.write("\n")
    child.stdin.flush()
    child.stdout.readline()
    used = used_between(before, threads_of(child.pid))
    processes.end_session(child.pid)
    child.wait(10)
    child.stdin.close()
    child.stdout.close()
    assert set(used) == {"Python driver, main", "Python driver, other"}
    assert used["Python driver, main"].cpu < 0.1 <= used["Python driver, other"].cpu + 0.001
    assert used["Python driver, main"].switches > 0
