"""Mini-batches: where they are marked, and aggregates in two phases, local ones before the exchange and global ones behind it.

Runs on plans whose changes are settled: what a local aggregate must do depends on whether its rows are taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funken.errors import InvalidConfiguration
from funken.expr.ir import InputRef
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode, ExecSink
from funken.table.logical import AggregateCall, OutputColumn, RelationType
from funken.table.rules.building import exchange
from funken.table.rules.properties import gives_rows
from funken.table.types import parse_type

_ACCUMULATORS = OutputColumn("accumulators", parse_type("BYTES NOT NULL"))
_IN_ORDER = {"FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE"}
"""Aggregates that depend on the order of arrival cannot be merged from several tasks."""
_GATHER = (nodes.ExecGroupAggregate, nodes.ExecLocalGroupAggregate, nodes.ExecDeduplicate)
_BY_TIME = (
    nodes.ExecWindowAggregate,
    nodes.ExecWindowJoin,
    nodes.ExecWindowRank,
    nodes.ExecWindowDeduplicate,
    nodes.ExecIntervalJoin,
    nodes.ExecTemporalJoin,
    nodes.ExecTemporalSort,
    nodes.ExecMatch,
    nodes.ExecOver,
)
_SOURCES = (nodes.ExecScan, nodes.ExecStream, nodes.ExecWatermark)


def in_mini_batches(roots: Sequence[ExecSink], config: Any) -> list[ExecSink]:
    """Return plans with the marks of mini-batches, and with aggregates in two phases, if the options say so."""
    strategy = config.option("table.optimizer.agg-phase-strategy")
    if not config.option("table.exec.mini-batch.enabled"):
        return list(roots)
    latency = checked_bundle(config)[1]
    plans: list[Any] = list(roots)
    if strategy != "ONE_PHASE":
        plans = _rewritten(plans, _in_two_phases)
        if config.option("table.optimizer.incremental-agg-enabled"):
            plans = _rewritten(plans, _incremental)
    return _marked(plans, latency)


def checked_bundle(config: Any) -> tuple[int, int]:
    """Return the limits of a mini-batch, in rows and time (ms); raises ``InvalidConfiguration``."""
    size = config.option("table.exec.mini-batch.size")
    latency = config.option("table.exec.mini-batch.allow-latency")
    for key, value, example in (("size", size, "5000"), ("allow-latency", latency, "2 s")):
        if value <= 0:
            raise InvalidConfiguration(
                f"option 'table.exec.mini-batch.{key}' must be greater than 0 if 'table.exec.mini-batch.enabled' is true, "
                f"e.g. {example!r}: otherwise no mini-batch would ever end."
            )
    return size, latency


def _rewritten(roots: Sequence[Any], change: Callable[[Any], Any]) -> list[Any]:
    """Return plans in which each node is the result of ``change`` for it, from the sources up."""
    done: dict[int, tuple[Any, Any]] = {}  # with the node, whose id is in use as long as it is kept

    def visit(node: Any) -> Any:
        if id(node) not in done:
            inputs = tuple(visit(each) for each in node.inputs)
            same = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
            done[id(node)] = node, change(node if same else node.with_inputs(inputs))
        return done[id(node)][1]

    return [visit(root) for root in roots]


# ---- two phases


def could_have_two_phases(node: Any) -> bool:
    """Return True if an operator is a group aggregate in one phase whose rows travel, and whose accumulators could."""
    if not isinstance(node, nodes.ExecGroupAggregate) or not isinstance(node.input, nodes.ExecExchange):
        return False
    return all(map(_merges, node.calls)) and hashed_by(node.input.input) != node.keys


def _in_two_phases(node: Any) -> Any:
    if not could_have_two_phases(node):
        return node
    below = node.input.input
    columns = tuple(below.row_type[key].ordinary() for key in node.keys)
    local = nodes.ExecLocalGroupAggregate(
        below, node.keys, node.calls, node.retracts, node.phase, row_type=RelationType((*columns, _ACCUMULATORS))
    )
    return nodes.ExecGlobalGroupAggregate(
        exchange(local, range(len(node.keys))),
        node.keys,
        node.calls,
        below.row_type,
        node.retracts,
        node.ttl,
        node.phase,
        row_type=node.row_type,
        mode=node.mode,
        upsert_keys=node.upsert_keys,
    )


def _merges(call: AggregateCall) -> bool:
    if call.order or call.function in _IN_ORDER or gives_rows([call]):
        return False
    return call.definition is None or bool(getattr(call.definition, "merges", False))


def hashed_by(node: ExecNode) -> tuple[int, ...] | None:
    """Return the columns by which the rows of a relation are in different tasks, in the order of the hash, if they are."""
    if isinstance(node, nodes.ExecGroupAggregate | nodes.ExecGlobalGroupAggregate):
        return tuple(range(len(node.keys)))
    if isinstance(node, nodes.ExecDeduplicate | nodes.ExecChangelogNormalize):
        return node.keys
    if isinstance(node, nodes.ExecRank):
        return node.partition
    if isinstance(node, nodes.ExecDropUpdateBefore):
        return hashed_by(node.input)
    if isinstance(node, nodes.ExecCalc):
        below = hashed_by(node.input)
        places = {each.index: place for place, each in enumerate(node.expressions) if isinstance(each, InputRef)}
        return (
            tuple(places[each] for each in below)
            if below is not None and all(each in places for each in below)
            else None
        )
    return None


def _incremental(node: Any) -> Any:
    """The global aggregate of buckets and the local one of the groups above it as one operator."""
    if not (isinstance(node, nodes.ExecLocalGroupAggregate) and node.phase == "FINAL"):
        return node
    below = node.input
    if not isinstance(below, nodes.ExecGlobalGroupAggregate) or below.phase != "PARTIAL":
        return node
    return nodes.ExecIncrementalGroupAggregate(
        below.input,
        below.keys,
        below.calls,
        below.source,
        below.retracts,
        below.ttl,
        below.row_type,
        node.keys,
        node.calls,
        row_type=node.row_type,
    )


# ---- marks


def _marked(roots: Sequence[Any], latency: int) -> list[Any]:
    """Put an assigner behind each source from which rows reach an operator that gathers them."""
    modes: dict[int, set[bool]] = {}
    seen: set[tuple[int, bool, bool]] = set()

    def look(node: Any, gathers: bool, rowtime: bool) -> None:
        if (id(node), gathers, rowtime) in seen:
            return
        seen.add((id(node), gathers, rowtime))
        if isinstance(node, nodes.ExecGroupWindowAggregate):
            gathers = rowtime = False
        gathers = gathers or isinstance(node, _GATHER)
        rowtime = rowtime or isinstance(node, _BY_TIME)
        if isinstance(node, _SOURCES):
            if gathers:
                modes.setdefault(id(node), set()).add(rowtime)
            return
        for each in node.inputs:
            look(each, gathers, rowtime)

    for root in roots:
        look(root, False, False)

    def assigned(node: Any) -> Any:
        found = modes.get(id(node))
        if not found:
            return node
        return nodes.ExecMiniBatchAssigner(
            node, latency, True in found, row_type=node.row_type, mode=node.mode, upsert_keys=node.upsert_keys
        )

    return _rewritten(roots, assigned)
