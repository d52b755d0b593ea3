"""Runs a wrong program as a script ``job.py``, and returns all that its author is told."""

import linecache
import logging
import traceback
import warnings
from typing import Any

from funken.errors import FunkenError
from funken.plan import unexecuted
from funken.plan.advice import advise

FILE = "job.py"


def said(program: str, caplog: Any, **names: Any) -> str:
    """Return the warnings and the error of a program, those that it gets at its end included."""
    linecache.cache[FILE] = (len(program), None, program.splitlines(keepends=True), FILE)
    try:
        return _said(program, caplog, names)
    finally:
        linecache.cache.pop(FILE, None)  # else the lines stand for every other "job.py" of this process


def _said(program: str, caplog: Any, names: dict[str, Any]) -> str:
    unexecuted.take_warnings(FILE)
    caplog.set_level(logging.WARNING)
    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(program, FILE, "exec"), {"__name__": "__job__", "__file__": FILE, **names})
        except FunkenError as error:
            told.append("\n".join(error._render_traceback_()))
        except (TypeError, ValueError, AttributeError) as error:
            advise(error)
            told += traceback.format_exception(error)
    told += [f"{warning.filename}, line {warning.lineno}: {warning.message}" for warning in caught]
    return "\n".join([*told, *(record.getMessage() for record in caplog.records), *unexecuted.take_warnings(FILE)])
