"""How many subtasks of a stage share a worker, and the one thread of it that calls functions.

More workers than cores take caches and cores from each other: with 16 subtasks on two cores a record costs 2.9 times as much
as with 2, and 1.2 times if two workers share them (decision 0053). But a function that waits makes the other subtasks of its
worker wait, and waiting at the same time is why many jobs have more subtasks than cores. So, unless told how many, subtasks share
workers only where nothing in their stage can wait: every function of it can be read to its end, and does nothing but compute.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from types import BuiltinFunctionType
from typing import Any

from funken.columnar.expressions import Expression, Invoke, NotVectorizable
from funken.columnar.flat_maps.tracing import trace_flat_map
from funken.columnar.tracing import trace
from funken.expr.python.table import TABLE
from funken.operators.traits import LoopCall, traits_of
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import Custom, Hash, Node
from funken.plan.physical import PhysicalPlan, RuleNote
from funken.plan.rules.base import Rewritten, Rule, RuleContext

_NAME = "workers"
_GETTERS = (operator.itemgetter, operator.attrgetter)
_METHODS = {row.method for row in TABLE if row.method} | {"get", "_asdict", "as_dict"}


def waits(call: UserFunction, arguments: int = 1) -> str | None:
    """Return why a function may wait for something, as far as can be told; ``None``: it does nothing but compute.

    >>> waits(UserFunction(lambda pair: (pair[0].lower(), 1)))
    >>> waits(UserFunction(lambda line: print(line)))
    'calls print()'
    >>> waits(UserFunction(lambda order: order.customer.load()))
    'calls the method load()'
    """
    target = call.target
    if call.method is None and (type(target) in _GETTERS or _of_operator(target)):
        return None
    try:
        found: Any = trace(target, call.method, arguments)
    except NotVectorizable as reason:
        if arguments != 1:
            return str(reason)
        try:
            found = trace_flat_map(target, call.method)
        except NotVectorizable:
            return str(reason)
    names = {each.name for each in _expressions(found) if isinstance(each, Invoke)}
    unknown = sorted(name[1:] for name in names if name.startswith(".") and name[1:] not in _METHODS)
    return f"calls the method {unknown[0]}()" if unknown else None


def _of_operator(target: Any) -> bool:
    """Whether it is a function of the module ``operator``."""
    return type(target) is BuiltinFunctionType and target.__module__ == operator.add.__module__


def _expressions(found: Any) -> Iterator[Expression]:
    """Yield the expressions in what was traced."""
    if isinstance(found, Expression):
        yield found
    parts = [getattr(found, each.name) for each in fields(found)] if is_dataclass(found) else found
    if isinstance(parts, list | tuple):
        for part in parts:
            yield from _expressions(part)


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    given, cores = context.subtasks_per_worker, context.cores
    if given is not None or cores is None:
        return replace(plan, subtasks_per_worker=(given or 1,) * len(plan.widths)), []
    shared, notes = [], []
    for stage, width in enumerate(plan.widths):
        most = -(-width // cores)
        reason = _reason(plan, stage) if most > 1 else None
        shared.append(1 if reason else most)
        if most > 1:
            text = f"one for each subtask: {reason}" if reason else f"{-(-width // most)}: nothing in this stage waits"
            notes.append(RuleNote(_NAME, text, vertex=plan.at(stage)[0].id))
    return replace(plan, subtasks_per_worker=tuple(shared)), notes


def _reason(plan: PhysicalPlan, stage: int) -> str | None:
    """Return what in a stage may wait."""
    for vertex in plan.at(stage):
        for node in vertex.nodes:
            calls = traits_of(node.spec).calls
            if calls is None:
                return f"{node.name!r} may wait"
            for call in calls:
                reason = waits(call.function, call.arguments)
                if reason is not None:
                    return f"{_said(call, node)} {reason}"
    for edge in plan.edges:
        if edge.source_stage == stage and isinstance(edge.partitioning, Hash | Custom):
            partitioning = edge.partitioning
            reason = waits(partitioning.key)
            if reason is None and isinstance(partitioning, Custom):
                reason = waits(partitioning.partitioner, 2)
            if reason is not None:
                return f"the key behind {next(n.name for n in plan.nodes if n.id == edge.source_node)!r} {reason}"
    return None


def _said(call: LoopCall, node: Node) -> str:
    return repr(node.name) if call.label is None else f"{call.label} of {node.name!r}"


RULE = Rule(_NAME, _apply)
