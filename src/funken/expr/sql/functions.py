"""The table of SQL's built-in functions."""

from __future__ import annotations

from funken.expr.rules import FunctionTable
from funken.expr.sql import (
    aggregates,
    casts,
    collections,
    conditional,
    json_functions,
    misc,
    numbers,
    operators,
    strings,
    temporal,
)
from funken.expr.sql.other_dialects import OTHER_DIALECTS
from funken.expr.sql.values import broadcast, scalar_of

FUNCTIONS = FunctionTable(scalar=scalar_of, repeat=broadcast, elsewhere=OTHER_DIALECTS)
"""Every built-in function, by name."""
for _topic in (
    operators,
    conditional,
    casts,
    numbers,
    strings,
    temporal,
    collections,
    json_functions,
    misc,
    aggregates,
):
    FUNCTIONS.add(*_topic.ROWS)
