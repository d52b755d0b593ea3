"""MATCH_RECOGNIZE in FROM: the columns of its result, and the expressions that SQL evaluates.

The pattern is compiled by ``cep``, from the text of the clause, with the expressions that it has forms for: comparisons,
arithmetic, and what FIRST, LAST, PREV and aggregates find. All else is SQL's: of a measure, a projection over what was found; of
an argument, or of a condition over the current row alone, a column of the input; of another condition, a function that the
pattern calls with what it found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from sqlglot import exp
from sqlglot import parse_one as parse_sql
from sqlglot.errors import SqlglotError

from funken.errors import InvalidProgram
from funken.expr.ir import Call, InputRef, Literal, Node, walk
from funken.expr.sql.functions import FUNCTIONS
from funken.table.logical import LogicalMatch, OutputColumn, RelationType, SortKey, TimeAttribute, project
from funken.table.sql.dialect import Flink
from funken.table.sql.expressions import AggregateRef, ExpressionBinder
from funken.table.sql.parser import StatementReader, parse_expression
from funken.table.sql.scopes import Scope, fail
from funken.table.sql.statements import InvalidQuery
from funken.table.types import BooleanType, DecimalType, quoted

_CLAUSES = (
    "MEASURES", "ONE", "ALL", "AFTER", "PATTERN", "ORDER", "ORDER BY", "PARTITION", "PARTITION BY", "DEFINE", "SUBSET", "WITHIN",
)  # fmt: skip
_NAVIGATION = {"FIRST", "LAST", "PREV", "NEXT"}
_AGGREGATES = {"SUM", "AVG", "MIN", "MAX", "COUNT"}
_FOUND = {*_NAVIGATION, *_AGGREGATES, "MATCH_ROWTIME", "CLASSIFIER"}
"""Functions of what a match has found."""


def bind_match(select: Any, tree: Any) -> None:
    """Put MATCH_RECOGNIZE on the relation of FROM; its result is the only relation of the query."""
    scope = select.scope
    row_type = select.node.row_type
    inner = Scope(parent=None)
    inner.add(scope.relations[-1].alias, row_type)
    clause = _Clause(tree.this)
    if re.search(r"\bALL\s+ROWS\s+PER\s+MATCH\b", clause.text, re.IGNORECASE):
        raise InvalidQuery(
            "SQL validation failed. ALL ROWS PER MATCH is not supported in a query: use ONE ROW PER MATCH."
        )
    plain = ExpressionBinder(inner, select.binder)
    partition = tuple(_place(plain, text) for text in clause.partition)
    order = []
    for text in clause.order:
        item = re.sub(r"\s+(ASC|DESC)\s*$", "", text, flags=re.IGNORECASE)
        up = not re.search(r"\sDESC\s*$", text, re.IGNORECASE)
        order.append(SortKey(_place(plain, item), up, up))
    if not order:
        raise InvalidQuery("SQL validation failed. MATCH_RECOGNIZE needs ORDER BY a time attribute.")
    parts = _Expressions(inner, select.binder, clause.variables)
    defined = [parts.condition(*each) for each in clause.conditions]
    for text in clause.measures:
        parts.measure(*_named(text), text)
    columns = RelationType(tuple([*(row_type[place] for place in partition), *parts.columns]))
    node = select.node
    if parts.added:
        refs = [InputRef(place, type=column.type) for place, column in enumerate(row_type)]
        names = [*row_type.names, *(f"$e{place}" for place in range(len(parts.added)))]
        node = project(node, [*refs, *parts.added], names)
    text = clause.rewritten(parts.measures, defined)
    node = LogicalMatch(node, partition, tuple(order), text, columns, tuple(parts.functions))
    select.node = parts.completed(node, len(partition))
    alias = tree.args.get("alias")
    scope.relations.clear()
    scope.add(alias.name if alias is not None and alias.name else None, select.node.row_type)


def _place(binder: ExpressionBinder, text: str) -> int:
    tree = parse_expression(text)
    node = binder.bind(tree)
    if not isinstance(node, InputRef):
        fail(tree, "PARTITION BY and ORDER BY of MATCH_RECOGNIZE take columns")
    return node.index


def _named(text: str) -> tuple[str, str]:
    match = re.match(r"(.*)\sAS\s+(`(?:[^`]|``)+`|[\w$]+)\s*$", text, re.IGNORECASE | re.DOTALL)
    if match is None:
        raise InvalidQuery(f"SQL validation failed. A measure of MATCH_RECOGNIZE needs a name: {text.strip()} AS name")
    return match.group(1), match.group(2).strip("`").replace("``", "`")


class _Clause:
    """The parts of a clause whose types count: PARTITION BY, ORDER BY, MEASURES, DEFINE, and the variables of PATTERN."""

    def __init__(self, text: str) -> None:
        if not re.search(r"\bAFTER\s+MATCH\b", text, re.IGNORECASE):  # the default of Flink, not of SQL:2016
            text = re.sub(r"\bPATTERN\s*\(", r"AFTER MATCH SKIP TO NEXT ROW \g<0>", text, count=1, flags=re.IGNORECASE)
        reader = StatementReader(text)
        self.partition: list[str] = []
        self.order: list[str] = []
        self.measures: list[str] = []
        self.conditions: list[tuple[str, str, str]] = []
        self.text = text
        self._spans: dict[str, tuple[int, int]] = {}
        if reader.words("PARTITION", "BY"):
            self.partition = self._list(reader)
        if reader.words("ORDER", "BY"):
            self.order = self._list(reader)
        if reader.words("MEASURES"):
            self.measures = self._spanned("MEASURES", reader)
        while reader.current is not None and not reader.words("DEFINE"):
            reader.at += 1
        if reader.current is not None:
            for each in self._spanned("DEFINE", reader):
                match = re.match(r"\s*(`(?:[^`]|``)+`|[\w$]+)\s+AS\s+(.*)$", each, re.IGNORECASE | re.DOTALL)
                if match is None:
                    raise InvalidQuery(
                        f"SQL validation failed. A condition of DEFINE is: variable AS condition, not: {each}"
                    )
                self.conditions.append((match[1].strip("`").replace("``", "`"), match[2], each))
        pattern = re.search(
            r"\bPATTERN\s*\((.*?)\)\s*(?:WITHIN\b|DEFINE\b|SUBSET\b|$)", text, re.IGNORECASE | re.DOTALL
        )
        self._names = re.findall(r"`((?:[^`]|``)+)`|([A-Za-z_]\w*)", pattern.group(1)) if pattern else []
        self.variables = {quoted.replace("``", "`") or plain for quoted, plain in self._names}
        self.variables |= set(re.findall(r"(\w+)\s*=\s*\(", text))

    def rewritten(self, measures: list[str], conditions: list[str]) -> str:
        """Return the text with other measures and conditions."""
        text, items = self.text, {"MEASURES": measures, "DEFINE": conditions}
        before = {"MEASURES": self.measures, "DEFINE": [each for _, _, each in self.conditions]}
        for clause in ("DEFINE", "MEASURES"):  # from behind, so that places stay
            if items[clause] != before[clause]:
                begin, end = self._spans[clause]
                text = f"{text[:begin]}{', '.join(items[clause])} {text[end:]}"
        for place, (name, _) in enumerate(self._names):
            if name:  # the compiler of patterns knows plain names only
                text = text.replace(f"`{name}`", f"V{place}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}")
        return text

    def _spanned(self, clause: str, reader: StatementReader) -> list[str]:
        begin = reader.current.start if reader.current is not None else len(self.text)
        found = self._list(reader)
        self._spans[clause] = begin, len(self.text) if reader.current is None else reader.current.start
        return found

    @staticmethod
    def _list(reader: StatementReader) -> list[str]:
        def item() -> str:
            begin = reader.current.start if reader.current is not None else 0
            reader.expression(*_CLAUSES)
            if reader.word(-1) == "AS" and reader.current is not None:  # a name like a word of a clause
                reader.at += 1
            return reader.text[begin : reader.tokens[reader.at - 1].end + 1]

        found = [item()]
        while reader.words(","):
            found.append(item())
        return found


class _AnyColumn:
    """Columns of rows, for a trial of the compiler of patterns."""

    @staticmethod
    def check(name: str, clause: str) -> str:
        """Take any column."""
        return name


class _Expressions:
    """The measures and conditions of a clause as the compiler of patterns takes them, and what is SQL's beside them."""

    def __init__(self, scope: Scope, binder: Any, variables: set[str]) -> None:
        self._scope, self._binder, self._variables = scope, binder, variables
        self._typing = _Measures(scope, binder, variables)
        self.measures: list[str] = []
        self.columns: list[OutputColumn] = []
        self.added: list[Node] = []
        """Columns ``$e0``, ``$e1`` .. behind those of the input."""
        self.functions: list[tuple[str, Node, tuple[Any, ...]]] = []
        self._results: list[tuple[str, Any]] = []
        """The measures by name: the place of a column, or an expression over columns."""

    # ---- measures

    def measure(self, text: str, name: str, item: str) -> None:
        """Take a measure; ``item`` is how it stands in the clause."""
        plain = re.sub(r"^\s*(FINAL|RUNNING)\s+", "", text, flags=re.IGNORECASE)
        tree = parse_expression(plain)
        node = self._typing.bind(tree)
        is_clock = isinstance(node, Call) and node.function == "MATCH_PROCTIME"
        if not is_clock and self._compiles(text, node):
            is_time = isinstance(node, Call) and node.function == "MATCH_ROWTIME"
            self._results.append((name, len(self.columns)))
            self._column(item, name, node.type, TimeAttribute.ROWTIME if is_time else None)
            return
        places: dict[str, str] = {}

        def found(each: Any) -> Any:
            given = self._found(each)
            if given not in places:
                places[given] = f"$m{len(self.columns)}"
                type_ = self._typing.bind(each).type
                self._column(f"{given} AS {quoted(places[given])}", places[given], type_.nullable(), None)
            return exp.column(exp.to_identifier(places[given], quoted=True))

        self._results.append((name, self._replaced(tree, found)))

    def _column(self, text: str, name: str, type_: Any, time: TimeAttribute | None) -> None:
        self.measures.append(text)
        self.columns.append(OutputColumn(name, type_, time))

    def completed(self, match: LogicalMatch, keys: int) -> Any:
        """Return the relation of a match with its measures, those of SQL computed."""
        if all(not isinstance(result, exp.Expression) for _, result in self._results):
            return match
        scope = Scope(parent=None)
        scope.add(None, match.row_type)
        binder = ExpressionBinder(scope, self._binder)
        columns = match.row_type
        nodes: list[Node] = [InputRef(place, type=columns[place].type) for place in range(keys)]
        for _, result in self._results:
            if isinstance(result, exp.Expression):
                nodes.append(binder.bind(result))
            else:
                nodes.append(InputRef(keys + result, type=columns[keys + result].type))
        return project(match, nodes, [*columns.names[:keys], *(name for name, _ in self._results)])

    # ---- conditions

    def condition(self, name: str, text: str, item: str) -> str:
        """Return a condition of DEFINE, which stands as ``item`` in the clause, as the compiler of patterns takes it."""
        tree = parse_expression(text)
        node = self._typing.bind(tree)
        if not isinstance(node.type, BooleanType):
            fail(tree, f"DEFINE {name} takes a condition, but this is of type {node.type}")
        if self._compiles(text, node, name):
            return item
        pieces = []
        for each in tree.flatten() if isinstance(tree, exp.And) else [tree]:
            try:
                piece = each.sql(dialect=Flink)
            except ValueError:  # sqlglot does not write types as they are here
                piece = ""
            is_plain = piece and self._compiles(piece, self._typing.bind(each), name)
            pieces.append(piece if is_plain else self._called(name, each))
        return f"{quoted(name)} AS {' AND '.join(f'({piece})' for piece in pieces)}"

    def _called(self, name: str, tree: Any) -> str:
        """Return a condition as a column of the current row, or as a call with what was found."""
        found = list(self._navigations(tree))
        if all(isinstance(each, exp.Column) and each.table in {"", name} for each in found):
            return f"{quoted(name)}.{quoted(self._computed(tree))}"
        scope, texts = Scope(parent=None), []
        columns: list[OutputColumn] = []
        for each in found:
            given = self._found(each)
            if given not in texts:
                texts.append(given)
                columns.append(OutputColumn(f"$a{len(columns)}", self._typing.bind(each).type.nullable()))
        scope.add(None, RelationType(tuple(columns)))
        replaced = self._replaced(
            tree, lambda each: exp.column(exp.to_identifier(f"$a{texts.index(self._found(each))}", quoted=True))
        )
        function = f"SQL{len(self.functions)}"
        node = ExpressionBinder(scope, self._binder).bind(replaced)
        if any(isinstance(each, Call) and each.handle for each in walk(node)):
            fail(tree, f"In DEFINE {name}, a function of the program takes columns of the current row only")
        self.functions.append((function, node, tuple(column.type for column in columns)))
        return f"{function}({', '.join(texts)})"

    # ---- what was found

    def _compiles(self, text: str, node: Node, own: str = "") -> bool:
        """Return True if the compiler of patterns has forms for an expression, and its numbers are those of SQL."""
        if _mixes_decimals(node):
            return False
        compiler = import_module("funken.cep.sql_expressions").Compiler  # a room above
        given = re.sub(r"^\s*(FINAL|RUNNING)\s+", "", text, flags=re.IGNORECASE).replace("`", '"')
        try:
            tree = parse_sql(f"SELECT {given}", read="trino").expressions[0]
            compiler("", [*self._variables], _AnyColumn, own=own).compile(tree)
        except (InvalidProgram, SqlglotError) as error:
            return "is not supported" not in str(error) and isinstance(error, InvalidProgram)
        return True

    def _is_found(self, tree: Any) -> bool:
        return isinstance(tree, exp.Column) or (isinstance(tree, exp.Anonymous) and tree.name.upper() in _FOUND)

    def _navigations(self, tree: Any) -> Iterator[Any]:
        if self._is_found(tree):
            yield tree
            return
        for each in _parts(tree):
            yield from self._navigations(each)

    def _replaced(self, tree: Any, found: Callable[[Any], Any]) -> Any:
        """Return a tree with what was found replaced."""
        if isinstance(tree, exp.Anonymous) and tree.name.upper() == "MATCH_PROCTIME":
            return exp.Anonymous(this="PROCTIME")
        if self._is_found(tree):
            return found(tree)
        copy = tree.copy()
        for old, each in zip(_parts(copy), _parts(tree), strict=True):
            new = self._replaced(each, found)
            if new is not each:
                old.replace(new)
        return copy

    def _found(self, tree: Any) -> str:
        """Return a column of a variable, a navigation or an aggregate as the compiler of patterns reads it."""
        if isinstance(tree, exp.Column):
            return str(tree.sql(dialect=Flink))
        name, arguments = tree.name.upper(), list(tree.expressions)
        if not arguments:
            return f"{name}()"
        first, *others = arguments
        nested = isinstance(first, exp.Anonymous) and first.name.upper() in _NAVIGATION and name in _NAVIGATION
        if isinstance(first, exp.Distinct):
            fail(tree, f"{name}(DISTINCT ..) is not supported in MATCH_RECOGNIZE")
        if nested:
            inner = self._found(first)
        elif isinstance(first, exp.Column | exp.Star):
            inner = str(first.sql(dialect=Flink))
        else:
            variables = {column.table for column in _columns(first)}
            if len(variables) > 1:
                fail(
                    tree, f"{name} takes an expression over one variable of PATTERN, but this is over {len(variables)}"
                )
            variable = "".join(f"{quoted(each)}." for each in variables if each)
            inner = f"{variable}{quoted(self._computed(first))}"
        return f"{name}({', '.join([inner, *(each.sql(dialect=Flink) for each in others)])})"

    def _computed(self, tree: Any) -> str:
        """Return the column of the input that an expression over one row is."""
        node = self._typing.bind(tree)
        if node not in self.added:
            self.added.append(node)
        return f"$e{self.added.index(node)}"


