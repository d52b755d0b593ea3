"""EXPLAIN in Flink's three parts, with its names and notations: the logical plan, the physical one, the plan of operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from funken.expr.ir import Call, InputRef
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode, ExecSink
from funken.table.logical import LogicalSink
from funken.table.rules.advice import Advice
from funken.table.rules.convert import optimize
from funken.table.rules.printing import Notation, Printer
from funken.table.rules.states import state_lines
from funken.table.rules.trees import logical_lines


def explain(sinks: Sequence[LogicalSink], config: Any, details: Sequence[str] = ()) -> str:
    """Return the three parts for one or several sinks.

    ``details`` may be CHANGELOG_MODE, ESTIMATED_COST (in the physical plan), PLAN_ADVICE (what could be better or is wrong) and
    JSON_EXECUTION_PLAN (operators and how rows travel between them). A stream's state is a part of its own: which operator keeps
    what, until when, and a warning of state without bound.
    """
    named = {str(detail).upper() for detail in details}
    roots = displayed(optimize(sinks, config, getattr(config, "batch", False)))
    parts = ["== Abstract Syntax Tree =="]
    parts += [line for sink in sinks for line in [*logical_lines(sink if sink.table is not None else sink.input), ""]]
    advice = Advice(roots, config) if "PLAN_ADVICE" in named and not getattr(config, "batch", False) else None
    parts.append(f"== Optimized Physical Plan{' With Advice' if advice is not None else ''} ==")
    for root in roots:
        printer = Printer(Notation(infix=False), named, advice=advice.places if advice is not None else None)
        parts += [*printer.lines(_shown(root)), ""]
    parts += [*advice.lines(), ""] if advice is not None else []
    parts.append("== Optimized Execution Plan ==")
    shared = _shared(roots)
    printer = Printer(Notation(infix=True), set(), shared)
    for root in roots:
        parts += [*printer.lines(_shown(root)), ""]
    states = [] if getattr(config, "batch", False) else state_lines(roots)
    if states or "PLAN_ADVICE" in named:
        parts += ["== State ==", *(states or ["no operator keeps state"]), ""]
    if "JSON_EXECUTION_PLAN" in named:
        parts += ["== Physical Execution Plan ==", as_json([_shown(root) for root in roots]), ""]
    return "\n".join(parts).rstrip("\n") + "\n"


def displayed(roots: Sequence[ExecSink]) -> list[ExecSink]:
    """Return plans without the operators that are left of pushed watermarks: a computed time is a ``Reinterpret``."""
    done: dict[int, tuple[ExecNode, ExecNode]] = {}  # with the node, whose id is in use as long as it is kept

    def visit(node: ExecNode) -> ExecNode:
        if id(node) not in done:
            inputs = [visit(each) for each in node.inputs]  # type: ignore[arg-type]
            found = node if all(map(is_, inputs, node.inputs)) else node.with_inputs(inputs)
            if isinstance(node, nodes.ExecWatermark) and node.pushed:
                found = replace(inputs[0], row_type=node.row_type)
                if isinstance(found, nodes.ExecCalc):
                    expressions = list(found.expressions)
                    time = expressions[node.time]
                    if not isinstance(time, InputRef):
                        expressions[node.time] = Call("Reinterpret", (time,), type=time.type)
                    found = replace(found, expressions=tuple(expressions))
            done[id(node)] = (node, found)
        return done[id(node)][1]

    return [visit(root) for root in roots]  # type: ignore[misc]


def _shown(root: ExecSink) -> ExecNode:
    """A query is shown without the sink that collects it."""
    return root if root.table is not None else root.input


def as_json(roots: Sequence[ExecNode]) -> str:
    """Return operators, inputs first, with the ways between them: an exchange is a way."""
    printer = Printer(Notation(infix=True), set())
    numbers: dict[int, int] = {}
    found: list[dict[str, Any]] = []

    def visit(node: ExecNode) -> int:
        if id(node) in numbers:
            return numbers[id(node)]
        ways = []
        for side, below in enumerate(node.inputs):
            keys = below.keys if isinstance(below, nodes.ExecExchange) else None
            way = "FORWARD" if keys is None else "HASH" if keys else "GLOBAL"
            source = below.input if isinstance(below, nodes.ExecExchange) else below
            entry = {"id": visit(source), "ship_strategy": way}  # type: ignore[arg-type]
            ways.append(entry | ({"side": ("first", "second")[min(side, 1)]} if len(node.inputs) > 1 else {}))
        number = numbers[id(node)] = len(found) + 1
        text = printer.line(node)
        pact = "Data Source" if not ways else "Data Sink" if isinstance(node, ExecSink) else "Operator"
        name = text.partition("(")[0]
        shown = {"id": number, "type": f"{name}[{number}]", "pact": pact, "contents": f"[{number}]:{text}"}
        found.append(shown | ({"predecessors": ways} if ways else {}))
        return number

    for root in roots:
        visit(root)
    return json.dumps({"nodes": found}, indent=2)


def _shared(roots: Sequence[ExecNode]) -> dict[int, int]:
    """Count the consumers of each operator."""
    uses: dict[int, int] = {}

    def visit(node: ExecNode) -> None:
        uses[id(node)] = uses.get(id(node), 0) + 1
        if uses[id(node)] == 1:
            for each in node.inputs:
                visit(each)  # type: ignore[arg-type]

    for root in roots:
        visit(root)
    return {key: 0 for key, count in uses.items() if count > 1}
