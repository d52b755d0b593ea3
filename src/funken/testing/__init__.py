"""Tools for testing programs: one window rule or one operator by hand, or a whole program in this process.

May import everything but ``spark``, ``cli`` and ``compat``.
"""

from funken.testing.contracts import ContractViolation, check_source
from funken.testing.harness import OperatorHarness
from funken.testing.programs import local
from funken.testing.simulated import SimulatedJob
from funken.testing.sink_contracts import check_sink
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
