"""``DataFrame``: a table whose methods are verbs; each gives another frame, bound at once and executed by an action."""

from __future__ import annotations

import datetime
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, overload

from funken.dataframe import arguments as given
from funken.dataframe.arguments import Flags
from funken.dataframe.joining import joined
from funken.dataframe.types import DataType
from funken.plan.advice import missing_name
from funken.table.expression import Expression, sql_literal
from funken.table.expression import col as table_col
from funken.table.expression import lit as table_lit
from funken.table.expressions import and_, call_sql
from funken.table.table import Table
from funken.table.types import MapType, quoted
from funken.types.row import Row

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from funken.dataframe.iteration import ResultIterator
    from funken.table.descriptors import ExplainDetail
    from funken.table.rendering import Rendering
    from funken.table.schema import ResolvedSchema
    from funken.table.statement_set import StatementSet

T = TypeVar("T")
P = ParamSpec("P")
Column: TypeAlias = str | Expression
"""A column by its name, or as an expression."""
Interval: TypeAlias = datetime.timedelta | Expression
"""A length of time."""


def col(name: str) -> Expression:
    """Return a column by its name.

    >>> str(col("price") * 2)
    'times(price, 2)'
    """
    return table_col(name)


def lit(value: object, data_type: DataType | None = None) -> Expression:
    """Return a constant, of a type if one is named.

    >>> str(lit("active"))
    "'active'"
    """
    if data_type is not None and not isinstance(data_type, DataType):
        raise TypeError(f"the type of lit() is a DataType, but got {data_type!r}. Write DataType.int64(), say.")
    return table_lit(value, data_type)


Keys: TypeAlias = Column | Sequence[Column] | None


