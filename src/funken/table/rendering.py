"""Names for anonymous tables, windows and functions, while a call of the Table API becomes SQL."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from funken.errors import InvalidProgram
from funken.table.catalog import CatalogFunction
from funken.table.types import quoted
from funken.table.udf import definition_of
from funken.table.window import WindowProperties

if TYPE_CHECKING:
    from funken.table.environment import TableEnvironment
    from funken.table.expression import Expression
    from funken.table.logical import LogicalNode


class Rendering:
    """The names of one call, removed when it has been bound."""

    def __init__(self, environment: TableEnvironment, windows: dict[str, Any] | None = None) -> None:
        self._environment = environment
        self._windows = windows or {}
        self._tables: list[str] = []
        self._functions: list[str] = []
        self._aggregates: dict[str, str] = {}
        self.properties: list[tuple[str, str]] = []
        """The properties of windows that were asked for: pairs of a window and START, END, ROWTIME or PROCTIME."""

    def table(self, table: Any) -> str:
        """Return a name for a table."""
        if table._environment is not self._environment:
            raise InvalidProgram("the tables of a call belong to one table environment, but one of them is of another.")
        name = f"$table{len(self._tables)}"
        self._environment.catalogs.create([name], table.as_view(), temporary=True, replace=True)
        self._tables.append(name)
        return quoted(name)

    def function(self, function: Any) -> str:
        """Return a name for a function of the program."""
        definition = definition_of(function)
        if hasattr(definition, "configured"):
            definition.configured(self._environment.get_config())
        plain = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in definition.name)
        name = f"F_{plain}_{len(self._functions)}"
        self._environment.catalogs.system_functions[name.upper()] = CatalogFunction(definition=definition)
        self._functions.append(name.upper())
        return name

    def column(self, name: str) -> str:
        """Return a column as SQL."""
        return quoted(name)

    def operator(self, name: str, pattern: str, count: int) -> str:
        """Return the SQL of an operator: a call, if the program has a system function of its name."""
        if name.upper() not in self._environment.catalogs.system_functions:
            return pattern
        return f"{quoted(name)}({', '.join(f'{{{place}}}' for place in range(count))})"

    def over_window(self, name: str | None) -> str:
        """Return the clause of a window of rows by its alias."""
        window = self._windows.get(name or "")
        if window is None or not hasattr(window, "clause"):
            known = ", ".join(self._windows) or "none"
            raise InvalidProgram(f"there is no window of rows {name!r}; over_window() has these: {known}.")
        text: str = window.clause(self)
        return text

    def aggregate(self, text: str) -> None:
        """Note an aggregate, or a property of a window; Flink calls them ``EXPR$0``, ``EXPR$1`` in their order."""
        self._aggregates.setdefault(text, f"EXPR${len(self._aggregates)}")

    def item_name(self, item: Expression, place: int) -> str:
        """Return the name of an item of a SELECT list that the program gave none, when it has been rendered."""
        return self._derived_name(item) or f"_c{place}"

    def _derived_name(self, item: Expression) -> str | None:
        """Return the name of an item by its column or aggregate; a field or a cast of one extends that name."""
        if str(item).startswith("get(") and item._arguments:
            value, field = item._arguments
            before = self._derived_name(value)
            return before and f"{before}${'_' if isinstance(field, int) else ''}{field}"
        if str(item).startswith("cast(") and len(item._arguments) == 2:
            value, type_ = item._arguments
            before = self._derived_name(value)
            return before and f"{before}-{type_.nullable()}"
        return item._column or self._aggregates.get(str(item))

    def window_property(self, name: str, suffix: str, expression: Any) -> str:
        """Return START, END, ROWTIME or PROCTIME of the window of a group."""
        window = self._windows.get(name)
        if isinstance(window, WindowProperties):
            self.aggregate(f"{suffix.lower()}({expression})")
            return quoted(window.columns[name, suffix])
        if window is None or not hasattr(window, "group"):
            known = ", ".join(self._windows) or "none"
            raise InvalidProgram(f"{expression} is no window of a group; window() has these: {known}.")
        if window.counts_rows:
            raise InvalidProgram(
                f"{expression} of a window of rows: it has no start, end or time. Aggregate the time column instead, e.g. by min."
            )
        kind, arguments = window.group(self)
        self.properties.append((name, suffix))
        self.aggregate(f"{suffix.lower()}({expression})")
        return f"`${kind}_{suffix}`({arguments})"

    def bound(self, text: str) -> LogicalNode:
        """Return the plan of a query."""
        from funken.table.execution import query_of  # noqa: PLC0415 - loads the parser

        return query_of(self._environment, text)

    def __enter__(self) -> Rendering:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._tables:
            self._environment.catalogs.drop("table", [name], temporary=True, if_exists=True)
        for name in self._functions:
            self._environment.catalogs.system_functions.pop(name, None)


def path_parts(path: str) -> list[str]:
    """Return the names of a path, in which names may be quoted by backticks.

    >>> path_parts("c.`a b`.t"), path_parts("`a``b`")
    (['c', 'a b', 't'], ['a`b'])
    """
    parts: list[str] = []
    rest = path.strip()
    while rest:
        if rest[0] == "`":
            end = 1
            while end < len(rest):
                if rest[end] == "`":
                    if rest[end + 1 : end + 2] != "`":
                        break
                    end += 1
                end += 1
            parts.append(rest[1:end].replace("``", "`"))
            rest = rest[end + 1 :]
        else:
            name, dot, behind = rest.partition(".")
            parts.append(name.strip())
            rest = dot + behind
        if rest and rest[0] != ".":
            raise InvalidProgram(f"{path!r} is no path of an object: write catalog.database.name, names in backticks.")
        rest = rest[1:]
    if not parts or not all(parts):
        raise InvalidProgram(f"{path!r} is no path of an object: write catalog.database.name, names in backticks.")
    return parts
