"""Pickling of what belongs to users: records, state, programs. The only place that chooses between pickle and cloudpickle.

``dumps`` is for data: pickle where it can, which is fast, and cloudpickle for instances of local classes. ``dumps_by_value``
is for programs: functions and classes of ``__main__`` travel as they are. Both take a function that makes the error, so
that it names the operator, the record and the remedy; whatever a user's ``__reduce__`` raises is its cause.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import cloudpickle

PROTOCOL = 5


def dumps(content: Any, failure: Callable[..., Exception], *details: Any) -> bytes:
    """Pickle data; raise ``failure(error, *details)`` if that is impossible.

    >>> import threading
    >>> dumps([1, 2], lambda error, what: ValueError(f"{what}: {error}"), "numbers") == pickle.dumps([1, 2], PROTOCOL)
    True
    >>> dumps(threading.Lock(), lambda error, what: ValueError(f"{what}: {error}"), "a lock")
    Traceback (most recent call last):
    ...
    ValueError: a lock: cannot pickle '_thread.lock' object
    """
    try:
        return pickle.dumps(content, PROTOCOL)
    except Exception:  # noqa: BLE001 - whatever a user's __reduce__ raises; the retry reports it
        return dumps_by_value(content, failure, *details)


def dumps_by_value(content: Any, failure: Callable[..., Exception], *details: Any) -> bytes:
    """Pickle functions and classes that cannot be imported, too; raise ``failure(error, *details)`` if that is impossible."""
    try:
        return bytes(cloudpickle.dumps(content, PROTOCOL))
    except Exception as error:
        explained = failure(error, *details)
        if explained is error:
            raise
        raise explained from error


def first_unpicklable(values: Iterable[Any]) -> tuple[int, Any, Exception] | None:
    """Return the number of the first value that cannot be pickled, the value, and why; ``None`` if all can.

    >>> number, value, error = first_unpicklable([1, open, iter(())  , (i for i in ())])
    >>> number, type(error).__name__
    (3, 'TypeError')
    """
    for number, value in enumerate(values):
        try:
            cloudpickle.dumps(value, PROTOCOL)
        except Exception as error:  # noqa: BLE001 - whatever a user's __reduce__ raises
            return number, value, error
    return None
