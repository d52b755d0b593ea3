"""A table of a connector for the planner: a scan, a sink, a lookup, each with its kinds of change.

A factory makes them of a ``TableContext``. Their streams have ``Row``s with kinds, or tuples, which are insertions; values are
by position, physical columns first, then the metadata that was asked for.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.ir import Call, InputRef, Literal, Node, input_refs, shifted, walk
from funken.table.changelog import ChangelogMode
from funken.table.types import DateType, DecimalType, IntegralType, LogicalType, arrow_type, is_text, is_timestamp
from funken.timing.watermarks import WatermarkStrategy

# ---- Conditions of a query that a connector may use to read less: whole partitions, the rows of a database, files
# of a snapshot.
#
# What a connector leaves out must not fulfil the condition; what it leaves in is checked again behind the scan. So
# a connector may take the part of a condition that it understands, and a column whose values it compares otherwise
# is left alone.


_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class SourceCondition:
    """A condition that rows have to fulfil; ``names`` are those of the columns that it refers to by their places."""

    node: Node
    names: tuple[str, ...]

    @property
    def columns(self) -> set[str]:
        """The columns that it needs."""
        return {self.names[place] for place in input_refs(self.node)}

    @property
    def zoned(self) -> bool:
        """True if the zone of the session may matter, which a source does not know."""
        return any(each.type.root == "TIMESTAMP_LTZ" for each in walk(self.node))

    def comparison(self) -> FieldComparison | None:
        """Return the condition as a comparison of one column with constants; ``None`` if it is none."""
        node = self.node
        if not isinstance(node, Call) or not node.args:
            return None
        first, *others = node.args
        operator = node.function
        if isinstance(first, Literal) and len(others) == 1 and operator in _MIRRORED:
            first, others, operator = others[0], [first], _MIRRORED[operator]
        is_known = operator in _MIRRORED or operator in ("IN", "IS NULL", "IS NOT NULL")
        if not is_known or not isinstance(first, InputRef) or not all(isinstance(one, Literal) for one in others):
            return None
        values = tuple(one.value for one in others if isinstance(one, Literal))
        if any(value is None for value in values):
            return None
        return FieldComparison(self.names[first.index], operator, values, first.type)


@dataclass(frozen=True)
class FieldComparison:
    """A column, an operator of SQL (or IN, IS NULL, IS NOT NULL), and the constants to compare with."""

    column: str
    operator: str
    values: tuple[Any, ...]
    type: LogicalType

    @property
    def has_bounds(self) -> bool:
        """True if ``may_hold`` can answer: for whole numbers, times and texts; and IS NULL, which needs no bounds."""
        return self.operator == "IS NULL" or (
            self.operator != "IS NOT NULL"
            and (is_text(self.type) or is_timestamp(self.type) or isinstance(self.type, IntegralType | DateType))
        )

    def may_hold(self, least: Any, greatest: Any) -> bool:
        """Return True if a value between two others may fulfil it.

        >>> from funken.table.types import DataTypes
        >>> FieldComparison("n", "IN", (3, 9), DataTypes.INT()).may_hold(4, 8)
        False
        """
        value = self.values[0]
        if self.operator in ("=", "IN"):
            return any(least <= each <= greatest for each in self.values)
        found: dict[str, bool] = {
            "<": least < value,
            "<=": least <= value,
            ">": greatest > value,
            ">=": greatest >= value,
            "<>": least != value or greatest != value,
        }
        return found[self.operator]

    def python_values(self) -> list[Any]:
        """Return the constants as values of Python: dates as dates."""
        if isinstance(self.type, DateType):
            return [_EPOCH + datetime.timedelta(days=value) for value in self.values]
        return list(self.values)

    def sql(self, column: str, decimals: bool) -> str | None:
        """Return the comparison for a database, of a quoted column; ``None`` if it may compare otherwise.

        Texts are compared for equality only, since their order is a matter of collations; ``decimals`` says whether the database
        keeps decimals exactly.
        """
        if self.operator in ("IS NULL", "IS NOT NULL"):
            return f"{column} {self.operator}"
        is_text_column = is_text(self.type)
        if is_text_column and (self.operator not in ("=", "IN") or any("\\" in value for value in self.values)):
            return None
        is_exact = isinstance(self.type, IntegralType) or (decimals and isinstance(self.type, DecimalType))
        if not is_text_column and not is_exact:
            return None
        shown = [_quoted(value) if is_text_column else str(value) for value in self.values]
        return f"{column} IN ({', '.join(shown)})" if self.operator == "IN" else f"{column} {self.operator} {shown[0]}"

    def iceberg(self) -> str | None:
        """Return the comparison as a filter of ``pyiceberg``; ``None`` for columns and values that it may take otherwise."""
        is_known = is_text(self.type) or isinstance(self.type, IntegralType | DateType)
        if not self.column.isidentifier() or not is_known:
            return None
        if self.operator in ("IS NULL", "IS NOT NULL"):
            return f"{self.column} {self.operator.lower()}"
        values = self.python_values()
        if any(isinstance(value, str) and ("'" in value or "\\" in value) for value in values):
            return None
        shown = [f"'{value}'" if isinstance(value, str | datetime.date) else str(value) for value in values]
        if self.operator == "IN":
            return f"{self.column} in ({', '.join(shown)})"
        return f"{self.column} {'!=' if self.operator == '<>' else self.operator} {shown[0]}"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def conjuncts(condition: Node | None) -> list[Node]:
    """Return the conditions that all have to hold."""
    if condition is None:
        return []
    if isinstance(condition, Call) and condition.function == "AND":
        return [one for arg in condition.args for one in conjuncts(arg)]
    return [condition]


def fulfilled(
    conditions: Sequence[SourceCondition], columns: Sequence[tuple[str, LogicalType]], rows: Sequence[tuple[Any, ...]]
) -> list[bool]:
    """Return for each row of some columns, as values of Python, whether it may fulfil the conditions.

    A condition that cannot be computed here is left to the query, which reports the fault.
    """
    import pyarrow as pa  # noqa: PLC0415 - only where something is left out

    from funken.errors import FunkenError  # noqa: PLC0415
    from funken.expr.evaluate import EvaluationContext, evaluate  # noqa: PLC0415
    from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415

    places = {name: place for place, (name, _) in enumerate(columns)}
    arrays = [pa.array([row[place] for row in rows], arrow_type(type_)) for place, (_, type_) in enumerate(columns)]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(places))
    nodes = [
        shifted(one.node, {place: places[one.names[place]] for place in input_refs(one.node)}) for one in conditions
    ]
    try:
        found = evaluate(nodes, batch, EvaluationContext(FUNCTIONS))
    except (FunkenError, ArithmeticError, ValueError, pa.ArrowException):
        return [True] * len(rows)
    return [all(each) for each in zip(*(array.to_pylist() for array in found), strict=True)]


class TableNotReadable(InvalidProgram):
    """A table cannot be read or written as the statement wants it."""


@dataclass(frozen=True)
class TableContext:
    """A table as its connector sees it: physical columns, the metadata asked for, key and options.

    >>> TableContext("c.d.t", options={"connector": "print"}).connector
    'print'
    """

    path: str
    columns: tuple[tuple[str, Any], ...] = ()
    """Names and types of the physical columns."""
    metadata: tuple[tuple[str, Any], ...] = ()
    """Keys and types of the metadata columns, which follow the physical ones in each row."""
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    batch: bool = False
    time_zone: str = "UTC"
    identity: str = ""
    """Tells uses of a connector apart in the state of a job."""

    @property
    def connector(self) -> str:
        """The name of the connector; empty if there is none."""
        return self.options.get("connector", "")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the physical columns."""
        return tuple(name for name, _ in self.columns)


