"""Faults of Funken's own in what only makes a program faster: the function runs record by record, and the log says so once.

Reading a function and computing on columns change no result, so an error in them must not fail a program. Whatever they raise
besides a refusal (``NotVectorizable``, ``FallBackToRows``) is a fault: of reading, it becomes a refusal; of a kernel, it becomes
a fall back to rows, and the function is not tried again. Under ``FUNKEN_RAISE_FAULTS``,
which Funken's own tests set, faults are raised.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from funken.columnar.expressions import NotVectorizable

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LOG = logging.getLogger("funken.columns")
_RAISES = "FUNKEN_RAISE_FAULTS"
_said: set[str] = set()


def reads(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate what reads a function of a program: its faults are refusals.

    >>> import os
    >>> @reads
    ... def read(function):
    ...     return function[1]
    >>> before = os.environ.pop("FUNKEN_RAISE_FAULTS", None)
    >>> read(len)
    Traceback (most recent call last):
        ...
    funken.columnar.expressions.NotVectorizable: could not be read (internal: TypeError: 'builtin_function_or_method' ...)
    >>> os.environ.update({} if before is None else {"FUNKEN_RAISE_FAULTS": before})
    """

    @wraps(function)
    def guarded(*arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            return function(*arguments, **named)
        except NotVectorizable:
            raise
        except RecursionError:
            raise NotVectorizable("is nested too deep") from None
        except Exception as error:  # noqa: BLE001 - all but refusals are faults
            raise NotVectorizable(f"could not be read (internal: {described(error)})") from noted(
                error, _name(arguments)
            )

    return guarded


def noted(error: Exception, what: str) -> Exception:
    """Log a fault, once for each function and place, and return it; in Funken's own tests, raise it."""
    if os.environ.get(_RAISES):
        raise error
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f"{each.filename.rpartition('funken/')[2]}:{each.lineno}" for each in last)
    text = f"{what}{described(error)} ({place})"
    if text not in _said:
        _said.add(text)
        _LOG.warning(
            "%s. This is a defect of Funken: the results are right, but the function runs record by record. Please report it.",
            text,
        )
    return error


def described(error: Exception) -> str:
    """Return an error as one line."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an error whose text raises one
        said = ""
    return f"{type(error).__name__}{': ' * bool(said)}{said[:200]}"


def _name(arguments: Any) -> str:
    for each in arguments:
        name = getattr(each, "__qualname__", None) or getattr(each, "name", None)
        if isinstance(name, str):
            return f"{name!r} could not be read: "
    return "A function could not be read: "


__all__ = ["described", "noted", "reads"]
