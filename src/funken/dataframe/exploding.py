"""Elements of collections as rows: one query with UNNEST over a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from funken.dataframe import arguments as given
from funken.table.expression import Expression, col
from funken.table.table import Table
from funken.table.types import ArrayType, LogicalType, MapType, MultisetType, RowType, quoted

if TYPE_CHECKING:
    from funken.table.rendering import Rendering


def exploded(table: Table, column: Any, output: Any, ignore_empty_and_null: Any) -> Table:
    """Return a table with a row per element of a collection."""
    if not isinstance(column, str | Expression):
        raise TypeError(f"column must be a column name or expression, but got {column!r}.")
    if not isinstance(ignore_empty_and_null, bool):
        raise TypeError(f"ignore_empty_and_null must be a boolean, but got {ignore_empty_and_null!r}.")
    if isinstance(column, str):
        given.known([column], table.names, "explode()")
    expression = col(column) if isinstance(column, str) else column
    projection = table.select(expression).plan
    selected = list(projection.row_type)
    if len(selected) != 1:
        raise ValueError(f"column must select a single column, but selects {len(selected)}.")
    if table.plan not in projection.inputs:
        raise ValueError("column must be a row-wise expression, not an aggregation. Aggregate first, with agg().")
    type_ = selected[0].type
    outputs = _outputs(output, selected[0].name, _width(type_))
    if expression._column in table.names:
        place, name = table.names.index(expression._column), str(expression._column)
        kept = [one for one in table.names if one != name]
    else:
        place, kept = len(table.names), list(table.names)
        name = given.free_name("collection", [*kept, *outputs])
        table = table.add_columns(expression.alias(name))
    clash = sorted(set(kept) & set(outputs))
    if clash:
        raise ValueError(f"output_column names conflict with retained input columns: {clash}. Choose other names.")
    return _unnested(table, name, type_, kept, place, outputs, ignore_empty_and_null)


def _width(type_: LogicalType) -> int:
    if isinstance(type_, MapType):
        return 2
    if isinstance(type_, ArrayType | MultisetType):
        return 1
    raise TypeError(f"column must have an ARRAY, MAP, or MULTISET type, but has {type_}.")


def _outputs(output: Any, name: str, width: int) -> list[str]:
    if output is None:
        if width > 1:
            raise ValueError("output_column is required for multiple output fields: ['key', 'value'], say.")
        return [name]
    if not isinstance(output, str | list):
        raise TypeError(f"output_column must be a string or list of strings, but got {output!r}.")
    found = [output] if isinstance(output, str) else output
    if not all(isinstance(one, str) for one in found):
        raise TypeError(f"output_column must contain only strings, but has {found!r}.")
    if len(found) != width:
        raise ValueError(f"output_column must contain {width} name(s), but has {len(found)}.")
    if not all(found) or given.repeated(found):
        raise ValueError(f"output_column names must be non-empty and unique, but are {found}.")
    return found


def _unnested(
    table: Table, name: str, type_: LogicalType, kept: list[str], place: int, outputs: list[str], inner: bool
) -> Table:
    element = getattr(type_, "element", None)
    fields = element.fields if isinstance(element, RowType) else ()
    taken = [*kept, *outputs, name]
    parts = [given.free_name(f"element{n}", taken) for n in range(len(fields) or len(outputs))]
    number = given.free_name("ordinality", taken)
    if isinstance(element, RowType):
        target = element.nullable().sql()
        row = f"CAST(ROW({', '.join(f'`$e`.{quoted(one)}' for one in parts)}) AS {target})"
        if not inner:  # a row of NULLs is an element, too
            row = f"CASE WHEN `$e`.{quoted(number)} IS NULL THEN CAST(NULL AS {target}) ELSE {row} END"
        items = [f"{row} AS {quoted(outputs[0])}"]
    else:
        items = [f"`$e`.{quoted(one)} AS {quoted(out)}" for one, out in zip(parts, outputs, strict=True)]
    columns = [quoted(one) for one in kept]
    columns[place:place] = items
    ordered = bool(fields) and not inner
    names = ", ".join(map(quoted, [*parts, number] if ordered else parts))
    source = f"UNNEST({quoted(name)}){' WITH ORDINALITY' if ordered else ''} AS `$e`({names})"
    kind, condition = ("CROSS JOIN", "") if inner else ("LEFT JOIN", " ON TRUE")

    def build(rendering: Rendering, view: str) -> str:
        return f"SELECT {', '.join(columns)} FROM {view} {kind} {source}{condition}"

    return table._query(build)
