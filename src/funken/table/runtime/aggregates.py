"""The aggregate functions of an operator, driven row by row: arguments, FILTER, DISTINCT, accumulators as plain data.

An accumulator of several calls is a list with an entry per call; of a DISTINCT call the entry also has how often each value is
there, and the function sees a value when it comes and when its last copy goes. ``AggregateCalls`` knows no key and no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.errors import InvalidProgram
from funken.operators.context import OperatorContext
from funken.table.logical import AggregateCall
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.exchange import hashable

Tuple = tuple[Any, ...]


def accumulation_of(call: AggregateCall, schema: BlockSchema, context: OperatorContext, retracts: bool = True) -> Any:
    """Return what works on the accumulators of a call; ``retracts``: whether rows are taken back."""
    types = [schema.types[place] for place in call.args]
    if call.definition is not None:
        return call.definition.aggregate(call, types, context)
    from funken.expr.rules import AggregateRule  # noqa: PLC0415
    from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - the whole table, only where SQL runs

    rule = FUNCTIONS.get(call.function)
    if not isinstance(rule, AggregateRule):
        raise InvalidProgram(f"{call.function} is no aggregate function, but it is used as one.")
    return rule.make(types, {**dict(call.options), "retracting": retracts}, call.type)


class _Call:
    """One call: which columns it reads, and its function."""

    __slots__ = ("args", "distinct", "filter", "function")

    def __init__(self, call: AggregateCall, function: Any) -> None:
        self.args, self.filter, self.distinct, self.function = call.args, call.filter, call.distinct, function


class AggregateCalls:
    """The calls of an operator over rows of a schema."""

    def __init__(
        self, calls: Sequence[AggregateCall], schema: BlockSchema, context: OperatorContext, retracts: bool = True
    ) -> None:
        self._calls = [_Call(call, accumulation_of(call, schema, context, retracts)) for call in calls]

    def create(self) -> list[Any]:
        """Return accumulators without rows."""
        return [[{}, call.function.create()] if call.distinct else call.function.create() for call in self._calls]

    def accumulate(self, accumulators: list[Any], row: Tuple) -> None:
        """Add a row."""
        for place, call in enumerate(self._calls):
            if call.filter is not None and row[call.filter] is not True:
                continue
            args = [row[column] for column in call.args]
            if not call.distinct:
                accumulators[place] = call.function.accumulate(accumulators[place], *args)
                continue
            entry = accumulators[place]
            value = hashable(args)
            count = entry[0].get(value, 0) + 1
            if count == 0:
                del entry[0][value]
            else:
                entry[0][value] = count
            if count == 1:
                entry[1] = call.function.accumulate(entry[1], *args)

    def retract(self, accumulators: list[Any], row: Tuple) -> None:
        """Take a row back."""
        for place, call in enumerate(self._calls):
            if call.filter is not None and row[call.filter] is not True:
                continue
            args = [row[column] for column in call.args]
            if not call.distinct:
                accumulators[place] = call.function.retract(accumulators[place], *args)
                continue
            entry = accumulators[place]
            value = hashable(args)
            count = entry[0].get(value, 0) - 1
            if count == 0:
                del entry[0][value]
                entry[1] = call.function.retract(entry[1], *args)
            else:
                entry[0][value] = count

    def merge(self, accumulators: list[Any], others: list[Any]) -> None:
        """Add the rows of other accumulators, which are not used any more."""
        for place, call in enumerate(self._calls):
            if not call.distinct:
                accumulators[place] = call.function.merge(accumulators[place], others[place])
                continue
            entry = accumulators[place]
            for value, count in others[place][0].items():
                before = entry[0].get(value, 0)
                entry[0][value] = before + count
                if not before:
                    entry[1] = call.function.accumulate(entry[1], *value)

    def values(self, accumulators: list[Any]) -> Tuple:
        """Return the results."""
        return tuple(
            call.function.value(entry[1] if call.distinct else entry)
            for call, entry in zip(self._calls, accumulators, strict=True)
        )

    def close(self) -> None:
        """Close functions of the program."""
        for call in self._calls:
            close = getattr(call.function, "close", None)
            if close is not None:
                close()


__all__ = ["AggregateCalls", "accumulation_of"]
