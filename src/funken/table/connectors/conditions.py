"""Conditions of a query that a connector may use to read less: whole partitions, the rows of a database, files of a snapshot.

What a connector leaves out must not fulfil the condition; what it leaves in is checked again behind the scan. So a connector may
take the part of a condition that it understands, and a column whose values it compares otherwise is left alone.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from funken.dataclass import dataclass
from funken.expr.ir import Call, InputRef, Literal, Node, input_refs, shifted
from funken.table.types import DateType, DecimalType, IntegralType, LogicalType, arrow_type, is_text

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

    def python_values(self) -> list[Any]:
        """Return the constants as values of Python: dates as dates."""
        if isinstance(self.type, DateType):
            return [_EPOCH + datetime.timedelta(days=value) for value in self.values]
        return list(self.values)

    def sql(self, column: str, decimals: bool) -> str | None:
        """Return the comparison for a database whose quoted column is given; ``None`` if it may compare otherwise.

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

    A condition that cannot be computed here is left to the query, which says what is wrong with it.
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


__all__ = ["FieldComparison", "SourceCondition", "conjuncts", "fulfilled"]
