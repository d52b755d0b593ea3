"""Jobs made by hand for pictures of the dashboard and tests of its pages: large, tangled, failed, starting, of SQL."""

import logging
import random
from dataclasses import replace

from funken.rest import history
from funken.runtime.job.snapshot import (
    CheckpointsSnapshot,
    CheckpointStats,
    EdgeInfo,
    JobGraph,
    OperatorInfo,
    OperatorRecords,
    SubtaskCheckpointStats,
    VertexInfo,
    VertexSnapshot,
)
from funken.runtime.job.states import Bottleneck, ExecutionState, FailureRecord, JobStatus, RestartRecord
from funken.runtime.log_entries import LogEntry
from tests.rest.conftest import FakeJob, picture, subtask

NOW = 1_790_000_000_000
_RAN = {
    ExecutionState.CREATED: NOW - 3_600_000,
    ExecutionState.SCHEDULED: NOW - 3_599_000,
    ExecutionState.RUNNING: NOW - 3_590_000,
}

USERS_TRACEBACK = """Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/funken/runtime/task/task.py", line 90, in run
    self.step()
  File "/venv/lib/python3.11/site-packages/funken/operators/stateless.py", line 40, in process
    emit(function(value))
  File "/home/ann/funken/pyspark/job.py", line 7, in price
    return PRICES[name]
           ~~~~~~^^^^^^
KeyError: 'pear'"""


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


def tangled_picture(vertices):
    """A job whose edges lead over several layers."""
    job = large_picture(vertices)
    chance = random.Random(vertices)
    pairs = [(max(0, target - chance.randint(1, 4)), target) for target in range(1, vertices)]
    pairs += [(source, source + 9) for source in range(0, vertices - 9, 4)]
    edges = tuple(EdgeInfo(source, target, 0, "HASH", None, False) for source, target in pairs)
    return replace(job, graph=replace(job.graph, edges=edges))


