"""``DataFrame``: a table whose methods are verbs; each gives another frame, bound at once and executed by an action."""

from __future__ import annotations

import datetime
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, overload

from funken.dataframe import arguments as given
from funken.dataframe.arguments import Flags
from funken.dataframe.exploding import exploded
from funken.dataframe.joining import joined
from funken.dataframe.options import descriptor, file_sink_options, flag, kafka_sink_options
from funken.dataframe.session import nonempty
from funken.dataframe.types import DataType, literal_of
from funken.plan.advice import missing_name
from funken.table.expression import Expression, sql_literal
from funken.table.expression import col as table_col
from funken.table.expression import lit as table_lit
from funken.table.expressions import and_, call_sql, if_then_else
from funken.table.table import Table
from funken.table.types import DataTypes, DoubleType, FloatType, quoted
from funken.types.callables import check_kind
from funken.types.row import Row

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from funken.dataframe.iteration import ResultIterator
    from funken.table.descriptors import ExplainDetail
    from funken.table.rendering import Rendering
    from funken.table.schema import ResolvedSchema
    from funken.table.statement_set import StatementSet
    from funken.table.types import LogicalType

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
    if data_type is None:
        return table_lit(value)
    if not isinstance(data_type, DataType):
        raise TypeError(
            f"data_type must be a pyflink.dataframe.DataType, DataType.int64() say, but lit() got {data_type!r}."
        )
    return table_lit(literal_of(value, data_type.logical_type), data_type)


Keys: TypeAlias = Column | Sequence[Column] | None


