"""The grammars of CREATE, DROP and ALTER."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from funken.table.sql import statements as st
from funken.table.sql.reader import TokenReader, distribution

_TYPE_ENDS = ("PRIMARY", "PRIMARY KEY", "UNIQUE", "CONSTRAINT", "COMMENT", "METADATA", "FIRST", "AFTER")


def create(reader: TokenReader) -> st.Statement:
    """Read a CREATE statement."""
    reader.need("CREATE")
    replaces = reader.words("OR", "REPLACE")
    temporary = reader.words("TEMPORARY")
    system = temporary and reader.words("SYSTEM")
    if reader.words("TABLE"):
        return _table(reader, temporary, replaces)
    if reader.words("VIEW"):
        return _view(reader, temporary, replaces)
    if reader.words("FUNCTION"):
        return _function(reader, temporary, system)
    if reader.words("DATABASE"):
        missing = reader.words("IF", "NOT", "EXISTS")
        path = reader.path()
        comment = reader.string() if reader.words("COMMENT") else None
        return st.CreateDatabase(
            path, missing, comment, reader.options() if reader.words("WITH") else (), text=reader.text
        )
    if reader.words("CATALOG"):
        missing = reader.words("IF", "NOT", "EXISTS")
        name = reader.name()
        comment = reader.string() if reader.words("COMMENT") else None
        options = reader.options() if reader.words("WITH") else ()
        return st.CreateCatalog(name, options, missing, comment, text=reader.text)
    if reader.words("MODEL"):
        return _model(reader, temporary)
    _refuse_kinds(reader)
    reader.fail("TABLE, VIEW, FUNCTION, DATABASE, CATALOG or MODEL")


def replace_table(reader: TokenReader) -> st.Statement:
    """Read REPLACE TABLE."""
    reader.need("REPLACE", "TABLE")
    return replace(_table(reader, False, True), must_exist=True)


def _refuse_kinds(reader: TokenReader) -> None:
    """Refuse statements over kinds of objects that there are not here."""
    if reader.words("OR", "ALTER") and reader.word() != "MATERIALIZED":
        reader.fail("MATERIALIZED")
    for word, what in (("MATERIALIZED", "MATERIALIZED TABLE"), ("CONNECTION", "CONNECTION")):
        if reader.word() == word:
            raise st.InvalidStatement(f"{what} is not supported. Use a table and an INSERT, or options in WITH.")


def _table(reader: TokenReader, temporary: bool, replaces: bool) -> st.CreateTable:
    missing = reader.words("IF", "NOT", "EXISTS")
    path = reader.path()
    parts = definition(reader) if reader.word() == "(" else {}
    if reader.words("COMMENT"):
        parts["comment"] = reader.string()
    if reader.words("DISTRIBUTED"):
        parts["distribution"] = distribution(reader)
    if reader.words("PARTITIONED", "BY"):
        parts["partition_keys"] = reader.listed(reader.name)
    if reader.words("DISTRIBUTED"):
        parts["distribution"] = distribution(reader)
    if reader.words("WITH"):
        parts["options"] = reader.options()
    like = query = None
    if reader.words("LIKE"):
        source = reader.path()
        like = st.LikeClause(source, _like_choices(reader) if reader.words("(") else ())
    elif reader.words("AS"):
        inner = reader.nested(reader.rest())
        assert isinstance(inner, st.Query)
        query = inner.tree
    untyped = [each for each in parts.get("columns", ()) if each.type_text is None and each.expression is None]
    if untyped and query is None:
        each = untyped[0]
        raise st.InvalidStatement(
            f"column {each.name!r} at line {each.line}, column {each.column} has no type. Write one, as in {each.name} STRING."
        )
    table = st.DeclaredTable(**parts)
    return st.CreateTable(path, table, temporary, missing, replaces, like, query, text=reader.text)


def _like_choices(reader: TokenReader) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    while not reader.words(")"):
        strategy, feature = reader.word(), reader.word(1)
        if strategy not in {"INCLUDING", "EXCLUDING", "OVERWRITING"}:
            reader.fail("INCLUDING, EXCLUDING or OVERWRITING")
        if feature not in {
            "ALL",
            "CONSTRAINTS",
            "DISTRIBUTION",
            "PARTITIONS",
            "GENERATED",
            "OPTIONS",
            "WATERMARKS",
            "METADATA",
        }:
            reader.at += 1
            reader.fail("what of the table")
        if strategy == "OVERWRITING" and feature not in {"GENERATED", "METADATA", "OPTIONS", "WATERMARKS"}:
            raise st.InvalidStatement(
                f"Illegal merging strategy 'OVERWRITING' for '{feature}' option. Write EXCLUDING {feature}, and define them anew."
            )
        if any(feature == other for other, _ in found):
            raise st.InvalidStatement(
                f"Each like option feature can be declared only once, but {feature} is declared twice."
            )
        found.append((feature, strategy))
        reader.at += 2
    return tuple(found)


def definition(reader: TokenReader) -> dict[str, Any]:
    """The list of columns, watermarks and constraints, in parentheses."""
    parts: dict[str, Any] = {}
    columns: list[st.ColumnDefinition] = []

    def item() -> None:
        if reader.words("WATERMARK", "FOR"):
            name = ".".join(reader.path())
            reader.need("AS")
            if "watermark" in parts:
                raise st.InvalidStatement("Multiple WATERMARK statements is not supported yet.")
            parts["watermark"] = (name, reader.expression())
        elif reader.word() == "CONSTRAINT" or reader.word() in {"PRIMARY", "PRIMARY KEY", "UNIQUE"}:
            _constraint(reader, parts, None)
        else:
            columns.append(column(reader, parts))

    if not reader.listed(item):
        reader.at -= 1
        reader.fail("a column")
    parts["columns"] = tuple(columns)
    return parts


def _constraint(reader: TokenReader, parts: dict[str, Any], on_column: str | None) -> None:
    name = reader.name() if reader.words("CONSTRAINT") else None
    if reader.words("UNIQUE"):
        raise st.InvalidStatement("UNIQUE constraint is not supported yet.")
    reader.need("PRIMARY", "KEY")
    if "primary_key" in parts:
        raise st.InvalidStatement("Duplicate primary key definition")
    parts["primary_key"] = (on_column,) if on_column is not None else reader.listed(reader.name)
    parts["key_name"] = name
    if not reader.words("NOT", "ENFORCED"):
        raise st.InvalidStatement(
            "A PRIMARY KEY is not enforced: no row is checked, the key says which rows are versions of one another. Write "
            "PRIMARY KEY (..) NOT ENFORCED."
        )


def column(reader: TokenReader, parts: dict[str, Any]) -> st.ColumnDefinition:
    """Read the definition of a column."""
    token = reader.current
    line, place = reader.place(token) if token is not None else (0, 0)
    name = reader.name()
    found: dict[str, Any] = {"name": name, "line": line, "column": place}
    if reader.words("AS"):
        found["expression"] = reader.expression("COMMENT", "FIRST", "AFTER")
    elif reader.word() not in {",", ")", "COMMENT"}:
        found["type_text"] = reader.slice(*_TYPE_ENDS)
        if reader.words("METADATA"):
            found["metadata"] = True
            if reader.words("FROM"):
                found["metadata_key"] = reader.string()
            found["virtual"] = reader.words("VIRTUAL")
        if reader.word() in {"CONSTRAINT", "PRIMARY", "PRIMARY KEY", "UNIQUE"}:
            _constraint(reader, parts, name)
    if reader.words("COMMENT"):
        found["comment"] = reader.string()
    return st.ColumnDefinition(**found)


def _view(reader: TokenReader, temporary: bool, replaces: bool) -> st.Statement:
    missing = reader.words("IF", "NOT", "EXISTS")
    path = reader.path()

    def name() -> tuple[str, str | None]:
        return reader.name(), reader.string() if reader.words("COMMENT") else None

    columns = reader.listed(name) if reader.word() == "(" else ()
    comment = reader.string() if reader.words("COMMENT") else None
    reader.need("AS")
    text = reader.rest()
    inner = reader.nested(text)
    if not isinstance(inner, st.Query):
        raise st.InvalidStatement("CREATE VIEW needs a query behind AS.")
    return st.CreateView(path, inner.tree, text, columns, comment, temporary, missing, replaces, text=reader.text)


def _function(reader: TokenReader, temporary: bool, system: bool) -> st.Statement:
    missing = reader.words("IF", "NOT", "EXISTS")
    return _function_body(reader, reader.path(), temporary, system, missing)


def _function_body(
    reader: TokenReader, path: st.Path, temporary: bool, system: bool, missing: bool, changes: bool = False
) -> st.Statement:
    reader.need("AS")
    target = reader.string()
    language = "JAVA"
    if reader.words("LANGUAGE"):
        language = reader.word()
        reader.at += 1
    resources = []
    if reader.words("USING"):
        while True:
            reader.at += 1  # JAR, ARTIFACT, FILE, ARCHIVE
            resources.append(reader.string())
            if not reader.words(","):
                break
    options = reader.options() if reader.words("WITH") else ()
    return st.CreateFunction(
        path, target, language, temporary, system, missing, tuple(resources), options, changes, text=reader.text
    )


def _model(reader: TokenReader, temporary: bool) -> st.Statement:
    missing = reader.words("IF", "NOT", "EXISTS")
    path = reader.path()
    columns: dict[str, tuple[st.ColumnDefinition, ...]] = {"INPUT": (), "OUTPUT": ()}
    for side in columns:
        if reader.words(side):
            columns[side] = reader.listed(lambda: column(reader, {}))
    comment = reader.string() if reader.words("COMMENT") else None
    reader.need("WITH")
    options = reader.options()
    inputs, outputs = columns["INPUT"], columns["OUTPUT"]
    for given, other, absent in ((inputs, outputs, "OUTPUT"), (outputs, inputs, "INPUT")):
        if given and not other:
            raise st.InvalidStatement(f"CREATE MODEL has columns of one side only. Name those of {absent} (..), too.")
    return st.CreateModel(path, inputs, outputs, options, comment, temporary, missing, text=reader.text)


def _subject(reader: TokenReader) -> tuple[str, tuple[str, ...], bool, bool, bool]:
    """Read the object of DROP or ALTER: its kind and path, and whether TEMPORARY, SYSTEM and IF EXISTS are there."""
    temporary = reader.words("TEMPORARY")
    system = temporary and reader.words("SYSTEM")
    for kind in ("TABLE", "VIEW", "FUNCTION", "DATABASE", "CATALOG", "MODEL"):
        if reader.words(kind):
            break
    else:
        _refuse_kinds(reader)
        reader.fail("TABLE, VIEW, FUNCTION, DATABASE, CATALOG or MODEL")
    missing = reader.words("IF", "EXISTS")
    path = reader.path()
    return kind, path, temporary, system, missing


def drop(reader: TokenReader) -> st.Statement:
    """Read a DROP statement."""
    reader.need("DROP")
    kind, path, temporary, system, missing = _subject(reader)
    cascade = reader.words("CASCADE")
    reader.words("RESTRICT")
    return st.Drop(kind, path, temporary, system, missing, cascade, text=reader.text)


def alter(reader: TokenReader) -> st.Statement:
    """Read an ALTER statement."""
    reader.need("ALTER")
    kind, path, temporary, system, missing = _subject(reader)
    base: dict[str, Any] = {"kind": kind, "path": path, "if_exists": missing, "text": reader.text}
    if kind == "CATALOG" and reader.words("COMMENT"):
        return st.Alter(action="COMMENT", comment=reader.string(), **base)
    if kind == "FUNCTION":
        return _function_body(reader, path, temporary, system, missing, changes=True)
    if kind == "VIEW" and reader.words("AS"):
        text = reader.rest()
        inner = reader.nested(text)
        if not isinstance(inner, st.Query):
            raise st.InvalidStatement("ALTER VIEW needs a query behind AS.")
        return st.Alter(action="AS", query_text=text, query=inner.tree, **base)
    if reader.words("RENAME"):
        if reader.words("TO"):
            return st.Alter(action="RENAME", new_path=reader.path(), **base)
        old = reader.name()
        reader.need("TO")
        return st.Alter(action="RENAME COLUMN", columns=(old, reader.name()), **base)
    if kind == "VIEW":
        reader.fail("RENAME TO or AS")
    if reader.words("SET"):
        return st.Alter(action="SET", options=reader.options(), **base)
    if kind != "DATABASE" and reader.words("RESET"):
        return st.Alter(action="RESET", keys=reader.listed(reader.string), **base)
    for action in ("ADD", "MODIFY", "DROP"):
        if reader.words(action):
            lenient = reader.words("IF", "EXISTS") if action == "DROP" else reader.words("IF", "NOT", "EXISTS")
            if lenient or reader.word() == "PARTITION":
                return _alter_partitions(reader, f"{action} PARTITION", lenient, base)
            return _alter_drop(reader, base) if action == "DROP" else _alter_columns(reader, action, base)
    reader.fail("RENAME, SET, RESET, ADD, MODIFY or DROP")


def _alter_partitions(reader: TokenReader, action: str, lenient: bool, base: dict[str, Any]) -> st.Statement:
    partitions: list[st.Options] = []
    reader.need("PARTITION")
    while True:
        partitions.append(reader.partition())
        if reader.words("WITH"):
            reader.options()  # the properties of a partition say nothing to a connector
        reader.words(",")
        if not reader.words("PARTITION"):
            return st.Alter(action=action, partitions=tuple(partitions), lenient=lenient, **base)


def _alter_columns(reader: TokenReader, action: str, base: dict[str, Any]) -> st.Statement:
    parts: dict[str, Any] = {}
    columns: list[st.ColumnDefinition] = []
    positions: list[tuple[str, str | None]] = []

    def item() -> None:
        if reader.words("WATERMARK", "FOR"):
            name = ".".join(reader.path())
            reader.need("AS")
            parts["watermark"] = (name, reader.expression())
        elif reader.words("DISTRIBUTION") or reader.words("DISTRIBUTED"):
            parts["distribution"] = distribution(reader)
        elif reader.word() in {"CONSTRAINT", "PRIMARY", "PRIMARY KEY", "UNIQUE"}:
            _constraint(reader, parts, None)
        else:
            reader.words("COLUMN")
            columns.append(column(reader, parts))
            if reader.words("FIRST"):
                positions.append((columns[-1].name, None))
            elif reader.words("AFTER"):
                positions.append((columns[-1].name, reader.name()))

    if reader.word() == "(":
        reader.listed(item)
    else:
        item()
    table = st.DeclaredTable(columns=tuple(columns), **parts)
    return st.Alter(action=action, definition=table, positions=tuple(positions), **base)


def _alter_drop(reader: TokenReader, base: dict[str, Any]) -> st.Statement:
    if reader.words("PRIMARY", "KEY"):
        return st.Alter(action="DROP PRIMARY KEY", **base)
    if reader.words("CONSTRAINT"):
        return st.Alter(action="DROP PRIMARY KEY", keys=(reader.name(),), **base)
    if reader.words("WATERMARK"):
        return st.Alter(action="DROP WATERMARK", **base)
    if reader.words("DISTRIBUTION"):
        return st.Alter(action="DROP DISTRIBUTION", **base)
    reader.words("COLUMN")
    columns = reader.listed(reader.name) if reader.word() == "(" else (reader.name(),)
    return st.Alter(action="DROP COLUMN", columns=columns, **base)
