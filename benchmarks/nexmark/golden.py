"""What DuckDB finds in few events, as a number of rows and a digest per query: for tests, which have no DuckDB.

``run.py --golden`` writes it. Values that are equal are the same here: 1.50 is 1.5. A test that finds another digest does not
say which rows differ; ``make nexmark`` does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any

from checking import RightRows
from events import Nexmark
from queries.catalogue import QUERIES

PLACE = Path(__file__).parents[2] / "tests" / "golden" / "nexmark.json"
COUNT, EVENTS = 2000, Nexmark(seed=1, rate=50)
"""At 50 events a second 2000 take 40 seconds: a few windows, and the end of a day after 30."""


def digest(rows: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the number of rows, and what depends on every field of every row but not on their order."""
    lines = sorted(json.dumps(list(row), default=_text) for row in rows)
    return [len(lines), blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()]


def _text(value: Any) -> str:
    assert isinstance(value, Decimal), f"{value!r} of a result has no form that two systems share"
    return f"{value.normalize():f}"


def write(oracle: Callable[[int], RightRows]) -> None:
    """Ask DuckDB."""
    found = oracle(COUNT)
    golden = {name: digest(found.rows(name, EVENTS)) for name in QUERIES}
    PLACE.write_text(json.dumps(golden).replace("], ", "],\n ") + "\n")
