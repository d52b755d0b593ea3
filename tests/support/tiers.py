"""Which modules `make check` leaves out."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
SLOW = {line for line in (TESTS / "slow_modules.txt").read_text().splitlines() if not line.startswith("#")}


def is_slow(path):
    """Tell whether a module is in the list."""
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).as_posix() in SLOW
