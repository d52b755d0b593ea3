"""SQL's MATCH_RECOGNIZE: the clause becomes a pattern, as in Flink, and its MEASURES the records of the result.

Variables follow one another as with ``next``; a quantifier is consecutive, and greedy unless a ``?`` follows it. DEFINE becomes
conditions: one that looks at the row alone is evaluated once per row. sqlglot parses the SQL; it comes with the extra ``cep``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from funken import DataStream, InvalidProgram, Row
from funken.cep.entry import CEP
from funken.cep.functions import PatternContext, PatternProcessFunction
from funken.cep.nfa import Match
from funken.cep.pattern import Pattern
from funken.cep.skip import AfterMatchSkipStrategy
from funken.cep.sql.row_patterns import Element, parse

if TYPE_CHECKING:
    from funken.cep.sql.expressions import Compiled

_WITHIN = re.compile(r"\)\s*WITHIN\s+INTERVAL\s+'(\d+)'\s+([A-Za-z]+?)S?\b", re.IGNORECASE)
_UNITS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


def match_recognize(query: str, stream: DataStream, columns: Sequence[str] | None = None) -> DataStream:
    """Return the matches of a MATCH_RECOGNIZE clause in a stream, as ``Row``s of the partition's columns and the measures.

    ``query`` is the clause, alone or behind ``SELECT * FROM name``. Records are mappings, ``Row``s or objects with attributes; or
    tuples, with ``columns`` to name their items. The first column of ORDER BY stands for the time of the stream, which has
    its timestamps and watermarks already; ``PROCTIME()`` for processing time.

    >>> from funken import WatermarkStrategy
    >>> from funken.testing import local
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda tick, _: tick[1])
    >>> ticks = local([("ACME", 1, 12), ("ACME", 2, 17), ("ACME", 3, 13), ("ACME", 4, 11), ("ACME", 5, 20)])
    >>> found = match_recognize('''
    ...     MATCH_RECOGNIZE (
    ...         PARTITION BY symbol ORDER BY time
    ...         MEASURES FIRST(DOWN.price) AS top, LAST(DOWN.price) AS bottom, UP.time AS since
    ...         PATTERN (HIGH DOWN+ UP)
    ...         DEFINE DOWN AS DOWN.price < COALESCE(LAST(DOWN.price, 1), HIGH.price),
    ...                UP AS UP.price > LAST(DOWN.price)
    ...     )''', ticks.assign_timestamps_and_watermarks(by_time), columns=["symbol", "time", "price"])
    >>> found.execute_and_collect(limit=9)
    [Row(symbol='ACME', top=13, bottom=11, since=5)]
    """
    clause = _Clause(query, _Columns(columns))
    keyed = stream.key_by(_Key(clause.partition, clause.column)) if clause.partition else stream
    found = CEP.pattern(keyed, clause.pattern(), clause.comparator)
    if clause.processing_time:
        found = found.in_processing_time()
    return found.process(clause.measures()).name("match_recognize")


class _Columns:
    """Returns columns of records."""

    def __init__(self, names: Sequence[str] | None) -> None:
        self.positions = None if names is None else {name: position for position, name in enumerate(names)}

    def check(self, name: str, clause: str) -> str:
        """Raise if it is known that there is no such column."""
        if self.positions is not None and name not in self.positions:
            raise InvalidProgram(
                f"MATCH_RECOGNIZE, {clause}: there is no column {name!r} among {', '.join(self.positions)}."
            )
        return name

    def __call__(self, row: Any, name: str) -> Any:
        try:
            if self.positions is not None:
                return row[self.positions[name]]
            return row[name] if hasattr(row, "keys") or isinstance(row, Row) else getattr(row, name)
        except (KeyError, AttributeError) as error:
            raise InvalidProgram(
                f"MATCH_RECOGNIZE: a record has no column {name!r}: {row!r:.200}. Name the columns of tuples with columns=[...]."
            ) from error


class _Key:
    def __init__(self, names: Sequence[str], column: _Columns) -> None:
        self.names = names
        self.column = column

    def __call__(self, row: Any) -> Any:
        if len(self.names) == 1:
            return self.column(row, self.names[0])
        return tuple(self.column(row, name) for name in self.names)


@dataclass(frozen=True)
class _Taken:
    """The rows of variables, from those of the elements; of alternatives, each row is of the first variable that it fits."""

    elements: Sequence[Element]
    tests: dict[str, Callable[[Any], bool]]
    rows: Callable[[str], Sequence[Any]]
    own: str = ""
    row: Any = None
    timestamp: int = 0

    def of(self, variable: str) -> Sequence[Any]:
        """Return the rows of a variable, or all."""
        if not variable:
            return [row for element in self.elements for row in self.rows(element.name)]
        element = next(each for each in self.elements if variable in each.variables)
        found = self.rows(element.name)
        if len(element.variables) > 1:
            found = [row for row in found if self.variable_of(row, element) == variable]
        return [*found, self.row] if variable == self.own else found

    def variable_of(self, row: Any, element: Element) -> str:
        """Return the variable that takes a row."""
        return next(each for each in element.variables if each not in self.tests or self.tests[each](row))


class _Measures(PatternProcessFunction):
    """Emits a row per match."""

    def __init__(self, clause: _Clause, measures: list[tuple[str, Compiled]]) -> None:
        self.elements, self.tests = clause.elements, clause.tests
        self.partition, self.column, self.compiled = clause.partition, clause.column, measures

    def process_match(self, match: Match, ctx: PatternContext) -> Iterable[Any]:
        """Emit the columns of the partition and the measures."""
        taken = _Taken(self.elements, self.tests, lambda name: match.get(name, ()), timestamp=ctx.timestamp())
        row = taken.of("")[0]
        found = {name: self.column(row, name) for name in self.partition}
        found.update((name, compiled(taken)) for name, compiled in self.compiled)
        return (Row(**found),)


class _Clause:
    """What a MATCH_RECOGNIZE clause says."""

    def __init__(self, query: str, column: _Columns) -> None:
        self.column = column
        self.within, parsed = _parsed(query)
        self.parsed: dict[str, Any] = parsed.args
        self.elements = parse(self.parsed["pattern"].name if self.parsed.get("pattern") else "")
        self.variables = [variable for element in self.elements for variable in element.variables]
        self.tests: dict[str, Callable[[Any], bool]] = {}
        self.partition = [self._name(each, "PARTITION BY") for each in self.parsed.get("partition_by") or ()]
        self.processing_time = False
        self.comparator = self._order()
        rows = self.parsed.get("rows")
        if rows and not rows.name.upper().startswith("ONE ROW"):
            raise InvalidProgram(f"MATCH_RECOGNIZE, {rows.name}: only ONE ROW PER MATCH is supported.")
        self._check()

    def _name(self, given: Any, clause: str) -> str:
        from sqlglot import expressions as sql  # noqa: PLC0415 - only programs with SQL need it

        if not isinstance(given, sql.Column):
            raise InvalidProgram(f"MATCH_RECOGNIZE, {clause}: {given.sql()!r} is no column.")
        return self.column.check(given.name, clause)

    def _order(self) -> Any:
        from sqlglot import expressions as sql  # noqa: PLC0415

        order = self.parsed.get("order")
        if not order:
            raise InvalidProgram("MATCH_RECOGNIZE, ORDER BY is missing: name the column of time, in ascending order.")
        first, *others = order.expressions
        if first.args.get("desc"):
            raise InvalidProgram("MATCH_RECOGNIZE, ORDER BY: the first column is time, which only ascends.")
        self.processing_time = isinstance(first.this, sql.Anonymous) and first.this.name.upper() == "PROCTIME"
        if not self.processing_time:
            self._name(first.this, "ORDER BY")
        keys = [(self._name(each.this, "ORDER BY"), -1 if each.args.get("desc") else 1) for each in others]
        return _Order(keys, self.column) if keys else None

    def _check(self) -> None:
        last, shown = self.elements[-1], self.parsed["pattern"].name
        if all(element.least == 0 for element in self.elements):
            raise InvalidProgram(
                f"MATCH_RECOGNIZE, PATTERN ({shown}): it may match no row at all, which is not supported."
            )
        if last.greedy and last.least != last.most:
            raise InvalidProgram(
                f"MATCH_RECOGNIZE, PATTERN ({shown}): the last variable {last.name} is greedy, so no match would ever be "
                "complete. Let another variable follow, or make it reluctant with a '?' behind the quantifier."
            )
        if any((each.least, each.most, each.greedy) == (0, 1, False) for each in self.elements):
            raise InvalidProgram(f"MATCH_RECOGNIZE, PATTERN ({shown}): a reluctant '??' is not supported.")

    # ---- PATTERN, DEFINE, AFTER MATCH

    def pattern(self) -> Pattern:
        """Return the pattern."""
        conditions, found = self._conditions(), None
        for element in self.elements:
            found = Pattern.begin(element.name, self._skip()) if found is None else found.next(element.name)
            if element.name in conditions:
                found = found.where(conditions[element.name])
            found = _quantified(found, element)
        assert found is not None
        return found.within(self.within) if self.within else found

    def _conditions(self) -> dict[str, Any]:
        """Return the condition of each element that has one."""
        from funken.cep.sql.expressions import Compiler  # noqa: PLC0415 - needs sqlglot

        defined: dict[str, tuple[Compiled, bool]] = {}
        for each in self.parsed.get("define") or ():
            name = each.alias
            if name not in self.variables:
                raise InvalidProgram(
                    f"MATCH_RECOGNIZE, DEFINE: {name} is no variable of PATTERN: {', '.join(self.variables)}."
                )
            compiler = Compiler(f"DEFINE {name}", self.variables, self.column, own=name)
            defined[name] = compiler.compile(each.this), compiler.looks_back
        found: dict[str, Any] = {}
        for element in self.elements:
            alternatives = len(element.variables) > 1
            for name in element.variables:
                if alternatives and name in defined and defined[name][1]:
                    raise InvalidProgram(
                        f"MATCH_RECOGNIZE, DEFINE {name}: an alternative may look at its own row only; more is not supported."
                    )
                if name in defined and not defined[name][1]:
                    self.tests[name] = _of_the_row(defined[name][0], self.elements, name)
            if alternatives:
                if all(name in self.tests for name in element.variables):
                    found[element.name] = _any_of([self.tests[name] for name in element.variables])
            elif element.name in self.tests:
                found[element.name] = self.tests[element.name]
            elif element.name in defined:
                found[element.name] = _of_the_match(defined[element.name][0], self.elements, self.tests, element.name)
        return found

    def _skip(self) -> AfterMatchSkipStrategy:
        given = self.parsed["after"].name if self.parsed.get("after") else "AFTER MATCH SKIP PAST LAST ROW"
        words = given.split()[3:]
        kind = " ".join(words).upper()
        if kind == "PAST LAST ROW":
            return AfterMatchSkipStrategy.skip_past_last_event()
        if kind == "TO NEXT ROW":
            return AfterMatchSkipStrategy.skip_to_next()
        target = words[-1]
        if not any(element.variables == (target,) for element in self.elements):
            raise InvalidProgram(
                f"MATCH_RECOGNIZE, {given}: {target} is no variable of PATTERN, or one of alternatives."
            )
        if kind.startswith("TO FIRST "):
            return AfterMatchSkipStrategy.skip_to_first(target).throw_exception_on_miss()
        return AfterMatchSkipStrategy.skip_to_last(target).throw_exception_on_miss()

    # ---- MEASURES

    def measures(self) -> PatternProcessFunction:
        """Return what makes rows of matches."""
        from funken.cep.sql.expressions import Compiler  # noqa: PLC0415

        compiler = Compiler("MEASURES", self.variables, self.column)
        given = [each.this for each in self.parsed.get("measures") or ()]
        found = [(each.alias, compiler.compile(each.this)) for each in given]
        if not found and not self.partition:
            raise InvalidProgram("MATCH_RECOGNIZE, MEASURES is missing: a row would have no columns.")
        return _Measures(self, found)


class _Order:
    """Compares rows of one timestamp by columns; NULL comes first."""

    def __init__(self, keys: list[tuple[str, int]], column: _Columns) -> None:
        self.keys = keys
        self.column = column

    def __call__(self, one: Any, other: Any) -> int:
        for name, sign in self.keys:
            a, b = self.column(one, name), self.column(other, name)
            if a != b:
                return sign * (-1 if a is None or (b is not None and a < b) else 1)
        return 0


def _parsed(query: str) -> tuple[int, Any]:
    """Return the window (ms; 0: none) and the parsed clause."""
    try:
        import sqlglot  # noqa: PLC0415 - only programs with SQL need it
        from sqlglot import expressions as sql  # noqa: PLC0415
    except ImportError as error:
        raise InvalidProgram("MATCH_RECOGNIZE needs sqlglot: pip install 'funken[cep]'.") from error
    text, within = query.strip().rstrip(";"), 0
    found = _WITHIN.search(text)
    if found:  # no SQL parser knows this clause of Flink's
        unit = found[2].upper()
        if unit not in _UNITS:
            raise InvalidProgram(f"MATCH_RECOGNIZE, WITHIN: {unit} is not supported, but {', '.join(_UNITS)} are.")
        within = int(found[1]) * _UNITS[unit]
        text = text[: found.start() + 1] + text[found.end() :]
    if re.match(r"MATCH_RECOGNIZE\b", text, re.IGNORECASE):
        text = f"SELECT * FROM stream {text}"
    try:
        statement = sqlglot.parse_one(text, read="trino")
    except sqlglot.errors.SqlglotError as error:
        raise InvalidProgram(f"MATCH_RECOGNIZE cannot be parsed: {str(error).splitlines()[0]}") from error
    clause = statement.find(sql.MatchRecognize)
    plain = isinstance(statement, sql.Select) and [each.sql() for each in statement.expressions] == ["*"]
    beside = {"with_", "with", "joins", "where", "group", "having", "order", "limit", "distinct"}
    if clause is None or not plain or any(statement.args.get(name) for name in beside):
        raise InvalidProgram("match_recognize() takes a MATCH_RECOGNIZE clause, alone or behind SELECT * FROM name.")
    return within, clause


def _quantified(pattern: Pattern, element: Element) -> Pattern:
    least, most = element.least, element.most
    if not element.quantified:
        return pattern
    if (least, most) == (0, 1):
        return pattern.optional()
    pattern = pattern.times_or_more(max(least, 1)) if most is None else pattern.times(max(least, 1), most)
    pattern = pattern.consecutive()
    pattern = pattern.greedy() if element.greedy and least != most else pattern
    return pattern if least else pattern.optional()


def _of_the_row(compiled: Compiled, elements: Sequence[Element], own: str) -> Callable[[Any], bool]:
    return lambda row: compiled(_Taken(elements, {}, lambda name: (), own, row)) is True


def _of_the_match(compiled: Compiled, elements: Sequence[Element], tests: Any, own: str) -> Callable[[Any, Any], bool]:
    return lambda row, ctx: compiled(_Taken(elements, tests, ctx.get_events_for_pattern, own, row)) is True


def _any_of(tests: list[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda row: any(test(row) for test in tests)


__all__ = ["match_recognize"]
