"""Imports of workers, so that the process that forks them imports the same modules before the next fork.

pyarrow imports pandas, if there is one, when it first converts a value: 110 ms of CPU in every worker of a job that uses columns.
Others never need it, and would start later for it, so it is imported for the workers of a session once one of them has said so.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

_LIBRARY = "pandas"


class LateImport:
    """A library that is imported once a worker has needed it; ``watch`` is called before the first fork.

    >>> late = LateImport("decimal")
    >>> late.watch(); late.needed(); late.load()
    True
    """

    def __init__(self, library: str) -> None:
        self._library = library
        self._ends: tuple[int, int] | None = None
        self._loaded = False

    def watch(self) -> None:
        """Hear from the processes that are forked from now on."""
        self._ends = os.pipe()
        for end in self._ends:
            os.set_blocking(end, False)

    def needed(self) -> None:
        """Called in a worker that ends: say whether it had to import the library; nobody has to listen."""
        if self._ends is not None and self._library in sys.modules:
            with contextlib.suppress(OSError):
                os.write(self._ends[1], b"\n")

    def load(self) -> bool:
        """Called before a fork: import the library if a worker needed it; return whether that was done, now or before."""
        if self._loaded or self._ends is None:
            return self._loaded
        try:
            os.read(self._ends[0], 1)
        except OSError:  # nobody did
            return False
        self._loaded = True
        with contextlib.suppress(Exception):  # the next worker will have the error, where it is to be seen
            importlib.import_module(self._library)
        gc.collect()
        gc.freeze()
        return True


PANDAS = LateImport(_LIBRARY)
