"""The form of a row of the table: parameters as a text, the type of the result as a text or a function, a kernel.

Parameters are words, ``text int? bool``: ``?`` may be left out, ``*`` and ``+`` may repeat, ``|`` are alternatives of one
place; ``start:int`` gives a parameter a name. A word is a family of types; an argument that is NULL without a type gets the
family's own. The result's type says its nullability by ``!`` (never NULL) or ``?`` (always nullable); without either it is
nullable if an argument is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from funken.expr.ir import Call, Literal, Node
from funken.expr.rules import Determinism, FunctionRule, InvalidCall, Nulls
from funken.expr.sql.types import (
    BYTES,
    STRING,
    ArrayType,
    BigIntType,
    BitmapType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegralType,
    IntType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    NullType,
    NumericType,
    RowType,
    SymbolType,
    TimeOfDayType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
    is_bytes,
    is_text,
    is_timestamp,
    parse_type,
)
from funken.expr.sql.values import from_internal, is_scalar, to_internal

# ---- Kernels that compute each value of a column once, however often it is there.


_FEW = 64
"""Of fewer rows each is computed."""
_NANOS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


class _Values:
    """An evaluator of the values of a column instead of its rows."""

    def __init__(self, evaluator: Any, rows: int) -> None:
        self.context = evaluator.context
        self.rows = rows


def once_per_value(kernel: Any, coarser: Callable[[Any, list[Any]], int] | None = None) -> Any:
    """Return a kernel that computes each value of its one column once; the other arguments are the same for all rows.

    ``coarser`` says in which steps, in nanoseconds, a column of times matters.
    """

    def of_values(call: Any, arguments: list[Any], evaluator: Any) -> Any:
        import pyarrow as pa

        places = [place for place, each in enumerate(arguments) if not is_scalar(each)]
        column = arguments[places[0]] if len(places) == 1 and evaluator.rows >= _FEW else None
        if column is None or pa.types.is_nested(column.type) or pa.types.is_null(column.type):
            return kernel(call, arguments, evaluator)
        if coarser is not None and pa.types.is_timestamp(column.type):
            column = _in_steps(column, coarser(call, arguments))
        elif _are_different(column):
            return kernel(call, arguments, evaluator)
        encoded = column.dictionary_encode("encode")
        values = encoded.dictionary
        if 2 * len(values) > evaluator.rows:
            return kernel(call, arguments, evaluator)
        given = [*arguments]
        given[places[0]] = values
        return kernel(call, given, _Values(evaluator, len(values))).take(encoded.indices)

    of_values.__name__ = "kernel"
    of_values.by_value = getattr(kernel, "by_value", False)  # type: ignore[attr-defined]
    return of_values


def _are_different(column: Any) -> bool:
    """Return True if few of the first values of a column are there twice, so that looking at all of them would not pay."""
    some = len(column) // 16
    return some >= _FEW and 16 * len(column.slice(0, some).unique()) > 15 * some


def _in_steps(column: Any, step: int) -> Any:
    """Return the times of a column, rounded down to multiples of some nanoseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = step // _NANOS[column.type.unit]
    if size <= 1:
        return column
    numbers = column.view(pa.int64())
    floors = pc.divide(numbers, size)  # towards zero
    exact = pc.equal(pc.multiply(floors, size), numbers)
    floors = pc.if_else(pc.and_(pc.less(numbers, 0), pc.invert(exact)), pc.subtract(floors, 1), floors)
    return pc.multiply(floors, size).view(column.type)


Result = str | LogicalType | Callable[[Sequence[Node], Mapping[str, Any]], LogicalType]
_BITS = 31

