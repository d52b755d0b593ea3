"""Operators of the optimized plan as lines of text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from funken.expr.ir import Call, InputRef, Literal, walk
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode, ExecSink
from funken.table.logical import (
    AggregateCall,
    JoinType,
    OverGroup,
    RelationType,
    SortKey,
    WindowKind,
    WindowProperty,
    WindowShape,
)
from funken.table.rules.properties import estimate
from funken.table.types import LogicalType, is_text

# ---- Expressions and types as EXPLAIN writes them: calls in front (``+(a, 1)``), or operators between (``(a +
# 1)``).


_CHARACTERS = ' CHARACTER SET "UTF-16LE"'
_NAMES = {"INT": "INTEGER", "NEGATE": "-", "GET": "."}
_INFIX = {
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "||",
    "LIKE",
    "SIMILAR TO",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
}
_POSTFIX = {
    "IS NULL",
    "IS NOT NULL",
    "IS TRUE",
    "IS NOT TRUE",
    "IS FALSE",
    "IS NOT FALSE",
    "IS UNKNOWN",
    "IS NOT UNKNOWN",
}
_DAY = 86_400_000


def length_text(milliseconds: int) -> str:
    """Return a length of time in the largest unit that divides it.

    >>> length_text(5000), length_text(86_400_000), length_text(1500)
    ('5 s', '1 d', '1500 ms')
    """
    for unit, size in (("d", _DAY), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def type_text(type_: LogicalType, characters: bool = False) -> str:
    """Return a type as the planner of Flink writes it."""
    text = type_.nullable().serializable()
    text = "INTEGER" if text == "INT" else text
    if text.startswith("TIMESTAMP_LTZ"):
        text = text.replace("TIMESTAMP_LTZ", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
    return text + (_CHARACTERS if characters and is_text(type_) else "")


class Notation:
    """Writes expressions over columns with names; without a name a column is ``$0``."""

    def __init__(self, infix: bool) -> None:
        self.infix = infix

    def text(self, node: Any, names: Sequence[str]) -> str:
        """Return the text of an expression."""
        if isinstance(node, InputRef):
            return names[node.index] if node.index < len(names) else f"${node.index}"
        if isinstance(node, Literal):
            return self.constant(node)
        if not isinstance(node, Call):
            return str(node)
        args = [self.text(arg, names) for arg in node.args]
        return self.call(node, args)

    def call(self, node: Call, args: list[str]) -> str:
        """Return the text of a call."""
        name = node.function
        if name in {"CAST", "TRY_CAST"}:
            return f"{name}({args[0]} AS {type_text(node.type, characters=not self.infix)})"
        if name == "GET":
            return f"{args[0]}.{node.option('field', '')}"
        if name in {"AND", "OR"}:
            return f"({f' {name} '.join(args)})" if self.infix else f"{name}({', '.join(args)})"
        if self.infix and name in _INFIX and len(args) == 2:
            return f"({args[0]} {name} {args[1]})"
        if self.infix and name in _POSTFIX:
            return f"{args[0]} {name}"
        return f"{_NAMES.get(name, name)}({', '.join(args)})"

    def equal(self, left: str, right: str, null_safe: bool) -> str:
        """Return the text of an equality."""
        name = "IS NOT DISTINCT FROM" if null_safe else "="
        return f"({left} {name} {right})" if self.infix else f"{name}({left}, {right})"

    def conjunction(self, parts: Sequence[str]) -> str:
        """Return the text of several conditions."""
        if not parts:
            return "true"
        if len(parts) == 1:
            return parts[0]
        return f"({' AND '.join(parts)})" if self.infix else f"AND({', '.join(parts)})"

    def constant(self, node: Literal) -> str:
        """Return the text of a constant."""
        value, type_ = node.value, node.type
        if value is None:
            return f"null:{type_text(type_, characters=not self.infix)}" if type_.root != "NULL" else "null"
        if isinstance(value, bool):
            return str(value).lower()
        if is_text(type_):
            text = "'" + str(value).replace("'", "''") + "'"
            if self.infix:
                return text
            varying = f":{type_text(type_)}{_CHARACTERS}" if type_.root == "VARCHAR" else ""
            return f"_UTF-16LE{text}{varying}"
        if type_.root == "SYMBOL":
            return f"FLAG({value})"
        return _number(value, type_)


def _number(value: Any, type_: LogicalType) -> str:
    root = type_.root
    if root == "INTERVAL_DAY_TIME":
        return f"{value}:INTERVAL {getattr(type_, 'resolution', 'SECOND')}"
    if root == "INTERVAL_YEAR_MONTH":
        return f"{value}:INTERVAL {getattr(type_, 'resolution', 'MONTH')}"
    if root == "DATE":
        return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=value))
    if root in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        return str(datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value // 1000))  # noqa: DTZ001
    if root == "TIME":
        return str((datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=value)).time())  # noqa: DTZ001
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if root in {"BIGINT", "SMALLINT", "TINYINT"}:
        return f"{value}:{root}"
    if isinstance(value, Decimal):
        return f"{value:f}:{type_text(type_)}"
    if root in {"DOUBLE", "FLOAT"}:
        return f"{value}:{root}"
    return str(value)


def line(node: ExecNode, reused: Any = None) -> str:
    """Return an operator as EXPLAIN shows it."""
    return Printer(Notation(infix=False), set()).line(node)


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def _calls_python(node: ExecNode) -> bool:
    """Return True if an operator calls functions of the program: Flink has operators of their own for them."""
    if isinstance(node, nodes.ExecCalc):
        parts = [*node.expressions, *([] if node.condition is None else [node.condition])]
        return any(isinstance(each, Call) and each.handle is not None for part in parts for each in walk(part))
    if isinstance(node, nodes.ExecCorrelate):
        return node.call.definition is not None
    return any(call.definition is not None for call in getattr(node, "calls", ()))


class Printer:
    """Prints the tree below an operator."""

    def __init__(
        self,
        notation: Notation,
        details: set[str],
        shared: dict[int, int] | None = None,
        advice: dict[int, list[int]] | None = None,
    ) -> None:
        self.notation = notation
        self.details = details
        self.shared = shared or {}
        self.advice = advice or {}
        self._count = 0

    def lines(self, node: ExecNode) -> list[str]:
        """Return the lines of an operator and of all below."""
        if self.shared.get(id(node)):
            return [f"Reused(reference_id=[{self.shared[id(node)]}])"]
        text = self.line(node)
        if id(node) in self.shared:
            self._count += 1
            self.shared[id(node)] = self._count
            text += f"(reuse_id=[{self._count}])"
        found = [text]
        inputs = list(node.inputs)
        for place, each in enumerate(inputs):
            last = place == len(inputs) - 1
            below = self.lines(each)  # type: ignore[arg-type]
            found.append(("+- " if last else ":- ") + below[0])
            found += [("   " if last else ":  ") + text for text in below[1:]]
        return found

    def line(self, node: ExecNode) -> str:
        """Return the line of an operator."""
        name, parts = self.described(node)
        if id(node) in self.advice:
            parts = [f"advice=[{','.join(map(str, self.advice[id(node)]))}]", *parts]
        if "CHANGELOG_MODE" in self.details:
            mode = "[NONE]" if isinstance(node, ExecSink) else _mode(node)
            parts = [*parts, f"changelogMode={mode}"]
        cost = f": {estimate(node)}" if "ESTIMATED_COST" in self.details else ""
        if "PLAN_ADVICE" in self.details and node.upsert_keys:
            keys = sorted(sorted(key) for key in node.upsert_keys)
            parts = [
                *parts,
                f"upsertKeys={_listed([_listed([node.row_type[place].name for place in key]) for key in keys])}",
            ]
        return f"{name}({', '.join(parts)}){cost}"

    def described(self, node: ExecNode) -> tuple[str, list[str]]:
        """Return an operator's name and the parts of its line."""
        rule = _PRINTED.get(type(node))
        if rule is None:
            return type(node).__name__.removeprefix("Exec"), []
        name, parts = rule(self, node)
        return f"Python{name}" if _calls_python(node) else name, parts

    def names(self, node: ExecNode, places: Sequence[int]) -> str:
        """Return the names of columns."""
        return _listed([node.row_type[place].name for place in places])

    def order(self, node: ExecNode, order: Sequence[SortKey]) -> str:
        """Return sort keys."""
        return _listed([f"{node.row_type[key.index].name} {'ASC' if key.ascending else 'DESC'}" for key in order])

    def text(self, expression: Any, row_type: RelationType) -> str:
        """Return an expression."""
        return self.notation.text(expression, row_type.names)

    def aliased(self, expression: Any, name: str, row_type: RelationType) -> str:
        """Return an expression with its name."""
        text = self.text(expression, row_type)
        return text if text == name else f"{text} AS {name}"

    def call(self, call: AggregateCall, row_type: RelationType, retracts: bool) -> str:
        """Return the call of an aggregate."""
        args = ", ".join(row_type[place].name for place in call.args) or "*"
        text = f"{self.function(call, retracts)}({'DISTINCT ' if call.distinct else ''}{args})"
        return text + (f" FILTER {row_type[call.filter].name}" if call.filter is not None else "")

    @staticmethod
    def function(call: AggregateCall, retracts: bool) -> str:
        """Return the name of an aggregate's function."""
        name = "$SUM0" if call.function.upper() == "SUM0" else call.function.upper()
        return name + "_RETRACT" if retracts and _RETRACTS.get(call.function, True) else name

    def calls(self, node: Any, properties: Sequence[tuple[str, str]] = ()) -> str:
        """Return the keys and calls of an aggregate."""
        below = node.input.row_type
        retracts = getattr(node, "retracts", False)
        shown = [below[place].name for place in node.keys]
        columns = node.row_type.columns[len(node.keys) :]
        for call, column in zip(node.calls, columns, strict=False):
            shown.append(f"{self.call(call, below, retracts)} AS {column.name}")
        shown += [f"{text} AS {name}" for text, name in properties]
        return _listed(shown)

    # -- operators

    def scan(self, node: nodes.ExecScan) -> tuple[str, list[str]]:
        """Describe a scan."""
        path = node.table.path
        parts = [path.catalog, path.database, path.name]
        if node.filters:
            parts.append(f"filter=[{' AND '.join(self.text(one.node, node.row_type) for one in node.filters)}]")
        if node.limit is not None:
            parts.append(f"limit=[{node.limit}]")
        if node.watermark is not None:
            parts += self.pushed(node)
        return "TableSourceScan", [
            f"table=[{_listed(parts)}]",
            f"fields={_listed(node.columns)}",
            *_hints(node.options),
        ]

    def pushed(self, node: nodes.ExecScan) -> list[str]:
        """Describe the watermark that a source assigns."""
        settings = node.settings or nodes.WatermarkSettings()
        parts = [f"watermark=[{self.text(node.watermark, node.row_type)}]"]
        if settings.idle:
            parts.append(f"idletimeout=[{settings.idle}]")
        if settings.alignment is not None:
            group, drift, update = settings.alignment
            parts.append(f"watermarkAlignment=[{group}, {drift}, {update}]")
        return [*parts, f"watermarkEmitStrategy=[on-{'event' if settings.per_record else 'periodic'}]"]

    def values(self, node: nodes.ExecValues) -> tuple[str, list[str]]:
        """Describe constant rows."""
        rows = ", ".join("{ " + ", ".join(self.notation.text(item, ()) for item in row) + " }" for row in node.rows)
        return "Values", [f"tuples=[[{rows}]]"]

    def watermark(self, node: nodes.ExecWatermark) -> tuple[str, list[str]]:
        """Describe a watermark assigner."""
        return "WatermarkAssigner", [
            f"rowtime={self.names(node, [node.time])}",
            f"watermark=[{self.text(node.expression, node.input.row_type)}]",
        ]

    def calc(self, node: nodes.ExecCalc) -> tuple[str, list[str]]:
        """Describe a projection and filter."""
        below = node.input.row_type
        shown = [
            self.aliased(each, column.name, below) for each, column in zip(node.expressions, node.row_type, strict=True)
        ]
        parts = [f"select={_listed(shown)}"]
        if node.condition is not None:
            parts.append(f"where=[{self.text(node.condition, below)}]")
        return "Calc", parts

    def exchange(self, node: nodes.ExecExchange) -> tuple[str, list[str]]:
        """Describe an exchange."""
        return "Exchange", [f"distribution=[{'hash' + self.names(node, node.keys) if node.keys else 'single'}]"]

    def union(self, node: nodes.ExecUnion) -> tuple[str, list[str]]:
        """Describe a union."""
        return "Union", ["all=[true]", f"union={_listed(node.row_type.names)}"]

    def expand(self, node: nodes.ExecExpand) -> tuple[str, list[str]]:
        """Describe an expand."""
        below = node.input.row_type
        shown = [
            "{"
            + ", ".join(self.aliased(each, column.name, below) for each, column in zip(row, node.row_type, strict=True))
            + "}"
            for row in node.projections
        ]
        return "Expand", [f"projects={_listed(shown)}"]

    def correlate(self, node: nodes.ExecCorrelate) -> tuple[str, list[str]]:
        """Describe the call of a table function."""
        args = ", ".join(self.text(each, node.input.row_type) for each in node.call.args)
        parts = [
            f"invocation=[{node.call.function}({args})]",
            f"select={_listed(node.row_type.names)}",
            f"joinType=[{'INNER' if node.kind is JoinType.INNER else 'LEFT'}]",
        ]
        if node.condition is not None:
            parts.append(f"condition=[{self.text(node.condition, node.row_type)}]")
        return "Correlate", parts

    def group(self, node: nodes.ExecGroupAggregate) -> tuple[str, list[str]]:
        """Describe a group aggregate."""
        keys = [f"groupBy={self.names(node.input, node.keys)}"] if node.keys else []
        hinted = [] if node.hinted is None else _lifetimes([node.hinted])
        return "GroupAggregate", [*keys, *_phase(node), f"select={self.calls(node)}", *hinted]

    def assigner(self, node: nodes.ExecMiniBatchAssigner) -> tuple[str, list[str]]:
        """Describe the marks of mini-batches."""
        mode = "RowTime" if node.rowtime else "ProcTime"
        return "MiniBatchAssigner", [f"interval=[{node.interval}ms]", f"mode=[{mode}]"]

    def local_group(self, node: nodes.ExecLocalGroupAggregate) -> tuple[str, list[str]]:
        """Describe the local phase of a group aggregate."""
        rows = node.input.row_type
        parts = [f"groupBy={self.names(node.input, node.keys)}"] if node.keys else []
        shown = [rows[key].name for key in node.keys]
        shown += self._accumulated(node, rows)
        return "LocalGroupAggregate", [*parts, *_phase(node), f"select={_listed(shown)}"]

    def _accumulated(self, node: Any, rows: RelationType) -> list[str]:
        """Return the calls of a local aggregate with the names of their accumulators."""
        names = AccumulatorNames(node.calls, node.retracts)
        shown = []
        for call, name, distinct in zip(node.calls, names.calls, names.distinct, strict=True):
            text = self.call(call, rows, node.retracts).replace("DISTINCT ", f"{distinct} " if distinct else "")
            shown.append(f"{text} AS {name}")
        if names.rows is not None:
            shown.append(f"COUNT_RETRACT(*) AS {names.rows}")
        for values, name in names.values.items():
            shown.append(f"DISTINCT({', '.join(rows[place].name for place in values)}) AS {name}")
        return shown

    def global_group(self, node: nodes.ExecGlobalGroupAggregate) -> tuple[str, list[str]]:
        """Describe the global phase of a group aggregate."""
        names = AccumulatorNames(node.calls, node.retracts)
        keys = [node.source[key].name for key in node.keys]
        parts = [f"groupBy={_listed(keys)}"] if keys else []
        shown = list(keys)
        columns = node.row_type.columns[len(keys) :]
        for call, name, distinct, column in zip(node.calls, names.calls, names.distinct, columns, strict=True):
            given = f"{distinct} {name}" if distinct else name
            shown.append(f"{self.function(call, node.retracts)}({given}) AS {column.name}")
        index = [f"indexOfCountStar=[{names.place_of_rows}]"] if node.retracts else []
        return "GlobalGroupAggregate", [*parts, *_phase(node), f"select={_listed(shown)}", *index]

    def incremental(self, node: nodes.ExecIncrementalGroupAggregate) -> tuple[str, list[str]]:
        """Describe the aggregate between the buckets and their groups."""
        names = AccumulatorNames(node.calls, node.retracts)
        keys = [node.source[key].name for key in node.keys]
        shown = [node.partial[key].name for key in node.final_keys]
        for call, name, distinct in zip(node.calls, names.calls, names.distinct, strict=True):
            given = f"{distinct} {name}" if distinct else name
            shown.append(f"{self.function(call, node.retracts)}({given}) AS {name}")
        if names.rows is not None:
            shown.append(f"COUNT_RETRACT({names.rows}) AS {names.rows}")
        final = [node.partial[key].name for key in node.final_keys]
        return "IncrementalGroupAggregate", [
            f"partialAggGrouping={_listed(keys)}",
            f"finalAggGrouping={_listed(final)}",
            f"select={_listed(shown)}",
        ]

    def window_text(self, window: WindowShape, row_type: RelationType, columns: tuple[int, int] | None = None) -> str:
        """Return a window."""
        if columns is None:
            where = f"time_col=[{row_type[window.time].name}]"
        else:
            where = f"win_start=[{row_type[columns[0]].name}], win_end=[{row_type[columns[1]].name}]"
        parts = [where]
        if window.kind is WindowKind.SESSION:
            parts.append(f"gap=[{length_text(window.gap)}]")
            if window.partition:
                parts.append(f"partition keys={_listed([row_type[place].name for place in window.partition])}")
        elif window.kind is WindowKind.TUMBLE:
            parts.append(f"size=[{length_text(window.size)}]")
        elif window.kind is WindowKind.HOP:
            parts += [f"size=[{length_text(window.size)}]", f"slide=[{length_text(window.slide)}]"]
        else:
            parts += [f"max_size=[{length_text(window.size)}]", f"step=[{length_text(window.slide)}]"]
        if window.offset:
            parts.append(f"offset=[{length_text(window.offset)}]")
        return f"[{window.kind.value}({', '.join(parts)})]"

    def window_table(self, node: nodes.ExecWindowTable) -> tuple[str, list[str]]:
        """Describe a window table function."""
        return "WindowTableFunction", [f"window={self.window_text(node.window, node.input.row_type)}"]

    def window_aggregate(self, node: nodes.ExecWindowAggregate) -> tuple[str, list[str]]:
        """Describe a window aggregate."""
        keys = [f"groupBy={self.names(node.input, node.keys)}"] if node.keys else []
        first = len(node.keys) + len(node.calls)
        texts = {
            WindowProperty.START: "start('w$)",
            WindowProperty.END: "end('w$)",
            WindowProperty.ROWTIME: "rowtime('w$)",
            WindowProperty.PROCTIME: "proctime('w$)",
        }
        shown = [(texts[each], node.row_type[first + place].name) for place, each in enumerate(node.properties)]
        window = self.window_text(node.window, node.input.row_type, node.window_columns)
        return "WindowAggregate", [*keys, f"window={window}", f"select={self.calls(node, shown)}"]

    def legacy(self, node: nodes.ExecGroupWindowAggregate) -> tuple[str, list[str]]:
        """Describe a legacy window aggregate."""
        keys = [f"groupBy={self.names(node.input, node.keys)}"] if node.keys else []
        name = {"TUMBLE": "TumblingGroupWindow", "HOP": "SlidingGroupWindow", "SESSION": "SessionGroupWindow"}
        lengths = [each for each in (node.window.size, node.window.slide, node.window.gap) if each]
        time = node.input.row_type[node.window.time].name
        window = f"{name[node.window.kind.value]}('w$, {time}, {', '.join(map(str, lengths))})"
        return "GroupWindowAggregate", [*keys, f"window=[{window}]", f"select={self.calls(node)}"]

    def over(self, node: nodes.ExecOver) -> tuple[str, list[str]]:
        """Describe an OVER aggregate."""
        group: OverGroup = node.groups[0]
        below = node.input.row_type
        parts = [f"partitionBy={self.names(node.input, group.partition)}"] if group.partition else []
        frame = f" {'ROWS' if group.rows else 'RANGE'} BETWEEN {group.lower} AND {group.upper}"
        calls = [f"{self.call(call, below, False)} AS {call.name}" for each in node.groups for call in each.calls]
        return "OverAggregate", [
            *parts,
            f"orderBy={self.order(node.input, group.order)}",
            f"window=[{frame}]",
            f"select={_listed([*below.names, *calls])}",
        ]

    def rank(self, node: nodes.ExecRank) -> tuple[str, list[str]]:
        """Describe a rank, sort with limit, or limit."""
        below = node.input
        if node.name == "Limit":
            return "Limit", [f"offset=[{node.start - 1}]", f"fetch=[{(node.end or 0) - node.start + 1}]"]
        strategy = {
            "append": "AppendFastStrategy",
            "retract": "RetractStrategy",
            "update": f"UpdateFastStrategy[{','.join(map(str, node.unique_key))}]",
        }[node.strategy]
        order = self.order(below, node.order)
        if node.name == "SortLimit":
            return "SortLimit", [
                f"orderBy={order}",
                f"offset=[{node.start - 1}]",
                f"fetch=[{(node.end or 0) - node.start + 1}]",
                f"strategy=[{strategy}]",
            ]
        bound = (
            f"rankEnd={node.end}" if node.end is not None else f"rankEnd={below.row_type[node.end_column or 0].name}"
        )
        return "Rank", [
            f"strategy=[{strategy}]",
            "rankType=[ROW_NUMBER]",
            f"rankRange=[rankStart={node.start}, {bound}]",
            f"partitionBy={self.names(below, node.partition)}",
            f"orderBy={order}",
            f"select={_listed(node.row_type.names)}",
        ]

    def deduplicate(self, node: nodes.ExecDeduplicate) -> tuple[str, list[str]]:
        """Describe a deduplication."""
        return "Deduplicate", [
            f"keep=[{'LastRow' if node.last else 'FirstRow'}]",
            f"key={self.names(node.input, node.keys)}",
            f"order=[{'ROWTIME' if node.rowtime else 'PROCTIME'}]",
        ]

    def window_rank(self, node: nodes.ExecWindowRank) -> tuple[str, list[str]]:
        """Describe a rank per window."""
        return "WindowRank", [
            f"window={self.window_text(node.window, node.input.row_type, node.window_columns)}",
            "rankType=[ROW_NUMBER]",
            f"rankRange=[rankStart={node.start}, rankEnd={node.end}]",
            f"partitionBy={self.names(node.input, node.partition)}",
            f"orderBy={self.order(node.input, node.order)}",
            f"select={_listed(node.row_type.names)}",
        ]

    def window_deduplicate(self, node: nodes.ExecWindowDeduplicate) -> tuple[str, list[str]]:
        """Describe a deduplication per window."""
        return "WindowDeduplicate", [
            f"window={self.window_text(node.window, node.input.row_type, node.window_columns)}",
            f"keep=[{'LastRow' if node.last else 'FirstRow'}]",
            f"partitionKeys={self.names(node.input, node.keys)}",
            f"orderKey={self.names(node.input, [node.time])}",
            f"order=[{'ROWTIME' if node.rowtime else 'PROCTIME'}]",
        ]

    # -- joins

    def join_parts(self, node: nodes.EquiJoin) -> list[str]:
        """Return the common parts of joins by keys."""
        both = _side_names(node)
        width = len(node.left.row_type)
        parts = []
        safe = node.null_safe or (False,) * len(node.left_keys)
        for left, right, null_safe in zip(node.left_keys, node.right_keys, safe, strict=True):
            parts.append(self.notation.equal(both[left], both[width + right], null_safe))
        if node.condition is not None:
            parts.append(self.notation.text(node.condition, both))
        where = self.notation.conjunction(parts)
        return [f"joinType=[{node.kind.value}]", f"where=[{where}]", f"select={_listed(node.row_type.names)}"]

    def join(self, node: nodes.ExecJoin) -> tuple[str, list[str]]:
        """Describe a regular join."""

        def spec(unique: nodes.UpsertKeys, contained: bool) -> str:
            return "JoinKeyContainsUniqueKey" if contained else ("HasUniqueKey" if unique else "NoUniqueKey")

        return "Join", [
            *self.join_parts(node),
            f"leftInputSpec=[{spec(node.left_unique, node.left_key_is_unique)}]",
            f"rightInputSpec=[{spec(node.right_unique, node.right_key_is_unique)}]",
            *_lifetimes([("LEFT", node.hinted[0]), ("RIGHT", node.hinted[1])]),
        ]

    def multi_join(self, node: nodes.ExecMultiJoin) -> tuple[str, list[str]]:
        """Describe a join of several relations."""
        names = _numbered([name for each in node.relations for name in each.row_type.names])
        key = [node.relations[0].row_type[place].name for place in node.keys[0]]
        unique = []
        for relation, places in zip(node.relations, node.unique, strict=True):
            columns = ", ".join(relation.row_type[place].name for place in places or ())
            unique.append("noUniqueKey" if places is None else f"({columns})")
        conditions = [self._joined(node, names, place) for place in range(len(node.kinds))]
        lifetimes = []
        if any(each is not None for each in node.hinted):
            shown = ["0s" if not each else length_text(each).replace(" ", "") for each in node.hinted]
            lifetimes.append(f"stateTtlHints=[[[STATE_TTL options:{_listed(shown)}]]]")
        return "MultiJoin", [
            f"commonJoinKey={_listed(key)}",
            f"joinTypes={_listed([kind.name for kind in node.kinds])}",
            f"inputUniqueKeys={_listed(unique)}",
            *lifetimes,
            f"joinConditions={_listed(conditions)}",
            f"select=[{','.join(names)}]",
        ]

    def _joined(self, node: nodes.ExecMultiJoin, names: Sequence[str], place: int) -> str:
        """Return the condition by which a relation is joined to those before it."""
        starts = [0]
        for relation in node.relations:
            starts.append(starts[-1] + len(relation.row_type))
        start = starts[place + 1]
        key, first = node.keys[place + 1], node.keys[0]
        parts = [
            self.notation.equal(names[one], names[start + other], False) for one, other in zip(first, key, strict=True)
        ]
        pairs = [
            (left, right) for left, right in node.pairs[place] if (left, right) not in zip(first, key, strict=True)
        ]
        parts += [self.notation.equal(names[left], names[start + right], False) for left, right in pairs]
        condition = node.conditions[place]
        if condition is not None:
            parts.append(self.notation.text(condition, names))
        return self.notation.conjunction(parts)

    def interval_join(self, node: nodes.ExecIntervalJoin) -> tuple[str, list[str]]:
        """Describe an interval join."""
        kind, where, select = self.join_parts(node)
        bounds = (
            f"windowBounds=[isRowTime={str(node.rowtime).lower()}, leftLowerBound={node.lower}, leftUpperBound={node.upper}, "
            f"leftTimeIndex={node.left_time}, rightTimeIndex={node.right_time}]"
        )
        return "IntervalJoin", [kind, bounds, where, select]

    def window_join(self, node: nodes.ExecWindowJoin) -> tuple[str, list[str]]:
        """Describe a window join."""
        return "WindowJoin", [
            f"leftWindow={self.window_text(node.window, node.left.row_type, node.left_window)}",
            f"rightWindow={self.window_text(node.window, node.right.row_type, node.right_window)}",
            *self.join_parts(node),
        ]

    def temporal_join(self, node: nodes.ExecTemporalJoin) -> tuple[str, list[str]]:
        """Describe a temporal join."""
        return "TemporalJoin", self.join_parts(node)

    def lookup_join(self, node: nodes.ExecLookupJoin) -> tuple[str, list[str]]:
        """Describe a lookup join."""
        below = node.input.row_type
        keys = []
        for key in node.keys:
            value = below[key.left].name if key.left is not None else self.notation.text(key.constant, ())
            keys.append(f"{node.table_type[key.column].name}={value}")
        parts = [f"table=[{node.table.path}]", f"joinType=[{node.kind.value}]", f"lookup={_listed(keys)}"]
        if node.condition is not None:
            names = [*below.names, *node.row_type.names[len(below) :]]
            parts.append(f"joinCondition=[{self.notation.text(node.condition, names)}]")
        if node.calc_condition is not None:
            parts.append(f"where=[{self.notation.text(node.calc_condition, node.table_type.names)}]")
        return "LookupJoin", [*parts, f"select={_listed(node.row_type.names)}", *_lookup_settings(node)]

    # -- the rest

    def temporal_sort(self, node: Any) -> tuple[str, list[str]]:
        """Describe a sort."""
        name = type(node).__name__.removeprefix("Exec")
        return name, [f"orderBy={self.order(node.input, node.order)}"]

    def match(self, node: nodes.ExecMatch) -> tuple[str, list[str]]:
        """Describe MATCH_RECOGNIZE."""
        parts = [f"partitionBy={self.names(node.input, node.partition)}"] if node.partition else []
        return "Match", [
            *parts,
            f"orderBy={self.order(node.input, node.order)}",
            f"select={_listed(node.row_type.names)}",
        ]

    def process(self, node: nodes.ExecProcessTableFunction) -> tuple[str, list[str]]:
        """Describe a process table function."""
        tables = ", ".join(f"TABLE(#{place})" for place in range(len(node.tables)))
        columns = ", ".join(f"{type_text(column.type)} {column.name}" for column in node.row_type)
        name = "MLPredictTableFunction" if node.function.upper() == "ML_PREDICT" else "ProcessTableFunction"
        parts = [f"invocation=[{node.function}({tables})]", f"rowType=[RecordType({columns})]"]
        return name, [*parts, *([f"uid=[{node.uid}]"] if node.uid else [])]

    def normalize(self, node: nodes.ExecChangelogNormalize) -> tuple[str, list[str]]:
        """Describe a changelog normalizer."""
        parts = [f"key={self.names(node, node.keys)}"]
        if node.condition is not None:
            parts.append(f"condition=[{self.text(node.condition, node.row_type)}]")
        return "ChangelogNormalize", parts

    def sink(self, node: ExecSink) -> tuple[str, list[str]]:
        """Describe a sink."""
        if node.table is None:
            return "Sink", [f"table=[{node.collect}]", f"fields={_listed(node.row_type.names)}"]
        parts = [f"table=[{node.table.path}]"]
        if node.target_columns is not None:
            parts.append(f"targetColumns=[{','.join(f'[{place}]' for place in node.target_columns)}]")
        parts.append(f"fields={_listed(node.row_type.names)}")
        if node.materialize:
            parts += ["upsertMaterialize=[true]", f"conflictStrategy=[{node.conflict}]"]
        return "Sink", parts


