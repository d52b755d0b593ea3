"""The end of a script under plain Python: warnings of programs that never ran, and short errors.

A graph is in ``begun`` from its first operator on, and is used when it is executed, compiled or explained.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections import deque
from functools import cache
from types import TracebackType
from typing import Protocol
from weakref import WeakSet

from funken.errors import FunkenError
from funken.plan.advice import advise


class Program(Protocol):
    """A program that was built, or a result: a graph of streams, a batch program, a query, its rows."""

    unused: bool

    def _complaint(self) -> str:
        """Return the fact and the remedy, as the end of a sentence; ``""`` if there is nothing to use."""
        ...


class Started(Protocol):
    """A job that runs while the script goes on."""

    def _complaint(self) -> str:
        """Return the fact and the remedy if it has not ended, as the end of a sentence."""
        ...


started: WeakSet[Started] = WeakSet()
"""The jobs that the script need not wait for."""
begun: WeakSet[Program] = WeakSet()
"""The graphs that are alive and had an operator."""
lost: deque[str] = deque(maxlen=20)
"""The complaints of unused programs that are gone."""
_SHOWN = 4


def take_warnings(script: str) -> list[str]:
    """Return a warning per program that was built and never used; it is returned once.

    >>> from funken import StreamExecutionEnvironment
    >>> _ = take_warnings("")
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> _ = env.from_collection([1]).map(str)
    >>> for warning in take_warnings("job.py"):
    ...     print(warning)
    Warning: job.py built a program that never ran: collection -> map. Nothing runs before execute(): call env.execute() at the
    end, or execute_and_collect() on the stream whose records are wanted.
    """
    complaints = [*lost, *(program._complaint() for program in begun if program.unused)]
    lost.clear()
    for program in begun:
        program.unused = False
    return [f"Warning: {script} {complaint}" for complaint in complaints if complaint]


def elsewhere() -> str:
    """Return a sentence on a program that waits in another environment; ``""`` if there is none."""
    places = [str(getattr(program, "place", "")) for program in begun if program.unused]
    return next(
        (f" The operators of {place} are in another environment: call its execute()." for place in places if place), ""
    )


def never_ran(names: list[str], remedy: str) -> str:
    """Return the complaint of operators; ``remedy`` is the call that returns records.

    >>> never_ran([], "collect()"), never_ran(["collection"], "collect()")[:46]
    ('', 'built a program that never ran: collection. No')
    """
    shown = " -> ".join(names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")
    fact = f"built a program that never ran: {shown}. Nothing runs before execute(): call env.execute() at the end, or"
    return f"{fact} {remedy} whose records are wanted." if names else ""


@cache
def warn_at_exit() -> None:
    """Write the warnings to stderr when a script ends, unless it failed, and show Funken's errors without Funken's frames.

    Done once per process. The command line shows errors itself; a hook of the program stays.
    """
    main = sys.modules.get("__main__")
    script = getattr(main, "__file__", None)  # Python removes it before the script has ended
    if script is not None and getattr(main, "__package__", None) != "unittest" and not sys.flags.interactive:
        atexit.register(_at_exit, os.path.basename(script), os.getpid())
        if sys.excepthook is sys.__excepthook__ and "funken.cli.script" not in sys.modules:
            sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    if isinstance(error, FunkenError):
        sys.stderr.write("\n".join(error._render_traceback_()) + "\n")
    else:
        advise(error)
        sys.__excepthook__(kind, error, error.__traceback__)


def _at_exit(script: str, pid: int) -> None:
    failed = getattr(sys, "last_value", None) is not None
    if failed or "pytest" in sys.modules or pid != os.getpid():
        return
    running = [complaint for job in started if (complaint := job._complaint())]
    for warning in [*take_warnings(script), *(f"Warning: {script} {complaint}" for complaint in running)]:
        sys.stderr.write(f"{warning}\n")
