"""Constant rows: the expressions of VALUES, computed when the job is made."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from funken.expr.evaluate import EvaluationContext, evaluate
from funken.table.exec_nodes import ExecValues
from funken.timing.clock import SystemClock


def constant_rows(node: ExecValues, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the rows as a program sees them."""
    from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415
    from funken.table.values import to_python  # noqa: PLC0415

    batch = pa.record_batch({"row": [0]})
    context = EvaluationContext(FUNCTIONS, parameters.get("time_zone", "UTC"), SystemClock().now, parameters=parameters)
    rows = []
    types = node.row_type.types
    for row in node.rows:
        arrays = evaluate(row, batch, context)
        rows.append(tuple(to_python(_cast(array, kind), kind)[0] for array, kind in zip(arrays, types, strict=True)))
    return rows


def _cast(array: Any, kind: Any) -> Any:
    from funken.expr.sql.types import arrow_type  # noqa: PLC0415

    wanted = arrow_type(kind)
    return array if array.type == wanted else array.cast(wanted)
