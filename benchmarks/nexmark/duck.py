"""Asks DuckDB, in a process and an environment of its own, for the result of a query over the same events."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from events import Nexmark
from files import write_events

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
            write_events(nexmark, self.count, folder)
        command = [str(self._python), str(REFERENCE), str(folder), query]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise NoAnswer(f"DuckDB could not answer {query}:\n{done.stderr[-2000:]}")
        table = pq.read_table(folder / f"{query}.parquet")
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