FAMILIES: dict[str, tuple[Callable[[LogicalType], bool], LogicalType | None]] = {
    "any": (lambda _: True, None),
    "text": (is_text, STRING),
    "int": (lambda each: isinstance(each, IntegralType) and each.bits <= _BITS + 1, IntType()),
    "bigint": (lambda each: isinstance(each, IntegralType), BigIntType()),
    "number": (lambda each: isinstance(each, NumericType), DoubleType()),
    "exact": (lambda each: isinstance(each, IntegralType | DecimalType), IntType()),
    "decimal": (lambda each: isinstance(each, DecimalType), DecimalType(38, 0)),
    "bool": (lambda each: isinstance(each, BooleanType), BooleanType()),
    "bytes": (is_bytes, BYTES),
    "array": (lambda each: isinstance(each, ArrayType), None),
    "map": (lambda each: isinstance(each, MapType), None),
    "multiset": (lambda each: isinstance(each, MultisetType), None),
    "row": (lambda each: isinstance(each, RowType), None),
    "date": (lambda each: isinstance(each, DateType), DateType()),
    "time": (lambda each: isinstance(each, TimeOfDayType), TimeOfDayType(0)),
    "timestamp": (lambda each: isinstance(each, TimestampType), TimestampType(3)),
    "ltz": (lambda each: isinstance(each, LocalZonedTimestampType), LocalZonedTimestampType(3)),
    "instant": (is_timestamp, TimestampType(3)),
    "interval": (lambda each: isinstance(each, DayTimeIntervalType | YearMonthIntervalType), DayTimeIntervalType()),
    "months": (lambda each: isinstance(each, YearMonthIntervalType), YearMonthIntervalType()),
    "symbol": (lambda each: isinstance(each, SymbolType), None),
    "bitmap": (lambda each: isinstance(each, BitmapType), BitmapType()),
    "variant": (lambda each: isinstance(each, VariantType), VariantType()),
}


def described(types: Sequence[LogicalType]) -> str:
    """Return the texts of types with commas between them."""
    return ", ".join(str(each) for each in types)


OPERATORS = {
    *(
        "BIN",
        "TRUNCATE",
        "TO_BASE64",
        "FROM_BASE64",
        "TIMESTAMPADD",
        "TIMESTAMPDIFF",
        "STR_TO_MAP",
        "SPLIT_INDEX",
        "REGEXP",
    ),
    *(
        "REGEXP_EXTRACT",
        "REGEXP_REPLACE",
        "LPAD",
        "RPAD",
        "REPEAT",
        "REVERSE",
        "LOCATE",
        "INSTR",
        "PARSE_URL",
        "HEX",
        "LEFT",
    ),
    *(
        "RIGHT",
        "ASCII",
        "CHR",
        "ENCODE",
        "DECODE",
        "DATE_FORMAT",
        "FROM_UNIXTIME",
        "UNIX_TIMESTAMP",
        "CONVERT_TZ",
        "TO_DATE",
    ),
    *(
        "MD5",
        "SHA1",
        "SHA224",
        "SHA256",
        "SHA384",
        "SHA512",
        "SHA2",
        "IS JSON",
        "IS NOT JSON",
        "ROUND",
        "REPLACE",
        "OVERLAY",
    ),
}
"""Functions that are operators of Flink's parser, which has another message for wrong arguments."""
_FORMS = {"<INTEGER_NUMERIC>": "<INTEGER>", "<CHARACTER_STRING> | <BINARY_STRING>": "<STRING>", "<UNIT>": "<ANY>"}


def operator_text(type_: LogicalType) -> str:
    """Return a type as Flink's parser writes it.

    >>> operator_text(parse_type("MAP<STRING, ARRAY<INT>>"))
    '(VARCHAR(2147483647), INTEGER ARRAY) MAP'
    """
    match type_:
        case IntType():
            return "INTEGER"
        case ArrayType() | MultisetType():
            return f"{operator_text(type_.element)} {type_.root}"
        case MapType():
            return f"({operator_text(type_.key)}, {operator_text(type_.value)}) MAP"
        case LocalZonedTimestampType():
            return f"TIMESTAMP_WITH_LOCAL_TIME_ZONE({type_.precision})"
        case _:
            return type_.serializable()


