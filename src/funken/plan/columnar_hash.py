"""``Hash`` of columns, and how their records may be folded before they are sent: what rules decide, and a writer does."""

from __future__ import annotations

from funken.columnar.tracing import Traced
from funken.dataclass import dataclass
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import Hash


@dataclass(frozen=True)
class PreAggregation:
    """How records become partials: the role of each leaf, the length of panes, and the functions that decide it."""

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
    """How a block is folded before it is sent; ``None``: not at all."""
    to_records: bool = False
    """Whether the operator behind it works record by record: then blocks are kept smaller."""

    @property
    def label(self) -> str:
        """The name that ``explain()`` prints."""
        return "HASH"


__all__ = ["ColumnarHash", "PreAggregation"]
