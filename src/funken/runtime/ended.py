"""A vertex that had ended when the checkpoint was made from which its subtask starts: it does not run again.

No function of the user is opened. All there is left to say is that it has ended, and it says so once those before it have:
so nobody downstream ends before the job has begun. Its state stays part of every checkpoint, for a job with another
parallelism may need it.
"""

from __future__ import annotations

from funken.ids import MAX_WATERMARK
from funken.operators.base import Timestamps, Values
from funken.runtime.chain import Chain


class EndedChain(Chain):
    """Stands where the chain was; what still comes (only the ends of who is before it) touches no operator."""

    def open(self) -> None:
        """Open nothing."""

    def process(self, index: int, values: Values, timestamps: Timestamps) -> None:
        """Nothing comes from who has ended."""

    def watermark(self, watermark: int) -> None:
        """Pass the last watermark on; the others were sent before."""
        if watermark == MAX_WATERMARK:
            for end in self._ends:
                end.watermark(watermark)

    def watermark_input(self, index: int, watermark: int) -> None:
        """Nobody is told."""

    def idle(self, idle: bool) -> None:
        """Who has ended does not idle."""

    def end_input(self, index: int) -> None:
        """Nobody is told."""

    def drain(self, inputs: int) -> None:
        """Nothing is held back."""

    def next_tick(self) -> int | None:
        """No operator waits for anything."""
        return None

    def close(self) -> list[BaseException]:
        """Nothing was opened."""
        return []
