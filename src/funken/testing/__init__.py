"""Tools for testing programs: one operator by hand, or a whole program in this process."""

from funken.testing.harness import OperatorHarness
from funken.testing.programs import local
from funken.testing.simulated import SimulatedJob

__all__ = ["OperatorHarness", "SimulatedJob", "local"]
