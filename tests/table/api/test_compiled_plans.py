"""COMPILE PLAN and EXECUTE PLAN, and what a changed query does to the state of a savepoint."""

import json
import time
from dataclasses import replace

import pytest

from funken import StreamExecutionEnvironment
from funken.errors import CheckpointIncompatible, InvalidProgram
from funken.table.compiled_plan import CompiledPlan, PlanReference, PlanUids
from funken.table.connectors.values import register_rows, results_of
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from funken.table.expressions import col
from funken.table.udf import udf
from funken.types.info import Types
from funken.types.row import Row

ROWS = [Row("a", 1), Row("b", 2), Row("a", 3)]
INSERT = "INSERT INTO result SELECT k, SUM(v) FROM source WHERE v > 0 GROUP BY k"


def environment(options=()):
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {"execution.target": "local", "parallelism.default": "1", **dict(options)}.items():
        tables.get_config().set(key, value)
    return tables


def session(result_id, rows=ROWS, **options):
    tables = environment(options)
    tables.execute_sql(
        f"CREATE TABLE source (k STRING, v INT) WITH ('connector' = 'values', 'data-id' = '{register_rows(rows)}')"
    )
    tables.execute_sql(
        "CREATE TABLE result (k STRING PRIMARY KEY NOT ENFORCED, s INT) "
        f"WITH ('connector' = 'values', 'result-id' = '{result_id}')"
    )
    return tables


def rows_of(result_id):
    return sorted(tuple(row) for row in results_of(result_id).rows())


def test_a_plan_is_compiled_into_a_file_and_executed(tmp_path):
    tables = session("compiled")
    file = tmp_path / "plans" / "plan.json"
    tables.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}")
    names = list(dict.fromkeys(each["operator"] for each in json.loads(file.read_text())["operators"]))
    assert names == ["Scan", "Calc", "GroupAggregate", "Sink"]
    tables.execute_sql(f"EXECUTE PLAN '{file}'").wait()
    assert rows_of("compiled") == [("a", 4), ("b", 2)]


def test_the_tables_of_a_plan_are_made_where_there_are_none():
    plan = session("elsewhere").compile_plan_sql(INSERT)
    elsewhere = environment()
    elsewhere.execute_plan(PlanReference.from_json_string(plan.as_json_string())).wait()
    assert rows_of("elsewhere") == [("a", 4), ("b", 2)]


def test_a_pipeline_of_the_table_api_is_compiled(tmp_path):
    tables = session("pipeline")
    twice = udf(lambda v: 2 * v, result_type="INT", name="twice")
    grouped = tables.from_path("source").group_by(col("k")).select(col("k"), twice(col("v")).sum)
    plan = grouped.insert_into("result").compile_plan()
    plan.write_to_file(str(tmp_path / "plan.json"))
    loaded = environment().load_plan(PlanReference.from_file(str(tmp_path / "plan.json")))
    assert loaded.as_json_string() == plan.as_json_string()
    loaded.execute().wait()
    assert rows_of("pipeline") == [("a", 8), ("b", 4)]


def test_a_pipeline_over_a_stream_of_the_program_is_no_plan():
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.create_local_environment(1))
    tables.execute_sql("CREATE TABLE out (n BIGINT) WITH ('connector' = 'blackhole')")
    stream = tables.stream_environment.from_collection([(1,)], Types.TUPLE([Types.LONG()]))
    pipeline = tables.from_data_stream(stream).insert_into("out")
    with pytest.raises(InvalidProgram, match="cannot keep a table that reads a DataStream"):
        pipeline.compile_plan()


def test_a_file_is_not_overwritten(tmp_path):
    tables = session("again")
    file = tmp_path / "plan.json"
    for clause in ("", " IF NOT EXISTS"):
        tables.execute_sql(f"COMPILE PLAN '{file}'{clause} FOR {INSERT}")
    with pytest.raises(InvalidProgram, match="Cannot overwrite the plan file"):
        tables.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}")
    tables.get_config().set("table.plan.force-recompile", "true")
    tables.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}")
    tables.execute_sql(f"COMPILE AND EXECUTE PLAN '{file}' FOR STATEMENT SET BEGIN {INSERT}; {INSERT}; END").wait()
    assert len(json.loads(file.read_text())["statements"]) == 2
    with pytest.raises(InvalidProgram, match="no compiled plan at"):
        tables.execute_sql(f"EXECUTE PLAN '{tmp_path}/other.json'")
    with pytest.raises(InvalidProgram, match="no compiled plan of Funken"):
        tables.load_plan(PlanReference.from_json_string('{"flinkVersion": "2.3"}'))


