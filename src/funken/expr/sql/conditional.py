"""Three-valued logic, and functions that decide which of their arguments they compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from funken.expr.ir import Call, Literal, Node
from funken.expr.rules import FunctionRule, Nulls
from funken.expr.sql.calls import cast, function, nullable_of, of_columns, refuse
from funken.expr.sql.operators import comparison_type, leading_type, merged_type
from funken.expr.sql.types import (
    BooleanType,
    LogicalType,
    NullType,
    arrow_type,
    is_text,
)
from funken.expr.sql.values import broadcast, is_scalar

BOOLEAN = BooleanType()


def _logic_inference(name: str) -> Any:
    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
        typed = [cast(each, BOOLEAN) if isinstance(each.type, NullType) else each for each in args]
        if not all(isinstance(each.type, BooleanType) for each in typed):
            raise refuse(name, args, (f"<BOOLEAN> {name} <BOOLEAN>",))
        return typed, BooleanType(is_nullable=nullable_of(typed))

    return inferred


def _logic(call: Call, evaluator: Any) -> Any:
    """Compute AND and OR from left to right; a part that may fail only for rows which the parts before it leave open."""
    import pyarrow.compute as pc

    both, decided = (pc.and_kleene, False) if call.function == "AND" else (pc.or_kleene, True)
    found = evaluator.value(call.args[0])
    for node in call.args[1:]:
        if not evaluator.waits(node):
            found = both(found, evaluator.value(node))
            continue
        wanted = pc.fill_null(pc.not_equal(found, decided), True)
        found = both(found, partial(node, wanted, evaluator))
    return found


def partial(node: Node, wanted: Any, evaluator: Any) -> Any:
    """Return a node's column computed for the rows of a mask only; the others are NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_scalar(wanted):
        if wanted.as_py():
            return evaluator.value(node)
        return pa.scalar(None, arrow_type(node.type))
    if pc.all(wanted).as_py() and evaluator.rows:
        return evaluator.value(node)
    if not pc.any(wanted).as_py():
        return pa.scalar(None, arrow_type(node.type))
    part = evaluator.under(wanted).column(node)
    places = pc.subtract(pc.cumulative_sum(wanted.cast("int64")), 1)
    return part.take(pc.if_else(wanted, places, None))


