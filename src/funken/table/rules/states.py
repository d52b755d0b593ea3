"""State of a plan: which operator keeps what, until when, and whether that has a bound; EXPLAIN shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from funken.dataclass import dataclass
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode, ExecSink
from funken.table.logical import BoundKind
from funken.table.rules.printing import length_text, line

_NEVER = "never expires"
_WINDOW = "until the watermark passes the end of the window"
_PROCTIME_WINDOW = "until the clock passes the end of the window"


@dataclass(frozen=True)
class KeptState:
    """The state of an operator, and its lifetime; without a bound it grows with the number of keys or rows."""

    operator: str
    what: str
    until: str
    is_bounded: bool

    def __str__(self) -> str:
        return f"{self.operator}: keeps {self.what}; {self.until}"


def kept_states(roots: Sequence[ExecNode]) -> list[KeptState]:
    """Return the state of all operators, those near the sources last."""
    found: list[KeptState] = []
    seen: set[int] = set()

    def visit(node: ExecNode) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        describe = _KINDS.get(type(node))
        if describe is not None:
            found.extend(KeptState(line(node), *one) for one in describe(node))
        for each in node.inputs:
            visit(each)  # type: ignore[arg-type]

    for root in roots:
        visit(root)
    return found


def state_lines(roots: Sequence[ExecNode]) -> list[str]:
    """Return the report of EXPLAIN: a line for each state, then a warning if some have no bound; nothing without state."""
    states = kept_states(roots)
    lines = [str(state) for state in states]
    return [*lines, *([warning] if (warning := unbounded_warning(states)) else [])]


def unbounded_warning(states: Iterable[KeptState]) -> str:
    """Return a warning that names the operators whose state has no bound; nothing if there are none."""
    names = list(dict.fromkeys(state.operator.partition("(")[0] for state in states if not state.is_bounded))
    if not names:
        return ""
    return (
        f"WARNING: state without bound in {', '.join(names)}: it grows with the number of keys or rows. Set "
        "'table.exec.state.ttl' or the hint STATE_TTL, or group, join and rank by windows."
    )


_State = tuple[str, str, bool]
_Describe = Callable[[Any], list[_State]]


def _ttl(what: str, ttl: int) -> _State:
    return what, f"expires {length_text(ttl)} after the last write" if ttl else _NEVER, bool(ttl)


def _fields(node: ExecNode, places: Iterable[int]) -> str:
    names = node.row_type.names
    return ", ".join(names[place] for place in places)


def _group(node: Any) -> list[_State]:
    source = node.input.row_type if isinstance(node, nodes.ExecGroupAggregate) else node.source
    if not node.keys:
        has_values = any(call.distinct for call in node.calls)
        what = "the accumulators of one group" + (", with its distinct values" if has_values else "")
        return [(what, "for ever", not has_values)]
    keys = ", ".join(source[place].name for place in node.keys)
    if not node.calls:
        return [_ttl(f"the values of ({keys}) that were seen", node.ttl)]
    values = ", with its distinct values" if any(call.distinct for call in node.calls) else ""
    return [_ttl(f"the accumulators of each group ({keys}){values}", node.ttl)]


def _join(node: nodes.ExecJoin) -> list[_State]:
    return [_ttl("the rows of the left side", node.left_ttl), _ttl("the rows of the right side", node.right_ttl)]


def _multi_join(node: nodes.ExecMultiJoin) -> list[_State]:
    return [_ttl(f"the rows of relation {place}", ttl) for place, ttl in enumerate(node.ttls, 1)]


def _rank(node: nodes.ExecRank) -> list[_State]:
    of = f"of each partition ({_fields(node.input, node.partition)})" if node.partition else "of all"
    if node.strategy == "retract" or node.end is None:
        return [_ttl(f"all rows {of}, since rows are taken back", node.ttl)]
    what = f"the first {node.end} rows {of}"
    return [_ttl(what, node.ttl)] if node.partition else [(what, "for ever", True)]


def _deduplicate(node: nodes.ExecDeduplicate) -> list[_State]:
    which = "last" if node.last else "first"
    return [_ttl(f"the {which} row of each key ({_fields(node.input, node.keys)})", node.ttl)]


def _normalize(node: nodes.ExecChangelogNormalize) -> list[_State]:
    return [_ttl(f"the last row of each key ({_fields(node.input, node.keys)})", node.ttl)]


def _sink(node: ExecSink) -> list[_State]:
    return [_ttl("the rows of each primary key", node.ttl)] if node.materialize else []


def _lookup(node: nodes.ExecLookupJoin) -> list[_State]:
    if node.keep is None:
        return []
    return [_ttl(f"the result for each row ({_fields(node.input, node.keep)})", node.ttl)]


def _windows(what: str) -> _Describe:
    def describe(node: Any) -> list[_State]:
        shape = getattr(node, "window", None)
        if shape is not None and shape.rows:
            return [("the rows of each group's windows that are not full", _NEVER, not node.keys)]
        rowtime = getattr(node, "rowtime", getattr(shape, "rowtime", True))
        return [(what, _WINDOW if rowtime else _PROCTIME_WINDOW, True)]

    return describe


def _interval(node: nodes.ExecIntervalJoin) -> list[_State]:
    length = length_text(abs(node.upper - node.lower)) if node.upper != node.lower else "0 s"
    return [("the rows of both sides", f"until no row within {length} can come any more", True)]


def _temporal(node: nodes.ExecTemporalJoin) -> list[_State]:
    return [
        ("the rows of the left side", "until the watermark passes their time", True),
        ("the newest version of each key of the right side", _NEVER, False),
    ]


def _over(node: nodes.ExecOver) -> list[_State]:
    found: list[_State] = []
    for group in node.groups:
        of = f"of each partition ({_fields(node.input, group.partition)})" if group.partition else "of all rows"
        if node.order_time is None:
            found.append((f"all rows {of}, since a row changes those behind it", _NEVER, False))
        elif group.lower.kind is BoundKind.UNBOUNDED_PRECEDING:
            found.append((f"the accumulators {of}", _NEVER, not group.partition))
        elif group.rows:
            found.append((f"the last {group.lower.offset} rows {of}", _NEVER, not group.partition))
        else:
            length = length_text(group.lower.offset or 0)
            found.append((f"the rows {of}", f"until the watermark is {length} behind them", True))
    return found


def _match(node: nodes.ExecMatch) -> list[_State]:
    within = getattr(node.clause, "within", None)
    what = "the rows of matches that have begun"
    return [(what, "until WITHIN has passed", True)] if within else [(what, "until the match ends or fails", False)]


def _sort(node: nodes.ExecTemporalSort) -> list[_State]:
    return [("rows that may still be out of order", "until the watermark passes them", True)]


_KINDS: dict[type, _Describe] = {
    nodes.ExecGroupAggregate: _group,
    nodes.ExecGlobalGroupAggregate: _group,
    nodes.ExecIncrementalGroupAggregate: _group,
    nodes.ExecJoin: _join,
    nodes.ExecMultiJoin: _multi_join,
    nodes.ExecLookupJoin: _lookup,
    nodes.ExecRank: _rank,
    nodes.ExecDeduplicate: _deduplicate,
    nodes.ExecChangelogNormalize: _normalize,
    ExecSink: _sink,
    nodes.ExecWindowAggregate: _windows("the accumulators of open windows"),
    nodes.ExecGroupWindowAggregate: _windows("the accumulators of open windows"),
    nodes.ExecWindowRank: _windows("the first rows of open windows"),
    nodes.ExecWindowDeduplicate: _windows("a row per key of open windows"),
    nodes.ExecWindowJoin: _windows("the rows of open windows"),
    nodes.ExecIntervalJoin: _interval,
    nodes.ExecTemporalJoin: _temporal,
    nodes.ExecOver: _over,
    nodes.ExecMatch: _match,
    nodes.ExecTemporalSort: _sort,
}
