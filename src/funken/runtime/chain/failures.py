"""Failure attribution: operator, subtask and record of an exception, read from the frames it passed through.

Nothing of this costs anything until something is raised. Operators take part by the names of their locals: ``value`` is
the record at hand, and ``rest`` the iterator of a comprehension over a block, which from Python 3.12 on has no frame
of its own, and takes its variable with it when something is raised.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from funken.checkpoint.restart import fault_of
from funken.errors import FunkenError, JobExecutionError, OperatorFailed, TaskLost
from funken.io.pickling import record_repr
from funken.operators.base import Operator
from funken.operators.codegen.loops import add_frames, step_at
from funken.runtime.chain.fused import FusedOperators
from funken.runtime.messages import TaskFailed, TaskId

_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_LIST_ITERATOR: type = type(iter([]))


class FailureAttribution:
    """Turns an exception of user code into ``OperatorFailed``; no cost per record."""

    __slots__ = ("_subtask",)

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self.attribute(error)

    def attribute(self, error: BaseException) -> None:
        """Raise ``OperatorFailed`` from an error of user code, or return: the error is to be raised as it is."""
        if is_failure(error) and not isinstance(error, JobExecutionError):
            raise attribute_failure(error, self._subtask) from error


def is_failure(error: BaseException) -> bool:
    """Return True if user code has failed; else the error ends the job or a generator, and is to be raised as it is.

    Ctrl-C does, and an interruption. ``GeneratorExit`` is what closes a generator of the engine, or what a function has raised.
    """
    if not isinstance(error, GeneratorExit):
        return not isinstance(error, KeyboardInterrupt)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def attribute_failure(error: BaseException, subtask: int) -> JobExecutionError:
    """Find in which operator, and at which record, an exception was raised, from the frames it passed through."""
    operator, record, found = None, "", error.__traceback__
    while found is not None:
        frame = found.tb_frame
        owner = frame.f_locals.get("self")
        if isinstance(owner, FusedOperators):
            owner = owner.last
        if isinstance(owner, Operator) and hasattr(owner, "context"):
            operator = owner.context.operator
            record = ""
        step = step_at(found)
        if step is not None:
            operator = step.operator.context.operator
            record = f" at the record {record_repr(step.values(frame.f_locals)[-1])}"
        if operator is not None and not record and _is_ours(frame.f_code.co_filename):
            record = "".join(f" at the record {record_repr(value)}" for value in _current_record(frame.f_locals))
        found = found.tb_next
    add_frames(error)
    text = "".join(traceback.format_exception(error))
    where = f"operator {operator!r} (subtask {subtask})" if operator else f"subtask {subtask}"
    remedy = "" if isinstance(error, FunkenError) else " The traceback of the function follows."
    said = f"{type(error).__name__}: {_text(error).removesuffix('.')}"
    failure = OperatorFailed(f"{where} failed{record}: {said}.{remedy}", operator, subtask, text)
    failure.fault = fault_of(error)
    return failure


def _current_record(names: Mapping[str, Any]) -> list[Any]:
    """Return the record that a frame is processing, if that can be read."""
    if "value" in names:
        return [names["value"]]
    rest = names.get("rest")
    if isinstance(rest, _LIST_ITERATOR):
        match rest.__reduce__():  # its position; an exhausted iterator has none
            case (_, (list(values),), int(position)) if position:
                return [values[position - 1]]
    return []


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as other:  # noqa: BLE001 - the error to report is the first one
        return f"<its text raises {type(other).__name__}>"


def _is_ours(filename: str) -> bool:
    return "funken" in filename and "operators" in filename


def failure_event(task: TaskId, error: BaseException) -> TaskFailed:
    """Make the report of a failure; an error that cannot travel is replaced by its text."""
    if not isinstance(error, JobExecutionError):
        error = attribute_failure(error, task.subtask)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever the user's class raises when it is pickled
        fault = error.fault
        error = JobExecutionError(str(error))
        error.fault = fault
    return TaskFailed(task, error=error, secondary=isinstance(error, TaskLost))