class AccumulatorNames:
    """The names that accumulators have in the plans of Flink: ``count1$0``, ``(sum$1, count$2)``, ``distinct$0``."""

    def __init__(self, calls: Sequence[AggregateCall], retracts: bool) -> None:
        self.calls: list[str] = []
        self.distinct: list[str] = []
        self.values: dict[tuple[int, ...], str] = {}
        self.rows: str | None = None
        self.place_of_rows = 0
        self._count = 0
        counts_rows = False
        for place, call in enumerate(calls):
            if call.function == "COUNT" and not call.args and call.filter is None:
                counts_rows, self.place_of_rows = True, place
            self.calls.append(self._of(call, retracts))
            name = ""
            if call.distinct:
                name = self.values.setdefault(call.args, f"distinct${len(self.values)}")
            self.distinct.append(name)
        if retracts and not counts_rows:
            self.place_of_rows = len(self.calls)
            self.rows = self._next("count1")

    def _of(self, call: AggregateCall, retracts: bool) -> str:
        function = call.function.upper()
        if call.definition is not None:
            return self._next("acc")
        if function == "COUNT":
            return self._next("count" if call.args else "count1")
        if function == "AVG" or (function == "SUM" and retracts):
            return f"({self._next('sum')}, {self._next('count')})"
        return self._next({"SUM": "sum", "SUM0": "sum", "MIN": "min", "MAX": "max"}.get(function, "acc"))

    def _next(self, name: str) -> str:
        self._count += 1
        return f"{name}${self._count - 1}"


