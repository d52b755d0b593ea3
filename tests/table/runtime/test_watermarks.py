"""Watermarks of tables: by the assigner behind a source, and in the source, per split."""

import datetime
import random
from collections import Counter

import pytest

from funken import StreamExecutionEnvironment
from funken.connectors.base import NEED_SPLITS, Batch, Boundedness, QueuedReader, Source, StaticSplits
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.ir import InputRef
from funken.expr.sql.types import BigIntType, TimestampType
from funken.ids import MAX_WATERMARK
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import ScanTable
from funken.table.connectors.factory import TableFactory, register_connector
from funken.table.connectors.values import register_rows
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.watermarks import SourceWatermarks, WatermarkAssigner
from funken.table.schema import Schema
from funken.table.udf import udf
from funken.types.row import Row, RowKind
from tests.table.runtime.changelogs import Run

TIMED = BlockSchema(["id", "t"], [BigIntType(), TimestampType(3)])

# ---- the assigner


def assigner(per_record, interval=10_000, idle=25_000, touches=False):
    return Run(
        WatermarkAssigner, [TIMED], TIMED, time=1, expression=InputRef(1, type=TIMED.types[1]), per_record=per_record,
        interval=interval, idle=idle, parameters={}, touches=touches,
    )  # fmt: skip


def test_watermarks_follow_each_record():
    run = assigner(per_record=True).feed("+I(1,@1) +I(2,@5) +I(3,@3)", one_by_one=False)
    assert run.harness.watermarks == [1000, 5000]
    run.watermark(4)  # of another assigner, upstream
    run.end()
    assert run.harness.watermarks == [1000, 5000, MAX_WATERMARK]


def test_watermarks_are_emitted_by_the_clock():
    run = assigner(per_record=False).feed("+I(1,@1) +I(2,@5)", one_by_one=False)
    assert run.harness.watermarks == []
    run.clock(10_000)
    assert run.harness.watermarks == [5000]
    run.clock(20_000)
    assert run.harness.watermarks == [5000]
    run.clock(30_000)
    assert run.harness.is_idle
    run.feed("+I(3,@6)")
    assert not run.harness.is_idle


def test_the_clock_emits_the_highest_watermark_of_all_blocks():
    run = assigner(per_record=False).feed("+I(1,@5)").feed("+I(2,@1)").clock(10_000)
    assert run.harness.watermarks == [5000]
    run.feed("+I(3,@3)").clock(20_000)
    assert run.harness.watermarks == [5000]


def test_a_record_puts_off_idleness():
    run = assigner(per_record=True, idle=1000).feed("+I(1,@5)").clock(900).feed("+I(2,@6)").clock(1800)
    assert not run.harness.is_idle
    assert run.clock(2800).harness.is_idle


def test_watermarks_that_rise_by_more_than_the_interval_do_not_wait_for_the_clock():
    run = assigner(per_record=False, interval=2000).feed("+I(1,@1) +I(2,@5) +I(3,@6)", one_by_one=False)
    run.feed("+I(4,@7)", one_by_one=False).feed("+I(5,@8)", one_by_one=False)
    assert run.harness.watermarks == [5000, 8000]
    run.clock(2000)
    assert run.harness.watermarks == [5000, 8000]
    run.feed("+I(6,@9)").clock(4000)
    assert run.harness.watermarks == [5000, 8000, 9000]


def events(run):
    """Rows and watermarks of a run in their order."""
    found, output = [], run.harness.operator.output
    emit, mark = output.emit_block, output.watermark
    output.emit_block = lambda block: (found.extend(run.output.tuples(block.batch)), emit(block))
    output.watermark = lambda at: (found.append(at), mark(at))
    return found


