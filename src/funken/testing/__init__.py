"""Tools for testing programs: one operator by hand, or a whole program in this process."""

from funken.testing.harness import OperatorHarness
from funken.testing.programs import local

__all__ = ["OperatorHarness", "local"]
