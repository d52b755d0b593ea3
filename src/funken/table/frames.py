"""Frames of OVER by keywords: ``col("v").sum.over(order_by="ts", partition_by="k", rows=(preceding(2), CURRENT_ROW))``."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.io.durations import duration_ms
from funken.table.expression import Expression, col, sql_literal

if TYPE_CHECKING:
    from funken.table.rendering import Rendering


@dataclass(frozen=True)
class FrameEnd:
    """One end of a frame: some rows or some time before or behind the current row; ``None`` is without bound."""

    direction: str
    distance: Any = None

    def __repr__(self) -> str:
        return self.direction if self.distance is None else f"{self.direction.lower()}({self.distance!r})"


CURRENT_ROW = FrameEnd("CURRENT ROW")
UNBOUNDED = FrameEnd("UNBOUNDED")


def preceding(distance: Any) -> FrameEnd:
    """Return the end of a frame before the current row: a number of rows, or a duration.

    >>> preceding(2), preceding("1 hour")
    (preceding(2), preceding('1 hour'))
    """
    return UNBOUNDED if distance is UNBOUNDED else FrameEnd("PRECEDING", distance)


def following(distance: Any) -> FrameEnd:
    """Return the end of a frame behind the current row: a number of rows, or a duration."""
    return UNBOUNDED if distance is UNBOUNDED else FrameEnd("FOLLOWING", distance)


def framed(aggregate: Expression, order_by: Any, partition_by: Any, rows: Any, range_: Any) -> Expression:
    """Return an aggregate over a frame.

    ``rows`` and ``range_`` are a distance back to the current row, or a pair of ends; without both, a frame is all rows up to
    the current one and its peers. Raises ``TypeError`` or ``ValueError`` for arguments that make no frame.
    """
    order = _column(order_by, "order_by")
    partition = [] if partition_by is None else _columns(partition_by)
    if rows is not None and range_ is not None:
        raise ValueError("rows and range are mutually exclusive; a frame counts rows, or it measures time.")
    unit = "ROW" if rows is not None else "RANGE"
    lower, upper = _ends(rows if rows is not None else UNBOUNDED if range_ is None else range_, unit.lower())

    def render(rendering: Rendering) -> str:
        parts = [f"PARTITION BY {', '.join(one.sql(rendering) for one in partition)}"] if partition else []
        parts.append(f"ORDER BY {order.sql(rendering)}")
        ends = f"{_sql(lower, 'PRECEDING', rendering)} AND {_sql(upper, 'FOLLOWING', rendering)}"
        return f"{aggregate.sql(rendering)} OVER ({' '.join(parts)} {unit.replace('ROW', 'ROWS')} BETWEEN {ends})"

    shown = [str(order), _shown(lower, unit), _shown(upper, unit), *map(str, partition)]
    return Expression(render, f"over({aggregate}, {', '.join(shown)})")


def _column(given: Any, what: str) -> Expression:
    if isinstance(given, Expression):
        return given
    if isinstance(given, str):
        return col(given)
    raise TypeError(f"{what} must be a column name or Expression, but got {given!r}.")


def _columns(given: Any) -> list[Expression]:
    several = list(given) if isinstance(given, list | tuple) else [given]
    if not several:
        raise TypeError("partition_by must not be empty; leave it out for one partition.")
    return [_column(one, "partition_by") for one in several]


def _ends(given: Any, what: str) -> tuple[FrameEnd, FrameEnd]:
    if not isinstance(given, tuple):
        return _checked(given if isinstance(given, FrameEnd) else preceding(given), what), CURRENT_ROW
    if len(given) != 2:
        raise TypeError(f"{what} must be a distance, or a two-element tuple of ends, but got {given!r}.")
    for end in given:
        if isinstance(end, Expression):
            raise TypeError(
                f"{what} got {end}, which is of the Table API. Use pyflink.dataframe.CURRENT_ROW and its kin."
            )
        if not isinstance(end, FrameEnd):
            raise TypeError(
                f"an end of {what} is preceding(n), following(n), CURRENT_ROW or UNBOUNDED, but got {end!r}."
            )
    lower, upper = (_checked(end, what) for end in given)
    if lower.direction == "FOLLOWING" or upper.direction == "PRECEDING":
        raise ValueError(
            f"the lower bound of {what} is the current row or before it, and the upper bound the current row or behind it, but "
            f"got {given!r}."
        )
    return lower, upper


def _checked(end: FrameEnd, what: str) -> FrameEnd:
    """Return an end whose distance is a number of rows, or a duration; raises ``TypeError`` or ``ValueError`` otherwise."""
    distance = end.distance
    if distance is None:
        return end
    if what == "row":
        if isinstance(distance, bool) or not isinstance(distance, int):
            raise TypeError(f"rows are counted by an int, but got a {type(distance).__name__}: {distance!r}.")
        if distance < 1:
            raise ValueError(f"a number of rows must be larger than 0, but got {distance}. Use CURRENT_ROW for none.")
        return end
    if isinstance(distance, str | datetime.timedelta):
        try:
            milliseconds = duration_ms(distance)
        except InvalidProgram:
            raise ValueError(f"{distance!r} is no duration string; write '1 hour', say, or pass a timedelta.") from None
        return FrameEnd(end.direction, datetime.timedelta(milliseconds=milliseconds))
    if isinstance(distance, Expression):
        return end
    raise TypeError(f"range is a duration string, a timedelta or an interval, but got {distance!r}.")


def _sql(end: FrameEnd, unbounded: str, rendering: Rendering) -> str:
    if end is UNBOUNDED:
        return f"UNBOUNDED {unbounded}"
    if end.distance is None:
        return end.direction
    if isinstance(end.distance, Expression):
        return f"{end.distance.sql(rendering)} {end.direction}"
    return f"{sql_literal(end.distance)} {end.direction}"


def _shown(end: FrameEnd, unit: str) -> str:
    if end.distance is not None:
        return str(end.distance)
    return f"{'UNBOUNDED' if end is UNBOUNDED else 'CURRENT'}_{unit}"


__all__ = ["CURRENT_ROW", "UNBOUNDED", "FrameEnd", "following", "framed", "preceding"]
