"""Who is shown every job of this process, whatever starts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from funken.errors import JobCancelled

if TYPE_CHECKING:
    from funken.api.jobs.client import JobClient

Watcher = Callable[["JobClient"], AbstractContextManager[object]]
"""Called with each job; what it returns is entered before anything runs, and left when all is over, with the error."""

_watchers: list[Watcher] = []


class NotToRun(BaseException):
    """What a watcher raises to keep a job from running, and to end the script that began it: ``execute_async`` raises it, too."""


@contextmanager
def watch_jobs(watcher: Watcher) -> Iterator[None]:
    """Show ``watcher`` every job that starts while the ``with`` block lasts, in the thread that runs the job.

    A watcher that raises keeps its job from running; the job then fails with what it raised.

    >>> from funken.testing import local
    >>> @contextmanager
    ... def tell(client):
    ...     print("begins:", client.plan.name)
    ...     yield
    ...     print("is over")
    >>> numbers = local([1])
    >>> _ = numbers.print()
    >>> with watch_jobs(tell):
    ...     _ = numbers.get_execution_environment().execute("one record")
    begins: one record
    1
    is over
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def watchers() -> tuple[Watcher, ...]:
    """Return those who are shown the jobs that begin now."""
    return tuple(_watchers)


@contextmanager
def ending() -> Iterator[list[str]]:
    """Give a list whose only word says how the ``with`` block has ended: finished, cancelled, failed, or stopped.

    >>> with ending() as how:
    ...     pass
    >>> how
    ['finished']
    """
    how = ["stopped"]
    try:
        yield how
        how[0] = "finished"
    except JobCancelled:
        how[0] = "cancelled"
        raise
    except Exception:
        how[0] = "failed"
        raise
