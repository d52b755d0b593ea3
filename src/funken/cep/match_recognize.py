"""SQL's MATCH_RECOGNIZE: PATTERN becomes a program that the operator of patterns runs, MEASURES the records of the result.

Of the matches that begin with a row, SQL:2016 says which is preferred (``row_nfa.py``). A condition of DEFINE that looks at
its own row, and at those before it in the partition, is evaluated once per row. sqlglot parses the SQL; it comes with the extra
``cep``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from funken import DataStream, InvalidProgram, Row
from funken.cep.nfa import Match
from funken.cep.operator import MatchPattern, PatternContext, PatternProcessFunction, Settings
from funken.cep.pattern import AfterMatchSkipStrategy, Pattern
from funken.cep.row_nfa import (
    BEFORE,
    NAMES,
    ROWS,
    Fact,
    MatchedRows,
    RowNfa,
    RowPlan,
    compile_rows,
    parse,
    variables_of,
)
from funken.cep.stream import PatternStream
from funken.sdk import OperatorSpec

if TYPE_CHECKING:
    from funken.cep.sql_expressions import Compiled

_WITHIN = re.compile(r"\)\s*WITHIN\s+INTERVAL\s+'(\d+)'\s+([A-Za-z]+?)S?\b", re.IGNORECASE)
_SUBSET = re.compile(r"\bSUBSET((?:\s+\w+\s*=\s*\([^()]*\)\s*,?)+)", re.IGNORECASE)
_UNITS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


def match_recognize(
    query: str,
    stream: DataStream,
    columns: Sequence[str] | None = None,
    processing_time: bool = False,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> DataStream[Row]:
    """Return the matches of a MATCH_RECOGNIZE clause in a stream, as ``Row``s of the partition's columns and the measures.

    ``query`` is the clause, alone or behind ``SELECT * FROM name``. Records are mappings, ``Row``s or objects with attributes; or
    tuples, with ``columns`` to name their items. The first column of ORDER BY stands for the time of the stream, which has
    its timestamps and watermarks already; ``PROCTIME()`` stands for processing time, as any column does with ``processing_time``.
    Conditions may call ``functions`` by their names.

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
    clause = _Clause(query, _Columns(columns), functions)
    keyed = stream.key_by(_Key(clause.partition, clause.column)) if clause.partition else stream
    measures = clause.measures()
    by_clock = clause.processing_time or processing_time
    found = _RowStream(keyed, clause.plan(), Settings(clause.comparator, event_time=not by_clock))
    return found.process(measures).name("match_recognize")


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

    def names(self, row: Any) -> Iterable[str]:
        """Return the columns of a record."""
        if self.positions is not None:
            return self.positions
        if isinstance(row, Row):
            return list(row.as_dict())
        if hasattr(row, "keys"):
            return list(row.keys())
        fields = getattr(row, "_fields", None) or getattr(row, "__dataclass_fields__", None)
        return list(fields if fields is not None else vars(row))

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
class MatchRowPattern(MatchPattern):
    """Finds the matches of a MATCH_RECOGNIZE clause."""

    plan: RowPlan

    def machine(self) -> RowNfa:
        """Return the machine that finds the matches, ready to run."""
        return RowNfa(self.plan)


class _RowStream(PatternStream):
    def __init__(self, stream: DataStream, plan: RowPlan, settings: Settings) -> None:
        super().__init__(stream, Pattern.begin(repr(plan)), settings)
        self._plan = plan

    def _spec(self, function: PatternProcessFunction, settings: Settings) -> OperatorSpec:
        return MatchRowPattern(function, self._pattern, settings, self._plan)


@dataclass(frozen=True)
class _Measures(PatternProcessFunction):
    """Emits a row per match, or one per row of it."""

    partition: Sequence[str]
    order: Sequence[str]
    column: _Columns
    compiled: Sequence[tuple[str, bool, Compiled]]
    subsets: Mapping[str, Sequence[str]]
    all_rows: bool

    def process_match(self, match: Match, ctx: PatternContext) -> Iterable[Any]:
        """Emit the columns of the partition and the measures; of all rows, also the others."""
        names = [name.removeprefix("-") for name in match[NAMES]]
        rows = MatchedRows(names, match[ROWS], match[BEFORE], self.subsets, ctx.timestamp())
        if not self.all_rows:
            found = {name: self.column(rows.at(0), name) for name in self.partition}
            found.update((name, compiled(rows)) for name, _, compiled in self.compiled)
            yield Row(**found)
            return
        for place, (name, row) in enumerate(zip(match[NAMES], match[ROWS], strict=True), 1):
            if name.startswith("-"):
                continue
            so_far = MatchedRows(names[:place], match[ROWS][:place], match[BEFORE], self.subsets, ctx.timestamp())
            found = {name: self.column(row, name) for name in (*self.partition, *self.order)}
            found.update((name, compiled(rows if final else so_far)) for name, final, compiled in self.compiled)
            found.update((name, self.column(row, name)) for name in self.column.names(row) if name not in found)
            yield Row(**found)


