"""A built-in function as one row of a table: signatures, the type of its result, and a kernel over Arrow arrays.

A ``FunctionRule`` says all that the binder, the evaluator, the documentation and the tests need to know of a function.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from funken.dataclass import dataclass
from funken.errors import FunkenError
from funken.expr.ir import Call, Node


class InvalidCall(FunkenError):
    """A function is called that does not exist, or with arguments that none of its signatures takes."""


class EvaluationError(FunkenError):
    """A value cannot be computed: a text that is no number, a division by zero. The job fails, as the standard says."""


class Nulls(enum.Enum):
    """The effect of NULL arguments."""

    PROPAGATE = "NULL if any argument is NULL"
    CUSTOM = "the function decides"


class Determinism(enum.Enum):
    """The scope within which evaluations over equal arguments return equal values."""

    DETERMINISTIC = "always"
    PER_QUERY = "within one query"
    NONE = "never"


JSON_PLACE = (
    "The JSON() function is currently only supported inside JSON_ARRAY() or as the VALUE param of JSON_OBJECT()"
)
Inference = Callable[[Sequence[Node], Mapping[str, Any]], "tuple[Sequence[Node], Any]"]
"""From arguments and options to the arguments with their implicit casts, and the type of the result; raises ``InvalidCall``."""


@dataclass(frozen=True)
class FunctionRule:
    """A scalar function.

    ``kernel(call, arguments, evaluator)`` computes a column; ``lazy(call, evaluator)`` decides itself which arguments it
    computes, and for which rows.
    """

    name: str
    signatures: tuple[str, ...]
    infer: Inference
    kernel: Callable[[Call, list[Any], Any], Any] | None
    description: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    """Calls as SQL, and the text of their results."""
    lazy: Callable[[Call, Any], Any] | None = None
    nulls: Nulls = Nulls.PROPAGATE
    determinism: Determinism = Determinism.DETERMINISTIC
    raises: bool = False
    """True if a value may fail: then the arms of CASE compute it only where they are taken."""
    group: str = ""
    aliases: tuple[str, ...] = ()


class Accumulation(Protocol):
    """The operations of an aggregate on its accumulator: plain data (numbers, lists, dicts), fit for state."""

    def create(self) -> Any:
        """Return the accumulator of no rows."""

    def accumulate(self, accumulator: Any, *arguments: Any) -> Any:
        """Return the accumulator with a row more."""

    def retract(self, accumulator: Any, *arguments: Any) -> Any:
        """Return the accumulator with a row less."""

    def merge(self, accumulator: Any, other: Any) -> Any:
        """Return the accumulator of both."""

    def value(self, accumulator: Any) -> Any:
        """Return the result."""


@dataclass(frozen=True)
class AggregateRule:
    """An aggregate function. ``make(arguments' types, options, result type)`` returns its accumulation."""

    name: str
    signatures: tuple[str, ...]
    infer: Inference
    make: Callable[[Sequence[Any], Mapping[str, Any], Any], Accumulation]
    description: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    retracts: bool = True
    merges: bool = True
    over_only: bool = False
    """True if the function has a value in an OVER window only: LAG, ROW_NUMBER."""
    null_without_values: bool = False
    """True if the result is NULL only without values: over a NOT NULL column, that of a group is NOT NULL."""
    group: str = "aggregate"
    aliases: tuple[str, ...] = ()


_ELSEWHERE = {
    "ANY_VALUE": "FIRST_VALUE",
    "COLLECT_LIST": "ARRAY_AGG",
    "CONVERT": "CAST",
    "DATEADD": "TIMESTAMPADD",
    "DATEDIFF": "TIMESTAMPDIFF",
    "DATE_ADD": "TIMESTAMPADD",
    "DATE_TRUNC": "FLOOR",
    "GETDATE": "CURRENT_TIMESTAMP",
    "GROUP_CONCAT": "LISTAGG",
    "ISNULL": "IFNULL",
    "LEN": "CHAR_LENGTH",
    "NVL": "IFNULL",
    "RANDOM": "RAND",
    "SIZE": "CARDINALITY",
    "STRING_AGG": "LISTAGG",
    "STRPOS": "LOCATE",
    "STR_TO_DATE": "TO_TIMESTAMP",
    "SYSDATE": "CURRENT_TIMESTAMP",
    "TO_CHAR": "DATE_FORMAT",
    "TRUNC": "TRUNCATE",
}
"""Functions of other databases, with those of Flink for the same."""


@dataclass
class FunctionTable:
    """Functions by name, without regard to upper and lower case."""

    rows: dict[str, FunctionRule | AggregateRule] = field(default_factory=dict)
    scalar: Callable[[Any, Any], Any] = lambda value, type_: value
    """From a constant and its type to a scalar of Arrow."""
    repeat: Callable[[Any, int, Any], Any] = lambda column, rows, type_: column
    """From a computed node, a number of rows and a type to an array of Arrow."""

    def add(self, *rules: FunctionRule | AggregateRule) -> None:
        """Add rows; a name may be taken once."""
        for rule in rules:
            for name in (rule.name, *rule.aliases):
                if name.upper() in self.rows:
                    raise ValueError(f"two functions are called {name}")
                self.rows[name.upper()] = rule

    def __contains__(self, name: str) -> bool:
        return name.upper() in self.rows

    def __iter__(self) -> Iterator[FunctionRule | AggregateRule]:
        seen = set()
        for rule in self.rows.values():
            if id(rule) not in seen:
                seen.add(id(rule))
                yield rule

    def get(self, name: str) -> FunctionRule | AggregateRule:
        """Return a row; an unknown name raises ``InvalidCall`` with the nearest one."""
        found = self.rows.get(name.upper())
        if found is None:
            near = [_ELSEWHERE[name.upper()]] if name.upper() in _ELSEWHERE else []
            near += difflib.get_close_matches(name.upper(), self.rows, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InvalidCall(f"No match found for function signature {name}: there is no function of this name.{hint}")
        return found

    def call(self, name: str, args: Iterable[Node], **options: Any) -> Call:
        """Return a typed call with the implicit casts of its arguments; ``InvalidCall`` if no signature takes them."""
        rule = self.get(name)
        if not isinstance(rule, FunctionRule):
            raise InvalidCall(f"{name} is an aggregate function: it needs GROUP BY, a window or OVER")
        given = {key: value for key, value in options.items() if value is not None}
        nodes = tuple(args)
        if any(isinstance(each, Call) and each.function == "JSON" for each in nodes) and rule.name not in {
            "JSON_OBJECT",
            "JSON_ARRAY",
        }:
            raise InvalidCall(JSON_PLACE)
        cast, result = rule.infer(nodes, given)
        return Call(rule.name, tuple(cast), tuple(sorted(given.items())), type=result)

    def aggregate(self, name: str, args: Iterable[Node], **options: Any) -> tuple[AggregateRule, tuple[Node, ...], Any]:
        """Return the row of an aggregate, its arguments with their implicit casts, and the type of its result."""
        rule = self.get(name)
        if not isinstance(rule, AggregateRule):
            raise InvalidCall(f"{name} is no aggregate function")
        cast, result = rule.infer(tuple(args), options)
        return rule, tuple(cast), result