class DataFrame:
    """Rows with named, typed columns: a query under construction, over streams and over bounded data alike.

    >>> from funken.dataframe import from_dict
    >>> orders = from_dict({"user": ["a", "b", "a"], "amount": [5, 7, 3]})
    >>> orders.group_by("user").agg(total=col("amount").sum).columns
    ['user', 'total']
    """

    def __init__(self, table: Table) -> None:
        check_kind(table, Table, "DataFrame()", "from_dict(), from_records() and from_pandas() make a frame of data.")
        self._table = table

    # ---- columns

    @property
    def schema(self) -> ResolvedSchema:
        """The columns with their types; under the names of PyFlink it is the older ``TableSchema``, as there."""
        return self._table.get_schema()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._table.names)

    def __repr__(self) -> str:
        return f"<DataFrame {self._table.plan.row_type}>"

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("_"):
                raise AttributeError(
                    f"a frame does not change, so {name} cannot be set. with_column({name!r}, ...) returns another one, "
                    "rename() one with other names."
                )
            super().__setattr__(name, value)

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
            f"key must be a string, list, tuple, or Expression: a column, some columns, or a condition, but got {key!r}. "
            "A frame has no rows here: iter_rows() and collect() return them."
        )

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):  # also before there is a table: copies and unpickling ask for these
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        if not keyword.iskeyword(name) and name in self._table.names:
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
            raise TypeError(f"name must be a string, but with_column() got {name!r}.")
        return DataFrame(self._table.add_or_replace_columns(given.computed(expr, self, "expr").alias(name)))

    def with_columns(self, *exprs: Expression, **named_exprs: Expression) -> DataFrame:
        """Add or replace columns: expressions with an alias, then expressions by name."""
        added = given.expressions(exprs, "exprs") + given.named(named_exprs, "named_exprs")
        return DataFrame(self._table.add_or_replace_columns(*added))

    def drop_columns(self, *columns: str | Expression, strict: bool = True) -> DataFrame:
        """Drop columns; ``ValueError`` for a name that there is not, unless ``strict`` is False."""
        if not isinstance(strict, bool):
            raise TypeError(f"strict must be a boolean, but got {strict!r}.")
        dropped = []
        for one in columns:
            if isinstance(one, str) and one not in self.columns:
                if strict:
                    raise ValueError(
                        f"Column {one!r} not found in schema, which has: {', '.join(self.columns)}. strict=False ignores it."
                    )
                continue
            dropped.append(given.column(one, "columns"))
        return DataFrame(self._table.drop_columns(*dropped)) if dropped else self

    drop = drop_columns

    def rename_columns(
        self,
        *args: str | Mapping[str, str] | Callable[[str], str],
        mapping: Mapping[str, str] | Callable[[str], str] | None = None,
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
        conditions = [given.predicate(one, self) for one in predicates]
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
            raise ValueError(f'keep must be "first" or "last", but got {keep!r}.')
        if order_by is None and nulls_first is not None:
            raise ValueError("nulls_first requires order_by.")
        order = [call_sql("PROCTIME()")] if order_by is None else given.sort_keys(order_by, self.columns, "order_by")
        nulls = given.nulls_flags(nulls_first, order)
        if subset is None:
            if order_by is not None:
                raise ValueError("order_by requires subset; whole-row duplicates cannot be ordered.")
            return DataFrame(self._table.distinct())
        keys = given.known(given.names(subset, "subset"), self.columns, "subset")
        return self._ranked(keys, order, [keep == "last"] * len(order), nulls, 1)

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
            raise TypeError("top_n requires a non-empty order_by, which says which rows are the first.")
        partition = [] if given.is_none(partition_by) else given.names(partition_by, "partition_by")
        given.known(partition, self.columns, "partition_by")
        order = given.sort_keys(order_by, self.columns, "order_by")
        directions = given.flags(descending, order, "descending")
        return self._ranked(partition, order, directions, given.nulls_flags(nulls_first, order), n)

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
        nulls = given.nulls_flags(nulls_first, order)
        return DataFrame(
            self._table._query(
                lambda r, name: f"SELECT * FROM {name} ORDER BY {given.sort_clause(order, directions, nulls, r)}"
            )
        )

    def limit(self, n: int) -> DataFrame:
        """Keep the first ``n`` rows."""
        return DataFrame(self._table.fetch(given.count(n)))

    def head(self, n: int) -> DataFrame:
        """Keep the first ``n`` rows: another name of ``limit``."""
        return self.limit(n)

    def offset(self, n: int) -> DataFrame:
        """Leave out the first ``n`` rows."""
        return DataFrame(self._table.offset(given.count(n)))

    def drop_null(self, subset: list[str] | None = None) -> DataFrame:
        """Keep the rows without NULL, in all columns or in those of ``subset``."""
        return self.filter(*(table_col(name).is_not_null for name in given.checked_subset(subset, self.columns)))

    def drop_nan(self, subset: list[str] | None = None) -> DataFrame:
        """Keep the rows without NaN, in all columns or in those of ``subset``; NULL is no NaN, and columns without NaN stay.

        >>> from funken.dataframe import from_dict
        >>> from_dict({"id": [1, 2, 3], "score": [0.5, float("nan"), None]}).drop_nan().collect()
        [<Row(1, 0.5)>, <Row(3, None)>]
        """
        chosen = self._floating(given.checked_subset(subset, self.columns))
        return self.filter(*(_is_nan(name).is_not_true for name in chosen)) if chosen else self

    def fill_null(self, value: object, subset: list[str] | None = None) -> DataFrame:
        """Replace NULL by a value, cast to the type of each column; in all columns or in those of ``subset``.

        A dict has a value for each of its columns.

        >>> from funken.dataframe import from_records
        >>> stock = from_records([("tea", None), (None, 2)], schema=["item", "quantity"])
        >>> stock.fill_null({"item": "?", "quantity": 0}).collect(), stock.fill_null(0, subset=["quantity"]).collect()
        ([<Row('tea', 0)>, <Row('?', 2)>], [<Row('tea', 0)>, <Row(None, 2)>])
        """
        if isinstance(value, Mapping) and subset is None:
            values = {name: value[name] for name in given.checked_subset(list(value), self.columns)}
        else:
            values = dict.fromkeys(given.checked_subset(subset, self.columns), value)
        return self._filled(values, lambda name: table_col(name).is_null)

    def fill_nan(self, value: object, subset: list[str] | None = None) -> DataFrame:
        """Replace NaN by a value, in all columns or in those of ``subset``; NULL stays, and so do columns without NaN.

        >>> from funken.dataframe import from_dict
        >>> from_dict({"id": [1, 2], "score": [float("nan"), None]}).fill_nan(0).collect()
        [<Row(1, 0.0)>, <Row(2, None)>]
        """
        chosen = self._floating(given.checked_subset(subset, self.columns))
        return self._filled(dict.fromkeys(chosen, value), lambda name: _is_nan(name).is_true)

    def _types(self) -> dict[str, LogicalType]:
        return {one.name: one.type for one in self._table.plan.row_type}

    def _floating(self, names: Sequence[str]) -> list[str]:
        types = self._types()
        return [name for name in names if isinstance(types[name], FloatType | DoubleType)]

    def _filled(self, values: Mapping[str, object], condition: Callable[[str], Any]) -> DataFrame:
        if not values:
            return self
        types = self._types()
        return DataFrame(
            self._table.add_or_replace_columns(
                *(
                    if_then_else(condition(name), table_lit(one).cast(types[name].nullable()), table_col(name)).alias(
                        name
                    )
                    for name, one in values.items()
                )
            )
        )

    def explode(
        self,
        column: Column,
        *,
        output_column: str | list[str] | None = None,
        ignore_empty_and_null: bool = False,
    ) -> DataFrame:
        """Make a row of each element of an ARRAY, MAP or MULTISET, in the column's place.

        A MAP gives two columns, which ``output_column`` names. A ROW stays one column. The elements of a computed collection
        come behind all columns. NULL and an empty collection give a row of NULL, unless ``ignore_empty_and_null``.

        >>> from funken.dataframe import from_dict
        >>> from_dict({"id": [1, 2], "tags": [["a", "b"], []]}).explode("tags", output_column="tag").collect()
        [<Row(1, 'a')>, <Row(1, 'b')>, <Row(2, None)>]
        """
        return DataFrame(exploded(self._table, column, output_column, ignore_empty_and_null))

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
            raise TypeError(f"other must be a pyflink.dataframe.DataFrame, but join() got a {type(other).__name__}.")
        return DataFrame(joined(self._table, other._table, on, how, left_on, right_on))

    def join_lateral(self, table_function_call: Expression, how: str = "inner") -> DataFrame:
        """Join each row with a table function's rows for it; ``how="left"`` keeps rows for which there are none."""
        if how not in ("inner", "left"):
            raise ValueError(f"how must be 'inner' or 'left' for join_lateral(), but got {how!r}.")
        call = given.lateral_call(table_function_call, self.columns)
        lateral = self._table.join_lateral if how == "inner" else self._table.left_outer_join_lateral
        return DataFrame(lateral(call))

    def _combined(self, other: Any, method: str) -> DataFrame:
        if not isinstance(other, DataFrame):
            raise TypeError(f"other must be a DataFrame, but {method}() got a {type(other).__name__}.")
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
        aggregates = given.aggregates(aggs, named_aggs)
        found = self._table.group_by().select(*aggregates)
        if self._table.plan in found.plan.inputs:
            raise ValueError(
                f"agg() is over all rows, but {', '.join(map(str, aggregates))} has no aggregate. Use sum, count or the like, or "
                "select() for a value of each row."
            )
        return DataFrame(found)

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
        self, *, include_row_kind: bool = False, row_kind_field: str = "__row_kind__"
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
        *,
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
        self,
        n: int,
        *,
        timeout: float | None = None,
        include_row_kind: bool = False,
        row_kind_field: str = "__row_kind__",
    ) -> list[dict[str, Any]]:
        """Return the first ``n`` rows as dicts, or those that came within ``timeout`` seconds; then the job is cancelled."""
        from funken.dataframe.iteration import taken  # noqa: PLC0415 - only to iterate

        kind = given.kind_field(self.columns, include_row_kind, row_kind_field)
        return taken(self._table, given.count(n), given.timeout(timeout), kind)

    def take_batch(
        self,
        n: int,
        *,
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
        sink_parallelism: int | None = None,
        sink_shuffle_by_partition: bool | None = None,
        auto_compaction: bool | None = None,
        compaction_file_size: str | None = None,
        rolling_policy_file_size: str | None = None,
        rolling_policy_rollover_interval: str | None = None,
        rolling_policy_inactivity_interval: str | None = None,
        rolling_policy_check_interval: str | None = None,
        partition_commit_trigger: str | None = None,
        partition_commit_delay: str | None = None,
        partition_commit_policy_kind: str | None = None,
        connector_options: Mapping[str, str] | None = None,
        format_options: Mapping[str, str] | None = None,
        statement_set: StatementSet | None = None,
    ) -> None:
        """Write Parquet files into a folder; ``mode="overwrite"`` replaces its files (batch).

        ``connector_options`` and ``format_options`` are further options, as in ``CREATE TABLE``; those of the format need no
        prefix.
        """
        given = {**locals()}
        own = {"compression": compression, "utc-timezone": flag(utc_timezone, "utc_timezone")}
        self._write_files("parquet", own, given)

    def write_json(
        self,
        path: str,
        *,
        mode: str = "append",
        partition_by: Keys = None,
        timestamp_format: str | None = None,
        ignore_null_fields: bool | None = None,
        decimal_as_plain_number: bool | None = None,
        sink_parallelism: int | None = None,
        sink_shuffle_by_partition: bool | None = None,
        auto_compaction: bool | None = None,
        compaction_file_size: str | None = None,
        rolling_policy_file_size: str | None = None,
        rolling_policy_rollover_interval: str | None = None,
        rolling_policy_inactivity_interval: str | None = None,
        rolling_policy_check_interval: str | None = None,
        partition_commit_trigger: str | None = None,
        partition_commit_delay: str | None = None,
        partition_commit_policy_kind: str | None = None,
        connector_options: Mapping[str, str] | None = None,
        format_options: Mapping[str, str] | None = None,
        statement_set: StatementSet | None = None,
    ) -> None:
        """Write files with a JSON object per line into a folder; ``mode="overwrite"`` replaces its files (batch)."""
        given = {**locals()}
        own = {
            "timestamp-format.standard": timestamp_format,
            "encode.ignore-null-fields": flag(ignore_null_fields, "ignore_null_fields"),
            "encode.decimal-as-plain-number": flag(decimal_as_plain_number, "decimal_as_plain_number"),
        }
        self._write_files("json", own, given)

    def _write_files(self, format_: str, own: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        options = file_sink_options(given["path"], format_, own, given)
        self._write("filesystem", options, given["mode"], given["partition_by"], given["statement_set"])

    def write_kafka(
        self,
        bootstrap_servers: str,
        *,
        topic: str,
        format: str = "json",
        format_options: Mapping[str, str] | None = None,
        key_format: str | None = None,
        key_format_options: Mapping[str, str] | None = None,
        key_fields: list[str] | None = None,
        value_format: str | None = None,
        value_format_options: Mapping[str, str] | None = None,
        value_fields_include: str = "ALL",
        delivery_guarantee: str = "at-least-once",
        transactional_id_prefix: str | None = None,
        partitioner: str | None = None,
        properties: Mapping[str, str] | None = None,
        sink_parallelism: int | None = None,
        options: Mapping[str, str] | None = None,
        statement_set: StatementSet | None = None,
    ) -> None:
        """Write rows as records of a topic of Kafka; the parameters are those of ``read_kafka`` that a sink has.

        ``delivery_guarantee="exactly-once"`` needs a ``transactional_id_prefix`` of its own.
        """
        self._write("kafka", kafka_sink_options(bootstrap_servers, {**locals()}), statement_set=statement_set)

    def write_catalog_table(
        self, path: str, *, overwrite: bool = False, statement_set: StatementSet | None = None
    ) -> None:
        """Write rows into a table of a catalog; ``overwrite`` replaces its rows (batch)."""
        nonempty(path, "path")
        if not isinstance(overwrite, bool):
            raise TypeError(f"overwrite must be a bool, but got {overwrite!r}.")
        self._insert(path, overwrite, statement_set)

    def _write(
        self, connector: str, options: Mapping[str, str], mode: str = "append", partition_by: Keys = None,
        statement_set: Any = None,
    ) -> None:  # fmt: skip
        if not isinstance(mode, str):
            raise TypeError(f"mode must be a string, but got {mode!r}.")
        if mode not in ("append", "overwrite"):
            raise ValueError(f"mode must be 'append' or 'overwrite', but got {mode!r}.")
        self._insert(descriptor(connector, options, None, partition_by), mode == "overwrite", statement_set)

    def _insert(self, target: Any, overwrite: bool, statement_set: Any) -> None:
        from funken.table.statement_set import StatementSet  # noqa: PLC0415 - only to write

        if statement_set is None:
            self._table.execute_insert(target, overwrite=overwrite).wait()
            return
        if not isinstance(statement_set, StatementSet):
            raise TypeError(f"statement_set must be a StatementSet or None, but got a {type(statement_set).__name__}.")
        if statement_set._environment is not self._table._environment:
            raise ValueError("DataFrame and statement_set must belong to the same TableEnvironment.")
        statement_set.add_insert(target, self._table, overwrite=overwrite)


def _is_nan(name: str) -> Any:
    """Return the condition that a column is NaN; NULL for NULL."""
    return table_col(name).cast(DataTypes.STRING()) == table_lit("NaN")


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
