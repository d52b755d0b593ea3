"""Planted faults: small changes of Funken's source, each of which the tests or the simulation must notice.

A fault is an entry of one of the ``*.toml`` files here: the module, a snippet that occurs in it exactly once, what takes
its place, and what that breaks. Entries are plain text without line numbers, so a rename may rewrite them along with the
source. ``scripts/mutate.py`` plants them; ``tests/test_mutants.py`` keeps the table true.

An entry with ``equivalent`` carries the argument why nothing can notice it, and is not counted.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """One fault; ``tests`` are the fast tests near by, which run before the simulation."""

    id: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...] = ()
    equivalent: str = ""

    def applied(self, source: str) -> str:
        """Return the module with the fault; raises ``ValueError`` unless the snippet occurs exactly once."""
        found = source.count(self.old)
        if found != 1:
            raise ValueError(f"mutant {self.id!r}: its snippet occurs {found} times in {self.file}, not once")
        return source.replace(self.old, self.new)


def all_mutants() -> list[Mutant]:
    """Read the table."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    entries = [entry for path in files for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]]
    return [Mutant(**entry | {"tests": tuple(entry.get("tests", ()))}) for entry in entries]
