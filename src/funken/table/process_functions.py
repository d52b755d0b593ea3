"""Process table functions: functions of the program over whole tables, with state and timers per partition.

A function says what its arguments are, which columns it gives and, if it gives more than insertions, which kinds of change. SQL
calls it in FROM: ``SELECT * FROM f(r => TABLE t PARTITION BY k, on_time => DESCRIPTOR(ts))``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.schema import as_type
from funken.table.types import LogicalType, RowType
from funken.table.udf import FunctionContext, UserDefinedFunction

_TRAITS = frozenset(
    ("row", "set", "pass_columns", "optional_partition_by", "updates", "update_before", "full_deletes", "on_time")
)


@dataclass(frozen=True)
class ProcessArgument:
    """An argument of a process table function.

    A table has *row* semantics, each row by itself, or *set* semantics, whose rows belong to partitions. Further traits:
    ``pass_columns`` (all columns of the row stand before those of the function), ``optional_partition_by``, ``updates``
    (rows may be changes), ``update_before`` and ``full_deletes`` (what changes have to have), ``on_time`` (required).
    """

    name: str
    kind: str = "scalar"
    type: LogicalType | None = None
    optional: bool = False
    traits: frozenset[str] = frozenset()


def table_argument(name: str, *traits: str, type: Any = None, optional: bool = False) -> ProcessArgument:
    """Return an argument that is a table.

    >>> sorted(table_argument("r", "set", "updates").traits)
    ['set', 'updates']
    >>> table_argument("r", "sets")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: table argument 'r' has unknown traits: sets. Known: full_deletes, on_time, ...
    """
    unknown = sorted(set(traits) - _TRAITS)
    if unknown:
        raise InvalidProgram(
            f"table argument {name!r} has unknown traits: {', '.join(unknown)}. Known: {', '.join(sorted(_TRAITS))}."
        )
    chosen = frozenset(traits) if {"row", "set"} & set(traits) else frozenset((*traits, "row"))
    return ProcessArgument(name, "table", None if type is None else as_type(type), optional, chosen)


def scalar_argument(name: str, type: Any = None, optional: bool = False) -> ProcessArgument:
    """Return an argument that is a constant."""
    return ProcessArgument(name, "scalar", None if type is None else as_type(type), optional)


class ProcessTableFunction(UserDefinedFunction):
    """Rows for the rows of tables, with state and timers.

    ``eval(ctx, **arguments)`` yields rows; of several tables the one whose row has come is a ``Row``, the others are
    ``None``. ``on_timer(ctx)``, if there is one, yields rows when a timer is due.

    >>> class Numbered(ProcessTableFunction):
    ...     arguments = (table_argument("rows", "set"),)
    ...     result_type = "ROW<number BIGINT>"
    ...     def eval(self, ctx, rows):
    ...         count = ctx.value_state("count", default=0)
    ...         count.update(count.value() + 1)
    ...         yield (count.value(),)
    >>> ptf(Numbered())
    <process function Numbered>
    """

    arguments: Sequence[ProcessArgument] = ()
    result_type: Any = None
    """The columns that the function gives: a ROW type, or the type of a single one."""

    def changelog_mode(self, tables: Mapping[str, ChangelogMode], requested: ChangelogMode) -> ChangelogMode:
        """Return the row kinds of the function's output, for those of its tables and the requested ones."""
        return ChangelogMode.insert_only()

    def eval(self, *args: Any, **arguments: Any) -> Any:
        """Return the rows for a row of a table: ``eval(ctx, **arguments)``."""
        raise NotImplementedError

    def definition(self, name: str = "") -> ProcessDefinition:
        """Return the function as plans have it, under a name."""
        return ProcessDefinition(self, name)


class ProcessDefinition:
    """A process table function as plans have it."""

    kind = "process"

    def __init__(self, function: ProcessTableFunction, name: str | None = None) -> None:
        self.function = function
        self.name = name or type(function).__name__
        self.signature = tuple(function.arguments)
        self.deterministic = function.is_deterministic()
        if function.result_type is None:
            raise InvalidProgram(
                f"process table function {self.name!r} has no result_type; say which columns it gives."
            )

    def __repr__(self) -> str:
        return f"<process function {self.name}>"

    def passes_columns(self, name: str) -> bool:
        """Return True if all columns of a table stand in the result."""
        return any(one.name == name and "pass_columns" in one.traits for one in self.signature)

    def columns(self, tables: Mapping[str, Any], scalars: Mapping[str, Any]) -> list[tuple[str, LogicalType]]:
        """Return the names and types of the columns of the function's result."""
        type_ = as_type(self.function.result_type)
        if isinstance(type_, RowType):
            return [(field.name, field.type) for field in type_.fields]
        return [("EXPR$0", type_)]

    def traits(self, name: str) -> frozenset[str]:
        """Return the traits of a table argument."""
        return next(one.traits for one in self.signature if one.name == name)

    def changelog_mode(self, modes: Sequence[ChangelogMode], requested: ChangelogMode | None = None) -> ChangelogMode:
        """Return the row kinds of the function's output, for those of its tables in their order."""
        names = [one.name for one in self.signature if one.kind == "table"]
        wanted = ChangelogMode.upsert(False) if requested is None else requested
        return self.function.changelog_mode(dict(zip(names, modes, strict=False)), wanted)

    def process_function(self, operator_context: Any) -> Any:
        """Return the function, opened, for one operator."""
        parameters = getattr(operator_context, "job_parameters", {})
        self.function.open(
            FunctionContext(getattr(operator_context, "operator", self.name), parameters, operator_context)
        )
        return self.function


def ptf(function: Any, name: str | None = None) -> ProcessDefinition:
    """Make a process table function of an object of ``ProcessTableFunction``, or of its class."""
    made = function() if isinstance(function, type) else function
    if not isinstance(made, ProcessTableFunction):
        raise InvalidProgram(f"{function!r} is no process table function; derive it from ProcessTableFunction.")
    return made.definition(name or "")