class _Clause:
    """A parsed MATCH_RECOGNIZE clause."""

    def __init__(self, query: str, column: _Columns, functions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.column = column
        self.functions = functions or {}
        self.within, subsets, parsed = _parsed(query)
        self.parsed: dict[str, Any] = parsed.args
        self.shown = self.parsed["pattern"].name if self.parsed.get("pattern") else ""
        pattern = parse(self.shown)
        self.program = compile_rows(pattern, self.shown)
        self.variables = variables_of(pattern)
        self.subsets = self._subsets(subsets)
        self.before = 0
        self.order: list[str] = []
        self.partition = [self._name(each, "PARTITION BY") for each in self.parsed.get("partition_by") or ()]
        self.processing_time = False
        self.comparator = self._order()
        rows = self.parsed["rows"].name.upper() if self.parsed.get("rows") else "ONE ROW PER MATCH"
        if rows not in {"ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH OMIT EMPTY MATCHES"}:
            raise InvalidProgram(f"MATCH_RECOGNIZE, {rows}: only ONE ROW and ALL ROWS PER MATCH are supported.")
        self.all_rows = rows.startswith("ALL")

    def _subsets(self, given: str) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, members in re.findall(r"(\w+)\s*=\s*\(([^()]*)\)", given):
            found[name] = tuple(each.strip() for each in members.split(","))
            unknown = [each for each in found[name] if each not in self.variables]
            if unknown or name in self.variables:
                raise InvalidProgram(
                    f"MATCH_RECOGNIZE, SUBSET {name}: it needs a name of its own, and variables of PATTERN: "
                    f"{', '.join(self.variables)}."
                )
        return found

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
            self.order.append(self._name(first.this, "ORDER BY"))
        keys = [(self._name(each.this, "ORDER BY"), -1 if each.args.get("desc") else 1) for each in others]
        self.order += [name for name, _ in keys]
        return _Order(keys, self.column) if keys else None

    # ---- PATTERN, DEFINE, AFTER MATCH

    def plan(self) -> RowPlan:
        """Return the plan of the search, and, after ``measures``, the number of rows it needs before a match."""
        own, others, facts = self._conditions()
        skip, targets = self._skip()
        return RowPlan(
            self.program,
            own,
            others,
            facts,
            self.column,
            skip,
            targets,
            {name: (*each, *(f"-{variable}" for variable in each)) for name, each in self.subsets.items()},
            self.within,
            self.before,
            " ".join(self.shown.split()),
        )

    def _conditions(self) -> tuple[dict[str, Compiled], dict[str, Compiled], dict[str, tuple[Fact, ...]]]:
        """Return the conditions on their own row and those before it, the others, and the facts that these need."""
        from funken.cep.sql_expressions import Compiler  # noqa: PLC0415 - needs sqlglot

        own: dict[str, Compiled] = {}
        others: dict[str, Compiled] = {}
        facts: dict[str, tuple[Fact, ...]] = {}
        for each in self.parsed.get("define") or ():
            name = each.alias
            if name not in self.variables:
                raise InvalidProgram(
                    f"MATCH_RECOGNIZE, DEFINE: {name} is no variable of PATTERN: {', '.join(self.variables)}."
                )
            compiler = Compiler(f"DEFINE {name}", [*self.variables, *self.subsets], self.column, name, self.functions)
            compiled = compiler.compile(each.this)
            (others if compiler.looks_back else own)[name] = compiled
            facts[name] = tuple(sorted(compiler.facts, key=repr))
            self.before = max(self.before, compiler.before)
        return own, others, facts

    def _skip(self) -> tuple[AfterMatchSkipStrategy, frozenset[str]]:
        """Return the strategy, and the names of the rows that it may skip to."""
        given = self.parsed["after"].name if self.parsed.get("after") else "AFTER MATCH SKIP PAST LAST ROW"
        words = given.split()[3:]
        kind = " ".join(words).upper()
        if kind == "PAST LAST ROW":
            return AfterMatchSkipStrategy.skip_past_last_event(), frozenset()
        if kind == "TO NEXT ROW":
            return AfterMatchSkipStrategy.skip_to_next(), frozenset()
        target = words[-1]
        names = self.subsets.get(target, (target,))
        if not set(names) <= set(self.variables):
            raise InvalidProgram(f"MATCH_RECOGNIZE, {given}: {target} is no variable of PATTERN.")
        first = AfterMatchSkipStrategy.skip_to_first(target)
        skip = first if kind.startswith("TO FIRST ") else AfterMatchSkipStrategy.skip_to_last(target)
        return skip.throw_exception_on_miss(), frozenset((*names, *(f"-{name}" for name in names)))

    # ---- MEASURES

    def measures(self) -> PatternProcessFunction:
        """Return the function that makes rows of matches."""
        from funken.cep.sql_expressions import Compiler  # noqa: PLC0415

        compiler = Compiler("MEASURES", [*self.variables, *self.subsets], self.column)
        found = []
        for each in self.parsed.get("measures") or ():
            frame = str(each.args.get("window_frame") or "").upper()
            if frame == "RUNNING" and not self.all_rows:
                raise InvalidProgram("MATCH_RECOGNIZE, MEASURES: RUNNING is for ALL ROWS PER MATCH.")
            found.append((each.this.alias, frame == "FINAL", compiler.compile(each.this.this)))
        if not found and not self.partition and not self.all_rows:
            raise InvalidProgram("MATCH_RECOGNIZE, MEASURES is missing: a row would have no columns.")
        self.before = max(self.before, compiler.before)
        return _Measures(self.partition, self.order, self.column, found, self.subsets, self.all_rows)


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


def _parsed(query: str) -> tuple[int, str, Any]:
    """Return the window (ms; 0: none), SUBSET as text, and the parsed clause."""
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
        if not within:
            raise InvalidProgram(
                "MATCH_RECOGNIZE, WITHIN: an interval of 0 has room for no row. Leave WITHIN out for no bound."
            )
        text = text[: found.start() + 1] + text[found.end() :]
    subsets = _SUBSET.search(text)
    if subsets:  # nor this one
        text = text[: subsets.start()] + text[subsets.end() :]
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
    return within, subsets[1] if subsets else "", clause
