"""SQL expressions over the rows of a match, as Python functions: what DEFINE and MEASURES hold.

An expression is compiled once, to a function of ``MatchedRows``. NULL is ``None``, and truth has three values. The rows of a
column are those of its variable, or, without one, all; where one is meant, the last, which in DEFINE is the row in question.
What is not supported is refused when it is compiled, with the clause in which it stands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlglot import expressions as sql

from funken.cep.row_nfa import NO_ROW, Fact, MatchedRows
from funken.errors import InvalidProgram

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
_FACTS: dict[type, tuple[str, ...]] = {
    sql.Sum: ("sum", "values"), sql.Avg: ("sum", "values"), sql.Min: ("min",), sql.Max: ("max",),
}  # fmt: skip


class Compiler:
    """Compiles the expressions of a clause.

    ``own`` is the variable that is being defined, if any: its last row is the one that the pattern may take. ``functions`` may be
    called by their names.
    """

    def __init__(
        self,
        clause: str,
        variables: Sequence[str],
        column: ColumnGetter,
        own: str = "",
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._functions = functions or {}
        self._clause = clause
        self._variables = variables
        self._get = column
        self._own = own
        #: whether more is needed than the last row of ``own`` and the rows before it in the partition
        self.looks_back = False
        #: what is asked of the rows of variables
        self.facts: set[Fact] = set()
        #: how many rows PREV goes back at most
        self.before = 0
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
            return self._aggregate(kind, given.this)
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
        variable = given.table
        if variable and variable not in self._variables:
            raise InvalidProgram(
                f"MATCH_RECOGNIZE, {self._clause}: {given.sql()!r} is of no variable of PATTERN: "
                f"{', '.join(self._variables)}."
            )
        if not isinstance(given.this, sql.Star):
            self._get.check(given.name, self._clause)
        return variable, given.name

    def _pick(self, given: Any, offset: int, last: bool, back: int = 0) -> Compiled:
        """Return a column of one row: of the first or last of its variable, or ``offset`` from there, or ``back`` before it."""
        (variable, name), get = self._column(given), self._get
        if self._own and variable in {"", self._own} and last and not offset:
            if back:
                return lambda rows: _column_of(get, rows.at(len(rows.rows) - 1 - back), name)
            return lambda rows: get(rows.last(""), name)
        self._ask(Fact("last" if last else "first", variable, offset + 1))
        if last and not back:
            return lambda rows: _column_of(get, rows.last(variable, offset), name)

        def pick(rows: MatchedRows) -> Any:
            places = rows.places(variable)
            if len(places) <= offset:
                return None
            return _column_of(get, rows.at(places[-1 - offset if last else offset] - back), name)

        return pick

    def _ask(self, fact: Fact) -> None:
        self.looks_back = True
        if fact.variable:  # all threads have the same rows
            self.facts.add(fact)

    def _navigated(self, given: Any, last: bool, back: int = 0) -> Compiled:
        return self._pick(given.this, self._number(given.args.get("expression"), 0), last, back)

    def _number(self, given: Any, default: int) -> int:
        if given is None:
            return default
        if not isinstance(given, sql.Literal) or given.is_string or not given.this.isdigit():
            raise self._refused(given)
        return int(given.this)

    def _aggregate(self, kind: type, given: Any) -> Compiled:
        (variable, name), get, function = self._column(given), self._get, _AGGREGATES[kind]
        for fact in _FACTS[kind]:
            self._ask(Fact(fact, variable, column=name))

        def aggregate(rows: MatchedRows) -> Any:
            found = [get(rows.rows[place], name) for place in rows.places(variable)]
            found = [value for value in found if value is not None]
            return function(found) if found else None

        return aggregate

    def _count(self, given: Any) -> Compiled:
        self.looks_back = True
        if isinstance(given.this, sql.Star):
            return lambda rows: len(rows.rows)
        variable, name = self._column(given.this)
        star = isinstance(given.this.this, sql.Star)
        self._ask(Fact("rows", variable) if star else Fact("values", variable, column=name))
        if star:
            return lambda rows: len(rows.places(variable))
        get = self._get
        return lambda rows: sum(get(rows.rows[place], name) is not None for place in rows.places(variable))

    def _named(self, given: Any) -> Compiled:
        name = given.name.upper()
        if given.name in self._functions:
            function, operands = self._functions[given.name], [self.compile(each) for each in given.expressions]
            return lambda rows: function(*[operand(rows) for operand in operands])
        if name == "MATCH_ROWTIME" and not self._own:
            return lambda rows: rows.timestamp
        if name == "CLASSIFIER" and not given.expressions:
            if self._own:
                return _constant(self._own)
            return lambda rows: rows.names[-1]
        if name == "PREV" and given.expressions:
            return self._previous(*given.expressions)
        if name == "NEXT":
            raise InvalidProgram(
                f"MATCH_RECOGNIZE, {self._clause}: {given.sql()!r} looks at a row that has not come yet. Name that row with a "
                "variable of its own."
            )
        raise self._refused(given)

    def _previous(self, given: Any, offset: Any = None, *rest: Any) -> Compiled:
        """PREV(column), PREV(column, n), PREV(FIRST(column), n) or of LAST: the row that many before in the partition."""
        back = self._number(offset, 1)
        if rest:
            raise self._refused(rest[0])
        self.before = max(self.before, back)
        if isinstance(given, sql.First | sql.Last):
            return self._navigated(given, isinstance(given, sql.Last), back)
        return self._pick(given, 0, True, back)

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


def _column_of(get: ColumnGetter, row: Any, name: str) -> Any:
    return None if row is NO_ROW else get(row, name)


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
