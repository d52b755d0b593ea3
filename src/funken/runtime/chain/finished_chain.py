"""The chain of a subtask that had finished when the checkpoint was made that it starts from: it does not run again.

No user function is opened. It only ends its output edges, once its inputs have ended:
so no subtask downstream ends before the job has begun. Its state stays part of every checkpoint, for a job with another
parallelism may need it.
"""

from __future__ import annotations

from typing import Any

from funken.columnar.block import Block
from funken.errors import JobExecutionError
from funken.ids import MAX_WATERMARK, OperatorId
from funken.runtime.chain.chain import OperatorChain


class FinishedOperatorChain(OperatorChain):
    """Takes the place of the chain; its inputs only end, and no operator is called."""

    def open(self) -> None:
        """Open nothing."""

    def process(self, index: int, block: Block) -> None:
        """Refuse records: what was before a finished subtask has finished, so that they would be lost silently."""
        context = self.head.context
        raise JobExecutionError(
            f"operator {context.operator!r} (subtask {context.subtask}) had finished when the checkpoint was made that the job "
            "started from, and receives records now. This is a defect of Funken; please report it with the program."
        )

    def watermark(self, watermark: int) -> None:
        """Pass the last watermark on; the others were sent before."""
        if watermark == MAX_WATERMARK:
            for end in self._outputs:
                end.watermark(watermark)

    def watermark_input(self, index: int, watermark: int) -> None:
        """Not passed on: its operators have ended."""

    def idle(self, idle: bool) -> None:
        """A finished subtask is never idle."""

    def end_input(self, index: int) -> None:
        """Not passed on: its operators have ended."""

    def drain(self, inputs: int) -> None:
        """Nothing is held back."""

    def handle_operator_event(self, number: OperatorId, payload: Any) -> None:
        """Not passed on: its operators were not opened."""

    def notify_checkpoint_complete(self, checkpoint: int) -> None:
        """Not passed on: its operators were not opened."""

    def notify_checkpoint_aborted(self, checkpoint: int) -> None:
        """Not passed on: its operators were not opened."""

    def awaits_results(self) -> bool:
        """No operator has anything to come."""
        return False

    def next_tick(self) -> int | None:
        """No operator waits for anything."""
        return None

    def close(self) -> list[BaseException]:
        """Nothing was opened."""
        return []
