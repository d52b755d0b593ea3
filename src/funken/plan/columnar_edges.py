"""Edges that carry columns, and how records may be folded before they are sent: what rules decide, and writers do."""

from __future__ import annotations

from dataclasses import field

from funken.columnar.tracing import Traced
from funken.dataclass import dataclass
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import BlockForm, Hash, Partitioning


@dataclass(frozen=True)
class PreAggregation:
    """The rules by which records become partials: the role of each field, the length of panes, and their functions."""

    roles: tuple[str, ...]
    pane: int | None
    """``None``: all records of a key are in one."""
    offset: int
    functions: tuple[tuple[UserFunction, Traced], ...]


COLUMNS = BlockForm("funken.runtime.exchange.columnar_writer")


@dataclass(frozen=True)
class ColumnarHash(Hash):
    """``Hash`` of columns."""

    traced: Traced
    pre_aggregation: PreAggregation | None = None
    """The aggregation of a block before it is sent; ``None``: none."""
    form: BlockForm | None = field(default=COLUMNS, kw_only=True)


def wants_columns(partitioning: Partitioning) -> bool:
    """Return True if an edge carries columns, and the operator behind it takes them.

    >>> from funken.plan.nodes import Rebalance
    >>> wants_columns(Rebalance(form=COLUMNS)), wants_columns(Rebalance())
    (True, False)
    """
    return partitioning.form is not None and not partitioning.form.to_records