def _lookup_settings(node: nodes.ExecLookupJoin) -> list[str]:
    """Return the lookup settings of a table outside, as far as a hint has them."""
    settings = node.settings
    parts = []
    if settings is not None and settings.asynchronous:
        order = "UNORDERED" if settings.unordered and node.mode.is_insert_only else "ORDERED"
        parts.append(f"async=[{order}, KEY_ORDERED: false, {settings.timeout}ms, {settings.capacity}]")
    if settings is not None and settings.retry is not None:
        parts.append(f"retry=[lookup_miss, FIXED_DELAY, {settings.retry.delay}ms, {settings.retry.attempts}]")
    if node.keep is not None:
        parts += ["upsertMaterialize=[true]", f"upsertKey=[[{', '.join(map(str, node.keep))}]]"]
    return parts


def _lifetimes(given: Sequence[tuple[str, int | None]]) -> list[str]:
    """Return the lifetimes (ms) of a STATE_TTL hint."""
    shown = [f"{name}={length_text(ttl).replace(' ', '') if ttl else '0s'}" for name, ttl in given if ttl is not None]
    return [f"stateTtlHints=[[[STATE_TTL options:{{{', '.join(shown)}}}]]]"] if shown else []


def _phase(node: Any) -> list[str]:
    return [f"partialFinalType=[{node.phase}]"] if node.phase else []