def _choose(condition: Any, one: Any, other: Any, type_: LogicalType, rows: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_scalar(condition):
        return one if condition.as_py() else other
    if not pa.types.is_nested(arrow_type(type_)):
        return pc.if_else(condition, one, other)
    both = pa.concat_arrays([broadcast(one, rows, type_), broadcast(other, rows, type_)])
    places = pa.array(range(rows), pa.int64())
    return both.take(pc.if_else(condition, places, pc.add(places, rows)))


def _case(call: Call, evaluator: Any) -> Any:
    """Compute the arms in order, each that may fail for the rows that come to it only."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arms = [(call.args[at], call.args[at + 1]) for at in range(0, len(call.args) - 1, 2)]
    default = call.args[-1]
    open_: Any = pa.scalar(True)
    taken: list[tuple[Any, Any]] = []
    for test, value in arms:
        condition = partial(test, open_, evaluator) if evaluator.waits(test) else evaluator.value(test)
        here = pc.and_(open_, pc.fill_null(condition.cast("bool"), False))
        taken.append((here, _arm(value, here, evaluator)))
        open_ = pc.and_(open_, pc.invert(here))
    found = _arm(default, open_, evaluator)
    for here, column in reversed(taken):
        found = _choose(here, column, found, call.type, evaluator.rows)
    return found


def _arm(node: Node, wanted: Any, evaluator: Any) -> Any:
    return partial(node, wanted, evaluator) if evaluator.waits(node) else evaluator.value(node)


def _of_common_type(name: str, args: Sequence[Node], values: Sequence[int]) -> tuple[list[Node], LogicalType]:
    type_ = (leading_type if name in {"CASE", "IF"} else merged_type)([args[at].type for at in values])
    if type_ is None:
        types = ", ".join(str(args[at].type) for at in values)
        raise refuse(name, args, (), f"Could not find a common type for arguments: {types}. Illegal mixing of types.")
    found = list(args)
    for at in values:
        found[at] = cast(args[at], type_)
    return found, type_


def _case_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    given = list(args)
    if len(given) % 2 == 0:
        given.append(Literal(None, type=NullType()))
    last = len(given) - 1
    for at in range(0, last, 2):
        if isinstance(given[at].type, NullType):
            given[at] = cast(given[at], BOOLEAN)
        if not isinstance(given[at].type, BooleanType):
            raise refuse("CASE", args, ("CASE WHEN <BOOLEAN> THEN <ANY> ... END",), "Expected a boolean type.")
    values = [*range(1, last, 2), last]
    return _of_common_type("CASE", given, values)


def _if_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    if len(args) != 3 or not isinstance(args[0].type, BooleanType | NullType):
        raise refuse("IF", args, ("IF(<BOOLEAN>, <COMMON>, <COMMON>)",))
    found, type_ = _of_common_type("IF", [cast(args[0], BOOLEAN), *args[1:]], [1, 2])
    return found, type_.nullable(nullable_of(found))


def _coalesce_inference(name: str) -> Any:
    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
        if not args or (name == "IFNULL" and len(args) != 2):
            raise refuse(name, args, (f"{name}(<COMMON>...)",))
        found, type_ = _of_common_type(name, args, range(len(args)))
        if name == "IFNULL" and is_text(type_) and not args[0].type.is_nullable:
            return args, args[0].type
        return found, type_.nullable(all(each.type.is_nullable for each in args))

    return inferred


def _coalesce(call: Call, evaluator: Any) -> Any:
    import pyarrow.compute as pc

    first, *others = call.args
    found = evaluator.value(first)
    for node in others:
        missing = pc.is_null(found)
        if is_scalar(found) and not missing.as_py():
            return found
        column = partial(node, missing, evaluator) if evaluator.waits(node) else evaluator.value(node)
        found = column if is_scalar(missing) else _choose(missing, column, found, call.type, evaluator.rows)
    return found


def _nullif_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    if len(args) != 2 or comparison_type([each.type for each in args]) is None:
        raise refuse("NULLIF", args, ("NULLIF(<COMPARABLE>, <COMPARABLE>)",))
    return args, args[0].type.nullable()


def _nullif(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow as pa

    equal = evaluator.context.functions.call("=", call.args)
    same = evaluator.value(equal)
    import pyarrow.compute as pc

    same = pc.fill_null(same.cast("bool"), False)
    return _choose(same, pa.scalar(None, arrow_type(call.type)), arguments[0], call.type, evaluator.rows)


def _not(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow.compute as pc

    return pc.invert(arguments[0].cast("bool"))


def _is_null(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow.compute as pc

    return (pc.is_null if call.function == "IS NULL" else pc.is_valid)(arguments[0])


def _is_truth(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow.compute as pc

    (column,) = arguments
    words = call.function.split()
    if words[-1] == "UNKNOWN":
        found = pc.is_null(column)
    else:
        found = pc.fill_null(pc.equal(column.cast("bool"), words[-1] == "TRUE"), False)
    return pc.invert(found) if words[1] == "NOT" else found


_OWN: dict[str, Any] = {"nulls": Nulls.CUSTOM, "group": "conditional"}
_LOGIC = _OWN | {"group": "logic"}
_LOGICAL: list[FunctionRule] = [
    FunctionRule(
        "AND",
        ("<BOOLEAN> AND <BOOLEAN>",),
        _logic_inference("AND"),
        None,
        "Whether both hold.",
        (("TRUE AND FALSE", "FALSE"),),
        _logic,
        **_LOGIC,
    ),
    FunctionRule(
        "OR",
        ("<BOOLEAN> OR <BOOLEAN>",),
        _logic_inference("OR"),
        None,
        "Whether one holds.",
        (("TRUE OR FALSE", "TRUE"),),
        _logic,
        **_LOGIC,
    ),
    FunctionRule(
        "NOT",
        ("NOT <BOOLEAN>",),
        _logic_inference("NOT"),
        _not,
        "The opposite; NULL stays.",
        (("NOT TRUE", "FALSE"),),
        **_LOGIC,
    ),
    function(
        "IS NULL",
        "any",
        "BOOLEAN!",
        of_columns(_is_null),
        "Whether the value is NULL.",
        ("1 IS NULL", "FALSE"),
        signatures=("<ANY> IS NULL",),
        **_LOGIC,
    ),
    function(
        "IS NOT NULL",
        "any",
        "BOOLEAN!",
        of_columns(_is_null),
        "Whether there is a value.",
        ("1 IS NOT NULL", "TRUE"),
        signatures=("<ANY> IS NOT NULL",),
        **_LOGIC,
    ),
]


def _truths() -> list[FunctionRule]:
    found = []
    for word in ("TRUE", "FALSE", "UNKNOWN"):
        for name in (f"IS {word}", f"IS NOT {word}"):
            example = (f"TRUE {name}", "TRUE" if (word == "TRUE") != ("NOT" in name) else "FALSE")
            rule = function(
                name,
                "bool",
                "BOOLEAN!",
                of_columns(_is_truth),
                f"Whether the condition {name.lower()}.",
                example,
                signatures=(f"<BOOLEAN> {name}",),
                **_LOGIC,
            )
            found.append(rule)
    return found


_CONDITIONALS: list[FunctionRule] = [
    FunctionRule(
        "CASE",
        ("CASE WHEN <BOOLEAN> THEN <COMMON> ... [ELSE <COMMON>] END",),
        _case_inference,
        None,
        "The value of the first condition that holds.",
        (("CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END", "b"),),
        _case,
        **_OWN,
    ),
    FunctionRule(
        "IF",
        ("IF(<BOOLEAN>, <COMMON>, <COMMON>)",),
        _if_inference,
        None,
        "The second argument if the first holds, else the third.",
        (("IF(5 > 3, 5, 3)", "5"),),
        _case,
        **_OWN,
    ),
    FunctionRule(
        "COALESCE",
        ("COALESCE(<COMMON>...)",),
        _coalesce_inference("COALESCE"),
        None,
        "The first argument that is not NULL.",
        (("COALESCE(NULLIF(1, 1), 5)", "5"),),
        _coalesce,
        **_OWN,
    ),
    FunctionRule(
        "IFNULL",
        ("IFNULL(<COMMON>, <COMMON>)",),
        _coalesce_inference("IFNULL"),
        None,
        "The first argument, or the second if it is NULL.",
        (("IFNULL(NULLIF(1, 1), 5)", "5"),),
        _coalesce,
        **_OWN,
    ),
    FunctionRule(
        "NULLIF",
        ("NULLIF(<COMPARABLE>, <COMPARABLE>)",),
        _nullif_inference,
        _nullif,
        "NULL if both are equal, else the first.",
        (("NULLIF(5, 5)", "NULL"),),
        **_OWN,
    ),
]

ROWS = [*_LOGICAL, *_truths(), *_CONDITIONALS]