def many_checkpoints(count, vertices, subtasks):
    """The history of so many checkpoints, newest first: all but three deleted, some failed, a savepoint."""
    chance = random.Random(count)
    history = []
    for number in range(count, 0, -1):
        at = NOW - 18_000 * (count - number)
        takes = chance.randint(200, 900) + (6_000 if number % 47 == 0 else 0)
        if number % 31 == 0:
            history.append(CheckpointStats(number, "checkpoint", "FAILED", at, 120, 90, at + 60_000, at + 60_000, 0, "",
                                           "task 'count orders 3 (2/4)' declined: the disk is full"))  # fmt: skip
            continue
        parts = tuple(
            SubtaskCheckpointStats(vertex, place, at + takes, 40_000, 3.0, 20.0, 12.0, 110.0)
            for vertex in range(vertices) for place in range(subtasks)
        ) if number > count - 3 else ()  # fmt: skip
        kind = "savepoint" if number == count - 20 else "checkpoint"
        size = chance.randint(2_000_000, 9_000_000)
        folder = f"s3://bucket/checkpoints/orders/chk-{number}"
        gone = number <= count - 3 and kind == "checkpoint"
        history.append(CheckpointStats(number, kind, "COMPLETED", at, 120, 120, at + takes, at + takes + 10, size, folder, "",
                                       parts, discarded=gone))  # fmt: skip
    waits = tuple((min(3, vertices - 1), place) for place in range(subtasks))
    begun = CheckpointStats(count + 1, "checkpoint", "IN_PROGRESS", NOW - 700, 120, 88, held_up_by=waits)
    newest = next(each for each in history if each.status == "COMPLETED")
    failed = next((each for each in history if each.status == "FAILED"), None)
    return CheckpointsSnapshot(count - count // 31, count // 31, 1, 1, newest, None, failed, None, (begun, *history))


def busy_job(vertices=30, checkpoints=200):
    """A job that has run for an hour, with everything that a page can show."""
    chance = random.Random(1)
    made = tangled_picture(vertices) if vertices > 1 else large_picture(1)
    states = []
    for vertex in made.vertices:
        parts = [
            replace(
                each, timestamps=_RAN, host=f"worker-{each.subtask % 3 + 1}.example.org",
                metrics=replace(
                    each.metrics, input_watermark=NOW - 2_000 - 100 * vertex.id, latency_p50=12.5, latency_p99=80.0,
                    records_in=chance.randint(4_000_000, 9_000_000), bytes_out=chance.randint(10**8, 10**9),
                    busy_ms_per_second=min(1000.0, each.metrics.busy_ms_per_second * chance.uniform(0.5, 1.1)),
                ),
            )
            for each in vertex.subtasks
        ]  # fmt: skip
        states.append(replace(vertex, subtasks=tuple(parts)))
    failure = FailureRecord(
        NOW - 900_000, 0, "KeyError", "'pear'", "enrich orders 2", 1, "2/1", "worker-1", USERS_TRACEBACK
    )
    restart = RestartRecord(NOW - 899_000, 0, 1000, "operator 'enrich orders 2' failed: KeyError: 'pear'")
    slow = (Bottleneck(3, made.vertices[3].name, 2, 0.95, 0.88, NOW - 180_000, (1, 2)),) if vertices > 3 else ()
    return replace(
        made, name="orders of all shops, by region and hour" if vertices > 1 else "one operator", taken=NOW,
        timestamps={JobStatus.CREATED: NOW - 3_600_000, JobStatus.RUNNING: NOW - 3_590_000}, vertices=tuple(states),
        checkpoints=many_checkpoints(checkpoints, vertices, 4), failures=(failure,), failure_count=1,
        restart_history=(restart,), bottlenecks=slow,
    )  # fmt: skip


def failed_job():
    """A job that has failed for good."""
    job = busy_job(9, 12)
    failure = FailureRecord(NOW, 3, "OperatorFailed", "operator 'enrich orders 2' failed: KeyError: 'pear'", "enrich orders 2", 1,
                            "2/1", "worker-1", USERS_TRACEBACK)  # fmt: skip
    vertices = tuple(
        replace(vertex, state=ExecutionState.FAILED if vertex.id == 2 else ExecutionState.CANCELED)
        for vertex in job.vertices
    )
    times = {**job.timestamps, JobStatus.FAILED: NOW}
    return replace(
        job, state=JobStatus.FAILED, timestamps=times, failures=(failure,), vertices=vertices, bottlenecks=()
    )


def starting_job():
    """A job of which nothing runs yet."""
    job = large_picture(6)
    states = tuple(
        VertexSnapshot(vertex.id, vertex.name, ExecutionState.SCHEDULED, tuple(
            subtask(n, ExecutionState.SCHEDULED, {ExecutionState.CREATED: NOW - 2000, ExecutionState.SCHEDULED: NOW - 1900})
            for n in range(4)
        ))
        for vertex in job.vertices
    )  # fmt: skip
    states = tuple(
        replace(vertex, subtasks=tuple(replace(each, host="", pid=0) for each in vertex.subtasks)) for vertex in states
    )
    none = CheckpointsSnapshot(0, 0, 0, 0, None, None, None, None, ())
    return replace(
        job, name="starting", state=JobStatus.CREATED, taken=NOW, timestamps={JobStatus.CREATED: NOW - 2000}, vertices=states,
        checkpoints=none, failures=(), failure_count=0, restarts=0, attempt=0, configuration={},
    )  # fmt: skip


_SQL = (
    ("orders", "TableSourceScan(table=[[shop, sales, orders]], fields=[id, region, price, placed], changelogMode=[I])", (), 0),
    ("WatermarkAssigner", "WatermarkAssigner(rowtime=[placed], watermark=[(placed - 5000:INTERVAL SECOND)], "
     "changelogMode=[I])", (0,), 0),
    ("Calc", "Calc(select=[id, region, price, placed, (price * 1.19) AS gross], where=[((price > 0.0:DOUBLE) AND region IN "
     "('eu', 'us', 'apac'))], changelogMode=[I])", (1,), 0),
    ("rates", "TableSourceScan(table=[[shop, sales, rates]], fields=[region, rate], changelogMode=[I,UB,UA,D])", (), 1),
    ("Join", "Join(joinType=[InnerJoin], where=[(region = region0)], select=[id, region, placed, gross, region0, rate], "
     "leftInputSpec=[NoUniqueKey], rightInputSpec=[HasUniqueKey], changelogMode=[I,UB,UA,D])", (2, 3), 2),
    ("Calc", "Calc(select=[region, (gross * rate) AS amount], changelogMode=[I,UB,UA,D])", (4,), 2),
    ("GroupAggregate", "GroupAggregate(groupBy=[region], select=[region, SUM_RETRACT(amount) AS total, COUNT_RETRACT(*) AS n], "
     "changelogMode=[I,UB,UA,D])", (5,), 3),
    ("Sink", "Sink(table=[shop.sales.totals], fields=[region, total, n], changelogMode=[NONE])", (6,), 3),
    ("Sink", "Sink(table=[shop.sales.audit], fields=[region, amount], changelogMode=[NONE])", (5,), 2),
)  # fmt: skip
"""Operators: a name, what it does, the places of its inputs, the number of its vertex."""


def sql_job():
    """A job of SQL: two tables joined and added up, into two sinks."""
    operators = {number: [] for number in range(4)}
    for place, (name, text, inputs, vertex) in enumerate(_SQL):
        found = OperatorInfo(f"op-{place}", name, f"table {name}", None, text, tuple(f"op-{each}" for each in inputs))
        operators[vertex].append(found)
    infos = [
        VertexInfo(number, " -> ".join(each.name for each in chain), 4, 128, number, tuple(chain))
        for number, chain in operators.items()
    ]
    edges = (
        EdgeInfo(0, 2, 0, "HASH", None, False),
        EdgeInfo(1, 2, 1, "HASH", None, False),
        EdgeInfo(2, 3, 0, "HASH", None, False),
    )
    counts = OperatorRecords(1_200_000, 900_000, 900.0, 675.0)
    in_a_loop = OperatorRecords(1_200_000, None, 900.0, None)
    states = tuple(
        VertexSnapshot(info.id, info.name, ExecutionState.RUNNING, tuple(
            subtask(
                n, times=_RAN, records_in_per_second=900.0, busy_ms_per_second=300.0,
                operators={each.id: in_a_loop if each.name == "Calc" else counts for each in info.operators},
            )
            for n in range(4)
        ))
        for info in infos
    )  # fmt: skip
    return replace(busy_job(9, 20), name="insert-into_shop.sales.totals", graph=JobGraph(tuple(infos), edges), vertices=states,
                   bottlenecks=())  # fmt: skip


FLAME = {
    "name": "root", "value": 200, "children": [
        {"name": "Task.run (runtime/task/task.py:90)", "value": 170, "children": [
            {"name": "ChainLoop.block (runtime/chain/loop.py:210)", "value": 150, "children": [
                {"name": "price (job.py:7)", "value": 90, "children": [
                    {"name": "Catalog.lookup (catalog.py:31)", "value": 60, "children": [
                        {"name": "dumps (__init__.py:231)", "value": 22, "children": []},
                        {"name": "sha256 (hashlib.py:80)", "value": 30, "children": []},
                    ]},
                ]},
                {"name": "region (job.py:15)", "value": 41, "children": [
                    {"name": "match (re.py:190)", "value": 40, "children": []},
                ]},
            ]},
            {"name": "Writer.flush (runtime/exchange/writer.py:77)", "value": 20, "children": []},
        ]},
        {"name": "wait (threading.py:327)", "value": 30, "children": []},
    ],
}  # fmt: skip
"""What a flame graph is drawn from, as Flink's REST API has it."""


def served(snapshot):
    """Return a job that a server shows, with logs."""
    job = FakeJob()
    job.current = snapshot
    chance = random.Random(3)
    levels = [logging.DEBUG, logging.INFO, logging.INFO, logging.INFO, logging.WARNING, logging.ERROR]
    names = [info.operators[0] for info in snapshot.graph.vertices]
    entries = []
    for number in range(120):
        operator, level = chance.choice(names), chance.choice(levels)
        text = (
            f"order {chance.randint(10**6, 10**7)} of shop {number} has no price; the price of the day before is taken"
        )
        at = NOW - 120_000 + 1000 * number
        entries.append(
            LogEntry(
                at, level, "shop.prices", text, operator.name, operator.id, number % 4, 0, f"worker-{number % 3}", 40
            )
        )
    job.log.take(entries)
    return job


def remember_an_hour(entry, job):
    """Let an entry have the history of the hour before."""
    chance, snapshot = random.Random(4), job.current
    for place in range(720):
        share = 0.6 + 0.4 * chance.random() * (0.3 if 300 < place < 340 else 1.0)
        vertices = tuple(
            replace(vertex, subtasks=tuple(
                replace(each, metrics=replace(
                    each.metrics, records_in_per_second=each.metrics.records_in_per_second * share,
                    busy_ms_per_second=each.metrics.busy_ms_per_second * share,
                    latency_p99=(each.metrics.latency_p99 or 50.0) * (2 - share),
                ))
                for each in vertex.subtasks
            ))
            for vertex in snapshot.vertices
        )  # fmt: skip
        at = snapshot.taken - 5000 * (720 - place)
        entry.keep_sample(at, history.sample_of(replace(snapshot, taken=at, vertices=vertices)))
