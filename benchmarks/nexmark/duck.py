"""Asks DuckDB, in a process and an environment of its own, for the result of a query over the same events."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from events import Auction, Bid, Nexmark, Person

REFERENCE = Path(__file__).parent / "reference.py"
SECONDS = 300


class NoAnswer(Exception):
    """DuckDB failed."""


class Oracle:
    """DuckDB over ``count`` events, which are written once per rate; ``python`` is an interpreter that has DuckDB."""

    def __init__(self, python: Path, folder: Path, count: int) -> None:
        self.count = count
        self._python, self._folder = python, folder

    def rows(self, query: str, nexmark: Nexmark) -> list[tuple[Any, ...]]:
        """Return the right result; raise ``NoAnswer`` if DuckDB fails."""
        folder = self._folder / f"{nexmark.rate}-a-second"
        if not folder.exists():
            folder.mkdir(parents=True)
            self._write(nexmark, folder)
        command = [str(self._python), str(REFERENCE), str(folder), query]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise NoAnswer(f"DuckDB could not answer {query}:\n{done.stderr[-2000:]}")
        table = pq.read_table(folder / f"{query}.parquet")
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def _write(self, nexmark: Nexmark, folder: Path) -> None:
        events = [nexmark.event(number) for number in range(self.count)]
        for kind in (Person, Auction, Bid):
            rows = [event for event in events if type(event) is kind]
            columns = dict(zip(kind._fields, map(list, zip(*rows, strict=True)), strict=True))
            pq.write_table(pa.table(columns), folder / f"{kind.__name__.lower()}.parquet")