def cannot_apply(name: str, args: Sequence[Node], signatures: Sequence[str], why: str = "") -> InvalidCall:
    """Return the error of an operator that does not take these arguments."""
    shown = [
        f"<INTERVAL {each.value}>"
        if isinstance(each, Literal) and isinstance(each.type, SymbolType)
        else f"<{operator_text(each.type)}>"
        for each in args
    ]
    if re.fullmatch(r"\W+", name) and len(shown) == 2:
        call = f"{shown[0]} {name} {shown[1]}"
    elif name.startswith("IS "):
        call = f"{shown[0]} {name}"
    else:
        call = f"{name}({', '.join(shown)})"
    forms = sorted(signatures, key=lambda text: -text.count(","))
    for ours, theirs in _FORMS.items():
        forms = [form.replace(ours, theirs) for form in forms]
    listed = "\n".join(f"'{form}'" for form in forms)
    more = f"\n{why}" if why else ""
    return InvalidCall(f"Cannot apply '{name}' to arguments of type '{call}'. Supported form(s): {listed}{more}")


def refuse(name: str, args: Sequence[Node], signatures: Sequence[str], why: str = "") -> InvalidCall:
    """Return the error of a call that no signature takes."""
    if name in OPERATORS:
        return cannot_apply(name, args, signatures, why)
    said = f"{why} " if why else ""
    lines = "\n".join(signatures)
    types = described([each.type for each in args])
    return InvalidCall(
        f"Invalid function call:\n{name}({types})\n{said}Invalid input arguments. Expected signatures are:\n{lines}"
    )


def no_match(name: str, args: Sequence[Node], signatures: Sequence[str]) -> InvalidCall:
    """Return the error of a call with too few or too many arguments."""
    shown = ", ".join(f"<{_family_text(each.type)}>" for each in args)
    lines = "\n".join(signatures)
    if name in OPERATORS:
        least = min(len(text.split(",")) if "<" in text else 0 for text in signatures)
        return InvalidCall(
            f"Invalid number of arguments to function '{name}'. Was expecting {least} arguments\n"
            f"Supported signatures are:\n{lines}"
        )
    return InvalidCall(f"No match found for function signature {name}({shown}).\nSupported signatures are:\n{lines}")


def _family_text(type_: LogicalType) -> str:
    if isinstance(type_, ArrayType):
        element = type_.element.nullable()
        return f"{'INTEGER' if isinstance(element, IntType) else element.serializable()} ARRAY"
    return type_.family or type_.nullable().serializable()


