"""What the operators of a SQL job say of themselves, from which the dashboard draws the plan."""

from funken import Configuration, StreamExecutionEnvironment
from funken.plan.physical import compile_plan
from funken.runtime.job.snapshot import job_graph
from funken.table import StreamTableEnvironment, exec_nodes
from funken.table.physical import _BUILDERS
from funken.table.rules.printing import _PRINTED as _LINES

WITHOUT_A_LINE = {exec_nodes.ExecStream, exec_nodes.ExecDropUpdateBefore}
"""Those whose name says all."""


def test_every_operator_of_a_query_has_its_line_of_the_plan_and_its_inputs():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "local"}))
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TABLE orders (id BIGINT, region STRING, price DOUBLE) WITH ('connector' = 'datagen', 'number-of-rows' = '5')"
    )
    totals = tables.sql_query("SELECT region, SUM(price) AS total FROM orders WHERE price > 1 GROUP BY region")
    tables.to_changelog_stream(totals).print()
    graph = job_graph(compile_plan(env.graph, "totals", 1))
    operators = [operator for vertex in graph.vertices for operator in vertex.operators]
    said = {operator.name: operator.description for operator in operators}
    assert said["Calc"].startswith("Calc(select=[region, price], where=[(price > 1")
    assert said["GroupAggregate"] == (
        "GroupAggregate(groupBy=[region], select=[region, SUM(price) AS total], changelogMode=[I,UB,UA])"
    )
    known = {operator.id for operator in operators}
    sources = [operator for operator in operators if not operator.inputs]
    assert len(sources) == 1 and all(set(operator.inputs) <= known for operator in operators)


def test_every_node_that_becomes_an_operator_is_described_by_more_than_its_name():
    assert set(_BUILDERS) - set(_LINES) == WITHOUT_A_LINE
