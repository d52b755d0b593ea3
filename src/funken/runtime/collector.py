"""Python's collector of cycles while a job runs: it runs rarely, for blocks are tens of thousands of tuples.

Every 700 new containers Python looks at the young ones, and now and then at all of them: beside state it takes more time than
the operators. A worker belongs to its job, and leaves out what existed before; a process that a job only visits gets its own
setting back.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_EVERY = 50_000
_lock = threading.Lock()
_jobs = 0
_before = (0, 0, 0)


def collect_rarely() -> None:
    """Let the garbage collector ignore what exists already, and run rarely, in a process that is here for the job.

    Measured on the keyed job: 22 % of the CPU time per record with Python's own threshold of 700 (decision 0004). In batch,
    PageRank by record over 160,000 links took 2.9 s of CPU time with that threshold and 2.4 s without, a join of 200,000 pairs
    0.35 and 0.18 s.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_EVERY, *gc.get_threshold()[1:])


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let the garbage collector of this process run rarely within a block; in the last of several at a time, as before.

    A program that has switched it off, or lets it run more rarely still, is left alone. Nexmark's q20, in one process: 128,000
    to 269,000 events a second.

    >>> before = gc.get_threshold()
    >>> with collecting_rarely():
    ...     gc.get_threshold()[0]
    50000
    >>> gc.get_threshold() == before
    True
    """
    global _jobs, _before  # noqa: PLW0603 - the collector is one of the process
    with _lock:
        if not _jobs:
            _before = gc.get_threshold()
            if 0 < _before[0] < _EVERY:
                gc.set_threshold(_EVERY, *_before[1:])
        _jobs += 1
    try:
        yield
    finally:
        with _lock:
            _jobs -= 1
            if not _jobs and gc.get_threshold() == (_EVERY, *_before[1:]):  # else the program has set another meanwhile
                gc.set_threshold(*_before)