def result_type(returns: Result, args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    """Return the type of a call's result."""
    nullable = any(each.type.is_nullable for each in args if not isinstance(each.type, SymbolType))
    if isinstance(returns, str):
        text = returns.rstrip("!?")
        nullable = {"!": False, "?": True}.get(returns[-1], nullable)
        if text.startswith("$"):
            return args[int(text[1:])].type.nullable(nullable)  # type: ignore[no-any-return]
        return parse_type(text).nullable(nullable)
    if isinstance(returns, LogicalType):
        return returns.nullable(nullable)
    return returns(args, options)


def nullable_of(args: Sequence[Node]) -> bool:
    """Return True if a call of these arguments may be NULL."""
    return any(each.type.is_nullable for each in args)


def cast(node: Node, type_: LogicalType) -> Node:
    """Return a node of another type: itself if it has it, a NULL of it, a call of CAST."""
    given = node.type
    if given.nullable() == type_.nullable():
        return node
    if isinstance(node, Literal) and node.value is None:
        return Literal(None, type=type_.nullable())
    return Call("CAST", (node,), (("implicit", True),), type=type_.nullable(given.is_nullable))


def constant_of(node: Node) -> Any:
    """Return the value of a constant argument, a negative number also; ``None`` if it is none."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Call) and node.function == "NEGATE" and isinstance(node.args[0], Literal):
        value = node.args[0].value
        return None if value is None else -value
    return None


class Parameters:
    """The parameters of a function, read from their text."""

    def __init__(self, text: str) -> None:
        self.words = [word.rpartition(":")[2] for word in text.split()]

    def places(self, count: int) -> list[str] | None:
        """Return the family of each of so many arguments; ``None`` if there cannot be so many."""
        fixed = [word for word in self.words if word[-1] not in "?*+"]
        optional = sum(word[-1] == "?" for word in self.words)
        repeated = next((word for word in self.words if word[-1] in "*+"), None)
        least = len(fixed) + (1 if repeated and repeated[-1] == "+" else 0)
        if count < least or (repeated is None and count > len(fixed) + optional):
            return None
        found: list[str] = []
        spare = count - least
        for word in self.words:
            family = word.rstrip("?*+")
            if word[-1] == "?":
                if spare > 0:
                    spare -= 1
                    found.append(family)
            elif word[-1] in "*+":
                times = count - len(fixed) - (optional if count - len(fixed) > optional else 0)
                found += [family] * max(times, 0)
            else:
                found.append(family)
        return found if len(found) == count else None

    def accept(self, args: Sequence[Node]) -> list[Node] | None:
        """Return the arguments with their implicit casts; ``None`` if they do not fit."""
        places = self.places(len(args))
        if places is None:
            return None
        found: list[Node] = []
        for node, place in zip(args, places, strict=True):
            fitting = _fitting(node, place)
            if fitting is None:
                return None
            found.append(fitting)
        return found


def _fitting(node: Node, place: str) -> Node | None:
    for family in place.split("|"):
        accepts, _ = FAMILIES[family]
        if accepts(node.type):
            return node
    if isinstance(node.type, NullType):
        default = FAMILIES[place.split("|", maxsplit=1)[0]][1]
        return cast(node, default) if default is not None else node if place == "any" else None
    return None


def infer(
    name: str,
    params: Sequence[str],
    returns: Result,
    check: Callable[[Sequence[Node], Mapping[str, Any]], str | None] | None = None,
    signatures: Sequence[str] = (),
) -> Callable[[Sequence[Node], Mapping[str, Any]], tuple[Sequence[Node], LogicalType]]:
    """Return the inference of a function of these alternatives of parameters."""
    alternatives = [Parameters(text) for text in params]
    signatures = tuple(signatures) or signatures_of(name, params)

    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
        for each in alternatives:
            fitting = each.accept(args)
            if fitting is not None:
                problem = check(fitting, options) if check else None
                if problem:
                    raise refuse(name, args, signatures, problem)
                return fitting, result_type(returns, fitting, options)
        if all(each.places(len(args)) is None for each in alternatives):
            raise no_match(name, args, signatures)
        raise refuse(name, args, signatures)

    return inferred


_SHOWN = {
    "text": "<CHARACTER_STRING>",
    "int": "<INTEGER>",
    "bigint": "<INTEGER_NUMERIC>",
    "number": "<NUMERIC>",
    "exact": "<EXACT_NUMERIC>",
    "bytes": "<BINARY_STRING>",
    "any": "<ANY>",
    "bool": "<BOOLEAN>",
    "instant": "<TIMESTAMP>",
    "ltz": "<TIMESTAMP_LTZ>",
}


def signatures_of(name: str, params: Sequence[str]) -> tuple[str, ...]:
    """Return the signatures as messages and the documentation show them.

    >>> signatures_of("REPEAT", ["text times:int"]), signatures_of("CONCAT", ["text+"])
    (('REPEAT(<CHARACTER_STRING>, times <INTEGER>)',), ('CONCAT(<CHARACTER_STRING>...)',))
    >>> signatures_of("LOCATE", ["text text int?"])[1]
    'LOCATE(<CHARACTER_STRING>, <CHARACTER_STRING>, <INTEGER>)'
    """
    found = []
    for text in params:
        words = text.split()
        for optional in range(sum(word[-1] == "?" for word in words) + 1):
            shown, left = [], optional
            for word in words:
                if word[-1] == "?":
                    left -= 1
                    if left < 0:
                        continue
                label, _, families = word.rpartition(":")
                family = " | ".join(_SHOWN.get(each, f"<{each.upper()}>") for each in families.rstrip("?*+").split("|"))
                shown.append((f"{label} " if label else "") + family + ("..." if word[-1] in "*+" else ""))
            found.append(f"{name}({', '.join(shown)})")
    return tuple(found)


# -- kernels


def lists(call: Call, arguments: Sequence[Any], rows: int) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the arguments, row by row."""
    columns: list[Any] = []
    for node, column in zip(call.args, arguments, strict=True):
        values = to_internal(column, node.type)
        columns.append(repeat(values[0], rows) if is_scalar(column) else values)
    return zip(*columns, strict=False) if columns else iter([()] * rows)


def per_value(function: Callable[..., Any], nulls: Nulls = Nulls.PROPAGATE, per_row: bool = False) -> Any:
    """Return the kernel that calls a function for each row's values."""
    return bound(lambda call, evaluator: function, nulls, per_row)


def bound(
    make: Callable[[Call, Any], Callable[..., Any]], nulls: Nulls = Nulls.PROPAGATE, per_row: bool = False
) -> Any:
    """Return the kernel of a function that is made for a call: from its types, options, and the session."""

    def kernel(call: Call, arguments: list[Any], evaluator: Any) -> Any:
        function = make(call, evaluator)
        constant = not per_row and all(map(is_scalar, arguments))
        rows = 1 if constant else evaluator.rows
        columns = [place for place, each in enumerate(arguments) if not is_scalar(each)]
        found: list[Any] = []
        if nulls is Nulls.PROPAGATE and len(columns) == 1:
            found = _of_one_column(function, call, arguments, columns[0])
        else:
            for values in lists(call, arguments, rows):
                if nulls is Nulls.PROPAGATE and None in values and any(each is None for each in values):
                    found.append(None)
                else:
                    found.append(function(*values))
        column = from_internal(found, call.type)
        return column[0] if constant else column

    kernel.by_value = True  # type: ignore[attr-defined]
    return kernel if per_row else once_per_value(kernel)


def _of_one_column(function: Callable[..., Any], call: Call, arguments: Sequence[Any], place: int) -> list[Any]:
    """Call a function for each value of the one column among constants; NULL stays."""
    given = [to_internal(each, node.type) for each, node in zip(arguments, call.args, strict=True)]
    before, after = ([each[0] for each in part] for part in (given[:place], given[place + 1 :]))
    if any(each is None for each in (*before, *after)):
        return [None] * len(given[place])
    # Hot: a call per row.
    return [None if value is None else function(*before, value, *after) for value in given[place]]


def of_columns(compute: Callable[[Call, list[Any], Any], Any]) -> Any:
    """Return the kernel that computes whole columns."""

    def kernel(call: Call, arguments: list[Any], evaluator: Any) -> Any:
        return compute(call, arguments, evaluator)

    return kernel


def function(
    name: str,
    params: str | Sequence[str],
    returns: Result,
    kernel: Any,
    description: str = "",
    *examples: tuple[str, str],
    nulls: Nulls = Nulls.PROPAGATE,
    raises: bool = False,
    determinism: Determinism = Determinism.DETERMINISTIC,
    check: Any = None,
    lazy: Any = None,
    group: str = "",
    aliases: Sequence[str] = (),
    signatures: Sequence[str] = (),
) -> FunctionRule:
    """Return a row of the table. ``kernel``: a Python function over values, or made by ``bound`` or ``per_value``."""
    alternatives = [params] if isinstance(params, str) else list(params)
    made = kernel if kernel is None or getattr(kernel, "__name__", "") == "kernel" else None
    if made is None and kernel is not None:
        made = per_value(kernel, nulls, per_row=determinism is Determinism.NONE)
    return FunctionRule(
        name,
        tuple(signatures) or signatures_of(name, alternatives),
        infer(name, alternatives, returns, check, signatures),
        made,
        description,
        tuple(examples),
        lazy,
        nulls,
        determinism,
        raises,
        group,
        tuple(aliases),
    )