class DataFrame:
    """Rows with named, typed columns: a query under construction, over streams and over bounded data alike.

    >>> from funken.dataframe import from_dict
    >>> orders = from_dict({"user": ["a", "b", "a"], "amount": [5, 7, 3]})
    >>> orders.group_by("user").agg(total=col("amount").sum).columns
    ['user', 'total']
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    # ---- columns

    @property
    def schema(self) -> ResolvedSchema:
        """The columns with their types."""
        return self._table.get_resolved_schema()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._table.names

    def __repr__(self) -> str:
        return f"<DataFrame {self._table.plan.row_type}>"

    @overload
    def __getitem__(self, key: str) -> Expression: ...

    @overload
    def __getitem__(self, key: list[str] | tuple[str, ...] | Expression) -> DataFrame: ...

    def __getitem__(self, key: object) -> Expression | DataFrame:
        """Return a column by its name, a frame of some columns by a list, or one of some rows by a condition."""
        if isinstance(key, str):
            return table_col(key)
        if isinstance(key, list | tuple):
            return self.select(list(key))
        if isinstance(key, Expression):
            return self.filter(key)
        raise TypeError(
            f"a frame is indexed by a name, a list of columns or a condition, but got {key!r}. It has no rows here: "
            "iter_rows() and collect() return them."
        )

    def __getattr__(self, name: str) -> Expression:
        if not name.startswith("_") and not keyword.iskeyword(name) and name in self._table.names:
            return table_col(name)
        raise AttributeError(missing_name(type(self), name, self._table.names), name=name, obj=None)

    def select(self, *columns: Column | Sequence[Column], **projections: Expression) -> DataFrame:
        """Choose columns, by name or as expressions, alone or in lists; named expressions come last.

        >>> from funken.dataframe import range
        >>> range(2).select("id", double=col("id") * 2).collect()
        [<Row(0, 0)>, <Row(1, 2)>]
        """
        chosen = [given.column(one, "columns") for each in columns for one in given.listed(each)]
        return DataFrame(self._table.select(*chosen, *given.named(projections, "projections")))

    def with_column(self, name: str, expr: Expression | Callable[[DataFrame], Expression]) -> DataFrame:
        """Add a column, or replace the one of that name; ``expr`` is an expression, or a function of the frame."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a column is a string, but with_column() got {name!r}.")
        return DataFrame(self._table.add_or_replace_columns(given.expression(expr, self, "expr").alias(name)))

    def with_columns(self, *exprs: Expression, **named_exprs: Expression) -> DataFrame:
        """Add or replace columns: expressions with an alias, then expressions by name."""
        added = [given.expression(one, None, "exprs") for one in exprs] + given.named(named_exprs, "named_exprs")
        return DataFrame(self._table.add_or_replace_columns(*added))

    def drop_columns(self, *columns: str | Expression, strict: bool = True) -> DataFrame:
        """Drop columns; ``ValueError`` for a name that there is not, unless ``strict`` is False."""
        if not isinstance(strict, bool):
            raise TypeError(f"strict must be a boolean, but got {strict!r}.")
        dropped = []
        for one in columns:
            if isinstance(one, str) and one not in self.columns:
                if strict:
                    given.known([one], self.columns, "drop_columns()")
                continue
            dropped.append(given.column(one, "columns"))
        return DataFrame(self._table.drop_columns(*dropped)) if dropped else self

    drop = drop_columns

    def rename_columns(
        self, *args: str | Mapping[str, str] | Callable[[str], str], mapping: Mapping[str, str] | None = None
    ) -> DataFrame:
        """Rename columns: by a dict, by a function of names, or by old and new names in turns; unknown names are ignored.

        >>> from funken.dataframe import from_dict
        >>> from_dict({"a": [1], "b": [2]}).rename("a", "x").rename(str.upper).columns
        ['X', 'B']
        """
        renamed = given.renaming(args, mapping, self.columns)
        if not renamed:
            return self
        return DataFrame(self._table.rename_columns(*(table_col(old).alias(new) for old, new in renamed.items())))

    rename = rename_columns

    # ---- rows

    def filter(self, *predicates: Column | Callable[[DataFrame], Expression], **constraints: object) -> DataFrame:
        """Keep the rows for which all conditions hold.

        A predicate is an expression, SQL, or a function of the frame; a keyword is the value of a column, ``None`` for NULL.

        >>> from funken.dataframe import from_records
        >>> people = from_records([{"name": "Ann", "age": 30}, {"name": None, "age": 17}])
        >>> people.filter("age < 18", name=None).collect()
        [<Row(None, 17)>]
        """
        if not predicates and not constraints:
            raise ValueError("filter() requires at least one predicate or equality constraint.")
        conditions = [
            call_sql(one) if isinstance(one, str) else given.expression(one, self, "predicates") for one in predicates
        ]
        for name, value in constraints.items():
            column: Any = table_col(name)
            conditions.append(column.is_null if value is None else column == table_lit(value))
        return DataFrame(self._table.filter(conditions[0] if len(conditions) == 1 else and_(*conditions)))

    where = filter

    def drop_duplicates(
        self, subset: Keys = None, *, keep: str = "first", order_by: Keys = None, nulls_first: Flags = None
    ) -> DataFrame:
        """Keep one of the rows that are equal, in all columns or in those of ``subset``.

        ``order_by`` says which is the first or the last one; without it, the order of arrival counts.

        >>> from funken.dataframe import from_records
        >>> seen = from_records([(1, 5), (1, 2), (2, 9)], schema=["id", "at"])
        >>> sorted(seen.drop_duplicates("id", order_by="at", keep="last").to_pandas().values.tolist())
        [[1, 5], [2, 9]]
        """
        if keep not in ("first", "last"):
            raise ValueError(f"keep must be 'first' or 'last', but got {keep!r}.")
        if order_by is None and nulls_first is not None:
            raise ValueError("nulls_first requires order_by.")
        if subset is None:
            if order_by is not None:
                raise ValueError("order_by requires subset; rows that are equal in all columns have no order.")
            return DataFrame(self._table.distinct())
        keys = given.known(given.names(subset, "subset"), self.columns, "subset")
        order = [call_sql("PROCTIME()")] if order_by is None else given.sort_keys(order_by, self.columns, "order_by")
        return self._ranked(
            keys, order, [keep == "last"] * len(order), given.flags(nulls_first, order, "nulls_first"), 1
        )

    distinct = drop_duplicates
    unique = drop_duplicates

    def top_n(
        self,
        n: int,
        *,
        partition_by: Keys = None,
        order_by: Keys = None,
        descending: Flags = False,
        nulls_first: Flags = None,
    ) -> DataFrame:
        """Keep the first ``n`` rows of each partition: the smallest by ``order_by``, the largest if ``descending``."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"n must be an integer >= 1, but got {n!r}.")
        if given.is_none(order_by):
            raise TypeError("top_n() requires a non-empty order_by.")
        partition = [] if given.is_none(partition_by) else given.names(partition_by, "partition_by")
        given.known(partition, self.columns, "partition_by")
        order = given.sort_keys(order_by, self.columns, "order_by")
        directions = given.flags(descending, order, "descending")
        return self._ranked(partition, order, directions, given.flags(nulls_first, order, "nulls_first"), n)

    def _ranked(
        self,
        partition: Sequence[str],
        order: Sequence[Expression],
        descending: Sequence[Any],
        nulls: Sequence[Any],
        n: int,
    ) -> DataFrame:
        number = given.free_name("row_number", self.columns)

        def build(rendering: Rendering, name: str) -> str:
            over = f"PARTITION BY {', '.join(map(quoted, partition))} " if partition else ""
            keys = given.sort_clause(order, descending, nulls, rendering)
            inner = f"SELECT *, ROW_NUMBER() OVER ({over}ORDER BY {keys}) AS {quoted(number)} FROM {name}"
            return f"SELECT {', '.join(map(quoted, self.columns))} FROM ({inner}) WHERE {quoted(number)} <= {n}"

        return DataFrame(self._table._query(build))

    def sort(self, by: Column | Sequence[Column], *, descending: Flags = False, nulls_first: Flags = None) -> DataFrame:
        """Sort rows; on a stream the first key is an ascending time attribute, or ``limit`` follows.

        NULL is the smallest value, unless ``nulls_first`` says where it stands.
        """
        order = given.sort_keys(by, self.columns, "by")
        directions = given.flags(descending, order, "descending")
        nulls = given.flags(nulls_first, order, "nulls_first")
        return DataFrame(
            self._table._query(
                lambda r, name: f"SELECT * FROM {name} ORDER BY {given.sort_clause(order, directions, nulls, r)}"
            )
        )

    def limit(self, n: int) -> DataFrame:
        """Keep the first ``n`` rows."""
        return DataFrame(self._table.fetch(given.count(n)))

    head = limit

    def offset(self, n: int) -> DataFrame:
        """Leave out the first ``n`` rows."""
        return DataFrame(self._table.offset(given.count(n)))

    def drop_null(self, subset: Column | Sequence[Column] | None = None) -> DataFrame:
        """Keep the rows without NULL, in all columns or in those of ``subset``."""
        columns = self.columns if subset is None else given.known(given.names(subset, "subset"), self.columns, "subset")
        return self.filter(*(table_col(name).is_not_null for name in columns))

    def fill_null(self, value: object, subset: Column | Sequence[Column] | None = None) -> DataFrame:
        """Replace NULL by a value, in the columns of ``subset``; or by the values of a dict, by column."""
        values = value if isinstance(value, Mapping) else dict.fromkeys(
            self.columns if subset is None else given.names(subset, "subset"), value
        )  # fmt: skip
        given.known(list(values), self.columns, "fill_null()")
        filled: list[Any] = [table_col(name).if_null(table_lit(one)).alias(name) for name, one in values.items()]
        return DataFrame(self._table.add_or_replace_columns(*filled))

    def explode(
        self, column: str, output_column: str | Sequence[str] | None = None, ignore_empty_and_null: bool = False
    ) -> DataFrame:
        """Make a row of each element of an ARRAY, MAP or MULTISET, in the column's place.

        A MAP gives two columns, ``(key, value)`` unless ``output_column`` names them. NULL and an empty collection give a row
        of NULL, unless ``ignore_empty_and_null``.

        >>> from funken.dataframe import from_dict
        >>> from_dict({"id": [1, 2], "tags": [["a", "b"], []]}).explode("tags", "tag").collect()
        [<Row(1, 'a')>, <Row(1, 'b')>, <Row(2, None)>]
        """
        [column] = given.known([column], self.columns, "column")
        type_ = next(one.type for one in self._table.plan.row_type if one.name == column)
        width = 2 if isinstance(type_, MapType) else 1
        default = ["key", "value"] if width == 2 else [column]
        outputs = default if output_column is None else given.names(output_column, "output_column")
        if len(outputs) != width:
            raise ValueError(f"explode() of a {type_} makes {width} column(s), but output_column names {len(outputs)}.")
        inner = [given.free_name(f"element{place}", self.columns) for place in range(width)]
        items = [
            ", ".join(f"`$e`.{quoted(one)} AS {quoted(out)}" for one, out in zip(inner, outputs, strict=True))
            if name == column
            else quoted(name)
            for name in self.columns
        ]
        kind, condition = ("CROSS JOIN", "") if ignore_empty_and_null else ("LEFT JOIN", " ON TRUE")
        names = ", ".join(map(quoted, inner))
        source = f"UNNEST({quoted(column)}) AS `$e`({names})"
        return DataFrame(
            self._table._query(lambda r, name: f"SELECT {', '.join(items)} FROM {name} {kind} {source}{condition}")
        )

    # ---- other frames

    def join(
        self, other: DataFrame, *, on: Keys = None, how: str = "inner", left_on: Keys = None, right_on: Keys = None
    ) -> DataFrame:
        """Join with another frame: by columns of both (``on``), of each (``left_on``, ``right_on``), or by a condition (``on``).

        ``how`` is inner, left, right, full (outer), semi, anti or cross. Columns of ``on`` appear once; other names must differ
        (``ValueError``), so rename first. A semi join keeps the rows with a partner, an anti join those without.

        >>> from funken.dataframe import from_records
        >>> orders = from_records([(1, 10), (2, 20)], schema=["user", "amount"])
        >>> users = from_records([(1, "Ann")], schema=["user", "name"])
        >>> orders.join(users, on="user").collect(), orders.join(users, on="user", how="anti").to_pandas().values.tolist()
        ([<Row(1, 10, 'Ann')>], [[2, 20]])
        """
        if not isinstance(other, DataFrame):
            raise TypeError(f"join() takes another DataFrame, but got a {type(other).__name__}.")
        return DataFrame(joined(self._table, other._table, on, how, left_on, right_on))

    def join_lateral(self, table_function_call: Expression, how: str = "inner") -> DataFrame:
        """Join each row with a table function's rows for it; ``how="left"`` keeps rows for which there are none."""
        if how not in ("inner", "left"):
            raise ValueError(f"how must be 'inner' or 'left' for join_lateral(), but got {how!r}.")
        call = table_function_call
        names = given.output_names(call)
        if names and not call._names:
            call = call.alias(*names)
        lateral = self._table.join_lateral if how == "inner" else self._table.left_outer_join_lateral
        return DataFrame(lateral(call))

    def _combined(self, other: Any, method: str) -> DataFrame:
        if not isinstance(other, DataFrame):
            raise TypeError(f"{method}() takes another DataFrame, but got a {type(other).__name__}.")
        return DataFrame(getattr(self._table, method)(other._table))

    def union(self, other: DataFrame) -> DataFrame:
        """Return the rows of both frames, each once; columns go by position."""
        return self._combined(other, "union")

    def union_all(self, other: DataFrame) -> DataFrame:
        """Return the rows of both frames; columns go by position."""
        return self._combined(other, "union_all")

    def intersect(self, other: DataFrame) -> DataFrame:
        """Return the rows that are in both frames, each once; columns go by position."""
        return self._combined(other, "intersect")

    def intersect_all(self, other: DataFrame) -> DataFrame:
        """Return the rows that are in both frames, as often as in both; columns go by position."""
        return self._combined(other, "intersect_all")

    def minus(self, other: DataFrame) -> DataFrame:
        """Return the rows that are not in the other frame, each once; columns go by position."""
        return self._combined(other, "minus")

    def minus_all(self, other: DataFrame) -> DataFrame:
        """Return the rows that the other frame has less often; columns go by position."""
        return self._combined(other, "minus_all")

    # ---- groups and windows

    def group_by(self, *columns: str | Expression) -> GroupedDataFrame:
        """Group rows by columns or expressions, for ``agg``."""
        if not columns:
            raise ValueError("group_by() requires at least one grouping key; agg() alone is over all rows.")
        return GroupedDataFrame(self, [given.column(one, "grouping keys") for one in columns])

    def agg(self, *aggs: Expression, **named_aggs: Expression) -> DataFrame:
        """Aggregate all rows into one."""
        return DataFrame(self._table.select(*given.aggregates(aggs, named_aggs)))

    def tumble(self, *, on: Column, size: Interval) -> DataFrame:
        """Assign rows to windows that follow one another; adds ``window_start``, ``window_end`` and ``window_time``.

        ``on`` is a time attribute, ``size`` a ``timedelta`` or an interval (``lit(10).minutes``). ``group_by`` names the window.
        """
        return self._windowed("TUMBLE", on, (size,))

    def hop(self, *, on: Column, slide: Interval, size: Interval) -> DataFrame:
        """Assign rows to windows of a size, one of which begins every ``slide``; a row may be in several."""
        return self._windowed("HOP", on, (slide, size))

    def cumulate(self, *, on: Column, step: Interval, size: Interval) -> DataFrame:
        """Assign rows to windows that begin together and grow by ``step`` up to ``size``."""
        return self._windowed("CUMULATE", on, (step, size))

    def session(self, *, on: Column, gap: Interval, partition_by: Column | Sequence[Column] | None = None) -> DataFrame:
        """Assign rows to windows that end when nothing came for ``gap``: over all rows, or in each partition."""
        keys = [] if partition_by is None else given.listed(partition_by)
        return self._windowed("SESSION", on, (gap,), [given.column_name(one, "partition_by") for one in keys])

    def _windowed(self, kind: str, on: Any, sizes: Sequence[Any], keys: Sequence[str] = ()) -> DataFrame:
        time = given.known([given.column_name(on, "on")], self.columns, "on")[0]
        given.known(keys, self.columns, "partition_by")

        def build(rendering: Rendering, name: str) -> str:
            intervals = [
                sql_literal(one) if isinstance(one, datetime.timedelta) else given.interval(one).sql(rendering)
                for one in sizes
            ]
            partition = f" PARTITION BY {', '.join(map(quoted, keys))}" if keys else ""
            return f"SELECT * FROM TABLE({kind}(TABLE {name}{partition}, DESCRIPTOR({quoted(time)}), {', '.join(intervals)}))"

        return DataFrame(self._table._query(build))

    # ---- functions of records

    def map(self, func: Callable[[dict[str, Any]], object], *, return_dtype: object = None) -> DataFrame:
        """Compute a row of each row: ``func`` gets a dict, and returns a dict, a tuple, or a value of the column ``f0``.

        >>> from funken.dataframe import range
        >>> range(2).map(lambda record: {"square": record["id"] ** 2}, return_dtype="ROW<square BIGINT>").collect()
        [<Row(0)>, <Row(1)>]
        """
        from funken.dataframe.functions import record_function  # noqa: PLC0415 - only for functions of the program

        function, type_ = record_function(func, return_dtype, self.columns, emits=False)
        called = function(*map(table_col, self.columns))
        return DataFrame(self._table.map(called).alias(*given.field_names(type_)))

    def map_batches(
        self, func: Callable[..., object], *, return_dtype: object, batch_format: str = "pandas"
    ) -> DataFrame:
        """Compute rows of batches: ``func`` gets a DataFrame of pandas (or ``pyarrow.Table``), and returns one as long."""
        from funken.dataframe.functions import batch_function  # noqa: PLC0415 - only for functions of the program

        function = batch_function(func, return_dtype, self.columns, batch_format)
        called = function(*map(table_col, self.columns))
        return DataFrame(self._table.map(called).alias(*given.field_names(function.result_type([]))))

    def flat_map(self, func: Callable[[dict[str, Any]], Iterable[object]], *, return_dtype: object = None) -> DataFrame:
        """Compute any number of rows of each row: ``func`` gets a dict, and yields or returns dicts, tuples or values.

        >>> from funken.dataframe import from_dict
        >>> from_dict({"text": ["to be", "or"]}).flat_map(lambda record: record["text"].split(), return_dtype=str).collect()
        [<Row('to')>, <Row('be')>, <Row('or')>]
        """
        from funken.dataframe.functions import record_function  # noqa: PLC0415 - only for functions of the program

        function, type_ = record_function(func, return_dtype, self.columns, emits=True)
        names = [given.free_name(name, self.columns) for name in given.field_names(type_)]
        rows = self._table.flat_map(function(*map(table_col, self.columns)).alias(*names))
        return DataFrame(rows.alias(*given.field_names(type_)))

    def pipe(self, func: Callable[Concatenate[DataFrame, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return ``func(frame, *args, **kwargs)``."""
        return func(self, *args, **kwargs)

    # ---- results

    def collect(self) -> list[Row]:
        """Execute the query, and return its rows; those of a stream are changes, each with its row kind."""
        with self._table.execute().collect() as rows:
            return list(rows)

    def to_table(self) -> Table:
        """Return the table of the Table API."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Execute the query, and return the rows that are left when all changes are applied, as a DataFrame of pandas."""
        return self._table.to_pandas()

    def to_arrow(self) -> pa.Table:
        """Execute the query, and return the rows that are left when all changes are applied, as a table of Arrow."""
        return self._table.to_arrow()

    def iter_rows(
        self, include_row_kind: bool = False, row_kind_field: str = "__row_kind__"
    ) -> ResultIterator[dict[str, Any]]:
        """Execute the query, and return its rows as dicts while they come; closing the iterator cancels the job.

        >>> from funken.dataframe import range
        >>> with range(2).iter_rows(include_row_kind=True, row_kind_field="op") as rows:
        ...     next(rows)
        {'id': 0, 'op': '+I'}
        """
        from funken.dataframe.iteration import rows_of  # noqa: PLC0415 - only to iterate

        return rows_of(self._table, given.kind_field(self.columns, include_row_kind, row_kind_field))

    def iter_batches(
        self,
        batch_size: int = 1000,
        batch_format: str = "pandas",
        include_row_kind: bool = False,
        row_kind_field: str = "__row_kind__",
    ) -> ResultIterator[Any]:
        """Execute the query, and return its rows in DataFrames of pandas, or ``pyarrow`` tables, while they come."""
        from funken.dataframe.iteration import batches_of  # noqa: PLC0415 - only to iterate

        kind = given.kind_field(self.columns, include_row_kind, row_kind_field)
        return batches_of(self._table, given.batch_size(batch_size), given.batch_format(batch_format), kind)

    def take(
        self, n: int, timeout: float | None = None, include_row_kind: bool = False, row_kind_field: str = "__row_kind__"
    ) -> list[dict[str, Any]]:
        """Return the first ``n`` rows as dicts, or those that came within ``timeout`` seconds; then the job is cancelled."""
        from funken.dataframe.iteration import taken  # noqa: PLC0415 - only to iterate

        kind = given.kind_field(self.columns, include_row_kind, row_kind_field)
        return taken(self._table, given.count(n), given.timeout(timeout), kind)

    def take_batch(
        self,
        n: int,
        timeout: float | None = None,
        batch_format: str = "pandas",
        include_row_kind: bool = False,
        row_kind_field: str = "__row_kind__",
    ) -> Any:
        """Return the first ``n`` rows in one batch, or those that came within ``timeout`` seconds."""
        from funken.dataframe.iteration import batch_of, taken_rows  # noqa: PLC0415 - only to iterate

        kind = given.kind_field(self.columns, include_row_kind, row_kind_field)
        rows = taken_rows(self._table, given.count(n), given.timeout(timeout))
        return batch_of(rows, self._table.plan.row_type, given.batch_format(batch_format), kind)

    def show(self, n: int = 20) -> None:
        """Print the first ``n`` rows.

        >>> from funken.dataframe import range
        >>> range(3).show(2)
        +----+
        | id |
        +----+
        |  0 |
        |  1 |
        +----+
        """
        from funken.dataframe.iteration import shown  # noqa: PLC0415 - only to print

        print(shown(self._table, given.count(n)))  # noqa: T201 - that is what it is for

    def _repr_html_(self) -> str:
        from funken.dataframe.iteration import first_rows  # noqa: PLC0415 - only in notebooks
        from funken.table.notebook import RowsOfCell  # noqa: PLC0415

        if not self._bounded():
            return RowsOfCell(self.columns, [])._repr_html_()
        result, rows = first_rows(self._table, 20)
        return RowsOfCell(result.header(), list(map(result.cells, rows)))._repr_html_()

    def _bounded(self) -> bool:
        return not self._table._environment.is_streaming

    def explain(self, *extra_details: ExplainDetail | str) -> str:
        """Return the plans of the query as text."""
        return self._table.explain(*extra_details)

    # ---- writes

    def write_generic(
        self, connector: str, *, options: Mapping[str, str], statement_set: StatementSet | None = None
    ) -> None:
        """Write the rows through a connector with its options as in ``CREATE TABLE``; wait for the end of the job.

        A write into a ``statement_set`` starts with that set.
        """
        self._write(connector, options, statement_set=statement_set)

    def write_parquet(
        self,
        path: str,
        *,
        mode: str = "append",
        partition_by: Keys = None,
        compression: str | None = None,
        utc_timezone: bool | None = None,
        statement_set: StatementSet | None = None,
        **parameters: Any,
    ) -> None:
        """Write Parquet files into a folder; ``mode="overwrite"`` replaces its files (batch).

        ``parameters`` are the options of files that ``write_json`` has as well: ``rolling_policy_file_size``,
        ``partition_commit_trigger``, ``connector_options``, ``format_options``.
        """
        own = {"compression": compression, "utc-timezone": utc_timezone}
        self._write_files(path, "parquet", own, mode, partition_by, statement_set, parameters)

    def write_json(
        self,
        path: str,
        *,
        mode: str = "append",
        partition_by: Keys = None,
        timestamp_format: str | None = None,
        ignore_null_fields: bool | None = None,
        decimal_as_plain_number: bool | None = None,
        statement_set: StatementSet | None = None,
        **parameters: Any,
    ) -> None:
        """Write files with a JSON object per line into a folder; ``mode="overwrite"`` replaces its files (batch)."""
        own = {
            "timestamp-format.standard": timestamp_format,
            "encode.ignore-null-fields": ignore_null_fields,
            "encode.decimal-as-plain-number": decimal_as_plain_number,
        }
        self._write_files(path, "json", own, mode, partition_by, statement_set, parameters)

    def _write_files(
        self, path: str, format_: str, own: Mapping[str, Any], mode: str, partition_by: Any, statement_set: Any,
        parameters: dict[str, Any],
    ) -> None:  # fmt: skip
        from funken.dataframe.options import file_sink_options  # noqa: PLC0415 - only to write

        self._write("filesystem", file_sink_options(path, format_, own, parameters), mode, partition_by, statement_set)

    def write_kafka(
        self, bootstrap_servers: str, topic: str, *, statement_set: StatementSet | None = None, **parameters: Any
    ) -> None:
        """Write rows as records of a topic of Kafka; ``parameters`` are those of ``funken.dataframe.read_kafka`` that a sink has.

        ``value_format`` (json), ``key_format`` with ``key_fields``, ``delivery_guarantee`` with ``transactional_id_prefix``,
        ``partitioner``, ``sink_parallelism``, ``properties``, ``connector_options``.
        """
        from funken.dataframe.options import kafka_sink_options  # noqa: PLC0415 - only to write

        self._write("kafka", kafka_sink_options(bootstrap_servers, topic, parameters), statement_set=statement_set)

    def write_catalog_table(
        self, path: str, *, overwrite: bool = False, statement_set: StatementSet | None = None
    ) -> None:
        """Write rows into a table of a catalog; ``overwrite`` replaces its rows (batch)."""
        if not isinstance(path, str):
            raise TypeError(f"the path of a table is a string, but got {path!r}.")
        self._insert(path, overwrite, statement_set)

    def _write(
        self, connector: str, options: Mapping[str, str], mode: str = "append", partition_by: Keys = None,
        statement_set: Any = None,
    ) -> None:  # fmt: skip
        from funken.dataframe.options import descriptor  # noqa: PLC0415 - only to write

        if mode not in ("append", "overwrite"):
            raise ValueError(f"mode must be 'append' or 'overwrite', but got {mode!r}.")
        schema = given.physical_schema(self._table.plan.row_type)
        self._insert(descriptor(connector, options, schema, partition_by), mode == "overwrite", statement_set)

    def _insert(self, target: Any, overwrite: bool, statement_set: Any) -> None:
        from funken.table.statement_set import StatementSet  # noqa: PLC0415 - only to write

        if statement_set is None:
            self._table.execute_insert(target, overwrite).wait()
            return
        if not isinstance(statement_set, StatementSet):
            raise TypeError(f"statement_set must be a StatementSet, but got a {type(statement_set).__name__}.")
        if statement_set._environment is not self._table._environment:
            raise ValueError("the frame and the statement set must belong to the same TableEnvironment.")
        statement_set.add_insert(target, self._table, overwrite=overwrite)


class GroupedDataFrame:
    """A frame grouped by keys, for ``agg``."""

    def __init__(self, dataframe: DataFrame, grouping_keys: Sequence[Expression]) -> None:
        self._dataframe = dataframe
        self._grouping_keys = list(grouping_keys)

    def agg(self, *aggs: Expression, **named_aggs: Expression) -> DataFrame:
        """Aggregate the rows of each group; the columns are the keys, then the aggregates, those by name last."""
        aggregates = given.aggregates(aggs, named_aggs)
        keys = self._grouping_keys
        groups = self._dataframe._table.group_by(*(key if key._plain is None else key._plain for key in keys))
        return DataFrame(groups.select(*keys, *aggregates))
