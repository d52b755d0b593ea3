"""``Table``: a query under construction, lazy and immutable; each method gives another one, bound at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from funken.config.configuration import warn
from funken.errors import InvalidProgram
from funken.expr.ir import InputRef
from funken.plan.advice import calling, dropped_at, missing_name, printed_by
from funken.table.catalog import CatalogView, ResolvedTable, TableColumn
from funken.table.expression import Expression, col, lit_or_expression
from funken.table.logical import LogicalNode, LogicalOver, LogicalProject, LogicalSink, LogicalSort, walk
from funken.table.rendering import Rendering, path_parts
from funken.table.schema import ResolvedSchema, Schema
from funken.table.types import ArrayType, LogicalType, RowType, quoted
from funken.table.udf import FunctionDefinition, TableAggregateDefinition
from funken.table.window import GroupWindow, OverWindow, WindowProperties
from funken.types.callables import check_kind

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from funken.table.compiled_plan import CompiledPlan
    from funken.table.descriptors import ExplainDetail, TableDescriptor
    from funken.table.environment import TableEnvironment
    from funken.table.result import TableResult
    from funken.table.udf import UserDefinedFunction

Field: TypeAlias = Expression | str
"""A column or an expression; a text is a column's name."""
Applied: TypeAlias = "Expression | FunctionDefinition | UserDefinedFunction | Callable[..., object]"
"""A function, or its call."""


def _sliced(plan: LogicalNode, offset: int, fetch: int | None) -> LogicalNode:
    """Return a plan without its first rows, or with these alone; bounds of a sort join it, below a projection of its keys."""
    if (
        isinstance(plan, LogicalProject)
        and isinstance(plan.input, LogicalSort)
        and all(isinstance(each, InputRef) for each in plan.expressions)
    ):
        return replace(plan, input=_sliced(plan.input, offset, fetch))
    if isinstance(plan, LogicalSort) and plan.fetch is None and not (offset and plan.offset):
        return replace(plan, offset=offset or plan.offset, fetch=fetch)
    return LogicalSort(plan, (), offset, fetch)


class TablePipeline:
    """A table on its way into another: executed alone, or in a statement set."""

    def __init__(self, environment: TableEnvironment, sink: LogicalSink) -> None:
        self._environment = environment
        self.sink = sink

    def taken(self) -> LogicalSink:
        """Return the sink for a job that the caller submits."""
        return self.sink

    def execute(self) -> TableResult:
        """Submit the job."""
        return self._environment.insert([self.taken()])

    def compile_plan(self) -> CompiledPlan:
        """Compile the pipeline into a plan whose operators keep their uids."""
        from funken.table.compiled_plan import CompiledPlan  # noqa: PLC0415 - few programs compile plans

        return CompiledPlan.of_pipeline(self._environment, self.taken())

    def get_sink_identifier(self) -> str:
        """Return the path of the table that is written."""
        return str(self.sink.table.path) if self.sink.table is not None else ""

    def explain(self, *extra_details: ExplainDetail | str) -> str:
        """Return the plans as text."""
        from funken.table.execution import explained  # noqa: PLC0415 - loads the parser

        return explained(self._environment, [self.sink], extra_details)

    def print_explain(self, *extra_details: ExplainDetail | str) -> TablePipeline:
        """Print the plans."""
        print(self.explain(*extra_details))  # noqa: T201 - that is what it is for
        return self