def doubt_of(options: Mapping[str, str], path: str) -> str:
    """Return the remedy for columns without any value, of a table whose format gives NULL where it finds no field; else nothing.

    >>> doubt_of({"format": "csv", "csv.ignore-parse-errors": "true"}, "orders")
    "Table 'orders': 'csv.ignore-parse-errors' makes NULL of what cannot be read. Leave it out to see the first error."
    """
    formats = [value for key, value in options.items() if key == "format" or key.endswith(".format")]
    ignoring = [key for key, value in options.items() if key.endswith("ignore-parse-errors") and value == "true"]
    if ignoring:
        return (
            f"Table {path!r}: {ignoring[0]!r} makes NULL of what cannot be read. Leave it out to see the first error."
        )
    if any("json" in name for name in formats):
        return (
            f"Table {path!r}: a column reads the field of its own name, with the same capitals. If the field has another name, "
            "rename the column."
        )
    return ""


def delimiters_of(context: TableContext) -> str:
    """Return the other usual delimiters of CSV for a table of one column in that format; nothing for any other table."""
    if context.options.get("format") != "csv" or len(context.columns) != 1:
        return ""
    return ",;\t|".replace(context.options.get("csv.field-delimiter", ","), "")


class ScanTable:
    """A table that is read from its beginning to its end, if it has one."""

    changelog_mode = ChangelogMode.insert_only()
    takes_watermarks = False
    """True if the source assigns watermarks itself, per split, by the strategy that ``assign_watermarks`` gives it."""
    watermarks: WatermarkStrategy[Any] | None = None
    """The strategy that ``stream`` gives the source."""
    bounded = True
    deletes_by_key = False
    """True if rows that are deleted may have only their key."""
    doubt = ""
    """The remedy if a column has no value at all, where that is suspicious."""
    delimiters = ""
    """Characters that separate fields if each row has one, though the table has one column."""

    def assign_watermarks(self, strategy: WatermarkStrategy[Any]) -> None:
        """Let the source assign watermarks; the generator of the strategy reads rows with all columns of the scan."""
        self.watermarks = strategy

    def stream(self, env: Any) -> Any:
        """Return the stream of rows, added to a ``StreamExecutionEnvironment``."""
        raise NotImplementedError

    def filtered(self, conditions: Sequence[SourceCondition]) -> tuple[ScanTable, tuple[int, ...]]:
        """Return a scan that leaves out rows which do not fulfil some conditions, and the places of these conditions."""
        return self, ()

    def limited(self, count: int) -> ScanTable | None:
        """Return a scan that need not read all rows: the query takes the first ``count`` that come. ``None``: it reads all."""
        return None

    def statistics(self) -> tuple[int, dict[str, int]] | None:
        """Return how many rows there are, and of columns how many different values at most; ``None``: that is not known."""
        return None

    def selected(self, names: Sequence[str]) -> ScanTable | None:
        """Return a scan of these columns alone, in this order; ``None``: it reads all of them anyway."""
        return None


