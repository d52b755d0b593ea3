"""Arguments of functions whose ``input_types`` a program declares: their number is fixed, their values are converted.

The conversions are SQL's implicit ones, those of INSERT; another type of argument is refused with Flink's text.
"""

from __future__ import annotations

from collections.abc import Sequence

from funken.expr.ir import Node
from funken.expr.rules import InvalidCall
from funken.expr.sql.casts import castable
from funken.expr.sql.functions import FUNCTIONS
from funken.table.sql.inserts import same
from funken.table.types import LogicalType, NullType


def as_declared(args: Sequence[Node], types: Sequence[LogicalType]) -> list[Node]:
    """Return arguments as the declared types; raises ``InvalidCall`` for another number or type."""
    if len(args) != len(types):
        raise InvalidCall(
            f"Invalid number of arguments. {len(types)} arguments expected after argument expansion but {len(args)} passed."
        )
    return [_converted(arg, type_, place) for place, (arg, type_) in enumerate(zip(args, types, strict=True))]


def _converted(arg: Node, type_: LogicalType, place: int) -> Node:
    if same(arg.type, type_):
        return arg
    if not isinstance(arg.type, NullType) and not castable(arg.type, type_):
        raise InvalidCall(
            f"Invalid argument type at position {place}. Data type {type_} expected but {arg.type} passed. Cast the "
            "argument, or declare other input_types."
        )
    return FUNCTIONS.call("CAST", [arg], type=type_.nullable(arg.type.is_nullable))