def flinks(rows, interval, less=0):
    """What an assigner that looks at each row emits: rows and watermarks."""
    found, reached, emitted = [], 0, 0
    for row in rows:
        reached = max(reached, row[1] // 1_000_000)
        found.append(row)
        if reached - emitted > interval:
            emitted = reached
            found.append(emitted - less)
    return found


def late(found):
    """The rows behind a watermark that has passed them."""
    reached, rows = -1, []
    for each in found:
        if isinstance(each, tuple):
            rows += [each] if each[1] // 1_000_000 <= reached else []
        else:
            reached = each
    return rows


def test_a_row_that_is_late_by_a_watermark_within_its_block_is_behind_it():
    run = assigner(per_record=False, interval=200)
    found = events(run)
    run.feed("+I(1,@1) +I(2,@9) +I(3,@10) +I(4,@4) +I(5,@20)", one_by_one=False)
    second = 1_000_000_000
    assert found == [(1, second), (2, 9 * second), (3, 10 * second), 10_000, (4, 4 * second), (5, 20 * second), 20_000]


@pytest.mark.parametrize(("interval", "touches", "expected"), [
    (200, False, [2000]), (200, True, [1999]), (0, False, [2000]), (0, True, [1000, 1001, 2000]),
])  # fmt: skip
def test_where_sessions_are_a_watermark_is_behind_what_may_touch_those_that_it_closes(interval, touches, expected):
    run = assigner(per_record=False, interval=interval, touches=touches)
    run.harness.operator.process_block(
        TIMED.block([(1, 10**9), (2, 10**9 + 10**6), (3, 10**9 + 2 * 10**6), (4, 2 * 10**9)])
    )
    assert run.harness.watermarks == expected
    run.clock(10_000)
    assert run.harness.watermarks[-1] == 2000


@pytest.mark.parametrize("touches", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_the_same_rows_are_late_as_if_each_row_were_a_block(seed, touches):
    rng = random.Random(seed)
    interval, spread = rng.choice([0, 1, 200, 5000]), rng.choice([1, 3000, 60_000])
    run = assigner(per_record=False, interval=interval, touches=touches)
    found, rows, now = events(run), [], 0
    for _ in range(4):
        block = []
        for _ in range(rng.randrange(1, 30)):
            now += rng.choice([0, 1, 150, 250, 4000])
            block.append((len(rows) + len(block), max(1, now - rng.choice([0, 0, rng.randrange(spread)])) * 1_000_000))
        rows += block
        run.harness.operator.process_block(TIMED.block(block))
    expected = flinks(rows, interval, touches and interval > 0)
    assert [each for each in found if isinstance(each, tuple)] == rows
    assert late(found) == late(expected)
    assert max((each for each in found if isinstance(each, int)), default=0) == max(
        (each for each in expected if isinstance(each, int)), default=0
    )


def test_a_row_without_a_time_is_refused():
    with pytest.raises(InvalidProgram, match="RowTime field should not be null"):
        assigner(per_record=True).feed("+I(1,N)")


# ---- the source

DAY = datetime.datetime(2024, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone


def at(seconds):
    return DAY + datetime.timedelta(seconds=seconds)


@dataclass(frozen=True)
class Part:
    """Rows that a reader gives one at a time, in turn with those of the other parts."""

    id: str
    rows: tuple
    offset: int = 0


@dataclass(frozen=True)
class PartsSource(Source):
    parts: tuple
    boundedness: Boundedness = Boundedness.BOUNDED
    max_parallelism = 1

    def enumerator(self, parallelism):
        return StaticSplits(self.parts, parallelism)

    def reader(self, context):
        return PartsReader(context)


class PartsReader(QueuedReader):
    def poll(self, limit, now):
        if not self.queue:
            return NEED_SPLITS
        part = self.queue[0]
        if part.offset == len(part.rows):
            self.end_split()
            return self.poll(limit, now)
        self.queue[0] = Part(part.id, part.rows, part.offset + 1)
        self.queue.rotate(-1)
        return Batch([part.rows[part.offset]], split=part.id)


class PartsTable(ScanTable):
    takes_watermarks = True

    def __init__(self, parts):
        self._source = PartsSource(tuple(Part(str(place), tuple(rows)) for place, rows in enumerate(parts)))

    def stream(self, env):
        return env.from_source(self._source, self.watermarks, "parts")


class PartsFactory(TableFactory):
    def __init__(self, parts):
        self._parts = parts

    def scan(self, context):
        return PartsTable(self._parts)


def tables(**options):
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    for key, value in options.items():
        made.get_config().set(key.replace("_", "."), value)
    return made


COUNTS = (
    "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks{hint}, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end"
)
EACH = " /*+ OPTIONS('scan.watermark.emit.strategy'='on-event') */"


def counts(env, hint=""):
    with env.execute_sql(COUNTS.format(hint=hint)).collect() as found:
        return Counter({(row[0] - DAY).total_seconds(): row[1] for row in found})


def clicks(env, parts, columns="id INT, ts TIMESTAMP(3)", more=""):
    register_connector("parts", PartsFactory(parts))
    env.execute_sql(
        f"CREATE TABLE clicks ({columns}, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'parts'{more})"
    )


def test_a_split_that_is_behind_holds_the_watermark():
    env = tables()
    clicks(env, [[Row(n, at(10 * n)) for n in range(6)], [Row(n, at(n)) for n in range(6)]])
    assert counts(env, EACH) == {0: 7, 10: 1, 20: 1, 30: 1, 40: 1, 50: 1}


def test_a_row_behind_its_own_split_is_late():
    env = tables()
    clicks(env, [[Row(1, at(5)), Row(2, at(25)), Row(3, at(6)), Row(4, at(26))]])
    assert counts(env, EACH) == {0: 1, 20: 2}


def test_a_computed_time_is_computed_in_the_source_from_rows_with_all_columns():
    env = tables()
    part = [Row("x", n, str(at(s))) for n, s in enumerate([5, 25, 6, 26])]
    clicks(env, [part], "unused STRING, id INT, text STRING, ts AS TO_TIMESTAMP(text)")
    assert counts(env, EACH) == {0: 1, 20: 2}
    assert counts(env) == {0: 2, 20: 2}  # no time for a periodic watermark


def test_a_watermark_that_a_function_of_the_program_computes_stays_behind_the_source():
    env = tables()
    env.create_temporary_function("same", udf(lambda value: value, result_type="TIMESTAMP(3)"))
    clicks(env, [[Row(1, at(5))]])
    plan = env.explain_sql(COUNTS.format(hint=""))
    assert "WatermarkAssigner(" not in plan.partition("== Optimized Physical Plan ==")[2]
    env.execute_sql(
        "CREATE TABLE other (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS same(ts)) WITH ('connector' = 'parts')"
    )
    assert "WatermarkAssigner(rowtime=[ts], watermark=[same(ts)])" in env.explain_sql("SELECT * FROM other")


def test_the_plan_shows_what_the_source_does():
    env = tables()
    env.get_config().set("table.exec.source.idle-timeout", "5 s")
    clicks(env, [[]], "text STRING, ts AS TO_TIMESTAMP(text)")
    _, _, plan = env.explain_sql(COUNTS.format(hint=EACH)).partition("== Optimized Physical Plan ==")
    assert "Calc(select=[Reinterpret(TO_TIMESTAMP(text)) AS ts])" in plan
    assert (
        "clicks, watermark=[-(TO_TIMESTAMP(text), 1000:INTERVAL SECOND)], idletimeout=[5000], watermarkEmitStrategy=[on-event]]]"
    ) in plan
    assert "watermarkEmitStrategy=[on-periodic]" in env.explain_sql("SELECT * FROM clicks")


def test_options_reach_the_strategy_of_the_source():
    env = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    clicks(
        env, [[]],
        more=", 'scan.watermark.idle-timeout' = '3 s', 'scan.watermark.alignment.group' = 'shop', "
        "'scan.watermark.alignment.max-drift' = '1 min'",
    )  # fmt: skip
    env.to_data_stream(env.sql_query("SELECT id FROM clicks"))
    [strategy] = [node.spec.strategy for node in env.stream_environment.graph if hasattr(node.spec, "strategy")]
    assert (strategy.idleness, strategy.alignment) == (3000, ("shop", 60_000, 1000))
    assert not strategy.generator.per_record


def test_the_watermark_of_an_upsert_stream_comes_before_its_normalizer():
    env = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    rates = env.stream_environment.from_collection([Row(1, at(5))])
    schema = Schema.new_builder().column("k", "INT NOT NULL").column("t", "TIMESTAMP(3)")
    schema = schema.column_by_expression("ts", "t").watermark("ts", "ts").primary_key("k").build()
    env.create_temporary_view("rates", env.from_changelog_stream(rates, schema, ChangelogMode.upsert()))
    plan = env.explain_sql("SELECT * FROM rates").partition("== Optimized Physical Plan ==")[2]
    assert plan.index("ChangelogNormalize(key=[k])") < plan.index("Exchange(") < plan.index("WatermarkAssigner(")


@pytest.mark.parametrize("batches", [False, True])
def test_mini_batches_leave_no_version_of_an_upsert_table_out(batches):
    env = tables(**{"pipeline.auto-watermark-interval": "1 h"})  # a watermark ends a bundle
    if batches:
        for name, value in {"enabled": "true", "allow-latency": "5 s", "size": "100"}.items():
            env.get_config().set(f"table.exec.mini-batch.{name}", value)
    kinds = [RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.UPDATE_AFTER]
    rates = [Row.of_kind(kind, "usd", n, at(10 * n)) for n, kind in enumerate(kinds)]
    orders = [Row(n, "usd", at(n)) for n in (5, 15, 25)]
    for name, columns, rows, more in (
        ("rates", "k STRING PRIMARY KEY NOT ENFORCED, rate INT", rates, ", 'changelog-mode' = 'I,UA,D'"),
        ("orders", "id INT, k STRING", orders, ""),
    ):
        env.execute_sql(
            f"CREATE TABLE {name} ({columns}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
            f"WITH ('connector' = 'values', 'data-id' = '{register_rows(rows)}'{more})"
        )
    query = "SELECT id, rate FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k"
    with env.execute_sql(query).collect() as found:
        assert sorted(map(tuple, found)) == [(5, 0), (15, 1), (25, 2)]


def test_an_assigner_has_no_state_that_cannot_be_dealt_out_to_other_subtasks():
    assert assigner(per_record=False).feed("+I(1,@20)").harness.operator.snapshot() is None


def test_a_row_without_a_time_is_refused_behind_the_source():
    run = Run(SourceWatermarks, [TIMED], TIMED, time=1)
    run.watermark(5)
    assert run.harness.watermarks == [5]
    with pytest.raises(InvalidProgram, match="RowTime field should not be null"):
        run.feed("+I(1,N)")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'scan.watermark.emit.strategy' = 'often'", "it must be one of on-periodic, on-event"),
        ("'scan.watermark.alignment.group' = 'a'", "belong together; set both, or none"),
        ("'scan.watermark.emit.stategy' = 'on-event'", "Unsupported options"),
    ],
)
def test_wrong_options_are_refused(options, message):
    env = tables()
    env.execute_sql(
        "CREATE TABLE t (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'values', 'data-id' = '{register_rows([])}', {options})"
    )
    with pytest.raises(InvalidProgram, match=message):
        env.explain_sql("SELECT * FROM t")
