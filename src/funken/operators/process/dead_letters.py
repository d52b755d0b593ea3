"""What becomes of a record whose function raises: the job fails, or the record is skipped, or it goes to a side output.

A policy covers the call of the user's function with one record, and the results that it gives; not timers, not keys, and not
errors of Funken itself (``FunkenError``), which are mistakes of the program. State that the function changed before it raised
stays changed. Who sets no policy pays nothing; who does pays for a ``try`` per record, and for an operator that is neither
vectorized nor fused.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any

from funken.dataclass import dataclass
from funken.errors import FunkenError, InvalidProgram
from funken.ids import MIN_TIMESTAMP
from funken.operators.context import OperatorContext
from funken.operators.tags import OutputTag

FAILED_RECORDS = "numRecordsFailed"
"""The metric that counts records that were skipped because the function raised."""
DEAD_LETTERS = "numDeadLetters"
"""The metric that counts those that went to a side output instead."""


@dataclass(frozen=True)
class DeadLetter:
    """A record whose function raised, as ``on_error(tag)`` sends it to a side output.

    ``record`` is as the function left it, ``timestamp`` its event time (ms) or ``None``; ``traceback`` begins in the function.

    >>> from funken.testing import local
    >>> dead = OutputTag("dead")
    >>> numbers = local(["7", "seven"]).map(int).name("parse").on_error(dead)
    >>> letter, = numbers.get_side_output(dead).execute_and_collect(limit=1)
    >>> letter.record, letter.operator, letter.error, letter.message
    ('seven', 'parse', 'ValueError', "invalid literal for int() with base 10: 'seven'")
    """

    record: Any
    timestamp: int | None
    operator: str
    subtask: int
    error: str
    message: str
    traceback: str


@dataclass(frozen=True)
class ErrorPolicy:
    """What to do with a record whose function raises; ``side_output`` is a tag's id, without one records are skipped.

    >>> ErrorPolicy.of("fail"), ErrorPolicy.of("skip"), ErrorPolicy.of(OutputTag("dead"))
    (ErrorPolicy(fails=True, side_output=None), ErrorPolicy(fails=False, side_output=None), ErrorPolicy(fails=False, ...
    """

    fails: bool = False
    side_output: str | None = None

    @staticmethod
    def of(action: str | OutputTag[Any]) -> ErrorPolicy:
        """Return the policy that a user names; raises ``InvalidProgram`` for anything else."""
        if isinstance(action, OutputTag):
            return ErrorPolicy(side_output=action.tag_id)
        if action not in ("fail", "skip"):
            raise InvalidProgram(
                f"on_error({action!r}) is unknown: give 'fail', 'skip' or the OutputTag of a side output."
            )
        return ErrorPolicy(fails=action == "fail")


def guarded(call: Callable[[Any, Any], Iterable[Any] | None], context: OperatorContext) -> Callable[[Any, Any], Any]:
    """Return a function of record and context that heeds the operator's policy; ``call`` itself, if failures fail the job."""
    policy = context.on_error
    if policy is None or policy.fails:
        return call
    failed = context.metrics.counter(FAILED_RECORDS if policy.side_output is None else DEAD_LETTERS)
    tag = None if policy.side_output is None else OutputTag[DeadLetter](policy.side_output)

    def process(value: Any, ctx: Any) -> Iterable[Any] | None:
        try:
            made = call(value, ctx)
            # A generator runs here, so that what it raises is caught and nothing of it is emitted.
            return made if made is None or type(made) is tuple else list(made)
        except FunkenError:
            raise
        except Exception as error:  # noqa: BLE001 - the policy is about whatever the user's function raises
            failed.inc()
            return None if tag is None else ((tag, _letter(value, ctx.timestamp(), context, error)),)

    return process


def _letter(record: Any, at: int | None, context: OperatorContext, error: Exception) -> DeadLetter:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("funken.operators."):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    stamp = None if at == MIN_TIMESTAMP else at
    return DeadLetter(record, stamp, context.operator, context.subtask, type(error).__name__, str(error), text)
