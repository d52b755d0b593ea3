"""SQL expressions over the rows of a match, as Python functions: what DEFINE and MEASURES hold.

An expression is compiled once, to a function of ``MatchedRows``, the rows of each pattern variable. NULL is ``None``, and
truth has three values. What is not supported is refused when it is compiled, with the clause in which it stands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sqlglot import expressions as sql

from funken.errors import InvalidProgram


class MatchedRows(Protocol):
    """The rows that the pattern variables have taken, and the time of the match."""

    @property
    def timestamp(self) -> int:
        """The time of the match."""
        ...

    def of(self, variable: str) -> Sequence[Any]:
        """Return the rows of a variable, or (the empty name) all, in the order in which they were taken."""
        ...


Compiled = Callable[[MatchedRows], Any]


class ColumnGetter(Protocol):
    """Returns columns of rows."""

    def check(self, name: str, clause: str) -> str:
        """Raise if it is known that there is no such column."""
        ...

    def __call__(self, row: Any, name: str) -> Any:
        """Return a column of a row."""
        ...


def _quotient(a: Any, b: Any) -> Any:
    """Divide; whole numbers towards zero, as SQL does."""
    if not (isinstance(a, int) and isinstance(b, int)):
        return a / b
    whole = abs(a) // abs(b)
    return whole if (a < 0) == (b < 0) else -whole


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    sql.Add: operator.add, sql.Sub: operator.sub, sql.Mul: operator.mul, sql.Div: _quotient,
    sql.Mod: lambda a, b: a - b * _quotient(a, b), sql.DPipe: lambda a, b: f"{a}{b}",
    sql.EQ: operator.eq, sql.NEQ: operator.ne, sql.LT: operator.lt, sql.LTE: operator.le, sql.GT: operator.gt,
    sql.GTE: operator.ge,
}  # fmt: skip
_UNARY: dict[type, Callable[[Any], Any]] = {
    sql.Neg: operator.neg, sql.Not: operator.not_, sql.Abs: abs, sql.Upper: str.upper, sql.Lower: str.lower,
    sql.Length: len,
}  # fmt: skip
_AGGREGATES: dict[type, Callable[[list[Any]], Any]] = {
    sql.Sum: sum, sql.Avg: lambda found: sum(found) / len(found), sql.Min: min, sql.Max: max,
}  # fmt: skip


class Compiler:
    """Compiles the expressions of a clause.

    ``own`` is the variable that is being defined, if any: its last row is the
    one that the pattern may take.
    """

    def __init__(self, clause: str, variables: Sequence[str], column: ColumnGetter, own: str = "") -> None:
        self._clause = clause
        self._variables = variables
        self._get = column
        self._own = own
        #: whether more than the last row of ``own`` is needed
        self.looks_back = False
        self._kinds: dict[type, Callable[[Any], Compiled]] = {
            sql.Column: lambda given: self._pick(given, 0, last=True),
            sql.First: lambda given: self._navigated(given, last=False),
            sql.Last: lambda given: self._navigated(given, last=True),
            sql.Paren: lambda given: self.compile(given.this),
            sql.Literal: _literal, sql.Boolean: lambda given: _constant(bool(given.this)),
            sql.Null: lambda given: _constant(None),
            sql.And: lambda given: self._logic(given, decisive=False), sql.Or: lambda given: self._logic(given, decisive=True),
            sql.Is: self._is, sql.In: self._in, sql.Between: self._between, sql.Case: self._case,
            sql.Coalesce: self._coalesce, sql.Count: self._count, sql.Anonymous: self._named,
        }  # fmt: skip

    def compile(self, given: Any) -> Compiled:
        """Return an expression as a function."""
        kind = type(given)
        if kind in _BINARY:
            return _strict(_BINARY[kind], self.compile(given.this), self.compile(given.expression))
        if kind in _UNARY:
            return _strict(_UNARY[kind], self.compile(given.this))
        if kind in _AGGREGATES:
            return self._aggregate(_AGGREGATES[kind], given.this)
        if kind not in self._kinds:
            raise self._refused(given)
        return self._kinds[kind](given)

    def _refused(self, given: Any) -> InvalidProgram:
        return InvalidProgram(f"MATCH_RECOGNIZE, {self._clause}: {given.sql()!r} is not supported.")

    # ---- rows

    def _column(self, given: Any) -> tuple[str, str]:
        """Return the variable of a column, and its name."""
        if not isinstance(given, sql.Column):
            raise self._refused(given)
        variable = given.table or self._own
        if variable and variable not in self._variables:
            raise InvalidProgram(
                f"MATCH_RECOGNIZE, {self._clause}: {given.sql()!r} is of no variable of PATTERN: "
                f"{', '.join(self._variables)}."
            )
        if not isinstance(given.this, sql.Star):
            self._get.check(given.name, self._clause)
        return variable, given.name

    def _pick(self, given: Any, offset: int, last: bool) -> Compiled:
        (variable, name), get = self._column(given), self._get
        if variable != self._own or offset or not last:
            self.looks_back = True

        def pick(rows: MatchedRows) -> Any:
            found = rows.of(variable)
            return get(found[-1 - offset if last else offset], name) if len(found) > offset else None

        return pick

    def _navigated(self, given: Any, last: bool) -> Compiled:
        offset = given.args.get("expression") or sql.Literal.number(0)
        if not isinstance(offset, sql.Literal) or offset.is_string:
            raise self._refused(given)
        return self._pick(given.this, int(offset.this), last)

    def _aggregate(self, function: Callable[[list[Any]], Any], given: Any) -> Compiled:
        (variable, name), get = self._column(given), self._get
        self.looks_back = True

        def aggregate(rows: MatchedRows) -> Any:
            found = [value for value in (get(row, name) for row in rows.of(variable)) if value is not None]
            return function(found) if found else None

        return aggregate

    def _count(self, given: Any) -> Compiled:
        self.looks_back = True
        if isinstance(given.this, sql.Star):
            own = self._own
            return lambda rows: len(rows.of(own))
        variable, name = self._column(given.this)
        if isinstance(given.this.this, sql.Star):
            return lambda rows: len(rows.of(variable))
        get = self._get
        return lambda rows: sum(get(row, name) is not None for row in rows.of(variable))

    def _named(self, given: Any) -> Compiled:
        if given.name.upper() != "MATCH_ROWTIME" or self._own:
            raise self._refused(given)
        return lambda rows: rows.timestamp

    # ---- logic

    def _logic(self, given: Any, decisive: bool) -> Compiled:
        left, right = self.compile(given.this), self.compile(given.expression)

        def logic(rows: MatchedRows) -> Any:
            one = left(rows)
            if one is decisive:
                return decisive
            other = right(rows)
            if other is decisive:
                return decisive
            return None if one is None or other is None else not decisive

        return logic

    def _is(self, given: Any) -> Compiled:
        value, wanted = self.compile(given.this), given.expression
        if isinstance(wanted, sql.Null):
            return lambda rows: value(rows) is None
        if isinstance(wanted, sql.Boolean):
            known = bool(wanted.this)
            return lambda rows: value(rows) is known
        raise self._refused(given)

    def _in(self, given: Any) -> Compiled:
        if not given.expressions:
            raise self._refused(given)
        value, options = self.compile(given.this), [self.compile(each) for each in given.expressions]

        def is_in(rows: MatchedRows) -> Any:
            found, values = value(rows), [each(rows) for each in options]
            if found is None:
                return None
            return True if found in [each for each in values if each is not None] else None if None in values else False

        return is_in

    def _between(self, given: Any) -> Compiled:
        low, high = given.args["low"], given.args["high"]
        return self.compile(
            sql.and_(sql.GTE(this=given.this, expression=low), sql.LTE(this=given.this, expression=high))
        )

    def _case(self, given: Any) -> Compiled:
        if given.this is not None:
            raise self._refused(given)
        branches = [(self.compile(each.this), self.compile(each.args["true"])) for each in given.args["ifs"]]
        default = given.args.get("default")
        otherwise = self.compile(default) if default is not None else _constant(None)
        return lambda rows: next((then for when, then in branches if when(rows) is True), otherwise)(rows)

    def _coalesce(self, given: Any) -> Compiled:
        options = [self.compile(each) for each in (given.this, *given.expressions)]
        return lambda rows: next((value for value in (each(rows) for each in options) if value is not None), None)


def _strict(function: Callable[..., Any], *operands: Compiled) -> Compiled:
    """Apply a function to values none of which is NULL; else the result is."""
    if len(operands) == 1:
        (only,) = operands
        return lambda rows: None if (value := only(rows)) is None else function(value)
    left, right = operands

    def apply(rows: MatchedRows) -> Any:
        one, other = left(rows), right(rows)
        return None if one is None or other is None else function(one, other)

    return apply


def _constant(value: Any) -> Compiled:
    return lambda rows: value


def _literal(given: Any) -> Compiled:
    if given.is_string:
        return _constant(given.this)
    return _constant(float(given.this) if any(mark in given.this for mark in ".eE") else int(given.this))