class Table:
    """A relation: a query, a path or a program's rows, until it is executed.

    >>> from funken.table.environment import TableEnvironment
    >>> tables = TableEnvironment.create()
    >>> words = tables.from_elements([("to", 1), ("be", 2)], ["word", "n"])
    >>> words.select(col("word"), (col("n") * 2).alias("double")).get_resolved_schema().get_column_names()
    ['word', 'double']
    """

    _call = (0, 0)

    def __init__(
        self, environment: TableEnvironment, plan: LogicalNode, declared: ResolvedSchema | None = None
    ) -> None:
        self._environment = environment
        self._plan = plan
        self._call = calling(sys._getframe(1))
        self._declared = declared
        self._event_time: LogicalType | None = None if declared is None else declared.event_time()

    @property
    def plan(self) -> LogicalNode:
        """The logical plan."""
        return self._plan

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self._plan.row_type.names)

    def as_view(self) -> CatalogView:
        """Return the table as a view of a catalog."""
        self._environment.unused = False
        columns = tuple(TableColumn(column.name, column.type) for column in self._plan.row_type)
        return CatalogView("", columns, plan=self._plan, declared=self._declared)

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("_"):
                raise AttributeError(
                    f"a table does not change, so {name} cannot be set. add_or_replace_columns(...) of it returns another one."
                )
            super().__setattr__(name, value)

    def __str__(self) -> str:
        if printed_by(sys._getframe(1)):
            warn(
                "print() of a table shows the name of its query. execute().print() shows the rows, print_schema() the columns."
            )
        return self._environment.inline_view(self)

    def __repr__(self) -> str:
        return f"<Table {self._plan.row_type}>"

    def __del__(self) -> None:
        if dropped_at(self._call) is not None:
            self._environment.unused = False
            warn(
                "the result of this line is dropped, and a table does not change. Keep it, as in table = table.where(...), or "
                "run it with execute()."
            )

    if not TYPE_CHECKING:

        def __iter__(self, *_: object) -> NoReturn:
            raise TypeError(
                f"{self!r:.100} is a query and has no rows here: it has no length, no items and no truth value. "
                "execute().collect() returns the rows, to_pandas() a frame; where() and limit() choose rows, col(name) a column."
            )

        __len__ = __bool__ = __contains__ = __getitem__ = __iter__

    def __getattr__(self, name: str) -> Expression:
        if not name.startswith("_") and name in self._plan.row_type.names:
            return col(name)
        raise AttributeError(missing_name(type(self), name, self._plan.row_type.names), name=name, obj=None)

    # ---- columns

    def _query(self, build: Callable[[Rendering, str], str], windows: dict[str, Any] | None = None) -> Table:
        with Rendering(self._environment, windows) as rendering:
            table = type(self)(self._environment, rendering.bound(build(rendering, rendering.table(self))))
        table._event_time = self._event_time
        self._environment.unused = True
        return table

    def _as_declared(self, rows: Table) -> Table:
        """Give some of the rows of this table its schema: computed columns, watermark and key stay as declared."""
        return Table(self._environment, rows.plan, self._declared)

    def select(self, *fields: Field) -> Table:
        """Compute columns; aggregates are over all rows."""
        return self._selected(fields, "", {})

    def _selected(self, fields: Sequence[Any], tail: str, windows: dict[str, Any], group: Any = None) -> Table:
        chosen = self._expanded(fields)
        if not chosen:
            raise InvalidProgram("no column is selected, but a table has one at least.")
        names = [name for one in chosen if (name := one._names[0] if one._names else one._column)]
        twice = next((name for name in names if name != "*" and names.count(name) > 1), None)
        if twice is not None:
            raise InvalidProgram(f"Ambiguous column name: {twice}. Name one of the two otherwise, with alias().")

        def build(rendering: Rendering, name: str) -> str:
            behind = tail if group is None else f" GROUP BY {group(rendering)}"
            return f"SELECT {', '.join(_items(chosen, rendering))} FROM {name}{behind}"

        return self._query(build, windows)

    def _expanded(self, fields: Sequence[Any]) -> list[Expression]:
        """Return fields with ranges of columns resolved, and names as columns."""
        found: list[Expression] = []
        for field in fields:
            if isinstance(field, str):
                field = col(field)  # noqa: PLW2901
            if isinstance(field, list | tuple) and any(isinstance(each, Expression) for each in field):
                raise TypeError("columns are arguments of their own, but a list was given: put * before it.")
            one = lit_or_expression(field)
            found += [one] if one._expand is None else one._expand(self)
        return found

    def _flattened(self, value: Expression) -> list[Expression]:
        """Return the fields of a ROW."""
        type_ = self.select(value.alias("$row"))._plan.row_type[0].type
        if not isinstance(type_, RowType):
            return [value]
        fields = [value.get(field.name) for field in type_.fields]
        if value._column is None:
            return fields
        return [one.alias(f"{value._column}${field.name}") for one, field in zip(fields, type_.fields, strict=True)]

    def alias(self, field: str, *fields: str) -> Table:
        """Rename the columns, in order; those behind the last name keep theirs."""
        names = [field, *fields]
        if "*" in names:
            raise InvalidProgram("alias() does not take '*': name the columns.")
        if len(names) > len(self.names):
            raise InvalidProgram(f"alias() names {len(names)} columns, but the table has {len(self.names)}.")
        names += self.names[len(names) :]
        return self.select(*(col(old).alias(new) for old, new in zip(self.names, names, strict=True)))

    def add_columns(self, *fields: Field) -> Table:
        """Add columns; a name that exists is an error."""
        added = self._expanded(fields)
        for one in added:
            if (one._names or (one._column,))[0] in self.names:
                raise InvalidProgram(
                    f"column {(one._names or (one._column,))[0]!r} exists already; use add_or_replace_columns() to replace it."
                )
        return self.select(*map(col, self.names), *added)

    def add_or_replace_columns(self, *fields: Field) -> Table:
        """Add columns, or replace those of the same name."""
        added = {(one._names or (one._column or "",))[0]: one for one in self._expanded(fields)}
        kept = [added.pop(name, col(name)) for name in self.names]
        return self.select(*kept, *added.values())

    def rename_columns(self, *fields: Expression) -> Table:
        """Rename columns, which keep their places: ``rename_columns(col("a").alias("b"))``."""
        if any(isinstance(field, Mapping) for field in fields):
            raise TypeError(
                f"rename_columns() takes columns, but got {fields[0]!r}. Write col('old').alias('new') for each."
            )
        renamed = {one._column or str(one): one for one in map(lit_or_expression, fields)}
        for name, one in renamed.items():
            self._known(name)
            if not one._names:
                raise InvalidProgram(
                    f"rename_columns() takes new names, as in col({name!r}).alias('new'), but {one} has none."
                )
        return self.select(*(renamed.get(name, col(name)) for name in self.names))

    def drop_columns(self, *fields: Field) -> Table:
        """Drop columns."""
        dropped = {one._column for one in self._expanded(fields)}
        for name in dropped:
            self._known(name)
        return self.select(*(col(name) for name in self.names if name not in dropped))

    def _known(self, name: Any) -> None:
        if name not in self.names:
            raise InvalidProgram(f"the table has no column {name!r}; it has: {', '.join(self.names)}.")

    # ---- rows

    def filter(self, predicate: Expression | bool) -> Table:
        """Keep the rows for which a condition is TRUE."""
        if predicate is None:
            raise InvalidProgram("a filter is a condition such as col('a') > 1, but it is None.")
        if isinstance(predicate, bool):
            warn(
                f"where() got {predicate}, the same for each row: Python compared two values, and no column. Write "
                "col('a') == 'b', and is_null for None; lit(True) says that a constant is meant."
            )
        condition = lit_or_expression(predicate)
        return self._as_declared(self._query(lambda r, name: f"SELECT * FROM {name} WHERE {condition.sql(r)}"))

    where = filter

    def distinct(self) -> Table:
        """Keep one of equal rows."""
        return self._as_declared(self._query(lambda r, name: f"SELECT DISTINCT * FROM {name}"))

    def order_by(self, *fields: Expression) -> Table:
        """Sort; a stream by a time attribute, or followed by ``fetch``."""
        given: tuple[Any, ...] = fields
        keys = [lit_or_expression(field) for field in given]
        texts = [field for field in given if isinstance(field, str)]
        if texts:
            name, _, order = texts[0].replace(".", " ").partition(" ")
            ways = "desc" if order.strip().lower().startswith("desc") else "asc"
            raise InvalidProgram(
                f"order_by({texts[0]!r}): a text is a value, the same for each row, so it sorts nothing. Write "
                f"col({name!r}).{ways}."
            )
        return self._as_declared(
            self._query(lambda r, name: f"SELECT * FROM {name} ORDER BY {', '.join(key.sql(r) for key in keys)}")
        )

    def offset(self, offset: int) -> Table:
        """Leave out the first rows."""
        _check_count("offset", offset)
        return self._as_declared(Table(self._environment, _sliced(self._plan, offset, None)))

    def fetch(self, fetch: int) -> Table:
        """Keep the first rows."""
        _check_count("fetch", fetch)
        return self._as_declared(Table(self._environment, _sliced(self._plan, 0, fetch)))

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """Keep some rows, behind others."""
        return (self.offset(offset) if offset else self).fetch(fetch)

    # ---- other tables

    def _refuse_names(self, names: Iterable[str]) -> None:
        """Refuse to join with columns of the same names."""
        twice = sorted(set(self.names) & set(names))
        if twice:
            raise InvalidProgram(
                f"join relations with ambiguous names: [{', '.join(twice)}]. Rename them on one side first."
            )

    def _join(self, right: Table, kind: str, predicate: Any) -> Table:
        check_kind(right, Table, "a join")
        self._refuse_names(right.names)

        def build(rendering: Rendering, name: str) -> str:
            if predicate is None:
                return f"SELECT * FROM {name}, {rendering.table(right)}"
            return (
                f"SELECT * FROM {name} {kind} {rendering.table(right)} ON {lit_or_expression(predicate).sql(rendering)}"
            )

        return self._query(build)

    def join(self, right: Table, join_predicate: Expression | bool | None = None) -> Table:
        """Join with another table; without a condition every row with every row."""
        return self._join(right, "JOIN", join_predicate)

    def left_outer_join(self, right: Table, join_predicate: Expression | bool = True) -> Table:
        """Join with another table, and keep rows of this one without a partner."""
        return self._join(right, "LEFT JOIN", join_predicate)

    def right_outer_join(self, right: Table, join_predicate: Expression | bool) -> Table:
        """Join with another table, and keep its rows without a partner."""
        return self._join(right, "RIGHT JOIN", join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Expression | bool) -> Table:
        """Join with another table, and keep rows of both without a partner."""
        return self._join(right, "FULL JOIN", join_predicate)

    def join_lateral(self, table_function_call: Applied, join_predicate: Expression | bool | None = None) -> Table:
        """Join each row with a table function's rows for it."""
        return self._lateral("JOIN", table_function_call, join_predicate)

    def left_outer_join_lateral(
        self, table_function_call: Applied, join_predicate: Expression | bool | None = None
    ) -> Table:
        """Join each row with a table function's rows for it; keep rows for which there are none."""
        return self._lateral("LEFT JOIN", table_function_call, join_predicate)

    def _lateral(self, kind: str, call: Any, predicate: Any) -> Table:
        call = self._applied(call)
        _check_function("join_lateral", call, "table", "of udtf()")
        self._refuse_names(call._names)
        condition = lit_or_expression(True if predicate is None else predicate)
        names = f"({', '.join(map(quoted, call._names))})" if call._names else ""
        return self._query(
            lambda r, name: (
                f"SELECT * FROM {name} {kind} LATERAL TABLE({call.sql(r)}) AS `$lateral`{names} ON {condition.sql(r)}"
            )
        )

    def _combined(self, right: Table, word: str) -> Table:
        check_kind(right, Table, word)
        return self._query(lambda r, name: f"SELECT * FROM {name} {word} SELECT * FROM {r.table(right)}")

    def union(self, right: Table) -> Table:
        """Return the rows of both tables, each once."""
        return self._combined(right, "UNION")

    def union_all(self, right: Table) -> Table:
        """Return the rows of both tables."""
        return self._combined(right, "UNION ALL")

    def intersect(self, right: Table) -> Table:
        """Return the rows that are in both tables, each once."""
        return self._combined(right, "INTERSECT")

    def intersect_all(self, right: Table) -> Table:
        """Return the rows that are in both tables, as often as in both."""
        return self._combined(right, "INTERSECT ALL")

    def minus(self, right: Table) -> Table:
        """Return the rows that are not in the other table, each once."""
        return self._combined(right, "EXCEPT")

    def minus_all(self, right: Table) -> Table:
        """Return the rows that the other table has less often."""
        return self._combined(right, "EXCEPT ALL")

    # ---- groups and windows

    def group_by(self, *fields: Field) -> GroupedTable:
        """Group rows by columns."""
        return GroupedTable(self, self._expanded(fields))

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Group rows by windows of time; ``group_by`` names the window."""
        if not window.name:
            raise InvalidProgram("the window has no name; give it one with alias('w').")
        return GroupWindowedTable(self, window)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Declare windows of rows, which ``over`` names."""
        return OverWindowedTable(self, {window.name: window for window in over_windows})

    # ---- functions of the program

    def map(self, func: Applied) -> Table:
        """Compute a row of each row by a function; the fields of its result are the columns.

        A function without arguments is given each row as one ``Row``; a function of pandas, all rows as a DataFrame.
        """
        call = self._applied(func)
        _check_function("map", call, "scalar", "of udf()")
        table = self._fields(self.select(call.alias("$row")))
        return table.alias(*call._names) if call._names else table

    def _applied(self, func: Applied) -> Expression:
        """Return the call of a function; a function without arguments gets whole rows."""
        from funken.table.udf import definition_of  # noqa: PLC0415 - few programs have functions

        return func if isinstance(func, Expression) else definition_of(func).of_rows(self.names)(*map(col, self.names))

    def _fields(self, table: Table, names: Sequence[str] = ()) -> Table:
        """Return a table whose last column, a ROW, is replaced by its fields, the first of which get other names."""
        *kept, last = table._plan.row_type
        if not isinstance(last.type, RowType):
            return table.select(
                *(col(column.name) for column in kept),
                col(last.name).alias("f0" if last.name == "$row" else last.name),
            )
        shown = [*names, *(field.name for field in last.type.fields[len(names) :])]
        fields = [
            col(last.name).get(field.name).alias(name) for field, name in zip(last.type.fields, shown, strict=True)
        ]
        return table.select(*(col(column.name) for column in kept), *fields)

    def flat_map(self, func: Applied) -> Table:
        """Compute any number of rows of each row by a table function."""
        call = self._applied(func)
        _check_function("flat_map", call, "table", "of udtf()")
        joined = self.join_lateral(call)
        return joined.select(*map(col, call._names or joined.names[len(self.names) :]))

    def partition_by(self, *fields: Field) -> PartitionedTable:
        """Partition rows by columns, for a process table function."""
        return PartitionedTable(self, self._expanded(fields))

    def process(self, func: Applied, *args: object) -> Table:
        """Compute rows by a process table function, whose further arguments follow."""
        return PartitionedTable(self, []).process(func, *args)

    def to_changelog(self, *args: object) -> Table:
        """Return the changes as rows: the row kind of each in a column ``op``."""
        return self._changelog("TO_CHANGELOG", args)

    def from_changelog(self, *args: object) -> Table:
        """Return the table that changes make: the column ``op`` has the row kind of each."""
        return self._changelog("FROM_CHANGELOG", args)

    def _changelog(self, function: str, args: Sequence[Any]) -> Table:
        values = [lit_or_expression(arg) for arg in args]
        return self._query(
            lambda r, name: (
                f"SELECT * FROM {function}({', '.join([f'input => TABLE {name}', *(one.sql(r) for one in values)])})"
            )
        )

    def aggregate(self, func: Applied) -> AggregatedTable:
        """Compute one row of all rows by an aggregate function."""
        return GroupedTable(self, []).aggregate(func)

    def flat_aggregate(self, func: Applied) -> FlatAggregateTable:
        """Compute any number of rows of all rows by a table aggregate function."""
        return GroupedTable(self, []).flat_aggregate(func)

    # ---- results

    def execute(self) -> TableResult:
        """Submit the job of the query, whose rows are collected."""
        return self._environment.collect(self._plan)

    def insert_into(
        self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False, conflict: str | None = None
    ) -> TablePipeline:
        """Return the table on its way into another, by path or descriptor."""
        from funken.table.execution import binder  # noqa: PLC0415 - loads the parser

        environment, target = self._environment, table_path_or_descriptor
        bind = binder(environment)
        if isinstance(target, str):
            found = environment.catalogs.table(path_parts(target))
        else:
            name = f"*anonymous_sink${environment._inline}*"
            environment._inline += 1
            if target.schema is None:  # a sink without columns has those of the table
                target = replace(target, schema=self._columns())
            environment.create_temporary_table(name, target, parts=[name])
            found = environment.catalogs.table([name])
        if not isinstance(found, ResolvedTable):
            raise InvalidProgram(f"{target!r} is a view; only tables can be written.")
        return environment.pipeline(bind.insert_plan(self._plan, found, overwrite, conflict))

    def _columns(self) -> Schema:
        row_type = self._plan.row_type
        return Schema.new_builder().from_fields(list(row_type.names), list(row_type.types)).build()

    def execute_insert(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TableResult:
        """Submit the job that writes the table into another."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows that are left when all changes are applied, as a DataFrame of pandas.

        Times are in the unit of their precision: TIMESTAMP(3) is ``datetime64[ms]``.
        """
        from funken.table.collecting import in_units  # noqa: PLC0415 - loads Arrow

        frame = in_units(self.to_arrow(), self._plan.row_type.types).to_pandas()
        frame.columns = self.names
        return frame

    def to_arrow(self) -> pa.Table:
        """Return the rows that are left when all changes are applied, as a table of Arrow."""
        from funken.table.collecting import arrow_of  # noqa: PLC0415 - loads Arrow

        with self._environment.collect(self._plan, whole=True).collect() as rows:
            return arrow_of(rows, self._plan.row_type)

    def explain(self, *extra_details: ExplainDetail | str) -> str:
        """Return the plans of the query as text."""
        from funken.table.execution import explained  # noqa: PLC0415 - loads the parser

        return explained(self._environment, [LogicalSink(self._plan, None, collect="explain")], extra_details)

    def print_explain(self, *extra_details: ExplainDetail | str) -> Table:
        """Print the plans of the query."""
        print(self.explain(*extra_details))  # noqa: T201 - that is what it is for
        return self

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns and their types; of a table as it is in a catalog also watermark and key."""
        self._environment.unused = False
        return self._declared or ResolvedSchema.of_plan(
            self._plan, not self._environment.is_streaming, self._event_time
        )

    get_schema = get_resolved_schema

    def print_schema(self) -> None:
        """Print the columns and their types."""
        print(self.get_resolved_schema())  # noqa: T201 - that is what it is for


def _check_function(method: str, call: Expression, kind: str, maker: str) -> None:
    """Raise ``InvalidProgram`` for a function of another kind."""
    found = call._function
    if isinstance(found, FunctionDefinition) and found.kind != kind:
        article = "an" if kind == "aggregate" else "a"
        raise InvalidProgram(
            f"{method}() takes {article} {kind} function, {maker}, but {call} is one of kind {found.kind}."
        )


def _check_count(what: str, rows: int) -> None:
    check_kind(rows, int, f"{what}()")
    if rows < 0:
        raise InvalidProgram(f"{what}() takes a number of rows from 0 on, but it is {rows}.")


def _items(fields: Sequence[Expression], rendering: Rendering) -> list[str]:
    """Return the items of a SELECT list, those without a name under Flink's name."""
    items = []
    for place, one in enumerate(fields):
        text = one.sql(rendering)
        if one._names:
            items.append(f"{text} AS {quoted(one._names[0])}")
        elif one._column is not None or text.endswith((".*", " *")) or text == "*":
            items.append(text)
        else:
            items.append(f"{text} AS {quoted(rendering.item_name(one, place))}")
    return items


class GroupedTable:
    """A table grouped by columns: ``select`` computes them and aggregates."""

    def __init__(self, table: Table, keys: list[Expression], windows: dict[str, GroupWindow] | None = None) -> None:
        named = [key for key in keys if key._names and key._plain is not None]
        if named:  # the name of a computed key is that of a column
            table = table.add_columns(*named)
            keys = [col(key._names[0]) if key._names and key._plain is not None else key for key in keys]
        self._table = table
        self._keys = keys
        self._windows: dict[str, Any] = dict(windows or {})

    def _group(self, rendering: Rendering) -> str:
        parts = []
        for key in self._keys:
            window = self._windows.get(key._column or "")
            if window is not None:
                kind, arguments = window.group(rendering)
                parts.append(f"`${kind}`({arguments})")
            else:
                parts.append(key.sql(rendering))
        return ", ".join(parts) or "()"

    def select(self, *fields: Field) -> Table:
        """Compute columns of each group."""
        group = self._group if self._keys else None
        return self._table._selected(fields, "", self._windows, group)

    def aggregate(self, func: Applied) -> AggregatedTable:
        """Compute one row of each group by an aggregate function."""
        call = self._table._applied(func)
        _check_function("aggregate", call, "aggregate", "of udaf() for example")
        return AggregatedTable(self, call)

    def flat_aggregate(self, func: Applied) -> FlatAggregateTable:
        """Compute any number of rows of each group by a table aggregate function."""
        call = self._table._applied(func)
        if not isinstance(call._function, TableAggregateDefinition):
            raise InvalidProgram(f"flat_aggregate() takes a table aggregate function, of udtaf(), but {call} is none.")
        rows = call._function.as_array()(*call._arguments)
        return FlatAggregateTable(self, rows.alias(*call._names) if call._names else rows)

    def _rows(self, call: Expression, fields: Sequence[Any]) -> tuple[Table, list[str], list[str], dict[str, Any]]:
        """Return a table of keys, properties of windows that fields ask for, and a call.

        With it are the names of keys, those of properties, and windows whose properties are these columns.
        """
        keys = [key for key in self._keys if (key._column or "") not in self._windows]
        with Rendering(self._table._environment, self._windows) as rendering:
            for field in fields if self._windows else ():
                (col(field) if isinstance(field, str) else lit_or_expression(field)).sql(rendering)
        columns = {(name, suffix): f"${name}.{suffix}" for name, suffix in rendering.properties}
        found = [getattr(col(name), suffix.lower()).alias(column) for (name, suffix), column in columns.items()]
        names = [key._column or f"_k{place}" for place, key in enumerate(keys)]
        windows = dict.fromkeys(self._windows, WindowProperties(columns))
        return self.select(*keys, *found, call), names, [*columns.values()], windows


class PartitionedTable:
    """A table whose rows belong to partitions."""

    def __init__(self, table: Table, keys: list[Expression]) -> None:
        self._table = table
        self._keys = keys

    def process(self, func: Applied, *args: object) -> Table:
        """Compute rows by a process table function, whose further arguments follow."""
        values = [lit_or_expression(arg) for arg in args]
        named = any(str(value).startswith("ASSIGNMENT(") for value in values)

        def build(rendering: Rendering, name: str) -> str:
            function = func if isinstance(func, str) else rendering.function(func)
            keys = ", ".join(key.sql(rendering) for key in self._keys)
            table = f"TABLE {name}{f' PARTITION BY {keys}' if keys else ''}"
            if named:
                table = f"{_table_argument(func)} => {table}"
            return f"SELECT * FROM {function}({', '.join([table, *(one.sql(rendering) for one in values)])})"

        return self._table._query(build)


def _table_argument(func: Applied) -> str:
    """Return the name of the table argument of a process table function."""
    from funken.table.udf import definition_of  # noqa: PLC0415 - they refer to one another

    if isinstance(func, str):
        raise InvalidProgram(f"name the table argument of {func!r}, too: pass the function instead of its name.")
    names = [one.name for one in definition_of(func).signature if one.kind == "table"]
    return quoted(names[0])


class AggregatedTable:
    """Groups with the result of an aggregate function: ``select`` chooses columns."""

    def __init__(self, grouped: GroupedTable, call: Expression) -> None:
        self._grouped = grouped
        self._call = call

    def select(self, *fields: Field) -> Table:
        """Choose columns of the groups and of the results."""
        call = Expression(self._call._render, str(self._call)).alias("$row")
        rows, _, hidden, windows = self._grouped._rows(call, fields)
        *before, last = rows._plan.row_type
        if isinstance(last.type, RowType):
            given = self._call._names
            taken = {column.name for column in before}
            own = [field.name for field in last.type.fields[len(given) :]]
            rows = rows._fields(rows, [*given, *(f"{name}_0" if name in taken else name for name in own)])
        else:
            rows = rows.alias(*(column.name for column in before), *(self._call._names or ("_c0",))[:1])
        return _without_hidden(rows, hidden, fields, windows)


def _without_hidden(rows: Table, hidden: list[str], fields: Sequence[Any], windows: dict[str, Any]) -> Table:
    """Return some columns; all but the hidden ones, if none are named."""
    shown = rows.drop_columns(*map(col, hidden)) if hidden else rows
    return rows._selected(shown._expanded(fields), "", windows) if fields else shown


class FlatAggregateTable:
    """Groups with the rows of a table aggregate function: ``select`` chooses columns."""

    def __init__(self, grouped: GroupedTable, call: Expression) -> None:
        self._grouped = grouped
        self._call = call

    def select(self, *fields: Field) -> Table:
        """Choose columns of the groups and of the rows."""
        rows, names, hidden, windows = self._grouped._rows(self._call.alias("$rows"), fields)
        *before, last = rows._plan.row_type
        assert isinstance(last.type, ArrayType)
        assert isinstance(last.type.element, RowType)
        given = self._call._names or tuple(field.name for field in last.type.element.fields)
        columns = ", ".join(map(quoted, given))
        kept = "".join(f"{quoted(column.name)}, " for column in before)
        found = rows._query(
            lambda r, name: f"SELECT {kept}{columns} FROM {name} CROSS JOIN UNNEST(`$rows`) AS `$row`({columns})"
        )
        found = found.alias(*names, *hidden, *given)
        return _without_hidden(found, hidden, fields, windows)


class GroupWindowedTable:
    """A table with a window that is to be named in ``group_by``."""

    def __init__(self, table: Table, window: GroupWindow) -> None:
        self._table = table
        self._window = window

    def group_by(self, *fields: Field) -> WindowGroupedTable:
        """Group rows by the window, and by columns."""
        keys = self._table._expanded(fields)
        if all(key._column != self._window.name for key in keys):
            raise InvalidProgram(f"group_by() does not name the window {self._window.name!r}.")
        return WindowGroupedTable(self._table, keys, {self._window.name: self._window})


class WindowGroupedTable(GroupedTable):
    """A table grouped by windows."""


class OverWindowedTable:
    """A table with windows of rows: ``select`` names them in ``over``."""

    def __init__(self, table: Table, windows: dict[str, OverWindow]) -> None:
        self._table = table
        self._windows: dict[str, Any] = dict(windows)

    def select(self, *fields: Field) -> Table:
        """Compute columns."""
        table = self._table._selected(fields, "", self._windows)
        if not any(isinstance(node, LogicalOver) for node in walk(table.plan)):
            warn(
                f"no column is computed over the window {', '.join(map(repr, self._windows))}. Write it behind an aggregate, as "
                f"in col('a').sum.over(col({next(iter(self._windows))!r}))."
            )
        return table
