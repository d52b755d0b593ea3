"""The head of a loop: what it is given it passes on, whether it comes for the first time or comes back.

What it means that records come back is the runtime's (``runtime/exchange/loop_gate.py``, ``runtime/task/rounds.py``).
"""

from __future__ import annotations

from funken.dataclass import dataclass
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.traits import OperatorTraits


@dataclass(frozen=True)
class Iterate:
    """The head of a loop."""

    traits = OperatorTraits(loop_head=True, stays_with_input=True)

    def build(self) -> IterateLogic:
        """Make the logic of one subtask."""
        return IterateLogic()


class IterateLogic(Operator):
    """Passes blocks on as they are."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Pass a block on."""
        self.output.emit(values, timestamps)


__all__ = ["Iterate"]
