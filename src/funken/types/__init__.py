"""Declared types: declarations about records, and their effect.

Nothing needs a type. A declared one narrows values, makes tuples into rows, refuses what does not fit, and decides how
a record is written as text.

``callables.py`` has the type parameters of the public classes, for type checkers. May import ``errors`` only.
"""

from funken.types.info import TypeInformation, Types
from funken.types.row import Instant, Row, RowKind

__all__ = ["Instant", "Row", "RowKind", "TypeInformation", "Types"]
