"""The logical plan as the first part of EXPLAIN shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funken.table import logical as nodes
from funken.table.logical import JoinType, LogicalNode
from funken.table.rules.printing import Notation

_NOTATION = Notation(infix=False)
_JOINS = {
    JoinType.INNER: "inner",
    JoinType.LEFT: "left",
    JoinType.RIGHT: "right",
    JoinType.FULL: "full",
    JoinType.SEMI: "semi",
    JoinType.ANTI: "anti",
}


def logical_lines(node: LogicalNode) -> list[str]:
    """Return the lines of a plan."""
    name, parts = _described(node)
    found = [f"{name}({', '.join(parts)})"]
    inputs = node.inputs
    for place, each in enumerate(inputs):
        last = place == len(inputs) - 1
        below = logical_lines(each)
        found.append(("+- " if last else ":- ") + below[0])
        found += [("   " if last else ":  ") + line for line in below[1:]]
    return found


def _text(expression: Any) -> str:
    return _NOTATION.text(expression, ())


def _described(node: LogicalNode) -> tuple[str, list[str]]:
    rule = _LINES.get(type(node))
    return (type(node).__name__, []) if rule is None else rule(node)


def _path(table: Any) -> str:
    return f"table=[[{table.path.catalog}, {table.path.database}, {table.path.name}]]"


def _project(node: nodes.LogicalProject) -> tuple[str, list[str]]:
    shown = zip(node.row_type.names, node.expressions, strict=True)
    return "LogicalProject", [f"{name}=[{_text(expression)}]" for name, expression in shown]


def _aggregate(node: nodes.LogicalAggregate) -> tuple[str, list[str]]:
    parts = [f"group=[{{{', '.join(map(str, node.keys))}}}]"]
    if node.sets is not None:
        groups = ", ".join("{" + ", ".join(str(node.keys[place]) for place in group) + "}" for group in node.sets)
        parts.append(f"groups=[[{groups}]]")
    for call in node.calls:
        args = ("DISTINCT " if call.distinct else "") + ", ".join(f"${place}" for place in call.args)
        filtered = f" FILTER ${call.filter}" if call.filter is not None else ""
        parts.append(f"{call.name}=[{call.function}({args}){filtered}]")
    return "LogicalAggregate", parts


def _join(node: nodes.LogicalJoin) -> tuple[str, list[str]]:
    condition = "true" if node.condition is None else _text(node.condition)
    return "LogicalJoin", [f"condition=[{condition}]", f"joinType=[{_JOINS[node.kind]}]"]


def _sort(node: nodes.LogicalSort) -> tuple[str, list[str]]:
    parts = [f"sort{place}=[${key.index}]" for place, key in enumerate(node.order)]
    for place, key in enumerate(node.order):
        direction = "ASC-nulls-first" if key.ascending and key.nulls_first else ("ASC" if key.ascending else "DESC")
        if not key.ascending and not key.nulls_first:
            direction = "DESC-nulls-last"
        parts.append(f"dir{place}=[{direction}]")
    if node.offset:
        parts.append(f"offset=[{node.offset}]")
    if node.fetch is not None:
        parts.append(f"fetch=[{node.fetch}]")
    return "LogicalSort", parts


def _over(node: nodes.LogicalOver) -> tuple[str, list[str]]:
    parts = []
    for group in node.groups:
        partition = ", ".join(f"${place}" for place in group.partition)
        order = ", ".join(f"${key.index}{'' if key.ascending else ' DESC'}" for key in group.order)
        frame = f"{'ROWS' if group.rows else 'RANGE'} BETWEEN {group.lower} AND {group.upper}"
        for call in group.calls:
            args = ", ".join(f"${place}" for place in call.args)
            parts.append(
                f"{call.name}=[{call.function}({args}) OVER (PARTITION BY {partition} ORDER BY {order} {frame})]"
            )
    return "LogicalWindow", parts


def _set(node: nodes.LogicalSetOperation) -> tuple[str, list[str]]:
    names = {"UNION": "LogicalUnion", "INTERSECT": "LogicalIntersect", "EXCEPT": "LogicalMinus"}
    return names[node.kind.value], [f"all=[{str(node.all).lower()}]"]


def _values(node: nodes.LogicalValues) -> tuple[str, list[str]]:
    rows = ", ".join("{ " + ", ".join(map(_text, row)) + " }" for row in node.rows)
    return "LogicalValues", [f"tuples=[[{rows}]]"]


def _sink(node: nodes.LogicalSink) -> tuple[str, list[str]]:
    where = node.table.path if node.table is not None else node.collect
    return "LogicalSink", [f"table=[{where}]", f"fields=[{', '.join(node.row_type.names)}]"]


def _window(node: nodes.LogicalWindowTable) -> tuple[str, list[str]]:
    window = node.window
    time = node.input.row_type[window.time].name
    lengths = [f"{each}:INTERVAL SECOND" for each in (window.slide, window.size, window.gap, window.offset) if each]
    return "LogicalTableFunctionScan", [
        f"invocation=[{window.kind.value}(TABLE(#0), DESCRIPTOR(_UTF-16LE'{time}'), {', '.join(lengths)})]"
    ]


_LINES: dict[type, Callable[[Any], tuple[str, list[str]]]] = {
    nodes.LogicalScan: lambda node: ("LogicalTableScan", [_path(node.table)]),
    nodes.LogicalStream: lambda node: ("LogicalTableScan", [f"fields=[{', '.join(node.row_type.names)}]"]),
    nodes.LogicalValues: _values,
    nodes.LogicalWatermark: lambda node: (
        "LogicalWatermarkAssigner",
        [f"rowtime=[{node.row_type[node.time].name}]", f"watermark=[{_text(node.expression)}]"],
    ),
    nodes.LogicalProject: _project,
    nodes.LogicalFilter: lambda node: ("LogicalFilter", [f"condition=[{_text(node.condition)}]"]),
    nodes.LogicalAggregate: _aggregate,
    nodes.LogicalJoin: _join,
    nodes.LogicalTemporalJoin: lambda node: (
        "LogicalTemporalJoin",
        [f"time=[${node.time}]", *_join(node)[1]],
    ),
    nodes.LogicalCorrelate: lambda node: (
        "LogicalCorrelate",
        [
            f"invocation=[{node.call.function}({', '.join(map(_text, node.call.args))})]",
            f"joinType=[{_JOINS[node.kind]}]",
        ],
    ),
    nodes.LogicalSetOperation: _set,
    nodes.LogicalSort: _sort,
    nodes.LogicalOver: _over,
    nodes.LogicalWindowTable: _window,
    nodes.LogicalTableFunction: lambda node: (
        "LogicalTableFunctionScan",
        [f"invocation=[{node.function}({', '.join(f'TABLE(#{place})' for place in range(len(node.tables)))})]"],
    ),
    nodes.LogicalMatch: lambda node: (
        "LogicalMatch",
        [f"partition=[{list(node.partition)}]", f"order=[{[key.index for key in node.order]}]"],
    ),
    nodes.LogicalSink: _sink,
}
