"""Tools for testing programs: one window rule or one operator by hand, or a whole program in this process.

May import everything but ``spark``, ``cli`` and ``compat``.
"""

from funken.testing.contracts import ContractViolation, check_sink, check_source
from funken.testing.harness import OperatorHarness
from funken.testing.simulated import SimulatedJob, local
from funken.testing.windows import WindowContext

__all__ = [
    "ContractViolation",
    "OperatorHarness",
    "SimulatedJob",
    "WindowContext",
    "check_sink",
    "check_source",
    "local",
]
