"""Edges that carry columns, and how records may be folded before they are sent: what rules decide, and writers do."""

from __future__ import annotations

from typing import Any

from funken.columnar.tracing import Traced
from funken.dataclass import dataclass
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import Forward, Global, Hash, Partitioning, Rebalance, Rescale


@dataclass(frozen=True)
class PreAggregation:
    """The rules by which records become partials: the role of each field, the length of panes, and their functions."""

    roles: tuple[str, ...]
    pane: int | None
    """``None``: all records of a key are in one."""
    offset: int
    functions: tuple[tuple[UserFunction, Traced], ...]


@dataclass(frozen=True)
class ColumnarHash(Hash):
    """``Hash`` of columns."""

    traced: Traced
    pre_aggregation: PreAggregation | None = None
    """The aggregation of a block before it is sent; ``None``: none."""
    to_records: bool = False
    """True if the operator behind it works record by record: then blocks are kept smaller."""

    @property
    def label(self) -> str:
        """The name that ``explain()`` prints."""
        return "HASH"


@dataclass(frozen=True)
class _OfColumns:
    """The base of partitionings of columns: each has the label of the partitioning without columns."""

    to_records: bool = False
    """True if the operator behind it works record by record: then blocks are kept smaller."""

    @property
    def label(self) -> str:
        """The name that ``explain()`` prints."""
        return type(self).__name__.removeprefix("Columnar").upper()


@dataclass(frozen=True)
class ColumnarForward(_OfColumns, Forward):
    """``Forward`` of columns."""


@dataclass(frozen=True)
class ColumnarGlobal(_OfColumns, Global):
    """``Global`` of columns."""


@dataclass(frozen=True)
class ColumnarRebalance(_OfColumns, Rebalance):
    """``Rebalance`` of columns."""


@dataclass(frozen=True)
class ColumnarRescale(_OfColumns, Rescale):
    """``Rescale`` of columns."""


OF_COLUMNS: dict[type[Partitioning], Any] = {
    Forward: ColumnarForward, Global: ColumnarGlobal, Rebalance: ColumnarRebalance, Rescale: ColumnarRescale,
}  # fmt: skip
"""The writers of columns in place of a partitioning that does not look at records."""


def wants_columns(partitioning: Partitioning) -> bool:
    """Return True if an edge carries columns, and the operator behind it takes them.

    >>> wants_columns(ColumnarRebalance()), wants_columns(ColumnarRebalance(to_records=True)), wants_columns(Rebalance())
    (True, False, False)
    """
    return not getattr(partitioning, "to_records", True)
