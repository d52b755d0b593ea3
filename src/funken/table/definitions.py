"""Definitions of tables: from the columns of CREATE TABLE, LIKE and ALTER to catalog tables, and back to text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from funken.config.configuration import warn
from funken.expr.ir import Call, InputRef
from funken.table.catalog import (
    CatalogModel,
    CatalogTable,
    CatalogView,
    InvalidTable,
    ObjectIdentifier,
    TableColumn,
    TableDistribution,
    TableWatermark,
)
from funken.table.logical import LogicalNode
from funken.table.sql import statements as st
from funken.table.types import (
    InvalidType,
    LocalZonedTimestampType,
    LogicalType,
    TimestampType,
    parse_type,
    quoted,
)

Typing = Callable[[Any, Sequence[tuple[str, Any]]], Any]
"""Binds an expression, text or of the Table API, over columns."""


def typed(definition: st.ColumnDefinition) -> TableColumn:
    """Return a column whose type is written; a computed one has none yet."""
    type_: Any = None if definition.type_text is None else _type(definition)
    key = (definition.metadata_key or definition.name) if definition.metadata else None
    return TableColumn(definition.name, type_, definition.expression, key, definition.virtual, definition.comment)


def created_table(statement: st.CreateTable, typing: Typing, query: LogicalNode | None) -> CatalogTable:
    """Return the table of a CREATE TABLE; ``query`` is that of CREATE TABLE .. AS."""
    definition = statement.definition
    columns = [typed(column) for column in definition.columns]
    if query is not None:
        columns = _with_query(columns, query, str(".".join(statement.path)))
    return completed(
        columns,
        definition.watermark,
        definition.primary_key,
        typing,
        key_name=definition.key_name,
        options=definition.options,
        partition_keys=definition.partition_keys,
        distribution=definition.distribution,
        comment=definition.comment,
    )


def _with_query(columns: list[TableColumn], query: LogicalNode, path: str) -> list[TableColumn]:
    """Return the columns of CREATE TABLE .. AS: those named in front, or added, and those of the query."""
    found = {column.name: TableColumn(column.name, column.type) for column in query.row_type}
    untyped: list[Any] = [column.type for column in columns if column.expression is None]
    if columns and len(untyped) == len(columns) and not any(untyped):
        if len(columns) != len(found) or {column.name for column in columns} != set(found):
            raise InvalidTable(
                f"the column list of CREATE TABLE {path} .. AS must name each column of the query once: {', '.join(found)}."
            )
        return [found[column.name] for column in columns]
    own = {column.name: column for column in columns}
    merged = [column for column in columns if column.name not in found]
    return [*merged, *(own.get(name, column) for name, column in found.items())]


def completed(
    columns: Iterable[TableColumn],
    watermark: tuple[str, Any] | None,
    primary_key: Sequence[str],
    typing: Typing,
    **more: Any,
) -> CatalogTable:
    """Return a table whose computed columns have types, checked: names, key, watermark."""
    written = [*columns]
    names = [column.name for column in written]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidTable(f"A column named '{twice}' already exists in the table.")
    key = tuple(primary_key)
    written = [_in_key(column, key) if column.expression is None else column for column in written]
    plain = [(column.name, column.type) for column in written if column.expression is None]
    found = [
        column if column.expression is None
        else replace(column, type=typing(column.expression, plain).type)
        for column in written
    ]  # fmt: skip
    mark = None if watermark is None else _watermark(watermark, found, typing)
    for name in key:
        if name not in names:
            raise InvalidTable(f"Invalid primary key '{name}'. Column '{name}' does not exist.")
        if found[names.index(name)].expression is not None:
            raise InvalidTable(f"Invalid primary key '{name}'. Column '{name}' is not a physical column.")
    for name in more.get("partition_keys", ()):
        if name not in names:
            raise InvalidTable(f"Partition column '{name}' not defined in the table schema. Available columns: {names}")
    _check_metadata(found)
    spread = more.get("distribution")
    if spread is not None:
        _check_buckets(spread, [column.name for column in found if column.is_physical])
    options = tuple(sorted(more.pop("options", ())))
    return CatalogTable(tuple(found), options, mark, key, **more)


def _check_metadata(columns: Sequence[TableColumn]) -> None:
    """Refuse two columns of one key of metadata."""
    known: dict[str, str] = {}
    for column in columns:
        if column.is_metadata:
            key = column.metadata_key or column.name
            if key in known:
                raise InvalidTable(
                    f"The column `{known[key]}` and `{column.name}` in the table are both from the same metadata key {key!r}. "
                    "Declare one of them, and compute the other from it: AS .."
                )
            known[key] = column.name


def _check_buckets(spread: TableDistribution, names: Sequence[str]) -> None:
    unknown = next((name for name in spread.columns if name not in names), None)
    if unknown is not None:
        raise InvalidTable(
            f"Invalid bucket key '{unknown}'. A bucket key for a distribution must reference a physical column in the schema. "
            f"Available columns are: {', '.join(names)}"
        )
    if spread.buckets is not None and spread.buckets < 1:
        raise InvalidTable(
            f"Invalid bucket count '{spread.buckets}'. The number of buckets for a distributed table must be at least 1."
        )


def _in_key(column: TableColumn, key: Sequence[str]) -> TableColumn:
    return replace(column, type=column.type.not_null()) if column.name in key and column.type.is_nullable else column


def _type(definition: st.ColumnDefinition) -> Any:
    """Return the type of a column; an error has the name and the place of the column."""
    try:
        return parse_type(definition.type_text or "")
    except InvalidType as error:
        where = f"column '{definition.name}' at line {definition.line}, column {definition.column}"
        text = definition.type_text or ""
        rest = (
            f" An array of {text[:-2]} is ARRAY<{text[:-2]}>."
            if text.endswith("[]")
            else f" With a length it is VAR{'CHAR' if text.upper().startswith('STRING') else 'BINARY'}{text[text.index('(') :]}."
            if text.upper().startswith(("STRING(", "BYTES("))
            else " Between two columns is a comma; DEFAULT and AUTO_INCREMENT do not exist."
            if "end of the type" in str(error)
            else ""
        )
        raise InvalidType(f"{where}: {error}.{rest}") from None


def _watermark(watermark: tuple[str, Any], columns: list[TableColumn], typing: Typing) -> TableWatermark:
    name, expression = watermark
    types = {column.name: column.type for column in columns}
    if name not in types:
        raise InvalidTable(
            f"The rowtime attribute field '{name}' is not defined in the table schema. Available columns: {list(types)}"
            f"{''.join(f'. Did you mean {near!r}?' for near in get_close_matches(name, types, 1))}"
        )
    type_ = types[name]
    if any(column.name == name and str(column.expression).upper() == "PROCTIME()" for column in columns):
        raise InvalidTable(
            f"A watermark can not be defined for a processing-time attribute column, but '{name}' is one. Name a TIMESTAMP(3) "
            "column of the data, or leave the watermark out."
        )
    if not isinstance(type_, TimestampType | LocalZonedTimestampType) or type_.precision > 3:
        raise InvalidTable(
            f"Invalid data type of time field for watermark definition. The field must be of type TIMESTAMP(p) or "
            f"TIMESTAMP_LTZ(p), the supported precision 'p' is from 0 to 3, but the time field type is {type_}. Declare a "
            f"computed column of it: ts AS TO_TIMESTAMP({name}), of a number ts AS TO_TIMESTAMP_LTZ({name}, 3)"
        )
    typed = typing(expression, [(column.name, column.type) for column in columns])
    found = typed.type
    if not isinstance(found, TimestampType | LocalZonedTimestampType) or found.precision > 3:
        raise InvalidTable(
            "Invalid data type of expression for watermark definition. The field must be of type TIMESTAMP(p) or "
            "TIMESTAMP_LTZ(p), the supported precision 'p' is from 0 to 3, but the watermark expression type is "
            f"{found}. Subtract an interval from the column: {name} - INTERVAL '5' SECOND."
        )
    if (
        isinstance(typed, Call)
        and typed.function == "+"
        and InputRef(list(types).index(name), type=type_) in typed.args
    ):
        warn(
            f"the watermark of '{name}' is ahead of it, so each row is late. Subtract the interval: {name} - INTERVAL '5' SECOND."
        )
    return TableWatermark(name, expression)


# ---- LIKE


_GENERATED, _METADATA, _WATERMARKS = "GENERATED", "METADATA", "WATERMARKS"


def liked(source: CatalogTable, statement: st.CreateTable, typing: Typing) -> CatalogTable:
    """Return a table with the parts of another that its LIKE clause takes over."""
    assert statement.like is not None
    choices = dict(statement.like.choices)

    def choice(feature: str) -> str:
        default = "OVERWRITING" if feature == "OPTIONS" else "INCLUDING"
        return choices.get(feature, choices.get("ALL", default))

    definition = statement.definition
    columns = [column for column in source.columns if column.is_physical]
    for feature, wanted in ((_METADATA, "is_metadata"), (_GENERATED, "is_computed")):
        if choice(feature) != "EXCLUDING":
            columns = [column for column in source.columns if column in columns or getattr(column, wanted)]
    for column in map(typed, definition.columns):
        columns = _added(columns, column, choice(_METADATA if column.is_metadata else _GENERATED))
    mark: tuple[str, Any] | None = None
    if source.watermark is not None and choice(_WATERMARKS) != "EXCLUDING":
        mark = (source.watermark.column, source.watermark.expression)
    if definition.watermark is not None:
        if mark is not None and choice(_WATERMARKS) != "OVERWRITING":
            raise InvalidTable(
                f"There already exists a watermark spec for column '{mark[0]}' in the base table. You might want to "
                "specify EXCLUDING WATERMARKS or OVERWRITING WATERMARKS."
            )
        mark = definition.watermark
    options = dict(source.options) if choice("OPTIONS") != "EXCLUDING" else {}
    for name, value in definition.options:
        if name in options and choice("OPTIONS") == "INCLUDING":
            raise InvalidTable(
                f"There already exists an option ['{name}' -> '{options[name]}'] in the base table. You might want to "
                "specify EXCLUDING OPTIONS or OVERWRITING OPTIONS."
            )
        options[name] = value
    taken: dict[str, Any] = {}
    for part, feature, noun in (
        ("primary_key", "CONSTRAINTS", "a primary key"),
        ("partition_keys", "PARTITIONS", "partitions"),
        ("distribution", "DISTRIBUTION", "a distribution"),
    ):
        before, own = getattr(source, part), getattr(definition, part)
        excluded = choice(feature) == "EXCLUDING"
        if before and own and not excluded:
            raise InvalidTable(f"The base table already has {noun}. You might want to specify EXCLUDING {feature}.")
        # as in Flink, EXCLUDING drops the key only; it lets other parts be replaced
        taken[part] = own or (None if excluded and part == "primary_key" else before)
    is_own = bool(definition.primary_key)
    return completed(
        columns, mark, taken["primary_key"] or (), typing, options=tuple(options.items()),
        partition_keys=taken["partition_keys"] or (), distribution=taken["distribution"],
        comment=definition.comment, key_name=definition.key_name if is_own else source.key_name,
    )  # fmt: skip


def _added(columns: list[TableColumn], column: TableColumn, choice: str) -> list[TableColumn]:
    names = [one.name for one in columns]
    if column.name not in names:
        return [*columns, column]
    if column.is_physical or choice != "OVERWRITING":
        raise InvalidTable(
            f"A column named '{column.name}' already exists in the base table. You might want to specify EXCLUDING or "
            "OVERWRITING for columns of its kind."
        )
    return [column if one.name == column.name else one for one in columns]


# ---- ALTER


def altered(entry: Any, statement: st.Alter, typing: Typing) -> Any:
    """Return an object with the changes of an ALTER."""
    if statement.action == "SET":
        options = tuple(sorted({**dict(entry.options), **dict(statement.options)}.items()))
        return replace(entry, options=options)
    if statement.action == "RESET":
        if not statement.keys:
            raise InvalidTable("ALTER TABLE RESET does not support empty key: name the options to reset.")
        if "connector" in statement.keys:
            raise InvalidTable("ALTER TABLE RESET does not support changing 'connector'.")
        return replace(entry, options=tuple(pair for pair in entry.options if pair[0] not in statement.keys))
    if isinstance(entry, CatalogView | CatalogModel):
        raise InvalidTable(f"ALTER {statement.kind} .. {statement.action} is not supported.")
    return _altered_table(entry, statement, typing)


def _altered_table(table: CatalogTable, statement: st.Alter, typing: Typing) -> CatalogTable:
    if statement.action == "RENAME COLUMN":
        changed = _renamed(table, *statement.columns)
    elif statement.action == "DROP COLUMN":
        twice = next((name for name in statement.columns if statement.columns.count(name) > 1), None)
        if twice is not None:
            raise InvalidTable(f"Encounter duplicate column '{twice}' in DROP.")
        for name in statement.columns:
            _check_unused(table, name, statement.columns)
        changed = replace(table, columns=tuple(one for one in table.columns if one.name not in statement.columns))
    elif statement.action in _PARTS:
        changed = _without_part(table, statement)
    else:
        changed = _changed(table, statement)
    mark = changed.watermark
    return completed(
        changed.columns, None if mark is None else (mark.column, mark.expression), changed.primary_key, typing,
        options=table.options, partition_keys=changed.partition_keys, distribution=changed.distribution,
        comment=table.comment, key_name=changed.key_name,
    )  # fmt: skip


def _renamed(table: CatalogTable, old: str, new: str) -> CatalogTable:
    _check_unused(table, old, (), renamed=True)
    if any(column.name == new for column in table.columns):
        raise InvalidTable(f"The column '{new}' already existed in table schema.")
    columns = tuple(replace(column, name=new) if column.name == old else column for column in table.columns)
    spread = table.distribution
    key, partition_keys, buckets = (
        tuple(new if name == old else name for name in names)
        for names in (table.primary_key, table.partition_keys, () if spread is None else spread.columns)
    )
    if spread is not None:
        spread = replace(spread, columns=buckets)
    return replace(table, columns=columns, primary_key=key, partition_keys=partition_keys, distribution=spread)


def _check_unused(table: CatalogTable, name: str, dropped: Sequence[str], renamed: bool = False) -> None:
    """Refuse a column that others need; a key may be renamed."""
    _known(table.columns, name)
    quoted_name = f"`{name}`"
    users = [
        one.name
        for one in table.columns
        if one.expression is not None
        and one.name not in dropped
        and quoted_name in table.expression_text(one.expression)
    ]
    mark = table.watermark
    use = ""
    if users:
        use = f"is referenced by computed column '{users[0]}'"
    elif mark is not None and (mark.column == name or quoted_name in table.expression_text(mark.expression)):
        use = "is referenced by watermark expression"
    elif not renamed:
        spread = table.distribution.columns if table.distribution is not None else ()
        for names, what in (
            (table.primary_key, "primary key"),
            (table.partition_keys, "partition keys"),
            (spread, "distribution key"),
        ):
            if name in names:
                use = f"is used as the {what}"
                break
    if use:
        raise InvalidTable(f"The column '{name}' {use}. Change or drop that first.")


_PARTS = {
    "DROP PRIMARY KEY": ("primary_key", "primary key", ()),
    "DROP WATERMARK": ("watermark", "watermark strategy", None),
    "DROP DISTRIBUTION": ("distribution", "distribution", None),
}
"""What DROP takes from a table: the field, its name, and what it is without it."""


def _without_part(table: CatalogTable, statement: st.Alter) -> CatalogTable:
    part, noun, nothing = _PARTS[statement.action]
    if not getattr(table, part):
        raise InvalidTable(f"The base table does not define any {noun}.")
    if part == "primary_key":
        name = table.key_name or f"PK_{'_'.join(table.primary_key)}"
        for given in statement.keys:
            if given != name:
                raise InvalidTable(
                    f"The base table does not define a primary key constraint named '{given}'. Available constraint name: "
                    f"['{name}']."
                )
        table = replace(table, key_name=None)
    changes: dict[str, Any] = {part: nothing}
    return replace(table, **changes)


def _changed(table: CatalogTable, statement: st.Alter) -> CatalogTable:
    """Return a table as ADD or MODIFY leaves it."""
    definition = statement.definition
    assert definition is not None
    columns, positions = [*table.columns], dict(statement.positions)
    adds = statement.action == "ADD"
    given = [column.name for column in definition.columns]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise InvalidTable(f"Encounter duplicate column '{twice}'.")
    for column in map(typed, definition.columns):
        exists = any(one.name == column.name for one in columns)
        if adds and exists:
            raise InvalidTable(f"Try to add a column '{column.name}' which already exists in the table.")
        if not adds:
            _known(columns, column.name)
            place = next(index for index, one in enumerate(columns) if one.name == column.name)
            columns[place] = column if column.comment else replace(column, comment=columns[place].comment)
            if column.name not in positions:
                continue
            columns.pop(place)
        columns.insert(_place(columns, column.name, positions), column)
    parts: dict[str, Any] = {
        "primary_key": definition.primary_key,
        "watermark": None if definition.watermark is None else TableWatermark(*definition.watermark),
        "distribution": definition.distribution,
    }
    for part, noun, _ in _PARTS.values():
        there = bool(getattr(table, part))
        if parts[part] and adds == there:
            has, way = ("has already defined the", "drop it before adding") if adds else ("does not define any", "add")
            raise InvalidTable(f"The base table {has} {noun}. You might want to {way} a new one.")
    key_name = definition.key_name if definition.primary_key else table.key_name
    return replace(
        table, columns=tuple(columns), key_name=key_name, **{part: value for part, value in parts.items() if value}
    )


def _place(columns: list[TableColumn], name: str, positions: dict[str, str | None]) -> int:
    if name not in positions:
        return len(columns)
    after = positions[name]
    if after is None:
        return 0
    _known(columns, after)
    return next(index for index, one in enumerate(columns) if one.name == after) + 1


def _known(columns: Sequence[TableColumn], name: str) -> None:
    if all(column.name != name for column in columns):
        names = ", ".join(column.name for column in columns)
        raise InvalidTable(f"The column '{name}' does not exist in the base table. Its columns: {names}.")


# ---- texts


def described(table: CatalogTable, times: Mapping[str, str]) -> list[list[Any]]:
    """Return the rows of DESCRIBE: name, type, null, key, extras, watermark, comment; ``times`` are attributes by column."""
    key = f"PRI({', '.join(table.primary_key)})" if table.primary_key else None
    rows = []
    for column in table.columns:
        watermark = table.watermark if table.watermark is not None and table.watermark.column == column.name else None
        rows.append(
            [
                column.name,
                _summary(column, times),
                column.type.is_nullable,
                key if column.name in table.primary_key else None,
                _extras(column, table),
                None if watermark is None else table.shown(watermark),
                column.comment,
            ]
        )
    return rows


def _summary(column: TableColumn, times: Mapping[str, str]) -> str:
    text = str(column.type.nullable())
    time = times.get(column.name)
    return f"{text} *{time}*" if time else text


def _extras(column: TableColumn, table: CatalogTable) -> str | None:
    if column.is_computed:
        return f"AS {table.shown(column)}"
    if column.is_metadata:
        key = f" FROM '{column.metadata_key}'" if column.metadata_key != column.name else ""
        return f"METADATA{key}{' VIRTUAL' if column.virtual else ''}"
    return None


def shown_table(path: ObjectIdentifier, table: CatalogTable, temporary: bool) -> str:
    """Return the text of SHOW CREATE TABLE."""
    lines = []
    for column in table.columns:
        comment = f" COMMENT {_literal(column.comment)}" if column.comment else ""
        extras = _extras(column, table)
        kind = "" if column.is_computed else f" {_sql(column.type)}"
        lines.append(f"  {quoted(column.name)}{kind}{f' {extras}' if extras else ''}{comment}")
    if table.watermark is not None:
        expression = table.expression_text(table.watermark.expression)
        lines.append(f"  WATERMARK FOR {quoted(table.watermark.column)} AS {expression}")
    if table.primary_key:
        name = table.key_name or "PK_" + "_".join(table.primary_key)
        lines.append(
            f"  CONSTRAINT {quoted(name)} PRIMARY KEY ({', '.join(map(quoted, table.primary_key))}) NOT ENFORCED"
        )
    text = f"CREATE {'TEMPORARY ' if temporary else ''}TABLE {path.quoted()} (\n" + ",\n".join(lines) + "\n)"
    if table.comment:
        text += f"\nCOMMENT {_literal(table.comment)}"
    if table.distribution is not None:
        text += f"\n{table.distribution}"
    if table.partition_keys:
        text += f"\nPARTITIONED BY ({', '.join(map(quoted, table.partition_keys))})"
    options = ",\n  ".join(f"{_literal(key)} = {_literal(value)}" for key, value in table.options)
    return f"{text}\nWITH (\n  {options}\n)\n" if options else text + "\n"


def shown_view(path: ObjectIdentifier, view: CatalogView, temporary: bool) -> str:
    """Return the text of SHOW CREATE VIEW."""
    columns = ",\n".join(
        f"  {quoted(column.name)}{f' COMMENT {_literal(column.comment)}' if column.comment else ''}"
        for column in view.columns
    )
    comment = f"\nCOMMENT {_literal(view.comment)}" if view.comment else ""
    if not view.query:
        raise InvalidTable(f"SHOW CREATE VIEW: {path} was made with the Table API, and has no SQL text.")
    return f"CREATE {'TEMPORARY ' if temporary else ''}VIEW {path.quoted()} (\n{columns}\n){comment}\nAS {view.query.strip()}\n"


def shown_model(path: ObjectIdentifier, model: CatalogModel, temporary: bool) -> str:
    """Return the text of SHOW CREATE MODEL."""
    text = f"CREATE {'TEMPORARY ' if temporary else ''}MODEL {path.quoted()}"
    for side, columns in (("INPUT", model.inputs), ("OUTPUT", model.outputs)):
        listed = ", ".join(
            f"{quoted(column.name)} {_sql(column.type)}{f' COMMENT {_literal(column.comment)}' if column.comment else ''}"
            for column in columns
        )
        text += f"\n{side} ({listed})" if listed else ""
    text += f"\nCOMMENT {_literal(model.comment)}" if model.comment else ""
    options = ",\n  ".join(f"{_literal(key)} = {_literal(value)}" for key, value in sorted(model.options))
    return f"{text}\nWITH (\n  {options}\n)\n"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _sql(type_: LogicalType) -> str:
    return re.sub(r"TIMESTAMP_LTZ\((\d)\)", r"TIMESTAMP(\1) WITH LOCAL TIME ZONE", type_.sql())
