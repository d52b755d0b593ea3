"""The statements of Flink's SQL as records. Queries are trees of sqlglot in the dialect of ``dialect.py``."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from funken.dataclass import dataclass
from funken.table.catalog import InvalidTable, TableDistribution

Path = tuple[str, ...]
Options = tuple[tuple[str, str], ...]


class InvalidStatement(InvalidTable):
    """The text of a statement is none of Flink's SQL. The message says line, column and the words expected."""


class InvalidQuery(InvalidTable):
    """A query does not fit the catalog, or its parts one another. The message says line and column."""


@dataclass(frozen=True)
class Statement:
    """A statement and its text."""

    text: str = field(default="", kw_only=True, compare=False)


@dataclass(frozen=True)
class Query(Statement):
    """SELECT, VALUES or WITH; ``tree`` is sqlglot's."""

    tree: Any


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO or OVERWRITE."""

    target: Path
    query: Any
    columns: tuple[str, ...] | None = None
    partition: Options = ()
    overwrite: bool = False
    conflict: str | None = None
    options: Options = ()


@dataclass(frozen=True)
class StatementSetBlock(Statement):
    """``EXECUTE STATEMENT SET BEGIN .. END``: INSERTs of one job."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True)
class ColumnDefinition:
    """A column as written: ``type_text``, or ``expression``; neither in the column list of CREATE TABLE .. AS."""

    name: str
    type_text: str | None = None
    expression: str | None = None
    metadata: bool = False
    metadata_key: str | None = None
    virtual: bool = False
    comment: str | None = None
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class DeclaredTable:
    """The part of CREATE TABLE between the name and LIKE or AS."""

    columns: tuple[ColumnDefinition, ...] = ()
    watermark: tuple[str, str] | None = None
    primary_key: tuple[str, ...] = ()
    key_name: str | None = None
    comment: str | None = None
    distribution: TableDistribution | None = None
    partition_keys: tuple[str, ...] = ()
    options: Options = ()


@dataclass(frozen=True)
class LikeClause:
    """``LIKE t (EXCLUDING OPTIONS ..)``; ``choices`` are pairs such as ``("OPTIONS", "EXCLUDING")``."""

    source: Path
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE, also LIKE another table, and AS a query. ``must_exist``: REPLACE TABLE."""

    path: Path
    definition: DeclaredTable
    temporary: bool = False
    if_not_exists: bool = False
    replace: bool = False
    like: LikeClause | None = None
    query: Any = None
    must_exist: bool = False


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE VIEW."""

    path: Path
    query: Any
    query_text: str
    columns: tuple[tuple[str, str | None], ...] = ()  # names and comments
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE FUNCTION, or ALTER FUNCTION if it ``changes`` one; then ``if_not_exists`` is IF EXISTS."""

    path: Path
    target: str
    language: str = "JAVA"
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False
    resources: tuple[str, ...] = ()
    options: Options = ()
    changes: bool = False


@dataclass(frozen=True)
class CreateDatabase(Statement):
    """CREATE DATABASE."""

    path: Path
    if_not_exists: bool = False
    comment: str | None = None
    options: Options = ()


@dataclass(frozen=True)
class CreateCatalog(Statement):
    """CREATE CATALOG."""

    name: str
    options: Options = ()
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class CreateModel(Statement):
    """CREATE MODEL."""

    path: Path
    inputs: tuple[ColumnDefinition, ...]
    outputs: tuple[ColumnDefinition, ...]
    options: Options = ()
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class Drop(Statement):
    """``kind``: TABLE, VIEW, FUNCTION, DATABASE, CATALOG, MODEL."""

    kind: str
    path: Path
    temporary: bool = False
    system: bool = False
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Alter(Statement):
    """ALTER of an object.

    ``action``: RENAME (``new_path``), RENAME COLUMN (``columns``: old, new), SET, RESET (``keys``), ADD, MODIFY
    (``definition``), COMMENT (``comment``, of a catalog), DROP COLUMN (``columns``), DROP PRIMARY KEY, DROP WATERMARK, DROP
    DISTRIBUTION, AS (``query``), ADD PARTITION and DROP PARTITION (``partitions``; ``lenient`` with IF [NOT] EXISTS).
    """

    kind: str
    path: Path
    action: str
    new_path: Path = ()
    options: Options = ()
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    definition: DeclaredTable | None = None
    positions: tuple[tuple[str, str | None], ...] = ()  # of added columns: FIRST (None), AFTER a column
    query_text: str = ""
    query: Any = None
    comment: str | None = None
    if_exists: bool = False
    partitions: tuple[Options, ...] = ()
    lenient: bool = False


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN of a statement, with its details."""

    statement: Statement
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Describe(Statement):
    """``kind``: TABLE, CATALOG, DATABASE, FUNCTION, MODEL, JOB."""

    kind: str
    path: Path
    extended: bool = False


@dataclass(frozen=True)
class Show(Statement):
    """``what``: TABLES, VIEWS, COLUMNS, CREATE TABLE, CURRENT CATALOG ...; ``path`` of FROM or the object's."""

    what: str
    path: Path = ()
    like: str | None = None
    negated: bool = False
    ignore_case: bool = False
    partition: Options = ()


@dataclass(frozen=True)
class Use(Statement):
    """``kind``: CATALOG, DATABASE, MODULES."""

    kind: str
    path: Path


@dataclass(frozen=True)
class SetOption(Statement):
    """``SET 'key' = 'value'``; without a key: list all."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class ResetOption(Statement):
    """``RESET 'key'``; without a key: all."""

    key: str | None = None


@dataclass(frozen=True)
class Module(Statement):
    """``LOAD MODULE`` and ``UNLOAD MODULE``."""

    action: str
    name: str
    options: Options = ()


@dataclass(frozen=True)
class Jar(Statement):
    """``ADD JAR`` and ``REMOVE JAR``."""

    action: str
    path: str


@dataclass(frozen=True)
class CompilePlan(Statement):
    """``COMPILE PLAN 'file' FOR statement``; ``execute``: COMPILE AND EXECUTE PLAN."""

    file: str
    statement: Statement
    if_not_exists: bool = False
    execute: bool = False


@dataclass(frozen=True)
class ExecutePlan(Statement):
    """``EXECUTE PLAN 'file'``."""

    file: str


@dataclass(frozen=True)
class StopJob(Statement):
    """``STOP JOB 'id'``."""

    job: str
    savepoint: bool = False
    drain: bool = False


@dataclass(frozen=True)
class TruncateTable(Statement):
    """TRUNCATE TABLE."""

    path: Path


@dataclass(frozen=True)
class ClientCommand(Statement):
    """QUIT, CLEAR, HELP, SOURCE, and the brackets of a statement set in a script: BEGIN STATEMENT SET, END."""

    command: str
    argument: str = ""