def _parts(tree: Any) -> list[Any]:
    """Return the parts of a tree that have values: a unit of time has none."""
    has_unit = isinstance(tree, exp.Anonymous) and tree.name.upper() in {"TIMESTAMPDIFF", "TIMESTAMPADD"}
    return list(tree.iter_expressions())[1 if has_unit else 0 :]


def _columns(tree: Any) -> Iterator[exp.Column]:
    """Return the columns of a tree."""
    if isinstance(tree, exp.Column):
        yield tree
        return
    for each in _parts(tree):
        yield from _columns(each)


def _mixes_decimals(node: Any) -> bool:
    """Return True for arithmetic of DECIMAL and a number with a fraction, which the compiler of patterns takes for a float."""
    if isinstance(node, Call) and isinstance(node.type, DecimalType) and node.function in {"+", "-", "*", "/", "%"}:
        leaves = [each for each in walk(node) if not getattr(each, "children", ())]
        decimals = [leaf for leaf in leaves if isinstance(leaf.type, DecimalType)]
        if any(isinstance(leaf, Literal) for leaf in decimals) and any(
            not isinstance(leaf, Literal) for leaf in decimals
        ):
            return True
    return any(map(_mixes_decimals, getattr(node, "children", ())))


class _Measures(ExpressionBinder):
    """Binds a measure for its type: a pattern variable is a row of the input."""

    def __init__(self, scope: Scope, binder: Any, variables: set[str]) -> None:
        super().__init__(scope, binder)
        self.variables = variables

    def column(self, tree: exp.Column) -> Node:
        parts = [part for part in tree.parts if isinstance(part, exp.Identifier)]
        if len(parts) > 1 and parts[0].name in self.variables:
            tree = exp.column(*[part.copy() for part in reversed(parts[1:])])
        return super().column(tree)

    def function(self, tree: exp.Anonymous, path: tuple[str, ...]) -> Node:
        name = str(tree.this.name if isinstance(tree.this, exp.Identifier) else tree.this).upper()
        if name in {"FIRST", "LAST", "PREV", "NEXT"} and tree.expressions:
            return self.bind(tree.expressions[0])
        if name == "MATCH_ROWTIME":
            times = self.scope.relations[0].columns
            found = [column.type for column in times if column.time is TimeAttribute.ROWTIME]
            if not found:
                fail(tree, "MATCH_ROWTIME needs a rowtime attribute in the input")
            return Call(name, type=found[0].not_null())
        if name == "MATCH_PROCTIME":
            return Call(name, type=FUNCTIONS.call("PROCTIME", []).type)
        node = super().function(tree, path)
        return Call(name, node.children, type=node.type) if isinstance(node, AggregateRef) else node