def _mode(node: ExecNode) -> str:
    text = str(node.mode)
    return text.replace("D]", "PD]") if node.mode.key_only_deletes else text


def _hints(options: Sequence[tuple[str, str]]) -> list[str]:
    if not options:
        return []
    return [f"hints=[[[OPTIONS options:{{{', '.join(f'{key}={value}' for key, value in options)}}}]]]"]


def _side_names(node: nodes.EquiJoin) -> list[str]:
    return _numbered([*node.left.row_type.names, *node.right.row_type.names])


def _numbered(names: Sequence[str]) -> list[str]:
    """Names of several relations; those that come twice get a number, as in the result."""
    found: list[str] = []
    for name in names:
        unique, count = name, 0
        while unique in found:
            unique, count = f"{name}{count}", count + 1
        found.append(unique)
    return found


_RETRACTS = {"SINGLE_VALUE": False, "ROW_NUMBER": False, "RANK": False, "DENSE_RANK": False}
_PRINTED: dict[type, Any] = {
    nodes.ExecScan: Printer.scan,
    nodes.ExecValues: Printer.values,
    nodes.ExecWatermark: Printer.watermark,
    nodes.ExecCalc: Printer.calc,
    nodes.ExecExchange: Printer.exchange,
    nodes.ExecUnion: Printer.union,
    nodes.ExecExpand: Printer.expand,
    nodes.ExecCorrelate: Printer.correlate,
    nodes.ExecGroupAggregate: Printer.group,
    nodes.ExecMiniBatchAssigner: Printer.assigner,
    nodes.ExecLocalGroupAggregate: Printer.local_group,
    nodes.ExecGlobalGroupAggregate: Printer.global_group,
    nodes.ExecIncrementalGroupAggregate: Printer.incremental,
    nodes.ExecWindowTable: Printer.window_table,
    nodes.ExecWindowAggregate: Printer.window_aggregate,
    nodes.ExecGroupWindowAggregate: Printer.legacy,
    nodes.ExecOver: Printer.over,
    nodes.ExecRank: Printer.rank,
    nodes.ExecDeduplicate: Printer.deduplicate,
    nodes.ExecWindowRank: Printer.window_rank,
    nodes.ExecWindowDeduplicate: Printer.window_deduplicate,
    nodes.ExecJoin: Printer.join,
    nodes.ExecMultiJoin: Printer.multi_join,
    nodes.ExecIntervalJoin: Printer.interval_join,
    nodes.ExecWindowJoin: Printer.window_join,
    nodes.ExecTemporalJoin: Printer.temporal_join,
    nodes.ExecLookupJoin: Printer.lookup_join,
    nodes.ExecTemporalSort: Printer.temporal_sort,
    nodes.ExecSort: Printer.temporal_sort,
    nodes.ExecMatch: Printer.match,
    nodes.ExecProcessTableFunction: Printer.process,
    nodes.ExecChangelogNormalize: Printer.normalize,
    nodes.ExecSink: Printer.sink,
}
