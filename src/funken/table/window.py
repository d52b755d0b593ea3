"""Windows of the Table API: ``Tumble``, ``Slide`` and ``Session`` group rows, ``Over`` frames them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.expression import Expression, lit_or_expression
from funken.table.expressions import RowInterval

if TYPE_CHECKING:
    from funken.table.rendering import Rendering


@dataclass(frozen=True)
class GroupWindow:
    """A window that groups rows by time; its alias is named in ``group_by``."""

    kind: str
    sizes: tuple[Expression, ...]
    time: Expression | None = None
    name: str = ""

    def on(self, time_field: Expression) -> GroupWindow:
        """Name the time attribute."""
        return GroupWindow(self.kind, self.sizes, lit_or_expression(time_field), self.name)

    def alias(self, alias: str | Expression) -> GroupWindow:
        """Name the window."""
        name = (alias._column or str(alias)) if isinstance(alias, Expression) else str(alias)
        return GroupWindow(self.kind, self.sizes, self.time, name)

    @property
    def counts_rows(self) -> bool:
        """True if the sizes are numbers of rows."""
        return any(isinstance(size, RowInterval) for size in self.sizes)

    def group(self, rendering: Rendering) -> tuple[str, str]:
        """Return the function of SQL, and its arguments."""
        if self.time is None:
            raise InvalidProgram(f"window {self.name!r} has no time attribute; name it with on(col('ts')).")
        if self.counts_rows and not all(isinstance(size, RowInterval) for size in self.sizes):
            raise InvalidProgram(
                f"window {self.name!r} has a size in rows and one in time; give both in rows, or both in time."
            )
        rows = [size.rows for size in self.sizes if isinstance(size, RowInterval)]
        if rows and min(rows) < 1:
            raise InvalidProgram(
                f"window {self.name!r} has row_interval({min(rows)}); a window of rows has at least one row."
            )
        if self.counts_rows and self.kind == "SESSION":
            raise InvalidProgram(
                f"window {self.name!r} ends after a gap, which is a length of time: Session.with_gap(lit(10).minutes)."
            )
        sizes = ", ".join(
            f"ROW_INTERVAL({size.sql(rendering)})" if self.counts_rows else size.sql(rendering) for size in self.sizes
        )
        return self.kind, f"{self.time.sql(rendering)}, {sizes}"


@dataclass(frozen=True)
class WindowProperties:
    """The properties of windows that have been computed: columns by the name of the window and START, END, ROWTIME, PROCTIME."""

    columns: dict[tuple[str, str], str]


class Tumble:
    """Windows that follow one another: ``Tumble.over(lit(10).minutes).on(col("ts")).alias("w")``."""

    @staticmethod
    def over(size: Expression) -> GroupWindow:
        """Set the size."""
        return GroupWindow("TUMBLE", (lit_or_expression(size),))


@dataclass(frozen=True)
class SlideWithSize:
    """Windows of a size that still need a slide."""

    size: Expression

    def every(self, slide: Expression) -> GroupWindow:
        """Set the slide."""
        return GroupWindow("HOP", (lit_or_expression(slide), self.size))


class Slide:
    """Windows that overlap: ``Slide.over(lit(10).minutes).every(lit(5).minutes).on(col("ts")).alias("w")``."""

    @staticmethod
    def over(size: Expression) -> SlideWithSize:
        """Set the size."""
        return SlideWithSize(lit_or_expression(size))


class Session:
    """Windows that end after a gap: ``Session.with_gap(lit(10).minutes).on(col("ts")).alias("w")``."""

    @staticmethod
    def with_gap(gap: Expression) -> GroupWindow:
        """Set the gap."""
        return GroupWindow("SESSION", (lit_or_expression(gap),))


@dataclass(frozen=True)
class OverWindow:
    """A frame of rows around each row."""

    partition: tuple[Expression, ...] = ()
    order: Expression | None = None
    lower: Expression | None = None
    upper: Expression | None = None
    name: str = ""

    def order_by(self, order_by: Expression) -> OverWindow:
        """Name the column that orders the rows."""
        return OverWindow(self.partition, lit_or_expression(order_by), self.lower, self.upper, self.name)

    def preceding(self, preceding: Expression) -> OverWindow:
        """Set where frames begin: an interval, a number of rows, or without a bound."""
        return OverWindow(self.partition, self.order, lit_or_expression(preceding), self.upper, self.name)

    def following(self, following: Expression) -> OverWindow:
        """Set where frames end."""
        return OverWindow(self.partition, self.order, self.lower, lit_or_expression(following), self.name)

    def alias(self, alias: str | Expression) -> OverWindow:
        """Name the window."""
        name = (alias._column or str(alias)) if isinstance(alias, Expression) else str(alias)
        return OverWindow(self.partition, self.order, self.lower, self.upper, name)

    def clause(self, rendering: Rendering) -> str:
        """Return the window as SQL."""
        parts = []
        if self.partition:
            parts.append(f"PARTITION BY {', '.join(one.sql(rendering) for one in self.partition)}")
        if self.order is None:
            raise InvalidProgram(f"window {self.name!r} has no order; name a column with order_by(col('ts')).")
        parts.append(f"ORDER BY {self.order.sql(rendering)}")
        unit, lower = _bound(self.lower, rendering)
        _, upper = ("", "CURRENT ROW") if self.upper is None else _bound(self.upper, rendering)
        upper = upper.replace("PRECEDING", "FOLLOWING") if upper != "CURRENT ROW" else upper
        parts.append(f"{unit} BETWEEN {lower} AND {upper}")
        return " ".join(parts)


def _bound(bound: Expression | None, rendering: Rendering) -> tuple[str, str]:
    if bound is None:
        return "RANGE", "UNBOUNDED PRECEDING"
    text = bound.sql(rendering)
    unit, _, rest = text.partition(" ")
    if unit in ("ROWS", "RANGE") and rest:
        return unit, rest
    return ("ROWS" if isinstance(bound, RowInterval) else "RANGE"), f"{text} PRECEDING"


class Over:
    """Frames of rows: ``Over.partition_by(col("a")).order_by(col("ts")).preceding(UNBOUNDED_RANGE).alias("w")``."""

    @staticmethod
    def order_by(order_by: Expression) -> OverWindow:
        """Name the column that orders the rows."""
        return OverWindow(order=lit_or_expression(order_by))

    @staticmethod
    def partition_by(*partition_by: Expression) -> OverWindow:
        """Name the columns whose rows belong together."""
        return OverWindow(tuple(map(lit_or_expression, partition_by)))
