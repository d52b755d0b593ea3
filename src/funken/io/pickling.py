"""Pickling of what belongs to users: records, state, programs. The only place that chooses between pickle and cloudpickle.

``dumps`` is for data: pickle where it can, which is fast, and cloudpickle for instances of local classes. ``dumps_by_value``
is for programs: functions and classes of ``__main__`` travel as they are, Spark's broadcast variables as their value. Both take a
function that makes the error, so that it names the operator, the record and the remedy; whatever a user's ``__reduce__`` raises
is its cause.

Code keeps the name of its file. cloudpickle replaces it with ``<dynamic-code>`` since 3.1.3; tracebacks would lose the
lines of the user's source, and nothing could read a function's source to run it on columns.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

from funken.errors import RecordNotPicklable

PROTOCOL = 5


def _code_of_file(name: str, make: Callable[..., CodeType], *parts: Any) -> CodeType:
    return make(*parts).replace(co_filename=name)


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _code_of_file, (code.co_filename, make, *parts)


class BroadcastValue:
    """What a broadcast variable of Spark is in a function that has travelled: ``value`` is the same."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _reduce_broadcast(variable: Any) -> tuple[Any, ...]:
    return BroadcastValue, (variable.value,)


def _refuse_accumulator(variable: Any) -> tuple[Any, ...]:
    raise TypeError(
        "an accumulator of Spark counts in Spark's own jobs only. Count with a metric, "
        "runtime_context.get_metrics_group().counter(name) in open() of the function, or emit what is to be counted"
    )


_REDUCE: dict[type, Callable[[Any], Any]] = {CodeType: _reduce_code}
_BROADCAST, _ACCUMULATORS = "pyspark.core.broadcast", "pyspark.accumulators"


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar = ChainMap(_REDUCE, cloudpickle.Pickler.dispatch_table)


def _by_value(content: Any) -> bytes:
    if _BROADCAST in sys.modules:  # Spark gives its workers the value, and only with functions that it pickles itself
        _REDUCE[sys.modules[_BROADCAST].Broadcast] = _reduce_broadcast
    if _ACCUMULATORS in sys.modules:  # a copy in a worker would count, and nobody would see it
        _REDUCE[sys.modules[_ACCUMULATORS].Accumulator] = _refuse_accumulator
    file = io.BytesIO()
    _ByValue(file, PROTOCOL).dump(content)
    return file.getvalue()


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
        return _by_value(content)
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
            _by_value(value)
        except Exception as error:  # noqa: BLE001 - whatever a user's __reduce__ raises
            return number, value, error
    return None


def dumps_records(values: list[Any], operator: str, subtask: int) -> bytes:
    """Pickle records that an operator emits; raises ``RecordNotPicklable``."""
    return dumps(values, record_not_picklable, values, operator, subtask)


def record_repr(record: Any) -> str:
    """Return a record as an error message shows it: not too long, and whatever its ``__repr__`` does."""
    try:
        text = repr(record)
    except Exception as error:  # noqa: BLE001 - another error is reported
        return f"<{type(record).__qualname__} whose __repr__ raises {type(error).__name__}>"
    return text if len(text) <= 200 else text[:197] + "..."


def record_not_picklable(error: Exception, values: list[Any], operator: str, subtask: int) -> RecordNotPicklable:
    """Return the error that names the record."""
    found = first_unpicklable(values)
    culprit = found[1] if found else None
    return RecordNotPicklable(
        f"operator {operator!r} (subtask {subtask}) emitted a record of type {type(culprit).__qualname__!r} that cannot "
        f"be sent to another task: {type(error).__name__}: {error}. The record: {record_repr(culprit)}. Emit plain data, and "
        "open files, locks and connections in open() of the function that uses them.",
        operator,
        subtask,
    )