class SinkTable:
    """A table that is written."""

    changelog_mode = ChangelogMode.all()
    """The kinds it takes."""
    deletes_by_key = False
    """True if deletions may come with only their key."""
    supports_overwrite = False
    """True if ``overwriting`` gives a sink that replaces what is there, once all rows of a batch are written."""
    overwrites_by_streams = False
    """True if streams may replace what is there too: the sink begins anew with each job."""
    block_sink: Any = None
    """A ``Sink`` whose writer takes ``TableBlock``s as the values of ``write``; ``None``: ``sink`` is given ``Row``s."""
    block_parallelism: int | None = None
    """How many subtasks of ``block_sink`` write; ``None``: as many as send it blocks."""
    block_place = 0
    """The place of ``block_sink`` in the operators of the sink: it has the uid that it had behind operators that made rows."""

    def overwriting(self, partition: Mapping[str, str]) -> SinkTable:
        """Return the sink of INSERT OVERWRITE; ``partition`` has the constants of its PARTITION clause."""
        raise NotImplementedError

    def sink(self, stream: Any) -> Any:
        """Write a stream of ``Row``s; return the ``DataStreamSink``."""
        raise NotImplementedError


class LookupTable:
    """A table that is asked for the rows of keys. It is pickled, then opened in each task."""

    asynchronous = False

    def open(self) -> None:
        """Connect."""

    def lookup(self, keys: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each key, in the order of the keys."""
        raise NotImplementedError

    def close(self) -> None:
        """Release everything."""
