"""The records of change data capture, of whichever database."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class ChangeKind(enum.Enum):
    """The kind of a change; ``READ`` is a row of the snapshot, ``TRUNCATE`` concerns a whole table."""

    READ = "r"
    INSERT = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"


class TableChange(NamedTuple):
    """A change of one row: as it was and as it is, ``None`` where there is no such row.

    MySQL logs ``before`` whole. PostgreSQL logs the columns of the table's replica identity: the primary key, where that has
    changed, or the whole row with ``REPLICA IDENTITY FULL``; of an update it is often ``None``. ``lsn`` is the position of the
    change in the log, ``timestamp`` its time (ms since 1970); both are 0 in rows of the snapshot.

    >>> TableChange(ChangeKind.INSERT, "public.orders", None, {"id": 1, "item": "tea"}, lsn=22262632).after["item"]
    'tea'
    """

    kind: ChangeKind
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    lsn: int = 0
    timestamp: int = 0