def test_operators_get_the_uids_of_the_plan():
    tables = session("pinned")
    plan = tables.compile_plan_sql(INSERT)
    pinned = [replace(each, uid=f"old-{place}") for place, each in enumerate(plan.operators)]
    uids = PlanUids(pinned)
    graph = tables.fresh_environment()
    tables.translate(plan.sinks(), graph, uids)
    found = {node.uid for node in graph.graph}
    assert {"old-1", "old-2"} <= found
    assert any(uid.startswith("old-0") for uid in found)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("INSERT INTO result SELECT k, v FROM source", "operator 3 was GroupAggregate.* is now Calc"),
        (f"{INSERT} HAVING SUM(v) > 3", "is now Calc"),
    ],
)
def test_a_query_that_is_planned_otherwise_is_refused(query, message):
    tables = session("changed")
    tables.get_config().set("table.exec.sink.require-on-conflict", "false")
    plan = tables.compile_plan_sql("INSERT INTO result SELECT k, SUM(v) FROM source GROUP BY k")
    changed = CompiledPlan(tables, [query], {}, plan.operators)
    with pytest.raises(CheckpointIncompatible, match=message):
        changed.execute()


def test_a_changed_query_says_which_state_it_keeps_before_it_starts(tmp_path):
    tables = session("stops", **{"execution.checkpointing.savepoint-dir": str(tmp_path)})
    tables.execute_sql(
        "CREATE TABLE endless (k STRING, v INT) WITH ('connector' = 'values', 'hold-open' = 'true', 'data-id' = '"
        f"{register_rows(ROWS)}')"
    )
    kept = "INSERT INTO result SELECT k, SUM(v) FROM endless GROUP BY k"
    job = tables.execute_sql(kept).get_job_client()
    end = time.monotonic() + 30
    while len(results_of("stops").changes) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    path = job.stop_with_savepoint(False, str(tmp_path)).result(60)
    tables.get_config().set("execution.state-recovery.path", path)
    with pytest.raises(CheckpointIncompatible) as refused:
        tables.execute_sql("INSERT INTO result SELECT k, MAX(v) FROM endless GROUP BY k")
    assert "begins without state: GroupAggregate" in str(refused.value)
    assert "state is not used any more: GroupAggregate" in str(refused.value)


def test_a_savepoint_is_restored_through_a_compiled_plan(tmp_path):
    """The plan that was compiled finds the state of its operators, although the planner would call them otherwise now."""
    file = tmp_path / "plan.json"
    tables = session("first", **{"execution.checkpointing.savepoint-dir": str(tmp_path)})
    endless = (
        "CREATE TABLE endless (k STRING, v INT) WITH ('connector' = 'values', 'hold-open' = 'true', 'data-id' = '{}')"
    )
    tables.execute_sql(endless.format(register_rows(ROWS)))
    tables.execute_sql(f"COMPILE PLAN '{file}' FOR INSERT INTO result SELECT k, SUM(v) FROM endless GROUP BY k")
    plan = json.loads(file.read_text())
    plan["operators"] = [{**one, "uid": f"pinned-{place}"} for place, one in enumerate(plan["operators"])]
    file.write_text(json.dumps(plan))
    job = tables.execute_sql(f"EXECUTE PLAN '{file}'").get_job_client()
    end = time.monotonic() + 30
    while len(results_of("first").changes) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    path = job.stop_with_savepoint(False, str(tmp_path)).result(60)

    later = session("second", **{"execution.state-recovery.path": path})
    later.execute_sql(endless.format(register_rows([Row("a", 10)])))
    resumed = later.execute_sql(f"EXECUTE PLAN '{file}'").get_job_client()
    end = time.monotonic() + 30
    while not results_of("second").changes and time.monotonic() < end:
        time.sleep(0.05)
    resumed.cancel().result(60)

    assert [tuple(row) for row in results_of("second").changes][-1] == ("a", 14)
    with pytest.raises(CheckpointIncompatible, match="state is not used any more: .*pinned"):
        later.execute_sql("INSERT INTO result SELECT k, SUM(v) FROM endless GROUP BY k")
