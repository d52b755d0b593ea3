"""MATCH_RECOGNIZE: rows of a table go through the operator of ``cep/sql``, and come back as a table."""

from __future__ import annotations

import datetime
import re
from typing import Any

from funken.table.runtime.stateless import RowsToTable

_QUOTED = re.compile(r"`((?:[^`]|``)*)`")
_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH = _UTC_EPOCH.replace(tzinfo=None)


class MatchesToTable(RowsToTable):
    """Makes blocks of tables of matches; a time of the pattern in milliseconds becomes one of the column's type."""

    def process_block(self, block: Any) -> None:
        """Convert a block."""
        values, stamps = block.rows()
        if not values:
            return
        rows = [[_timed(value, each) for value, each in zip(row, self.schema.types, strict=True)] for row in values]
        made = self.schema.of_rows(rows)
        made.timestamps = stamps
        self.emit(made)


def _timed(value: Any, kind: Any) -> Any:
    if isinstance(value, int) and kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return (_UTC_EPOCH if kind.root == "TIMESTAMP_LTZ" else _EPOCH) + datetime.timedelta(milliseconds=value)
    return value


def clause_of(clause: Any) -> str:
    """Return a MATCH_RECOGNIZE clause as ``cep/sql`` reads it, from the text between its parentheses or from a parsed one."""
    text = clause if isinstance(clause, str) else str(clause.sql())
    text = _QUOTED.sub(lambda name: '"' + name.group(1).replace("``", "`").replace('"', '""') + '"', text)
    return text if text.lstrip().upper().startswith("MATCH_RECOGNIZE") else f"MATCH_RECOGNIZE ({text})"
