"""The coordinators of ``print()`` and of collected streams: output that appears where the program runs."""

from __future__ import annotations

import pickle
import sys
import threading
from typing import Any

from funken.operators.coordinators.base import OperatorCoordinator, OperatorCoordinatorContext
from funken.operators.coordinators.collecting import Collectors

_LOCK = "print lock"


class PrintCoordinator(OperatorCoordinator):
    """Writes the lines of a print sink to standard output; those of a block stay together.

    >>> PrintCoordinator(OperatorCoordinatorContext("print")).handle_output(0, ["1> to be", "1> or not"])
    1> to be
    1> or not
    """

    def __init__(self, context: OperatorCoordinatorContext) -> None:
        super().__init__(context)
        self._lock: threading.Lock = context.shared.setdefault(_LOCK, threading.Lock())

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Write lines."""
        with self._lock:
            sys.stdout.write("".join(line + "\n" for line in payload))
            sys.stdout.flush()


class CollectCoordinator(OperatorCoordinator):
    """Puts the records of a collecting sink, which come pickled, where the program reads them; waits for a slow reader."""

    def __init__(self, context: OperatorCoordinatorContext, name: str) -> None:
        super().__init__(context)
        self._collector = Collectors.of(context.shared)[name]
        self._abandoned = False

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Hand on records."""
        self._collector.put(pickle.loads(payload), lambda: self._abandoned)

    def abandon(self) -> None:
        """Let writers go that wait for a reader, which may read from another attempt."""
        self._abandoned = True
        self._collector.wake()


__all__ = ["CollectCoordinator", "PrintCoordinator"]
